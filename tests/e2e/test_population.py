"""Populations in real Locust processes: members that come, go and stand still, and the web UI."""

from __future__ import annotations

import math
import os
import signal
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.e2e.page import two_workers_with_page
from tests.e2e.population_law import assert_nobody_was_cut_short, led, path, results, settings
from tests.support import eventually, free_port, started_locust

pytestmark = pytest.mark.e2e
LOCUSTFILE = Path(__file__).with_name("population_locustfile.py")


@pytest.mark.timed
def test_a_killed_worker_two_joiners_and_one_that_stood_still(tmp_path: Path) -> None:
    port, rate, mean = free_port(), 120, 0.5
    env = settings(tmp_path, rate=rate, mean=mean, warm_up=0)
    common = ("-f", LOCUSTFILE, "--master-port", port)
    log = tmp_path / "master.log"
    with started_locust(
        "-f", LOCUSTFILE, "--master", "--master-bind-host", "127.0.0.1", "--master-bind-port", port, "--headless",
        "--expect-workers", 3, "-u", 2, "-t", "24s", "--only-summary", "--loglevel", "DEBUG",
        cwd=tmp_path, env=env, log=log,
    ) as master, ExitStack() as stack:  # fmt: skip

        def worker() -> Any:
            return stack.enter_context(started_locust(*common, "--worker", cwd=tmp_path, env=env))

        first, second, third = worker(), worker(), worker()
        eventually(lambda: "All users spawned" in log.read_text(), within=30)
        time.sleep(2)
        os.kill(second.pid, signal.SIGKILL)
        killed_at = time.time()
        os.kill(third.pid, signal.SIGSTOP)
        time.sleep(2.5)
        os.kill(third.pid, signal.SIGCONT)
        time.sleep(1.5)
        fourth, fifth = worker(), worker()
        master.wait(60)
        for process in (first, third, fourth, fifth):
            process.wait(20)
    parts = results(tmp_path)
    assert len(parts) == 4, log.read_text()[-3000:]
    assert [part["plans"][-1][1] for part in parts] == [4, 4, 4, 4]
    assert_nobody_was_cut_short(parts)
    undisturbed = next(part for part in parts if part["pid"] == first.pid)
    told = [when - killed_at for when, workers in undisturbed["plans"] if when > killed_at and workers != 3]
    assert 0 < told[0] < 5, "the rate is split anew"
    assert undisturbed["missed"] == 0
    lost = led(tmp_path)["lost"]
    assert abs(lost - rate / 3 * mean) < 5 * math.sqrt(rate / 3 * mean) + rate / 3 * 3, f"{lost}: up to 3 s old"
    assert lost > 0
    joined = [part for part in parts if part["index"] >= 3]
    assert [part["arrivals"] > 30 for part in joined] == [True, True], "two joins in a row both produce arrivals"
    (still,) = [part for part in parts if part["pid"] == third.pid]
    assert still["missed"] > 20, "those more than a second late were dropped"
    starts = np.sort([s[0] for s in still["sessions"]])
    burst = max(np.searchsorted(starts, starts + 0.2) - np.arange(len(starts)))
    assert burst < 60 + 30, "at most a second's worth at once after the pause"
    # N has its mean again: two, later four workers make up the whole rate
    origin, window = min(part["origin"] for part in parts), (killed_at + 7, killed_at + 17)
    users = path(parts, np.arange(*window, 0.01) - origin, origin)
    error = rate * mean * math.sqrt(2 / (rate * (window[1] - window[0])))
    assert abs(users.mean() - rate * mean) < 5 * error + 0.02 * rate * mean
    everyone = np.array([s[0] for part in parts for s in part["sessions"]])
    settled = np.count_nonzero((everyone > window[0]) & (everyone < window[1]))
    assert abs(settled - 10 * rate) < 5 * math.sqrt(10 * rate) + 30


def test_the_web_ui_starts_edits_stops_and_starts_again(tmp_path: Path) -> None:
    env = settings(tmp_path, rate=40, mean=30, warm_up=4)  # the UI's figures are up to 2 s old
    settled = {"user_count": 3, "user_classes": "Visitor"}
    with two_workers_with_page(
        "-f", LOCUSTFILE, "--class-picker", "--loglevel", "WARNING", cwd=tmp_path, env=env
    ) as (process, page):  # fmt: skip
        page.start(population_start="empty", population_scale="1", **settled)
        eventually(lambda: page.state()["state"] == "spawning", within=5)
        eventually(lambda: page.state()["state"] == "running" and page.state()["user_count"] > 100, within=15)
        before = page.state()["user_count"]
        page.start(population_scale="5", **settled)
        eventually(
            lambda: page.state()["user_count"] - before > 400, within=12, because="200 arrivals/s of 30 s sessions"
        )
        page.stop()
        eventually(lambda: len(results(tmp_path)) == 2, within=5)
        assert_nobody_was_cut_short(results(tmp_path))
        assert sum(part["entered"] for part in results(tmp_path)) == 0, "the start form said: empty"
        eventually(lambda: [w["state"] for w in page.state()["workers"]] == ["ready"] * 2, within=15)
        page.start(population_scale="1", population_start="equilibrium", **settled)
        eventually(lambda: page.state()["state"] == "running" and page.state()["user_count"] > 800, within=15)
        os.kill(process.pid, signal.SIGTERM)
        process.wait(30)
    assert "Uncaught exception" not in (tmp_path / "log").read_text(), (tmp_path / "log").read_text()[-3000:]
