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
from gevent.pool import Group

from locust_realism.recording.launches import LaunchLog
from locust_realism.recording.packing import FORMAT_VERSION, pack, pack_table
from locust_realism.recording.spool import Spool, write_info

logger = logging.getLogger(__name__)

FLUSH_S = 2.0
"""Seconds between two writes: what kill -9 can take at most, beside the rows that a worker has yet to report."""

SIDE_BATCH = 8
"""Tables of sessions and health that wait to be written together."""

KINDS = ("launches", "sessions", "health")

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
        self._info = info
        self._run: _Run | None = None
        self._closing: Group = Group()
        self._told = ""
        self._greenlet = gevent.spawn(self._flush_often)

    @property
    def directory(self) -> Path | None:
        """Where the present run, or the last one, is recorded."""
        return None if self._run is None else self._run.directory

    @property
    def problem(self) -> str:
        """What keeps the recording from being written at present; empty when all is well."""
        return self._run.launches.problem if self._run is not None else ""

    @property
    def lost_rows(self) -> int:
        """Rows that are in no file and no longer waiting to be written."""
        return self._run.launches.lost_rows if self._run is not None else 0

    def start_run(self) -> None:
        """A run starts: from now on rows go into a directory of its own.

        The run before is closed meanwhile: to merge its files may take minutes, for which this one does not wait.
        """
        last = self._run
        if last is not None and not last.closed:
            self._closing.spawn(self._close, last, self._info())
        started = time.time()
        name = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(started))
        suffix = f"-worker-{os.getpid()}" if self.role == "worker" else ""
        directory = _claimed(self.plan.directory / f"{name}{suffix}", None if last is None else last.directory)
        self._run = _Run(directory, {"role": self.role, "started": started}, fsync=self.plan.fsync)
        self._told = ""

    def add(self, log: LaunchLog) -> None:
        """Rows to be written with the next flush; may be called in any thread."""
        if self._run is not None and len(log):
            self._run.logs.append(log)

    def add_table(self, kind: str, table: Any, rows: int) -> None:
        """Rows of ``sessions`` or ``health`` to be written with the next flush but a few."""
        if rows and self._run is not None:
            self._run.tables.append((kind, table))

    def add_packed(self, block: bytes, rows: int) -> None:
        """A packed block to be written as it is with the next flush."""
        if self._run is not None:
            self._run.launches.add(block, rows)

    def flush(self) -> None:
        """Write what was handed over now; may be called in any thread."""
        if self._run is not None:
            self._run.flush(self._info())

    def close(self) -> None:
        """The run is over: write what is left and merge it into one file."""
        self._greenlet.kill()
        if self._run is not None and not self._run.closed:
            self._close(self._run, self._info())
            self._tell()
        self._closing.join()

    @staticmethod
    def _close(run: _Run, info: dict[str, Any]) -> None:
        gevent.get_hub().threadpool.apply(run.close, (info,))

    def _flush_often(self) -> None:
        while True:
            gevent.sleep(FLUSH_S)
            try:
                if self._run is not None:
                    gevent.get_hub().threadpool.apply(self._run.flush, (self._info(),))
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


class _Run:
    """The files of one run. ``flush`` and ``close`` are for native threads; ``logs`` and ``tables`` wait for them."""

    def __init__(self, directory: Path, said: dict[str, Any], *, fsync: bool) -> None:
        self.directory = directory
        self.closed = False
        self.logs: list[LaunchLog] = []
        self.tables: list[tuple[str, Any]] = []
        self._said = said
        native = get_original("threading", "Lock")
        self.launches, *side = (Spool(directory, kind, fsync=fsync, lock=native()) for kind in KINDS)
        self._side = dict(zip(KINDS[1:], side, strict=True))
        self._writing = native()  # the end of a run may meet a flush that is under way

    def flush(self, info: dict[str, Any]) -> None:
        """Write what is there; ``info`` is what else ``run.json`` says."""
        with self._writing:
            if not self.closed:
                self._write(info, False)

    def close(self, info: dict[str, Any]) -> None:
        """Write what is left and merge the files of each kind into one."""
        with self._writing:
            if not self.closed:
                self._write(info, True)
                self.launches.close()
                self.closed = True

    def _write(self, info: dict[str, Any], is_last: bool) -> None:
        self._write_side(is_last)
        logs, self.logs = self.logs, []
        if logs:
            log = LaunchLog.concat(logs)
            self.launches.add(pack(log), len(log))
        self.launches.flush()
        if self.launches.written_rows and not self.launches.problem:
            self._describe(info)

    def _write_side(self, is_last: bool) -> None:
        # a few rows a second: they wait until a file is worth its while
        if not is_last and len(self.tables) < SIDE_BATCH:
            return
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

    def _describe(self, info: dict[str, Any]) -> None:
        rows = {"format_version": FORMAT_VERSION, **self._said, "rows": self.launches.written_rows}
        try:
            write_info(self.directory, {**rows, **info})
        except OSError as error:
            self.launches.problem = f"The recording in {self.directory} cannot be written ({error.strerror})."


def _claimed(path: Path, taken: Path | None) -> Path:
    """The path, or with a number where a run of the same second has it, of this process or of another."""
    candidate, number = path, 2
    while True:
        try:
            candidate.mkdir(parents=True)
            return candidate
        except FileExistsError:
            pass
        except OSError:  # the first rows will tell what is wrong
            if candidate != taken and not candidate.exists():
                return candidate
        candidate = path.with_name(f"{path.name}-{number}")
        number += 1
