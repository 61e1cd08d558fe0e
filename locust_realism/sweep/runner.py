"""Runner of a plan: its cells one after the other, resumed after any interruption.

The directory of a sweep holds::

    parts/KEY.parquet       row of a run that is done; the name appears when the file is complete
    launches/KEY.parquet    its launches, written before the part
    running/                current run; a later run deletes the leftovers of an earlier one
    results.parquet         all rows, joined at the end of each sweep
    index.html              page

A run is done if and only if its part exists. This process and the supervisors of its children hold the lock of the
directory. A second sweep therefore waits until the Locust of a killed one has ended.
"""

from __future__ import annotations

import contextlib
import fcntl
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import Protocol

from locust_realism.recording.columns import write_parquet
from locust_realism.sweep.design import Cell, Plan, Row
from locust_realism.sweep.process import Outcome, RunError, run_cell
from locust_realism.sweep.results import read_rows, row_of, write_durably, write_rows

LOCK_TIMEOUT_S = 40.0
ATTEMPTS = 2


class Watcher(Protocol):
    """Receiver of the progress of a sweep."""

    def waiting(self) -> None:
        """Report that another sweep, or a child of one, uses the directory."""

    def begin(self, seconds: Sequence[float], done: int) -> None:
        """Report the start: planned ``seconds`` of each run to do, and the number of runs already ``done``."""

    def run(self, cell: Cell, seconds: float) -> contextlib.AbstractContextManager[None]:
        """Return the context of a run with its planned seconds."""

    def failed(self, cell: Cell, reason: str) -> None:
        """Report a run without figures."""


@dataclass
class Sweep:
    """Result of a sweep: rows of the runs that are done, in the plan's order, and reasons of the others."""

    rows: list[Row] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)


class BusyError(RuntimeError):
    """Refusal of a directory that another sweep uses."""


def part_path(directory: Path, cell: Cell) -> Path:
    """Return the path of the row of a cell's run."""
    return directory / "parts" / f"{cell.key}.parquet"


def sweep(plan: Plan, directory: Path, watcher: Watcher, *, run: Callable[..., Outcome] = run_cell) -> Sweep:
    """Run the cells that are not done, and join all rows into ``results.parquet``; it can be resumed at any time.

    A run without figures is repeated once, then left out, reported, and repeated by the next sweep of the directory.
    Raises BusyError if another sweep uses the directory.
    """
    directory.mkdir(parents=True, exist_ok=True)
    folder = directory.resolve() / "running"
    with _locked(directory, watcher) as lock:
        cells, found = plan.cells(), Sweep()
        done = {row["key"]: row for row in rows_in_order(plan, directory)}
        left = [(order, cell) for order, cell in enumerate(cells) if cell.key not in done]
        watcher.begin([plan.run_time_s(cell) for _, cell in left], len(done))
        try:
            for order, cell in left:
                with watcher.run(cell, plan.run_time_s(cell)):
                    for _ in range(ATTEMPTS):
                        shutil.rmtree(folder, ignore_errors=True)
                        folder.mkdir()
                        try:
                            outcome = run(plan, cell, folder, keep_fds=(lock,))
                            row = row_of(plan, cell, outcome, order)
                        except (RunError, OSError, ValueError) as error:
                            found.failures[cell.key] = f"{cell.words}: {error}"
                            watcher.failed(cell, str(error))
                        else:
                            found.failures.pop(cell.key, None)
                            _store(directory, cell, row, outcome)
                            done[cell.key] = row
                            break
        finally:
            found.rows = [done[cell.key] for cell in cells if cell.key in done]
            if found.rows:
                write_rows(found.rows, directory / "results.parquet")
            shutil.rmtree(folder, ignore_errors=True)
    return found


def _store(directory: Path, cell: Cell, row: Row, outcome: Outcome) -> None:
    """Write a run to the disk: its launches first, then the part that makes it count."""
    write_durably(directory / "launches" / f"{cell.key}.parquet", partial(write_parquet, outcome.log))
    write_rows([row], part_path(directory, cell))


@contextlib.contextmanager
def _locked(directory: Path, watcher: Watcher) -> Iterator[int]:
    deadline = time.monotonic() + LOCK_TIMEOUT_S
    with (directory / ".lock").open("a") as lock:
        for attempt in count():
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise BusyError(f"{directory} is in use by another sweep") from None
                if not attempt:
                    watcher.waiting()
                time.sleep(0.2)
        yield lock.fileno()


def rows_in_order(plan: Plan, directory: Path) -> list[Row]:
    """Return the rows of the runs that are done, in the plan's order; the key in the part must be the cell's."""
    found = []
    for cell in plan.cells():
        with contextlib.suppress(OSError, ValueError):
            rows = read_rows(part_path(directory, cell))
            found += rows if [row["key"] for row in rows] == [cell.key] else []
    return found
