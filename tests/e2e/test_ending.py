"""Ctrl-C, and again: an early end has a message and no traceback, in one process and with workers."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from tests.support import eventually, started_locust, two_workers

pytestmark = pytest.mark.e2e
NO_END_S = 60
LOCUSTFILE = f"""
import time
import gevent
from gevent.monkey import get_original
from locust import User, constant, task
from locust_realism import install
from locust_realism.runtime.figures import provider

install()
summarize = provider.summarize

def slowly(*given, **named):
    for _ in range({NO_END_S}):
        get_original("time", "sleep")(1)  # in a native thread, as figures are
    return summarize(*given, **named)

class Visitor(User):
    wait_time = constant(0.1)

    @task
    def look(self):
        self.environment.events.request.fire(
            request_type="GET", name="look", response_time=1.0, response_length=1, context={{}}, exception=None
        )
"""
NEVER_DONE = f"""
    def on_stop(self):
        gevent.sleep({NO_END_S})
"""


@pytest.mark.parametrize(
    ("what", "mode"), [("figures", ()), ("users", two_workers())], ids=["figures, one process", "users, two workers"]
)
def test_the_second_ctrl_c_skips_the_wait_of_the_first(what: str, mode: tuple[object, ...], tmp_path: Path) -> None:
    slow = "provider.summarize = slowly\n" if what == "figures" else ""
    (tmp_path / "locustfile.py").write_text(LOCUSTFILE + (NEVER_DONE if what == "users" else "") + slow)
    log = tmp_path / "log"
    with started_locust(
        "--headless", "-u", 2, "--stop-timeout", NO_END_S, "--only-summary", "--realism-no-record", *mode,
        cwd=tmp_path, log=log,
    ) as process:  # fmt: skip

        def interrupt(until: str) -> None:
            """Press until the log has a message: with workers the wait begins a little later."""
            deadline = time.monotonic() + 15
            while until not in log.read_text():
                assert time.monotonic() < deadline, until
                os.killpg(process.pid, signal.SIGINT)
                time.sleep(0.7)

        eventually(lambda: "All users spawned" in log.read_text(), within=30)
        time.sleep(1)
        os.killpg(process.pid, signal.SIGINT)  # ends the run
        time.sleep(1.5)
        asked = "Still computing the figures" if what == "figures" else "Still stopping users"
        interrupt(asked)
        interrupt("The figures of the run were not waited for" if what == "figures" else "The users were not waited")
        assert process.wait(20) is not None
    output = log.read_text()
    assert "Traceback" not in output, output[-3000:]
    assert "Aggregated" in output, "Locust's own figures are printed"
