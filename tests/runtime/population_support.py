"""Users of a population that count their calls, for the tests of populations."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import gevent
from locust import User, constant, task

from locust_realism.runtime.users.session import SessionRecord
from locust_realism.workload.users.people import PeopleSchedule

THINK = constant(0.02)


def hold(condition: Callable[[], object], seconds: float) -> None:
    """Assert that a condition stays true, checked every 10 ms while the greenlets run."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        assert condition()
        gevent.sleep(0.01)


class Calls:
    """Counts of on_start, on_stop and tasks of all users of a test, and its session rows."""

    def __init__(self) -> None:
        self.started = self.stopped = self.tasks = 0
        self.rows: list[SessionRecord] = []


def visitor(calls: Calls, population: Any, wait: Any = THINK, work: Callable[[User], None] | None = None) -> type[User]:
    class Visitor(User):
        wait_time = wait

        def on_start(self) -> None:
            calls.started += 1

        def on_stop(self) -> None:
            calls.stopped += 1

        @task
        def look(self) -> None:
            calls.tasks += 1
            if work is not None:
                work(self)

    Visitor.population = population  # type: ignore[attr-defined]
    return Visitor


class Closed(User):
    wait_time = constant(0.05)

    @task
    def nothing(self) -> None:
        pass


def people_held(schedule: PeopleSchedule) -> int:
    """Return the number of people away or in session at a worker."""
    return len(schedule._away) + len(schedule._in_session) + len(schedule._initial)
