"""Runs of days, their time compressed: memory stays in bounds and the figures stay exact (``benchmarks/soak.py``)."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

SOAK = Path(__file__).parents[2] / "benchmarks" / "soak.py"


def soak(*arguments: object, seconds: float) -> tuple[str, list[float]]:
    """What the benchmark prints, and the megabytes of the process that leads and of a worker, in whatever order."""
    command = [sys.executable, str(SOAK), *map(str, arguments)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    patterns = (r"rows in \d+ s, (\d+) MB", r"requests, (\d+) MB")
    used = [float(text) for pattern in patterns for text in re.findall(pattern, result.stdout)]
    return result.stdout + result.stderr, used


def test_three_million_launches_in_bounded_memory_with_exact_figures() -> None:
    """Three times what memory holds: the bound of the run of days holds already, and n and percentiles are exact."""
    text, (leader, worker) = soak("--rows", 3_000_000, seconds=240)
    assert "exact: n, p50, p90, p95, p99, p999" in text, text
    assert leader <= 300, text
    assert worker <= 60, text


@pytest.mark.nightly
def test_two_hundred_million_launches() -> None:
    """A 55-hour run at 1,000 requests/s."""
    text, (leader, worker) = soak("--rows", 200_000_000, seconds=6000)
    assert "exact: n, p50, p90, p95, p99, p999" in text, text
    assert leader <= 300, text
    assert worker <= 60, text


@pytest.mark.nightly
def test_fifty_workers_for_ten_minutes() -> None:
    """200,000 launches a second arrive at the master, and its memory stops to grow."""
    text, _ = soak("--minutes", 10, seconds=1200)
    grown = re.search(r"memory grew by ([+-]\d+) MB", text)
    assert grown is not None, text
    assert float(grown[1]) <= 20, text
