"""The arrivals of sessions in a log: rates by time of day, by day of the week and by time of the week."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from locust_realism.analysis.log_reading import FitSettings, ReadLog
from locust_realism.workload.observed_rates import (
    WEEKDAYS,
    RateBins,
    chosen_width,
    days_dispersion,
    folded,
    rates,
    weekday,
)
from locust_realism.workload.solve import Floats

_HOUR_S = 3600


def arrivals_of(read: ReadLog, settings: FitSettings, *, early: bool) -> dict[str, Any]:
    """The ``arrivals`` of the document; with ``early`` the sessions of the log's first gap count too."""
    days = sorted(read.requests.days)
    counts = read.sessions_later.table(days)
    start = read.early_local_s
    if early:
        counts, start = counts + read.sessions_early.table(days), read.first_local_s
    end = read.last_local_s + read.resolution_s
    observed = read.requests.observed(start, end, days)
    requests, seen = read.requests.table(days), read.requests.observed(read.first_local_s, end, days)
    width = settings.bin_s or chosen_width(counts, observed)
    day = _rates(counts, observed, days, width, settings, week=False)
    week = _rates(counts, observed, days, _HOUR_S, settings, week=True)
    by_request = _rates(requests, seen, days, width, settings, week=False)
    by_request_week = _rates(requests, seen, days, _HOUR_S, settings, week=True)
    dispersion, degrees = days_dispersion(counts, observed, max(width, _HOUR_S))
    per_day = [_day_row(i, counts, observed, days, settings) for i in sorted({int(weekday(d)) for d in days})]
    total = rates(counts.sum(keepdims=True)[0], observed.sum(keepdims=True)[0], 1.0, settings.confidence)
    return {
        "sessions": int(counts.sum()),
        "observed_s": float(observed.sum()),
        "mean_rate": float(total.rate[0]),
        "mean_rate_interval": [float(total.low[0]), float(total.high[0])],
        "mean_request_rate": float(requests.sum() / seen.sum()) if seen.sum() else math.nan,
        "days": len(days),
        "not_recorded_s": read.silent_s,
        "bin_s": width,
        "by_time_of_day": _rows(day, by_request),
        "by_weekday": per_day,
        "by_time_of_week": _rows(week, by_request_week) if len(days) > 1 else [],
        "dispersion_between_days": dispersion,
        "dispersion_degrees": degrees,
    }


def _rates(
    counts: NDArray[np.int64], observed: Floats, days: list[int], width: int, settings: FitSettings, *, week: bool
) -> RateBins:
    return rates(
        folded(counts, days, width, week=week), folded(observed, days, width, week=week), width, settings.confidence
    )


def _rows(bins: RateBins, requests: RateBins) -> list[dict[str, Any]]:
    rows = zip(bins.start, bins.counts, bins.observed, bins.rate, bins.low, bins.high, requests.rate, strict=True)
    return [
        {
            "time": clock(start),
            "start_s": start,
            "sessions": int(n),
            "observed_s": seen,
            "rate": rate,
            "rate_interval": [low, high],
            "request_rate": request_rate,
        }
        for start, n, seen, rate, low, high, request_rate in rows
    ]


def clock(seconds: float) -> str:
    """Seconds from midnight as HH:MM, up to 168:00 within a week."""
    return f"{int(seconds) // 3600:02d}:{int(seconds) % 3600 // 60:02d}"


def _day_row(
    number: int, counts: NDArray[np.int64], observed: Floats, days: list[int], settings: FitSettings
) -> dict[str, Any]:
    rows = weekday(days) == number
    n, seen = counts[rows].sum(), observed[rows].sum()
    bins = rates(np.array([n]), np.array([seen]), 86_400.0, settings.confidence)
    return {
        "day": WEEKDAYS[number],
        "days": int(rows.sum()),
        "sessions": int(n),
        "observed_s": float(seen),
        "rate": float(bins.rate[0]),
        "rate_interval": [float(bins.low[0]), float(bins.high[0])],
    }
