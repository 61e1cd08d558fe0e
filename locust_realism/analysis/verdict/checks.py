"""Twelve checks of the verdict: a function each, and the table of them.

A check grades one kind of evidence. Amber and red need an effect beyond the bound and beyond the sampling error. Data
that could not show a red effect give "not enough data", never green.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from locust_realism.analysis import document as doc
from locust_realism.analysis.settings import VerdictBounds, generator_bounds, grade, grade_generator
from locust_realism.analysis.verdict import readings
from locust_realism.analysis.verdict.detrend import CYCLES
from locust_realism.analysis.verdict.dispersion import poisson_band
from locust_realism.analysis.verdict.evidence import SHORT_GAP_SHARE, Evidence, HalfFigure
from locust_realism.common.durations import write_duration

LONGEST_SHARE_POISSON = 0.0318
"""Share of the squared gaps in the longest thousandth of exponential gaps: (L^2 + 2 L + 2) / 2000, L = ln 1000."""
LONGEST_SHARE_SPREAD = 0.36
"""Standard error of that share times sqrt(n), simulated for exponential gaps."""
DISTANCE_ERRORS = 1.43
"""Distance from the exponential times sqrt(n) that 0.27 % of exponential samples with an estimated mean exceed."""
NOTABLE = 0.01
"""Correlation of the gaps of few users from which on the sentence has it."""
MIN_INDEPENDENT = 15
"""Fewest independent windows of a scale that is judged."""


@dataclass(frozen=True)
class Finding:
    """Result of one check: its status, the value and its bound, the observation and its meaning in words."""

    status: doc.Status
    value: float | None
    bound: float | list[float] | None
    seen: str
    meaning: str = ""

    @property
    def bad(self) -> bool:
        """True if the check is amber or red."""
        return self.status in (doc.AMBER, doc.RED)


CheckFunction = Callable[[Evidence, VerdictBounds], Finding]


def _no_data(reason: str) -> Finding:
    return Finding(doc.NO_DATA, None, None, reason)


def _too_few(n: int, needed: float, noun: str = "gaps between launches") -> Finding:
    return _no_data(f"Only {n:,} {noun}; it takes {math.ceil(needed):,}.")


_NO_USERS = "The log does not record which user launched which request."


def launch_cov(e: Evidence, b: VerdictBounds) -> Finding:
    """Check the CoV of the gaps against that of independent users."""
    g, high = e.gaps, largest_cov(e)
    if g.n < b.min_gaps or not math.isfinite(g.cov):
        return _too_few(g.n, b.min_gaps)
    status, bound = grade_cov(g.cov, g.n, e, b), [1 - b.cov_amber, high + b.cov_amber]
    if status == doc.NO_DATA:
        return _too_few(g.n, (b.standard_errors * high / b.cov_red) ** 2)
    how = "after rescaling by the planned rate" if g.kind == "planned" else "within windows of nearly constant rate"
    seen = (
        f"The CoV of the times between launches is {g.cov:.2f} {how} ({g.raw_cov:.2f} as recorded); independent users "
        f"have {_independent(high)}."
    )
    return Finding(status, g.cov, bound, seen, readings.BUNCHED if g.cov > high else readings.TOO_EVEN)


def largest_cov(e: Evidence) -> float:
    """Return the largest CoV of independent users that the workload allows; the smallest is 1.

    A number of users n that stays for many gaps gives sqrt(1 + 2 / n), one that hardly lasts a gap 1. k requests a task
    of unknown users give sqrt(2 k - 1).
    """
    high = 1.0
    if e.facts.model.poisson_arrivals and e.population > 0:
        high = math.sqrt(1 + 2 / e.population)
    if e.per_task > 1 and not e.users.users:
        high *= math.sqrt(2 * e.per_task - 1)
    return high


def _independent(high: float) -> str:
    return "1.00" if round(high, 2) == 1 else f"1.00 to {high:.2f}"


def grade_cov(cov: float, n: int, e: Evidence, b: VerdictBounds) -> doc.Status:
    """Return the status of the CoV of n gaps between launches."""
    high = largest_cov(e)
    error = b.standard_errors * high / math.sqrt(n) if n >= b.min_gaps else math.nan
    return grade(_off(cov, high), b.cov_amber, b.cov_red, error)


def _off(cov: float, high: float) -> float:
    """Return the distance of a CoV from the range 1 to ``high``."""
    return max(1 - cov, cov - high, 0.0)


def pause(e: Evidence, b: VerdictBounds) -> Finding:
    """Check the share of the squared gaps in the longest thousandth of the gaps."""
    g = e.gaps
    if g.n < b.min_gaps_shape:
        return _too_few(g.n, b.min_gaps_shape)
    error = b.standard_errors * LONGEST_SHARE_SPREAD / math.sqrt(g.n)
    over, amber, red = (share - LONGEST_SHARE_POISSON for share in (g.longest_share, b.pause_amber, b.pause_red))
    status = grade(over, amber, red, error)
    if status == doc.NO_DATA:
        return _too_few(g.n, (b.standard_errors * LONGEST_SHARE_SPREAD / red) ** 2)
    seen = (
        f"The longest gap is {g.longest_s:,.3g} s, at {g.longest_at_s:,.1f} s of the run; the longest 0.1 % of the "
        f"gaps hold {g.longest_share:.0%} of the squared gaps (3 % for independent users)."
    )
    return Finding(status, g.longest_share, b.pause_amber, seen, readings.PAUSES)


def short_gaps(e: Evidence, b: VerdictBounds) -> Finding:
    """Check the share of short gaps, over that of independent users."""
    g = e.gaps
    if g.n < b.min_gaps:
        return _too_few(g.n, b.min_gaps)
    short = "a tenth of their mean" if math.isnan(e.short_gap_s) else write_duration(e.short_gap_s)
    if not e.short_gap_measurable:
        return _no_data(
            f"Short gaps are not measurable: the generator launches to within {short}, and the mean gap is "
            f"{write_duration(1 / g.rate)}."
        )
    sd = math.sqrt(1 / short_gap_share(e) - 1)
    # No process launches two requests within the time that one takes it.
    low = b.bunch_low * (1 - e.launch_floor_s / e.short_gap_s if e.launch_floor_s > 0 else 1.0)
    error = b.standard_errors * sd / math.sqrt(g.n)
    if g.short_share >= 1:
        status = grade(g.short_share - 1, b.bunch_amber - 1, b.bunch_red - 1, error)
    elif low - g.short_share > max(error - (1 - low), 0.0):
        status = doc.AMBER
    else:
        status = doc.GREEN if error <= b.bunch_red - 1 else doc.NO_DATA
    if status == doc.NO_DATA:
        return _too_few(g.n, (b.standard_errors * sd / (b.bunch_red - 1)) ** 2)
    seen = f"Gaps shorter than {short} are {g.short_share:.2f} times as frequent as among independent users."
    bound = [low, b.bunch_amber]
    return Finding(status, g.short_share, bound, seen, readings.APART if g.short_share < 1 else readings.BATCHES)


def short_gap_share(e: Evidence) -> float:
    """Return the share of short gaps among independent users."""
    return SHORT_GAP_SHARE if math.isnan(e.short_gap_s) else -math.expm1(-e.short_gap_s * e.gaps.rate)


_GENERATOR_WORDS: dict[doc.GeneratorFigure, str] = {
    "lateness_p99_ms": "99 % of the launches were at most {:,.1f} ms after their planned time",
    "lag_p99_ms": "in 19 of 20 seconds the event loop woke 99 % of the users at most {:,.1f} ms late",
    "cpu": "the busiest process used {:.0%} of a core",
    "machine_cpu": "the machine was {:.0%} busy",
    "run_wait": "the process waited for a CPU {:.0%} of the time",
    "steal": "the hypervisor took {:.0%} of the machine's CPU time",
    "throttled": "a limit of the container stopped the process {:.0%} of the time",
    "stopped": "the process stood still {:.0%} of the time",
    "blocked": "code of the locustfile blocked the event loop {:.0%} of the time",
}
_ALWAYS_SEEN: tuple[doc.GeneratorFigure, ...] = ("lateness_p99_ms", "lag_p99_ms", "cpu")


def generator(e: Evidence, b: VerdictBounds) -> Finding:
    """Check the lateness of launches, the event loop and what the system measured; late and bunched together is red.

    Lag and CPU are the 95th percentiles over the seconds of the worst process (``recording.health``), so that one
    second of other work on the machine does not count; the shares are means. The worst figure is the value. Missed
    launches count as late.
    """
    health, blockers, bounds = e.facts.health, e.facts.blockers, generator_bounds(b)
    figures: dict[doc.GeneratorFigure, float | None] = {
        "lateness_p99_ms": 1e3 * e.lateness_p99_s,
        "lag_p99_ms": health.get("loop_lag_p99_ms"),
        "cpu": health.get("cpu_max"),
        "machine_cpu": health.get("machine_cpu"),
        "run_wait": health.get("run_wait"),
        "steal": health.get("steal"),
        "throttled": health.get("throttled"),
        "stopped": health.get("stopped"),
        "blocked": min(health.get("blocked", 1.0), sum(share for _, share in blockers)) if blockers else None,
    }
    known = [(figure, value) for figure, value in figures.items() if value is not None and math.isfinite(value)]
    if not known:
        return _no_data("Neither planned launches nor the generator's health were recorded.")
    graded = [(grade_generator(figure, value, bounds), figure, value) for figure, value in known]
    status, figure, value = max(graded, key=lambda found: doc.SEVERITY[found[0]])
    if status == doc.AMBER and short_gaps(e, b).status == doc.RED and e.gaps.short_share > 1:
        status = doc.RED
    seen = "; ".join(
        _GENERATOR_WORDS[each].format(value)
        for grade_, each, value in graded
        if each in _ALWAYS_SEEN or grade_ != doc.GREEN
    )
    if e.facts.missed_launches:
        seen += (
            f"; {e.facts.missed_launches:,} planned launches found no idle user within a second and count as 1 s late"
        )
    return Finding(status, value, bounds[figure][0], seen[:1].upper() + seen[1:] + ".", readings.OVERLOADED)


def feedback(e: Evidence, b: VerdictBounds) -> Finding:
    """Check R / (R + Z) of a closed workload, repetitions of failed requests, and stalls of the server."""
    share, again = e.users.response_share, e.retries
    retried = grade(again, b.retry_amber, b.retry_red)
    if retried in (doc.AMBER, doc.RED) and not (e.closed and share / b.feedback_amber > again / b.retry_amber):
        seen = f"Users repeat failed requests at once: {again:.1%} of the launches are such repetitions."
        return Finding(retried, again, b.retry_amber, seen, readings.RETRIED)
    if not e.users.users:
        return _no_data(_NO_USERS)
    if not e.closed:
        return _no_data("The workload is open: users do not wait for the server before they come.")
    if not math.isfinite(share):
        return _no_data("The log does not record how long any user waited between two requests.")
    seen = f"Users spend {share:.1%} of their time waiting for answers (R / (R + Z))."
    status, stalls = grade(share, b.feedback_amber, b.feedback_red), e.server_stalls
    if status == doc.GREEN and stalls and (stalled := stalls.mean_s / stalls.period_s) > b.stall_amber:
        seen += f" The server gives no answer {stalled:.0%} of the time, in {stalls.number:,} stalls."
        return Finding(doc.AMBER, stalled, b.stall_amber, seen, readings.STALLED)
    return Finding(status, share, b.feedback_amber, seen, readings.PACED)


def scales(e: Evidence, b: VerdictBounds) -> Finding:
    """Check the index of dispersion at every scale up to ten round trips, against the configured model's curve."""
    if e.gaps.n < b.min_gaps:
        # The chance limits need many launches: two of six that meet give a variance / mean of 1.4.
        return _too_few(e.gaps.n, b.min_gaps)
    cycle = e.users.round_trip
    longest = CYCLES * cycle if math.isfinite(cycle) and e.closed else math.inf
    rows = [r for r in e.dispersion if r["window_s"] <= longest and r["independent_windows"] >= MIN_INDEPENDENT]
    if not rows:
        return _no_data("The run is too short: no scale from 10 ms on has 20 independent windows.")
    graded = [(_dispersion_status(row, b), row) for row in rows]
    status, worst = max(graded, key=lambda pair: (doc.SEVERITY[pair[0]], abs(math.log(_ratio(pair[1])))))
    modelled = any(row["model"] != 1 for row in rows)
    below = worst["idc"] < worst["model"]
    if status == doc.RED and below and not modelled and e.closed:
        # Every fixed pool of users is more even than Poisson at long scales.
        status = doc.AMBER
    reference = f"{worst['model']:.2f} as configured" if modelled else "1 for independent users"
    window = write_duration(worst["window_s"])
    seen = f"Counts in windows of {window} have variance / mean {worst['idc']:.2f} ({reference})."
    meaning = readings.EVEN_SCALE if below else readings.WAVES
    return Finding(status, _ratio(worst), [1 - b.dispersion_amber, 1 + b.dispersion_amber], seen, meaning)


def _ratio(row: doc.DispersionRow) -> float:
    return max(row["idc"], 1e-9) / max(row["model"], 1e-9)


def _dispersion_status(row: doc.DispersionRow, b: VerdictBounds) -> doc.Status:
    ratio = _ratio(row)
    # Half a standard error more, since the worst of about ten scales decides.
    low, high = poisson_band(row["independent_windows"], b.standard_errors + 0.5)
    if low <= ratio <= high or abs(ratio - 1) <= b.dispersion_amber:
        return doc.GREEN
    return doc.RED if abs(ratio - 1) > b.dispersion_red else doc.AMBER


def group_size(e: Evidence, b: VerdictBounds) -> Finding:
    """Check the number of users from which the CoV of their launches together stays near 1."""
    rows = [
        (row["users"], row["n"], cov)
        for row in e.groups
        if row["n"] >= 2 and (cov := row["cov"]) is not None and math.isfinite(cov)
    ]
    if e.planned:
        return _no_data("Arrivals or a plan decide on the launches, not a fixed pool of users.")
    if not e.users.users:
        return _no_data(_NO_USERS)
    if e.users.users == 1:
        return _no_data("One user has no groups.")
    if not rows or rows[-1][1] < b.min_gaps:
        return _too_few(rows[-1][1] if rows else 0, b.min_gaps)
    if len(rows) < 2:
        return _no_data("No smaller group of users launched enough requests.")
    high = largest_cov(e)
    tolerances = [max(b.group_cov, b.standard_errors * high / math.sqrt(n)) for _, n, _ in rows]
    fits = [_off(cov, high) <= tolerance for (_, _, cov), tolerance in zip(rows, tolerances, strict=True)]
    at = len(rows)
    while at and fits[at - 1]:
        at -= 1
    users, _, all_users_cov = rows[-1]
    bound = max(1.0, b.group_share_amber * users)
    if at == len(rows):
        seen = (
            f"The CoV of the launches of all {users:,} users together is {all_users_cov:.2f}, off {_independent(high)} "
            f"by more than {tolerances[-1]:.2f}."
        )
        status: doc.Status = doc.RED if _off(all_users_cov, high) > b.cov_red else doc.AMBER
        return Finding(status, None, bound, seen, readings.FEW_USERS)
    size = rows[at][0]
    shown = at or len(rows) - 1
    seen = (
        f"The CoV of the launches of {rows[shown][0]:,} of {users:,} users together is {rows[shown][2]:.2f}, within "
        f"{_independent(high)} +- {tolerances[shown]:.2f}; "
    )
    if at:
        seen += "that of the next smaller group is not. "
        seen += f"At most {b.group_share_amber:.0%} of the users ({int(bound):,}) may be needed."
    else:
        seen += "that of each smaller group is within its own tolerance."
    return Finding(doc.GREEN if size <= bound else doc.AMBER, float(size), bound, seen, readings.FEW_USERS)


def think_time(e: Evidence, b: VerdictBounds) -> Finding:
    """Check the think time against its target, and the CoV of one user's round trips."""
    u, target = e.users, e.facts.model.think_time_s
    if not e.closed or not math.isfinite(u.think_mean):
        return _no_data("Think times are known in a fixed pool of users only.")
    seen = f"The mean think time is {write_duration(u.think_mean)}"
    status: doc.Status = doc.GREEN if math.isfinite(u.user_cov) else doc.NO_DATA
    value, bound, reading = u.user_cov, b.user_cov_amber, readings.OFF_TARGET
    if target:
        miss, error = u.think_mean / target - 1, b.standard_errors * u.think_se / target
        value, bound = abs(miss), b.think_mean_amber
        status = grade(value, b.think_mean_amber, b.think_mean_red, error)
        seen += f", {miss:+.1%} from its target of {write_duration(target)}"
        if status == doc.NO_DATA:
            seen += f" and known to within {error:.1%} only"
    if math.isfinite(u.user_cov):
        seen += f"; the times between one user's tasks have a CoV of {u.user_cov:.2f}"
        if u.user_cov < b.user_cov_amber and status not in (doc.AMBER, doc.RED):
            status, value, bound, reading = doc.AMBER, u.user_cov, b.user_cov_amber, readings.CLOCKWORK
    if status == doc.NO_DATA:
        return _no_data(seen + ".")
    return Finding(status, value, bound, seen + ".", reading)


def dependence(e: Evidence, b: VerdictBounds) -> Finding:
    """Check the correlation of neighbouring gaps, the distance from the exponential and the clock's resolution."""
    g = e.gaps
    if g.n < b.min_gaps or not g.correlations:
        return _too_few(g.n, b.min_gaps)
    lag1, chance = g.correlations[0], 1 / math.sqrt(g.n)
    ticks = g.rate * e.tick_us / 1e6 if e.tick_us > 1 else 0.0
    beyond = lag1 - e.few_correlation
    by_lag = grade(abs(beyond), b.correlation_amber, b.correlation_red, b.standard_errors * chance)
    by_distance = by_lag
    if e.short_gap_measurable:
        error = DISTANCE_ERRORS / math.sqrt(g.tail_n or g.n)
        by_distance = grade(g.distance - e.few_distance, b.distance_amber, b.distance_red, error)
    by_clock: doc.Status = doc.AMBER if ticks > b.clock_tick_amber else doc.GREEN
    status: doc.Status = max((by_lag, by_distance, by_clock), key=doc.SEVERITY.__getitem__)
    if status == doc.NO_DATA:
        return _too_few(g.n, max(b.standard_errors / b.correlation_red, DISTANCE_ERRORS / b.distance_red) ** 2)
    seen = f"Neighbouring gaps have a correlation of {lag1:+.3f}; the distribution of the gaps is "
    seen += (
        f"at a distance of {g.distance:.3f} from the exponential."
        if e.short_gap_measurable
        else f"not measurable, since the generator launches to within {write_duration(e.short_gap_s)}."
    )
    if abs(e.few_correlation) >= NOTABLE:
        seen += f" So few users as these alone have {e.few_correlation:+.3f} and {e.few_distance:.3f}."
    if by_clock == doc.AMBER and by_clock == status:
        seen += f" The clock has ticks of {write_duration(e.tick_us / 1e6)}, {ticks:.2f} of the mean gap."
        return Finding(status, ticks, b.clock_tick_amber, seen, readings.COARSE_CLOCK)
    if doc.SEVERITY[by_distance] > doc.SEVERITY[by_lag]:
        return Finding(status, g.distance - e.few_distance, b.distance_amber, seen, readings.DEPENDENT)
    return Finding(status, beyond, b.correlation_amber, seen, readings.DEPENDENT)


def population(e: Evidence, b: VerdictBounds) -> Finding:
    """Check the CoV of the times between starts of users."""
    if not e.facts.model.poisson_arrivals:
        return _no_data("No arrivals of users were planned.")
    if e.starts < b.starts_min:
        return _no_data(f"Only {e.starts:,} users started; it takes {b.starts_min:,}.")
    status = grade(abs(e.starts_cov - 1), b.cov_amber, b.cov_red, b.standard_errors / math.sqrt(e.starts))
    if status == doc.NO_DATA:
        # 400 starts suffice by definition: an effect that chance explains is green.
        status = doc.GREEN
    seen = f"The CoV of the times between {e.starts:,} starts of users is {e.starts_cov:.2f}; independent ones have 1."
    return Finding(status, e.starts_cov, [1 - b.cov_amber, 1 + b.cov_amber], seen, readings.OTHER_ARRIVALS)


_HALVES: dict[HalfFigure, str] = {
    "p50": "median response time", "p95": "p95 of the response times", "rate": "launch rate",
}  # fmt: skip


def steadiness(e: Evidence, b: VerdictBounds) -> Finding:
    """Check the halves of the run against each other, and the warm-up that MSER-5 finds."""
    unknown = _no_data("Too few requests to compare the two halves of the run.")
    if not e.steady["enough"]:
        return unknown
    graded: list[tuple[doc.Status, float, float, str]] = []
    for key, figure in _HALVES.items():
        change, error, segments = e.change(key)
        # Student's t for the standard error from few segments, by the first term of its expansion.
        k = b.standard_errors + (b.standard_errors**3 + b.standard_errors) / (4 * (2 * segments - 2))
        if math.isfinite(change):
            small = e.difference_ms(key) < b.min_difference_ms
            status = doc.GREEN if small else grade(abs(change), b.half_amber, b.half_red, k * error)
            graded.append((status, change, k * error, figure))
    if not graded:
        return unknown
    status, change, chance, figure = max(graded, key=lambda found: (doc.SEVERITY[found[0]], abs(found[1])))
    share = e.steady["mser5_share"] or 0.0
    mean, error, _ = e.change("mean")
    matters = not e.difference_ms("mean") < b.min_difference_ms
    drifts = matters and abs(mean) > max(b.half_amber, b.standard_errors * error)
    # The cut of MSER-5 ends at half of the run.
    late = round(share, 2) >= b.mser_share_amber
    if status == doc.GREEN and late and drifts:
        status, change, figure = doc.AMBER, mean, "mean response time"
    seen = f"The {figure} of the second half differs by {change:+.1%} from that of the first"
    warm_up = f"; by MSER-5 the first {share:.0%} are warm-up." if late else "."
    if status == doc.NO_DATA:
        return _no_data(f"{seen}, where chance alone explains {chance:.0%}{warm_up}")
    reading = readings.DRIFTING if figure == _HALVES["rate"] else readings.UNSTEADY
    return Finding(status, abs(change), b.half_amber, seen + warm_up, reading)


def clocks(e: Evidence, b: VerdictBounds) -> Finding:
    """Check the agreement of the workers' clocks against the gaps between launches of different workers.

    Offsets do not matter to streams of independent launches; they hide bunches.
    """
    if len(e.workers) < 2:
        return Finding(doc.GREEN, 0.0, b.offset_amber, "All launches were timed by one clock.")
    sd = e.facts.clock_offset_sd_us
    if sd is None:
        return _no_data(f"The offsets between the clocks of {len(e.workers)} workers are not known.")
    mean_us = 1e6 / e.gaps.rate if e.gaps.rate > 0 else math.nan
    shortest = min([mean_us, *(row["bunch_ms"] * 1e3 for row in e.workers if row["bunch_ms"])])
    if not math.isfinite(shortest) or shortest <= 0:
        return _too_few(e.gaps.n, b.min_gaps)
    share = sd / shortest
    alone = [abs(row["cov"] - 1) for row in e.workers if row["cov"] is not None and row["n"] >= b.min_gaps]
    status: doc.Status = doc.AMBER if share > b.offset_amber else doc.GREEN
    if share > b.offset_red and max(alone, default=0.0) > b.cov_red:
        status = doc.RED
    known, structure = write_duration(sd / 1e6), write_duration(shortest / 1e6)
    what = "mean gap" if shortest == mean_us else "length of the bunches"
    seen = f"The clock offsets have a standard deviation of {known}; the {what} is {structure}."
    return Finding(status, share, b.offset_amber, seen, readings.UNCERTIFIED)


CHECKS: tuple[tuple[int, str, CheckFunction], ...] = (
    (1, "CoV of inter-launch times", launch_cov),
    (2, "Longest inter-launch times", pause),
    (3, "Short inter-launch times", short_gaps),
    (4, "Lateness of the generator", generator),
    (5, "Closed-loop feedback R/(R+Z)", feedback),
    (6, "Index of dispersion", scales),
    (7, "CoV by number of users", group_size),
    (8, "Think time", think_time),
    (9, "Independence of inter-launch times", dependence),
    (10, "Inter-arrival times of users", population),
    (11, "Steady state", steadiness),
    (12, "Clock offsets", clocks),
)
"""Number, name and function of each check."""
