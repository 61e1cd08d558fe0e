"""Processes that use the CPU of a busy machine beside this Locust, by name.

A name is the program's, with the script's file where an interpreter has it as its first argument. Command lines may
hold passwords and are not kept.
"""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import dropwhile
from pathlib import PurePath
from typing import NamedTuple

import psutil

from locust_realism.recording.diagnosis import printable

MOST = 5
"""Processes that a look returns."""
LOOK_S = 5.0
"""Seconds between two looks."""
STALE_S = 3 * LOOK_S
"""Age from which a look is too old to compare with."""
BUSY = 0.85
"""Share of the machine's CPUs in use from which it is looked at."""
LEAST_CORES = 0.02
"""Use of a core below which a process is not listed."""

Key = tuple[int, float]
"""Process id and time of creation."""

_INTERPRETER = re.compile(r"(python|pypy|perl|ruby|node|php|java|bash|dash|sh|zsh)[\d.]*$")
_PYTHON = re.compile(r"(python|pypy)[\d.]*$")
_PYTHON_FLAGS = frozenset(["-u", "-B", "-O", "-OO", "-E", "-s", "-S", "-I"])
"""Flags of Python without a value: what follows another one may be its value."""
_SCRIPT = re.compile(r"(?!-)[^\s=]*(/[^\s=/]+|[^\s=/]\.(py|sh|js|rb|pl|php|mjs))")
_MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")


class _Seen(NamedTuple):
    name: str
    user: int | None
    cpu_s: float


def display_name(name: str, command: Sequence[str]) -> str:
    """Return a program's name, with the script's file or module of an interpreter where it is surely no other argument.

    >>> display_name("python3.11", ["/usr/bin/python3", "-u", "/srv/shop/report.py", "--password=x"])
    'python3.11 report.py'
    >>> display_name("python3", ["python3", "-m", "http.server"]), display_name("bash", ["bash", "-lc", "run.sh -px"])
    ('python3 http.server', 'bash')
    """
    shown = ""
    if _INTERPRETER.fullmatch(name):
        python = _PYTHON.fullmatch(name) is not None
        rest = list(dropwhile(lambda argument: python and argument in _PYTHON_FLAGS, command[1:]))
        if python and rest[:1] == ["-m"]:
            shown = next(filter(_MODULE.fullmatch, rest[1:2]), "")
        else:
            shown = PurePath(next(filter(_SCRIPT.fullmatch, rest[:1]), "")).name
    return printable(f"{name} {shown}".strip())


class BusyProcesses:
    """Looks at all processes of this machine; the first one gives nothing to compare with.

    A look takes 10 microseconds a process: call it in a native thread. Processes of this user with the same program and
    script as this one are its master and workers.
    """

    def __init__(self) -> None:
        self._own_pid = os.getpid()
        self._names: dict[Key, tuple[str, int | None]] = {}
        self._at = -math.inf
        self._seen: dict[Key, _Seen] = {}

    def due(self, machine_cpu: float) -> bool:
        """Return True if the machine is busy and the last look is old enough."""
        return machine_cpu > BUSY and time.perf_counter() - self._at > LOOK_S

    def look(self) -> Uses | None:
        """Return the cores in use since the last look.

        None where the last look is older than STALE_S, and the next look is due a second later.
        """
        before_at, before = self._at, self._seen
        self._at, self._seen = self._read()
        if self._at - before_at > STALE_S:
            self._at -= LOOK_S - 1.0
            return None
        return uses_of(before, self._seen, self._at - before_at, self._own_pid)

    def _read(self) -> tuple[float, dict[Key, _Seen]]:
        seen = {}
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                times = process.cpu_times()
                key = process.pid, process.create_time()
                name, user = self._names.get(key) or self._named(process)
                self._names[key] = name, user
                seen[key] = _Seen(name, user, times.user + times.system)
        self._names = {key: self._names[key] for key in seen}
        return time.perf_counter(), seen

    def _named(self, process: psutil.Process) -> tuple[str, int | None]:
        command: list[str] = []
        with suppress(psutil.Error, OSError):
            command = process.cmdline()
        user = process.uids().real if hasattr(process, "uids") else None
        return display_name(process.name(), command), user


class Uses(NamedTuple):
    """Cores in use on this machine: ``own`` of this Locust's processes, and the busiest ``others`` by name."""

    own: float
    others: tuple[tuple[str, float], ...]


def uses_of(before: Mapping[Key, _Seen], now: Mapping[Key, _Seen], seconds: float, own_pid: int) -> Uses:
    """Return the cores in use between two looks.

    >>> before = {(1, 0.0): _Seen("locust", 0, 1.0), (2, 0.0): _Seen("ffmpeg", 0, 5.0)}
    >>> now = {(1, 0.0): _Seen("locust", 0, 1.5), (2, 0.0): _Seen("ffmpeg", 0, 6.5)}
    >>> uses_of(before, now, 2.0, own_pid=1)
    Uses(own=0.25, others=(('ffmpeg', 0.75),))
    """
    # an interpreter without a script is not known to be one of ours
    own = next(((seen.name, seen.user) for (pid, _), seen in now.items() if pid == own_pid), None)
    mine = 0.0
    found: dict[str, float] = {}
    for key, seen in now.items():
        used = seen.cpu_s - (before[key].cpu_s if key in before else 0.0)
        if key[0] == own_pid or ((seen.name, seen.user) == own and not _INTERPRETER.fullmatch(seen.name)):
            mine += used
        else:
            found[seen.name] = found.get(seen.name, 0.0) + used / seconds
    ranked = sorted(found.items(), key=lambda item: -item[1])[:MOST]
    return Uses(mine / seconds, tuple((name, cores) for name, cores in ranked if cores >= LEAST_CORES))
