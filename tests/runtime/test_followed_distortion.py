"""One real distortion from the event loop to every view: the verdict, its text, its JSON and the Generator tab."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import gevent
import pytest
from locust import User, task
from locust.env import Environment

from locust_realism.analysis.settings import DEFAULT_BOUNDS, AnalysisSettings
from locust_realism.report.console import render_summary
from locust_realism.report.terminal import Screen
from locust_realism.runtime.capture.run import attach
from locust_realism.runtime.figures.generator_view import GeneratorView
from locust_realism.runtime.figures.provider import RunProvider
from locust_realism.runtime.figures.workload_model import workload_facts
from locust_realism.runtime.users.session import hook_user_start
from locust_realism.web.findings import generator_findings
from locust_realism.workload.distributions import exponential

BLOCKS = "code that blocks the event loop"


def spin(seconds: float) -> None:
    """Compute without yielding."""
    ends = time.perf_counter() + seconds
    while time.perf_counter() < ends:
        pass


class Visitor(User):
    wait_time = exponential(0.2)

    @task
    def look(self) -> None:
        self.environment.events.request.fire(
            request_type="GET", name="/", response_time=1, response_length=9, exception=None, context={},
            start_time=time.time(),
        )  # fmt: skip


def block() -> None:
    """Block the event loop for 5 of 10 ms."""
    while True:
        spin(0.005)
        gevent.sleep(0.005)


@pytest.mark.parametrize("blocked", [True, False])
def test_code_that_blocks_is_the_first_cause_in_every_view(blocked: bool) -> None:
    """Its file and line stand in text and JSON, and the tab grades the same figure; a free loop has none of it."""
    hook_user_start()
    environment = Environment(user_classes=[Visitor])
    runner: Any = environment.create_local_runner()
    recording = attach(environment)
    view = GeneratorView(environment, recording)
    provider = RunProvider(
        environment,
        recording,
        settings=lambda: AnalysisSettings(charts=False),
        facts=lambda: workload_facts(environment),
        population=dict,
        generator=view.document,
        report=lambda _: "",
    )
    environment.events.test_start.add_listener(provider.run_starts)
    blocker = gevent.spawn(block) if blocked else None
    try:
        runner.start(50, spawn_rate=50)
        gevent.sleep(6.5)
        runner.stop()
        recording.flush()
        summary = provider.final_summary()
        share = sum(part for _, part in recording.side.diagnosis().blockers)
        findings = [one["text"] for one in generator_findings(provider.generator())]
    finally:
        if blocker is not None:
            blocker.kill()
        recording.detach()
        runner.quit()
    causes = json.loads(json.dumps(summary["verdict"]["causes"]))
    text = render_summary(summary, Screen(200))
    first = spin.__code__.co_firstlineno
    places = [f"{Path(__file__).name}:{line} in spin" for line in range(first, first + 5)]
    late = [finding for finding in findings if "of the wake-ups of Locust late" in finding]
    if not blocked:
        assert BLOCKS not in [cause["name"] for cause in causes]
        assert not late
        return
    assert causes[0]["name"] == BLOCKS
    assert any(place in causes[0]["evidence"] for place in places), causes[0]["evidence"]
    assert causes[0]["evidence"] in " ".join(text.split())
    # On a busy machine the loop waits for a CPU half of the time, and blocks for less than the tab's bound.
    assert len(late) == (share >= DEFAULT_BOUNDS.blocked_amber)
