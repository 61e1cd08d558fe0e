"""Sessions of users: a concurrency slot for each, when it may end, and a row when it has ended.

:func:`hook_user_start` changes four methods of Locust once, for every user class:

- ``User.start`` opens a :class:`Session` with the smallest free slot of its Environment and writes a
  :class:`SessionRecord` to the listeners when the user's greenlet ends, however it ends;
- ``TaskSet.execute_next_task`` counts tasks, knows whether the user is inside one, and starts none once the session is
  over;
- ``TaskSet.wait`` and ``TaskSet._sleep`` end a session that is over between two tasks, after sleeping what is left.

The session of the code that is running is :func:`current_session`. gevent does not copy context variables to a new
greenlet, so the session travels in ``spawn_tree_locals``, the dictionary that every greenlet, timer and patched thread
takes over from the one that made it (gevent >= 1.3); a request that a user's sub-greenlet makes finds its user.
With ``GEVENT_TRACK_GREENLET_TREE=0`` only the user's own greenlet does.

All times are ``time.perf_counter()`` seconds of this process.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from gevent import GreenletExit, getcurrent
from locust import TaskSet, User
from locust import exception as locust_exception
from locust.exception import StopUser
from locust.runners import STATE_CLEANUP, STATE_STOPPED, STATE_STOPPING
from locust.user.task import LOCUST_STATE_RUNNING, LOCUST_STATE_STOPPING

from .session_state import (
    ENDINGS,
    EXCEPTION,
    KILLED,
    NEVER,
    RAN_OUT,
    STOP_USER,
    STOPPED,
    Session,
    SessionRecord,
    UserSessions,
    user_sessions,
)
from .spawn_messages import quicken_spawn_messages

__all__ = [
    "ENDINGS",
    "EXCEPTION",
    "KILLED",
    "RAN_OUT",
    "STOPPED",
    "STOP_USER",
    "Session",
    "SessionRecord",
    "UserSessions",
    "current_session",
    "current_slot",
    "hook_user_start",
    "plan_launch",
    "session_of",
    "take_planned_launch",
    "user_sessions",
]

# StopTest came after Locust 2.42
_STOPS = (StopUser, getattr(locust_exception, "StopTest", StopUser))
_NOT_RUNNING = (STATE_CLEANUP, STATE_STOPPING, STATE_STOPPED)
_TREE_KEY = "locust_realism.session"
_USER_KEY = "_realism_session"


def current_session() -> Session | None:
    """The session of the user in whose greenlet, sub-greenlet or thread this runs, or None. About 0.1 microseconds."""
    try:
        session: Session = getcurrent().spawn_tree_locals[_TREE_KEY]  # type: ignore[attr-defined]
    except (AttributeError, KeyError, TypeError):
        return None
    return session


def current_slot() -> int | None:
    """The concurrency slot of the running user, or None outside of one."""
    session = current_session()
    return None if session is None else session.slot


def session_of(user: User) -> Session | None:
    """The open session of a user, or None if it was not started through a hooked ``User.start``."""
    session: Session | None = user.__dict__.get(_USER_KEY)
    return session


def take_planned_launch() -> float | None:
    """The planned launch time (``perf_counter``) of the next task, once: the second call returns None.

    The recorder calls this for each request; the first one after a planned launch gets its time.
    """
    session = current_session()
    if session is None or session.planned is None:
        return None
    planned, session.planned = session.planned, None
    return planned


def plan_launch(planned: float) -> None:
    """Note when the next task of the running user was planned to be launched (``perf_counter`` seconds)."""
    session = current_session()
    if session is not None:
        session.planned = planned


def hook_user_start() -> None:
    """Give every user that starts from now on a session. Calling it again changes nothing."""
    if getattr(User.start, "_realism_hook", False):
        return
    quicken_spawn_messages()
    start: Any = User.start
    execute_next_task: Any = TaskSet.execute_next_task
    wait: Any = TaskSet.wait
    sleep: Any = TaskSet._sleep

    def start_with_session(self: User, group: Any) -> Any:
        session = _open(self)
        greenlet: Any = start(self, group)
        # a copy: what the spawning greenlet keeps there stays visible, what this user adds stays its own
        greenlet.spawn_tree_locals = {**(greenlet.spawn_tree_locals or {}), _TREE_KEY: session}
        greenlet.rawlink(lambda ended: _close(self, session, ended))
        return greenlet

    # these three run for every task of every user: most sessions have no limit, and then no clock is read
    def execute_next_task_of_session(self: TaskSet) -> None:
        session: Session | None = self.user.__dict__.get(_USER_KEY)
        if session is None:
            execute_next_task(self)
        else:
            _execute_in_session(self, session, execute_next_task)

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
            _note_ending(session, self.user, error, inside=session.leaf_depth > 0)
            raise

    def sleep_in_session(self: TaskSet, seconds: float) -> None:
        session: Session | None = self.user.__dict__.get(_USER_KEY)
        if session is not None and (session.ends_at < NEVER or session.tasks_left < NEVER):
            left = session.leave_at() - time.perf_counter()
            if left <= seconds:
                sleep(self, max(0.0, left))
                session.leave(self.user)
        sleep(self, seconds)

    start_with_session._realism_hook = True  # type: ignore[attr-defined]
    User.start, TaskSet.execute_next_task = start_with_session, execute_next_task_of_session  # type: ignore[method-assign]
    TaskSet.wait, TaskSet._sleep = wait_in_session, sleep_in_session  # type: ignore[method-assign]


def _execute_in_session(task_set: TaskSet, session: Session, execute: Callable[[TaskSet], None]) -> None:
    """Run the next task; a task that is a TaskSet is not counted, only the functions that it runs are."""
    user = task_set.user
    if (session.ends_at < NEVER or session.tasks_left < NEVER) and session.leave_at() <= time.perf_counter():
        # reached without a wait: a TaskSet that was left by interrupt() has its next task at once
        session.leave(user)
    task = task_set._task_queue[0] if task_set._task_queue else None
    leaf = not (isinstance(task, type) and issubclass(task, TaskSet))
    session.between_tasks = False
    session.leaf_depth += leaf
    try:
        execute(task_set)
    except BaseException as error:
        _note_ending(session, user, error, inside=session.leaf_depth > 0)
        if isinstance(error, GreenletExit):
            leaf = False
            session.leaf_depth = 0
        raise
    finally:
        if leaf:
            session.leaf_depth -= 1
            session.tasks += 1
            session.tasks_left -= 1
            session.planned = None
        session.between_tasks = session.leaf_depth == 0 and session.ending is None


def _note_ending(session: Session, user: User, error: BaseException, inside: bool) -> None:
    """Keep the first reason for which the session ends; outer TaskSets see the same exception again."""
    if session.ending is not None:
        return
    if isinstance(error, GreenletExit):
        session.ending = KILLED if inside else STOPPED
    elif isinstance(error, _STOPS):
        session.ending = STOPPED if user._state == LOCUST_STATE_STOPPING else STOP_USER


def _open(user: User) -> Session:
    sessions = user_sessions(user.environment)
    session = Session(sessions.take_slot(), type(user).__name__, time.perf_counter())
    user.__dict__[_USER_KEY] = session
    return session


def _close(user: User, session: Session, greenlet: Any) -> None:
    """Called once, in the hub, when the greenlet has ended: must not block."""
    ended = time.perf_counter()
    sessions = user_sessions(user.environment)
    sessions.release_slot(session.slot)
    user.__dict__.pop(_USER_KEY, None)
    ending = session.ending
    if greenlet.exception is not None:
        ending = EXCEPTION
    elif ending is None:
        # ended outside of the task loop: by a stop in RUNNING state, in on_start, or before the greenlet ran
        ending = STOPPED if user._state in (None, LOCUST_STATE_STOPPING) else KILLED
        runner = user.environment.runner
        stopping = runner is not None and runner.state in _NOT_RUNNING
        if user._state == LOCUST_STATE_RUNNING and not stopping and not isinstance(greenlet.value, GreenletExit):
            ending = STOP_USER
    record = SessionRecord(
        session.user_class, session.slot, session.started, ended, ending, session.tasks, session.planned_start
    )
    if session.on_end is not None:
        session.on_end(user, record)
    sessions.emit(record)
