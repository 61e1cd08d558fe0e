"""Levels of concurrency: the launches at each number of users, their figures, and the standard error of their rate.

A level is the number of users running in the whole test at a launch. The time of a level is the time from its launches
to the next launch, so that a slow ramp, a staircase and a population that comes and goes are measured alike.
Neighbouring numbers of users with few launches share a level.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from locust_realism.analysis.document import LevelRow
from locust_realism.analysis.percentiles import Floats, Int64
from locust_realism.analysis.stats.estimates import batch_error
from locust_realism.analysis.stats.responses import part_figures
from locust_realism.recording.launches import LaunchLog

MAX_LEVELS = 32
MIN_LAUNCHES = 24
"""Fewest launches of a level; fewer are too few for a standard error."""
PRIOR_BATCHES = 8
"""Weight, in batches, of the dispersion common to all levels in the estimate of one level's."""


@dataclass(frozen=True)
class Level:
    """Launches at one level of concurrency, in launch order.

    ``users`` is the mean number of users over the level's time, ``fewest`` and ``most`` its range; ``rows`` are indices
    into the log. ``gap_s`` is the time after each launch until the next (the last launch of a log has none),
    ``duration_s`` its sum.
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
        return len(self.gap_s) / self.duration_s


def split_levels(log: LaunchLog, *, min_seconds: float = 0.0, edges: Int64 | None = None) -> list[Level]:
    """Return the levels of a log in launch order, by growing number of users; empty without known users.

    Numbers of users with fewer than ``MIN_LAUNCHES``, or shorter than ``min_seconds``, share a level with their
    neighbours, and are left out where they are too few even together, as in a short ramp between two levels. A single
    level may be shorter. ``edges`` are the smallest numbers of users of each level, by default :func:`level_edges`.

    >>> log = LaunchLog.build(range(0, 100_000_000, 1_000_000), 1, users=[5] * 50 + [10] * 50)
    >>> [(level.users, len(level.rows), round(level.rate, 2)) for level in split_levels(log)]
    [(5.0, 50, 1.0), (10.0, 50, 1.0)]
    """
    gap_s, users = np.diff(log.launch_us) / 1e6, log.users
    known = users > 0
    if not known.any():
        return []
    if edges is None:
        counts = np.bincount(users[known])
        seconds = np.bincount(users[:-1][known[:-1]], weights=gap_s[known[:-1]], minlength=len(counts))
        enough = np.minimum(counts / MIN_LAUNCHES, seconds / min_seconds if min_seconds > 0 else np.inf)
        edges = level_edges(enough)
        edges[:1] = users[known].min()
    level_of = np.where(known, np.searchsorted(edges, users, side="right") - 1, -1).astype(np.int16)
    order = np.argsort(level_of, kind="stable")
    starts = np.searchsorted(level_of[order], np.arange(len(edges) + 1))
    levels = []
    for start, end in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        rows = order[start:end]
        gaps = gap_s[rows[: np.searchsorted(rows, len(gap_s))]]
        duration = float(gaps.sum())
        if len(rows) < MIN_LAUNCHES or duration <= 0 or (duration < min_seconds and len(edges) > 1):
            continue
        at = users[rows]
        fewest, most = int(at.min()), int(at.max())
        # The weighted mean of equal numbers can miss them by a rounding error, and a level of 20 users is 20.
        mean = min(max(float(at[: len(gaps)] @ gaps) / duration, fewest), most)
        levels.append(Level(float(mean), fewest, most, rows, gaps, duration))
    return levels


def level_edges(enough: Floats, *, max_levels: int = MAX_LEVELS) -> Int64:
    """Return the smallest number of users of each level.

    ``enough[n]`` is the number of launches at n users, as a share of the launches that a level needs. A number that has
    enough begins a level of its own; others share one until they have enough together. The shares that are needed
    double until there are at most ``max_levels``.

    >>> level_edges(np.array([0, 50, 3, 3, 40, 20, 20]) / 24).tolist()
    [1, 2, 4, 5]
    """
    present = np.flatnonzero(enough)
    target = 1.0
    while True:
        edges, have = [], target
        for users in present.tolist():
            if have >= target or enough[users] >= target:
                edges.append(users)
                have = 0.0
            have += float(enough[users])
        if len(edges) > 1 and have < target:
            edges.pop()
        if len(edges) <= max_levels:
            return np.array(edges, dtype=np.int64)
        target *= 2


def shown(value: float) -> str:
    """Return a number for a sentence: three figures, whole from 100 on, with thousands separators.

    >>> shown(1.499), shown(15.04), shown(1234.5)
    ('1.5', '15', '1,234')
    """
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def level_rows(log: LaunchLog, levels: Sequence[Level], rule: str) -> list[LevelRow]:
    """Return the figures of each level of a log in launch order; the CoV is that of gaps within the level."""
    failed = log.failed
    rows: list[LevelRow] = []
    for level in levels:
        gaps_us = np.diff(log.launch_us[level.rows])[np.diff(level.rows) == 1]
        failures = int(failed[level.rows].sum())
        figures = part_figures(log.response_us[level.rows], failures, gaps_us, level.rate, level.duration_s, rule)
        # Little's law: X R users wait on average, so that their share of all users is R / (R + Z).
        share = level.rate * (figures["mean_ms"] or math.nan) / 1e3 / level.users
        rows.append({
            "kind": "level", "users": level.users, "users_low": level.fewest, "users_high": level.most,
            **figures, "response_share": share,
        })  # fmt: skip
    return rows


def rate_errors(levels: Sequence[Level]) -> Floats:
    """Return the standard error of each level's rate, shape (levels,), from batches of consecutive launches.

    With d the variance of a batch's count over its mean (1 for a Poisson process, less for a fixed pool of users), the
    error of X = n/T is X sqrt(d/n). d comes from the batches' spread and is drawn towards the mean d of all levels, so
    that a level with few batches cannot be exact by chance.
    """
    n = np.array([len(level.gap_s) for level in levels], dtype=np.float64)
    mean_gap = np.array([level.duration_s for level in levels]) / n
    error, freedom = np.array([batch_error(level.gap_s) for level in levels]).reshape(-1, 2).T
    d = n * (error / mean_gap) ** 2
    common = float(d @ freedom / freedom.sum()) if len(d) else 0.0
    shrunk = (freedom * d + PRIOR_BATCHES * common) / (freedom + PRIOR_BATCHES)
    # A count of whole launches alone is uncertain by about one in n.
    return np.asarray(np.maximum(np.sqrt(shrunk / n), 0.3 / n) / mean_gap, dtype=np.float64)
