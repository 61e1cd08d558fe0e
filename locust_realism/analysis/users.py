"""What single users did: think times, round trips, requests that belong to one task."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from locust_realism.analysis.intervals import user_ranks
from locust_realism.analysis.sums import inner_product
from locust_realism.recording.launches import LaunchLog

IN_TASK_SHARE = 0.01
"""A pause shorter than this share of the mean think time separates two requests of one task, not two tasks."""
SINGLE_REQUEST = 0.1
"""Below this share of such pauses every request counts as a task: an exponential think time has 1 % of them."""
MIN_USER_GAPS = 10
MOST_WEIGHT = 4.0
"""A time between launches counts at most so many times as much as a short one, however long it is."""
CLOCK_S = 0.002
"""A launch before the answer to the last request by no more than this comes from rounded times."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class UserTimes:
    """Times of users, in seconds; NaN where unknown.

    ``response_share`` is R / (R + Z) averaged over time, ``think_mean``, ``think_se`` and ``thinks`` the mean of the
    think times between tasks, its standard error and their number, ``round_trip`` the mean time from a task's launch
    to the same user's next, ``user_cov`` the median over users of the CoV of those, ``overlap`` the share of launches
    before the answer to the same user's last request, ``requests_per_task`` requests that follow without a think time,
    ``trips`` the single times from a task's launch to the same user's next, shape (m,).
    """

    users: int = 0
    thinks: int = 0
    response_share: float = math.nan
    think_mean: float = math.nan
    think_se: float = math.nan
    response_mean: float = math.nan
    round_trip: float = math.nan
    user_cov: float = math.nan
    overlap: float = math.nan
    requests_per_task: float = 1.0
    trips: Floats = field(default_factory=lambda: np.zeros(0), repr=False, compare=False)


@dataclass(frozen=True)
class _Steps:
    """From each launch to the same user's next one, user by user; ``row`` is the log's row of the later launch.

    ``response`` is the response time of the earlier one, 0 where it is not known: where ``answered`` is False.
    """

    row: NDArray[np.intp]
    user: NDArray[Any]
    gap: Floats
    response: Floats
    answered: NDArray[np.bool_]

    @property
    def think(self) -> Floats:
        """The pause after the answer; the whole gap where nobody knows when that came."""
        return np.maximum(self.gap - self.response, 0.0)

    def known(self) -> _Steps:
        """Those whose response time is known."""
        rows = self.answered
        return _Steps(self.row[rows], self.user[rows], self.gap[rows], self.response[rows], self.answered[rows])


def user_times(log: LaunchLog, *, max_rows: int = 1_000_000) -> UserTimes:
    """Times of users of a log in launch order; on long logs of as many whole users as ``max_rows`` rows hold.

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
    found = UserTimes(
        users=users,
        round_trip=float(trips.mean()) if len(trips) else math.nan,
        user_cov=user_cov,
        requests_per_task=per_task,
        trips=trips,
    )
    if not steps.answered.all():
        # How long a user waited and thought is known of requests that have a response time.
        within, steps = within[steps.answered], steps.known()
    return _with_waits(found, steps, within, int(log.launch_us[-1] - log.launch_us[0]) / 1e6)


def _with_waits(found: UserTimes, steps: _Steps, within: NDArray[np.bool_], window: float) -> UserTimes:
    """With what follows from response times: waits, think times, and whether users wait for their answers."""
    if not len(steps.gap):
        return found
    weight = _chance_to_be_seen(steps.gap, window)
    total = inner_product(weight, np.maximum(steps.gap, steps.response))
    think_mean, think_se = _weighted_mean(steps.think[~within], weight[~within])
    return replace(
        found,
        thinks=len(within) - int(within.sum()),
        response_share=inner_product(weight, steps.response) / total if total else math.nan,
        think_mean=think_mean,
        think_se=think_se,
        response_mean=float(steps.response.mean()),
        overlap=float((steps.gap < steps.response - CLOCK_S).mean()),
    )


def _chance_to_be_seen(gap: Floats, window: float) -> Floats:
    """Weights of times between two launches in a window of time: a long one is less likely to lie wholly within it.

    One of length g does for window - g of the window's moments at which it may begin, so it counts window / (window -
    g) times (Horvitz and Thompson 1952). Without that, uniform think times of 2.5 s seem 6 % too short in 16 s.
    """
    return window / np.maximum(window - gap, window / MOST_WEIGHT) if window > 0 else np.ones(len(gap))


def _weighted_mean(values: Floats, weight: Floats) -> tuple[float, float]:
    """Mean and its standard error; NaN where there are too few values."""
    if not len(values):
        return math.nan, math.nan
    total, n = float(weight.sum()), len(values)
    mean = inner_product(weight, values) / total
    if n < 2:
        return mean, math.nan
    off = weight * (values - mean)
    return mean, math.sqrt(inner_product(off, off) * n / (n - 1)) / total


def task_starts(log: LaunchLog) -> NDArray[np.bool_]:
    """Which launches of a log in launch order are the first request of a task, or of an unknown user."""
    ranks, _ = user_ranks(log)
    steps = _steps(log, ranks)
    start = np.ones(len(log), dtype=np.bool_)
    start[steps.row[_within_task(steps)]] = False
    return start


def _steps(log: LaunchLog, ranks: NDArray[Any]) -> _Steps:
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


def _within_task(steps: _Steps) -> NDArray[np.bool_]:
    """Pauses between requests of one task: shorter than hardly any think time is, but after the answer came."""
    think = steps.think
    if not len(think):
        return np.zeros(0, dtype=np.bool_)
    within: NDArray[np.bool_] = (think < IN_TASK_SHARE * think.mean()) & (steps.gap >= steps.response - CLOCK_S)
    return within if within.mean() > SINGLE_REQUEST else np.zeros(len(think), dtype=np.bool_)


def _round_trips(steps: _Steps, within: NDArray[np.bool_]) -> tuple[Floats, float]:
    """Times from each task's launch to the same user's next, and the median over users of their CoV."""
    # A task's round trip is the sum of the steps up to and including the one that follows a think time.
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
