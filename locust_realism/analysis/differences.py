"""Confidence intervals of one run's figures and of the difference of two, honouring autocorrelation.

Response times of neighbours in time are alike (a queue, a garbage collection, a cache that fills), so that n requests
tell less than n independent ones would. Every standard error here therefore comes from batches: consecutive pieces of
the run, long enough to be nearly independent of each other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from locust_realism.analysis.percentiles import Quantile, exact_quantile, sorted_percentiles

Floats = NDArray[np.float64]

BATCHES = 32
FEWEST_BATCHES = 8
CORRELATED = 0.3
"""Lag-1 correlation of the batches from which they count as too short."""


@dataclass(frozen=True)
class Estimate:
    """A figure with its confidence limits; the limits are infinite where the data sets none."""

    value: float
    low: float
    high: float
    n: int

    def __sub__(self, other: Estimate) -> Estimate:
        """The difference of two independent figures, with limits that need not be symmetric.

        The limits are recovered from those of the two figures:
        L = d - sqrt((x - x_low)^2 + (y_high - y)^2), U = d + sqrt((x_high - x)^2 + (y - y_low)^2).
        Source: Zou and Donner, Construction of confidence limits about effect measures, 2008.

        >>> Estimate(10, 7, 14, 100) - Estimate(5, 1, 9, 100)
        Estimate(value=5, low=0.0, high=10.65685424949238, n=100)
        """
        value = self.value - other.value
        down = math.hypot(self.value - self.low, other.high - other.value)
        up = math.hypot(self.high - self.value, other.value - other.low)
        return Estimate(value, value - down, value + up, min(self.n, other.n))


def student(confidence: float, freedom: float) -> float:
    """Two-sided quantile of Student's t; of the normal distribution with infinite freedom.

    >>> round(student(0.95, 19), 3), round(student(0.95, math.inf), 3)
    (2.093, 1.96)
    """
    from scipy.special import ndtri, stdtrit

    share = (1 + confidence) / 2
    return float(ndtri(share) if math.isinf(freedom) else stdtrit(freedom, share))


def batch_means(values: NDArray[Any]) -> Floats:
    """Means of consecutive batches, as many as 32, half as many while neighbouring batches are still correlated.

    Fewer, longer batches are nearer to independence; below 8 the estimate of their spread would be too poor.
    """
    count = min(BATCHES, len(values))
    while True:
        edges = np.linspace(0, len(values), count + 1).astype(np.int64)
        means = np.add.reduceat(values, edges[:-1], dtype=np.float64) / np.diff(edges)
        if count < 2 * FEWEST_BATCHES or _lag_one(means) < CORRELATED:
            return means
        count //= 2


def _lag_one(means: Floats) -> float:
    centred = means - means.mean()
    total = float(centred @ centred)
    return float(centred[1:] @ centred[:-1]) / total if total > 0 else 0.0


def mean_estimate(values: NDArray[Any], confidence: float = 0.95) -> Estimate:
    """Mean of values in time order (any unit, shape (n,)) with limits from batch means."""
    value = float(values.mean()) if len(values) else math.nan
    if len(values) < FEWEST_BATCHES:
        return Estimate(value, -math.inf, math.inf, len(values))
    means = batch_means(values)
    half = student(confidence, len(means) - 1) * float(means.std(ddof=1)) / math.sqrt(len(means))
    return Estimate(value, value - half, value + half, len(values))


def quantile_estimate(
    values: NDArray[Any],
    quantile: Quantile,
    confidence: float = 0.95,
    *,
    rule: str = "nearest_rank",
    ordered: NDArray[Any] | None = None,
) -> Estimate:
    """A percentile of values in time order with limits that honour autocorrelation and are order statistics.

    The share of values at or below the percentile has the standard error s of its batches (never less than that of
    independent values, sqrt(p (1 - p) / n)); the limits are the values at the shares p -+ t s. No density is estimated
    and nothing is assumed of the distribution. A limit is infinite where its share lies outside [1/n, 1 - 1/n].
    ``ordered`` may pass the same values in ascending order to save the sort.
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
    below = batch_means(values <= value)
    spread = float(below.std(ddof=1)) / math.sqrt(len(below))
    half = student(confidence, len(below) - 1) * max(spread, math.sqrt(p * (1 - p) / n))
    low, high = math.floor(n * (p - half)), math.ceil(n * (p + half)) + 1
    return Estimate(
        value,
        float(ordered[low - 1]) if low >= 1 else -math.inf,
        float(ordered[high - 1]) if high <= n else math.inf,
        n,
    )


def share_estimate(hits: NDArray[np.bool_], confidence: float = 0.95) -> Estimate:
    """A share such as that of failures, in [0, 1], with Wilson's limits for the effective number of requests.

    Failures come in bursts: the effective number is n divided by the ratio of the batches' variance to that of
    independent failures. With no failure at all the limits are those of n independent requests.
    Source: Wilson 1927; Kish, Survey Sampling, 1965 (design effect).

    >>> found = share_estimate(np.zeros(100, dtype=bool))
    >>> found.value, found.low, round(found.high, 3)
    (0.0, 0.0, 0.037)
    """
    n = len(hits)
    if n < FEWEST_BATCHES:
        return Estimate(float(hits.mean()) if n else math.nan, 0.0, 1.0, n)
    share = float(hits.mean())
    effective, z = float(n), student(confidence, math.inf)
    independent = share * (1 - share) / n
    if independent > 0:
        means = batch_means(hits)
        effect = float(means.var(ddof=1)) / len(means) / independent
        if effect > 1:
            effective, z = max(n / effect, 1.0), student(confidence, len(means) - 1)
    middle = share + z * z / (2 * effective)
    half = z * math.sqrt(share * (1 - share) / effective + z * z / (4 * effective**2))
    scale = 1 + z * z / effective
    low, high = max(0.0, (middle - half) / scale), min(1.0, (middle + half) / scale)
    return Estimate(share, min(low, share), max(high, share), n)


def rate_estimate(launch_us: NDArray[np.int64], confidence: float = 0.95) -> Estimate:
    """Launches per second, from launches in order, with limits from the spread of the gaps between batches."""
    gaps = np.diff(launch_us).astype(np.float64) / 1e6
    mean = mean_estimate(gaps, confidence)
    if not mean.value > 0:
        return Estimate(math.nan, -math.inf, math.inf, len(launch_us))
    high = 1 / mean.low if mean.low > 0 else math.inf
    return Estimate(1 / mean.value, 1 / mean.high, high, len(launch_us))


def pooled(runs: list[Estimate], confidence: float = 0.95) -> Estimate:
    """One figure of several runs of the same plan: their mean, with limits from the spread between the runs.

    The spread between runs contains that within them; where it happens to be smaller than the runs' own intervals
    allow, these count. One run is returned as it is: it cannot tell how runs differ.
    """
    if len(runs) == 1:
        return runs[0]
    values = np.array([run.value for run in runs])
    centre = float(values.mean())
    half = student(confidence, len(runs) - 1) * float(values.std(ddof=1)) / math.sqrt(len(runs))
    within_low = math.sqrt(sum((run.value - run.low) ** 2 for run in runs)) / len(runs)
    within_high = math.sqrt(sum((run.high - run.value) ** 2 for run in runs)) / len(runs)
    return Estimate(centre, centre - max(half, within_low), centre + max(half, within_high), min(r.n for r in runs))


def disagreement(runs: list[Estimate], confidence: float = 0.95) -> tuple[float, float]:
    """How far apart repeated runs are: (largest - smallest) / mean, and the p-value of chance within runs as its cause.

    Cochran's Q = sum ((x_i - x) / s_i)^2 with weights 1/s_i^2 is chi-squared with k - 1 degrees of freedom where all
    runs measure the same; s_i comes from half the width of each interval. A p-value below .01 says that runs differ by
    more than requests within a run do, so that the interval of one run is too narrow for a comparison. NaN where a
    run's interval is infinite.
    """
    values = np.array([run.value for run in runs])
    mean = float(values.mean())
    apart = float(np.ptp(values)) / mean if mean else math.nan
    width = student(confidence, BATCHES - 1)
    error = np.array([(run.high - run.low) / (2 * width) for run in runs])
    if len(runs) < 2 or not np.isfinite(error).all() or (error <= 0).any():
        return apart, math.nan
    weight = 1 / error**2
    q = float(weight @ (values - float(weight @ values / weight.sum())) ** 2)
    from scipy.special import chdtrc

    return apart, float(chdtrc(len(runs) - 1, q))
