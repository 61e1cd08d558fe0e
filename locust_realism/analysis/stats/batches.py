"""Variance of a mean or a share where neighbours in time depend on each other, from consecutive batches.

The mean over a run has the variance of the means of 64 equal batches, times (1 + r) / (1 - r) for their own lag-1
correlation r. This is exact for batches much longer than the correlation lasts, and where it decays exponentially, as
it does in a queue. Sources: A. M. Law, Simulation Modeling and Analysis, 2015, section 9.5; the correction is that of
Skart (A. Tafazzoli and J. R. Wilson, Skart: a skewness- and autocorrelation-adjusted batch-means procedure, 2011).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from locust_realism.analysis.percentiles import Floats, Int64, Integers, Quantile, exact_quantile

BATCHES = 64
PIECE = 1 << 18
"""Most rows that are counted at once, in some 10 MB."""
MOST_CORRELATED = 0.9
UNCERTAIN = 3.0
"""Effective values beyond a percentile, as a multiple of its degrees of freedom.

Dependent values beyond a percentile come in clusters of random size: few of them make the standard error itself
uncertain. Measured on M/M/1 up to .9 and M/G/1 of CoV 3 with 300 to 100,000 requests: at 2 the intervals that are given
hold .91 where half of them are, at 3 .92, and .93 to .96 from some 20 effective values on.
"""
LEAST_FREEDOM = 1.0
"""Fewest degrees of freedom of an interval; with one, 95 % limits are 12.7 standard errors off."""


class Spread(NamedTuple):
    """Variance of a mean or a share, and the degrees of freedom of this estimate; NaN and 0 for too few batches."""

    variance: float
    freedom: float


class Ranks(NamedTuple):
    """Ranks, 1 to n, of the limits of a percentile, None for a limit beyond the values, and their freedom."""

    low: int | None
    high: int | None
    freedom: float


@lru_cache(maxsize=4096)
def student(confidence: float, freedom: float) -> float:
    """Return the two-sided quantile of Student's t, that of the normal distribution for infinite freedom.

    With t = sinh w, P(|T| < t) is the integral of (1 + t^2 / f)^(-(f + 1) / 2) cosh(w) dw, over that to infinity. Four
    digits, far out too; scipy would take 0.1 s to import in a running test.

    >>> round(student(0.95, 19), 3), round(student(0.95, 2), 3), round(student(0.95, math.inf), 3)
    (2.093, 4.303, 1.96)
    """
    if freedom > 1e6:
        return NormalDist().inv_cdf((1 + confidence) / 2)
    edges = np.linspace(0, 3.5 + 24 / freedom, 513)  # P(|T| > t) is below 10^-10 beyond
    middle = (edges[1:] + edges[:-1]) / 2
    density = np.exp(-(freedom + 1) / 2 * np.log1p(np.sinh(middle) ** 2 / freedom)) * np.cosh(middle)
    mass = np.concatenate(([0.0], np.cumsum(density)))
    return math.sinh(float(np.interp(confidence * mass[-1], mass, edges)))


def inflation(off: Floats, n: int, fitted: int = 1) -> float:
    """Return the factor (1 + r) / (1 - r) by which lag-1 correlation widens the variance of a mean, at least 1.

    ``off`` are deviations from ``fitted`` estimated means of n values in all; each takes about 1/n off r. Source:
    M. G. Kendall, Note on bias in the estimation of autocorrelation, Biometrika 41, 1954.
    """
    power = float(off @ off)
    r = float(off[1:] @ off[:-1]) / power if power > 0 else 0.0
    r = min(max(r + fitted / n, 0.0), MOST_CORRELATED)
    return (1 + r) / (1 - r)


def batch_edges(n: int) -> Int64:
    """Return the bounds of 64 consecutive batches of n rows, of n batches if there are fewer rows.

    >>> batch_edges(3).tolist(), batch_edges(640)[:3].tolist()
    ([0, 1, 2, 3], [0, 10, 20])
    """
    batches = min(BATCHES, n)
    return -(-np.arange(batches + 1, dtype=np.int64) * n // max(batches, 1))


def batch_sums(values: NDArray[np.number | np.bool_]) -> tuple[Floats, Int64]:
    """Return the sums of the batches of at least one value in time order, and the number of values of each."""
    edges = batch_edges(len(values))
    return np.add.reduceat(values, edges[:-1], dtype=np.float64), np.diff(edges)


def ratio_spread(sums: Floats | Int64, counts: Int64) -> Spread:
    """Return the spread of sum(sums) / sum(counts) over batches in time order; batches without a count are left out.

    The variance has the relative error of a variance of b batches, 2 / (b - 1), and that of (1 + r) / (1 - r), about
    4 / b near r = 0. Source of the ratio: W. G. Cochran, Sampling Techniques, 1977, section 6.3.
    """
    there = counts > 0
    sums, counts = sums[there], counts[there]
    b, n = len(counts), int(counts.sum())
    if b < 2:
        return Spread(math.nan, 0.0)
    off = sums - counts * (float(sums.sum()) / n)
    variance = b / (b - 1) * float(off @ off) / n**2 * inflation(off, b)
    return Spread(variance, 1 / (1 / (b - 1) + 2 / b))


def effective_n(middle: Int64, counts: Int64) -> float:
    """Return the number of independent values that place the median as well as these do; at most n.

    ``middle`` are the numbers of values at or below the median in each batch, ``counts`` of all values. The median
    measures the dependence best: values far out are too few.
    """
    n = int(counts.sum())
    share = int(middle.sum()) / n if n else 0.0
    variance, independent = ratio_spread(middle, counts).variance, share * (1 - share)
    return min(float(n), independent / variance) if variance > 0 and independent > 0 else float(n)


def lessened(freedom: float, effective: float, n: int, part: float) -> float:
    """Return the degrees of freedom that are left where few of the effective values decide about a figure.

    ``part`` is their share, p (1 - p) for a percentile. Independent values lose none.

    >>> lessened(20, 100, 100, 0.05), round(lessened(20, 100, 10_000, 0.05), 1)
    (20.0, 1.6)
    """
    return 1 / (1 / freedom + UNCERTAIN / part * (1 / effective - 1 / n)) if freedom > 0 else 0.0


def limit_ranks(quantile: Quantile, below: Int64, counts: Int64, effective: float, confidence: float) -> Ranks:
    """Return the ranks of the limits of a percentile, from counts in batches in time order.

    ``below`` are the numbers of values at or below the percentile in each batch, of ``counts`` values; ``effective`` is
    their :func:`effective_n`. The share of values at or below the percentile has the standard error s, at least that of
    independent values, sqrt(p (1 - p) / n); the limits are the values at the shares p -+ t s, for any distribution.
    None for a limit whose share lies outside [1/n, 1 - 1/n], and for both where fewer than ``LEAST_FREEDOM`` degrees of
    freedom are left. Source: Heidelberger and Lewis, Quantile estimation in dependent sequences, 1984.
    """
    n, p = int(counts.sum()), float(exact_quantile(quantile))
    variance, freedom = ratio_spread(below, counts)
    if not 0 < p < 1 or not freedom:
        return Ranks(None, None, 0.0)
    freedom = lessened(freedom, effective, n, p * (1 - p))
    if freedom < LEAST_FREEDOM:
        return Ranks(None, None, freedom)
    half = student(confidence, freedom) * math.sqrt(max(variance, p * (1 - p) / n))
    low, high = math.floor(n * (p - half)), math.ceil(n * (p + half)) + 1
    return Ranks(low if low >= 1 else None, high if high <= n else None, freedom)


class BatchCounts:
    """Values at or below the percentiles of each group, counted in the batches of its own values, which come in pieces.

    ``percentiles`` has shape (groups, quantiles), ascending within a group; ``n`` has the number of known values of
    each. Negative values are unknown. Launches of a group at the same instant are in the batch of the first of them,
    so that their order does not matter.

    >>> counts = BatchCounts(np.array([[2.0, 3.0]]), n=[3])
    >>> counts.add(np.arange(4), None, np.array([1, 3, -1, 2]))
    >>> below, number = counts.of(0)
    >>> below[:, :4].tolist(), number[:4].tolist()
    ([[1, 0, 1, 0], [1, 1, 1, 0]], [1, 1, 1, 0])
    """

    def __init__(self, percentiles: Floats, n: Sequence[int]) -> None:
        # A whole value is at or below a percentile between two of them if it is at or below the lower one.
        bounds = np.floor(np.nan_to_num(percentiles, nan=-1.0)).astype(np.int64)
        self._groups = [_GroupCounts(each, number) for each, number in zip(bounds.tolist(), n, strict=True)]

    def add(self, launch_us: Int64, groups: Integers | None, values: Int64) -> None:
        """Count the next rows in launch order; ``groups`` has the group of each, None for the first one.

        Rows of further groups do not count.
        """
        for start in range(0, len(values), PIECE):
            piece = slice(start, start + PIECE)
            if groups is None:
                self._groups[0].add(launch_us[piece], values[piece])
            else:
                self._add(launch_us[piece], groups[piece], values[piece])

    def _add(self, launch_us: Int64, groups: Integers, values: Int64) -> None:
        groups = groups.astype(np.min_scalar_type(int(groups.max())))  # few bits sort ten times as fast
        order = np.argsort(groups, kind="stable")
        launch_us, values = launch_us[order], values[order]
        ends = np.cumsum(np.bincount(groups, minlength=len(self._groups))).tolist()
        for counts, start, end in zip(self._groups, [0, *ends], ends, strict=False):
            if start < end:
                counts.add(launch_us[start:end], values[start:end])

    def of(self, group: int) -> tuple[Int64, Int64]:
        """Return the counts at or below each percentile of a group, (quantiles, batches), and of all values."""
        reached = np.cumsum(self._groups[group].counts, axis=1)
        return reached[:, :-1].T, reached[:, -1]


class _GroupCounts:
    """Values of one group by batch and by the number of bounds that they exceed, shape (batches, bounds + 1)."""

    def __init__(self, bounds: list[int], n: int) -> None:
        self.counts = np.zeros((BATCHES, len(bounds) + 1), dtype=np.int64)
        self._bounds, self._n = bounds, n
        self._rows = self._first = self._last_us = 0
        """Rows so far, position of the first row of the last instant, that instant."""

    def add(self, launch_us: Int64, values: Int64) -> None:
        if values.min() < 0:
            launch_us, values = launch_us[values >= 0], values[values >= 0]
            if not len(values):
                return
        position = np.arange(self._rows, self._rows + len(values))
        is_tie = launch_us == np.concatenate(([self._last_us], launch_us[:-1]))
        if is_tie.any():
            position[is_tie] = 0
            position[0] = self._first if is_tie[0] else position[0]
            np.maximum.accumulate(position, out=position)
        self._rows, self._first, self._last_us = self._rows + len(values), int(position[-1]), int(launch_us[-1])
        code = position * min(BATCHES, self._n) // self._n * self.counts.shape[1]
        for bound in self._bounds:
            code += values > bound
        self.counts += np.bincount(code, minlength=self.counts.size).reshape(self.counts.shape)
