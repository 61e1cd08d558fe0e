"""CPU time of a run measured from outside: its sides and its amount."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from locust_realism.sweep.process import PERIOD_S, CpuMeter, cpu_time_s, supervised

BUSY = (
    "import os, time\nend = time.process_time() + {seconds}\nwhile time.process_time() < end: pass\ntime.sleep({rest})"
)


def measured(tmp_path: Path, code: str) -> tuple[dict[str, float | None], float]:
    """Return the cores of each side from start to end of a program, and its length in seconds."""
    command, output = [sys.executable, "-c", code], tmp_path / "out"
    began = time.time()
    with supervised(command, tmp_path, output, ()) as process, CpuMeter(process.pid) as meter:
        assert process.wait(60) == 0, output.read_text()
        ended = time.time()
    return meter.shares(began, ended - PERIOD_S), ended - began - PERIOD_S


def test_the_generator_is_locust_with_its_workers(tmp_path: Path) -> None:
    """Two forked processes of .6 s each are 1.2 s of generator; a fifth may be missing at their end."""
    shares, length = measured(tmp_path, "import os\nos.fork()\n" + BUSY.format(seconds=0.6, rest=1.2))
    assert shares["generator"] is not None
    assert 0.8 * 1.2 < shares["generator"] * length < 1.2 + 0.5
    assert shares["server"] is None, "it has started no server"


def test_cpu_time_has_no_steps_of_ten_milliseconds() -> None:
    """A generator of two users takes a few milliseconds a second: steps read 0."""
    own = psutil.Process()
    began = cpu_time_s(own)
    stop = time.process_time() + 0.002
    while time.process_time() < stop:
        pass
    assert 0.002 <= cpu_time_s(own) - began < 0.009


def test_the_server_is_what_locust_has_started(tmp_path: Path) -> None:
    server = BUSY.format(seconds=0.8, rest=0.8)
    shares, length = measured(tmp_path, f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {server!r}])")
    assert shares["server"] is not None
    assert 0.8 * 0.8 < shares["server"] * length < 0.8 + 0.4
    assert shares["generator"] is not None
    assert shares["generator"] * length < 0.3


def test_times_without_samples_have_no_figures(tmp_path: Path) -> None:
    shares, _ = measured(tmp_path, "import time; time.sleep(0.6)")
    assert shares["generator"] is not None
    with supervised([sys.executable, "-c", "import time; time.sleep(0.6)"], tmp_path, tmp_path / "out", ()) as process:
        with CpuMeter(process.pid) as meter:
            process.wait(30)
        now = time.time()
    assert meter.shares(now + 10, now + 20) == {"generator": None, "server": None, "machine": None}
    assert meter.shares(now, now) == {"generator": None, "server": None, "machine": None}


def test_a_supervisor_passes_the_status_on_and_ends_what_was_started(tmp_path: Path) -> None:
    with supervised([sys.executable, "-c", "raise SystemExit(3)"], tmp_path, tmp_path / "out", ()) as process:
        assert process.wait(30) == 3
    with supervised([sys.executable, "-c", "import time; time.sleep(60)"], tmp_path, tmp_path / "out", ()) as process:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.3)
        began = time.monotonic()
    assert process.returncode == 143, "128 + SIGTERM"
    assert time.monotonic() - began < 10
