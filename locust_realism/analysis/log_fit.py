"""The document of ``locust-realism fit``: what the requests of a log say about those who made them.

One JSON-able dict (``docs/fit.md`` describes its keys) from which the table, the page and the locustfile are made.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from locust_realism.analysis.jsonable import to_json_safe
from locust_realism.analysis.log_arrivals import arrivals_of
from locust_realism.analysis.log_reading import FitSettings, ReadLog, label_rows, read_log
from locust_realism.analysis.log_warnings import warnings_of
from locust_realism.workload.fitting import LEAST_TIMES, FamilyFit, Interval, fit_families
from locust_realism.workload.grouped import GroupedTimes, seen_below
from locust_realism.workload.visits import SessionTimes

SCHEMA_VERSION = 1
MOST_NAMES = 200
_QUANTILES = (0.5, 0.9, 0.95, 0.99)
_TABLE_SHARES = np.round(np.arange(0.005, 1.0, 0.01), 3)
_CURVE_POINTS = 80


def fit_log(
    paths: Sequence[Path], settings: FitSettings | None = None, progress: Callable[[float], None] = lambda share: None
) -> dict[str, Any]:
    """Read log files as one log and fit them; see ``docs/fit.md`` for the result.

    Raises OSError and ValueError as :func:`.log_reading.read_log`.
    """
    settings = settings or FitSettings()
    return fitted_document(read_log(paths, settings, progress), settings, [str(path) for path in paths])


def fitted_document(read: ReadLog, settings: FitSettings, files: Sequence[str] = ()) -> dict[str, Any]:
    """The document of a log that has been read."""
    span_s = (read.last_us - read.first_us) / 1e6
    whole = span_s < 4 * settings.gap_s
    sessions = read.sessions.sessions(early=whole)
    thinking = read.sessions.sessions(early=True).think_times
    document: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "source": _source(read, settings, files, span_s),
        "sessions": _sessions(read, sessions, settings.confidence),
        "arrivals": arrivals_of(read, settings, early=whole),
        "think_times": _think_times(thinking, read, settings),
        "requests": _requests(read, settings.confidence),
        "settings": asdict(settings),
    }
    duration = document["sessions"]["mean_duration_s"]
    rate = document["arrivals"]["mean_rate"]
    document["sessions"]["concurrent"] = rate * duration if rate is not None and duration is not None else None
    document["warnings"] = warnings_of(document, read, settings)
    safe: dict[str, Any] = to_json_safe(document)
    return safe


def _source(read: ReadLog, settings: FitSettings, files: Sequence[str], span_s: float) -> dict[str, Any]:
    return {
        "files": list(files),
        "format": read.format,
        "requests": read.rows,
        "left_out": dict(read.wanted.left_out),
        "static_files": read.wanted.static,
        "robots": read.wanted.bots,
        "bad_rows": read.bad_rows,
        "bad_lines": [{"file": name, "line": bad.line, "reason": bad.reason} for name, bad in read.bad_lines],
        "damage": list(read.damage),
        "late_rows": read.late,
        "rows_without_visitor": read.without_visitor,
        "start": _moment(read.first_us, read.first_local_s),
        "end": _moment(read.last_us, read.last_local_s),
        "duration_s": span_s,
        "zone": settings.timezone or _offset(read.last_local_s - read.last_us // 1_000_000),
        "resolution_s": read.resolution_s,
    }


def _moment(time_us: int, local_s: int) -> str:
    zone = timezone(timedelta(seconds=local_s - time_us // 1_000_000))
    return datetime.fromtimestamp(time_us / 1e6, UTC).astimezone(zone).isoformat(timespec="seconds")


def _offset(seconds: int) -> str:
    minutes = abs(seconds) // 60
    return f"{'-' if seconds < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"


def _interval(value: float, half: float, low: float = 0.0) -> list[float]:
    return [max(value - half, low), value + half]


def _z(confidence: float) -> float:
    from scipy.special import ndtri

    return float(ndtri((1 + confidence) / 2))


def _sessions(read: ReadLog, times: SessionTimes, confidence: float) -> dict[str, Any]:
    n = times.n
    counts = times.lengths
    mean = times.requests / n if n else math.nan
    number = np.arange(len(counts))
    variance = float(counts @ (number - mean) ** 2) / (n - 1) if n > 1 else math.nan
    # A session of one request lasts no time, and is not among the durations.
    mean_duration = times.durations.total / n if n else math.nan
    squares = times.durations.squares / n if n else math.nan
    sdev_duration = math.sqrt(max(squares - mean_duration**2, 0.0)) if n else math.nan
    z = _z(confidence)
    return {
        "n": n,
        "unfinished": read.sessions.unfinished,
        "single_share": int(counts[1]) / n if n else math.nan,
        "mean_length": mean,
        "mean_length_interval": _interval(mean, z * math.sqrt(variance / n), 1.0) if n > 1 else None,
        "length_cov": math.sqrt(variance) / mean if n > 1 else math.nan,
        **{f"p{q * 100:g}_length": _count_quantile(counts, q) for q in _QUANTILES},
        "length_permille": _permille(counts),
        "mean_duration_s": mean_duration,
        "mean_duration_interval_s": _interval(mean_duration, z * sdev_duration / math.sqrt(n)) if n > 1 else None,
        **{f"p{q * 100:g}_duration_s": _duration_quantile(times, q) for q in _QUANTILES},
    }


def _count_quantile(counts: NDArray[np.int64], q: float) -> int | None:
    n = int(counts.sum())
    return int(np.searchsorted(np.cumsum(counts), math.ceil(q * n - 1e-9))) if n else None


def _permille(counts: NDArray[np.int64]) -> list[list[int]]:
    """The distribution as pairs (requests, thousandths of the sessions), by the middles of the thousandths."""
    n = int(counts.sum())
    if not n:
        return []
    values = np.searchsorted(np.cumsum(counts), (np.arange(1000) + 0.5) / 1000 * n, side="right")
    found, times = np.unique(values, return_counts=True)
    return [[int(value), int(count)] for value, count in zip(found, times, strict=True)]


def _duration_quantile(times: SessionTimes, q: float) -> float:
    """Quantile of the duration of all sessions, those of one request (0 s) included."""
    if not times.n:
        return math.nan
    longer = times.durations.n / times.n
    return float(times.durations.quantile([(q - (1 - longer)) / longer])[0]) if q > 1 - longer else 0.0


def _think_times(times: GroupedTimes, read: ReadLog, settings: FitSettings) -> dict[str, Any]:
    shares = times.quantile(_TABLE_SHARES)
    half = _z(settings.confidence) * times.sdev / math.sqrt(times.n) if times.n > 1 else math.nan
    result: dict[str, Any] = {
        "n": times.n,
        "includes_response_times": not read.answers_known,
        "mean_s": times.mean,
        "mean_interval_s": _interval(times.mean, half) if times.n > 1 else None,
        "cov": times.sdev / times.mean if times.total else math.nan,
        **{f"p{q * 100:g}_s": float(times.quantile([q])[0]) for q in _QUANTILES},
        "longest_s": settings.gap_s,
        "quantiles": [[float(q), float(t)] for q, t in zip(_TABLE_SHARES, shares, strict=True)] if times.n else [],
        "best": None,
        "families": [],
        "curves": None,
        "reason": "",
    }
    if times.n < LEAST_TIMES or times.total == 0:
        few = f"{times.n} times between requests of a session, a fit needs {LEAST_TIMES}"
        result["reason"] = few if times.n < LEAST_TIMES else "all requests of a session are in the same clock tick"
        return result
    fits = fit_families(times, confidence=settings.confidence)
    result["families"] = [_family(fit, fits[0]) for fit in fits]
    result["best"] = result["families"][0]
    result["ks_by_chance"] = 1.358 / math.sqrt(times.n)
    result["curves"] = _curves(times, fits)
    return result


def _family(fit: FamilyFit, best: FamilyFit) -> dict[str, Any]:
    def shown(value: Interval) -> dict[str, Any]:
        known = math.isfinite(value.low)
        return {"value": value.value, "interval": [value.low, value.high] if known else None}

    return {
        "family": fit.distribution.kind,
        "distribution": fit.distribution.to_dict(),
        "parameters": {name: shown(value) for name, value in fit.parameters.items()},
        "log_likelihood": fit.log_likelihood,
        "bic": fit.bic,
        "bic_behind": fit.bic - best.bic,
        "ks": fit.ks,
        "ad": fit.ad,
        "beyond_gap": fit.beyond,
    }


def _curves(times: GroupedTimes, fits: Sequence[FamilyFit]) -> dict[str, Any]:
    """Share of the times that are longer, seen and fitted, at up to 80 times: for the chart."""
    used = np.flatnonzero(times.counts)
    last = float(times.edges[used[-1] + 1])
    first = max(float(times.edges[used[0] + 1]), times.resolution)
    wanted = np.unique(np.searchsorted(times.edges, np.geomspace(first, last, _CURVE_POINTS)))
    at = times.edges[np.minimum(wanted, len(times.edges) - 1)]
    longer = 1 - times.shares_below()[np.searchsorted(times.edges, at)]
    curves = {}
    for fit in fits:
        below = seen_below(fit.distribution._cdf, np.append(at, times.edges[-1]), times.resolution)
        curves[fit.distribution.kind] = 1 - below[:-1] / below[-1]
    return {"t_s": at, "observed": longer, "families": curves}


def _requests(read: ReadLog, confidence: float) -> list[dict[str, Any]]:
    z = _z(confidence)
    rows = []
    for label, n, failures, examples in label_rows(read)[:MOST_NAMES]:
        low, high = _wilson(n, read.rows, z)
        rows.append(
            {
                "method": label.method,
                "name": label.name,
                "n": n,
                "share": n / read.rows,
                "share_interval": [low, high],
                "failures": failures,
                "examples": examples,
            }
        )
    return rows


def _wilson(n: int, total: int, z: float) -> tuple[float, float]:
    """Interval of a share, by E. B. Wilson, Journal of the American Statistical Association 22, 1927."""
    share, extra = n / total, z * z / total
    middle = (share + extra / 2) / (1 + extra)
    half = z / (1 + extra) * math.sqrt(share * (1 - share) / total + extra / (4 * total))
    return max(middle - half, 0.0), min(middle + half, 1.0)
