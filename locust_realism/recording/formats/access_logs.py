"""Access logs of Apache and nginx in the common or combined format, plain or gzip, read as a stream.

Reference: Apache's manual, "Log Files", section "Access Log"; nginx, "Module ngx_http_log_module" (its predefined
format is "combined"). The time is in square brackets with its offset from UTC; fields after those of the combined
format are ignored. What a client sends is in these lines, so every field is hostile: patterns take a time that is
linear in the length of the line, and neither the length of a line, nor the number of different names, nor a compressed
file can fill the memory.
"""

from __future__ import annotations

import gzip
import io
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

import numpy as np

from locust_realism.recording.launches import MISSING
from locust_realism.recording.names import LabelTable, RequestFilter
from locust_realism.recording.requests import RequestBlock
from locust_realism.recording.source import LISTED, BadLine

NAME = "access-log"
LONGEST_LINE = 65_536
"""A longer line is bad. Apache takes request lines and headers of 8190 bytes each, escaped up to fourfold."""

_BLOCK = 1 << 20
VISITORS = ("client+agent", "client", "user")
"""What tells visitors apart: address and user agent, address alone, or the name of the user who logged in."""

_YEARS = (1990, 2200)
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
_MONTHS = {name: number for number, name in enumerate(_NAMES, start=1)}
_PROBED_LINES = 20


@dataclass
class AccessLog:
    """What has been read of one file so far.

    - ``rows`` that were used, ``bad_rows`` that could not be read, ``bad_lines`` the first of them
    - ``damage`` why the file ended before its end, empty if it did not
    - ``share`` of the file's bytes that have been read, in [0, 1]
    - ``resolution_s`` of its times: 1 second, less where the times have decimals
    """

    path: Path
    rows: int = 0
    bad_rows: int = 0
    bad_lines: list[BadLine] = field(default_factory=list)
    damage: str = ""
    share: float = 0.0
    resolution_s: float = 1.0

    def bad(self, line: int, reason: str) -> None:
        """Count a line that could not be used."""
        self.bad_rows += 1
        if len(self.bad_lines) < LISTED:
            self.bad_lines.append(BadLine(line, reason))


def recognises(path: Path) -> bool:
    """Whether one of a file's first lines is a line of an access log."""
    probe = AccessLog(path)
    for number, text in _texts(probe, _BLOCK):
        lines = text.split("\n")[: _PROBED_LINES - number + 1]
        return any(_LINE.match(line) for line in lines)
    return False


def read_blocks(
    log: AccessLog, labels: LabelTable, wanted: RequestFilter, visitor: str = VISITORS[0]
) -> Iterator[RequestBlock]:
    """The rows of an access log in the order of the file, some thousands at a time; ``log`` is kept up to date.

    ``visitor`` is what tells who made a request, one of VISITORS; a user that is "-" is not known. Rows that ``wanted``
    refuses are left out and counted there. Raises OSError where the file cannot be opened, ValueError for another
    ``visitor``.
    """
    if visitor not in VISITORS:
        raise ValueError(f"visitor must be one of {VISITORS}, not {visitor!r}")
    moments: dict[str, tuple[int, int] | None] = {}
    days: dict[str, tuple[int, int] | None] = {}
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
            moments[time] = _moment(time, days)
        good = [moments[time] is not None for time in times]
        if not all(good):
            for index in np.flatnonzero(~np.array(good)).tolist():
                log.bad(where[index] if where else number + index, f"no such time: {times[index]}")
        at = [moments[time] or (0, 0) for time in times]
        if "." in times[0]:
            log.resolution_s = min(log.resolution_s, 10.0 ** -len(times[0].partition(".")[2].partition(" ")[0]))
        kept = wanted.mask(requests, agents) & np.array(good)
        if visitor == "user":
            visitors = [hash(user) if user != "- " else MISSING for user in users]
        elif visitor == "client":
            visitors = [hash(client) for client in clients]
        else:
            visitors = [hash(pair) for pair in zip(clients, agents, strict=True)]
        yield _block(at, visitors, labels.codes(requests, kept), statuses, kept, log)


def _block(
    at: list[tuple[int, int]],
    visitors: list[int],
    label: np.ndarray[tuple[int, ...], np.dtype[np.int32]],
    statuses: tuple[str, ...],
    kept: np.ndarray[tuple[int, ...], np.dtype[np.bool_]],
    log: AccessLog,
) -> RequestBlock:
    moment = np.array(at, dtype=np.int64)
    # Python's hashes differ from run to run, so nobody can choose clients that collide; none is MISSING.
    visitor = np.array(visitors, dtype=np.int64)
    failed = np.array([status >= "4" for status in statuses], dtype=np.bool_)  # "-" is before the digits
    block = RequestBlock(moment[:, 0], moment[:, 0], moment[:, 1].astype(np.int32), visitor, label, failed).take(kept)
    log.rows += len(block)
    return block


def _line_by_line(log: AccessLog, text: str, number: int) -> tuple[list[tuple[str, ...]], list[int]]:
    """The lines that match, with their numbers; the others are counted as bad (but for empty ones)."""
    found, where = [], []
    for index, line in enumerate(text.split("\n"), start=number):
        match = _LINE.match(line)
        if match:
            found.append(match.groups(""))
            where.append(index)
        elif line.strip():
            log.bad(index, "not a line of an access log" if len(line) <= LONGEST_LINE else _TOO_LONG)
    return found, where


def _moment(text: str, days: dict[str, tuple[int, int] | None]) -> tuple[int, int] | None:
    """Microseconds since the epoch and the seconds that the clock is ahead of UTC; None where there is no such time.

    ``days`` remembers the start of each day, by day and offset.

    >>> _moment("10/Oct/2000:13:55:36 -0700", {})
    (971211336000000, -25200)
    """
    key = text[:11] + text[-5:]
    if key not in days:
        days[key] = _midnight(key)
    day = days[key]
    hour, minute, second = int(text[12:14]), int(text[15:17]), int(text[18:20])
    # A leap second is logged as :60, which is the next minute's first to most systems.
    if day is None or hour > 23 or minute > 59 or second > 60:
        return None
    fraction = text[21:-6]
    micros = int(fraction.ljust(6, "0")) if fraction else 0
    return (day[0] + 3600 * hour + 60 * minute + second) * 1_000_000 + micros, day[1]


def _midnight(text: str) -> tuple[int, int] | None:
    """The start of a day such as 10/Oct/2000-0700 in seconds since the epoch, and its offset in seconds."""
    day, month, year, zone = text[:2], text[3:6], int(text[7:11]), text[11:]
    offset = (int(zone[1:3]) * 3600 + int(zone[3:5]) * 60) * (-1 if zone[0] == "-" else 1)
    if not (_YEARS[0] <= year < _YEARS[1] and month in _MONTHS and abs(offset) < 86_400):
        return None
    try:
        return int(datetime(year, _MONTHS[month], int(day), tzinfo=UTC).timestamp()) - offset, offset
    except ValueError:
        return None


def _texts(log: AccessLog, size: int) -> Iterator[tuple[int, str]]:
    """Whole lines of a file as text, about ``size`` bytes at a time, each with the number of its first line."""
    with ExitStack() as stack:
        read, progress = _opened(log.path, stack)
        rest, number, skipping = b"", 1, False
        data = b"-"
        while data:
            try:
                data = read(size)
            except (EOFError, zlib.error, gzip.BadGzipFile) as error:
                log.damage, data = f"the file is damaged or cut off ({error})", b""
            log.share = progress()
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


def _opened(path: Path, stack: ExitStack) -> tuple[Callable[[int], bytes], Callable[[], float]]:
    """A function that reads the (decompressed) bytes, and one that tells the share of the file that has been read."""
    raw: IO[bytes] = stack.enter_context(path.open("rb"))
    size = max(raw.seek(0, io.SEEK_END), 1)
    raw.seek(0)
    is_gzip = raw.read(2) == b"\x1f\x8b"
    raw.seek(0)
    read = stack.enter_context(gzip.GzipFile(fileobj=raw)).read if is_gzip else raw.read
    return read, lambda: min(raw.tell() / size, 1.0)
