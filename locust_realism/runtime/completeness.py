"""Whether the record is whole: the balance of launched requests, and what a reader of the figures must be told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from locust_realism.recording.store import Counts

if TYPE_CHECKING:
    from locust_realism.runtime.run_record import Recording


def balance(recording: Recording) -> dict[str, int | None]:
    """Where the launches of the run have gone: ``launched`` = ``finished`` + ``failed`` + ``cut`` + ``lost``.

    - ``cut`` requests of Locust's HTTP clients that the end of the test killed in flight, which Locust reports nowhere
      (None where they cannot be counted; what other clients have cut is not known)
    - ``lost`` launches that were recorded and never arrived, or could not be recorded
    - ``waiting`` requests of the HTTP clients that are in flight at present, ``http_sent`` all that those have sent
    """
    counts = Counts() if recording.record is None else recording.record.counts()
    flight = None if recording.side is None else recording.side.in_flight()
    lost = counts.lost + recording.errors
    return {
        "launched": counts.rows + lost + (0 if flight is None else flight["cut"]),
        "finished": counts.rows - counts.failed,
        "failed": counts.failed,
        "cut": None if flight is None else flight["cut"],
        "lost": lost,
        "waiting": None if flight is None else flight["waiting"],
        "http_sent": None if flight is None else flight["sent"],
    }


def warnings(recording: Recording) -> list[str]:
    """What a reader of the figures must know, one sentence each; empty when the record is whole."""
    found = []
    counts = Counts() if recording.record is None else recording.record.counts()
    if counts.lost:
        found.append(f"{counts.lost} recorded launches never arrived at the master and are missing in the figures.")
    if counts.out_of_memory:
        found.append(_outgrown(recording, counts))
    if recording.errors:
        found.append(f"{recording.errors} requests or blocks could not be recorded: {_last_error(recording)}")
    found += [
        f"Worker {worker} did not send its last report: up to its last seconds are missing."
        for worker in recording.silent_workers
    ]
    if recording.files is not None and recording.files.problem:
        found.append(recording.files.problem)
    if recording.files is not None and recording.files.lost_rows:
        found.append(f"{recording.files.lost_rows} launches could not be written to the recording.")
    return found + _clock_warnings(recording)


def _outgrown(recording: Recording, counts: Counts) -> str:
    held = counts.rows - counts.out_of_memory
    if recording.files is None:
        return (
            f"The run has outgrown memory and is not recorded (--realism-no-record): {counts.out_of_memory:,} of "
            f"{counts.rows:,} launches are gone, and every figure is of the newest {held:,}."
        )
    return (
        f"The run has outgrown memory: tables of response times, sizes and times between launches are of all "
        f"{counts.rows:,} launches, read from the recording; everything else is of the newest {held:,}."
    )


def _clock_warnings(recording: Recording) -> list[str]:
    steps = [(step.seconds, "this process") for step in recording.clock.steps]
    bad = 0 if recording.recorder is None else recording.recorder.bad_start_times
    if recording.receiver is not None:
        for client_id, peer in recording.receiver.peers.items():
            steps += [(seconds, f"worker {client_id}") for _, seconds in peer.clock_steps]
            bad += peer.bad_start_times
    found = [
        f"The wall clock of {where} was set by {seconds:+.3f} s during the run; launch times are corrected."
        for seconds, where in steps
    ]
    if bad:
        found.append(f"{bad} requests gave a start time that is not wall time; their launch was taken from their end.")
    return found


def _last_error(recording: Recording) -> str:
    peers = [] if recording.receiver is None else list(recording.receiver.peers.values())
    told = [recording.recorder.last_error if recording.recorder is not None else "", *(p.last_error for p in peers)]
    return next((error for error in told if error), "see the log")
