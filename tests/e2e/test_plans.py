"""The ready plans at their short length: every run gives figures, the page opens, the claim holds.

They take some 15 minutes together: part of the nightly run.
"""

from __future__ import annotations

import math
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser_support import FLAGS, Tabs, chromium

from locust_realism.sweep.cells import cells_of, target_rows
from locust_realism.sweep.plan_file import read_plan
from locust_realism.sweep.results import read_rows, summary_of
from support import SCENARIOS, environment, loaded

pytestmark = [pytest.mark.e2e, pytest.mark.nightly]

PLANS = SCENARIOS / "plans"
Cells = dict[tuple[str, int, float | None], dict[str, Any]]


def wso2(cells: Cells, rows: list[dict[str, Any]]) -> None:
    """The bound holds for more users with longer think times, near the article's 25 and 75."""
    found = {
        row["line"]: row["users"] or row["largest_measured"] or 0
        for row in target_rows(list(cells.values()), ["p90 < 155ms"])
    }
    assert found["Z 25 ms"] < found["Z 125 ms"] < found["Z 250 ms"]
    assert found["Z 25 ms"] < 40
    assert 60 < found["Z 250 ms"] < 100


def brady(cells: Cells, rows: list[dict[str, Any]]) -> None:
    """A server that stalls bunches the launches, a queue does not; R / (R + Z) is large in both."""
    queue, stalls = cells["queue only", 200, 1.0], cells["stalls", 200, 1.0]
    assert queue["response_share"] > 0.1
    assert stalls["launch_cov_low"] > 1.0
    assert stalls["launch_cov"] > queue["launch_cov"]
    assert cells["queue only, constant", 200, 1.0]["launch_cov"] > queue["launch_cov"]


def percentiles(cells: Cells, rows: list[dict[str, Any]]) -> None:
    """Every reported sample is in the figures: they are those of the drawn samples, to the microsecond."""
    module = loaded(PLANS / "replayed_samples.py")
    for row in rows:
        if not row["variant"].startswith("live"):
            n, worse = (3_421_980, 0.98) if row["variant"].startswith("worse") else (1_000_000, 1.0)
            drawn = np.sort(np.concatenate([r for _, r in module.samples(n, 5706.3, worse, seed=row["run_seed"])]))
            exact, *others = summary_of(row)["windows"]
            assert exact["samples"] == n
            for key, share in (("p50_ms", 0.5), ("p90_ms", 0.9), ("p95_ms", 0.95), ("p99_ms", 0.99)):
                assert exact[key] == pytest.approx(1e3 * drawn[math.ceil(n * share) - 1], abs=1.1e-3)
            last = next(other for other in others if other["kind"] == "window" and other["samples"] == 20_000)
            assert last["p90_ms"] > 1.2 * exact["p90_ms"], "the dashboard's default window is far off"


def owncloud(cells: Cells, rows: list[dict[str, Any]]) -> None:
    """The knee of the server with three threads is at 18 users by (Z + R) X_max."""
    row = next(row for row in rows if row["variant"] == "three at once")
    capacity = summary_of(row)["capacity"]
    assert capacity["knee"]["where"] == "measured"
    assert 10 < capacity["knee"]["users"] < 27
    names = {name["label"] for name in summary_of(row)["response_times"]}
    assert {"user (create)", "file"} <= names, "user creation has a row of its own"
    trap = next(row for row in rows if row["variant"] == "one machine")
    assert trap["generator_cpu"] > trap["server_cpu"], "the trap: Locust takes more of the machine than the server"


def diurnal(cells: Cells, rows: list[dict[str, Any]]) -> None:
    """The rate follows its plan; the cold cache of the night never occurs at the constant load of the same mean."""
    row = next(row for row in rows if row["variant"] == "a day")
    day, constant = (next(cell for place, cell in cells.items() if place[0] == name) for name in ("a day", "constant"))
    parts = summary_of(row)["parts"]
    night, noon = (extreme(parts, key=lambda part: part["rate"]) for extreme in (min, max))
    assert night["rate_high"] < constant["rate"] < noon["rate_low"]
    assert night["p50_ms_low"] > constant["p50_ms_high"], "a cold cache"
    assert day["p95_ms_low"] > constant["p95_ms_high"], "long pauses of the collector"
    time_ = summary_of(row)["charts"]["over_time"]
    rate, planned = (np.array(time_[key], dtype=float) for key in ("rate", "planned_rate"))
    assert np.corrcoef(rate, planned)[0, 1] > 0.9
    assert rate.sum() == pytest.approx(planned.sum(), rel=0.1)


def two_servers(cells: Cells, rows: list[dict[str, Any]]) -> None:
    """Both serve, each measured three times at each number of users."""
    assert {place[0] for place in cells} == {"waitress", "cheroot"}
    assert all(cell["failed_share"] < 0.01 and cell["runs"] == 3 for cell in cells.values())
    assert all(cell["server_cpu"] > 0.1 for cell in cells.values())


CHECKS: dict[str, Callable[[Cells, list[dict[str, Any]]], None]] = {
    check.__name__: check for check in (wso2, brady, percentiles, owncloud, diurnal, two_servers)
}


def test_every_plan_is_checked() -> None:
    assert set(CHECKS) == {path.stem for path in PLANS.glob("*.yaml")}


@pytest.mark.parametrize("name", CHECKS)
def test_the_full_version_starts(name: str, tmp_path: Path) -> None:
    """Each variant of the article's own length starts, with its processes, and has figures after some seconds."""
    path, out = PLANS / f"{name}.yaml", tmp_path / "out"
    shorter = {"users": "6", "warm_up": "0s", "steady": "4s", "cool_down": "0s", "repetitions": "1"}
    plan = read_plan(path, full=True)
    if all(variant.think_times != (None,) for variant in plan.variants):
        shorter["think_time"] = "300ms"
    if name != "two_servers":
        shorter["spawn_rate"] = "6"
    options = [word for key, value in shorter.items() for word in (f"--{key.replace('_', '-')}", value)]
    command = [sys.executable, "-m", "locust_realism.cli", "sweep", str(path), "--full", *options, "-o", str(out)]
    result = subprocess.run(
        command, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=300, check=False
    )
    assert result.returncode == 0, result.stderr
    rows = read_rows(out / "results.parquet")
    assert sorted(row["variant"] for row in rows) == sorted(variant.name for variant in plan.variants)
    assert {row["processes"] for row in rows} == {variant.processes for variant in plan.variants}
    assert all(row["full"] and row["n"] > 0 and row["failures"] == 0 for row in rows)


@pytest.mark.browser
@pytest.mark.parametrize("name", CHECKS)
def test_the_short_version(name: str, tmp_path: Path) -> None:
    sync_api = pytest.importorskip("playwright.sync_api")
    path, out = PLANS / f"{name}.yaml", tmp_path / "out"
    began = time.monotonic()
    command = [sys.executable, "-m", "locust_realism.cli", "sweep", str(path), "-o", str(out)]
    result = subprocess.run(
        command, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=600, check=False
    )
    assert result.returncode == 0, result.stderr
    assert time.monotonic() - began < 300, "three minutes on an idle machine"
    plan, rows = read_plan(path), read_rows(out / "results.parquet")
    assert [row["key"] for row in rows] == [cell.key for cell in plan.cells()]
    found = cells_of(rows)
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        page = Tabs(browser.new_context(offline=True, viewport={"width": 1280, "height": 900}).new_page())
        page.page.goto((out / "index.html").as_uri())
        page.page.wait_for_selector("#lr-report h1")
        assert page.page.locator("h1").inner_text() == plan.title
        assert len(page.table("Cells")) == len(found)
        assert page.page.locator("canvas").first.wait_for() is None
        page.page.screenshot(path=tmp_path / f"{name}.png", full_page=True)
        assert page.errors == []
        browser.close()
    CHECKS[name]({(cell["variant"], cell["users"], cell["think_time_s"]): cell for cell in found}, rows)
