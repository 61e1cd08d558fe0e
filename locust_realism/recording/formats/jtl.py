"""JMeter's results as CSV (JTL): read with or without a header, written for JMeter's dashboard.

Reference: the JMeter user's manual, "Listeners", section "CSV log format". The timestamp is the start of the request in
milliseconds (JMeter's default, ``sampleresult.timestamp.start``). The user's slot is the rank of the thread in the
numeric order of its suffix (``Thread Group 1-2`` comes before ``Thread Group 1-10``).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from locust_realism.recording.columns import combine
from locust_realism.recording.formats.delimited import Kind, TextRows, fields_of, first_line, read_text
from locust_realism.recording.launches import MISSING, SUCCESS, Int32, Int64, Label, LaunchLog, Outcome
from locust_realism.recording.source import LaunchFile

if TYPE_CHECKING:
    import pyarrow as pa

NAME = "jtl"

_START = ["timeStamp", "elapsed", "label", "responseCode", "responseMessage", "threadName", "dataType", "success"]
_MORE = ["failureMessage", "bytes", "sentBytes", "grpThreads", "allThreads"]
HEADERLESS = {
    # number of fields: their names, of JMeter's releases and of the settings of published recordings
    10: [*_START, "bytes", "Latency"],
    12: [*_START, "bytes", "grpThreads", "allThreads", "Latency"],
    16: [*_START, *_MORE, "Latency", "IdleTime", "Connect"],
    17: [*_START, *_MORE, "URL", "Latency", "IdleTime", "Connect"],
}
WRITTEN = HEADERLESS[17]

_TEXTS = ("label", "responseCode", "responseMessage", "threadName", "success", "failureMessage")
_KINDS: dict[str, Kind] = {
    **dict.fromkeys(("timeStamp", "elapsed", "bytes", "allThreads", "Latency"), "integer"),
    **dict.fromkeys(_TEXTS, "text"),
}
# 13 digits: 2001 to 2286
_REQUIRED = {"timeStamp": (1e12, 1e13 - 1), "elapsed": (0.0, 1e12)}


def matches(line: str) -> bool:
    """Return True if the first line of a file is that of a JTL file.

    >>> matches("timeStamp,elapsed,label,success"), matches("1331859604094,71,Home,200,OK,T 1-2,bin,true,1,25")
    (True, True)
    """
    names = fields_of(line, _delimiter(line))
    if "timeStamp" in names and "elapsed" in names:
        return True
    return len(names) in HEADERLESS and re.fullmatch(r"\d{13}", names[0]) is not None


def read(path: Path) -> LaunchFile:
    """Read a JTL file; ValueError if it has no timestamps or an unknown number of columns."""
    line = first_line(path)
    delimiter = _delimiter(line)
    names = fields_of(line, delimiter)
    has_header = "timeStamp" in names
    if has_header:
        if missing := {"timeStamp", "elapsed", "label"} - set(names):
            raise ValueError(f"the header has no column {', '.join(sorted(missing))}")
    else:
        names = HEADERLESS[len(names)]
    rows = read_text(path, names, _KINDS, skip_lines=int(has_header), delimiter=delimiter, required=_REQUIRED)
    labels, label = rows.text("label")
    threads, thread = rows.text("threadName")
    outcomes, outcome = _outcomes(rows)
    log = LaunchLog.of(
        _times_1000(rows.integers("timeStamp", MISSING)),
        [Label("", name) for name in labels],
        outcomes,
        response_us=_times_1000(rows.integers("elapsed", MISSING)),
        first_byte_us=_times_1000(rows.integers("Latency", MISSING)),
        size_bytes=rows.integers("bytes", 0),
        label=label,
        outcome=outcome,
        slot=_slots(threads)[thread] if "threadName" in names else MISSING,
        users=rows.integers("allThreads", MISSING),
    )
    return LaunchFile(log, NAME, rows.bad_rows, tuple(rows.bad_lines))


def write(log: LaunchLog, path: Path) -> None:
    """Write the rows as JTL with a header, in the order of the log; times are rounded to JMeter's milliseconds.

    A slot becomes thread ``Worker 1-5`` (worker and slot counted from 1); the method precedes the label.
    """
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    zeros = np.zeros(len(log), dtype=np.int64)
    outcomes = log.outcomes or (SUCCESS,)
    labels = [f"{label.method} {label.name}".strip() for label in log.labels] or [""]
    users = np.where(log.users == MISSING, 0, log.users)
    columns = {
        "timeStamp": log.launch_us // 1000,
        "elapsed": (np.maximum(log.response_us, 0) + 500) // 1000,
        "label": _dictionary(log.label, labels),
        "responseCode": _dictionary(log.outcome, ["" if o.status == MISSING else str(o.status) for o in outcomes]),
        "responseMessage": _dictionary(log.outcome, ["OK" if not o.failed else o.message for o in outcomes]),
        "threadName": pa.array([f"Worker {w + 1}-{s + 1}" for w, s in zip(log.worker, log.slot, strict=True)]),
        "dataType": pa.array(["text"]).take(pa.array(zeros)),
        "success": pa.array(["true", "false"]).take(pa.array(log.failed.astype(np.int32))),
        "failureMessage": _dictionary(log.outcome, [o.message if o.failed else "" for o in outcomes]),
        "bytes": np.maximum(log.size_bytes, 0),
        "sentBytes": zeros,
        "grpThreads": users,
        "allThreads": users,
        "URL": pa.array([""]).take(pa.array(zeros)),
        "Latency": (np.maximum(log.first_byte_us, 0) + 500) // 1000,
        "IdleTime": zeros,
        "Connect": zeros,
    }
    with path.open("wb") as stream:
        stream.write((",".join(WRITTEN) + "\n").encode())
        options = arrow_csv.WriteOptions(include_header=False)
        arrow_csv.write_csv(pa.table({name: columns[name] for name in WRITTEN}), stream, options)


def _delimiter(line: str) -> str:
    return max(",;\t|", key=line.count)


def _times_1000(values: Int64) -> Int64:
    """Return milliseconds as microseconds, in the values' own memory if it is writable; MISSING stays."""
    missing = values < 0
    values = np.multiply(values, 1000, out=values if values.flags.writeable else None)
    values[missing] = MISSING
    return values


def _slots(threads: list[str]) -> Int32:
    """Return the slot of each thread: its rank in the numeric order of the suffix, then of the name."""

    def order(name: str) -> tuple[list[int], str]:
        suffix = re.search(r"(\d+)-(\d+)$", name)
        return ([int(part) for part in suffix.groups()] if suffix else [], name)

    ranks = {name: k for k, name in enumerate(sorted(set(threads), key=order))}
    return np.array([ranks[name] for name in threads] or [0], dtype=np.int32)


def _outcomes(rows: TextRows) -> tuple[list[Outcome], Int32]:
    """Return the outcomes, and each row's index into them; without a success column nothing has failed."""
    columns = [rows.text(name) for name in ("success", "responseCode", "responseMessage", "failureMessage")]
    combined, used = combine([(column, len(values)) for values, column in columns])
    successes, codes, messages, reasons = (values for values, _ in columns)
    outcomes: list[Outcome] = []
    for s, c, m, r in used.tolist():
        failed = successes[s].strip().lower() == "false"
        status = int(codes[c]) if re.fullmatch(r"\d{1,9}", codes[c]) else MISSING
        # a code that is no number ("Non HTTP response code: java.net.ConnectException") belongs to the message
        text = reasons[r] or messages[m] or ("" if status != MISSING else codes[c])
        outcomes.append(Outcome(failed, status, text if failed else ""))
    return outcomes or [SUCCESS], combined


def _dictionary(codes: Int32, values: list[str]) -> pa.Array:
    import pyarrow as pa

    # readers that go line by line fail at a line break in a message; JMeter's own columns have none
    clean = [" ".join(value.split()) for value in values]
    return pa.array(clean).take(pa.array(codes)) if len(codes) else pa.array([], pa.string())
