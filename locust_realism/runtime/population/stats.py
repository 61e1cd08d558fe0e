"""Counts of a population, and the figures of its sessions.

Each process counts for each user class and sends the counts with Locust's reports; the master adds them up. A count is
the total since the test started, so a lost report costs no count. Lengths and lateness of sessions come from the exact
rows of the recording (:class:`~locust_realism.recording.sessions.SessionLog`).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from locust_realism.analysis.document import ArrivalLateness, SessionFigures
from locust_realism.common.numerics import Floats
from locust_realism.recording.launches import MISSING
from locust_realism.recording.sessions import SessionLog
from locust_realism.runtime.users.session import ENDINGS, KILLED, RAN_OUT, STOP_USER, STOPPED, SessionRecord
from locust_realism.runtime.wire import PopulationCounts

LATE_S = 0.1
"""Lateness from which an arrival counts as late."""

_BARS = 40
_MOST_POINTS = 3600
_RECENT = 120


class Census:
    """Counts of one class's population in this process since the test started.

    ``active`` are in session now, ``entered`` are the initial users, ``arrivals`` all later ones. ``balked`` were
    turned away by ``max_users``, ``missed`` were more than a second late and dropped, ``failed`` could not be created,
    ``cut_short`` were stopped by Locust in a running test, ``late_starts`` were late by :data:`LATE_S` or more, and
    ``moved_anew`` are people of a finite population whose worker was lost.
    """

    def __init__(self) -> None:
        self.active = self.highest = self.entered = self.arrivals = self.late_starts = 0
        self.balked = self.missed = self.failed = self.cut_short = self.moved_anew = 0
        self.departures = dict.fromkeys(ENDINGS, 0)
        self.rows: list[tuple[int, int, int, int]] = []

    def started(self, late: float, initial: bool) -> None:
        """Count a session that begins ``late`` seconds after its planned time."""
        self.active += 1
        self.highest = max(self.highest, self.active)
        self.late_starts += late >= LATE_S
        self.entered += initial
        self.arrivals += not initial

    def ended(self, record: SessionRecord, running: bool) -> None:
        """Count an ended session; ``running`` is True while the test goes on."""
        self.active -= 1
        self.departures[record.ending] += 1
        self.cut_short += running and record.ending in (STOPPED, KILLED)

    def tick(self, second: int) -> None:
        """Store the number in session, of arrivals and of departures at a whole second of the run."""
        self.rows.append((second, self.active, self.arrivals, sum(self.departures.values())))

    def report(self) -> PopulationCounts:
        """Return the counts for the master, with the rows since the last report."""
        rows, self.rows = self.rows, []
        return {
            "active": self.active, "entered": self.entered, "arrivals": self.arrivals, "balked": self.balked,
            "missed": self.missed, "failed": self.failed, "cut_short": self.cut_short, "moved_anew": self.moved_anew,
            "late_starts": self.late_starts, "departures": dict(self.departures), "rows": rows,
        }  # fmt: skip


class Series:
    """N, arrivals and departures by second, added up over workers; a long run has a coarser step, in bounded memory."""

    def __init__(self) -> None:
        self.step = 1
        self._sums: dict[int, list[float]] = {}  # by the first second of the step: seconds, N, arrivals, departures
        self._recent: deque[int] = deque(maxlen=_RECENT)

    def add(self, second: int, active: int, arrivals: int, departures: int) -> None:
        """Add one worker's number in session at a second, and its arrivals and departures since the row before."""
        if is_new := second not in self._recent:
            self._recent.append(second)
        self._merge(second, [float(is_new), active, arrivals, departures])
        if len(self._sums) > _MOST_POINTS:
            self.step *= 2
            before, self._sums = self._sums, {}
            for key, values in before.items():
                self._merge(key, values)

    def _merge(self, second: int, values: list[float]) -> None:
        key = second - second % self.step
        self._sums[key] = [a + b for a, b in zip(self._sums.get(key, [0.0] * 4), values, strict=True)]

    def columns(self, most: int = 600) -> dict[str, list[float]]:
        """Return times, average number in session, arrivals and departures per second, at most ``most`` points."""
        keys = sorted(self._sums)
        group = max(1, math.ceil(len(keys) / most))
        result: dict[str, list[float]] = {"t_s": [], "users": [], "arrivals": [], "departures": []}
        for start in range(0, len(keys), group):
            values = [self._sums[key] for key in keys[start : start + group]]
            seconds, *sums = [sum(column) for column in zip(*values, strict=True)]
            result["t_s"].append(keys[start])
            for name, total in zip(("users", "arrivals", "departures"), sums, strict=True):
                result[name].append(total / seconds)
        return result


class Tally:
    """Sum of the reports of all workers on one user class, at the master."""

    def __init__(self) -> None:
        self.series = Series()
        self._lost: dict[str, int] = {}
        self._last: dict[str, PopulationCounts] = {}
        self._counted: dict[str, tuple[int, int]] = {}  # arrivals and departures by worker

    def add(self, worker: str, report: PopulationCounts) -> None:
        """Add a worker's report; a worker that reports again is no longer lost."""
        self._lost.pop(worker, None)
        before = self._counted.get(worker, (0, 0))
        for second, active, *counted in report["rows"]:
            self.series.add(second, active, counted[0] - before[0], counted[1] - before[1])
            before = self._counted[worker] = counted[0], counted[1]
        self._last[worker] = {**report, "rows": []}

    def lose(self, worker: str) -> None:
        """Count the users in session at a lost worker as lost."""
        last = self._last.get(worker)
        if last is not None:
            self._lost[worker] = last["active"]
            last["active"] = 0

    def total(self, name: str) -> int:
        """Return a count, added up over workers; ``lost`` are users in session at a lost worker.

        Older workers do not send every count.
        """
        if name == "lost":
            return sum(self._lost.values())
        reports: list[Mapping[str, object]] = list(self._last.values())
        return sum(value for report in reports if isinstance(value := report.get(name), int))

    def departures(self) -> dict[str, int]:
        """Return the ended sessions by their ending."""
        return {how: sum(report["departures"].get(how, 0) for report in self._last.values()) for how in ENDINGS}


def planned(log: SessionLog, first_us: Mapping[str, int]) -> NDArray[np.bool_]:
    """Return a mask of the sessions of the classes in ``first_us`` that a population planned for that time or later.

    Times are microseconds on the axis of the log.
    """
    never = np.iinfo(np.int64).max
    first = np.array([first_us.get(name, never) for name in log.user_classes], dtype=np.int64)
    return np.asarray((log.planned_us != MISSING) & (log.planned_us >= first[log.user_class]))


def complete(log: SessionLog) -> NDArray[np.bool_]:
    """Return a mask of the sessions that ended by themselves: the statistics of lengths are theirs."""
    by_itself = np.array([ending in (RAN_OUT, STOP_USER) for ending in log.endings], dtype=bool)
    return by_itself[log.ending]


def session_figures(durations: Floats) -> SessionFigures:
    """Return moments, nearest-rank percentiles and a histogram up to the 99 % quantile of session lengths."""
    figures: SessionFigures = {"n": (n := len(durations)), "edges_s": [], "counts": []}
    if not n:
        return figures
    mean = float(durations.mean())
    stddev = float(durations.std(ddof=1)) if n > 1 else None
    p50, p90, p95, p99 = np.quantile(durations, (0.5, 0.9, 0.95, 0.99), method="inverted_cdf").tolist()
    cov = stddev / mean if stddev is not None and mean > 0 else None
    figures |= {
        "mean_s": mean, "sdev_s": stddev, "cov": cov, "p50_s": p50, "p90_s": p90, "p95_s": p95, "p99_s": p99,
        "min_s": float(durations.min()), "max_s": float(durations.max()),
    }  # fmt: skip
    if n > 1 and p99 > 0:
        counts, edges = np.histogram(durations, _BARS, range=(0.0, p99))
        figures["edges_s"], figures["counts"] = edges.tolist(), counts.tolist()
    return figures


def lateness_figures(late_us: NDArray[np.int64]) -> ArrivalLateness:
    """Return nearest-rank percentiles of lateness in milliseconds."""
    if not len(late_us):
        return {"n": 0}
    p50, p95, p99 = (np.quantile(late_us, (0.5, 0.95, 0.99), method="inverted_cdf") / 1e3).tolist()
    return {"n": len(late_us), "p50_ms": p50, "p95_ms": p95, "p99_ms": p99, "max_ms": float(late_us.max()) / 1e3}
