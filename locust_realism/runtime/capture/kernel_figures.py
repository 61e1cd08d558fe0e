"""Figures by the kernel on the CPU time of this process: wait in the run queue, steal, throttling, pressure.

Sources: proc(5) for ``schedstat`` and ``stat``, Documentation/scheduler/sched-bwc.rst for a cgroup's ``cpu.stat``,
Documentation/accounting/psi.rst for the pressure. A system without one of them, or a container that hides it, has NaN.
"""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil

from locust_realism.runtime.locust_compat import native_thread_id

logger = logging.getLogger(__name__)

PROC = Path("/proc")
CGROUPS = Path("/sys/fs/cgroup")
MAX_FILE = 1 << 14
"""Bytes that are read of a file of the kernel."""


class Counter:
    """Seconds that a file of the kernel counts, ever growing; NaN where the file or the figure is missing.

    A file that has the figure stays open until :meth:`close`; a read costs 0.6 microseconds.
    """

    def __init__(self, parse: Callable[[str], float], path: Path) -> None:
        self._parse = parse
        try:
            self._file = os.open(path, os.O_RDONLY)
        except OSError:
            self._file = -1
        self.exists = not math.isnan(self.seconds())
        if not self.exists:
            self.close()

    def seconds(self) -> float:
        """Return the seconds counted so far."""
        if self._file < 0:
            return math.nan
        try:
            return self._parse(os.pread(self._file, MAX_FILE, 0).decode())
        except (OSError, ValueError, LookupError):
            return math.nan

    def close(self) -> None:
        """Close the file; the counter is NaN from now on."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def run_wait_seconds(text: str) -> float:
    """Return the time in the run queue of a ``schedstat`` file: its second figure, in nanoseconds.

    A kernel that does not count has three zeros, which a thread that has run cannot have: NaN.

    >>> run_wait_seconds("30807165 2322024 19"), run_wait_seconds("0 0 0")
    (0.002322024, nan)
    """
    figures = [int(figure) for figure in text.split()]
    return figures[1] / 1e9 if any(figures) else math.nan


def run_wait_counter(proc: Path = PROC, thread: int | None = None) -> Counter:
    """Return the counter of the time that a thread by the kernel's id, or the calling one, has waited for a CPU."""
    name = str(native_thread_id() if thread is None else thread)
    return Counter(run_wait_seconds, proc / "self" / "task" / name / "schedstat")


def pressure_seconds(text: str) -> float:
    """Return the time in which some task waited for a CPU, of a ``pressure`` file: its total, in microseconds.

    >>> pressure_seconds("some avg10=0.0 avg60=0.1 avg300=0.2 total=1500000\\nfull avg10=0.0 total=0")
    1.5
    """
    return int(text.split("total=")[1].split()[0]) / 1e6


def throttled_seconds(text: str) -> float:
    """Return the throttled time of a cgroup's ``cpu.stat``: microseconds in version 2, nanoseconds in version 1.

    >>> throttled_seconds("nr_throttled 3\\nthrottled_usec 2500000"), throttled_seconds("throttled_time 500000000")
    (2.5, 0.5)
    """
    figures = dict(line.split() for line in text.splitlines())
    if "throttled_usec" in figures:
        return int(figures["throttled_usec"]) / 1e6
    return int(figures["throttled_time"]) / 1e9


def cgroup_files(name: str, membership: str, root: Path = CGROUPS) -> Iterator[Path]:
    """Yield the files of a name in this process's CPU cgroup and in those above it, which may be limited too.

    ``membership`` is the text of ``/proc/self/cgroup``.

    >>> [str(path) for path in cgroup_files("cpu.stat", "0::/user/me")]
    ['/sys/fs/cgroup/user/me/cpu.stat', '/sys/fs/cgroup/user/cpu.stat', '/sys/fs/cgroup/cpu.stat']
    >>> next(cgroup_files("cpu.stat", "4:memory:/\\n1:cpu,cpuacct:/job\\n0::/")).as_posix()
    '/sys/fs/cgroup/cpu,cpuacct/job/cpu.stat'
    """
    lines = [line.split(":", 2) for line in membership.splitlines() if line.count(":") >= 2]
    # a hierarchy of version 1 that has the CPU controller takes it from version 2
    lines.sort(key=lambda line: "cpu" not in line[1].split(","))
    for _, controllers, path in lines[:1]:
        for place in (Path(path), *Path(path).parents):
            yield root / controllers / place.relative_to("/") / name


FIGURES = ("machine_cpu", "steal", "run_wait", "pressure", "throttled")


class KernelFigures:
    """Shares of the time since the last :meth:`take`, of the machine and of the thread that made them; to be closed.

    A cgroup's throttled time is a sum over CPUs, of which the thread uses one. Its wait for a CPU includes the time in
    which it was throttled, and is the upper bound of that share where it is known.

    Figures that the system lacks are logged once, at debug level.

    >>> figures = KernelFigures()
    >>> set(figures.take()) == set(FIGURES)
    True
    >>> figures.close()
    """

    def __init__(self, proc: Path = PROC, cgroups: Path = CGROUPS) -> None:
        try:
            membership = (proc / "self" / "cgroup").read_text(errors="replace")
        except OSError:
            membership = ""
        self._run_wait = run_wait_counter(proc)
        limits = [Counter(throttled_seconds, path) for path in cgroup_files("cpu.stat", membership, cgroups)]
        self._throttled = [limit for limit in limits if limit.exists]
        self._pressure = Counter(pressure_seconds, proc / "pressure" / "cpu")
        known = {"run_wait": self._run_wait.exists, "throttled": self._throttled, "pressure": self._pressure.exists}
        if missing := [name for name, found in known.items() if not found]:
            logger.debug("locust_realism: this system does not measure %s.", ", ".join(missing))
        self._before: dict[str, float] = {}
        with suppress(psutil.Error, OSError):
            self._before = self._read()

    def take(self) -> dict[str, float]:
        """Return the shares since the last call, from 0 to 1, NaN where not measured."""
        before, self._before = self._before, self._read()
        change = {name: value - before.get(name, math.nan) for name, value in self._before.items()}
        seconds, machine = change.pop("seconds"), change.pop("machine")
        throttled = [change.pop(name) for name in list(change) if name.startswith("throttled")]
        totals = {"machine_cpu": machine, "steal": machine}
        change["throttled"] = max(throttled, default=math.nan)
        if change["throttled"] > change["run_wait"]:  # not where either is NaN
            change["throttled"] = change["run_wait"]
        return {name: share_of(value, totals.get(name, seconds)) for name, value in change.items()}

    def close(self) -> None:
        """Close the files."""
        for counter in (self._run_wait, self._pressure, *self._throttled):
            counter.close()

    def _read(self) -> dict[str, float]:
        times = psutil.cpu_times()._asdict()
        machine = sum(times.get(name, 0.0) for name in ("user", "nice", "system", "irq", "softirq", "steal"))
        return {
            "seconds": time.perf_counter(),
            "machine": machine + times["idle"] + times.get("iowait", 0.0),
            "machine_cpu": machine,
            "steal": times.get("steal", math.nan),
            "run_wait": self._run_wait.seconds(),
            "pressure": self._pressure.seconds(),
            **{f"throttled {k}": limit.seconds() for k, limit in enumerate(self._throttled)},
        }


def share_of(value: float, total: float) -> float:
    """Return a share from 0 to 1; NaN if it is unknown or no time has passed."""
    return min(1.0, max(0.0, value / total)) if total > 0 and not math.isnan(value) else math.nan
