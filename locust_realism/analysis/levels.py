"""What was measured at each level of concurrency, with standard errors that honour autocorrelation.

A level is the number of users running in the whole test when a request was launched. The time that belongs to a level
is the time until the next launch, so that a slow ramp, a staircase and a population that comes and goes are measured
alike; neighbouring levels with few launches are merged.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from locust_realism.analysis.percentiles import Quantile, exact_quantile, percentiles
from locust_realism.recording.launches import LaunchLog

Floats = NDArray[np.float64]
Int64 = NDArray[np.int64]

MAX_LEVELS = 32
MIN_LAUNCHES = 24
"""Launches below which a level is merged with its neighbour: fewer say nothing about a standard error."""
MAX_BATCHES, MIN_BATCHES = 20, 4
PRIOR_BATCHES = 8
"""Weight, in batches, of the dispersion common to all levels in the estimate of one level's."""


@dataclass(frozen=True)
class Level:
    """Rows of one level of concurrency, in launch order.

    ``users`` is the mean number of users over the level's time, ``fewest`` and ``most`` its range; ``rows`` are indices
    into the log, ``gap_s`` the time after each launch that counts to this level, ``duration_s`` its sum.
    """

    users: float
    fewest: int
    most: int
    rows: Int64
    gap_s: Floats
    duration_s: float

    @property
    def rate(self) -> float:
        """Launches per second, X."""
        return len(self.rows) / self.duration_s if self.duration_s > 0 else math.nan


def split_levels(
    log: LaunchLog,
    *,
    max_levels: int = MAX_LEVELS,
    min_launches: int = MIN_LAUNCHES,
    min_seconds: float = 0.0,
    edges: Int64 | None = None,
) -> list[Level]:
    """The levels of a log in launch order, by growing number of users; empty where no users were recorded.

    A level with fewer than ``min_launches``, or shorter than ``min_seconds``, is merged with its neighbour.
    ``edges`` gives the smallest number of users of each level instead of finding them (:func:`level_edges`).

    >>> log = LaunchLog.build(range(0, 100_000_000, 1_000_000), 1, users=[5] * 50 + [10] * 50)
    >>> [(level.users, len(level.rows), round(level.rate, 2)) for level in split_levels(log)]
    [(5.0, 50, 1.0), (10.0, 49, 1.0)]
    """
    gap_s = np.diff(log.launch_us) / 1e6
    users = log.users[:-1]
    known = users > 0
    if not known.any():
        return []
    if edges is None:
        counts = np.bincount(users[known])
        seconds = np.bincount(users[known], weights=gap_s[known])
        enough = np.minimum(counts / min_launches, seconds / min_seconds if min_seconds > 0 else np.inf)
        edges = level_edges(enough, max_levels=max_levels)
    level_of = np.where(known, np.searchsorted(edges, users, side="right") - 1, -1).astype(np.int16)
    order = np.argsort(level_of, kind="stable")
    starts = np.searchsorted(level_of[order], np.arange(len(edges) + 1))
    levels = []
    for index in range(len(edges)):
        rows = order[starts[index] : starts[index + 1]]
        gaps = gap_s[rows]
        duration = float(gaps.sum())
        if len(rows) < min_launches or duration <= 0 or duration < min_seconds:
            continue
        at = users[rows]
        fewest, most = int(at.min()), int(at.max())
        # The weighted mean of equal numbers can miss them by a rounding error, and a level of 20 users is 20.
        mean = min(max(float(at @ gaps) / duration, fewest), most)
        levels.append(Level(float(mean), fewest, most, rows, gaps, duration))
    return levels


def level_edges(enough: Floats, *, max_levels: int = MAX_LEVELS) -> Int64:
    """Smallest number of users of each level, where ``enough[n]`` is the share of what a level needs that n users have.

    Neighbours are merged until each level has all that it needs and there are few enough.

    >>> level_edges(np.array([0, 50, 3, 3, 40]) / 24).tolist()
    [1, 2]
    """
    present = np.flatnonzero(enough)
    target = 1.0
    while True:
        edges, have = [], target
        for users in present.tolist():
            if have >= target:
                edges.append(users)
                have = 0.0
            have += float(enough[users])
        if len(edges) > 1 and have < target:
            edges.pop()
        if len(edges) <= max_levels:
            return np.array(edges, dtype=np.int64)
        target *= 2


def shown(value: float) -> str:
    """A number in a sentence: three figures, whole from 100 on, with thousands separators.

    >>> shown(1.499), shown(15.04), shown(1234.5)
    ('1.5', '15', '1,234')
    """
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def rate_errors(levels: list[Level]) -> Floats:
    """Standard error of each level's rate, shape (levels,), from batches of consecutive launches.

    With d the variance of a batch's count over its mean (1 for a Poisson process, less for a fixed pool of users), the
    error of X = n/T is X sqrt(d/n). d is estimated by the spread of the batches' durations and drawn towards the mean
    d of all levels, so that a level with few batches cannot claim to be exact by chance.
    """
    spread, freedom = [], []
    for level in levels:
        batches = batch_count(len(level.rows))
        edges = np.linspace(0, len(level.rows), batches + 1).astype(np.int64)
        duration = np.add.reduceat(level.gap_s, edges[:-1])
        size = len(level.rows) / batches
        mean_gap = level.duration_s / len(level.rows)
        spread.append(float(np.var(duration - mean_gap * np.diff(edges), ddof=1)) / (size * mean_gap**2))
        freedom.append(batches - 1)
    d, df = np.array(spread), np.array(freedom, dtype=np.float64)
    common = float(d @ df / df.sum()) if len(d) else 0.0
    shrunk = (df * d + PRIOR_BATCHES * common) / (df + PRIOR_BATCHES)
    n = np.array([len(level.rows) for level in levels], dtype=np.float64)
    rate = np.array([level.rate for level in levels])
    # Counting whole launches alone leaves an uncertainty of about one in n.
    return np.asarray(rate * np.maximum(np.sqrt(shrunk / n), 0.3 / n), dtype=np.float64)


def batch_count(n: int) -> int:
    """Into how many consecutive batches n launches are cut: at least 6 in each, 4 to 20 batches.

    >>> batch_count(24), batch_count(60), batch_count(10_000)
    (4, 10, 20)
    """
    return min(MAX_BATCHES, max(MIN_BATCHES, n // 6))


def quantile_errors(values: NDArray[Any], quantile: Quantile, *, rule: str = "nearest_rank") -> tuple[float, float]:
    """A percentile of values in time order and its standard error from batches, NaN where there are too few values.

    A batch must hold at least 5 values beyond the quantile, and there must be at least 4 batches.
    """
    p = exact_quantile(quantile)
    beyond = min(p, 1 - p)
    batches = min(MAX_BATCHES, math.floor(len(values) * beyond / 5))
    value = float(percentiles(values, [quantile], rule)[0])
    if batches < MIN_BATCHES:
        return value, math.nan
    pieces = [percentiles(piece, [quantile], rule)[0] for piece in np.array_split(values, batches)]
    return value, float(np.std(pieces, ddof=1)) / math.sqrt(batches)


def think_times(log: LaunchLog, levels: list[Level]) -> list[float | None]:
    """Mean time in seconds between a user's response and that user's next launch, at each level.

    ``log`` is in launch order. Users are told apart by worker and slot. A pause counts where the number of users stayed
    the same from its start to its end: a slot that was given back and taken again has no pause, but nobody in it. This
    counts all the time in which a user has no request under way, so that Z + R is the round trip of Little's law. None
    where no slots were recorded or less than 90 % of the pauses count, as where users come and go all the time.
    """
    think = np.full(len(log), np.nan)
    known = np.flatnonzero(log.slot >= 0)
    if len(known):
        held = np.concatenate(([0], np.cumsum(np.diff(log.users) != 0)))
        user = log.worker[known].astype(np.int64) * (int(log.slot.max()) + 1) + log.slot[known]
        # A stable sort keeps each user's launches in launch order, in which the log is.
        order = known[np.argsort(user.astype(np.int32) if user.max() < 2**31 else user, kind="stable")]
        a, b = order[:-1], order[1:]
        same = (log.slot[a] == log.slot[b]) & (log.worker[a] == log.worker[b]) & (held[a] == held[b])
        same &= log.response_us[a] >= 0  # nobody knows when the pause began after an answer without a time
        pause = (log.launch_us[b] - log.launch_us[a] - log.response_us[a]) / 1e6
        think[a[same]] = pause[same]
    means: list[float | None] = []
    for level in levels:
        here = think[level.rows]
        here = here[np.isfinite(here)]
        # Each user's last launch at a level has no next one there.
        due = len(level.rows) - min(level.most, len(level.rows) // 2)
        means.append(float(here.mean()) if len(here) >= 0.9 * due and len(here) else None)
    return means
