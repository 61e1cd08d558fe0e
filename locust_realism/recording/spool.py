"""A running test's rows on disk: small complete files that survive whatever ends the process.

A recording is a directory. While the test runs it gains a small Parquet file every few seconds, each complete in
itself (written under another name, then renamed), so that after a crash or kill -9 everything but the last seconds is
there. Small files are merged into larger ones as they come, and into one ``launches.parquet`` at the end::

    run.json                          what recorded this, when it started, which workers it had
    launches-000001-000064.parquet    parts 1 to 64, merged
    launches-000065-000065.parquet    part 65

A file whose range lies within another's was merged into it and is left out by readers; so is every part beside
``launches.parquet``. Parquet parts were chosen over an Arrow IPC stream because they are readable by any tool at any
moment and half the size (``benchmarks/recording.py``).
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from locust_realism.recording.packing import file_metadata, open_parquet, parquet_writer

if TYPE_CHECKING:
    import pyarrow as pa

MERGE_AT = 32
"""Parts of a size that are merged into one of the next."""

KEPT_BYTES = 64 << 20
"""Packed rows kept in memory while they cannot be written; the oldest beyond are lost."""

GROUP_ROWS, MAX_GROUP_ROWS = 1 << 16, 1 << 17
"""Rows of a row group in a merged file; merging holds one or two of them, some 10 to 40 MB."""

GROUPS = 1 << 10
"""Row groups of a merged file, about, before they become larger: what a file says of each is held while it is open."""

INFO = "run.json"
PART_NAME = re.compile(r"(?P<kind>[a-z]+)-(?P<first>\d{6,})-(?P<last>\d{6,})\.parquet")


class Spool:
    """Appends packed blocks of one kind of rows (``launches``, ``sessions``, ``health``) to a recording.

    Methods that touch the disk may be called in any thread and never raise OSError: what cannot be written is kept, up
    to ``kept_bytes``, tried again with the next ``flush()``, and otherwise counted in ``lost_rows``. ``problem`` says
    what is wrong at present, as a sentence.
    """

    def __init__(
        self,
        directory: Path,
        kind: str = "launches",
        *,
        fsync: bool = False,
        kept_bytes: int = KEPT_BYTES,
        lock: AbstractContextManager[Any] | None = None,
    ) -> None:
        self.directory = directory
        self.kind = kind
        self.fsync = fsync
        self.kept_bytes = kept_bytes
        self.problem = ""
        self.lost_rows = 0
        self.written_rows = 0
        self._lock: AbstractContextManager[Any] = threading.Lock() if lock is None else lock
        self._waiting: deque[tuple[bytes, int]] = deque()
        self._waiting_bytes = 0
        self._number = 0
        self._parts: list[tuple[int, int]] = []

    def add(self, block: bytes, rows: int) -> None:
        """Hand over a packed block (:func:`locust_realism.recording.packing.pack`); touches no disk."""
        self._waiting.append((block, rows))
        self._waiting_bytes += len(block)
        while self._waiting_bytes > self.kept_bytes and len(self._waiting) > 1:
            dropped, rows = self._waiting.popleft()
            self._waiting_bytes -= len(dropped)
            self.lost_rows += rows

    def flush(self) -> None:
        """Write what was handed over, and merge small parts when there are many."""
        with self._lock:
            try:
                self._write_waiting()
                self._merge_where_many()
            except (OSError, ValueError) as error:
                self._complain(error)
            else:
                self.problem = ""

    def close(self) -> None:
        """Write what is left and merge everything into one file."""
        self.flush()
        with self._lock:
            try:
                if self._parts and not self._waiting:
                    target = self.directory / f"{self.kind}.parquet"
                    merge_files([self._path(*part) for part in self._parts], target, fsync=True)
                    self._forget(self._parts)
                    self._parts = []
            except (OSError, ValueError) as error:
                self._complain(error)

    def _write_waiting(self) -> None:
        while self._waiting:
            block, rows = self._waiting[0]
            number = self._number + 1
            self.directory.mkdir(parents=True, exist_ok=True)
            write_whole(self._path(number, number), block, fsync=self.fsync)
            self._number = number
            self._parts.append((number, number))
            self.written_rows += rows
            self._waiting.popleft()
            self._waiting_bytes -= len(block)

    def _merge_where_many(self) -> None:
        # like an odometer: 32 single parts become one of 32, 32 of those one of 1,024, so each row is rewritten rarely
        for size in (1, MERGE_AT, MERGE_AT**2):
            alike = [part for part in self._parts if size <= part[1] - part[0] + 1 < size * MERGE_AT]
            if len(alike) >= MERGE_AT:
                merged = (alike[0][0], alike[-1][1])
                merge_files([self._path(*part) for part in alike], self._path(*merged), fsync=self.fsync)
                self._forget(alike)
                self._parts = sorted([merged, *(part for part in self._parts if part not in alike)])

    def _forget(self, parts: list[tuple[int, int]]) -> None:
        for part in parts:
            with suppress(PermissionError):  # on Windows while somebody reads it; readers leave it out all the same
                self._path(*part).unlink(missing_ok=True)

    def _path(self, first: int, last: int) -> Path:
        return self.directory / f"{self.kind}-{first:06d}-{last:06d}.parquet"

    def _complain(self, error: Exception) -> None:
        # told once by whoever looks at ``problem``: logging in a native thread would have to wait for greenlets
        reason = getattr(error, "strerror", None) or str(error)
        self.problem = (
            f"The recording in {self.directory} cannot be written ({reason}): "
            "rows are kept in memory as far as they fit, the load goes on."
        )


def write_whole(path: Path, data: bytes, *, fsync: bool = False) -> None:
    """Write a file so that it is there completely or not at all."""
    partial = path.with_name(path.name + ".partial")
    try:
        with partial.open("wb") as stream:
            stream.write(data)
            if fsync:
                stream.flush()
                os.fsync(stream.fileno())
        partial.replace(path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise


def write_info(directory: Path, info: dict[str, Any]) -> None:
    """Write or replace ``run.json``."""
    directory.mkdir(parents=True, exist_ok=True)
    write_whole(directory / INFO, (json.dumps(info, indent=1) + "\n").encode())


def merge_files(paths: list[Path], target: Path, *, fsync: bool = False) -> int:
    """Write the rows of several Parquet files of the same columns into one, in bounded memory; returns the rows.

    ValueError when one of them is damaged; ``target`` appears only when it is complete.
    """
    partial = target.with_name(target.name + ".partial")
    rows, writer = 0, None
    try:
        group_rows = min(max(_rows_of(paths) // GROUPS, GROUP_ROWS), MAX_GROUP_ROWS)
        for table in _large_groups(paths, group_rows):
            if writer is None:
                writer = parquet_writer(str(partial), table.schema, statistics=["launch_us"])
            writer.write_table(table, row_group_size=group_rows)
            rows += table.num_rows
        if writer is not None:
            writer.close()
            if fsync:
                with partial.open("rb") as stream:
                    os.fsync(stream.fileno())
            partial.replace(target)
    except BaseException:
        if writer is not None:
            writer.close()
        partial.unlink(missing_ok=True)
        raise
    return rows


def _rows_of(paths: list[Path]) -> int:
    total = 0
    for path in paths:
        with open_parquet(str(path)) as file:
            total += file.metadata.num_rows
    return total


def _large_groups(paths: list[Path], rows: int) -> Iterator[pa.Table]:
    """The rows of several files in tables of about so many."""
    import pyarrow as pa

    waiting: list[pa.Table] = []
    schema = None
    for path in paths:
        with open_parquet(str(path)) as file:
            metadata = file_metadata(file)
            for group in range(file.num_row_groups):
                table = file.read_row_group(group, use_threads=False).replace_schema_metadata(metadata)
                # parts may differ in what they say of themselves; the first one speaks for all
                schema = schema or table.schema
                waiting.append(table.replace_schema_metadata(schema.metadata))
                if sum(part.num_rows for part in waiting) >= rows:
                    yield pa.concat_tables(waiting).unify_dictionaries()
                    waiting.clear()
    if waiting:
        yield pa.concat_tables(waiting).unify_dictionaries()
    pa.default_memory_pool().release_unused()
