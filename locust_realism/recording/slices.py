"""Launches of a recording in order of launch time, a slice at a time: a run of any length in bounded memory.

Rows are on disk in the order of arrival. A first pass notes the launch times of each row group. Cuts of time at the
medians of groups make slices of about the same size; each slice is read from the groups that reach into it. A row that
arrived late changes the time that this takes, not the result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from locust_realism.recording.columns import column_values, encode_labels, open_parquet, text_codes
from locust_realism.recording.launches import MISSING, Bools, Columns, Int32, Int64, Label
from locust_realism.recording.offsets import ClockLine, shifts_us
from locust_realism.recording.reading import part_files
from locust_realism.recording.store import WHOLE_RUN, Since

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

SLICE_ROWS = 1 << 17
"""Rows of a slice, approximately (4 MB)."""

RETRIES = 20
"""Listings of the directory before a missing file is an error."""


@dataclass(frozen=True)
class Slice(Columns):
    """Launches in order of launch time, columns of equal length; ``label`` is an index into the recording's labels."""

    launch_us: Int64
    response_us: Int64
    size_bytes: Int64
    label: Int32
    failed: Bools

    def in_launch_order(self) -> Slice:
        """Return the rows by launch time, those of one instant in the order of arrival."""
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
    """Row group of a file: ``low`` and ``high`` are its first and last launch, ``middle`` the median."""

    file: pq.ParquetFile
    index: int
    first_row: int
    rows: int
    low: int
    middle: int
    high: int


class RecordedLaunches:
    """Launches on disk; made by :func:`recorded_launches`, usable until its block ends.

    - ``labels`` every method and name; ``label_rows`` number of rows of each, shape (len(labels),)
    - ``rows``, ``failed`` of them, ``first_us`` and ``last_us`` launch (MISSING where there are none)
    - ``slices()`` reads everything once; each call yields the same rows
    """

    def __init__(
        self,
        files: Sequence[pq.ParquetFile],
        lines: Mapping[int, ClockLine],
        since: Since,
        turn: AbstractContextManager[object],
    ) -> None:
        self._turn = turn
        self._lines = {index: line for index, line in lines.items() if line.matters}
        self._since = since
        self._codes: dict[Label, int] = {}
        self._groups: list[_Group] = []
        self._scan(files)

    @property
    def labels(self) -> tuple[Label, ...]:
        """Methods and names, in order of appearance."""
        return tuple(self._codes)

    def slices(self) -> Iterator[Slice]:
        """Yield the rows in order of launch time, about SLICE_ROWS at a time."""
        cuts, rows = [self.first_us], 0
        for group in sorted(self._groups, key=lambda group: group.middle):
            if rows + group.rows > SLICE_ROWS and group.middle > cuts[-1]:
                cuts.append(group.middle)
                rows = 0
            rows += group.rows
        for low, high in pairwise([*cuts, self.last_us + 1]):
            with self._turn:
                groups = [group for group in self._groups if group.low < high and group.high >= low]
                part = Slice.concat(self._read(group, low, high) for group in groups)
                if len(part):
                    yield part.in_launch_order()

    def _scan(self, files: Sequence[pq.ParquetFile]) -> None:
        counts: Counter[int] = Counter()
        self.rows = self.failed = arrived = 0
        for file in files:
            for index in range(file.num_row_groups):
                table = file.read_row_group(index, columns=self._needed("failed"), use_threads=False)
                keep = self._since.kept(arrived, table.num_rows)
                launch, label = self._launches(table)[keep], self._label_codes(table)[keep]
                if len(launch):
                    counts.update(dict(enumerate(np.bincount(label).tolist())))
                    self.failed += int(np.count_nonzero(_failed(table)[keep]))
                    self.rows += len(launch)
                    middle = int(np.partition(launch, len(launch) // 2)[len(launch) // 2])
                    found = len(launch), int(launch.min()), middle, int(launch.max())
                    self._groups.append(_Group(file, index, arrived, *found))
                arrived += table.num_rows
        self.label_rows = np.array([counts[code] for code in range(len(self._codes))], dtype=np.int64)
        self.first_us = min((group.low for group in self._groups), default=MISSING)
        self.last_us = max((group.high for group in self._groups), default=MISSING)

    def _read(self, group: _Group, low: int, high: int) -> Slice:
        columns = self._needed("failed", "response_us", "size_bytes")
        table = group.file.read_row_group(group.index, columns=columns, use_threads=False)
        response = column_values(table, "response_us", np.int64, MISSING)
        size = column_values(table, "size_bytes", np.int64, 0)
        part = Slice(self._launches(table), response, size, self._label_codes(table), _failed(table))
        part = part.take(self._since.kept(group.first_row, table.num_rows))
        if group.low < low or group.high >= high:
            part = part.take((part.launch_us >= low) & (part.launch_us < high))
        return part

    def _needed(self, *more: str) -> list[str]:
        return ["launch_us", "method", "name", *more, *(["worker"] if self._lines else [])]

    def _launches(self, table: pa.Table) -> Int64:
        launch: Int64 = column_values(table, "launch_us", np.int64, MISSING)
        if not self._lines:
            return launch
        return launch + shifts_us(launch, column_values(table, "worker", np.int32, 0), self._lines)

    def _label_codes(self, table: pa.Table) -> Int32:
        code, labels = encode_labels(text_codes(table, "method"), text_codes(table, "name"))
        return np.array([self._codes.setdefault(label, len(self._codes)) for label in labels], dtype=np.int32)[code]


def _failed(table: pa.Table) -> Bools:
    return column_values(table, "failed", np.int8, 0).astype(np.bool_)


@contextmanager
def recorded_launches(
    directory: Path,
    lines: Mapping[int, ClockLine],
    since: Since = WHOLE_RUN,
    turn: AbstractContextManager[object] | None = None,
) -> Iterator[RecordedLaunches]:
    """Open the launches of a recording that may still grow; rows that arrive later are not included.

    ``lines`` map the workers' clocks to the master's. ``turn`` is entered for each slice and left at the request for
    the next one, so that tasks which need much memory take turns. ValueError if a file is damaged. The files stay open:
    parts that the writer merges and deletes meanwhile remain readable.
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
