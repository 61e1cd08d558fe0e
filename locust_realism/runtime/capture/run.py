"""The recording of a running test: joins recorder, record, transport and files in one Environment.

On a local runner the rows of the process's own recorder go into the record; on a worker they leave with its reports; on
the master they come out of the workers' reports. A reader of the record gets the same in all three.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict
from time import monotonic

import gevent
import numpy as np
from gevent.lock import RLock
from locust.env import Environment
from locust.event import EventHook
from locust.exception import RPCError, RPCReceiveError
from locust.runners import STATE_MISSING, MasterRunner, Runner, WorkerRunner
from numpy.typing import NDArray

from locust_realism.recording.launches import LaunchLog
from locust_realism.recording.offsets import on_master_clock
from locust_realism.recording.sessions import with_users
from locust_realism.recording.store import DEFAULT_MAX_ROWS, Counts, LiveRecord
from locust_realism.runtime.capture.accounting import Source, balance, outgrown
from locust_realism.runtime.capture.files import FilePlan, RunFiles
from locust_realism.runtime.capture.recorder import Batch, Recorder
from locust_realism.runtime.capture.side_logs import SideLogs
from locust_realism.runtime.capture.transport import BlockReceiver, BlockSender
from locust_realism.runtime.coordination.clock import Clock
from locust_realism.runtime.coordination.handshake import handshake
from locust_realism.runtime.locust_compat import native_lock, send_report
from locust_realism.runtime.memory import configure_allocators
from locust_realism.runtime.users.session import current_session
from locust_realism.runtime.wire import RESEND, ROWS, ResendData, RowsData, wire_of

logger = logging.getLogger(__name__)

TICK_S = 1.0
"""Seconds between two checks of the clocks, and between two blocks of a local run."""

SILENT_S = 5.0
"""Seconds without any message after which the wait for a worker's last report ends."""


class Recording:
    """Record of an Environment's launches and its completeness; :func:`attach` makes it.

    - ``side`` sessions, health and aborted requests
    - ``record`` the rows (None on a worker, whose rows are at the master)
    - ``recorder`` the request listener's side (None on a master)
    - ``files`` the recording on disk (None: nowhere)
    - ``held_us`` the ends of full spawn and of the load (stop request), on the axis of the launches
    - ``workload`` description of the intended load for the files (``analysis.summary.describe_workload``)
    """

    def __init__(self, environment: Environment, runner: Runner, max_rows: int, plan: FilePlan | None) -> None:
        events, is_worker, is_master = (
            environment.events,
            *(isinstance(runner, k) for k in (WorkerRunner, MasterRunner)),
        )
        self.environment = environment
        self.clock = Clock()
        self.held_us: tuple[int | None, int | None] = (None, None)
        self.workload: Mapping[str, object] = {}
        self._runner = runner
        self._wire = wire_of(environment)
        self._silent_workers: list[str] = []
        self._own_errors = 0
        self._sealing, self._ending = RLock(), RLock()
        role = "worker" if is_worker else "master" if is_master else "local"
        self.files = None if plan is None else RunFiles(plan, role, self._info)
        self.side = SideLogs(environment, self.clock, None if self.files is None else self.files.add_table)
        self.recorder = None if is_master else Recorder(self.clock, session_of=current_session)
        # a native lock: rows are appended in native threads, and gevent's own lock is for greenlets
        self.record = None if is_worker else LiveRecord(max_rows, lock=native_lock())
        self._sender = None if self.recorder is None or not is_worker else self._make_sender(self.recorder)
        self._receiver = None if self.record is None or not is_master else self._make_receiver(self.record)
        self._listeners: list[tuple[EventHook, Callable[..., object]]] = [
            (events.test_start, self._start_run),
            (events.spawning_complete, self._spawned),
            (events.test_stopping, self._stopping),
            (events.quitting, self._quitting),
            (events.test_stop, self._report_at_once) if is_worker else (events.reset_stats, self._reset),
        ]
        if self.recorder is not None:
            self._listeners.append((events.request, self.recorder.listener))
        if self.files is not None:  # after Locust's last output: to merge the files of a long run may take its time
            self._listeners.append((events.quit, self.files.close))
        for hook, listener in self._listeners:
            hook.add_listener(listener)
        self._ticker = gevent.spawn(self._tick)

    def _make_sender(self, recorder: Recorder) -> BlockSender:
        sender = BlockSender(recorder, None if self.files is None else self.files.add_packed)

        def rows() -> RowsData:
            part = sender.part()
            return {**part, "errors": part["errors"] + self._wire.errors}

        handshake(self.environment)
        self._wire.add_part(ROWS, rows)
        self._wire.on_message(RESEND, lambda _, data: sender.send_again(data["numbers"]))
        return sender

    def _make_receiver(self, record: LiveRecord) -> BlockReceiver:
        assert isinstance(self._runner, MasterRunner)
        receiver = BlockReceiver(
            record,
            worker_index=self._runner.get_worker_index,
            request_again=lambda client_id, numbers: self._wire.send(RESEND, ResendData(numbers=numbers), client_id),
            on_rows=None if self.files is None else self.files.add,
            refuse=lambda client_id, error: self._wire.refuse(client_id, error, ROWS.refused),
            clock=self.clock,
            clock_lines=self.side.clock_lines,
        )
        handshake(self.environment)
        self._wire.on_part(ROWS, receiver.receive, receiver.refused)
        return receiver

    @property
    def errors(self) -> int:
        """Requests, reports and blocks that our code failed to handle or refused, over all processes."""
        own = 0 if self.recorder is None else self.recorder.errors
        peers = [] if self._receiver is None else list(self._receiver.peers.values())
        reported = sum(peer.errors for peer in peers)
        return self._own_errors + self._wire.errors + sum(self._wire.refused.values()) + own + reported

    def counts(self) -> Counts:
        """Return the counts of the record's rows; zeros on a worker."""
        return Counts() if self.record is None else self.record.counts()

    def sources(self) -> dict[str, Source]:
        """Return the launches of each process that had users in this run, by client id; ``local`` is this one."""
        found = {}
        if (own := self.recorder) is not None:
            found["local"] = Source(own.recorded, own.errors, 0, own.last_error, own.bad_start_times)
        if self._receiver is not None:
            found |= {client_id: peer.source() for client_id, peer in list(self._receiver.peers.items())}
        return found

    def balance(self) -> dict[str, int | None]:
        """Return the balance of the run's launches, see :func:`locust_realism.runtime.capture.accounting.balance`."""
        return balance(self.counts(), self.sources(), self.side.in_flight())

    def warnings(self) -> list[str]:
        """Return the warnings for a reader of the figures, a sentence each; empty if the record is complete."""
        counts, sources, refused = self.counts(), self.sources(), dict(self._wire.refused)
        errors = self.errors - sum(refused.values())
        last_error = next((source.last_error for source in sources.values() if source.last_error), "see the log")
        problem, unwritten = ("", 0) if self.files is None else (self.files.problem, self.files.lost_rows)
        steps = [("this process", step.seconds) for step in self.clock.steps]
        steps += [(f"worker {client_id}", seconds) for client_id, one in sources.items() for seconds in one.clock_steps]
        bad = sum(source.bad_start_times for source in sources.values())
        found = []
        if counts.lost:
            found.append(f"{counts.lost} recorded launches never arrived at the master and are missing in the figures.")
        if counts.out_of_memory:
            found.append(outgrown(counts, recorded=self.files is not None))
        if errors:
            found.append(f"{errors} requests or blocks could not be recorded: {last_error}")
        for worker, times in refused.items():
            data = f"Worker {worker} sent data that does not fit {times} times (see the log)"
            found.append(f"{data}: its rows in it are counted as lost.")
        for worker in self._silent_workers:
            found.append(f"Worker {worker} did not send its last report: up to its last seconds are missing.")
        if problem:
            found.append(problem)
        if unwritten:
            found.append(f"{unwritten} launches could not be written to the recording.")
        for owner, seconds in steps:
            corrected = "during the run; launch times are corrected."
            found.append(f"The wall clock of {owner} was set by {seconds:+.3f} s {corrected}")
        if bad:
            taken = "their launch was taken from their end."
            found.append(f"{bad} requests gave a start time that is not wall time; {taken}")
        return found

    def launches(self, *, since_reset: bool = False) -> LaunchLog:
        """Return the launches that are held in memory, with the users of the whole test that ran at each.

        Touches neither Locust nor gevent: any thread may call it.
        """
        if self.record is None:
            return LaunchLog.empty()
        log = on_master_clock(self.record.snapshot(since_reset=since_reset), self.side.clock_lines())
        return with_users(log, self.side.sessions(), self.side.open_since_us())

    def clock_offset_sd_us(self) -> float | None:
        """Return the largest standard deviation of a worker's clock offset; None where one is unknown."""
        found = max((line.sd_us for line in self.side.clock_lines().values()), default=math.inf)
        return found if math.isfinite(found) else None

    def user_starts_us(self) -> NDArray[np.int64]:
        """Return the starts of all users of the test, running ones too, in any order."""
        return np.concatenate([self.side.sessions().start_us, self.side.open_since_us()])

    def flush(self) -> None:
        """Wait until every row that was recorded here, or has arrived here, is in the record."""
        self._seal()
        if self.record is not None:
            self.side.collect()
        if self._receiver is not None:
            self._receiver.finish()

    def detach(self) -> None:
        """Remove every listener from the Environment; the record stays readable."""
        for hook, listener in self._listeners:
            hook.remove_listener(listener)
        self._listeners.clear()
        self._wire.remove(ROWS)
        self._ticker.kill()
        for part in (self._receiver, self.side, self.files):
            if part is not None:
                part.close()

    # In each process --------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        while True:
            gevent.sleep(TICK_S)
            try:
                step = self.clock.check()
                if step is not None:
                    logger.warning("The wall clock was set by %+.3f s; launch times are corrected.", step.seconds)
                if self._sender is not None:
                    self._sender.pack_early()
                else:
                    self.side.collect()
                    self.side.close_lost_workers()
                    self._seal()
            except Exception:
                self._own_errors += 1
                logger.exception(
                    "locust_realism: recording failed (error %d of this process); the load goes on, the next attempt "
                    "follows in %g s", self._own_errors, TICK_S,
                )  # fmt: skip

    def _seal(self) -> None:
        """Move the rows of this process's recorder into its record, off the loop, in order."""
        if self.recorder is None or self.record is None:
            return
        with self._sealing:
            batch = self.recorder.take()
            if len(batch):
                gevent.get_hub().threadpool.apply(self._append, (self.record, batch, self.record.generation))

    def _append(self, record: LiveRecord, batch: Batch, generation: int) -> None:
        to_disk = None if self.files is None else self.files.add
        record.append(batch.build(), before_reset=batch.before_reset, generation=generation, to_disk=to_disk)

    def _start_run(self, **_: object) -> None:
        """Reset for a new run (Locust has just cleared its own statistics)."""
        self._silent_workers.clear()
        self._own_errors = 0
        self.clock.steps.clear()
        if self.recorder is not None:
            self.recorder.start_run()
        if self._receiver is None and self.record is not None:
            self.record.clear()
        for part in (self._sender, self._receiver, self.files):
            if part is not None:
                part.start_run()  # the files after the record is cleared: no row of the last run comes from now on
        self.held_us = (None, None)  # after the files of the last run have taken it
        self.side.start_run()

    def _reset(self, **_: object) -> None:
        """Reset with Locust, which has reset its statistics or will as soon as this listener returns."""
        if self._sender is not None:
            self._sender.reset()
        elif self._receiver is not None:
            self._receiver.reset()
        elif self.record is not None and self.recorder is not None:
            batch = self.recorder.take()
            batch.before_reset = True
            self.record.mark_reset()
            apply = gevent.get_hub().threadpool.apply
            gevent.spawn(apply, self._append, (self.record, batch, self.record.generation))

    def _spawned(self, **_: object) -> None:
        begin, end = self.held_us
        if begin is None:
            self.side.start_tally()
        # a later change of the number of users is part of the load
        self.held_us = (self.clock.now_us() if begin is None else begin, end)
        # Locust's own listener, which ran just before, has reset its statistics without firing reset_stats
        if self.environment.reset_stats:
            self._reset()

    def _stopping(self, **_: object) -> None:
        self.held_us = (self.held_us[0], self.clock.now_us())
        if self._sender is None:
            self.side.end_tally()

    # At the end of a test ---------------------------------------------------------------------------------------

    def _report_at_once(self, **_: object) -> None:
        """Report when the users have stopped, so that no later start or quit can overtake the last rows."""
        assert isinstance(self._runner, WorkerRunner)
        send_report(self._runner)

    def _quitting(self, **_: object) -> None:
        """Stop the users and collect every row before Locust shuts down.

        Locust fires ``quitting`` in reverse order, so this runs before the runner's own listener. Locust would stop the
        users a moment later itself, but its master would not wait for the last reports.
        """
        runner = self._runner
        # After a SIGTERM Locust shuts down in two greenlets, the handler's and the main one: the second waits here
        with self._ending:
            try:
                if isinstance(runner, WorkerRunner):
                    runner.stop()  # reports by test_stop
                elif len(runner.greenlet):
                    runner.quit()
                if isinstance(runner, MasterRunner):
                    self._silent_workers += await_last_reports(runner)
                self.flush()
            except Exception:
                self._own_errors += 1
                logger.exception("The last rows could not be collected")

    def _info(self) -> dict[str, object]:
        """Return the entries of ``run.json`` by which files of one run are put together on one time axis."""
        runner, lines = self._runner, self.side.clock_lines()
        clocks = {"clocks": {str(worker): asdict(line) for worker, line in lines.items() if line.probes}}
        if isinstance(runner, WorkerRunner):
            return {"client_id": runner.client_id, "worker_index": runner.worker_index, **clocks}
        return {
            **({"workers": dict(runner.worker_indexes), **clocks} if isinstance(runner, MasterRunner) else {}),
            "held_us": self.held_us,
            "clock_offset_sd_us": self.clock_offset_sd_us(),
            "workload": self.workload,
            "diagnosis": self.side.diagnosis().document(),
        }


def await_last_reports(runner: MasterRunner) -> list[str]:
    """Receive messages until every live worker has quit; return those silent for SILENT_S, after a warning.

    Locust's master sends its workers a quit, waits half a second and stops receiving: later reports are lost, from its
    own statistics too. The socket is still open then, and a worker's last report comes before its quit. Call it when no
    greenlet receives any more.
    """
    silent: list[str] = []
    seen: dict[str, float] = {}
    while True:
        waiting = [c.id for c in runner.clients.all if c.state != STATE_MISSING and c.id not in silent]
        if not waiting:
            return silent
        left = min(seen.setdefault(client_id, monotonic()) for client_id in waiting) + SILENT_S - monotonic()
        if left <= 0:
            silent += [client_id for client_id in waiting if seen[client_id] + SILENT_S <= monotonic()]
            names = ", ".join(silent)
            logger.warning(
                "No last report from worker(s) %s within %g s: their last rows are missing.", names, SILENT_S
            )
            continue
        try:
            received = gevent.with_timeout(left, runner.server.recv_from_client, timeout_value=None)
        except (RPCError, RPCReceiveError):
            gevent.sleep(0.01)  # not a message of a worker (a port scanner), or a broken line
            continue
        if received is not None:
            seen[received[0]] = monotonic()
            runner.handle_message(*received)


def attach(environment: Environment, *, max_rows: int = DEFAULT_MAX_ROWS, files: FilePlan | None = None) -> Recording:
    """Start to record an Environment whose runner exists; call it once, in ``events.init``.

    ``max_rows`` bounds the rows held in memory; ``files`` is the place of the runs on disk (None: nowhere). ValueError
    where there is no runner yet.
    """
    if environment.runner is None:
        raise ValueError("environment.runner must be created before recording is attached, not None")
    import pyarrow.parquet  # noqa: F401 - here, because the first block must not pay for the import on the loop

    configure_allocators()
    return Recording(environment, environment.runner, max_rows, files)
