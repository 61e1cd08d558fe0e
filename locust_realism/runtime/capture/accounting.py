"""Completeness of the record: launched = finished + failed + aborted + lost, and warnings for its readers."""

from __future__ import annotations

from dataclasses import dataclass

from locust_realism.recording.store import Counts
from locust_realism.runtime.wire import InFlightCounts


@dataclass(frozen=True)
class Source:
    """Launches of one process that has users, in this run.

    - ``recorded`` rows, ``dropped`` requests that could not be recorded
    - ``missed`` recorded rows that never arrived where the figures are computed
    - ``bad_start_times`` requests whose start time is not wall time
    - ``clock_steps`` seconds of each step of a worker's wall clock
    """

    recorded: int = 0
    dropped: int = 0
    missed: int = 0
    last_error: str = ""
    bad_start_times: int = 0
    clock_steps: tuple[float, ...] = ()


def balance(counts: Counts, sources: dict[str, Source], in_flight: InFlightCounts | None) -> dict[str, int | None]:
    """Return the balance of a run's launches: ``launched`` = ``finished`` + ``failed`` + ``cut`` + ``lost``.

    The left side is counted where requests are launched (by Locust's HTTP clients) or reported (by other ones), the
    right side where the figures are computed; while rows are on their way the two differ.

    - ``launched`` without requests of the HTTP clients that are still ``waiting``
    - ``finished`` and ``failed`` rows of the record
    - ``cut`` aborted requests of the HTTP clients, which are in no statistics: the end of the test killed them, or an
      exception left their ``with`` block; None where nobody counts them
    - ``lost`` launches that were recorded and never arrived, or could not be recorded
    - ``other`` launches of other clients, whose aborted requests nobody counts; ``http_sent`` of the HTTP ones
    """
    dropped = sum(source.dropped for source in sources.values())
    flight: InFlightCounts = in_flight or {"sent": 0, "reported": 0, "cut": 0, "waiting": 0}
    other = max(sum(source.recorded for source in sources.values()) + dropped - flight["reported"], 0)
    counts_aborted = in_flight is not None and (flight["sent"] > 0 or other == 0)
    return {
        "launched": flight["sent"] - flight["waiting"] + other,
        "finished": counts.rows - counts.failed,
        "failed": counts.failed,
        "cut": flight["cut"] if counts_aborted else None,
        "lost": counts.lost + dropped,
        "waiting": None if in_flight is None else flight["waiting"],
        "http_sent": None if in_flight is None else flight["sent"],
        "other": other,
    }


def balance_sentence(found: dict[str, int | None]) -> str:
    """Return the balance in words; empty before the first launch.

    >>> known = {"launched": 70, "finished": 50, "failed": 0, "cut": 20, "lost": 0, "waiting": 0, "other": 0}
    >>> balance_sentence(known)
    '70 requests launched = 50 finished + 0 failed + 20 aborted + 0 lost.'
    >>> balance_sentence({**known, "cut": 17, "waiting": 2})[-48:]
    '+ 3 on their way to the record; 2 still waiting.'
    """
    launched, finished, failed, cut, lost = (
        found[key] or 0 for key in ("launched", "finished", "failed", "cut", "lost")
    )
    if not launched:
        return ""
    aborted = "an unknown number" if found["cut"] is None else f"{cut:,}"
    text = f"{launched:,} requests launched = {finished:,} finished + {failed:,} failed + {aborted} aborted"
    text += f" + {lost:,} lost"
    missing = launched - finished - failed - cut - lost
    if missing > 0:
        text += f" + {missing:,} on their way to the record"
    if missing < 0:
        text += f" - {-missing:,} in excess"
    if found["waiting"]:
        text += f"; {found['waiting']:,} still waiting"
    if found["other"] and found["cut"] is not None:
        text += f"; {found['other']:,} of other clients, whose aborted requests nobody counts"
    return text + "."


def outgrown(counts: Counts, *, recorded: bool) -> str:
    """Return the warning that memory no longer holds the whole run."""
    held = counts.rows - counts.out_of_memory
    if recorded:
        return (
            f"The run has outgrown memory: tables of response times, sizes and times between launches are of all "
            f"{counts.rows:,} launches, read from the recording; everything else is of the newest {held:,}."
        )
    return (
        f"The run has outgrown memory and is not recorded (--realism-no-record): {counts.out_of_memory:,} of "
        f"{counts.rows:,} launches are gone, and every figure is of the newest {held:,}."
    )
