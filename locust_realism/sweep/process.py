"""One run of a plan: its Locust, the server of its variant, their CPU time and their results."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil

from locust_realism.analysis.document import Summary, Window
from locust_realism.common import supervisor
from locust_realism.recording.launches import LaunchLog
from locust_realism.sweep.design import Cell, Plan, Server

PERIOD_S = 0.25


def cpu_time_s(process: psutil.Process) -> float:
    """Return the CPU time that all threads of a process have used, in seconds, ended ones too.

    Linux keeps a clock of nanoseconds for each process, clock_getcpuclockid(3); its counters in /proc have steps of
    10 ms, more than a small load generator uses in a second.
    """
    if sys.platform == "linux":
        return time.clock_gettime(~process.pid << 3 | 2)
    used = process.cpu_times()
    return float(used.user + used.system)


class CpuMeter:
    """Sampler of the CPU time of a Locust and of a local server; use it as a context manager.

    Locust runs under the process ``root``. Its forked workers share its command line; any other child is a server, the
    embedded target. A server of the plan runs under the process ``server``. The time of a process that has ended stays
    counted, up to the last sample before its end.
    """

    def __init__(self, root: int, server: int | None = None) -> None:
        self.root, self.server, self.has_server = root, server, False
        self._samples: list[tuple[float, ...]] = []
        self._spent: dict[tuple[int, float], tuple[bool, float]] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> CpuMeter:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def shares(self, start: float, end: float) -> dict[str, float | None]:
        """Return the mean cores used between two times (epoch, seconds), and the share of the machine.

        The keys are ``generator``, ``server`` and ``machine``; None without samples around the times or a local server.
        """
        times, *spent = np.array(self._samples).T
        if len(times) < 2 or end <= start or start < times[0] - 2 * PERIOD_S or end > times[-1] + 2 * PERIOD_S:
            return dict.fromkeys(("generator", "server", "machine"))
        generator, server, busy, every = (float(np.diff(np.interp([start, end], times, side))[0]) for side in spent)
        return {
            "generator": generator / (end - start),
            "server": server / (end - start) if self.has_server else None,
            "machine": busy / every if every > 0 else None,
        }

    def _run(self) -> None:
        self._sample()
        while not self._stop.wait(PERIOD_S):
            self._sample()
        self._sample()

    def _sample(self) -> None:
        for is_server, process in self._processes():
            with contextlib.suppress(psutil.Error, OSError):
                self._spent[(process.pid, process.create_time())] = (is_server, cpu_time_s(process))
        sides = [sum(spent for of, spent in self._spent.values() if of == side) for side in (False, True)]
        machine = psutil.cpu_times()
        every = sum(machine[:8])  # guest times are part of the user time
        idle = machine.idle + getattr(machine, "iowait", 0.0)
        self._samples.append((time.time(), *sides, every - idle, every))

    def _processes(self) -> Iterator[tuple[bool, psutil.Process]]:
        """Yield the processes with their sides: False for Locust and its workers, True for servers."""
        with contextlib.suppress(psutil.Error):
            tree = psutil.Process(self.root).children(recursive=True)
            mine, servers = tree[0].cmdline() if tree else [], set[int]()
            for process in tree:
                with contextlib.suppress(psutil.Error):
                    if process.ppid() in servers or process.cmdline() != mine:
                        servers.add(process.pid)
                        self.has_server = True
                    yield process.pid in servers, process
        if self.server is not None:
            with contextlib.suppress(psutil.Error):
                yield from ((True, process) for process in psutil.Process(self.server).children(recursive=True))
                self.has_server = True


GRACE_S = 15.0
"""Seconds that a Locust has to end by itself: its users delete their accounts and files on the server."""
ANSWERS_S = 10
"""Seconds that requests in flight at the end of a run have to be answered. Without them the slow ones among the last
launches would be missing: response times would be too short, and the launches too few (CoV 1.4 in place of 1)."""
OVERTIME_S = 120.0
"""Longest time of a run beyond its planned time: start, last reports, figures."""
SERVER_START_S = 30.0
LOG = "locust.txt"

LOCUST_SETTING = re.compile(
    "LOCUST_(REALISM_.*|USERS|SPAWN_RATE|RUN_TIME|HEADLESS|LOCUSTFILE|HOST|TAGS|EXCLUDE_TAGS|MODE_MASTER|MODE_WORKER|"
    "PROCESSES|CSV|HTML|AUTOSTART|LOOPS|STOP_TIMEOUT|RESET_STATS)"
)
"""Locust's own settings, which the plan would not show; a scenario's secrets (LOCUST_DAV_ADMIN_PASSWORD) stay."""


class RunError(RuntimeError):
    """Run without figures; the message holds the reason and the last lines of Locust's log."""


@dataclass(frozen=True)
class Outcome:
    """Result of a run: summary (docs/json.md), launches in the window, and CPU use in cores of each side."""

    summary: Summary
    log: LaunchLog
    cpu: dict[str, float | None]
    started: float


def run_cell(plan: Plan, cell: Cell, folder: Path, *, keep_fds: Sequence[int] = ()) -> Outcome:
    """Run one cell in the empty ``folder``; raises RunError if it ends without figures.

    The supervisors keep ``keep_fds`` open until every process of the run has ended.
    """
    with _server(cell.variant.server, plan.directory, folder, keep_fds) as (host, server_pid):
        command = locust_command(plan, cell, folder, host)
        started = time.time()
        with (
            supervised(command, folder, folder / LOG, keep_fds) as process,
            CpuMeter(process.pid, server_pid) as meter,
        ):
            try:
                status = process.wait(plan.run_time_s(cell) + OVERTIME_S)
            except subprocess.TimeoutExpired:
                raise RunError(f"Locust did not end in time.\n{_last_lines(folder / LOG)}") from None
    summary = _summary(folder, status)
    window = summary["window"]
    cpu = meter.shares(window["start_us"] / 1e6, window["end_us"] / 1e6)
    return Outcome(summary, _launches(folder, window), cpu, started)


def locust_command(plan: Plan, cell: Cell, folder: Path, host: str | None) -> list[str]:
    """Return the command line of a cell's Locust."""
    variant, length = cell.variant, plan.run_time_s(cell)
    whole = math.ceil(length)  # Locust takes whole seconds; the cool-down leaves out the rest
    words: list[object] = [
        sys.executable, "-m", "locust", "-f", variant.scenario, "--headless", "--only-summary",
        "-u", cell.users, "-r", f"{plan.spawn_rate(cell):g}", "-t", f"{whole}s",
        "--stop-timeout", ANSWERS_S, "--exit-code-on-error", 0, "--realism-seed", cell.run_seed,
        "--realism-warmup", plan.warm_up_s, "--realism-cooldown", f"{plan.cool_down_s + whole - length:.6f}",
        "--realism-json", folder / "figures.json", "--realism-record", folder / "recording",
    ]  # fmt: skip
    if host:
        words += ["--host", host]
    if variant.processes > 1:
        port = free_port()  # another Locust may use the default port
        words += ["--processes", variant.processes, "--master-bind-port", port, "--master-port", port]
    if cell.think_time_s is not None:
        words += [plan.think_option, f"{cell.think_time_s:g}"]
    for name, value in variant.options:
        if value is not False:
            # with "=" a value may begin with a dash
            words.append(name if value is True else f"{name}={value}")
    return [str(word) for word in words]


@contextlib.contextmanager
def supervised(
    command: Sequence[str], folder: Path, output: Path, keep_fds: Sequence[int]
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command until the end of the block, or of this process; its output goes to a file."""
    kept = {name: value for name, value in os.environ.items() if not LOCUST_SETTING.fullmatch(name)}
    environment = {**kept, "PYTHONUNBUFFERED": "1", "NO_COLOR": "1"}
    with output.open("wb") as sink:
        process = supervisor.start(
            command, GRACE_S, stdout=sink, stderr=subprocess.STDOUT, cwd=folder, env=environment, keep_fds=keep_fds
        )
    try:
        yield process
    finally:
        supervisor.end(process, GRACE_S)


@contextlib.contextmanager
def _server(
    server: Server | None, directory: Path, folder: Path, keep_fds: Sequence[int]
) -> Iterator[tuple[str | None, int | None]]:
    """Start a variant's server; the value is its address and the process under which it runs."""
    if server is None:
        yield None, None
        return
    port = free_port()
    values = {"{port}": str(port), "{python}": sys.executable, "{folder}": str(folder)}
    words = [re.sub(r"\{(port|python|folder)\}", lambda found: values[found[0]], word) for word in server.command]
    output = folder / "server.txt"
    with supervised(words, directory.resolve(), output, keep_fds) as process:
        url = f"http://127.0.0.1:{port}"
        _await_answer(url + server.path, process, output)
        yield url, process.pid


def free_port() -> int:
    """Return a TCP port of the loopback address that is free at present."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _await_answer(url: str, process: subprocess.Popen[bytes], output: Path) -> None:
    deadline = time.monotonic() + SERVER_START_S
    while process.poll() is None:
        try:
            with contextlib.suppress(urllib.error.HTTPError):  # any answer will do
                urllib.request.urlopen(url, timeout=2).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise RunError(f"the server did not answer at {url} within {SERVER_START_S:g} s.") from None
            time.sleep(0.05)
    raise RunError(f"the server ended with status {process.returncode} before it answered.\n{_last_lines(output)}")


def _summary(folder: Path, status: int) -> Summary:
    try:
        summary: Summary = json.loads((folder / "figures.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise RunError(
            f"Locust ended with status {status} and wrote no figures.\n{_last_lines(folder / LOG)}"
        ) from None
    if status not in (0, 1) or not summary["window"]["n"]:
        raise RunError(
            f"Locust ended with status {status}, no request lies in the window.\n{_last_lines(folder / LOG)}"
        )
    return summary


def _launches(folder: Path, window: Window) -> LaunchLog:
    """Return the launches in the window from the recording of the whole run, not from those of workers."""
    from locust_realism.recording.formats import open_launches

    found = [path for path in sorted((folder / "recording").glob("*")) if path.is_dir() and "-worker-" not in path.name]
    if not found:
        raise RunError(f"Locust left no recording.\n{_last_lines(folder / LOG)}")
    log = open_launches(found[0]).log
    return log.take((log.launch_us >= window["start_us"]) & (log.launch_us <= window["end_us"]))


def _last_lines(path: Path, most: int = 12) -> str:
    """Return the last logged error with the lines after it, else the last lines; indented."""
    try:
        with path.open("rb") as stream:
            stream.seek(max(0, path.stat().st_size - 65536))
            lines = stream.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return ""
    errors = [number for number, line in enumerate(lines) if "/ERROR/" in line or line.startswith("Traceback")]
    chosen = lines[errors[-1] if errors else -most :]
    if len(chosen) > most:  # the last line of a traceback names the error
        chosen = [*chosen[: most // 2], "...", *chosen[-most // 2 :]]
    return "\n".join("  " + line for line in chosen)
