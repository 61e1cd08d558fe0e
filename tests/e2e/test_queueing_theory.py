"""Measured response times agree with queueing theory: M/M/1 with Poisson arrivals, independent replications.

All replications run at once, each with a station and users of its own, so that the short version takes as long as one.
Services are long (100 ms) beside the share of client and machine in an answer. The same run measures that share, at a
station where nobody waits, and adds it to the theory: on a busy machine it is not small.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import t as student

from locust_realism.targets import theory
from support import run_locust, two_workers

pytestmark = [pytest.mark.e2e, pytest.mark.timed]

LOCUSTFILE = Path(__file__).with_name("queueing_locustfile.py")
SERVICE_S, RATE, WRONG_RATE = 0.1, 5.0, 2.5
REPLICATIONS = 24


def replications(folder: Path, count: int, run_time: int, warm_up: int, *more: object) -> dict[str, list[Any]]:
    """Return the rows of each replication, by the name of its load."""
    plan = [["right", count, RATE, SERVICE_S], ["wrong", count, WRONG_RATE, SERVICE_S], ["alone", 4, RATE, SERVICE_S]]
    result = run_locust(
        "-f", LOCUSTFILE, "--headless", "--only-summary", "-t", f"{run_time}s", "--realism-seed", 5,
        "--realism-warmup", f"{warm_up}s", "--realism-json", folder / "run.json", *more,
        cwd=folder, timeout=run_time + 60, env={"QUEUEING_PLAN": json.dumps(plan)},
    )  # fmt: skip
    assert result.returncode == 0, result.stdout
    rows = json.loads((folder / "run.json").read_text())["response_times"]
    found = {load: [row for row in rows if row["label"].startswith(load)] for load in ("right", "wrong", "alone")}
    assert [len(group) for group in found.values()] == [count, count, 4]
    assert all(row["failures"] == 0 for row in rows)
    return found


def interval(values: list[float], level: float = 0.99) -> tuple[float, float]:
    """Return the interval for the mean of independent replications."""
    half = student.ppf((1 + level) / 2, len(values) - 1) * np.std(values, ddof=1) / math.sqrt(len(values))
    return float(np.mean(values) - half), float(np.mean(values) + half)


def agrees(found: dict[str, list[Any]], load: str, rate: float) -> dict[str, bool]:
    """Return, for mean and 95th percentile, whether theory at this rate lies in the measured interval."""
    rows = found[load]
    added = float(np.mean([row["mean_ms"] for row in found["alone"]])) - 1e3 * SERVICE_S
    print(f"client and machine add {added:.1f} ms")
    expected = {
        "mean_ms": 1e3 * theory.mmc_response(rate, SERVICE_S) + added,
        "p95_ms": 1e3 * theory.mmc_quantile(0.95, rate, SERVICE_S) + added,
    }
    verdicts = {}
    for name, value in expected.items():
        low, high = interval([row[name] for row in rows])
        print(f"{name}: theory at {rate}/s {value:.1f}, measured {low:.1f} to {high:.1f}")
        verdicts[name] = low <= value <= high
    return verdicts


@pytest.mark.parametrize("processes", [tuple, two_workers], ids=["one process", "two workers"])
def test_mean_and_p95_agree_with_mm1_at_this_load_and_no_other(
    tmp_path: Path, processes: Callable[[], tuple[object, ...]]
) -> None:
    rows = replications(tmp_path, REPLICATIONS, 24, 3, *processes())
    arrivals = sum(row["n"] for row in rows["right"])
    expected = REPLICATIONS * RATE * 21
    assert abs(arrivals - expected) < 4 * math.sqrt(expected)
    assert agrees(rows, "right", RATE) == {"mean_ms": True, "p95_ms": True}
    assert agrees(rows, "wrong", WRONG_RATE) == {"mean_ms": True, "p95_ms": True}
    # the interval of p95 is too wide after 21 s to separate the loads each time; the long run separates them by both
    assert agrees(rows, "wrong", RATE)["mean_ms"] is False
    assert agrees(rows, "right", WRONG_RATE)["mean_ms"] is False


@pytest.mark.nightly
@pytest.mark.parametrize("processes", [tuple, two_workers], ids=["one process", "two workers"])
def test_mean_and_p95_in_the_long_run(tmp_path: Path, processes: Callable[[], tuple[object, ...]]) -> None:
    rows = replications(tmp_path, 16, 250, 10, *processes())
    assert agrees(rows, "right", RATE) == {"mean_ms": True, "p95_ms": True}
    assert agrees(rows, "wrong", RATE) == {"mean_ms": False, "p95_ms": False}
    low, high = interval([row["mean_ms"] for row in rows["right"]])
    assert high - low < 0.2 * 1e3 * theory.mmc_response(RATE, SERVICE_S)
