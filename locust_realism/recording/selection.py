"""Exact order statistics, means and deviations of values that come in pieces and are never held together.

A first pass counts each value in a cell at most 1/128 of it wide. The counts give the cell of each wanted rank; further
passes count the values of these cells one by one. Nothing is rounded, estimated or sampled, and memory does not depend
on the number of values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from locust_realism.common.validation import refusal
from locust_realism.recording.launches import Int64

MANTISSA_BITS = 7
CELLS = 53 << MANTISSA_BITS
"""Cells of a group, for whole numbers up to 2**53."""

LOWEST = -1
"""Least countable value."""

STEP_BITS = 16
"""Bits of a cell that one pass resolves; a wider cell takes another pass."""

TABLE = 1 << 22
"""Counters of one pass (32 MB); more wanted cells than fit take another pass."""

_SHIFT = 52 - MANTISSA_BITS
_FIRST = 1023 << MANTISSA_BITS


def cells_of(values: Int64) -> Int64:
    """Return the cell of each value: the float's exponent and first bits of the mantissa of value + 2.

    >>> cells_of(np.array([-1, 0, 1, 98, 1000])).tolist()
    [0, 128, 192, 840, 1274]
    """
    return ((values + (1 - LOWEST)).astype(np.float64).view(np.int64) >> _SHIFT) - _FIRST


def cell_bounds(cell: int) -> tuple[int, int]:
    """Return the first value of a cell, and of the cell after it."""
    edges = (np.array([cell, cell + 1]) + _FIRST << _SHIFT).view(np.float64)
    low, high = (int(np.ceil(edge)) - (1 - LOWEST) for edge in edges)
    return low, high


@dataclass
class _Wanted:
    """Ranks of one group whose values are from ``low`` to below ``high``."""

    group: int
    cell: int
    low: int
    high: int
    ranks: dict[int, int]  # rank among all values of the group -> rank within
    table: NDArray[np.int64] | None = None
    step: int = 0


class Selection:
    """Order statistics of several groups of whole numbers from LOWEST on.

    Call ``count(codes, values)`` for all pieces, then ``want(group, rank)``. While ``begin()`` is true, call
    ``refine(codes, values)`` for all pieces again and ``finish()``; at last ``value(group, rank)``. ``codes`` is the
    group of each value, or one for all. With ``total`` the last group is all others together, and no code names it.

    >>> pieces = [(np.array([0, 1, 0]), np.array([7, 5, 3])), (np.array([0, 0]), np.array([900, 40]))]
    >>> selection = Selection(3, total=True)
    >>> for codes, values in pieces:
    ...     selection.count(codes, values)
    >>> selection.want(0, 3)
    >>> selection.want(2, 5)
    >>> while selection.begin():
    ...     for codes, values in pieces:
    ...         selection.refine(codes, values)
    ...     selection.finish()
    >>> selection.value(0, 3), selection.value(2, 5), selection.n(2), selection.mean(2)
    (40, 900, 5, 191.0)
    """

    def __init__(self, groups: int, *, total: bool = False) -> None:
        if groups < 1 + total:
            raise refusal("groups", f">= {1 + total}", groups)
        self._parts = groups - total
        self._has_total = total
        self._counts = np.zeros((self._parts, CELLS), dtype=np.int64)
        self._centre, self._squares = np.zeros(self._parts), np.zeros(self._parts)
        self._off, self._n = np.zeros(self._parts, dtype=np.int64), np.zeros(self._parts, dtype=np.int64)
        self._wanted: list[_Wanted] = []
        self._found: dict[tuple[int, int], int] = {}

    def count(self, codes: NDArray[np.integer] | int, values: Int64) -> None:
        """Count a piece."""
        if not len(values):
            return
        if int(values.min()) < LOWEST or int(values.max()) >= 1 << 52:
            raise ValueError(f"values are in [{values.min()}, {values.max()}], expected [{LOWEST}, 2**52)")
        each = np.broadcast_to(np.asarray(codes, dtype=np.int64), len(values))
        flat = np.bincount(each * CELLS + cells_of(values), minlength=self._counts.size)
        self._counts += flat.reshape(self._counts.shape)
        n = np.bincount(each, minlength=self._parts)
        new = (self._n == 0) & (n > 0)
        if new.any():
            sums = np.bincount(each, weights=values, minlength=self._parts)
            self._centre[new] = np.rint(sums[new] / n[new])
        self._n += n
        # deviations from a whole number near the mean: their sums are exact, their squares lose no digits
        off = values - self._centre[each]
        self._off += np.bincount(each, weights=off, minlength=self._parts).astype(np.int64)
        self._squares += np.bincount(each, weights=off * off, minlength=self._parts)

    def n(self, group: int) -> int:
        """Return the number of values of a group."""
        return int(self._n.sum() if self._is_total(group) else self._n[group])

    def sum(self, group: int) -> int:
        """Return the exact sum of a group's values."""
        if self._is_total(group):
            return sum(map(self.sum, range(self._parts)))
        return int(self._n[group]) * int(self._centre[group]) + int(self._off[group])

    def mean(self, group: int) -> float:
        """Return the mean of a group that has values."""
        return self.sum(group) / self.n(group)

    def stddev(self, group: int) -> float:
        """Return the standard deviation (n - 1) of a group, NaN below two values."""
        n = self.n(group)
        if n < 2:
            return float("nan")
        mean, total = self.mean(group), 0.0
        for part in range(self._parts) if self._is_total(group) else (group,):
            if size := int(self._n[part]):
                within = float(self._squares[part]) - int(self._off[part]) ** 2 / size
                total += within + size * (self.mean(part) - mean) ** 2
        return float(np.sqrt(max(total, 0.0) / (n - 1)))

    def _is_total(self, group: int) -> bool:
        return self._has_total and group == self._parts

    def want(self, group: int, *ranks: int) -> None:
        """Request the values at ranks, 1 to n, of a group."""
        counts = self._counts.sum(axis=0) if self._is_total(group) else self._counts[group]
        reached = np.cumsum(counts)
        for rank in sorted(set(ranks)):
            if not 1 <= rank <= int(reached[-1]):
                raise refusal(f"rank of group {group}", f"from 1 to {int(reached[-1])}", rank)
            cell = int(np.searchsorted(reached, rank))
            within = rank - int(reached[cell - 1] if cell else 0)
            known = [wanted for wanted in self._wanted if (wanted.group, wanted.cell) == (group, cell)]
            if known:
                known[0].ranks[rank] = within
            else:
                self._narrow(_Wanted(group, cell, *cell_bounds(cell), {rank: within}))

    def _narrow(self, wanted: _Wanted) -> None:
        if wanted.high - wanted.low == 1:
            self._found |= {(wanted.group, rank): wanted.low for rank in wanted.ranks}
        else:
            self._wanted.append(wanted)

    def begin(self) -> bool:
        """Choose the cells of another pass; return False if no pass is needed."""
        left = TABLE
        places: set[tuple[int, int]] = set()
        for wanted in self._wanted:
            wanted.step = max((wanted.high - wanted.low - 1).bit_length() - STEP_BITS, 0)
            size = (wanted.high - wanted.low - 1 >> wanted.step) + 1
            place = (wanted.group, wanted.cell)
            if place not in places and (size <= left or not places):
                places.add(place)
                left -= size
                wanted.table = np.zeros(size, dtype=np.int64)
        return bool(places)

    def refine(self, codes: NDArray[np.integer] | int, values: Int64) -> None:
        """Count a piece within the chosen cells."""
        cells = cells_of(values)
        chosen = [wanted for wanted in self._wanted if wanted.table is not None]
        for total in (False, True):
            if len(values) and (alike := [wanted for wanted in chosen if self._is_total(wanted.group) == total]):
                self._refine(alike, self._parts if total else codes, cells, values)

    def _refine(self, chosen: Sequence[_Wanted], codes: NDArray[np.integer] | int, cells: Int64, values: Int64) -> None:
        groups = max(wanted.group for wanted in chosen) + 1
        which = np.full((groups, CELLS), -1, dtype=np.int32)
        for k, wanted in enumerate(chosen):
            which[wanted.group, wanted.cell] = k
        each = np.broadcast_to(np.asarray(codes, dtype=np.int64), len(values))
        if groups <= self._parts:
            beyond = each < groups
            each, cells, values = each[beyond], cells[beyond], values[beyond]
        found = which[each, cells]
        inside = np.flatnonzero(found >= 0)
        # few values are in a wanted cell: sorting these is cheap
        order = inside[np.argsort(found[inside], kind="stable")]
        edges = np.searchsorted(found[order], np.arange(len(chosen) + 1))
        for wanted, start, end in zip(chosen, edges[:-1], edges[1:], strict=True):
            mine = values[order[start:end]]
            mine = mine[(mine >= wanted.low) & (mine < wanted.high)] - wanted.low >> wanted.step
            assert wanted.table is not None
            wanted.table += np.bincount(mine, minlength=len(wanted.table))

    def finish(self) -> None:
        """End a pass: keep the ranks whose value is found, narrow the cells of the others."""
        waiting, self._wanted = self._wanted, []
        for wanted in waiting:
            if wanted.table is None:
                self._wanted.append(wanted)
                continue
            reached = np.cumsum(wanted.table)
            places: dict[int, dict[int, int]] = {}
            for rank, within in wanted.ranks.items():
                place = int(np.searchsorted(reached, within))
                places.setdefault(place, {})[rank] = within - int(reached[place - 1] if place else 0)
            for place, ranks in places.items():
                low = wanted.low + (place << wanted.step)
                self._narrow(_Wanted(wanted.group, wanted.cell, low, low + (1 << wanted.step), ranks))

    def value(self, group: int, rank: int) -> int:
        """Return the value at a requested rank."""
        return self._found[group, rank]
