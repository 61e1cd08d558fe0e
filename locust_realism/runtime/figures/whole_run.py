"""Exact tables of a run that is longer than memory holds, read from its recording off the event loop."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from locust_realism.analysis.document import Newest, RecordedTables, Summary
from locust_realism.analysis.long_runs import recorded_tables, with_recorded_tables
from locust_realism.analysis.settings import AnalysisSettings
from locust_realism.recording.slices import recorded_launches
from locust_realism.recording.store import WHOLE_RUN
from locust_realism.runtime.capture.run import Recording
from locust_realism.runtime.figures.live import LiveFigures
from locust_realism.runtime.locust_compat import native_lock, native_sleep
from locust_realism.runtime.memory import trim

logger = logging.getLogger(__name__)

REFRESH_S = 10.0
"""Least number of seconds between two readings of a recording; one that takes long is repeated more rarely."""

MARGIN_US = 2_000_000
"""Distance from the dropped launches below which a launch does not count as held: clock lines are refitted often."""

GONE = (
    " These are the newest ones: older launches no longer fit into memory and are gone, because the run is not "
    "recorded (--realism-no-record)."
)
BROKEN = " These are the newest ones: the recording, which should hold the others, is not complete."

Span = tuple[int, int]
"""First and last instant of a window, epoch microseconds, both included."""


class WindowFigures(NamedTuple):
    """Summary of the launches of a window that memory holds, and whether it holds them all."""

    summary: Summary
    span: Span | None
    complete: bool


def holds(recording: Recording, window: str, span: Span | None) -> bool:
    """Return True if memory holds every launch of a window; may be called in any thread."""
    record = recording.record
    if record is None or record.complete:
        return True
    if window == "reset":
        return record.holds_since_reset()
    ahead = max((line.offset_us for line in recording.side.clock_lines().values() if line.matters), default=0.0)
    return span is not None and span[0] > record.dropped_until_us + max(ahead, 0.0) + MARGIN_US


class Turn:
    """Lock of native threads around work that needs so much memory that two at once would be too much."""

    def __init__(self) -> None:
        self._lock = native_lock()

    def __enter__(self) -> None:
        self._lock.__enter__()

    def __exit__(self, *_: object) -> None:
        trim()
        self._lock.__exit__(None, None, None)
        native_sleep(0.001)  # else this thread would take it again before a waiting one wakes up


class WholeRun:
    """Completes summaries of the newest launches by the tables of all of them.

    ``settings(window)`` and ``started_us()`` (start of the run) are called for each reading; the analysis of the newest
    launches holds ``turn`` too.
    """

    def __init__(
        self, recording: Recording, settings: Callable[[str], AnalysisSettings], started_us: Callable[[], int]
    ) -> None:
        self.recording = recording
        self.figures: LiveFigures[RecordedTables | None] = LiveFigures(self._compute, refresh_s=REFRESH_S)
        self.turn = Turn()
        self._settings = settings
        self._started_us = started_us
        self._spans: dict[str, Span | None] = {}

    def clear(self) -> None:
        """Reset for a new run."""
        self.figures.clear()
        self._spans.clear()

    def complete(self, newest: WindowFigures, window: str, *, fresh: bool = False) -> Summary:
        """Return the summary of a window with the tables of every launch, where memory does not hold them all.

        With ``fresh`` wait until they have been read from the recording as it is now.
        """
        if newest.complete:
            return newest.summary
        self._spans[window] = newest.span
        if self.recording.files is None:
            return _with_note(newest.summary, GONE)
        if fresh:
            rows = f"{self.recording.counts().rows:,}"
            logger.info("Reading the figures of %s launches from the recording: about 1 s a million.", rows)
        answer = self.figures.fresh(window) if fresh else self.figures.get(window, wait_s=3.0)
        if answer is None:
            return with_recorded_tables(newest.summary, None, None)
        if answer.document is None:
            return _with_note(newest.summary, BROKEN)
        return with_recorded_tables(newest.summary, answer.document, None if fresh else answer.age_s)

    def _compute(self, window: str) -> RecordedTables | None:
        """Read the tables (in a native thread), waiting rows included; None if the recording is not complete."""
        recording, files = self.recording, self.recording.files
        if files is None or files.directory is None or recording.record is None:
            return None
        files.flush()
        if files.problem or files.lost_rows:  # with missing rows the order of arrival no longer identifies the others
            return None
        settings = replace(self._settings(window), mser5=False, rate_convention="gaps")
        since = recording.record.since_reset() if window == "reset" else WHOLE_RUN
        span, start_us = self._spans.get(window), self._started_us() or None
        try:
            with recorded_launches(files.directory, recording.side.clock_lines(), since, self.turn) as launches:
                return recorded_tables(launches, settings, window=span, run_start_us=start_us)
        finally:
            trim()


def _with_note(summary: Summary, note: str) -> Summary:
    window = summary["window"]
    newest: Newest = {"n": window["n"], "start_s": window.get("start_s"), "end_s": window.get("end_s")}
    return {**summary, "newest": newest, "window": {**window, "sentence": window["sentence"] + note}}
