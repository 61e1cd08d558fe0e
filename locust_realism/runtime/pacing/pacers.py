"""Pacers: the launches of each paced wait in one process, its waiting users, and the counts over all processes."""

from __future__ import annotations

import logging
import math
import time
from abc import ABC, abstractmethod
from dataclasses import asdict, astuple, dataclass, field, replace
from datetime import time as wall_time
from typing import Literal

import gevent
import numpy as np
from gevent.event import Event
from locust import User
from locust.env import Environment
from locust.exception import StopUser
from locust.runners import MasterRunner, WorkerRunner

from locust_realism.runtime.coordination.plan import Plan, ensure_plan
from locust_realism.runtime.coordination.randomness import run_streams
from locust_realism.runtime.locust_compat import PerEnvironment
from locust_realism.runtime.users import alarm
from locust_realism.runtime.users.session import session_of
from locust_realism.runtime.wire import PACED, wire_of
from locust_realism.workload.distributions import uniform
from locust_realism.workload.distributions.streams import Sampled, batched_draws, name_key, spawn
from locust_realism.workload.rates.shapes import RateProfile, rate_profile_from_dict
from locust_realism.workload.users.arrivals import ArrivalStream
from locust_realism.workload.users.launching import LaunchCounts, LaunchQueue, OwnLaunches

logger = logging.getLogger(__name__)

_OWN_BATCH = 64
_JOINS_LATE_S = 60.0
_LAUNCHES, _CHOICES = 0, 1  # keys of the streams of launch times and of chosen users


@dataclass(frozen=True)
class PacedSettings:
    """Settings of a paced wait, see :func:`~locust_realism.runtime.pacing.waits.paced`."""

    name: str
    profile: RateProfile
    scope: Literal["total", "user"] = "total"
    extra_wait: Sampled | None = None
    zero_at: wall_time | None = None
    compression: float = 1.0
    seed: int | None = None


def paced_counts(environment: Environment) -> dict[str, LaunchCounts]:
    """Return the counts of this process since the start of the run, by the name of the paced wait."""
    return {name: pacer.counts for name, pacer in _PACERS.of(environment).items()}


def pacer_of(environment: Environment, wait: PacedSettings) -> Pacer:
    """Return the pacer of a wait in an Environment, made at the first call."""
    pacers = _PACERS.of(environment)
    if wait.name not in pacers:
        pacers[wait.name] = (TotalPacer if wait.scope == "total" else UserPacer)(environment, wait)
    return pacers[wait.name]


@dataclass(eq=False, slots=True)
class _Turn:
    """Wait of one user for its launch."""

    event: Event = field(default_factory=Event)
    planned: float | None = None


class Pacer(ABC):
    """One paced wait in one process; base of both scopes."""

    def __init__(self, environment: Environment, wait: PacedSettings) -> None:
        self.counts = LaunchCounts()
        self._planner = ensure_plan(environment)
        self._wait = wait
        self._environment = environment
        self._run = -1
        self._followed: tuple[object, float] | None = None
        self._changed = Event()
        self._planner.subscribe(self._on_plan)

    def wait(self, user: User) -> float:
        """Block until the user's next launch and return its planned ``perf_counter`` time."""
        try:
            self._planner.await_item(self._wait.name)
        except TimeoutError:
            raise StopUser from None  # the planner has logged the reason and ends the run
        return self._planner.time_of(self._next_launch(user))

    def _on_plan(self, plan: Plan) -> None:
        payload = plan.items.get(self._wait.name)
        if payload is None:
            return
        if plan.running and plan.run != self._run:
            self._run = plan.run
            self._followed = None
            self.counts = LaunchCounts()
        if plan.run != self._run:
            return
        if not plan.running:
            self._finish()
            return
        share = self._planner.share() if self._wait.scope == "total" else 1.0
        if self._followed != (payload, share):
            first = self._followed is None
            self._followed = (payload, share)
            profile = rate_profile_from_dict(payload).scale(share)
            (self._begin if first else self._change)(profile)

    def _finish(self) -> None:
        """Log the counts at the end of the run."""
        missed = self.counts.missed
        logger.log(
            logging.WARNING if missed else logging.INFO,
            "%s: %d launches, %d late (no idle user), %d missed (no idle user within 1 s), %d planned before the first "
            "user%s",
            self._wait.name,
            *astuple(self.counts),
            "; this rate needs more users" if missed else "",
        )

    def _rng(self, *key: int) -> np.random.Generator:
        """Return a Generator of this wait in this process, from the wait's own seed or the run's."""
        seed = run_streams(self._environment).seed() if self._wait.seed is None else self._wait.seed
        return spawn(seed, max(0, self._planner.index), *key, name_key(self._wait.name))

    def _start(self) -> float:
        """Return 0, so that the first user's time does not matter, or the time of joining a long run, in seconds."""
        now = self._planner.elapsed()
        return 0.0 if now < _JOINS_LATE_S else now

    @abstractmethod
    def _next_launch(self, user: User) -> float: ...

    @abstractmethod
    def _begin(self, profile: RateProfile) -> None: ...

    @abstractmethod
    def _change(self, profile: RateProfile) -> None: ...


_PACERS: PerEnvironment[dict[str, Pacer]] = PerEnvironment("pacers", lambda environment: {})


class TotalPacer(Pacer):
    """Pacer with one stream a process; a greenlet releases the users."""

    _queue: LaunchQueue[_Turn]
    _greenlet: gevent.Greenlet[[], None] | None = None

    def _begin(self, profile: RateProfile) -> None:
        choices = batched_draws(uniform(0, 1), self._rng(0, _CHOICES))
        self._queue = LaunchQueue(ArrivalStream(profile, self._rng(0, _LAUNCHES), start=self._start()), choices)
        self.counts = self._queue.counts
        self._stop_releasing()
        self._greenlet = gevent.spawn(self._release_users)

    def _change(self, profile: RateProfile) -> None:
        self._release(self._queue.change(profile, self._planner.elapsed()))
        self._changed.set()

    def _finish(self) -> None:
        self._queue.finish(self._planner.elapsed())
        self._stop_releasing()
        super()._finish()

    def _stop_releasing(self) -> None:
        if self._greenlet is not None:
            self._greenlet.kill(block=False)

    @staticmethod
    def _release(released: list[tuple[_Turn, float]]) -> None:
        for turn, planned in released:
            turn.planned = planned
            turn.event.set()

    def _release_users(self) -> None:
        while True:
            self._changed.clear()
            self._release(self._queue.advance(self._planner.elapsed()))
            alarm.wait(self._changed, self._planner.time_of(self._queue.next_time()))

    def _next_launch(self, user: User) -> float:
        turn = _Turn()
        planned = self._queue.join(turn, self._planner.elapsed())
        if planned is not None:
            return planned
        if len(self._queue) == 1:  # the first to wait: the greenlet may sleep without end
            self._changed.set()
        queue, session = self._queue, session_of(user)
        ends = math.inf if session is None else session.leave_at()
        try:
            alarm.wait(turn.event, ends)
        except BaseException:  # Locust stops the user
            queue.leave(turn)
            if turn.planned is not None:
                self._release(queue.give_back(turn.planned, self._planner.elapsed()))
            raise
        if turn.planned is None and session is not None:  # the session is over
            queue.leave(turn)
            session.leave(user)
        assert turn.planned is not None
        return turn.planned


class UserPacer(Pacer):
    """Pacer with a stream for each user slot."""

    def __init__(self, environment: Environment, wait: PacedSettings) -> None:
        self._profile: RateProfile | None = None
        self._slots: dict[int, OwnLaunches] = {}
        self._users: dict[int, int] = {}
        super().__init__(environment, wait)

    def _begin(self, profile: RateProfile) -> None:
        self._profile = profile
        self._slots.clear()
        self._users.clear()

    def _change(self, profile: RateProfile) -> None:
        self._profile = profile
        now = self._planner.elapsed()
        for launches in self._slots.values():
            launches.stream.change(profile, now)
        changed, self._changed = self._changed, Event()
        changed.set()

    def _next_launch(self, user: User) -> float:
        assert self._profile is not None
        slot = run_streams(self._environment).slot(user)
        if slot not in self._slots:
            rng = self._rng(slot, _LAUNCHES)
            stream = ArrivalStream(self._profile, rng, start=self._start(), largest_batch=_OWN_BATCH)
            self._slots[slot] = OwnLaunches(stream, self.counts)
        launches = self._slots[slot]
        # A new user of a slot begins with the launches after its arrival.
        if self._users.get(slot) != id(user):
            self._users[slot] = id(user)
            launches.skip_to(self._planner.elapsed())
        session, waited = session_of(user), False
        while True:
            now = self._planner.elapsed()
            left = launches.next_time(now) - now
            if left <= 0:
                return launches.launch(now, waited)
            waited = True
            ends = math.inf if session is None else session.leave_at()
            if session is not None and ends <= time.perf_counter():
                session.leave(user)
            alarm.wait(self._changed, min(ends, time.perf_counter() + left))


_REPORTED: PerEnvironment[dict[str, dict[str, dict[str, int]]]] = PerEnvironment(
    "paced_reports", lambda environment: {}
)


def paced_totals(environment: Environment) -> dict[str, LaunchCounts]:
    """Return the counts of the run by the name of the paced wait; on a master those of all workers, up to 3 s old."""
    totals = {name: replace(counts) for name, counts in paced_counts(environment).items()}
    for report in (_REPORTED.get(environment) or {}).values():
        for name, counts in report.items():
            totals[name] = totals.get(name, LaunchCounts()) + LaunchCounts(**counts)
    return totals


def report_counts(environment: Environment, **_: object) -> None:
    """Let a worker report its counts to the master (listener of Locust's init event)."""
    if _REPORTED.get(environment) is not None:
        return
    reports = _REPORTED.of(environment)
    if isinstance(environment.runner, WorkerRunner):
        wire_of(environment).add_part(
            PACED, lambda: {name: asdict(count) for name, count in paced_counts(environment).items()} or None
        )
    elif isinstance(environment.runner, MasterRunner):
        wire_of(environment).on_part(PACED, reports.__setitem__)
        environment.events.test_start.add_listener(lambda **_: reports.clear())
