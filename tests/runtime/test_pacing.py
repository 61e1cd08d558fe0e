"""Paced waits in real Environments: launches while users, workers and rates change."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import gevent
import pytest
from locust import TaskSet, User, task
from locust.env import Environment

from locust_realism.runtime.coordination import plan as planner
from locust_realism.runtime.coordination import plan as planners
from locust_realism.runtime.coordination.plan import declare, ensure_plan
from locust_realism.runtime.coordination.randomness import connect
from locust_realism.runtime.figures.workload_model import workload_facts
from locust_realism.runtime.pacing.pacers import paced_counts, paced_totals, report_counts
from locust_realism.runtime.pacing.waits import PacedWait, diurnal_sine, paced
from locust_realism.runtime.population.view import population_document
from locust_realism.runtime.users.alarm import timers
from locust_realism.runtime.users.session import hook_user_start, session_of
from locust_realism.workload.distributions import constant, exponential
from locust_realism.workload.distributions.streams import use_source
from locust_realism.workload.rates.shapes import ConstantRate, PiecewiseLinearRate, SineRate, StepRate

from .cluster import cluster, eventually


@pytest.fixture(autouse=True)
def _sources() -> Iterator[None]:
    """Restore the sources and items that waits register for the process."""
    declared = dict(planners.declared)
    hook_user_start()
    connect()
    yield
    use_source(None)
    planners.declared.clear()
    planners.declared.update(declared)


def visitor(wait: Any, work: Callable[[Any], None] = lambda user: None) -> type[User]:
    """Return a user class that stores the time of the run and the planned time of each launch in ``launches``."""

    class Visitor(User):
        wait_time = wait
        launches: list[tuple[float, float]] = []  # noqa: RUF012

        @task
        def visit(self) -> None:
            planner, session = ensure_plan(self.environment), session_of(self)
            assert session is not None
            planned = math.nan if session.planned is None else session.planned - planner.time_of(0)
            self.launches.append((planner.elapsed(), planned))
            work(self)

    return Visitor


@contextmanager
def running(user_class: type[User], users: int, seed: int | None = 1) -> Iterator[Environment]:
    environment = Environment(user_classes=[user_class], parsed_options=SimpleNamespace(realism_seed=seed))
    runner = environment.create_local_runner()
    ensure_plan(environment)
    runner.start(users, users)
    try:
        yield environment
    finally:
        runner.quit()


def test_the_first_task_waits_for_a_launch() -> None:
    Visitor = visitor(paced(StepRate(((0, 0), (0.5, 1000)))))
    with running(Visitor, 20):
        gevent.sleep(0.4)
        assert Visitor.launches == []
        eventually(lambda: Visitor.launches)
        gevent.sleep(0.2)
    assert all(elapsed >= planned >= 0.5 for elapsed, planned in Visitor.launches)


def test_the_population_tab_has_the_profile_of_the_next_hours() -> None:
    day = SineRate(1, 9, 86_400)
    with running(visitor(paced(day)), 1) as environment:
        gevent.sleep(0.3)
        document = population_document(environment, workload_facts(environment).planned_profile)
    ahead = document["profile"]
    assert document["model"] is None
    assert 0.2 < ahead["now_s"] < 60
    assert ahead["unit"] == "launches per second"
    assert ahead["t_s"][-1] - ahead["t_s"][0] == pytest.approx(86_400)
    assert ahead["rate"] == pytest.approx([float(day.rate(t)) for t in ahead["t_s"]])


def test_launches_follow_the_plan_and_the_plan_follows_the_seed() -> None:
    profile = SineRate(100, 500, 0.5)
    planned = []
    for seed in (7, 7, 8):
        wait = paced(profile)
        object.__setattr__(wait, "name", "the same in each locustfile")
        declare(wait.name, profile.to_dict)
        Visitor = visitor(wait)
        with running(Visitor, 30, seed):
            gevent.sleep(0.7)
        planned.append(sorted(at for _, at in Visitor.launches if at < 0.5))
        assert min(elapsed - at for elapsed, at in Visitor.launches) >= 0
    begin = max(times[0] for times in planned)  # launches before the first user are dropped
    same, again, other = ([at for at in times if at > begin] for times in planned)
    expected = float(profile.cumulative(0.5) - profile.cumulative(begin))
    assert abs(len(same) - expected) < 4 * math.sqrt(expected)
    assert same == pytest.approx([at for at in again if at > begin])
    assert same != pytest.approx(other)


def test_think_times_of_a_slot_are_repeated_by_the_seed() -> None:
    def waits(seed: int) -> dict[int, list[float]]:
        seen: dict[int, list[float]] = {}
        think = exponential(0.01)

        class Thinker(User):
            def wait_time(self) -> float:
                session = session_of(self)
                assert session is not None
                seen.setdefault(session.slot, []).append(think(self))
                return 0.0 if len(seen[session.slot]) < 5 else 10.0

            @task
            def nothing(self) -> None:
                pass

        with running(Thinker, 5, seed):
            eventually(lambda: len(seen) == 5 and all(len(w) == 5 for w in seen.values()))
        return seen

    first = waits(3)
    assert waits(3) == first
    assert waits(4) != first
    assert len({wait for slot in first.values() for wait in slot}) == 25


def test_a_task_set_may_have_the_wait_and_a_user_an_attribute_user() -> None:
    class Visitor(User):
        launches = 0

        @task
        class Browsing(TaskSet):
            wait_time = paced(ConstantRate(200), extra_wait=exponential(0.01))

            @task
            def visit(self) -> None:
                self.user.launches += 1

        def on_start(self) -> None:
            self.user = "alice"

    class Direct(Visitor):
        tasks = [lambda user: None]  # noqa: RUF012
        wait_time = paced(ConstantRate(200), extra_wait=exponential(0.01))

    for user_class in (Visitor, Direct):
        with running(user_class, 5) as environment:
            name = eventually(lambda env=environment: [n for n, c in paced_counts(env).items() if c.launched > 20])
            assert len(name) == 1


@pytest.mark.parametrize(
    ("wait", "waits"),
    [
        (constant(3600), 20),
        (paced(ConstantRate(1e-4), scope="user"), 20),
        (paced(ConstantRate(1e-4)), 1),
        (paced(ConstantRate(1000), extra_wait=constant(3600)), 20),
    ],
    ids=["think time", "paced, user", "paced, total", "extra wait"],
)
def test_waits_are_on_the_timers_of_the_process_and_leave_them_when_users_stop(wait: Any, waits: int) -> None:
    stopped = []

    class Leaver(visitor(wait)):  # type: ignore[misc]
        def on_stop(self) -> None:
            stopped.append(self)

    before = len(timers())
    with running(Leaver, 20):
        eventually(lambda: len(timers()) >= before + waits)
        gevent.sleep(0.1)
        assert len(timers()) <= before + waits + 1
    eventually(lambda: len(timers()) <= before, because="no wait is left")
    assert len(stopped) == 20


def test_too_few_users_make_late_and_missed_launches_and_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    Visitor = visitor(paced(ConstantRate(40)), lambda user: gevent.sleep(0.1))
    with caplog.at_level("INFO"), running(Visitor, 2) as environment:
        gevent.sleep(2.2)
        due = 40 * ensure_plan(environment).elapsed()
        environment.runner.stop()
        [counts] = [c for name, c in paced_counts(environment).items() if c.launched]
    # Two users of 0.1 s are always behind: of 40 launches a second they make 20 at most, the others are missed.
    assert counts.launched == len(Visitor.launches) <= due / 2 + 3
    assert counts.late >= counts.launched - 5
    assert abs(counts.launched + counts.missed + counts.too_early - due) <= 5 * math.sqrt(due)
    assert any("this rate needs more users" in record.message for record in caplog.records)
    # A user who was away for 0.1 s may take a launch up to a second old, not an older one.
    assert sum(elapsed - planned > 1.05 for elapsed, planned in Visitor.launches) <= 2


def test_an_extra_wait_is_added_and_is_part_of_the_planned_time() -> None:
    Visitor = visitor(paced(StepRate(((0, 100),), end=0.2), extra_wait=constant(0.3)))
    with running(Visitor, 60):
        eventually(lambda: Visitor.launches)
        gevent.sleep(0.5)
    assert all(0.3 <= planned < 0.5 + 0.05 for _, planned in Visitor.launches)
    assert all(elapsed >= planned for elapsed, planned in Visitor.launches)


def test_a_session_that_is_over_leaves_the_queue() -> None:
    Visitor = visitor(paced(StepRate(((0, 0), (2.0, 50)))))
    with running(Visitor, 4) as environment:
        ends = time.perf_counter() + 0.2
        late = Visitor(environment)
        greenlet = late.start(environment.runner.user_greenlets)
        session_of(late).ends_at = ends  # type: ignore[union-attr]
        gone = eventually(lambda: greenlet.dead and time.perf_counter())
        assert 0 <= gone - ends < 1.0
        assert Visitor.launches == []
        eventually(lambda: len(Visitor.launches) > 3, because="the other users launch")


def test_each_user_has_the_rate_of_its_own() -> None:
    seen: dict[int, int] = {}

    def note(user: Any) -> None:
        seen[id(user)] = seen.get(id(user), 0) + 1

    Visitor = visitor(paced(ConstantRate(30), scope="user"), note)
    with running(Visitor, 10) as environment:
        gevent.sleep(2.0)
        launches, expected = len(Visitor.launches), 300 * ensure_plan(environment).elapsed()
    assert len(seen) == 10
    assert abs(launches - expected) < 5 * math.sqrt(expected)
    assert max(seen.values()) < expected / 10 + 5 * math.sqrt(expected / 10)
    assert len({planned for _, planned in Visitor.launches[:launches]}) == launches


def test_a_change_of_the_rate_in_the_run_takes_effect_at_once() -> None:
    for scope in ("total", "user"):
        wait = paced(ConstantRate(0.001), scope=scope)  # type: ignore[arg-type]
        Visitor = visitor(wait)
        with running(Visitor, 10) as environment:
            gevent.sleep(0.2)
            assert Visitor.launches == []
            ensure_plan(environment).put(wait.name, ConstantRate(500).to_dict())
            eventually(lambda Visitor=Visitor: len(Visitor.launches) > 50, within=2)


def test_a_second_run_starts_anew() -> None:
    Visitor = visitor(paced(StepRate(((0, 200),), end=0.3)))
    with running(Visitor, 20) as environment:
        gevent.sleep(0.4)
        first = len(Visitor.launches)
        environment.runner.stop()
        gevent.sleep(0.2)
        environment.runner.start(20, 20)
        gevent.sleep(0.4)
    assert first > 20
    assert len(Visitor.launches) > first + 20
    assert all(planned < 0.35 for _, planned in Visitor.launches)


def test_a_run_without_a_plan_ends_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    wait = paced(ConstantRate(100))
    del planners.declared[wait.name]  # as if the master ran another locustfile
    monkeypatch.setattr(planner, "PLAN_TIMEOUT_S", 0.3)
    Visitor = visitor(wait)
    with running(Visitor, 3) as environment:
        eventually(lambda: environment.runner.user_count == 0 and environment.process_exit_code == 1)
    assert Visitor.launches == []
    assert sum("must run the same locustfile" in record.message for record in caplog.records) == 1


def test_workers_share_the_rate_and_take_over_the_share_of_a_lost_one(monkeypatch: pytest.MonkeyPatch) -> None:
    Visitor = visitor(paced(ConstantRate(300)))

    def prepare(environment: Environment) -> None:
        ensure_plan(environment)
        report_counts(environment)

    with cluster(monkeypatch, [Visitor], prepare, workers=2) as machines:
        machines.start(users=40, spawn_rate=40)
        eventually(lambda: len(Visitor.launches) > 20)
        assert_rate(Visitor, 300)
        assert len({planned for _, planned in Visitor.launches}) == len(Visitor.launches), "workers share no stream"
        eventually(lambda: _launched(machines.master) >= len(Visitor.launches) - 100, because="workers report counts")
        assert _launched(machines.master) <= len(Visitor.launches) + 40
        machines.kill(machines.workers[0])
        eventually(lambda: ensure_plan(machines.workers[0]).share() == 1.0)
        assert_rate(Visitor, 300)


def _launched(environment: Environment) -> int:
    return sum(counts.launched for counts in paced_totals(environment).values())


def assert_rate(user_class: Any, rate: float) -> None:
    """Assert the rate of launches over the next two seconds."""
    begin, started = len(user_class.launches), time.perf_counter()
    gevent.sleep(2.0)
    expected = rate * (time.perf_counter() - started)
    assert abs(len(user_class.launches) - begin - expected) < 5 * math.sqrt(expected) + 0.05 * expected


def wait_of(**settings: Any) -> PacedWait:
    return diurnal_sine(1, 9, **settings)


def test_settings_of_the_sine() -> None:
    from datetime import UTC, datetime
    from datetime import time as time_of_day

    start = datetime(2026, 6, 1, 12, tzinfo=UTC)
    assert wait_of().profile == SineRate(1, 9, 86400)
    assert wait_of(oscillations_per_day=24).profile == SineRate(1, 9, 3600)
    assert wait_of(period=100, peak_at=30).profile_at(start).rate(30) == pytest.approx(9)
    noon = wait_of(peak_at="12:00 UTC").profile_at(start)
    assert noon.rate([0, 43200]) == pytest.approx([9, 1])
    later = wait_of(peak_at=time_of_day(18, tzinfo=UTC), compression=24).profile_at(start)
    assert later.rate([0, 900, 2700]) == pytest.approx([5, 9, 1])  # six hours to the peak are a quarter of an hour
    day = paced(PiecewiseLinearRate(((0, 0), (86400, 86400)), repeat=True), zero_at="00:00 UTC").profile_at(start)
    assert day.rate(0) == pytest.approx(43200)
    assert repr(wait_of(period=60).profile) in repr(wait_of(period=60))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"period": 60, "oscillations_per_day": 24}, "period = 60 and oscillations_per_day = 24 cannot both be given"),
        ({"oscillations_per_day": 0}, "oscillations_per_day must be > 0, not 0"),
        ({"peak_at": "14:00"}, "peak_at needs a zone"),
        ({"peak_at": "noon"}, "peak_at must be a number of seconds or a time of day"),
        ({"scope": "all"}, "scope must be one of total, user, not 'all'"),
        ({"compression": 0}, "compression must be > 0"),
        ({"extra_wait": -1}, "mean must be >= 0"),
        ({"seed": -1}, "seed must be an integer >= 0, not -1"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        wait_of(**settings)
    with pytest.raises(ValueError, match="profile must be a rate profile"):
        paced(5)  # type: ignore[arg-type]
