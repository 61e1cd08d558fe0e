"""Populations in a LocalRunner and in a cluster of one process: counts, endings, edits, members that come and go."""

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
from locust import User, constant, task
from locust.env import Environment
from locust.exception import StopUser

from locust_realism.runtime.control import PopulationControl, attach
from locust_realism.runtime.population import FinitePopulation, Population, open_arrivals
from locust_realism.runtime.sessions import SessionRecord, user_sessions
from locust_realism.workload.distributions import exponential
from locust_realism.workload.rates import ConstantRate

from .cluster import Cluster, cluster, eventually

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


class Local:
    """A LocalRunner with populations."""

    def __init__(self, calls: Calls, classes: list[type[User]], **settings: Any) -> None:
        self.environment = Environment(user_classes=classes, **settings)
        self.runner: Any = self.environment.create_local_runner()
        user_sessions(self.environment).listeners.append(calls.rows.append)
        control = attach(self.environment)
        assert control is not None
        self.control: PopulationControl = control

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
    run.runner.start(1, 1)
    gevent.sleep(3)
    census = run.census()
    seen = run.runner.user_count
    assert seen == census.active
    arrivals = census.arrivals
    assert abs(arrivals - 600) < 5 * math.sqrt(600)
    run.runner.stop()
    gevent.sleep(0.05)
    assert calls.started == calls.stopped, "one on_stop for each on_start"
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


def test_what_the_user_was_waiting_for_is_not_launched(local: Any) -> None:
    calls = Calls()
    population = Population(arrivals=ConstantRate(100), session_duration=0.1, start="empty", warm_up=0.0)
    run = local(calls, [visitor(calls, population, wait=constant(30))])
    run.runner.start(1, 1)
    gevent.sleep(1.0)
    run.runner.stop()
    ended = [row for row in calls.rows if row.ending == "ran out"]
    assert len(ended) > 40
    assert {row.tasks for row in ended} == {1}
    assert max(row.duration for row in ended) < 1.0


def test_sessions_of_a_number_of_tasks_and_one_task_a_user(local: Any) -> None:
    calls = Calls()
    three = visitor(calls, Population(arrivals=ConstantRate(60), session_length=3))
    one = type("Once", (visitor(calls, open_arrivals(ConstantRate(60))),), {})
    run = local(calls, [three, one])
    run.runner.start(1, 1)
    gevent.sleep(1.5)
    run.runner.stop()
    by_class = {
        name: {r.tasks for r in calls.rows if r.user_class == name and r.ending == "ran out"}
        for name in ("Visitor", "Once")
    }
    assert by_class == {"Visitor": {3}, "Once": {1}}
    assert run.census("Once").arrivals > 50


def test_users_who_stop_or_fail_are_departures_and_not_replaced(local: Any) -> None:
    calls = Calls()

    def give_up(user: User) -> None:
        if user.environment.catch_exceptions:
            raise StopUser
        raise RuntimeError("broken")

    for catch, ending in ((True, "StopUser"), (False, "exception")):
        population = Population(arrivals=ConstantRate(100), session_duration=60, start="empty", warm_up=0.0)
        run = local(calls, [visitor(calls, population, work=give_up), Closed], catch_exceptions=catch)
        run.runner.start(3, 100)
        gevent.sleep(1.0)
        census = run.census()
        assert census.departures[ending] > 50
        assert census.departures[ending] <= census.arrivals < 100 + 5 * 10
        assert census.active <= 2
        run.runner.start(4, 100)  # a dispatch, at which Locust alone would bring them all back
        gevent.sleep(0.2)
        assert census.active <= 2
        assert run.runner.user_classes_count["Closed"] == 4
        run.runner.stop()


def test_a_start_in_equilibrium_enters_during_the_warm_up_and_then_stays(local: Any) -> None:
    calls = Calls()
    population = Population(arrivals=ConstantRate(40), session_duration=exponential(2), warm_up=1.0)
    run = local(calls, [visitor(calls, population, wait=constant(0.3))], reset_stats=True)
    resets: list[float] = []
    clear = run.environment.stats.reset_all
    run.environment.stats.reset_all = lambda: (resets.append(time.perf_counter()), clear())
    began = time.perf_counter()
    run.runner.start(1, 1)
    gevent.sleep(0.5)
    assert run.runner.state == "spawning"
    half = run.runner.user_count
    assert 15 < half < 65
    eventually(lambda: run.runner.state == "running")
    assert 0.95 < time.perf_counter() - began < 2.5
    assert abs(run.runner.user_count - 80) < 5 * math.sqrt(80)
    gevent.sleep(1)
    run.runner.start(1, 1)
    gevent.sleep(0.3)
    assert len(resets) == 1, "only the end of the warm-up resets the statistics"
    assert run.environment.reset_stats is False
    run.runner.stop()
    assert run.environment.reset_stats is True


def test_arrivals_over_the_limit_are_turned_away_and_counted(local: Any, caplog: Any) -> None:
    calls = Calls()
    caplog.set_level(logging.WARNING)
    population = Population(arrivals=ConstantRate(100), session_duration=30, start="empty", max_users=20)
    run = local(calls, [visitor(calls, population)])
    run.runner.start(1, 1)
    gevent.sleep(1.5)
    census = run.census()
    assert (census.active, census.highest) == (20, 20)
    assert census.balked > 60
    assert any("max_users is 20" in record.getMessage() for record in caplog.records)


def test_being_held_up_launches_no_burst(local: Any) -> None:
    calls = Calls()
    run = local(calls, [visitor(calls, open_arrivals(ConstantRate(100)))])
    run.runner.start(1, 1)
    gevent.sleep(0.5)
    before = run.census().arrivals
    monkey.get_original("time", "sleep")(2.5)  # nothing of this process runs, as after SIGSTOP
    gevent.sleep(0.2)
    census = run.census()
    assert abs(census.missed - 150) < 5 * math.sqrt(150), "those more than a second late"
    assert census.arrivals - before < 100 * 1.2 + 5 * math.sqrt(120)
    gevent.sleep(1.0)
    assert census.missed < 220
    assert census.arrivals - before > 150, "and then it goes on"


def test_editing_the_rate_takes_effect_at_once_and_keeps_who_is_in(local: Any) -> None:
    calls = Calls()
    population = Population(arrivals=ConstantRate(50), session_duration=60, start="empty", warm_up=0.0)
    options = SimpleNamespace(population_scale=None, headless=False)
    run = local(calls, [visitor(calls, population)], parsed_options=options)
    run.runner.start(1, 1)
    gevent.sleep(1.0)
    before, tasks = run.runner.user_count, calls.stopped
    options.population_scale = "6"  # what the start form sends
    run.runner.start(1, 1)
    gevent.sleep(1.0)
    after = run.runner.user_count
    assert calls.stopped == tasks == 0
    assert abs(after - before - 300) < 5 * math.sqrt(300)
    options.population_scale = "many"
    run.runner.start(1, 1)
    gevent.sleep(0.1)
    assert run.runner.user_count >= after, "a bad value is refused and changes nothing"
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
        run.runner.start(3, 10)
        eventually(lambda: run.runner.state == "running")
        gevent.sleep(0.5)
        assert 20 < run.census().arrivals < 120
        assert run.runner.user_classes_count["Closed"] == 3
        run.runner.stop()
        assert run.runner.user_count == 0
        stopped = run.census().arrivals
        gevent.sleep(0.2)
        assert run.census().arrivals == stopped, "nobody arrives when the test is over"
    assert calls.started == calls.stopped


def test_a_stop_timeout_lets_sessions_end_their_task(local: Any) -> None:
    calls = Calls()
    population = Population(arrivals=ConstantRate(60), session_duration=60, start="empty", warm_up=0.0)
    done: list[int] = []

    def work(_user: User) -> None:
        gevent.sleep(0.3)
        done.append(1)

    run = local(calls, [visitor(calls, population, work=work)], stop_timeout=5)
    run.runner.start(1, 1)
    gevent.sleep(0.5)
    run.runner.stop()
    assert {row.ending for row in calls.rows} == {"stopped"}
    assert calls.tasks == len(done)
    assert calls.started == calls.stopped
    assert len(calls.rows) - calls.started <= 1, "only one who was just arriving may not have run at all"


def test_a_class_without_tasks_is_skipped(local: Any) -> None:
    calls = Calls()
    population = Population(arrivals=ConstantRate(100), session_duration=0.1, start="empty", warm_up=0.0)
    emptied = visitor(calls, population)
    run = local(calls, [emptied, Closed], tags=["none of them has it"])
    run.runner.start(1, 1)
    gevent.sleep(0.3)
    assert run.control.populations == {}
    assert calls.started == 0


def test_a_user_that_cannot_be_created_ends_the_run_with_a_message(local: Any, caplog: Any) -> None:
    calls = Calls()

    class Broken(visitor(calls, open_arrivals(ConstantRate(100)))):  # type: ignore[misc]
        def __init__(self, environment: Environment) -> None:
            raise RuntimeError("no host given")

    run = local(calls, [Broken])
    run.runner.start(1, 1)
    eventually(lambda: run.environment.process_exit_code == 1)
    assert any("no host given" in record.getMessage() for record in caplog.records)


def test_the_first_request_of_a_session_knows_when_it_was_planned(local: Any) -> None:
    from locust_realism.runtime.sessions import take_planned_launch

    calls, planned = Calls(), []
    run = local(
        calls, [visitor(calls, open_arrivals(ConstantRate(50)), work=lambda _: planned.append(take_planned_launch()))]
    )
    run.runner.start(1, 1)
    gevent.sleep(0.5)
    assert planned
    assert None not in planned
    assert planned == sorted(planned)


class Net:
    """What a test of the cluster looks at."""

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


def test_a_killed_worker_does_not_disturb_the_others_and_its_share_is_taken_over(distributed: Any) -> None:
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
    assert tally.lost > 5, "what was lost is known"
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


def test_people_of_a_finite_population_live_on_all_workers(distributed: Any) -> None:
    population = FinitePopulation(200, away=exponential(1.5), session_duration=exponential(0.5), warm_up=0.2)
    run = distributed(population)
    run.net.start()
    eventually(lambda: run.net.runner.state == "running")
    gevent.sleep(1.0)
    late = run.net.join()
    eventually(lambda: "Visitor" in run.control(late).generations)
    schedules = lambda: [run.control(w).generations["Visitor"].schedule for w in run.net.workers]  # noqa: E731
    eventually(lambda: schedules()[2].held > 30 and sum(s.expected for s in schedules()) == 0, within=15)
    held = eventually(lambda: (h := [s.held for s in schedules()]) and sum(h) == 200 and h)
    assert min(held) > 40
    active = [sum(run.census(w).active for w in run.net.workers)]
    for _ in range(10):
        gevent.sleep(0.15)
        active.append(sum(run.census(w).active for w in run.net.workers))
    assert 30 < np.mean(active) < 72, "50 of 200 are expected"
    run.net.kill(run.net.workers[0])
    eventually(lambda: sum(s.held for s in schedules()) == 200, within=8, because="those of the lost worker draw anew")
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
