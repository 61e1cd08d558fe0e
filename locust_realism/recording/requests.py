"""Requests that a server logged, as blocks of columns, and blocks of several files merged into order of time.

A log may be larger than memory, so nothing here holds more than some blocks of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

Int64 = NDArray[np.int64]

HOLDBACK_S = 300.0
"""Servers write a line when its request ends, so lines are out of order by as much as a request may take."""

_AT_ONCE = 65_536
_MOST_ROWS = 1 << 20


@dataclass(frozen=True)
class RequestBlock:
    """Rows of a log, one column an array of shape (n,).

    - ``time_us`` when the request was made (or logged: see the server's manual), microseconds since the epoch, int64
    - ``end_us`` when it was answered; the same as ``time_us`` where the log does not say
    - ``offset_s`` seconds that the log's clock is ahead of UTC, int32
    - ``visitor`` a number that stands for who made it, int64; MISSING (-1) where nothing tells
    - ``label`` index into the reader's list of labels, int32
    - ``failed`` whether the answer was an error, bool
    """

    time_us: Int64
    end_us: Int64
    offset_s: NDArray[np.int32]
    visitor: Int64
    label: NDArray[np.int32]
    failed: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.time_us)

    def take(self, rows: NDArray[np.intp] | NDArray[np.bool_]) -> RequestBlock:
        """The rows of an index array or a mask."""
        return RequestBlock(*(getattr(self, f.name)[rows] for f in fields(self)))

    @staticmethod
    def concat(blocks: list[RequestBlock]) -> RequestBlock:
        """All rows of several blocks (at least one)."""
        return RequestBlock(*(np.concatenate([getattr(b, f.name) for b in blocks]) for f in fields(RequestBlock)))


@dataclass
class Disorder:
    """What :func:`in_time_order` had to do: ``late`` rows came after their time had been passed on."""

    late: int = 0


def in_time_order(
    streams: Iterable[Iterator[RequestBlock]],
    disorder: Disorder,
    *,
    holdback_s: float = HOLDBACK_S,
    at_once: int = _AT_ONCE,
    most_rows: int = _MOST_ROWS,
) -> Iterator[RequestBlock]:
    """Blocks of all streams merged by time, each ascending and none before the one that came before it.

    Each stream is nearly in order: rows are held back until every stream is ``holdback_s`` seconds past them, at most
    ``most_rows`` rows. A row that is later still is counted in ``disorder.late``, and its time becomes the latest that
    has been passed on. How far a stream is, is the median of its last block, so that one line with a wrong year does
    not spoil the order of all others.

    >>> def block(*seconds):
    ...     t = np.array(seconds, dtype=np.int64) * 1_000_000
    ...     return RequestBlock(t, t, np.zeros(len(t), np.int32), t, np.zeros(len(t), np.int32), t < 0)
    >>> merged = in_time_order([iter([block(1, 5, 3)]), iter([block(2, 4)])], Disorder())
    >>> [b.time_us.tolist() for b in merged]
    [[1000000, 2000000, 3000000, 4000000, 5000000]]
    """
    holdback = round(holdback_s * 1e6)
    reached: dict[Iterator[RequestBlock], float] = dict.fromkeys(streams, -np.inf)
    held: list[RequestBlock] = []
    passed: int | None = None
    rows, enough = 0, at_once
    while reached:
        stream = min(reached, key=lambda one: reached[one])
        block = next(stream, None)
        if block is None:
            del reached[stream]
        elif len(block):
            reached[stream] = float(np.median(block.time_us))
            held.append(block)
            rows += len(block)
        if rows < enough and reached:
            continue
        if not held:
            break
        everything = RequestBlock.concat(held)
        everything = everything.take(np.argsort(everything.time_us, kind="stable"))
        cut = rows
        if reached:
            cut = int(np.searchsorted(everything.time_us, min(reached.values()) - holdback, side="right"))
            cut = rows // 2 if rows > most_rows and cut < rows // 2 else cut
        ready, rest = everything.take(np.arange(cut)), everything.take(np.arange(cut, rows))
        held, rows = [rest], len(rest)
        # Sorting what cannot be passed on yet is done again only when there is as much again.
        enough = min(max(at_once, 2 * rows), max(most_rows, rows) + at_once)
        if cut:
            yield _not_before(ready, passed, disorder)
            passed = max(passed or 0, int(ready.time_us[-1]))


def _not_before(block: RequestBlock, passed: int | None, disorder: Disorder) -> RequestBlock:
    late = int(np.searchsorted(block.time_us, passed)) if passed is not None else 0
    if not late or passed is None:
        return block
    disorder.late += late
    time_us = np.maximum(block.time_us, passed)
    return RequestBlock(
        time_us, np.maximum(block.end_us, time_us), block.offset_s, block.visitor, block.label, block.failed
    )
