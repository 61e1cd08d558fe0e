"""CPU of a run from outside: whose it is, how much, and that it is told apart from idling."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from locust_realism.experiments.cpu import PERIOD_S, CpuMeter
from locust_realism.experiments.process import guarded

BUSY = (
    "import os, time\nend = time.process_time() + {seconds}\nwhile time.process_time() < end: pass\ntime.sleep({rest})"
)


def measured(tmp_path: Path, code: str) -> tuple[dict[str, float | None], float]:
    """Cores of each side from start to end of a program, and how long it took."""
    command, output = [sys.executable, "-c", code], tmp_path / "out"
    began = time.time()
    with guarded(command, tmp_path, output, ()) as process, CpuMeter(process.pid) as meter:
        assert process.wait(60) == 0, output.read_text()
        ended = time.time()
    return meter.shares(began, ended - PERIOD_S), ended - began - PERIOD_S


def test_the_time_of_locust_and_its_workers_is_the_generators(tmp_path: Path) -> None:
    """Two forked processes that use .6 s each are 1.2 s of generator; a fifth may be missed at their end."""
    shares, length = measured(tmp_path, "import os\nos.fork()\n" + BUSY.format(seconds=0.6, rest=1.2))
    assert shares["generator"] is not None
    assert 0.8 * 1.2 < shares["generator"] * length < 1.2 + 0.5
    assert shares["server"] is None, "it has started no server"


def test_the_time_of_what_locust_has_started_is_the_servers(tmp_path: Path) -> None:
    server = BUSY.format(seconds=0.8, rest=0.8)
    shares, length = measured(tmp_path, f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {server!r}])")
    assert shares["server"] is not None
    assert 0.8 * 0.8 < shares["server"] * length < 0.8 + 0.4
    assert shares["generator"] is not None
    assert shares["generator"] * length < 0.3


def test_nothing_is_said_of_times_that_were_not_sampled(tmp_path: Path) -> None:
    shares, _ = measured(tmp_path, "import time; time.sleep(0.6)")
    assert shares["generator"] is not None
    with guarded([sys.executable, "-c", "import time; time.sleep(0.6)"], tmp_path, tmp_path / "out", ()) as process:
        with CpuMeter(process.pid) as meter:
            process.wait(30)
        now = time.time()
    assert meter.shares(now + 10, now + 20) == {"generator": None, "server": None, "machine": None}
    assert meter.shares(now, now) == {"generator": None, "server": None, "machine": None}


def test_a_guard_passes_the_status_on_and_ends_what_was_started(tmp_path: Path) -> None:
    with guarded([sys.executable, "-c", "raise SystemExit(3)"], tmp_path, tmp_path / "out", ()) as process:
        assert process.wait(30) == 3
    with guarded([sys.executable, "-c", "import time; time.sleep(60)"], tmp_path, tmp_path / "out", ()) as process:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.3)
        began = time.monotonic()
    assert process.returncode == 143, "128 + SIGTERM"
    assert time.monotonic() - began < 10
