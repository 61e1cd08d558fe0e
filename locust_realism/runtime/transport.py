"""Blocks of raw rows from a worker to the master, inside Locust's own reports; `runtime.receiver` takes them.

Rows travel in the very report that carries Locust's buckets of the same requests, so that both always speak of the
same set. Each block has a number and says how many rows came before it. Rows are packed off the event loop.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gevent

from locust_realism.recording.packing import pack
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
