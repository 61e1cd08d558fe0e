"""The tabs over a real run, in one process and in a master with two workers: from Start to the next run."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from browser_support import FLAGS, TITLES, Tabs, answers, ask, chromium, number, opened, shows

from support import eventually, free_port, started_locust

sync_api = pytest.importorskip("playwright.sync_api")
pytestmark = [pytest.mark.e2e, pytest.mark.browser]

LOCUSTFILE = Path(__file__).with_name("tabs_locustfile.py")
RUN = ("-u", 10, "-r", 10)


@contextmanager
def running(folder: Path, workers: int) -> Iterator[str]:
    """Start Locust with its page, in one process or as a master with workers, without users."""
    web, nodes = free_port(), free_port()
    file = ("-f", LOCUSTFILE)
    with ExitStack() as stack:
        if workers:
            master = (
                *file,
                *RUN,
                "--master",
                "--master-bind-port",
                nodes,
                "--web-port",
                web,
                "--web-host",
                "127.0.0.1",
            )
            stack.enter_context(started_locust(*master, cwd=folder, log=folder / "master.log"))
            for index in range(workers):
                worker = (*file, "--worker", "--master-port", nodes, "--master-host", "127.0.0.1")
                stack.enter_context(started_locust(*worker, cwd=folder, log=folder / f"worker{index}.log"))
        else:
            local = (*file, *RUN, "--web-port", web, "--web-host", "127.0.0.1")
            stack.enter_context(started_locust(*local, cwd=folder, log=folder / "local.log"))
        url = f"http://127.0.0.1:{web}/"
        eventually(lambda: answers(url), within=40, because="the page is served")
        eventually(lambda: not workers or ask(f"{url}worker-count")["worker_count"] == workers, within=30)
        yield url


CLUSTER = pytest.param(2, id="master and 2 workers", marks=pytest.mark.oldest_too)


@pytest.fixture(params=[pytest.param(0, id="local"), CLUSTER])
def tabs(request: Any, tmp_path: Path) -> Iterator[tuple[Tabs, str]]:
    with sync_api.sync_playwright() as playwright, running(tmp_path, request.param) as url:
        browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        with opened(browser) as page:
            page.open(url)
            yield page, url
        browser.close()


def requests(tabs: Tabs) -> float:
    """Return the requests of all names in the Percentiles tab."""
    rows = tabs.table("Response times, by name")
    return (number(rows[-1]["Requests"]) or 0) if rows else 0


def settled(url: str) -> Any:
    """Return the summary after the stop and the workers' last reports."""

    def complete() -> Any:
        stats, summary = ask(f"{url}stats/requests"), ask(f"{url}realism/api/summary")
        counted = (stats["state"], stats["stats"][-1]["num_requests"])
        time.sleep(3.5)
        now = ask(f"{url}stats/requests")
        steady = counted == (now["state"], now["stats"][-1]["num_requests"])
        return steady and counted == ("stopped", requests_of(summary)) and summary

    return eventually(complete, within=40, because="our rows are as many as Locust's requests")


def press(tabs: Tabs, name: str) -> None:
    """Press one of Locust's own buttons."""
    tabs.page.get_by_role("button", name=name, exact=True).click()


def test_a_run_from_start_to_the_next_one(tabs: tuple[Tabs, str]) -> None:
    page, url = tabs
    press(page, "Start")
    page.choose("Percentiles")
    eventually(lambda: requests(page) > 0, within=15, because="the first requests show")
    first = requests(page)
    eventually(lambda: requests(page) > first, within=5, because="a cell changes within five seconds")
    for title in TITLES:
        page.choose(title)

    time.sleep(4)
    press(page, "Stop")
    expected = settled(url)
    page.page.reload()
    page.choose("Percentiles")
    eventually(lambda: requests(page) == expected["response_times"][-1]["n"], within=12, because="all rows show")
    rows = page.table("Response times, by name")
    for row, want in zip(rows, expected["response_times"], strict=True):
        assert row["Name"] == want["label"]
        assert shows(row["p95 ms"], want["p95_ms"])
        assert shows(row["Max ms"], want["max_ms"])
    locust = {row["name"]: row["num_requests"] for row in ask(f"{url}stats/requests")["stats"]}
    assert {row["Name"]: number(row["Requests"]) for row in rows} == locust
    page.choose("Launches")
    launches = page.table("Times between launches")
    assert all(shows(row["CoV"], want["cov"]) for row, want in zip(launches, expected["launches"], strict=True))
    histogram = page.option("inter-launch")["series"][0]["data"]
    assert [point[1] or 0 for point in histogram] == expected["charts"]["interlaunch"][0]["counts"]
    the_other_tabs_show_their_documents(page, url, expected)
    assert page.page.evaluate("window.hacked") is None

    last = requests_of(expected)
    press(page, "New")
    press(page, "Start")
    page.choose("Percentiles")
    eventually(lambda: 0 < requests(page) < last, within=15, because="a new run starts from nothing")
    time.sleep(3)
    press(page, "Reset")
    page.page.get_by_role("button", name="Since reset").click()

    def only_since_reset() -> bool:
        part, whole = (requests_of(ask(f"{url}realism/api/summary?window={window}")) for window in ("reset", "run"))
        return 0 < requests(page) <= part < whole

    eventually(only_since_reset, within=20, because="only requests since the reset show")
    before = requests(page)
    eventually(lambda: requests(page) > before, within=15, because="they grow")
    press(page, "Stop")


def the_other_tabs_show_their_documents(page: Tabs, url: str, expected: Any) -> None:
    """Check Population, Generator and Capacity of a stopped run."""
    page.choose("Population")
    own = ask(f"{url}realism/api/population").get("series") or {}
    users = own.get("users") or expected["charts"]["over_time"]["users"]
    assert [point[1] for point in page.option("users-over-time")["series"][-1]["data"]] == users
    page.choose("Generator")
    ask(f"{url}realism/api/generator")  # the first answer starts the computation for the whole run
    time.sleep(1)
    workers = ask(f"{url}realism/api/generator")["workers"]
    want = [(one["id"], one["rows"]) for one in workers]
    assert sum(rows or 0 for _, rows in want) == requests_of(expected)

    def all_recorded() -> bool:
        rows = page.table("Health of the load generator")
        return [(row["Worker"], number(row["Recorded"])) for row in rows] == want

    eventually(all_recorded, within=5, because="the rows of each worker show, soon after the tab is chosen")
    section = page.choose("Capacity")
    levels = (expected["capacity"] or {}).get("levels") or []
    if len(levels) > 1:
        shown = page.table("Throughput and response times")
        assert all(shows(row["p95 ms"], want["p95_ms"]) for row, want in zip(shown, levels, strict=True))
    else:
        text = section.locator(".lr-empty:visible").inner_text()
        assert "once the run has been at more than one number of users" in text


def requests_of(document: Any) -> int:
    """Return the requests of all names in a summary."""
    rows = document.get("response_times")
    return int(rows[-1]["n"]) if rows else 0
