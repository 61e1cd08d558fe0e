"""Fast reader of delimited text: bad rows are left out, counted and located, the others are used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from csv import reader
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from locust_realism.recording.columns import to_numpy
from locust_realism.recording.launches import Int32, Int64
from locust_realism.recording.source import LISTED, BadLine

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.csv import ConvertOptions, InvalidRow

Kind = Literal["integer", "number", "text"]
Skipped = list[tuple[int | None, str]]
"""Rows of another number of fields: their number in the file, where known, and the reason."""
Reasons = list[tuple[NDArray[np.bool_], str]]
"""Masks of bad rows, and the reason of each."""


@dataclass
class TextRows:
    """Rows of a text file as columns of equal length, and the rows left out.

    ``texts`` are the distinct values of a column and each row's index into them.
    """

    numbers: dict[str, NDArray[np.int64] | NDArray[np.float64]]
    texts: dict[str, tuple[list[str], Int32]]
    size: int
    bad_rows: int = 0
    bad_lines: list[BadLine] = field(default_factory=list)

    def integers(self, name: str, absent: int) -> Int64:
        """Return an integer column, or ``absent`` everywhere."""
        column = self.numbers.get(name)
        return np.full(self.size, absent, dtype=np.int64) if column is None else column.astype(np.int64, copy=False)

    def text(self, name: str) -> tuple[list[str], Int32]:
        """Return a text column, or the empty text everywhere."""
        return self.texts.get(name) or ([""], np.zeros(self.size, dtype=np.int32))


def first_line(path: Path, limit: int = 65_536) -> str:
    """Return the first line of a text file; undecodable bytes are replaced."""
    with path.open("rb") as stream:
        return stream.readline(limit).decode("utf-8-sig", errors="replace").rstrip("\r\n")


def fields_of(line: str, delimiter: str = ",") -> list[str]:
    """Return the fields of one line of delimited text.

    >>> fields_of('1,"a, b",c')
    ['1', 'a, b', 'c']
    """
    return next(reader([line], delimiter=delimiter), [])


def read_text(
    path: Path,
    names: Sequence[str],
    kinds: Mapping[str, Kind],
    *,
    skip_lines: int = 0,
    delimiter: str = ",",
    required: Mapping[str, tuple[float, float]],
) -> TextRows:
    """Read the columns of ``kinds`` of a delimited text file.

    - ``names`` of all the file's columns in order; a row with another number of fields is bad
    - ``required`` columns with their least and greatest value; a row outside is bad. A row with another unreadable
      number is bad too; an empty number is missing (-1)

    ValueError if no row can be read.
    """
    import pyarrow as pa
    from pyarrow import csv

    skipped: Skipped = []

    def skip(row: InvalidRow) -> str:
        skipped.append((row.number, f"{row.actual_columns} fields, expected {row.expected_columns}"))
        return "skip"

    arrow = {"integer": pa.int64(), "number": pa.float64(), "text": pa.dictionary(pa.int32(), pa.string())}
    wanted = {name: arrow[kind] for name, kind in kinds.items() if name in names}
    # only a single thread reports the number of a skipped row; it is fast enough
    read = csv.ReadOptions(use_threads=False, column_names=list(names), skip_rows=skip_lines, block_size=16 << 20)
    parse = csv.ParseOptions(delimiter=delimiter, newlines_in_values=True, invalid_row_handler=skip)
    try:
        table = csv.read_csv(str(path), read, parse, _conversion(wanted))
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        # some field is not a number: read such columns as text and check each row
        skipped.clear()
        loose = {name: pa.string() if pa.types.is_primitive(kind) else kind for name, kind in wanted.items()}
        try:
            table = csv.read_csv(str(path), read, parse, _conversion(loose))
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise ValueError(f"not readable as text with {len(names)} columns: {error}") from error
    size, columns = table.num_rows, dict(zip(table.column_names, table.columns, strict=True))
    del table  # the columns are released one by one while they are converted
    return _checked(path, size, columns, {k: kinds[k] for k in wanted}, required, skipped, skip_lines)


def _conversion(types: Mapping[str, pa.DataType]) -> ConvertOptions:
    from pyarrow import csv

    nulls = ["", "null", "NaN", "nan", "None"]
    return csv.ConvertOptions(
        column_types=dict(types), include_columns=list(types), null_values=nulls, check_utf8=False
    )


def _checked(
    path: Path,
    size: int,
    given: dict[str, pa.ChunkedArray],
    kinds: Mapping[str, Kind],
    required: Mapping[str, tuple[float, float]],
    skipped: Skipped,
    skip_lines: int,
) -> TextRows:
    import pyarrow as pa

    rows = TextRows({}, {}, size)
    reasons: Reasons = []
    for name, kind in kinds.items():
        pa.default_memory_pool().release_unused()  # Arrow's pool would keep the memory of released columns
        if kind == "text":
            rows.texts[name] = _text_codes(given.pop(name))
            continue
        values, readable = _numbers(given.pop(name), kind)
        rows.numbers[name] = values
        if not readable.all():
            reasons.append((~readable, f"{name} is not {'an integer' if kind == 'integer' else 'a number'}"))
        if name in required:
            least, greatest = required[name]
            outside = readable & ~((values >= least) & (values <= greatest))
            reasons.append((outside, f"{name} is not within {least:g} to {greatest:g}"))
    good = ~np.logical_or.reduce([np.zeros(size, dtype=np.bool_), *(bad for bad, _ in reasons)])
    if good.all() and not skipped:
        return rows
    found = _located(path, good, reasons, skipped, skip_lines)
    kept = {name: values[good] for name, values in rows.numbers.items()}
    texts = {name: (values, codes[good]) for name, (values, codes) in rows.texts.items()}
    return TextRows(kept, texts, int(good.sum()), len(skipped) + int((~good).sum()), found)


def _numbers(column: pa.ChunkedArray, kind: Kind) -> tuple[NDArray[np.int64] | NDArray[np.float64], NDArray[np.bool_]]:
    """Return the values (-1 where empty) and the mask of the readable ones."""
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
    return to_numpy(column), readable


def _text_codes(column: pa.ChunkedArray) -> tuple[list[str], Int32]:
    import pyarrow as pa

    chunks = [chunk for chunk in column.unify_dictionaries().chunks if len(chunk)]
    if not chunks:
        return [""], np.zeros(0, dtype=np.int32)
    raw = [value.as_buffer().to_pybytes() if value.is_valid else b"" for value in chunks[0].dictionary]
    values = [value.decode("utf-8", errors="replace") for value in raw]
    return values, to_numpy(pa.chunked_array([chunk.indices for chunk in chunks]))


def _located(path: Path, good: NDArray[np.bool_], reasons: Reasons, skipped: Skipped, skip_lines: int) -> list[BadLine]:
    """Return the line numbers of the first bad rows.

    Arrow counts rows, and a row spans several lines if a quoted message has a line break. If the file has more lines
    than rows, it is read again for the line numbers.
    """
    found = [(number, reason) for number, reason in skipped if number is not None]
    wrong_shape = sorted(number for number, _ in found)
    # the k-th row that was read is row k plus the skipped ones before it
    for index in np.flatnonzero(~good)[:LISTED].tolist():
        row = index + 1 + skip_lines
        for number in wrong_shape:
            if number > row:
                break
            row += 1
        found.append((row, next(reason for bad, reason in reasons if bad[index])))
    found.sort()
    rows = len(good) + len(skipped) + skip_lines
    lines = _line_numbers(path, [row for row, _ in found[:LISTED]], rows)
    return [BadLine(line, reason) for line, (_, reason) in zip(lines, found, strict=False)]


def _line_numbers(path: Path, rows: list[int], total: int) -> list[int]:
    with path.open("rb") as file:
        if not rows or sum(1 for _ in file) <= total:
            return rows
    wanted, lines, line = set(rows), {}, 1
    with path.open(encoding="utf-8", errors="replace", newline="") as stream:
        records = reader(stream)
        for number, _ in enumerate(records, start=1):
            if number in wanted:
                lines[number] = line
                if len(lines) == len(wanted):
                    break
            line = records.line_num + 1
    return [lines.get(row, row) for row in rows]
