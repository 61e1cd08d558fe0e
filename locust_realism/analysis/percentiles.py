"""Exact percentiles by named rules, with confidence intervals, for one sample or for every group of it at once.

A percentile is an order statistic, and which one is a matter of the rule: the rules differ by one rank, which is what
makes two tools disagree on the same data. Ranks are computed with integers and fractions. ``n * p`` in floating point
is wrong for some (n, p): 100 * 0.55 is 55.00000000000001, whose ceiling is 56.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

RULES: dict[str, str] = {
    "nearest_rank": "nearest rank, R type 1: rank ceil(n p), an observed value that at least a share p did not exceed",
    "linear": "R type 7, numpy's linear: between ranks floor((n-1) p) + 1 and the next",
    "jmeter": "JMeter's aggregate report: rank round(n p), halves upwards",
    "locust": "Locust's rank floor(n p) + 1 (of the exact values, not of Locust's buckets)",
}
"""Name of each rule and what it computes."""

QUANTILES = (0.5, 0.9, 0.95, 0.99, 0.999)
"""The quantiles of the tables."""

PARTITION_RANKS = 16
"""Up to so many order statistics a chain of partitions is faster than a sort, with a vectorised numpy build or not."""

Quantile = float | str | Fraction


class Ascending(Protocol):
    """Values in ascending order: an array, or what knows the few of them that are asked for."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Any: ...


Int64 = NDArray[np.int64]
Floats = NDArray[np.float64]


def exact_quantile(quantile: Quantile) -> Fraction:
    """The quantile as it is written in decimal: 0.55 is 55/100, not the nearest binary fraction.

    >>> exact_quantile(0.55), exact_quantile("0.999")
    (Fraction(11, 20), Fraction(999, 1000))
    """
    try:
        exact = Fraction(str(quantile))
    except (ValueError, ZeroDivisionError):
        raise ValueError(f"quantile is {quantile!r}, expected a number in [0, 1]") from None
    if not 0 <= exact <= 1:
        raise ValueError(f"quantile is {quantile}, expected a number in [0, 1]")
    return exact


def percentile_rank(n: int, quantile: Quantile, rule: str = "nearest_rank") -> Fraction:
    """Rank, 1 to ``n``, of a quantile among ``n`` sorted values; fractional for the rule ``linear`` only.

    >>> [str(percentile_rank(100, 0.55, rule)) for rule in RULES]
    ['55', '1109/20', '55', '56']
    >>> percentile_rank(100, 0.99, "locust")
    Fraction(100, 1)
    """
    if n < 1:
        raise ValueError(f"n is {n}, expected at least 1 value")
    p = exact_quantile(quantile)
    if rule == "nearest_rank":
        rank = Fraction(math.ceil(n * p))
    elif rule == "linear":
        rank = (n - 1) * p + 1
    elif rule == "jmeter":
        rank = Fraction(math.floor(n * p + Fraction(1, 2)))
    elif rule == "locust":
        rank = Fraction(math.floor(n * p) + 1)
    else:
        raise ValueError(f"rule is {rule!r}, expected one of {', '.join(RULES)}")
    return min(max(rank, Fraction(1)), Fraction(n))


def percentiles(
    values: ArrayLike, quantiles: Sequence[Quantile] = QUANTILES, rule: str = "nearest_rank", *, in_place: bool = False
) -> Floats:
    """Exact percentiles of ``values`` (any order, shape (n,)); shape (len(quantiles),), NaN where n = 0.

    Integers that fit into 32 bits are ordered as such, so that the working copy costs 4 bytes a value, 8 otherwise;
    with ``in_place`` a writable array is reordered instead and no copy is made. NaN among the values is an error.

    >>> percentiles(range(1, 101), [0.5, 0.99]).tolist(), percentiles(range(1, 101), [0.99], "locust").tolist()
    ([50.0, 99.0], [100.0])
    """
    given = np.asarray(values)
    if given.ndim != 1:
        raise ValueError(f"values has shape {given.shape}, expected one dimension")
    if given.dtype.kind == "f" and np.isnan(given).any():
        raise ValueError("values contains NaN, expected numbers")
    n = len(given)
    ranks = [percentile_rank(max(n, 1), q, rule) for q in quantiles]
    if n == 0:
        return np.full(len(ranks), math.nan)
    work = given if in_place else _compact_copy(given)
    wanted = sorted({index for rank in ranks for index in _neighbours(rank, n)})
    if len(wanted) <= PARTITION_RANKS:
        _partition_each(work, wanted)
    else:
        work.sort()
    return at_ranks(work, ranks)


def at_ranks(ordered: Ascending, ranks: Sequence[Fraction]) -> Floats:
    """Values of an ordered array at 1-based ranks, between two of them in proportion where a rank is fractional."""
    found = []
    for rank in ranks:
        low, high = _neighbours(rank, len(ordered))
        found.append(_between(float(ordered[low]), float(ordered[high]), rank - (low + 1)))
    return np.array(found)


def _between(lower: float, upper: float, part: Fraction) -> float:
    # exact, rounded once: floats would lose digits where two large values meet near zero
    if not part or lower == upper:
        return lower
    if not math.isfinite(upper - lower):
        return lower + float(part) * (upper - lower)
    return float(Fraction(lower) + part * (Fraction(upper) - Fraction(lower)))


def sorted_percentiles(
    ordered: Ascending, quantiles: Sequence[Quantile] = QUANTILES, rule: str = "nearest_rank"
) -> Floats:
    """As :func:`percentiles`, of values that are in ascending order already: no copy, no work."""
    if not len(ordered):
        return np.full(len(quantiles), math.nan)
    return at_ranks(ordered, [percentile_rank(len(ordered), q, rule) for q in quantiles])


def _partition_each(work: NDArray[Any], wanted: Sequence[int]) -> None:
    # One rank at a time, each in what lies above the last: numpy vectorises a partition at one rank only.
    start = 0
    for index in wanted:
        work[start:].partition(index - start)
        start = index + 1


def _neighbours(rank: Fraction, n: int) -> tuple[int, int]:
    low = math.floor(rank) - 1
    return low, min(low + (0 if rank.denominator == 1 else 1), n - 1)


def _compact_copy(values: NDArray[Any]) -> NDArray[Any]:
    if values.dtype.kind in "iu" and values.dtype.itemsize > 4 and len(values):
        low, high = int(values.min()), int(values.max())
        if low >= 0 and high < 2**32:
            return values.astype(np.uint32)
        if low >= -(2**31) and high < 2**31:
            return values.astype(np.int32)
    return values.copy()


class Grouped(NamedTuple):
    """Values ordered within each group: those of group g are ``values[bounds[g]:bounds[g + 1]]``, ascending."""

    values: NDArray[Any]
    bounds: Int64

    def group(self, index: int) -> NDArray[Any]:
        """The ordered values of one group, a view."""
        return self.values[self.bounds[index] : self.bounds[index + 1]]

    def percentiles(self, quantiles: Sequence[Quantile] = QUANTILES, rule: str = "nearest_rank") -> Floats:
        """Exact percentiles of every group, shape (groups, quantiles), NaN for an empty group."""
        rows = [sorted_percentiles(self.group(g), quantiles, rule) for g in range(len(self.bounds) - 1)]
        return np.array(rows).reshape(len(rows), len(quantiles))


def count_codes(
    codes: NDArray[Any], groups: int, weights: NDArray[Any] | None = None, *, piece: int = 250_000
) -> NDArray[Any]:
    """numpy.bincount of codes in [0, groups), piece by piece, optionally the sum of ``weights`` for each code.

    bincount keeps the interpreter's lock while it counts, 50 ms for 10 million rows; between pieces a running test
    gets its turn.

    >>> count_codes(np.array([0, 2, 2]), 4).tolist()
    [1, 0, 2, 0]
    """
    total: NDArray[Any] = np.zeros(groups, dtype=np.int64 if weights is None else np.float64)
    for start in range(0, len(codes), piece):
        rows = slice(start, start + piece)
        total += np.bincount(codes[rows], None if weights is None else weights[rows], minlength=groups)
    return total


def order_by_group(values: NDArray[Any], codes: NDArray[Any], groups: int) -> Grouped:
    """Order the values of every group in one sort; ``codes`` in [0, groups), shape (n,), any grouping.

    Group and value are packed into one integer key where they fit, which sorts ten times as fast as two keys do.

    >>> grouped = order_by_group(np.array([5, 1, 4, 2]), np.array([0, 1, 0, 1]), 2)
    >>> grouped.group(0).tolist(), grouped.percentiles([0.5]).tolist()
    ([4, 5], [[4.0], [1.0]])
    """
    if len(values) != len(codes):
        raise ValueError(f"codes has {len(codes)} rows, expected {len(values)} as in values")
    if len(codes) and not 0 <= int(codes.min()) <= int(codes.max()) < groups:
        raise ValueError(f"codes are in [{codes.min()}, {codes.max()}], expected [0, {groups - 1}]")
    bounds = np.concatenate(([0], np.cumsum(count_codes(codes, groups)))).astype(np.int64)
    if not len(values):
        return Grouped(values.copy(), bounds)
    if groups == 1:
        work = _compact_copy(values)
        work.sort()
        return Grouped(work, bounds)
    if values.dtype.kind in "iu":
        low, high = int(values.min()), int(values.max())
        bits = max((high - low).bit_length(), 1)
        width = bits + max((groups - 1).bit_length(), 1)
        if width <= 63:
            return Grouped(_sorted_by_key(values, codes, low, bits, np.uint32 if width <= 32 else np.int64), bounds)
    return Grouped(values[np.lexsort((values, codes))], bounds)


def _sorted_by_key(values: NDArray[Any], codes: NDArray[Any], low: int, bits: int, dtype: Any) -> NDArray[Any]:
    key = codes.astype(dtype)
    np.left_shift(key, bits, out=key)
    key += (values - low).astype(dtype) if low else values.astype(dtype)
    key.sort()
    np.bitwise_and(key, dtype((1 << bits) - 1), out=key)
    return key.astype(np.int64) + low if low else key


def interval_ranks(n: int, quantile: Quantile, confidence: float = 0.95) -> tuple[int, int] | None:
    """Ranks whose order statistics enclose the true quantile with at least ``confidence``; None where n is too small.

    The number of values at or below the quantile is binomial(n, p) whatever the distribution; each side gets half of
    the error. p99 at 95 % needs n >= 368, p99.9 n >= 3,688. Too narrow where values depend on their neighbours, as
    response times of a loaded server do: see :func:`batch_interval`.
    Source: H. A. David and H. N. Nagaraja, Order Statistics, 2003, section 7.1.

    >>> interval_ranks(100, 0.5), interval_ranks(367, 0.99), interval_ranks(368, 0.99)
    ((40, 61), None, (360, 368))
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence is {confidence}, expected a number between 0 and 1, both excluded")
    p = float(exact_quantile(quantile))
    if n < 1 or not 0 < p < 1:
        return None
    first, tail = _binomial_cdf(n, p)
    side = (1 - confidence) / 2
    # The epsilon forgives the rounding of 1 - confidence, which else would cost a rank at exact ties.
    lower = first + int(np.searchsorted(tail, side * (1 + 1e-9), side="right"))
    upper = first + int(np.searchsorted(tail, 1 - side * (1 + 1e-9), side="left")) + 1
    return (lower, upper) if lower >= 1 and upper <= n else None


def _binomial_cdf(n: int, p: float) -> tuple[int, Floats]:
    """First count and P(B <= count) from there on, over all counts that matter (12 standard deviations)."""
    reach = 12 * math.sqrt(n * p * (1 - p)) + 40
    first, last = max(0, math.floor(n * p - reach)), min(n, math.ceil(n * p + reach))
    counts = np.arange(first, last, dtype=np.float64)
    log_ratio = np.log((n - counts) / (counts + 1)) + math.log(p / (1 - p))
    log_mass = np.concatenate(([0.0], np.cumsum(log_ratio)))
    mass = np.exp(log_mass - log_mass.max())
    return first, np.cumsum(mass) / mass.sum()


def percentile_interval(ordered: Ascending, quantile: Quantile, confidence: float = 0.95) -> tuple[float, float] | None:
    """Confidence interval of a quantile from ascending, independent values; None where there are too few of them."""
    ranks = interval_ranks(len(ordered), quantile, confidence)
    return None if ranks is None else (float(ordered[ranks[0] - 1]), float(ordered[ranks[1] - 1]))


def batch_interval(
    values: NDArray[Any],
    quantile: Quantile,
    confidence: float = 0.95,
    *,
    batches: int = 20,
    rule: str = "nearest_rank",
) -> tuple[float, float] | None:
    """Confidence interval of a quantile of values in time order that may depend on their neighbours.

    The values are cut into ``batches`` consecutive pieces; with s the standard deviation of the pieces' quantiles, the
    interval is the quantile of all values -+ t(batches - 1) s / sqrt(batches). None where a piece would hold fewer than
    ten values beyond the quantile. Source: A. M. Law, Simulation Modeling and Analysis, 2015, section 9.5.
    """
    if batches < 2:
        raise ValueError(f"batches is {batches}, expected at least 2")
    p = exact_quantile(quantile)
    size = len(values) // batches
    if size * min(p, 1 - p) < 10:
        return None
    from scipy.stats import t

    pieces = np.sort(values[: size * batches].reshape(batches, size), axis=1)
    found = np.array([sorted_percentiles(piece, [quantile], rule)[0] for piece in pieces])
    half = float(t.ppf((1 + confidence) / 2, batches - 1)) * found.std(ddof=1) / math.sqrt(batches)
    centre = float(percentiles(values, [quantile], rule)[0])
    return centre - half, centre + half
