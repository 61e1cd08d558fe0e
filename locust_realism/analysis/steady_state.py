"""Whether the run was steady: warm-up by MSER-5, halves and equal segments, and what a window of samples would say."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from locust_realism.analysis.percentiles import order_by_group, percentiles, sorted_percentiles
from locust_realism.analysis.responses import answered, known_responses
from locust_realism.analysis.settings import AnalysisSettings
from locust_realism.recording.launches import LaunchLog

Floats = NDArray[np.float64]
Row = dict[str, Any]

MSER_BATCH = 5
SEGMENTS = 20
"""Equal pieces of time by which the variation within a half is measured, honouring dependence in time."""
JMETER_WINDOW = 20_000
"""Samples that JMeter's dashboard keeps for its percentiles (jmeter.reportgenerator.statistic_window)."""
MIN_SEGMENT_ROWS = 50
STABLE_QUANTILES = (0.5, 0.95)
SHOWN_QUANTILES = (0.5, 0.9, 0.95, 0.99)


def mser5(values: NDArray[Any], batch: int = MSER_BATCH) -> int:
    """Number of leading values to leave out so that the mean of the rest is known best (MSER-5).

    With b the means of batches of five and d the number of batches left out, minimises
    sum_{i > d} (b_i - mean_{i > d})^2 / (k - d)^2 over d. An answer beyond half of the values says that the run never
    became steady; the last five batches are never considered. Source: K. P. White, M. J. Cobb and S. C. Spratt,
    A comparison of five steady-state truncation heuristics for simulation, Winter Simulation Conference, 2000.

    >>> rng = np.random.default_rng(3)
    >>> values = np.concatenate((np.linspace(50, 5, 200), rng.normal(5, 1, 800)))
    >>> 180 <= mser5(values) <= 220
    True
    """
    k = len(values) // batch
    if k < 10:
        return 0
    means = np.asarray(values[: k * batch], dtype=np.float64).reshape(k, batch).mean(axis=1)
    means -= means.mean()  # so that the difference of squares below keeps its digits
    left = np.arange(k, 0, -1, dtype=np.float64)
    sums = np.cumsum(means[::-1])[::-1]
    squares = np.cumsum(means[::-1] ** 2)[::-1]
    score = (squares - sums**2 / left) / left**2
    return int(np.argmin(score[: k - 5])) * batch


def warm_up_rows(log: LaunchLog) -> int:
    """Leading rows of a log in launch order that MSER-5 leaves out, by the response times that are known."""
    known = np.flatnonzero(log.response_us >= 0)
    cut = mser5(log.response_us[known])
    return int(known[cut]) if cut else 0


def relative_change(first: Floats, second: Floats) -> tuple[float, float]:
    """(second - first) / first of the means of two sets of segments, and its standard error.

    >>> relative_change(np.array([1.0, 1.0]), np.array([1.5, 1.5]))
    (0.5, 0.0)
    """
    first, second = first[np.isfinite(first)], second[np.isfinite(second)]
    if len(first) < 2 or len(second) < 2 or not first.mean():
        return math.nan, math.nan
    level = float(first.mean())
    error = math.sqrt(first.var(ddof=1) / len(first) + second.var(ddof=1) / len(second))
    return float(second.mean()) / level - 1, error / abs(level)


def stability(
    log: LaunchLog, settings: AnalysisSettings, times_us: NDArray[Any] | None = None, *, rate_dispersion: float = 1.0
) -> dict[str, Any]:
    """Halves and equal segments of a log in launch order; see docs/json.md for the keys.

    ``times_us`` are the launch times on the axis on which the rate should be constant (rescaled by the plan), the
    launch times themselves where not given. Changes are from the first half to the second, relative; their standard
    errors come from ten segments in each half. ``rate_dispersion`` is the index of dispersion that counts of launches
    in half of the run are expected to have: users that come and go make two halves differ by more than Poisson does.
    """
    times = log.launch_us if times_us is None else times_us
    n = len(log)
    if n < SEGMENTS * MIN_SEGMENT_ROWS or times[-1] <= times[0]:
        return {"enough": False, "halves": [], "segments": [], "changes": {}}
    position = (times - times[0]) * (SEGMENTS / (float(times[-1] - times[0]) * (1 + 1e-12)))
    segment = position.astype(np.int8)
    grouped = order_by_group(log.response_us, segment, SEGMENTS)
    known = [answered(grouped.group(g)) for g in range(SEGMENTS)]
    found = np.array([sorted_percentiles(each, SHOWN_QUANTILES, settings.percentile_rule) for each in known]) / 1e3
    counts = np.diff(grouped.bounds).astype(np.float64)
    means = np.array([float(each.mean()) / 1e3 if len(each) else math.nan for each in known])
    edges = np.searchsorted(segment, np.arange(SEGMENTS + 1))
    cuts = log.launch_us[np.minimum(edges, n - 1)]
    seconds = np.diff(cuts) / 1e6
    half = SEGMENTS // 2
    changes = {}
    for key, series in (("p50", found[:, 0]), ("p95", found[:, 2]), ("mean", means), ("rate", counts)):
        change, error = relative_change(series[:half], series[half:])
        if key == "rate":
            # Even launches cannot be known better than Poisson ones would be from two halves of this size.
            chance = 2 * math.sqrt(max(rate_dispersion, 1.0) / n)
            error = max(error, chance) if math.isfinite(error) else error
        changes[key] = {"change": change, "standard_error": error, "segments": half}
    segments = [
        {"start_s": float(cuts[g] - cuts[0]) / 1e6, "duration_s": float(seconds[g]), "n": int(counts[g])}
        | {"mean_ms": float(means[g])}
        | dict(zip(("p50_ms", "p90_ms", "p95_ms", "p99_ms"), found[g].tolist(), strict=True))
        for g in range(SEGMENTS)
    ]
    middle = int(edges[half])
    halves = [_piece(log.take(slice(a, b)), settings) for a, b in ((0, middle), (middle, n))]
    return {"enough": True, "halves": halves, "segments": segments, "changes": changes}


def _piece(log: LaunchLog, settings: AnalysisSettings) -> Row:
    span = int(log.launch_us[-1] - log.launch_us[0]) / 1e6 if len(log) else 0.0
    known = known_responses(log.response_us)
    found = (percentiles(known, SHOWN_QUANTILES, settings.percentile_rule) / 1e3).tolist()
    row: Row = {"n": len(log), "rate": len(log) / span if span else math.nan}
    row |= {"mean_ms": float(known.mean()) / 1e3 if len(known) else math.nan}
    return row | dict(zip(("p50_ms", "p90_ms", "p95_ms", "p99_ms"), found, strict=True))


def sample_window(log: LaunchLog, size: int = JMETER_WINDOW) -> Row | None:
    """Percentiles of the last ``size`` samples to end, by R type 6, as JMeter's dashboard shows them; None if no fewer.

    Rank (n + 1) p, between two values in proportion. A JMeter file is in order of completion.
    """
    n = len(log)
    if n <= size:
        return None
    ended = log.launch_us + log.response_us
    last = np.argpartition(ended, n - size)[n - size :]
    values = answered(np.sort(log.response_us[last]))
    n = len(values)
    if not n:
        return None
    row: Row = {"samples": size}
    for key, p in (("p50_ms", 0.5), ("p90_ms", 0.9), ("p95_ms", 0.95), ("p99_ms", 0.99)):
        row[key] = float(np.interp((n + 1) * p - 1, np.arange(n), values)) / 1e3
    return row


def sample_pieces(log: LaunchLog, settings: AnalysisSettings, size: int = JMETER_WINDOW, limit: int = 50) -> list[Row]:
    """Figures of consecutive pieces of ``size`` launches, evenly chosen ones where there are more than ``limit``."""
    pieces = len(log) // size
    if pieces < 2:
        return []
    chosen = np.unique(np.linspace(0, pieces - 1, min(limit, pieces)).astype(int))
    return [{"first_row": int(p) * size} | _piece(log.take(slice(p * size, (p + 1) * size)), settings) for p in chosen]


def steady_state(
    log: LaunchLog, settings: AnalysisSettings, times_us: NDArray[Any] | None = None, *, rate_dispersion: float = 1.0
) -> dict[str, Any]:
    """The ``steady_state`` key of the summary, of a log in launch order: stability, MSER-5 and sample windows."""
    cut = warm_up_rows(log)
    return {
        **stability(log, settings, times_us, rate_dispersion=rate_dispersion),
        "mser5_rows": cut,
        "mser5_share": cut / len(log) if len(log) else math.nan,
        "mser5_s": int(log.launch_us[cut] - log.launch_us[0]) / 1e6 if len(log) else math.nan,
        "jmeter_window": sample_window(log),
        "pieces": sample_pieces(log, settings),
    }
