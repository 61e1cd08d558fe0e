"""The document of ``locust-realism fit``: arrivals, sessions, think times and requests of a log, and warnings.

Table, page and locustfile are made from this one document; ``docs/fit.md`` describes its keys.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from locust_realism.analysis.stats.batches import student
from locust_realism.analysis.stats.estimates import wilson_limits
from locust_realism.analysis.stats.survival import Survival
from locust_realism.common.json import to_json_safe
from locust_realism.fit.arrival_rates import arrivals_of
from locust_realism.fit.family_fits import LEAST_TIMES, FamilyFit, fit_families
from locust_realism.fit.fitted_document import (
    Arrivals,
    Estimate,
    Family,
    FitDocument,
    RequestRow,
    Sessions,
    Source,
    ThinkTimes,
)
from locust_realism.fit.log_reading import FitSettings, ReadLog, label_rows, read_log
from locust_realism.fit.names import OTHER
from locust_realism.fit.rates import days_differ
from locust_realism.fit.visits import GroupedTimes, SessionTimes, seen_below

_POOR_KS = 0.05
_BEYOND = 0.01
_UNSEEN = 0.01
"""Greatest share of the sessions without a seen end for which p99 and the CoV of the lengths are given."""
LEAST_GAPS = 4
"""Gaps of the shortest log whose sessions have lengths: its first and its last one show none."""
_AGES = 1.5
"""Longest age of a session in the log over the time that shows it: few sessions are as old as the log."""


def _of_source(source: Source, settings: FitSettings) -> Iterator[str]:
    rows = source["requests"] + sum(source["left_out"].values())
    yield from (f"{damage}; the lines before it were used" for damage in source["damage"])
    if source["bad_rows"]:
        first = source["bad_lines"][0]
        where = f"{first['file']} line {first['line']}: {first['reason']}" if first["line"] else first["reason"]
        lines = "1 line" if source["bad_rows"] == 1 else f"{source['bad_rows']:,} lines"
        yield f"{lines} could not be read, the first is {where}"
    if source["late_rows"] > 0.001 * rows:
        yield (
            f"{source['late_rows']:,} lines came more than five minutes after their time; they count as later: "
            "check that the files are complete and of one server"
        )
    if not source["left_out"].get("static files") and source["static_files"] > 0.3 * rows:
        yield (
            f"{source['static_files'] / rows:.0%} of the requests are for static files, which browsers fetch by "
            "themselves: --no-static leaves them out and shows the times between pages"
        )
    if not source["left_out"].get("robots") and source["robots"] > 0.1 * rows:
        yield f"{source['robots'] / rows:.0%} of the requests are of robots: --no-bots leaves them out"
    if source["rows_without_visitor"]:
        share = source["rows_without_visitor"] / source["requests"]
        yield f"{share:.1%} of the requests have no known visitor; they are in no session"


def _of_arrivals(arrivals: Arrivals, gap_s: float) -> Iterator[str]:
    if arrivals["mean_rate_interval"][0] is None:
        yield (
            f"the log is shorter than two gaps of {gap_s:g} s, so sessions under way at its start count as new: the "
            f"rates of sessions are too high and have no intervals; {2 * gap_s / 3600:.3g} h of log or a shorter --gap "
            "would give them"
        )
    unseen = np.mean([not row["observed_s"] for row in arrivals["by_time_of_day"]])
    if unseen:
        yield f"the log does not cover {unseen:.0%} of the day; the profile holds the last rate there"
    if arrivals["not_recorded_s"]:
        yield f"{arrivals['not_recorded_s'] / 86_400:.1f} days without any request count as not recorded"
    dispersion, degrees = arrivals["dispersion_between_days"], arrivals["dispersion_degrees"]
    if days_differ(dispersion, degrees):
        yield (
            f"days differ more than chance explains (dispersion {dispersion:.2f}): the intervals are those of the "
            "average of these days, not of the next day"
        )


def _of_sessions(sessions: Sessions, span_s: float, gap_s: float) -> Iterator[str]:
    share, mean = sessions["unseen_share"], sessions["mean_duration_s"]
    if span_s < LEAST_GAPS * gap_s:
        yield (
            f"the log is shorter than four gaps of {gap_s:g} s, so its ends cut too many sessions and their lengths "
            f"are unknown: {LEAST_GAPS * gap_s / 3600:.3g} h of log or a shorter --gap would show them"
        )
    elif mean is None or share is None:
        yield (
            "no session begins and ends between the log's first gap and its last one, so the lengths of sessions are "
            f"unknown: try twice as much log ({2 * span_s / 3600:.3g} h) or a shorter --gap"
        )
    elif share > _UNSEEN:
        # An exponential tail comes down to the share after this time, and some sessions must be as old as that.
        needed_h = (2 * gap_s + _AGES * mean * -math.log(_UNSEEN)) / 3600
        yield (
            f"the log ends before {share:.0%} of the sessions: their mean holds if the rate of arrivals is steady, and "
            f"the length that {_UNSEEN:.0%} of them exceed is unknown; about {math.ceil(needed_h)} h of log would show "
            "it"
        )


def _of_times(thinking: ThinkTimes) -> Iterator[str]:
    best = thinking["best"]
    if best is None:
        yield f"no distribution was fitted to the think times: {thinking['reason']}"
        return
    if best["ks"] > _POOR_KS and best["ks"] > 2 * thinking["ks_by_chance"]:
        yield (
            f"no family fits the times between requests well (the best, {best['family']}, is off by "
            f"{best['ks']:.3f}): the locustfile draws them from the observed ones"
        )
    if best["beyond_gap"] > _BEYOND:
        yield (
            f"{best['beyond_gap']:.1%} of the fitted think times would be longer than the gap that ends a session; "
            "try a longer --gap"
        )


def _of_names(read: ReadLog) -> Iterator[str]:
    if read.label_counts[0] and read.labels.labels[0] == OTHER:
        most, share = len(read.labels.labels) - 1, read.label_counts[0] / read.rows
        yield f"there are more than {most} different names; {share:.1%} of the requests are {OTHER.name}"
    if read.offset_changes > 20:
        yield f"the offset from UTC changes {read.offset_changes} times: give the zone with --timezone"


SCHEMA_VERSION = 1
MOST_NAMES = 200
_QUANTILES = (0.5, 0.9, 0.95, 0.99)
_TABLE_SHARES = np.round(np.arange(0.005, 1.0, 0.01), 3)
_CURVE_POINTS = 80


def fit_log(
    paths: Sequence[Path], settings: FitSettings | None = None, progress: Callable[[float], None] = lambda share: None
) -> FitDocument:
    """Read log files as one log and fit them; see ``docs/fit.md`` for the result.

    Raises OSError and ValueError as :func:`.log_reading.read_log`.
    """
    settings = settings or FitSettings()
    read = read_log(paths, settings, progress)
    span_s = (read.last_us - read.first_us) / 1e6
    window = read.sessions.sessions()
    known = span_s >= LEAST_GAPS * settings.gap_s and math.isfinite(window.mean_duration.estimate()[0])
    times = window if known else read.sessions.sessions(early=True)
    document: FitDocument = to_json_safe(
        {
            "schema_version": SCHEMA_VERSION,
            "source": _source(read, settings, [str(path) for path in paths], span_s),
            "sessions": sessions_of(times, settings.confidence, known=known),
            "arrivals": arrivals_of(read, settings, early=span_s < 2 * settings.gap_s),
            "think_times": _think_times(read.sessions.think_times, read, settings),
            "requests": _requests(read, settings.confidence),
            "settings": asdict(settings),
            "warnings": [],
        }
    )
    duration, rate = document["sessions"]["mean_duration_s"], document["arrivals"]["mean_rate"]
    document["sessions"]["concurrent"] = rate * duration if rate is not None and duration is not None else None
    document["warnings"] = [
        *_of_source(document["source"], settings),
        *_of_arrivals(document["arrivals"], settings.gap_s),
        *_of_sessions(document["sessions"], span_s, settings.gap_s),
        *_of_times(document["think_times"]),
        *_of_names(read),
    ]
    return document


def _source(read: ReadLog, settings: FitSettings, files: list[str], span_s: float) -> Source:
    return {
        "files": files,
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
        "zone": settings.timezone or _moment(read.last_us, read.last_local_s)[-6:],
        "resolution_s": read.resolution_s,
    }


def _moment(time_us: int, local_s: int) -> str:
    zone = timezone(timedelta(seconds=local_s - time_us // 1_000_000))
    return datetime.fromtimestamp(time_us / 1e6, UTC).astimezone(zone).isoformat(timespec="seconds")


def _interval(value: float, half: float, low: float = 0.0) -> list[float]:
    return [max(value - half, low), value + half]


def sessions_of(times: SessionTimes, confidence: float, *, known: bool = True) -> dict[str, object]:
    """Return the ``sessions`` of the document; unless ``known`` only what was seen of them, cut by the log's ends."""
    lengths, durations = times.lengths, times.durations
    found: dict[str, object] = {**dict.fromkeys(Sessions.__annotations__), "n": times.n, "unfinished": times.unfinished}
    mean = math.nan
    if known:
        (mean, error), (mean_s, error_s) = (each.estimate() for each in (times.mean_length, times.mean_duration))
    completed = _completed(lengths, mean)
    found["length_permille"] = np.stack(np.unique(completed, return_counts=True), axis=1).tolist() if times.n else []
    if not known:
        return found
    z = student(confidence, math.inf)
    return {
        **found,
        "unseen_share": lengths.unseen,
        "single_share": 1 - float(lengths.longer[0]) if times.n else math.nan,
        "mean_length": mean,
        "mean_length_interval": _interval(mean, z * error, 1.0) if math.isfinite(error) else None,
        "length_cov": float(completed.std() / completed.mean()) if lengths.unseen <= _UNSEEN else math.nan,
        **{f"p{q * 100:g}_length": _whole_number(lengths.quantile(q)) for q in _QUANTILES},
        "mean_duration_s": mean_s,
        "mean_duration_interval_s": _interval(mean_s, z * error_s) if math.isfinite(error_s) else None,
        **{f"p{q * 100:g}_duration_s": durations.quantile(q) for q in _QUANTILES},
    }


def _whole_number(value: float) -> int | None:
    return round(value) if math.isfinite(value) else None


def _completed(lengths: Survival, mean: float) -> NDArray[np.int64]:
    """Return a thousand session lengths, by the middles of the thousandths of the sessions.

    Beyond the curve's end they are exponential, so that all have the mean; equal to the last one if it is longer.
    """
    shares = (np.arange(1000) + 0.5) / 1000
    seen = shares <= 1 - lengths.unseen
    values = np.full(1000, max(np.nan_to_num(lengths.last), 1.0))
    values[seen] = lengths.values[np.searchsorted(1 - lengths.longer, shares[seen], side="left")]
    if lengths.unseen and mean > lengths.mean:
        rest = (mean - lengths.mean) / lengths.unseen
        values[~seen] += np.rint(-rest * np.log((1 - shares[~seen]) / lengths.unseen))
    return values.astype(np.int64)


def mean_interval(times: GroupedTimes, confidence: float) -> list[float] | None:
    """Return the interval of the mean of independent times in seconds, None for fewer than two."""
    if times.n < 2:
        return None
    return _interval(times.mean, student(confidence, math.inf) * times.stddev / math.sqrt(times.n))


def _think_times(times: GroupedTimes, read: ReadLog, settings: FitSettings) -> dict[str, object]:
    shares = times.quantile(_TABLE_SHARES)
    result: dict[str, object] = {
        "n": times.n,
        "includes_response_times": not read.answers_known,
        "mean_s": times.mean,
        "mean_interval_s": mean_interval(times, settings.confidence),
        "cov": times.stddev / times.mean if times.total else math.nan,
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
    families = [_family(fit, fits[0]) for fit in fits]
    chance = fits[0].ks_by_chance(times.n)
    return {**result, "families": families, "best": families[0], "curves": _curves(times, fits), "ks_by_chance": chance}


def _family(fit: FamilyFit, best: FamilyFit) -> Family:
    parameters: dict[str, Estimate] = {
        name: {"value": found.value, "interval": [found.low, found.high] if math.isfinite(found.low) else None}
        for name, found in fit.parameters.items()
    }
    return {
        "family": fit.distribution.kind,
        "distribution": fit.distribution.to_dict(),
        "parameters": parameters,
        "log_likelihood": fit.log_likelihood,
        "bic": fit.bic,
        "bic_behind": fit.bic - best.bic,
        "ks": fit.ks,
        "ad": fit.ad,
        "beyond_gap": fit.beyond,
    }


def _curves(times: GroupedTimes, fits: Sequence[FamilyFit]) -> dict[str, object]:
    """Return the share of longer times, seen and fitted, at up to 80 times: for the chart."""
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


def _requests(read: ReadLog, confidence: float) -> list[RequestRow]:
    z = student(confidence, math.inf)
    return [
        {
            "method": label.method,
            "name": label.name,
            "n": n,
            "share": n / read.rows,
            "share_interval": [*wilson_limits(n / read.rows, read.rows, z)],
            "failures": failures,
            "examples": examples,
        }
        for label, n, failures, examples in label_rows(read)[:MOST_NAMES]
    ]
