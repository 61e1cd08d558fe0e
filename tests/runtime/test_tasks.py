"""The task of each request and the pause before it, as users of a real Environment launch them."""

from __future__ import annotations

import time
from typing import Any, ClassVar

import gevent
import numpy as np
import pytest
from gevent.pool import Group, Pool
from locust import SequentialTaskSet, User, constant, task
from locust.env import Environment
from locust.exception import StopUser

from locust_realism.recording.columns import pack, unpack
from locust_realism.recording.launches import MISSING, LaunchLog
from locust_realism.runtime.capture.recorder import Recorder
from locust_realism.runtime.coordination.clock import STEP_S, Clock
from locust_realism.runtime.users.session import Session, current_session, hook_user_start, session_of

hook_user_start()

PAUSE_S = 0.03
EARLY_S, LATE_S = 0.001, 0.025
"""Bounds of a wake that is due: a timer's whole milliseconds, and a busy machine."""


class Recorded(User):
    """User whose requests take ``seconds`` and are reported to Locust's event, as its clients do."""

    abstract = True
    wait_time = constant(PAUSE_S)

    def request(self, name: str, seconds: float = 0.0) -> None:
        start, begun = time.time(), time.perf_counter()
        gevent.sleep(seconds)
        self.environment.events.request.fire(
            request_type="GET",
            name=name,
            response_time=(time.perf_counter() - begun) * 1000,
            response_length=1,
            response=None,
            context={},
            exception=None,
            start_time=start,
        )


def record(user_class: type[User], tasks: float, users: int = 1) -> LaunchLog:
    """Return the launches of some users that do so many tasks each."""
    environment = Environment(user_classes=[user_class])
    recorder = Recorder(Clock(), session_of=current_session)
    environment.events.request.add_listener(recorder.listener)
    group = Group()
    for _ in range(users):
        user = user_class(environment)
        user.start(group)
        session = session_of(user)
        assert session is not None
        session.tasks_left = tasks
    assert group.join(timeout=10)
    gevent.sleep(2 * PAUSE_S)  # greenlets that outlive their user
    assert recorder.errors == 0
    return recorder.take().build()


def by_name(log: LaunchLog) -> dict[str, list[tuple[int, int]]]:
    """Return the task, counted from the first one of the log, and the pause of each request, by its name."""
    first = int(log.task[log.task != MISSING].min())
    found: dict[str, list[tuple[int, int]]] = {}
    for label, number, think in zip(log.label.tolist(), log.task.tolist(), log.think_us.tolist(), strict=True):
        found.setdefault(log.labels[label].name, []).append((number - first if number >= 0 else MISSING, think))
    return found


def is_pause(think_us: int, seconds: float = PAUSE_S) -> bool:
    return seconds - EARLY_S <= think_us / 1e6 <= seconds + LATE_S


def test_four_requests_in_a_row_are_one_task_after_the_pause_since_the_last_one() -> None:
    class Shopper(Recorded):
        @task
        def shop(self) -> None:
            for page in range(4):
                self.request("shop", 0.005 * page)

    rows = by_name(record(Shopper, tasks=3))["shop"]
    assert [number for number, _ in rows] == [0] * 4 + [1] * 4 + [2] * 4
    assert [think for _, think in rows[:4]] == [MISSING] * 4, "the spawner decides when a user's first task begins"
    assert len({think for _, think in rows[4:8]}) == len({think for _, think in rows[8:]}) == 1
    assert is_pause(rows[4][1])
    assert is_pause(rows[8][1]), "the pause begins at the end of the task before, not at its launch"


def test_ten_requests_in_parallel_are_one_task() -> None:
    class Browser(Recorded):
        @task
        def page(self) -> None:
            pool = Pool(10)
            for k in range(10):
                pool.spawn(self.request, "page", 0.002 * k)
            pool.join()

    log = record(Browser, tasks=4, users=5)
    numbers, counts = np.unique(log.task, return_counts=True)
    assert (len(numbers), set(counts.tolist())) == (20, {10})
    for number in numbers.tolist():
        rows = log.take(log.task == number)
        assert len(set(rows.slot.tolist())) == len(set(rows.think_us.tolist())) == 1
    firsts = np.array([log.think_us[log.task == number][0] for number in numbers.tolist()])
    assert (firsts == MISSING).sum() == 5, "one first task for each user"
    assert all(is_pause(think) for think in firsts[firsts != MISSING].tolist())


def test_tasks_of_a_nested_set_are_the_tasks_and_the_set_itself_is_none() -> None:
    class Inner(SequentialTaskSet):
        def on_start(self) -> None:
            self.user.request("inner on_start")  # type: ignore[attr-defined]

        def on_stop(self) -> None:
            self.user.request("inner on_stop")  # type: ignore[attr-defined]

        @task
        def one(self) -> None:
            self.user.request("one")  # type: ignore[attr-defined]

        @task
        def two(self) -> None:
            self.user.request("two")  # type: ignore[attr-defined]
            self.interrupt()

    class Nested(Recorded):
        tasks: ClassVar[list[Any]] = [Inner]

    rows = by_name(record(Nested, tasks=4))
    assert [number for number, _ in rows["one"]] == [0, 2]
    assert [number for number, _ in rows["two"]] == [1, 3]
    assert all(is_pause(think) for _, think in rows["two"])
    assert {row for name in ("inner on_start", "inner on_stop") for row in rows[name]} == {(MISSING, MISSING)}


@pytest.mark.parametrize("ending", ["ran out", "StopUser", "killed"])
def test_requests_of_on_start_and_on_stop_have_no_task(ending: str) -> None:
    class Visitor(Recorded):
        def on_start(self) -> None:
            self.request("on_start")
            gevent.spawn(self.request, "on_start", 0.01).join()

        def on_stop(self) -> None:
            self.request("on_stop")

        @task
        def work(self) -> None:
            self.request("work")
            if ending == "StopUser":
                raise StopUser
            if ending == "killed":
                gevent.spawn(self.stop, force=True)
                gevent.sleep(5)

    rows = by_name(record(Visitor, tasks=1))
    assert set(rows["on_start"] + rows["on_stop"]) == {(MISSING, MISSING)}
    assert rows["work"] == [(0, MISSING)]


def test_a_greenlet_that_outlives_its_task_gives_its_requests_no_task() -> None:
    """Neither its own, which is over, nor the next one, which did not launch them."""

    class Careless(Recorded):
        @task
        def work(self) -> None:
            gevent.spawn(self.request, "reported in the pause", 1.5 * PAUSE_S)
            gevent.spawn(self.request, "reported in the next task", 2.5 * PAUSE_S)
            gevent.sleep(0)
            self.request("own", PAUSE_S)

    rows = by_name(record(Careless, tasks=3))
    assert [number for number, _ in rows["own"]] == [0, 1, 2]
    assert rows["reported in the pause"] == rows["reported in the next task"] == [(MISSING, MISSING)] * 3


def test_the_launch_decides_whose_task_a_request_is_to_the_precision_of_wall_time() -> None:
    clock, began = Clock(), time.perf_counter()
    recorder = Recorder(clock, session_of=lambda: Session(3, "Buyer", began, task=(7.0, began, 0.25)))
    for before_s in (1.5 * STEP_S, 0.5 * STEP_S, -0.5):
        recorder.listener(start_time=began + clock.anchor - before_s, response_time=0.0)
    log = recorder.take().build()
    assert log.task.tolist() == [MISSING, 7, 7]
    assert log.think_us.tolist() == [MISSING, 250_000, 250_000]


def test_a_master_takes_the_tasks_of_a_block_as_they_were_packed() -> None:
    class Shopper(Recorded):
        @task
        def shop(self) -> None:
            self.request("shop")

    log = record(Shopper, tasks=5, users=3)
    block = unpack(pack(log), max_bytes=1 << 20)
    assert block.task.tolist() == log.task.tolist()
    assert block.think_us.tolist() == log.think_us.tolist()
    assert len(set(log.task.tolist())) == len(log) == 15
