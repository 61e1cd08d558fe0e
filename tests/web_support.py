"""A provider that replays a recorded log, for tests of the page without a recorder."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar

import numpy as np

from locust_realism.analysis.capacity.capacity import capacity
from locust_realism.analysis.charts import chart_data
from locust_realism.analysis.summary import summarize
from locust_realism.recording.launches import LaunchLog
from locust_realism.web.findings import generator_findings

T = TypeVar("T")
ORIGIN_US = 1_700_000_000_000_000
HOSTILE = '<script>window.hacked = 1</script><img src=x onerror="window.hacked = 2">",=cmd()|\'; DROP'
FORMULA = "=cmd()|'/c calc'!A1"


@cache
def poisson_log(seconds: float = 60.0, rate: float = 50.0, users: int = 20, seed: int = 1, names: int = 3) -> LaunchLog:
    """Return launches of independent users with log-normal response times, some failures and hostile names."""
    rng = np.random.default_rng(seed)
    n = rng.poisson(rate * seconds)
    launches = ORIGIN_US + np.sort(rng.integers(0, int(seconds * 1e6), n))
    table = ["GET file", HOSTILE, FORMULA, *(f"{i} {HOSTILE * 5}"[:300] for i in range(max(0, names - 3)))][:names]
    picks = rng.integers(0, names, n)
    return LaunchLog.build(
        launches,
        np.maximum(200, rng.lognormal(np.log(120_000), 0.8, n)).astype(np.int64),
        names=[table[i] for i in picks],
        methods=["GET" if i % 2 == 0 else "PUT" for i in picks],
        failed=rng.random(n) < 0.02,
        slot=rng.integers(0, users, n),
        users=np.minimum(users, 1 + (launches - ORIGIN_US) // 500_000),
    )


class LogProvider:
    """Provider of the views from a log; with ``live`` its rows appear at the speed of the log."""

    def __init__(self, log: LaunchLog, *, live: bool = False, state: Callable[[], str] = lambda: "running") -> None:
        self.log = log
        self.live = live
        self.state = state
        self.started = time.monotonic()
        self.windows: list[str | None] = []
        self.report: Callable[[dict[str, Any]], str] = lambda _: "<html><body><script>let a = 1</script></body></html>"
        self.known: dict[str | None, dict[str, Any]] = {}
        self.failing: Exception | None = None
        self.population_document: dict[str, Any] = {"model": None}
        self.generator_document: dict[str, Any] = {"workers": []}

    def rows(self) -> LaunchLog:
        """Return the rows launched so far."""
        if not self.live:
            return self.log
        now = ORIGIN_US + int((time.monotonic() - self.started) * 1e6)
        return self.log.take(self.log.launch_us <= now)

    def status(self) -> dict[str, Any]:
        return {"state": self.state(), "rows": len(self.rows()), "lost": 0, "errors": [], "warnings": [], "users": 20}

    def summary(self, window: str | None) -> dict[str, Any]:
        if self.failing:
            raise self.failing
        self.windows.append(window)
        document = self._computed(window) if self.live else self._kept(window)
        return {**document, "age_s": 0.1, "state": self.state()}

    def _kept(self, window: str | None) -> dict[str, Any]:
        if window not in self.known:
            self.known[window] = self._computed(window)
        return self.known[window]

    def _computed(self, window: str | None) -> dict[str, Any]:
        log = self.rows()
        if window and ".." in window:
            low, high = (ORIGIN_US + int(float(part) * 1e6) for part in window.split(".."))
            log = log.take((log.launch_us >= low) & (log.launch_us <= high))
        document = summarize(log, run_start_us=ORIGIN_US)
        return {
            **document,
            "charts": chart_data(log, origin_us=ORIGIN_US),
            "capacity": document["capacity"] or capacity(log),
        }

    def population(self) -> dict[str, Any]:
        return self.population_document

    def generator(self) -> dict[str, Any]:
        return self.generator_document

    def export_rows(self) -> LaunchLog:
        return self.rows()

    def export_sessions(self) -> Sequence[Mapping[str, Any]]:
        return [{"user": FORMULA, "started_us": ORIGIN_US, "duration_s": 3.5}]

    def report_html(self) -> str:
        return self.report(
            {
                "title": f"Report of {HOSTILE}",
                "summary": self.summary(None),
                "population": self.population(),
                "generator": {**self.generator(), "findings": generator_findings(self.generator())},
                "status": self.status(),
            }
        )

    def offload(self, function: Callable[[], T]) -> T:
        return function()
