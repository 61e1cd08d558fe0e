"""Watch over this process's health: rows of :class:`HealthLog`, and the causes of its lateness."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from typing import TypeVar

import gevent
import numpy as np
import psutil
from locust.runners import MasterRunner, Runner

from locust_realism.recording.diagnosis import Causes, longest, summed
from locust_realism.recording.health import MASTER, HealthLog
from locust_realism.runtime.capture.busy_processes import BusyProcesses, Uses
from locust_realism.runtime.capture.kernel_figures import FIGURES, KernelFigures, share_of
from locust_realism.runtime.capture.watchdog import Beats, Heartbeat
from locust_realism.runtime.coordination.clock import Clock
from locust_realism.runtime.users.alarm import grain, take_lateness

T = TypeVar("T")

logger = logging.getLogger(__name__)

PERIOD_S = 1.0

TURN_S = 0.001
"""A timer of any length ends in a later turn of the event loop."""

MAX_ROWS = 3600
"""Rows that are kept where nobody takes them, an hour."""

REFUSALS = (psutil.Error, OSError, ValueError, LookupError, RuntimeError)
"""Errors of a figure that the system refuses, or gives in another form than psutil expects."""


class HealthWatch:
    """Rows of :class:`HealthLog`, one a second, and the :class:`Causes` beside them; made in the event loop's thread.

    ``benchmarks/watchdog.py`` measures its cost: that of a greenlet that sleeps 10 ms again and again.
    """

    def __init__(self, runner: Runner, clock: Clock) -> None:
        self._runner = runner
        self._clock = clock
        self._kernel = KernelFigures()
        self._heartbeat = Heartbeat()
        self._processes = BusyProcesses()
        self._rows: list[tuple[float, ...]] = []
        self._beats: list[Beats] = []
        self._looks: list[Uses] = []
        self._looking = False
        self._failed: set[str] = set()
        self._greenlet = gevent.spawn(self._watch)

    def take(self) -> HealthLog:
        """Return the rows since the last call."""
        rows, self._rows = self._rows, []
        return HealthLog.of(rows)

    def take_causes(self) -> Causes:
        """Return the causes of the same time."""
        beats, self._beats = self._beats, []
        looks, self._looks = self._looks, []
        axis = self._clock.axis_us
        return {
            "beats": sum(len(each.lags) for each in beats),
            "blocked": sum(each.blocked for each in beats),
            "sampled": sum(each.sampled for each in beats),
            "places": summed(each.places for each in beats),
            "looks": len(looks),
            "own": sum(look.own for look in looks),
            "others": summed(look.others for look in looks),
            "pauses": longest((axis(at), length) for each in beats for at, length in each.pauses),
        }

    def close(self) -> None:
        """Stop watching."""
        self._greenlet.kill()
        self._heartbeat.close()
        self._kernel.close()

    def _watch(self) -> None:
        worker = MASTER if isinstance(self._runner, MasterRunner) else 0
        began, cpu_s, memory = time.perf_counter(), time.process_time(), 0
        while True:
            # A heartbeat that is due as well belongs to this row. After a block this timer runs before it: it runs in
            # this turn of the loop or, where the block was in this turn, in the next, which two short sleeps await.
            for wait_s in (PERIOD_S, TURN_S, TURN_S):
                gevent.sleep(wait_s)
            beats = self._heartbeat.take()
            kernel = self._or("the kernel's figures", self._kernel.take, dict.fromkeys(FIGURES, math.nan))
            memory = self._or("memory", lambda: psutil.Process().memory_info().rss, memory)
            now, used_s = time.perf_counter(), time.process_time()
            seconds, cpu = now - began, (used_s - cpu_s) / (now - began)
            began, cpu_s = now, used_s
            late_us = np.array(beats.lags or [0.0]) * 1e6
            lags = [round(float(np.quantile(late_us, q, method="inverted_cdf"))) for q in (1, 0.99)]
            explained_s = seconds * sum(np.nan_to_num([kernel["throttled"], kernel["steal"]]))
            figures = {
                **kernel,
                "time_us": self._clock.now_us(),
                "worker": worker,
                "users": len(self._runner.user_greenlets),
                "memory_bytes": memory,
                "lag_max_us": lags[0],
                "lag_p99_us": lags[1],
                "cpu": cpu,
                "blocked": beats.blocked / max(1, len(beats.lags)),
                "stopped": share_of(beats.still_s - explained_s, seconds),
                **dict(zip(("wake_p50_us", "wake_p90_us"), take_lateness(), strict=True)),
                "grain_us": 1e6 * grain(),
            }
            self._rows.append(tuple(float(figures[name]) for name in HealthLog.DTYPES))
            self._beats.append(beats)
            for kept in (self._rows, self._beats, self._looks):
                del kept[:-MAX_ROWS]
            if self._processes.due(kernel["machine_cpu"]) and not self._looking:
                self._looking = True
                gevent.spawn(self._look)

    def _look(self) -> None:
        def look() -> Uses | Exception | None:
            try:
                return self._processes.look()
            except REFUSALS as error:  # gevent would print it
                return error

        found = gevent.get_hub().threadpool.apply(look)
        self._looking = False
        if isinstance(found, Exception):
            self._warn("other processes", found)
        elif found is not None:
            self._looks.append(found)

    def _or(self, figure: str, measure: Callable[[], T], otherwise: T) -> T:
        """Return a figure, or ``otherwise`` if the system refuses it."""
        try:
            return measure()
        except REFUSALS as error:
            self._warn(figure, error)
            return otherwise

    def _warn(self, figure: str, error: Exception) -> None:
        """Log the first refusal of a figure."""
        if figure not in self._failed:
            self._failed.add(figure)
            logger.warning("locust_realism: no measurement of %s; the test goes on.", figure, exc_info=error)
