"""The document of the Generator tab: whether the load generator was up to its work, worker by worker."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import psutil
from locust.runners import MasterRunner
from numpy.typing import NDArray

from locust_realism.analysis.charts import bin_width_s
from locust_realism.recording.health import MASTER, HealthLog
from locust_realism.recording.launches import MISSING, LaunchLog
from locust_realism.recording.offsets import ClockLine
from locust_realism.runtime.completeness import Source, sources
from locust_realism.runtime.live import LiveFigures

logger = logging.getLogger(__name__)

Document = dict[str, Any]

RECENT_US = 30_000_000
"""What the table calls the present: the last 30 s of each process."""
LOOPBACK = ("127.0.0.1", "localhost", "::1")


class GeneratorView:
    """Answers ``document()`` from a recording: computed off the event loop, at most every two seconds."""

    def __init__(self, environment: Any, recording: Any) -> None:
        self._environment = environment
        self._recording = recording
        self._target = LocalTarget()
        self._names: dict[int, tuple[str, str]] = {}
        self._host = ""
        self._figures = LiveFigures(self._compute)

    def clear(self) -> None:
        """A new run: forget the figures of the last one."""
        self._figures.clear()

    def document(self) -> Document:
        """See :meth:`locust_realism.web.provider.Provider.generator`."""
        runner = self._environment.runner
        self._host = self._environment.host or ""
        self._names = process_names(runner)
        answer = self._figures.get("generator")
        return {"workers": [], "target": None, **answer, "state": str(runner.state) if runner else "ready"}

    def _compute(self, _: str) -> Document:
        log: LaunchLog = self._recording.launches()
        lines = {} if self._recording.side is None else self._recording.side.clock_lines()
        told = sources(self._recording)
        document = health_document(self._recording.health(), log, self._names, lines, told)
        return document | {"target": self._target.document(self._host)}


def process_names(runner: Any) -> dict[int, tuple[str, str]]:
    """Index of each process of a test, as the logs have it, to its name and state."""
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
    names: dict[int, tuple[str, str]],
    clocks: Mapping[int, ClockLine] | None = None,
    told: Mapping[str, Source] | None = None,
) -> Document:
    """Rows of all processes and their curves; ``names`` maps an index to name and state, ``clocks`` to its clock.

    ``told`` has by name what each process says that it recorded: a long run's ``log`` has its newest launches only.

    CPU and lag are those of the process's last ``RECENT_US``: mean CPU, the 99th percentile of the seconds' p99 lag.
    Lateness is of all its launches that were planned.

    >>> health = HealthLog.of([(1_000_000, 0, 3, 1 << 20, 900, 800, 0.25, 0.5)])
    >>> document = health_document(health, LaunchLog.empty(), {0: ("local", "running")})
    >>> document["workers"][0]["cpu"], document["workers"][0]["lag_p99_ms"]
    (0.25, 0.8)
    """
    indexes = sorted(set(health.worker.tolist()) | set(np.unique(log.worker).tolist()), key=lambda i: (i == MASTER, i))
    lines, sources_by_name = clocks or {}, told or {}
    workers = []
    for index in indexes:
        row = _row(index, health.take(health.worker == index), log, names) | _clock(lines.get(index))
        workers.append(row | _recorded(sources_by_name.get(row["id"])))
    return {"workers": workers, "series": _series(health, indexes, log, names)}


def _name(index: int, names: dict[int, tuple[str, str]]) -> tuple[str, str]:
    return names.get(index, (f"worker {index}", "gone"))


def _row(index: int, health: HealthLog, log: LaunchLog, names: dict[int, tuple[str, str]]) -> Document:
    name, state = _name(index, names)
    mine = log.worker == index
    row: Document = {"id": name, "state": state, "role": "master" if index == MASTER else "worker"}
    row |= {"rows": int(mine.sum()) if index != MASTER else None} | _lateness(log, mine)
    if not len(health):
        return row
    recent = health.take(health.time_us > int(health.time_us.max()) - RECENT_US)
    last = int(np.argmax(recent.time_us))
    return row | {
        "users": int(recent.users[last]) if index != MASTER else None,
        "cpu": float(recent.cpu.mean()),
        "machine_cpu": float(recent.machine_cpu.mean()),
        "memory_bytes": int(recent.memory_bytes[last]),
        "lag_p99_ms": float(np.quantile(recent.lag_p99_us, 0.99, method="inverted_cdf")) / 1e3,
    }


def _recorded(source: Source | None) -> dict[str, int]:
    return {} if source is None else {"rows": source.recorded, "lost": source.dropped + source.missed}


def _clock(line: ClockLine | None) -> dict[str, float]:
    """What a worker's clock is off the master's by and how well that is known; nothing where both read one clock."""
    if line is None or line.shared or not math.isfinite(line.sd_us):
        return {}
    return {"clock_offset_ms": line.offset_us / 1e3, "clock_uncertainty_ms": line.sd_us / 1e3}


def _lateness(log: LaunchLog, mine: NDArray[np.bool_]) -> dict[str, float]:
    planned = mine & (log.planned_us != MISSING)
    if not planned.any():
        return {}
    late = (log.launch_us[planned] - log.planned_us[planned]) / 1e3
    found = np.quantile(late, (0.5, 0.95, 0.99), method="inverted_cdf")
    return dict(zip(("lateness_p50_ms", "lateness_p95_ms", "lateness_p99_ms"), found.tolist(), strict=True))


def _series(health: HealthLog, indexes: list[int], log: LaunchLog, names: dict[int, tuple[str, str]]) -> Document:
    """Mean CPU and highest p99 lag of each process in equal bins of the run."""
    if not len(health):
        return {"t_s": [], "workers": []}
    origin = int(min(health.time_us.min(), log.launch_us.min() if len(log) else health.time_us.min()))
    seconds = (health.time_us - origin) / 1e6
    # Rows come a little more than a second apart: with bins of one second some would be empty.
    width = max(2, bin_width_s(float(seconds.max())))
    bins = (seconds // width).astype(np.int64)
    count = int(bins.max()) + 1
    curves = []
    for index in indexes:
        mine = health.worker == index
        n = np.bincount(bins[mine], minlength=count)
        cpu = np.bincount(bins[mine], weights=health.cpu[mine], minlength=count)
        lag = np.full(count, -1.0)
        np.maximum.at(lag, bins[mine], health.lag_p99_us[mine] / 1e3)
        known = n > 0
        curves.append(
            {
                "id": _name(index, names)[0],
                "cpu": [
                    c / k if ok else None for c, k, ok in zip(cpu.tolist(), n.tolist(), known.tolist(), strict=True)
                ],
                "lag_p99_ms": [x if ok else None for x, ok in zip(lag.tolist(), known.tolist(), strict=True)],
            }
        )
    return {"t_s": ((np.arange(count) + 0.5) * width).tolist(), "workers": curves}


class LocalTarget:
    """What the system under test uses, when it listens on this machine and may be looked at; else nothing is said."""

    def __init__(self) -> None:
        self._host = ""
        self._processes: list[psutil.Process] = []
        self._before: tuple[float, dict[str, float]] = (0.0, {})

    def document(self, host: str) -> Document | None:
        """What was used since the last call; None where the target is not known.

        ``name``, ``cpu`` as a share of one core; ``read_bytes_s`` and ``write_bytes_s``, what its processes had from
        and gave to the disks, and ``disk_busy``, the share of the time in which the busiest disk of the machine was at
        work, where the system tells them.
        """
        try:
            if host != self._host:
                self._host, self._processes = host, listeners(host)
                for process in self._processes:
                    process.cpu_percent()
                self._before = time.perf_counter(), disk_counters(self._processes)
                return None
            if not self._processes:
                return None
            cpu = sum(process.cpu_percent() for process in self._processes) / 100
            return {"cpu": cpu, "name": self._processes[0].name()} | self._disk()
        except (psutil.Error, OSError, ValueError):
            self._processes = []
            return None

    def _disk(self) -> Document:
        now, counters = time.perf_counter(), disk_counters(self._processes)
        (then, before), self._before = self._before, (now, counters)
        rates = {name: (counters[name] - before[name]) / (now - then) for name in counters if name in before}
        busy = [max(0.0, min(1.0, rate)) for name, rate in rates.items() if name.startswith("busy ")]
        moved = {name: max(0.0, rates[name]) for name in ("read_bytes_s", "write_bytes_s") if name in rates}
        return moved | ({"disk_busy": max(busy)} if busy else {})


def disk_counters(processes: list[psutil.Process]) -> dict[str, float]:
    """Bytes that processes have read and written, and seconds in which each disk was busy, as far as they are told."""
    found: dict[str, float] = {}
    try:
        counters = [process.io_counters() for process in processes]
        found["read_bytes_s"] = float(sum(c.read_bytes for c in counters))
        found["write_bytes_s"] = float(sum(c.write_bytes for c in counters))
    except (AttributeError, psutil.Error, OSError):
        pass  # not on this system, or another user's process
    for name, disk in (psutil.disk_io_counters(perdisk=True) or {}).items():
        if hasattr(disk, "busy_time"):
            found[f"busy {name}"] = disk.busy_time / 1e3
    return found


def listeners(host: str) -> list[psutil.Process]:
    """The processes that listen on the port of a URL of this machine; empty where that cannot be found out."""
    parts = urlsplit(host)
    if parts.hostname not in LOOPBACK:
        return []
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme, 0)
    connections = psutil.net_connections(kind="tcp")
    found = {
        c.pid for c in connections if c.status == psutil.CONN_LISTEN and c.laddr and c.laddr.port == port and c.pid
    }
    return [psutil.Process(pid) for pid in sorted(found)]
