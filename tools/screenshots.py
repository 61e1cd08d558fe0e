"""Screenshots of the tabs for the README and the docs: real runs of the WebDAV scenario in a real browser.

    python tools/screenshots.py                  # three runs of about two minutes each, then docs/images/*.png
    python tools/screenshots.py --seconds 20     # faster, with shorter curves

The first run holds one number of users, for Launches, Percentiles and Generator; the second has arrivals and
departures, for Population; the third raises the users in steps, for Capacity. The script needs the extras ``webdav``
and ``dev``, Chromium, and an idle machine: otherwise the pictures show a late generator. The server is the scenario's
embedded one. Locust stops by SIGINT, so that the scenario removes its user accounts.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import psutil
from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
PEOPLE = ("--dav-arrivals", "1.5", "--dav-session", "20", "--population-start", "empty")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-dev-shm-usage",
]


def main() -> None:
    """Run Locust three times and take the pictures of each run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=40, help="users of the steady run")
    parser.add_argument(
        "--steps", type=int, nargs="+", default=[10, 20, 40, 60], help="users, one number after another"
    )
    parser.add_argument("--seconds", type=float, default=30, help="length of a step; the other runs take 4 and 3 steps")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "images", help="folder of the pictures")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        # Start the browser before the run: on a small machine its start would delay the generator.
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        for process in psutil.Process().children(recursive=True):
            process.nice(19)  # drawing pages must not delay Locust: the pictures would show it
        with scenario("--realism-warmup", "10s") as url, pages(browser, url) as opened:
            swarm(url, user_count=options.users, spawn_rate=10)
            time.sleep(4 * options.seconds)
            take(opened, ("Launches", "Percentiles", "Generator"), options.out)
        with scenario(*PEOPLE) as url, pages(browser, url) as opened:
            swarm(url, user_count=1, spawn_rate=1)
            time.sleep(3 * options.seconds)
            take(opened, ("Population",), options.out)
        with scenario() as url, pages(browser, url) as opened:
            for users in options.steps:
                swarm(url, user_count=users, spawn_rate=10)
                time.sleep(options.seconds)
            take(opened, ("Capacity",), options.out)
        browser.close()


@contextmanager
def scenario(*arguments: str) -> Iterator[str]:
    """Start the scenario with its page, no users yet; yield the address, stop Locust by SIGINT."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "locust", "-f", str(ROOT / "scenarios" / "webdav.py"), *arguments]
    command += ["--web-host", "127.0.0.1", "--web-port", str(port), "--realism-seed", "1"]
    locust = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        url = f"http://127.0.0.1:{port}/"
        wait_for(url)
        yield url
    finally:
        locust.send_signal(signal.SIGINT)
        try:
            locust.wait(60)
        except subprocess.TimeoutExpired:
            locust.kill()


def wait_for(url: str) -> None:
    """Wait until Locust serves the page."""
    for _ in range(150):
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise SystemExit(f"{url} does not answer within 30 s: start the scenario by hand to see its messages")


def swarm(url: str, **form: float) -> None:
    """Start the test or change its number of users, as the page's form does."""
    data = urllib.parse.urlencode(form).encode()
    urllib.request.urlopen(f"{url}swarm", data, timeout=30).close()


@contextmanager
def pages(browser: Browser, url: str) -> Iterator[dict[str, Page]]:
    """Open the page in both themes; yield the pages by theme."""
    opened: dict[str, Page] = {}
    themes: tuple[Literal["light", "dark"], ...] = ("light", "dark")
    for theme in themes:
        size: ViewportSize = {"width": 1500, "height": 900}
        opened[theme] = browser.new_context(viewport=size, locale="en-US", color_scheme=theme).new_page()
        opened[theme].goto(url)
    yield opened
    for page in opened.values():
        page.context.close()


def take(opened: dict[str, Page], titles: Sequence[str], out: Path) -> None:
    """Take a picture of each of these tabs in each theme."""
    for theme, page in opened.items():
        page.reload()
        for title in titles:
            page.get_by_role("tab", name=title, exact=True).click()
            page.locator("#locust-realism .lr-tab").wait_for(timeout=30_000)
            page.mouse.move(0, 0)
            page.wait_for_timeout(2500)
            page.screenshot(path=out / f"{title.lower()}-{theme}.png", full_page=True)


if __name__ == "__main__":
    main()
