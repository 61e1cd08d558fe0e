"""Sessions in a stream of requests: what one visitor does with no pause longer than a gap.

The stream may be as long as it likes: of a session that is under way there are five numbers, of one that has ended
there are counts. Sessions at the start of the log may have begun before it, so they are kept apart.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from .grouped import GroupedTimes, Int64, TimeCounter

_LONGEST_SESSION_S = 7 * 86_400.0
_MOST_REQUESTS = 10_000


@dataclass(frozen=True)
class SessionTimes:
    """What is known of some sessions.

    - ``lengths`` counts of sessions by number of requests, shape (10001,); the last one holds all longer ones too
    - ``requests`` in them altogether
    - ``durations`` from the first request to the last one, sessions of one request left out
    - ``think_times`` between the requests of a session (from the answer to the next request where answers are known)
    """

    lengths: Int64
    requests: int
    durations: GroupedTimes
    think_times: GroupedTimes

    @property
    def n(self) -> int:
        """Number of sessions."""
        return int(self.lengths.sum())


class _Tally:
    def __init__(self, resolution: float, gap: float) -> None:
        self.lengths = np.zeros(_MOST_REQUESTS + 1, dtype=np.int64)
        self.requests = 0
        self.durations = TimeCounter(resolution, _LONGEST_SESSION_S)
        self.think_times = TimeCounter(resolution, gap)

    def add(self, counts: Int64, durations: Int64) -> None:
        self.lengths += np.bincount(np.minimum(counts, _MOST_REQUESTS), minlength=len(self.lengths))
        self.requests += int(counts.sum())
        self.durations.add(durations[counts > 1])


@dataclass
class _Open:
    """Sessions that are under way, one column an array: five numbers each."""

    visitor: Int64 = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    start: Int64 = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    last: Int64 = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    end: Int64 = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    count: Int64 = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def take(self, rows: NDArray[np.bool_]) -> _Open:
        return _Open(*(column[rows] for column in (self.visitor, self.start, self.last, self.end, self.count)))


class SessionFinder:
    """Finds the sessions in requests that come in order of time.

    ``gap`` seconds without a request end a session; ``resolution`` is that of the log's times in seconds.

    >>> finder = SessionFinder(gap=1800, resolution=1.0)
    >>> seconds = np.array([0, 10, 40, 4000]) * 1_000_000
    >>> finder.feed(seconds, seconds, np.array([7, 8, 7, 7])).tolist()  # which requests begin a session
    [True, True, False, True]
    >>> finder.finish()
    >>> finder.sessions(early=True).n, finder.sessions(early=True).think_times.mean
    (3, 40.0)
    """

    def __init__(self, *, gap: float, resolution: float) -> None:
        self._gap = round(gap * 1e6)
        self._first: int | None = None
        self._passed = 0
        self._open = _Open()
        self._early, self._later, self._cut = (_Tally(resolution, gap) for _ in range(3))
        self.unfinished = 0

    def feed(self, time_us: Int64, end_us: Int64, visitor: Int64) -> NDArray[np.bool_]:
        """Requests in ascending order of time, none before those of the last call; shape (n,) each.

        Returns which of them begin a session, shape (n,).
        """
        if not len(time_us):
            return np.zeros(0, dtype=np.bool_)
        if self._first is None:
            self._first = int(time_us[0])
        known = self._open
        carried = len(known.visitor)
        # One row for the last request of each session under way, then the new ones; a stable sort keeps that order.
        visitors = np.concatenate((known.visitor, visitor))
        order = np.argsort(visitors, kind="stable")
        visitors = visitors[order]
        times = np.concatenate((known.last, time_us))[order]
        ends = np.concatenate((known.end, end_us))[order]
        starts = np.concatenate((known.start, time_us))[order]
        counts = np.concatenate((known.count, np.ones(len(time_us), dtype=np.int64)))[order]
        ends = _running_maximum(ends, visitors)
        same = np.concatenate(([False], visitors[1:] == visitors[:-1]))
        pause = times - np.concatenate(([0], ends[:-1]))
        begins = ~same | (pause > self._gap)
        head = np.flatnonzero(begins)
        inside = ~begins
        session_start = np.repeat(starts[head], np.diff(np.append(head, len(times))))
        for tally, rows in self._by_age(session_start):
            tally.think_times.add(np.maximum(pause[inside & rows], 0))
        tail = np.append(head[1:], len(times)) - 1
        sessions = _Open(visitors[head], starts[head], times[tail], ends[tail], np.add.reduceat(counts, head))
        self._passed = int(time_us[-1])
        ended = np.append(sessions.visitor[1:] == sessions.visitor[:-1], False)
        ended |= sessions.end < self._passed - self._gap
        self._count(sessions.take(ended))
        self._open = sessions.take(~ended)
        new = np.zeros(len(times), dtype=np.bool_)
        new[order] = begins
        return new[carried:]

    def finish(self) -> None:
        """The log is over: sessions that may go on after it are counted if they began a gap before its end.

        Leaving out every session that is under way would leave out long ones more often than short ones.
        """
        counted = self._open.start <= self._passed - self._gap
        self.unfinished = int((~counted).sum())
        self._count(self._open.take(counted))
        rest = self._open.take(~counted)
        self._cut.add(rest.count, rest.last - rest.start)
        self._open = _Open()

    @property
    def early_until_us(self) -> int:
        """Sessions that began before this may have been under way when the log began."""
        return (self._first or 0) + self._gap

    def sessions(self, *, early: bool = False) -> SessionTimes:
        """The sessions that were seen whole; with ``early`` all there are, also those cut by the ends of the log."""
        parts = [self._early, self._later, self._cut] if early else [self._later]
        thinking = [part.think_times.grouped() for part in parts]
        lasting = [part.durations.grouped() for part in parts]
        lengths = np.array([part.lengths for part in parts]).sum(axis=0)
        return SessionTimes(lengths, sum(part.requests for part in parts), _together(lasting), _together(thinking))

    def _by_age(self, start: Int64) -> list[tuple[_Tally, NDArray[np.bool_]]]:
        early = start < self.early_until_us
        return [(self._early, early), (self._later, ~early)]

    def _count(self, sessions: _Open) -> None:
        for tally, rows in self._by_age(sessions.start):
            tally.add(sessions.count[rows], sessions.last[rows] - sessions.start[rows])


def _together(parts: list[GroupedTimes]) -> GroupedTimes:
    counts = np.array([part.counts for part in parts]).sum(axis=0)
    total, squares = sum(part.total for part in parts), sum(part.squares for part in parts)
    return GroupedTimes(parts[0].edges, counts, parts[0].resolution, total, squares)


def _running_maximum(values: Int64, groups: Int64) -> Int64:
    """The greatest value so far within each run of equal groups: an answer may come after that to a later request."""
    if bool((np.diff(values)[groups[1:] == groups[:-1]] >= 0).all()):
        return values
    # Each group is lifted above the one before it, so that one pass does for all.
    number = np.concatenate(([0], np.cumsum(groups[1:] != groups[:-1])))
    low = int(values.min())
    span = int(values.max()) - low + 1
    if span * (int(number[-1]) + 1) < 2**62:
        lifted: Int64 = np.maximum.accumulate(values - low + number * span) - number * span + low
        return lifted
    result = values.copy()
    for rows in np.split(np.arange(len(values)), np.flatnonzero(np.diff(number)) + 1):
        result[rows] = np.maximum.accumulate(values[rows])
    return result
