"""Document of the Generator tab: health of the load generator, process by process, and of a target on this machine."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Literal
from urllib.parse import urlsplit

import numpy as np
import psutil
from locust.env import Environment
from locust.runners import MasterRunner, Runner
from numpy.typing import NDArray

from locust_realism.analysis.charts import bin_width_s
from locust_realism.analysis.document import (
    HEALTH_SHARES,
    GeneratorCurve,
    GeneratorDocument,
    GeneratorRow,
    GeneratorSeries,
    HealthShare,
    TargetUse,
)
from locust_realism.recording.health import MASTER, HealthLog
from locust_realism.recording.launches import MISSING, LaunchLog
from locust_realism.recording.offsets import ClockLine
from locust_realism.runtime.capture.accounting import Source
from locust_realism.runtime.capture.run import Recording
from locust_realism.runtime.figures.live import LiveFigures

RECENT_US = 30_000_000
"""Age of the health rows in the table: the last 30 s of each process."""
MEASURED: tuple[HealthShare | Literal["machine_cpu", "wake_p90_ms"], ...] = (
    "machine_cpu", *HEALTH_SHARES, "wake_p90_ms",
)  # fmt: skip
"""Figures of a row that a system may lack."""
LOOPBACK = ("127.0.0.1", "localhost", "::1")

Names = Mapping[int, tuple[str, str]]
"""Name and state of each process by its index in the logs."""


class GeneratorView:
    """Source of the Generator tab's document, computed off the event loop at most every two seconds."""

    def __init__(self, environment: Environment, recording: Recording) -> None:
        self._environment = environment
        self._recording = recording
        self._target = LocalTarget()
        self._names: Names = {}
        self._host = ""
        self._figures = LiveFigures(self._compute)

    def clear(self, **_: object) -> None:
        """Reset for a new run (listener of ``test_start``)."""
        self._figures.clear()

    def document(self) -> GeneratorDocument:
        """Return the newest document."""
        self._host, self._names = self._environment.host or "", process_names(self._environment.runner)
        answer = self._figures.get("generator")
        return {"workers": [], "target": None} if answer is None else {**answer.document, "age_s": answer.age_s}

    def _compute(self, _: str) -> GeneratorDocument:
        launches, sources, side = self._recording.launches(), self._recording.sources(), self._recording.side
        document = health_document(side.health(), launches, self._names, side.clock_lines(), sources)
        document["target"] = self._target.document(self._host)
        return document


def process_names(runner: Runner | None) -> Names:
    """Return the name and state of each process of a test by its index in the logs."""
    if not isinstance(runner, MasterRunner):
        return {0: ("local", str(getattr(runner, "state", "")))}
    names = {MASTER: ("master", str(runner.state))}
    for client_id, index in dict(runner.worker_indexes).items():
        client = runner.clients.get(client_id)
        names[int(index)] = (client_id, str(client.state) if client else "gone")
    return names


def health_document(
    health: HealthLog,
    log: LaunchLog,
    names: Names,
    clocks: Mapping[int, ClockLine] = {},
    reported: Mapping[str, Source] = {},
) -> GeneratorDocument:
    """Return the rows of all processes and their curves; ``clocks`` are by index.

    ``reported`` has the counts that each process reports, by name: a long run's ``log`` holds its newest launches only.
    CPU, lag and shares cover a process's last ``RECENT_US``, in the measures of :meth:`HealthLog.worst`; CPU is the
    mean. Figures that its system does not measure are left out. Lateness covers all its planned launches.

    >>> health = HealthLog.of([(1_000_000, 0, 3, 1 << 20, 900, 800, 0.25, 0.5)])
    >>> document = health_document(health, LaunchLog.empty(), {0: ("local", "running")})
    >>> document["workers"][0]["cpu"], document["workers"][0]["lag_p99_ms"]
    (0.25, 0.8)
    """
    rows: dict[int, GeneratorRow] = {}
    for index in sorted(np.union1d(health.worker, log.worker).tolist(), key=lambda index: (index == MASTER, index)):
        row = rows[index] = _row(index, names, health.take(health.worker == index), log)
        if (line := clocks.get(index)) is not None and not line.shared and math.isfinite(line.sd_us):
            row["clock_offset_ms"], row["clock_uncertainty_ms"] = line.offset_us / 1e3, line.sd_us / 1e3
        if (source := reported.get(row["id"])) is not None:
            row["rows"], row["lost"] = source.recorded, source.dropped + source.missed
    series = _series(health, log, {index: row["id"] for index, row in rows.items()})
    return {"workers": list(rows.values()), "target": None, "series": series}


def _row(index: int, names: Names, health: HealthLog, log: LaunchLog) -> GeneratorRow:
    """Return the row of one process from its own health and the launches of all."""
    name, state = names.get(index, (f"worker {index}", "gone"))
    worker, own = index != MASTER, log.worker == index
    row: GeneratorRow = {"id": name, "state": state, "role": "worker" if worker else "master", "rows": None}
    if worker:
        row["rows"] = int(own.sum())
    planned: NDArray[np.bool_] = own & (log.planned_us != MISSING)
    if planned.any():
        late = (log.launch_us[planned] - log.planned_us[planned]) / 1e3
        found = np.quantile(late, (0.5, 0.95, 0.99), method="inverted_cdf").tolist()
        row["lateness_p50_ms"], row["lateness_p95_ms"], row["lateness_p99_ms"] = found
    if len(health):
        recent = health.take(health.time_us > int(health.time_us.max()) - RECENT_US)
        last = int(np.argmax(recent.time_us))
        row["users"] = int(recent.users[last]) if worker else None
        row["memory_bytes"] = int(recent.memory_bytes[last])
        # The verdict's measure of one process: the master counts as a worker here.
        figures = replace(recent, worker=np.zeros_like(recent.worker)).worst()
        row["cpu"], row["lag_p99_ms"] = figures["generator_cpu"], figures["loop_lag_p99_ms"]
        for figure in MEASURED:
            if figure in figures:
                row[figure] = figures[figure]
    return row


def _series(health: HealthLog, log: LaunchLog, names: Mapping[int, str]) -> GeneratorSeries:
    """Return the mean CPU and the highest p99 lag of each process in equal bins of the run."""
    if not len(health):
        return {"t_s": [], "workers": []}
    seconds = (health.time_us - log.launch_us.min(initial=int(health.time_us.min()))) / 1e6
    # Rows come a little more than a second apart: with bins of one second some would be empty.
    width = max(2, bin_width_s(float(seconds.max())))
    bins = (seconds // width).astype(np.int64)
    count = int(bins.max()) + 1
    curves: list[GeneratorCurve] = []
    for index, name in names.items():
        own = health.worker == index
        n = np.bincount(bins[own], minlength=count)
        cpu = np.bincount(bins[own], weights=health.cpu[own], minlength=count) / np.maximum(n, 1)
        lag = np.zeros(count)
        np.maximum.at(lag, bins[own], health.lag_p99_us[own] / 1e3)
        cpu, lag = (np.ma.masked_where(n == 0, curve).tolist() for curve in (cpu, lag))
        curves.append({"id": name, "cpu": cpu, "lag_p99_ms": lag})
    return {"t_s": ((np.arange(count) + 0.5) * width).tolist(), "workers": curves}


class LocalTarget:
    """Use of this machine by the system under test, where it listens here and its processes are accessible."""

    def __init__(self) -> None:
        self._host = ""
        self._processes: list[psutil.Process] = []
        self._before: tuple[float, dict[str, float]] = (0.0, {})

    def document(self, host: str) -> TargetUse | None:
        """Return the use since the last call; None at the first call for a host, and for a target elsewhere."""
        try:
            if host == self._host:
                return self._use() if self._processes else None
            self._host, self._processes = host, listening_processes(host)
            if self._processes:
                self._use()
        except (psutil.Error, OSError, ValueError):
            self._processes = []
        return None

    def _use(self) -> TargetUse:
        """Return the use since the last measurement."""
        now, counters = time.perf_counter(), disk_counters(self._processes)
        (then, before), self._before = self._before, (now, counters)
        rates = {name: max(0.0, (counters[name] - before[name]) / (now - then)) for name in counters if name in before}
        cpu = sum(process.cpu_percent() for process in self._processes) / 100
        use: TargetUse = {"cpu": cpu, "name": self._processes[0].name()}
        if "read_bytes_s" in rates:
            use["read_bytes_s"], use["write_bytes_s"] = rates["read_bytes_s"], rates["write_bytes_s"]
        if busy := [min(1.0, rate) for name, rate in rates.items() if name.startswith("busy ")]:
            use["disk_busy"] = max(busy)
        return use


def disk_counters(processes: list[psutil.Process]) -> dict[str, float]:
    """Return the bytes that processes have read and written and the busy seconds of each disk, where accessible."""
    found: dict[str, float] = {}
    with suppress(AttributeError, psutil.Error, OSError):  # not on this system, or another user's process
        counters = [process.io_counters() for process in processes]
        found["write_bytes_s"] = float(sum(c.write_bytes for c in counters))
        found["read_bytes_s"] = float(sum(c.read_bytes for c in counters))
    for name, disk in (psutil.disk_io_counters(perdisk=True) or {}).items():
        if hasattr(disk, "busy_time"):
            found[f"busy {name}"] = disk.busy_time / 1e3
    return found


def listening_processes(host: str) -> list[psutil.Process]:
    """Return the processes that listen on the port of a URL of this machine; empty where it is another one's."""
    parts = urlsplit(host)
    if parts.hostname not in LOOPBACK:
        return []
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme, 0)
    listening = [c for c in psutil.net_connections(kind="tcp") if c.status == psutil.CONN_LISTEN]
    pids = {c.pid for c in listening if c.laddr and c.laddr.port == port and c.pid}
    return [psutil.Process(pid) for pid in sorted(pids)]
