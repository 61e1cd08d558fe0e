"""A sweep from the command line: real Locusts, a real kill -9, and the page."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest
from browser_support import FLAGS, Tabs, chromium

from locust_realism.recording.formats import read_launches
from locust_realism.sweep.results import read_rows
from support import SCENARIOS, environment, eventually

pytestmark = pytest.mark.e2e

PLAN = """\
title: A sweep
article: none
claim: users do not slow each other down
scenario: {scenario}
users: [2, 3, 4]
warm_up: 0.5s
steady: 1.5s
cool_down: 0s
report: {{targets: [p90 < 1s], groups: true}}
"""


def plan_in(folder: Path) -> Path:
    path = folder / "plan.yaml"
    path.write_text(PLAN.format(scenario=Path(__file__).with_name("spine_locustfile.py")))
    return path


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "locust_realism.cli", "sweep", *map(str, arguments)]


def run_sweep(*arguments: object, cwd: Path, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments), cwd=cwd, env=environment(), capture_output=True, text=True, timeout=timeout, check=False
    )


def alive(folder: Path) -> list[psutil.Process]:
    """Return the processes whose command lines contain the folder."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        if any(str(folder) in word for word in process.info["cmdline"] or ()):
            found.append(process)
    return found


def test_a_killed_sweep_continues_without_repeating_or_losing_a_run(tmp_path: Path) -> None:
    """After kill -9 in the second run no Locust is left, the first run stays unchanged, and the others run."""
    out = tmp_path / "out"
    plan = plan_in(tmp_path)
    first = subprocess.Popen(
        command(plan, "-o", out), cwd=tmp_path, env=environment(), stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        eventually(lambda: len(list(out.glob("parts/*.parquet"))) == 1, within=60)
        eventually(lambda: (out / "running" / "recording").exists(), within=30, because="no second run")
        assert alive(out / "running"), "its Locust runs"
    finally:
        first.send_signal(signal.SIGKILL)
        first.wait()
    killed = time.time()
    (done,) = out.glob("parts/*.parquet")
    before = (done.stat().st_mtime_ns, done.stat().st_ino, read_rows(done))
    again = run_sweep(plan, "-o", out, cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert "1 of 3 runs are done already" in again.stderr
    assert (done.stat().st_mtime_ns, done.stat().st_ino, read_rows(done)) == before
    rows = read_rows(out / "results.parquet")
    assert sorted(row["users"] for row in rows) == [2, 3, 4]
    assert len({row["key"] for row in rows}) == 3
    started = sorted(row["started"] for row in rows)
    assert started[0] < killed < started[1], "the killed run started again"
    assert started[2] - started[1] > 2.0, "one at a time"
    assert all(row["n"] > 0 and row["generator_cpu"] > 0 for row in rows)
    eventually(lambda: not alive(out), within=5, because="a process of the sweep is left")
    third = run_sweep(plan, "-o", out, cwd=tmp_path)
    assert "[" not in third.stderr, "a run was repeated"
    assert read_rows(out / "results.parquet") == rows


def test_the_locust_of_a_killed_sweep_ends(tmp_path: Path) -> None:
    """It stops its users and ends, and its embedded server with it."""
    out = tmp_path / "out"
    options = ("--users", 3, "--think-time", "200ms", "--steady", "60s", "-o", out)
    sweep = subprocess.Popen(
        command("-f", SCENARIOS / "webdav.py", *options), cwd=tmp_path, env=environment(), stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    try:
        eventually(lambda: (out / "running" / "recording").exists(), within=40)
        family = psutil.Process(sweep.pid).children(recursive=True)
        assert any("webdav_server.py" in " ".join(process.cmdline()) for process in family)
    finally:
        sweep.send_signal(signal.SIGKILL)
        sweep.wait()
    gone, left = psutil.wait_procs(family, timeout=25)
    assert left == []
    assert len(gone) >= 3, "the supervisor, Locust and its server"


def test_a_plan_with_an_error_runs_nothing(tmp_path: Path) -> None:
    plan = plan_in(tmp_path)
    plan.write_text(plan.read_text().replace("[2, 3, 4]", "[2, -3, 4]"))
    result = run_sweep(plan, cwd=tmp_path)
    assert result.returncode == 2
    assert result.stderr.strip() == f"locust-realism: {plan}:5: users[1] is -3, expected a whole number from 1 on"
    assert not (tmp_path / "sweeps").exists()


def test_a_locust_that_does_not_start_is_reported_with_its_error(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("raise RuntimeError('no such luck')\n")
    result = run_sweep("-f", "bad.py", "--users", 2, "--steady", "1s", cwd=tmp_path)
    assert result.returncode == 2
    assert "no such luck" in result.stderr
    assert "no run has given figures" in result.stderr


def test_a_run_waits_for_the_requests_in_flight_at_its_end(tmp_path: Path) -> None:
    """Requests take a second, and a user launches every two: the last second has as many launches as any other."""
    (tmp_path / "slow.py").write_text(
        "from locust import FastHttpUser, task\nfrom locust_realism import install, uniform\n"
        "from locust_realism.kit import embedded_service\n\n\n"
        "class Visitor(FastHttpUser):\n    wait_time = uniform(0, 2)\n\n    @task\n    def get(self):\n"
        "        self.client.get('/')\n\n\ninstall()\nembedded_service()\n"
    )
    grid = ("--users", 60, "--spawn-rate", 60, "--warm-up", "2s", "--steady", "4s", "--cool-down", "0s")
    slow = ("--option", "target-options=--time answer=1 --servers 1000")
    result = run_sweep("-f", "slow.py", *grid, *slow, "-o", "out", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    launches = np.sort(read_launches(next((tmp_path / "out" / "launches").iterdir())).launch_us)
    counts = np.histogram(launches[-1] - launches, [0, 1e6, 2e6, 3e6, 4e6])[0]
    # 30 a second; cycles of 2 s with a squared CoV of 1/12: standard deviation 1.6 in the long run, 4.5 if independent
    assert counts.min() > 30 - 3 * 4.5, counts
    (row,) = read_rows(tmp_path / "out" / "results.parquet")
    assert row["mean_ms"] == pytest.approx(1000, rel=0.1)


@pytest.mark.browser
def test_the_page_opens_offline_with_every_cell(tmp_path: Path) -> None:
    """Two servers of the standard library, started by the plan, compared on a page without an error."""
    sync_api = pytest.importorskip("playwright.sync_api")
    (tmp_path / "get.py").write_text(
        "from locust import HttpUser, task\nfrom locust_realism import exponential, install\n\ninstall()\n\n\n"
        "class Visitor(HttpUser):\n    wait_time = exponential(0.1)\n\n    @task\n    def get(self):\n"
        "        self.client.get('/plan.yaml')\n"
    )
    server = "{command: '{python} -m http.server {port} --bind 127.0.0.1', path: /}"
    (tmp_path / "plan.yaml").write_text(
        f"title: <b>Two</b>\nscenario: get.py\nusers: [2, 4]\nwarm_up: 0.5s\nsteady: 2s\nvariants:\n"
        f"  <i>one</i>: {{server: {server}}}\n  two: {{server: {server}}}\n"
        "report: {targets: [p90 < 1s], groups: true, compare: true, feedback: true, rate: true, windows: [20]}\n"
    )
    result = run_sweep("plan.yaml", "-o", "out", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    rows = read_rows(tmp_path / "out" / "results.parquet")
    assert all(row["server_cpu"] is not None and row["failures"] == 0 for row in rows)
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        page = Tabs(browser.new_context(offline=True, viewport={"width": 1280, "height": 900}).new_page())
        page.page.goto((tmp_path / "out" / "index.html").as_uri())
        page.page.wait_for_selector("#lr-report h1")
        assert page.page.locator("h1").inner_text() == "<b>Two</b>"
        cells = page.table("Cells")
        assert [(row["Variant"], row["Users"]) for row in cells] == [
            ("<i>one</i>", "2"), ("<i>one</i>", "4"), ("two", "2"), ("two", "4"),
        ]  # fmt: skip
        series = page.option("sweep-rate")["series"]
        assert {one["name"].strip() for one in series} == {"<i>one</i>", "two"}
        assert page.colours("sweep-p90_ms") > 2
        assert len(page.table("Differences")) == 2 * 4
        assert page.page.get_by_text("p90 < 1s holds at every number of users measured, up to 4.").count() == 2
        assert page.errors == []
        browser.close()
