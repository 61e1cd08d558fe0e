"""The master's side of `runtime.transport`: blocks of the workers' rows, each of them once, and none that is missed.

What has been seen is dropped, what is missing is asked for again and otherwise counted as lost. Rows are unpacked off
the event loop.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import gevent
import numpy as np
from gevent.event import Event

from locust_realism.recording.launches import LaunchLog
from locust_realism.recording.packing import unpack
from locust_realism.recording.store import LiveRecord
from locust_realism.runtime.transport import KEY

logger = logging.getLogger(__name__)

PATIENCE_REPORTS = 3
"""Reports of a worker after which a block that was asked for again counts as lost."""


@dataclass
class Peer:
    """What the master knows of one worker's blocks in the present run."""

    run: int = 0
    next_number: int = 0
    next_row: int = 0
    missing: dict[int, int] = field(default_factory=dict)  # number -> reports since it was asked for
    missing_rows: int = 0
    errors: int = 0
    recorded: int = 0  # rows that the worker says it has recorded, of which so many before the master's run began
    recorded_before: int = 0
    dropped: int = 0
    lost: int = 0  # rows whose block never came or could not be read
    last_error: str = ""
    bad_start_times: int = 0
    clock_steps: list[tuple[int, float]] = field(default_factory=list)


class BlockReceiver:
    """The master's side: blocks out of the workers' reports into a :class:`LiveRecord`, in the order of arrival.

    - ``ask_again(client_id, numbers)`` sends the RESEND message
    - ``worker_index(client_id)`` is the worker's index, which goes into the ``worker`` column
    - ``on_rows`` is told of the rows of each block, in a native thread (they go to disk)
    - ``duplicates`` blocks that came twice; ``unreadable`` blocks that could not be unpacked (their rows are lost)
    """

    def __init__(
        self,
        record: LiveRecord,
        *,
        worker_index: Callable[[str], int],
        ask_again: Callable[[str, list[int]], None],
        on_rows: Callable[[LaunchLog], None] | None = None,
    ) -> None:
        self.record = record
        self.peers: dict[str, Peer] = {}
        self.duplicates = 0
        self.unreadable = 0
        self._worker_index = worker_index
        self._ask_again = ask_again
        self._on_rows = on_rows
        self._queue: deque[tuple[str, dict[str, Any], int]] = deque()
        self._arrived = Event()
        self._idle = Event()
        self._idle.set()
        self._consumer = gevent.spawn(self._consume)

    def start_run(self) -> None:
        """A new run: blocks of the last one that are still queued are dropped."""
        self._queue.clear()
        self.duplicates = self.unreadable = 0
        self.record.clear()
        for peer in self.peers.values():
            # the worker starts a run of its own a moment later; a gap left from the last run is of no interest now
            peer.missing.clear()
            peer.missing_rows = peer.errors = peer.dropped = peer.lost = peer.bad_start_times = 0
            peer.recorded_before = peer.recorded

    def reset(self) -> None:
        """Reset: blocks that have arrived count as before it, even if they are still queued."""
        for client_id, block, generation in list(self._queue):
            self._queue.popleft()
            self._queue.append((client_id, {**block, "before_reset": True}, generation))
        self.record.mark_reset()

    def receive(self, client_id: str, data: dict[str, Any]) -> None:
        """Take our part out of a worker's report."""
        part = data.pop(KEY, None)
        if not isinstance(part, dict):
            return
        peer = self.peers.get(client_id)
        if peer is None or peer.run != part["run"]:
            peer = self.peers[client_id] = Peer(run=part["run"])
        peer.errors, peer.last_error = part["errors"], part["last_error"]
        peer.recorded, peer.dropped = part["recorded"], part["dropped"]
        peer.bad_start_times = part["bad_start_times"]
        peer.clock_steps = [(int(at), float(by)) for at, by in part["clock_steps"]]
        for block in part["blocks"]:
            if self._is_new(peer, block):
                self._idle.clear()
                self._queue.append((client_id, block, self.record.generation))
                self._arrived.set()
        self._notice_missing(client_id, peer, part["next"], part["rows"])

    def _is_new(self, peer: Peer, block: dict[str, Any]) -> bool:
        number, rows = block["number"], block["rows"]
        if number in peer.missing:
            del peer.missing[number]
            peer.missing_rows -= rows
            return True
        if number < peer.next_number:
            self.duplicates += 1
            return False
        for skipped in range(peer.next_number, number):
            peer.missing[skipped] = -1
        peer.missing_rows += block["first"] - peer.next_row
        peer.next_number, peer.next_row = number + 1, block["first"] + rows
        return True

    def _notice_missing(self, client_id: str, peer: Peer, next_number: int, rows: int) -> None:
        for skipped in range(peer.next_number, next_number):
            peer.missing[skipped] = -1
        peer.missing_rows += max(rows - peer.next_row, 0)
        peer.next_number, peer.next_row = max(peer.next_number, next_number), max(peer.next_row, rows)
        if not peer.missing:
            return
        asked = [number for number, reports in peer.missing.items() if reports < 0]
        for number in peer.missing:
            peer.missing[number] += 1
        if asked:
            logger.warning("rows of worker %s are missing (blocks %s): asking for them again", client_id, asked)
            self._ask_again(client_id, asked)
        if all(reports > PATIENCE_REPORTS for reports in peer.missing.values()):
            self._give_up(client_id, peer)

    def _give_up(self, client_id: str, peer: Peer) -> None:
        if peer.missing_rows > 0:
            logger.warning("%d rows of worker %s are lost", peer.missing_rows, client_id)
        self._count_lost(peer, max(peer.missing_rows, 0))
        peer.missing.clear()
        peer.missing_rows = 0

    def _count_lost(self, peer: Peer, rows: int) -> None:
        peer.lost += rows
        self.record.count_lost(rows)

    def finish(self) -> None:
        """The end of the run: wait for what has arrived, and count what has not as lost."""
        self._idle.wait()
        for client_id, peer in self.peers.items():
            if peer.missing:
                self._give_up(client_id, peer)

    def close(self) -> None:
        """Stop unpacking."""
        self._consumer.kill()

    def _consume(self) -> None:
        pool = gevent.get_hub().threadpool
        while True:
            self._arrived.wait()
            while self._queue:
                client_id, block, generation = self._queue.popleft()
                try:
                    worker = self._worker_index(client_id)
                    pool.apply(self._store, (block, worker, generation))
                except Exception:
                    self.unreadable += 1
                    self._count_lost(self.peers[client_id], int(block["rows"]))
                    logger.exception("a block of %s rows of worker %s could not be read", block["rows"], client_id)
            self._arrived.clear()
            self._idle.set()

    def _store(self, block: dict[str, Any], worker: int, generation: int) -> None:
        rows = with_worker(unpack(block["data"]), worker)
        before = bool(block["before_reset"])
        self.record.append(rows, before_reset=before, generation=generation, to_disk=self._on_rows)


def with_worker(log: LaunchLog, worker: int) -> LaunchLog:
    """The rows as those of one worker."""
    return replace(log, worker=np.full(len(log), worker, dtype=np.int32))
