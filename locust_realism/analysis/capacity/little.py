"""Little's law at levels of concurrency: the time that a task takes a user, from pauses that may be cut short.

N = X (R + Z), with X tasks per second, R the time of a task in which its user waits for a response and Z the rest of it
until the user's next task. X and Z are independent: X counts what begins in a level, Z follows the pauses that begin
there to their end, in later levels too. J. D. C. Little, A proof for the queuing formula L = lambda W, 1961.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from locust_realism.analysis.capacity.levels import Level
from locust_realism.analysis.percentiles import Floats, Int64, Integers
from locust_realism.analysis.stats.intervals import user_ranks
from locust_realism.analysis.stats.survival import Survival
from locust_realism.analysis.verdict.users import (
    ABSENT,
    MIN_USERS,
    MOST_SPAWNED,
    Booleans,
    Tasks,
    marks_tasks,
    user_tasks,
)
from locust_realism.recording.launches import MISSING, LaunchLog

MOST_UNSEEN = 0.1
"""Largest share of a mean pause that lies beyond what the log shows: the largest bias of a heavy tail."""
ENOUGH_PAUSES = 5.0
"""Mean pauses for which the only level of a log must last for that: simulated, 100 users, exponential pauses."""
TOO_SHORT = "too few pauses end in time. Hold {users} users for {seconds} s more"
VISITED_AGAIN = "too few pauses end before users leave. One visit of {seconds} s to {users} users would show it"
NO_PAUSE = "no pause of a user ends there. Let each user send several requests"
NO_RESPONSE = "no response time is known there"
NO_USERS = "the users of the requests were not recorded"
"""Reasons of an unknown think time, with what to do."""

MOST_ROWS = 200_000
"""Rows of the sample of users from which the times of a longer log come: their errors are below 1 %."""
TAIL_PAUSES = 20
"""Fewest ended pauses whose lengths give the tail: their mean is known to 22 %."""


@dataclass(frozen=True)
class LevelTimes:
    """Tasks of users at the levels, arrays of shape (levels,), NaN where unknown.

    - ``wait_s`` and ``think_s`` mean seconds of a task with a request of its user under way, and without
    - ``rate`` tasks per second
    - ``error`` relative standard error of ``rate`` times (``wait_s`` + ``think_s``) from the variation of users,
      known of 20 and more, and the share of the pauses that is not seen
    - ``missing_s`` seconds by which a level is too short for ``think_s``, 0 if it is not; all that it needs if it was
      visited several times
    - ``reasons`` of unknown times, empty strings for known ones
    """

    wait_s: Floats
    think_s: Floats
    rate: Floats
    error: Floats
    missing_s: Floats
    reasons: tuple[str, ...]


def level_times(log: LaunchLog, levels: Sequence[Level]) -> LevelTimes:
    """Return the times of the users' tasks at each level of a log in launch order; a user is a slot of a worker.

    A pause belongs to the level in which it begins. It is right-censored where the log ends or the number of users next
    falls, since its user may have left then; the product-limit estimator honours this. A recording marks the first
    tasks of users: their time is that of the spawner, so they do not count in ``rate``.

    >>> from locust_realism.analysis.capacity.levels import split_levels
    >>> log = LaunchLog.build(np.arange(40) * 1_000_000, 250_000, slot=0, users=1)
    >>> times = level_times(log, split_levels(log))
    >>> times.wait_s.tolist(), times.think_s.tolist(), times.rate.tolist()
    ([0.25], [0.75], [1.0])
    """
    ranks, users = user_ranks(log)
    stride = math.ceil(len(log) / MOST_ROWS)
    if users >= 2 * stride:
        ranks = np.where(ranks % stride == 0, ranks, MISSING)
    tasks = user_tasks(log, ranks)
    if not users or not len(tasks):
        return replace(given_times(levels, math.nan, math.nan), reasons=(NO_USERS,) * len(levels))
    level_of = np.full(len(log), -1, dtype=np.int16)
    for number, level in enumerate(levels):
        level_of[level.rows] = number
    since_s = (log.launch_us - log.launch_us[0]) / 1e6
    known = np.flatnonzero(log.users > 0)
    falls = known[1:][np.diff(log.users[known]) < 0]
    pauses, after = _pauses(tasks, falls_s=since_s[falls], end_s=float(since_s[-1]))
    begun_in = level_of[np.searchsorted(since_s, tasks.start, side="right") - 1]
    paused_in = level_of[np.searchsorted(since_s, (tasks.start + tasks.span)[after], side="right") - 1]
    entered = level_of[np.flatnonzero(np.diff(level_of, prepend=-2))]
    visits = np.bincount(entered + 1, minlength=len(levels) + 1)[1:]
    again = _after_a_pause(tasks, marked=marks_tasks(log))
    law = PauseLaw.of(pauses)
    rows = np.full((len(levels), 5), math.nan)
    rows[:, 4] = 0.0
    reasons = [""] * len(levels)
    for number, level in enumerate(levels):
        begun, paused = begun_in == number, paused_in == number
        answered = begun & np.isfinite(tasks.span)
        if not answered.any():
            reasons[number] = NO_RESPONSE
            continue
        wait, span = float(tasks.response[answered].mean()), float(tasks.span[answered].mean())
        here = pauses.take(paused)
        pause, unseen = PauseLaw.of(here).mean(law)
        if unseen <= MOST_UNSEEN:
            # A pause that is cut short lasts, in the mean, as long again as a pause.
            seconds = here.seconds + np.where(here.ended, 0.0, pause) + tasks.span[after[paused]]
            error = math.hypot(_error_of_users(tasks.user[after[paused]], seconds), unseen)
            rate = level.rate * int((begun & again).sum()) / int((ranks[level.rows] >= 0).sum())
            rows[number, :4] = wait, pause + span - wait, rate, error
        elif math.isfinite(pause):
            once = visits[number] == 1
            reasons[number] = TOO_SHORT if once else VISITED_AGAIN
            rows[number, 4] = max(ENOUGH_PAUSES * pause - once * level.duration_s, pause)
        else:
            reasons[number] = NO_PAUSE
    wait_s, think_s, rates, errors, missing_s = rows.T
    return LevelTimes(wait_s, think_s, rates, errors, missing_s, tuple(reasons))


def given_times(levels: Sequence[Level], wait_s: ArrayLike, think_s: float) -> LevelTimes:
    """Return the times of levels with a known think time, in which each request is a task."""
    shape = len(levels)
    rate = np.array([level.rate for level in levels])
    return LevelTimes(
        np.broadcast_to(np.asarray(wait_s, dtype=np.float64), shape),
        np.full(shape, think_s),
        rate,
        np.zeros(shape),
        np.zeros(shape),
        ("",) * shape,
    )


class Pauses(NamedTuple):
    """Seconds of pauses of users, shape (n,), and whether their end was seen."""

    seconds: Floats
    ended: Booleans

    def take(self, rows: Integers | Booleans) -> Pauses:
        return Pauses(self.seconds[rows], self.ended[rows])

    def mean_beyond(self, at: float) -> float:
        """Return the time in pauses beyond ``at`` over their ends there, the mean residual of exponential pauses."""
        ended = int((self.ended & (self.seconds > at)).sum())
        return float(np.maximum(self.seconds - at, 0.0).sum()) / ended if ended else math.nan

    def mean_of_tail(self) -> float:
        """Return the mean of what remains of a long pause, from the longest ``TAIL_PAUSES`` that ended."""
        ended = np.sort(self.seconds[self.ended])
        return self.mean_beyond(float(ended[-TAIL_PAUSES - 1]) if len(ended) > TAIL_PAUSES else 0.0)


class PauseLaw(NamedTuple):
    """Share of pauses longer than ``at`` (ascending, from 0), and the integral of it up to there: arrays of one shape.

    ``unseen`` is the integral beyond the last time.
    """

    at: Floats
    share: Floats
    integral: Floats
    unseen: float

    @classmethod
    def of(cls, pauses: Pauses) -> PauseLaw:
        """Return the product-limit estimate, with an exponential tail where the longest pauses are cut short.

        Source: Brown, Hollander and Korwar, Nonparametric tests of independence for censored data, 1974 (the tail).
        """
        # At equal times a pause that ends goes before one that is cut short.
        seconds, ended = pauses.take(np.lexsort((~pauses.ended, pauses.seconds)))
        longest = slice(max(len(seconds) - TAIL_PAUSES, 0), None)
        # The longest pauses of a heavy tail are cut short, so the last one that ends would stand for all.
        shown = slice(None) if ended[longest].all() else slice(longest.start)
        at = np.append(0.0, seconds[shown])
        curve = Survival(seconds, ended.astype(np.int64), (~ended).astype(np.int64))
        share = np.append(1.0, curve.longer[shown])
        integral = np.append(0.0, np.cumsum(share[:-1] * np.diff(at)))
        rest = float(share[-1])
        return cls(at, share, integral, rest * pauses.mean_of_tail() if rest > 0 else 0.0)

    def mean(self, law: PauseLaw) -> tuple[float, float]:
        """Return the mean pause and the share of it that no pause shows; ``law`` has the pauses of all levels.

        Where the longest pauses are cut short, ``law`` has their mean residual.
        """
        seen, end, rest = float(self.integral[-1]), float(self.at[-1]), float(self.share[-1])
        last = int(np.searchsorted(law.at, end, side="right")) - 1
        share = float(law.share[last])
        if rest > 0 and share > 0:
            beyond = float(law.integral[-1] - law.integral[last]) - share * (end - float(law.at[last])) + law.unseen
            mean, unseen = seen + rest / share * beyond, rest / share * law.unseen
        else:
            mean, unseen = seen + self.unseen, self.unseen
        return mean, 0.0 if mean == 0 else unseen / mean


def _after_a_pause(tasks: Tasks, *, marked: bool) -> Booleans:
    """Mark the tasks that are not the first of their user, all where the log does not mark them."""
    again = np.isfinite(tasks.think)
    # Users of few tasks: these are the load.
    return again if marked and again.mean() >= MOST_SPAWNED else np.ones(len(tasks), dtype=np.bool_)


def _pauses(tasks: Tasks, falls_s: Floats, end_s: float) -> tuple[Pauses, Int64]:
    """Return the pauses after tasks and the task of each; ``falls_s`` are times at which the number of users fell."""
    begin = tasks.start + tasks.span
    after = np.append(np.where(np.diff(tasks.user) == 0, tasks.start[1:], math.inf), math.inf)
    cut = np.append(falls_s, end_s)[np.searchsorted(falls_s, begin, side="right")]
    seconds, ended = np.maximum(np.minimum(after, cut) - begin, 0.0), after <= cut
    known = np.isfinite(begin) & (begin <= end_s)
    usual = Pauses(seconds[known], ended[known]).mean_beyond(0.0)
    # A user without a launch for much longer than a pause does not think: it is stuck, or has left.
    kept = np.flatnonzero(known & (ended | ~(seconds > ABSENT * usual)))
    return Pauses(seconds[kept], ended[kept]), kept


def _error_of_users(users: Integers, seconds: Floats) -> float:
    """Return the relative standard error of a sum over users of the ``seconds`` of each, 0 of too few users."""
    _, who = np.unique(users, return_inverse=True)
    each = np.bincount(who, weights=seconds)
    return float(each.std(ddof=1) / each.mean()) / math.sqrt(len(each)) if len(each) >= MIN_USERS else 0.0
