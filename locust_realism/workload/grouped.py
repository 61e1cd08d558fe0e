"""Times that are known to a resolution only, as counts in bins, and their exact likelihood.

An access log gives whole seconds: a think time of 0.7 s is seen as 0 or 1. Between two clocks readings that are cut
to a multiple of q, with no relation to the think time X, the difference D q has

    P(D < d) = P(X + U < d q) = 1/q integral of F(x) dx from (d - 1) q to d q       (U uniform between 0 and q)

so the likelihood of the counts needs no approximation, and a log of any length is a few hundred counts. Source: D. F.
Heitjan, Inference from grouped continuous data, Statistical Science 4, 1989.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .checks import positive
from .solve import Floats

Int64 = NDArray[np.int64]

_EXACT_BINS = 128
_GROWTH = 1.01
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_FAR = 64


def bin_edges(resolution: float, longest: float) -> Int64:
    """Edges of bins in units of the resolution: one unit wide up to 128, then 1 % wider each, up past ``longest``.

    Wider bins than this lose information; finer ones only take room.

    >>> edges = bin_edges(1.0, 1800.0)
    >>> len(edges), edges[:4].tolist(), int(edges[-1])
    (446, [0, 1, 2, 3], 1801)
    """
    last = round(positive("longest", longest) / positive("resolution", resolution)) + 1
    edges = list(range(min(_EXACT_BINS, last) + 1))
    while edges[-1] < last:
        edges.append(min(max(edges[-1] + 1, int(edges[-1] * _GROWTH)), last))
    return np.array(edges, dtype=np.int64)


@dataclass(frozen=True)
class GroupedTimes:
    """Counts of times in bins.

    - ``edges`` of the bins in seconds, multiples of the resolution, shape (n + 1,): bin i holds what was seen as
      edges[i] up to, but not including, edges[i + 1]
    - ``counts`` shape (n,)
    - ``resolution`` in seconds
    - ``total`` and ``squares``: the sum of the times as they were seen, and of their squares
    """

    edges: Floats
    counts: Int64
    resolution: float
    total: float
    squares: float

    @property
    def n(self) -> int:
        """Number of times."""
        return int(self.counts.sum())

    @property
    def mean(self) -> float:
        """Mean in seconds; cutting both ends to the resolution does not change it on average."""
        return self.total / self.n if self.n else float("nan")

    @property
    def sdev(self) -> float:
        """Standard deviation in seconds, without what the resolution adds (q^2 / 6 to the variance)."""
        if self.n < 2:
            return float("nan")
        variance = (self.squares - self.total**2 / self.n) / (self.n - 1)
        return float(np.sqrt(max(variance - self.resolution**2 / 6, 0.0)))

    def shares_below(self) -> Floats:
        """Share of the times that were seen below each edge, shape (n + 1,)."""
        below = np.concatenate((np.zeros(1), np.cumsum(self.counts, dtype=np.float64)))
        return below / max(self.n, 1)

    def quantile(self, q: NDArray[np.float64] | list[float]) -> Floats:
        """Quantiles in seconds, interpolated within the bins, shape as q; NaN where there are no times."""
        if not self.n:
            return np.full(np.shape(q), np.nan)
        # Half a unit lower: a time seen as d units was between d - 1 and d + 1, d on average.
        points = np.maximum(self.edges - self.resolution / 2, 0.0)
        shares = self.shares_below()
        first = int(np.searchsorted(shares, 0.0, side="right")) - 1
        rising = np.concatenate(([True], np.diff(shares[first:]) > 0))
        return np.interp(q, shares[first:][rising], points[first:][rising])


class TimeCounter:
    """Counts times into the bins of :func:`bin_edges` as they come.

    >>> counter = TimeCounter(1.0, 1800.0)
    >>> counter.add(np.array([0, 12_000_000, 14_000_000]))
    >>> counter.grouped().mean
    8.666666666666666
    """

    def __init__(self, resolution: float, longest: float) -> None:
        self.resolution = resolution
        self._unit = max(round(resolution * 1e6), 1)
        self._edges = bin_edges(resolution, longest)
        self._counts = np.zeros(len(self._edges) - 1, dtype=np.int64)
        self._total = self._squares = 0.0

    def add(self, times_us: Int64) -> None:
        """Count times in microseconds; negative ones are zero, longer ones than the longest are the longest."""
        units = np.clip((times_us + self._unit // 2) // self._unit, 0, self._edges[-1] - 1)
        bins = np.searchsorted(self._edges, units, side="right") - 1
        self._counts += np.bincount(bins, minlength=len(self._counts))
        seconds = units * self.resolution
        self._total += float(seconds.sum())
        self._squares += float(seconds @ seconds)

    def grouped(self) -> GroupedTimes:
        """What has been counted so far."""
        edges = np.asarray(self._edges * self.resolution, dtype=np.float64)
        return GroupedTimes(edges, self._counts.copy(), self.resolution, self._total, self._squares)


def seen_below(cdf: Callable[[Floats], Floats], edges: Floats, resolution: float) -> Floats:
    """P(D q < edge): the probability that a time with distribution ``cdf`` is seen below each edge, shape as edges.

    The average of the cdf over one unit before the edge, by Gauss and Legendre's quadrature.

    >>> from locust_realism.workload.distributions import exponential
    >>> seen_below(exponential(1).cdf, np.array([0.0, 1.0]), 1.0).round(6).tolist()  # 1/e: seen as 0 s
    [0.0, 0.367879]
    """
    half = resolution / 2
    near = edges <= _FAR * resolution
    shares = np.empty(edges.shape)
    points = edges[near, None] - half + half * _NODES
    shares[near] = np.where(points > 0, cdf(np.maximum(points, 0.0)), 0.0) @ (_WEIGHTS / 2)
    # Far from zero the cdf is all but straight within one unit: Simpson's rule.
    far = edges[~near]
    shares[~near] = (cdf(far - resolution) + 4 * cdf(far - half) + cdf(far)) / 6
    return shares
