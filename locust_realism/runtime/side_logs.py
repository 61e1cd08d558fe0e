"""Sessions of users and health of the generator, beside the launches: collected, reported to the master, kept.

Rows travel in the reports that carry the launches. They are few, so they are packed inline and kept whole up to a
bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa
from locust.runners import MasterRunner, WorkerRunner

from locust_realism.recording.health import MASTER, HealthLog
from locust_realism.recording.launches import MISSING, Int64
from locust_realism.recording.offsets import ClockLine, packed_line, sessions_on_master_clock, unpacked_line
from locust_realism.recording.packing import pack_table, read_table
from locust_realism.recording.sessions import SessionLog
from locust_realism.runtime.clock import Clock
from locust_realism.runtime.clock_probes import ClockProber, answer_probes
from locust_realism.runtime.health import HealthWatch
from locust_realism.runtime.in_flight import InFlight, hook_clients, in_flight
from locust_realism.runtime.in_flight import forget as forget_in_flight
from locust_realism.runtime.sessions import SessionRecord, session_of, user_sessions

KEY = "locust_realism_side"
"""Our second key in the data of a worker's report."""

MAX_SESSIONS = 1_000_000
"""Ended sessions kept in memory (about 50 MB); the oldest beyond are only in the recording."""

MAX_SECONDS = 400_000
"""Rows of health kept in memory (20 MB): 55 hours of two processes, the last 2 hours of fifty."""

GONE = "worker gone"
"""How sessions ended whose worker was lost: at its last report, as far as anybody knows."""


class SideLogs:
    """What one process knows of sessions and health, its workers' included.

    ``on_rows(kind, table, rows)`` is told of what goes to disk.
    """

    def __init__(
        self,
        environment: Any,
        clock: Clock,
        *,
        has_users: bool,
        on_rows: Callable[[str, pa.Table, int], None] | None = None,
    ) -> None:
        self.environment = environment
        self.clock = clock
        self.has_users = has_users
        self.counts_sends = hook_clients(environment.events.request)
        self._on_rows = on_rows
        self._ended: list[SessionRecord] = []
        self._sessions: list[SessionLog] = []
        self._health: list[HealthLog] = []
        self._open: dict[str, tuple[int, int, Int64]] = {}  # client -> worker, when told, starts
        self._gone: dict[str, SessionLog] = {}
        self._in_flight: dict[str, dict[str, int]] = {}
        self._lines: dict[int, ClockLine] = {}
        self._prober: ClockProber | None = None
        if isinstance(environment.runner, WorkerRunner):
            self._prober = ClockProber(environment.runner, clock)
        elif isinstance(environment.runner, MasterRunner):
            answer_probes(environment.runner, clock)
        self._watch = HealthWatch(environment.runner, clock, 0 if has_users else MASTER)
        if has_users:
            user_sessions(environment).listeners.append(self._ended.append)

    def close(self) -> None:
        """Stop collecting."""
        self._watch.close()
        if self._prober is not None:
            self._prober.close()
        if self.has_users and self._ended.append in user_sessions(self.environment).listeners:
            user_sessions(self.environment).listeners.remove(self._ended.append)

    def start_run(self) -> None:
        """A new run: forget what was."""
        self._ended.clear()
        self._sessions, self._health = [], []
        self._open.clear()
        self._gone.clear()
        self._in_flight.clear()
        self._watch.take()
        forget_in_flight()

    # In the process that has users ------------------------------------------------------------------------------

    def _take_sessions(self) -> SessionLog:
        ended = self._ended[:]
        del self._ended[: len(ended)]
        axis = self.clock.axis_us
        return SessionLog.build(
            [axis(row.started) for row in ended],
            [axis(row.ended) for row in ended],
            planned_us=[MISSING if row.planned_start is None else axis(row.planned_start) for row in ended],
            tasks=[row.tasks for row in ended],
            slot=[row.slot for row in ended],
            user_class=[row.user_class for row in ended],
            ending=[row.ending for row in ended],
        )

    def _open_since(self) -> Int64:
        starts = []
        for greenlet in list(self.environment.runner.user_greenlets):
            session = session_of(greenlet.args[0]) if greenlet.args else None
            if session is not None:
                starts.append(self.clock.axis_us(session.started))
        return np.array(starts, dtype=np.int64)

    def _in_flight_here(self) -> dict[str, int]:
        return asdict(in_flight(has_users=len(self.environment.runner.user_greenlets) > 0))

    def add_to_report(self, data: dict[str, Any]) -> None:
        """Put what is new into a worker's report; does not yield."""
        sessions, health = self._take_sessions(), self._watch.take()
        if self._on_rows is not None:
            self._write(sessions, health)
        data[KEY] = {
            "sessions": pack_table(sessions.to_table()) if len(sessions) else b"",
            "health": pack_table(health.to_table()) if len(health) else b"",
            "open": self._open_since().tobytes(),
            "now": self.clock.now_us(),
            "in_flight": self._in_flight_here(),
            "clock": packed_line(ClockLine() if self._prober is None else self._prober.line()),
        }

    def collect(self) -> None:
        """Move what this process has collected into its own logs; call it about once a second."""
        sessions, health = self._take_sessions(), self._watch.take()
        self._keep(sessions, health)
        if self.has_users:
            self._open["local"] = (0, self.clock.now_us(), self._open_since())

    # At the master ----------------------------------------------------------------------------------------------

    def receive(self, client_id: str, worker: int, data: dict[str, Any]) -> None:
        """Take our part out of a worker's report."""
        part = data.pop(KEY, None)
        if not isinstance(part, dict):
            return
        sessions, health = SessionLog.empty(), HealthLog.of([])
        if part["sessions"]:
            sessions = SessionLog.from_table(read_table(pa.BufferReader(part["sessions"])))
            sessions.worker[:] = worker
        if part["health"]:
            health = HealthLog.from_table(read_table(pa.BufferReader(part["health"])))
            health = HealthLog(**{**vars(health), "worker": np.full(len(health), worker, dtype=np.int32)})
        self._keep(sessions, health)
        self._gone.pop(client_id, None)  # it was only silent for a while
        self._open[client_id] = (worker, int(part["now"]), np.frombuffer(part["open"], dtype=np.int64))
        self._in_flight[client_id] = part["in_flight"]
        self._lines[worker] = unpacked_line(part["clock"])

    def worker_gone(self, client_id: str) -> None:
        """A worker was lost: as far as anybody knows its sessions ended with its last report."""
        if client_id in self._open:
            worker, told, starts = self._open.pop(client_id)
            counts = self._in_flight.get(client_id)
            if counts:  # what it waited for died with it
                self._in_flight[client_id] = {**counts, "cut": counts["cut"] + counts["waiting"], "waiting": 0}
            self._gone[client_id] = SessionLog.build(starts, np.full(len(starts), told), worker=worker, ending=GONE)

    def reporting(self) -> list[str]:
        """The workers whose open sessions are known."""
        return list(self._open)

    # What is known ----------------------------------------------------------------------------------------------

    def sessions(self) -> SessionLog:
        """Sessions that have ended, the newest MAX_SESSIONS of them."""
        return sessions_on_master_clock(SessionLog.concat([*self._sessions, *self._gone.values()]), self._lines)

    def open_since_us(self) -> Int64:
        """Starts of the sessions that have not ended, as of the last report."""
        still_open = [
            SessionLog.build(starts, starts, worker=worker) for worker, _, starts in list(self._open.values())
        ]
        return sessions_on_master_clock(SessionLog.concat(still_open), self._lines).start_us

    def clock_lines(self) -> dict[int, ClockLine]:
        """By the index of each worker, what its clock is off the master's by; on a worker its own as 0."""
        if self._prober is not None:
            return {0: self._prober.line()}  # a worker's own rows have no worker index yet
        return dict(self._lines)

    def health(self) -> HealthLog:
        """Health of all processes, one row a second each."""
        return HealthLog.concat(list(self._health))

    def in_flight(self) -> dict[str, int] | None:
        """Counts of Locust's HTTP clients over all workers, see :class:`InFlight`; None where they are not counted."""
        if not self.counts_sends:
            return None
        if self.has_users:
            self._in_flight["local"] = self._in_flight_here()  # as new as what the recorder says of this process
        totals = asdict(InFlight())
        for counts in list(self._in_flight.values()):
            for name in totals:
                totals[name] += int(counts[name])
        return totals

    def _keep(self, sessions: SessionLog, health: HealthLog) -> None:
        if len(sessions):
            self._sessions.append(sessions)
            self._sessions = _bounded(self._sessions, MAX_SESSIONS)
        if len(health):
            self._health.append(health)
            self._health = _bounded(self._health, MAX_SECONDS)
        if self._on_rows is not None:
            self._write(sessions, health)

    def _write(self, sessions: SessionLog, health: HealthLog) -> None:
        assert self._on_rows is not None
        if len(sessions):
            self._on_rows("sessions", sessions.to_table(), len(sessions))
        if len(health):
            self._on_rows("health", health.to_table(), len(health))


def _bounded(logs: list[Any], rows: int) -> list[Any]:
    """The newest logs with together at most ``rows`` rows (one log at least); many small ones become one."""
    if len(logs) > 256:
        logs = [type(logs[0]).concat(logs)]
    total = sum(map(len, logs))
    if total > rows:
        log = type(logs[0]).concat(logs)
        logs = [log.take(slice(total - rows, None))]
    return logs
