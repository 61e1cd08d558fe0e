"""Figures of one run with confidence intervals that honour autocorrelation.

Response times of neighbours in time are alike: a queue, a garbage collection, a cache that fills. n requests therefore
hold less information than n independent ones. Every standard error comes from :mod:`.batches`; an interval that the
values cannot carry has infinite limits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from locust_realism.analysis.percentiles import Numbers, Quantile, exact_quantile, sorted_percentiles
from locust_realism.analysis.stats.batches import (
    LEAST_FREEDOM,
    Spread,
    batch_edges,
    batch_sums,
    effective_n,
    lessened,
    limit_ranks,
    ratio_spread,
    student,
)

Samples = NDArray[np.number | np.bool_]

FEWEST = 8
"""Fewest values of an estimate."""
SKEWED = 0.1
"""Share of the values, at the upper end, on which the mean of a skewed law depends.

Measured as ``batches.UNCERTAIN`` was: the mean of M/M/1 at .9 (10,000 requests) holds .89 without it, .94 with it.
"""

FAILURES = 6.0
"""Effective failures, of which Wilson's limits take fewer than those of a percentile take values beyond it.

Measured on 1 % of failures in bursts of 50: where 1 to 20 bursts were seen .86 to .95 hold without it, .96 with it."""


@dataclass(frozen=True)
class Estimate:
    """Figure of ``n`` values with its confidence limits; a limit is infinite where the data sets none.

    ``error`` is the standard error behind the limits, NaN if unknown, and ``freedom`` its degrees of freedom. ``most``
    is the largest value that the figure can have, 1 for a share.
    """

    value: float
    low: float
    high: float
    n: int
    error: float = field(default=math.nan, repr=False)
    freedom: float = field(default=math.inf, repr=False)
    most: float = field(default=math.inf, repr=False)

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
        half = half_width(self.value, self.low, self.high)
        return half / student(0.95, self.freedom) if half > 0 else half


def half_width(value: float, low: float, high: float) -> float:
    """Return half the width of an interval, the finite side's if the other is infinite, NaN if both are."""
    sides = [side for side in (value - low, high - value) if math.isfinite(side)]
    return sum(sides) / len(sides) if sides else math.nan


def spread_of_mean(values: Samples) -> Spread:
    """Return the spread of the mean of values in time order; at least one value."""
    return ratio_spread(*batch_sums(values))


def batch_error(values: Samples) -> tuple[float, float]:
    """Return the standard error of the mean of values in time order, and its degrees of freedom; n >= 2."""
    variance, freedom = spread_of_mean(values)
    return math.sqrt(variance), freedom


def counts_below(values: Numbers, bound: float) -> NDArray[np.int64]:
    """Return the number of values at or below a bound in each batch of values in time order."""
    return np.add.reduceat(values <= bound, batch_edges(len(values))[:-1], dtype=np.int64)


def effective_values(values: Numbers, median: float) -> float:
    """Return the number of independent values that hold as much as these ones in time order."""
    return effective_n(counts_below(values, median), np.diff(batch_edges(len(values))))


def mean_estimate(values: Numbers, confidence: float = 0.95) -> Estimate:
    """Return the mean of values in time order (any unit, shape (n,)) with limits from batches.

    Without negative values the limits are m exp(-+ t s / m): the mean of few requests of a queue is as skewed as they
    are, and its error s is small where it is too small itself.
    """
    n = len(values)
    value = float(values.mean()) if n else math.nan
    if n < FEWEST:
        return Estimate(value, -math.inf, math.inf, n)
    error, freedom = batch_error(values)
    median = float(np.partition(values, (n - 1) // 2)[(n - 1) // 2])
    freedom = lessened(freedom, effective_values(values, median), n, SKEWED)
    if freedom < LEAST_FREEDOM:
        return Estimate(value, -math.inf, math.inf, n, error, freedom)
    half = student(confidence, freedom) * error
    low, high = value - half, value + half
    if value > 0 and values.min() >= 0:
        ratio = math.exp(min(half / value, 700.0))
        low, high = value / ratio, value * ratio
    return Estimate(value, low, high, n, error, freedom)


def quantile_estimate(
    values: Numbers,
    quantile: Quantile,
    confidence: float = 0.95,
    *,
    rule: str = "nearest_rank",
    ordered: Numbers | None = None,
) -> Estimate:
    """Return a percentile of values in time order; its limits are order statistics and honour autocorrelation.

    See :func:`~locust_realism.analysis.stats.batches.limit_ranks`. The standard error is half the distance between the
    order statistics one error of the share below and above, as far as there are any. ``ordered`` are the same values in
    ascending order; it saves the sort.

    >>> found = quantile_estimate(np.random.default_rng(1).exponential(1, 10_000), 0.5)
    >>> round(found.low, 2), round(found.value, 2), round(found.high, 2)
    (0.68, 0.7, 0.73)
    """
    n = len(values)
    if n < FEWEST:
        return Estimate(math.nan, -math.inf, math.inf, n)
    ordered = np.sort(values) if ordered is None else ordered
    median, value = sorted_percentiles(ordered, [0.5, quantile], rule).tolist()
    counts, below = np.diff(batch_edges(n)), counts_below(values, value)
    low, high, freedom = limit_ranks(quantile, below, counts, effective_values(values, median), confidence)
    p = float(exact_quantile(quantile))
    share_error = math.sqrt(max(ratio_spread(below, counts).variance, p * (1 - p) / n))
    near = ordered[max(math.floor(n * (p - share_error)) - 1, 0)], ordered[min(math.ceil(n * (p + share_error)), n - 1)]
    return Estimate(
        value,
        -math.inf if low is None else float(ordered[low - 1]),
        math.inf if high is None else float(ordered[high - 1]),
        n,
        (float(near[1]) - float(near[0])) / 2,
        freedom,
    )


def wilson_limits(share: float, n: float, z: float) -> tuple[float, float]:
    """Return the limits of a share of ``n`` independent requests, ``z`` standard errors away, in [0, 1].

    Source: E. B. Wilson, Probable inference, the law of succession, and statistical inference, 1927.

    >>> round(wilson_limits(0.0, 100, 1.96)[1], 3)
    0.037
    """
    middle = share + z * z / (2 * n)
    half = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n**2))
    scale = 1 + z * z / n
    return min(share, max(0.0, (middle - half) / scale)), max(share, min(1.0, (middle + half) / scale))


def share_estimate(hits: NDArray[np.bool_], confidence: float = 0.95) -> Estimate:
    """Return a share such as that of failures, in [0, 1], with Wilson's limits for the effective number of requests.

    Failures come in bursts: the effective number is n divided by the ratio of the batches' variance to that of
    independent failures. Without any failure it is n: bursts of which none was seen are unknown. Too few bursts set
    no limits.
    Source: :func:`wilson_limits`; Kish, Survey Sampling, 1965 (design effect).

    >>> found = share_estimate(np.zeros(100, dtype=bool))
    >>> found.value, found.low, round(found.high, 3)
    (0.0, 0.0, 0.037)
    """
    n = len(hits)
    share = float(hits.mean()) if n else math.nan
    if n < FEWEST:
        return Estimate(share, -math.inf, math.inf, n, most=1.0)
    effective, used = float(n), math.inf
    independent = share * (1 - share) / n
    if independent > 0:
        variance, freedom = spread_of_mean(hits)
        if variance > independent:
            effective = max(n * independent / variance, 1.0)
            used = lessened(freedom, effective, n, FAILURES * share * (1 - share))
            if used < LEAST_FREEDOM:
                return Estimate(share, -math.inf, math.inf, n, math.sqrt(variance), used, 1.0)
    z = student(confidence, used)
    low, high = wilson_limits(share, effective, z)
    return Estimate(share, low, high, n, half_width(share, low, high) / z, used, 1.0)


def rate_estimate(launch_us: NDArray[np.int64], confidence: float = 0.95) -> Estimate:
    """Return launches per second, of launches in order, with limits from the batches of the gaps."""
    gaps = np.diff(launch_us).astype(np.float64) / 1e6
    mean = mean_estimate(gaps, confidence)
    if not mean.value > 0:
        return Estimate(math.nan, -math.inf, math.inf, len(launch_us))
    high = 1 / mean.low if mean.low > 0 else math.inf
    return Estimate(1 / mean.value, 1 / mean.high, high, len(launch_us), mean.error / mean.value**2, mean.freedom)
