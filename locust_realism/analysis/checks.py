"""The twelve checks of the verdict: what each looks at, where it turns amber and red, and what it says.

A check is a function of the evidence and the bounds that returns a :class:`Finding`. Amber and red need an effect
beyond the bound and outside the sampling error; where the data could not show a red effect if there were one, the
status is "not enough data", never green.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from locust_realism.analysis.evidence import SHORT_GAP_SHARE, Evidence
from locust_realism.analysis.settings import VerdictBounds

GREEN, AMBER, RED, NO_DATA = "green", "amber", "red", "not enough data"
SEVERITY = {GREEN: 0, NO_DATA: 1, AMBER: 2, RED: 3}

HEAVY = "heavy workload"
THINK = "think time method used"
FEEDBACK = "closed loop feedback"

LONGEST_SHARE_POISSON = 0.0318
"""Share of the squared gaps in the longest thousandth of exponential gaps: (L^2 + 2 L + 2) / 2000, L = ln 1000."""
LONGEST_SHARE_SPREAD = 0.36
"""Its standard error is this over sqrt(n): simulated, for exponential gaps."""


@dataclass(frozen=True)
class Finding:
    """What one check found: its status, the value and its bound, what was seen, what it means and what to do."""

    status: str
    value: float | None
    bound: Any
    seen: str
    meaning: str = ""
    advice: str = ""

    @property
    def bad(self) -> bool:
        """Whether it is amber or red."""
        return self.status in (AMBER, RED)

    @property
    def explanation(self) -> str:
        """Seen, meaning and advice in one line; the last two only where something is wrong."""
        return " ".join(part for part in (self.seen, self.meaning, self.advice) if part) if self.bad else self.seen


def grade(effect: float, amber: float, red: float, error: float = 0.0) -> str:
    """Status of an effect (a distance from where it should be) that is known to within ``error``.

    ``error`` is the number of standard errors that count as chance, times the standard error.

    >>> grade(0.2, 0.05, 0.1), grade(0.07, 0.05, 0.1, 0.03), grade(0.07, 0.05, 0.1, 0.08), grade(0.01, 0.05, 0.1, 0.5)
    ('red', 'amber', 'green', 'not enough data')
    """
    if not math.isfinite(effect) or not math.isfinite(error):
        return NO_DATA
    if effect > amber and effect > error:
        return RED if effect > red else AMBER
    return GREEN if error <= red else NO_DATA


def too_few(n: int, needed: int, what: str) -> Finding:
    """Not enough data: how many there are, and how many it takes."""
    return Finding(NO_DATA, None, None, f"Only {n:,} {what}; it takes {needed:,}.")


def launch_cov(e: Evidence, b: VerdictBounds) -> Finding:
    """Check 1: CoV of the gaps against that of independent users."""
    g = e.gaps
    if g.n < b.min_gaps or not math.isfinite(g.cov):
        return too_few(g.n, b.min_gaps, "gaps between launches")
    low, high = reference_cov(e)
    effect = max(low - g.cov, g.cov - high, 0.0)
    status = grade(effect, b.cov_amber, b.cov_red, b.standard_errors * high / math.sqrt(g.n))
    how = {"planned": "after rescaling by the planned rate", "windowed": "within windows of nearly constant rate"}[
        g.kind
    ]
    seen = f"The CoV of the times between launches is {g.cov:.2f} {how} ({g.raw_cov:.2f} as recorded); "
    seen += f"independent users have {low:.2f}." if low == high else f"independent users have {low:.2f} to {high:.2f}."
    if status == NO_DATA:
        needed = math.ceil((b.standard_errors * high / b.cov_red) ** 2)
        seen = f"The CoV of {g.n:,} times between launches is {g.cov:.2f}; a verdict takes {needed:,} of them."
        return Finding(status, g.cov, [low - b.cov_amber, high + b.cov_amber], seen)
    if g.cov > high:
        meaning, advice = "Requests are launched in bunches.", "See which of the causes below makes them."
    else:
        meaning = f"Requests are launched too evenly ({THINK})."
        advice = "Draw think times from a distribution such as the exponential, or plan Poisson arrivals."
    return Finding(status, g.cov, [low - b.cov_amber, high + b.cov_amber], seen, meaning, advice)


def reference_cov(e: Evidence) -> tuple[float, float]:
    """CoV of independent users: 1, up to more for a varying population or several requests a task of unknown users."""
    # The number of users varies: sqrt(1 + 2 / n) where it stays as it is over many gaps, 1 where it hardly lasts one.
    high = 1.0
    if e.facts.model.poisson_arrivals and e.population > 0:
        high = math.sqrt(1 + 2 / e.population)
    if e.per_task > 1 and not e.users.users:
        high *= math.sqrt(2 * e.per_task - 1)
    return 1.0, high


def pause(e: Evidence, b: VerdictBounds) -> Finding:
    """Check 2: share of the squared gaps in the longest thousandth of the gaps."""
    g = e.gaps
    if g.n < b.min_gaps_shape:
        return too_few(g.n, b.min_gaps_shape, "gaps between launches")
    error = b.standard_errors * LONGEST_SHARE_SPREAD / math.sqrt(g.n)
    over = g.longest_share - LONGEST_SHARE_POISSON
    status = grade(over, b.pause_amber - LONGEST_SHARE_POISSON, b.pause_red - LONGEST_SHARE_POISSON, error)
    seen = (
        f"The longest gap is {g.longest_s:,.3g} s, at {g.longest_at_s:,.1f} s of the run; the longest 0.1 % of the "
        f"gaps hold {g.longest_share:.0%} of the squared gaps (3 % for independent users)."
    )
    meaning = "The CoV comes from single pauses of the whole test rather than from bunching."
    advice = "Look at what stopped at that time (generator, network or server) and analyse the run without it."
    return Finding(status, g.longest_share, b.pause_amber, seen, meaning, advice)


def short_gaps(e: Evidence, b: VerdictBounds) -> Finding:
    """Check 3: share of gaps shorter than a tenth of the mean, over that of independent users."""
    g = e.gaps
    if g.n < b.min_gaps:
        return too_few(g.n, b.min_gaps, "gaps between launches")
    error = b.standard_errors * math.sqrt((1 / SHORT_GAP_SHARE - 1) / g.n)
    if g.short_share >= 1:
        status = grade(g.short_share - 1, b.bunch_amber - 1, b.bunch_red - 1, error)
    else:
        status = AMBER if 1 - g.short_share > max(1 - b.bunch_low, error) else GREEN
    seen = (
        f"Gaps shorter than a tenth of their mean are {g.short_share:.2f} times as frequent as among independent users."
    )
    if g.short_share < 1:
        meaning = f"Launches keep a distance from each other ({THINK})."
        advice = "Draw think times from a distribution such as the exponential, or plan Poisson arrivals."
    else:
        meaning = f"Requests leave in batches; where the generator wakes users in batches this is {HEAVY}."
        advice = "Add workers, use fewer users a worker, and do not start users in groups."
    return Finding(status, g.short_share, [b.bunch_low, b.bunch_amber], seen, meaning, advice)


def generator(e: Evidence, b: VerdictBounds) -> Finding:
    """Check 4: lateness of launches, lag of the event loop and CPU; late and bunched together is red.

    Lag and CPU are the 95th percentiles over the seconds of the worst process (``recording.health``): one second in
    which the machine did something else is not the generator's habit.
    """
    lag_ms = e.facts.health.get("loop_lag_p99_ms")
    lag = float(lag_ms) / 1e3 if lag_ms is not None else math.nan
    cpu = e.facts.health.get("cpu_max")
    cpu = float(cpu) if cpu is not None else math.nan
    if not any(math.isfinite(value) for value in (e.lateness_p99_s, lag, cpu)):
        return Finding(NO_DATA, None, None, "Neither planned launches nor the generator's health were recorded.")
    late = e.lateness_p99_s if math.isfinite(e.lateness_p99_s) else 0.0
    graded = [
        grade(late, b.lateness_amber_s, b.lateness_red_s),
        grade(lag if math.isfinite(lag) else 0.0, b.loop_lag_amber_s, b.loop_lag_red_s),
        grade(cpu if math.isfinite(cpu) else 0.0, b.cpu_amber, b.cpu_red),
    ]
    status = max(graded, key=SEVERITY.__getitem__)
    # the figure that is shown is the one that decides
    known = [i for i, figure in enumerate((e.lateness_p99_s, lag, cpu)) if math.isfinite(figure)]
    worst = max(known, key=lambda i: SEVERITY[graded[i]])
    value, bound = (
        (late * 1e3, b.lateness_amber_s * 1e3),
        (lag * 1e3, b.loop_lag_amber_s * 1e3),
        (cpu, b.cpu_amber),
    )[worst]
    if status == AMBER and short_gaps(e, b).status == RED and e.gaps.short_share > 1:
        status = RED
    parts = []
    if math.isfinite(e.lateness_p99_s):
        parts.append(f"99 % of the launches were at most {e.lateness_p99_s * 1e3:,.1f} ms after their planned time")
    if math.isfinite(lag):
        parts.append(f"in 19 of 20 seconds the event loop woke 99 % of the users at most {lag * 1e3:,.1f} ms late")
    if math.isfinite(cpu):
        parts.append(f"the busiest process used {cpu:.0%} of a core")
    seen = "; ".join(parts)
    meaning = f"The generator cannot keep up: it delays launches and response times ({HEAVY})."
    advice = "Add workers, lower the load, or move work out of the tasks."
    return Finding(status, value, bound, seen[:1].upper() + seen[1:] + ".", meaning, advice)


def feedback(e: Evidence, b: VerdictBounds) -> Finding:
    """Check 5: R / (R + Z) of a closed workload."""
    share = e.users.response_share
    if not e.users.users:
        return Finding(NO_DATA, None, None, "The log does not say which user launched which request.")
    if not e.closed:
        return Finding(NO_DATA, None, None, "The workload is open: users do not wait for the server before they come.")
    if not math.isfinite(share):
        return Finding(NO_DATA, None, None, "The log does not say how long any user waited between two requests.")
    status = grade(share, b.feedback_amber, b.feedback_red)
    seen = f"Users spend {share:.1%} of their time waiting for answers (R / (R + Z))."
    meaning = f"The server paces its own users: when it slows down they ask less ({FEEDBACK})."
    advice = "Real users do not wait for each other: use more users with longer think times, or open arrivals."
    return Finding(status, share, b.feedback_amber, seen, meaning, advice)


Check = Callable[[Evidence, VerdictBounds], Finding]


def seconds(value: float) -> str:
    """A duration in words: ``0.05`` is ``50 ms``, ``12`` is ``12 s``."""
    return f"{value * 1e3:,.3g} ms" if value < 1 else f"{value:,.3g} s"
