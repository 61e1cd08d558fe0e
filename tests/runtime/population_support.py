"""Users of a population whose calls are counted, for the tests of populations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from locust import User, constant, task

from locust_realism.runtime.sessions import SessionRecord

THINK = constant(0.02)


class Calls:
    """on_start and on_stop of all users of a test, and its session rows."""

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
