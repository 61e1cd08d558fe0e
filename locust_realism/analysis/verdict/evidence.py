"""Evidence of the verdict, measured once: plain numbers, NaN where unknown."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypedDict

import numpy as np

from locust_realism.analysis.document import DispersionRow, GroupRow, SteadyState, WorkerRow
from locust_realism.analysis.percentiles import Floats, Int64, count_codes
from locust_realism.analysis.settings import AnalysisSettings, WorkloadModel
from locust_realism.analysis.stats.intervals import coefficient_of_variation, group_table, inner_product, user_ranks
from locust_realism.analysis.stats.steady_state import steady_state
from locust_realism.analysis.verdict import detrend, rhythm
from locust_realism.analysis.verdict import dispersion as scale
from locust_realism.analysis.verdict.dispersion import Stalls
from locust_realism.analysis.verdict.users import UserTimes, marks_tasks, task_starts, user_times
from locust_realism.recording.diagnosis import Diagnosis
from locust_realism.recording.health import HealthLog
from locust_realism.recording.launches import LaunchLog
from locust_realism.workload.users.launching import MISSED_AFTER_S

HalfFigure = Literal["p50", "p95", "mean", "rate"]
_HALF_KEYS: dict[str, Literal["p50_ms", "p95_ms", "mean_ms"]] = {"p50": "p50_ms", "p95": "p95_ms", "mean": "mean_ms"}

SHORT_GAP = 0.1
"""Share of the mean gap below which a gap is short, unless the process needs longer for a launch."""
MEASURABLE = 0.5
"""Largest short gap, in mean gaps, whose frequency says something about the users."""
SHORT_GAP_SHARE = -math.expm1(-SHORT_GAP)
"""Share of exponential gaps that are shorter than a tenth of their mean: 0.0952."""
LONGEST_SHARE = 0.001
INFERRED = "Pauses of the users separate their tasks, since the log does not mark them."
FEW_USERS = 100
"""Users of a fixed pool from which on its gaps are exponential: lognormal ones have a correlation of -0.01 there."""
COARSE = 0.3
"""Launches in a grain from which the grain shows in the CoV of the groups: sqrt(1 + m^2 / 6) is 1.008 here."""


@dataclass(frozen=True)
class Facts:
    """Facts of a run besides its launches; each may be missing.

    - ``model`` intended workload
    - ``planned_profile`` planned launches: ``cumulative(t)``, t in seconds since ``run_start_us``
    - ``arrival_profile`` planned starts of users, ``user_starts_us`` actual ones (epoch microseconds)
    - ``health`` of the generator's worst worker: ``cpu_max`` (share of a core), ``loop_lag_p99_ms``; ``seconds`` the
      rows of all workers that it comes from, None where they are unknown
    - ``blockers`` places in code that blocked the event loop, with their share of the time, largest first
    - ``others`` other busy processes of the machine, with the cores that they used, largest first;
      ``own_cores`` those of the generator's processes there, NaN where it is unknown
    - ``pauses`` times in which the whole process stood still: start in seconds of the run, and length in seconds
    - ``missed_launches`` planned launches from full spawn to the stop request that found no idle user within a
      second, which have no rows
    - ``clock_offset_sd_us`` largest standard deviation of a worker's clock offset
    - ``held_us`` instants of full spawn and of the stop request (epoch microseconds, None if still to come); the
      verdict covers the launches between them, since the test itself starts users in turn and stops them all at once
    """

    model: WorkloadModel = field(default_factory=WorkloadModel)
    planned_profile: scale.Profile | None = None
    arrival_profile: scale.Profile | None = None
    run_start_us: int | None = None
    user_starts_us: Int64 | None = None
    health: Mapping[str, float] = field(default_factory=dict)
    seconds: HealthLog | None = None
    missed_launches: int = 0
    clock_offset_sd_us: float | None = None
    held_us: tuple[int | None, int | None] | None = None
    blockers: Sequence[tuple[str, float]] = ()
    others: Sequence[tuple[str, float]] = ()
    pauses: Sequence[tuple[float, float]] = ()
    own_cores: float = math.nan

    def measured(self, seconds: HealthLog) -> Facts:
        """Return these facts with the health of the generator's processes."""
        return replace(self, health=seconds.worst(), seconds=seconds)

    def between(self, first_us: int, last_us: int) -> Facts:
        """Return these facts with health and pauses of a part of the run; without a second of it the health of all."""
        part = {} if self.seconds is None else self.seconds.between(first_us, last_us).worst()
        low, high = ((at_us - (self.run_start_us or 0)) / 1e6 for at_us in (first_us, last_us))
        pauses = [(start, length) for start, length in self.pauses if start <= high and start + length >= low]
        return replace(self, health=part or self.health, pauses=pauses)

    def diagnosed(self, diagnosis: Diagnosis) -> Facts:
        """Return these facts with a diagnosis."""
        start, own = self.run_start_us, diagnosis.own_cores
        return replace(
            self,
            blockers=diagnosis.blockers,
            others=diagnosis.others,
            pauses=() if start is None else diagnosis.since(start),
            own_cores=math.nan if own is None else own,
        )


@dataclass(frozen=True)
class Gaps:
    """Figures of the gaps between launches, relative to their expected mean.

    ``short_share`` is the share of short gaps over that of independent users. ``distance`` is that of the ``tail_n``
    longer gaps from the exponential distribution; no process launches the short ones exactly.
    """

    n: int = 0
    rate: float = math.nan
    raw_cov: float = math.nan
    cov: float = math.nan
    kind: Literal["planned", "windowed"] = "windowed"
    short_share: float = math.nan
    longest_share: float = math.nan
    longest_s: float = math.nan
    longest_at_s: float = math.nan
    cov_without_longest: float = math.nan
    correlations: tuple[float, ...] = ()
    distance: float = math.nan
    tail_n: int = 0


@dataclass(frozen=True)
class Evidence:
    """Evidence of the steady part of a run; ``profile`` is the planned variation taken out of the launch times.

    - ``short_gap_s`` gaps below it count as short, NaN without launches; ``short_gap_measurable`` is False where it
      comes near the mean gap, so that the generator cannot make gaps that short
    - ``launch_floor_s`` gap below which the generator cannot launch as independent users do (:func:`launch_delay_s`)
    - ``grain_us`` grain of the launch times that was spread out
    - ``few_correlation``, ``few_distance`` of the gaps that independent users have if they are as few as these
    - ``planned`` True where a plan or arrivals decide on the launches, so that rules for fixed pools do not apply
    - ``stalls`` repeated pauses of all launches, None without
    - ``judged_note`` sentence on the judged part that a reader needs, empty without one
    - ``server_stalls`` repeated times without an answer while requests went on leaving, None without
    - ``retries`` share of the launches that repeat a failed request at once; ``period_s`` period of the launches
    """

    gaps: Gaps
    users: UserTimes
    facts: Facts
    steady: SteadyState
    tick_us: int = 1
    per_task: float = 1.0
    population: float = math.nan
    groups: Sequence[GroupRow] = ()
    dispersion: list[DispersionRow] = field(default_factory=list)
    lateness_p99_s: float = math.nan
    lateness_p50_s: float = math.nan
    starts: int = 0
    starts_cov: float = math.nan
    workers: list[WorkerRow] = field(default_factory=list)
    profile: scale.Profile | None = None
    short_gap_s: float = math.nan
    short_gap_measurable: bool = True
    launch_floor_s: float = 0.0
    grain_us: int = 1
    few_correlation: float = 0.0
    few_distance: float = 0.0
    planned: bool = False
    stalls: Stalls | None = None
    judged_note: str = ""
    server_stalls: Stalls | None = None
    retries: float = math.nan
    period_s: float = math.nan

    @property
    def closed(self) -> bool:
        """True if each user waits for its answer before it goes on: as planned, or as the log shows."""
        if self.facts.model.kind != "unknown":
            return self.facts.model.kind == "closed"
        # A log without response times counts as closed: its overlap is NaN.
        return self.users.users > 0 and not self.users.overlap >= 0.01

    def change(self, figure: HalfFigure) -> tuple[float, float, int]:
        """Return a relative change between the halves, its standard error and the halves' segments; NaN if unknown."""
        row = self.steady["changes"].get(figure)
        if row is None or row["change"] is None or row["standard_error"] is None:
            return math.nan, math.nan, 0
        return row["change"], row["standard_error"], row["segments"]

    def difference_ms(self, figure: HalfFigure) -> float:
        """Return the distance of a response time between the halves in milliseconds; NaN for the rate or if unknown."""
        halves = self.steady.get("halves", [])
        if figure == "rate" or len(halves) < 2:
            return math.nan
        key = _HALF_KEYS[figure]
        first, second = halves[0][key], halves[1][key]
        return math.nan if first is None or second is None else abs(second - first)


def collect(
    log: LaunchLog, settings: AnalysisSettings, facts: Facts, groups: Sequence[GroupRow] | None = None
) -> Evidence:
    """Measure a log in launch order; ``groups`` are its rows by group size if they have been computed already."""
    model, marked = facts.model, marks_tasks(log)
    users = user_times(log, max_rows=settings.max_user_rows)
    starts = log
    if marked or users.requests_per_task > 1:
        begins = task_starts(log, spawned=model.kind == "closed")
        starts = log if begins.all() else log.take(np.flatnonzero(begins))
    start_us = facts.run_start_us if facts.run_start_us is not None else int(log.launch_us[0]) if len(log) else 0
    tick = scale.clock_tick_us(log.launch_us)
    # The verdict judges the timer's lateness; it smooths no more than the resolution of timer and clock.
    grain = detrend.grain_us(tick, settings, timer_grain_us(facts) if marked else math.nan)
    profile = _launch_profile(facts, log, start_us)
    times = detrend.flat_times(starts.launch_us, profile, start_us, grain)
    span_s = float(times[-1] - times[0]) / 1e6 if len(times) > 1 else 0.0
    per_window = detrend.gaps_per_window(times, users.round_trip)
    late_p50, late_p99 = _lateness_s(log, facts.missed_launches)
    known = log.users[log.users >= 0]
    if profile is not None or starts is not log or detrend.per_grain(log.launch_us, grain) >= COARSE or groups is None:
        groups = _groups(starts, times, users.users, settings, profile, grain)
    start_cov, start_n = _starts(facts, log, start_us)
    stay = _stay(model)
    halves = scale.population_dispersion([span_s / 2], 1 / users.round_trip, stay)
    mean_gap = span_s / (len(times) - 1) if span_s else math.nan
    delay_s, floor_s = launch_delay_s(starts, facts)
    short = max(SHORT_GAP, floor_s / mean_gap) if mean_gap > 0 else SHORT_GAP
    gaps, long_gaps = _gaps(times, starts.launch_us, start_us, per_window, profile is not None, short)
    if round(delay_s * 1e6) > grain:
        # A launch moves its neighbours by as much: the law of the gaps is compared without that.
        spread = detrend.flat_times(starts.launch_us, profile, start_us, round(delay_s * 1e6))
        gaps = replace(gaps, **_beyond_short(_relative(spread, per_window, profile is not None)[0], short))
    few_correlation, few_distance = _of_few_users(users, model, short)
    return Evidence(
        gaps=gaps,
        few_correlation=few_correlation,
        few_distance=few_distance,
        users=users,
        facts=replace(facts, run_start_us=start_us),
        tick_us=tick,
        per_task=model.requests_per_task or users.requests_per_task,
        population=float(known.mean()) if len(known) else math.nan,
        groups=groups,
        dispersion=_dispersion(times, users, model, stay),
        steady=steady_state(
            log,
            settings,
            times if starts is log else detrend.flat_times(log.launch_us, profile, start_us, grain),
            rate_dispersion=halves[0],
        ),
        lateness_p50_s=late_p50,
        lateness_p99_s=late_p99,
        starts=start_n,
        starts_cov=start_cov,
        workers=worker_rows(starts, grain, times if profile is None else None),
        profile=profile,
        short_gap_s=short * mean_gap,
        short_gap_measurable=short <= MEASURABLE,
        launch_floor_s=floor_s,
        grain_us=grain,
        planned=model.kind == "open" or (model.kind == "unknown" and bool((log.planned_us >= 0).any())),
        stalls=long_gaps,
        judged_note=INFERRED if users.inferred else "",
        server_stalls=rhythm.answer_stalls(log),
        retries=rhythm.retry_share(log),
        period_s=rhythm.launch_period_s(times),
    )


def _of_few_users(users: UserTimes, model: WorkloadModel, short: float) -> tuple[float, float]:
    """Return the correlation of neighbouring gaps and their distance from the exponential that a small pool has."""
    if model.kind != "closed" or model.think_time_s is None or not 0 < users.users <= FEW_USERS or not len(users.trips):
        return 0.0, 0.0
    gaps = scale.pool_gaps(users.trips, users.users)
    if len(gaps) < FEW_USERS or not gaps.mean() > 0:
        return 0.0, 0.0
    gaps /= gaps.mean()
    correlation = scale.autocorrelation(gaps, 1)[0]
    return correlation, float(np.nan_to_num(_beyond_short(gaps, short)["distance"]))


def timer_grain_us(facts: Facts) -> float:
    """Return the resolution of the timer that woke the users, 0 for a precise one; NaN where none was measured."""
    return facts.health.get("grain_us", 0.0 if facts.health.get("wake_p90_ms", math.nan) >= 0 else math.nan)


def launch_delay_s(log: LaunchLog, facts: Facts) -> tuple[float, float]:
    """Return the most by which a launch delays the next ones of its worker, and the floor of all gaps, in seconds.

    Both are 0 where unknown. Launches that are due while a worker's timer is late leave one after the other, a launch's
    CPU time apart. Those of two workers do not delay each other, and the next launch is of the same worker with
    probability q, the sum of the workers' squared shares. So a fraction q of the gaps misses those below the CPU time
    c, as if all began at q c. With a mean lateness of 0.65 times its p90 w, gaps below s are q (0.65 w / s - 1) too
    frequent: at s = w sqrt(q) that is at most 0.11 for any q.
    """
    shares = count_codes(log.worker, int(log.worker.max(initial=0)) + 1) / max(1, len(log))
    same = float(shares @ shares)
    wake_s, grain_s = facts.health.get("wake_p90_ms", math.nan) / 1e3, timer_grain_us(facts) / 1e6
    late_s = max((part for part in (wake_s, grain_s) if part > 0), default=0.0)
    cpu_s = max(0.0, float(np.nan_to_num(launch_cpu_s(log, facts))))
    return late_s + cpu_s, math.sqrt(same) * late_s + same * cpu_s


def launch_cpu_s(log: LaunchLog, facts: Facts) -> float:
    """Return the CPU time of a launch in the busiest worker in seconds, NaN where unknown.

    ``log`` has one row a task: the requests of a task that leave together delay the next task. Code that blocks the
    event loop is no part of it.
    """
    cpu = facts.health.get("cpu_max", math.nan) - facts.health.get("blocked", 0.0)
    launches = float(count_codes(log.worker, int(log.worker.max(initial=0)) + 1).max()) if len(log) else 0.0
    if not launches or math.isnan(cpu):
        return math.nan
    return max(cpu, 0.0) * float(log.launch_us[-1] - log.launch_us[0]) / 1e6 / launches


def _lateness_s(log: LaunchLog, missed: int) -> tuple[float, float]:
    """Return the median and the 99 % quantile of the lateness in seconds; a missed launch is MISSED_AFTER_S late."""
    late_us = log.launch_us[log.planned_us >= 0] - log.planned_us[log.planned_us >= 0]
    total = len(late_us) + missed
    if not total:
        return math.nan, math.nan
    ranks = [-(-total * percent // 100) - 1 for percent in (50, 99)]
    late_us.partition(np.array([rank for rank in ranks if rank < len(late_us)], dtype=np.intp))
    p50, p99 = (float(late_us[rank]) / 1e6 if rank < len(late_us) else MISSED_AFTER_S for rank in ranks)
    return p50, p99


def _launch_profile(facts: Facts, log: LaunchLog, start_us: int) -> scale.Profile | None:
    """Return the expected course of the launches: the planned one, or that of a population that varies by plan."""
    model = facts.model
    if facts.planned_profile is not None or facts.arrival_profile is None or not model.poisson_arrivals:
        return facts.planned_profile
    end = float(log.launch_us[-1] - start_us) / 1e6 if len(log) else 0.0
    return detrend.following_launches(facts.arrival_profile, _stay(model), end)


def _groups(
    log: LaunchLog, times: Floats, users: int, settings: AnalysisSettings, profile: scale.Profile | None, grain: int
) -> list[GroupRow]:
    """Return the CoV by group size on other times than the recorded ones: all users, half of them ... and one."""
    if not users:
        return []
    # A population fills its first slots all day and its last ones at the peak only, so no group follows the plan.
    following = isinstance(profile, detrend.FollowingLaunches)
    if following:
        times = detrend.flat_times(log.launch_us, None, 0, grain)
    sizes = {math.ceil(users / 2**step) for step in range(users.bit_length() + 1)}
    rows = group_table(replace(log, launch_us=np.rint(times).astype(np.int64)), settings, sizes=sizes)
    ranks, _ = user_ranks(log)
    for row in rows if following else ():
        own = detrend.flat_times(log.launch_us[(ranks >= 0) & (ranks < row["users"])], None, 0, grain)
        row["cov"] = scale.local_gaps(np.diff(own), detrend.LOCAL_GAPS)[1]
    return rows


def _gaps(
    times: Floats, launches: Int64, start_us: int, per_window: int, planned: bool, short: float
) -> tuple[Gaps, Stalls | None]:
    """Return the figures of the gaps, of which those below ``short`` mean gaps are short, and the repeated stalls."""
    n = len(times) - 1
    if n < 2 or times[-1] <= times[0]:
        return Gaps(n=max(n, 0)), None
    raw = np.diff(launches)
    longest = int(np.argmax(raw))
    longest_s, raw_cov = float(raw[longest]) / 1e6, coefficient_of_variation(raw)
    del raw  # a column of a long run is large: hold one at a time
    relative, cov = _relative(times, per_window, planned)
    correlations = tuple(scale.autocorrelation(relative))
    squares = inner_product(relative, relative)
    stalls = scale.repeated_stalls(relative, launches)
    # The order of the gaps no longer matters.
    relative.sort()
    top = max(1, math.ceil(LONGEST_SHARE * len(relative)))
    tail = relative[len(relative) - top :]
    # The last of them counts in part, so that it is a thousandth of any number of gaps.
    extra = top - max(LONGEST_SHARE * n, 1.0)
    longest_squares = inner_product(tail, tail) - extra * float(tail[0]) ** 2
    few = int(np.searchsorted(relative, short))
    found = Gaps(
        n=n,
        rate=n / (float(launches[-1] - launches[0]) / 1e6),
        raw_cov=raw_cov,
        cov=cov,
        kind="planned" if planned else "windowed",
        short_share=few / n / -math.expm1(-short),
        longest_share=longest_squares / squares if squares else math.nan,
        longest_s=longest_s,
        longest_at_s=float(launches[longest] - start_us) / 1e6,
        cov_without_longest=coefficient_of_variation(relative[: len(relative) - top]),
        correlations=correlations,
        **_beyond_short(relative, short),
    )
    return found, stalls


def _relative(times: Floats, per_window: int, planned: bool) -> tuple[Floats, float]:
    """Return the gaps over their expected mean, and their CoV."""
    gaps = np.diff(times)
    if not planned:
        return scale.local_gaps(gaps, per_window)
    gaps /= gaps.mean()
    return gaps, coefficient_of_variation(gaps)


class _Tail(TypedDict):
    distance: float
    tail_n: int


def _beyond_short(relative: Floats, short: float) -> _Tail:
    """Return the distance of the gaps beyond the short ones from the exponential distribution, and their number."""
    relative.sort()
    beyond = relative[int(np.searchsorted(relative, short)) :] - short
    total = float(beyond.sum())
    if total <= 0:
        return {"distance": math.nan, "tail_n": 0}
    beyond *= len(beyond) / total
    return {"distance": scale.exponential_distance(beyond), "tail_n": len(beyond)}


def _stay(model: WorkloadModel) -> scale.Stay:
    """Return the law of a population's stays, of mean 0 where the number of users does not vary."""
    mean_s = (model.session_s or 0.0) if model.kind == "open" else 0.0
    return scale.Stay.of(mean_s, model.session_quantiles_s if mean_s else None)


def _dispersion(times: Floats, users: UserTimes, model: WorkloadModel, stay: scale.Stay) -> list[DispersionRow]:
    span = float(times[-1] - times[0]) / 1e6 if len(times) > 1 else 0.0
    windows = scale.window_ladder(span)
    curve = None
    if model.kind == "closed" and model.think_time_s is not None and len(users.trips):
        # Observed round trips, not planned ones: check 8 compares the think times with the plan.
        curve = scale.renewal_dispersion(windows, users.trips)
    elif stay.mean and users.round_trip > 0:
        *curve, at_span = scale.population_dispersion([*windows, span], 1 / users.round_trip, stay)
        curve = scale.seen_in(span, windows, curve, at_span)
    return scale.dispersion_table(times, windows, curve, memory_s=stay.memory_s)


def _starts(facts: Facts, log: LaunchLog, start_us: int) -> tuple[float, int]:
    """Return the CoV of the times between starts of users within the log, and their number."""
    given = facts.user_starts_us
    if given is None or not len(log):
        return math.nan, 0
    times = np.sort(np.asarray(given, dtype=np.int64))
    times = times[(times >= log.launch_us[0]) & (times <= log.launch_us[-1])]
    if len(times) < 3:
        return math.nan, len(times)
    if facts.arrival_profile is None:
        return scale.local_gaps(np.diff(times).astype(np.float64), detrend.LOCAL_GAPS)[1], len(times)
    flat = scale.rescale_by_profile(times, facts.arrival_profile, start_us)
    return coefficient_of_variation(np.diff(flat)), len(times)


def worker_rows(log: LaunchLog, grain: int, flat: Floats | None = None) -> list[WorkerRow]:
    """Return the figures of each worker's launches on its own clock.

    ``bunch_ms`` is the mean length of runs of gaps shorter than a tenth of the mean, if they are too frequent for
    independent launches: offsets of the clocks must be smaller. ``flat`` are the launch times of all workers without
    the grain of clock and timers, if they are known already.
    """
    rows: list[WorkerRow] = []
    present = np.flatnonzero(count_codes(log.worker, int(log.worker.max(initial=0)) + 1)).tolist()
    for worker in present:
        own = flat if len(present) == 1 else None
        times = detrend.flat_times(log.launch_us[log.worker == worker], None, 0, grain) if own is None else own
        gaps = np.diff(times)
        row: WorkerRow = {"worker": worker, "n": len(gaps), "rate": None, "cov": None, "bunch_ms": None}
        rows.append(row)
        if len(gaps) < 2 or times[-1] <= times[0]:
            continue
        relative, row["cov"] = scale.local_gaps(gaps, detrend.LOCAL_GAPS)
        short = gaps < SHORT_GAP * gaps.mean()
        runs = int((short[1:] & ~short[:-1]).sum() + short[0])
        if (relative < SHORT_GAP).mean() > 1.5 * SHORT_GAP_SHARE and runs:
            row["bunch_ms"] = float(gaps[short].sum()) / runs / 1e3
        row["rate"] = 1e6 / float(gaps.mean())
    return rows
