"""Sessions of users, health of the generator and aborted requests, beside the launches: collected, reported, kept.

Rows travel in the reports that carry the launches. They are few, so they are packed inline and kept up to a bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import TypeVar

import numpy as np
import pyarrow as pa
from locust.env import Environment
from locust.runners import STATE_MISSING, MasterRunner, WorkerRunner

from locust_realism.recording.columns import pack_table, unpack_table
from locust_realism.recording.diagnosis import Causes, Diagnosis, Tally, worst_of
from locust_realism.recording.health import HealthLog
from locust_realism.recording.launches import MISSING, Int64
from locust_realism.recording.offsets import ClockLine, on_master_clock, unpacked_line
from locust_realism.recording.sessions import SessionLog
from locust_realism.runtime.capture.health_watch import HealthWatch
from locust_realism.runtime.coordination.clock import Clock, ClockProber, answer_probes
from locust_realism.runtime.locust_compat import count_requests
from locust_realism.runtime.users.session import SessionRecord, session_of, user_sessions
from locust_realism.runtime.wire import MAX_SIDE_BYTES, MAX_TIME_US, SIDE, InFlightCounts, SideData, WireError, wire_of

Log = TypeVar("Log", SessionLog, HealthLog)


# Aborted requests -----------------------------------------------------------------------------------------------------


@dataclass
class RequestCounters:
    """Counts of the requests that Locust's two HTTP clients report to ``event`` in this process.

    Locust fires its request event when a request has ended. One that is killed before (the test stops without
    ``--stop-timeout``), on its way, while its body is read or inside its ``with`` block, fires none and is in no
    statistics; nor is one whose ``with`` block an exception leaves. These counters include them.
    """

    event: object = None  # requests that report to another event, to prepare something unmeasured, do not count
    sent: int = 0
    returned: int = 0
    aborted: int = 0
    blocks: int = 0
    reported_blocks: int = 0

    def in_flight(self, *, has_users: bool) -> InFlightCounts:
        """Return the present counts; without users no ``with`` block is open any more."""
        open_blocks = max(self.blocks - self.reported_blocks, 0)
        reported, cut = self.returned - open_blocks, self.aborted + (0 if has_users else open_blocks)
        return {"sent": self.sent, "reported": reported, "cut": cut, "waiting": self.sent - reported - cut}

    def start_run(self) -> None:
        """Reset for a new run; requests that are still waiting stay so."""
        self.sent -= self.returned + self.aborted
        self.returned = self.aborted = self.blocks = self.reported_blocks = 0


counters = RequestCounters()
"""The counters of this process: the clients are classes, shared by all Environments."""


# Logs -----------------------------------------------------------------------------------------------------------------

MAX_SESSIONS = 1_000_000
"""Ended sessions kept in memory (about 50 MB); the oldest beyond are only in the recording."""

MAX_SECONDS = 400_000
"""Rows of health kept in memory (20 MB): 55 hours of two processes, the last 2 hours of fifty."""

MAX_SENT = 1 << 30
"""Requests that a worker may send between two reports that arrive: a day of 12,000 a second."""

GONE = "worker gone"
"""Ending of the sessions of a lost worker: at its last report, as no later time is known."""


class SideLogs:
    """Sessions, health and aborted requests of one process; on a master those of its workers too.

    ``on_rows(kind, table)`` is called with what goes to disk.
    """

    def __init__(
        self, environment: Environment, clock: Clock, on_rows: Callable[[str, pa.Table], None] | None = None
    ) -> None:
        runner = environment.runner
        assert runner is not None
        self.clock = clock
        self.has_users = not isinstance(runner, MasterRunner)
        counters.event = environment.events.request
        self.counts_sends = count_requests(counters)
        self._runner = runner
        self._wire = wire_of(environment)
        self._on_rows = on_rows
        self._ended: list[SessionRecord] = []
        self._sessions: list[SessionLog] = []
        self._health: list[HealthLog] = []
        self._open: dict[str, tuple[int, int, Int64]] = {}  # by client: worker, time of the report, starts
        self._gone: dict[str, SessionLog] = {}
        self._tallies: dict[str, Tally] = {}
        self._held_us: tuple[float, float] = (-math.inf, math.inf)
        self._owing: set[str] | None = None  # workers that are still to report the last seconds before the stop
        self._in_flight: dict[str, InFlightCounts] = {}
        self._lines: dict[int, ClockLine] = {}
        self._prober: ClockProber | None = None
        if isinstance(runner, WorkerRunner):
            self._prober = ClockProber(environment, clock)
            self._wire.add_part(SIDE, self.part)
        elif isinstance(runner, MasterRunner):
            answer_probes(environment, clock)
            self._wire.on_part(SIDE, self.receive)
        self._watch = HealthWatch(runner, clock)
        self._listeners = user_sessions(environment).listeners if self.has_users else []
        self._listeners.append(self._ended.append)

    def close(self) -> None:
        """Stop collecting."""
        self._watch.close()
        if self._prober is not None:
            self._prober.close()
        self._wire.remove(SIDE)
        if self._ended.append in self._listeners:
            self._listeners.remove(self._ended.append)

    def start_run(self) -> None:
        """Reset for a new run."""
        for kept in (self._ended, self._sessions, self._health, self._open, self._gone, self._in_flight):
            kept.clear()
        self._watch.take()
        self.start_tally()
        counters.start_run()

    def start_tally(self) -> None:
        """Begin the diagnosis anew: at the start of a run, and at full spawn, where the judged time begins."""
        self._watch.take_causes()
        self._tallies.clear()
        self._held_us, self._owing = (self.clock.now_us(), math.inf), None

    def end_tally(self) -> None:
        """Leave the end of the run, with its requests that are aborted, out of the diagnosis.

        Each worker's next report has the last seconds before the stop, and counts. Reports are 3 s apart, so the shares
        of a worker include up to 3 s before full spawn; pauses have a time and do not.
        """
        self.collect()
        self._held_us, self._owing = (self._held_us[0], self.clock.now_us()), set() if self.has_users else {*self._open}

    # In the process that has users ------------------------------------------------------------------------------

    def _take_sessions(self) -> SessionLog:
        ended, axis = self._ended[:], self.clock.axis_us
        self._ended.clear()
        return SessionLog.build(
            [axis(row.started) for row in ended],
            [axis(row.ended) for row in ended],
            planned_us=[MISSING if row.planned_start is None else axis(row.planned_start) for row in ended],
            **{name: [getattr(row, name) for row in ended] for name in ("tasks", "slot", "user_class", "ending")},
        )

    def _open_since(self) -> Int64:
        sessions = [session_of(greenlet.args[0]) for greenlet in list(self._runner.user_greenlets) if greenlet.args]
        return np.array([self.clock.axis_us(each.started) for each in sessions if each is not None], dtype=np.int64)

    def _in_flight_here(self) -> InFlightCounts:
        return counters.in_flight(has_users=len(self._runner.user_greenlets) > 0)

    def part(self) -> SideData:
        """Return the part of a worker's report with what is new; does not yield."""
        sessions, health = self._take_sessions(), self._watch.take()
        self._write(sessions, health)
        return {
            "sessions": _packed(sessions),
            "health": _packed(health),
            "open": self._open_since().tobytes(),
            "now": self.clock.now_us(),
            "in_flight": self._in_flight_here(),
            "clock": asdict(ClockLine() if self._prober is None else self._prober.line()),
            "causes": self._watch.take_causes(),
        }

    def collect(self) -> None:
        """Move what this process has collected into its own logs; call it about once a second."""
        self._keep(self._take_sessions(), self._watch.take())
        causes = self._watch.take_causes()  # on a master too, where nobody else takes them
        if self.has_users:
            self._tally("local", causes)
            self._open["local"] = (0, self.clock.now_us(), self._open_since())

    # At the master ----------------------------------------------------------------------------------------------

    def receive(self, client_id: str, part: SideData) -> None:
        """Take the part of a worker's report; WireError if a table in it is damaged or of another kind."""
        assert isinstance(self._runner, MasterRunner)
        worker = self._runner.get_worker_index(client_id)
        try:
            sessions = _unpacked(SessionLog, part["sessions"], worker)
            health = _unpacked(HealthLog, part["health"], worker)
            starts = np.frombuffer(part["open"], dtype=np.int64)
        except (ValueError, KeyError, TypeError) as error:
            raise WireError(SIDE.name, str(error), "tables of sessions and health") from error
        if len(starts) and not 0 <= starts.min() <= starts.max() <= MAX_TIME_US:
            raise WireError(f"{SIDE.name}.open", int(starts.max()), f"starts from 0 to {MAX_TIME_US:,}")
        _check_in_flight(part["in_flight"], self._in_flight.get(client_id))
        self._keep(sessions, health)
        self._gone.pop(client_id, None)  # the worker was only silent for a while
        self._open[client_id] = (worker, part["now"], starts)
        self._in_flight[client_id] = part["in_flight"]
        line = self._lines[worker] = unpacked_line(part["clock"])
        shift_us = float(line.offset_at(np.array(part["now"]))) if line.matters else 0.0
        self._tally(client_id, part["causes"], shift_us)

    def close_lost_workers(self) -> None:
        """End the sessions of lost workers at their last reports, and count their waiting requests as aborted."""
        if not isinstance(self._runner, MasterRunner):
            return
        for client_id in list(self._open):
            client = self._runner.clients.get(client_id)
            if client is None or client.state == STATE_MISSING:
                worker, reported, starts = self._open.pop(client_id)
                counts = self._in_flight[client_id]
                self._in_flight[client_id] = {**counts, "cut": counts["cut"] + counts["waiting"], "waiting": 0}
                ends = np.full(len(starts), reported)
                self._gone[client_id] = SessionLog.build(starts, ends, worker=worker, ending=GONE)

    # In any process ---------------------------------------------------------------------------------------------

    def sessions(self) -> SessionLog:
        """Return the sessions that have ended, the newest MAX_SESSIONS of them."""
        return on_master_clock(SessionLog.concat([*self._sessions, *self._gone.values()]), self._lines)

    def open_since_us(self) -> Int64:
        """Return the starts of the sessions that have not ended, as of the last report."""
        logs = (SessionLog.build(starts, starts, worker=worker) for worker, _, starts in list(self._open.values()))
        return on_master_clock(SessionLog.concat(logs), self._lines).start_us

    def clock_lines(self) -> dict[int, ClockLine]:
        """Return each worker's clock against the master's, by worker index; on a worker its own as 0."""
        if self._prober is not None:
            return {0: self._prober.line()}  # a worker's own rows have no worker index yet
        return dict(self._lines)

    def health(self) -> HealthLog:
        """Return the health of all processes, a row a second each."""
        return HealthLog.concat(list(self._health))

    def diagnosis(self) -> Diagnosis:
        """Return the causes of lateness of the worst worker since full spawn, or since the start before it."""
        return worst_of(tally.diagnosis() for tally in list(self._tallies.values()))

    def in_flight(self) -> InFlightCounts | None:
        """Return the counts of Locust's HTTP clients over all processes; None where they are not counted."""
        if not self.counts_sends:
            return None
        if self.has_users:
            self._in_flight["local"] = self._in_flight_here()  # as new as the recorder's count of this process
        counts = list(self._in_flight.values())
        return {
            "sent": sum(each["sent"] for each in counts),
            "reported": sum(each["reported"] for each in counts),
            "cut": sum(each["cut"] for each in counts),
            "waiting": sum(each["waiting"] for each in counts),
        }

    def _tally(self, client_id: str, causes: Causes | None, shift_us: float = 0.0) -> None:
        if causes is None or (self._owing is not None and client_id not in self._owing):
            return
        if self._owing is not None:
            self._owing.remove(client_id)
        begin_us, end_us = (time_us - shift_us for time_us in self._held_us)
        pauses = [(at, s) for at, s in causes["pauses"] if at <= end_us and at + 1e6 * s >= begin_us]
        self._tallies.setdefault(client_id, Tally()).add({**causes, "pauses": pauses}, shift_us)

    def _keep(self, sessions: SessionLog, health: HealthLog) -> None:
        self._sessions = _bounded([*self._sessions, sessions], MAX_SESSIONS)
        self._health = _bounded([*self._health, health], MAX_SECONDS)
        self._write(sessions, health)

    def _write(self, sessions: SessionLog, health: HealthLog) -> None:
        if self._on_rows is not None:
            for kind, log in (("sessions", sessions), ("health", health)):
                if len(log):
                    self._on_rows(kind, log.to_table())


def _check_in_flight(counts: InFlightCounts, before: InFlightCounts | None) -> None:
    """Raise WireError for counts that do not add up, or that a worker cannot have reached since its last report."""
    parts = counts["reported"] + counts["cut"] + counts["waiting"]
    if counts["sent"] != parts or parts > (before["sent"] if before else 0) + MAX_SENT:
        raise WireError(f"{SIDE.name}.in_flight", counts, f"sent = reported + cut + waiting, at most {MAX_SENT:,} new")


def _packed(log: SessionLog | HealthLog) -> bytes:
    return pack_table(log.to_table()) if len(log) else b""


def _unpacked(kind: type[Log], data: bytes, worker: int) -> Log:
    log = kind.from_table(unpack_table(data, max_bytes=MAX_SIDE_BYTES)) if data else kind.empty()
    return replace(log, worker=np.full(len(log), worker, dtype=np.int32))


def _bounded(logs: list[Log], rows: int) -> list[Log]:
    """Return the newest logs with together at most ``rows`` rows (one log at least); many small ones become one."""
    logs = [log for log in logs if len(log)]
    excess = sum(map(len, logs)) - rows
    if len(logs) <= 256 and excess <= 0:
        return logs
    return [type(logs[0]).concat(logs).take(slice(max(excess, 0), None))]
