"""The greenlet of one user class that starts its users when they are due, and counts what becomes of them.

A user is started as Locust does it, ``user.start(runner.user_greenlets)``: it is counted, stopped, and shown like any
other. Being late is never made up for in a burst: what is more than a second late is dropped and counted as missed.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from typing import Any, Protocol

import gevent
from gevent.event import Event

from ..workload.distribution import Distribution
from ..workload.rates import rate_profile_from_dict
from ..workload.scaled import scaled
from ..workload.schedules import Entry, OpenSchedule
from ..workload.streams import batched_draws
from .alarm import Alarm
from .census import Census
from .clients import close_client
from .plan import Plan, Planner
from .sessions import SessionRecord, session_of

logger = logging.getLogger(__name__)

LATE_LIMIT_S = 1.0
"""An arrival that is later than this is dropped."""
_DROPS_PER_TURN = 200


class Schedule(Protocol):
    """Who comes next; see ``workload.schedules`` and ``workload.people``."""

    def due(self) -> float:
        """Second of the run at which the next user is due, or infinity."""

    def take(self) -> Entry:
        """The next user."""


class Sessions:
    """Durations and numbers of tasks of the sessions of one class; infinity where there is no limit."""

    def __init__(self, duration: Distribution | None, length: Distribution | None, rng: tuple[Any, Any]) -> None:
        self._of_locustfile = duration
        self._duration_rng = rng[0]
        self.tasks = _endless if length is None else _whole(batched_draws(length, rng[1]))
        self.mean: float | None = None
        self.times: Distribution | None = None
        self.duration: Callable[[], float] = _endless

    def set_mean_duration(self, mean: float | None) -> None:
        """Stretch the durations to another mean, for the sessions that begin from now on."""
        if self._of_locustfile is None or mean is None or mean == self.mean:
            return
        self.mean = mean
        self.times = scaled(self._of_locustfile, mean / self._of_locustfile.mean)
        self.duration = batched_draws(self.times, self._duration_rng)


def _endless() -> float:
    return math.inf


def _whole(draw: Callable[[], float]) -> Callable[[], float]:
    # who is in session at all does at least one task
    return lambda: max(1, round(draw()))


class Generation:
    """Starts the users of one class. ``schedule`` says when, ``sessions`` for how long.

    Subclasses say what happens to an entry that did not become a user, and to the one whose user has left.
    """

    def __init__(
        self,
        environment: Any,
        planner: Planner,
        user_class: Any,
        schedule: Schedule,
        sessions: Sessions,
    ) -> None:
        self.environment, self.planner, self.user_class = environment, planner, user_class
        self.schedule = schedule
        self.census = Census()
        self.running = True
        self.limit = math.inf
        self._sessions = sessions
        self._wake = Event()

    def update(self, spec: dict[str, Any], plan: Plan) -> None:
        """The master's settings for this class, or the members, have changed."""

    def set_limits(self, spec: dict[str, Any], plan: Plan) -> None:
        """This process's part of ``max_users``, and the mean duration of the sessions to come."""
        if spec["max_users"] is None or self.planner.index not in plan.members:
            self.limit = math.inf
        else:
            whole, rest = divmod(spec["max_users"], plan.workers)
            self.limit = whole + (plan.members.index(self.planner.index) < rest)
        self._sessions.set_mean_duration(spec["mean_duration"])

    def wake(self) -> None:
        """The schedule was changed: look again."""
        self._wake.set()

    def run(self) -> None:
        """Start users until the test stops: nobody may come after Locust has counted whom to stop."""
        alarm = Alarm(self._wake.set)
        try:
            self._start_users(alarm)
        finally:
            alarm.close()

    def _start_users(self, alarm: Alarm) -> None:
        dropped = 0
        while self.running:
            due = self.schedule.due()
            when = None if due == math.inf else self.planner.time_of(due)
            late = -math.inf if when is None else time.perf_counter() - when
            if late < 0:
                alarm.set(when)
                self._wake.wait()
                self._wake.clear()
                continue  # looks again whether the test is still running
            entry = self.schedule.take()
            if late > LATE_LIMIT_S:
                self.census.missed += 1
                self.turned_away(entry)
                dropped += 1
                if dropped % _DROPS_PER_TURN == 0:
                    gevent.sleep(0)
                continue
            self._arrive(entry, late)
            # If the next one is due too this process is behind: its users must have their turn nevertheless.
            gevent.sleep(0)

    def _arrive(self, entry: Entry, late: float) -> None:
        if self.census.active >= self.limit:
            self.census.balked += 1
            self.turned_away(entry)
            return
        try:
            user = self.user_class(self.environment)
        except Exception as error:  # noqa: BLE001 - what a user's __init__ may raise is up to the locustfile
            self.census.failed += 1
            self.turned_away(entry)
            self._complain(error)
            return
        self.prepare(user, entry)
        user.start(self.environment.runner.user_greenlets)
        session = session_of(user)
        if session is None:
            raise RuntimeError("User.start is not hooked: hook_user_start() must be called first")
        session.planned = session.planned_start = self.planner.time_of(entry.due)
        if entry.leaves_at is not None:
            session.ends_at = self.planner.time_of(entry.leaves_at)
        else:
            session.ends_at = session.started + self._sessions.duration()
        session.tasks_left = self._sessions.tasks()
        session.on_end = lambda ended, record: self._ended(ended, record, entry)
        self.census.started(late, entry.initial)

    def _ended(self, user: Any, record: SessionRecord, entry: Entry) -> None:
        self.census.ended(record, self.running, entry.initial)
        self.left(user, entry)
        close_client(user)

    def _complain(self, error: Exception) -> None:
        if self.census.failed == 1:
            self.planner.abort(f"A {self.user_class.__name__} cannot be created: {error!r}. The run is ended.")

    def turned_away(self, entry: Entry) -> None:
        """The entry was missed, balked, or its user could not be created."""

    def prepare(self, user: Any, entry: Entry) -> None:
        """The user is about to start."""

    def left(self, user: Any, entry: Entry) -> None:
        """The user's session is over; called in the hub, must not block."""


class ArrivalGeneration(Generation):
    """Starts the users of an open population."""

    schedule: OpenSchedule

    def __init__(self, *args: Any, **kw: Any) -> None:
        super().__init__(*args, **kw)
        self._share = self.planner.share()
        self._profile: Any = None

    def update(self, spec: dict[str, Any], plan: Plan) -> None:
        self.set_limits(spec, plan)
        share = self.planner.share()
        if (spec["arrivals"], share) != (self._profile, self._share):
            self._profile, self._share = spec["arrivals"], share
            self.schedule.change(rate_profile_from_dict(spec["arrivals"]), share, self.planner.elapsed())
        self.wake()
