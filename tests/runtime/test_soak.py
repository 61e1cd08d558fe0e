"""Runs of days, their time compressed: memory does not grow with the run, and the figures stay exact."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

SOAK = Path(__file__).parents[2] / "benchmarks" / "soak.py"


def soak(*arguments: object, seconds: float) -> subprocess.CompletedProcess[str]:
    """Run the benchmark to its end."""
    command = [sys.executable, str(SOAK), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)


def test_memory_does_not_grow_with_the_launches_and_the_figures_are_exact() -> None:
    """Twice the launches: the leading process and a worker do not need the memory of the launches in addition.

    1.6 million more launches held in memory would be 100 MB, a factor of 1.7. The absolute sizes depend on the machine
    (transparent huge pages, builds of the libraries); the benchmark's aims, tested nightly, are for them.
    """
    used = []
    for rows in (1_600_000, 3_200_000):
        text = soak("--rows", rows, seconds=240).stdout
        assert "exact: n, p50_ms, p90_ms, p95_ms, p99_ms, p999_ms" in text, text
        used.append([float(size) for size in re.findall(r"(\d+) MB (?:on top|of its own)", text)])
    assert len(used[0]) == 2
    for half, whole in zip(*used, strict=True):
        assert whole < 1.35 * half, used


@pytest.mark.nightly
def test_two_hundred_million_launches() -> None:
    """A 55-hour run at 1,000 requests/s keeps the aims of the benchmark."""
    done = soak("--rows", 200_000_000, seconds=6000)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "exact: n" in done.stdout


@pytest.mark.nightly
def test_fifty_workers_for_ten_minutes() -> None:
    """200,000 launches a second arrive at the master, whose memory stops to grow."""
    done = soak("--minutes", 10, seconds=1200)
    assert done.returncode == 0, done.stdout + done.stderr
