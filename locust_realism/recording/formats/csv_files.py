"""CSV files of one line a request: ours, and the one of ``locust.contrib.csv_request_logger``.

Ours has the columns of the Parquet file, with times in microseconds. Locust's has timestamp (epoch seconds of the
request's launch), request_type, name, response_time_ms (two decimals), response_length, status_code (0 where none) and
exception (empty for a success); it has no users.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from locust_realism.recording.columns import FILE_COLUMNS, encode_labels, encode_outcomes, to_table
from locust_realism.recording.formats.delimited import Kind, fields_of, first_line, read_text
from locust_realism.recording.launches import MISSING, LaunchLog
from locust_realism.recording.source import LaunchFile

OWN, LOCUST = "csv", "locust-csv"

_OWN_TEXTS = ("method", "name", "failed", "message")
_OWN_KINDS: dict[str, Kind] = {name: "text" if name in _OWN_TEXTS else "integer" for name in FILE_COLUMNS}
_LOCUST_KINDS: dict[str, Kind] = {
    **dict.fromkeys(("timestamp", "response_time_ms"), "number"),
    **dict.fromkeys(("response_length", "status_code"), "integer"),
    **dict.fromkeys(("request_type", "name", "exception"), "text"),
}


def read_own(path: Path) -> LaunchFile:
    """Read a CSV file of ours; columns left out are MISSING."""
    required = {"launch_us": (0.0, 1e18)}
    rows = read_text(path, fields_of(first_line(path)), _OWN_KINDS, skip_lines=1, required=required)
    label, labels = encode_labels(rows.text("method"), rows.text("name"))
    values, code = rows.text("failed")
    failed = np.array([value.lower() in ("true", "1") for value in values])[code]
    outcome, outcomes = encode_outcomes(failed, rows.integers("status", MISSING), rows.text("message"))
    columns = {
        name: rows.integers(name, LaunchLog.ABSENT.get(name, MISSING))
        for name in FILE_COLUMNS
        if _OWN_KINDS[name] == "integer" and name != "status"
    }
    log = LaunchLog.of(columns.pop("launch_us"), labels, outcomes, label=label, outcome=outcome, **columns)
    return LaunchFile(log, OWN, rows.bad_rows, tuple(rows.bad_lines))


def read_locust(path: Path) -> LaunchFile:
    """Read a request log of Locust."""
    required = {"timestamp": (1e9, 1e10 - 1)}
    rows = read_text(path, fields_of(first_line(path)), _LOCUST_KINDS, skip_lines=1, required=required)
    label, labels = encode_labels(rows.text("request_type"), rows.text("name"))
    messages, message = rows.text("exception")
    failed = np.array([bool(value) for value in messages])[message]
    status = rows.integers("status_code", MISSING)
    outcome, outcomes = encode_outcomes(failed, np.where(status == 0, MISSING, status), (messages, message))
    response = rows.numbers["response_time_ms"]
    log = LaunchLog.of(
        np.rint(rows.numbers["timestamp"] * 1e6).astype(np.int64),
        labels,
        outcomes,
        response_us=np.where(response >= 0, np.rint(response * 1000), MISSING).astype(np.int64),
        size_bytes=np.maximum(rows.integers("response_length", 0), 0),
        label=label,
        outcome=outcome,
    )
    return LaunchFile(log, LOCUST, rows.bad_rows, tuple(rows.bad_lines))


def write_own(log: LaunchLog, path: Path) -> None:
    """Write the rows as our CSV, in the order of the log."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    table = to_table(log)
    for position, name in enumerate(FILE_COLUMNS):
        if name in _OWN_TEXTS and name != "failed":
            table = table.set_column(position, name, table.column(name).cast(pa.string()))
    arrow_csv.write_csv(table, str(path))
