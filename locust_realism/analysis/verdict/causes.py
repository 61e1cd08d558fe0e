"""Table of causes with their evidence and remedy, in order of precedence.

Every view shows its sentences. A cause belongs to amber or red checks; figures of the generator's health decide between
causes that leave the same pattern. A remedy never contradicts a figure: each condition is that of its own figure.
docs/verdict.md has the table in words.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from locust_realism.analysis.document import AMBER, NO_DATA, RED, SEVERITY, DispersionRow, Status
from locust_realism.analysis.document import Cause as CauseRow
from locust_realism.analysis.settings import VerdictBounds
from locust_realism.analysis.verdict import readings
from locust_realism.analysis.verdict.checks import Finding, largest_cov, short_gap_share
from locust_realism.analysis.verdict.dispersion import Stalls
from locust_realism.analysis.verdict.evidence import Evidence
from locust_realism.analysis.verdict.readings import FEEDBACK, HEAVY, THINK
from locust_realism.common.durations import write_duration
from locust_realism.recording.diagnosis import MAX_PAUSES, PAUSE_S

Findings = Mapping[int, Finding]

MEASURED: dict[str, str] = {
    "run_wait": "the process's wait for a CPU (schedstat)",
    "steal": "the hypervisor's share (steal)",
    "throttled": "the container's limit (cgroup)",
    "pressure": "the machine's CPU pressure (PSI)",
    "blocked": "code that blocks the event loop",
    "stopped": "stops of the process",
}
"""Figures of the generator's health that a system may lack, in words."""
REPEATED = 3
"""Fewest pauses that are no single ones."""
NAMED = 3
"""Most places in code, and most programs, that a sentence names."""
CONSTANT = 0.1
"""CoV of one user's round trips below which the think times are constant, whatever else delays the users."""
FLAT = 0.3
"""Excess of the index of dispersion over that at ten times the window: 0.1 for a smooth rate, 1 for short bunches."""
SMOOTH = 1.5
"""Index of dispersion at the shortest scale, over the model's, below which a rate varies smoothly."""
PROMPT_MS = 5.0
"""Lag of the event loop in milliseconds, or a mean gap if longer, below which it was on time."""
RARE_LAG = 0.5
"""Late wake-ups of the event loop, over the surplus of short gaps, below which the surplus is not their work."""
SPACED = 0.3
"""Time of a launch in mean gaps from which it makes the gaps too even: their CoV falls to sqrt(1 - .3^2) = .954.

Source: K. T. Marshall, Some inequalities in queuing, Operations Research 16, 1968, departures of the queue M/D/1.
"""
WAVE_TRIPS = 3
"""Round trips in a period from which on the rate varies, and not the users' steps."""


@dataclass(frozen=True)
class Case:
    """One run: its evidence, its findings by number and the bounds."""

    e: Evidence
    f: Findings
    b: VerdictBounds

    def health(self, figure: str) -> float:
        """Return a figure of the generator's health, NaN where it is unknown."""
        return self.e.facts.health.get(figure, math.nan)

    def over(self, figure: str) -> bool:
        """Return True if a figure is large enough to be a cause."""
        return self.health(figure) >= float(getattr(self.b, f"{figure}_cause"))

    @property
    def bunched(self) -> bool:
        """True if launches come in bunches, late or in waves."""
        f = self.f
        if f[4].bad or self.too_even:
            return f[4].bad
        high = f[1].bad and self.e.gaps.cov > largest_cov(self.e)
        dependent = f[9].bad and f[9].meaning is not readings.COARSE_CLOCK
        return high or self.short or f[2].bad or self.waves or dependent

    @property
    def short(self) -> bool:
        """True if short gaps are too frequent."""
        return self.f[3].bad and self.e.gaps.short_share > 1

    @property
    def waves(self) -> bool:
        """True if the counts vary more than those of independent users at some scale."""
        return self.f[6].bad and (self.f[6].value or 0.0) > 1

    @property
    def too_even(self) -> bool:
        """True if the CoV is too low."""
        return self.f[1].bad and self.e.gaps.cov < 1

    @property
    def beyond_generator(self) -> set[int]:
        """Checks that no delay of the generator explains: launches too even, and answers slower than its event loop."""
        u = self.e.users
        answer_ms, lag_ms = 1e3 * u.response_share * u.round_trip, self.health("loop_lag_p99_ms")
        found = {5} if answer_ms > lag_ms else set()
        if self.too_even and not _spaced(self):
            found |= {1, 7, 8, 9} | (set() if self.short else {3}) | (set() if self.waves else {6})
        return found

    @property
    def beyond_users(self) -> set[int]:
        """Checks that the number of users does not explain: gaps of worse dependence than its own checks."""
        own = self.f[7].status == RED or (self.too_even and self.f[1].status == RED)
        return {9} if self.f[9].status == RED and not own else set()

    @property
    def busy(self) -> bool:
        """True if a process of the generator uses its core, or the part that it gets."""
        return self.health("cpu_max") >= self.b.cpu_amber

    @property
    def crowded(self) -> bool:
        """True if the machine is full, or the process waits for a CPU."""
        return self.over("run_wait") or self.health("machine_cpu") >= self.b.machine_cause

    @property
    def own_share(self) -> bool:
        """True if the generator's processes use more of the machine than all others together."""
        others = sum(cores for _, cores in self.e.facts.others)
        return self.own_cores > max(others, 0.5)

    @property
    def own_cores(self) -> float:
        """Cores that the generator's processes use on the machine of ``others``, or in all where that is unknown."""
        own = self.e.facts.own_cores
        return self.health("generator_cpu") if math.isnan(own) else own

    @property
    def undisturbed(self) -> bool:
        """True if the lag of the event loop is green and no figure of the system is a cause."""
        return self.health("loop_lag_p99_ms") < 1e3 * self.b.loop_lag_amber_s and not self.disturbed

    @property
    def prompt(self) -> bool:
        """True if the event loop woke its users on time in almost all seconds."""
        return self.undisturbed and self.health("loop_lag_p99_ms") < max(PROMPT_MS, 1e3 / self.e.gaps.rate)

    @property
    def late(self) -> float:
        """Share of the time in which the event loop was late, at most; NaN if it is unknown."""
        return self.health("blocked") + sum(filter(math.isfinite, map(self.health, ("run_wait", *_STOLEN))))

    @property
    def by_users(self) -> bool:
        """True if the event loop was late by too little, or too rarely, to make the bunches."""
        surplus = (self.e.gaps.short_share - 1) * short_gap_share(self.e)
        return self.prompt or (self.undisturbed and self.late < RARE_LAG * surplus)

    @property
    def disturbed(self) -> bool:
        """True if a figure of the system is large enough to be a cause."""
        return self.busy or self.crowded or any(map(self.over, (*_STOLEN, "blocked")))


_STOLEN = ("throttled", "steal", "stopped")


@dataclass(frozen=True)
class Cause:
    """Root cause: its name and distortion, its condition, and its evidence and remedy in words.

    ``shown_by`` are the checks that may show it, the first bad one is its own; ``explains`` those that follow from it.
    """

    name: str
    distortion: str | None
    shown_by: Sequence[int]
    explains: Sequence[int]
    applies: Callable[[Case], bool]
    evidence: Callable[[Case], str]
    remedy: Callable[[Case], str]


def _lower(case: Case) -> str:
    if not case.e.facts.health:
        return _RECORD
    return "Lower the load, and look at what delays the processes: no measured share of their time explains it."


def _text(text: str) -> Callable[[Case], str]:
    return lambda case: text


def _observed(*numbers: int) -> Callable[[Case], str]:
    """Return the observations of those of the checks that are bad."""
    return lambda case: " ".join(case.f[number].seen for number in numbers if case.f[number].bad)


def _share(value: float) -> str:
    return f"{value:.0%}" if value >= 0.1 else f"{value:.1%}"


def _list(rows: Sequence[tuple[str, float]], unit: Callable[[float], str]) -> str:
    return ", ".join(f"{name} {unit(value)}" for name, value in rows[:NAMED])


def _cores(value: float) -> str:
    return f"{value:.1f}" if value >= 0.1 else f"{value:.2f}"


def _own_cpu(case: Case) -> str:
    cpu = case.health("cpu_max")
    return "" if math.isnan(cpu) else f" The busiest process of the generator used {_share(cpu)} of a core."


def _lag(case: Case) -> str:
    lag = case.health("loop_lag_p99_ms")
    if math.isnan(lag):
        return ""
    return f" In 19 of 20 seconds the event loop woke 99 % of the users at most {lag:,.1f} ms late."


def _longest_stall(case: Case) -> str:
    if not case.e.facts.pauses:
        return ""
    start, length = max(case.e.facts.pauses, key=lambda pause: pause[1])
    return f" The longest stall of the event loop lasted {write_duration(length)}, at {start:,.1f} s of the run."


def _single_pause(case: Case) -> bool:
    g = case.e.gaps
    if g.n < 2 or (case.e.stalls is not None and case.e.stalls.number >= REPEATED):
        return False
    # A pause of m mean gaps adds m^2 / n to the squared CoV, and about as much to the index of dispersion.
    paused = g.longest_s * g.rate
    if case.waves and (case.f[6].value or 0.0) > 1.5 + 3 * paused**2 / g.n:
        return False
    # Launches that were due in the pause leave together after it.
    burst = min(paused / g.n, 0.5)
    if case.short and g.short_share > case.b.bunch_amber + burst / short_gap_share(case.e):
        return False
    # Root mean square of the longest thousandth in mean gaps: about ln(1000) + 1 for exponential gaps.
    longest = math.sqrt(g.longest_share * g.n * (1 + g.cov**2) / math.ceil(g.n / 1000))
    # Without that thousandth an exponential sample has a CoV of 0.965, one with bunches far more.
    sound = g.cov_without_longest < 0.1 + math.sqrt((1 + burst) / (1 - burst))
    return sound and (case.f[2].bad or longest > math.log(min(g.n, 1000)) + 7)


def _loop_stood(case: Case, stalls: Stalls | None = None) -> bool | None:
    """Return True if the event loop stood still in most of the longest gap, False if it was on time, None if unknown.

    The times of ``stalls`` are not known: half as many listed pauses must be about as long, besides.
    """
    g, pauses = case.e.gaps, case.e.facts.pauses
    length_s, end = g.longest_s if stalls is None else stalls.mean_s, g.longest_at_s + g.longest_s
    overlap_s = sum(max(min(start + length, end) - max(start, g.longest_at_s), 0.0) for start, length in pauses)
    alike = 0 if stalls is None else sum(length >= length_s / 2 for _, length in pauses)
    if overlap_s > g.longest_s / 2 and (stalls is None or 2 * alike >= min(stalls.number, MAX_PAUSES)):
        return True
    # Shorter pauses are not listed.
    least_s = min(length for _, length in pauses) if len(pauses) >= MAX_PAUSES else PAUSE_S
    return False if length_s > least_s and case.prompt and not overlap_s and not alike else None


def _loop(case: Case, stalls: Stalls | None = None) -> str:
    """Return a sentence on the event loop in the pauses of the launches, empty if unknown."""
    facts, stood = case.e.facts, _loop_stood(case, stalls)
    if not stood:
        return "" if stood is None else " The event loop was on time."
    text = f" The event loop of the generator stood still at {'that time' if stalls is None else 'these times'}."
    stood_s = case.e.gaps.longest_s if stalls is None else stalls.number * stalls.mean_s
    blocked_s = sum(share for _, share in facts.blockers) * case.e.gaps.n / case.e.gaps.rate
    if blocked_s >= stood_s / 2:
        return text + f" Code that blocked it: {_list(facts.blockers, _share)} of the run."
    return text + (f" Other programs ran: {_list(facts.others, _cores)} cores." if facts.others else "")


def _find_stop(case: Case, when: str, stalls: Stalls | None = None) -> str:
    stood = _loop_stood(case, stalls)
    if stood:
        return f"Look at what stopped the generator {when}."
    others = "the network, the server, or all users at once"
    return f"Look at what stopped {when}: {others if stood is False else f'the generator, {others}'}."


def _during_pause(case: Case) -> str:
    g = case.e.gaps
    text = f"The longest gap lasts {write_duration(g.longest_s)}, at {g.longest_at_s:,.1f} s of the run. "
    return f"{text}Without the longest gaps the CoV is {g.cov_without_longest:.2f}.{_loop(case)}"


def _own_code(case: Case) -> bool:
    # Locust's own work makes a full process late, too: only a place in a user's code blocks.
    return case.bunched and sum(share for _, share in case.e.facts.blockers) >= case.b.blocked_cause


def _blockers(case: Case) -> str:
    share = case.health("blocked")
    text = "" if math.isnan(share) else f"Code on the event loop made {_share(share)} of its wake-ups late. "
    return f"{text}Share of the time: {_list(case.e.facts.blockers, _share)}.{_own_cpu(case)}"


def _spaced(case: Case) -> bool:
    g, rho = case.e.gaps, case.e.launch_floor_s * case.e.gaps.rate
    if not rho > SPACED or not g.cov < 1 or not (case.f[1].bad or case.f[9].bad):
        return False
    # One server with constant times, fed at random, has departures of this CoV.
    return g.cov > math.sqrt(max(1 - rho**2, 0.0)) - case.b.standard_errors / math.sqrt(g.n)


def _spacing(case: Case) -> str:
    floor_s = case.e.launch_floor_s
    text = (
        f"The generator needs {write_duration(floor_s)} for a launch, {floor_s * case.e.gaps.rate:.0%} of the mean gap"
    )
    return f"{text}: launches that are due together leave that far apart.{_own_cpu(case)}"


def _own_work(case: Case) -> str:
    late, places = _share(case.health("blocked")), case.e.facts.blockers
    code = (
        f"Places in the code make little of it ({_list(places, _share)})" if places else "No code of the tasks did it"
    )
    return f"The event loop was late in {late} of its wake-ups. {code}: it is Locust's own work.{_own_cpu(case)}"


def _others(case: Case) -> str:
    facts, wait, machine = case.e.facts, case.health("run_wait"), case.health("machine_cpu")
    parts = []
    if facts.others:
        parts.append(
            f"Other programs used {_cores(sum(c for _, c in facts.others))} cores ({_list(facts.others, _cores)})."
        )
    if not math.isnan(machine):
        parts.append(f"The machine was {_share(machine)} busy.")
    if not math.isnan(wait):
        parts.append(f"The process waited for a CPU {_share(wait)} of the time.")
    return " ".join(parts) + _own_cpu(case)


def _crowd(case: Case) -> str:
    return f"The generator's own processes used {_cores(case.own_cores)} cores. " + _others(case)


def _move(case: Case) -> str:
    others = case.e.facts.others
    return f"Move {others[0][0] if others else 'the other programs'} to another machine, or the generator."


def _add_workers(case: Case) -> str:
    where = " on another machine, since this one is full" if case.crowded else " (--processes)"
    return f"Add workers{where}, or do less work in the tasks."


def _too_few_for_plan(case: Case) -> bool:
    e, lag_ms = case.e, case.health("loop_lag_p99_ms")
    late_ms, median_ms, missed = 1e3 * e.lateness_p99_s, 1e3 * e.lateness_p50_s, e.facts.missed_launches > 0
    if not late_ms >= 1e3 * case.b.lateness_amber_s:
        return False
    if math.isnan(lag_ms):
        return missed and not case.busy
    # Idle users would have launched as soon as the event loop woke them.
    some = missed and lag_ms < 1e3 * case.b.loop_lag_amber_s
    most = median_ms > 5 + 3 * lag_ms and not case.busy
    return late_ms > 5 + 2 * lag_ms and (some or most)


def _late_launches(case: Case) -> str:
    missed = case.e.facts.missed_launches
    late = write_duration(case.e.lateness_p99_s)
    text = f"The latest 1 % of the launches left at least {late} after their planned time."
    if missed:
        text = f"{missed:,} planned launches found no idle user within a second and never left. "
        text += f"With these as 1 s late, 1 % of the planned launches are at least {late} late."
    return text + _lag(case) + _own_cpu(case)


def _more_users(case: Case) -> str:
    u = case.e.users
    waiting = case.e.gaps.rate * u.response_share * u.round_trip
    text = "Start more users: each planned launch needs an idle one."
    return text + (f" On average {waiting:,.1f} of {u.users:,} users wait for an answer." if waiting > 0 else "")


def _rhythm(stalls: Stalls) -> str:
    every = f"about every {write_duration(stalls.period_s)}" if stalls.regular else "at irregular intervals"
    return f"for {write_duration(stalls.mean_s)} on average, {stalls.number:,} times, {every}"


def _when(stalls: Stalls) -> str:
    return "at this rhythm" if stalls.regular else "at these times"


def _stalls(case: Case) -> str:
    assert case.e.stalls is not None
    return f"All launches stopped {_rhythm(case.e.stalls)}.{_loop(case, case.e.stalls)}"


def _find_stops(case: Case) -> str:
    assert case.e.stalls is not None
    return _find_stop(case, _when(case.e.stalls), case.e.stalls)


def _repeated_pauses(case: Case) -> bool:
    # Users with constant think times pause together, too: those are the cause then.
    regular = case.e.users.user_cov < case.b.user_cov_amber
    return case.e.stalls is not None and case.e.stalls.number >= REPEATED and not regular


def _server_stalls(case: Case) -> str:
    assert case.e.server_stalls is not None
    rhythm = _rhythm(case.e.server_stalls)
    return f"The server gave no answer {rhythm}, while requests went on leaving; then all answers came together."


def _find_server_stop(case: Case) -> str:
    assert case.e.server_stalls is not None
    when = _when(case.e.server_stalls)
    text = f"Find what stops the server {when}, such as garbage collection, a checkpoint or a lock."
    return f"{text} Closed users wait meanwhile: open arrivals show the whole queue."


def _in_step(case: Case) -> bool:
    bunches = (case.f[1].bad and case.e.gaps.cov > 1) or case.short
    return case.e.users.user_cov < case.b.user_cov_amber and (bunches or case.waves)


def _period(case: Case) -> str:
    period = case.e.period_s
    return "" if math.isnan(period) else f" The launches repeat with a period of {write_duration(period)}."


def _with_period(*numbers: int) -> Callable[[Case], str]:
    return lambda case: _observed(*numbers)(case) + _period(case)


def _made_by_users(case: Case) -> str:
    rare = "" if case.prompt else f" It was late {_share(case.late)} of the time: too rarely to make the bunches."
    return _observed(1, 3, 6)(case) + _lag(case) + rare + _period(case)


def _rate_varies(case: Case) -> bool:
    if not case.e.dispersion:
        return False
    trip = case.e.users.round_trip
    slow = case.e.period_s > WAVE_TRIPS * (trip if trip > 0 else 0.0)
    regular = case.e.stalls is not None and case.e.stalls.regular
    return slow and case.waves and (not case.short or _smooth(case.e.dispersion)) and not regular


def _smooth(rows: Sequence[DispersionRow]) -> bool:
    """Return True if the counts' excess variation grows with the window: users who act together bunch at short ones."""
    shortest = rows[0]
    longer = next((row for row in rows if row["window_s"] >= 10 * shortest["window_s"]), rows[-1])
    first, later = (row["idc"] / row["model"] - 1 for row in (shortest, longer))
    return first < SMOOTH - 1 or first < FLAT * later


_VARY = "Draw think times from a distribution such as the exponential, or plan Poisson arrivals."
_RECORD = "Record the generator's health beside the launches: its figures show what holds them back."
_MORE_USERS = "Use more users with longer think times, or think times that vary more, such as the exponential."
_OPEN = "Real users do not wait for each other: use more users with longer think times, or open arrivals."
_PLAN = "Give the planned rate so that it can be taken out, or leave out a longer warm-up."
_SETTLE = "Leave out a longer warm-up, run longer, and look at what the system did meanwhile."
_ALL = (4, 1, 3, 2, 6, 9)
# The generator's own delay is part of the response times that it measures.
_ALL_FOLLOW = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)


def _always(_: Case) -> bool:
    return True


def _by_users(check: int, applies: Callable[[Case], bool]) -> Cause:
    """Return the cause of bunches that no lag of the event loop explains."""
    remedy = "Look in the tasks for what users do together: shared events, waits for a round time, starts in groups."
    return Cause(
        "bunches that the users make themselves",
        None,
        (check,),
        (1, 2, 3, 6, 7, 9),
        applies,
        _made_by_users,
        _text(remedy),
    )


def _retried(status: Status) -> Cause:
    """Return the cause of repeated failures; many of them are the cause on a busy machine, too."""
    remedy = "Let users wait before they try again, for a time that varies and grows with each attempt."
    return Cause(
        "retries of failed requests", FEEDBACK, (5,), (1, 2, 3, 6, 7, 8, 9, 11),
        lambda c: c.f[5].meaning is readings.RETRIED and c.f[5].status == status, _observed(5), _text(remedy),
    )  # fmt: skip


def _stalling_server(*, regular: bool) -> Cause:
    """Return the cause of stalls of the server; a busy machine makes no regular ones."""

    def applies(case: Case) -> bool:
        stalls = case.e.server_stalls
        return stalls is not None and stalls.regular == regular and case.e.closed and (case.f[5].bad or case.bunched)

    return Cause(
        "a server that stalls", FEEDBACK, (5, 6, 1, 2, 3, 11, 9, 7), (1, 2, 3, 5, 6, 7, 8, 9, 11), applies,
        _server_stalls, _find_server_stop,
    )  # fmt: skip


def _step(applies: Callable[[Case], bool], explains: Sequence[int]) -> Cause:
    """Return the cause of users in step; no other program makes their think times constant."""
    remedy = f"{_VARY} Start users one by one at random times."
    return Cause("users that move in step", THINK, (8,), explains, applies, _with_period(8, 1), _text(remedy))


def _offsets(applies: Callable[[Case], bool]) -> Cause:
    """Return the cause of clock offsets. They hide bunches and make none, so that no other check follows from them."""
    remedy = "Trust the figures of each worker; synchronise the clocks better, or use workers on one machine."
    return Cause("clock offsets between workers", None, (12,), (), applies, _observed(12), _text(remedy))


CAUSES: tuple[Cause, ...] = (
    Cause(
        "a coarse clock", None, (9,), (), lambda c: c.f[9].meaning is readings.COARSE_CLOCK, _observed(9),
        _text("Record launches in microseconds; the checks use times spread evenly over the ticks."),
    ),
    Cause(
        "a single pause", None, (2, 1, 4, 6), (1, 3, 4, 6, 7, 9, 11), _single_pause, _during_pause,
        lambda c: f"{_find_stop(c, 'at that time')} Analyse the run without it.",
    ),
    Cause(
        "too few users for the planned launches", None, (4,), (1, 2, 3, 6, 7, 9, 11), _too_few_for_plan,
        _late_launches, _more_users,
    ),
    _retried(RED),
    _stalling_server(regular=True),
    _step(lambda c: _in_step(c) and c.e.users.user_cov < CONSTANT and c.disturbed, (1, 2, 3, 6, 7, 9)),
    Cause(
        "a CPU limit of the container", HEAVY, _ALL, _ALL_FOLLOW, lambda c: c.bunched and c.over("throttled"),
        lambda c: f"A limit of the container stopped the process {_share(c.health('throttled'))} of the time."
        + _own_cpu(c),
        _text("Raise the CPU limit of the container (cgroup cpu.max), or spread the users over more containers."),
    ),
    Cause(
        "a hypervisor that takes CPU time", HEAVY, _ALL, _ALL_FOLLOW, lambda c: c.bunched and c.over("steal"),
        lambda c: f"The hypervisor took {_share(c.health('steal'))} of the machine's CPU time (steal)." + _own_cpu(c),
        _text("Use a machine whose CPUs are its own, or one with fewer neighbours."),
    ),
    Cause(
        "a process stopped from outside", HEAVY, _ALL, _ALL_FOLLOW, lambda c: c.bunched and c.over("stopped"),
        lambda c: f"The whole process stood still {_share(c.health('stopped'))} of the time, though it had a CPU."
        + _longest_stall(c),
        _text("Find what stops the process: a signal (SIGSTOP), a debugger, or a frozen container."),
    ),
    Cause(
        "code that blocks the event loop", HEAVY, _ALL, _ALL_FOLLOW, _own_code, _blockers,
        lambda c: "Move that code out of the tasks, or run it in a thread (gevent.get_hub().threadpool)."
        + (f" Or: {_add_workers(c)}" if c.busy else ""),
    ),
    Cause(
        "a machine full of the generator's own processes", HEAVY, _ALL, _ALL_FOLLOW,
        lambda c: c.bunched and c.crowded and c.own_share and not (c.busy and not c.over("run_wait")), _crowd,
        _text("Spread the workers over more machines, or use a machine with more cores."),
    ),
    Cause(
        "a process of the generator at its limit", HEAVY, _ALL, _ALL_FOLLOW,
        lambda c: c.bunched and c.busy and not (c.over("run_wait") and not c.own_share),
        lambda c: _own_cpu(c).strip() + " One Python process uses one core at most.", _add_workers,
    ),
    Cause(
        "a machine busy with other programs", HEAVY, _ALL, _ALL_FOLLOW, lambda c: c.bunched and c.crowded, _others,
        _move,
    ),
    _retried(AMBER),
    _stalling_server(regular=False),
    _step(_in_step, (1, 2, 3, 4, 6, 7, 9)),
    _offsets(lambda c: c.f[12].status == RED),
    Cause(
        "a rate or a system that is not steady", None, (6, 1), (1, 2, 3, 7, 8, 9), _rate_varies, _with_period(6),
        _text("Give the planned rate so that it can be taken out, or judge a part in which it holds."),
    ),
    Cause(
        "repeated pauses of the test", None, (2, 1, 3, 6, 4), (1, 2, 3, 4, 6, 7, 8, 9, 11),
        lambda c: c.bunched and _repeated_pauses(c), _stalls, _find_stops,
    ),
    Cause(
        "an event loop full of Locust's own work", HEAVY, (4, 3), _ALL_FOLLOW,
        lambda c: c.bunched and c.over("blocked") and not c.busy, _own_work,
        _text("Add workers (--processes), or lower the load."),
    ),
    Cause(
        "a generator that cannot keep up", HEAVY, (4,), (1, 2, 3, 6, 7, 8, 9, 10, 11),
        lambda c: c.f[4].status == RED or c.f[1].bad or c.f[3].bad, _observed(4), _lower,
    ),
    Cause(
        "a server that paces its users", FEEDBACK, (5,), (1, 2, 3, 6, 7, 8, 9, 11),
        # A saturated server changes response times between the halves, but not the launch rate.
        lambda c: c.f[5].status == RED and not abs(c.e.change("rate")[0]) > 0.1, _observed(5),
        _text(_OPEN),
    ),
    _by_users(3, lambda c: c.by_users and c.short),
    Cause(
        "launches in batches", HEAVY, (3,), (1, 2, 6, 7, 9), lambda c: c.short and c.f[3].status == RED,
        lambda c: _observed(3)(c) + _lag(c), _lower,
    ),
    Cause(
        "a generator that spaces its launches", HEAVY, (1, 7, 9), (1, 3, 6, 7, 9, 11), _spaced, _spacing,
        lambda c: f"{_add_workers(c)} FastHttpUser needs less CPU time than HttpUser.",
    ),
    Cause(
        "too few users or too regular ones", THINK, (7,), (1, 3, 6, 9), lambda c: c.too_even, _observed(7),
        _text(_MORE_USERS),
    ),
    Cause(
        "launches that are too even", THINK, (1,), (3, 6, 7, 9), lambda c: c.too_even, _observed(1), _text(_VARY),
    ),
    Cause(
        "a rate or a system that is not steady", None, (11,), (1, 2, 6, 7, 9), _always, _with_period(11),
        lambda c: _PLAN if c.f[11].meaning is readings.DRIFTING else _SETTLE,
    ),
    Cause(
        "a server that paces its users", FEEDBACK, (5,), (1, 2, 3, 6, 7, 8, 9), _always, _observed(5),
        _text(_OPEN),
    ),
    Cause(
        "too few users or too regular ones", THINK, (7,), (6, 9), lambda c: not c.f[1].bad, _observed(7),
        _text(_MORE_USERS),
    ),
    Cause(
        "arrivals of users that are not independent", None, (10,), (1, 6, 7, 9), _always, _observed(10),
        _text("Look at the generator's lateness, and at workers that joined or left."),
    ),
    Cause(
        "think times off their target", THINK, (8,), (1, 7, 9), lambda c: c.f[8].meaning is readings.OFF_TARGET,
        _observed(8), _text("Look at the generator's lateness, and at what the tasks do between their requests."),
    ),
    Cause("think times that hardly vary", THINK, (8,), (6, 7, 9), _always, _observed(8), _text(_VARY)),
    _by_users(1, lambda c: c.by_users and c.e.gaps.cov > 1),
    Cause(
        "bunches of launches", None, (1,), (2, 3, 6, 7, 9), _always, _with_period(1),
        _text("Look for what users do together, and start them one by one at random times."),
    ),
    Cause(
        "single pauses", None, (2,), (), _always, _observed(2),
        _text("Look at what stopped at that time (generator, network or server)."),
    ),
    Cause(
        "a load that is too even at a long scale", THINK, (6,), (), lambda c: not c.waves, _observed(6),
        _text("Let users come and go (a population with Poisson arrivals), or let think times vary more."),
    ),
    Cause(
        "a load that comes in waves", None, (6,), (), _always, _with_period(6),
        _text("Start users one by one at random times and let think times vary, or leave out the start "
              "(--realism-warmup)."),
    ),
    Cause(
        "an uncommon number of short gaps", None, (3,), (), _always, _observed(3),
        _text("A longer run shows if the deviation stays."),
    ),
    Cause(
        "too few users or too regular ones", THINK, (7,), (), _always, _observed(7),
        _text(_MORE_USERS),
    ),
    Cause(
        "gaps that depend on each other", None, (9,), (), _always, _observed(9),
        _text("Look in the tasks for users that wait for each other; a longer run shows if the deviation stays."),
    ),
    Cause("a generator that is nearly too slow", HEAVY, (4,), (), _always, _observed(4), _lower),
    _offsets(_always),
)  # fmt: skip
"""Causes in order of precedence; the first one that applies to an amber or red check is its cause."""


def root_causes(evidence: Evidence, findings: Findings, bounds: VerdictBounds) -> list[CauseRow]:
    """Return the causes, worst first, then in order of precedence; every amber or red check belongs to exactly one."""
    case = Case(evidence, findings, bounds)
    open_checks = {number for number, finding in findings.items() if finding.bad}
    rows: list[CauseRow] = []
    for cause in CAUSES:
        shown = [number for number in cause.shown_by if number in open_checks]
        if not shown or not cause.applies(case):
            continue
        apart = case.beyond_generator if cause.distortion == HEAVY else case.beyond_users if shown[0] == 7 else set()
        follows = sorted(open_checks.intersection({*cause.explains, *shown}) - {shown[0]} - apart)
        open_checks -= {shown[0], *follows}
        evidence_, remedy = cause.evidence(case), cause.remedy(case)
        rows.append(
            {
                "name": cause.name, "distortion": cause.distortion, "check": shown[0],
                "status": worst_status(findings[number] for number in (shown[0], *follows)),
                "explanation": f"{evidence_} {remedy}", "evidence": evidence_, "remedy": remedy,
                "consequences": follows,
            }
        )  # fmt: skip
    return sorted(rows, key=lambda row: -SEVERITY[row["status"]])


def worst_status(findings: Iterable[Finding]) -> Status:
    """Return the worst status of findings with enough data, "not enough data" without any."""
    known = [finding.status for finding in findings if finding.status != NO_DATA]
    return max(known, key=SEVERITY.__getitem__, default=NO_DATA)


def missing_figures(health: Mapping[str, float]) -> list[str]:
    """Return in words the figures of the generator's health that a run does not have.

    >>> missing_figures({})
    ["the generator's health"]
    >>> missing_figures(dict.fromkeys(MEASURED, 0.0) | {"cpu_max": 0.1})
    []
    """
    if not any(math.isfinite(value) for value in health.values()):
        return ["the generator's health"]
    return [words for figure, words in MEASURED.items() if not math.isfinite(health.get(figure, math.nan))]
