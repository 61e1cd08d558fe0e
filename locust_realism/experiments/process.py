"""One run of a plan: a Locust in a process of its own, the server of its variant, and what both left behind."""

from __future__ import annotations

import contextlib
import json
import math
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from locust_realism.experiments.cpu import CpuMeter
from locust_realism.experiments.plan import Cell, Plan, Server
from locust_realism.recording.launches import LaunchLog

GUARD = Path(__file__).with_name("guard.py")
GOODBYE_S = 15.0
"""How long a Locust that is told to end may take: its users delete what they made on the server."""
ANSWERS_S = 10
"""How long requests that are out at the end of a run may take to be answered. Without it the slow ones among the last
launches would be missing: response times would look shorter, and the launches thin out (CoV 1.4 where it is 1)."""
PATIENCE_S = 120.0
"""How long a run may take beyond its planned time: start, last reports, the figures."""
SERVER_PATIENCE_S = 30.0

_SETTINGS = (
    "USERS", "SPAWN_RATE", "RUN_TIME", "HEADLESS", "LOCUSTFILE", "HOST", "TAGS", "EXCLUDE_TAGS", "MODE_MASTER",
    "MODE_WORKER", "PROCESSES", "CSV", "HTML", "AUTOSTART", "LOOPS", "STOP_TIMEOUT", "RESET_STATS",
)  # fmt: skip
LOCUSTS_OWN = frozenset(f"LOCUST_{name}" for name in _SETTINGS)


class RunError(RuntimeError):
    """A run that gave no figures; the message says why, with the last lines of what Locust said."""


@dataclass(frozen=True)
class Outcome:
    """What a run left: the summary (docs/json.md), its launches in the window, and CPU use in cores of each side."""

    summary: dict[str, Any]
    log: LaunchLog
    cpu: dict[str, float | None]
    started: float


def run_cell(plan: Plan, cell: Cell, folder: Path, *, keep_fds: Sequence[int] = ()) -> Outcome:
    """Run one cell in ``folder``, which is empty; RunError where there are no figures at its end.

    ``keep_fds`` are held open by the guards for as long as anything of the run is alive.
    """
    with _server(cell.variant.server, plan.directory, folder, keep_fds) as (host, server_pid):
        command = locust_command(plan, cell, folder, host)
        started = time.time()
        with (
            guarded(command, folder, folder / "locust.txt", keep_fds) as process,
            CpuMeter(process.pid, server_pid) as meter,
        ):
            try:
                status = process.wait(plan.run_time_s(cell) + PATIENCE_S)
            except subprocess.TimeoutExpired:
                raise RunError(f"Locust did not end in time.\n{_tail(folder)}") from None
    summary = _summary(folder, status)
    window = summary["window"]
    return Outcome(
        summary=summary,
        log=_launches(folder, window),
        cpu=meter.shares(window["start_us"] / 1e6, window["end_us"] / 1e6),
        started=started,
    )


def locust_command(plan: Plan, cell: Cell, folder: Path, host: str | None) -> list[str]:
    """The command line of a cell's Locust."""
    variant, length = cell.variant, plan.run_time_s(cell)
    whole = math.ceil(length)  # Locust takes whole seconds; what it runs longer is left out
    words: list[Any] = [
        sys.executable, "-m", "locust", "-f", variant.scenario, "--headless", "--only-summary",
        "-u", cell.users, "-r", f"{plan.spawn_rate(cell):g}", "-t", f"{whole}s",
        "--stop-timeout", ANSWERS_S, "--exit-code-on-error", 0, "--realism-seed", cell.run_seed,
        "--realism-warmup", plan.warm_up_s, "--realism-cooldown", f"{plan.cool_down_s + whole - length:.6f}",
        "--realism-json", folder / "figures.json", "--realism-record", folder / "recording",
    ]  # fmt: skip
    if host:
        words += ["--host", host]
    if variant.processes > 1:
        port = free_port()  # Locust's own may be another's
        words += ["--processes", variant.processes, "--master-bind-port", port, "--master-port", port]
    if cell.think_time_s is not None:
        words += [plan.think_option, f"{cell.think_time_s:g}"]
    for name, value in variant.options:
        if value is not False:
            # with '=' a value may begin with a dash
            words.append(name if value is True else f"{name}={value}")
    return [str(word) for word in words]


@contextlib.contextmanager
def guarded(
    command: Sequence[str], folder: Path, output: Path, keep_fds: Sequence[int]
) -> Iterator[subprocess.Popen[bytes]]:
    """A command that ends with this block, and with this process however that ends; its output goes to a file."""
    with output.open("wb") as sink:
        process = subprocess.Popen(
            [sys.executable, str(GUARD), f"{GOODBYE_S:g}", *command],
            cwd=folder,
            env=clean_environment(),
            stdin=subprocess.PIPE,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=tuple(keep_fds),
        )
    assert process.stdin is not None
    with process.stdin as lifeline:
        try:
            yield process
        finally:
            lifeline.close()
            try:
                process.wait(2 * GOODBYE_S + 5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def clean_environment() -> dict[str, str]:
    """This process's environment without settings of Locust's, which would change some cells and not show in the plan.

    Secrets of a scenario (LOCUST_DAV_ADMIN_PASSWORD) are no settings of Locust's own and stay.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in LOCUSTS_OWN and not name.startswith("LOCUST_REALISM_")
    }
    return {**kept, "PYTHONUNBUFFERED": "1", "NO_COLOR": "1"}


@contextlib.contextmanager
def _server(
    server: Server | None, directory: Path, folder: Path, keep_fds: Sequence[int]
) -> Iterator[tuple[str | None, int | None]]:
    """The address of a variant's server, started for this run, and the process under which it runs."""
    if server is None:
        yield None, None
        return
    port = free_port()
    values = {"{port}": str(port), "{python}": sys.executable, "{folder}": str(folder)}
    words = [_filled(word, values) for word in server.command]
    output = folder / "server.txt"
    with guarded(words, directory.resolve(), output, keep_fds) as process:
        url = f"http://127.0.0.1:{port}"
        _await_answer(url + server.path, process, output)
        yield url, process.pid


def free_port() -> int:
    """A TCP port of the loopback address that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _filled(word: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        word = word.replace(name, value)
    return word


def _await_answer(url: str, process: subprocess.Popen[bytes], output: Path) -> None:
    deadline = time.monotonic() + SERVER_PATIENCE_S
    while True:
        if process.poll() is not None:
            raise RunError(
                f"the server ended with status {process.returncode} before it answered.\n{_last_lines(output)}"
            )
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except urllib.error.HTTPError:
            return  # it answers, whatever it says
        except OSError:
            if time.monotonic() > deadline:
                raise RunError(f"the server did not answer at {url} within {SERVER_PATIENCE_S:g} s.") from None
            time.sleep(0.05)


def _summary(folder: Path, status: int) -> dict[str, Any]:
    try:
        summary: dict[str, Any] = json.loads((folder / "figures.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise RunError(f"Locust ended with status {status} and wrote no figures.\n{_tail(folder)}") from None
    if status not in (0, 1) or not summary.get("window", {}).get("n"):
        raise RunError(f"Locust ended with status {status}, no request lies in the window.\n{_tail(folder)}")
    return summary


def _launches(folder: Path, window: dict[str, Any]) -> LaunchLog:
    """The launches in the window, of whichever process recorded all of them."""
    from locust_realism.recording.formats import open_launches

    found = [path for path in sorted((folder / "recording").glob("*")) if path.is_dir() and "-worker-" not in path.name]
    if not found:
        raise RunError(f"Locust left no recording.\n{_tail(folder)}")
    log = open_launches(found[0]).log
    return log.take((log.launch_us >= window["start_us"]) & (log.launch_us <= window["end_us"]))


def _tail(folder: Path) -> str:
    return _last_lines(folder / "locust.txt")


def _last_lines(path: Path, most: int = 12) -> str:
    """The last error that was logged with what follows it, else the last lines; indented."""
    try:
        with path.open("rb") as stream:
            lines = _end_of(stream).splitlines()
    except OSError:
        return ""
    errors = [number for number, line in enumerate(lines) if "/ERROR/" in line or line.startswith("Traceback")]
    told = lines[errors[-1] if errors else -most :]
    if len(told) > most:  # the last line of a traceback says what it was
        told = [*told[: most // 2], "...", *told[-most // 2 :]]
    return "\n".join("  " + line for line in told)


def _end_of(stream: BinaryIO, size: int = 65536) -> str:
    stream.seek(0, os.SEEK_END)
    stream.seek(max(0, stream.tell() - size))
    return stream.read().decode("utf-8", "replace")
