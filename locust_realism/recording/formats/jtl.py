"""JMeter's results as CSV (JTL), with or without a header: read, and written so that JMeter's dashboard reads it.

Reference: the JMeter user's manual, "Listeners", section "CSV log format". The timestamp is the start of the request in
milliseconds (JMeter's default, ``sampleresult.timestamp.start``). The user's slot is the rank of the thread in the
numeric order of its suffix (``Thread Group 1-2`` comes before ``Thread Group 1-10``).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from locust_realism.recording.formats.text import Kind, fields_of, first_line, read_text
from locust_realism.recording.launches import MISSING, Label, LaunchLog, Outcome
from locust_realism.recording.packing import combine
from locust_realism.recording.source import LaunchFile

NAME = "jtl"

_START = ["timeStamp", "elapsed", "label", "responseCode", "responseMessage", "threadName", "dataType", "success"]
HEADERLESS = {
    # number of fields: their names, by JMeter's release or by the settings that published recordings were made with
    10: [*_START, "bytes", "Latency"],
    12: [*_START, "bytes", "grpThreads", "allThreads", "Latency"],
    16: [*_START, "failureMessage", "bytes", "sentBytes", "grpThreads", "allThreads", "Latency", "IdleTime", "Connect"],
    17: [
        *_START,
        *("failureMessage", "bytes", "sentBytes", "grpThreads", "allThreads", "URL", "Latency", "IdleTime", "Connect"),
    ],
}
WRITTEN = HEADERLESS[17]

_KINDS: dict[str, Kind] = {
    "timeStamp": "integer",
    "elapsed": "integer",
    "label": "text",
    "responseCode": "text",
    "responseMessage": "text",
    "threadName": "text",
    "success": "text",
    "failureMessage": "text",
    "bytes": "integer",
    "allThreads": "integer",
    "Latency": "integer",
}
# 13 digits: 2001 to 2286
_REQUIRED = {"timeStamp": (1e12, 1e13 - 1), "elapsed": (0.0, 1e12)}


def recognises(line: str) -> bool:
    """Whether the first line of a text file is that of a JTL file.

    >>> recognises("timeStamp,elapsed,label,success"), recognises("1331859604094,71,Home,200,OK,T 1-2,bin,true,1,25")
    (True, True)
    """
    names = fields_of(line, _delimiter(line))
    if "timeStamp" in names and "elapsed" in names:
        return True
    return len(names) in HEADERLESS and re.fullmatch(r"\d{13}", names[0]) is not None


def read(path: Path) -> LaunchFile:
    """Read a JTL file; ValueError when it has no timestamps or an unknown number of columns."""
    line = first_line(path)
    delimiter = _delimiter(line)
    names = fields_of(line, delimiter)
    has_header = "timeStamp" in names
    if has_header:
        missing = {"timeStamp", "elapsed", "label"} - set(names)
        if missing:
            raise ValueError(f"the header has no column {', '.join(sorted(missing))}")
    else:
        names = HEADERLESS[len(names)]
    rows = read_text(path, names, _KINDS, skip_lines=int(has_header), delimiter=delimiter, required=_REQUIRED)
    labels, label = rows.text("label")
    threads, thread = rows.text("threadName")
    outcomes, outcome = _outcomes(rows)
    columns: dict[str, Any] = {
        "launch_us": _times_1000(rows.integers("timeStamp", MISSING)),
        "planned_us": np.full(rows.size, MISSING, dtype=np.int64),
        "response_us": _times_1000(rows.integers("elapsed", MISSING)),
        "first_byte_us": _times_1000(rows.integers("Latency", MISSING)),
        "size_bytes": rows.integers("bytes", 0),
        "label": label.astype(np.int32),
        "outcome": outcome,
        "slot": _slots(threads)[thread] if "threadName" in names else np.full(rows.size, MISSING, dtype=np.int32),
        "worker": np.zeros(rows.size, dtype=np.int32),
        "users": rows.integers("allThreads", MISSING).astype(np.int32),
    }
    log = LaunchLog(**columns, labels=tuple(Label("", name) for name in labels), outcomes=outcomes)
    return LaunchFile(log, NAME, rows.bad_rows, tuple(rows.bad_lines))


def write(log: LaunchLog, path: Path) -> None:
    """Write the rows as JTL with a header, in the order of the log; times are rounded to JMeter's milliseconds.

    A slot becomes thread ``Worker 1-5`` (worker and slot counted from 1), a method is put before the label.
    """
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    n = len(log)
    outcomes = log.outcomes or (Outcome(False, MISSING, ""),)
    labels = [f"{label.method} {label.name}".strip() for label in log.labels] or [""]
    failed = log.failed
    users = np.where(log.users == MISSING, 0, log.users)
    columns = {
        "timeStamp": log.launch_us // 1000,
        "elapsed": (np.maximum(log.response_us, 0) + 500) // 1000,
        "label": _dictionary(log.label, labels),
        "responseCode": _dictionary(log.outcome, ["" if o.status == MISSING else str(o.status) for o in outcomes]),
        "responseMessage": _dictionary(log.outcome, ["OK" if not o.failed else o.message for o in outcomes]),
        "threadName": pa.array([f"Worker {w + 1}-{s + 1}" for w, s in zip(log.worker, log.slot, strict=True)]),
        "dataType": pa.array(["text"]).take(pa.array(np.zeros(n, dtype=np.int32))),
        "success": pa.array(["true", "false"]).take(pa.array(failed.astype(np.int32))),
        "failureMessage": _dictionary(log.outcome, [o.message if o.failed else "" for o in outcomes]),
        "bytes": np.maximum(log.size_bytes, 0),
        "sentBytes": np.zeros(n, dtype=np.int64),
        "grpThreads": users,
        "allThreads": users,
        "URL": pa.array([""]).take(pa.array(np.zeros(n, dtype=np.int32))),
        "Latency": (np.maximum(log.first_byte_us, 0) + 500) // 1000,
        "IdleTime": np.zeros(n, dtype=np.int64),
        "Connect": np.zeros(n, dtype=np.int64),
    }
    with path.open("wb") as stream:
        stream.write((",".join(WRITTEN) + "\n").encode())
        options = arrow_csv.WriteOptions(include_header=False)
        arrow_csv.write_csv(pa.table({name: columns[name] for name in WRITTEN}), stream, options)


def _delimiter(line: str) -> str:
    return max(",;\t|", key=line.count)


def _times_1000(values: Any) -> Any:
    """Milliseconds to microseconds, in the values' own memory where that may be; what is missing stays so."""
    missing = values < 0
    values = np.multiply(values, 1000, out=values if values.flags.writeable else None)
    values[missing] = MISSING
    return values


def _slots(threads: list[str]) -> Any:
    """The slot of each thread: its rank in the numeric order of the suffix, then of the name."""

    def order(name: str) -> tuple[list[int], str]:
        suffix = re.search(r"(\d+)-(\d+)$", name)
        return ([int(part) for part in suffix.groups()] if suffix else [], name)

    ranks = {name: k for k, name in enumerate(sorted(set(threads), key=order))}
    return np.array([ranks[name] for name in threads] or [0], dtype=np.int32)


def _outcomes(rows: Any) -> tuple[tuple[Outcome, ...], Any]:
    """Outcome table and codes out of success, code and messages; without a success column nothing has failed."""
    successes, success = rows.text("success")
    codes, code = rows.text("responseCode")
    messages, message = rows.text("responseMessage")
    reasons, reason = rows.text("failureMessage")
    combined, used = combine(
        [(success, len(successes)), (code, len(codes)), (message, len(messages)), (reason, len(reasons))]
    )
    outcomes: list[Outcome] = []
    for s, c, m, r in used.tolist():
        failed = successes[s].strip().lower() == "false"
        status = int(codes[c]) if re.fullmatch(r"\d{1,9}", codes[c]) else MISSING
        # a code that is no number ("Non HTTP response code: java.net.ConnectException") belongs to the message
        spoken = reasons[r] or messages[m] or ("" if status != MISSING else codes[c])
        outcomes.append(Outcome(failed, status, spoken if failed else ""))
    return tuple(outcomes) or (Outcome(False, MISSING, ""),), combined


def _dictionary(codes: Any, values: list[str]) -> Any:
    import pyarrow as pa

    # a line break in a message would break readers that go line by line; JMeter's own columns have none
    clean = [" ".join(value.split()) for value in values]
    return pa.array(clean).take(pa.array(codes)) if len(codes) else pa.array([], pa.string())
