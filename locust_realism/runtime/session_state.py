"""What is known of a session of a user: while it lasts, when it has ended, and of all of an Environment.

All times are ``time.perf_counter()`` seconds of this process.
"""

from __future__ import annotations

import heapq
import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from locust import User
from locust.exception import StopUser
from locust.user.task import LOCUST_STATE_RUNNING, LOCUST_STATE_STOPPING

logger = logging.getLogger(__name__)

RAN_OUT = "ran out"
"""The session's duration or number of tasks was over."""
STOP_USER = "StopUser"
"""The user's own code raised StopUser (or StopTest)."""
EXCEPTION = "exception"
"""An exception ended the user's greenlet."""
STOPPED = "stopped"
"""Locust stopped the user between two tasks, or before it ran at all."""
KILLED = "killed"
"""Locust killed the user inside a task or in on_start."""
NEVER = math.inf
"""The limit of a session that has none."""
ENDINGS = (RAN_OUT, STOP_USER, EXCEPTION, STOPPED, KILLED)


class Session:
    """What is known of a user's session while it lasts.

    ``slot`` is the smallest number that no other user of the Environment held when it began. ``ends_at`` (a
    ``perf_counter`` time) and ``tasks_left`` are the limits that the population model sets. ``planned`` is the time at
    which the next task was planned to be launched, or None: who plans launches sets it, the listener of the first
    request after it takes it and sets it back to None, and the end of a task clears it.
    """

    __slots__ = (
        "between_tasks",
        "ending",
        "ends_at",
        "leaf_depth",
        "on_end",
        "planned",
        "planned_start",
        "slot",
        "started",
        "tasks",
        "tasks_left",
        "user_class",
    )

    def __init__(self, slot: int, user_class: str, started: float) -> None:
        self.slot = slot
        self.user_class = user_class
        self.started = started
        self.planned_start: float | None = None
        self.planned: float | None = None
        self.ends_at = NEVER
        self.tasks_left = NEVER
        self.tasks = 0
        self.between_tasks = False
        self.leaf_depth = 0
        self.ending: str | None = None
        self.on_end: Callable[[Any, SessionRecord], None] | None = None

    def leave_at(self) -> float:
        """The ``perf_counter`` time at which the user must leave if it is not inside a task then; infinity if never.

        Inside a task this is infinity, because a task that waits must not be cut short. Code that keeps a user waiting
        (a paced wait) asks here how long it may, and calls :meth:`leave` when that time has come.
        """
        if not self.between_tasks:
            return NEVER
        return -NEVER if self.tasks_left <= 0 else self.ends_at

    def leave(self, user: User) -> None:
        """End the session by StopUser, noting that it ran out; only the user's own greenlet may call this."""
        self.ending = RAN_OUT
        self.between_tasks = False  # on_stop may wait
        if user._state != LOCUST_STATE_STOPPING:
            # a user that Locust sees waiting is killed at once, even with --stop-timeout: its on_stop would be cut
            user._state = LOCUST_STATE_RUNNING
        raise StopUser


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """A session that has ended: who, in which slot, from when to when (``perf_counter`` seconds), how, tasks done.

    ``planned_start`` is when the population model meant it to start, None outside of a population. ``ending`` is one of
    :data:`ENDINGS`.
    """

    user_class: str
    slot: int
    started: float
    ended: float
    ending: str
    tasks: int
    planned_start: float | None

    @property
    def duration(self) -> float:
        """Length of the session in seconds."""
        return self.ended - self.started


class UserSessions:
    """The open sessions of one Environment: free slots, listeners, number of users."""

    def __init__(self) -> None:
        self.listeners: list[Callable[[SessionRecord], None]] = []
        self.active = 0
        self.opened = 0
        self._free: list[int] = []
        self._next = 0

    def take_slot(self) -> int:
        """The smallest free slot."""
        self.active += 1
        self.opened += 1
        if self._free:
            return heapq.heappop(self._free)
        self._next += 1
        return self._next - 1

    def release_slot(self, slot: int) -> None:
        """Give a slot back."""
        self.active -= 1
        heapq.heappush(self._free, slot)

    def emit(self, record: SessionRecord) -> None:
        """Hand a row to every listener; one that fails is reported and does not stop the others."""
        for listener in self.listeners:
            try:
                listener(record)
            except Exception:
                logger.exception("A listener of sessions failed")


_by_environment: WeakKeyDictionary[Any, UserSessions] = WeakKeyDictionary()


def user_sessions(environment: Any) -> UserSessions:
    """The sessions of an Environment; append a function of one SessionRecord to ``listeners`` to get its rows."""
    sessions = _by_environment.get(environment)
    if sessions is None:
        sessions = _by_environment.setdefault(environment, UserSessions())
    return sessions
