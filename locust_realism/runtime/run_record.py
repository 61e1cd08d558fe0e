"""The record of a running test: what it holds, what is done at its start, at Reset and at its end.

On a local runner the rows of the process's own recorder go into the record; on a worker they leave with its reports; on
the master they come out of the workers' reports. What a reader of the record sees is the same in all three.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, field
from typing import Any

import gevent
import numpy as np
from gevent.lock import RLock
from locust.env import Environment
from locust.runners import STATE_MISSING, MasterRunner, WorkerRunner
from numpy.typing import NDArray

from locust_realism.recording.health import HealthLog
from locust_realism.recording.launches import LaunchLog
from locust_realism.recording.offsets import on_master_clock
from locust_realism.recording.sessions import SessionLog, with_users
from locust_realism.recording.store import LiveRecord
from locust_realism.runtime.clock import Clock
from locust_realism.runtime.completeness import balance, warnings
from locust_realism.runtime.last_reports import await_last_reports
from locust_realism.runtime.receiver import BlockReceiver
from locust_realism.runtime.recorder import Batch, Recorder
from locust_realism.runtime.run_files import RunFiles
from locust_realism.runtime.side_logs import SideLogs
from locust_realism.runtime.transport import BlockSender

logger = logging.getLogger(__name__)

TICK_S = 1.0
"""Seconds between two looks at the clocks, and between two blocks of a local run."""


@dataclass
class Recording:
    """The record of an Environment's launches and what is known of its completeness.

    - ``record`` the rows (None on a worker, whose rows are at the master)
    - ``recorder`` the request listener's side (None on a master)
    - ``errors`` requests, reports and blocks that our code failed to handle, over all processes
    - ``held_us`` when all users had been started and when they were told to stop, on the axis of the launches
    - ``workload`` what the files say of the load that was meant (``analysis.recorded_facts.described``)
    - ``warnings()`` plain sentences for the console and the page
    """

    environment: Environment
    clock: Clock
    record: LiveRecord | None = None
    recorder: Recorder | None = None
    sender: BlockSender | None = None
    receiver: BlockReceiver | None = None
    files: RunFiles | None = None
    side: SideLogs | None = None
    silent_workers: list[str] = field(default_factory=list)
    own_errors: int = 0
    held_us: tuple[int | None, int | None] = (None, None)
    workload: dict[str, Any] = field(default_factory=dict)
    _ticker: Any = None
    _one_at_a_time: RLock = field(default_factory=RLock)
    _ending: RLock = field(default_factory=RLock)
    _unsubscribe: list[tuple[Any, Any]] = field(default_factory=list)

    @property
    def errors(self) -> int:
        """Failures inside our own code, which never stop the load: of this process and of all workers."""
        total = self.own_errors
        if self.recorder is not None:
            total += self.recorder.errors
        if self.sender is not None:
            total += self.sender.errors
        if self.receiver is not None:
            total += self.receiver.unreadable + sum(peer.errors for peer in self.receiver.peers.values())
        return total

    def warnings(self) -> list[str]:
        """What a reader of the figures must know, one sentence each; empty when the record is whole."""
        return warnings(self)

    def launches(self, *, since_reset: bool = False) -> LaunchLog:
        """The launches that are held in memory, with the users of the whole test that were running at each.

        Touches neither Locust nor gevent: may be called in any thread.
        """
        if self.record is None or self.side is None:
            return LaunchLog.empty()
        log = on_master_clock(self.record.snapshot(since_reset=since_reset), self.side.clock_lines())
        return with_users(log, self.side.sessions(), self.side.open_since_us())

    def clock_offset_sd_us(self) -> float | None:
        """The least certain offset of a worker's clock, as a standard deviation; None where one is not known."""
        lines = {} if self.side is None else self.side.clock_lines()
        found = max((line.sd_us for line in lines.values()), default=None)
        return found if found is not None and math.isfinite(found) else None

    def user_starts_us(self) -> NDArray[np.int64]:
        """When users of the test started, those who are still running too, in any order."""
        if self.side is None:
            return np.zeros(0, dtype=np.int64)
        return np.concatenate([self.side.sessions().start_us, np.asarray(self.side.open_since_us(), dtype=np.int64)])

    def sessions(self) -> SessionLog:
        """The sessions that have ended."""
        return SessionLog.empty() if self.side is None else self.side.sessions()

    def health(self) -> HealthLog:
        """Health of the processes, a row a second each."""
        return HealthLog.of([]) if self.side is None else self.side.health()

    def balance(self) -> dict[str, int | None]:
        """Where the launches of the run have gone, see :func:`locust_realism.runtime.completeness.balance`."""
        return balance(self)

    def flush(self) -> None:
        """Wait until every row that has been recorded here, or has arrived here, is in the record."""
        if self.record is not None and self.recorder is not None:
            self._seal()
        if self.side is not None and self.record is not None:
            self.side.collect()
        if self.receiver is not None:
            self.receiver.finish()

    def detach(self) -> None:
        """Take every listener out of the Environment again; the record stays readable."""
        for hook, listener in self._unsubscribe:
            hook.remove_listener(listener)
        self._unsubscribe.clear()
        if self._ticker is not None:
            self._ticker.kill()
        if self.receiver is not None:
            self.receiver.close()
        if self.side is not None:
            self.side.close()
        if self.files is not None:
            self.files.close()

    # What happens in each process -------------------------------------------------------------------------------

    def _listen(self, hook: Any, listener: Any) -> None:
        hook.add_listener(listener)
        self._unsubscribe.append((hook, listener))

    def _tick(self) -> None:
        while True:
            gevent.sleep(TICK_S)
            try:
                step = self.clock.check()
                if step is not None:
                    logger.warning("the wall clock was set by %+.3f s; launch times are corrected", step.seconds)
                if self.side is not None and self.record is not None:
                    self.side.collect()
                    self._notice_gone_workers(self.side)
                if self.record is not None and self.recorder is not None:
                    self._seal()
                elif self.sender is not None:
                    self.sender.pack_early()
            except Exception:
                self.own_errors += 1
                logger.exception("recording failed for a moment; the load goes on")

    def _notice_gone_workers(self, side: SideLogs) -> None:
        runner = self.environment.runner
        if isinstance(runner, MasterRunner):
            for client_id in side.reporting():
                client = runner.clients.get(client_id)
                if client is None or client.state == STATE_MISSING:
                    side.worker_gone(client_id)

    def _seal(self, before_reset: bool = False) -> None:
        """Move the rows of this process's recorder into its record, off the loop, in order."""
        assert self.recorder is not None
        assert self.record is not None
        with self._one_at_a_time:
            batch, generation = self.recorder.take(), self.record.generation
            if len(batch):
                gevent.get_hub().threadpool.apply(self._append, (batch, before_reset, generation))

    def _append(self, batch: Batch, before_reset: bool, generation: int) -> None:
        assert self.record is not None
        log = batch.build()
        to_disk = None if self.files is None else self.files.add
        self.record.append(log, before_reset=before_reset, generation=generation, to_disk=to_disk)

    def _forget(self, **_: Any) -> None:
        """A new run starts (Locust has just cleared its own statistics)."""
        self.silent_workers.clear()
        self.own_errors = 0
        self.clock.steps.clear()
        if self.recorder is not None:
            self.recorder.forget()
        if self.sender is not None:
            self.sender.start_run()
        elif self.receiver is not None:
            self.receiver.start_run()
        elif self.record is not None:
            self.record.clear()
        if self.files is not None:
            self.files.start_run()  # after the record is cleared: no row of the last run comes from now on
        self.held_us = (None, None)  # after the files of the last run have taken it
        if self.side is not None:
            self.side.start_run()

    def _reset(self, **_: Any) -> None:
        """Locust has reset its statistics, or will as soon as this listener returns."""
        if self.sender is not None:
            self.sender.reset()
        elif self.receiver is not None:
            self.receiver.reset()
        elif self.record is not None and self.recorder is not None:
            batch, generation = self.recorder.take(), self.record.generation
            self.record.mark_reset()
            gevent.spawn(gevent.get_hub().threadpool.apply, self._append, (batch, True, generation))

    def _spawned(self, **_: Any) -> None:
        begin, end = self.held_us
        # a later change of the number of users is part of the load
        self.held_us = (self.clock.now_us() if begin is None else begin, end)
        # Locust's own listener, which ran just before, has reset its statistics without firing reset_stats
        if self.environment.reset_stats:
            self._reset()

    def _stopping(self, **_: Any) -> None:
        self.held_us = (self.held_us[0], self.clock.now_us())

    # The end of a test ------------------------------------------------------------------------------------------

    def _report_at_once(self, **_: Any) -> None:
        """A worker has stopped its users: report now, so that no later start or quit can overtake the last rows."""
        runner = self.environment.runner
        if isinstance(runner, WorkerRunner):
            data: dict[str, Any] = {}
            events: Any = self.environment.events
            events.report_to_master.fire(client_id=runner.client_id, data=data)
            runner.send_message("stats", data)

    def _quitting(self, **_: Any) -> None:
        """Before Locust shuts down: users stopped, every row in its place.

        Locust fires ``quitting`` in reverse order, so this runs before the runner's own listener; what it does here
        Locust would do a moment later, except that the master waits for the last reports.
        """
        # After a SIGTERM Locust shuts down in two greenlets, the handler's and the main one: the second waits here
        with self._ending:
            self._collect_last_rows()

    def _collect_last_rows(self) -> None:
        runner = self.environment.runner
        try:
            if isinstance(runner, WorkerRunner):
                runner.stop()  # reports by test_stop
            elif runner is not None:
                if len(runner.greenlet):
                    runner.quit()
                if isinstance(runner, MasterRunner):
                    self.silent_workers += await_last_reports(runner)
            self.flush()
        except Exception:
            self.own_errors += 1
            logger.exception("the last rows could not be collected")

    def _quit(self, **_: Any) -> None:
        """Locust has said all that it has to say; merging the files of a long run may take its time."""
        if self.files is not None:
            self.files.close()
