"""Sessions: slots, limits between tasks, endings, and the planned launch of a request."""

from __future__ import annotations

import logging
import sys
import time
import timeit
from typing import Any, ClassVar

import gevent
import pytest
from gevent.pool import Group
from locust import TaskSet, User, constant, task
from locust.env import Environment
from locust.exception import StopUser

from locust_realism.runtime.users import session as sessions
from locust_realism.runtime.users.session import SessionRecord, hook_user_start, session_of, user_sessions

hook_user_start()


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    logging.getLogger("locust").setLevel(logging.CRITICAL)
    yield
    logging.getLogger("locust").setLevel(logging.NOTSET)


class Run:
    """Group of users of one class in an Environment of their own, with the records of their sessions."""

    def __init__(self, user_class: type[User], **settings: Any) -> None:
        self.environment = Environment(user_classes=[user_class], **settings)
        self.user_class = user_class
        self.group = Group()
        self.rows: list[SessionRecord] = []
        user_sessions(self.environment).listeners.append(self.rows.append)

    def start(self, **limits: float) -> Any:
        user = self.user_class(self.environment)
        user.start(self.group)
        session = session_of(user)
        assert session is not None
        for name, value in limits.items():
            setattr(session, name, value)
        return user


class Base(User):
    abstract = True
    wait_time = constant(0.01)
    log: list[Any]

    def on_start(self) -> None:
        self.log = []

    def on_stop(self) -> None:
        self.log.append("on_stop")


class Quick(Base):
    @task
    def work(self) -> None:
        self.log.append(time.perf_counter())


def test_hooking_twice_changes_nothing() -> None:
    before = (User.start, TaskSet.wait, TaskSet._sleep, TaskSet.execute_next_task)
    hook_user_start()
    assert before == (User.start, TaskSet.wait, TaskSet._sleep, TaskSet.execute_next_task)


def test_slots_are_the_smallest_free_number_and_come_back() -> None:
    run = Run(Quick)
    users = [run.start() for _ in range(3)]
    assert [session_of(user).slot for user in users] == [0, 1, 2]
    users[0].stop(force=True)
    users[1].stop(force=True)
    gevent.sleep(0)
    assert session_of(run.start()).slot == 0
    assert session_of(run.start()).slot == 1
    assert session_of(run.start()).slot == 3
    run.group.kill()
    gevent.sleep(0)
    assert session_of(run.start()).slot == 0, "all slots are free again"
    run.group.kill()


def test_a_number_of_tasks_ends_the_session_without_a_last_wait() -> None:
    run = Run(Quick)
    user = run.start(tasks_left=3)
    run.group.join(timeout=5)
    assert len(user.log) == 4
    assert user.log[-1] == "on_stop"
    (row,) = run.rows
    assert (row.ending, row.tasks, row.user_class) == (sessions.RAN_OUT, 3, "Quick")
    assert row.ended - user.log[2] < 0.009, "the wait after the last task must not be slept"


def test_a_session_that_ends_in_a_wait_sleeps_what_is_left_and_launches_no_more() -> None:
    class Slow(Quick):
        wait_time = constant(10)

    run = Run(Slow)
    started = time.perf_counter()
    user = run.start(ends_at=started + 0.1)
    run.group.join(timeout=5)
    (row,) = run.rows
    assert (row.ending, row.tasks) == (sessions.RAN_OUT, 1)
    assert 0.1 <= row.ended - row.started < 0.5
    assert user.log[-1] == "on_stop"


def test_a_task_that_waits_is_not_aborted() -> None:
    class Waiter(Base):
        wait_time = constant(0.1)

        @task
        def work(self) -> None:
            self.log.append("in")
            self.wait()
            gevent.spawn(self.log.append, "sub").join()
            self.log.append("out")

    run = Run(Waiter)
    user = run.start(ends_at=time.perf_counter() + 0.02)
    run.group.join(timeout=5)
    assert user.log == ["in", "sub", "out", "on_stop"]
    assert run.rows[0].ending == sessions.RAN_OUT


def test_on_start_and_on_stop_may_wait_beyond_the_end() -> None:
    class Waiter(Base):
        def on_start(self) -> None:
            self.log = []
            self.wait()
            self.log.append("on_start")

        def on_stop(self) -> None:
            self.wait()
            self.log.append("on_stop")

        @task
        def work(self) -> None:
            self.log.append("work")

    run = Run(Waiter)
    user = run.start(ends_at=time.perf_counter() - 1)
    run.group.join(timeout=5)
    assert user.log == ["on_start", "work", "on_stop"], "who arrives does at least one task"
    assert (run.rows[0].ending, run.rows[0].tasks) == (sessions.RAN_OUT, 1)


def test_only_functions_count_as_tasks_and_a_nested_set_is_left_between_its_tasks() -> None:
    seen: list[str] = []

    class Inner(TaskSet):
        def on_start(self) -> None:
            self.wait()
            seen.append("inner on_start")

        def on_stop(self) -> None:
            seen.append("inner on_stop")

        @task
        def work(self) -> None:
            seen.append("work")

    class Nested(Base):
        tasks: ClassVar[list[Any]] = [Inner]

    run = Run(Nested)
    run.start(tasks_left=2)
    run.group.join(timeout=5)
    assert seen == ["inner on_start", "work", "work", "inner on_stop"]
    assert run.rows[0].tasks == 2


def test_interrupting_without_a_wait_still_ends_the_session() -> None:
    class Inner(TaskSet):
        @task
        def work(self) -> None:
            self.interrupt()

    class Nested(Base):
        tasks: ClassVar[list[Any]] = [Inner]

    run = Run(Nested)
    run.start(tasks_left=3)
    run.group.join(timeout=5)
    assert (run.rows[0].ending, run.rows[0].tasks) == (sessions.RAN_OUT, 3)


def test_each_way_to_end_has_its_own_ending() -> None:
    class Various(Base):
        wait_time = constant(5)
        how = "wait"

        @task
        def work(self) -> None:
            if self.how == "StopUser":
                raise StopUser
            if self.how == "exception":
                raise RuntimeError("broken")
            if self.how == "work":
                gevent.sleep(5)

    expected = {
        "StopUser": sessions.STOP_USER,
        "exception": sessions.EXCEPTION,
        "wait": sessions.STOPPED,
        "work": sessions.KILLED,
    }
    for how, ending in expected.items():
        run = Run(Various, catch_exceptions=False)
        user = run.start()
        user.how = how
        gevent.sleep(0.02)
        if how in ("wait", "work"):
            user.stop(force=True)
        run.group.join(timeout=5)
        gevent.sleep(0)
        assert run.rows[0].ending == ending, how
    run = Run(Various)
    run.start().stop(force=True)
    gevent.sleep(0)
    assert run.rows[0].ending == sessions.STOPPED, "stopped before it ran"


def test_a_graceful_stop_is_a_stop_between_tasks() -> None:
    class Working(Base):
        @task
        def work(self) -> None:
            gevent.sleep(0.05)

    run = Run(Working)
    user = run.start()
    gevent.sleep(0.01)
    assert user.stop(force=False) is False
    run.group.join(timeout=5)
    assert (run.rows[0].ending, run.rows[0].tasks) == (sessions.STOPPED, 1)


def test_sub_greenlets_find_the_planned_launch_and_the_end_of_the_task_clears_it() -> None:
    found: list[tuple[int, float | None]] = []

    def note() -> None:
        session = sessions.current_session()
        assert session is not None
        found.append((session.slot, session.planned))

    class Planned(Base):
        wait_time = constant(0)

        @task
        def work(self) -> None:
            gevent.spawn(note).join()
            note()

    run = Run(Planned)
    run.start(planned=5.0, tasks_left=2)
    run.group.join(timeout=5)
    assert found == [(0, 5.0), (0, 5.0), (0, None), (0, None)]
    assert sessions.current_session() is None


def test_finding_the_session_costs_less_than_a_microsecond() -> None:
    costs: list[float] = []

    class Timed(Base):
        @task
        def work(self) -> None:
            tracer = sys.gettrace()  # coverage's would be measured, too
            sys.settrace(None)
            costs.append(min(timeit.repeat(sessions.current_session, number=10_000, repeat=5)) / 10_000)
            sys.settrace(tracer)

    run = Run(Timed)
    run.start(tasks_left=1)
    run.group.join(timeout=5)
    assert costs[0] < 1e-6


def test_a_listener_that_fails_does_not_stop_the_others() -> None:
    run = Run(Quick)

    def broken(_record: SessionRecord) -> None:
        raise RuntimeError("broken listener")

    user_sessions(run.environment).listeners.insert(0, broken)
    run.start(tasks_left=1)
    run.group.join(timeout=5)
    assert len(run.rows) == 1
