"""Rows of the launch log as compressed bytes: one format for the wire between workers and master and for the disk.

A block is a complete Parquet file. Its columns are written with the encodings that suit them (differences for times
that grow, split bytes for times that vary, a dictionary for what repeats), which brings the full row to about ten
bytes, and any tool that reads Parquet opens it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from locust_realism.recording.arrow import booleans, numbers, spelled, to_numpy
from locust_realism.recording.launches import MISSING, ROW_DTYPES, Int32, Label, LaunchLog, Outcome

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

FORMAT_VERSION = 1
"""Version of the columns below; readers accept this and every older one."""

VERSION_KEY = b"locust_realism.format_version"

FILE_COLUMNS = (
    "launch_us",
    "planned_us",
    "response_us",
    "first_byte_us",
    "size_bytes",
    "method",
    "name",
    "failed",
    "status",
    "message",
    "slot",
    "worker",
    "users",
)
"""Columns of our Parquet files: those of the LaunchLog with label and outcome spelled out."""

_ENCODING = {
    "launch_us": "DELTA_BINARY_PACKED",
    "planned_us": "DELTA_BINARY_PACKED",
    "response_us": "BYTE_STREAM_SPLIT",
    "first_byte_us": "BYTE_STREAM_SPLIT",
    "size_bytes": "BYTE_STREAM_SPLIT",
    "slot": "BYTE_STREAM_SPLIT",
}
_SPELLED = ["method", "name", "message"]
_DICTIONARY = [*_SPELLED, "status", "worker", "users"]


def to_table(log: LaunchLog) -> pa.Table:
    """The rows as an Arrow table with the columns of FILE_COLUMNS; methods, names and messages dictionary-encoded."""
    import pyarrow as pa

    status = np.array([outcome.status for outcome in log.outcomes] or [MISSING], dtype=np.int32)
    columns: dict[str, Any] = {
        "method": spelled(log.label, [label.method for label in log.labels]),
        "name": spelled(log.label, [label.name for label in log.labels]),
        "failed": booleans(log.failed),
        "status": numbers(status[log.outcome] if len(log) else log.outcome),
        "message": spelled(log.outcome, [outcome.message for outcome in log.outcomes]),
    }
    arrays = [columns[name] if name in columns else numbers(getattr(log, name)) for name in FILE_COLUMNS]
    schema_metadata = {VERSION_KEY: str(FORMAT_VERSION).encode()}
    return pa.Table.from_arrays(arrays, names=list(FILE_COLUMNS)).replace_schema_metadata(schema_metadata)


def from_table(table: pa.Table) -> LaunchLog:
    """The rows of an Arrow table with the columns of FILE_COLUMNS, in any order; a missing optional column is MISSING.

    ValueError when launch_us, response_us or name is missing, or when the table is of a later format.
    """
    version = int((table.schema.metadata or {}).get(VERSION_KEY, b"1"))
    if version > FORMAT_VERSION:
        raise ValueError(f"format version {version}, expected at most {FORMAT_VERSION}: written by a later release")
    missing = {"launch_us", "response_us", "name"} - set(table.column_names)
    if missing:
        raise ValueError(f"no column {sorted(missing)} among {table.column_names}")
    if table.num_rows == 0:
        return LaunchLog.empty()
    rows: dict[str, Any] = {}
    for name, dtype in ROW_DTYPES.items():
        if name in ("label", "outcome"):
            continue
        rows[name] = integers(table, name, dtype, 0 if name in ("worker", "size_bytes") else MISSING)
    methods, method = text_codes(table, "method")
    names, name_code = text_codes(table, "name")
    rows["label"], used = combine([(method, len(methods)), (name_code, len(names))])
    labels = tuple(Label(methods[m], names[k]) for m, k in used.tolist())
    messages, message = text_codes(table, "message")
    failed = integers(table, "failed", np.int32, 0)
    statuses, status = _distinct(integers(table, "status", np.int32, MISSING))
    rows["outcome"], used = combine([(failed, 2), (status, len(statuses)), (message, len(messages))])
    outcomes = tuple(Outcome(bool(f), int(statuses[s]), messages[m]) for f, s, m in used.tolist())
    return LaunchLog(**rows, labels=labels, outcomes=outcomes)


def pack(log: LaunchLog, metadata: dict[str, str] | None = None) -> bytes:
    """The rows as one compressed Parquet file in memory.

    >>> log = LaunchLog.build(launch_us=[5, 9], response_us=[1, 2], names="home")
    >>> unpack(pack(log)).launch_us.tolist()
    [5, 9]
    """
    return pack_table(to_table(log), metadata)


def pack_table(table: pa.Table, metadata: dict[str, str] | None = None) -> bytes:
    """Any Arrow table as one compressed Parquet file in memory."""
    import pyarrow as pa

    table = with_metadata(table, metadata)
    sink = pa.BufferOutputStream()
    with parquet_writer(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(memoryview(sink.getvalue()))


def write_parquet(log: LaunchLog, where: Any, metadata: dict[str, str] | None = None) -> None:
    """Write the rows as Parquet to a path or an open file."""
    table = with_metadata(to_table(log), metadata)
    with parquet_writer(str(where) if isinstance(where, Path) else where, table.schema, statistics=True) as writer:
        writer.write_table(table, row_group_size=1 << 20)


def with_metadata(table: pa.Table, metadata: dict[str, str] | None) -> pa.Table:
    """The table with some more metadata."""
    given = {key.encode(): value.encode() for key, value in (metadata or {}).items()}
    return table.replace_schema_metadata({**(table.schema.metadata or {}), **given})


def parquet_writer(where: Any, schema: pa.Schema, *, statistics: bool | list[str] = False) -> pq.ParquetWriter:
    """A writer with the encodings that suit our columns, and ``statistics`` (least and largest value) of some of them.

    Small blocks are read whole: they need none.
    """
    import pyarrow.parquet as pq

    return pq.ParquetWriter(
        where,
        schema,
        compression="zstd",
        use_dictionary=[name for name in schema.names if name in _DICTIONARY],
        column_encoding={name: _ENCODING[name] for name in schema.names if name in _ENCODING} or None,
        store_schema=False,
        write_statistics=statistics if isinstance(statistics, bool) else [n for n in statistics if n in schema.names],
    )


def unpack(block: bytes) -> LaunchLog:
    """The rows of a block made by :func:`pack`; ValueError when it is damaged."""
    import pyarrow as pa

    return read_parquet(pa.BufferReader(block))


def read_parquet(where: Any) -> LaunchLog:
    """The rows of a Parquet file of ours; ValueError when it is damaged or of another kind."""
    return from_table(read_table(where))


def read_table(where: Any) -> pa.Table:
    """The Arrow table of a Parquet file, with its metadata; ValueError when it is damaged."""
    with open_parquet(where) as file:
        table = file.read(use_threads=False)
        return table.replace_schema_metadata(file_metadata(file))


@contextmanager
def open_parquet(where: Any) -> Iterator[pq.ParquetFile]:
    """A Parquet file, texts as dictionaries where they are known to repeat; ValueError when it is damaged."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        # ParquetFile, not read_table: the latter imports the dataset machinery and infers partitions from paths
        try:
            file = pq.ParquetFile(where, read_dictionary=_SPELLED)
        except KeyError:  # a table without these columns: sessions, health, or made by another tool
            file = pq.ParquetFile(where)
        with file:
            yield file
    except (pa.ArrowInvalid, pa.ArrowTypeError, OSError) as error:
        if isinstance(error, FileNotFoundError | PermissionError | IsADirectoryError):
            raise
        raise ValueError(f"not a readable Parquet block: {error}") from error


def file_metadata(file: pq.ParquetFile) -> dict[bytes, bytes]:
    """What a Parquet file says of itself, without Arrow's own entry."""
    metadata = file.metadata.metadata or {}
    return {key: value for key, value in metadata.items() if key != b"ARROW:schema"}


def combine(parts: list[tuple[NDArray[Any], int]]) -> tuple[Int32, NDArray[np.int64]]:
    """One code for each distinct combination of several codes.

    ``parts`` are pairs of codes of shape (n,) and the number of their values. Returns the codes of shape (n,) and the
    combinations of shape (number of distinct, number of parts).
    """
    sizes = [max(size, 1) for _, size in parts]
    combined = np.zeros(len(parts[0][0]), dtype=np.int64)
    for (codes, _), size in zip(parts, sizes, strict=True):
        combined = combined * size + codes
    total = int(np.prod(np.array(sizes, dtype=np.float64)))
    if total <= 1 << 20:
        # counting instead of sorting: the number of combinations is small, the number of rows is not
        distinct = np.flatnonzero(np.bincount(combined, minlength=total))
        table = np.zeros(total, dtype=np.int32)
        table[distinct] = np.arange(len(distinct), dtype=np.int32)
        codes_out = table[combined]
    else:
        distinct, inverse = np.unique(combined, return_inverse=True)
        codes_out = inverse.astype(np.int32)
    columns = []
    rest = distinct
    for size in reversed(sizes):
        columns.append(rest % size)
        rest = rest // size
    return codes_out, np.stack(columns[::-1], axis=1).astype(np.int64)


def integers(table: pa.Table, name: str, dtype: Any, absent: int) -> NDArray[Any]:
    """A column of whole numbers; ``absent`` where it, or one of its values, is missing."""
    if name not in table.column_names:
        return np.full(table.num_rows, absent, dtype=dtype)
    column = table.column(name)
    if column.null_count:
        column = column.fill_null(absent)
    return to_numpy(column).astype(dtype, copy=False)


def _distinct(values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """As ``np.unique(values, return_inverse=True)``, without a sort where the values are close together."""
    low = int(values.min(initial=0))
    if int(values.max(initial=0)) - low > 1 << 16:
        found, inverse = np.unique(values, return_inverse=True)
        return found, inverse
    present = np.bincount(values - low) > 0
    return np.flatnonzero(present) + low, (np.cumsum(present) - 1)[values - low]


def text_codes(table: pa.Table, name: str) -> tuple[list[str], NDArray[np.int64]]:
    """The distinct values of a text column and each row's index into them."""
    import pyarrow as pa

    if name not in table.column_names:
        return [""], np.zeros(table.num_rows, dtype=np.int64)
    column = table.column(name)
    if column.null_count:
        column = column.fill_null("")
    encoded = column.unify_dictionaries() if hasattr(column.type, "value_type") else column.dictionary_encode()
    chunks = [chunk for chunk in encoded.chunks if len(chunk)]
    values = [str(value) for value in chunks[0].dictionary.to_pylist()]
    codes = [to_numpy(pa.chunked_array([chunk.indices])).astype(np.int64) for chunk in chunks]
    return values, np.concatenate(codes) if len(codes) > 1 else codes[0]
