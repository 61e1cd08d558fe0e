"""The process's side of paced waits: the launches of one wait, and the users who wait for them."""

from __future__ import annotations

import logging
import math
import time
from abc import ABC, abstractmethod
from typing import Any, Literal, Protocol

import gevent
import numpy as np
from gevent.event import Event
from locust.exception import StopUser

from locust_realism.runtime.plan import Plan, ensure_plan
from locust_realism.runtime.randomness import run_streams
from locust_realism.runtime.sessions import session_of
from locust_realism.workload.arrivals import ArrivalStream
from locust_realism.workload.distributions import uniform
from locust_realism.workload.launching import LaunchCounts, LaunchQueue, OwnLaunches
from locust_realism.workload.rates import RateProfile, rate_profile_from_dict
from locust_realism.workload.streams import batched_draws, name_key, spawn

logger = logging.getLogger(__name__)

_PACERS_KEY = "_realism_pacers"
_OWN_BATCH = 64
_JOINS_LATE_S = 60.0
_WHEN, _WHO = 0, 1  # the launch times and the choice of users have streams of their own


class Paced(Protocol):
    """What a pacer needs to know of its wait."""

    @property
    def name(self) -> str: ...
    @property
    def scope(self) -> Literal["total", "user"]: ...
    @property
    def seed(self) -> int | None: ...


def paced_counts(environment: Any) -> dict[str, LaunchCounts]:
    """Launches, late and missed ones of this process in the run so far, by the name of the paced wait."""
    return {name: pacer.counts for name, pacer in environment.__dict__.get(_PACERS_KEY, {}).items()}


def pacer_of(environment: Any, wait: Paced) -> Pacer:
    """The pacer of a wait in an Environment, made at the first call."""
    pacers: dict[str, Pacer] = environment.__dict__.setdefault(_PACERS_KEY, {})
    pacer = pacers.get(wait.name)
    if pacer is None:
        pacer = pacers[wait.name] = (TotalPacer if wait.scope == "total" else UserPacer)(environment, wait)
    return pacer


class _Turn:
    """A user who waits for its launch."""

    __slots__ = ("event", "planned")

    def __init__(self) -> None:
        self.event = Event()
        self.planned: float | None = None


class Pacer(ABC):
    """One paced wait in one process: what both scopes share."""

    def __init__(self, environment: Any, wait: Paced) -> None:
        self.counts = LaunchCounts()
        self._planner = ensure_plan(environment)
        self._wait = wait
        self._environment = environment
        self._run = -1
        self._followed: tuple[Any, float] | None = None
        self._planner.subscribe(self._on_plan)

    def wait(self, user: Any) -> float:
        """Block until the user's next launch; its planned ``perf_counter`` time."""
        plan = self._planner.plan
        if plan is None or not plan.running or self._wait.name not in plan.items:
            try:
                self._planner.await_item(self._wait.name)
            except TimeoutError:
                raise StopUser from None  # the planner has said why and ends the run
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
            self._report()
            return
        share = self._planner.share() if self._wait.scope == "total" else 1.0
        if self._followed != (payload, share):
            first = self._followed is None
            self._followed = (payload, share)
            profile = rate_profile_from_dict(payload).scale(share)
            (self._begin if first else self._change)(profile)

    def _report(self) -> None:
        counts = self.counts
        level = logging.WARNING if counts.missed else logging.INFO
        logger.log(
            level,
            "%s: %d launches, %d late because no user was waiting, %d missed because none came within a second, "
            "%d planned before the first user was there%s",
            self._wait.name,
            counts.launched,
            counts.late,
            counts.missed,
            counts.too_early,
            ": more users are needed for this rate" if counts.missed else "",
        )

    def _rng(self, *key: int) -> np.random.Generator:
        """A Generator of this wait in this process, from the wait's own seed or the run's."""
        seed = run_streams(self._environment).seed() if self._wait.seed is None else self._wait.seed
        return spawn(seed, max(0, self._planner.index), *key, name_key(self._wait.name))

    def _start(self) -> float:
        """Where a stream begins, in seconds of the run.

        At its very start, so that the schedule does not depend on the moment at which the first user comes; but a
        process that joins a long run has nothing to do with what was planned hours ago.
        """
        now = self._planner.elapsed()
        return 0.0 if now < _JOINS_LATE_S else now

    @abstractmethod
    def _next_launch(self, user: Any) -> float: ...

    @abstractmethod
    def _begin(self, profile: RateProfile) -> None: ...

    @abstractmethod
    def _change(self, profile: RateProfile) -> None: ...

    @abstractmethod
    def _finish(self) -> None: ...


class TotalPacer(Pacer):
    """One stream a process; a greenlet releases the users."""

    _queue: LaunchQueue[_Turn]
    _greenlet: Any = None

    def __init__(self, environment: Any, wait: Paced) -> None:
        self._changed = Event()
        super().__init__(environment, wait)

    def _begin(self, profile: RateProfile) -> None:
        choices = batched_draws(uniform(0, 1), self._rng(0, _WHO))
        self._queue = LaunchQueue(ArrivalStream(profile, self._rng(0, _WHEN), start=self._start()), choices)
        self.counts = self._queue.counts
        if self._greenlet is not None:
            self._greenlet.kill(block=False)
        self._greenlet = gevent.spawn(self._release_users)

    def _change(self, profile: RateProfile) -> None:
        self._release(self._queue.change(profile, self._planner.elapsed()))
        self._changed.set()

    def _finish(self) -> None:
        self._queue.finish(self._planner.elapsed())
        if self._greenlet is not None:
            self._greenlet.kill(block=False)
            self._greenlet = None

    @staticmethod
    def _release(released: list[tuple[_Turn, float]]) -> None:
        for turn, planned in released:
            turn.planned = planned
            turn.event.set()

    def _release_users(self) -> None:
        while True:
            self._changed.clear()
            self._release(self._queue.advance(self._planner.elapsed()))
            left = self._queue.next_time() - self._planner.elapsed()
            if left > 0:
                self._changed.wait(None if left == math.inf else left)
            else:  # launches are due faster than they are released: users must get their turn all the same
                gevent.sleep(0)

    def _next_launch(self, user: Any) -> float:
        turn = _Turn()
        planned = self._queue.join(turn, self._planner.elapsed())
        if planned is not None:
            return planned
        if len(self._queue) == 1:  # the first to wait: there may have been no launch to wake up for so far
            self._changed.set()
        queue = self._queue
        session = session_of(user)
        ends = math.inf if session is None else session.leave_at()
        try:
            turn.event.wait(None if ends == math.inf else max(0.0, ends - time.perf_counter()))
        except BaseException:  # stopped by Locust
            queue.leave(turn)
            if turn.planned is not None:
                self._release(queue.give_back(turn.planned, self._planner.elapsed()))
            raise
        if turn.planned is None:
            queue.leave(turn)
            assert session is not None
            session.leave(user)
        assert turn.planned is not None
        return turn.planned


class UserPacer(Pacer):
    """A stream for each user slot."""

    def __init__(self, environment: Any, wait: Paced) -> None:
        self._profile: RateProfile | None = None
        self._slots: dict[int, OwnLaunches] = {}
        self._users: dict[int, int] = {}
        self._changed = Event()
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

    def _finish(self) -> None:
        pass

    def _launches(self, user: Any) -> OwnLaunches:
        """The stream of the user's slot; a user who is new in it is not late for what was before it came."""
        assert self._profile is not None
        slot = run_streams(self._environment).slot(user)
        launches = self._slots.get(slot)
        if launches is None:
            rng = self._rng(slot, _WHEN)
            stream = ArrivalStream(self._profile, rng, start=self._start(), largest_batch=_OWN_BATCH)
            launches = self._slots[slot] = OwnLaunches(stream, self.counts)
        if self._users.get(slot) != id(user):
            self._users[slot] = id(user)
            launches.skip_to(self._planner.elapsed())
        return launches

    def _next_launch(self, user: Any) -> float:
        launches = self._launches(user)
        session = session_of(user)
        waited = False
        while True:
            now = self._planner.elapsed()
            left = launches.next_time(now) - now
            if left <= 0:
                return launches.launch(now, waited)
            waited = True
            stays = math.inf if session is None else session.leave_at() - time.perf_counter()
            if stays <= 0 and session is not None:
                session.leave(user)
            shortest = min(left, stays)
            self._changed.wait(None if shortest == math.inf else max(0.0, shortest))
