"""Everything that the verdict rests on, measured once: plain numbers, NaN where unknown."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from locust_realism.analysis import dispersion as scale
from locust_realism.analysis.following import FollowingLaunches, following_launches
from locust_realism.analysis.intervals import coefficient_of_variation, group_table, user_ranks
from locust_realism.analysis.judged_times import LOCAL_GAPS, flat_times, gaps_per_window, grain_us, per_grain
from locust_realism.analysis.percentiles import count_codes
from locust_realism.analysis.settings import AnalysisSettings, WorkloadModel
from locust_realism.analysis.steady_state import steady_state
from locust_realism.analysis.sums import inner_product
from locust_realism.analysis.users import UserTimes, task_starts, user_times
from locust_realism.recording.launches import LaunchLog

Floats = NDArray[np.float64]
Row = dict[str, Any]

SHORT_GAP = 0.1
SHORT_GAP_SHARE = -math.expm1(-SHORT_GAP)
"""Share of exponential gaps that are shorter than a tenth of their mean: 0.0952."""
LONGEST_SHARE = 0.001
COARSE = 0.3
"""From so many launches in a grain on the CoV of the groups suffers, too: sqrt(1 + m^2 / 6) is 1.008 there."""


@dataclass(frozen=True)
class Facts:
    """What is known of a run besides its launches; everything may be missing.

    - ``model`` what the test was meant to do
    - ``planned_profile`` planned launches: ``cumulative(t)``, t in seconds since ``run_start_us``
    - ``arrival_profile`` the same of the starts of users, ``user_starts_us`` when they did start (epoch microseconds)
    - ``health`` of the generator, the worst worker's: ``cpu_max`` (share of a core), ``loop_lag_p99_ms``
    - ``clock_offset_sd_us`` standard deviation of the workers' clock offsets, the largest one
    - ``held_us`` from when all users had been started to when they were told to stop (epoch microseconds; None for an
      end that has not come yet): only launches between the two are judged, since those of users who log in one after
      another, or leave all at once, are the test's doing
    """

    model: WorkloadModel = field(default_factory=WorkloadModel)
    planned_profile: scale.Profile | None = None
    arrival_profile: scale.Profile | None = None
    run_start_us: int | None = None
    user_starts_us: NDArray[np.int64] | None = None
    health: Mapping[str, Any] = field(default_factory=dict)
    clock_offset_sd_us: float | None = None
    held_us: tuple[int | None, int | None] | None = None


@dataclass(frozen=True)
class Gaps:
    """The gaps between launches as the checks see them: relative to their expected mean, and what came of them."""

    n: int = 0
    rate: float = math.nan
    raw_cov: float = math.nan
    cov: float = math.nan
    kind: str = "windowed"
    short_share: float = math.nan
    longest_share: float = math.nan
    longest_s: float = math.nan
    longest_at_s: float = math.nan
    cov_without_longest: float = math.nan
    correlations: tuple[float, ...] = ()
    distance: float = math.nan


@dataclass(frozen=True)
class Evidence:
    """What was measured of the steady part of a run; ``profile`` is what was taken out of the launch times."""

    gaps: Gaps
    users: UserTimes
    facts: Facts
    tick_us: int = 1
    per_task: float = 1.0
    population: float = math.nan
    groups: Sequence[Row] = ()
    dispersion: Sequence[Row] = ()
    steady: Mapping[str, Any] = field(default_factory=dict)
    lateness_p99_s: float = math.nan
    lateness_p50_s: float = math.nan
    starts: int = 0
    starts_cov: float = math.nan
    workers: Sequence[Row] = ()
    profile: scale.Profile | None = None

    @property
    def closed(self) -> bool:
        """Whether each user waits for its answer before it goes on: as planned, or as the log looks."""
        if self.facts.model.kind != "unknown":
            return self.facts.model.kind == "closed"
        # Where no response time is known nothing speaks against it.
        return self.users.users > 0 and not self.users.overlap >= 0.01


def collect(log: LaunchLog, settings: AnalysisSettings, facts: Facts, groups: Sequence[Row] | None = None) -> Evidence:
    """Measure a log in launch order. ``groups`` are its rows by group size where they have been computed already."""
    users = user_times(log, max_rows=settings.max_user_rows)
    per_task = facts.model.requests_per_task or users.requests_per_task
    starts = log.take(np.flatnonzero(task_starts(log))) if users.requests_per_task > 1 else log
    start_us = facts.run_start_us if facts.run_start_us is not None else int(log.launch_us[0]) if len(log) else 0
    tick = scale.clock_tick_us(log.launch_us)
    grain = grain_us(tick, settings)
    profile = _launch_profile(facts, log, start_us)
    times = flat_times(starts.launch_us, profile, start_us, grain)
    cycle = users.round_trip if math.isfinite(users.round_trip) else 0.0
    per_window = gaps_per_window(times, cycle)
    lateness = log.launch_us[log.planned_us >= 0] - log.planned_us[log.planned_us >= 0]
    late = np.quantile(lateness, (0.5, 0.99), method="inverted_cdf") / 1e6 if len(lateness) else (math.nan, math.nan)
    known = log.users[log.users >= 0]
    plain = profile is None and starts is log and per_grain(log.launch_us, grain) < COARSE
    start_cov, start_n = _starts(facts, log, start_us)
    return Evidence(
        gaps=_gaps(times, starts.launch_us, start_us, per_window, profile is not None),
        users=users,
        facts=facts,
        tick_us=tick,
        per_task=per_task,
        population=float(known.mean()) if len(known) else math.nan,
        groups=groups
        if groups is not None and plain
        else _groups(starts, times, users.users, settings, profile, grain),
        dispersion=_dispersion(times, users, facts.model),
        steady=steady_state(
            log, settings, times if starts is log else None, rate_dispersion=_half_dispersion(times, users, facts.model)
        ),
        lateness_p50_s=float(late[0]),
        lateness_p99_s=float(late[1]),
        starts=start_n,
        starts_cov=start_cov,
        workers=worker_rows(starts, grain, times if profile is None else None),
        profile=profile,
    )


def _launch_profile(facts: Facts, log: LaunchLog, start_us: int) -> scale.Profile | None:
    """What is known of how the launches should vary: planned launches, or a planned population that varies."""
    model = facts.model
    if facts.planned_profile is not None or facts.arrival_profile is None or not model.poisson_arrivals:
        return facts.planned_profile
    end = float(log.launch_us[-1] - start_us) / 1e6 if len(log) else 0.0
    return following_launches(facts.arrival_profile, model.session_s or 0.0, end)


def _groups(
    log: LaunchLog, times: Floats, users: int, settings: AnalysisSettings, profile: scale.Profile | None, grain: int
) -> list[Row]:
    if not isinstance(profile, FollowingLaunches):
        return _halving_groups(log, times, users, settings)
    # The first slots of a population are taken all day, the last ones at its peak only: no plan is that of a group.
    rows = _halving_groups(log, flat_times(log.launch_us, None, 0, grain), users, settings)
    ranks, _ = user_ranks(log)
    for row in rows:
        own = flat_times(log.launch_us[(ranks >= 0) & (ranks < row["users"])], None, 0, grain)
        row["cov"] = scale.local_gaps(np.diff(own), LOCAL_GAPS)[1]
    return rows


def _halving_groups(log: LaunchLog, times: Floats, users: int, settings: AnalysisSettings) -> list[Row]:
    """CoV by group size on other times than the recorded ones: of all users, half of them, a quarter ... and of one."""
    sizes = {math.ceil(users / 2**step) for step in range(users.bit_length() + 1)} if users else set()
    moved = replace(log, launch_us=np.rint(times).astype(np.int64))
    return group_table(moved, settings, sizes=sizes) if sizes else []


def _gaps(times: Floats, launches: NDArray[np.int64], start_us: int, per_window: int, planned: bool) -> Gaps:
    n = len(times) - 1
    if n < 2 or times[-1] <= times[0]:
        return Gaps(n=max(n, 0))
    raw = np.diff(launches)
    longest = int(np.argmax(raw))
    longest_s, raw_cov = float(raw[longest]) / 1e6, coefficient_of_variation(raw)
    del raw  # columns of a long run are large: one at a time
    relative = np.diff(times)
    if planned:
        relative /= relative.mean()
        cov = coefficient_of_variation(relative)
    else:
        relative, cov = scale.local_gaps(relative, per_window)
    short_share = float((relative < SHORT_GAP).mean()) / SHORT_GAP_SHARE
    correlations = tuple(scale.autocorrelation(relative))
    squares = inner_product(relative, relative)
    # From here on only the size of the gaps matters and no longer their order.
    relative.sort()
    top = max(1, math.ceil(LONGEST_SHARE * len(relative)))
    tail = relative[len(relative) - top :]
    return Gaps(
        n=n,
        rate=n / (float(launches[-1] - launches[0]) / 1e6),
        raw_cov=raw_cov,
        cov=cov,
        kind="planned" if planned else "windowed",
        short_share=short_share,
        longest_share=inner_product(tail, tail) / squares if squares else math.nan,
        longest_s=longest_s,
        longest_at_s=float(launches[longest] - start_us) / 1e6,
        cov_without_longest=coefficient_of_variation(relative[: len(relative) - top]),
        correlations=correlations,
        distance=scale.exponential_distance(relative),
    )


def _dispersion(times: Floats, users: UserTimes, model: WorkloadModel) -> list[Row]:
    span = float(times[-1] - times[0]) / 1e6 if len(times) > 1 else 0.0
    windows = scale.window_ladder(span)
    curve: list[float] | None = None
    if model.kind == "closed" and model.think_time_s is not None and len(users.trips):
        # Whether the think times are the planned ones is check 8's; here it is what follows from those that were.
        curve = scale.renewal_dispersion(windows, users.trips)
    elif model.kind == "open" and model.session_s and math.isfinite(users.round_trip):
        curve = scale.population_dispersion(windows, 1 / users.round_trip, model.session_s)
    return scale.dispersion_table(times, windows, curve, memory_s=_memory(model))


def _memory(model: WorkloadModel) -> float:
    """For how long a number of users that is above its mean stays so, in seconds."""
    return model.session_s or 0.0 if model.kind == "open" else 0.0


def _half_dispersion(times: Floats, users: UserTimes, model: WorkloadModel) -> float:
    if not _memory(model) or not math.isfinite(users.round_trip) or len(times) < 2:
        return 1.0
    half = float(times[-1] - times[0]) / 2e6
    return scale.population_dispersion([half], 1 / users.round_trip, _memory(model))[0] if half > 0 else 1.0


def _starts(facts: Facts, log: LaunchLog, start_us: int) -> tuple[float, int]:
    """CoV of the times between starts of users while the log lasts, and their number."""
    given = facts.user_starts_us
    if given is None or not len(log):
        return math.nan, 0
    times = np.sort(np.asarray(given, dtype=np.int64))
    times = times[(times >= log.launch_us[0]) & (times <= log.launch_us[-1])]
    if len(times) < 3:
        return math.nan, len(times)
    if facts.arrival_profile is None:
        return scale.local_gaps(np.diff(times).astype(np.float64), LOCAL_GAPS)[1], len(times)
    flat = scale.rescale_by_profile(times, facts.arrival_profile, start_us)
    return coefficient_of_variation(np.diff(flat)), len(times)


def worker_rows(log: LaunchLog, grain: int, flat: Floats | None = None) -> list[Row]:
    """Launches of each worker on its own: worker, n (gaps), rate, cov (windowed), bunch_ms (None where no bunches).

    ``bunch_ms`` is the mean length of runs of gaps shorter than a tenth of the mean, where those are too frequent for
    independent launches: the scale below which the offsets of the clocks must lie. ``flat`` are the launch times of all
    without the grain of clock and timers, where they are known already.
    """
    rows: list[Row] = []
    present = np.flatnonzero(count_codes(log.worker, int(log.worker.max(initial=0)) + 1)).tolist()
    for worker in present:
        if flat is not None and len(present) == 1:
            times = flat
        else:
            times = flat_times(log.launch_us[log.worker == worker], None, 0, grain)
        if len(times) < 3 or times[-1] <= times[0]:
            rows.append({"worker": worker, "n": max(len(times) - 1, 0), "rate": None, "cov": None, "bunch_ms": None})
            continue
        gaps = np.diff(times)
        relative, cov = scale.local_gaps(gaps, LOCAL_GAPS)
        short = gaps < SHORT_GAP * gaps.mean()
        runs = int((short[1:] & ~short[:-1]).sum() + short[0])
        bunched = (relative < SHORT_GAP).mean() > 1.5 * SHORT_GAP_SHARE and runs
        bunch = float(gaps[short].sum()) / runs / 1e3 if bunched else None
        rows.append({"worker": worker, "n": len(gaps), "rate": 1e6 / gaps.mean(), "cov": cov, "bunch_ms": bunch})
    return rows
