"""A service at work: the greenlet of a request waits until the work of the request is done."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import gevent
import numpy as np
from gevent.event import Event

from locust_realism.targets.queues import DISCIPLINES, Job, Queue, WorkClock
from locust_realism.targets.service import RecentRate, Service
from locust_realism.workload.distributions.streams import Draw, batched_draws, name_key, spawn


class Full(Exception):
    """Refusal of a job: the station of this name has no room."""


@dataclass(frozen=True)
class Spent:
    """Time of a request in seconds: ``waiting`` in queues, shares and stalls, ``service`` at work."""

    waiting: float
    service: float

    @property
    def header(self) -> str:
        """Value of a Server-Timing header (W3C), in milliseconds."""
        return f"queue;dur={self.waiting * 1e3:.3f}, service;dur={self.service * 1e3:.3f}"


class RunningService:
    """Service times, queues, and the greenlet that wakes each request at its departure.

    Departure times come from the queues, not from the wake-up. A late wake-up (half a millisecond) delays one answer
    and never the next job in the queue.
    """

    def __init__(self, service: Service) -> None:
        self.service = service
        self._began = time.perf_counter()
        self._clock = WorkClock(service.stalls)
        self.queues: dict[str, Queue] = {
            name: DISCIPLINES[station.discipline](station.servers, station.room, self._clock)
            for name, station in service.stations.items()
        }
        entropy = int(np.random.SeedSequence().entropy) if service.seed is None else service.seed  # type: ignore[arg-type]
        self._draws: dict[str, Draw] = {
            name: batched_draws(work.time, spawn(entropy, name_key(name))) for name, work in service.work.items()
        }
        self._cached = service.cache and RecentRate(service.cache.memory)
        self._collected = service.collector and RecentRate(service.collector.memory)
        self._count = 0
        self._waiting: dict[Job, Event] = {}
        self._changed = Event()
        self._alarm = math.inf
        self._waker = gevent.spawn(self._wake)

    def elapsed(self) -> float:
        """Return the seconds since the start of the service, which is also the origin of its stalls."""
        return time.perf_counter() - self._began

    def do(self, *names: str) -> Spent:
        """Do pieces of work one after the other, blocking the greenlet; raises Full at a station without room."""
        now = self.elapsed()
        self._count += 1
        if self._cached:
            self._cached.count(now)
        if (collector := self.service.collector) and self._collected:
            self._collected.count(now)
            if self._count % collector.every == 0:
                self._advance(now)
                self._clock.pause(now, collector.pause(self._collected.at(now)))
        jobs = [self._one(name) for name in names]
        return Spent(sum(job.waited for job in jobs), sum(job.work for job in jobs))

    def state(self) -> dict[str, object]:
        """Return the counts since the start as plain data: utilization is work_s / (servers elapsed_s)."""
        self._advance(self.elapsed())
        return {
            "elapsed_s": self.elapsed(),
            "requests": self._count,
            "stations": {
                name: {
                    "servers": queue.servers, "present": len(queue), "served": queue.served,
                    "refused": queue.refused, "work_s": queue.work_done,
                }
                for name, queue in self.queues.items()
            },
        }  # fmt: skip

    def stop(self) -> None:
        """End the waking greenlet; waiting requests stay blocked."""
        self._waker.kill()

    def _one(self, name: str) -> Job:
        now = self.elapsed()
        self._advance(now)
        work = self.service.work[name]
        factor = self.service.cache.factor(self._cached.at(now)) if self.service.cache and self._cached else 1.0
        queue = self.queues[work.station]
        job = queue.arrive(now, self._draws[name]() * factor / self.service.speed)
        if job is None:
            raise Full(work.station)
        done = self._waiting[job] = Event()
        if queue.due() < self._alarm:
            self._changed.set()
        done.wait()
        return job

    def _advance(self, now: float) -> None:
        for queue in self.queues.values():
            for job in queue.advance(now):
                self._waiting.pop(job).set()

    def _wake(self) -> None:
        while True:
            self._alarm = min((queue.due() for queue in self.queues.values()), default=math.inf)
            left = self._alarm - self.elapsed()
            if left > 0:
                self._changed.clear()
                self._changed.wait(None if left == math.inf else left)
            self._advance(self.elapsed())
