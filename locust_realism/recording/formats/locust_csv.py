"""The per-request CSV of ``locust.contrib.csv_request_logger``.

Columns: timestamp (epoch seconds at which the request was sent), request_type, name, response_time_ms (two decimals),
response_length, status_code (0 where none), exception (empty where the request succeeded). It knows no users.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from locust_realism.recording.formats.text import Kind, fields_of, first_line, read_text
from locust_realism.recording.launches import MISSING, Label, LaunchLog, Outcome
from locust_realism.recording.packing import combine
from locust_realism.recording.source import LaunchFile

NAME = "locust-csv"

_KINDS: dict[str, Kind] = {
    "timestamp": "number",
    "request_type": "text",
    "name": "text",
    "response_time_ms": "number",
    "response_length": "integer",
    "status_code": "integer",
    "exception": "text",
}
_REQUIRED = {"timestamp": (1e9, 1e10 - 1)}


def recognises(line: str) -> bool:
    """Whether the first line of a text file is the header of Locust's request log.

    >>> recognises("timestamp,request_type,name,response_time_ms,response_length,status_code,exception")
    True
    """
    return {"timestamp", "request_type", "name", "response_time_ms"} <= set(fields_of(line))


def read(path: Path) -> LaunchFile:
    """Read a request log of Locust."""
    rows = read_text(path, fields_of(first_line(path)), _KINDS, skip_lines=1, required=_REQUIRED)
    methods, method = rows.text("request_type")
    names, name = rows.text("name")
    label, used = combine([(method, len(methods)), (name, len(names))])
    labels = tuple(Label(methods[m], names[k]) for m, k in used.tolist())
    messages, message = rows.text("exception")
    statuses, status = np.unique(rows.integers("status_code", MISSING), return_inverse=True)
    outcome, used = combine([(status, len(statuses)), (message, len(messages))])
    outcomes = tuple(Outcome(bool(messages[m]), int(statuses[s]) or MISSING, messages[m]) for s, m in used.tolist())
    response = rows.columns["response_time_ms"]
    unknown = np.full(rows.size, MISSING, dtype=np.int64)
    columns: dict[str, Any] = {
        "launch_us": np.rint(rows.columns["timestamp"] * 1e6).astype(np.int64),
        "planned_us": unknown,
        "response_us": np.where(response >= 0, np.rint(response * 1000), MISSING).astype(np.int64),
        "first_byte_us": unknown,
        "size_bytes": np.maximum(rows.integers("response_length", 0), 0),
        "label": label,
        "outcome": outcome,
        "slot": unknown.astype(np.int32),
        "worker": np.zeros(rows.size, dtype=np.int32),
        "users": unknown.astype(np.int32),
    }
    log = LaunchLog(**columns, labels=labels, outcomes=outcomes)
    return LaunchFile(log, NAME, rows.bad_rows, tuple(rows.bad_lines))
