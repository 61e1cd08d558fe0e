"""Spawn messages: Locust pauses a worker at each of them, and the cached options end the pause."""

from __future__ import annotations

import time
from typing import Any

import pytest
from locust import User, argument_parser, constant, task
from locust.env import Environment
from locust.rpc import Message
from locust.runners import WorkerRunner

from locust_realism.runtime.coordination.plan import ensure_plan
from locust_realism.runtime.locust_compat import cache_own_options

from .cluster import cluster, eventually


class Idle(User):
    wait_time = constant(10)

    @task
    def nothing(self) -> None:
        pass


def test_a_spawn_message_is_handled_in_milliseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    original = getattr(argument_parser.default_args_dict, "__wrapped__", argument_parser.default_args_dict)
    monkeypatch.setattr(argument_parser, "default_args_dict", original)
    options = argument_parser.parse_options(["--headless"])

    def prepare(environment: Environment) -> Any:
        return ensure_plan(environment)

    with cluster(monkeypatch, [Idle], prepare, workers=1, parsed_options=options) as net:
        net.start()
        worker: Any = net.workers[0].runner
        assert isinstance(worker, WorkerRunner)
        if not hasattr(worker, "handle_message"):
            pytest.skip("this version of Locust handles messages inside its loop, where they cannot be timed")
        eventually(lambda: worker.user_count == 1)

        def handling() -> float:
            data = {
                "timestamp": time.time(),
                "user_classes_count": {"Idle": 1},
                "host": "",
                "stop_timeout": 0,
                "parsed_options": dict(vars(options)),
            }
            began = time.perf_counter()
            worker.handle_message(Message("spawn", data, None))
            return time.perf_counter() - began

        before = handling()
        cache_own_options()
        cache_own_options()
        first, after = handling(), handling()
        assert after < 0.02
        assert after < before / 5, "when Locust mends this, cache_own_options can go"
        assert first < before
        assert argument_parser.default_args_dict() == original()
