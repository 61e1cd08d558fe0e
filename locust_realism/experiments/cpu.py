"""CPU time of the processes of a run: the load generator's on one side, the server's on the other."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

import numpy as np
import psutil

PERIOD_S = 0.25
SIDES = ("generator", "server")


@dataclass
class CpuMeter:
    """Samples the CPU time of a Locust and of a local server until it is stopped; use it as a context manager.

    ``root`` is the process under which Locust runs. Locust's forked workers share its command line, whatever else it
    has started is a server: an embedded target. ``server`` is the process under which a server of the plan's runs.
    Time of processes that ended stays counted, up to the last sample before their end.
    """

    root: int
    server: int | None = None
    _samples: list[tuple[float, float, float]] = field(default_factory=list)
    _machine: list[tuple[float, float]] = field(default_factory=list)
    _spent: dict[tuple[int, float], tuple[int, float]] = field(default_factory=dict)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    has_server: bool = False

    def __enter__(self) -> CpuMeter:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        assert self._thread is not None
        self._thread.join()

    def shares(self, start: float, end: float) -> dict[str, float | None]:
        """Mean cores used between two times (epoch, seconds): ``generator``, ``server``, ``machine`` (share of all).

        None where there are no samples on both sides of the times, or no local server.
        """
        found: dict[str, float | None] = dict.fromkeys((*SIDES, "machine"))
        if len(self._samples) < 2 or end <= start:
            return found
        times = np.array([sample[0] for sample in self._samples])
        if start < times[0] - 2 * PERIOD_S or end > times[-1] + 2 * PERIOD_S:
            return found
        for side, name in enumerate(SIDES):
            spent = np.array([sample[1 + side] for sample in self._samples])
            low, high = np.interp([start, end], times, spent)
            found[name] = float(high - low) / (end - start)
        if not self.has_server:
            found["server"] = None
        busy = np.array(self._machine)
        low, high = np.interp([start, end], times, busy[:, 0])
        low_all, high_all = np.interp([start, end], times, busy[:, 1])
        if high_all > low_all:
            found["machine"] = float((high - low) / (high_all - low_all))
        return found

    def _run(self) -> None:
        while True:
            self._sample()
            if self._stop.wait(PERIOD_S):
                self._sample()
                return

    def _sample(self) -> None:
        for side, process in self._processes():
            try:
                with process.oneshot():
                    used = process.cpu_times()
                    self._spent[(process.pid, process.create_time())] = (side, used.user + used.system)
            except psutil.Error:
                continue
        totals = [sum(spent for of, spent in self._spent.values() if of == side) for side in range(len(SIDES))]
        machine = psutil.cpu_times()
        every = sum(machine[:8])  # guest times are part of the user's
        idle = machine.idle + getattr(machine, "iowait", 0.0)
        self._samples.append((time.time(), totals[0], totals[1]))
        self._machine.append((every - idle, every))

    def _processes(self) -> list[tuple[int, psutil.Process]]:
        found: list[tuple[int, psutil.Process]] = []
        for pid, is_server in ((self.root, False), (self.server, True)):
            if pid is None:
                continue
            try:
                tree = psutil.Process(pid).children(recursive=True)
            except psutil.Error:
                continue
            if is_server:
                found += [(1, process) for process in tree]
                self.has_server = True
            elif tree:
                found += self._split(tree)
        return found

    def _split(self, tree: list[psutil.Process]) -> list[tuple[int, psutil.Process]]:
        """Locust and its workers, and what they have started."""
        found, servers = [], set()
        try:
            mine = tree[0].cmdline()
        except psutil.Error:
            return []
        for process in tree:
            try:
                is_server = process.ppid() in servers or process.cmdline() != mine
            except psutil.Error:
                continue
            if is_server:
                servers.add(process.pid)
                self.has_server = True
            found.append((int(is_server), process))
        return found
