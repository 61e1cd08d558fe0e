"""The tabs in a browser, over a recorded log: the page shows the figures of the Python API."""

from __future__ import annotations

import csv
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser_support import CONTRASTS, FLAGS, TITLES, Tabs, ask, chromium, number, opened, shows, site
from web_support import FORMULA, HOSTILE

from support import eventually

sync_api = pytest.importorskip("playwright.sync_api")
pytestmark = [pytest.mark.e2e, pytest.mark.browser]
oldest_too = pytest.mark.oldest_too


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    path = chromium()
    with sync_api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield running
        running.close()


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with site() as address:
        yield address


@pytest.fixture
def tabs(browser: Any) -> Iterator[Tabs]:
    """Open a page of its own, in English, without errors on its console."""
    with opened(browser) as page:
        yield page


def summary(url: str, window: str = "run") -> Any:
    return ask(f"{url}realism/api/summary?window={window}")


@oldest_too
def test_launches_shows_the_figures_of_the_python_api(tabs: Tabs, url: str) -> None:
    section = tabs.open(url).choose("Launches")
    expected = summary(url)
    rows = tabs.table("Times between launches")
    assert [row["Name"] for row in rows] == [row["label"] for row in expected["launches"]]
    columns = {
        "Intervals": "n", "Rate /s": "rate", "Mean ms": "mean_ms", "Sdev ms": "sdev_ms", "CoV": "cov",
        "p50 ms": "p50_ms", "p90 ms": "p90_ms", "p95 ms": "p95_ms", "p99 ms": "p99_ms",
        "Min ms": "min_ms", "Max ms": "max_ms",
    }  # fmt: skip
    verdicts = {(row["method"], row["label"]): row["status"] for row in expected["names"]}
    verdicts["", "Aggregated"] = expected["verdict"]["overall"]
    for row, want in zip(rows, expected["launches"], strict=True):
        for heading, key in columns.items():
            assert shows(row[heading], want[key]), (row["Name"], heading, row[heading], want[key])
        assert row["Verdict"].lower() == verdicts[row["Type"], row["Name"]]
    assert section.locator(".lr-verdict-text").inner_text() == expected["verdict"]["sentence"]
    shown = section.locator(".lr-checks > li[data-check]").evaluate_all(
        "(all) => all.map((li) => Number(li.dataset.check))"
    )
    assert sorted(shown) == sorted(check["id"] for check in expected["verdict"]["checks"])
    loud = [check["id"] for check in expected["verdict"]["checks"] if check["status"] in ("red", "amber")]
    open_ones = section.locator(".lr-verdict > .lr-checks > li").evaluate_all(
        "(a) => a.map((li) => Number(li.dataset.check))"
    )
    assert sorted(open_ones) == sorted(loud)


@oldest_too
def test_the_charts_of_the_launches_draw_the_curves_of_the_python_api(tabs: Tabs, url: str) -> None:
    tabs.open(url).choose("Launches")
    expected = summary(url)
    curve = expected["charts"]["interlaunch"][0]
    histogram = tabs.option("inter-launch")
    assert histogram["y"] == "log"
    assert [point[1] or 0 for point in histogram["series"][0]["data"]] == curve["counts"]
    over_time = tabs.option("cov-over-time")
    curve = expected["charts"]["cov_over_time"]
    assert over_time["series"][-1]["data"] == [list(point) for point in zip(curve["t_s"], curve["cov"], strict=True)]
    groups = tabs.option("cov-by-users")
    assert groups["x"] == "log"
    assert [point[1] for point in groups["series"][-1]["data"]] == [
        row["cov"] for row in expected["groups"] if row["cov"]
    ]
    dispersion = tabs.option("dispersion")
    assert [point[1] for point in dispersion["series"][-1]["data"]] == [row["idc"] for row in expected["dispersion"]]
    low, width = (dispersion["series"][i]["data"] for i in (0, 1))
    assert [point[1] for point in low] == [row["poisson_low"] for row in expected["dispersion"]]
    for (_, base), (_, more), row in zip(low, width, expected["dispersion"], strict=True):
        assert base + more == pytest.approx(row["poisson_high"])
    for name in ("inter-launch", "cov-over-time", "cov-by-users", "dispersion"):
        assert tabs.colours(name) > 3, name


def test_another_name_can_be_chosen_for_the_histogram(tabs: Tabs, url: str) -> None:
    section = tabs.open(url).choose("Launches")
    curves = summary(url)["charts"]["interlaunch"]
    tabs.option("inter-launch")
    section.get_by_label("Name", exact=True).select_option(label=f"GET {FORMULA}")
    chosen = next(curve for curve in curves if curve["label"] == FORMULA)
    drawn = tabs.option("inter-launch")["series"][0]["data"]
    assert [point[1] or 0 for point in drawn] == chosen["counts"]
    time.sleep(2.5)  # a poll later the name is still selected
    assert section.get_by_label("Name", exact=True).input_value() == f"GET {FORMULA}"


@oldest_too
def test_percentiles_shows_its_figures_and_different_ones_of_locust(tabs: Tabs, url: str) -> None:
    section = tabs.open(url).choose("Percentiles")
    expected = summary(url)
    rows = tabs.table("Response times, by name")
    columns = {
        "Requests": "n",
        "Failures": "failures",
        "p50 ms": "p50_ms",
        "p95 ms": "p95_ms",
        "p99.9 ms": "p999_ms",
        "Max ms": "max_ms",
    }
    for row, want in zip(rows, expected["response_times"], strict=True):
        for heading, key in columns.items():
            assert shows(row[heading], want[key]), (row["Name"], heading, row[heading], want[key])
    assert "nearest rank" in section.inner_text()
    rounded = {(row["method"], row["label"]): row for row in expected["charts"]["as_locust"]}
    notes = sum(
        abs(rounded[row["method"], row["label"]][key] - row[key]) > 0.01 * row[key]
        for row in expected["response_times"]
        for key in ("p50_ms", "p90_ms", "p95_ms", "p99_ms")
    )
    assert section.locator(".lr-note").count() == notes > 0
    for caption, kind in (("by stage", "stage"), ("by number of concurrent users", "level")):
        held = [row for row in expected["stages"] if row["kind"] == kind]
        parts = tabs.table(f"Response times {caption}")
        assert len(parts) == len(held) > 0, kind
        assert all(shows(row["p95 ms"], want["p95_ms"]) for row, want in zip(parts, held, strict=True))
    over_time = tabs.option("percentiles-over-time")["series"]
    for drawn, key in zip(over_time, ("p50_ms", "p95_ms", "p99_ms"), strict=True):
        assert [point[1] for point in drawn["data"]] == expected["charts"]["over_time"][key]
    plot = tabs.option("percentile-plot")
    assert (plot["x"], plot["y"]) == ("log", "log")
    assert [point[1] for point in plot["series"][0]["data"]] == expected["charts"]["response"][0]["tail_ms"]
    assert tabs.colours("density") > 3


def test_a_window_can_be_dragged_typed_and_left_again(tabs: Tabs, url: str) -> None:
    section = tabs.open(url).choose("Percentiles")
    whole = number(tabs.table("Response times, by name")[-1]["Requests"])
    tabs.option("percentiles-over-time")
    chart = section.locator('[data-chart="percentiles-over-time"]')
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    y = box["y"] + box["height"] / 2
    with tabs.page.expect_request(re.compile(r"summary\?window=[\d.]+\.\.[\d.]+")) as request:
        tabs.page.mouse.move(box["x"] + box["width"] * 0.4, y)
        tabs.page.mouse.down()
        tabs.page.mouse.move(box["x"] + box["width"] * 0.5, y, steps=4)
        tabs.page.mouse.move(box["x"] + box["width"] * 0.7, y, steps=4)
        tabs.page.mouse.up()
    window = request.value.url.partition("window=")[2]
    low, high = (float(part) for part in window.split(".."))
    assert 15 < low < 30 < 36 < high < 50

    def requests() -> float | None:
        return number(tabs.table("Response times, by name")[-1]["Requests"])

    want = summary(url, window)["response_times"][-1]["n"]
    eventually(lambda: requests() == want, within=5, because="the table shows the dragged window")
    section.get_by_label("From", exact=True).fill("10")
    section.get_by_label("To", exact=True).fill("20")
    section.get_by_label("To", exact=True).press("Enter")
    want = summary(url, "10.0..20.0")["response_times"][-1]["n"]
    eventually(lambda: requests() == want, within=5, because="the table shows the typed window")
    section.get_by_role("button", name="Last minute").click()
    want = summary(url, "minute")["response_times"][-1]["n"]
    eventually(lambda: requests() == want, within=5, because="the table shows the last minute")
    section.get_by_role("button", name="Whole run").click()
    eventually(lambda: requests() == whole, within=5, because="the table shows the whole run again")
    assert section.get_by_role("button", name="Whole run").get_attribute("aria-pressed") == "true"


@oldest_too
def test_population_generator_and_capacity_show_their_documents(tabs: Tabs, url: str) -> None:
    section = tabs.open(url).choose("Population")
    population = ask(f"{url}realism/api/population")
    users = tabs.option("users-over-time")["series"]
    assert [point[1] for point in users[-1]["data"]] == population["series"]["users"]
    assert [point[1] for point in users[-2]["data"]] == population["series"]["expected"]
    assert [point[1] for point in tabs.option("session-lengths")["series"][0]["data"]] == population["sessions"][
        "counts"
    ]
    tiles = section.locator(".lr-tile").evaluate_all("(all) => all.map((tile) => tile.textContent)")
    assert {"Sessions ended180", "Turned away2", "Late arrivals3"} <= set(tiles)
    flow = tabs.option("arrivals")["series"]
    assert [[point[1] for point in one["data"]] for one in flow] == [
        population["series"][key] for key in ("arrivals", "departures")
    ]
    assert [point[1] for point in tabs.option("profile-ahead")["series"][0]["data"]] == population["profile"]["rate"]
    assert tabs.colours("rate-over-time") > 3

    section = tabs.choose("Generator")
    generator = ask(f"{url}realism/api/generator")
    rows = tabs.table("Health of the load generator")
    assert [row["Worker"] for row in rows] == [worker["id"] for worker in generator["workers"]]
    assert [row["CPU"] for row in rows] == ["42 %", "93 %"]
    assert [row["Waits"] for row in rows] == ["3.1 %", "–"], "measured by one process only"
    assert section.locator(".lr-diagnosis-text").inner_text() == summary(url)["verdict"]["sentence"]
    assert [row["Recorded"] for row in rows] == ["1,500", "1,501"]
    for row, worker in zip(rows, generator["workers"], strict=True):
        for heading, key in {
            "Lag p99 ms": "lag_p99_ms",
            "Late p99 ms": "lateness_p99_ms",
            "Clock ms": "clock_offset_ms",
        }.items():
            assert shows(row[heading], worker[key]), (heading, row[heading])
        assert row["Memory"] == "91.0 MB"
    assert section.locator(".lr-findings li").count() == len(generator["findings"]) == 2
    assert "used 93% of its core" in section.locator(".lr-findings").inner_text()
    assert tabs.colours("cpu-over-time") > 3

    section = tabs.choose("Capacity")
    capacity = summary(url)["capacity"]
    levels = tabs.table("Throughput and response times")
    assert len(levels) == len(capacity["levels"]) > 1
    assert all(shows(row["p95 ms"], want["p95_ms"]) for row, want in zip(levels, capacity["levels"], strict=True))
    assert section.locator(".lr-answer").inner_text() == capacity["explanation"]
    drawn = tabs.option("throughput-by-users")["series"][-1]["data"]
    assert drawn == [[level["users"], level["rate"]] for level in capacity["levels"]]
    times = tabs.option("p95-by-users")["series"][-1]["data"]
    assert times == [[level["users"], level["p95_ms"]] for level in capacity["levels"]]


@oldest_too
def test_hostile_names_are_text_and_nothing_else(tabs: Tabs, url: str) -> None:
    tabs.open(url)
    for title in TITLES:
        tabs.choose(title)
    names = [row["Name"] for row in (tabs.choose("Launches"), tabs.table("Times between launches"))[1]]
    assert {HOSTILE, FORMULA} <= set(names)
    assert tabs.page.evaluate("window.hacked") is None
    assert tabs.page.locator("#locust-realism img, #locust-realism script").count() == 0


def test_two_hundred_long_names_fit_into_700_pixels(browser: Any) -> None:
    with site("many") as url, opened(browser, width=700) as tabs:
        tabs.open(url)
        for title in TITLES:
            tabs.choose(title)
            tabs.page.wait_for_timeout(300)
            assert tabs.page.evaluate("document.documentElement.scrollWidth") <= 700, title
        tabs.choose("Percentiles")
        names = [row["Name"] for row in tabs.table("Response times, by name")]
        assert len(set(names)) == len(names) == 201
        assert max(map(len, names)) == 300
        assert tabs.page.evaluate("window.hacked") is None


@oldest_too
def test_the_theme_of_locust_is_followed_at_once(tabs: Tabs, url: str) -> None:
    section = tabs.open(url).choose("Launches")
    before = tabs.option("cov-over-time")["text"]
    first = section.get_attribute("data-theme")
    tabs.page.locator("header button, nav button").last.click()
    eventually(lambda: section.get_attribute("data-theme") != first, within=5, because="the section changes its theme")
    eventually(lambda: tabs.option("cov-over-time")["text"] != before, within=5, because="the charts change theirs")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_has_the_contrast_of_level_aa(browser: Any, url: str, scheme: str) -> None:
    with opened(browser, color_scheme=scheme) as tabs:
        tabs.page.add_init_script(f"localStorage.setItem('theme', '{scheme}')")
        tabs.open(url)
        for title in TITLES:
            section = tabs.choose(title)
            assert section.get_attribute("data-theme") == scheme
            for fold in section.locator("summary").all():
                fold.click()
            assert section.evaluate(CONTRASTS) == [], title


def test_everything_can_be_reached_and_understood_without_a_mouse(tabs: Tabs, url: str) -> None:
    section = tabs.open(url).choose("Launches")
    assert section.get_attribute("role") == "tabpanel"
    assert section.get_attribute("aria-label") == "Launches"
    tabs.option("dispersion")
    for chart in section.locator("[data-chart]").all():
        assert chart.get_attribute("role") == "img"
        assert len(chart.get_attribute("aria-label")) > 30
    term = section.get_by_role("link", name="CoV", exact=True)
    term.focus()
    tip = section.get_by_role("tooltip")
    tip.wait_for(state="visible")
    assert "standard deviation divided by mean" in tip.inner_text()
    assert "standard deviation divided by mean" in term.get_attribute("aria-description")
    tabs.page.keyboard.press("Escape")
    tip.wait_for(state="hidden")
    unnamed = """(root) => [...root.querySelectorAll('button, a, select, input, [tabindex]')]
      .filter((node) => node.checkVisibility())
      .filter((node) => !(node.getAttribute('aria-label') || node.textContent.trim() || node.labels?.length))
      .map((node) => node.outerHTML)"""
    assert section.evaluate(unnamed) == []
    for header in section.locator("table th").all():
        assert header.get_attribute("scope") in ("col", "row")
    region = section.get_by_role("region", name="Times between launches")
    region.focus()
    assert region.evaluate("(node) => document.activeElement === node")


def test_the_link_of_a_term_leads_to_its_explanation(tabs: Tabs, url: str) -> None:
    section = tabs.open(url).choose("Launches")
    with tabs.page.context.expect_page() as opened:
        section.get_by_role("link", name="Index of dispersion").click()
    page = opened.value
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.wait_for_selector("#dispersion dd")
    assert "Variance divided by mean" in page.locator("#dispersion dd").inner_text()
    assert errors == []


def test_charts_are_saved_as_png_and_their_data_as_csv(tabs: Tabs, url: str, tmp_path: Path) -> None:
    section = tabs.open(url).choose("Percentiles")
    tabs.option("percentile-plot")
    figure = section.locator("figure", has=tabs.page.locator('[data-chart="percentile-plot"]'))
    with tabs.page.expect_download() as saving:
        figure.get_by_role("button", name="PNG").click()
    saving.value.save_as(tmp_path / "chart.png")
    assert (tmp_path / "chart.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert (tmp_path / "chart.png").stat().st_size > 5000
    with tabs.page.expect_download() as saving:
        figure.get_by_role("button", name="CSV").click()
    saving.value.save_as(tmp_path / "chart.csv")
    with (tmp_path / "chart.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["ms"]) for row in rows] == summary(url)["charts"]["response"][0]["tail_ms"]


def test_figures_stand_below_each_other(tabs: Tabs, url: str) -> None:
    section = tabs.open(url).choose("Percentiles")
    look = "(style) => `${style.textAlign} ${style.fontVariantNumeric}`"
    script = f"(all) => all.map((cell) => ({look})(getComputedStyle(cell)))"
    assert set(section.locator("tbody .lr-number").evaluate_all(script)) == {"right tabular-nums"}
    units = section.locator("thead .lr-unit").evaluate_all("(all) => all.map((unit) => unit.textContent.trim())")
    assert {"ms", "/s"} <= set(units) <= {"ms", "/s", "s"}


def test_every_term_is_explained_somewhere(tabs: Tabs, url: str) -> None:
    tabs.open(url)
    used: set[str] = set()
    for title in TITLES:
        links = tabs.choose(title).locator("a.lr-term")
        used |= set(links.evaluate_all("(all) => all.map((link) => link.dataset.term)"))
        assert all(link.get_attribute("aria-description") for link in links.all()), title
    tabs.page.goto(f"{url}realism/help")
    tabs.page.wait_for_selector("dl dd")
    explained = tabs.page.locator("dl > div").evaluate_all("(all) => all.map((one) => one.id)")
    assert used <= set(explained)
    assert set(explained) - used == set(), "every explained term is also linked"


def test_our_files_are_among_those_of_locust(tabs: Tabs, url: str, tmp_path: Path) -> None:
    page = tabs.open(url).page
    page.get_by_role("tab", name="Download Data", exact=True).click()
    for title in (
        "launches CSV",
        "CoV by number of users CSV",
        "sessions CSV",
        "every request as Parquet",
        "percentile report",
    ):
        assert page.get_by_role("link", name=title).get_attribute("href")
    with page.expect_download() as saving:
        page.get_by_role("link", name="Download exact percentiles CSV").click()
    saving.value.save_as(tmp_path / "percentiles.csv")
    with (tmp_path / "percentiles.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["p95_ms"]) for row in rows] == [row["p95_ms"] for row in summary(url)["response_times"]]


def test_numbers_follow_the_locale_of_the_browser(browser: Any, url: str) -> None:
    with opened(browser, locale="de-DE") as tabs:
        tabs.open(url).choose("Percentiles")
        n = summary(url)["response_times"][-1]["n"]
        assert tabs.table("Response times, by name")[-1]["Requests"] == f"{n:,}".replace(",", ".")


@oldest_too
@pytest.mark.parametrize("broken", ["realism.js", "tabs.js"])
def test_a_failing_script_of_ours_leaves_locust_unharmed(browser: Any, url: str, broken: str) -> None:
    with opened(browser, clean=False) as tabs:
        page = tabs.page
        page.route(
            f"**/realism/static/{broken}",
            lambda route: route.fulfill(content_type="text/javascript", body="throw new Error('no')"),
        )
        tabs.open(url)
        for title in ("Statistics", "Launches", "Charts", "Percentiles", "Logs"):
            page.get_by_role("tab", name=title, exact=True).click()
            page.get_by_role("tab", name=title, exact=True, selected=True).wait_for()
        page.get_by_role("tab", name="Statistics").click()
        page.get_by_text("# Requests").wait_for()
        page.get_by_role("button", name="Edit").click()
        page.get_by_text("Edit running load test").wait_for()


def test_without_the_chart_library_the_tables_and_the_data_are_still_there(browser: Any, url: str) -> None:
    with opened(browser, clean=False) as tabs:
        tabs.page.route("**/echarts*", lambda route: route.abort())
        section = tabs.open(url).choose("Launches")
        assert len(tabs.table("Times between launches")) == 4
        section.get_by_text("The chart could not be drawn").first.wait_for()
        with tabs.page.expect_download():
            section.get_by_role("button", name="CSV").first.click()


FAILURES: list[tuple[dict[str, Any] | None, str]] = [
    ({"status": 500, "body": '{"error":"disk full"}'}, "could not be computed: disk full"),
    ({"status": 502, "body": "<html>proxy</html>"}, "could not be read (status 502)"),
    ({"status": 302, "headers": {"Location": "/login"}}, "session has ended"),
    ({"status": 401, "body": "{}"}, "session has ended"),
    (None, "Locust does not answer"),
]


def test_a_failing_server_leaves_a_notice_and_the_last_figures(browser: Any, url: str) -> None:
    with opened(browser, clean=False) as tabs:
        section = tabs.open(url).choose("Launches")
        rows = tabs.table("Times between launches")
        answers: list[dict[str, Any] | None] = []
        tabs.page.route(
            "**/realism/api/summary*",
            lambda route: route.abort() if answers[-1] is None else route.fulfill(**answers[-1]),
        )
        for answer, words in FAILURES:
            answers.append(answer)
            tabs.page.get_by_role("tab", name="Statistics").click()
            tabs.page.get_by_role("tab", name="Launches").click()
            section.get_by_text(words).wait_for(timeout=8000)
            assert tabs.table("Times between launches") == rows
        tabs.page.unroute("**/realism/api/summary*")
        section.get_by_role("status").first.wait_for(state="hidden", timeout=8000)


def test_opened_twice_both_pages_show_the_figures(browser: Any, url: str) -> None:
    with opened(browser) as first, opened(browser) as second:
        for tabs in (first, second):
            tabs.open(url).choose("Launches")
        for tabs in (first, second):
            assert len(tabs.table("Times between launches")) == 4
            assert tabs.page.locator("#locust-realism").count() == 1


@oldest_too
def test_leaving_and_coming_back_leaves_one_section_below_the_tabs(tabs: Tabs, url: str) -> None:
    tabs.open(url).choose("Launches")
    tabs.page.get_by_role("tab", name="Statistics").click()
    section = tabs.page.locator("#locust-realism")
    section.wait_for(state="hidden")
    tabs.choose("Percentiles")
    assert section.count() == 1
    assert section.evaluate("(node) => node.parentElement.tagName") == "MAIN"
    assert not tabs.page.get_by_text("Times between launches").is_visible()


@oldest_too
def test_below_a_base_path_with_the_class_picker(browser: Any) -> None:
    with site("base", "picker") as url, opened(browser) as tabs:
        tabs.open(url).choose("Launches")
        assert len(tabs.table("Times between launches")) == 4
        tabs.option("dispersion")


@oldest_too
def test_with_login_the_tabs_work_until_the_session_ends(browser: Any) -> None:
    with site("login") as url, opened(browser, clean=False) as tabs:
        tabs.page.goto(f"{url}enter")
        tabs.page.wait_for_selector("#root main")
        section = tabs.choose("Launches")
        assert len(tabs.table("Times between launches")) == 4
        tabs.page.context.request.get(f"{url}leave")
        section.get_by_text("session has ended").wait_for(timeout=8000)


def test_figures_change_while_the_test_runs(browser: Any) -> None:
    with site("live") as url, opened(browser) as tabs:
        tabs.open(url).choose("Launches")

        def intervals() -> float:
            rows = tabs.table("Times between launches")
            return (number(rows[-1]["Intervals"]) or 0) if rows else 0

        first = intervals()
        eventually(lambda: intervals() > first, within=5, because="a cell changes within five seconds")


@oldest_too
def test_all_tabs_are_in_sight_on_a_common_screen(tabs: Tabs, url: str) -> None:
    strip = tabs.open(url).page.get_by_role("tablist")
    eventually(lambda: strip.locator("[data-lr-tab]").count() == len(TITLES), within=5, because="our tabs are narrower")

    def in_sight() -> bool:
        frame = strip.evaluate("(node) => node.parentElement.getBoundingClientRect().right")
        last = strip.get_by_role("tab").last.bounding_box()
        return bool(last["x"] + last["width"] <= frame)

    eventually(in_sight, within=5, because="Capacity can be seen without scrolling")
    tabs.page.set_viewport_size({"width": 700, "height": 900})
    eventually(lambda: not in_sight(), within=5, because="a narrow window has to scroll")
    tabs.page.locator(".MuiTabs-scrollButtons").last.wait_for(state="visible")
    tabs.page.set_viewport_size({"width": 1400, "height": 900})
    eventually(in_sight, within=5, because="a wide one has not")


@oldest_too
def test_the_start_form_folds_our_options_and_explains_them(browser: Any) -> None:
    with site("ready") as url, opened(browser) as tabs:
        page = tabs.open(url).page
        page.get_by_text("Custom parameters").click()
        fold = page.get_by_role("button", name="Recording and analysis")
        fold.wait_for()
        seed = page.locator('[name="realismSeed"]')
        assert not seed.is_visible()
        fold.click()
        seed.wait_for(state="visible")
        assert page.get_by_text("Seed of every think time (the same seed repeats a run).", exact=True).is_visible()
        assert page.locator('[name="thinkTime"]').is_visible()
        labels = page.locator("label[data-lr-label]").evaluate_all("(all) => all.map((one) => one.dataset.lrLabel)")
        assert labels == ["Seed", "Warm-up", "Think time"]
        seed.fill("11")
        with page.expect_request("**/swarm") as sent:
            page.get_by_role("button", name="Start", exact=True).click()
        assert "realism_seed=11" in sent.value.post_data
        tabs.choose("Launches")


def test_each_empty_tab_announces_its_contents(browser: Any, url: str) -> None:
    with opened(browser) as tabs:
        bare = '{"age_s":null,"state":"running","workers":[],"rows":0}'
        tabs.page.route("**/realism/api/*", lambda route: route.fulfill(content_type="application/json", body=bare))
        tabs.open(url)
        for title in TITLES:
            section = tabs.choose(title)
            assert section.locator(".lr-empty:visible").count() >= 1, title
            assert not re.search(r"NaN|undefined|null|Infinity|object Object", section.inner_text()), title


def test_the_report_opens_from_a_file_and_shows_the_same_figures(browser: Any, url: str, tmp_path: Path) -> None:
    import urllib.request

    with urllib.request.urlopen(f"{url}realism/report") as answer:
        (tmp_path / "report.html").write_bytes(answer.read())
    with opened(browser, offline=True) as tabs:
        tabs.page.goto((tmp_path / "report.html").as_uri())
        tabs.page.locator(".lr-verdict-text").wait_for()
        expected = summary(url)
        assert HOSTILE in tabs.page.locator("h1").inner_text()
        launches = tabs.table("Times between launches")
        assert all(shows(row["CoV"], want["cov"]) for row, want in zip(launches, expected["launches"], strict=True))
        percentiles = zip(tabs.table("Response times, by name"), expected["response_times"], strict=True)
        assert all(shows(row["p99 ms"], want["p99_ms"]) for row, want in percentiles)
        for name in ("inter-launch", "percentile-plot", "users-over-time", "cpu-over-time"):
            tabs.option(name)
            assert tabs.colours(name) > 3, name
        assert tabs.page.evaluate("window.hacked") is None
        for link in tabs.page.locator("a.lr-term").all():
            assert tabs.page.locator(link.get_attribute("href")).count() == 1


def test_the_report_that_locust_serves_runs_under_its_policy(tabs: Tabs, url: str) -> None:
    tabs.page.goto(f"{url}realism/report")
    tabs.page.locator(".lr-verdict-text").wait_for()
    tabs.option("inter-launch")
