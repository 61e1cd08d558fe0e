"""Rules of a paced wait, without a clock and without Locust: the assignment of launches to waiting users."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import astuple, dataclass
from operator import add
from typing import Generic, TypeVar

from locust_realism.workload.rates.profile import RateProfile
from locust_realism.workload.users.arrivals import ArrivalStream

MISSED_AFTER_S = 1.0
"""Lateness at which a launch without a user is missed."""

W = TypeVar("W")


@dataclass(slots=True)
class LaunchCounts:
    """Counts of launches: ``launched`` by a user, ``late`` among them for want of an idle user, ``missed`` without an
    idle user within 1 s, and ``too_early`` before the first user waited."""

    launched: int = 0
    late: int = 0
    missed: int = 0
    too_early: int = 0

    def __add__(self, other: LaunchCounts) -> LaunchCounts:
        return LaunchCounts(*map(add, astuple(self), astuple(other)))


class LaunchQueue(Generic[W]):
    """Queue of waiting users for the launches of an arrival stream.

    Each launch releases a random waiting user. Without one the launch is owed: the next user to join takes the oldest
    owed launch at once. After a second an owed launch is missed and never made up for, as a burst would distort the
    rate. Launches after a late one keep their times. Launches before the first user joined are not owed, or the first
    users would begin with a burst.

    Times are seconds of the run; ``pick`` returns uniform numbers in [0, 1); waiters are any objects.
    """

    def __init__(self, stream: ArrivalStream, pick: Callable[[], float]) -> None:
        self.counts = LaunchCounts()
        self._stream = stream
        self._pick = pick
        self._waiting: list[W] = []
        self._position: dict[W, int] = {}
        self._owed: deque[float] = deque()
        self._begun = False

    def __len__(self) -> int:
        """Return the number of waiting users."""
        return len(self._waiting)

    def next_time(self) -> float:
        """Return the time of the next call of ``advance``, inf if none is needed."""
        return self._stream.peek() if self._begun else math.inf

    def join(self, waiter: W, now: float) -> float | None:
        """Queue a user and return None, or return the planned time of the owed launch that it takes at once."""
        if not self._waiting:
            while not self._begun and self._stream.peek() <= now:
                self._stream.take()
                self.counts.too_early += 1
            self._begun = True
            self.advance(now)
            if self._owed:
                self.counts.launched += 1
                self.counts.late += 1
                return self._owed.popleft()
        self._position[waiter] = len(self._waiting)
        self._waiting.append(waiter)
        return None

    def leave(self, waiter: W) -> None:
        """Remove a user from the queue; no effect for one that was released."""
        position = self._position.pop(waiter, None)
        if position is not None and (last := self._waiting.pop()) is not waiter:
            self._waiting[position] = last
            self._position[last] = position

    def give_back(self, planned: float, now: float) -> list[tuple[W, float]]:
        """Reassign the launch of a released user who was stopped before it."""
        self.counts.launched -= 1
        return self._assign(planned, now)

    def advance(self, now: float) -> list[tuple[W, float]]:
        """Release the users of all launches up to ``now``, each with its planned time."""
        released: list[tuple[W, float]] = []
        if not self._begun:
            return released
        while self._stream.peek() <= now:
            released += self._assign(self._stream.take(), now)
        while self._owed and now - self._owed[0] > MISSED_AFTER_S:
            self._owed.popleft()
            self.counts.missed += 1
        return released

    def _assign(self, planned: float, now: float) -> list[tuple[W, float]]:
        if now - planned > MISSED_AFTER_S:
            self.counts.missed += 1
        elif self._waiting:
            waiter = self._waiting[int(self._pick() * len(self._waiting))]
            self.leave(waiter)
            self.counts.launched += 1
            return [(waiter, planned)]
        else:
            self._owed.append(planned)
        return []

    def change(self, profile: RateProfile, now: float) -> list[tuple[W, float]]:
        """Follow another profile from ``now`` on; release the users of launches due before, as planned."""
        released = self.advance(now)
        self._stream.change(profile, now)
        return released

    def finish(self, now: float) -> LaunchCounts:
        """Return the counts at the end; launches still owed are missed."""
        if not self._waiting:
            self.advance(now)
        self.counts.missed += len(self._owed)
        self._owed.clear()
        return self.counts


class OwnLaunches:
    """Launches of one user with a stream of its own; the rules of lateness are those of :class:`LaunchQueue`."""

    def __init__(self, stream: ArrivalStream, counts: LaunchCounts) -> None:
        self.stream = stream
        self._counts = counts

    def skip_to(self, now: float) -> None:
        """Drop the launches up to ``now``, before this user joined."""
        while self.stream.peek() <= now and self.stream.take() < math.inf:
            pass

    def next_time(self, now: float) -> float:
        """Return the planned time of the next launch that is not missed at ``now``, inf if there is none."""
        while now - self.stream.peek() > MISSED_AFTER_S:
            self.stream.take()
            self._counts.missed += 1
        return self.stream.peek()

    def launch(self, now: float, waited: bool) -> float:
        """Take the launch of ``next_time``; it is on time if the user ``waited`` for it."""
        self._counts.launched += 1
        self._counts.late += not waited
        return self.stream.take()
