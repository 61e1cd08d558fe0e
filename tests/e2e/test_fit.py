"""Files of ``locust-realism fit``: the locustfile runs as it is, the page opens offline."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from browser_support import FLAGS, chromium, opened
from log_support import lines, traffic, write_log

from locust_realism.workload.distributions import exponential
from locust_realism.workload.rates.shapes import ConstantRate
from support import environment, run_locust

pytestmark = pytest.mark.e2e

RATE = 20.0
"""Sessions a second of the log, of 4 requests each 0.5 s apart on average: 80 requests a second."""

HOSTILE = "/</script><img/src=x/onerror=window.hacked=1>"
REQUESTS = ["GET / HTTP/1.1", "GET /item/77?x=1 HTTP/1.1", f"GET {HOSTILE} HTTP/1.1", "POST /cart HTTP/1.1"]


def fitted(folder: Path, *arguments: str) -> dict[str, Any]:
    """Fit a log of an hour and return the document."""
    made = traffic(ConstantRate(RATE), exponential(0.5), 4, [0.6, 0.3, 0.05, 0.05], 1800, seed=1)
    write_log(folder / "access.log.gz", lines(made, REQUESTS))
    command = [sys.executable, "-m", "locust_realism.cli", "fit", "access.log.gz", "--gap", "2m", "--format", "json"]
    done = subprocess.run(
        [*command, *arguments], cwd=folder, env=environment(), capture_output=True, text=True, timeout=120, check=True
    )
    document: dict[str, Any] = json.loads(done.stdout)
    return document


@contextmanager
def server() -> Iterator[tuple[str, Counter[str]]]:
    """Run a server that counts the requested paths; yield it and its address."""
    asked: Counter[str] = Counter()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            asked[self.path] += 1
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as httpd:
        thread = Thread(target=httpd.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{httpd.server_port}", asked
        httpd.shutdown()
        thread.join(10)


def test_locustfile_runs_as_it_is_with_the_fitted_load(tmp_path: Path) -> None:
    document = fitted(tmp_path, "--locustfile", "fitted.py")
    assert document["think_times"]["best"]["family"] == "exponential"
    seconds = 8
    with server() as (url, asked):
        done = run_locust(
            "-f", "fitted.py", "--headless", "-t", f"{seconds}s", "--host", url, "--realism-seed", 1,
            cwd=tmp_path, env={"LOCUST_SKIP_MONKEY_PATCH": ""},
        )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert "Traceback" not in done.stdout
    total = sum(asked.values())
    # Sessions come in groups of about four requests, so the count varies more than a Poisson one, about eightfold.
    expected = RATE * 4 * (seconds - 1)
    assert abs(total - expected) < 5 * (8 * expected) ** 0.5 + RATE * 4
    assert set(asked) == {"/", "/item/77?x=1", "/%3C/script%3E%3Cimg/src=x/onerror=window.hacked=1%3E"}
    share = asked["/"] / total
    assert abs(share - 0.6 / 0.95) < 5 * (0.25 / total) ** 0.5


@pytest.mark.browser
def test_page_opens_offline_with_its_charts(tmp_path: Path) -> None:
    playwright = pytest.importorskip("playwright.sync_api")
    document = fitted(tmp_path, "--html", "fit.html")
    with playwright.sync_playwright() as p:
        browser = p.chromium.launch(executable_path=chromium(), args=FLAGS)
        with opened(browser, offline=True) as tabs:
            asked: list[str] = []
            tabs.page.on("request", lambda request: asked.append(request.url))
            tabs.page.goto((tmp_path / "fit.html").as_uri())
            tabs.page.wait_for_selector("#lr-report h1")
            rates = tabs.option("rate-by-time-of-day")
            observed = next(one for one in rates["series"] if one["name"] == "Observed")
            rows = document["arrivals"]["by_time_of_day"]
            assert [y for _, y in observed["data"][::2]] == [
                None if r["rate"] is None else 3600 * r["rate"] for r in rows
            ]
            assert {one["name"] for one in tabs.option("think-times")["series"]} >= {"exponential", "Observed"}
            for name in ("rate-by-time-of-day", "think-times", "session-lengths"):
                assert tabs.colours(name) > 2
            table = {row["Name"]: row for row in tabs.table("Requests by name")}
            assert int(table["/"]["Requests"].replace(",", "")) == document["requests"][0]["n"]
            assert HOSTILE in table
            assert tabs.page.evaluate("window.hacked") is None
            assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
        browser.close()
