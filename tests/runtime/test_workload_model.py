"""Workload model of a real Environment, read from its user classes for the verdict."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from locust import User, constant, task
from locust.env import Environment

from locust_realism.analysis.settings import WorkloadModel
from locust_realism.analysis.summary import summarize
from locust_realism.analysis.verdict.evidence import Facts
from locust_realism.recording.launches import LaunchLog
from locust_realism.runtime.figures.workload_model import workload_facts
from locust_realism.runtime.population.control import attach
from locust_realism.runtime.population.model import FinitePopulation, Population, open_arrivals
from locust_realism.workload.distributions import exponential
from locust_realism.workload.rates.shapes import ConstantRate, SineRate
from locust_realism.workload.users.arrivals import arrival_times

DAY = SineRate(min_rate=0.5, max_rate=9.5, period=60)


def led(*populations: Any, publish: bool = True) -> Environment:
    """Return an Environment whose control is in the state of a running test."""

    class Visitor(User):
        wait_time = constant(1)

        @task
        def look(self) -> None:
            pass

    classes = [type(f"Visitor{i}", (Visitor,), {"population": each}) for i, each in enumerate(populations)]
    environment = Environment(user_classes=classes)
    environment.create_local_runner()
    control = attach(environment)
    if control is not None and publish:
        control.planner._on_test_start()  # type: ignore[attr-defined]
        control._running = True
        control._publish(starting=True)
    return environment


def test_arrivals_of_open_populations_are_those_of_all_of_them_together() -> None:
    profile = workload_facts(led(Population(DAY, 30), Population(ConstantRate(2), session_length=3))).arrival_profile
    assert profile is not None
    t = np.linspace(0, 200, 50)
    assert np.allclose(profile.cumulative(t), DAY.cumulative(t) + 2 * t)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "populations",
    [(None,), (Population(DAY, 30), None), (Population(DAY, 30), FinitePopulation(5, exponential(9), exponential(9)))],
)
def test_there_is_no_arrival_profile_unless_open_populations_bring_all_users(populations: tuple[Any, ...]) -> None:
    assert workload_facts(led(*populations)).arrival_profile is None


def test_a_population_that_was_edited_while_it_ran_has_no_single_plan() -> None:
    environment = led(Population(DAY, 30))
    assert workload_facts(environment).arrival_profile == DAY
    control = attach(environment)
    assert control is not None
    environment.user_classes[0].population = Population(ConstantRate(5), 30)  # type: ignore[attr-defined]
    control._publish(starting=False)
    assert workload_facts(environment).arrival_profile is None


def test_there_is_no_arrival_profile_before_a_test_starts() -> None:
    assert workload_facts(led(Population(DAY, 30), publish=False)).arrival_profile is None


def test_arrivals_that_follow_their_plan_are_green_and_without_the_plan_they_are_not() -> None:
    """Check 10 on a minute's day with five arrivals a second: windows of 200 gaps mix its peak with its night."""
    model = workload_facts(led(Population(DAY, 30))).model
    assert replace(model, session_quantiles_s=None) == WorkloadModel(kind="open", poisson_arrivals=True, session_s=30.0)
    assert set(model.session_quantiles_s or ()) == {30.0}, "a constant stay"
    starts = arrival_times(DAY, 600, np.random.default_rng(1))
    launches = np.sort(np.random.default_rng(2).uniform(0, 600, 5000))
    log = LaunchLog.build(np.rint(launches * 1e6).astype(np.int64), 1000)

    def status(at: np.ndarray, **facts: Any) -> str:
        given = Facts(model=model, user_starts_us=np.rint(at * 1e6).astype(np.int64), run_start_us=0, **facts)
        checks = summarize(log, facts=given)["verdict"]["checks"]
        return str(next(check["status"] for check in checks if check["id"] == 10))

    assert status(starts, arrival_profile=DAY) == "green"
    assert status(starts) == "red"
    in_threes = np.repeat(starts[::3], 3)[: len(starts)] + np.tile([0, 0.01, 0.02], len(starts))[: len(starts)]
    assert status(in_threes, arrival_profile=DAY) == "red"


def test_open_arrivals_are_planned_launches() -> None:
    """One task a user: the first check looks at launches, and the tenth has nothing to add."""
    facts = workload_facts(led(open_arrivals(DAY)))
    assert facts.model.kind == "open"
    assert not facts.model.poisson_arrivals
    assert facts.planned_profile == facts.arrival_profile == DAY
    assert workload_facts(led(open_arrivals(DAY), Population(DAY, 30))).planned_profile is None
    launches = arrival_times(DAY, 600, np.random.default_rng(1))
    log = LaunchLog.build(np.rint(launches * 1e6).astype(np.int64), 1000)
    assert summarize(log, facts=facts, run_start_us=0)["verdict"]["overall"] == "green"
    assert summarize(log, run_start_us=0)["verdict"]["overall"] == "red"
