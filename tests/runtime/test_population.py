"""Populations in a LocalRunner: counts, endings, edits, limits, starts and stops."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import gevent
import numpy as np
import pytest
from gevent import monkey
from locust import LoadTestShape, User, constant
from locust.env import Environment
from locust.exception import StopUser

from locust_realism.runtime.population.control import PopulationControl, attach
from locust_realism.runtime.population.model import Population, open_arrivals
from locust_realism.runtime.users.session import user_sessions
from locust_realism.workload.distributions import exponential
from locust_realism.workload.rates.shapes import ConstantRate

from .cluster import eventually
from .population_support import Calls, Closed, hold, visitor


class Local:
    """A LocalRunner with populations."""

    def __init__(self, calls: Calls, classes: list[type[User]], **settings: Any) -> None:
        self.environment = Environment(user_classes=classes, **settings)
        self.runner: Any = self.environment.create_local_runner()
        user_sessions(self.environment).listeners.append(calls.rows.append)
        control = attach(self.environment)
        assert control is not None
        self.control: PopulationControl = control

    def start(self, users: int = 1, spawn_rate: float = 1) -> None:
        """Start a run, or edit it, and wait until its populations are in place."""
        self.runner.start(users, spawn_rate)
        eventually(lambda: self.control.generations)

    def elapsed(self) -> float:
        """Return the seconds of the run."""
        return self.control.planner.elapsed()

    def census(self, name: str = "Visitor") -> Any:
        return self.control.generations[name].census


@pytest.fixture
def local() -> Iterator[Callable[..., Local]]:
    made: list[Local] = []

    def make(calls: Calls, classes: list[type[User]], **settings: Any) -> Local:
        made.append(Local(calls, classes, **settings))
        return made[-1]

    yield make
    for one in made:
        one.runner.quit()


def test_without_a_population_nothing_is_attached() -> None:
    environment = Environment(user_classes=[Closed])
    environment.create_local_runner()
    dispatcher = environment.dispatcher_class
    assert attach(environment) is None
    assert environment.dispatcher_class is dispatcher


def test_users_arrive_stay_leave_and_are_counted(local: Any) -> None:
    calls = Calls()
    population = Population(arrivals=ConstantRate(200), session_duration=exponential(0.2), start="empty", warm_up=0.0)
    run = local(calls, [visitor(calls, population)])
    assert attach(run.environment) is run.control
    run.start()
    eventually(lambda: run.elapsed() > 3)
    census, seen, expected = run.census(), run.runner.user_count, 200 * run.elapsed()
    assert seen == census.active
    assert abs(census.arrivals - expected) < 5 * math.sqrt(expected)
    run.runner.stop()
    eventually(lambda: calls.started == calls.stopped, because="one on_stop for each on_start")
    assert census.cut_short == 0
    arrivals = census.arrivals
    assert census.departures["ran out"] == arrivals - census.departures["stopped"] - census.departures["killed"]
    assert census.departures["stopped"] + census.departures["killed"] <= seen + 5
    assert run.runner.user_count == 0
    ended = [row for row in calls.rows if row.ending == "ran out"]
    assert len(ended) == census.departures["ran out"]
    late = np.array([row.started - row.planned_start for row in calls.rows])
    assert (late > -1e-6).all()
    slots = {row.slot for row in calls.rows}
    assert max(slots) < census.highest, "slots are used again"


def test_the_task_after_the_end_of_a_session_is_not_launched(local: Any) -> None:
    calls = Calls()
    population = Population(arrivals=ConstantRate(100), session_duration=0.1, start="empty", warm_up=0.0)
    run = local(calls, [visitor(calls, population, wait=constant(30))])
    run.start()
    eventually(lambda: run.census().departures["ran out"] > 40)
    run.runner.stop()
    ended = [row for row in calls.rows if row.ending == "ran out"]
    assert {row.tasks for row in ended} == {1}
    assert max(row.ended - row.started for row in ended) < 1.0


def test_sessions_of_a_number_of_tasks_and_one_task_a_user(local: Any) -> None:
    calls = Calls()
    three = visitor(calls, Population(arrivals=ConstantRate(60), session_length=3))
    one = type("Once", (visitor(calls, open_arrivals(ConstantRate(60))),), {})
    limits = Population(arrivals=ConstantRate(60), session_duration=60, session_length=2, start="empty", warm_up=0.0)
    both = type("Both", (visitor(calls, limits),), {})
    run = local(calls, [three, one, both])
    run.start()

    def censuses() -> list[Any]:
        return [generation.census for generation in run.control.generations.values()]

    eventually(lambda: run.census("Once").arrivals > 50 and all(c.departures["ran out"] > 20 for c in censuses()))
    run.runner.stop()
    by_class = {
        name: {r.tasks for r in calls.rows if r.user_class == name and r.ending == "ran out"}
        for name in ("Visitor", "Once", "Both")
    }
    assert by_class == {"Visitor": {3}, "Once": {1}, "Both": {2}}


def test_users_who_stop_or_fail_are_departures_and_not_replaced(local: Any) -> None:
    calls = Calls()

    def give_up(user: User) -> None:
        if user.environment.catch_exceptions:
            raise StopUser
        raise RuntimeError("broken")

    for catch, ending in ((True, "StopUser"), (False, "exception")):
        population = Population(arrivals=ConstantRate(100), session_duration=60, start="empty", warm_up=0.0)
        run = local(calls, [visitor(calls, population, work=give_up), Closed], catch_exceptions=catch)
        run.start(3, 100)
        census = run.census()
        eventually(lambda c=census, e=ending: c.departures[e] > 50)
        expected = 100 * run.elapsed()
        assert census.departures[ending] <= census.arrivals < expected + 5 * math.sqrt(expected)
        assert census.active <= 2
        run.start(4, 100)  # a dispatch, at which Locust alone would bring them all back
        eventually(lambda r=run: r.runner.user_classes_count["Closed"] == 4)
        hold(lambda c=census: c.active <= 5, 0.2)
        run.runner.stop()


def test_a_start_in_equilibrium_enters_during_the_warm_up_and_then_stays(local: Any) -> None:
    calls = Calls()
    population = Population(arrivals=ConstantRate(40), session_duration=exponential(2), warm_up=1.0)
    run = local(calls, [visitor(calls, population, wait=constant(0.3))], reset_stats=True)
    resets: list[float] = []
    clear = run.environment.stats.reset_all
    run.environment.stats.reset_all = lambda: (resets.append(time.perf_counter()), clear())
    began = time.perf_counter()
    run.start()
    eventually(lambda: run.elapsed() > 0.5)
    entered, expected = run.runner.user_count, 80 * run.elapsed()
    assert run.runner.state == "spawning"
    assert abs(entered - expected) < 5 * math.sqrt(expected)
    eventually(lambda: run.runner.state == "running")
    assert 0.95 < time.perf_counter() - began < 2.5
    assert abs(run.runner.user_count - 80) < 5 * math.sqrt(80)
    eventually(lambda: run.census().arrivals > 30)
    run.start()
    hold(lambda: len(resets) == 1, 0.3)  # only the end of the warm-up resets the statistics
    assert run.environment.reset_stats is False
    run.runner.stop()
    assert run.environment.reset_stats is True


def test_arrivals_over_the_limit_are_turned_away_and_counted(local: Any, caplog: Any) -> None:
    calls = Calls()
    caplog.set_level(logging.WARNING)
    population = Population(arrivals=ConstantRate(100), session_duration=30, start="empty", max_users=20)
    run = local(calls, [visitor(calls, population)])
    run.start()
    census = run.census()
    eventually(lambda: census.balked > 60)
    assert (census.active, census.highest) == (20, 20)
    assert any("max_users is 20" in record.getMessage() for record in caplog.records)


def test_a_stalled_process_launches_no_burst(local: Any) -> None:
    calls = Calls()
    run = local(calls, [visitor(calls, open_arrivals(ConstantRate(100)))])
    run.start()
    eventually(lambda: run.census().arrivals > 30)
    census, before = run.census(), run.census().arrivals
    monkey.get_original("time", "sleep")(2.5)  # no greenlet of this process runs, as after SIGSTOP
    resumed = run.elapsed()
    schedule = run.control.generations["Visitor"].schedule
    eventually(lambda: schedule.due() > run.elapsed())
    assert abs(census.missed - 150) < 5 * math.sqrt(150), "arrivals more than a second late"
    in_time = 100 * (1 + run.elapsed() - resumed)
    assert census.arrivals - before < in_time + 5 * math.sqrt(in_time)
    eventually(lambda: census.arrivals - before > 150, because="arrivals go on")
    assert census.missed < 220


def test_an_edited_rate_takes_effect_at_once_and_keeps_the_users(local: Any) -> None:
    calls = Calls()
    population = Population(arrivals=ConstantRate(50), session_duration=60, start="empty", warm_up=0.0)
    options = SimpleNamespace(population_scale=None, headless=False)
    run = local(calls, [visitor(calls, population)], parsed_options=options)
    run.start()
    eventually(lambda: run.runner.user_count > 40)
    before, edited = run.runner.user_count, run.elapsed()
    options.population_scale = "6"  # the text of the start form
    run.start()
    eventually(lambda: run.elapsed() > edited + 1)
    after, expected = run.runner.user_count, 300 * (run.elapsed() - edited)
    assert calls.stopped == 0
    assert abs(after - before - expected) < 5 * math.sqrt(expected)
    options.population_scale = "many"
    run.start()
    hold(lambda: run.runner.user_count >= after, 0.1)  # a bad value is refused and changes nothing
    assert run.control.populations["Visitor"].arrivals.rate(0) == 300


def test_bad_options_end_the_run_before_it_begins(local: Any) -> None:
    calls = Calls()
    options = SimpleNamespace(population_session_duration="-3", headless=False)
    run = local(
        calls, [visitor(calls, Population(arrivals=ConstantRate(50), session_duration=1))], parsed_options=options
    )
    run.runner.start(1, 1)
    eventually(lambda: run.environment.process_exit_code == 1)
    assert calls.started == 0


def test_stop_and_start_again_begins_a_new_run(local: Any) -> None:
    calls = Calls()
    population = Population(arrivals=ConstantRate(100), session_duration=0.1, start="empty", warm_up=0.0)
    run = local(calls, [visitor(calls, population), Closed])
    for _ in range(2):
        run.start(3, 10)
        eventually(lambda: run.runner.state == "running")
        eventually(lambda: run.census().arrivals > 20)
        expected = 100 * run.elapsed()
        assert run.census().arrivals < expected + 5 * math.sqrt(expected), "counts of the new run only"
        assert run.runner.user_classes_count["Closed"] == 3
        run.runner.stop()
        assert run.runner.user_count == 0
        stopped = run.census().arrivals
        hold(lambda s=stopped: run.census().arrivals == s, 0.2)  # nobody arrives after the end of the test
    assert calls.started == calls.stopped


def test_a_stop_timeout_lets_sessions_end_their_task(local: Any) -> None:
    calls = Calls()
    population = Population(arrivals=ConstantRate(60), session_duration=60, start="empty", warm_up=0.0)
    done: list[int] = []

    def work(_user: User) -> None:
        gevent.sleep(0.3)
        done.append(1)

    # Locust kills waiting users; no wait ends meanwhile, or a next task could begin and be killed.
    run = local(calls, [visitor(calls, population, wait=constant(30), work=work)], stop_timeout=5)
    run.start()
    eventually(lambda: len(done) > 5)
    eventually(lambda: calls.tasks - len(done) > 5, because="some are inside a task")
    run.runner.stop()
    assert {row.ending for row in calls.rows} == {"stopped"}
    assert calls.tasks == len(done), "no task was aborted"
    assert calls.started == calls.stopped
    assert len(calls.rows) - calls.started <= 1, "at most one user was stopped before its first run"


class TwoSteps(LoadTestShape):
    def tick(self) -> tuple[int, float]:
        return (5, 100) if self.get_run_time() < 1.5 else (10, 100)


def test_weights_and_a_shape_move_only_the_classes_without_a_population(local: Any) -> None:
    calls = Calls()
    population = Population(arrivals=ConstantRate(100), session_duration=60, start="empty", max_users=30, warm_up=0.0)
    heavy = type("Heavy", (Closed,), {"weight": 4})
    run = local(calls, [visitor(calls, population), Closed, heavy], shape_class=TwoSteps())
    run.runner.start_shape()
    for closed, heavy_ones in ((1, 4), (2, 8)):
        expected = {"Closed": closed, "Heavy": heavy_ones, "Visitor": 30}
        eventually(lambda e=expected: run.runner.user_classes_count == e)
    assert run.runner.user_count == 40
    assert (calls.stopped, run.census().cut_short) == (0, 0)


def test_a_class_without_tasks_is_skipped(local: Any) -> None:
    calls = Calls()
    population = Population(arrivals=ConstantRate(100), session_duration=0.1, start="empty", warm_up=0.0)
    emptied = visitor(calls, population)
    run = local(calls, [emptied, Closed], tags=["none of them has it"])
    run.runner.start(1, 1)
    hold(lambda: calls.started == 0, 0.3)
    assert run.control.populations == {}


def test_a_user_that_cannot_be_created_ends_the_run_with_a_message(local: Any, caplog: Any) -> None:
    calls = Calls()

    class Broken(visitor(calls, open_arrivals(ConstantRate(100)))):  # type: ignore[misc]
        def __init__(self, environment: Environment) -> None:
            raise RuntimeError("no host given")

    run = local(calls, [Broken])
    run.runner.start(1, 1)
    eventually(lambda: run.environment.process_exit_code == 1)
    assert any("no host given" in record.getMessage() for record in caplog.records)


def test_the_first_request_of_a_session_has_its_planned_time(local: Any) -> None:
    from locust_realism.runtime.users.session import current_session

    calls, planned = Calls(), []

    def note(_: object) -> None:
        session = current_session()
        assert session is not None
        planned.append(session.planned)

    run = local(calls, [visitor(calls, open_arrivals(ConstantRate(50)), work=note)])
    run.start()
    eventually(lambda: len(planned) > 10)
    assert None not in planned
    assert planned == sorted(planned)
