"""Blocks of raw rows from the workers to the master, inside Locust's own reports.

Rows travel in the very report that carries Locust's buckets of the same requests, so that both always speak of the
same set. Each block has a number and says how many rows came before it: the master drops what it has seen, notices
what is missing, asks for it again and otherwise counts it as lost. Rows are packed and unpacked off the event loop.
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
from locust_realism.recording.packing import pack, unpack
from locust_realism.recording.store import LiveRecord
from locust_realism.runtime.recorder import Batch, Recorder

logger = logging.getLogger(__name__)

KEY = "locust_realism"
"""Our key in the data of a worker's report."""

RESEND = "locust_realism_resend"
"""Message from the master: send these blocks again."""

EAGER_ROWS = 2000
"""Rows that are packed before the report is due; fewer take about a millisecond and are packed with the report."""

RESEND_BYTES = 8 << 20
"""Packed blocks that a worker keeps in case that the master asks for them again."""

PATIENCE_REPORTS = 3
"""Reports of a worker after which a block that was asked for again counts as lost."""


@dataclass
class Outgoing:
    """Rows on their way to the master; ``data`` once they are packed."""

    batch: Batch
    before_reset: bool = False
    data: bytes | None = None

    def packed(self) -> bytes:
        if self.data is None:
            self.data = pack(self.batch.build())
        return self.data


class BlockSender:
    """The worker's side: rows of a :class:`Recorder` into the data of its reports.

    ``on_block`` is told of every packed block (the spool writes it to disk).
    """

    def __init__(self, recorder: Recorder, on_block: Callable[[bytes, int], None] | None = None) -> None:
        self.recorder = recorder
        self.run = 0
        self.errors = 0
        self._on_block = on_block
        self._waiting: list[Outgoing] = []
        self._kept: deque[dict[str, Any]] = deque()
        self._kept_bytes = 0
        self._again: list[int] = []
        self._number = 0
        self._rows = 0

    def start_run(self) -> None:
        """A new run: what is left of the last one is forgotten, as Locust forgets its own, and numbers start anew."""
        self.run += 1
        self.recorder.take()
        self._waiting, self._again = [], []
        self._kept.clear()
        self._kept_bytes = self._number = self._rows = 0

    def reset(self) -> None:
        """Locust has reset this worker's statistics: rows that were not reported yet belong to the time before."""
        self._waiting.append(Outgoing(self.recorder.take()))
        for waiting in self._waiting:
            waiting.before_reset = True

    def pack_early(self) -> None:
        """Pack what has collected off the loop, when it is much: the report then finds it ready."""
        if len(self.recorder) < EAGER_ROWS:
            return
        waiting = Outgoing(self.recorder.take())
        self._waiting.append(waiting)
        gevent.get_hub().threadpool.apply(waiting.packed)

    def add_to_report(self, data: dict[str, Any]) -> None:
        """Put every row that was recorded up to now into a report.

        Does not yield: Locust's own figures are in the report already, and a report that is being made when its
        greenlet is killed would be lost with them.
        """
        # A number is given to a block only here, so a block that never was in a report leaves no gap.
        waiting, self._waiting = [*self._waiting, Outgoing(self.recorder.take())], []
        again, self._again = self._again, []
        blocks = [block for block in self._kept if block["number"] in again]
        for outgoing in waiting:
            if len(outgoing.batch):
                blocks.append(self._numbered(outgoing))
        data[KEY] = {
            "run": self.run,
            "blocks": blocks,
            "next": self._number,
            "rows": self._rows,
            "errors": self.recorder.errors + self.errors,
            "recorded": self.recorder.recorded,
            "dropped": self.recorder.errors,
            "last_error": self.recorder.last_error,
            "bad_start_times": self.recorder.bad_start_times,
            "clock_steps": [tuple(step) for step in self.recorder.clock.steps[-8:]],
        }

    def _numbered(self, outgoing: Outgoing) -> dict[str, Any]:
        rows, packed = len(outgoing.batch), outgoing.packed()
        block: dict[str, Any] = {
            "number": self._number,
            "first": self._rows,
            "rows": rows,
            "before_reset": outgoing.before_reset,
            "data": packed,
        }
        self._number += 1
        self._rows += rows
        self._kept.append(block)
        self._kept_bytes += len(packed)
        while self._kept_bytes > RESEND_BYTES and len(self._kept) > 1:
            self._kept_bytes -= len(self._kept.popleft()["data"])
        if self._on_block is not None:
            self._on_block(packed, rows)
        return block

    def send_again(self, numbers: list[int]) -> None:
        """The master misses these blocks: they go into the next report, as far as they are still kept."""
        self._again.extend(int(number) for number in numbers)


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
