"""Whole runs in processes of their own: console, files, page and exit status."""

from __future__ import annotations

import json
import re
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from support import eventually, free_port, run_locust, started_locust

pytestmark = pytest.mark.e2e

LOCUSTFILE = Path(__file__).with_name("spine_locustfile.py")


def headless(folder: Path, *arguments: object, seconds: int = 6, **env: str) -> subprocess.CompletedProcess[str]:
    return run_locust(
        "-f", LOCUSTFILE, "--headless", "-u", 40, "-r", 40, "-t", seconds, "--realism-json", folder / "run.json",
        *arguments, cwd=folder, env=env,
    )  # fmt: skip


def figures(folder: Path) -> Any:
    return json.loads((folder / "run.json").read_text())


def locust_total(output: str) -> tuple[int, int]:
    """Requests and failures in the last table that Locust itself prints."""
    found = re.findall(r"^ +Aggregated +(\d+) +(\d+)\(", output, re.MULTILINE)
    return int(found[-1][0]), int(found[-1][1])


@pytest.mark.parametrize("where", [(), ("--processes", 2)], ids=["one process", "two workers"])
def test_exact_figures_of_a_headless_run_count_the_requests_of_locust(tmp_path: Path, where: Any) -> None:
    """Verdict, percentiles and launch table are on the console; the JSON has every request that Locust has."""
    result = headless(tmp_path, *where, SPINE_FAILURES="0.5")
    assert "Verdict:" in result.stdout
    assert "Response times (ms)" in result.stdout
    assert "Time between launches (ms)" in result.stdout
    rows = {row["label"]: row for row in figures(tmp_path)["response_times"]}
    assert (rows["Aggregated"]["n"], rows["Aggregated"]["failures"]) == locust_total(result.stdout)
    assert rows["Aggregated"]["n"] == rows["home"]["n"] + rows["buy"]["n"]
    assert rows["buy"]["failures"] == rows["Aggregated"]["failures"] > 0
    launches = {row["label"]: row for row in figures(tmp_path)["launches"]}
    assert launches["Aggregated"]["n"] == rows["Aggregated"]["n"] - 1, "n counts intervals, failures are launches too"
    assert result.returncode == 1, "Locust's own exit code for failed requests stays"


def test_a_run_without_failures_returns_zero(tmp_path: Path) -> None:
    assert headless(tmp_path, seconds=3).returncode == 0


def test_a_broken_threshold_is_named_and_fails_the_run(tmp_path: Path) -> None:
    result = headless(
        tmp_path, "--realism-fail-if", "p95[home] > 1ms", "--realism-fail-if", "p95 > 10s", seconds=3,
    )  # fmt: skip
    assert result.returncode == 1
    assert "FAILED  p95[home] > 1ms" in result.stdout
    assert not re.search(r"FAILED +p95 > 10s", result.stdout)


def test_thresholds_of_a_config_file_and_both_reports_of_one_run(tmp_path: Path) -> None:
    """locust.conf has the thresholds; our page and our section in Locust's page have the figures of the run."""
    (tmp_path / "locust.conf").write_text('realism-fail-if = ["p95[home] > 1ms", "failures > 1%"]\n')
    page, locusts = tmp_path / "out" / "report.html", tmp_path / "locust.html"
    result = headless(tmp_path, "--realism-report", page, "--html", locusts, seconds=3)
    assert result.returncode == 1
    assert re.search(r"^FAILED  p95\[home\] > 1ms: [\d.]+ ms", result.stdout, re.MULTILINE)
    assert re.search(r"^ok      failures > 1%: 0 %", result.stdout, re.MULTILINE)
    total = figures(tmp_path)["response_times"][-1]
    for written in (page, locusts):
        data = re.search(r'<script type="application/json" id="lr-data">(.*?)</script>', written.read_text(), re.DOTALL)
        assert data is not None
        found = json.loads(data[1])
        assert found["summary"]["response_times"][-1] == total
        assert found["generator"]["workers"]
    assert "Request Statistics" in locusts.read_text() or "window.templateArgs" in locusts.read_text()


def test_a_typo_in_a_threshold_ends_before_the_run_and_shows_the_place(tmp_path: Path) -> None:
    result = headless(tmp_path, "--realism-fail-if", "p95 >> 3ms")
    assert result.returncode == 2
    assert re.search(r"p95 >> 3ms\n +\^", result.stdout)
    assert not (tmp_path / "run.json").exists()


@pytest.mark.timed
def test_the_warm_up_is_left_out_and_shown(tmp_path: Path) -> None:
    headless(tmp_path, "--realism-warmup", "2s", seconds=5)
    window = figures(tmp_path)["window"]
    assert window["cut_start"] > 0
    assert window["start_s"] >= 2
    assert window["n"] + window["cut_start"] == window["rows_total"]


@pytest.mark.timed
def test_constant_think_times_fail_the_verdict_and_exponential_ones_do_not(tmp_path: Path) -> None:
    """Negative control: forty users with a constant wait launch in bunches, and the verdict is red."""
    # forty users that start in one instant are a bunch of their own
    condition = ("--realism-fail-if", "verdict is red", "--realism-warmup", "4s")
    bunched = headless(tmp_path, *condition, seconds=20, SPINE_WAIT="constant")
    assert bunched.returncode == 1, bunched.stdout
    assert "Verdict: RED" in bunched.stdout
    independent = headless(tmp_path, *condition, seconds=20)
    run = figures(tmp_path)
    assert 0.8 < run["launches"][-1]["cov"] < 1.25
    if any(check["id"] == 4 and check["status"] == "red" for check in run["verdict"]["checks"]):
        pytest.skip("this machine wakes Locust too late for any verdict but red")
    assert independent.returncode == 0, independent.stdout


def test_the_options_are_shown_in_a_group_of_their_own(tmp_path: Path) -> None:
    result = run_locust("-f", LOCUSTFILE, "--realism-help", cwd=tmp_path)
    assert result.returncode == 0
    assert "--realism-fail-if" in result.stdout
    assert "--realism-seed" in result.stdout


class Page:
    """Client of a Locust with its web UI."""

    def __init__(self, port: int) -> None:
        self.base = f"http://127.0.0.1:{port}"

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(self.base + path, timeout=10) as answer:
            body = answer.read().decode()
        return json.loads(body) if answer.headers["Content-Type"] == "application/json" else body

    def post(self, path: str, form: str = "") -> Any:
        request = urllib.request.Request(self.base + path, form.encode(), method="POST")
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.read().decode()
        except urllib.error.HTTPError as error:
            if error.code != 405:
                raise
            return self.get(path)  # Locust 2.43 stops and resets by GET

    def ready(self) -> bool:
        try:
            return "Locust" in self.get("/")
        except OSError:
            return False

    def rows(self) -> int:
        return int(self.get("/realism/api/status")["rows"])

    def aggregated(self) -> Any:
        rows = self.get("/realism/api/summary").get("response_times") or [None]
        return rows[-1]


@pytest.mark.parametrize("where", [(), ("--processes", 2)], ids=["one process", "two workers"])
def test_the_page_serves_live_figures_and_starts_clean_again(tmp_path: Path, where: Any) -> None:
    """Figures cover the present run only, over Reset, Stop and a second start, and stay after Stop."""
    page = Page(port := free_port())
    options = ("-f", LOCUSTFILE, "--web-port", port, "--web-host", "127.0.0.1", *where)
    with started_locust(*options, cwd=tmp_path, log=tmp_path / "log"):
        eventually(page.ready)
        if where:
            eventually(lambda: page.get("/worker-count")["worker_count"] == 2)
        page.post("/swarm", "user_count=40&spawn_rate=40&host=http://127.0.0.1")
        eventually(lambda: (page.aggregated() or {"n": 0})["n"] > 100)
        page.post("/stats/reset")
        since = eventually(lambda: page.get("/realism/api/summary?window=reset").get("response_times"))
        assert since[-1]["n"] + 100 < page.rows(), "rows before the Reset are in the run only"
        page.post("/stop")
        eventually(lambda: page.get("/realism/api/status")["state"] in ("stopped", "ready"))
        stopped = eventually(lambda: stable(page), because="all rows are in after Stop")
        assert page.aggregated()["n"] == stopped
        own = page.get("/stats/requests")["stats"][-1]["num_requests"]
        assert 0 < own < stopped, "Locust counts since its Reset only"
        eventually(
            lambda: page.get("/realism/api/summary?window=reset")["response_times"][-1]["n"] == own,
            because="rows since the Reset equal the requests of Locust since then",
        )
        page.post("/swarm", "user_count=5&spawn_rate=5&host=http://127.0.0.1")
        eventually(lambda: 0 < (page.aggregated() or {"n": 0})["n"] < stopped)
        assert page.rows() < stopped, "a second run starts clean"


def stable(page: Page) -> int:
    """Return the number of rows once two readings agree and the figures have them all, else 0."""
    before = page.rows()
    time.sleep(2.5)
    after = page.rows()
    return after if before == after == (page.aggregated() or {"n": 0})["n"] else 0
