"""Think times, round trips and tasks of single users."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from locust_realism.analysis.percentiles import Floats, Int64, Integers
from locust_realism.analysis.stats.intervals import inner_product, user_ranks
from locust_realism.recording.launches import LaunchLog

Booleans = NDArray[np.bool_]

IN_TASK_SHARE = 0.01
"""Share of the mean think time below which a pause separates two requests of one task, not two tasks."""
SINGLE_REQUEST = 0.1
"""Share of such pauses below which every request counts as a task: an exponential think time has 1 % of them."""
MIN_USER_GAPS = 10
MOST_WEIGHT = 4.0
"""Largest weight of a time between launches; a short one has 1."""
CLOCK_S = 0.002
"""Overlap in seconds of a launch with the last response that rounded times explain."""


@dataclass(frozen=True)
class UserTimes:
    """Times of users, in seconds; NaN where unknown.

    - ``response_share`` R / (R + Z), averaged over time
    - ``think_mean``, ``think_se`` mean of the think times between tasks, and its standard error
    - ``round_trip`` mean time from a task's launch to the same user's next, ``trips`` these times, shape (m,)
    - ``user_cov`` median over users of the CoV of their round trips
    - ``overlap`` share of launches before the answer to the same user's last request
    - ``requests_per_task`` requests that follow each other without a think time
    """

    users: int = 0
    response_share: float = math.nan
    think_mean: float = math.nan
    think_se: float = math.nan
    round_trip: float = math.nan
    user_cov: float = math.nan
    overlap: float = math.nan
    requests_per_task: float = 1.0
    trips: Floats = field(default_factory=lambda: np.zeros(0), repr=False, compare=False)


@dataclass(frozen=True)
class _Steps:
    """Steps from each launch to the same user's next one, user by user; ``row`` is the later launch's row in the log.

    ``response`` is the response time of the earlier launch in seconds, 0 where it is unknown (``answered`` False).
    """

    row: Int64
    user: Integers
    gap: Floats
    response: Floats
    answered: Booleans

    @property
    def think(self) -> Floats:
        """Pause after the answer in seconds; the whole gap where the answer has no time."""
        return np.maximum(self.gap - self.response, 0.0)

    def take(self, rows: Booleans) -> _Steps:
        """Return the steps of a selection."""
        return _Steps(self.row[rows], self.user[rows], self.gap[rows], self.response[rows], self.answered[rows])


def user_times(log: LaunchLog, *, max_rows: int = 1_000_000) -> UserTimes:
    """Return the times of users of a log in launch order; a long log is sampled by user, to ``max_rows`` rows.

    >>> log = LaunchLog.build(np.arange(40) * 1_000_000, 250_000, slot=0)
    >>> found = user_times(log)
    >>> found.response_share, found.think_mean, found.user_cov
    (0.25, 0.75, 0.0)
    """
    ranks, users = user_ranks(log)
    stride = max(1, math.ceil(len(log) / max_rows))
    if stride > 1 and users >= 2 * stride:
        ranks = np.where(ranks % stride == 0, ranks, -1)
    steps = _steps(log, ranks)
    if not len(steps.gap) or not users:
        return UserTimes(users=users)
    within = _within_task(steps)
    per_task = 1 / (1 - float(within.mean())) if within.any() and not within.all() else 1.0
    trips, user_cov = _round_trips(steps, within)
    mean = float(trips.mean()) if len(trips) else math.nan
    found = UserTimes(users, round_trip=mean, user_cov=user_cov, requests_per_task=per_task, trips=trips)
    if not steps.answered.all():
        # Waits and think times need a response time.
        within, steps = within[steps.answered], steps.take(steps.answered)
    return _with_waits(found, steps, within, int(log.launch_us[-1] - log.launch_us[0]) / 1e6)


def _with_waits(found: UserTimes, steps: _Steps, within: Booleans, window: float) -> UserTimes:
    """Add the figures that need response times: share of waiting, think times, overlap."""
    if not len(steps.gap):
        return found
    weight = _chance_to_be_seen(steps.gap, window)
    total = inner_product(weight, np.maximum(steps.gap, steps.response))
    think_mean, think_se = _weighted_mean(steps.think[~within], weight[~within])
    return replace(
        found,
        response_share=inner_product(weight, steps.response) / total if total else math.nan,
        think_mean=think_mean,
        think_se=think_se,
        overlap=float((steps.gap < steps.response - CLOCK_S).mean()),
    )


def _chance_to_be_seen(gap: Floats, window: float) -> Floats:
    """Return weights of times between two launches: a long one is less likely to lie wholly in the window.

    A time g fits for window - g of the window's instants, so it counts window / (window - g) times (Horvitz and
    Thompson 1952). Without weights, uniform think times of 2.5 s seem 6 % too short in 16 s.
    """
    return window / np.maximum(window - gap, window / MOST_WEIGHT) if window > 0 else np.ones(len(gap))


def _weighted_mean(values: Floats, weight: Floats) -> tuple[float, float]:
    """Return the weighted mean and its standard error; NaN for too few values."""
    if not len(values):
        return math.nan, math.nan
    total, n = float(weight.sum()), len(values)
    mean = inner_product(weight, values) / total
    off = weight * (values - mean)
    return mean, math.sqrt(inner_product(off, off) * n / (n - 1)) / total if n > 1 else math.nan


def task_starts(log: LaunchLog) -> Booleans:
    """Mark the launches, of a log in launch order, that begin a task; one of an unknown user does."""
    steps = _steps(log, user_ranks(log)[0])
    start = np.ones(len(log), dtype=np.bool_)
    start[steps.row[_within_task(steps)]] = False
    return start


def _steps(log: LaunchLog, ranks: Integers) -> _Steps:
    rows = np.flatnonzero(ranks >= 0)
    who = ranks[rows]
    narrow = who.astype(np.uint16) if len(who) and int(who.max()) < 2**16 else who
    order = np.argsort(narrow, kind="stable")
    rows, who = rows[order], who[order]
    same = np.flatnonzero(who[1:] == who[:-1])
    launches = log.launch_us[rows]
    gap = (launches[1:] - launches[:-1])[same] / 1e6
    response = log.response_us[rows[:-1][same]]
    return _Steps(rows[1:][same], who[1:][same], gap, np.maximum(response, 0) / 1e6, response >= 0)


def _within_task(steps: _Steps) -> Booleans:
    """Mark the pauses between requests of one task: shorter than almost every think time, but after the answer."""
    think = steps.think
    if not len(think):
        return np.zeros(0, dtype=np.bool_)
    within: Booleans = (think < IN_TASK_SHARE * think.mean()) & (steps.gap >= steps.response - CLOCK_S)
    return within if within.mean() > SINGLE_REQUEST else np.zeros(len(think), dtype=np.bool_)


def _round_trips(steps: _Steps, within: Booleans) -> tuple[Floats, float]:
    """Return the times from each task's launch to the same user's next, and the median over users of their CoV."""
    # A task's round trip is the sum of its steps, the one with the think time last.
    fresh = np.concatenate(([True], steps.user[1:] != steps.user[:-1]))
    ends = ~within
    number = np.cumsum(np.concatenate(([False], ends[:-1])) | fresh) - 1
    trips: Floats = np.bincount(number, weights=steps.gap).astype(np.float64)
    complete = np.zeros(len(trips), dtype=np.bool_)
    complete[number[ends]] = True
    user = steps.user[np.flatnonzero(np.concatenate(([True], np.diff(number) > 0)))][complete]
    trips = trips[complete]
    if not len(trips):
        return trips, math.nan
    _, who = np.unique(user, return_inverse=True)
    count = np.bincount(who)
    mean = np.bincount(who, weights=trips) / count
    squares = np.bincount(who, weights=(trips - mean[who]) ** 2)
    enough = (count >= MIN_USER_GAPS) & (mean > 0)
    if not enough.any():
        return trips, math.nan
    covs = np.sqrt(squares[enough] / (count[enough] - 1)) / mean[enough]
    return trips, float(np.median(covs))
