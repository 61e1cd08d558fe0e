"""Recording of a running test: joins the recorder, the record and the transport in one Environment.

On a local runner the rows of the process's own recorder go into the record; on a worker they leave with its reports; on
the master they come out of the workers' reports. What a reader of the record sees is the same in all three.
"""

from __future__ import annotations

import logging
from typing import Any

import gevent
from gevent.monkey import get_original
from locust.env import Environment
from locust.runners import MasterRunner, WorkerRunner

from locust_realism.recording.offsets import packed_line
from locust_realism.recording.store import DEFAULT_MAX_ROWS, LiveRecord
from locust_realism.runtime.clock import Clock
from locust_realism.runtime.memory import give_memory_back
from locust_realism.runtime.receiver import BlockReceiver
from locust_realism.runtime.recorder import Recorder
from locust_realism.runtime.run_files import FilePlan, RunFiles
from locust_realism.runtime.run_record import Recording
from locust_realism.runtime.sessions import current_session
from locust_realism.runtime.side_logs import SideLogs
from locust_realism.runtime.transport import RESEND, BlockSender

__all__ = ["Recording", "attach"]

logger = logging.getLogger(__name__)


def attach(environment: Environment, *, max_rows: int = DEFAULT_MAX_ROWS, files: FilePlan | None = None) -> Recording:
    """Start to record an Environment whose runner has been created; call it once, in ``events.init``.

    ``max_rows`` bounds the rows held in memory; ``files`` says where runs are written to disk (None: nowhere).
    ValueError where there is no runner yet.
    """
    runner = environment.runner
    if runner is None:
        raise ValueError("environment.runner=None must be created before recording is attached")
    import pyarrow.parquet  # noqa: F401 - here, because the first block must not pay for the import on the loop

    give_memory_back()
    recording = Recording(environment, Clock())
    events = environment.events
    if not isinstance(runner, MasterRunner):
        recording.recorder = Recorder(recording.clock, session_of=current_session)
        recording._listen(events.request, recording.recorder.listener)
    if files is not None:
        recording.files = RunFiles(files, _role(runner), lambda: _info(runner, recording))
    recording.side = SideLogs(
        environment,
        recording.clock,
        has_users=not isinstance(runner, MasterRunner),
        on_rows=None if recording.files is None else recording.files.add_table,
    )
    if isinstance(runner, WorkerRunner):
        _attach_worker(recording, runner)
    else:
        # a native lock: rows are appended in native threads, and gevent's own lock is for greenlets
        recording.record = LiveRecord(max_rows, lock=get_original("threading", "Lock")())
        recording._listen(events.reset_stats, recording._reset)
    if isinstance(runner, MasterRunner):
        _attach_master(recording, runner)
    recording._listen(events.test_start, recording._forget)
    recording._listen(events.spawning_complete, recording._spawned)
    recording._listen(events.test_stopping, recording._stopping)
    recording._listen(events.quitting, recording._quitting)
    recording._listen(events.quit, recording._quit)
    recording._ticker = gevent.spawn(recording._tick)
    return recording


def _role(runner: Any) -> str:
    return "worker" if isinstance(runner, WorkerRunner) else "master" if isinstance(runner, MasterRunner) else "local"


def _info(runner: Any, recording: Recording) -> dict[str, Any]:
    """What ``run.json`` says of this process, so that files of one run can be put together on one time axis."""
    lines = {} if recording.side is None else recording.side.clock_lines()
    clocks = {str(worker): packed_line(line) for worker, line in lines.items() if line.probes}
    if isinstance(runner, WorkerRunner):
        return {"client_id": runner.client_id, "worker_index": runner.worker_index, "clocks": clocks}
    run = {
        "held_us": recording.held_us,
        "clock_offset_sd_us": recording.clock_offset_sd_us(),
        "workload": recording.workload,
    }
    if isinstance(runner, MasterRunner):
        return {"workers": dict(runner.worker_indexes), "clocks": clocks, **run}
    return run


def _attach_worker(recording: Recording, runner: WorkerRunner) -> None:
    assert recording.recorder is not None
    assert recording.side is not None
    files, side = recording.files, recording.side
    sender = recording.sender = BlockSender(recording.recorder, None if files is None else files.add_packed)
    events = recording.environment.events

    def report(client_id: str, data: dict[str, Any], **_: Any) -> None:
        try:
            sender.add_to_report(data)
            side.add_to_report(data)
        except Exception:
            sender.errors += 1
            logger.exception("rows could not be added to a report; the load goes on")

    def again(environment: Environment, msg: Any, **_: Any) -> None:
        sender.send_again(msg.data["numbers"])

    recording._listen(events.report_to_master, report)
    recording._listen(events.test_stop, recording._report_at_once)
    runner.register_message(RESEND, again)


def _attach_master(recording: Recording, runner: MasterRunner) -> None:
    assert recording.record is not None
    assert recording.side is not None
    side = recording.side

    def ask_again(client_id: str, numbers: list[int]) -> None:
        runner.send_message(RESEND, {"numbers": numbers}, client_id)

    receiver = recording.receiver = BlockReceiver(
        recording.record,
        worker_index=runner.get_worker_index,
        ask_again=ask_again,
        on_rows=None if recording.files is None else recording.files.add,
    )

    worker_index: Any = runner.get_worker_index

    def report(client_id: str, data: dict[str, Any], **_: Any) -> None:
        try:
            receiver.receive(client_id, data)
            side.receive(client_id, worker_index(client_id), data)
        except Exception:
            recording.own_errors += 1
            logger.exception("the rows in a report of worker %s could not be read", client_id)

    recording._listen(recording.environment.events.worker_report, report)
