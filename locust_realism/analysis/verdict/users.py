"""Tasks of users, the unit of the verdict, and the think times and round trips of single users.

A recording marks the tasks (columns ``task`` and ``think_us``); in other logs the pauses of a user separate them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from locust_realism.analysis.percentiles import Floats, Int64, Integers
from locust_realism.analysis.stats.intervals import inner_product, user_ranks
from locust_realism.recording.launches import MISSING, LaunchLog

Booleans = NDArray[np.bool_]

IN_TASK_SHARE = 0.01
"""Share of the mean think time below which a pause separates two requests of one task, not two tasks."""
SINGLE_REQUEST = 0.1
"""Share of such pauses below which every request counts as a task: an exponential think time has 1 % of them."""
MIN_USER_GAPS = 10
MIN_USERS = 20
"""Fewest users whose differences give the standard error of the think time; of fewer ones the round trips do."""
ABSENT = 10.0
"""Mean round trips without a launch after which a user counts as absent."""
MOST_SPAWNED = 0.5
"""Largest share of launches in first tasks that are left out."""
CLOCK_S = 0.002
"""Overlap in seconds of a launch with the last response that rounded times explain."""


@dataclass(frozen=True)
class UserTimes:
    """Times of users, in seconds; NaN where unknown.

    - ``users`` number of users that launched something, ``present`` mean number of users in the test
    - ``response_share`` share of their time that users wait for answers, R / (R + Z) without other work in the tasks;
      R is the time of a task with a request under way
    - ``think_mean``, ``think_se`` mean of the think times between tasks, and its standard error
    - ``round_trip`` user-seconds a task, ``trips`` times from a task's launch to the same user's next, shape (m,)
    - ``user_cov`` median over users of the CoV of their round trips
    - ``overlap`` share of tasks begun before the last response to the same user's previous task
    - ``requests_per_task`` mean number of requests of a task
    - ``inferred`` True if pauses separate the tasks, since the log does not mark them
    """

    users: int = 0
    response_share: float = math.nan
    think_mean: float = math.nan
    think_se: float = math.nan
    round_trip: float = math.nan
    user_cov: float = math.nan
    overlap: float = math.nan
    requests_per_task: float = 1.0
    present: float = math.nan
    inferred: bool = False
    trips: Floats = field(default_factory=lambda: np.zeros(0), repr=False, compare=False)


@dataclass(frozen=True)
class Tasks:
    """Tasks of users as columns of shape (n,), by user and launch.

    ``start`` is the first launch, ``span`` the time to the last response and ``response`` the part of it with a request
    under way, in seconds, NaN where a response time is unknown; ``think`` is the recorded pause before the task, NaN
    where unknown.
    """

    user: Integers
    start: Floats
    span: Floats
    response: Floats
    think: Floats

    def __len__(self) -> int:
        return len(self.user)


def marks_tasks(log: LaunchLog) -> bool:
    """Return True if the log says which task each request belongs to."""
    return bool((log.task >= 0).any())


def task_numbers(log: LaunchLog, *, spawned: bool = False) -> Int64:
    """Return a number of the task of each launch of a log in launch order, shape (n,), equal within a task only.

    Where the log marks tasks, launches of users outside of tasks have MISSING; else a pause longer than 1 % of the mean
    pause ends a task. A launch of an unknown user is a task of its own. ``spawned`` leaves out unplanned first tasks of
    users: the spawner of a fixed pool chose their time, not the users.

    >>> log = LaunchLog.build([0, 1, 2, 900, 901], 1, slot=[0, 0, 1, 0, -1], task=[0, 0, 1, -1, -1])
    >>> task_numbers(log).tolist()
    [0, 0, 1, -1, 2]
    """
    key = _marked_keys(log) if marks_tasks(log) else _inferred_keys(log)
    if spawned and marks_tasks(log):
        planned = np.unique(key[log.planned_us >= 0])
        first = (log.slot >= 0) & (log.think_us < 0) & ~np.isin(key, planned)
        # Users that leave after a task have first tasks only: these are the load then.
        if first.mean() <= MOST_SPAWNED:
            key[first] = MISSING
    alone = (key < 0) & (log.slot < 0)
    key[alone] = np.arange(int(alone.sum())) + (int(key.max(initial=-1)) + 1)
    return key


def _marked_keys(log: LaunchLog) -> Int64:
    """Return keys of (worker, task)."""
    workers = int(log.worker.max(initial=0)) + 1
    return np.where(log.task >= 0, log.task * workers + log.worker, np.int64(MISSING))


def _inferred_keys(log: LaunchLog) -> Int64:
    """Return keys that change after each pause of a user that is no pause within a task."""
    key = np.full(len(log), MISSING, dtype=np.int64)
    rows, who = _by_user(user_ranks(log)[0])
    if not len(rows):
        return key
    launches, response = log.launch_us[rows], log.response_us[rows]
    same = who[1:] == who[:-1]
    gap = np.diff(launches) / 1e6
    waited = np.maximum(response[:-1], 0) / 1e6
    pause = np.maximum(gap - waited, 0.0)
    # Pauses within a task are shorter than almost every think time, and lie after the response.
    mean = float(pause[same].mean()) if same.any() else 0.0
    within = same & (pause < IN_TASK_SHARE * mean) & (gap >= waited - CLOCK_S)
    if not within.sum() > SINGLE_REQUEST * same.sum():
        within[:] = False
    key[rows] = np.cumsum(np.concatenate(([0], ~within)))
    return key


def _by_user(ranks: Integers) -> tuple[Int64, Integers]:
    """Return the rows of known users by user, each user's in their order, and the user of each."""
    rows = np.flatnonzero(ranks >= 0)
    who = ranks[rows]
    narrow = who.astype(np.uint16) if len(who) and int(who.max()) < 2**16 else who
    order = np.argsort(narrow, kind="stable")
    return rows[order], who[order]


def task_starts(log: LaunchLog, *, spawned: bool = False) -> Booleans:
    """Mark the launches, of a log in launch order, that begin a task; one of an unknown user does.

    ``spawned`` as in :func:`task_numbers`.
    """
    found = np.zeros(len(log), dtype=np.bool_)
    found[first_rows(task_numbers(log, spawned=spawned))] = True
    return found


def first_rows(numbers: Int64) -> Int64:
    """Return the rows of the first launch of each number except MISSING, in order of launch.

    >>> first_rows(np.array([4, 4, -1, 2, 4, 2])).tolist()
    [0, 3]
    """
    known = np.flatnonzero(numbers >= 0)
    return np.sort(known[np.unique(numbers[known], return_index=True)[1]])


def begun_within(log: LaunchLog, rows: slice) -> LaunchLog:
    """Return ``rows`` of a log in launch order, without the launches of tasks that began before them.

    >>> log = LaunchLog.build([0, 1, 2, 3], 1, slot=0, task=[0, 0, 1, 1])
    >>> begun_within(log, slice(1, 4)).launch_us.tolist()
    [2, 3]
    """
    part = log.take(rows)
    if not rows.start or not marks_tasks(part):
        return part
    key = _marked_keys(log)  # of the whole log: a worker may be in one part only
    return part.take((key[rows] < 0) | ~np.isin(key[rows], np.unique(key[: rows.start])))


def user_tasks(log: LaunchLog, ranks: Integers) -> Tasks:
    """Return the tasks of the users with a rank >= 0, of a log in launch order."""
    numbers = np.where(ranks >= 0, task_numbers(log), MISSING)
    rows = np.flatnonzero(numbers >= 0)
    if not len(rows):
        return Tasks(np.zeros(0, dtype=np.int32), *(np.zeros(0) for _ in range(4)))
    rows = rows[np.argsort(numbers[rows], kind="stable")]
    edges = np.flatnonzero(np.diff(numbers[rows], prepend=-1))
    response = log.response_us[rows]
    first = rows[edges]
    start = log.launch_us[first]
    span, waited = _waits(log.launch_us[rows], np.maximum(response, 0), edges)
    answered = np.minimum.reduceat(response, edges) >= 0
    think = log.think_us[first]
    order = np.lexsort((start, ranks[first]))
    return Tasks(
        ranks[first][order],
        ((start - log.launch_us[0]) / 1e6)[order],
        np.where(answered, span / 1e6, math.nan)[order],
        np.where(answered, waited / 1e6, math.nan)[order],
        np.where(think >= 0, think / 1e6, math.nan)[order],
    )


def _waits(launches: Int64, response: Int64, edges: Int64) -> tuple[Int64, Int64]:
    """Return the span of each task and the union of its response intervals, in the unit of the times.

    Tasks begin at ``edges``, their requests are in launch order.

    >>> waits = _waits(np.array([0, 5, 30, 7]), np.array([10, 10, 1, 4]), np.array([0, 3]))
    >>> [each.tolist() for each in waits]
    [[31, 4], [16, 4]]
    """
    start = launches[edges]
    span = np.maximum.reduceat(launches + response, edges) - start
    # One after the other on one axis, no task reaches into the next.
    moved = launches + np.repeat(np.cumsum(span) - span - start, np.diff(edges, append=len(launches)))
    reach = np.maximum.accumulate(moved + response)
    idle = np.concatenate(([0], np.maximum(moved[1:] - reach[:-1], 0)))
    return span, span - np.add.reduceat(idle, edges)


def user_times(log: LaunchLog, *, max_rows: int = 1_000_000) -> UserTimes:
    """Return the times of users of a log in launch order; a long log is sampled by user, to ``max_rows`` rows.

    Think time and R / (R + Z) follow from renewal-reward: U users in T seconds begin n tasks, so that a task takes
    U T / n: the wait R, the think time Z and other work, which is code and sleeps in the task. Unlike pauses that lie
    wholly in the window, this has no bias in a short one.
    Source: S. M. Ross, Introduction to Probability Models, chapter 7 (renewal reward processes).

    >>> log = LaunchLog.build(np.arange(40) * 1_000_000, 250_000, slot=0)
    >>> found = user_times(log)
    >>> found.response_share, found.think_mean, found.user_cov
    (0.25, 0.75, 0.0)
    """
    ranks, users = user_ranks(log)
    stride = max(1, math.ceil(len(log) / max_rows))
    kept = users
    if stride > 1 and users >= 2 * stride:
        ranks = np.where(ranks % stride == 0, ranks, -1)
        kept = math.ceil(users / stride)
    tasks = user_tasks(log, ranks)
    if len(tasks) < 2 or not users:
        return UserTimes(users=users)
    follows = tasks.user[1:] == tasks.user[:-1]
    gap = np.diff(tasks.start)
    trips: Floats = gap[follows]
    span = float(np.ptp(tasks.start))
    recorded = _recorded_users(log)
    present = recorded * kept / users if recorded else _launching_users(tasks, span, gap[follows])
    # The first and the last task are n - 1 mean distances apart.
    seconds = span * len(tasks) / (len(tasks) - 1)
    found = UserTimes(
        users,
        round_trip=present * seconds / len(tasks) if present * seconds > 0 else math.nan,
        user_cov=_median_cov(tasks.user[1:][follows], trips),
        requests_per_task=_requests_per_task(log, ranks, len(tasks)),
        present=present * users / kept,
        inferred=not marks_tasks(log),
        trips=trips,
    )
    lasted = tasks.span[:-1][follows]
    answered = np.isfinite(lasted)
    whole = _whole(tasks, float(log.launch_us[-1] - log.launch_us[0]) / 1e6, found.requests_per_task)
    if not whole.any() or math.isnan(found.round_trip):
        return found
    # Other work is that between the responses, which is part of the span, and that after the last one.
    other_after = _after(trips, lasted, tasks.think[1:][follows])
    think_mean = found.round_trip - float(tasks.span[whole].mean()) - other_after
    return replace(
        found,
        response_share=min(float(tasks.response[whole].mean()) / found.round_trip, 1.0),
        think_mean=max(think_mean, 0.0),
        think_se=_think_error(tasks, whole, seconds, present, trips[answered] - lasted[answered]),
        overlap=float((trips[answered] < lasted[answered] - CLOCK_S).mean()) if answered.any() else math.nan,
    )


def _recorded_users(log: LaunchLog) -> float:
    """Return the recorded number of users, averaged over time, 0 where unknown."""
    known = np.flatnonzero(log.users >= 0)
    if not len(known):
        return 0.0
    at, count = log.launch_us[known], log.users[known].astype(np.float64)
    span = float(at[-1] - at[0])
    return inner_product(count[:-1], np.diff(at).astype(np.float64)) / span if span > 0 else float(count.mean())


def _launching_users(tasks: Tasks, span: float, trips: Floats) -> float:
    """Return the number of users, averaged over time, of a log that does not record it.

    A user without a launch for ``ABSENT`` mean round trips at an end of the log was not there yet or had left.
    """
    edges = np.flatnonzero(np.diff(tasks.user, prepend=-1))
    first = tasks.start[edges] - tasks.start.min()
    last = tasks.start[np.append(edges[1:], len(tasks)) - 1] - tasks.start.min()
    if span <= 0 or not len(trips):
        return float(len(edges))
    trip = float(trips.mean())
    begin = np.where(first > ABSENT * trip, first, 0.0)
    end = np.where(span - last > ABSENT * trip, last + trip, span)
    return float((end - begin).sum()) / span


def _requests_per_task(log: LaunchLog, ranks: Integers, tasks: int) -> float:
    inside = (ranks >= 0) & (log.task >= 0) if marks_tasks(log) else ranks >= 0
    return float(inside.sum()) / tasks


def _whole(tasks: Tasks, end_s: float, requests: float) -> Booleans:
    """Mark the answered tasks that began early enough to be complete at the end of the log."""
    answered = np.isfinite(tasks.span)
    if requests <= 1 or not answered.any():
        return answered
    return answered & (tasks.start <= max(end_s - float(tasks.span[answered].max()), end_s / 2))


def _after(trips: Floats, spans: Floats, think: Floats) -> float:
    """Return the mean work of a task after its last response in seconds, 0 where the log does not have think times."""
    after = trips - spans - think
    after = after[np.isfinite(after)]
    return max(float(after.mean()), 0.0) if len(after) else 0.0


def _think_error(tasks: Tasks, whole: Booleans, seconds: float, present: float, pauses: Floats) -> float:
    """Return the standard error of the think time, with ``present`` users for ``seconds``.

    User u is in n_u tasks for S_u seconds; ``seconds`` - S_u - n_u Z varies from user to user. Of a few users
    the variation of their ``pauses`` counts. A task that is not ``whole`` has the mean span.
    """
    n = len(tasks)
    _, who = np.unique(tasks.user, return_inverse=True)
    counts = np.bincount(who)
    if len(counts) < MIN_USERS:
        return float(pauses.std(ddof=1)) / math.sqrt(n) if len(pauses) > 1 else math.nan
    idle = max(round(present) - len(counts), 0)
    spans = np.where(whole, tasks.span, tasks.span[whole].mean())
    off = np.pad(np.bincount(who, weights=spans), (0, idle))
    counts = np.pad(counts, (0, idle))
    off += counts * ((seconds - off.mean()) / counts.mean()) - seconds
    return math.sqrt(float((off**2).sum()) * len(off) / (len(off) - 1)) / n


def _median_cov(user: Integers, trips: Floats) -> float:
    """Return the median over users of the CoV of their round trips; NaN if no user has ``MIN_USER_GAPS``."""
    if not len(trips):
        return math.nan
    _, who = np.unique(user, return_inverse=True)
    count = np.bincount(who)
    mean = np.bincount(who, weights=trips) / count
    squares = np.bincount(who, weights=(trips - mean[who]) ** 2)
    enough = (count >= MIN_USER_GAPS) & (mean > 0)
    return float(np.median(np.sqrt(squares[enough] / (count[enough] - 1)) / mean[enough])) if enough.any() else math.nan
