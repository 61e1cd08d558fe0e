"""Which waiting user is launched when: the rules of a paced wait, without a clock and without Locust."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from .arrivals import ArrivalStream
from .profile import RateProfile

PATIENCE_S = 1.0
"""A launch that is more than this late is missed."""

W = TypeVar("W")


@dataclass(slots=True)
class LaunchCounts:
    """How many launches were given to users (``launched``), found no user waiting first (``late``), were taken by
    nobody within a second (``missed``), or were planned for a time before the first user had come (``too_early``)."""

    launched: int = 0
    late: int = 0
    missed: int = 0
    too_early: int = 0


class LaunchQueue(Generic[W]):
    """Hands the launches of an arrival stream to waiting users.

    At each launch time a random waiting user is released, so that none is preferred. When none waits the launch is
    owed: the next user who comes back takes the oldest one at once. What is still owed after a second is missed and
    never made up for, since a burst is no likeness of the rate that was asked for. The launches after a late one keep
    their times. What was planned before the first user came is not owed, or the first users would begin with a burst.

    Times are seconds of the run; ``pick`` gives uniform numbers in [0, 1); waiters are any objects.
    """

    def __init__(self, stream: ArrivalStream, pick: Callable[[], float], patience: float = PATIENCE_S) -> None:
        self.counts = LaunchCounts()
        self._stream = stream
        self._pick = pick
        self._patience = patience
        self._waiting: list[W] = []
        self._position: dict[W, int] = {}
        self._owed: deque[float] = deque()
        self._begun = False

    def __len__(self) -> int:
        """The number of users who wait."""
        return len(self._waiting)

    def next_time(self) -> float:
        """When ``advance`` has to be called next; infinity if never."""
        return self._stream.peek() if self._begun else math.inf

    def join(self, waiter: W, now: float) -> float | None:
        """A user comes to wait: the planned time of the launch that it takes at once, or None and it is queued."""
        if not self._waiting:
            if not self._begun:
                self._begin(now)
            self.advance(now)
            if self._owed:
                self.counts.launched += 1
                self.counts.late += 1
                return self._owed.popleft()
        self._position[waiter] = len(self._waiting)
        self._waiting.append(waiter)
        return None

    def _begin(self, now: float) -> None:
        self._begun = True
        while self._stream.peek() <= now:
            self._stream.take()
            self.counts.too_early += 1

    def leave(self, waiter: W) -> None:
        """A user waits no longer; one who has been released already is not in the queue, which does no harm."""
        position = self._position.pop(waiter, None)
        if position is None:
            return
        last = self._waiting.pop()
        if last is not waiter:
            self._waiting[position] = last
            self._position[last] = position

    def give_back(self, planned: float, now: float) -> list[tuple[W, float]]:
        """A released user was stopped before it could launch: another one takes its turn."""
        self.counts.launched -= 1
        return self._hand_out(planned, now)

    def advance(self, now: float) -> list[tuple[W, float]]:
        """The users who are to launch, each with its planned time, for all launches up to ``now``."""
        released: list[tuple[W, float]] = []
        if not self._begun:
            return released
        while self._stream.peek() <= now:
            released += self._hand_out(self._stream.take(), now)
        while self._owed and now - self._owed[0] > self._patience:
            self._owed.popleft()
            self.counts.missed += 1
        return released

    def _hand_out(self, planned: float, now: float) -> list[tuple[W, float]]:
        if now - planned > self._patience:
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
        """Follow another profile from ``now`` on; what was due before is handed out as it was planned."""
        released = self.advance(now)
        self._stream.change(profile, now)
        return released

    def finish(self, now: float) -> LaunchCounts:
        """The counts at the end; what is owed still is missed."""
        if not self._waiting:
            self.advance(now)
        self.counts.missed += len(self._owed)
        self._owed.clear()
        return self.counts


class OwnLaunches:
    """Launches of one user who has a stream of its own: the same rules of lateness with nobody else to take a turn."""

    def __init__(self, stream: ArrivalStream, counts: LaunchCounts, patience: float = PATIENCE_S) -> None:
        self.stream = stream
        self._counts = counts
        self._patience = patience

    def skip_to(self, now: float) -> None:
        """Launches up to ``now`` are none of this user's, who has only come."""
        while self.stream.peek() <= now and self.stream.take() < math.inf:
            pass

    def next_time(self, now: float) -> float:
        """The planned time of the next launch that is not missed by ``now``; infinity if there is none."""
        while now - self.stream.peek() > self._patience:
            self.stream.take()
            self._counts.missed += 1
        return self.stream.peek()

    def launch(self, now: float, waited: bool) -> float:
        """Take the launch that ``next_time`` told; ``waited`` is whether the user was there before its time."""
        self._counts.launched += 1
        self._counts.late += not waited
        return self.stream.take()
