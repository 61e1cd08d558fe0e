"""Figures of one run with confidence intervals that honour autocorrelation, and differences of two runs.

Response times of neighbours in time are alike: a queue, a garbage collection, a cache that fills. n requests therefore
hold less information than n independent ones. Every standard error comes from batches: consecutive pieces of the run,
long enough to be nearly independent of each other (:func:`batch_error`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from locust_realism.analysis.percentiles import Floats, Numbers, Quantile, exact_quantile, sorted_percentiles

Samples = NDArray[np.number | np.bool_]

BATCHES = 32
FEWEST_BATCHES = 8
BATCH_SIZE = 6
"""Smallest size of more than the fewest batches."""
CORRELATED = 0.3
"""Lag-1 correlation of the batches' means from which the batches count as too short."""


@dataclass(frozen=True)
class Estimate:
    """Figure of ``n`` values with its confidence limits; a limit is infinite where the data sets none.

    ``error`` is the standard error behind the limits, NaN if unknown, and ``freedom`` its degrees of freedom.
    """

    value: float
    low: float
    high: float
    n: int
    error: float = field(default=math.nan, repr=False)
    freedom: float = field(default=math.inf, repr=False)

    def __sub__(self, other: Estimate) -> Estimate:
        """Return the difference of two independent figures.

        Its limits follow from those of the two figures and need not be symmetric:
        L = d - sqrt((x - x_low)^2 + (y_high - y)^2), U = d + sqrt((x_high - x)^2 + (y - y_low)^2).
        Source: Zou and Donner, Construction of confidence limits about effect measures, 2008.

        >>> Estimate(10, 7, 14, 100) - Estimate(5, 1, 9, 100)
        Estimate(value=5, low=0.0, high=10.65685424949238, n=100)
        """
        value = self.value - other.value
        down = math.hypot(self.value - self.low, other.high - other.value)
        up = math.hypot(self.high - self.value, other.value - other.low)
        return Estimate(value, value - down, value + up, min(self.n, other.n))

    def standard_error(self) -> float:
        """Return ``error``, or that of limits of 95 % confidence if it is unknown; NaN without limits."""
        if math.isfinite(self.error):
            return self.error
        return half_width(self.value, self.low, self.high) / student(0.95, self.freedom)


def student(confidence: float, freedom: float) -> float:
    """Return the two-sided quantile of Student's t, that of the normal distribution for infinite freedom.

    >>> round(student(0.95, 19), 3), round(student(0.95, math.inf), 3)
    (2.093, 1.96)
    """
    from scipy.special import ndtri, stdtrit

    share = (1 + confidence) / 2
    return float(ndtri(share) if math.isinf(freedom) else stdtrit(freedom, share))


def half_width(value: float, low: float, high: float) -> float:
    """Return half the width of an interval, the finite side's if the other is infinite, NaN if both are."""
    sides = [side for side in (value - low, high - value) if math.isfinite(side)]
    return sum(sides) / len(sides) if sides else math.nan


def batch_means(values: Samples) -> Floats:
    """Return the means of 32 consecutive batches, or of 16 or 8 longer ones while neighbours are correlated.

    Longer batches are nearer to independence; the spread of fewer than 8 would be too uncertain. Fewer than 192 values
    make fewer batches, fewer than 8 a batch each.
    Source: A. M. Law, Simulation Modeling and Analysis, 2015, section 9.5.
    """
    count = min(BATCHES, max(FEWEST_BATCHES, len(values) // BATCH_SIZE), len(values))
    while True:
        edges = np.linspace(0, len(values), count + 1).astype(np.int64)
        means = np.add.reduceat(values, edges[:-1], dtype=np.float64) / np.diff(edges)
        centred = means - means.mean()
        if count < 2 * FEWEST_BATCHES or centred[1:] @ centred[:-1] <= CORRELATED * (centred @ centred):
            return means
        count //= 2


def batch_error(values: Samples) -> tuple[float, int]:
    """Return the standard error of the mean of values in time order, and its degrees of freedom; n >= 2."""
    means = batch_means(values)
    return float(means.std(ddof=1)) / math.sqrt(len(means)), len(means) - 1


def mean_estimate(values: Numbers, confidence: float = 0.95) -> Estimate:
    """Return the mean of values in time order (any unit, shape (n,)) with limits from batch means."""
    value = float(values.mean()) if len(values) else math.nan
    if len(values) < FEWEST_BATCHES:
        return Estimate(value, -math.inf, math.inf, len(values))
    error, freedom = batch_error(values)
    half = student(confidence, freedom) * error
    return Estimate(value, value - half, value + half, len(values), error, freedom)


def quantile_estimate(
    values: Numbers,
    quantile: Quantile,
    confidence: float = 0.95,
    *,
    rule: str = "nearest_rank",
    ordered: Numbers | None = None,
) -> Estimate:
    """Return a percentile of values in time order; its limits are order statistics and honour autocorrelation.

    The share of values at or below the percentile has the standard error s of its batches, at least that of independent
    values, sqrt(p (1 - p) / n); the limits are the values at the shares p -+ t s, for any distribution. A limit is
    infinite where its share lies outside [1/n, 1 - 1/n]. ``ordered`` are the same values in ascending order; it saves
    the sort.
    Source: Heidelberger and Lewis, Quantile estimation in dependent sequences, 1984.

    >>> found = quantile_estimate(np.random.default_rng(1).exponential(1, 10_000), 0.5)
    >>> round(found.low, 2), round(found.value, 2), round(found.high, 2)
    (0.68, 0.7, 0.73)
    """
    n = len(values)
    if n < FEWEST_BATCHES:
        return Estimate(math.nan, -math.inf, math.inf, n)
    ordered = np.sort(values) if ordered is None else ordered
    value = float(sorted_percentiles(ordered, [quantile], rule)[0])
    p = float(exact_quantile(quantile))
    error, freedom = batch_error(values <= value)
    t = student(confidence, freedom)
    half = t * max(error, math.sqrt(p * (1 - p) / n))
    low, high = math.floor(n * (p - half)), math.ceil(n * (p + half)) + 1
    lower = float(ordered[low - 1]) if low >= 1 else -math.inf
    upper = float(ordered[high - 1]) if high <= n else math.inf
    return Estimate(value, lower, upper, n, half_width(value, lower, upper) / t, freedom)


def share_estimate(hits: NDArray[np.bool_], confidence: float = 0.95) -> Estimate:
    """Return a share such as that of failures, in [0, 1], with Wilson's limits for the effective number of requests.

    Failures come in bursts: the effective number is n divided by the ratio of the batches' variance to that of
    independent failures. Without any failure it is n.
    Source: Wilson 1927; Kish, Survey Sampling, 1965 (design effect).

    >>> found = share_estimate(np.zeros(100, dtype=bool))
    >>> found.value, found.low, round(found.high, 3)
    (0.0, 0.0, 0.037)
    """
    n = len(hits)
    share = float(hits.mean()) if n else math.nan
    if n < FEWEST_BATCHES:
        return Estimate(share, 0.0, 1.0, n)
    effective, used = float(n), math.inf
    independent = share * (1 - share) / n
    if independent > 0:
        error, freedom = batch_error(hits)
        effect = error**2 / independent
        if effect > 1:
            effective, used = max(n / effect, 1.0), freedom
    z = student(confidence, used)
    middle = share + z * z / (2 * effective)
    half = z * math.sqrt(share * (1 - share) / effective + z * z / (4 * effective**2))
    scale = 1 + z * z / effective
    low, high = min(share, max(0.0, (middle - half) / scale)), max(share, min(1.0, (middle + half) / scale))
    return Estimate(share, low, high, n, half_width(share, low, high) / z, used)


def rate_estimate(launch_us: NDArray[np.int64], confidence: float = 0.95) -> Estimate:
    """Return launches per second, of launches in order, with limits from the batches of the gaps."""
    gaps = np.diff(launch_us).astype(np.float64) / 1e6
    mean = mean_estimate(gaps, confidence)
    if not mean.value > 0:
        return Estimate(math.nan, -math.inf, math.inf, len(launch_us))
    high = 1 / mean.low if mean.low > 0 else math.inf
    return Estimate(1 / mean.value, 1 / mean.high, high, len(launch_us), mean.error / mean.value**2, mean.freedom)
