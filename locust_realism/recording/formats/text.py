"""Reading delimited text quickly and forgivingly: bad rows are left out, counted and located, the rest is used."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from locust_realism.recording.source import LISTED, BadLine

if TYPE_CHECKING:
    import pyarrow as pa

Kind = Literal["integer", "number", "text"]


@dataclass
class TextRows:
    """Rows of a text file as columns of equal length, and what was left out."""

    columns: dict[str, Any]  # integer and number: numpy arrays; text: (values, codes)
    size: int
    bad_rows: int = 0
    bad_lines: list[BadLine] = field(default_factory=list)

    def integers(self, name: str, absent: int) -> NDArray[np.int64]:
        """An integer column, or ``absent`` everywhere."""
        column: NDArray[np.int64] | None = self.columns.get(name)
        return np.full(self.size, absent, dtype=np.int64) if column is None else column

    def text(self, name: str) -> tuple[list[str], NDArray[np.int32]]:
        """A text column as its distinct values and each row's index into them."""
        found: tuple[list[str], NDArray[np.int32]] | None = self.columns.get(name)
        return ([""], np.zeros(self.size, dtype=np.int32)) if found is None else found


def first_line(path: Path, limit: int = 65_536) -> str:
    """The first line of a text file; undecodable bytes are replaced."""
    with path.open("rb") as stream:
        return stream.readline(limit).decode("utf-8-sig", errors="replace").rstrip("\r\n")


def fields_of(line: str, delimiter: str = ",") -> list[str]:
    """The fields of one line of delimited text.

    >>> fields_of('1,"a, b",c')
    ['1', 'a, b', 'c']
    """
    return next(csv.reader([line], delimiter=delimiter), [])


def read_text(
    path: Path,
    names: Sequence[str],
    kinds: Mapping[str, Kind],
    *,
    skip_lines: int = 0,
    delimiter: str = ",",
    required: Mapping[str, tuple[float, float]],
) -> TextRows:
    """The columns of ``kinds`` of a delimited text file.

    - ``names`` of all the file's columns in order; a row with another number of fields is bad
    - ``required`` columns with their least and greatest value; a row outside is bad. Other integers and numbers that
      cannot be read are bad rows too; where they are empty they count as missing (-1)

    ValueError when nothing can be read at all.
    """
    import pyarrow as pa

    skipped: list[tuple[int | None, str]] = []

    def skip(row: Any) -> str:
        skipped.append((row.number, f"{row.actual_columns} fields, expected {row.expected_columns}"))
        return "skip"

    arrow = {"integer": pa.int64(), "number": pa.float64(), "text": pa.dictionary(pa.int32(), pa.string())}
    wanted = {name: arrow[kind] for name, kind in kinds.items() if name in names}
    try:
        table = _read(path, names, wanted, skip_lines, delimiter, skip)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        # some field is not a number: read such columns as text and judge each row
        skipped.clear()
        loose = {name: pa.string() if pa.types.is_primitive(kind) else kind for name, kind in wanted.items()}
        try:
            table = _read(path, names, loose, skip_lines, delimiter, skip)
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise ValueError(f"not readable as text with {len(names)} columns: {error}") from error
    size, columns = table.num_rows, dict(zip(table.column_names, table.columns, strict=True))
    del table  # the columns are let go of one by one while they are converted
    return _judged(path, size, columns, {k: kinds[k] for k in wanted}, required, skipped, skip_lines)


def _read(
    path: Path, names: Sequence[str], types: Mapping[str, Any], skip_lines: int, delimiter: str, skip: Any
) -> pa.Table:
    from pyarrow import csv as arrow_csv

    return arrow_csv.read_csv(
        str(path),
        # one thread: only then does arrow say which row it skipped, and it is fast enough
        arrow_csv.ReadOptions(use_threads=False, column_names=list(names), skip_rows=skip_lines, block_size=16 << 20),
        arrow_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True, invalid_row_handler=skip),
        arrow_csv.ConvertOptions(
            column_types=dict(types),
            include_columns=list(types),
            null_values=["", "null", "NaN", "nan", "None"],
            strings_can_be_null=False,
            check_utf8=False,
        ),
    )


def _judged(
    path: Path,
    size: int,
    given: dict[str, Any],
    kinds: Mapping[str, Kind],
    required: Mapping[str, tuple[float, float]],
    skipped: list[tuple[int | None, str]],
    skip_lines: int,
) -> TextRows:
    import pyarrow as pa

    columns: dict[str, Any] = {}
    good = np.ones(size, dtype=np.bool_)
    reasons: list[tuple[NDArray[np.bool_], str]] = []
    for name, kind in kinds.items():
        # Arrow keeps the memory of a column that is gone unless it is told that nobody will want it.
        pa.default_memory_pool().release_unused()
        if kind == "text":
            columns[name] = _text_codes(given.pop(name))
            continue
        values, readable = _numbers(given.pop(name), kind)
        columns[name] = values
        if not readable.all():
            reasons.append((~readable, f"{name} is not {'an integer' if kind == 'integer' else 'a number'}"))
        if name in required:
            least, greatest = required[name]
            outside = readable & ~((values >= least) & (values <= greatest))
            reasons.append((outside, f"{name} is not within {least:g} to {greatest:g}"))
    for bad, _ in reasons:
        good &= ~bad
    if good.all() and not skipped:
        return TextRows(columns, size)
    found = _located(path, good, reasons, skipped, skip_lines)
    kept = {k: (v[0], v[1][good]) if isinstance(v, tuple) else v[good] for k, v in columns.items()}
    return TextRows(kept, int(good.sum()), len(skipped) + int((~good).sum()), found)


def _numbers(column: Any, kind: Kind) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Values (-1 where empty) and which of them could be read."""
    import pyarrow as pa

    dtype = pa.int64() if kind == "integer" else pa.float64()
    readable = np.ones(len(column), dtype=np.bool_)
    if pa.types.is_string(column.type):
        import pyarrow.compute as pc  # only where a field is no number: a tenth of a second

        column = pc.ascii_trim_whitespace(column)
        pattern = r"^-?\d{1,18}$" if kind == "integer" else r"^-?\d{1,18}(\.\d*)?([eE][-+]?\d{1,2})?$"
        fits = pc.match_substring_regex(column, pattern)
        empty = pc.equal(column, "")
        readable = pc.or_(fits, empty).to_numpy(zero_copy_only=False).astype(np.bool_)
        column = pc.cast(pc.if_else(fits, column, pa.scalar(None, pa.string())), dtype)
    if column.null_count:
        column = column.fill_null(-1)
    return _joined(column.chunks, np.int64 if kind == "integer" else np.float64), readable


def _text_codes(column: Any) -> tuple[list[str], NDArray[np.int32]]:
    column = column.unify_dictionaries()
    chunks = [chunk for chunk in column.chunks if len(chunk)]
    if not chunks:
        return [""], np.zeros(0, dtype=np.int32)
    raw = [value.as_buffer().to_pybytes() if value.is_valid else b"" for value in chunks[0].dictionary]
    values = [value.decode("utf-8", errors="replace") for value in raw]
    return values, _joined([chunk.indices for chunk in chunks], np.int32)


def _joined(chunks: Sequence[Any], dtype: type[Any]) -> NDArray[Any]:
    """Primitive Arrow arrays without nulls as one numpy array; Arrow's own way imports pandas, half a second."""
    parts = [np.frombuffer(chunk.buffers()[1], dtype)[chunk.offset : chunk.offset + len(chunk)] for chunk in chunks]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=dtype)


def _located(
    path: Path,
    good: NDArray[np.bool_],
    reasons: list[tuple[NDArray[np.bool_], str]],
    skipped: list[tuple[int | None, str]],
    skip_lines: int,
) -> list[BadLine]:
    """Line numbers of the first bad rows.

    Arrow counts rows, of which one may span several lines (a line break in a quoted message), so the lines are looked
    up in the file when there are more lines than rows.
    """
    wrong_shape = np.array(sorted(number for number, _ in skipped if number is not None), dtype=np.int64)
    found = [(number, reason) for number, reason in skipped if number is not None]
    # the k-th row that was read is row k plus the skipped ones before it
    for index in np.flatnonzero(~good)[:LISTED].tolist():
        row = index + 1 + skip_lines
        for number in wrong_shape.tolist():
            if number > row:
                break
            row += 1
        found.append((row, next(reason for bad, reason in reasons if bad[index])))
    found.sort()
    rows = len(good) + len(skipped) + skip_lines
    lines = _line_numbers(path, [row for row, _ in found[:LISTED]], rows)
    return [BadLine(line, reason) for line, (_, reason) in zip(lines, found, strict=False)]


def _line_numbers(path: Path, rows: list[int], total: int) -> list[int]:
    if not rows or _count_lines(path) <= total:
        return rows
    wanted, lines, line = set(rows), {}, 1
    with path.open(encoding="utf-8", errors="replace", newline="") as stream:
        reader = csv.reader(stream)
        for number, _ in enumerate(reader, start=1):
            if number in wanted:
                lines[number] = line
                if len(lines) == len(wanted):
                    break
            line = reader.line_num + 1
    return [lines.get(row, row) for row in rows]


def _count_lines(path: Path) -> int:
    count, last = 0, b"\n"
    with path.open("rb") as stream:
        while chunk := stream.read(4 << 20):
            count += chunk.count(b"\n")
            last = chunk[-1:]
    return count + (last != b"\n")
