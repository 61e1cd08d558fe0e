"""What a user should know before trusting what was fitted to a log, in sentences."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from locust_realism.analysis.log_reading import FitSettings, ReadLog
from locust_realism.recording.names import OTHER

_POOR_KS = 0.05
_BEYOND = 0.01


def warnings_of(document: Mapping[str, Any], read: ReadLog, settings: FitSettings) -> list[str]:
    """The warnings for a document of ``log_fit``, the gravest first."""
    return [*_of_files(document["source"]), *_of_sessions(document, settings), *_of_times(document), *_of_names(read)]


def _of_files(source: Mapping[str, Any]) -> Iterator[str]:
    rows = source["requests"] + sum(source["left_out"].values())
    for damage in source["damage"]:
        yield f"{damage}; what comes before was used"
    if source["bad_rows"]:
        first = source["bad_lines"][0]
        where = f"{first['file']} line {first['line']}: {first['reason']}" if first["line"] else first["reason"]
        lines = "1 line" if source["bad_rows"] == 1 else f"{source['bad_rows']:,} lines"
        yield f"{lines} could not be used, the first is {where}"
    if source["late_rows"] > 0.001 * rows:
        yield (
            f"{source['late_rows']:,} lines came more than five minutes after their time; they count as later "
            "(are the files of one server, and complete?)"
        )
    if not source["left_out"].get("static files") and source["static_files"] > 0.3 * rows:
        yield (
            f"{source['static_files'] / rows:.0%} of the requests are for static files, which browsers fetch by "
            "themselves: --no-static leaves them out, so that the times between pages are seen"
        )
    if not source["left_out"].get("robots") and source["robots"] > 0.1 * rows:
        yield f"{source['robots'] / rows:.0%} of the requests are of robots: --no-bots leaves them out"


def _of_sessions(document: Mapping[str, Any], settings: FitSettings) -> Iterator[str]:
    source, arrivals = document["source"], document["arrivals"]
    if source["rows_without_visitor"]:
        share = source["rows_without_visitor"] / source["requests"]
        yield f"{share:.1%} of the requests do not tell who made them; they are in no session"
    if source["duration_s"] < 4 * settings.gap_s:
        yield (
            f"the log is shorter than four gaps of {settings.gap_s:g} s, so sessions that were under way when it began "
            "are taken for new ones"
        )
    unseen = sum(not row["observed_s"] for row in arrivals["by_time_of_day"])
    if unseen:
        share = unseen / len(arrivals["by_time_of_day"])
        yield f"the log does not cover {share:.0%} of the day; the profile holds the last rate there"
    if arrivals["not_recorded_s"]:
        yield f"{arrivals['not_recorded_s'] / 86_400:.1f} days without any request are taken as not recorded"
    dispersion, degrees = arrivals["dispersion_between_days"], arrivals["dispersion_degrees"]
    if degrees and dispersion > 1.2 and dispersion > 1 + 3 * math.sqrt(2 / degrees):
        yield (
            f"days differ more than chance explains (dispersion {dispersion:.2f}): the intervals are those of the "
            "average of these days, not of the next day"
        )


def _of_times(document: Mapping[str, Any]) -> Iterator[str]:
    thinking = document["think_times"]
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
        share = int(read.label_counts[0]) / read.rows
        most = len(read.labels.labels) - 1
        yield f"there are more than {most} different names; {share:.1%} of the requests are {OTHER.name}"
    if read.offset_changes > 20:
        yield f"the offset from UTC changes {read.offset_changes} times: give the zone with --timezone"
