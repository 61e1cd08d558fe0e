"""Users that fire request events, recorded by us and by a plain listener.

Each process writes to $RESULTS at its end: the rows of its own listener, the master's (or the only process's) record,
and Locust's own counts.
"""

from __future__ import annotations

import json
import os
import random
import time
from pathlib import Path
from typing import Any

import gevent
from locust import User, constant, events, task
from locust.runners import WorkerRunner

from locust_realism.runtime.capture.files import FilePlan
from locust_realism.runtime.capture.run import attach
from locust_realism.runtime.lifecycle.signals import interrupt_main_only
from locust_realism.runtime.users.session import hook_user_start

RESULTS = Path(os.environ["RESULTS"])
seen: list[tuple[str, int, bool]] = []
state: dict[str, Any] = {}

hook_user_start()


@events.init.add_listener
def start_recording(environment: Any, **_: Any) -> None:
    interrupt_main_only()  # as the plugin does: a Ctrl-C must not end the report under way
    state["recording"] = attach(environment, files=FilePlan() if os.environ.get("RECORD") else None)
    state["environment"] = environment


@events.request.add_listener
def note(name: str, response_time: float, exception: Any, **_: Any) -> None:
    seen.append((name, round(response_time * 1000), exception is not None))


@events.test_start.add_listener
def forget(**_: Any) -> None:
    seen.clear()


@events.quit.add_listener
def write(**_: Any) -> None:
    recording, environment = state["recording"], state["environment"]
    result: dict[str, Any] = {"seen": seen, "errors": recording.errors, "warnings": recording.warnings()}
    if recording.record is not None:
        log = recording.record.snapshot()
        since = recording.record.snapshot(since_reset=True)
        total = environment.stats.total
        result |= {
            "rows": [
                (log.labels[label].name, response, bool(failed))
                for label, response, failed in zip(
                    log.label.tolist(), log.response_us.tolist(), log.failed.tolist(), strict=True
                )
            ],
            "workers": sorted(set(log.worker.tolist())),
            "slots": sorted(set(log.slot.tolist())),
            "since_reset": [len(since), int(since.failed.sum())],
            "locust": [total.num_requests, total.num_failures],
            "lost": recording.record.counts().lost,
            "balance": recording.balance(),
        }
    role = "worker" if isinstance(environment.runner, WorkerRunner) else "main"
    (RESULTS / f"{role}-{os.getpid()}.json").write_text(json.dumps(result))


class Asker(User):
    """User with a request every few milliseconds, and one in on_stop, where Locust loses rows most easily."""

    wait_time = constant(0.01)

    def ask(self, name: str) -> None:
        start, counter = time.time(), time.perf_counter()
        gevent.sleep(random.uniform(0.001, 0.005))
        self.environment.events.request.fire(
            request_type="ASK",
            name=name,
            response_time=(time.perf_counter() - counter) * 1000,
            response_length=random.randrange(1000),
            exception=ValueError("refused") if random.random() < 0.1 else None,
            start_time=start,
            context={},
            response=None,
        )

    @task
    def anything(self) -> None:
        self.ask(random.choice(["home", "list", "buy"]))

    def on_stop(self) -> None:
        self.ask("leave")
