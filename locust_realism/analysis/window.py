"""Part of a run that is analysed: warm-up and cool-down are left out by time or by number, which the window states."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from locust_realism.analysis.document import FourPercentiles, GapRow, Untrimmed, Window
from locust_realism.analysis.settings import AnalysisSettings, WorkloadModel
from locust_realism.analysis.stats.steady_state import warm_up_rows
from locust_realism.analysis.verdict.users import user_times
from locust_realism.common.durations import write_duration
from locust_realism.recording.launches import Int64, LaunchLog
from locust_realism.recording.slices import Slice

Span = tuple[int, int]
"""First and last launch, both included, in epoch microseconds."""
Held = tuple[int | None, int | None]
"""Full spawn and stop request in epoch microseconds, each None before it happens."""
SETTLING = 3
"""Mean waits after full spawn until the launches of a fixed pool no longer follow the spawner."""
LEAST_SETTLING_S = 1.0
"""Shortest time until then: users of the last spawn step begin within the second after full spawn."""
SAMPLED_ROWS = 100_000


@dataclass(frozen=True)
class Cut:
    """Bounds of the part to analyse: launch times, both ends included, rows to skip and rows to take after them."""

    low: int
    high: int
    skip: int = 0
    sample: int | None = None

    @classmethod
    def of_settings(cls, settings: AnalysisSettings, window: Span | None, origin_us: int, last_us: int) -> Cut:
        """Return the cut of the settings, of seconds since ``origin_us``; ``window`` takes the place of every cut."""
        if window is not None:
            return cls(*window)
        low, high = origin_us + round(settings.skip_s * 1e6), last_us - round(settings.cooldown_s * 1e6)
        if settings.duration_s is not None:
            high = min(high, low + round(settings.duration_s * 1e6))
        return cls(low, high, settings.skip_requests, settings.sample_requests)

    def between(self, launches: Int64) -> tuple[int, int]:
        """Return the rows, from and to, of ascending launch times within ``low`` and ``high``."""
        return int(np.searchsorted(launches, self.low)), int(np.searchsorted(launches, self.high, side="right"))

    def of(self, pieces: Iterator[Slice]) -> Iterator[tuple[int, Slice]]:
        """Yield the part of consecutive pieces within the cut, each with the number of rows before it."""
        before = reached = 0
        for piece in pieces:
            first, last = self.between(piece.launch_us)
            start = first + max(self.skip - reached, 0)
            reached += last - first
            if self.sample is not None:
                last = min(last, last + self.skip + self.sample - reached)
            if start < last:
                yield before + start, piece.take(slice(start, last))
            before += len(piece)


def steady_rows(
    log: LaunchLog, settings: AnalysisSettings, *, run_start_us: int | None = None, window: Span | None = None
) -> slice:
    """Return the rows to analyse of a log in launch order, as one slice.

    Seconds count from ``run_start_us``, by default the first launch; both ends are included, as in the published
    tables. ``window`` takes the place of every cut. MSER-5 reads the rows that the other cuts leave. ValueError for a
    window that ends before it starts.

    >>> log = LaunchLog.build(np.arange(10) * 1_000_000, 1)
    >>> steady_rows(log, AnalysisSettings(skip_s=2, duration_s=3))
    slice(2, 6, None)
    >>> steady_rows(log, AnalysisSettings(skip_requests=5, sample_requests=3))
    slice(5, 8, None)
    """
    launches = log.launch_us
    if not len(launches):
        return slice(0, 0)
    if window is not None and window[0] > window[1]:
        raise ValueError(f"window is {window}, expected its start before its end")
    origin = int(launches[0]) if run_start_us is None else run_start_us
    cut = Cut.of_settings(settings, window, origin, int(launches[-1]))
    first, last = cut.between(launches)
    first += cut.skip
    if window is None and settings.mser5 and first < last:
        first += warm_up_rows(log.take(slice(first, last)))
    if cut.sample is not None:
        last = min(last, first + cut.sample)
    return slice(min(first, last), last)


def window_document(log: LaunchLog, rows: slice, settings: AnalysisSettings, run_start_us: int | None) -> Window:
    """Return the ``window`` key of the summary of a log in launch order, of which ``rows`` are analysed."""
    total, n = len(log), rows.stop - rows.start
    if not total:
        return {"n": 0, "rows_total": 0, "sentence": "No request was recorded."}
    origin = int(log.launch_us[0]) if run_start_us is None else run_start_us
    span = (int(log.launch_us[rows.start]), int(log.launch_us[rows.stop - 1])) if n else None
    return window_figures(total, rows, span, settings, origin)


def window_figures(total: int, rows: slice, span: Span | None, settings: AnalysisSettings, origin_us: int) -> Window:
    """Return the ``window`` key for ``rows`` of ``total`` rows, at least one, in launch order.

    ``span`` is None for an empty window; ``origin_us`` is zero of the seconds, in epoch microseconds.
    """
    document: Window = {
        "n": rows.stop - rows.start, "rows_total": total, "cut_start": rows.start, "cut_end": total - rows.stop,
        "origin_us": origin_us, "skip_s": settings.skip_s, "cooldown_s": settings.cooldown_s,
        "skip_requests": settings.skip_requests, "mser5": settings.mser5,
        "sentence": f"None of {total:,} requests lies in the window.",
    }  # fmt: skip
    if span is None:
        return document
    start_s, end_s = ((at - origin_us) / 1e6 for at in span)
    cut = [f"{n:,} {where}" for n, where in ((rows.start, "before"), (total - rows.stop, "after")) if n]
    rest = f"; left out: {' and '.join(cut)}." if cut else ", complete."
    return {
        **document, "start_us": span[0], "end_us": span[1], "start_s": start_s, "end_s": end_s,
        "duration_s": (span[1] - span[0]) / 1e6,
        "sentence": f"{document['n']:,} requests, {start_s:,.1f} s to {end_s:,.1f} s{rest}",
    }  # fmt: skip


def with_untrimmed(document: Window, gaps: GapRow, times: FourPercentiles) -> Window:
    """Return the window with the figures of every launch, in its sentence too, so that the effect of the cut shows."""
    found: Untrimmed = {
        "n": gaps["n"], "rate": gaps["rate"], "cov": gaps["cov"], "response_p50_ms": times["p50_ms"],
        "response_p95_ms": times["p95_ms"], "response_p99_ms": times["p99_ms"],
    }  # fmt: skip
    _, rate, cov, p50, p95, p99 = (
        f"{value:,.4g}" if isinstance(value, float) and math.isfinite(value) else "-" for value in found.values()
    )
    text = (
        f" With all of them the CoV is {cov} at {rate} launches/s, and p50, p95 and p99 of the response times are "
        f"{p50}, {p95} and {p99} ms."
    )
    return {**document, "untrimmed": found, "sentence": document["sentence"] + text}


def held_rows(log: LaunchLog, held: Held | None) -> slice:
    """Return the rows of a log in launch order from full spawn to the stop request; all rows where ``held`` is None.

    No row counts before full spawn.

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


def settling_s(log: LaunchLog, model: WorkloadModel, held: Held | None) -> float:
    """Return the seconds after full spawn that a fixed pool takes to lose the pattern of its start, 0 for others.

    They are ``SETTLING`` mean waits, at least ``LEAST_SETTLING_S``. The mean wait is that of the model, else the
    recorded or estimated one of the launches since full spawn.
    """
    if model.kind != "closed" or held is None or held[0] is None:
        return 0.0
    mean = model.think_time_s
    if mean is None:
        part = log.take(held_rows(log, held))
        known = part.think_us[part.think_us >= 0]
        mean = float(known.mean()) / 1e6 if len(known) else user_times(part, max_rows=SAMPLED_ROWS).think_mean
    return max(SETTLING * mean, LEAST_SETTLING_S) if math.isfinite(mean) else LEAST_SETTLING_S


def settled(held: Held | None, settling: float) -> Held | None:
    """Return the span of the verdict: from ``settling`` seconds after full spawn to the stop request.

    >>> settled((5_000_000, None), 3.0), settled((None, None), 3.0), settled(None, 0.0)
    ((8000000, None), (None, None), None)
    """
    if held is None or held[0] is None:
        return held
    return held[0] + round(settling * 1e6), held[1]


def with_held(
    document: Window,
    judged: LaunchLog,
    held: Held | None,
    *,
    settling: float = 0.0,
    note: str = "",
    missing_s: float = 0.0,
) -> Window:
    """Return the window with the part that the verdict covers and what a reader needs for it, where there is any.

    ``held`` is full spawn and stop request; the verdict begins ``settling`` seconds after full spawn. ``note`` is a
    sentence of the evidence. ``missing_s`` seconds more would suffice for a verdict.
    """
    if not document["n"] or (not note and (held is None or document["n"] == len(judged))):
        return document
    text = [_judged_part(document, judged, held, settling)] if held is not None else []
    missing_s = max(missing_s, _unsettled_s(held, settling))
    if missing_s > 0 and settling:
        text.append(f"Run the test at least {write_duration(missing_s)} longer: a verdict takes more launches.")
    sentence = " ".join(part for part in (*text, note) if part)
    if not sentence:
        return document
    return {
        **document, "judged": len(judged), "judged_sentence": sentence,
        "sentence": f"{document['sentence']} {sentence}",
    }  # fmt: skip


def _unsettled_s(held: Held | None, settling: float) -> float:
    """Return the seconds by which a run ended before its judged part began, negative for one that reached it."""
    if held is None or held[0] is None or held[1] is None:
        return -math.inf
    return settling - (held[1] - held[0]) / 1e6


def _judged_part(document: Window, judged: LaunchLog, held: Held, settling: float) -> str:
    begin, end = held
    if begin is None:
        return "The verdict begins at full spawn."
    if not len(judged) and not settling:
        return "The verdict covers no request: none was launched between full spawn and the stop request."
    origin = document["origin_us"]
    start = max(begin - origin, 0) / 1e6
    until = "" if end is None else f" to the stop request at {(end - origin) / 1e6:,.1f} s"
    if not settling:
        return f"The verdict covers the time from full spawn at {start:,.1f} s{until}."
    waits = settling > LEAST_SETTLING_S
    if end is not None and _unsettled_s(held, settling) >= 0:
        length = write_duration(settling) + (f" ({SETTLING} mean waits)" if waits else "")
        return (
            f"The verdict covers no request: it begins {length} after full spawn at {start:,.1f} s, and the stop "
            f"request came at {(end - origin) / 1e6:,.1f} s."
        )
    length = f"{SETTLING} mean waits" if waits else write_duration(settling)
    after = f"{length} after full spawn at {start:,.1f} s"
    return f"The verdict covers the time from {start + settling:,.1f} s{until}. It begins {after}."
