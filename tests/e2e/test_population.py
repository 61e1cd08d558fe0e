"""Populations in real Locust processes: the law of the arrivals, members that come, go and stand still, the web UI."""

from __future__ import annotations

import json
import math
import os
import signal
import time
import urllib.error
import urllib.parse
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from locust_realism.workload.distributions import lognormal
from locust_realism.workload.populations import expected_users
from locust_realism.workload.rates import SineRate
from tests.support import eventually, free_port, run_locust, started_locust

pytestmark = [pytest.mark.e2e, pytest.mark.timed]
LOCUSTFILE = Path(__file__).with_name("population_locustfile.py")


def results(out: Path) -> list[dict[str, Any]]:
    """What the processes wrote, in the order of their worker index."""
    return sorted((json.loads(path.read_text()) for path in out.glob("*.json")), key=lambda d: d["index"])


def settings(out: Path, **values: object) -> dict[str, str]:
    return {"TEST_OUT": str(out), **{f"TEST_{name.upper()}": str(value) for name, value in values.items()}}


def assert_nobody_was_cut_short(parts: list[dict[str, Any]]) -> None:
    for part in parts:
        assert part["cut_short"] == 0
        assert part["on_start"] == part["on_stop"]
        assert part["on_start"] == part["arrivals"] + part["entered"]


def dispersion_is_poissons(times: np.ndarray[Any, Any], width: float) -> tuple[float, bool]:
    """Index of dispersion of the counts in windows of this width, and whether it is in the 99.9 % band of Poisson."""
    edges = np.arange(times[0], times[-1], width)
    counts = np.histogram(times, edges)[0]
    index = counts.var(ddof=1) / counts.mean()
    free = len(counts) - 1
    low, high = stats.chi2.ppf([0.0005, 0.9995], free) / free
    return index, low <= index <= high


def test_ten_thousand_arrivals_over_two_processes_are_poisson(tmp_path: Path) -> None:
    rate, mean, warm_up = 450, 0.8, 1.0
    done = run_locust(
        "-f", LOCUSTFILE, "--headless", "--processes", 2, "-u", 3, "-t", "25s", "--only-summary", "--realism-seed", 17,
        cwd=tmp_path, timeout=90, env=settings(tmp_path, rate=rate, mean=mean, warm_up=warm_up),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    parts = results(tmp_path)
    assert [part["index"] for part in parts] == [0, 1]
    assert [part["workers"] for part in parts] == [2, 2]
    assert_nobody_was_cut_short(parts)
    assert f"{rate * mean:.4g} users on average" in done.stdout

    sessions = np.array([s[:3] for part in parts for s in part["sessions"]])
    origin = min(part["origin"] for part in parts)
    started, ended, planned = sessions.T - origin
    arrivals = planned > warm_up
    assert arrivals.sum() > 10_000
    gaps = np.diff(np.sort(planned[arrivals]))
    assert stats.kstest(gaps * rate, "expon").pvalue > 0.001
    actual = np.sort(started[arrivals])
    for width in (1.0, 5.0):
        index, inside = dispersion_is_poissons(actual, width)
        assert inside, f"index of dispersion {index:.3f} in windows of {width} s"
    even = np.linspace(0, 20, 9000)
    assert not dispersion_is_poissons(even, 1.0)[1], "negative control: evenly spaced arrivals"

    window = (2.0, 22.0)
    area = np.sum(np.clip(ended, *window) - np.clip(started, *window)) / (window[1] - window[0])
    expected = rate * mean
    error = expected * math.sqrt(2 / (rate * (window[1] - window[0])))
    assert abs(area - expected) < 4 * error + 0.02 * expected  # a session ends a timer's tick after it was meant to
    if (lag := max(part["lag_p999"] for part in parts)) > 0.005:
        pytest.skip(f"the machine is busy: a bare gevent.sleep is {1000 * lag:.1f} ms late; all else was as it must be")
    assert dispersion_is_poissons(actual, 0.1)[1]
    gaps = np.diff(actual)
    assert abs(np.std(gaps) / np.mean(gaps) - 1) < 3 / math.sqrt(len(gaps)) + 0.01  # .01: two clocks and 1 ms timers


@pytest.mark.nightly
def test_a_sine_profile_over_two_processes_has_the_law_of_the_mt_g_infinity_queue(tmp_path: Path) -> None:
    rate, mean, warm_up, run_time = 110, 1.5, 2.0, 101
    done = run_locust(
        "-f", LOCUSTFILE, "--headless", "--processes", 2, "-t", f"{run_time}s", "--only-summary", "--realism-seed", 5,
        cwd=tmp_path, timeout=180, env=settings(tmp_path, rate=rate, mean=mean, warm_up=warm_up, model="sine"),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    parts = results(tmp_path)
    assert_nobody_was_cut_short(parts)
    profile, stay = SineRate(0.2 * rate, 1.8 * rate, period=30), lognormal(mean, cov=1.2)
    origin = min(part["origin"] for part in parts)
    started, ended, planned = np.array([s[:3] for part in parts for s in part["sessions"]]).T - origin
    arrivals = np.sort(planned[planned > warm_up])
    assert len(arrivals) > 10_000
    rescaled = np.diff(profile.cumulative(arrivals))
    assert stats.kstest(rescaled, "expon").pvalue > 0.001
    raw = np.diff(arrivals) / np.mean(np.diff(arrivals))
    assert stats.kstest(raw, "expon").pvalue < 1e-6, "negative control: without rescaling they are not exponential"
    for width in (1.0, 5.0):
        units = np.sort(profile.cumulative(np.maximum(started, warm_up))[planned > warm_up])
        assert dispersion_is_poissons(units, width * rate)[1]

    moments = np.arange(warm_up + 1, 98, 2.0)
    users = (started[:, None] <= moments).sum(axis=0) - (ended[:, None] <= moments).sum(axis=0)
    expected = expected_users(profile, stay, moments, warm_up=warm_up)
    scores = (users - expected) / np.sqrt(expected)
    # N(t) at moments 2 s apart has a correlation of about 0.35, so that fewer than half of them count as independent
    independent = len(moments) / 2
    assert abs(scores.mean()) < 4 / math.sqrt(independent)
    assert abs(scores.var(ddof=1) - 1) < 4 * math.sqrt(2 / independent)
    without_lag = (users - profile.rate(moments) * mean) / np.sqrt(profile.rate(moments) * mean)
    assert without_lag.var(ddof=1) > 3, "negative control: the rate times the mean session is not the curve"


def test_a_killed_worker_two_joiners_and_one_that_stood_still(tmp_path: Path) -> None:
    port = free_port()
    env = settings(tmp_path, rate=120, mean=0.5, warm_up=0)
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
        fourth, fifth = worker(), worker()
        master.wait(60)
        for process in (first, third, fourth, fifth):
            process.wait(20)
    parts = results(tmp_path)
    assert len(parts) == 4, log.read_text()[-3000:]
    assert [part["workers"] for part in parts] == [4, 4, 4, 4]
    assert_nobody_was_cut_short(parts)
    joined = [part for part in parts if part["index"] >= 3]
    assert [part["arrivals"] > 30 for part in joined] == [True, True], "two joins in a row both produce arrivals"
    (still,) = [part for part in parts if part["pid"] == third.pid]
    assert still["missed"] > 20, "those more than a second late were dropped"
    starts = np.sort([s[0] for s in still["sessions"]])
    burst = max(np.searchsorted(starts, starts + 0.2) - np.arange(len(starts)))
    assert burst < 60 + 30, "at most a second's worth at once after the pause"
    everyone = np.array([s[0] for part in parts for s in part["sessions"]])
    # four heartbeats and a look; then three, later four workers make up the whole rate
    settled = everyone[(everyone > killed_at + 8) & (everyone < killed_at + 14)]
    assert abs(len(settled) - 720) < 5 * math.sqrt(720) + 30


def form(url: str, **fields: object) -> dict[str, Any]:
    data = urllib.parse.urlencode(fields).encode() if fields else None
    with urllib.request.urlopen(url, data=data, timeout=10) as response:
        answer: dict[str, Any] = json.loads(response.read())
    return answer


def test_the_web_ui_starts_edits_stops_and_starts_again(tmp_path: Path) -> None:
    web, port = free_port(), free_port()
    base = f"http://127.0.0.1:{web}"
    env = settings(tmp_path, rate=40, mean=30, warm_up=4)  # the UI's figures are up to 2 s old
    with started_locust(
        "-f", LOCUSTFILE, "--processes", 2, "--web-host", "127.0.0.1", "--web-port", web, "--master-bind-port", port,
        "--master-port", port, "--class-picker", "--loglevel", "WARNING",
        cwd=tmp_path, env=env, log=tmp_path / "log",
    ) as process:  # fmt: skip
        eventually(lambda: _up(base), within=30)
        eventually(lambda: len(form(base + "/stats/requests").get("workers", [])) == 2, within=20)

        def state() -> dict[str, Any]:
            return form(base + "/stats/requests")

        form(base + "/swarm", user_count=3, spawn_rate=3, population_start="empty",
             population_scale="1", user_classes="Visitor")  # fmt: skip
        eventually(lambda: state()["state"] == "spawning", within=5)
        eventually(lambda: state()["state"] == "running" and state()["user_count"] > 100, within=15)
        before = state()["user_count"]
        form(base + "/swarm", user_count=3, spawn_rate=3, population_scale="5", user_classes="Visitor")
        eventually(lambda: state()["user_count"] - before > 400, within=12, because="200 arrivals/s of 30 s sessions")
        _stop(base)
        eventually(lambda: state()["state"] == "stopped" and state()["user_count"] == 0, within=15)
        eventually(lambda: len(results(tmp_path)) == 2, within=5)
        assert_nobody_was_cut_short(results(tmp_path))
        assert sum(part["entered"] for part in results(tmp_path)) == 0, "the start form said: empty"
        eventually(lambda: len([w for w in state()["workers"] if w["state"] == "ready"]) == 2, within=15)
        form(base + "/swarm", user_count=3, spawn_rate=3, population_scale="1", population_start="equilibrium",
             user_classes="Visitor")  # fmt: skip
        eventually(lambda: state()["state"] == "running" and state()["user_count"] > 800, within=15)
        os.kill(process.pid, signal.SIGTERM)
        process.wait(30)
    assert "Uncaught exception" not in (tmp_path / "log").read_text(), (tmp_path / "log").read_text()[-3000:]


def _stop(base: str) -> None:
    try:
        form(base + "/stop", now="yes")
    except urllib.error.HTTPError as error:  # a GET in older versions of Locust
        if error.code != 405:
            raise
        form(base + "/stop")


def _up(base: str) -> bool:
    try:
        return "state" in form(base + "/stats/requests")
    except OSError:
        return False


@pytest.mark.parametrize("model", ["finite", "tasks"])
def test_the_other_models_run_in_one_process(tmp_path: Path, model: str) -> None:
    done = run_locust(
        "-f", LOCUSTFILE, "--headless", "-t", "8s", "--only-summary", "--tags", "look",
        cwd=tmp_path, timeout=60, env=settings(tmp_path, rate=50, mean=1, model=model),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    (part,) = results(tmp_path)
    assert_nobody_was_cut_short([part])
    ended = [s for s in part["sessions"] if s[3] == "ran out"]
    starts = [s[0] for s in part["sessions"]]
    expected = 50 * (max(starts) - min(starts))  # how long it ran depends on how busy the machine is
    assert expected > 150
    assert abs(part["arrivals"] - expected) < 5 * math.sqrt(400) + 50 * (model == "finite")  # who is in at the start
    if model == "tasks":
        assert {s[4] for s in ended} == {1}


def test_fast_users_without_a_host_end_the_run_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "locustfile.py").write_text(
        "from locust import FastHttpUser, task\n"
        "from locust_realism.runtime.population import open_arrivals\n"
        "from locust_realism.workload.rates import ConstantRate\n"
        "class Visitor(FastHttpUser):\n"
        "    population = open_arrivals(ConstantRate(50))\n"
        "    @task\n"
        "    def look(self):\n"
        "        self.client.get('/')\n"
    )
    done = run_locust("--headless", "-t", "20s", "--only-summary", cwd=tmp_path, timeout=60)
    assert done.returncode == 1
    assert "Visitor cannot be created" in done.stdout
    assert "base host" in done.stdout
