"""A locustfile with a paced wait, one import and no install(); each process writes down when it launched."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import gevent
from locust import LoadTestShape, User, events, task

from locust_realism import diurnal_sine

launches: list[float] = []
stalls: list[tuple[float, float]] = []
"""Spans of more than 30 ms in which this process got no CPU time and could launch nothing."""


class Visitor(User):
    wait_time = diurnal_sine(min_rate=40, max_rate=760, period=4)

    @task
    def visit(self) -> None:
        launches.append(time_of_run(self.environment))


def time_of_run(environment: Any) -> float:
    """Return the time as the pacer sees it; only the test needs it."""
    from locust_realism.runtime.coordination.plan import ensure_plan

    return ensure_plan(environment).elapsed()


@events.test_start.add_listener
def watch(environment: Any, **_: Any) -> None:
    gevent.spawn(watch_for_stalls, environment)


def watch_for_stalls(environment: Any) -> None:
    before = time_of_run(environment)
    while True:
        gevent.sleep(0.005)
        now = time_of_run(environment)
        if now - before > 0.03:
            stalls.append((before, now))
        before = now


if os.environ.get("USERS_ADDED"):

    class MoreUsers(LoadTestShape):
        def tick(self) -> tuple[int, float] | None:
            seconds = self.get_run_time()
            return None if seconds > 10 else (50, 50) if seconds > 4 else (10, 10)


@events.quitting.add_listener
def write(environment: Any, **_: Any) -> None:
    path = Path(os.environ["RESULTS"]) / f"launches-{os.getpid()}.json"
    path.write_text(json.dumps({"launches": launches, "stalls": stalls}))
