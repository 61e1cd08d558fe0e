"""Queues with several servers, reckoned and not simulated: told who arrives when, they say who leaves when.

Time is an argument; nothing here reads a clock or sleeps. All moments are seconds on the wall, and work is seconds of
one server's time; a :class:`~.interruptions.WorkClock` knows when the servers stand still. A departure is exact to
floating point, so a server that answers a little late does not serve the next one later.
"""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from dataclasses import dataclass
from itertools import count

from .interruptions import WorkClock

_ROUNDING_S = 1e-9


@dataclass(slots=True, eq=False)
class Job:
    """One piece of work: when it came, the seconds of service that it needs, and when it was done."""

    arrived: float
    work: float
    departed: float | None = None

    @property
    def waited(self) -> float:
        """Seconds beyond the service itself: in the queue, shared with others, or stalled."""
        return 0.0 if self.departed is None else max(0.0, self.departed - self.arrived - self.work)


class Queue(ABC):
    """What the disciplines have in common: a bound, and counts.

    ``room`` is how many may be there beyond the ``servers`` who are served, or None without bound.
    """

    def __init__(self, servers: int, room: int | None, clock: WorkClock) -> None:
        self.servers = servers
        self.clock = clock
        self.most = None if room is None else servers + room
        self.served = self.refused = 0
        self.work_done = 0.0
        self._numbers = count()

    @abstractmethod
    def __len__(self) -> int: ...

    def arrive(self, now: float, work: float) -> Job | None:
        """Somebody comes at ``now`` with so much work; None if there is no room. Call :meth:`advance` before."""
        if self.most is not None and len(self) >= self.most:
            self.refused += 1
            return None
        job = Job(now, work)
        self._admit(job, self.clock.work(now))
        return job

    def advance(self, now: float) -> list[Job]:
        """Who has left by ``now``, in order, each with the moment in ``departed``."""
        done = self._leave(self.clock.work(now) + _ROUNDING_S)
        self.served += len(done)
        self.work_done += sum(job.work for job in done)
        return done

    def due(self) -> float | None:
        """When the next one leaves if nobody else comes; None if nobody is there."""
        at = self._next()
        return None if at is None else self.clock.wall(at)

    @abstractmethod
    def _admit(self, job: Job, at: float) -> None: ...

    @abstractmethod
    def _leave(self, until: float) -> list[Job]: ...

    @abstractmethod
    def _next(self) -> float | None: ...


class FcfsQueue(Queue):
    """First come, first served by ``servers`` equal servers.

    Each begins when it has come and a server is free: the recursion of Kiefer and Wolfowitz (1955), Lindley's for one.

    >>> queue = FcfsQueue(1, None, WorkClock())
    >>> jobs = [queue.arrive(0.0, 2.0), queue.arrive(1.0, 2.0)]
    >>> [job.departed for job in queue.advance(10.0)]
    [2.0, 4.0]
    """

    def __init__(self, servers: int, room: int | None, clock: WorkClock) -> None:
        super().__init__(servers, room, clock)
        self._free = [0.0] * servers
        self._departures: list[tuple[float, int, Job]] = []

    def __len__(self) -> int:
        return len(self._departures)

    def _admit(self, job: Job, at: float) -> None:
        end = max(at, self._free[0]) + job.work
        heapq.heapreplace(self._free, end)
        heapq.heappush(self._departures, (end, next(self._numbers), job))

    def _leave(self, until: float) -> list[Job]:
        done = []
        while self._departures and self._departures[0][0] <= until:
            end, _, job = heapq.heappop(self._departures)
            job.departed = self.clock.wall(end)
            done.append(job)
        return done

    def _next(self) -> float | None:
        return self._departures[0][0] if self._departures else None


class SharedQueue(Queue):
    """Processor sharing: the n who are there get min(1, servers/n) of a server each, as threads on cores do.

    All get the same, so who leaves next is who needs least of what each has been given since it came.

    >>> queue = SharedQueue(1, None, WorkClock())
    >>> jobs = [queue.arrive(0.0, 2.0), queue.arrive(1.0, 2.0)]
    >>> [job.departed for job in queue.advance(10.0)]
    [3.0, 4.0]
    """

    def __init__(self, servers: int, room: int | None, clock: WorkClock) -> None:
        super().__init__(servers, room, clock)
        self._given = self._at = 0.0
        self._present: list[tuple[float, int, Job]] = []

    def __len__(self) -> int:
        return len(self._present)

    @property
    def _share(self) -> float:
        return min(1.0, self.servers / len(self._present))

    def _admit(self, job: Job, at: float) -> None:
        if self._present:
            self._given += (at - self._at) * self._share
        self._at = at
        heapq.heappush(self._present, (self._given + job.work, next(self._numbers), job))

    def _leave(self, until: float) -> list[Job]:
        done = []
        while (end := self._next()) is not None and end <= until:
            self._given, _, job = heapq.heappop(self._present)
            self._at = end
            job.departed = self.clock.wall(end)
            done.append(job)
        return done

    def _next(self) -> float | None:
        if not self._present:
            return None
        return self._at + max(0.0, self._present[0][0] - self._given) / self._share


DISCIPLINES: dict[str, type[Queue]] = {"fcfs": FcfsQueue, "ps": SharedQueue}
"""Queue disciplines by the names that settings use."""
