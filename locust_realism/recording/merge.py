"""Merging of several recordings of one run: the master's, its workers', or the remains of a crash."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from locust_realism.recording.launches import LaunchLog
from locust_realism.recording.reading import read_info, read_recording, read_sessions
from locust_realism.recording.sessions import SessionLog, with_users
from locust_realism.recording.source import LISTED, LaunchFile


@dataclass(frozen=True)
class _Part:
    """Recording of one process; ``worker`` is its index if it is a worker's."""

    directory: Path
    role: str
    client_id: str
    worker: int
    workers: Mapping[str, int]
    file: LaunchFile

    @classmethod
    def read(cls, directory: Path) -> _Part:
        info, file = read_info(directory), read_recording(directory)
        role, client, workers = info.get("role", ""), info.get("client_id", ""), info.get("workers", {})
        return cls(directory, role, client, int(info.get("worker_index", 0)), workers, file)

    def sessions(self, worker: int) -> SessionLog:
        found = read_sessions(self.directory)
        return found if self.role == "worker" else found.take(found.worker == worker)


def merge_recordings(directories: Sequence[Path]) -> LaunchFile:
    """Return the launches of a run from the directories of its processes, each launch once, by launch time.

    A worker's rows come from its own directory or from the master's, whichever has more of them, never from both. (The
    master's lacks the rows in transit at its crash, the worker's those not yet on its disk.) Workers without their
    master's directory keep their numbers. ValueError if a directory is not a recording, is given twice, or if two
    workers have one number.
    """
    for directory in directories:
        if sum(directory.resolve() == other.resolve() for other in directories) > 1:
            raise ValueError(f"{directory} is given twice")
    parts = [_Part.read(directory) for directory in directories]
    sources: dict[int, list[tuple[_Part, LaunchLog]]] = {}
    rest: list[LaunchLog] = []
    for part in parts:
        log = part.file.log
        if part.role == "worker":
            _refuse_strangers(part, parts)
            own = replace(log, worker=np.full(len(log), part.worker, dtype=np.int32))
            sources.setdefault(part.worker, []).append((part, own))
        elif part.role == "master":
            for worker in np.unique(log.worker).tolist():
                sources.setdefault(worker, []).append((part, log.take(log.worker == worker)))
        else:
            rest.append(log)
    chosen = {worker: max(sources[worker], key=lambda source: len(source[1])) for worker in sorted(sources)}
    sessions = SessionLog.concat(part.sessions(worker) for worker, (part, _) in chosen.items())
    # users of the whole test: a worker's file counts only its own
    joined = with_users(LaunchLog.concat(log for _, log in chosen.values()), sessions)
    bad = [line for part in parts for line in part.file.bad_lines]
    log = LaunchLog.concat([joined, *rest]).sorted_by_launch()
    return LaunchFile(log, "recording", sum(part.file.bad_rows for part in parts), tuple(bad[:LISTED]))


def _refuse_strangers(worker: _Part, parts: Sequence[_Part]) -> None:
    """Raise ValueError if another worker has the same number, or if a given master had no such worker."""
    for other in parts:
        if other is not worker and other.role == "worker" and other.worker == worker.worker:
            raise ValueError(
                f"{worker.directory} and {other.directory} are both worker {worker.worker}: not of one run"
            )
        if other.role == "master" and other.workers.get(worker.client_id) != worker.worker:
            raise ValueError(f"{worker.directory} is of a worker that the run in {other.directory} did not have")
