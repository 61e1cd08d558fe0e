"""Exact tables of a run that is longer than what is held in memory: read from its recording, off the event loop."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from gevent.monkey import get_original

from locust_realism.analysis.long_runs import recorded_tables, with_recorded_tables
from locust_realism.analysis.settings import AnalysisSettings
from locust_realism.recording.slices import RecordedLaunches, recorded_launches
from locust_realism.recording.store import WHOLE_RUN
from locust_realism.runtime.live import Document, LiveFigures
from locust_realism.runtime.memory import trim
from locust_realism.runtime.run_record import Recording

logger = logging.getLogger(__name__)

REFRESH_S = 10.0
"""Seconds between two readings of a recording, at least; a reading that takes long is repeated more rarely."""

MARGIN_US = 2_000_000
"""A launch so close to those that are gone is not taken to be held: lines of clocks are fitted anew all the time."""

GONE = (
    " These are the newest ones: older launches no longer fit into memory and are gone, because the run is not "
    "recorded (--realism-no-record)."
)
BROKEN = " These are the newest ones: the recording, which should hold the others, is not complete."


def holds(recording: Recording, window: str, bounds: tuple[int, int] | None) -> bool:
    """Whether every launch of a window is held in memory; ``bounds`` are its first and last instant where it has any.

    May be called in any thread.
    """
    record = recording.record
    if record is None or record.complete:
        return True
    if window == "reset":
        return record.holds_since_reset()
    lines = {} if recording.side is None else recording.side.clock_lines()
    ahead = max((line.offset_us for line in lines.values() if line.matters), default=0.0)
    return bounds is not None and bounds[0] > record.dropped_until_us + max(ahead, 0.0) + MARGIN_US


@contextmanager
def on_disk(recording: Recording, *, since_reset: bool, turn: Turn) -> Iterator[RecordedLaunches | None]:
    """Every launch of the run, or after the last Reset, as it is on disk; None where they are not all there.

    What was handed to the files is written first. May be called in any thread.
    """
    files = recording.files
    if files is None or files.directory is None or recording.record is None or recording.side is None:
        yield None
        return
    files.flush()
    if files.problem or files.lost_rows:
        yield None  # rows would be missing, and the others could not be told by their order of arrival
        return
    since = recording.record.since_reset() if since_reset else WHOLE_RUN
    with recorded_launches(files.directory, recording.side.clock_lines(), since, turn) as launches:
        yield launches


class Turn:
    """One native thread at a time: for what needs so much memory that two of it together would be too much."""

    def __init__(self) -> None:
        self._lock = get_original("threading", "Lock")()
        self._sleep = get_original("time", "sleep")

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        trim()
        self._lock.release()
        self._sleep(0.001)  # else it would be taken again before anybody who waits wakes up


class WholeRun:
    """Completes summaries of the newest launches by the tables of all of them.

    ``settings()`` and ``started_us()`` are asked anew each time, the latter for the start of the run. ``turn`` is to be
    held by whoever analyses the newest launches meanwhile.
    """

    def __init__(
        self, recording: Recording, settings: Callable[[str], AnalysisSettings], started_us: Callable[[], int]
    ) -> None:
        self.recording = recording
        self.figures = LiveFigures(self._compute, refresh_s=REFRESH_S, share=0.25)
        self._settings = settings
        self._started_us = started_us
        self.turn = Turn()
        self._bounds: dict[str, tuple[int, int] | None] = {}

    def clear(self) -> None:
        """A new run starts."""
        self.figures.clear()
        self._bounds.clear()

    def complete(self, document: Document, window: str, *, fresh: bool = False) -> Document:
        """The document of a window with the tables of every launch, where memory does not hold them all.

        ``fresh`` waits until they have been read from the recording as it is now.
        """
        if "missing" not in document:
            return document
        document = dict(document)
        self._bounds[window] = document.pop("missing")
        if self.recording.files is None:
            return _with_note(document, GONE)
        if fresh and self.recording.record is not None:
            rows = self.recording.record.counts().rows
            logger.info(
                "Reading the figures of %s launches from the recording; a million takes about a second.", f"{rows:,}"
            )
        tables: dict[str, Any] = self.figures.fresh(window) if fresh else self.figures.get(window, patience_s=3.0)
        if tables.get("incomplete"):
            return _with_note(document, BROKEN)
        return with_recorded_tables(document, tables, tables.get("age_s"))

    def _compute(self, window: str) -> Document:
        """Called in a native thread."""
        try:
            return self._read(window)
        finally:
            trim()

    def _read(self, window: str) -> Document:
        settings = self._settings(window)
        with on_disk(self.recording, since_reset=window == "reset", turn=self.turn) as launches:
            if launches is None:
                return {"incomplete": True}
            return recorded_tables(
                launches,
                replace(settings, mser5=False, rate_convention="gaps"),
                window=self._bounds.get(window),
                run_start_us=self._started_us() or None,
            )


def _with_note(document: Document, note: str) -> Document:
    window = document["window"]
    newest = {key: window.get(key) for key in ("n", "start_s", "end_s")}
    return {**document, "newest": newest, "window": {**window, "sentence": window["sentence"] + note}}
