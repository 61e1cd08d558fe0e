"""Users of one run of benchmarks/calibrate_runs.py, which passes the environment variable CALIBRATION_RUN (JSON).

The first request of each task carries ``?t=1``, so that the server's log has the launches that the verdict judges.
"""

from __future__ import annotations

import json
import math
import os
import random
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import gevent
import gevent.pool
import locust
from gevent.monkey import get_original
from locust import FastHttpUser, HttpUser, LoadTestShape, events, task
from locust.runners import MasterRunner, WorkerRunner

import locust_realism

RUN: dict[str, Any] = json.loads(os.environ["CALIBRATION_RUN"])
FIRST, LATER = "/?t=1", "/"
numbers = count()
marks: dict[str, float] = {}

locust_realism.install()


def swinging(mean: float, amplitude: float, period: float) -> Callable[[Any], float]:
    """Return a wait whose mean follows a sine that no plan has."""

    def wait(_: Any) -> float:
        return random.expovariate((1 + amplitude * math.sin(2 * math.pi * time.time() / period)) / mean)

    return wait


def retrying(mean: float, again: float) -> Callable[[Any], float]:
    """Return an exponential wait, and one of ``again`` seconds after a failed request."""
    return lambda user: again if user.failed else random.expovariate(1 / mean)


NAMES = {name: getattr(locust_realism, name) for name in locust_realism.__all__}
NAMES |= {"swinging": swinging, "retrying": retrying, "constant_pacing": locust.constant_pacing}


class Visitor({"fast": FastHttpUser, "http": HttpUser}[RUN["client"]]):  # type: ignore[misc]
    """User of the run."""

    wait_time = eval(RUN["wait"], NAMES)  # noqa: S307 - text of the benchmark
    population = eval(RUN["population"] or "None", NAMES)  # noqa: S307
    failed = False

    def on_start(self) -> None:
        """Put the users of a metronome at equal distances on the clock."""
        if period := RUN["metronome"]:
            runner = self.environment.runner
            workers = max(RUN["processes"], 1)
            place = next(numbers) * workers + max(getattr(runner, "worker_index", 0), 0)
            gevent.sleep((place * period / RUN["users"] - time.time()) % period)
            self._cp_last_run = time.perf_counter()  # else the first pacing makes up for this wait

    @task
    def page(self) -> None:
        """Send one request, four in a row or ten in parallel."""
        if RUN["task"] == "parallel":
            pool = gevent.pool.Pool(10)
            for target in (FIRST, *[LATER] * 9):
                pool.spawn(self.client.get, target, name="page")
            pool.join()
            return
        self.failed = self.client.get(FIRST, name="page").status_code != 200
        for _ in range(3 if RUN["task"] == "row" else 0):
            self.client.get(LATER, name="part")


if not RUN["population"]:
    del Visitor.population

if RUN["shape"]:

    class SineUsers(LoadTestShape):
        """Number of users that follows a sine."""

        def tick(self) -> tuple[int, float] | None:
            """Return the users at this second."""
            now = self.get_run_time()
            swing = 1 + RUN["shape"] * math.sin(2 * math.pi * now / 8)
            return None if now > RUN["seconds"] else (max(round(RUN["users"] * swing), 1), RUN["users"])


def block(busy_s: float, every_s: float) -> None:
    """Hold the event loop for ``busy_s`` of every ``every_s`` seconds."""
    while True:
        until = time.perf_counter() + busy_s
        while time.perf_counter() < until:
            pass
        gevent.sleep(every_s - busy_s)


def hold_once(at_s: float, length_s: float) -> None:
    """Hold the event loop once, by a sleep that gevent has not patched."""
    gevent.sleep(at_s)
    get_original("time", "sleep")(length_s)


@events.test_start.add_listener
def trouble(environment: Any, **_: Any) -> None:
    """Start the distortion of the run in the processes with users."""
    if not isinstance(environment.runner, MasterRunner):
        for name, function in (("block", block), ("hold_once", hold_once)):
            if RUN[name]:
                gevent.spawn(function, *RUN[name])


@events.spawning_complete.add_listener
def spawned(**_: Any) -> None:
    """Note the first full spawn."""
    marks.setdefault("spawned", time.time())


@events.test_stopping.add_listener
def stopping(environment: Any, **_: Any) -> None:
    """Write the instants of full spawn and of the stop request."""
    if not isinstance(environment.runner, WorkerRunner):
        marks["stopping"] = time.time()
        Path(RUN["marks"]).write_text(json.dumps(marks))
