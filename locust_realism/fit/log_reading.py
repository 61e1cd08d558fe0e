"""Reader of log files into counts: requests of several files in order of time, their sessions, arrivals and names.

The files are read once, as a stream. Only counts (by minute, by length of time, by name) and the sessions under way
stay in memory, however long the log is.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
from numpy.typing import NDArray

from locust_realism.common.validation import one_of, refusal, share
from locust_realism.fit import access_logs
from locust_realism.fit.access_logs import VISITORS, AccessLog, Disorder, RequestBlock, in_time_order
from locust_realism.fit.names import LabelTable, RequestFilter
from locust_realism.fit.rates import BINS_S, ArrivalCounter
from locust_realism.fit.visits import SessionFinder
from locust_realism.recording.launches import MISSING, Label, LaunchLog
from locust_realism.recording.source import BadLine

_QUARTER_US = 900_000_000
_PIECE = 65_536

SILENCE_S = 86_400
"""Shortest gap without requests in the whole log that means a pause of the logging, not of the visitors."""


@dataclass(frozen=True)
class FitSettings:
    """Settings of reading and fitting a log; ValueError for impossible values.

    - ``gap_s`` seconds without a request that end a session; ``visitor`` identity of a visitor (VISITORS)
    - ``no_static``, ``no_bots``, ``exclude`` (regular expressions of paths): requests that do not count
    - ``keep_ids`` keeps identifiers in paths instead of {id}
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
            raise refusal("gap_s", "in [1, 86400]", self.gap_s)
        one_of("visitor", self.visitor, VISITORS)
        if self.bin_s is not None:
            one_of("bin_s", self.bin_s, BINS_S)
        share("confidence", self.confidence)
        self.patterns()
        self.zone()

    def patterns(self) -> tuple[re.Pattern[str], ...]:
        """Return ``exclude``, compiled."""
        try:
            return tuple(re.compile(pattern) for pattern in self.exclude)
        except re.error as error:
            raise ValueError(f"{refusal('exclude', 'regular expressions', self.exclude)}: {error}") from None

    def zone(self) -> ZoneInfo | None:
        """Return the zone of ``timezone``."""
        try:
            return None if self.timezone is None else ZoneInfo(self.timezone)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise refusal("timezone", "a name such as Europe/Berlin", self.timezone) from None


@dataclass
class ReadLog:
    """Counts of the files that were read.

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
    label_counts: Counter[int] = field(default_factory=Counter)
    label_failures: Counter[int] = field(default_factory=Counter)


def read_log(
    paths: Sequence[Path], settings: FitSettings, progress: Callable[[float], None] = lambda share: None
) -> ReadLog:
    """Read access logs, or recordings of a load test (JTL and the other formats of ``recording.formats``).

    ``progress`` is called with the share done. Raises OSError if a file cannot be opened, ValueError if its format is
    unknown, if files are of different kinds, or if they hold no request.
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
        return _consume(paths, streams, settings, labels, wanted, logs, progress)
    return _read_recordings(paths, settings, labels, wanted)


def _consume(
    paths: Sequence[Path],
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
        names, left_out = ", ".join(path.name for path in paths), sum(wanted.left_out.values())
        raise ValueError(f"no request is left of {names} ({left_out} were left out)")
    read.sessions.finish()
    read.late = disorder.late
    for log in logs:
        read.bad_rows += log.bad_rows
        read.bad_lines += [(log.path.name, bad) for bad in log.bad_lines]
        read.damage += [f"{log.path.name}: {log.damage}"] if log.damage else []
    return read


def _offsets(time_us: NDArray[np.int64], zone: ZoneInfo, known: dict[int, int]) -> NDArray[np.int64]:
    """Return a zone's lead over UTC in seconds at each time; no zone changes within a quarter of an hour."""
    quarters, where = np.unique(time_us // _QUARTER_US, return_inverse=True)
    for quarter in quarters.tolist():
        if quarter not in known:
            shift = datetime.fromtimestamp(quarter * 900, UTC).astimezone(zone).utcoffset()
            known[quarter] = int(shift.total_seconds()) if shift else 0
    result = np.array([known[quarter] for quarter in quarters.tolist()], dtype=np.int64)[where]
    if len(known) > 100_000:
        known.clear()
    return result


def _add(read: ReadLog, block: RequestBlock, offset: NDArray[np.int64]) -> None:
    utc = block.time_us // 1_000_000
    local = utc + offset
    last_offset = read.last_local_s - read.last_us // 1_000_000
    if not read.rows:
        read.first_us, read.first_local_s, last_offset = int(block.time_us[0]), int(local[0]), int(offset[0])
    _note_jumps(read, utc, offset, last_offset)
    read.rows += len(block)
    read.last_us, read.last_local_s = int(block.time_us[-1]), int(local[-1])
    read.requests.add(local)
    for counter, labels in ((read.label_counts, block.label), (read.label_failures, block.label[block.failed])):
        counter.update(dict(enumerate(np.bincount(labels).tolist())))
    known = block.visitor != MISSING
    read.without_visitor += int((~known).sum())
    new = np.zeros(len(block), dtype=np.bool_)
    new[known] = read.sessions.feed(block.time_us[known], block.end_us[known], block.visitor[known])
    early = block.time_us < read.sessions.early_until_us
    read.sessions_early.add(local[new & early])
    read.sessions_later.add(local[new & ~early])
    if early.any():
        # clock time of the end of the early part, if it is over
        read.early_local_s = read.sessions.early_until_us // 1_000_000 + int(offset[np.flatnonzero(early)[-1]])


def _note_jumps(read: ReadLog, utc: NDArray[np.int64], offset: NDArray[np.int64], last_offset: int) -> None:
    """Note changes of the clock, and pauses of the logging of a day or more."""
    counters = (read.requests, read.sessions_early, read.sessions_later)
    step = np.diff(offset, prepend=last_offset)
    for row in np.flatnonzero(step)[:1000].tolist():
        for counter in counters:
            counter.shift(int(utc[row] + offset[row] - step[row]), int(utc[row] + offset[row]))
        read.offset_changes += 1
    pause = np.diff(utc, prepend=read.last_us // 1_000_000 if read.rows else utc[0])
    for row in np.flatnonzero(pause >= SILENCE_S).tolist():
        for counter in counters:
            counter.shift(int(utc[row] + offset[row] - pause[row]) + 1, int(utc[row] + offset[row]))
        read.silent_s += int(pause[row])


def _read_recordings(
    paths: Sequence[Path], settings: FitSettings, labels: LabelTable, wanted: RequestFilter
) -> ReadLog:
    """Read recordings of load tests, each as a whole."""
    from locust_realism.recording.formats import open_launches

    files = []
    for path in paths:
        try:
            files.append(open_launches(path))
        except ValueError as error:
            raise ValueError(f"{path} is no access log in the common or combined format, and {error}") from None
    streams = [_pieces(file.log, labels, wanted) for file in files]
    unit = 1e-3 if all((file.log.launch_us % 1000 == 0).all() for file in files) else 1e-6
    read = _consume(paths, streams, settings, labels, wanted, [], lambda share: None, unit, files[0].format)
    for path, file in zip(paths, files, strict=True):
        read.bad_rows += file.bad_rows
        read.bad_lines += [(path.name, bad) for bad in file.bad_lines]
    return read


def _pieces(log: LaunchLog, labels: LabelTable, wanted: RequestFilter) -> Iterator[RequestBlock]:
    """Yield a log of launches in order of time; the visitor is the user's slot, the clock's offset is unknown (0)."""
    log = log.sorted_by_launch()
    names = [f"{label.method or 'GET'} {label.name.replace(' ', '%20')}" for label in log.labels]
    allowed = wanted.mask(names, [""] * len(names))
    counted = np.bincount(log.label, minlength=len(names))
    wanted.left_out = {"requests by the filters": n} if (n := int(counted[~allowed].sum())) else {}
    wanted.static = sum(int(n) for n, name in zip(counted, names, strict=True) if wanted.is_static(name))
    codes = np.array([labels.code_of(label) for label in log.labels], dtype=np.int32)
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
    """Return labels with their requests, failures and example paths, the most frequent first, OTHER last."""
    labels, counts, failures = read.labels, read.label_counts, read.label_failures
    order = sorted((code for code, n in counts.items() if n), key=lambda code: (code == 0, -counts[code], code))
    return [(labels.labels[code], counts[code], failures[code], labels.examples[code]) for code in order]
