"""Tables of the summary as CSV, safe to open in a spreadsheet."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from locust_realism.recording.launches import MISSING, ROW_DTYPES, LaunchLog

LAUNCH_COLUMNS = (
    "method", "label", "n", "rate", "mean_ms", "sdev_ms", "cov",
    "p50_ms", "p90_ms", "p95_ms", "p99_ms", "min_ms", "max_ms",
)  # fmt: skip
PERCENTILE_COLUMNS = (
    "method", "label", "n", "failures", "rate", "mean_ms", "sdev_ms", "cov",
    "p50_ms", "p90_ms", "p95_ms", "p99_ms", "p999_ms", "min_ms", "max_ms",
)  # fmt: skip
GROUP_COLUMNS = ("users", "n", "rate", "mean_ms", "sdev_ms", "cov")
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")


def guarded_cell(value: Any) -> Any:
    """A cell that no spreadsheet runs as a formula: text that could start one gets a quote in front.

    Numbers stay numbers, None is an empty cell. Leading blanks do not hide a formula from a spreadsheet, so they
    do not hide it here.

    >>> guarded_cell("=cmd()"), guarded_cell(" +1"), guarded_cell(-1.5), guarded_cell(None)
    ("'=cmd()", "' +1", -1.5, '')
    """
    if value is None:
        return ""
    if isinstance(value, str) and (value.startswith(_FORMULA_STARTS) or value.lstrip().startswith(_FORMULA_STARTS)):
        return "'" + value
    return value


def csv_text(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """Rows as CSV (RFC 4180, a header line, CRLF), every cell guarded; a missing key is an empty cell.

    >>> csv_text(["name", "n"], [{"name": "@home", "n": 3}]).splitlines()
    ['name,n', "'@home,3"]
    """
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow([guarded_cell(column) for column in columns])
    writer.writerows([guarded_cell(row.get(column)) for column in columns] for row in rows)
    return out.getvalue()


def summary_csv(table: str, summary: Mapping[str, Any]) -> str:
    """One table of the summary as CSV: ``percentiles``, ``launches`` or ``groups``.

    The percentile table ends with the column ``rule``, since a percentile without its rule cannot be compared.
    """
    if table == "percentiles":
        response = summary.get("response_times") or []
        rule = summary.get("rule")
        return csv_text([*PERCENTILE_COLUMNS, "rule"], [{**row, "rule": rule} for row in response])
    if table == "launches":
        return csv_text(LAUNCH_COLUMNS, summary.get("launches") or [])
    if table == "groups":
        return csv_text(GROUP_COLUMNS, summary.get("groups") or [])
    raise ValueError(f"table={table!r} must be percentiles, launches or groups")


def sessions_csv(sessions: Sequence[Mapping[str, Any]]) -> str:
    """One row a session; only the header-less empty text when no session has ended."""
    return csv_text(list(sessions[0]), sessions) if sessions else "no session has ended yet\r\n"


def rows_parquet(log: LaunchLog) -> bytes:
    """Every row of a log as one Parquet file, times in integer microseconds, unknown values null.

    Columns are those of ``LaunchLog`` with label and outcome spelled out as method, name, failed, status and message.
    Launch times are stored as differences and response times byte-split, which takes about 6 bytes a row.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    def known(column: NDArray[Any]) -> Any:
        return pa.array(column, mask=column == MISSING)

    def spelled(codes: NDArray[Any], values: list[str]) -> Any:
        return pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(values or [""], pa.string())).cast(pa.string())

    numbers = {name: known(getattr(log, name)) for name in ROW_DTYPES if name not in ("label", "outcome")}
    status = np.array([outcome.status for outcome in log.outcomes] or [MISSING], dtype=np.int32)[log.outcome]
    table = pa.table(
        {
            **numbers,
            "method": spelled(log.label, [label.method for label in log.labels]),
            "name": spelled(log.label, [label.name for label in log.labels]),
            "failed": pa.array(log.failed),
            "status": known(status),
            "message": spelled(log.outcome, [outcome.message for outcome in log.outcomes]),
        }
    )
    sink = io.BytesIO()
    words = ["method", "name", "message"]
    encoding = {"launch_us": "DELTA_BINARY_PACKED", "response_us": "BYTE_STREAM_SPLIT"}
    pq.write_table(table, sink, compression="zstd", use_dictionary=words, column_encoding=encoding)
    return sink.getvalue()
