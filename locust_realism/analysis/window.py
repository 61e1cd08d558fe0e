"""The part of a run that is analysed: warm-up and cool-down left out by time or by number of requests, always shown."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from locust_realism.analysis.settings import AnalysisSettings
from locust_realism.recording.launches import LaunchLog
from locust_realism.recording.slices import Slice


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


@dataclass(frozen=True)
class Cut:
    """The part that :func:`steady_rows` takes, of launches in order that come in pieces."""

    low: int
    high: int
    skip: int = 0
    sample: int | None = None

    def of(self, pieces: Iterator[Slice]) -> Iterator[tuple[int, Slice]]:
        """Of consecutive pieces what lies within, each with the number of rows before it."""
        before = reached = 0
        for piece in pieces:
            first = int(np.searchsorted(piece.launch_us, self.low))
            last = int(np.searchsorted(piece.launch_us, self.high, side="right"))
            start = first + min(max(self.skip - reached, 0), last - first)
            end = last
            if self.sample is not None:
                end = min(last, max(first + self.skip + self.sample - reached, start))
            reached += last - first
            if start < end:
                yield before + start, piece.take(slice(start, end))
            before += len(piece)


def window_document(
    log: LaunchLog, rows: slice, settings: AnalysisSettings, run_start_us: int | None
) -> dict[str, Any]:
    """What was analysed and what was cut, for the ``window`` key of the summary."""
    total, n = len(log), rows.stop - rows.start
    if not total:
        return {"n": 0, "rows_total": 0, "sentence": "No request was recorded."}
    origin = int(log.launch_us[0]) if run_start_us is None else run_start_us
    span = (int(log.launch_us[rows.start]), int(log.launch_us[rows.stop - 1])) if n else None
    return window_figures(total, rows, span, settings, origin)


def window_figures(
    total: int, rows: slice, span: tuple[int, int] | None, settings: AnalysisSettings, origin_us: int
) -> dict[str, Any]:
    """The same of ``total`` rows, one at least, of which ``rows`` in launch order were analysed.

    ``span`` are the first and the last launch analysed, ``origin_us`` zero of the seconds, in epoch microseconds.
    """
    document: dict[str, Any] = {
        "n": rows.stop - rows.start,
        "rows_total": total,
        "cut_start": rows.start,
        "cut_end": total - rows.stop,
        "origin_us": origin_us,
        "skip_s": settings.skip_s,
        "cooldown_s": settings.cooldown_s,
        "skip_requests": settings.skip_requests,
        "mser5": settings.mser5,
    }
    if span is not None:
        first, last = span
        document |= {
            "start_us": first,
            "end_us": last,
            "start_s": (first - origin_us) / 1e6,
            "end_s": (last - origin_us) / 1e6,
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


def with_untrimmed(document: dict[str, Any], untrimmed: dict[str, Any]) -> dict[str, Any]:
    """The window's document with the figures of every launch beside, in its sentence too: what the cut changed."""
    shown = {key: f"{value:,.4g}" if math.isfinite(value) else "-" for key, value in untrimmed.items()}
    text = (
        f" With all of them the CoV is {shown['cov']} at {shown['rate']} launches/s, and p50, p95 and p99 of the "
        f"response times are {shown['response_p50_ms']}, {shown['response_p95_ms']} and {shown['response_p99_ms']} ms."
    )
    return document | {"untrimmed": untrimmed, "sentence": document["sentence"] + text}


Held = tuple[int | None, int | None]


def held_rows(log: LaunchLog, held: Held | None) -> slice:
    """The rows of a log in launch order that were launched while the whole load was held; all where nobody knows.

    ``held`` is (all users had been started, users were told to stop) in epoch microseconds, each None when it has not
    come yet. While users are still being started no row is held.

    >>> log = LaunchLog.build(np.arange(10) * 1_000_000, 1)
    >>> held_rows(log, (2_000_000, 7_500_000)), held_rows(log, (2_000_000, None)), held_rows(log, None)
    (slice(2, 8, None), slice(2, 10, None), slice(0, 10, None))
    >>> held_rows(log, (None, None))
    slice(0, 0, None)
    """
    if held is None:
        return slice(0, len(log))
    begin, end = held
    if begin is None:
        return slice(0, 0)
    first = int(np.searchsorted(log.launch_us, begin))
    last = len(log) if end is None else int(np.searchsorted(log.launch_us, end, side="right"))
    return slice(first, max(first, last))


def with_held(document: dict[str, Any], judged: LaunchLog, held: Held | None) -> dict[str, Any]:
    """The window's document with what of it the verdict is about, where that is not all of it."""
    if held is None or document["n"] == len(judged):
        return document
    begin, end = held
    text = "The launch pattern is judged "
    if begin is None:
        text += "once all users have been started."
    elif not len(judged):
        text = "The launch pattern is not judged: no request was launched while all users were running."
    else:
        origin = document["origin_us"]
        text += f"from {max(begin - origin, 0) / 1e6:,.1f} s, when all users had been started"
        text += "." if end is None else f", to {(end - origin) / 1e6:,.1f} s, when they were told to stop."
    sentence = f"{document['sentence']} {text}"
    return document | {"judged": len(judged), "judged_sentence": text, "sentence": sentence}
