"""The rows of a running test in memory: appended block by block, looked at without copying."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from locust_realism.recording.launches import MISSING, ROW_DTYPES, Int32, Label, LaunchLog, Outcome

ROW_BYTES = sum(np.dtype(dtype).itemsize for dtype in ROW_DTYPES.values())
"""Memory of one row in a LaunchLog."""

DEFAULT_MAX_ROWS = 800_000
"""Rows held in memory: 48 MB. When they no longer fit, the newest quarter to half of so many; all stay in the file."""

_T = TypeVar("_T")


@dataclass(frozen=True)
class Since:
    """Rows by their order of arrival: from ``first`` on, without the ranges ``late`` of those that belong before."""

    first: int = 0
    late: tuple[tuple[int, int], ...] = ()

    def kept(self, first: int, rows: int) -> NDArray[np.bool_] | slice:
        """Which of ``rows`` rows are wanted, the first of which was the ``first`` to arrive."""
        if not self.late:
            return slice(max(self.first - first, 0), None)
        keep = np.arange(first, first + rows) >= self.first
        for begin, end in self.late:
            keep[max(begin - first, 0) : max(end - first, 0)] = False
        return keep


WHOLE_RUN = Since()


@dataclass(frozen=True)
class Counts:
    """How many launches the record knows, of the whole run and since the last Reset.

    - ``rows`` received, ``failed`` of them, ``rows_since_reset`` and ``failed_since_reset`` likewise
    - ``out_of_memory`` rows that are no longer held in memory (they are in the file, where one is written)
    - ``lost`` rows known to have been launched and finished that never arrived
    """

    rows: int = 0
    failed: int = 0
    rows_since_reset: int = 0
    failed_since_reset: int = 0
    out_of_memory: int = 0
    lost: int = 0


class LiveRecord:
    """Launches of the running test: ``append`` blocks, take ``snapshot()``s at no cost, ``clear()`` for a new run.

    Columns are allocated once at full size (memory that is not written to costs nothing), so appending never copies
    what is there and a snapshot is a view: a later append does not change it. Any thread may call any method.

    >>> record = LiveRecord(max_rows=100)
    >>> record.append(LaunchLog.build(launch_us=[10, 20], response_us=[1, 1], names="home"))
    >>> early = record.snapshot()
    >>> record.append(LaunchLog.build(launch_us=[30], response_us=[1], names="buy", failed=True))
    >>> len(early), len(record.snapshot()), record.counts().failed
    (2, 3, 1)
    """

    def __init__(self, max_rows: int = DEFAULT_MAX_ROWS, *, lock: AbstractContextManager[Any] | None = None) -> None:
        if max_rows < 2:
            raise ValueError(f"max_rows={max_rows} must be >= 2")
        self.max_rows = max_rows
        # gevent replaces threading.Lock by one of greenlets: whoever appends in a native thread hands in a native lock
        self._lock: AbstractContextManager[Any] = threading.Lock() if lock is None else lock
        self.generation = 0
        self._start()

    def _start(self) -> None:
        self._capacity = self.max_rows
        self._columns = self._allocate()
        self._size = 0
        self._labels: _Table[Label] = _Table()
        self._outcomes: _Table[Outcome] = _Table()
        self._counts = Counts()
        self._lost = 0
        self._reset_at = 0  # row (of the whole run) from which on rows count as after the last Reset
        self._late: list[tuple[int, int]] = []  # ranges after it that were launched before it
        self._dropped = 0  # rows of the whole run before the first one in memory
        self._dropped_until = MISSING

    def _allocate(self) -> dict[str, NDArray[Any]]:
        return {name: np.empty(self._capacity, dtype=dtype) for name, dtype in ROW_DTYPES.items()}

    def clear(self) -> None:
        """Forget everything: a new run starts."""
        with self._lock:
            self.generation += 1
            self._start()

    def mark_reset(self) -> None:
        """Reset was pressed (or --reset-stats took effect): rows appended from now on are those ``since_reset``."""
        with self._lock:
            self._reset_at = self._dropped + self._size
            self._late = []
            self._counts = Counts(self._counts.rows, self._counts.failed, 0, 0, self._counts.out_of_memory)

    def append(
        self,
        block: LaunchLog,
        *,
        before_reset: bool = False,
        generation: int | None = None,
        to_disk: Callable[[LaunchLog], None] | None = None,
    ) -> None:
        """Add the rows of a block.

        ``before_reset`` says that these rows were recorded before the last Reset and only arrive now. A block of an
        earlier ``generation`` (before :meth:`clear`) is left out; for the others ``to_disk(block)`` is called before
        another block is added, so that rows have the same order on disk. It must not wait.
        """
        with self._lock:
            if generation is not None and generation != self.generation:
                return
            failed = int(np.count_nonzero(block.failed))
            step = max(self.max_rows // 4, 1)
            for start in range(0, len(block), step):
                self._store(block.take(slice(start, start + step)), before_reset)
            old, n = self._counts, len(block)
            self._counts = Counts(
                old.rows + n,
                old.failed + failed,
                old.rows_since_reset + (0 if before_reset else n),
                old.failed_since_reset + (0 if before_reset else failed),
                self._dropped,
            )
            if to_disk is not None:
                to_disk(block)

    def _store(self, block: LaunchLog, before_reset: bool) -> None:
        n = len(block)
        if self._size + n > self._capacity:
            # a run that has outgrown memory is read from its file, which takes memory of its own: from now on half
            self._capacity = max(self.max_rows // 2, 2)
            self._keep_newest(self._capacity // 2 - n)
        where = slice(self._size, self._size + n)
        for name in ROW_DTYPES:
            if name not in ("label", "outcome"):
                self._columns[name][where] = getattr(block, name)
        self._columns["label"][where] = self._labels.recode(block.labels, block.label)
        self._columns["outcome"][where] = self._outcomes.recode(block.outcomes, block.outcome)
        first = self._dropped + self._size
        if before_reset:
            self._late.append((first, first + n))
        self._size += n

    def _keep_newest(self, n: int) -> None:
        # into new columns: snapshots taken before still look at the old ones
        n = max(min(n, self._size), 0)
        columns = self._allocate()
        for name, column in self._columns.items():
            columns[name][:n] = column[self._size - n : self._size]
        dropped = self._columns["launch_us"][: self._size - n]
        self._dropped_until = int(dropped.max(initial=self._dropped_until))
        self._dropped += len(dropped)
        del dropped
        old, self._columns, self._size = self._columns, columns, n
        while old:
            old.popitem()  # one by one: to give 12 MB back takes a millisecond, in which no other thread runs

    def count_lost(self, rows: int) -> None:
        """Note rows that were recorded somewhere and will never arrive."""
        with self._lock:
            self._lost += rows

    def counts(self) -> Counts:
        """How many rows there are, and how many are known to be missing."""
        with self._lock:
            old = self._counts
            return Counts(
                old.rows, old.failed, old.rows_since_reset, old.failed_since_reset, old.out_of_memory, self._lost
            )

    @property
    def complete(self) -> bool:
        """Whether every row of the run is still in memory."""
        return self._dropped == 0

    @property
    def dropped_until_us(self) -> int:
        """The last launch, by the clock of its process, that is no longer in memory; MISSING where all are."""
        return self._dropped_until

    def since_reset(self) -> Since:
        """Which rows of the whole run, by order of arrival, were recorded after the last Reset."""
        with self._lock:
            return Since(self._reset_at, tuple(self._late))

    def holds_since_reset(self) -> bool:
        """Whether every row after the last Reset is in memory."""
        with self._lock:
            return self._reset_at >= self._dropped

    def snapshot(self, *, since_reset: bool = False) -> LaunchLog:
        """The rows as they stand, in the order of arrival; views that later appends do not change.

        With ``since_reset`` only those recorded after the last Reset. Where ``complete`` is False the oldest rows are
        missing.
        """
        with self._lock:
            size, dropped, reset_at, late = self._size, self._dropped, self._reset_at, tuple(self._late)
            rows: dict[str, Any] = {name: column[:size] for name, column in self._columns.items()}
            log = LaunchLog(**rows, labels=self._labels.values(), outcomes=self._outcomes.values())
        return log.take(Since(reset_at, late).kept(dropped, size)) if since_reset else log


class _Table(Generic[_T]):
    """A growing table of distinct values, and the recoding of a block's own table into it."""

    def __init__(self) -> None:
        self._codes: dict[_T, int] = {}
        self._values: tuple[_T, ...] = ()

    def recode(self, values: tuple[_T, ...], codes: Int32) -> Int32:
        known = self._codes
        mapping = np.array([known.setdefault(value, len(known)) for value in values] or [0], dtype=np.int32)
        return mapping[codes]

    def values(self) -> tuple[_T, ...]:
        if len(self._values) != len(self._codes):
            self._values = tuple(self._codes)
        return self._values
