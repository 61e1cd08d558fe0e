"""From log files to counts: requests of several files in order of time, their sessions, arrivals and names.

The files are read once, as a stream. What stays is counts (by minute, by length of time, by name) and the sessions that
are under way, so a log of any length takes the same memory.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
from numpy.typing import NDArray

from locust_realism.recording.formats import access_logs
from locust_realism.recording.formats.access_logs import VISITORS, AccessLog
from locust_realism.recording.launches import MISSING, Label, LaunchLog
from locust_realism.recording.names import OTHER, LabelTable, RequestFilter
from locust_realism.recording.requests import Disorder, RequestBlock, in_time_order
from locust_realism.recording.source import BadLine
from locust_realism.workload.observed_rates import BINS_S, ArrivalCounter
from locust_realism.workload.visits import SessionFinder

_QUARTER_US = 900_000_000
_PIECE = 65_536

SILENCE_S = 86_400
"""So long without any request means that nothing was recorded, not that nobody came."""


@dataclass(frozen=True)
class FitSettings:
    """How a log is read and fitted; ValueError for impossible values.

    - ``gap_s`` seconds without a request that end a session; ``visitor`` what tells visitors apart (VISITORS)
    - ``no_static``, ``no_bots``, ``exclude`` (regular expressions of paths): requests that do not count
    - ``keep_ids``: do not put {id} in place of identifiers in paths
    - ``timezone`` of the time of day, a name of the IANA database; None takes each line's own offset
    - ``bin_s`` width of the bins of a day in seconds, one of BINS_S; None chooses by the number of sessions
    - ``confidence`` of all intervals
    """

    gap_s: float = 1800.0
    visitor: str = VISITORS[0]
    no_static: bool = False
    no_bots: bool = False
    exclude: tuple[str, ...] = ()
    keep_ids: bool = False
    timezone: str | None = None
    bin_s: int | None = None
    confidence: float = 0.95

    def __post_init__(self) -> None:
        if not 1 <= self.gap_s <= 86_400:
            raise ValueError(f"gap_s must be in [1, 86400], not {self.gap_s!r}")
        if self.visitor not in VISITORS:
            raise ValueError(f"visitor must be one of {', '.join(VISITORS)}, not {self.visitor!r}")
        if self.bin_s is not None and self.bin_s not in BINS_S:
            raise ValueError(f"bin_s must be one of {BINS_S}, not {self.bin_s!r}")
        if not 0 < self.confidence < 1:
            raise ValueError(f"confidence must be in (0, 1), not {self.confidence!r}")
        self.patterns()
        self.zone()

    def patterns(self) -> tuple[re.Pattern[str], ...]:
        """``exclude``, compiled."""
        try:
            return tuple(re.compile(pattern) for pattern in self.exclude)
        except re.error as error:
            raise ValueError(f"exclude must be regular expressions, not {self.exclude!r}: {error}") from None

    def zone(self) -> ZoneInfo | None:
        """``timezone``, looked up."""
        try:
            return None if self.timezone is None else ZoneInfo(self.timezone)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError(f"timezone must be a name such as Europe/Berlin, not {self.timezone!r}") from None


@dataclass
class ReadLog:
    """What is left of the files once they have been read: counts.

    - ``sessions_early`` arrivals of sessions in the first gap of the log, some of which began before it
    - ``label_counts``, ``label_failures`` by number of ``labels``
    - ``first_us``, ``last_us`` of the requests, and ``first_local_s``, ``last_local_s`` on the log's own clock
    """

    sessions: SessionFinder
    labels: LabelTable
    wanted: RequestFilter
    format: str
    resolution_s: float
    answers_known: bool = False
    rows: int = 0
    without_visitor: int = 0
    bad_rows: int = 0
    bad_lines: list[tuple[str, BadLine]] = field(default_factory=list)
    damage: list[str] = field(default_factory=list)
    late: int = 0
    offset_changes: int = 0
    silent_s: int = 0
    first_us: int = 0
    last_us: int = 0
    first_local_s: int = 0
    last_local_s: int = 0
    early_local_s: int = 0
    requests: ArrivalCounter = field(default_factory=ArrivalCounter)
    sessions_early: ArrivalCounter = field(default_factory=ArrivalCounter)
    sessions_later: ArrivalCounter = field(default_factory=ArrivalCounter)
    label_counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(64, dtype=np.int64))
    label_failures: NDArray[np.int64] = field(default_factory=lambda: np.zeros(64, dtype=np.int64))


def read_log(
    paths: Sequence[Path], settings: FitSettings, progress: Callable[[float], None] = lambda share: None
) -> ReadLog:
    """Read access logs, or recordings of a load test (JTL and the other formats of ``recording.formats``).

    ``progress`` is told the share that is done. Raises OSError where a file cannot be opened, ValueError where its
    format is not known, where files are of different kinds, or where they hold no request.
    """
    labels = LabelTable(collapse=not settings.keep_ids)
    wanted = RequestFilter(settings.no_static, settings.no_bots, settings.patterns())
    kinds = {path: access_logs.recognises(path) for path in paths}
    if len(set(kinds.values())) > 1:
        others = ", ".join(path.name for path, is_log in kinds.items() if not is_log)
        raise ValueError(f"files must be all access logs or none: {others} is none")
    if all(kinds.values()):
        logs = [AccessLog(path) for path in paths]
        streams = [access_logs.read_blocks(log, labels, wanted, settings.visitor) for log in logs]
        read = _consume(streams, settings, labels, wanted, logs, progress)
    else:
        read = _read_recordings(paths, settings, labels, wanted)
    if not read.rows:
        left_out = sum(wanted.left_out.values())
        raise ValueError(f"no request is left of {', '.join(p.name for p in paths)} ({left_out} were left out)")
    return read


def _consume(
    streams: Sequence[Iterator[RequestBlock]],
    settings: FitSettings,
    labels: LabelTable,
    wanted: RequestFilter,
    logs: Sequence[AccessLog],
    progress: Callable[[float], None],
    resolution_s: float | None = None,
    kind: str = access_logs.NAME,
) -> ReadLog:
    disorder, zone = Disorder(), settings.zone()
    read: ReadLog | None = None
    offsets: dict[int, int] = {}
    for block in in_time_order(streams, disorder):
        if read is None:
            unit = resolution_s or min(log.resolution_s for log in logs)
            finder = SessionFinder(gap=settings.gap_s, resolution=unit)
            read = ReadLog(finder, labels, wanted, kind, unit, answers_known=not logs)
        offset = block.offset_s.astype(np.int64) if zone is None else _offsets(block.time_us, zone, offsets)
        _add(read, block, offset)
        if logs:
            progress(sum(log.share for log in logs) / len(logs))
    if read is None:
        return ReadLog(SessionFinder(gap=settings.gap_s, resolution=1.0), labels, wanted, kind, 1.0)
    read.sessions.finish()
    read.late = disorder.late
    for log in logs:
        read.bad_rows += log.bad_rows
        read.bad_lines += [(log.path.name, bad) for bad in log.bad_lines]
        read.damage += [f"{log.path.name}: {log.damage}"] if log.damage else []
    return read


def _offsets(time_us: NDArray[np.int64], zone: ZoneInfo, known: dict[int, int]) -> NDArray[np.int64]:
    """Seconds that the clock of a zone is ahead of UTC at each time; no zone changes within a quarter of an hour."""
    from datetime import UTC, datetime

    quarters, where = np.unique(time_us // _QUARTER_US, return_inverse=True)
    for quarter in quarters.tolist():
        if quarter not in known:
            shift = datetime.fromtimestamp(quarter * 900, UTC).astimezone(zone).utcoffset()
            known[quarter] = int(shift.total_seconds()) if shift else 0
    result: NDArray[np.int64] = np.array([known[q] for q in quarters.tolist()], dtype=np.int64)[where]
    if len(known) > 100_000:
        known.clear()
    return result


def _add(read: ReadLog, block: RequestBlock, offset: NDArray[np.int64]) -> None:
    utc = block.time_us // 1_000_000
    local = utc + offset
    if not read.rows:
        read.first_us, read.first_local_s = int(block.time_us[0]), int(local[0])
        last_offset = int(offset[0])
    else:
        last_offset = read.last_local_s - read.last_us // 1_000_000
    _note_jumps(read, utc, offset, last_offset)
    read.rows += len(block)
    read.last_us, read.last_local_s = int(block.time_us[-1]), int(local[-1])
    read.requests.add(local)
    _count_labels(read, block)
    known = block.visitor != MISSING
    read.without_visitor += int((~known).sum())
    new = np.zeros(len(block), dtype=np.bool_)
    new[known] = read.sessions.feed(block.time_us[known], block.end_us[known], block.visitor[known])
    early = block.time_us < read.sessions.early_until_us
    read.sessions_early.add(local[new & early])
    read.sessions_later.add(local[new & ~early])
    if early.any():
        # the clock time at which the early part ends, should it be over
        read.early_local_s = read.sessions.early_until_us // 1_000_000 + int(offset[np.flatnonzero(early)[-1]])


def _note_jumps(read: ReadLog, utc: NDArray[np.int64], offset: NDArray[np.int64], last_offset: int) -> None:
    """Changes of the clock, and silences of a day or more, in which nothing was recorded."""
    counters = (read.requests, read.sessions_early, read.sessions_later)
    for row in np.flatnonzero(np.diff(offset, prepend=last_offset))[:1000].tolist():
        before = last_offset if row == 0 else int(offset[row - 1])
        for counter in counters:
            counter.shift(int(utc[row]) + before, int(utc[row] + offset[row]))
        read.offset_changes += 1
    last_utc = read.last_us // 1_000_000 if read.rows else int(utc[0])
    pause = np.diff(utc, prepend=last_utc)
    for row in np.flatnonzero(pause >= SILENCE_S).tolist():
        for counter in counters:
            counter.shift(int(utc[row] + offset[row] - pause[row]) + 1, int(utc[row] + offset[row]))
        read.silent_s += int(pause[row])


def _count_labels(read: ReadLog, block: RequestBlock) -> None:
    size = len(read.label_counts)
    if len(read.labels.labels) > size:
        more = 2 * len(read.labels.labels) - size
        read.label_counts = np.append(read.label_counts, np.zeros(more, dtype=np.int64))
        read.label_failures = np.append(read.label_failures, np.zeros(more, dtype=np.int64))
        size += more
    read.label_counts += np.bincount(block.label, minlength=size)
    read.label_failures += np.bincount(block.label[block.failed], minlength=size)


def _read_recordings(
    paths: Sequence[Path], settings: FitSettings, labels: LabelTable, wanted: RequestFilter
) -> ReadLog:
    """Recordings of load tests, which the readers of ``recording.formats`` hold as a whole."""
    from locust_realism.recording.formats import open_launches

    files = []
    for path in paths:
        try:
            files.append(open_launches(path))
        except ValueError as error:
            raise ValueError(f"{path} is no access log in the common or combined format, and {error}") from None
    streams = [_pieces(file.log, labels, wanted) for file in files]
    unit = 1e-3 if all((file.log.launch_us % 1000 == 0).all() for file in files) else 1e-6
    read = _consume(streams, settings, labels, wanted, [], lambda share: None, unit, files[0].format)
    for path, file in zip(paths, files, strict=True):
        read.bad_rows += file.bad_rows
        read.bad_lines += [(path.name, bad) for bad in file.bad_lines]
    return read


def _pieces(log: LaunchLog, labels: LabelTable, wanted: RequestFilter) -> Iterator[RequestBlock]:
    """A log of launches in order of time; the visitor is the user's slot. Nothing says where its clock was."""
    log = log.sorted_by_launch()
    names = [f"{label.method or 'GET'} {label.name.replace(' ', '%20')}" for label in log.labels]
    allowed = np.array([bool(wanted.mask([name], [""])[0]) for name in names] or [True])
    counted = np.bincount(log.label, minlength=len(names))
    wanted.left_out = {"requests by the filters": n} if (n := int(counted[~allowed].sum())) else {}
    wanted.static = sum(int(n) for n, name in zip(counted, names, strict=False) if wanted.is_static(name))
    codes = np.array([labels.code_of(label) for label in log.labels] or [labels.code_of(OTHER)], dtype=np.int32)
    for label in log.labels:
        labels.example(label, label.name)
    answered = log.launch_us + np.maximum(log.response_us, 0)
    visitor = np.where(log.slot == MISSING, np.int64(MISSING), (log.worker.astype(np.int64) << 32) + log.slot)
    for first in range(0, len(log), _PIECE):
        rows = np.arange(first, min(first + _PIECE, len(log)))
        rows = rows[allowed[log.label[rows]]]
        zeros = np.zeros(len(rows), dtype=np.int32)
        yield RequestBlock(
            log.launch_us[rows], answered[rows], zeros, visitor[rows], codes[log.label[rows]], log.failed[rows]
        )


def label_rows(read: ReadLog) -> list[tuple[Label, int, int, list[str]]]:
    """Labels with their requests, failures and example paths, the most frequent first, OTHER last."""
    used = np.flatnonzero(read.label_counts[: len(read.labels.labels)])
    order = sorted(used.tolist(), key=lambda code: (code == 0, -int(read.label_counts[code]), code))
    return [
        (read.labels.labels[c], int(read.label_counts[c]), int(read.label_failures[c]), read.labels.examples[c])
        for c in order
    ]
