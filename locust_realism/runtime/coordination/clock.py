"""One monotonic time axis for each process, anchored to the epoch once, and its offset from the master's.

Wall time can be set while a test runs (by hand, by NTP, by a virtual machine that resumes); response times are measured
with a monotonic clock. Launch times that mix the two show requests that overlap, or gaps that never were. The epoch of
the monotonic clock is therefore read once, when a process starts. A later step of the wall clock is detected, reported,
and taken out of launch times that clients give in wall time.

A worker probes the master's clock by messages; ``recording/offsets.py`` has the maths.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import gevent
import numpy as np
from locust.env import Environment
from numpy.typing import NDArray

from locust_realism.recording.offsets import PROBES, SHARED, ClockLine, OffsetEstimator, Probe
from locust_realism.runtime.wire import PROBE, PROBED, ProbeAnswer, ProbeData, wire_of

STEP_S = 1e-3
"""Least change of the wall clock against the monotonic one, in seconds, that counts as a step: one second of NTP's
fastest slewing (500 ppm) stays below it."""

IMPLAUSIBLE_S = 86_400.0
"""Seconds; a start time further than this from the end of its own request is not wall time."""


class WallClockStep(NamedTuple):
    """A step of the wall clock: the time of detection on the axis, in microseconds, and the step in seconds."""

    noticed_us: int
    seconds: float


class Clock:
    """Microseconds since the epoch on one monotonic axis.

    ``wall`` and ``mono`` are the two clocks in seconds (for tests); the axis is ``mono + anchor``, and the anchor is
    read in the constructor.

    >>> clock = Clock(wall=lambda: 1e9, mono=lambda: 1000.0)
    >>> clock.axis_us(1000.25)
    1000000000250000
    """

    def __init__(self, wall: Callable[[], float] = time.time, mono: Callable[[], float] = time.perf_counter) -> None:
        self._wall = wall
        self._mono = mono
        self.anchor = self._difference()
        self.steps: list[WallClockStep] = []
        self._offsets = [0.0]  # of the wall clock from the axis, oldest first

    def _difference(self) -> float:
        """Return wall minus monotonic time, from the tightest of a few paired readings: a pause would falsify one."""
        readings = [(self._mono(), self._wall(), self._mono()) for _ in range(5)]
        before, wall, after = min(readings, key=lambda reading: reading[2] - reading[0])
        return wall - (before + after) / 2

    def now_us(self) -> int:
        """Return the present instant on the axis, microseconds."""
        return self.axis_us(self._mono())

    def axis_us(self, mono: float) -> int:
        """Return an instant of the monotonic clock (``time.perf_counter()``, seconds) on the axis, microseconds."""
        return round((mono + self.anchor) * 1e6)

    def check(self) -> WallClockStep | None:
        """Compare the two clocks, about once a second; return the step if the wall clock was set."""
        offset = self._difference() - self.anchor
        change = offset - self._offsets[-1]
        if abs(change) < STEP_S:
            return None
        self._offsets = [*self._offsets[-7:], offset]
        self.steps.append(WallClockStep(self.now_us(), change))
        return self.steps[-1]

    def launches(
        self, start: NDArray[np.float64], ended: NDArray[np.float64], response: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Return launch times on the axis (seconds since the epoch) and a mask of the unusable start times.

        - ``start`` wall time of the launch, or NaN where the client gave none, shape (n,)
        - ``ended`` monotonic time of the request's report, shape (n,)
        - ``response`` response time in seconds, NaN where unknown, shape (n,)

        Without a start time the launch is the report less the response time. With one, it is corrected by the offset of
        the wall clock that puts the end of the request least far before its report.
        """
        fallback = ended + self.anchor - np.where(np.isfinite(response), response, 0.0)
        offsets = np.array(self._offsets[::-1])
        with np.errstate(invalid="ignore"):
            # The request cannot have ended after its report; a report may come late (catch_response), so of several
            # offsets the smallest delay that is not negative is the true one. 1 ms allows for rounding.
            delay = fallback[:, None] - (start[:, None] - offsets[None, :])
            cost = np.where(delay >= -1e-3, np.abs(delay), np.inf)
            launch = start - offsets[np.argmin(cost, axis=1)]
            bad = np.isfinite(start) & (np.abs(launch - fallback) > IMPLAUSIBLE_S) | np.isinf(start)
        return np.where(np.isfinite(start) & ~bad, launch, fallback), bad


FIRST_S = 0.05
"""Seconds between the first :data:`PROBES` probes: they give a first estimate soon."""

LATER_S = 0.5
"""Seconds between later probes."""


def machine_clock() -> str:
    """Return the identity of this process's clock, the machine's boot id; empty where the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


class ClockProber:
    """Worker's side: probes the master's clock and estimates the offset from the answers."""

    def __init__(self, environment: Environment, clock: Clock) -> None:
        self._wire = wire_of(environment)
        self._clock = clock
        self._estimator = OffsetEstimator()
        self._master_clock = ""
        self._wire.on_message(PROBED, self._answered)
        self._greenlet = gevent.spawn(self._probe)

    def line(self) -> ClockLine:
        """Return the estimate so far; on the master's own machine both processes read one clock."""
        return SHARED if self._master_clock and self._master_clock == machine_clock() else self._estimator.line()

    def close(self) -> None:
        """Stop probing."""
        self._greenlet.kill()

    def _probe(self) -> None:
        sent = 0
        while True:
            gevent.sleep(FIRST_S if sent < PROBES else LATER_S)
            if self.line().shared:
                continue
            with suppress(Exception):  # Locust is restoring the connection; a lost probe is no loss
                self._wire.send(PROBE, ProbeData(t0=self._clock.now_us()))
                sent += 1

    def _answered(self, sender: str, data: ProbeAnswer) -> None:
        t3 = self._clock.now_us()
        self._master_clock = data["clock"]
        self._estimator.add(Probe(data["t0"], data["t1"], data["t2"], t3))


def answer_probes(environment: Environment, clock: Clock) -> None:
    """Answer each probe with the times of its arrival and of the answer's departure (master's side)."""
    wire, identity = wire_of(environment), machine_clock()

    def answer(sender: str, data: ProbeData) -> None:
        t1 = clock.now_us()
        wire.send(PROBED, ProbeAnswer(t0=data["t0"], t1=t1, clock=identity, t2=clock.now_us()), sender)

    wire.on_message(PROBE, answer)
