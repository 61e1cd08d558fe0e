"""Recording of each run on disk: a directory for each, written off the event loop every few seconds."""

from __future__ import annotations

import logging
import os
import time
from argparse import Namespace
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import gevent
from gevent.pool import Group

from locust_realism.recording.columns import FORMAT_VERSION, pack, pack_table
from locust_realism.recording.launches import LaunchLog
from locust_realism.recording.spool import Spool, write_info
from locust_realism.runtime.locust_compat import native_lock

if TYPE_CHECKING:
    import pyarrow as pa

logger = logging.getLogger(__name__)

FLUSH_S = 2.0
"""Seconds between two writes: kill -9 costs at most these rows and those that a worker has yet to report."""

SIDE_BATCH = 8
"""Tables of sessions and health that wait to be written together."""


@dataclass(frozen=True)
class FilePlan:
    """Place and manner of the recordings.

    - ``directory`` holds one directory for each run, named by the time of its start; by default in the working one
    - ``fsync`` forces each part to the disk itself (a power cut then costs seconds, too)
    """

    directory: Path = Path("realism-recordings")
    fsync: bool = False


def file_plan(options: Namespace | None) -> FilePlan | None:
    """Return the plan of the command line; None with ``--realism-no-record``."""
    if options is None or getattr(options, "realism_no_record", False):
        return None
    directory = getattr(options, "realism_record", None) or FilePlan.directory
    return FilePlan(Path(directory), fsync=bool(getattr(options, "realism_record_fsync", False)))


class RunFiles:
    """Files of the runs of one process.

    ``role`` is ``local``, ``master`` or ``worker``; ``info()`` returns further entries of ``run.json``. The event loop
    may call every method. None raises because of the disk: see ``problem`` and ``lost_rows``.
    """

    def __init__(self, plan: FilePlan, role: str, info: Callable[[], Mapping[str, object]]) -> None:
        self.plan = plan
        self.role = role
        self._info = info
        self._run: _Run | None = None
        self._closing: Group = Group()
        self._logged_problem = ""
        self._greenlet = gevent.spawn(self._flush_often)

    @property
    def directory(self) -> Path | None:
        """Directory of the present run, or of the last one."""
        return None if self._run is None else self._run.directory

    @property
    def problem(self) -> str:
        """Current write error of the recording; empty if none."""
        return self._run.launches.problem if self._run is not None else ""

    @property
    def lost_rows(self) -> int:
        """Rows that are in no file and no longer wait to be written."""
        return self._run.launches.lost_rows if self._run is not None else 0

    def start_run(self) -> None:
        """Direct the rows of a new run into a directory of its own.

        A greenlet closes the run before: to merge its files may take minutes.
        """
        if self._run is not None:
            self._closing.spawn(gevent.get_hub().threadpool.apply, self._run.write, (self._info(), True))
        started = time.time()
        name = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(started))
        suffix = f"-worker-{os.getpid()}" if self.role == "worker" else ""
        directory = _claimed(self.plan.directory / f"{name}{suffix}", self.directory)
        self._run = _Run(directory, {"role": self.role, "started": started}, fsync=self.plan.fsync)
        self._logged_problem = ""

    def add(self, log: LaunchLog) -> None:
        """Write rows with the next flush; any thread may call it."""
        if self._run is not None and len(log):
            self._run.logs.append(log)

    def add_table(self, kind: str, table: pa.Table) -> None:
        """Write rows of ``sessions`` or ``health`` within a few flushes."""
        if self._run is not None:
            self._run.tables.append((kind, table))

    def add_packed(self, block: bytes, rows: int) -> None:
        """Write a packed block as it is with the next flush."""
        if self._run is not None:
            self._run.launches.add(block, rows)

    def flush(self) -> None:
        """Write the rows so far now; any thread may call it."""
        if self._run is not None:
            self._run.write(self._info())

    def close(self, **_: object) -> None:
        """Write the rest of the run and merge it into one file (listener of ``quit``)."""
        self._greenlet.kill()
        self._write(is_last=True)
        self._closing.join()

    def _flush_often(self) -> None:
        while True:
            gevent.sleep(FLUSH_S)
            try:
                self._write(is_last=False)
            except Exception:
                logger.exception("The recording could not be written for a moment; the load goes on")

    def _write(self, *, is_last: bool) -> None:
        if self._run is None:
            return
        gevent.get_hub().threadpool.apply(self._run.write, (self._info(), is_last))
        problem = self.problem
        if problem and not self._logged_problem:
            logger.warning("%s", problem)
        elif self._logged_problem and not problem:
            logger.warning("The recording in %s is written again.", self.directory)
        self._logged_problem = problem


class _Run:
    """Files of one run. Native threads call ``write``; ``logs`` and ``tables`` wait for it."""

    def __init__(self, directory: Path, start: Mapping[str, object], *, fsync: bool) -> None:
        self.directory = directory
        self.logs: list[LaunchLog] = []
        self.tables: list[tuple[str, pa.Table]] = []
        self._closed = False
        self._start = start
        kinds = ("launches", "sessions", "health")
        self._side = {kind: Spool(directory, kind, fsync=fsync, lock=native_lock()) for kind in kinds}
        self.launches = self._side.pop("launches")
        self._writing = native_lock()  # the end of a run may meet a running flush

    def write(self, info: Mapping[str, object], is_last: bool = False) -> None:
        """Write the rows so far, with ``info`` in ``run.json``; the last call merges each kind's files into one."""
        with self._writing:
            if self._closed:
                return
            # sessions and health are a few rows a second: they wait until a file is worthwhile
            if is_last or len(self.tables) >= SIDE_BATCH:
                self._write_side(is_last)
            logs, self.logs = self.logs, []
            if logs:
                log = LaunchLog.concat(logs)
                self.launches.add(pack(log), len(log))
            self.launches.flush()
            rows = self.launches.written_rows
            if rows and not self.launches.problem:
                try:
                    write_info(self.directory, {"format_version": FORMAT_VERSION, **self._start, "rows": rows, **info})
                except OSError as error:
                    self.launches.problem = f"The recording in {self.directory} cannot be written ({error.strerror})."
            if is_last:
                self.launches.close()
                self._closed = True

    def _write_side(self, is_last: bool) -> None:
        import pyarrow as pa

        tables, self.tables = self.tables, []
        for kind, spool in self._side.items():
            mine = [table for of_kind, table in tables if of_kind == kind]
            if mine:
                joined = pa.concat_tables(mine).unify_dictionaries()
                spool.add(pack_table(joined), joined.num_rows)
            spool.flush()
            if is_last:
                spool.close()


def _claimed(path: Path, taken: Path | None) -> Path:
    """Make and return the directory, with a number where a run of the same second has its name."""
    candidate, number = path, 2
    while True:
        try:
            candidate.mkdir(parents=True)
            return candidate
        except FileExistsError:
            pass
        except OSError:  # the first write reports the problem
            if candidate != taken and not candidate.exists():
                return candidate
        candidate = path.with_name(f"{path.name}-{number}")
        number += 1
