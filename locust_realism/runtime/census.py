"""Counts of a population: kept by each process for each user class, sent with Locust's reports, added up by the master.

Only counts travel, never quantiles, so that the sum over workers is exact. A count is the total since the test started,
so a report that is lost costs no count.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Any

from .sessions import ENDINGS, KILLED, RAN_OUT, STOP_USER, STOPPED, SessionRecord

LATE_BIN_RATIO = 1.1
"""Bins of the lateness grow by this factor: a quantile read from them is at most 10 % too high."""
_LATE_LEAST_S = 1e-5
_LATE_BINS = 1 + math.ceil(math.log(100.0 / _LATE_LEAST_S) / math.log(LATE_BIN_RATIO))
_MOST_POINTS = 3600
_RECENT = 120

TOTALS = ("entered", "arrivals", "balked", "missed", "failed", "cut_short", "moved_anew")
SUMS = ("sessions", "duration_sum", "tasks_sum", "late_count", "late_max")


def late_bin(late: float) -> int:
    """Number of the bin of a lateness in seconds."""
    if late <= _LATE_LEAST_S:
        return 0
    return min(_LATE_BINS - 1, 1 + int(math.log(late / _LATE_LEAST_S) / math.log(LATE_BIN_RATIO)))


def late_quantile(counts: dict[int, int], q: float) -> float | None:
    """The upper edge of the bin that holds the quantile, in seconds; None without samples."""
    total = sum(counts.values())
    if not total:
        return None
    rank, reached = max(1, math.ceil(q * total)), 0
    for number in sorted(counts):
        reached += counts[number]
        if reached >= rank:
            return float(_LATE_LEAST_S * LATE_BIN_RATIO**number)
    raise AssertionError("unreachable: the ranks add up to the total")


class Census:
    """What happened to one class's population in this process since the test started.

    ``active`` is the number in session now, ``entered`` the users of the start in equilibrium, ``arrivals`` those who
    came after; ``balked`` were turned away by ``max_users``, ``missed`` were more than a second late and dropped,
    ``failed`` could not be created, ``moved_anew`` are people of a finite population whose worker was lost.
    """

    def __init__(self) -> None:
        self.active = 0
        self.highest = 0
        self.entered = self.arrivals = self.balked = self.missed = self.failed = self.cut_short = self.moved_anew = 0
        self.departures = dict.fromkeys(ENDINGS, 0)
        self.sessions = 0
        self.duration_sum = 0.0
        self.tasks_sum = 0
        self.late_count = 0
        self.late_max = 0.0
        self.late: dict[int, int] = {}
        self.rows: list[tuple[int, int, int]] = []

    def started(self, late: float, initial: bool) -> None:
        """A session begins, ``late`` seconds after it was planned."""
        self.active += 1
        self.highest = max(self.highest, self.active)
        if initial:
            self.entered += 1
        else:
            self.arrivals += 1
        self.late_count += 1
        self.late_max = max(self.late_max, late)
        number = late_bin(late)
        self.late[number] = self.late.get(number, 0) + 1

    def ended(self, record: SessionRecord, running: bool, initial: bool) -> None:
        """A session has ended; one that Locust stops while the test goes on was cut short."""
        self.active -= 1
        self.departures[record.ending] += 1
        self.cut_short += running and record.ending in (STOPPED, KILLED)
        if record.ending in (RAN_OUT, STOP_USER) and not initial:
            # of those who were there at the start only the rest of the session was seen
            self.sessions += 1
            self.duration_sum += record.duration
            self.tasks_sum += record.tasks

    def tick(self, second: int) -> None:
        """Note the number in session and of arrivals at a whole second of the run."""
        self.rows.append((second, self.active, self.arrivals))

    def report(self) -> dict[str, Any]:
        """Plain data for the master, with the rows since the last report."""
        rows, self.rows = self.rows, []
        data: dict[str, Any] = {name: getattr(self, name) for name in (*TOTALS, *SUMS)}
        return data | {
            "active": self.active,
            "departures": dict(self.departures),
            "late": list(self.late.items()),
            "rows": rows,
        }


class Series:
    """N and arrivals by second, added up over workers; a long run is kept at a coarser step, in bounded memory."""

    def __init__(self) -> None:
        self.step = 1
        self._active: dict[int, float] = {}
        self._seconds: dict[int, int] = {}
        self._arrivals: dict[int, int] = {}
        self._recent: deque[int] = deque(maxlen=_RECENT)

    def add(self, second: int, active: int, arrivals: int) -> None:
        """One worker's number in session at a second, and its arrivals in the second before."""
        key = second - second % self.step
        if second not in self._recent:
            self._recent.append(second)
            self._seconds[key] = self._seconds.get(key, 0) + 1
        self._active[key] = self._active.get(key, 0) + active
        self._arrivals[key] = self._arrivals.get(key, 0) + arrivals
        if len(self._active) > _MOST_POINTS:
            self._coarsen()

    def _coarsen(self) -> None:
        self.step *= 2
        for name in ("_active", "_seconds", "_arrivals"):
            merged: dict[int, Any] = {}
            for key, value in getattr(self, name).items():
                merged[key - key % self.step] = merged.get(key - key % self.step, 0) + value
            setattr(self, name, merged)

    def columns(self, most: int = 600) -> dict[str, list[float]]:
        """Times, average number in session and arrivals per second, at most ``most`` points, oldest first."""
        keys = sorted(self._active)
        group = max(1, math.ceil(len(keys) / most))
        result: dict[str, list[float]] = {"t": [], "users": [], "rate": []}
        for start in range(0, len(keys), group):
            part = keys[start : start + group]
            seconds = sum(self._seconds[key] for key in part)
            result["t"].append(part[0])
            result["users"].append(sum(self._active[key] for key in part) / seconds)
            result["rate"].append(sum(self._arrivals[key] for key in part) / seconds)
        return result


class Tally:
    """The master's sum of the reports of all workers on one user class."""

    def __init__(self) -> None:
        self.series = Series()
        self._lost: dict[str, int] = {}
        self._last: dict[str, dict[str, Any]] = {}
        self._arrived: dict[str, int] = {}

    def add(self, worker: str, report: dict[str, Any]) -> None:
        """Take in a worker's report; one that was taken for lost is not any more."""
        self._lost.pop(worker, None)
        for second, active, arrivals in report["rows"]:
            self.series.add(second, active, arrivals - self._arrived.get(worker, 0))
            self._arrived[worker] = arrivals
        self._last[worker] = {**report, "rows": []}

    def lose(self, worker: str) -> None:
        """A worker is gone: who was in session there is lost."""
        last = self._last.get(worker)
        if last is not None:
            self._lost[worker] = last["active"]
            last["active"] = 0

    @property
    def lost(self) -> int:
        """Users who were in session at a worker that went."""
        return sum(self._lost.values())

    def total(self, name: str) -> float:
        """A count, added up over workers."""
        values = [report[name] for report in self._last.values()]
        return max(values, default=0.0) if name == "late_max" else sum(values)

    def departures(self) -> dict[str, int]:
        """Ended sessions by how they ended."""
        return {how: sum(report["departures"].get(how, 0) for report in self._last.values()) for how in ENDINGS}

    def late(self) -> dict[int, int]:
        """Bins of the lateness, added up over workers."""
        merged: dict[int, int] = {}
        for report in self._last.values():
            for number, count in report["late"]:
                merged[number] = merged.get(number, 0) + count
        return merged

    def mean_duration(self) -> float | None:
        """Average length of the sessions that ended by themselves, in seconds."""
        sessions = self.total("sessions")
        return self.total("duration_sum") / sessions if sessions else None
