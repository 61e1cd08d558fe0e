"""Sessions of users: a concurrency slot for each, limits between tasks, and a record at the end.

:func:`hook_user_start` replaces four methods of Locust once, for every user class (reasons in ``locust_compat``):

- ``User.start`` opens a :class:`Session` with the smallest free slot of its Environment and emits a
  :class:`SessionRecord` when the user's greenlet ends, however it ends;
- ``TaskSet.execute_next_task`` numbers and times tasks, and starts none once the session is over;
- ``TaskSet.wait`` and ``TaskSet._sleep`` end a session that is over between two tasks, after sleeping what is left;
  the latter wakes users by the process's alarm instead of gevent's timers.

gevent does not copy context variables to a new greenlet. The session travels in ``spawn_tree_locals``, the dictionary
that every greenlet, timer and patched thread takes over from its parent (gevent >= 1.3), so that a request of a user's
sub-greenlet finds its user. With ``GEVENT_TRACK_GREENLET_TREE=0`` only the user's own greenlet does.

All times are ``time.perf_counter()`` seconds of this process.
"""

from __future__ import annotations

import heapq
import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

import gevent
from gevent import GreenletExit, getcurrent
from gevent.pool import Group
from locust import TaskSet, User
from locust.env import Environment
from locust.exception import StopTest, StopUser
from locust.runners import STATE_CLEANUP, STATE_STOPPED, STATE_STOPPING
from locust.user.task import LOCUST_STATE_RUNNING, LOCUST_STATE_STOPPING

from locust_realism.runtime.locust_compat import (
    PerEnvironment,
    cache_own_options,
    is_stopping,
    next_task,
    protect_on_stop,
    replace,
    user_state,
)
from locust_realism.runtime.users import alarm

logger = logging.getLogger(__name__)

RAN_OUT = "ran out"  # the session's duration or number of tasks was over
STOP_USER = "StopUser"  # the user's own code raised StopUser or StopTest
EXCEPTION = "exception"  # an exception ended the user's greenlet
STOPPED = "stopped"  # Locust stopped the user between two tasks, or before it ran at all
KILLED = "killed"  # Locust killed the user inside a task or in on_start
ENDINGS = (RAN_OUT, STOP_USER, EXCEPTION, STOPPED, KILLED)

NEVER = math.inf
"""The limit of a session that has none."""

NO_TASK = (math.nan,) * 3
"""Number of a task in this process, its begin (``perf_counter``), and the seconds since the user's previous task; NaN
outside of tasks, the pause for a user's first task too."""

_task_numbers = count()
_NOT_RUNNING = (STATE_CLEANUP, STATE_STOPPING, STATE_STOPPED)
_TREE_KEY = "locust_realism.session"
_USER_KEY = "_realism_session"


@dataclass(slots=True, eq=False)
class Session:
    """State of a user's session while it lasts.

    ``slot`` is the smallest number that no other user of the Environment held when it began. ``ends_at`` (a
    ``perf_counter`` time) and ``tasks_left`` are the limits that the population model sets. ``planned`` is the planned
    launch time of the next task, or None: a wait sets it, the first request after it takes it, and the end of the task
    clears it. ``task`` is the present task as in :data:`NO_TASK`, ``task_ended`` the end of the previous one.
    """

    slot: int
    user_class: str
    started: float
    planned_start: float | None = None
    planned: float | None = None
    ends_at: float = NEVER
    tasks_left: float = NEVER
    tasks: int = 0
    task: tuple[float, float, float] = NO_TASK
    task_ended: float = math.nan
    between_tasks: bool = False
    leaf_depth: int = 0
    ending: str | None = None
    on_end: Callable[[User, SessionRecord], None] | None = None

    def leave_at(self) -> float:
        """Return the time at which the user must leave if it is between two tasks then; infinity if never.

        Inside a task this is infinity: a task that waits must not be cut short. Code that keeps a user waiting (a paced
        wait) waits no longer than this and then calls :meth:`leave`.
        """
        if not self.between_tasks:
            return NEVER
        return -NEVER if self.tasks_left <= 0 else self.ends_at

    def leave(self, user: User) -> None:
        """End the session by StopUser, as one that ran out; only the user's own greenlet may call this."""
        self.ending = RAN_OUT
        self.between_tasks = False  # on_stop may wait
        protect_on_stop(user)
        raise StopUser

    def note_ending(self, user: User, error: BaseException) -> None:
        """Keep the first reason for which the session ends; outer TaskSets see the same exception again."""
        if self.ending is not None:
            return
        if isinstance(error, GreenletExit):
            self.ending = KILLED if self.leaf_depth > 0 else STOPPED
        elif isinstance(error, StopUser | StopTest):
            self.ending = STOPPED if is_stopping(user) else STOP_USER


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """A session that has ended: user class, slot, begin and end (``perf_counter`` seconds), ending, tasks done.

    ``ending`` is one of :data:`ENDINGS`; ``planned_start`` is None outside of a population.
    """

    user_class: str
    slot: int
    started: float
    ended: float
    ending: str
    tasks: int
    planned_start: float | None


class UserSessions:
    """Concurrency slots of one Environment, and listeners of ended sessions."""

    def __init__(self) -> None:
        self.listeners: list[Callable[[SessionRecord], None]] = []
        self._free: list[int] = []
        self._unused = count()

    def take_slot(self) -> int:
        """Return the smallest free slot."""
        return heapq.heappop(self._free) if self._free else next(self._unused)

    def release_slot(self, slot: int) -> None:
        """Free a slot."""
        heapq.heappush(self._free, slot)

    def emit(self, record: SessionRecord) -> None:
        """Pass a record to every listener; log the exception of one and go on with the others."""
        for listener in self.listeners:
            try:
                listener(record)
            except Exception:
                logger.exception(
                    "locust_realism: %s failed on the end of a session; its figures lack that session",
                    getattr(listener, "__qualname__", listener),
                )


_SESSIONS = PerEnvironment("sessions", lambda environment: UserSessions())


def user_sessions(environment: Environment) -> UserSessions:
    """Return the sessions of an Environment; its ``listeners`` are called with each SessionRecord."""
    return _SESSIONS.of(environment)


def current_session() -> Session | None:
    """Return the session of the running greenlet's user, of sub-greenlets and threads too; about 0.1 microseconds."""
    try:
        return getcurrent().spawn_tree_locals[_TREE_KEY]  # type: ignore[attr-defined, no-any-return]
    except (AttributeError, KeyError, TypeError):
        return None


def session_of(user: User) -> Session | None:
    """Return the open session of a user, None if the user was started before :func:`hook_user_start`."""
    return user.__dict__.get(_USER_KEY)


def hook_user_start() -> None:
    """Give every user that starts from now on a session; a second call changes nothing."""
    cache_own_options()
    replace("User.start", _start_with_session)
    replace("TaskSet.execute_next_task", _execute_in_session)
    replace("TaskSet.wait", _wait_in_session)
    sleep_on_time()


def sleep_on_time() -> None:
    """Wake every user by the alarm from now on, with a session or without; a second call changes nothing."""
    replace("TaskSet._sleep", _sleep_in_session)


def _start_with_session(start: Callable[[User, Group], gevent.Greenlet[..., object]]) -> Callable[..., object]:
    def start_with_session(self: User, group: Group) -> gevent.Greenlet[..., object]:
        sessions = user_sessions(self.environment)
        session = Session(sessions.take_slot(), type(self).__name__, time.perf_counter())
        self.__dict__[_USER_KEY] = session
        greenlet = start(self, group)
        # a copy: what the spawning greenlet keeps there stays visible, what this user adds stays its own
        greenlet.spawn_tree_locals = {**(greenlet.spawn_tree_locals or {}), _TREE_KEY: session}
        greenlet.rawlink(lambda ended: _close(self, session, ended))
        return greenlet

    return start_with_session


# The next three run for every task of every user: most sessions have no limit, and then no clock is read.


def _execute_in_session(execute: Callable[[TaskSet], None]) -> Callable[[TaskSet], None]:
    def execute_in_session(self: TaskSet) -> None:
        """Run the next task; a task that is a TaskSet is not counted, only the functions that it runs are."""
        user = self.user
        session: Session | None = user.__dict__.get(_USER_KEY)
        if session is None:
            execute(self)
            return
        if (session.ends_at < NEVER or session.tasks_left < NEVER) and session.leave_at() <= time.perf_counter():
            # reached without a wait: a TaskSet that was left by interrupt() has its next task at once
            session.leave(user)
        task = next_task(self)
        leaf = not (isinstance(task, type) and issubclass(task, TaskSet))
        session.between_tasks = False
        session.leaf_depth += leaf
        outer = session.task
        if leaf:
            began = time.perf_counter()
            session.task = (next(_task_numbers), began, began - session.task_ended)
        try:
            execute(self)
        except BaseException as error:
            session.note_ending(user, error)
            if isinstance(error, GreenletExit):
                leaf = False
                session.leaf_depth = 0
            raise
        finally:
            session.task = outer
            if leaf:
                session.task_ended = time.perf_counter()
                session.leaf_depth -= 1
                session.tasks += 1
                session.tasks_left -= 1
                session.planned = None
            session.between_tasks = session.leaf_depth == 0 and session.ending is None

    return execute_in_session


def _wait_in_session(wait: Callable[[TaskSet], None]) -> Callable[[TaskSet], None]:
    def wait_in_session(self: TaskSet) -> None:
        session: Session | None = self.user.__dict__.get(_USER_KEY)
        if session is None:
            wait(self)
            return
        if (session.ends_at < NEVER or session.tasks_left < NEVER) and session.leave_at() <= time.perf_counter():
            session.leave(self.user)
        try:
            wait(self)
        except BaseException as error:
            session.note_ending(self.user, error)
            raise

    return wait_in_session


def _sleep_in_session(sleep: Callable[[TaskSet, float], None]) -> Callable[[TaskSet, float], None]:
    def sleep_in_session(self: TaskSet, seconds: float) -> None:
        """Sleep to the precision of the alarm, where Locust's own ``sleep`` rounds up to whole milliseconds."""
        session: Session | None = self.user.__dict__.get(_USER_KEY)
        if session is not None and (session.ends_at < NEVER or session.tasks_left < NEVER):
            left = session.leave_at() - time.perf_counter()
            if left <= seconds:
                alarm.sleep(max(0.0, left))
                session.leave(self.user)
        alarm.sleep(seconds)

    return sleep_in_session


def _close(user: User, session: Session, greenlet: gevent.Greenlet[..., object]) -> None:
    """Emit the record of a session whose greenlet has ended; called once, in the hub, and must not block."""
    ended = time.perf_counter()
    sessions = user_sessions(user.environment)
    sessions.release_slot(session.slot)
    user.__dict__.pop(_USER_KEY, None)
    ending = _ending(user, session, greenlet)
    name, slot, began = session.user_class, session.slot, session.started
    record = SessionRecord(name, slot, began, ended, ending, session.tasks, session.planned_start)
    if session.on_end is not None:
        session.on_end(user, record)
    sessions.emit(record)


def _ending(user: User, session: Session, greenlet: gevent.Greenlet[..., object]) -> str:
    if greenlet.exception is not None:
        return EXCEPTION
    if session.ending is not None:
        return session.ending
    # The session ended outside the task loop: stopped while RUNNING, in on_start, or before its greenlet ran.
    state, runner = user_state(user), user.environment.runner
    if state in (None, LOCUST_STATE_STOPPING):
        return STOPPED
    stopping = runner is not None and runner.state in _NOT_RUNNING
    by_itself = state == LOCUST_STATE_RUNNING and not stopping and not isinstance(greenlet.value, GreenletExit)
    return STOP_USER if by_itself else KILLED
