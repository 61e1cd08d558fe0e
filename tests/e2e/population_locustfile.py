"""Users of a population; every process with users writes its counts and sessions when its test stops.

The master writes the document of the Population tab.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import gevent
from locust import User, constant, events, tag, task

from locust_realism.runtime.coordination.plan import ensure_plan
from locust_realism.runtime.options import OPTIONS, add_options
from locust_realism.runtime.population.control import attach
from locust_realism.runtime.population.model import FinitePopulation, Population, open_arrivals
from locust_realism.runtime.population.view import population_document
from locust_realism.runtime.users.session import user_sessions
from locust_realism.workload.distributions import exponential, lognormal
from locust_realism.workload.rates.shapes import ConstantRate, SineRate

RATE = float(os.environ.get("TEST_RATE", "100"))
MEAN = float(os.environ.get("TEST_MEAN", "1"))
WARM_UP = float(os.environ.get("TEST_WARM_UP", "1"))
MODEL = os.environ.get("TEST_MODEL", "open")
AWAY = float(os.environ.get("TEST_AWAY", 3 * MEAN))
PERIOD = float(os.environ.get("TEST_PERIOD", "30"))
STALL_S = 0.002  # gevent's timers round up to the next millisecond

stalls: list[tuple[float, float]] = []  # planned and actual ends of a bare gevent.sleep
plans: list[tuple[float, int]] = []  # times of the plans and their numbers of processes
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
            int(RATE * (MEAN + AWAY)), away=exponential(AWAY), session_duration=exponential(MEAN), warm_up=WARM_UP
        )
    elif MODEL == "sine":
        population = Population(
            arrivals=SineRate(0.2 * RATE, 1.8 * RATE, period=PERIOD),
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
    """Class that --tags leaves without tasks: its population must not start."""

    population = open_arrivals(ConstantRate(1))

    @task
    def nothing(self) -> None:
        pass


@events.init.add_listener
def _listen(environment: Any, **_: Any) -> None:
    user_sessions(environment).listeners.append(rows.append)
    ensure_plan(environment).subscribe(lambda plan: plans.append((time.time(), len(plan.members))))
    gevent.spawn(_sleep_and_see)


def _sleep_and_see() -> None:
    while True:
        due = time.perf_counter() + 0.005
        gevent.sleep(0.005)
        if (woke := time.perf_counter()) > due + STALL_S:
            stalls.append((due + wall, woke + wall))


@events.test_stop.add_listener
def _write(environment: Any, **_: Any) -> None:
    control = attach(environment)
    if control is None:
        return
    target = Path(os.environ["TEST_OUT"])
    if control.leading:
        (target / "led").write_text(json.dumps(population_document(environment)))
    if "Visitor" not in control.generations:
        return
    census = control.generations["Visitor"].census
    document = {
        "index": control.planner.index,
        "pid": os.getpid(),
        "plans": plans,
        "cut_short": census.cut_short,
        "missed": census.missed,
        "arrivals": census.arrivals,
        "entered": census.entered,
        "departures": census.departures,
        "stalls": stalls,
        "origin": wall + control.planner.time_of(0),
        "sessions": [
            [r.started + wall, r.ended + wall, r.planned_start + wall, r.ending, r.tasks]
            for r in rows
            if r.user_class == "Visitor"
        ],
        **counts,
    }
    rows.clear()
    (target / f"{os.getpid()}-{time.time_ns()}.json").write_text(json.dumps(document))
