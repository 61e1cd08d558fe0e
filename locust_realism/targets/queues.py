"""Queues with several servers: departure times computed from arrival times, without a clock and without sleeping.

Times are seconds since the start; work is seconds of one server. Regular stalls and single pauses, such as those of a
garbage collector, stop all servers. Queues therefore count *work time*, the time in which servers were at work, and
:class:`WorkClock` converts it to wall time. A departure is exact to floating point: a late answer delays no other job.
"""

from __future__ import annotations

import heapq
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from itertools import count

from locust_realism.common.validation import positive, refusal

_ROUNDING = 1e-9
"""Tolerance in seconds: a job that ends as a stall begins must not move behind it by a rounding error."""


def make_positive(settings: object, *names: str) -> None:
    """Make fields of a frozen dataclass floats; ValueError unless they are above 0."""
    for name in names:
        object.__setattr__(settings, name, positive(name, getattr(settings, name)))


@dataclass(frozen=True)
class Stalls:
    """Regular stalls: all servers stand still in the last ``length`` of every ``every`` seconds (locks, checkpoints).

    Raises ValueError unless 0 < length < every.
    """

    every: float
    length: float

    def __post_init__(self) -> None:
        make_positive(self, "every", "length")
        if self.length >= self.every:
            raise refusal("length", f"< every = {self.every!r}", self.length)

    def work(self, t: float) -> float:
        """Return the seconds of work in the first ``t`` seconds.

        >>> Stalls(every=5, length=1.5).work(4.0), Stalls(every=5, length=1.5).work(6.0)
        (3.5, 4.5)
        """
        periods, rest = divmod(t, self.every)
        usable = self.every - self.length
        return periods * usable + min(rest, usable)

    def wall(self, work: float) -> float:
        """Return the first time at which so much work is done: the inverse of :meth:`work`.

        >>> Stalls(every=5, length=1.5).wall(3.5), Stalls(every=5, length=1.5).wall(4.5)
        (3.5, 6.0)
        """
        usable = self.every - self.length
        periods = max(0, math.ceil(work / usable - _ROUNDING) - 1)
        return periods * self.every + (work - periods * usable)


class WorkClock:
    """Conversion of wall time to work time, with stalls and with pauses added as they happen.

    Times must not decrease between calls: the clock keeps the last pause only.
    """

    def __init__(self, stalls: Stalls | None = None) -> None:
        self._without_stalls = stalls.work if stalls else float
        self._with_stalls = stalls.wall if stalls else float
        self._lost = self._pause_begins = self._pause_ends = 0.0

    def pause(self, now: float, length: float) -> None:
        """Add a pause of ``length`` seconds from now, or from the end of the current pause."""
        begin = self._without_stalls(now)
        if begin >= self._pause_ends:
            self._lost += self._pause_ends - self._pause_begins
            self._pause_begins = self._pause_ends = begin
        self._pause_ends += length

    def work(self, now: float) -> float:
        """Return the seconds of work until ``now``."""
        at = self._without_stalls(now)
        return at - self._lost - min(max(at - self._pause_begins, 0.0), self._pause_ends - self._pause_begins)

    def wall(self, work: float) -> float:
        """Return the first time at which so much work is done, given the pauses so far; not before the last one."""
        at = work + self._lost
        if at > self._pause_begins + _ROUNDING:
            at += self._pause_ends - self._pause_begins
        return self._with_stalls(at)


@dataclass(slots=True, eq=False)
class Job:
    """A piece of work: arrival time, seconds of service, and departure time once it is done."""

    arrived: float
    work: float
    departed: float | None = None

    @property
    def waited(self) -> float:
        """Seconds beyond the service itself: in the queue, shared with others, or stalled."""
        return 0.0 if self.departed is None else max(0.0, self.departed - self.arrived - self.work)


class Queue(ABC):
    """Base of the disciplines: ``servers``, ``room`` waiting places (None is unbounded), and counts."""

    def __init__(self, servers: int, room: int | None, clock: WorkClock) -> None:
        self.servers = servers
        self.clock = clock
        self.most = None if room is None else servers + room
        self.served = self.refused = 0
        self.work_done = 0.0
        self._numbers = count()
        self._present: list[tuple[float, int, Job]] = []  # a heap, by what decides the order of departure
        self._at = self._given = 0.0

    def __len__(self) -> int:
        return len(self._present)

    def arrive(self, now: float, work: float) -> Job | None:
        """Add a job at ``now`` and return it, None if there is no room; call :meth:`advance` first."""
        if self.most is not None and len(self) >= self.most:
            self.refused += 1
            return None
        job = Job(now, work)
        heapq.heappush(self._present, (self._order(work, self.clock.work(now)), next(self._numbers), job))
        return job

    def advance(self, now: float) -> list[Job]:
        """Remove and return the jobs done by ``now``, in order, with their departure times."""
        until, done = self.clock.work(now) + _ROUNDING, list[Job]()
        while self._present and (end := self._next()) <= until:
            self._given, _, job = heapq.heappop(self._present)
            self._at = end
            job.departed = self.clock.wall(end)
            self.work_done += job.work
            done.append(job)
        self.served += len(done)
        return done

    def due(self) -> float:
        """Return the next departure time if no job arrives, inf for an empty queue."""
        return self.clock.wall(self._next()) if self._present else math.inf

    @abstractmethod
    def _order(self, work: float, at: float) -> float:
        """Return the place of a job that arrives at work time ``at`` in the order of departure."""

    @abstractmethod
    def _next(self) -> float:
        """Return the work time of the next departure."""


class FcfsQueue(Queue):
    """First come, first served by ``servers`` equal servers.

    A job starts at the later of its arrival and the first free server (Kiefer and Wolfowitz 1955; Lindley for one).

    >>> queue = FcfsQueue(1, None, WorkClock())
    >>> jobs = [queue.arrive(0.0, 2.0), queue.arrive(1.0, 2.0)]
    >>> [job.departed for job in queue.advance(10.0)]
    [2.0, 4.0]
    """

    def __init__(self, servers: int, room: int | None, clock: WorkClock) -> None:
        super().__init__(servers, room, clock)
        self._free = [0.0] * servers

    def _order(self, work: float, at: float) -> float:
        end = max(at, self._free[0]) + work
        heapq.heapreplace(self._free, end)
        return end

    def _next(self) -> float:
        return self._present[0][0]


class SharedQueue(Queue):
    """Processor sharing: each of n jobs gets min(1, servers/n) of a server, as threads on cores do.

    All get the same share, so the next to leave is the job with the least work left. ``_given`` is the work that each
    job would have got since the start, up to the work time ``_at``.

    >>> queue = SharedQueue(1, None, WorkClock())
    >>> jobs = [queue.arrive(0.0, 2.0), queue.arrive(1.0, 2.0)]
    >>> [job.departed for job in queue.advance(10.0)]
    [3.0, 4.0]
    """

    def _order(self, work: float, at: float) -> float:
        if self._present:
            self._given += (at - self._at) * self._share()
        self._at = at
        return self._given + work

    def _next(self) -> float:
        return self._at + max(0.0, self._present[0][0] - self._given) / self._share()

    def _share(self) -> float:
        return min(1.0, self.servers / len(self._present))


DISCIPLINES: dict[str, type[Queue]] = {"fcfs": FcfsQueue, "ps": SharedQueue}
"""Queue disciplines by their names in settings."""
