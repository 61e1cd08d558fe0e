"""Processes, ports and paths of the tests that run Locust as a user does."""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[1]
BENCHMARKS = ROOT / "benchmarks"
SCENARIOS = ROOT / "scenarios"


def loaded(script: Path) -> ModuleType:
    """Return a script as a module."""
    spec = importlib.util.spec_from_file_location(f"{script.parent.name}_{script.stem}", script)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses need it there
    spec.loader.exec_module(module)
    return module


def free_port() -> int:
    """A TCP port on the loopback address that nobody listened on a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def two_workers() -> tuple[object, ...]:
    """--processes 2 on a port of its own: another test may run beside this one."""
    port = free_port()
    return ("--processes", 2, "--master-bind-port", port, "--master-port", port)


def locust_command(*arguments: object) -> list[str]:
    """The command line of Locust in this interpreter."""
    return [sys.executable, "-m", "locust", *map(str, arguments)]


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment without what would change Locust's own settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LOCUST_")}
    return {**kept, "PYTHONUNBUFFERED": "1", "NO_COLOR": "1", **(extra or {})}


def run_locust(
    *arguments: object, cwd: Path, timeout: float = 60, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run Locust to its end; stdout and stderr together in ``stdout``."""
    with started_locust(*arguments, cwd=cwd, env=env) as process:
        try:
            output, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            raise AssertionError(f"Locust did not end within {timeout} s:\n{output}") from None
    return subprocess.CompletedProcess(process.args, process.returncode, output)


@contextmanager
def started_locust(
    *arguments: object, cwd: Path, env: Mapping[str, str] | None = None, log: Path | None = None
) -> Iterator[subprocess.Popen[str]]:
    """Locust in a process group of its own, which is killed whole when the block ends; output to ``log`` or a pipe."""
    with (log or Path(os.devnull)).open("w") as sink:
        process = subprocess.Popen(
            locust_command(*arguments),
            cwd=cwd,
            env=environment(env),
            stdin=subprocess.DEVNULL,
            stdout=sink if log else subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(10)


def eventually(condition: Callable[[], object], *, within: float = 20, every: float = 0.1, because: str = "") -> object:
    """The first true value of ``condition()``; AssertionError when there is none ``within`` seconds."""
    deadline = time.monotonic() + within
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not true within {within} s: {because or condition}")
        time.sleep(every)
