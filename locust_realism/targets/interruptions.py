"""When a server stands still for everyone: regular stalls, and single pauses such as those of a garbage collector.

What is under way goes on where it was, so queues are reckoned in *work time*: the time that a server has been at work.
:class:`WorkClock` translates between it and the time on the wall. Both begin at 0 and are in seconds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..workload.checks import positive

_ROUNDING = 1e-9
"""What ends as a stall or a pause begins must not be put off beyond it by the last digit."""


@dataclass(frozen=True)
class Stalls:
    """The last ``length`` seconds of every ``every`` seconds are lost for everyone: locks, checkpoints, a backup.

    Raises ValueError unless 0 < length < every.

    >>> Stalls(every=5, length=1.5).lost_share
    0.3
    """

    every: float
    length: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "every", positive("every", self.every))
        object.__setattr__(self, "length", positive("length", self.length))
        if self.length >= self.every:
            raise ValueError(f"length must be < every = {self.every!r}, not {self.length!r}")

    @property
    def lost_share(self) -> float:
        """The share of the time in which nothing is done."""
        return self.length / self.every

    def work(self, t: float) -> float:
        """Seconds of work in the first ``t`` seconds.

        >>> Stalls(every=5, length=1.5).work(4.0), Stalls(every=5, length=1.5).work(6.0)
        (3.5, 4.5)
        """
        periods, rest = divmod(t, self.every)
        usable = self.every - self.length
        return periods * usable + min(rest, usable)

    def wall(self, work: float) -> float:
        """The first moment at which so much work is done: the inverse of :meth:`work`.

        >>> Stalls(every=5, length=1.5).wall(3.5), Stalls(every=5, length=1.5).wall(4.5)
        (3.5, 6.0)
        """
        usable = self.every - self.length
        periods = max(0, math.ceil(work / usable - _ROUNDING) - 1)
        return periods * self.every + (work - periods * usable)


class WorkClock:
    """Work time of a server with stalls, if any, and with pauses that are put in as they happen.

    Times are asked for in order: the past before the last pause is forgotten.
    """

    def __init__(self, stalls: Stalls | None = None) -> None:
        self._stalls = stalls
        self._lost = 0.0
        self._pause_begins = self._pause_ends = 0.0

    def pause(self, now: float, length: float) -> None:
        """Stand still for ``length`` seconds from now, or from the end of the pause that is on."""
        begin = self._without_stalls(now)
        if begin >= self._pause_ends:
            self._lost += self._pause_ends - self._pause_begins
            self._pause_begins = self._pause_ends = begin
        self._pause_ends += length

    def work(self, now: float) -> float:
        """Seconds of work until ``now``."""
        at = self._without_stalls(now)
        return at - self._lost - min(max(at - self._pause_begins, 0.0), self._pause_ends - self._pause_begins)

    def wall(self, work: float) -> float:
        """The first moment at which so much work is done, as far as is known now; not for what is long past."""
        at = work + self._lost
        if at > self._pause_begins + _ROUNDING:
            at += self._pause_ends - self._pause_begins
        return at if self._stalls is None else self._stalls.wall(at)

    def _without_stalls(self, now: float) -> float:
        return now if self._stalls is None else self._stalls.work(now)
