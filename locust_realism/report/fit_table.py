"""What was fitted to a log, as text for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from locust_realism.report.text import MISSING_TEXT, Column, clean, display_width, number, paint, table, wrap
from locust_realism.workload.observed_rates import poisson_interval

_TIME_COLUMNS = (
    Column("what", "", text=True),
    Column("n", "n", 0),
    Column("mean", "mean"),
    Column("low", "from", drop=2),
    Column("high", "to", drop=2),
    Column("p50", "p50"),
    Column("p90", "p90"),
    Column("p95", "p95", drop=3),
    Column("p99", "p99", drop=1),
)
_FAMILY_COLUMNS = (
    Column("call", "distribution", text=True),
    Column("behind", "BIC behind", 1),
    Column("ks", "KS distance", 4),
    Column("ad", "A²", 2, drop=1),
)
_RATE_COLUMNS = (
    Column("time", "time", text=True),
    Column("sessions", "sessions", 0),
    Column("hours", "hours seen", 1, drop=2),
    Column("rate", "per hour"),
    Column("low", "from"),
    Column("high", "to"),
    Column("requests", "requests/s", drop=1),
)
_NAME_COLUMNS = (
    Column("method", "Method", text=True),
    Column("name", "Name", text=True),
    Column("n", "requests", 0),
    Column("share", "share %", 2),
    Column("low", "from", 2, drop=2),
    Column("high", "to", 2, drop=2),
    Column("failed", "failed %", 2, drop=1),
)
_MOST_BINS = 24


def call_of(distribution: Mapping[str, Any], digits: int = 4) -> str:
    """A distribution's dict as the call of a locustfile, with parameters rounded to some digits.

    >>> call_of({"kind": "lognormal", "mean": 12.34567, "cov": 1.5, "seed": None})
    'lognormal(mean=12.35, cov=1.5)'
    """
    shown = [f"{k}={v:.{digits}g}" for k, v in distribution.items() if k not in ("kind", "seed") and v is not None]
    return f"{distribution['kind']}({', '.join(shown)})"


def render_fit(document: Mapping[str, Any], *, color: bool, width: int, names: int = 20, unicode: bool = True) -> str:
    """The document of ``analysis.log_fit`` as lines of at most ``width`` columns, with the first ``names`` requests."""
    width = max(60, width)

    def head(title: str, note: str = "") -> list[str]:
        beside = note and display_width(f"{title}  {note}") <= width
        lines = ["", paint(title, "bold", color=color) + (f"  {note}" if beside else "")]
        return lines if beside else lines + wrap(note, width, indent="  ")

    def rows(columns: Sequence[Column], data: Sequence[Mapping[str, Any]]) -> list[str]:
        return table(columns, data, width=width, color=color, unicode=unicode)

    arrivals, thinking = document["arrivals"], document["think_times"]
    confidence = f"from, to: {100 * document['settings']['confidence']:g} % intervals"
    lines = [part for text in _sentences(document) for part in wrap(clean(text), width)]
    for warning in document["warnings"]:
        lines += [paint(line, "amber", color=color) for line in wrap(clean(f"! {warning}"), width)]
    lines += head("Sessions", confidence) + rows(_TIME_COLUMNS, _session_rows(document))
    lines += head("Times between the requests of a session (s)", "best first")
    lines += rows(_FAMILY_COLUMNS, [_family_row(each) for each in thinking["families"]])
    bins = hourly(arrivals["by_time_of_day"], document["settings"]["confidence"])
    lines += head("Sessions that begin, by time of day", f"{document['source']['zone']}; {confidence}")
    lines += rows(_RATE_COLUMNS, bins) if bins else []
    if len(arrivals["by_weekday"]) > 1:
        lines += head("By day of the week") + rows(_RATE_COLUMNS[:-1], [_day_row(r) for r in arrivals["by_weekday"]])
    lines += head("Requests", _left_out(document["source"]))
    lines += rows(_NAME_COLUMNS, [_name_row(row) for row in document["requests"][:names]])
    more = len(document["requests"]) - names
    if more > 0:
        lines.append(paint(f"  … and {more} more names (--names)", "dim", color=color))
    return "\n".join(lines)


def _sentences(document: Mapping[str, Any]) -> list[str]:
    source, sessions, arrivals = document["source"], document["sessions"], document["arrivals"]
    thinking = document["think_times"]
    days = f"{arrivals['days']} day{'s' * (arrivals['days'] != 1)}"
    found = (
        f"{source['requests']:,} requests from {source['start']} to {source['end']} ({days}): "
        f"{arrivals['sessions']:,} sessions began, {number(_hourly(arrivals['mean_rate']), 1)} an hour"
    )
    if sessions["concurrent"] is not None:
        found += f", {number(sessions['concurrent'], 1)} at the same time on average"
    best = thinking["best"]
    if best is None:
        return [found + "."]
    kind = "Times between requests (response times included)" if thinking["includes_response_times"] else "Think times"
    mean = best["parameters"]["mean"]
    low, high = mean["interval"] or (None, None)
    between = f" ({number(low, 3)} to {number(high, 3)})" if low is not None else ""
    fitted = (
        f"{kind}: {call_of(best['distribution'])} fits best, mean {number(mean['value'], 3)} s{between}; "
        f"its distance from the data is {best['ks']:.4f}, chance alone gives up to {thinking['ks_by_chance']:.4f}."
    )
    return [found + ".", fitted]


def _hourly(rate: float | None) -> float | None:
    return None if rate is None else 3600 * rate


def _session_rows(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    sessions, thinking = document["sessions"], document["think_times"]
    rows = []
    for what, data, mean, unit in (
        ("requests in a session", sessions, "mean_length", "_length"),
        ("duration (s)", sessions, "mean_duration_s", "_duration_s"),
        ("time between requests (s)", thinking, "mean_s", "_s"),
    ):
        interval = data[mean.replace("_s", "_interval_s") if mean.endswith("_s") else f"{mean}_interval"]
        low, high = interval or (None, None)
        quantiles = {f"p{q}": data[f"p{q}{unit}"] for q in (50, 90, 95, 99)}
        rows.append({"what": what, "n": data["n"], "mean": data[mean], "low": low, "high": high, **quantiles})
    return rows


def _family_row(family: Mapping[str, Any]) -> dict[str, Any]:
    call = call_of(family["distribution"])
    return {"call": call, "behind": family["bic_behind"], "ks": family["ks"], "ad": family["ad"]}


def hourly(rows: Sequence[Mapping[str, Any]], confidence: float) -> list[dict[str, Any]]:
    """Rows of the day for a table: those that were observed, and where there are many of them one for each hour."""
    shown = [row for row in rows if row["observed_s"]]
    width = 3600 if len(shown) > 2 * _MOST_BINS else 1
    result = []
    for _, group in groupby(shown, key=lambda row: row["start_s"] // width):
        parts = list(group)
        sessions, seen = sum(row["sessions"] for row in parts), sum(row["observed_s"] for row in parts)
        low, high = poisson_interval(sessions, confidence)
        requests = sum((row["request_rate"] or 0.0) * row["observed_s"] for row in parts)
        per_hour = 3600 / seen
        rates = {"rate": sessions * per_hour, "low": float(low) * per_hour, "high": float(high) * per_hour}
        first = {"time": parts[0]["time"], "sessions": sessions, "hours": seen / 3600}
        result.append({**first, **rates, "requests": requests / seen})
    return result


def _day_row(row: Mapping[str, Any]) -> dict[str, Any]:
    low, high = row["rate_interval"]
    return {
        "time": row["day"],
        "sessions": row["sessions"],
        "hours": row["observed_s"] / 3600,
        "rate": _hourly(row["rate"]),
        "low": _hourly(low),
        "high": _hourly(high),
    }


def _name_row(row: Mapping[str, Any]) -> dict[str, Any]:
    low, high = row["share_interval"]
    failed = 100 * row["failures"] / row["n"] if row["n"] else None
    shares = {"share": 100 * row["share"], "low": 100 * low, "high": 100 * high, "failed": failed}
    return {"method": row["method"] or MISSING_TEXT, "name": row["name"], "n": row["n"], **shares}


def _left_out(source: Mapping[str, Any]) -> str:
    parts = [f"{n:,} of {reason}" for reason, n in source["left_out"].items()]
    return f"left out: {', '.join(parts)}" if parts else ""
