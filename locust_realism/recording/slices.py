"""The launches of a recording in order of launch time, a slice at a time: a run of any length in bounded memory.

Rows lie on disk in the order in which they arrived. One look at each row group tells when its launches were; cuts of
time between the middles of the groups then make slices of about the same size, and each slice is read from the groups
that reach into it. How late a row arrived makes no difference to the result, only to the time that it takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from locust_realism.recording.launches import MISSING, Int32, Int64, Label
from locust_realism.recording.offsets import ClockLine, shifts_us
from locust_realism.recording.packing import combine, integers, open_parquet, text_codes
from locust_realism.recording.reading import part_files
from locust_realism.recording.store import WHOLE_RUN, Since

if TYPE_CHECKING:
    import pyarrow.parquet as pq

SLICE_ROWS = 1 << 17
"""Rows of a slice, about: 4 MB."""

RETRIES = 20
"""Times that the files are listed anew when one of them is gone."""


@dataclass(frozen=True)
class Slice:
    """Launches in order of launch time, columns of equal length; ``label`` is an index into the recording's labels."""

    launch_us: Int64
    response_us: Int64
    size_bytes: Int64
    label: Int32
    failed: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.launch_us)

    def take(self, selection: Any) -> Slice:
        """The rows that a mask, an index array or a slice selects."""
        return Slice(*(column[selection] for column in self._columns()))

    def _columns(self) -> tuple[NDArray[Any], ...]:
        return self.launch_us, self.response_us, self.size_bytes, self.label, self.failed

    @classmethod
    def concat(cls, parts: Sequence[Slice]) -> Slice:
        """All rows of several slices (one at least)."""
        return cls(*(np.concatenate(columns) for columns in zip(*(part._columns() for part in parts), strict=True)))

    def in_launch_order(self) -> Slice:
        """Rows by launch time, those of one instant as they came."""
        n = len(self)
        if n < 2 or bool((self.launch_us[1:] >= self.launch_us[:-1]).all()):
            return self
        # sorting time and position as one number is ten times as fast as an argsort
        bits = n.bit_length()
        key = (self.launch_us - self.launch_us.min()) << bits
        key |= np.arange(n)
        key.sort()
        return self.take(key & ((1 << bits) - 1))


@dataclass(frozen=True)
class _Group:
    """Where a row group lies in time: ``low`` and ``high`` are its first and last launch, ``middle`` the median."""

    file: pq.ParquetFile
    index: int
    first_row: int
    rows: int
    low: int
    middle: int
    high: int


class RecordedLaunches:
    """Launches on disk; made by :func:`recorded_launches`, usable until its block ends.

    - ``labels`` every method and name, ``label_rows`` how many rows each has, shape (len(labels),)
    - ``rows``, ``failed`` of them, ``first_us`` and ``last_us`` launch (MISSING where there are none)
    - ``slices()`` reads everything once; it may be called again and again and gives the same rows
    """

    def __init__(
        self,
        files: Sequence[pq.ParquetFile],
        lines: Mapping[int, ClockLine],
        since: Since,
        turn: AbstractContextManager[Any],
    ) -> None:
        self._turn = turn
        self._lines = {index: line for index, line in lines.items() if line.matters}
        self._since = since
        self._codes: dict[Label, int] = {}
        self._groups: list[_Group] = []
        self._scan(files)

    @property
    def labels(self) -> tuple[Label, ...]:
        """Every method and name, in order of appearance."""
        return tuple(self._codes)

    def slices(self) -> Iterator[Slice]:
        """The rows in order of launch time, about SLICE_ROWS at a time."""
        groups = sorted(self._groups, key=lambda group: group.middle)
        cuts = self._cuts(groups)
        for low, high in zip(cuts, [*cuts[1:], self.last_us + 1], strict=True):
            with self._turn:
                parts = [
                    part
                    for group in self._groups
                    if group.low < high and group.high >= low
                    for part in self._read(group, low, high)
                ]
                if parts:
                    yield Slice.concat(parts).in_launch_order()

    def _cuts(self, groups: Sequence[_Group]) -> list[int]:
        if not groups:
            return []
        cuts, rows = [self.first_us], 0
        for group in groups:
            if rows + group.rows > SLICE_ROWS and group.middle > cuts[-1]:
                cuts.append(group.middle)
                rows = 0
            rows += group.rows
        return cuts

    def _scan(self, files: Sequence[pq.ParquetFile]) -> None:
        counts = np.zeros(0, dtype=np.int64)
        self.rows = self.failed = arrived = 0
        for file in files:
            for index in range(file.num_row_groups):
                table = file.read_row_group(index, columns=self._needed("failed"), use_threads=False)
                keep = self._since.kept(arrived, table.num_rows)
                launch, label = self._launches(table)[keep], self._label_codes(table)[keep]
                if len(launch):
                    more = np.bincount(label, minlength=len(self._codes))
                    more[: len(counts)] += counts
                    counts = more
                    self.failed += int(np.count_nonzero(_failed(table)[keep]))
                    self.rows += len(launch)
                    middle = int(np.partition(launch, len(launch) // 2)[len(launch) // 2])
                    found = (len(launch), int(launch.min()), middle, int(launch.max()))
                    self._groups.append(_Group(file, index, arrived, *found))
                arrived += table.num_rows
        self.label_rows = np.zeros(len(self._codes), dtype=np.int64)
        self.label_rows[: len(counts)] = counts
        self.first_us = min((group.low for group in self._groups), default=MISSING)
        self.last_us = max((group.high for group in self._groups), default=MISSING)

    def _read(self, group: _Group, low: int, high: int) -> Iterator[Slice]:
        columns = self._needed("failed", "response_us", "size_bytes")
        table = group.file.read_row_group(group.index, columns=columns, use_threads=False)
        response = integers(table, "response_us", np.int64, MISSING)
        size = integers(table, "size_bytes", np.int64, 0)
        part = Slice(self._launches(table), response, size, self._label_codes(table), _failed(table))
        part = part.take(self._since.kept(group.first_row, table.num_rows))
        if group.low < low or group.high >= high:
            part = part.take((part.launch_us >= low) & (part.launch_us < high))
        if len(part):
            yield part

    def _needed(self, *more: str) -> list[str]:
        return ["launch_us", "method", "name", *more, *(["worker"] if self._lines else [])]

    def _launches(self, table: Any) -> Int64:
        launch: Int64 = integers(table, "launch_us", np.int64, MISSING)
        return (
            launch + shifts_us(launch, integers(table, "worker", np.int32, 0), self._lines) if self._lines else launch
        )

    def _label_codes(self, table: Any) -> Int32:
        methods, method = text_codes(table, "method")
        names, name = text_codes(table, "name")
        code, used = combine([(method, len(methods)), (name, len(names))])
        labels = [Label(methods[m], names[k]) for m, k in used.tolist()]
        return np.array([self._codes.setdefault(label, len(self._codes)) for label in labels], dtype=np.int32)[code]


def _failed(table: Any) -> NDArray[np.bool_]:
    return integers(table, "failed", np.int8, 0).astype(np.bool_)


@contextmanager
def recorded_launches(
    directory: Path,
    lines: Mapping[int, ClockLine],
    since: Since = WHOLE_RUN,
    turn: AbstractContextManager[Any] | None = None,
) -> Iterator[RecordedLaunches]:
    """The launches of a recording that may still be written to; rows that come meanwhile are not in it.

    ``lines`` map the workers' clocks to the master's. ``turn`` is entered for each slice and left when its user asks
    for the next one, so that others who need much memory can take turns. ValueError when a file is damaged. The files
    stay open, so that what the writer merges and deletes meanwhile can still be read.
    """
    with ExitStack() as stack:
        yield RecordedLaunches(_opened(directory, stack), lines, since, nullcontext() if turn is None else turn)


def _opened(directory: Path, stack: ExitStack) -> list[pq.ParquetFile]:
    if not directory.is_dir():
        return []  # nothing has been written yet
    for attempt in range(RETRIES):
        with ExitStack() as mine:
            try:
                files = [mine.enter_context(open_parquet(str(path))) for path in part_files(directory)]
            except FileNotFoundError:
                if attempt == RETRIES - 1:
                    raise
                continue  # a part was merged into a larger one between the listing and the opening
            stack.push(mine.pop_all())
            return files
    raise AssertionError("unreachable")
