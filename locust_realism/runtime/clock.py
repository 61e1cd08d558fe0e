"""One monotonic time axis for a process, anchored to the epoch once.

Wall time can be set while a test runs (by hand, by NTP, by a virtual machine that resumes); response times are measured
with a monotonic clock. Launch times that mix the two show requests that overlap or gaps that never were. Here the
epoch of the monotonic clock is read once, when a test process starts; a later step of the wall clock is noticed,
reported, and taken out of the launch times that clients give in wall time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

STEP_S = 1e-3
"""Least change of the wall clock against the monotonic one, in seconds, that counts as a step: one second of NTP's
fastest slewing (500 ppm) stays below it."""

IMPLAUSIBLE_S = 86_400.0
"""A start time further than this from the end of its own request is not wall time at all."""


class WallClockStep(NamedTuple):
    """The wall clock was set: when (microseconds on the axis, at which it was noticed) and by how many seconds."""

    noticed_us: int
    seconds: float


class Clock:
    """Microseconds since the epoch on one monotonic axis.

    ``wall`` and ``mono`` are the two clocks in seconds (for tests); the axis is ``mono + anchor`` with the anchor read
    when the object is made.

    >>> readings = iter([1000.0, 1000.5])
    >>> clock = Clock(wall=lambda: 1e9, mono=lambda: 1000.0)
    >>> clock.axis_us(1000.25)
    1000000000250000
    """

    def __init__(self, wall: Callable[[], float] = time.time, mono: Callable[[], float] = time.perf_counter) -> None:
        self._wall = wall
        self._mono = mono
        self.anchor = self._difference()
        self.steps: list[WallClockStep] = []
        self._offsets = [0.0]  # what the wall clock was ahead of the axis by, oldest first

    def _difference(self) -> float:
        """Wall minus monotonic time, from the tightest of a few paired readings: a pause between the two would lie."""
        best, width = 0.0, float("inf")
        for _ in range(5):
            before = self._mono()
            wall = self._wall()
            after = self._mono()
            if after - before < width:
                best, width = wall - (before + after) / 2, after - before
        return best

    def now_us(self) -> int:
        """The present instant on the axis, microseconds."""
        return self.axis_us(self._mono())

    def axis_us(self, mono: float) -> int:
        """An instant of the monotonic clock (seconds, as ``time.perf_counter()``) on the axis, microseconds."""
        return round((mono + self.anchor) * 1e6)

    def check(self) -> WallClockStep | None:
        """Compare the two clocks; call it about once a second. Returns the step when the wall clock was set."""
        offset = self._difference() - self.anchor
        change = offset - self._offsets[-1]
        if abs(change) < STEP_S:
            return None
        self._offsets.append(offset)
        del self._offsets[:-8]
        step = WallClockStep(self.now_us(), change)
        self.steps.append(step)
        return step

    def launches(
        self, start: NDArray[np.float64], ended: NDArray[np.float64], response: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Launch times on the axis (seconds since the epoch), and which of the given start times were not usable.

        - ``start`` wall time at the launch, or NaN where the client gave none, shape (n,)
        - ``ended`` monotonic time at which the request was reported, shape (n,)
        - ``response`` response time in seconds, NaN where unknown, shape (n,)

        Without a start time the launch is the report less the response time. With one, the wall clock's offset at the
        launch is, among those that were in force, the one that puts the end of the request least far before its report.
        """
        end = ended + self.anchor
        took = np.where(np.isfinite(response), response, 0.0)
        fallback = end - took
        offsets = np.array(self._offsets[::-1])
        with np.errstate(invalid="ignore"):
            # The request cannot have ended after its report; a report may come late (catch_response), so of several
            # offsets the smallest delay that is not negative is the true one. 1 ms allows for rounding.
            delay = fallback[:, None] - (start[:, None] - offsets[None, :])
            cost = np.where(delay >= -1e-3, np.abs(delay), np.inf)
            best = np.argmin(cost, axis=1) if len(offsets) > 1 else np.zeros(len(start), dtype=np.intp)
            launch = start - offsets[best]
            bad = np.isfinite(start) & (np.abs(launch - fallback) > IMPLAUSIBLE_S) | np.isinf(start)
        usable = np.isfinite(start) & ~bad
        return np.where(usable, launch, fallback), bad
