"""Client of the page of a running Locust: sends its forms and reads its figures."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen
from typing import Any

from tests.support import eventually, free_port, started_locust, two_workers


class Page:
    """Web UI at ``base``."""

    def __init__(self, base: str) -> None:
        self.base = base

    def send(self, path: str, **fields: object) -> dict[str, Any]:
        """Return the JSON answer to a form, or to a GET without fields."""
        data = urllib.parse.urlencode(fields, doseq=True).encode() if fields else None
        with urllib.request.urlopen(self.base + path, data=data, timeout=10) as response:
            answer: dict[str, Any] = json.loads(response.read())
        return answer

    def start(self, **fields: object) -> None:
        """Start a test, or edit the running one."""
        assert self.send("/swarm", spawn_rate=3, **fields)["success"]

    def stop(self) -> None:
        """Stop the test and wait until it has stopped."""
        try:
            self.send("/stop", now="yes")
        except urllib.error.HTTPError as error:  # a GET in older versions of Locust
            if error.code != 405:
                raise
            self.send("/stop")
        eventually(lambda: self.state()["state"] == "stopped" and self.state()["user_count"] == 0, within=15)

    def state(self) -> dict[str, Any]:
        """Return the document that the page polls every second."""
        return self.send("/stats/requests")

    def is_up(self) -> bool:
        try:
            return "state" in self.state()
        except OSError:
            return False


@contextmanager
def two_workers_with_page(*arguments: object, cwd: Path, env: dict[str, str]) -> Iterator[tuple[Popen[str], Page]]:
    """Start a master with a page and two forked, ready workers; the log is ``cwd / "log"``."""
    web = free_port()
    with started_locust(
        *arguments, *two_workers(), "--web-host", "127.0.0.1", "--web-port", web,
        cwd=cwd, env=env, log=cwd / "log",
    ) as process:  # fmt: skip
        page = Page(f"http://127.0.0.1:{web}")
        eventually(page.is_up, within=30)
        eventually(lambda: len(page.state().get("workers", [])) == 2, within=20)
        yield process, page
