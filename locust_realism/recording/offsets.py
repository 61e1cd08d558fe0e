"""Offsets between the clocks of the workers and the master's, from exchanged messages.

A worker sends at t0 (its clock), the master receives at t1 and answers at t2 (the master's clock), the worker receives
at t3. The master's clock is then ahead of the worker's by theta = ((t1 - t0) + (t2 - t3)) / 2. The error is at most
half the travel time, ((t3 - t0) - (t2 - t1)) / 2, however unequal the two ways are (RFC 5905, section 8). A busy event
loop delays most messages, hardly ever all: the fastest of every 32 probes is kept. Clocks drift by some 30 microseconds
a second, so a line is fitted to the kept probes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from locust_realism.recording.launches import MISSING, Int32, Int64, LaunchLog
from locust_realism.recording.sessions import SessionLog

Rows = TypeVar("Rows", LaunchLog, SessionLog)

PROBES = 32
"""Probes of which the one with the least travel time is kept."""

KEPT = 240
"""Kept probes that the line is fitted to; older ones are dropped."""


@dataclass(frozen=True)
class Probe:
    """One exchange of messages, microseconds: ``t0`` and ``t3`` by the worker's clock, ``t1`` and ``t2`` the master's.

    >>> probe = Probe(t0=100, t1=1150, t2=1160, t3=210)
    >>> probe.offset_us, probe.error_us
    (1000.0, 50.0)
    """

    t0: int
    t1: int
    t2: int
    t3: int

    @property
    def offset_us(self) -> float:
        """Lead of the master's clock over the worker's."""
        return ((self.t1 - self.t0) + (self.t2 - self.t3)) / 2

    @property
    def error_us(self) -> float:
        """Bound of the offset's error."""
        return ((self.t3 - self.t0) - (self.t2 - self.t1)) / 2


@dataclass(frozen=True)
class ClockLine:
    """Lead of the master's clock over a worker's: at t by the worker's, ``offset_us`` + ``drift`` (t - ``at_us``).

    ``sd_us`` is the estimated standard deviation of the offset, ``probes`` the number of probes. ``shared``: both
    processes read the clock of one machine, and the offset is 0.
    """

    at_us: int = 0
    offset_us: float = 0.0
    drift: float = 0.0
    sd_us: float = float("inf")
    probes: int = 0
    shared: bool = False

    def offset_at(self, times_us: Int64) -> NDArray[np.float64]:
        """Return the offset at instants of the worker's clock, in microseconds, shape as given."""
        return np.asarray(self.offset_us + self.drift * (np.asarray(times_us) - self.at_us), dtype=np.float64)

    @property
    def matters(self) -> bool:
        """True if the clocks differ significantly: a correction below the uncertainty would only add noise."""
        return not self.shared and self.probes > 0 and abs(self.offset_us) > 2 * self.sd_us


def unpacked_line(data: Mapping[str, float]) -> ClockLine:
    """Return the line of a report or a file (``asdict``); KeyError, TypeError or ValueError if it is none."""
    offset, drift, sd = (float(data[name]) for name in ("offset_us", "drift", "sd_us"))
    return ClockLine(int(data["at_us"]), offset, drift, sd, int(data["probes"]), bool(data["shared"]))


SHARED = ClockLine(sd_us=0.0, shared=True)


class OffsetEstimator:
    """Estimate of a clock line from the best of each :data:`PROBES` probes.

    >>> estimator = OffsetEstimator()
    >>> for second in range(64):
    ...     estimator.add(Probe(second * 10**6, second * 10**6 + 5020, second * 10**6 + 5020, second * 10**6 + 40))
    >>> estimator.line().offset_us, estimator.line().probes
    (5000.0, 64)
    """

    def __init__(self) -> None:
        self._window: list[Probe] = []
        self._kept: list[Probe] = []
        self._count = 0

    def add(self, probe: Probe) -> None:
        """Add a probe, unless its times run backwards (a message of an earlier connection)."""
        if probe.t3 < probe.t0 or probe.t2 < probe.t1 or probe.error_us < 0:
            return
        self._count += 1
        self._window.append(probe)
        if len(self._window) >= PROBES:
            self._kept.append(min(self._window, key=lambda found: found.error_us))
            self._window.clear()
            del self._kept[:-KEPT]

    def line(self) -> ClockLine:
        """Return the line through the kept probes, weighted by 1/error²; one probe alone gives no drift."""
        points = self._kept or ([min(self._window, key=lambda p: p.error_us)] if self._window else [])
        if not points:
            return ClockLine()
        errors = np.maximum(np.array([point.error_us for point in points]), 1.0)
        offsets = np.array([point.offset_us for point in points])
        times = np.array([(point.t0 + point.t3) / 2 for point in points])
        weights = 1 / errors**2
        at = float(np.average(times, weights=weights))
        offset = float(np.average(offsets, weights=weights))
        apart = times - at
        spread = float(np.sum(weights * apart**2))
        # a drift from probes within a few seconds would be noise: a line needs at least four kept ones
        drift = float(np.sum(weights * apart * (offsets - offset)) / spread) if len(points) >= 4 and spread > 0 else 0.0
        residuals = offsets - offset - drift * apart
        # half the travel time bounds the error of any asymmetry; uniform within it, its deviation is error / sqrt(3)
        asymmetry = float(errors.min()) / 3**0.5
        scatter = float(np.sqrt(np.average(residuals**2, weights=weights))) if len(points) > 2 else 0.0
        return ClockLine(round(at), offset, drift, float(np.hypot(asymmetry, scatter)), self._count)


def on_master_clock(log: Rows, lines: Mapping[int, ClockLine]) -> Rows:
    """Return the log with each worker's times mapped to the master's clock, where the two are known to differ."""
    times = {
        name: getattr(log, name) for name in ("launch_us", "start_us", "end_us", "planned_us") if name in log.DTYPES
    }
    shift = shifts_us(next(iter(times.values())), log.worker, lines)
    if not shift.any():
        return log
    return replace(log, **{name: np.where(c == MISSING, c, c + shift) for name, c in times.items()})


def shifts_us(times_us: Int64, worker: Int32, lines: Mapping[int, ClockLine]) -> Int64:
    """Return the microseconds to add to times of the workers' clocks for those of the master's clock."""
    shift = np.zeros(len(worker), dtype=np.int64)
    for index, line in lines.items():
        if line.matters:
            mine = worker == index
            shift[mine] = np.rint(line.offset_at(times_us[mine]))
    return shift
