"""Users who come and go; every process that has users writes, when its test stops, what became of them."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import gevent
from locust import User, constant, events, tag, task

from locust_realism.runtime.control import attach
from locust_realism.runtime.options import OPTIONS, add_options
from locust_realism.runtime.population import FinitePopulation, Population, open_arrivals
from locust_realism.runtime.sessions import user_sessions
from locust_realism.workload.distributions import exponential, lognormal
from locust_realism.workload.rates import ConstantRate, SineRate

RATE = float(os.environ.get("TEST_RATE", "100"))
MEAN = float(os.environ.get("TEST_MEAN", "1"))
WARM_UP = float(os.environ.get("TEST_WARM_UP", "1"))
MODEL = os.environ.get("TEST_MODEL", "open")

lags: list[float] = []  # how late a bare gevent.sleep of this process is: what the machine allows
counts = {"on_start": 0, "on_stop": 0}
rows: list[Any] = []
wall = time.time() - time.perf_counter()


@events.init_command_line_parser.add_listener
def _options(parser: Any) -> None:
    add_options(parser, "locust_realism", OPTIONS)


class Visitor(User):
    wait_time = constant(0.3)
    if MODEL == "finite":
        population = FinitePopulation(
            int(RATE * MEAN * 4), away=exponential(3 * MEAN), session_duration=exponential(MEAN), warm_up=WARM_UP
        )
    elif MODEL == "sine":
        population = Population(
            arrivals=SineRate(0.2 * RATE, 1.8 * RATE, period=30),
            session_duration=lognormal(MEAN, cov=1.2),
            warm_up=WARM_UP,
        )
    elif MODEL == "tasks":
        population = open_arrivals(ConstantRate(RATE))
    else:
        population = Population(
            arrivals=ConstantRate(RATE),
            session_duration=exponential(MEAN),
            start="empty" if WARM_UP == 0 else "equilibrium",
            warm_up=WARM_UP,
        )

    def on_start(self) -> None:
        counts["on_start"] += 1

    def on_stop(self) -> None:
        counts["on_stop"] += 1

    @tag("look")
    @task
    def look(self) -> None:
        self.environment.events.request.fire(
            request_type="GET", name="look", response_time=1.0, response_length=1, context={}, exception=None
        )


class Closed(User):
    wait_time = constant(0.2)

    @tag("look")
    @task
    def nothing(self) -> None:
        pass


class Untagged(User):
    """Left without tasks by --tags: Locust must not be asked to run it."""

    population = open_arrivals(ConstantRate(1))

    @task
    def nothing(self) -> None:
        pass


@events.init.add_listener
def _listen(environment: Any, **_: Any) -> None:
    user_sessions(environment).listeners.append(rows.append)
    gevent.spawn(_sleep_and_see)


def _sleep_and_see() -> None:
    while True:
        began = time.perf_counter()
        gevent.sleep(0.005)
        lags.append(time.perf_counter() - began - 0.005)


@events.test_stop.add_listener
def _write(environment: Any, **_: Any) -> None:
    control = attach(environment)
    if control is None or not control.generations:
        return
    census = control.generations["Visitor"].census
    document = {
        "index": control.planner.index,
        "pid": os.getpid(),
        "workers": control.planner.plan.workers,
        "cut_short": census.cut_short,
        "missed": census.missed,
        "arrivals": census.arrivals,
        "entered": census.entered,
        "departures": census.departures,
        "late_p99": census.late.quantile(0.99),
        "lag_p999": sorted(lags)[int(0.999 * len(lags))],
        "origin": wall + control.planner.time_of(0),
        "sessions": [
            [r.started + wall, r.ended + wall, r.planned_start + wall, r.ending, r.tasks]
            for r in rows
            if r.user_class == "Visitor"
        ],
        **counts,
    }
    rows.clear()
    target = Path(os.environ["TEST_OUT"]) / f"{os.getpid()}-{time.time_ns()}.json"
    target.write_text(json.dumps(document))
