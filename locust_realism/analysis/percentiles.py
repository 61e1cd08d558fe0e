"""Exact percentiles by named rules, of one sample or of every group of it at once.

A percentile is an order statistic. The rules differ by one rank, which makes two tools disagree on the same data.
Ranks are computed with integers and fractions: in floating point 100 * 0.55 is 55.00000000000001, whose ceiling is 56.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple, Protocol, SupportsFloat

import numpy as np
from numpy.typing import ArrayLike, NDArray

from locust_realism.analysis.document import FivePercentiles, FourPercentiles

RULES: dict[str, str] = {
    "nearest_rank": "nearest rank, R type 1: rank ceil(n p), an observed value that at least a share p did not exceed",
    "linear": "R type 7, numpy's linear: between ranks floor((n-1) p) + 1 and the next",
    "jmeter": "JMeter's aggregate report: rank round(n p), halves upwards",
    "locust": "Locust's rank floor(n p) + 1 (of the exact values, not of Locust's buckets)",
}
"""Names and definitions of the rules."""

QUANTILES = (0.5, 0.9, 0.95, 0.99, 0.999)
"""Quantiles of the tables."""

PARTITION_RANKS = 16
"""Most order statistics for which a chain of partitions is faster than a sort, in every numpy build."""

Quantile = float | str | Fraction
Int64 = NDArray[np.int64]
Floats = NDArray[np.float64]
Integers = NDArray[np.integer]
Numbers = NDArray[np.number]


class Ascending(Protocol):
    """Values in ascending order: an array, or an object that holds only the ranks that a table reads."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> SupportsFloat: ...


def exact_quantile(quantile: Quantile) -> Fraction:
    """Return the quantile as written in decimal: 0.55 is 55/100, not the nearest binary fraction.

    >>> exact_quantile(0.55), exact_quantile("0.999")
    (Fraction(11, 20), Fraction(999, 1000))
    """
    try:
        exact = Fraction(str(quantile))
    except (ValueError, ZeroDivisionError):
        exact = Fraction(-1)
    if not 0 <= exact <= 1:
        raise ValueError(f"quantile is {quantile!r}, expected a number in [0, 1]")
    return exact


def percentile_rank(n: int, quantile: Quantile, rule: str = "nearest_rank") -> Fraction:
    """Return the rank, 1 to ``n``, of a quantile among ``n`` sorted values; only the rule ``linear`` has fractions.

    >>> [str(percentile_rank(100, 0.55, rule)) for rule in RULES]
    ['55', '1109/20', '55', '56']
    >>> percentile_rank(100, 0.99, "locust")
    Fraction(100, 1)
    """
    if n < 1:
        raise ValueError(f"n is {n}, expected at least 1 value")
    p = exact_quantile(quantile)
    ranks: dict[str, int | Fraction] = {
        "nearest_rank": math.ceil(n * p),
        "linear": (n - 1) * p + 1,
        "jmeter": math.floor(n * p + Fraction(1, 2)),
        "locust": math.floor(n * p) + 1,
    }
    if rule not in ranks:
        raise ValueError(f"rule is {rule!r}, expected one of {', '.join(RULES)}")
    return min(max(Fraction(ranks[rule]), Fraction(1)), Fraction(n))


def percentiles(values: ArrayLike, quantiles: Sequence[Quantile] = QUANTILES, rule: str = "nearest_rank") -> Floats:
    """Return the exact percentiles of ``values`` (any order, shape (n,)): shape (len(quantiles),), NaN if n = 0.

    The working copy takes 4 bytes a value for integers that fit into 32 bits, else 8. NaN among the values raises
    ValueError.

    >>> percentiles(range(1, 101), [0.5, 0.99]).tolist(), percentiles(range(1, 101), [0.99], "locust").tolist()
    ([50.0, 99.0], [100.0])
    """
    given = np.asarray(values)
    if given.ndim != 1:
        raise ValueError(f"values has shape {given.shape}, expected one dimension")
    if given.dtype.kind == "f" and np.isnan(given).any():
        raise ValueError("values contains NaN, expected numbers")
    ranks = [percentile_rank(len(given), quantile, rule) for quantile in quantiles if len(given)]
    wanted = sorted({whole(rank) - 1 for rank in ranks for whole in (math.floor, math.ceil)})
    work = _compact_copy(given)
    if len(wanted) > PARTITION_RANKS:
        work.sort()
        wanted = []
    # numpy vectorises a partition at one rank only, so each rank partitions the values above the previous one.
    start = 0
    for index in wanted:
        work[start:].partition(index - start)
        start = index + 1
    return sorted_percentiles(work, quantiles, rule)


def sorted_percentiles(
    ordered: Ascending, quantiles: Sequence[Quantile] = QUANTILES, rule: str = "nearest_rank"
) -> Floats:
    """Return the exact percentiles of values in ascending order, as :func:`percentiles` does, without a copy."""
    n, found = len(ordered), []
    for quantile in quantiles:
        rank = percentile_rank(max(n, 1), quantile, rule)
        low, high = math.floor(rank), math.ceil(rank)
        found.append(_between(float(ordered[low - 1]), float(ordered[high - 1]), rank - low) if n else math.nan)
    return np.array(found)


def _between(lower: float, upper: float, part: Fraction) -> float:
    # Fractions round once; floats would lose digits where two large values meet near zero.
    if not part or lower == upper:
        return lower
    if not math.isfinite(upper - lower):
        return lower + float(part) * (upper - lower)
    return float(Fraction(lower) + part * (Fraction(upper) - Fraction(lower)))


def four_percentiles(found_us: Floats) -> FourPercentiles:
    """Return the columns ``p50_ms`` to ``p99_ms`` from the percentiles at :data:`QUANTILES`, in microseconds."""
    p50, p90, p95, p99 = (found_us[:4] / 1e3).tolist()
    return {"p50_ms": p50, "p90_ms": p90, "p95_ms": p95, "p99_ms": p99}


def five_percentiles(found_us: Floats) -> FivePercentiles:
    """Return the columns ``p50_ms`` to ``p999_ms`` from the percentiles at :data:`QUANTILES`, in microseconds."""
    return {**four_percentiles(found_us), "p999_ms": float(found_us[4]) / 1e3}


def _compact_copy(values: Numbers) -> Numbers:
    if values.dtype.kind in "iu" and values.dtype.itemsize > 4 and len(values):
        for small in (np.uint32, np.int32):
            if np.iinfo(small).min <= values.min() and values.max() <= np.iinfo(small).max:
                return values.astype(small)
    return values.copy()


class Grouped(NamedTuple):
    """Values ordered within each group: those of group g are ``values[bounds[g]:bounds[g + 1]]``, ascending."""

    values: Numbers
    bounds: Int64

    def group(self, index: int) -> Numbers:
        """Return the ordered values of one group, a view."""
        return self.values[self.bounds[index] : self.bounds[index + 1]]


def count_codes(codes: Integers, groups: int, *, piece: int = 250_000) -> Int64:
    """Return numpy.bincount of codes in [0, groups), computed piece by piece.

    bincount holds the interpreter's lock, 50 ms for 10 million rows; between pieces a running test gets its turn.

    >>> count_codes(np.array([0, 2, 2]), 4).tolist()
    [1, 0, 2, 0]
    """
    total = np.zeros(groups, dtype=np.int64)
    for start in range(0, len(codes), piece):
        total += np.bincount(codes[start : start + piece], minlength=groups)
    return total


def order_by_group(values: Numbers, codes: Integers, groups: int) -> Grouped:
    """Order the values of every group in one sort; ``codes`` in [0, groups), shape (n,).

    Group and value share one integer key where they fit, which sorts ten times as fast as two keys do.

    >>> grouped = order_by_group(np.array([5, 1, 4, 2]), np.array([0, 1, 0, 1]), 2)
    >>> grouped.group(0).tolist(), grouped.group(1).tolist()
    ([4, 5], [1, 2])
    """
    if len(values) != len(codes):
        raise ValueError(f"codes has {len(codes)} rows, expected {len(values)} as in values")
    if len(codes) and not 0 <= int(codes.min()) <= int(codes.max()) < groups:
        raise ValueError(f"codes are in [{codes.min()}, {codes.max()}], expected [0, {groups - 1}]")
    bounds = np.concatenate(([0], np.cumsum(count_codes(codes, groups)))).astype(np.int64)
    if not len(values):
        return Grouped(values.copy(), bounds)
    if values.dtype.kind in "iu":
        low = int(values.min())
        bits = max((int(values.max()) - low).bit_length(), 1)
        width = bits + (groups - 1).bit_length()
        if width <= 63:
            dtype = np.uint32 if width <= 32 else np.int64
            key: Integers = codes.astype(dtype)
            np.left_shift(key, bits, out=key)
            key += (values - low).astype(dtype) if low else values.astype(dtype)
            key.sort()
            np.bitwise_and(key, dtype((1 << bits) - 1), out=key)
            return Grouped(key.astype(np.int64) + low if low else key, bounds)
    return Grouped(values[np.lexsort((values, codes))], bounds)
