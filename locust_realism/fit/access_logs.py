"""Access logs of Apache and nginx in the common or combined format, plain or gzip, read as a stream of blocks.

Reference: Apache's manual, "Log Files", section "Access Log"; nginx, "Module ngx_http_log_module" (its predefined
format is "combined"). The time is in square brackets with its offset from UTC; fields after those of the combined
format are ignored.

Clients choose the content of these lines, so every field is hostile. Matching takes a time linear in the length of a
line; long lines, many names or a compressed file cannot fill the memory. Logs may be larger than memory.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from locust_realism.common.validation import one_of
from locust_realism.fit.names import LabelTable, RequestFilter
from locust_realism.recording.launches import MISSING, Bools, Columns, Int32, Int64
from locust_realism.recording.source import LISTED, BadLine

HOLDBACK_S = 300.0
"""Longest disorder: a server writes a line at the end of its request, so lines are late by the response time."""

_AT_ONCE = 65_536
_MOST_ROWS = 1 << 20


@dataclass(frozen=True)
class RequestBlock(Columns):
    """Rows of a log, columns of shape (n,).

    - ``time_us`` time of the request (or of its log line: see the server's manual), microseconds since the epoch
    - ``end_us`` time of the answer; ``time_us`` where the log has none
    - ``offset_s`` seconds that the log's clock is ahead of UTC
    - ``visitor`` number of the visitor; MISSING (-1) where unknown
    - ``label`` index into the reader's list of labels
    - ``failed`` True if the answer was an error
    """

    time_us: Int64
    end_us: Int64
    offset_s: Int32
    visitor: Int64
    label: Int32
    failed: Bools


@dataclass
class Disorder:
    """Result of :func:`in_time_order`: ``late`` rows came after later rows had been yielded."""

    late: int = 0


def in_time_order(
    streams: Iterable[Iterator[RequestBlock]],
    disorder: Disorder,
    *,
    holdback_s: float = HOLDBACK_S,
    at_once: int = _AT_ONCE,
    most_rows: int = _MOST_ROWS,
) -> Iterator[RequestBlock]:
    """Yield blocks of all streams merged by time, each ascending and none before the preceding one.

    Each stream is nearly in order. Rows are held back until every stream is ``holdback_s`` seconds past them, at most
    ``most_rows`` rows. A row that is later still is counted in ``disorder.late``; its time becomes the latest yielded.
    A stream's position is the median of its last block: one line with a wrong year does not spoil the order.

    >>> def block(*seconds):
    ...     t = np.array(seconds, dtype=np.int64) * 1_000_000
    ...     return RequestBlock(t, t, np.zeros(len(t), np.int32), t, np.zeros(len(t), np.int32), t < 0)
    >>> merged = in_time_order([iter([block(1, 5, 3)]), iter([block(2, 4)])], Disorder())
    >>> [b.time_us.tolist() for b in merged]
    [[1000000, 2000000, 3000000, 4000000, 5000000]]
    """
    holdback = round(holdback_s * 1e6)
    reached: dict[Iterator[RequestBlock], float] = dict.fromkeys(streams, -np.inf)
    held: list[RequestBlock] = []
    passed = -(1 << 62)
    rows, enough = 0, at_once
    while reached:
        stream = min(reached, key=lambda one: reached[one])
        block = next(stream, None)
        if block is None:
            del reached[stream]
        elif len(block):
            reached[stream] = float(np.median(block.time_us))
            held.append(block)
            rows += len(block)
        if rows < enough and reached:
            continue
        if not held:
            break
        everything = RequestBlock.concat(held)
        everything = everything.take(np.argsort(everything.time_us, kind="stable"))
        cut = rows
        if reached:
            cut = int(np.searchsorted(everything.time_us, min(reached.values()) - holdback, side="right"))
            cut = rows // 2 if rows > most_rows and cut < rows // 2 else cut
        ready, rest = everything.take(np.arange(cut)), everything.take(np.arange(cut, rows))
        held, rows = [rest], len(rest)
        # Held rows are sorted again only after as many new ones.
        enough = min(max(at_once, 2 * rows), max(most_rows, rows) + at_once)
        if cut:
            disorder.late += int(np.searchsorted(ready.time_us, passed))
            time_us = np.maximum(ready.time_us, passed)
            yield replace(ready, time_us=time_us, end_us=np.maximum(ready.end_us, time_us))
            passed = int(time_us[-1])


NAME = "access-log"
LONGEST_LINE = 65_536
"""A longer line is bad. Apache takes request lines and headers of 8190 bytes each, escaped up to fourfold."""

_BLOCK = 1 << 20
VISITORS = ("client+agent", "client", "user")
"""Identities of a visitor: address and user agent, address alone, or the name of the logged-in user."""

_TOO_LONG = "longer than 64 kB"
_QUOTED = r'"([^"\\\n]*+(?:\\.[^"\\\n]*+)*+)"'
# Possessive quantifiers (*+): a line that does not match is given up at once, whatever is in it.
_LINE = re.compile(
    # Debian's Apache puts the name and port of the virtual host in front
    r"^(?:[^\s:]++:\d++ (?=\S++ \S++ \S++ \[))?+(\S++) \S++ ((?:[^\[\n]++|\[(?!\d\d/))*+)"
    r"\[(\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d(?:\.\d{1,6})?+ [+-]\d{4})\] "
    rf"{_QUOTED} (\d{{3}}|-) (?:\d++|-)(?: {_QUOTED} {_QUOTED})?+(?: [^\n]*+)?+$",
    re.MULTILINE,
)
_NAMES = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONTHS = {name: f"{number:02d}" for number, name in enumerate(_NAMES, start=1)}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PROBED_LINES = 20


@dataclass
class AccessLog:
    """State of reading one file.

    - ``rows`` used, ``bad_rows`` unreadable, ``bad_lines`` the first of these
    - ``damage`` reason of an early end of the file, empty if there is none
    - ``share`` of the file's bytes read so far, in [0, 1]
    - ``resolution_s`` of its times: 1 second, less if the times have decimals
    """

    path: Path
    rows: int = 0
    bad_rows: int = 0
    bad_lines: list[BadLine] = field(default_factory=list)
    damage: str = ""
    share: float = 0.0
    resolution_s: float = 1.0

    def bad(self, line: int, reason: str) -> None:
        """Count a line that was left out."""
        self.bad_rows += 1
        if len(self.bad_lines) < LISTED:
            self.bad_lines.append(BadLine(line, reason))


def recognises(path: Path) -> bool:
    """Return True if one of a file's first lines is a line of an access log."""
    if path.is_dir():  # a recording
        return False
    probe = AccessLog(path)
    for number, text in _texts(probe, _BLOCK):
        lines = text.split("\n")[: _PROBED_LINES - number + 1]
        return any(_LINE.match(line) for line in lines)
    return False


def read_blocks(
    log: AccessLog, labels: LabelTable, wanted: RequestFilter, visitor: str = VISITORS[0]
) -> Iterator[RequestBlock]:
    """Yield the rows of an access log in the order of the file, some thousands at a time; ``log`` is kept up to date.

    ``visitor`` is the visitor's identity, one of VISITORS; a user "-" is unknown. Rows that ``wanted`` refuses are left
    out and counted there. Raises OSError if the file cannot be opened, ValueError for another ``visitor``.
    """
    one_of("visitor", visitor, VISITORS)
    moments: dict[str, tuple[int, int] | None] = {}
    for number, text in _texts(log, _BLOCK):
        found = _LINE.findall(text)
        lines = text.count("\n") + (not text.endswith("\n"))
        where: list[int] | None = None
        if len(found) != lines:
            found, where = _line_by_line(log, text, number)
        if not found:
            continue
        if len(moments) > 20_000:
            moments.clear()
        clients, users, times, requests, statuses, _, agents = zip(*found, strict=True)
        for time in set(times).difference(moments):
            moments[time] = _moment(time)
        good = np.array([moments[time] is not None for time in times])
        for index in np.flatnonzero(~good).tolist():
            log.bad(where[index] if where else number + index, f"no such time: {times[index]}")
        at = np.array([moments[time] or (0, 0) for time in times], dtype=np.int64)
        if "." in times[0]:
            log.resolution_s = min(log.resolution_s, 10.0 ** -len(times[0].partition(".")[2].partition(" ")[0]))
        kept = wanted.mask(requests, agents) & good
        names = {"user": users, "client": clients}.get(visitor) or tuple(zip(clients, agents, strict=True))
        # Python's hashes differ from run to run, so a client cannot choose a collision; none is MISSING.
        visitor_of = np.array([MISSING if name == "- " else hash(name) for name in names], dtype=np.int64)
        failed = np.array([status >= "4" for status in statuses], dtype=np.bool_)  # "-" is before the digits
        label, offset_s = labels.codes(requests, kept), at[:, 1].astype(np.int32)
        log.rows += int(kept.sum())
        yield RequestBlock(at[:, 0], at[:, 0], offset_s, visitor_of, label, failed).take(kept)


def _line_by_line(log: AccessLog, text: str, number: int) -> tuple[list[tuple[str, ...]], list[int]]:
    """Return the matching lines with their numbers; count the others as bad, empty ones excepted."""
    found, where = [], []
    for index, line in enumerate(text.split("\n"), start=number):
        match = _LINE.match(line)
        if match:
            found.append(match.groups(""))
            where.append(index)
        elif line.strip():
            log.bad(index, "not a line of an access log" if len(line) <= LONGEST_LINE else _TOO_LONG)
    return found, where


def _moment(text: str) -> tuple[int, int] | None:
    """Return microseconds since the epoch and the clock's lead over UTC in seconds; None for an impossible time.

    >>> _moment("10/Oct/2000:13:55:36 -0700")
    (971211336000000, -25200)
    """
    # A leap second is logged as :60; most systems count it as the next minute's first.
    leap = text[18:20] == "60"
    clock = text[12:18] + ("59" if leap else text[18:20]) + text[20:-6]
    try:
        found = datetime.fromisoformat(f"{text[7:11]}-{_MONTHS[text[3:6]]}-{text[:2]}T{clock}{text[-5:]}")
    except (KeyError, ValueError):
        return None
    micros = (found - _EPOCH) // timedelta(microseconds=1) + 1_000_000 * leap
    offset = found.utcoffset() or timedelta()
    return (micros, round(offset.total_seconds())) if 1990 <= found.year < 2200 else None


def _texts(log: AccessLog, size: int) -> Iterator[tuple[int, str]]:
    """Yield whole lines of a file as text, about ``size`` bytes at a time, with the number of the first line."""
    with log.path.open("rb") as raw:
        is_gzip = raw.peek(2)[:2] == b"\x1f\x8b"
        stream = gzip.GzipFile(fileobj=raw) if is_gzip else raw
        length = max(log.path.stat().st_size, 1)
        rest, number, skipping = b"", 1, False
        data = b"-"
        while data:
            try:
                data = stream.read(size)
            except (EOFError, zlib.error, gzip.BadGzipFile) as error:
                log.damage, data = f"the file is damaged or cut off ({error})", b""
            log.share = min(raw.tell() / length, 1.0)
            block = rest + data
            if skipping:
                # the end of an overlong line, whose start has been counted
                newline = block.find(b"\n")
                if newline < 0:
                    rest = b""
                    continue
                block, number, skipping = block[newline + 1 :], number + 1, False
            end = block.rfind(b"\n") + 1 if data else len(block)
            block, rest = block[:end], block[end:]
            if block:
                yield number, block.decode("utf-8", errors="replace").replace("\r\n", "\n")
                number += block.count(b"\n")
            if len(rest) > LONGEST_LINE:
                log.bad(number, _TOO_LONG)
                skipping, rest = True, b""
