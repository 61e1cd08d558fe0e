"""Arrivals of sessions in a log: rates by time of day, by day of the week and by time of the week."""

from __future__ import annotations

import math

import numpy as np

from locust_realism.common.numerics import Floats
from locust_realism.fit.fitted_document import Arrivals, DayRow, RateRow
from locust_realism.fit.log_reading import FitSettings, ReadLog
from locust_realism.fit.rates import WEEKDAYS, chosen_width, days_dispersion, folded, rates, weekday
from locust_realism.recording.launches import Int64

_HOUR_S = 3600
_Seen = tuple[Int64, Floats]


def arrivals_of(read: ReadLog, settings: FitSettings, *, early: bool) -> Arrivals:
    """Return the ``arrivals`` of the document; with ``early`` the sessions of the log's first gap count too.

    Some of these may have begun before the log: there are more than arrive, and no intervals.
    """
    days = sorted(read.requests.days)
    counts = read.sessions_later.table(days)
    start = read.early_local_s
    if early:
        counts, start = counts + read.sessions_early.table(days), read.first_local_s
    end = read.last_local_s + read.resolution_s
    observed = read.requests.observed(start, end, days)
    requests, seen = read.requests.table(days), read.requests.observed(read.first_local_s, end, days)
    width = settings.bin_s or chosen_width(counts, observed)
    tables = (counts, observed), (requests, seen)
    dispersion, degrees = days_dispersion(counts, observed, max(width, _HOUR_S))
    sessions, observed_s, rate, interval = _average(counts, observed, settings.confidence)
    found: Arrivals = {
        "sessions": sessions,
        "observed_s": observed_s,
        "mean_rate": rate,
        "mean_rate_interval": [*interval],
        "mean_request_rate": float(requests.sum() / seen.sum()) if seen.sum() else math.nan,
        "days": len(days),
        "not_recorded_s": read.silent_s,
        "bin_s": width,
        "by_time_of_day": _rows(*tables, days, width, settings, week=False),
        "by_weekday": [_day_row(n, counts, observed, days, settings) for n in sorted({int(weekday(d)) for d in days})],
        "by_time_of_week": _rows(*tables, days, _HOUR_S, settings, week=True) if len(days) > 1 else [],
        "dispersion_between_days": dispersion,
        "dispersion_degrees": degrees,
    }
    if early:
        found["mean_rate_interval"] = [None, None]
        for row in (*found["by_time_of_day"], *found["by_weekday"], *found["by_time_of_week"]):
            row["rate_interval"] = [None, None]
    return found


def _average(counts: Int64, observed: Floats, confidence: float) -> tuple[int, float, float, list[float | None]]:
    """Return arrivals, observed seconds and the rate with its interval, NaN if nothing was observed."""
    bins = rates(np.array([counts.sum()]), np.array([observed.sum()]), 1.0, confidence)
    return int(counts.sum()), float(observed.sum()), float(bins.rate[0]), [float(bins.low[0]), float(bins.high[0])]


def _rows(
    sessions: _Seen, requests: _Seen, days: list[int], width: int, settings: FitSettings, *, week: bool
) -> list[RateRow]:
    bins, asked = (
        rates(folded(n, days, width, week=week), folded(seen, days, width, week=week), width, settings.confidence)
        for n, seen in (sessions, requests)
    )
    rows = zip(bins.start, bins.counts, bins.observed, bins.rate, bins.low, bins.high, asked.rate, strict=True)
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
    """Return seconds from midnight as HH:MM, up to 168:00 within a week."""
    return f"{int(seconds) // 3600:02d}:{int(seconds) % 3600 // 60:02d}"


def _day_row(number: int, counts: Int64, observed: Floats, days: list[int], settings: FitSettings) -> DayRow:
    rows = weekday(days) == number
    n, seen, rate, interval = _average(counts[rows], observed[rows], settings.confidence)
    return {
        "day": WEEKDAYS[number],
        "days": int(rows.sum()),
        "sessions": n,
        "observed_s": seen,
        "rate": rate,
        "rate_interval": interval,
    }
