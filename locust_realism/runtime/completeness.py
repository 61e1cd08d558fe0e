"""Whether the record is whole: the balance of launched requests, and what a reader of the figures must be told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from locust_realism.recording.store import Counts

if TYPE_CHECKING:
    from locust_realism.runtime.run_record import Recording


def balance(recording: Recording) -> dict[str, int | None]:
    """Where the launches of the run have gone: ``launched`` = ``finished`` + ``failed`` + ``cut`` + ``lost``.

    The left side is counted where requests are launched (by Locust's HTTP clients) or reported (by other ones), the
    right side where the figures are computed; while rows are on their way the two differ.

    - ``launched`` without those that ``waiting`` requests of the HTTP clients are still to end
    - ``finished`` and ``failed`` rows of the record
    - ``cut`` requests of the HTTP clients that ended without being reported, which are in nobody's statistics: the end
      of the test killed them, or an exception left their ``with`` block; None where nobody counts them
    - ``lost`` launches that were recorded and never arrived, or could not be recorded
    - ``other`` launches of other clients, of which it is not known how many were cut; ``http_sent`` of the HTTP ones
    """
    counts = Counts() if recording.record is None else recording.record.counts()
    flight = None if recording.side is None else recording.side.in_flight()
    told = sources(recording).values()
    recorded, dropped = sum(one.recorded for one in told), sum(one.dropped for one in told)
    http = flight["reported"] if flight is not None else 0
    other = max(recorded + dropped - http, 0)
    sent, waiting = (0, 0) if flight is None else (flight["sent"], flight["waiting"])
    knows_cut = flight is not None and (sent > 0 or other == 0)
    return {
        "launched": sent - waiting + other,
        "finished": counts.rows - counts.failed,
        "failed": counts.failed,
        "cut": flight["cut"] if flight is not None and knows_cut else None,
        "lost": counts.lost + dropped,
        "waiting": None if flight is None else waiting,
        "http_sent": None if flight is None else sent,
        "other": other,
    }


@dataclass(frozen=True)
class Source:
    """What one process that has users says of its launches, and how many of them have not arrived.

    - ``recorded`` rows of this run, ``dropped`` requests that could not be recorded
    - ``missed`` recorded rows that never arrived where the figures are computed
    """

    recorded: int
    dropped: int
    missed: int = 0


def sources(recording: Recording) -> dict[str, Source]:
    """The processes that had users in this run, by client id; that of Locust itself is called ``local``."""
    found = {}
    if recording.recorder is not None:
        found["local"] = Source(recording.recorder.recorded, recording.recorder.errors)
    if recording.receiver is not None:
        for client_id, peer in list(recording.receiver.peers.items()):
            found[client_id] = Source(peer.recorded - peer.recorded_before, peer.dropped, peer.lost)
    return found


def balance_sentence(found: dict[str, int | None]) -> str:
    """The balance in words; empty before the first launch.

    >>> known = {"launched": 70, "finished": 50, "failed": 0, "cut": 20, "lost": 0, "waiting": 0, "other": 0}
    >>> balance_sentence(known)
    '70 requests launched = 50 finished + 0 failed + 20 cut + 0 lost.'
    >>> balance_sentence({**known, "cut": 17, "waiting": 2})[-51:]
    '+ 3 on their way to the record; 2 more are waiting.'
    """
    launched = found["launched"] or 0
    if not launched:
        return ""
    parts = [found["finished"] or 0, found["failed"] or 0, found["cut"] or 0, found["lost"] or 0]
    cut = "an unknown number" if found["cut"] is None else f"{parts[2]:,}"
    text = f"{launched:,} requests launched = {parts[0]:,} finished + {parts[1]:,} failed + {cut} cut"
    text += f" + {parts[3]:,} lost"
    if launched > sum(parts):
        text += f" + {launched - sum(parts):,} on their way to the record"
    if launched < sum(parts):
        text += f" - {sum(parts) - launched:,} more than that"
    if found["waiting"]:
        text += f"; {found['waiting']:,} more are waiting"
    if found["other"] and found["cut"] is not None:
        text += f"; {found['other']:,} are of other clients, whose cut requests nobody counts"
    return text + "."


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
