"""The figures of a run, each with limits that honour that response times depend on their neighbours."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from locust_realism.analysis.differences import (
    Estimate,
    mean_estimate,
    quantile_estimate,
    rate_estimate,
    share_estimate,
)
from locust_realism.analysis.responses import known_responses, response_table
from locust_realism.analysis.settings import AnalysisSettings, VerdictBounds
from locust_realism.recording.launches import LaunchLog

Row = dict[str, Any]

QUANTILES = {"p50_ms": "0.5", "p90_ms": "0.9", "p95_ms": "0.95", "p99_ms": "0.99", "p999_ms": "0.999"}
ESTIMATED = ("rate", "mean_ms", *QUANTILES, "failed_share", "launch_cov", "response_share")
"""Figures that have ``_low`` and ``_high`` beside them, 95 % confidence limits; None where the data sets none."""

WHOLE = 0.8
"""The share of a run's launches from which on what is judged counts as the run."""

BINS_PER_DECADE = 40
FIRST_DECADE, LAST_DECADE = -3, 6
"""Bins of response times run from a microsecond to a thousand seconds, in milliseconds."""


def bin_edges() -> NDArray[np.float64]:
    """Edges of the bins of ``response_bins`` in milliseconds, 40 equal steps a factor of ten; shape (361,)."""
    steps = (LAST_DECADE - FIRST_DECADE) * BINS_PER_DECADE
    edges: NDArray[np.float64] = 10.0 ** (FIRST_DECADE + np.arange(steps + 1) / BINS_PER_DECADE)
    return edges


def bin_counts(response_us: NDArray[np.int64]) -> list[int]:
    """How many response times lie in each bin; what lies outside counts in the first or the last."""
    edges = bin_edges()
    counts, _ = np.histogram(np.clip(response_us / 1e3, edges[0], edges[-1] * (1 - 1e-9)), edges)
    found: list[int] = counts.tolist()
    return found


def chosen_launches(log: LaunchLog, name: str) -> LaunchLog:
    """The launches of one name (``GET file`` or ``file``), all where it is empty; ValueError where there are none."""
    if not name:
        return log
    codes = [i for i, label in enumerate(log.labels) if name in (label.name, f"{label.method} {label.name}")]
    rows = np.isin(log.label, codes)
    if not rows.any():
        names = ", ".join(sorted({f"{label.method} {label.name}".strip() for label in log.labels}))
        raise ValueError(f"figures_of is {name!r}, expected one of {names}")
    return log.take(rows)


def response_figures(log: LaunchLog) -> Row:
    """Response times in milliseconds of launches in launch order: moments, exact percentiles, limits, bins."""
    table = response_table(log, AnalysisSettings(max_names=1))[-1]
    keys = ("n", "failures", "mean_ms", "sdev_ms", "cov", *QUANTILES, "max_ms")
    times = known_responses(log.response_us) / 1e3
    ordered = np.sort(times)
    found = {key: table[key] for key in keys}
    found |= limits("mean_ms", mean_estimate(times))
    for key, quantile in QUANTILES.items():
        found |= limits(key, quantile_estimate(times, quantile, ordered=ordered))
    failed = share_estimate(log.failed)
    return found | limits("failed_share", failed) | {"response_bins": bin_counts(known_responses(log.response_us))}


def load_figures(log: LaunchLog, summary: Row) -> Row:
    """Throughput, CoV of the launches and R / (R + Z) of all launches of a run, in launch order.

    The limits of CoV are those of independent gaps, sdev 1 / sqrt(n); those of R / (R + Z) come from the mean response
    time, Z being what was measured. Both are judged while all users run: where that is a part of the run (it adds
    users slowly), CoV has the limits of that part and the ratio none, and neither is told of fewer gaps than a verdict
    takes, in which only short think times find room.
    """
    pattern, judged = summary["pattern"], summary["window"].get("judged", len(log))
    enough = judged > VerdictBounds().min_gaps
    found = limits("rate", rate_estimate(log.launch_us))
    cov = pattern["cov"] if enough else None
    half = 1.96 / math.sqrt(max(judged - 1, 1))
    found |= limits("launch_cov", Estimate(math.nan if cov is None else cov, *_around(cov, half), judged))
    share, think = pattern["response_share"] if enough else None, pattern["think_mean_s"]
    if share is None or not think or judged < WHOLE * len(log):
        return found | limits(
            "response_share", Estimate(share if share is not None else math.nan, -math.inf, math.inf, 0)
        )
    mean = mean_estimate(known_responses(log.response_us) / 1e6)
    low, high = (
        max(limit, 0.0) / (max(limit, 0.0) + think) if math.isfinite(limit) else limit
        for limit in (mean.low, mean.high)
    )
    return found | limits("response_share", Estimate(share, min(low, share), max(high, share), len(log)))


def _around(value: float | None, half: float) -> tuple[float, float]:
    return (-math.inf, math.inf) if value is None else (value - half, value + half)


def limits(key: str, estimate: Estimate) -> Row:
    """A figure and its limits under their names; what is not finite is None.

    >>> limits("rate", Estimate(5.0, 4.0, math.inf, 100))
    {'rate': 5.0, 'rate_low': 4.0, 'rate_high': None}
    """
    values = (estimate.value, estimate.low, estimate.high)
    return {
        name: float(value) if math.isfinite(value) else None
        for name, value in zip((key, f"{key}_low", f"{key}_high"), values, strict=True)
    }


def estimate_of(row: Row, key: str) -> Estimate | None:
    """The inverse of :func:`limits`: None where the row has no such figure."""
    value = row.get(key)
    if value is None:
        return None
    low, high = row.get(f"{key}_low"), row.get(f"{key}_high")
    return Estimate(value, -math.inf if low is None else low, math.inf if high is None else high, row.get("n") or 0)
