"""Readers of a recording that was closed, was interrupted or is still being written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from locust_realism.recording.columns import from_table, read_table
from locust_realism.recording.diagnosis import Diagnosis, read_diagnosis
from locust_realism.recording.health import HealthLog
from locust_realism.recording.launches import LaunchLog
from locust_realism.recording.offsets import ClockLine, on_master_clock, unpacked_line
from locust_realism.recording.sessions import SessionLog, with_users
from locust_realism.recording.source import LISTED, BadLine, LaunchFile
from locust_realism.recording.spool import INFO, PART_NAME

if TYPE_CHECKING:
    import pyarrow as pa


def read_info(directory: Path) -> dict[str, Any]:
    """Return the content of ``run.json``, empty if it is missing or damaged."""
    try:
        info = json.loads((directory / INFO).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return info if isinstance(info, dict) else {}


def held_us(directory: Path) -> tuple[int | None, int | None] | None:
    """Return the times of full spawn and of the stop request of a recorded run; None if they were not recorded."""
    found = read_info(directory).get("held_us")
    if not isinstance(found, list) or len(found) != 2 or not all(t is None or type(t) is int for t in found):
        return None
    return found[0], found[1]


def diagnosis_of(directory: Path) -> Diagnosis:
    """Return the causes of lateness that a run's master has recorded; empty where they are missing or damaged."""
    return read_diagnosis(read_info(directory).get("diagnosis"))


def part_files(directory: Path, kind: str = "launches") -> list[Path]:
    """Return the files of a recording that together hold its rows of a kind, each row once, oldest first."""
    whole = directory / f"{kind}.parquet"
    if whole.exists():
        return [whole]
    matches = [match for path in directory.iterdir() if (match := PART_NAME.fullmatch(path.name))]
    ranges = [(int(match["first"]), -int(match["last"]), match[0]) for match in matches if match["kind"] == kind]
    chosen, reached = [], 0
    for first, negative_last, name in sorted(ranges):
        if -negative_last > reached:
            if first <= reached:
                raise ValueError(f"{name} overlaps the part before it")
            chosen.append(directory / name)
            reached = -negative_last
    return chosen


def read_parts(directory: Path, kind: str = "launches") -> Iterator[tuple[Path, pa.Table | ValueError]]:
    """Yield each file of a recording and its table, or the ValueError of a damaged file."""
    for path in part_files(directory, kind):
        try:
            yield path, read_table(str(path))
        except ValueError as error:
            yield path, error


def read_recording(directory: Path) -> LaunchFile:
    """Return the launches of a recording, closed or interrupted; damaged parts are left out and named.

    Launch times are mapped to the master's clock where a worker's is known to differ. ``users`` is joined from the
    recorded sessions; sessions under way at an interruption are missing.
    """
    logs: list[LaunchLog] = []
    bad: list[BadLine] = []
    for path, table in read_parts(directory):
        if isinstance(table, ValueError):
            bad.append(BadLine(None, f"{path.name}: {table}"))
        else:
            logs.append(from_table(table))
    if not logs and not bad:
        raise ValueError("the directory holds no launches-*.parquet and is not a recording")
    log = on_master_clock(LaunchLog.concat(logs), _clock_lines(directory))
    log = with_users(log, read_sessions(directory))
    return LaunchFile(log, "recording", len(bad), tuple(bad[:LISTED]))


def read_sessions(directory: Path) -> SessionLog:
    """Return the sessions of a recording, on the master's clock; damaged parts are left out."""
    log = SessionLog.concat(map(SessionLog.from_table, _tables(directory, "sessions")))
    return on_master_clock(log, _clock_lines(directory))


def read_health(directory: Path) -> HealthLog:
    """Return the generator's health in a recording; damaged parts are left out."""
    return HealthLog.concat(map(HealthLog.from_table, _tables(directory, "health")))


def _tables(directory: Path, kind: str) -> Iterator[pa.Table]:
    return (table for _, table in read_parts(directory, kind) if not isinstance(table, ValueError))


def _clock_lines(directory: Path) -> dict[int, ClockLine]:
    """Return the workers' clocks of ``run.json``; in a worker's own recording it is worker 0."""
    try:
        clocks = read_info(directory).get("clocks", {})
        return {int(worker): unpacked_line(line) for worker, line in clocks.items()}
    except (AttributeError, KeyError, TypeError, ValueError):
        return {}
