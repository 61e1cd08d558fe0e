"""Exact order statistics of response times straight from a recording that does not fit into memory.

Two passes over the files. The first counts values by their upper bits, which tells in which range each wanted rank
lies; the second counts the values of those ranges one by one. Nothing is rounded, estimated or sampled, and memory
depends on the number of names and on the span of the values, not on the number of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from locust_realism.recording.launches import Label
from locust_realism.recording.packing import from_table, open_parquet
from locust_realism.recording.spool import part_files

LOW_BITS = 16
"""Values are told apart by their lower 16 bits in the second pass: ranges of 65 ms."""

RETRIES = 5
"""Times that the files are listed anew when one of them is gone."""

COLUMNS = ["launch_us", "response_us", "method", "name"]

EVERYTHING = Label("", "Aggregated")
"""The key under which all names together are given."""


@dataclass(frozen=True)
class Ordered:
    """Exact order statistics of one name: ``n`` known response times, and the ``values`` at the asked ranks."""

    n: int
    values: tuple[int, ...]


def order_statistics(directory: Path, ranks: Callable[[int], Sequence[int]]) -> dict[Label, Ordered]:
    """Response times in microseconds at given ranks, of each name and of all together (EVERYTHING).

    ``ranks(n)`` gives ranks from 1 to n for a name with n response times (a percentile rule). Requests without response
    time are left out. The recording may still be written to: rows that come meanwhile are not in it. ValueError when a
    file of the recording is damaged or a rank is outside of 1 to n.
    """
    for _ in range(RETRIES):
        try:
            return _order_statistics(part_files(directory), ranks)
        except FileNotFoundError:
            continue  # a part was merged into a larger one while it was to be read
    return _order_statistics(part_files(directory), ranks)


def _order_statistics(paths: Sequence[Path], ranks: Callable[[int], Sequence[int]]) -> dict[Label, Ordered]:
    labels: dict[Label, int] = {}
    counts: dict[int, NDArray[np.int64]] = {}
    for label, values in _response_times(paths, labels):
        for code, mine in _by_label(label, values):
            counts[code] = _added(counts.get(code), np.bincount(mine >> LOW_BITS))
    keys: dict[Label, list[int]] = {label: [code] for label, code in labels.items() if code in counts}
    keys[EVERYTHING] = [code for code in labels.values() if code in counts]
    wanted = {key: _targets(key, [counts[code] for code in codes], ranks) for key, codes in keys.items() if codes}
    if not wanted:
        return {}
    low = _count_low_bits(paths, labels, wanted)
    return {
        key: Ordered(n, tuple(_value(low[key][high], high, rest) for high, rest in places))
        for key, (n, places) in wanted.items()
    }


def _response_times(paths: Sequence[Path], labels: dict[Label, int]) -> Iterator[tuple[Any, Any]]:
    """Codes into ``labels``, which grows, and known response times, a row group at a time."""
    for path in paths:
        with open_parquet(str(path)) as file:
            for group in range(file.num_row_groups):
                log = from_table(file.read_row_group(group, columns=COLUMNS, use_threads=False))
                known = log.response_us >= 0
                code = np.array([labels.setdefault(label, len(labels)) for label in log.labels], dtype=np.int64)
                yield code[log.label[known]], log.response_us[known]


def _by_label(label: NDArray[np.int64], values: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[np.int64]]]:
    if not len(label):
        return
    order = np.argsort(label, kind="stable")
    codes, starts = np.unique(label[order], return_index=True)
    yield from zip(codes.tolist(), np.split(values[order], starts[1:]), strict=True)


def _added(old: NDArray[np.int64] | None, new: NDArray[np.int64]) -> NDArray[np.int64]:
    if old is None:
        return new
    large, small = (old, new) if len(old) >= len(new) else (new, old)
    total = large.copy()
    total[: len(small)] += small
    return total


def _targets(
    key: Label, counts: Sequence[NDArray[np.int64]], ranks: Callable[[int], Sequence[int]]
) -> tuple[int, list[tuple[int, int]]]:
    """How many values there are, and for each rank the range that it lies in and its rank within that range."""
    total = counts[0]
    for more in counts[1:]:
        total = _added(total, more)
    reached = np.cumsum(total)
    n = int(reached[-1])
    places = []
    for rank in ranks(n):
        if not 1 <= rank <= n:
            raise ValueError(f"rank={rank} of {key.name!r} must be from 1 to {n}")
        high = int(np.searchsorted(reached, rank))
        places.append((high, rank - int(reached[high - 1] if high else 0)))
    return n, places


def _count_low_bits(
    paths: Sequence[Path], labels: dict[Label, int], wanted: Mapping[Label, tuple[int, list[tuple[int, int]]]]
) -> dict[Label, dict[int, NDArray[np.int64]]]:
    """For each name and wanted range the counts of its values by their lower bits."""
    counters = {key: _Counter([high for high, _ in places]) for key, (_, places) in wanted.items()}
    names = {code: label for label, code in labels.items()}
    for label, values in _response_times(paths, labels):
        counters[EVERYTHING].add(values)
        for code, mine in _by_label(label, values):
            if names[code] in counters:  # else the name appeared between the two passes
                counters[names[code]].add(mine)
    return {key: counter.counts for key, counter in counters.items()}


class _Counter:
    """Counts values of some ranges by their lower bits."""

    def __init__(self, highs: Sequence[int]) -> None:
        distinct = sorted(set(highs))
        self._table = np.zeros((len(distinct), 1 << LOW_BITS), dtype=np.int64)
        self._row = np.full(max(distinct, default=0) + 1, -1, dtype=np.int64)
        self._row[distinct] = np.arange(len(distinct))
        self.counts = {high: self._table[k] for k, high in enumerate(distinct)}

    def add(self, values: NDArray[np.int64]) -> None:
        """Count the values that lie in one of the ranges."""
        highs = values >> LOW_BITS
        values = values[highs < len(self._row)]
        row = self._row[values >> LOW_BITS]
        inside = row >= 0
        np.add.at(self._table, (row[inside], values[inside] & ((1 << LOW_BITS) - 1)), 1)


def _value(counts: NDArray[np.int64], high: int, rank: int) -> int:
    return (high << LOW_BITS) + int(np.searchsorted(np.cumsum(counts), rank))
