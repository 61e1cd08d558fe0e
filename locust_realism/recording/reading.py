"""Reads a recording, whether it was closed, broke off or is still being written: its launches and what lies beside."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from locust_realism.recording.health import HealthLog
from locust_realism.recording.launches import LaunchLog
from locust_realism.recording.offsets import ClockLine, on_master_clock, sessions_on_master_clock, unpacked_line
from locust_realism.recording.packing import from_table, read_table
from locust_realism.recording.sessions import SessionLog, with_users
from locust_realism.recording.source import LISTED, BadLine, LaunchFile
from locust_realism.recording.spool import INFO, PART_NAME

if TYPE_CHECKING:
    import pyarrow as pa


def read_info(directory: Path) -> dict[str, Any]:
    """What ``run.json`` says; empty where there is none that can be read."""
    try:
        info = json.loads((directory / INFO).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return info if isinstance(info, dict) else {}


def held_us(directory: Path) -> tuple[int | None, int | None] | None:
    """When all users of a recorded run had been started and when they were told to stop; None where it is not said."""
    found = read_info(directory).get("held_us")
    if not isinstance(found, list) or len(found) != 2 or not all(t is None or type(t) is int for t in found):
        return None
    return found[0], found[1]


def part_files(directory: Path, kind: str = "launches") -> list[Path]:
    """The files of a recording that together hold its rows of a kind, each row once, oldest first."""
    whole = directory / f"{kind}.parquet"
    if whole.exists():
        return [whole]
    found = []
    for path in directory.iterdir():
        match = PART_NAME.fullmatch(path.name)
        if match and match["kind"] == kind:
            found.append((int(match["first"]), -int(match["last"]), path))
    chosen, reached = [], 0
    for first, negative_last, path in sorted(found):
        if -negative_last > reached:
            if first <= reached:
                raise ValueError(f"{path.name} overlaps the part before it")
            chosen.append(path)
            reached = -negative_last
    return chosen


def read_parts(directory: Path, kind: str = "launches") -> Iterator[tuple[Path, pa.Table | ValueError]]:
    """The tables of a recording one file at a time; a file that is damaged comes as the ValueError that says so."""
    for path in part_files(directory, kind):
        try:
            yield path, read_table(str(path))
        except ValueError as error:
            yield path, error


def read_recording(directory: Path) -> LaunchFile:
    """The launches of a recording, whether it was closed or broke off; damaged parts are left out and named.

    Launch times are mapped to the master's clock where a worker's is known to differ. ``users`` is joined from the
    sessions of the recording; those that had not ended when it broke off are missing.
    """
    logs: list[LaunchLog] = []
    bad: list[BadLine] = []
    files = 0
    for path, table in read_parts(directory):
        files += 1
        if isinstance(table, ValueError):
            bad.append(BadLine(None, f"{path.name}: {table}"))
        else:
            logs.append(from_table(table))
    if not files:
        raise ValueError("the directory holds no launches-*.parquet and is not a recording")
    info = {key: str(value) for key, value in read_info(directory).items()}
    log = on_master_clock(LaunchLog.concat(logs), _clock_lines(directory))
    log = with_users(log, read_sessions(directory))
    return LaunchFile(log, "recording", len(bad), tuple(bad[:LISTED]), info)


def read_sessions(directory: Path) -> SessionLog:
    """The sessions of a recording, on the master's clock; damaged parts are left out."""
    tables = (table for _, table in read_parts(directory, "sessions"))
    log = SessionLog.concat(SessionLog.from_table(t) for t in tables if not isinstance(t, ValueError))
    return sessions_on_master_clock(log, _clock_lines(directory))


def read_health(directory: Path) -> HealthLog:
    """The generator's health in a recording; damaged parts are left out."""
    tables = (table for _, table in read_parts(directory, "health"))
    return HealthLog.concat(HealthLog.from_table(t) for t in tables if not isinstance(t, ValueError))


def _clock_lines(directory: Path) -> dict[int, ClockLine]:
    """What ``run.json`` says of the clocks of the workers; a worker's own recording speaks of itself as worker 0."""
    try:
        clocks = read_info(directory).get("clocks", {})
        return {int(worker): unpacked_line(line) for worker, line in clocks.items()}
    except (AttributeError, KeyError, TypeError, ValueError):
        return {}
