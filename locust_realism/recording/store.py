"""The rows of a running test in memory: appended block by block, read without copying."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from locust_realism.common.validation import refusal
from locust_realism.recording.launches import MISSING, ROW_DTYPES, Int32, Label, LaunchLog, Outcome

DEFAULT_MAX_ROWS = 800_000
"""Rows held in memory (61 MB). Beyond them only the newest quarter to half stays; the file has all."""

_T = TypeVar("_T")


@dataclass(frozen=True)
class Since:
    """Rows by their order of arrival: from ``first`` on, without the ranges ``late`` of those that belong before."""

    first: int = 0
    late: tuple[tuple[int, int], ...] = ()

    def kept(self, first: int, rows: int) -> NDArray[np.bool_] | slice:
        """Return the selection of these rows among ``rows`` that arrived from number ``first`` on."""
        if not self.late:
            return slice(max(self.first - first, 0), None)
        keep = np.arange(first, first + rows) >= self.first
        for begin, end in self.late:
            keep[max(begin - first, 0) : max(end - first, 0)] = False
        return keep


WHOLE_RUN = Since()


@dataclass(frozen=True)
class Counts:
    """Numbers of recorded launches, of the whole run and since the last Reset.

    - ``rows`` received, ``failed`` of them, ``rows_since_reset`` and ``failed_since_reset`` likewise
    - ``out_of_memory`` rows no longer held in memory (the file has them, if one is written)
    - ``lost`` rows of launches that finished elsewhere and never arrived
    """

    rows: int = 0
    failed: int = 0
    rows_since_reset: int = 0
    failed_since_reset: int = 0
    out_of_memory: int = 0
    lost: int = 0


class LiveRecord:
    """Launches of the running test: ``append`` blocks, take ``snapshot()``s at no cost, ``clear()`` for a new run.

    Columns are allocated once at full size (untouched memory costs nothing). Appending therefore never copies older
    rows, and a snapshot is a view that later appends do not change. Any thread may call any method.
    ``dropped_until_us`` is the last launch, by the clock of its process, that memory no longer holds, or MISSING.

    >>> record = LiveRecord(max_rows=100)
    >>> record.append(LaunchLog.build(launch_us=[10, 20], response_us=[1, 1], names="home"))
    >>> early = record.snapshot()
    >>> record.append(LaunchLog.build(launch_us=[30], response_us=[1], names="buy", failed=True))
    >>> len(early), len(record.snapshot()), record.counts().failed
    (2, 3, 1)
    """

    def __init__(self, max_rows: int = DEFAULT_MAX_ROWS, *, lock: AbstractContextManager[object] | None = None) -> None:
        if max_rows < 2:
            raise refusal("max_rows", ">= 2", max_rows)
        self.max_rows = max_rows
        # gevent replaces threading.Lock by one of greenlets: a caller in a native thread passes a native lock
        self._lock: AbstractContextManager[object] = threading.Lock() if lock is None else lock
        self.generation = 0
        self._start()

    def _start(self) -> None:
        self._capacity = self.max_rows
        self._columns = self._allocate()
        self._size = 0
        self._labels: dict[Label, int] = {}
        self._outcomes: dict[Outcome, int] = {}
        self._counts = Counts()
        self._reset_at = 0  # first row (of the whole run) after the last Reset
        self._late: list[tuple[int, int]] = []  # ranges after it that were launched before it
        self._dropped = 0  # rows of the whole run before the first one in memory
        self.dropped_until_us = MISSING

    def _allocate(self) -> dict[str, NDArray[np.integer]]:
        return {name: np.empty(self._capacity, dtype=dtype) for name, dtype in ROW_DTYPES.items()}

    def clear(self) -> None:
        """Reset for a new run."""
        with self._lock:
            self.generation += 1
            self._start()

    def mark_reset(self) -> None:
        """Note a Reset (or --reset-stats): rows appended from now on are those ``since_reset``."""
        with self._lock:
            self._reset_at = self._dropped + self._size
            self._late = []
            self._counts = replace(self._counts, rows_since_reset=0, failed_since_reset=0)

    def append(
        self,
        block: LaunchLog,
        *,
        before_reset: bool = False,
        generation: int | None = None,
        to_disk: Callable[[LaunchLog], None] | None = None,
    ) -> None:
        """Add the rows of a block.

        ``before_reset``: the rows were recorded before the last Reset and arrive late. A block of an earlier
        ``generation`` (before :meth:`clear`) is left out. For the others ``to_disk(block)`` is called before another
        block is added, so that rows have the same order on disk; it must not wait.
        """
        with self._lock:
            if generation is not None and generation != self.generation:
                return
            failed = int(np.count_nonzero(block.failed))
            step = max(self.max_rows // 4, 1)
            for start in range(0, len(block), step):
                self._store(block.take(slice(start, start + step)), before_reset)
            old, n = self._counts, len(block)
            self._counts = replace(old, rows=old.rows + n, failed=old.failed + failed, out_of_memory=self._dropped)
            if not before_reset:
                since = {
                    "rows_since_reset": old.rows_since_reset + n,
                    "failed_since_reset": old.failed_since_reset + failed,
                }
                self._counts = replace(self._counts, **since)
            if to_disk is not None:
                to_disk(block)

    def _store(self, block: LaunchLog, before_reset: bool) -> None:
        n = len(block)
        if self._size + n > self._capacity:
            # a run larger than memory is read from its file, which takes memory of its own: half is left for rows
            self._capacity = max(self.max_rows // 2, 2)
            self._keep_newest(self._capacity // 2 - n)
        where = slice(self._size, self._size + n)
        for name in ROW_DTYPES:
            if name not in ("label", "outcome"):
                self._columns[name][where] = getattr(block, name)
        self._columns["label"][where] = _recode(self._labels, block.labels, block.label)
        self._columns["outcome"][where] = _recode(self._outcomes, block.outcomes, block.outcome)
        first = self._dropped + self._size
        if before_reset:
            self._late.append((first, first + n))
        self._size += n

    def _keep_newest(self, n: int) -> None:
        # into new columns: earlier snapshots are views of the old ones
        n = max(min(n, self._size), 0)
        columns, gone = self._allocate(), self._size - n
        for name, column in self._columns.items():
            columns[name][:n] = column[gone : self._size]
        self.dropped_until_us = int(self._columns["launch_us"][:gone].max(initial=self.dropped_until_us))
        self._dropped += gone
        old, self._columns, self._size = self._columns, columns, n
        while old:
            old.popitem()  # one by one: freeing 12 MB takes a millisecond, in which no other thread runs

    def count_lost(self, rows: int) -> None:
        """Count rows that were recorded elsewhere and will never arrive."""
        with self._lock:
            self._counts = replace(self._counts, lost=self._counts.lost + rows)

    def counts(self) -> Counts:
        """Return the numbers of rows received and lost."""
        with self._lock:
            return self._counts

    @property
    def complete(self) -> bool:
        """True if memory still holds every row of the run."""
        return self._dropped == 0

    def since_reset(self) -> Since:
        """Return the rows of the whole run, by order of arrival, that were recorded after the last Reset."""
        with self._lock:
            return Since(self._reset_at, tuple(self._late))

    def holds_since_reset(self) -> bool:
        """Return True if memory holds every row after the last Reset."""
        with self._lock:
            return self._reset_at >= self._dropped

    def snapshot(self, *, since_reset: bool = False) -> LaunchLog:
        """Return the current rows in the order of arrival, as views that later appends do not change.

        ``since_reset`` selects those recorded after the last Reset. If ``complete`` is False, the oldest are missing.
        """
        with self._lock:
            size, dropped, reset_at, late = self._size, self._dropped, self._reset_at, tuple(self._late)
            rows = {name: column[:size] for name, column in self._columns.items()}
            launch = np.asarray(rows.pop("launch_us"), dtype=np.int64)
            log = LaunchLog.of(launch, tuple(self._labels), tuple(self._outcomes), **rows)
        return log.take(Since(reset_at, late).kept(dropped, size)) if since_reset else log


def _recode(known: dict[_T, int], values: tuple[_T, ...], codes: Int32) -> Int32:
    """Return a block's codes by the numbers of ``known``; new values get the next ones."""
    mapping = np.array([known.setdefault(value, len(known)) for value in values] or [0], dtype=np.int32)
    return mapping[codes]
