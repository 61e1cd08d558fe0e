"""The report, opened from a file without server and network."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser_support import FLAGS, Tabs, chromium
from web_support import FORMULA, HOSTILE, poisson_log

from locust_realism.analysis.compare.comparison import compare
from locust_realism.analysis.compare.groups import Side
from locust_realism.analysis.summary import summarize
from locust_realism.recording.launches import LaunchLog
from locust_realism.report.compare_page import render_compare_page
from locust_realism.report.html import add_section, render_report
from support import run_locust

pytestmark = [pytest.mark.browser, pytest.mark.e2e]

LOCUSTFILE = """
from locust import User, constant, task

class Person(User):
    wait_time = constant(0.2)

    @task
    def ask(self):
        self.environment.events.request.fire(
            request_type="GET", name="home", response_time=5, response_length=1, exception=None, context={}
        )
"""


def document() -> dict[str, Any]:
    return {"title": f"Run <b>7</b> {HOSTILE}", "summary": summarize(poisson_log(names=4))}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        yield started
        started.close()


@pytest.fixture
def report(browser: Any, tmp_path: Path) -> Iterator[Tabs]:
    """Open the report of a log with hostile names offline from a file."""
    path = tmp_path / "report.html"
    path.write_text(render_report(document()), encoding="utf-8")
    context = browser.new_context(offline=True, viewport={"width": 1280, "height": 900}, accept_downloads=True)
    tabs = Tabs(context.new_page())
    tabs.requests = []
    tabs.page.on("request", lambda request: tabs.requests.append(request.url))
    tabs.page.goto(path.as_uri())
    tabs.page.wait_for_selector("#lr-report h1")
    yield tabs
    context.close()


def test_it_opens_offline_with_figures_and_charts_and_no_error(report: Tabs) -> None:
    assert report.page.locator("h1").inner_text() == f"Run <b>7</b> {HOSTILE}"
    names = {row["Name"] for row in report.table("esponse times")}
    assert {HOSTILE, FORMULA, "Aggregated"} <= names
    option = report.option("percentile-plot")
    assert option["x"] == "log"
    assert report.colours("percentile-plot") > 2
    assert report.errors == []
    assert [url for url in report.requests if not url.startswith(("file:", "data:", "blob:"))] == []
    assert report.page.evaluate("window.hacked") is None


def test_the_figures_are_those_of_the_summary(report: Tabs) -> None:
    total = next(row for row in report.table("esponse times") if row["Name"] == "Aggregated")
    expected = document()["summary"]["response_times"][-1]
    assert int(total["Requests"].replace(",", "")) == expected["n"]
    assert float(total["p95 ms"].replace(",", "")) == pytest.approx(expected["p95_ms"], abs=0.51)


def test_a_chart_is_saved_as_png_and_its_data_as_csv(report: Tabs) -> None:
    chart = report.page.locator("figure, section, div", has=report.page.locator('[data-chart="percentile-plot"]')).last
    with report.page.expect_download() as saved:
        chart.get_by_role("button", name="PNG").or_(chart.get_by_text("PNG", exact=True)).first.click()
    assert Path(saved.value.path()).read_bytes().startswith(b"\x89PNG")
    with report.page.expect_download() as saved:
        chart.get_by_role("button", name="CSV").or_(chart.get_by_text("CSV", exact=True)).first.click()
    rows = list(csv.reader(io.StringIO(Path(saved.value.path()).read_text(encoding="utf-8"))))
    assert len(rows) > 20


def test_it_follows_the_preferred_theme_and_is_light_on_paper(report: Tabs) -> None:
    background = "getComputedStyle(document.getElementById('lr-report')).backgroundColor"
    light = report.page.evaluate(background)
    report.page.emulate_media(color_scheme="dark")
    report.page.wait_for_selector('#lr-report[data-theme="dark"]')
    assert report.page.evaluate(background) != light
    pdf = report.page.pdf()
    assert pdf.startswith(b"%PDF")
    assert len(pdf) > 20_000


def test_the_page_of_a_comparison_opens_offline(browser: Any, tmp_path: Path) -> None:
    """The page of two servers at two numbers of users has a conclusion, every difference, and a line for each side."""
    rng = np.random.default_rng(1)

    def side(name: str, scale_us: int) -> Side:
        response = rng.exponential(scale_us, 8000).astype(np.int64)
        log = LaunchLog.build(np.arange(8000) * 5000, response, names=HOSTILE, users=np.repeat([50, 75], 4000))
        return Side(name, (log,))

    sides = [side(HOSTILE, 90_000), side("JBoss", 50_000)]
    found = {**compare(sides), "warnings": [], "thresholds": []}
    path = tmp_path / "diff.html"
    path.write_text(render_compare_page(found), encoding="utf-8")
    context = browser.new_context(offline=True, viewport={"width": 1280, "height": 900})
    tabs = Tabs(context.new_page())
    tabs.page.goto(path.as_uri())
    tabs.page.wait_for_selector("#lr-report h1")
    assert tabs.page.get_by_text(found["candidates"][0]["sentence"]).count() == 1
    rows = {row["Figure"]: row for row in tabs.table("Response times of JBoss")}
    p95 = next(row for row in found["candidates"][0]["rows"] if row["figure"] == "p95_ms")
    assert float(rows["p95"]["This ms"]) == pytest.approx(p95["b"], abs=0.51)
    levels = tabs.table("By number of concurrent users")
    assert [row["Users"] for row in levels] == ["50", "75"]
    assert {one["name"] for one in tabs.option("p95-by-users")["series"]} == {HOSTILE, "JBoss"}
    assert tabs.colours("p95-by-users") > 2
    assert tabs.errors == []
    assert tabs.page.evaluate("window.hacked") is None
    context.close()


def test_without_scripts_the_figures_are_text(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(render_report(document()), encoding="utf-8")
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(path.as_uri())
    assert "Time between launches (ms)" in page.locator("#lr-report").inner_text()
    context.close()


def test_the_section_in_locusts_own_report(browser: Any, tmp_path: Path) -> None:
    (tmp_path / "locustfile.py").write_text(LOCUSTFILE)
    run_locust("--headless", "-u", 3, "-r", 3, "-t", "2s", "--html", "locust.html", cwd=tmp_path)
    path = tmp_path / "locust.html"
    path.write_text(add_section(path.read_text(encoding="utf-8"), document()), encoding="utf-8")
    context = browser.new_context(offline=True)
    tabs = Tabs(context.new_page())
    tabs.page.goto(path.as_uri())
    tabs.page.wait_for_selector("#lr-report h1")
    tabs.page.get_by_text("Request Statistics").first.wait_for()
    assert {HOSTILE, "Aggregated"} <= {row["Name"] for row in tabs.table("esponse times")}
    assert tabs.colours("percentile-plot") > 2
    assert tabs.page.evaluate("window.hacked") is None
    edges = "id => document.getElementById(id).getBoundingClientRect()"
    root, ours = (tabs.page.evaluate(edges, name) for name in ("root", "lr-report"))
    assert root["bottom"] <= ours["top"] + 1
    context.close()
