"""A master and its workers in one process, over real ZeroMQ, with short intervals between reports and heartbeats."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import gevent
import pytest
from locust import User, runners
from locust.env import Environment

from locust_realism.runtime.coordination import plan as planners


def eventually(condition: Callable[[], Any], within: float = 10.0, because: str = "") -> Any:
    """Return the first true value of ``condition()``, evaluated every 10 ms while the greenlets run."""
    deadline = time.perf_counter() + within
    while not (value := condition()):
        if time.perf_counter() > deadline:
            raise AssertionError(f"not true within {within} s: {because or condition}")
        gevent.sleep(0.01)
    return value


class Cluster:
    """One master and workers that join or are killed, each with an Environment of its own.

    ``prepare(environment)`` is called when the runner of an Environment exists, like a listener of init.
    """

    def __init__(self, user_classes: list[type[User]], prepare: Callable[[Environment], Any], **settings: Any) -> None:
        self.user_classes, self.prepare, self.settings = user_classes, prepare, settings
        self.master = self._environment()
        self.master.create_master_runner("127.0.0.1", 0)
        self.prepare(self.master)
        self.workers: list[Environment] = []

    def _environment(self) -> Environment:
        return Environment(user_classes=list(self.user_classes), host="", **self.settings)

    @property
    def runner(self) -> Any:
        return self.master.runner

    def join(self) -> Environment:
        """Start a worker and wait until the master has it as ready."""
        environment = self._environment()
        before = self.runner.worker_count
        environment.create_worker_runner("127.0.0.1", self.runner.server.port)
        self.prepare(environment)
        self.workers.append(environment)
        eventually(lambda: self.runner.worker_count > before, because="a worker joins")
        return environment

    def kill(self, worker: Environment) -> None:
        """End every greenlet of a worker at once without a message to the master, as kill -9 does."""
        runner: Any = worker.runner
        runner.greenlet.kill(block=True)
        runner.user_greenlets.kill(block=False)
        runner.client.close()
        self.workers.remove(worker)
        worker.events.test_stopping.fire(environment=worker)  # its own greenlets outside of the runner's group

    def start(self, users: int = 1, spawn_rate: float = 1) -> None:
        gevent.spawn(self.runner.start, users, spawn_rate)

    def stop(self) -> None:
        self.runner.stop()

    def close(self) -> None:
        for environment in [*self.workers, self.master]:
            runner: Any = environment.runner
            with gevent.Timeout(5, False):
                environment.events.test_stopping.fire(environment=environment)
                runner.user_greenlets.kill(block=True, timeout=2)
                runner.greenlet.kill(block=True, timeout=2)
            (runner.server if environment is self.master else runner.client).close()


@contextmanager
def cluster(
    monkeypatch: pytest.MonkeyPatch,
    user_classes: list[type[User]],
    prepare: Callable[[Environment], Any],
    workers: int = 2,
    **settings: Any,
) -> Iterator[Cluster]:
    """Yield a :class:`Cluster` that is closed at the end of the block."""
    monkeypatch.setattr(runners, "HEARTBEAT_INTERVAL", 0.25)  # shorter, a busy machine makes a worker seem lost
    monkeypatch.setattr(runners, "WORKER_REPORT_INTERVAL", 0.1)
    monkeypatch.setattr(planners, "MEMBERSHIP_INTERVAL_S", 0.05)
    monkeypatch.setattr(planners, "PLAN_INTERVAL_S", 0.2)
    made = Cluster(user_classes, prepare, **settings)
    try:
        for _ in range(workers):
            made.join()
        yield made
    finally:
        made.close()
