"""What percentiles of a part of the samples say about all of them.

JMeter's dashboard takes its percentiles from the last ``jmeter.reportgenerator.statistic_window`` samples (20,000 by
default), and Locust rounds response times before it counts them. After M. Karunaratne and others, How to achieve better
accuracy in latency percentiles in JMeter dashboard, DZone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from locust_realism.analysis.charts import as_locust_shows
from locust_realism.analysis.jsonable import to_json_safe
from locust_realism.analysis.percentiles import percentiles
from locust_realism.analysis.responses import known_responses
from locust_realism.analysis.steady_state import JMETER_WINDOW, sample_window
from locust_realism.recording.launches import LaunchLog

Row = dict[str, Any]

QUANTILES = {"p50_ms": "0.5", "p90_ms": "0.9", "p95_ms": "0.95", "p99_ms": "0.99"}
PIECES = 3


def window_rows(log: LaunchLog, windows: Sequence[int]) -> list[Row]:
    """A row for all samples, one as Locust shows them, one for each window of the last samples, and pieces.

    Rows have ``kind`` (``exact``, ``locust``, ``window``, ``piece``), ``samples``, the mean of the samples used and
    percentiles in milliseconds. A piece is 20,000 consecutive samples in order of completion, or as many as the
    smallest window has, at the start, in the middle and at the end: what a run of that length would say. Samples
    without a response time count and have no part in the figures.

    >>> log = LaunchLog.build(range(1000), [1000] * 900 + [9000] * 100)
    >>> [(row["kind"], row["samples"], row["p95_ms"]) for row in window_rows(log, [100])]
    [('exact', 1000, 9.0), ('locust', 1000, 9.0), ('window', 100, 9.0), ('piece', 100, 1.0), ('piece', 100, 1.0), \
('piece', 100, 9.0)]
    """
    known = np.sort(known_responses(log.response_us))
    if not len(known):
        return []
    found = [
        {"kind": "exact", "samples": len(log), "from_row": 0, **_figures(log)},
        {"kind": "locust", "samples": len(log), "from_row": 0, "mean_ms": _mean_ms(known)} | as_locust_shows(known),
    ]
    for size in sorted(windows):
        row = sample_window(log, size)
        if row is not None:
            found.append({"kind": "window", "from_row": len(log) - size, **row})
    size = JMETER_WINDOW if len(log) >= PIECES * JMETER_WINDOW else min(windows)
    pieces = len(log) // size
    if pieces >= 2:
        by_end = log.take(np.argsort(log.launch_us + log.response_us, kind="stable"))
        for piece in np.unique(np.linspace(0, pieces - 1, PIECES).astype(int)).tolist():
            part = by_end.take(slice(piece * size, (piece + 1) * size))
            found.append({"kind": "piece", "samples": size, "from_row": piece * size, **_figures(part)})
    rows: list[Row] = to_json_safe(found)
    return rows


def _figures(log: LaunchLog) -> Row:
    known = known_responses(log.response_us)
    values = percentiles(known, list(QUANTILES.values())) / 1e3
    return {"mean_ms": _mean_ms(known), **dict(zip(QUANTILES, values.tolist(), strict=True))}


def _mean_ms(known: NDArray[np.int64]) -> float:
    return float(known.mean()) / 1e3 if len(known) else math.nan
