"""The part of a run that is analysed: warm-up and cool-down left out by time or by number of requests, always shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from locust_realism.analysis.settings import AnalysisSettings
from locust_realism.recording.launches import LaunchLog


def steady_rows(
    log: LaunchLog,
    settings: AnalysisSettings,
    *,
    run_start_us: int | None = None,
    window: tuple[int, int] | None = None,
    warm_up_rows: Callable[[LaunchLog], int] | None = None,
) -> slice:
    """The rows to analyse of a log in launch order, as one slice.

    Seconds count from ``run_start_us``, the first launch where not given; both ends are included, as in the published
    tables. An explicit ``window`` in epoch microseconds takes the place of every cut. ``warm_up_rows`` finds, in what
    is left, the rows to leave out when ``settings.mser5`` is set.

    >>> log = LaunchLog.build(np.arange(10) * 1_000_000, 1)
    >>> steady_rows(log, AnalysisSettings(skip_s=2, duration_s=3))
    slice(2, 6, None)
    >>> steady_rows(log, AnalysisSettings(skip_requests=5, sample_requests=3))
    slice(5, 8, None)
    """
    launches = log.launch_us
    if not len(launches):
        return slice(0, 0)
    if window is not None:
        low, high = window
        if low > high:
            raise ValueError(f"window is {window}, expected its start before its end")
        return slice(int(np.searchsorted(launches, low)), int(np.searchsorted(launches, high, side="right")))
    origin = int(launches[0]) if run_start_us is None else run_start_us
    low = origin + round(settings.skip_s * 1e6)
    high = int(launches[-1]) - round(settings.cooldown_s * 1e6)
    if settings.duration_s is not None:
        high = min(high, low + round(settings.duration_s * 1e6))
    first = int(np.searchsorted(launches, low)) + settings.skip_requests
    last = int(np.searchsorted(launches, high, side="right"))
    if settings.mser5 and warm_up_rows is not None and first < last:
        first += warm_up_rows(log.take(slice(first, last)))
    if settings.sample_requests is not None:
        last = min(last, first + settings.sample_requests)
    return slice(min(first, last), last)


def window_document(
    log: LaunchLog, rows: slice, settings: AnalysisSettings, run_start_us: int | None
) -> dict[str, Any]:
    """What was analysed and what was cut, for the ``window`` key of the summary."""
    total, n = len(log), rows.stop - rows.start
    if not total:
        return {"n": 0, "rows_total": 0, "sentence": "No request was recorded."}
    origin = int(log.launch_us[0]) if run_start_us is None else run_start_us
    document: dict[str, Any] = {
        "n": n,
        "rows_total": total,
        "cut_start": rows.start,
        "cut_end": total - rows.stop,
        "origin_us": origin,
        "skip_s": settings.skip_s,
        "cooldown_s": settings.cooldown_s,
        "skip_requests": settings.skip_requests,
        "mser5": settings.mser5,
    }
    if n:
        first, last = int(log.launch_us[rows.start]), int(log.launch_us[rows.stop - 1])
        document |= {
            "start_us": first,
            "end_us": last,
            "start_s": (first - origin) / 1e6,
            "end_s": (last - origin) / 1e6,
            "duration_s": (last - first) / 1e6,
        }
    document["sentence"] = _sentence(document)
    return document


def _sentence(document: dict[str, Any]) -> str:
    if not document["n"]:
        return f"None of {document['rows_total']:,} requests lies in the window."
    text = f"{document['n']:,} requests launched from {document['start_s']:,.1f} s to {document['end_s']:,.1f} s"
    cut = [
        f"{document[key]:,} {where}" for key, where in (("cut_start", "before"), ("cut_end", "after")) if document[key]
    ]
    return text + (f"; left out: {' and '.join(cut)}." if cut else "; nothing left out.")
