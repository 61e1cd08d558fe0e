"""The fitted document as text for a terminal, as an offline HTML page, and its rates as CSV for ``rate_from_csv``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from locust_realism.fit.arrival_rates import clock
from locust_realism.fit.fitted_document import DayRow, FitDocument, RateRow, RequestRow, call_of
from locust_realism.fit.rates import poisson_interval
from locust_realism.report.assets import report_script
from locust_realism.report.html import offline_page
from locust_realism.report.terminal import MISSING_TEXT, Column, Screen, number

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


def render_fit(document: FitDocument, screen: Screen, *, names: int = 20) -> str:
    """Return the document of a fitted log as text, with the first ``names`` requests."""
    screen = replace(screen, width=max(60, screen.width))
    arrivals = document["arrivals"]
    confidence = f"from, to: {100 * document['settings']['confidence']:g} % intervals"
    lines = [part for text in _sentences(document) for part in screen.wrap(text)]
    for warning in document["warnings"]:
        lines += screen.wrap(f"! {warning}", "amber")
    families = [
        {"call": call_of(each["distribution"]), "behind": each["bic_behind"], "ks": each["ks"], "ad": each["ad"]}
        for each in document["think_times"]["families"]
    ]
    bins = _bins_of_day(arrivals["by_time_of_day"], document["settings"]["confidence"])
    weekdays = [_day_row(row) for row in arrivals["by_weekday"]]
    left_out = ", ".join(f"{n:,} of {reason}" for reason, n in document["source"]["left_out"].items())
    requests = [_name_row(row) for row in document["requests"][:names]]
    for title, note, columns, rows in (
        ("Sessions", confidence, _TIME_COLUMNS, _session_rows(document)),
        ("Times between the requests of a session (s)", "best first", _FAMILY_COLUMNS, families),
        ("Sessions that begin, by time of day", f"{document['source']['zone']}; {confidence}", _RATE_COLUMNS, bins),
        ("By day of the week", "", _RATE_COLUMNS[:-1], weekdays),
        ("Requests", f"left out: {left_out}" if left_out else "", _NAME_COLUMNS, requests),
    ):
        if rows is not weekdays or len(weekdays) > 1:
            lines += ["", *screen.heading(title, note), *screen.table(columns, rows)]
    more = len(document["requests"]) - names
    if more > 0:
        lines.append(screen.paint(f"  … and {more} more names (--names)", "dim"))
    return "\n".join(lines)


def _sentences(document: FitDocument) -> list[str]:
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


def _session_rows(document: FitDocument) -> list[dict[str, object]]:
    sessions, thinking = document["sessions"], document["think_times"]
    rows = []
    for what, data, interval, suffix in (
        ("requests in a session", {**sessions}, sessions["mean_length_interval"], "_length"),
        ("duration (s)", {**sessions}, sessions["mean_duration_interval_s"], "_duration_s"),
        ("time between requests (s)", {**thinking}, thinking["mean_interval_s"], "_s"),
    ):
        low, high = interval or (None, None)
        figures = {key: data[key + suffix] for key in ("mean", "p50", "p90", "p95", "p99")}
        rows.append({"what": what, "n": data["n"], "low": low, "high": high, **figures})
    return rows


def _bins_of_day(rows: Sequence[RateRow], confidence: float) -> list[dict[str, object]]:
    """Return the observed bins of the day; one for each hour if there are many."""
    shown = [row for row in rows if row["observed_s"]]
    width = 3600 if len(shown) > 2 * _MOST_BINS else 1
    result = []
    for _, group in groupby(shown, key=lambda row: row["start_s"] // width):
        parts = list(group)
        sessions, seen = sum(row["sessions"] for row in parts), sum(row["observed_s"] for row in parts)
        limits = [None, None] if parts[0]["rate_interval"][0] is None else poisson_interval(sessions, confidence)
        requests = sum(row["request_rate"] * row["observed_s"] for row in parts)
        per_hour = 3600 / seen
        low, high = (None if limit is None else float(limit) * per_hour for limit in limits)
        rates = {"rate": sessions * per_hour, "low": low, "high": high}
        first = {"time": parts[0]["time"], "sessions": sessions, "hours": seen / 3600}
        result.append({**first, **rates, "requests": requests / seen})
    return result


def _day_row(row: DayRow) -> dict[str, object]:
    rates = dict(zip(("rate", "low", "high"), map(_hourly, (row["rate"], *row["rate_interval"])), strict=True))
    return {"time": row["day"], "sessions": row["sessions"], "hours": row["observed_s"] / 3600, **rates}


def _name_row(row: RequestRow) -> dict[str, object]:
    low, high = row["share_interval"]
    failed = 100 * row["failures"] / row["n"] if row["n"] else None
    shares = {"share": 100 * row["share"], "low": 100 * low, "high": 100 * high, "failed": failed}
    return {"method": row["method"] or MISSING_TEXT, "name": row["name"], "n": row["n"], **shares}


def render_fit_page(document: FitDocument, *, title: str = "Users in a server's log") -> str:
    """Return the page of a fitted document; its names are data, never part of the markup."""
    thinking = document["think_times"]
    families = [{**each, "call": call_of(each["distribution"])} for each in thinking["families"]]
    data = {**document, "think_times": {**thinking, "families": families}, "title": title}
    return offline_page(title, data, render_fit(document, Screen(110), names=200), report_script("fit.js"))


def profile_lines(document: FitDocument, *, week: bool = False, requests: bool = False) -> list[str]:
    """Return the lines of a CSV file: time (HH:MM from midnight, or Monday's), rate per second, interval, sessions.

    ``rate`` counts sessions that begin, or with ``requests`` the requests (without an interval: they come in sessions,
    which is no Poisson process). Times that were not observed are left out. The last row is the end, with the rate of
    the row before: a profile with interpolation="step" and repeat=True is then the observed one. ValueError for a week
    if the log has one day only.
    """
    arrivals = document["arrivals"]
    rows = [row for row in arrivals["by_time_of_week" if week else "by_time_of_day"] if row["observed_s"]]
    if not rows:
        raise ValueError("a profile of the week needs a log of more than one day")
    width = 3600 if week else arrivals["bin_s"]
    start = "Monday 00:00" if week else "00:00"
    zone = " ".join(document["source"]["zone"].split())
    repeat = len(rows) * width == (7 if week else 1) * 86_400
    source = document["source"]
    lines = [
        f"# {'requests' if requests else 'sessions that begin'} per second from {start} ({zone}) on, "
        f"of the log from {source['start']} to {source['end']}",
        f'# rate_from_csv(path, interpolation="step", repeat={repeat})',
        "time,rate" + ("" if requests else ",low,high,sessions,hours_observed"),
    ]
    end: RateRow = {**rows[-1], "time": clock(rows[-1]["start_s"] + width)}
    for row in [*rows, end]:
        values = [row["request_rate"]] if requests else [row["rate"], *row["rate_interval"]]
        cells = [row["time"], *("" if value is None else f"{value:.9g}" for value in values)]
        if not requests:
            cells += [str(row["sessions"]), f"{row['observed_s'] / 3600:.6g}"]
        lines.append(",".join(cells))
    return lines
