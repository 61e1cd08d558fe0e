"""Parts of a run one after the other, with limits: what the figures of the whole run hide."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from locust_realism.analysis.differences import quantile_estimate, rate_estimate
from locust_realism.analysis.responses import known_responses
from locust_realism.experiments.figures import limits
from locust_realism.recording.launches import LaunchLog

Row = dict[str, Any]

PARTS = 20
FEWEST = 40
"""Requests of a part; with fewer there are fewer parts."""
QUANTILES = {"p50_ms": "0.5", "p90_ms": "0.9", "p95_ms": "0.95"}


def part_rows(log: LaunchLog) -> list[Row]:
    """A row for each of at most 20 parts of a log in launch order, all with as many requests.

    ``start_s`` (seconds after the first launch), ``duration_s``, ``n``, and throughput a second and percentiles in
    milliseconds with 95 % limits, which come from batches within the part; None where so few requests set none.

    >>> log = LaunchLog.build(np.arange(1000) * 10_000, [1000] * 500 + [2000] * 500)
    >>> [(row["n"], row["start_s"], row["p50_ms"]) for row in part_rows(log)][::19]
    [(50, 0.0, 1.0), (50, 9.5, 2.0)]
    """
    count = min(PARTS, len(log) // FEWEST)
    if count < 2:
        return []
    edges = np.linspace(0, len(log), count + 1).astype(int).tolist()
    found = []
    for start, stop in pairwise(edges):
        part = log.take(slice(start, stop))
        end = log.launch_us[stop] if stop < len(log) else log.launch_us[-1]
        times = known_responses(part.response_us) / 1e3
        row: Row = {
            "start_s": float(part.launch_us[0] - log.launch_us[0]) / 1e6,
            "duration_s": float(end - part.launch_us[0]) / 1e6,
            "n": len(part),
            **limits("rate", rate_estimate(part.launch_us)),
        }
        for key, quantile in QUANTILES.items():
            row |= limits(key, quantile_estimate(times, quantile))
        found.append(row)
    return found
