"""Blocks of raw rows from workers to the master, inside Locust's own reports: each once, and none lost unseen.

Rows travel in the very report that carries Locust's buckets of the same requests, so that both cover the same set. Each
block has a number and the number of rows before it. The master drops duplicates, requests missing blocks again, and
counts what does not come as lost. Rows are packed and unpacked off the event loop.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import gevent
import numpy as np
from gevent.event import Event

from locust_realism.recording.columns import unpack
from locust_realism.recording.launches import LaunchLog
from locust_realism.recording.offsets import ClockLine, on_master_clock
from locust_realism.recording.store import LiveRecord
from locust_realism.runtime.capture.accounting import Source
from locust_realism.runtime.capture.recorder import Batch, Recorder
from locust_realism.runtime.coordination.clock import Clock
from locust_realism.runtime.wire import (
    MAX_BLOCK_ROWS,
    MAX_BLOCKS,
    MAX_GAP,
    MAX_UNPACKED_BYTES,
    ROWS,
    BlockData,
    Field,
    RowsData,
    WireError,
    check,
)

logger = logging.getLogger(__name__)

EAGER_ROWS = 2000
"""Rows that are packed before the report is due; fewer take about a millisecond and are packed with the report."""

RESEND_BYTES = 8 << 20
"""Packed blocks that a worker keeps in case the master requests them again."""


class BlockSender:
    """Worker's side: puts the rows of a :class:`Recorder` into the worker's reports.

    ``on_block(data, rows)`` is called with each packed block (the spool writes it to disk).
    """

    def __init__(self, recorder: Recorder, on_block: Callable[[bytes, int], None] | None = None) -> None:
        self.recorder = recorder
        self.run = 0
        self._on_block = on_block
        self._waiting: list[Batch] = []
        self._kept: deque[BlockData] = deque()
        self._requested: set[int] = set()
        self._kept_bytes = self._number = self._rows = 0

    def start_run(self) -> None:
        """Reset for a new run: rows of the last one are dropped, as Locust drops its own, and numbers start anew."""
        self.run += 1
        self.recorder.take()
        for kept in (self._waiting, self._requested, self._kept):
            kept.clear()
        self._kept_bytes = self._number = self._rows = 0

    def reset(self) -> None:
        """Mark rows that were not reported yet as before the reset of Locust's statistics."""
        self._waiting.append(self.recorder.take())
        for batch in self._waiting:
            batch.before_reset = True

    def pack_early(self) -> None:
        """Pack the rows so far off the loop if they are many; the next report then finds them ready."""
        if len(self.recorder) >= EAGER_ROWS:
            self._waiting.append(self.recorder.take())
            gevent.get_hub().threadpool.apply(self._waiting[-1].packed)

    def part(self) -> RowsData:
        """Return the part of a report with every row that was recorded up to now.

        Does not yield: Locust's own figures are in the report already, and a report that is being made when its
        greenlet is killed would be lost with them.
        """
        # A number is given to a block only here, so a block that never was in a report leaves no gap.
        waiting, self._waiting = [*self._waiting, self.recorder.take()], []
        blocks = [block for block in self._kept if block["number"] in self._requested][: MAX_BLOCKS // 2]
        self._requested.clear()
        blocks += [self._numbered(batch) for batch in waiting if len(batch)]
        return {
            "run": self.run,
            "blocks": blocks,
            "next": self._number,
            "rows": self._rows,
            "errors": self.recorder.errors,
            "recorded": self.recorder.recorded,
            "dropped": self.recorder.errors,
            "last_error": self.recorder.last_error[:1000].encode(errors="replace").decode(),  # no lone surrogates
            "bad_start_times": self.recorder.bad_start_times,
            "clock_steps": [(step.noticed_us, step.seconds) for step in self.recorder.clock.steps[-8:]],
        }

    def _numbered(self, batch: Batch) -> BlockData:
        packed = batch.packed()
        block: BlockData = {
            "number": self._number,
            "first": self._rows,
            "rows": len(batch),
            "before_reset": batch.before_reset,
            "data": packed,
        }
        self._number += 1
        self._rows += len(batch)
        self._kept.append(block)
        self._kept_bytes += len(packed)
        while self._kept_bytes > RESEND_BYTES and len(self._kept) > 1:
            self._kept_bytes -= len(self._kept.popleft()["data"])
        if self._on_block is not None:
            self._on_block(packed, len(batch))
        return block

    def send_again(self, numbers: list[int]) -> None:
        """Put these blocks into the next report, as far as they are still kept."""
        self._requested.update(numbers)


PATIENCE_REPORTS = 3
"""Reports of a worker after which a requested block counts as lost."""

MAX_REFUSED = 3
"""Refused blocks of a report after which its other blocks count as lost, unread."""

DAY_US = 86_400_000_000
"""Microseconds that a launch may be before the run's start or in the future: a worker's clock may be wrong."""


@dataclass
class Peer:
    """State of one worker's blocks in the present run, at the master.

    - ``reported`` counts of its last report, ``recorded_before`` its rows before the master's run began
    - ``missing`` number of reports since a block was requested, by the block's number
    - ``lost`` rows whose block never came or could not be read
    - ``refused`` requests in reports whose rows were refused, part of ``lost`` until a later report has their numbers
    """

    run: int = -1
    next_number: int = 0
    next_row: int = 0
    reported: Source = field(default_factory=Source)
    recorded_before: int = 0
    missing: dict[int, int] = field(default_factory=dict)
    missing_rows: int = 0
    errors: int = 0
    lost: int = 0
    refused: int = 0

    def source(self) -> Source:
        """Return the worker's launches in the master's run."""
        recorded = self.reported.recorded - self.recorded_before + self.refused
        return replace(self.reported, recorded=recorded, missed=self.lost)


class BlockReceiver:
    """Master's side: blocks out of the workers' reports into a :class:`LiveRecord`, in the order of arrival.

    - ``request_again(client_id, numbers)`` sends the request for missing blocks
    - ``worker_index(client_id)`` is the worker's index, which goes into the ``worker`` column
    - ``on_rows`` is called with the rows of each block, in a native thread (they go to disk)
    - ``refuse(client_id, error)`` is called for a block that cannot be unpacked or was not launched in this run
    - ``clock`` is the master's, ``clock_lines`` returns those of the workers against it, by worker index
    """

    def __init__(
        self,
        record: LiveRecord,
        *,
        worker_index: Callable[[str], int],
        request_again: Callable[[str, list[int]], None],
        refuse: Callable[[str, Exception], None],
        on_rows: Callable[[LaunchLog], None] | None = None,
        clock: Clock | None = None,
        clock_lines: Callable[[], Mapping[int, ClockLine]] = dict,
    ) -> None:
        self.record = record
        self.peers: dict[str, Peer] = {}
        self._worker_index = worker_index
        self._request_again = request_again
        self._on_rows = on_rows
        self._refuse = refuse
        self._clock = clock or Clock()
        self._clock_lines = clock_lines
        self._began_us = self._clock.now_us()
        self._queue: deque[tuple[str, BlockData, int, list[Exception]]] = deque()  # a list for each report
        self._arrived = Event()
        self._idle = Event()
        self._idle.set()
        self._consumer = gevent.spawn(self._consume)

    def start_run(self) -> None:
        """Reset for a new run: queued blocks of the last one are dropped."""
        self._queue.clear()
        self._began_us = self._clock.now_us()
        self.record.clear()
        for client_id, peer in self.peers.items():
            # the worker starts a run of its own a moment later; a gap left from the last run is of no interest now
            recorded = peer.reported.recorded
            self.peers[client_id] = Peer(peer.run, peer.next_number, peer.next_row, Source(recorded), recorded)

    def reset(self) -> None:
        """Mark rows that have arrived as before the reset, those of queued blocks too."""
        for _, block, *_ in self._queue:
            block["before_reset"] = True
        self.record.mark_reset()

    def receive(self, client_id: str, part: RowsData) -> None:
        """Take the rows of a worker's report; WireError for numbers and counts that cannot follow the last report's."""
        peer = self.peers.get(client_id, Peer())
        if peer.run != part["run"]:
            peer = Peer(run=part["run"], lost=peer.refused, refused=peer.refused)
        check_numbering(peer, part)
        check_counts(peer, part)
        self.peers[client_id] = peer
        # the numbers of this report cover the rows of those that were refused
        self._count_lost(peer, -peer.refused)
        peer.refused = 0
        peer.errors, steps = part["errors"], tuple(seconds for _, seconds in part["clock_steps"])
        counts = (part["recorded"], part["dropped"], 0, part["last_error"], part["bad_start_times"])
        peer.reported = Source(*counts, clock_steps=steps)
        errors: list[Exception] = []
        for block in part["blocks"]:
            if self._is_new(peer, block):
                self._idle.clear()
                self._queue.append((client_id, block, self.record.generation, errors))
                self._arrived.set()
        self._note_gap(peer, part["next"], part["rows"])
        self._request_missing(client_id, peer)

    def refused(self, client_id: str, report: Mapping[str, object]) -> None:
        """Count the requests of a report whose rows were refused as lost, by Locust's own count in the same report."""
        total = report.get("stats_total")
        requests = total.get("num_requests") if isinstance(total, dict) else 0
        if isinstance(requests, int) and 0 < requests <= MAX_BLOCK_ROWS:
            peer = self.peers.setdefault(client_id, Peer())
            peer.refused += requests
            self._count_lost(peer, requests)

    def _is_new(self, peer: Peer, block: BlockData) -> bool:
        number, rows = block["number"], block["rows"]
        if peer.missing.pop(number, None) is not None:
            peer.missing_rows -= rows
        elif number >= peer.next_number:
            self._note_gap(peer, number, block["first"])
            peer.next_number, peer.next_row = number + 1, block["first"] + rows
        else:
            return False
        return True

    def _note_gap(self, peer: Peer, number: int, first: int) -> None:
        """Note the blocks before a number, and the rows before its first one, that have not come."""
        peer.missing.update(dict.fromkeys(range(peer.next_number, number), -1))
        peer.missing_rows += max(first - peer.next_row, 0)
        peer.next_number, peer.next_row = max(peer.next_number, number), max(peer.next_row, first)

    def _request_missing(self, client_id: str, peer: Peer) -> None:
        if not peer.missing:
            return
        wanted = [number for number, reports in peer.missing.items() if reports < 0]
        for number in peer.missing:
            peer.missing[number] += 1
        if wanted:
            blocks = f"{len(wanted)} blocks from number {wanted[0]}"
            logger.warning("Rows of worker %s are missing: %s are requested again.", client_id, blocks)
            self._request_again(client_id, wanted)
        if len(peer.missing) > MAX_GAP or all(reports > PATIENCE_REPORTS for reports in peer.missing.values()):
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
        """Wait until what has arrived is in the record, and count what is missing as lost."""
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
                client_id, block, generation, errors = self._queue.popleft()
                if len(errors) < MAX_REFUSED:
                    error = pool.apply(self._store, (block, self._worker_index(client_id), generation))
                    if error is None:
                        continue
                    errors.append(error)
                    self._refuse(client_id, error)
                if generation == self.record.generation:
                    self._count_lost(self.peers[client_id], block["rows"])
            self._arrived.clear()
            self._idle.set()

    def _store(self, block: BlockData, worker: int, generation: int) -> Exception | None:
        """Put a block into the record; return the error, as gevent prints those that leave a native thread."""
        try:
            rows = self._rows(block, worker)
            self.record.append(rows, before_reset=block["before_reset"], generation=generation, to_disk=self._on_rows)
        except Exception as error:  # noqa: BLE001 - a damaged block must not end the consumer
            return error
        return None

    def _rows(self, block: BlockData, worker: int) -> LaunchLog:
        rows = unpack(block["data"], max_bytes=MAX_UNPACKED_BYTES)
        if len(rows) != block["rows"]:
            raise WireError(f"{ROWS.name}.blocks.rows", block["rows"], f"{len(rows)}, the rows of the data")
        rows = replace(rows, worker=np.full(len(rows), worker, dtype=np.int32))
        launched = on_master_clock(rows, self._clock_lines()).launch_us
        earliest, latest = self._began_us - DAY_US, self._clock.now_us() + DAY_US
        for at in launched[(launched < earliest) | (launched > latest)][:1].tolist():
            raise WireError(f"{ROWS.name}.blocks.launch_us", at, f"a time of this run, {earliest:,} to {latest:,}")
        return rows


def check_counts(peer: Peer, part: RowsData) -> None:
    """Raise WireError for counts that a worker cannot have reached since its report before.

    The rows prove ``recorded``: those beyond them could not be packed. Every count may exceed what is proved or was
    reported before by MAX_BLOCK_ROWS.
    """
    unpacked = max(peer.reported.recorded - peer.next_row, 0)
    bounds = {
        "recorded": (part["rows"], part["rows"] + unpacked),
        "dropped": (0, peer.reported.dropped),
        "errors": (0, peer.errors),
        "bad_start_times": (0, part["recorded"]),
    }
    counts: Mapping[str, object] = part
    for name, (least, proved) in bounds.items():
        check(counts[name], Field(int, least, proved + MAX_BLOCK_ROWS), f"{ROWS.name}.{name}")


def check_numbering(peer: Peer, part: RowsData) -> None:
    """Raise WireError for numbers of blocks and rows that cannot follow those of a worker's report before.

    At most MAX_GAP blocks may be missing in a row, each of at most MAX_BLOCK_ROWS rows.
    """
    number, row = peer.next_number, peer.next_row
    ends = [(block["number"], block["first"], block["rows"]) for block in part["blocks"]]
    for at, first, rows in [*ends, (part["next"], part["rows"], 0)]:
        if at < number:
            continue  # a block sent again, or a late report
        if at - number > MAX_GAP:
            raise WireError(f"{ROWS.name}.next", at, f"at most {MAX_GAP:,} above {number:,}")
        if not row <= first <= row + (at - number) * MAX_BLOCK_ROWS:
            raise WireError(f"{ROWS.name}.rows", first, f"{row:,}, as many as in the {at:,} blocks before")
        number, row = at + 1, first + rows
