"""Results of processes that ran population_locustfile.py, and the law that they must follow."""

from __future__ import annotations

import csv
import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from numpy.typing import NDArray
from scipy import stats

from locust_realism.workload.distributions.base import Distribution

Times = NDArray[np.float64]
WINDOWS_S = (0.1, 1.0, 5.0)
_GRID_S = 0.01
_IDLE_PERCENT = 30.0


def settings(out: Path, **values: object) -> dict[str, str]:
    """Return the environment variables of the locustfile."""
    return {"TEST_OUT": str(out), **{f"TEST_{name.upper()}": str(value) for name, value in values.items()}}


def results(out: Path) -> list[dict[str, Any]]:
    """Return the results of the processes, in the order of their worker index."""
    return sorted((json.loads(path.read_text()) for path in out.glob("*.json")), key=lambda d: d["index"])


def led(out: Path) -> dict[str, Any]:
    """Return the document of the Population tab at the end of the test."""
    document: dict[str, Any] = json.loads((out / "led").read_text())
    return document


def assert_nobody_was_cut_short(parts: list[dict[str, Any]]) -> None:
    for part in parts:
        assert part["cut_short"] == 0
        assert part["on_start"] == part["on_stop"]
        assert part["on_start"] == part["arrivals"] + part["entered"]


def times_of(part: dict[str, Any], origin: float) -> tuple[Times, Times, Times]:
    """Return starts, ends and planned starts of the sessions of one process, in seconds of the run."""
    started, ended, planned = np.array([session[:3] for session in part["sessions"]]).T - origin
    return started, ended, planned


def index_of_dispersion(times: Times, width: float) -> tuple[float, bool]:
    """Return the index of dispersion of counts in windows, and True if it is in the 99.9 % band of Poisson."""
    counts = np.histogram(times, np.arange(times[0], times[-1], width))[0]
    index = float(counts.var(ddof=1) / counts.mean())
    free = len(counts) - 1
    low, high = stats.chi2.ppf([0.0005, 0.9995], free) / free
    return index, bool(low <= index <= high)


def unlike_poisson(times: Times) -> list[str]:
    """Return the deviations of these times from a Poisson process of constant rate; empty if there are none."""
    ordered = np.sort(times)
    gaps = np.diff(ordered)
    cov, error = float(np.std(gaps) / np.mean(gaps)), 1 / math.sqrt(len(gaps))
    found = [] if abs(cov - 1) <= 3 * error else [f"CoV {cov:.4f} is more than 3 x {error:.4f} from 1"]
    for width in WINDOWS_S:
        index, inside = index_of_dispersion(ordered, width)
        if not inside:
            found.append(f"index of dispersion {index:.3f} in windows of {width} s is outside of the 99.9 % band")
    return found


def as_the_machine_allows(part: dict[str, Any], origin: float) -> Times:
    """Return the starts of sessions with timers as late as a bare ``gevent.sleep`` of the same process."""
    planned = np.sort(times_of(part, origin)[2])
    if not part["stalls"]:
        return planned
    due, woke = np.array(part["stalls"]).T - origin
    last = np.searchsorted(due, planned, side="right") - 1
    return np.where((last >= 0) & (planned < woke[last]), woke[last], planned)


def wait_for_idle(within: float = 60.0) -> None:
    """Wait until the other processes of the machine leave most of it idle for 3 s; at most ``within`` seconds."""
    deadline, quiet = time.monotonic() + within, 0
    while quiet < 3 and time.monotonic() < deadline:
        quiet = quiet + 1 if psutil.cpu_percent(interval=1.0) < _IDLE_PERCENT else 0


def path(parts: list[dict[str, Any]], grid: Times, origin: float) -> Times:
    """Return the number in session at the times of the grid."""
    started, ended = (np.sort(np.concatenate([times_of(p, origin)[k] for p in parts])) for k in (0, 1))
    return np.searchsorted(started, grid, side="right") - np.searchsorted(ended, grid, side="right").astype(float)


def moments_of_n(parts: list[dict[str, Any]], law: Any, stay: Distribution, window: tuple[float, float]) -> list[float]:
    """Return the distances of mean and variance of N(t) from ``law(t) -> mean, variance``, in standard errors.

    With Z = (N - m)/sd and rho the autocorrelation of N, which is the tail of the residual session R, the variance of
    the average of Z over T is 2/T int rho = 2/T E[R]; that of Z^2 is 2/T int (2 rho^2 + rho/m), where int rho^2 =
    E[min(R, R')] and the second term is that of a Poisson law.
    """
    grid = np.arange(*window, _GRID_S)
    mean, variance = law(grid)
    users = path(parts, grid, min(part["origin"] for part in parts))
    z = (users - mean) / np.sqrt(variance)
    residual = stay.sample_residual(np.random.default_rng(1), 200_000)
    first, squared = float(residual.mean()), float(np.minimum(residual[::2], residual[1::2]).mean())
    span = window[1] - window[0]
    error_of_mean = math.sqrt(2 * first / span)
    error_of_variance = math.sqrt(2 / span * (2 * squared + first / float(np.mean(mean))))
    return [float(z.mean()) / error_of_mean, (float(np.mean(z**2)) - 1) / error_of_variance]


def assert_locust_counts_the_users(
    parts: list[dict[str, Any]], history: Path, others: int, window: tuple[float, float]
) -> None:
    """Compare Locust's history, whose numbers are up to 4 s old: reports every 3 s, a row every 1 s."""
    origin = min(part["origin"] for part in parts)
    with history.open() as lines:
        told = [(int(row["Timestamp"]) - origin, int(row["User Count"])) for row in csv.DictReader(lines)]
    seen = [(t, count) for t, count in told if window[0] + 5 < t < window[1]]
    assert len(seen) > 5
    for t, count in seen:
        lately = [path([part], np.arange(t - 5, t + 1.1, _GRID_S), origin) for part in parts]
        least, most = (sum(float(extreme(users)) for users in lately) for extreme in (np.min, np.max))
        assert least + others - 2 <= count <= most + others + 2, f"{count} at {t:.1f} s"
