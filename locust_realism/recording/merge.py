"""Several recordings of one run as one: the master's, its workers', or what is left of them after a crash."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from locust_realism.recording.launches import LaunchLog
from locust_realism.recording.reading import read_info, read_recording, read_sessions
from locust_realism.recording.sessions import SessionLog, with_users
from locust_realism.recording.source import LISTED, BadLine, LaunchFile


def merge_recordings(directories: Sequence[Path]) -> LaunchFile:
    """The launches of a run out of the directories that its processes wrote, each launch once, by launch time.

    The rows of a worker are taken from its own directory or from the master's, whichever has more of them (the
    master's lacks what was on its way when it died, the worker's what was not yet on its disk), never from both.
    Workers whose master is not given are numbered as their master did. ValueError when a directory is not a recording,
    is given twice, or when two workers claim the same number.
    """
    seen: dict[Path, None] = {}
    for directory in directories:
        if directory.resolve() in seen:
            raise ValueError(f"{directory} is given twice")
        seen[directory.resolve()] = None
    files = [(directory, read_info(directory), read_recording(directory)) for directory in directories]
    sources: dict[int, list[tuple[Path, LaunchLog]]] = {}
    rest: list[LaunchLog] = []
    for directory, info, file in files:
        if info.get("role") == "worker":
            worker = int(info.get("worker_index", 0))
            own = replace(file.log, worker=np.full(len(file.log), worker, dtype=np.int32))
            _refuse_strangers(directory, info, worker, files)
            sources.setdefault(worker, []).append((directory, own))
        elif info.get("role") == "master":
            for worker in np.unique(file.log.worker).tolist():
                part = file.log.take(file.log.worker == worker)
                sources.setdefault(worker, []).append((directory, part))
        else:
            rest.append(file.log)
    chosen = [max(found, key=lambda source: len(source[1])) for _, found in sorted(sources.items())]
    sessions = [
        read_sessions(directory)
        if read_info(directory).get("role") == "worker"
        else _of_worker(read_sessions(directory), worker)
        for worker, (directory, _) in zip(sorted(sources), chosen, strict=True)
    ]
    bad = [BadLine(line.line, line.reason) for _, _, file in files for line in file.bad_lines]
    # the users of the whole test, where the workers' files know only their own
    joined = with_users(LaunchLog.concat(log for _, log in chosen), SessionLog.concat(sessions))
    log = LaunchLog.concat([joined, *rest]).sorted_by_launch()
    return LaunchFile(log, "recording", sum(file.bad_rows for _, _, file in files), tuple(bad[:LISTED]))


def _of_worker(sessions: SessionLog, worker: int) -> SessionLog:
    return sessions.take(sessions.worker == worker)


def _refuse_strangers(directory: Path, info: dict[str, Any], worker: int, files: Sequence[Any]) -> None:
    """Two workers of one number, or a worker that the given master did not know, are of different runs."""
    for other, about, _ in files:
        client = info.get("client_id")
        if about.get("role") == "worker" and other != directory and about.get("worker_index") == worker:
            raise ValueError(f"{directory} and {other} are both worker {worker}: not of one run")
        if about.get("role") == "master" and about.get("workers", {}).get(client) != worker:
            raise ValueError(f"{directory} is of a worker that the run in {other} did not have")
