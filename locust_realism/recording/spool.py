"""A running test's rows on disk: small complete files that survive any end of the process.

A recording is a directory. It gains a small Parquet file every few seconds, written under another name and then
renamed: after a crash or kill -9 only the last seconds are missing. Small files are merged into larger ones, and into
one ``launches.parquet`` at the end::

    run.json                          the recorder, the start and the workers of the run
    launches-000001-000064.parquet    parts 1 to 64, merged
    launches-000065-000065.parquet    part 65

Readers leave out a file whose range lies within another's, and every part beside ``launches.parquet``. Parquet parts
are half the size of an Arrow IPC stream, and any tool reads them at any moment (``benchmarks/recording.py``).
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from locust_realism.recording.columns import file_metadata, open_parquet, parquet_writer

if TYPE_CHECKING:
    import pyarrow as pa

MERGE_AT = 32
"""Parts of a size that are merged into one of the next."""

KEPT_BYTES = 64 << 20
"""Packed rows kept in memory while writing fails; beyond this the oldest are lost."""

GROUP_ROWS, MAX_GROUP_ROWS = 1 << 16, 1 << 17
"""Rows of a row group in a merged file; merging holds one or two of them, some 10 to 40 MB."""

GROUPS = 1 << 10
"""Row groups of a merged file, approximately: the metadata of each is in memory while the file is open."""

INFO = "run.json"
PART_NAME = re.compile(r"(?P<kind>[a-z]+)-(?P<first>\d{6,})-(?P<last>\d{6,})\.parquet")


class Spool:
    """Writer of packed blocks of one kind of rows (``launches``, ``sessions``, ``health``) to a recording.

    Methods that touch the disk may be called in any thread and never raise OSError. Blocks whose writing fails are kept
    up to ``kept_bytes`` and tried again at the next ``flush()``; those beyond are counted in ``lost_rows``. ``problem``
    is the current write error as a sentence, empty if none.
    """

    def __init__(
        self,
        directory: Path,
        kind: str = "launches",
        *,
        fsync: bool = False,
        kept_bytes: int = KEPT_BYTES,
        lock: AbstractContextManager[object] | None = None,
    ) -> None:
        self.directory = directory
        self.kind = kind
        self.fsync = fsync
        self.kept_bytes = kept_bytes
        self.problem = ""
        self.lost_rows = 0
        self.written_rows = 0
        self._lock: AbstractContextManager[object] = threading.Lock() if lock is None else lock
        self._waiting: deque[tuple[bytes, int]] = deque()
        self._waiting_bytes = 0
        self._number = 0
        self._parts: list[tuple[int, int]] = []

    def add(self, block: bytes, rows: int) -> None:
        """Queue a packed block (:func:`locust_realism.recording.columns.pack`), without touching the disk."""
        self._waiting.append((block, rows))
        self._waiting_bytes += len(block)
        while self._waiting_bytes > self.kept_bytes and len(self._waiting) > 1:
            dropped, rows = self._waiting.popleft()
            self._waiting_bytes -= len(dropped)
            self.lost_rows += rows

    def flush(self) -> None:
        """Write the queued blocks, and merge small parts when there are many."""
        self._write()

    def close(self) -> None:
        """Write the queued blocks and merge all parts into one file."""
        self._write(final=True)

    def _write(self, *, final: bool = False) -> None:
        with self._lock:
            try:
                self._write_waiting()
                self._merge_where_many()
                if final and self._parts:
                    self._merge(self._parts, self.directory / f"{self.kind}.parquet", fsync=True)
                    self._parts = []
                self.problem = ""
            except (OSError, ValueError) as error:
                # readers of ``problem`` log it once: logging in a native thread would have to wait for greenlets
                reason = getattr(error, "strerror", None) or str(error)
                self.problem = (
                    f"The recording in {self.directory} cannot be written ({reason}): "
                    "rows are kept in memory as far as they fit, the load continues."
                )

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
                self._merge(alike, self._path(*merged), fsync=self.fsync)
                self._parts = sorted([merged, *(part for part in self._parts if part not in alike)])

    def _merge(self, parts: list[tuple[int, int]], target: Path, *, fsync: bool) -> None:
        paths = [self._path(*part) for part in parts]
        merge_files(paths, target, fsync=fsync)
        for path in paths:
            with suppress(PermissionError):  # Windows, while the part is open; readers leave merged parts out
                path.unlink(missing_ok=True)

    def _path(self, first: int, last: int) -> Path:
        return self.directory / f"{self.kind}-{first:06d}-{last:06d}.parquet"


@contextmanager
def _partial(path: Path, *, fsync: bool) -> Iterator[Path]:
    """Give a path to write to, which becomes ``path`` when it is complete and disappears after an error."""
    partial = path.with_name(path.name + ".partial")
    try:
        yield partial
        if fsync:
            with partial.open("r+b") as stream:
                os.fsync(stream.fileno())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def write_whole(path: Path, data: bytes, *, fsync: bool = False) -> None:
    """Write a file atomically."""
    with _partial(path, fsync=fsync) as partial:
        partial.write_bytes(data)


def write_info(directory: Path, info: Mapping[str, object]) -> None:
    """Write or replace ``run.json``."""
    directory.mkdir(parents=True, exist_ok=True)
    write_whole(directory / INFO, (json.dumps(info, indent=1) + "\n").encode())


def merge_files(paths: list[Path], target: Path, *, fsync: bool = False) -> None:
    """Write the rows of several Parquet files of the same columns into one, in bounded memory.

    ValueError if one of them is damaged; ``target`` appears only when it is complete.
    """
    total = 0
    for path in paths:
        with open_parquet(str(path)) as file:
            total += file.metadata.num_rows
    group_rows = min(max(total // GROUPS, GROUP_ROWS), MAX_GROUP_ROWS)
    with _partial(target, fsync=fsync) as partial, ExitStack() as stack:
        writer = None
        for table in _large_groups(paths, group_rows):
            if writer is None:
                writer = stack.enter_context(parquet_writer(str(partial), table.schema, statistics=["launch_us"]))
            writer.write_table(table, row_group_size=group_rows)


def _large_groups(paths: list[Path], rows: int) -> Iterator[pa.Table]:
    """Yield the rows of several files in tables of about ``rows`` rows, with the metadata of the first."""
    import pyarrow as pa

    waiting: list[pa.Table] = []
    schema = None
    for path in paths:
        with open_parquet(str(path)) as file:
            metadata = file_metadata(file)
            for group in range(file.num_row_groups):
                table = file.read_row_group(group, use_threads=False).replace_schema_metadata(metadata)
                schema = schema or table.schema
                waiting.append(table.replace_schema_metadata(schema.metadata))
                if sum(part.num_rows for part in waiting) >= rows:
                    yield pa.concat_tables(waiting).unify_dictionaries()
                    waiting.clear()
    if waiting:
        yield pa.concat_tables(waiting).unify_dictionaries()
    pa.default_memory_pool().release_unused()
