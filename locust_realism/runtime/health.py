"""The load generator watches itself: CPU, event-loop lag and memory once a second."""

from __future__ import annotations

import time
from typing import Any

import gevent
import numpy as np
import psutil

from locust_realism.recording.health import HealthLog
from locust_realism.runtime.clock import Clock

SLEEP_S = 0.01
"""How long the watching greenlet asks to sleep; what it oversleeps is the event loop's lag."""

PERIOD_S = 1.0


class HealthWatch:
    """Takes a row of :class:`HealthLog` once a second; ``take()`` hands out the rows since the last call.

    ``worker`` is the process's index as it is in the launch log. Costs about 0.2 % of a core.
    """

    def __init__(self, runner: Any, clock: Clock, worker: int) -> None:
        self.worker = worker
        self._runner = runner
        self._clock = clock
        self._process = psutil.Process()
        self._rows: list[tuple[float, ...]] = []
        self._greenlet = gevent.spawn(self._watch)

    def take(self) -> HealthLog:
        """The rows since the last call."""
        rows, self._rows = self._rows, []
        return HealthLog.of(rows)

    def close(self) -> None:
        """Stop watching."""
        self._greenlet.kill()

    def _watch(self) -> None:
        self._process.cpu_percent()
        psutil.cpu_percent()
        began, lags = time.perf_counter(), []
        while True:
            before = time.perf_counter()
            gevent.sleep(SLEEP_S)
            now = time.perf_counter()
            lags.append(now - before - SLEEP_S)
            if now - began >= PERIOD_S:
                self._rows.append(self._row(lags))
                del self._rows[:-3600]  # an hour, should nobody take them
                began, lags = now, []

    def _row(self, lags: list[float]) -> tuple[float, ...]:
        late = np.maximum(np.array(lags), 0.0) * 1e6
        with self._process.oneshot():
            cpu, memory = self._process.cpu_percent() / 100, self._process.memory_info().rss
        return (
            self._clock.now_us(),
            self.worker,
            len(self._runner.user_greenlets),
            memory,
            round(float(late.max())),
            round(float(np.quantile(late, 0.99, method="inverted_cdf"))),
            cpu,
            psutil.cpu_percent() / 100,
        )
