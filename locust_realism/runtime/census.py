"""Counts of a population: kept by each process for each user class, sent with Locust's reports, added up by the master.

Only counts travel, never quantiles, so that the sum over workers is exact. A count is the total since the test started,
so a report that is lost costs no count.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Any

from .histogram import Histogram
from .sessions import ENDINGS, KILLED, RAN_OUT, STOP_USER, STOPPED, SessionRecord

_MOST_POINTS = 3600
_RECENT = 120

TOTALS = ("entered", "arrivals", "balked", "missed", "failed", "cut_short", "moved_anew")
SUMS = ("tasks_sum", "late_max")


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
        self.tasks_sum = 0
        self.late_max = 0.0
        self.late = Histogram()
        self.durations = Histogram()
        self.rows: list[tuple[int, int, int, int]] = []

    def started(self, late: float, initial: bool) -> None:
        """A session begins, ``late`` seconds after it was planned."""
        self.active += 1
        self.highest = max(self.highest, self.active)
        if initial:
            self.entered += 1
        else:
            self.arrivals += 1
        self.late_max = max(self.late_max, late)
        self.late.add(late)

    def ended(self, record: SessionRecord, running: bool, initial: bool) -> None:
        """A session has ended; one that Locust stops while the test goes on was cut short."""
        self.active -= 1
        self.departures[record.ending] += 1
        self.cut_short += running and record.ending in (STOPPED, KILLED)
        if record.ending in (RAN_OUT, STOP_USER) and not initial:
            # of those who were there at the start only the rest of the session was seen
            self.durations.add(record.duration)
            self.tasks_sum += record.tasks

    def tick(self, second: int) -> None:
        """Note the number in session, of arrivals and of departures at a whole second of the run."""
        self.rows.append((second, self.active, self.arrivals, sum(self.departures.values())))

    def report(self) -> dict[str, Any]:
        """Plain data for the master, with the rows since the last report."""
        rows, self.rows = self.rows, []
        data: dict[str, Any] = {name: getattr(self, name) for name in (*TOTALS, *SUMS)}
        return data | {
            "active": self.active,
            "departures": dict(self.departures),
            "late": self.late.report(),
            "durations": self.durations.report(),
            "rows": rows,
        }


class Series:
    """N, arrivals and departures by second, added up over workers; long runs at a coarser step, in bounded memory."""

    def __init__(self) -> None:
        self.step = 1
        self._sums: dict[int, list[float]] = {}  # by the first second of the step: seconds, N, arrivals, departures
        self._recent: deque[int] = deque(maxlen=_RECENT)

    def add(self, second: int, active: int, arrivals: int, departures: int) -> None:
        """One worker's number in session at a second, and its arrivals and departures since the row before."""
        is_new = second not in self._recent
        if is_new:
            self._recent.append(second)
        self._merge(second, [float(is_new), active, arrivals, departures])
        if len(self._sums) > _MOST_POINTS:
            self.step *= 2
            before, self._sums = self._sums, {}
            for key, values in before.items():
                self._merge(key, values)

    def _merge(self, second: int, values: list[float]) -> None:
        key = second - second % self.step
        have = self._sums.get(key)
        self._sums[key] = values if have is None else [a + b for a, b in zip(have, values, strict=True)]

    def columns(self, most: int = 600) -> dict[str, list[float]]:
        """Times, average number in session, arrivals and departures per second, at most ``most`` points in order."""
        keys = sorted(self._sums)
        group = max(1, math.ceil(len(keys) / most))
        result: dict[str, list[float]] = {"t_s": [], "users": [], "arrivals": [], "departures": []}
        for start in range(0, len(keys), group):
            sums = [
                sum(column) for column in zip(*(self._sums[key] for key in keys[start : start + group]), strict=True)
            ]
            result["t_s"].append(keys[start])
            for name, value in zip(("users", "arrivals", "departures"), sums[1:], strict=True):
                result[name].append(value / sums[0])
        return result


class Tally:
    """The master's sum of the reports of all workers on one user class."""

    def __init__(self) -> None:
        self.series = Series()
        self._lost: dict[str, int] = {}
        self._last: dict[str, dict[str, Any]] = {}
        self._counted: dict[str, tuple[int, int]] = {}

    def add(self, worker: str, report: dict[str, Any]) -> None:
        """Take in a worker's report; one that was taken for lost is not any more."""
        self._lost.pop(worker, None)
        for second, active, arrivals, departures in report["rows"]:
            before = self._counted.get(worker, (0, 0))
            self.series.add(second, active, arrivals - before[0], departures - before[1])
            self._counted[worker] = (arrivals, departures)
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

    def histogram(self, name: str) -> Histogram:
        """``late`` or ``durations``, added up over workers."""
        whole = Histogram()
        for report in self._last.values():
            whole.merge(report[name])
        return whole
