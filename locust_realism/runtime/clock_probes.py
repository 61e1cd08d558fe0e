"""Messages that measure what the workers' clocks are off the master's by; the maths is in ``recording/offsets.py``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gevent
from locust.runners import MasterRunner, WorkerRunner

from locust_realism.recording.offsets import PROBES, SHARED, ClockLine, OffsetEstimator, Probe
from locust_realism.runtime.clock import Clock

MESSAGE = "locust_realism_clock"

FIRST_S = 0.05
"""Seconds between the first probes, so that an estimate is there soon."""

LATER_S = 0.5
"""Seconds between probes after the first :data:`PROBES`."""


def machine_clock() -> str:
    """Names the clock that this process reads: the machine's boot, or empty where the system does not tell."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


class ClockProber:
    """The worker's side: asks the master for its time and estimates the offset from the answers."""

    def __init__(self, runner: WorkerRunner, clock: Clock) -> None:
        self._runner = runner
        self._clock = clock
        self._estimator = OffsetEstimator()
        self._master_clock = ""
        runner.register_message(MESSAGE, self._answered)
        self._greenlet = gevent.spawn(self._ask)

    def line(self) -> ClockLine:
        """The estimate so far; on the master's own machine the clocks are one."""
        return SHARED if self._master_clock and self._master_clock == machine_clock() else self._estimator.line()

    def close(self) -> None:
        """Ask no more."""
        self._greenlet.kill()

    def _ask(self) -> None:
        asked = 0
        while True:
            gevent.sleep(FIRST_S if asked < PROBES else LATER_S)
            if self.line().shared:
                continue
            try:
                self._runner.send_message(MESSAGE, {"t0": self._clock.now_us()})
            except Exception:  # noqa: BLE001 - the connection is being restored by Locust; a probe is not worth a word
                continue
            asked += 1

    def _answered(self, msg: Any, **_: Any) -> None:
        t3 = self._clock.now_us()
        self._master_clock = str(msg.data["clock"])
        self._estimator.add(Probe(int(msg.data["t0"]), int(msg.data["t1"]), int(msg.data["t2"]), t3))


def answer_probes(runner: MasterRunner, clock: Clock) -> None:
    """The master's side: answer each probe with the times at which it came and left."""
    identity = machine_clock()

    def answer(msg: Any, **_: Any) -> None:
        t1 = clock.now_us()
        data = {"t0": msg.data["t0"], "t1": t1, "clock": identity}
        runner.send_message(MESSAGE, {**data, "t2": clock.now_us()}, msg.node_id)

    runner.register_message(MESSAGE, answer)
