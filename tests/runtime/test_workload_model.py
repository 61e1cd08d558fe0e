"""Workload model of a real Environment, read from its user classes for the verdict."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import gevent
import numpy as np
import pytest
from locust import TaskSet, User, constant, runners, task
from locust.env import Environment

from locust_realism.analysis.settings import WorkloadModel
from locust_realism.analysis.summary import summarize
from locust_realism.analysis.verdict.evidence import Facts
from locust_realism.recording.launches import LaunchLog
from locust_realism.runtime.figures import workload_model
from locust_realism.runtime.figures.workload_model import count_missed_launches, missed_launches, workload_facts
from locust_realism.runtime.pacing.waits import PacedWait
from locust_realism.runtime.population.control import attach
from locust_realism.runtime.population.model import FinitePopulation, Population, open_arrivals
from locust_realism.workload.distributions import exponential
from locust_realism.workload.rates.shapes import ConstantRate, SineRate
from locust_realism.workload.users.arrivals import arrival_times
from locust_realism.workload.users.launching import LaunchCounts

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


# Waits of TaskSets ----------------------------------------------------------------------------------------------------


def task_set(*tasks: Any, wait: Any = None) -> type[TaskSet]:
    return type("Nested", (TaskSet,), {"tasks": list(tasks), **({} if wait is None else {"wait_time": wait})})


def model_of(*tasks: Any, wait: Any = None) -> WorkloadModel:
    visitor = type("Visitor", (User,), {"tasks": list(tasks), **({} if wait is None else {"wait_time": wait})})
    environment = Environment(user_classes=[visitor])
    environment.create_local_runner()
    return workload_facts(environment).model


def look(user: Any) -> None:
    """Task without a request."""


def test_users_whose_task_sets_wait_otherwise_have_no_single_think_time() -> None:
    """A target of 1 s would call the 5 s of the nested set +400 % off; with one wait for all there is a target."""
    inner = task_set(look, wait=exponential(5))
    for tasks in ((inner,), (look, inner), (task_set(look, inner),)):
        model = model_of(*tasks, wait=exponential(1))
        assert (model.kind, model.think_time_s, model.think_time_cov) == ("closed", None, None)
    for nested in (task_set(look), task_set(look, wait=exponential(1)), task_set(task_set(look))):
        assert model_of(look, nested, wait=exponential(1)).think_time_s == 1.0


def test_a_task_set_with_the_only_wait_decides() -> None:
    """Locust's default of 0 s is not used where all tasks are in task sets with waits of their own."""
    inner = task_set(look, wait=exponential(5))
    assert model_of(inner).think_time_s == model_of(task_set(inner, wait=exponential(5))).think_time_s == 5.0
    for used in ((look, inner), (task_set(inner),), (inner, task_set(look))):
        assert model_of(*used).think_time_s is None


def test_paced_task_sets_make_no_closed_pool() -> None:
    total = task_set(look, wait=PacedWait("a wait", ConstantRate(9)))
    own = task_set(look, wait=PacedWait("another", ConstantRate(9), "user"))
    assert model_of(total).kind == "open"
    assert model_of(look, total, wait=exponential(1)).kind == "unknown"
    assert model_of(own).kind == model_of(look, own, wait=exponential(1)).kind == "closed"
    looping = task_set(look, wait=exponential(2))
    looping.tasks.append(looping)
    assert model_of(looping).think_time_s == 2.0


# Missed launches ------------------------------------------------------------------------------------------------------


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> LaunchCounts:
    """Counts of a run's paced waits, as all its processes report them; launches are missed after 10 ms."""
    counts = LaunchCounts()
    monkeypatch.setattr(workload_model, "paced_totals", lambda _: {"paced wait 1": counts})
    monkeypatch.setattr(workload_model, "MISSED_AFTER_S", 0.01)
    return counts


def test_missed_launches_are_those_from_full_spawn_to_the_stop_request(counted: LaunchCounts) -> None:
    """2,500 missed in the ramp are the spawner's doing; each run begins anew."""
    environment = led(None)
    count_missed_launches(environment)
    events = environment.events
    for ramp, judged in ((2500, 7), (0, 3)):
        counted.missed = 0
        events.test_start.fire(environment=environment)
        counted.missed = ramp - 100 if ramp else 0
        assert missed_launches(environment) == 0
        events.spawning_complete.fire(user_count=100)
        counted.missed = ramp  # launches that were due before full spawn
        gevent.sleep(0.03)
        assert missed_launches(environment) == 0
        counted.missed += judged
        events.spawning_complete.fire(user_count=120)  # a later change of the number of users is part of the load
        gevent.sleep(0.03)
        assert workload_facts(environment).missed_launches == judged
        events.test_stopping.fire(environment=environment)
        counted.missed += 50  # users are gone
        assert missed_launches(environment) == judged


def test_a_master_waits_for_the_reports_of_the_time_before_full_spawn(
    counted: LaunchCounts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runners, "WORKER_REPORT_INTERVAL", 0.1)
    environment = led(None)
    environment.runner = object.__new__(runners.MasterRunner)
    count_missed_launches(environment)
    environment.events.spawning_complete.fire(user_count=9)
    gevent.sleep(0.05)
    counted.missed = 400  # a report of the ramp
    gevent.sleep(0.1)
    counted.missed += 5
    assert missed_launches(environment) == 5


def test_a_run_that_stops_at_full_spawn_has_no_missed_launches(counted: LaunchCounts) -> None:
    environment = led(None)
    count_missed_launches(environment)
    environment.events.spawning_complete.fire(user_count=9)
    counted.missed = 30
    environment.events.test_stopping.fire(environment=environment)
    gevent.sleep(0.03)
    assert missed_launches(environment) == 0
