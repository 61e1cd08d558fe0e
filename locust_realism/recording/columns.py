"""Rows as compressed blocks: one format for the wire between workers and master and for the disk.

A block is a complete Parquet file that any tool reads. Its encodings (differences for times that grow, split bytes for
times that vary, a dictionary for repeated values) bring a full row to about 14 bytes.

Arrow arrays are made without ``pyarrow.array``: that imports pandas, where it is installed, which takes a quarter of a
second and 60 MB in the first report of every load generator.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from locust_realism.recording.launches import MISSING, ROW_DTYPES, Int32, Label, LaunchLog, Outcome, encode
from locust_realism.recording.untrusted import check_block

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

TextColumn = tuple[Sequence[str], NDArray[np.integer]]
"""Distinct values of a text column, and the index of each row's value among them."""

FORMAT_VERSION = 2
"""Version of the columns below; readers accept this and every older one. Version 1 lacks ``task`` and ``think_us``."""

VERSION_KEY = b"locust_realism.format_version"

_TIMES = ("launch_us", "planned_us", "response_us", "first_byte_us")
_TASK = ("task", "think_us")
FILE_COLUMNS = (
    *(*_TIMES, "size_bytes", "method", "name", "failed", "status", "message", "slot", "worker", "users"),
    *_TASK,
)
"""Columns of our Parquet files: those of the LaunchLog with label and outcome written out."""

_TEXTS = ["method", "name", "message"]
_DICTIONARY = [*_TEXTS, "status", "worker", "users"]

_ENCODING = {
    **dict.fromkeys(("launch_us", "planned_us", "task"), "DELTA_BINARY_PACKED"),
    **dict.fromkeys(("response_us", "first_byte_us", "size_bytes", "slot", "think_us"), "BYTE_STREAM_SPLIT"),
}

_RANGES = {
    "int64": (MISSING, (1 << 52) - 1),  # order statistics are exact to 2**52
    "int32": (MISSING, (1 << 24) - 1),  # tables are made by slot and by number of users
    **dict.fromkeys(("bool", "double", "dictionary<values=string, indices=int32, ordered=0>"), None),
}
"""Types of the columns that another process may send, with the least and greatest value of whole numbers."""


def numbers(values: NDArray[np.number]) -> pa.Array:
    """Return a numeric numpy array of shape (n,) as an Arrow array over the same memory."""
    import pyarrow as pa

    values = np.ascontiguousarray(values)
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [None, pa.py_buffer(values)])


def booleans(values: NDArray[np.bool_]) -> pa.Array:
    """Return a boolean numpy array of shape (n,) as an Arrow array."""
    import pyarrow as pa

    return pa.Array.from_buffers(pa.bool_(), len(values), [None, pa.py_buffer(np.packbits(values, bitorder="little"))])


def texts(values: Sequence[str]) -> pa.Array:
    """Return strings as an Arrow array; characters that UTF-8 cannot hold (lone surrogates) are replaced."""
    import pyarrow as pa

    encoded = [value.encode("utf-8", errors="replace") for value in values]
    offsets = np.zeros(len(encoded) + 1, dtype=np.int32)
    np.cumsum([len(value) for value in encoded], out=offsets[1:])
    return pa.Array.from_buffers(
        pa.utf8(), len(encoded), [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded))]
    )


def dictionary_encode(codes: Int32, values: Sequence[str]) -> pa.DictionaryArray:
    """Return codes into a table of strings as a dictionary array that holds each used string once."""
    import pyarrow as pa

    # a recorder's table grows with the run, a block must not
    used = np.flatnonzero(np.bincount(codes, minlength=len(values)))
    recode = np.zeros(max(len(values), 1), dtype=np.int32)
    recode[used], table = encode(values[k] for k in used.tolist())
    return pa.DictionaryArray.from_arrays(numbers(recode[codes]), texts(table or [""]))


def to_numpy(column: pa.ChunkedArray) -> NDArray[Any]:
    """Return a numeric or boolean column without nulls, shape (n,); one chunk of numbers is not copied."""
    import pyarrow as pa

    name = str(column.type)  # to_pandas_dtype() imports pandas in older releases of Arrow
    dtype = np.dtype({"float": "float32"}.get(name, name))
    parts = []
    for chunk in column.chunks:
        data, end = chunk.buffers()[1], chunk.offset + len(chunk)
        if data is None or not len(chunk):
            continue
        if pa.types.is_boolean(column.type):
            part = np.unpackbits(np.frombuffer(data, dtype=np.uint8), count=end, bitorder="little").astype(np.bool_)
        else:
            part = np.frombuffer(data, dtype=dtype, count=end)
        parts.append(part[chunk.offset :])
    return parts[0] if len(parts) == 1 else np.concatenate([np.zeros(0, dtype=dtype), *parts])


def to_table(log: LaunchLog) -> pa.Table:
    """Return the rows as an Arrow table with FILE_COLUMNS; methods, names and messages dictionary-encoded."""
    import pyarrow as pa

    columns = {
        "method": dictionary_encode(log.label, [label.method for label in log.labels]),
        "name": dictionary_encode(log.label, [label.name for label in log.labels]),
        "failed": booleans(log.failed),
        "status": numbers(log.status),
        "message": dictionary_encode(log.outcome, [outcome.message for outcome in log.outcomes]),
    }
    arrays = [columns[name] if name in columns else numbers(getattr(log, name)) for name in FILE_COLUMNS]
    schema_metadata = {VERSION_KEY: str(FORMAT_VERSION).encode()}
    return pa.Table.from_arrays(arrays, names=list(FILE_COLUMNS)).replace_schema_metadata(schema_metadata)


def from_table(table: pa.Table) -> LaunchLog:
    """Return the rows of an Arrow table with FILE_COLUMNS, in any order; an optional column left out is MISSING.

    ValueError if launch_us, response_us or name is missing, if a column is of another type or out of range, or if the
    table is of a later format.
    """
    version = int((table.schema.metadata or {}).get(VERSION_KEY, b"1"))
    if version > FORMAT_VERSION:
        raise ValueError(f"format version {version}, expected at most {FORMAT_VERSION}: written by a later release")
    missing = {"launch_us", "response_us", "name"} - set(table.column_names)
    if missing:
        raise ValueError(f"no column {sorted(missing)} among {table.column_names}")
    if table.num_rows == 0:
        return LaunchLog.empty()
    rows = {
        name: column_values(table, name, dtype, LaunchLog.ABSENT.get(name, MISSING))
        for name, dtype in ROW_DTYPES.items()
        if name not in ("label", "outcome")
    }
    rows["label"], labels = encode_labels(text_codes(table, "method"), text_codes(table, "name"))
    failed = column_values(table, "failed", np.int32, 0) != 0
    status = column_values(table, "status", np.int32, MISSING)
    rows["outcome"], outcomes = encode_outcomes(failed, status, text_codes(table, "message"))
    return LaunchLog.of(rows.pop("launch_us"), labels, outcomes, **rows)


def encode_labels(methods: TextColumn, names: TextColumn) -> tuple[Int32, list[Label]]:
    """Return each row's index into the labels, and the labels, out of the columns of methods and names."""
    codes, used = combine([(methods[1], len(methods[0])), (names[1], len(names[0]))])
    return codes, [Label(methods[0][m], names[0][k]) for m, k in used.tolist()]


def encode_outcomes(
    failed: NDArray[np.bool_], status: NDArray[np.integer], messages: TextColumn
) -> tuple[Int32, list[Outcome]]:
    """Return each row's index into the outcomes, and the outcomes, out of their columns."""
    statuses, code = _distinct(status)
    codes, used = combine([(failed, 2), (code, len(statuses)), (messages[1], len(messages[0]))])
    return codes, [Outcome(bool(f), int(statuses[s]), messages[0][m]) for f, s, m in used.tolist()]


def pack(log: LaunchLog) -> bytes:
    """Return the rows as one compressed Parquet file in memory.

    >>> log = LaunchLog.build(launch_us=[5, 9], response_us=[1, 2], names="home")
    >>> unpack(pack(log)).launch_us.tolist()
    [5, 9]
    """
    return pack_table(to_table(log))


def pack_table(table: pa.Table) -> bytes:
    """Return any Arrow table as one compressed Parquet file in memory."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with parquet_writer(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(memoryview(sink.getvalue()))


def write_parquet(log: LaunchLog, where: Path | str | IO[bytes]) -> None:
    """Write the rows as Parquet to a path or an open file."""
    table = to_table(log)
    with parquet_writer(str(where) if isinstance(where, Path) else where, table.schema, statistics=True) as writer:
        writer.write_table(table, row_group_size=1 << 20)


def parquet_writer(
    where: str | IO[bytes] | pa.NativeFile, schema: pa.Schema, *, statistics: bool | list[str] = False
) -> pq.ParquetWriter:
    """Return a writer with the encodings that suit our columns.

    ``statistics`` (least and largest value) are written for all columns, none, or those listed; small blocks are read
    whole and need none.
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


def unpack(block: bytes, *, max_bytes: int | None = None) -> LaunchLog:
    """Return the rows of a block made by :func:`pack`; ValueError if it is damaged.

    ``max_bytes`` is for a block that another process sent: ValueError, before anything is decompressed, if its rows
    take more memory; ValueError for a value that no recorder writes.
    """
    return from_table(unpack_table(block, max_bytes=max_bytes))


def unpack_table(block: bytes, *, max_bytes: int | None = None) -> pa.Table:
    """Return the Arrow table of a block made by :func:`pack_table`; errors and ``max_bytes`` as in :func:`unpack`."""
    import pyarrow as pa

    if max_bytes is None:
        return read_table(pa.BufferReader(block))
    texts = check_block(block, max_bytes)
    with _parquet_errors():
        table = read_table(pa.BufferReader(block), texts)
        table.validate(full=True)  # dictionary indices within bounds, texts of valid UTF-8
    for field, column in zip(table.schema, table.columns, strict=True):
        name, dtype = field.name, str(field.type)
        if column.null_count:
            raise ValueError(f"{name} has {column.null_count} nulls, expected none")
        if dtype not in _RANGES or (dtype == "double" and name in FILE_COLUMNS):
            raise ValueError(f"{name} is of type {dtype}, expected one of {sorted(_RANGES)}")
        if (bounds := _RANGES[dtype]) and name != "status":
            _check_range(name, column_values(table, name, np.int64), *bounds)
    return table


def read_table(where: str | pa.NativeFile, texts: list[str] | None = None) -> pa.Table:
    """Return the Arrow table of a Parquet file, with its metadata; ValueError if it is damaged."""
    with open_parquet(where, texts) as file:
        table = file.read(use_threads=False)
        return table.replace_schema_metadata(file_metadata(file))


@contextmanager
def open_parquet(where: str | pa.NativeFile, texts: list[str] | None = None) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file whose ``texts`` (default: method, name, message) are read as dictionaries.

    ValueError if it is damaged.
    """
    import pyarrow.parquet as pq

    with _parquet_errors():
        # ParquetFile, not read_table: the latter imports the dataset machinery and infers partitions from paths
        try:
            file = pq.ParquetFile(where, read_dictionary=_TEXTS if texts is None else texts)
        except KeyError:  # a table without these columns: sessions, health, or made by another tool
            file = pq.ParquetFile(where)
        with file:
            yield file


@contextmanager
def _parquet_errors() -> Iterator[None]:
    import pyarrow as pa

    try:
        yield
    except (FileNotFoundError, PermissionError, IsADirectoryError):
        raise
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"not a readable Parquet block: {error}") from error


def file_metadata(file: pq.ParquetFile) -> dict[bytes, bytes]:
    """Return a Parquet file's own metadata, without Arrow's entry."""
    metadata = file.metadata.metadata or {}
    return {key: value for key, value in metadata.items() if key != b"ARROW:schema"}


def combine(parts: Sequence[tuple[NDArray[np.integer] | NDArray[np.bool_], int]]) -> tuple[Int32, NDArray[np.int64]]:
    """Return one code for each distinct combination of several codes, and the combinations.

    ``parts`` are pairs of codes of shape (n,) and the number of their values. Shapes of the result: (n,) and (number of
    distinct, number of parts).
    """
    sizes = [max(size, 1) for _, size in parts]
    combined = np.zeros(len(parts[0][0]), dtype=np.int64)
    for (codes, _), size in zip(parts, sizes, strict=True):
        combined = combined * size + codes
    distinct, inverse = _distinct(combined)
    return inverse.astype(np.int32, copy=False), np.stack(np.unravel_index(distinct, sizes), axis=1).astype(np.int64)


def column_values(table: pa.Table, name: str, dtype: type[np.generic], absent: int | None = None) -> NDArray[Any]:
    """Return a column of numbers; ``absent`` where the column, or one of its values, is missing.

    ValueError if a column without ``absent`` is missing, or if a value does not fit the integers of ``dtype``.
    """
    import pyarrow as pa

    if name not in table.column_names and absent is not None:
        return np.full(table.num_rows, absent, dtype=dtype)
    column = _column(table, name)
    if not (pa.types.is_integer(column.type) or pa.types.is_boolean(column.type) or pa.types.is_floating(column.type)):
        raise ValueError(f"{name} is of type {column.type}, expected numbers")
    if column.null_count:
        column = column.fill_null(MISSING if absent is None else absent)
    values = to_numpy(column)
    if issubclass(dtype, np.integer) and not np.can_cast(values.dtype, dtype):
        _check_range(name, values, np.iinfo(dtype).min, np.iinfo(dtype).max)
    return values.astype(dtype, copy=False)


def _check_range(name: str, values: NDArray[Any], least: int, greatest: int) -> None:
    if len(values) and not (values.min() >= least and values.max() <= greatest):  # NaN fails too
        raise ValueError(f"{name} is in [{values.min()}, {values.max()}], expected [{least}, {greatest}]")


def _column(table: pa.Table, name: str) -> pa.ChunkedArray:
    found = table.column_names.count(name)
    if found != 1:
        raise ValueError(f"{found} columns {name!r} among {table.column_names}, expected 1")
    return table.column(name)


def _distinct(values: NDArray[np.integer]) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
    """Return ``np.unique(values, return_inverse=True)``, counted and not sorted if the values are close together."""
    low = int(values.min(initial=0))
    if int(values.max(initial=0)) - low > 1 << 20:
        found, inverse = np.unique(values, return_inverse=True)
        return found, inverse
    shifted = values - low if low else values
    present = np.bincount(shifted) > 0
    return np.flatnonzero(present) + low, (np.cumsum(present, dtype=np.int32) - 1)[shifted]


def text_codes(table: pa.Table, name: str) -> TextColumn:
    """Return the distinct values of a text column and each row's index; one empty text if the column is missing."""
    import pyarrow as pa

    if name not in table.column_names or not table.num_rows:
        return [""], np.zeros(table.num_rows, dtype=np.int64)
    column = _column(table, name)
    if pa.types.is_nested(column.type):
        raise ValueError(f"{name} is of type {column.type}, expected text")
    if column.null_count:
        column = column.fill_null("")
    encoded = column.unify_dictionaries() if hasattr(column.type, "value_type") else column.dictionary_encode()
    chunks = [chunk for chunk in encoded.chunks if len(chunk)]
    values = [str(value) for value in chunks[0].dictionary.to_pylist()]
    return values, to_numpy(pa.chunked_array([chunk.indices for chunk in chunks])).astype(np.int64)
