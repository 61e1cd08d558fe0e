"""The arrival rates of a log as a CSV file for ``rate_from_csv``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def profile_lines(document: Mapping[str, Any], *, week: bool = False, requests: bool = False) -> list[str]:
    """Lines of a CSV file: time (HH:MM from midnight, or from Monday's), rate per second, its interval, sessions.

    ``rate`` is that of sessions that begin, or with ``requests`` of requests (which has no interval: they come in
    sessions, so they are no Poisson process). Times that were not observed are left out. The last row is the end, with
    the rate of the row before, so that a profile with interpolation="step" and repeat=True is the observed one.
    Raises ValueError for a week where the log has one day only.
    """
    arrivals = document["arrivals"]
    rows = [row for row in arrivals["by_time_of_week" if week else "by_time_of_day"] if row["observed_s"]]
    if not rows:
        raise ValueError("a profile of the week needs a log of more than one day")
    width = 3600 if week else arrivals["bin_s"]
    start = "Monday 00:00" if week else "00:00"
    repeat = len(rows) * width == (7 if week else 1) * 86_400
    source = document["source"]
    lines = [
        f"# {'requests' if requests else 'sessions that begin'} per second from {start} ({_plain(source['zone'])}) on, "
        f"of the log from {source['start']} to {source['end']}",
        f'# rate_from_csv(path, interpolation="step", repeat={repeat})',
        "time,rate" + ("" if requests else ",low,high,sessions,hours_observed"),
    ]
    last = rows[-1]
    for row in [*rows, {**last, "time": _end(last["start_s"] + width)}]:
        values = [row["request_rate"]] if requests else [row["rate"], *row["rate_interval"]]
        cells = [row["time"], *(f"{value:.9g}" for value in values)]
        if not requests:
            cells += [str(row["sessions"]), f"{row['observed_s'] / 3600:.6g}"]
        lines.append(",".join(cells))
    return lines


def _end(seconds: float) -> str:
    return f"{int(seconds) // 3600:02d}:{int(seconds) % 3600 // 60:02d}"


def _plain(text: str) -> str:
    return " ".join(text.split())
