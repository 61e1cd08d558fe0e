"""Plan messages: their receivers, their times, and the end of a run without them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import gevent
import pytest
from locust import User, constant, task
from locust.env import Environment

from locust_realism.runtime.coordination import plan
from locust_realism.runtime.coordination import plan as planners
from locust_realism.runtime.coordination.plan import Plan, ensure_plan

from .cluster import cluster, eventually


class Idle(User):
    wait_time = constant(10)

    @task
    def nothing(self) -> None:
        pass


@pytest.fixture
def local() -> Iterator[Environment]:
    environment = Environment(user_classes=[Idle])
    environment.create_local_runner()
    yield environment
    environment.runner.quit()


def test_a_plan_round_trips_through_json_without_unknown_keys() -> None:
    made = Plan(1, 2, True, (0, 3), (0,), 7, {"a": {"kind": "constant", "per_second": 2.0}})
    assert Plan.from_dict({**json.loads(json.dumps(asdict(made))), "new": 1}) == made


def test_a_local_run_is_its_own_only_member(local: Environment) -> None:
    planner = ensure_plan(local)
    assert ensure_plan(local) is planner
    seen: list[Plan] = []
    planner.subscribe(seen.append)
    planner.put("rate", 3.0)
    assert (planner.plan, planner.share()) == (None, 0.0)
    local.runner.start(1, 1)
    eventually(lambda: local.runner.user_count == 1)
    assert planner.await_item("rate") == 3.0
    assert (planner.share(), seen[0].members, seen[0].run) == (1.0, (0,), 1)
    assert abs(planner.time_of(planner.elapsed()) - time.perf_counter()) < 0.1
    planner.put("rate", 3.0)
    assert len(seen) == 1, "putting an equal payload is no change"
    planner.put("rate", 4.0)
    assert (seen[-1].version, seen[-1].items["rate"]) == (1, 4.0)
    local.runner.stop()
    assert not seen[-1].running
    local.runner.start(1, 1)
    eventually(lambda: local.runner.user_count == 1)
    assert (seen[-1].run, seen[-1].running) == (2, True)
    assert planner.elapsed() < 5


def test_a_declared_item_is_in_the_plan_of_every_environment(local: Environment, monkeypatch: Any) -> None:
    from locust import events

    monkeypatch.setattr(planners, "declared", declared := {})
    monkeypatch.setattr(plan, "declared", declared)
    before = list(events.init._handlers)
    try:
        plan.declare("paced", lambda: {"rate": 1.0})
        plan.declare("paced", lambda: {"rate": 1.0})
        assert len(events.init._handlers) <= len(before) + 1
        events.init.fire(environment=local, runner=local.runner, web_ui=None)
        local.runner.start(1, 1)
        assert ensure_plan(local).await_item("paced") == {"rate": 1.0}
    finally:
        events.init._handlers[:] = before


def test_the_seed_is_the_option_or_drawn(local: Environment) -> None:
    assert planners.chosen_seed(local) != planners.chosen_seed(local)
    local.parsed_options = type("Options", (), {"realism_seed": "12"})()
    assert planners.chosen_seed(local) == 12


def test_an_environment_without_a_runner_is_refused() -> None:
    with pytest.raises(ValueError, match="runner"):
        ensure_plan(Environment())


def test_workers_receive_the_plan_its_changes_and_changes_of_members(monkeypatch: pytest.MonkeyPatch) -> None:
    with cluster(monkeypatch, [Idle], ensure_plan) as net:
        leading = ensure_plan(net.master)
        leading.put("rate", 5.0)
        followers = [ensure_plan(worker) for worker in net.workers]
        followers[0].put("rate", 99.0)
        net.start()
        for follower in followers:
            assert follower.await_item("rate", timeout=5) == 5.0, "a worker takes the master's item"
            assert follower.share() == 0.5
            assert abs(follower.elapsed() - leading.elapsed()) < 0.2
        assert sorted(f.index for f in followers) == [0, 1]
        assert followers[0].plan.seed == followers[1].plan.seed
        leading.put("rate", 6.0)
        eventually(lambda: all(f.plan.items["rate"] == 6.0 for f in followers))

        late = ensure_plan(net.join())
        eventually(lambda: late.plan is not None and late.share() == pytest.approx(1 / 3))
        assert late.plan.previous == (0, 1)
        eventually(lambda: followers[0].share() == pytest.approx(1 / 3))

        net.kill(net.workers[1])
        eventually(lambda: followers[0].share() == 0.5 and late.share() == 0.5, within=5)
        assert late.plan.previous == (0, 1, 2)
        net.stop()
        eventually(lambda: not late.plan.running)


def test_the_workers_clock_takes_the_least_delayed_message(monkeypatch: pytest.MonkeyPatch) -> None:
    with cluster(monkeypatch, [Idle], ensure_plan, workers=1) as net:
        net.start()
        follower: Any = ensure_plan(net.workers[0])
        eventually(lambda: follower.plan is not None)
        origin = follower._origin
        follower._on_plan("", {**asdict(follower.plan), "elapsed": follower.elapsed() - 3, "index": 0})
        assert follower._origin <= origin, "a message that came 3 s late must not set the clock back"


def test_without_a_plan_the_run_ends_with_a_reason(monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    errors: list[str] = []

    def prepare(environment: Environment) -> None:
        if environment.runner.__class__.__name__ == "WorkerRunner":
            ensure_plan(environment)  # and no planner on the master

    with cluster(monkeypatch, [Idle], prepare, workers=1) as net:
        worker = net.workers[0]
        net.start()
        gevent.sleep(0.3)
        with pytest.raises(TimeoutError, match="same locustfile"):
            ensure_plan(worker).await_item("rate", timeout=0.2)
        eventually(lambda: worker.process_exit_code == 1)
        errors += [r.getMessage() for r in caplog.records if r.levelname == "ERROR"]
        assert any("No plan for 'rate'" in message for message in errors)


def test_an_item_that_the_master_lacks_ends_the_run_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    with cluster(monkeypatch, [Idle], ensure_plan, workers=1) as net:
        net.start()
        with pytest.raises(TimeoutError, match="has no 'rate'"):
            ensure_plan(net.workers[0]).await_item("rate", timeout=0.5)
        eventually(lambda: net.master.process_exit_code == 1)
        eventually(lambda: net.runner.state in ("stopping", "stopped"))
