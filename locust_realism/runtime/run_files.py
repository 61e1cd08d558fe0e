"""The recording of each run on disk: a directory a run, written off the event loop every few seconds."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gevent
from gevent.monkey import get_original

from locust_realism.recording.launches import LaunchLog
from locust_realism.recording.packing import FORMAT_VERSION, pack, pack_table
from locust_realism.recording.spool import Spool, write_info

logger = logging.getLogger(__name__)

FLUSH_S = 2.0
"""Seconds between two writes: what kill -9 can take at most, beside the rows that a worker has yet to report."""

SIDE_BATCH = 8
"""Tables of sessions and health that wait to be written together."""

DEFAULT_DIRECTORY = Path("realism-recordings")
"""Where runs are recorded unless ``--realism-record`` says otherwise, in the working directory."""


@dataclass(frozen=True)
class FilePlan:
    """Where and how runs are recorded.

    - ``directory`` holds one directory a run, named by the time at which it started
    - ``fsync`` whether each part is forced to the disk itself (a power cut then costs seconds, too)
    """

    directory: Path = DEFAULT_DIRECTORY
    fsync: bool = False


def file_plan(options: Any) -> FilePlan | None:
    """What the command line asks for: None where ``--realism-no-record`` was given."""
    if options is None or getattr(options, "realism_no_record", False):
        return None
    directory = getattr(options, "realism_record", None) or DEFAULT_DIRECTORY
    return FilePlan(Path(directory), fsync=bool(getattr(options, "realism_record_fsync", False)))


class RunFiles:
    """Writes the runs of one process. ``role`` is ``local``, ``master`` or ``worker``; ``info()`` what is known of it.

    Every method may be called on the event loop; none raises because of the disk: ``problem`` says what is wrong and
    ``lost_rows`` what could not be kept.
    """

    def __init__(self, plan: FilePlan, role: str, info: Callable[[], dict[str, Any]]) -> None:
        self.plan = plan
        self.role = role
        self.directory: Path | None = None
        self._info = info
        self._spool: Spool | None = None
        self._side: dict[str, Spool] = {}
        self._logs: list[LaunchLog] = []
        self._tables: list[tuple[str, Any]] = []
        self._started = 0.0
        self._told = ""
        self._writing = get_original("threading", "Lock")()  # the end of a run may meet a flush that is under way
        self._greenlet = gevent.spawn(self._run)

    @property
    def problem(self) -> str:
        """What keeps the recording from being written at present; empty when all is well."""
        return self._spool.problem if self._spool is not None else ""

    @property
    def lost_rows(self) -> int:
        """Rows that are in no file and no longer waiting to be written."""
        return self._spool.lost_rows if self._spool is not None else 0

    def start_run(self) -> None:
        """A run starts: from now on rows go into a directory of its own. The run before is closed."""
        self._close_in_thread()
        self._started = time.time()
        name = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(self._started))
        suffix = f"-worker-{os.getpid()}" if self.role == "worker" else ""
        self.directory = _unused(self.plan.directory / f"{name}{suffix}")
        self._spool = self._new_spool("launches")
        self._side = {kind: self._new_spool(kind) for kind in ("sessions", "health")}
        self._logs, self._tables = [], []
        self._told = ""

    def add(self, log: LaunchLog) -> None:
        """Rows to be written with the next flush; may be called in any thread."""
        if self._spool is not None and len(log):
            self._logs.append(log)

    def _new_spool(self, kind: str) -> Spool:
        assert self.directory is not None
        return Spool(self.directory, kind, fsync=self.plan.fsync, lock=get_original("threading", "Lock")())

    def add_table(self, kind: str, table: Any, rows: int) -> None:
        """Rows of ``sessions`` or ``health`` to be written with the next flush but a few."""
        if rows and kind in self._side:
            self._tables.append((kind, table))

    def add_packed(self, block: bytes, rows: int) -> None:
        """A packed block to be written as it is with the next flush."""
        if self._spool is not None:
            self._spool.add(block, rows)

    def flush(self) -> None:
        """Write what was handed over now; may be called in any thread."""
        if self._spool is not None:
            self._flush(self._spool, self._side, False)

    def close(self) -> None:
        """The run is over: write what is left and merge it into one file."""
        self._close_in_thread()
        self._spool, self._side = None, {}
        self._greenlet.kill()

    def _close_in_thread(self) -> None:
        if self._spool is not None:
            gevent.get_hub().threadpool.apply(self._flush, (self._spool, self._side, True))
            self._tell()

    def _run(self) -> None:
        while True:
            gevent.sleep(FLUSH_S)
            try:
                if self._spool is not None:
                    gevent.get_hub().threadpool.apply(self._flush, (self._spool, self._side, False))
                    self._tell()
            except Exception:
                logger.exception("the recording could not be written for a moment; the load goes on")

    def _tell(self) -> None:
        problem = self.problem
        if problem and not self._told:
            logger.warning("%s", problem)
        elif self._told and not problem:
            logger.warning("The recording in %s is written again.", self.directory)
        self._told = problem

    def _flush(self, spool: Spool, side: dict[str, Spool], is_last: bool) -> None:
        """Called in a native thread."""
        with self._writing:
            self._flush_side(side, is_last)
            logs, self._logs = self._logs, []
            if logs:
                log = LaunchLog.concat(logs)
                spool.add(pack(log), len(log))
            spool.flush()
            if spool.written_rows and not spool.problem:
                self._describe(spool)
            if is_last:
                spool.close()

    def _flush_side(self, side: dict[str, Spool], is_last: bool) -> None:
        # a few rows a second: they wait until a file is worth its while
        if not is_last and len(self._tables) < SIDE_BATCH:
            return
        import pyarrow as pa

        tables, self._tables = self._tables, []
        for kind, spool in side.items():
            mine = [table for of_kind, table in tables if of_kind == kind]
            if mine:
                joined = pa.concat_tables(mine).unify_dictionaries()
                spool.add(pack_table(joined), joined.num_rows)
            spool.flush()
            if is_last:
                spool.close()

    def _describe(self, spool: Spool) -> None:
        info = {
            "format_version": FORMAT_VERSION,
            "role": self.role,
            "started": self._started,
            "rows": spool.written_rows,
            **self._info(),
        }
        try:
            write_info(spool.directory, info)
        except OSError as error:
            spool.problem = f"The recording in {spool.directory} cannot be written ({error.strerror})."


def _unused(path: Path) -> Path:
    """The path, or with a number where a run of the same second has it."""
    candidate, number = path, 2
    while candidate.exists():
        candidate = path.with_name(f"{path.name}-{number}")
        number += 1
    return candidate
