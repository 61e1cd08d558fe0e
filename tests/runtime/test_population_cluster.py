"""Populations in a cluster of one process: shares of the rate, workers that join and leave, edits, moving people."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import gevent
import numpy as np
import pytest
from locust import User, constant
from locust.env import Environment

from locust_realism.runtime.population.control import PopulationControl, attach
from locust_realism.runtime.population.model import FinitePopulation, Population
from locust_realism.runtime.users.session import user_sessions
from locust_realism.workload.distributions import exponential
from locust_realism.workload.rates.shapes import ConstantRate

from .cluster import Cluster, cluster, eventually
from .population_support import Calls, Closed, people_held, visitor


class Net:
    """Cluster with its calls and controls."""

    def __init__(self, net: Cluster, calls: Calls) -> None:
        self.net, self.calls = net, calls

    def control(self, environment: Environment) -> PopulationControl:
        control = attach(environment)
        assert control is not None
        return control

    def census(self, worker: Environment) -> Any:
        return self.control(worker).generations["Visitor"].census


@pytest.fixture
def distributed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Net]]:
    from contextlib import ExitStack

    with ExitStack() as stack:

        def make(population: Any, workers: int = 2, classes: tuple[type[User], ...] = (), **settings: Any) -> Net:
            calls = Calls()

            def prepare(environment: Environment) -> None:
                attach(environment)
                user_sessions(environment).listeners.append(calls.rows.append)

            classes_of_run = [visitor(calls, population, wait=constant(0.1)), *classes]
            net = stack.enter_context(cluster(monkeypatch, classes_of_run, prepare, workers, **settings))
            return Net(net, calls)

        yield make


def test_workers_share_the_arrivals_and_the_master_adds_up(distributed: Any) -> None:
    population = Population(arrivals=ConstantRate(100), session_duration=exponential(0.5), start="empty", warm_up=0.0)
    run = distributed(population, classes=(Closed,))
    run.net.start(4, 10)
    eventually(lambda: run.net.runner.state == "running")
    gevent.sleep(2.5)
    parts = [run.census(worker).arrivals for worker in run.net.workers]
    assert abs(sum(parts) - 250) < 6 * math.sqrt(250) + 60
    assert min(parts) > 0.25 * sum(parts)
    assert sum(w.runner.user_classes_count["Closed"] for w in run.net.workers) == 4
    tally = run.control(run.net.master).tallies["Visitor"]
    live = sum(w.runner.user_count for w in run.net.workers)
    eventually(lambda: abs(run.net.runner.user_count - live) < 25)
    eventually(lambda: tally.total("arrivals") >= sum(parts))
    run.net.stop()
    assert run.net.runner.user_count == 0
    assert run.calls.started == run.calls.stopped
    assert all(run.census(worker).cut_short == 0 for worker in run.net.workers)


def test_two_joins_in_a_row_both_get_their_share(distributed: Any) -> None:
    population = Population(arrivals=ConstantRate(120), session_duration=exponential(0.5), start="empty", warm_up=0.0)
    run = distributed(population, classes=(Closed,))
    run.net.start(3, 10)
    eventually(lambda: run.net.runner.state == "running")
    late = [run.net.join(), run.net.join()]
    for worker in late:
        eventually(lambda w=worker: "Visitor" in run.control(w).generations, because="a joiner has a population")
    before = [run.census(worker).arrivals for worker in run.net.workers]
    gevent.sleep(2)
    new = [run.census(worker).arrivals - b for worker, b in zip(run.net.workers, before, strict=True)]
    assert min(new) > 25, f"60 each are expected: {new}"
    assert abs(sum(new) - 240) < 5 * math.sqrt(240) + 12
    assert sum(w.runner.user_classes_count["Closed"] for w in run.net.workers) == 3


def test_the_others_take_over_the_share_of_a_killed_worker(distributed: Any) -> None:
    population = Population(arrivals=ConstantRate(100), session_duration=exponential(1.0), warm_up=0.2)
    run = distributed(population, workers=3)
    run.net.start()
    eventually(lambda: run.net.runner.state == "running")
    gevent.sleep(1)
    dead, rest = run.net.workers[1], [run.net.workers[0], run.net.workers[2]]
    rows = len(run.calls.rows)
    run.net.kill(dead)
    eventually(lambda: all(run.control(w).planner.share() == 0.5 for w in rest), within=5)
    before = sum(run.census(w).arrivals for w in rest)
    gevent.sleep(2)
    arrivals = sum(run.census(w).arrivals for w in rest) - before
    assert abs(arrivals - 200) < 5 * math.sqrt(200) + 10
    assert all(run.census(w).cut_short == 0 for w in rest)
    assert {row.ending for row in run.calls.rows[rows:]} <= {"ran out", "stopped", "killed"}
    tally = run.control(run.net.master).tallies["Visitor"]
    assert tally.total("lost") > 5, "what was lost is known"
    assert abs(sum(run.census(w).active for w in rest) - 100) < 6 * math.sqrt(100)


def test_editing_on_the_master_reaches_the_workers(distributed: Any) -> None:
    population = Population(arrivals=ConstantRate(20), session_duration=60, start="empty", warm_up=0.0)
    options = SimpleNamespace(
        population_scale=None,
        headless=False,
        enable_rebalancing=False,
        web_base_path="",
        tags=None,
        exclude_tags=None,
        stop_timeout=0,
    )
    run = distributed(population, parsed_options=options)
    run.net.start()
    eventually(lambda: run.net.runner.state == "running")
    gevent.sleep(0.5)
    before = sum(run.census(w).arrivals for w in run.net.workers)
    options.population_scale = 10
    run.net.start()
    gevent.sleep(1.2)
    arrivals = sum(run.census(w).arrivals for w in run.net.workers) - before
    assert abs(arrivals - 220) < 60
    assert run.calls.stopped == 0


def test_people_of_a_finite_population_spread_over_all_workers(distributed: Any) -> None:
    population = FinitePopulation(200, away=exponential(1.5), session_duration=exponential(0.5), warm_up=0.2)
    run = distributed(population)
    run.net.start()
    eventually(lambda: run.net.runner.state == "running")
    gevent.sleep(1.0)
    late = run.net.join()
    eventually(lambda: "Visitor" in run.control(late).generations)
    schedules = lambda: [run.control(w).generations["Visitor"].schedule for w in run.net.workers]  # noqa: E731
    eventually(lambda: people_held(schedules()[2]) > 30 and not any(s._expected for s in schedules()), within=15)
    held = eventually(lambda: (h := [people_held(s) for s in schedules()]) and sum(h) == 200 and h)
    assert min(held) > 40
    active = [sum(run.census(w).active for w in run.net.workers)]
    for _ in range(10):
        gevent.sleep(0.15)
        active.append(sum(run.census(w).active for w in run.net.workers))
    assert 30 < np.mean(active) < 72, "50 of 200 are expected"
    run.net.kill(run.net.workers[0])
    eventually(lambda: sum(people_held(s) for s in schedules()) == 200, within=8, because="the lost ones draw anew")
    moved = sum(run.control(w).generations["Visitor"].census.moved_anew for w in run.net.workers)
    assert moved >= held[0] - 10


def test_the_statistics_are_reset_once_although_workers_join(distributed: Any) -> None:
    population = Population(arrivals=ConstantRate(50), session_duration=exponential(0.2), warm_up=0.5)
    run = distributed(population, reset_stats=True)
    resets: list[int] = []
    stats = run.net.master.stats
    clear = stats.reset_all
    stats.reset_all = lambda: (resets.append(1), clear())
    run.net.start()
    eventually(lambda: run.net.runner.state == "running")
    for _ in range(2):
        run.net.join()
        gevent.sleep(0.5)
    assert len(resets) == 1
    assert run.net.runner.target_user_count == 1, "the user's own target is kept"
