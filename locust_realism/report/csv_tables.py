"""Tables as CSV, safe to open in a spreadsheet, and the launches as Parquet."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from locust_realism.analysis.document import LiveSummary, PendingSummary, Summary
from locust_realism.recording.columns import pack_table, to_table
from locust_realism.recording.launches import MISSING, LaunchLog

PERCENTILE_COLUMNS = (
    "method", "label", "n", "failures", "rate", "mean_ms", "sdev_ms", "cov",
    "p50_ms", "p90_ms", "p95_ms", "p99_ms", "p999_ms", "min_ms", "max_ms",
)  # fmt: skip
LAUNCH_COLUMNS = tuple(name for name in PERCENTILE_COLUMNS if name not in ("failures", "p999_ms"))
INTERVALS = ("p50", "p90", "p95", "p99", "p999")
INTERVAL_COLUMNS = (
    *(f"{key}_{side}_ms" for key in INTERVALS for side in ("low", "high")), "effective_n", "interval_note",
)  # fmt: skip
"""Columns of the percentile table beside the percentiles; an interval is two of them."""
GROUP_COLUMNS = ("users", "n", "rate", "mean_ms", "sdev_ms", "cov")
SUMMARY_TABLES: dict[str, tuple[Literal["response_times", "launches", "groups"], tuple[str, ...]]] = {
    "percentiles": ("response_times", (*PERCENTILE_COLUMNS, "rule", *INTERVAL_COLUMNS)),
    "launches": ("launches", LAUNCH_COLUMNS),
    "groups": ("groups", GROUP_COLUMNS),
}
"""Key of the summary and columns of each CSV."""
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")


def guarded_cell(value: object) -> object:
    """Return a cell that no spreadsheet runs as a formula: text that could start one gets a quote in front.

    Numbers stay numbers, None is an empty cell. Spreadsheets skip leading blanks before a formula, and so does this.

    >>> guarded_cell("=cmd()"), guarded_cell(" +1"), guarded_cell(-1.5), guarded_cell(None)
    ("'=cmd()", "' +1", -1.5, '')
    """
    if isinstance(value, str) and (value.startswith(_FORMULA_STARTS) or value.lstrip().startswith(_FORMULA_STARTS)):
        return "'" + value
    return "" if value is None else value


def csv_text(columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> str:
    """Return rows as CSV (RFC 4180, a header line, CRLF), every cell guarded; a missing key is an empty cell.

    >>> csv_text(["name", "n"], [{"name": "@home", "n": 3}]).splitlines()
    ['name,n', "'@home,3"]
    """
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow([guarded_cell(column) for column in columns])
    writer.writerows([guarded_cell(row.get(column)) for column in columns] for row in rows)
    return out.getvalue()


def summary_csv(table: str, summary: Summary | LiveSummary | PendingSummary) -> str:
    """Return one of :data:`SUMMARY_TABLES` as CSV, times in milliseconds; only its header before the first figures.

    The percentile table has the column ``rule``, since percentiles of different rules cannot be compared.
    """
    key, columns = SUMMARY_TABLES[table]
    if "rule" not in summary:
        return csv_text(columns, [])
    return csv_text(columns, [{**_limits(row), **row, "rule": summary["rule"]} for row in summary[key]])


def _limits(row: Mapping[str, object]) -> dict[str, object]:
    """Return the limits of a row's intervals under the names of their columns."""
    found: dict[str, object] = {}
    for key in INTERVALS:
        limits = row.get(f"{key}_interval_ms")
        if isinstance(limits, Sequence):
            found[f"{key}_low_ms"], found[f"{key}_high_ms"] = limits
    return found


def sessions_csv(sessions: Sequence[Mapping[str, object]]) -> str:
    """Return a row for each session, a sentence instead while no session has ended."""
    return csv_text(list(sessions[0]), sessions) if sessions else "no session has ended yet\r\n"


def launches_parquet(log: LaunchLog) -> bytes:
    """Return every row of a log as one Parquet file, times in integer microseconds, unknown values null.

    Columns and encodings are those of a recording (:mod:`locust_realism.recording.columns`), about 6 bytes a row.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    table = to_table(log)
    for position, field in enumerate(table.schema):
        if pa.types.is_integer(field.type):
            column = table.column(position)
            table = table.set_column(position, field.name, pc.if_else(pc.equal(column, MISSING), None, column))
    return pack_table(table)
