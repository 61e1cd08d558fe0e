"""A service at work: requests wait here, in greenlets, until their work is done."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gevent
import numpy as np
from gevent.event import Event

from ..workload.streams import Draw, batched_draws, name_key, spawn
from .interruptions import WorkClock
from .queues import DISCIPLINES, Job, Queue
from .recent_load import RecentRate
from .service import Service


class Full(Exception):
    """There is no room at the station of this name."""


@dataclass(frozen=True)
class Spent:
    """Where the time of a request went, in seconds: ``waiting`` in queues, shares and stalls, ``service`` at work."""

    waiting: float
    service: float

    @property
    def header(self) -> str:
        """The value of a Server-Timing header (W3C), in milliseconds."""
        return f"queue;dur={self.waiting * 1e3:.3f}, service;dur={self.service * 1e3:.3f}"


class RunningService:
    """Draws service times, keeps the queues, and wakes each request when its work is done.

    One greenlet sleeps until the next departure. Moments come from the queues and not from when it woke up, so its
    lateness (half a millisecond) is added to an answer but never to the next in the queue.
    """

    def __init__(self, service: Service, now: Callable[[], float] = time.perf_counter) -> None:
        self.service = service
        self._now = now
        self._began = now()
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
        self._living = service.collector and RecentRate(service.collector.memory)
        self._count = 0
        self._waiting: dict[Job, Event] = {}
        self._changed = Event()
        self._alarm = float("inf")
        self._waker = gevent.spawn(self._wake)

    def elapsed(self) -> float:
        """Seconds since the service began, which is when its stalls are counted from."""
        return self._now() - self._began

    def do(self, *names: str) -> Spent:
        """Have pieces of work done one after the other; blocks the greenlet. Raises Full where there is no room."""
        self._note_request()
        waiting = served = 0.0
        for name in names:
            job = self._one(name)
            waiting += job.waited
            served += job.work
        return Spent(waiting, served)

    def state(self) -> dict[str, Any]:
        """Counts since the beginning, as plain data: utilization is work_s / (servers elapsed_s)."""
        self._advance(self.elapsed())
        return {
            "elapsed_s": self.elapsed(),
            "requests": self._count,
            "stations": {
                name: {
                    "servers": queue.servers,
                    "present": len(queue),
                    "served": queue.served,
                    "refused": queue.refused,
                    "work_s": queue.work_done,
                }
                for name, queue in self.queues.items()
            },
        }

    def stop(self) -> None:
        """End the greenlet that wakes; requests that wait stay where they are."""
        self._waker.kill()

    def _note_request(self) -> None:
        now = self.elapsed()
        self._count += 1
        if self._cached:
            self._cached.count(now)
        collector = self.service.collector
        if collector and self._living:
            self._living.count(now)
            if self._count % collector.every == 0:
                self._advance(now)
                self._clock.pause(now, collector.pause(self._living.at(now)))

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
        due = queue.due()
        if due is not None and due < self._alarm:
            self._changed.set()
        done.wait()
        return job

    def _advance(self, now: float) -> None:
        for queue in self.queues.values():
            for job in queue.advance(now):
                self._waiting.pop(job).set()

    def _wake(self) -> None:
        while True:
            dues = [due for queue in self.queues.values() if (due := queue.due()) is not None]
            self._alarm = min(dues, default=float("inf"))
            left = self._alarm - self.elapsed()
            if left > 0:
                self._changed.clear()
                self._changed.wait(None if left == float("inf") else left)
            self._advance(self.elapsed())
