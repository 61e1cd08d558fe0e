"""Runs the cells of a plan one after the other, and again from where it was after whatever stopped it.

The directory of a sweep holds::

    parts/KEY.parquet       the row of a run that is done; its name appears when it is complete
    launches/KEY.parquet    its launches, written before the part
    running/                the run that is going on; what is left of an earlier one there is thrown away
    results.parquet         all rows, joined whenever a sweep ends
    index.html              the page

Only a part decides whether a run is done. The lock of the directory is held by this process and by the guards of what
it has started, so that a second sweep waits until the Locust of a killed one has gone.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from locust_realism.experiments.plan import Cell, Plan
from locust_realism.experiments.process import Outcome, RunError, run_cell
from locust_realism.experiments.results import Row, read_rows, replace_durably, row_of, write_rows
from locust_realism.recording.packing import write_parquet

LOCK_PATIENCE_S = 40.0
ATTEMPTS = 2

RunCell = Callable[..., Outcome]


class Watcher(Protocol):
    """Who is told how the sweep goes."""

    def waiting(self) -> None:
        """Another sweep, or what is left of one, uses the directory."""

    def begin(self, seconds: Sequence[float], done: int) -> None:
        """The sweep starts with runs that are planned to take so long, of which so many others are done already."""

    def run(self, cell: Cell, seconds: float) -> contextlib.AbstractContextManager[None]:
        """A run that is planned to take so many seconds goes on for the length of this block."""
        ...

    def failed(self, cell: Cell, reason: str) -> None:
        """A run gave no figures."""


@dataclass
class Sweep:
    """What became of a sweep: rows of the runs that are done, in the plan's order, and why others are not."""

    rows: list[Row] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)
    total: int = 0
    ran: int = 0


class BusyError(RuntimeError):
    """The directory is in use by another sweep."""


def part_path(directory: Path, cell: Cell) -> Path:
    """Where the row of a cell's run is, once it is done."""
    return directory / "parts" / f"{cell.key}.parquet"


def launches_path(directory: Path, key: str) -> Path:
    """Where the launches of a run are."""
    return directory / "launches" / f"{key}.parquet"


def read_part(directory: Path, cell: Cell) -> Row | None:
    """The row of a run that is done, None where it is not."""
    try:
        rows = read_rows(part_path(directory, cell))
    except (OSError, ValueError):
        return None
    return rows[0] if len(rows) == 1 and rows[0]["key"] == cell.key else None


def sweep(plan: Plan, directory: Path, watcher: Watcher, *, run: RunCell = run_cell) -> Sweep:
    """Run what is not done yet, and join all rows into ``results.parquet``; KeyboardInterrupt leaves it resumable.

    A run that gives no figures is tried once more, then left out, told, and tried again by the next sweep of the
    directory. BusyError where another sweep uses the directory.
    """
    directory.mkdir(parents=True, exist_ok=True)
    with _locked(directory, watcher) as lock:
        cells = plan.cells()
        found = Sweep(total=len(cells))
        done = {cell.key: row for cell in cells if (row := read_part(directory, cell)) is not None}
        watcher.begin([plan.run_time_s(cell) for cell in cells if cell.key not in done], len(done))
        try:
            for order, cell in enumerate(cells):
                if cell.key not in done:
                    with watcher.run(cell, plan.run_time_s(cell)):
                        row = _attempt(plan, cell, order, directory, watcher, found, run, lock)
                    if row is not None:
                        done[cell.key] = row
                        found.ran += 1
        finally:
            found.rows = [done[cell.key] for cell in cells if cell.key in done]
            if found.rows:
                write_rows(found.rows, directory / "results.parquet")
            shutil.rmtree(directory / "running", ignore_errors=True)
    return found


def _attempt(
    plan: Plan, cell: Cell, order: int, directory: Path, watcher: Watcher, found: Sweep, run: RunCell, lock: int
) -> Row | None:
    for _ in range(ATTEMPTS):
        folder = directory / "running"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        try:
            outcome = run(plan, cell, folder.resolve(), keep_fds=(lock,))
            row = row_of(plan, cell, outcome, order)
        except (RunError, OSError, ValueError) as error:
            found.failures[cell.key] = f"{cell.words}: {error}"
            watcher.failed(cell, str(error))
            continue
        found.failures.pop(cell.key, None)
        store(directory, cell, row, outcome)
        return row
    return None


def store(directory: Path, cell: Cell, row: Row, outcome: Outcome) -> None:
    """Put a run on the disk: its launches first, then the part that makes it count."""
    path = launches_path(directory, cell.key)
    path.parent.mkdir(exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    write_parquet(outcome.log, partial)
    replace_durably(partial, path)
    write_rows([row], part_path(directory, cell))


@contextlib.contextmanager
def _locked(directory: Path, watcher: Watcher) -> Iterator[int]:
    lock = os.open(directory / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        deadline, told = time.monotonic() + LOCK_PATIENCE_S, False
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise BusyError(f"{directory} is in use by another sweep") from None
                if not told:
                    watcher.waiting()
                told = True
                time.sleep(0.2)
        yield lock
    finally:
        os.close(lock)


def rows_in_order(plan: Plan, directory: Path) -> list[Row]:
    """Rows of the runs of a plan that are done, in the plan's order, without running anything."""
    return [row for cell in plan.cells() if (row := read_part(directory, cell)) is not None]


def missing(plan: Plan, rows: Sequence[Row]) -> int:
    """How many runs of the plan are not done."""
    done = {row["key"] for row in rows}
    return sum(cell.key not in done for cell in plan.cells())
