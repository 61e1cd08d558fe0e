"""Our rows as CSV with a header: the columns of the Parquet file, one line a launch, times in microseconds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from locust_realism.recording.formats.text import Kind, fields_of, first_line, read_text
from locust_realism.recording.launches import MISSING, Label, LaunchLog, Outcome
from locust_realism.recording.packing import FILE_COLUMNS, combine, to_table
from locust_realism.recording.source import LaunchFile

NAME = "csv"

_TEXT = ("method", "name", "failed", "message")
_KINDS: dict[str, Kind] = {name: "text" if name in _TEXT else "integer" for name in FILE_COLUMNS}
_REQUIRED = {"launch_us": (0.0, 1e18)}


def recognises(line: str) -> bool:
    """Whether the first line of a text file is our header.

    >>> recognises("launch_us,response_us,name")
    True
    """
    return {"launch_us", "response_us", "name"} <= set(fields_of(line))


def read(path: Path) -> LaunchFile:
    """Read a CSV file of ours; columns that are left out are unknown."""
    names = fields_of(first_line(path))
    rows = read_text(path, names, _KINDS, skip_lines=1, required=_REQUIRED)
    methods, method = rows.text("method")
    spelled, name = rows.text("name")
    label, used = combine([(method, len(methods)), (name, len(spelled))])
    labels = tuple(Label(methods[m], spelled[k]) for m, k in used.tolist())
    failures, failed = rows.text("failed")
    messages, message = rows.text("message")
    statuses, status = np.unique(rows.integers("status", MISSING), return_inverse=True)
    outcome, used = combine([(failed, len(failures)), (status, len(statuses)), (message, len(messages))])
    outcomes = tuple(
        Outcome(failures[f].lower() in ("true", "1"), int(statuses[s]), messages[m]) for f, s, m in used.tolist()
    )
    columns: dict[str, Any] = {
        name: rows.integers(name, 0 if name in ("worker", "size_bytes") else MISSING)
        for name in FILE_COLUMNS
        if _KINDS[name] == "integer" and name != "status"
    }
    columns |= {name: columns[name].astype(np.int32) for name in ("slot", "worker", "users")}
    log = LaunchLog(**columns, label=label, outcome=outcome, labels=labels, outcomes=outcomes)
    return LaunchFile(log, NAME, rows.bad_rows, tuple(rows.bad_lines))


def write(log: LaunchLog, path: Path) -> None:
    """Write the rows as CSV, in the order of the log."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    table = to_table(log)
    for position, name in enumerate(FILE_COLUMNS):
        if name in _TEXT and name != "failed":
            table = table.set_column(position, name, table.column(name).cast(pa.string()))
    arrow_csv.write_csv(table, str(path))
