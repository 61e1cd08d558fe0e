"""Repeated runs of one plan: their common figure, the spread between them, and whether they agree.

Runs differ by the chance within each run, which its standard error contains, and possibly by more: another start of the
server, another neighbour on the machine. The ratio of the variance between runs to that within them measures it. The
ratio has no unit, so that sides of a comparison share it although one is twice as slow and spreads twice as wide
(R. T. Birge, The calculation of errors by the method of least squares, 1932; of the Particle Data Group too).

The limits of the runs are of 95 % confidence.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from locust_realism.analysis.percentiles import Floats
from locust_realism.analysis.stats.batches import LEAST_FREEDOM, student
from locust_realism.analysis.stats.estimates import FEWEST, Estimate, half_width

AGREE_P = 0.01
"""Smallest p-value at which repeated runs agree; with five figures a side, at most 5 % of sound sides do not."""
INDEPENDENT_RUNS = 3
"""Fewest runs whose spread alone is an interval. Source: Law, Simulation Modeling and Analysis, 2015, section 9.4."""
AGREEING_FREEDOM = 8
"""Degrees of freedom, at least, of the spread between runs that agree.

Measured in simulation of 7 statements at 95 % together: with 4, two runs a side miss changes that one run a side shows;
with those of the runs' own chance, five runs a side differ in 8 % of comparisons where runs spread by one or two.
"""
CARRYING = 0.4
"""Fewest degrees of freedom, in the median of several runs, that carry an interval.

They are about one effective value beyond a percentile (:func:`~locust_realism.analysis.stats.batches.lessened`). With
fewer it is biased, which more runs do not mend. Measured on M/M/1 at .5 to .9, runs of 600 to 10,000 requests: p99 at
.9, 3,000 requests, is 22 % too small, and its interval held in 74, 51 and 28 % of three, five and ten runs.
"""
WIDEST = 10.0
"""Distance of a limit from its figure, at most, as a multiple of the figure.

Chosen: beyond it a limit shows nothing but few degrees of freedom. Two runs of 800 AR(1) values of .97 had limits of
p50 of billions of milliseconds.
"""


class RunSpread(NamedTuple):
    """Variance between repeated runs over that within them; 1 is expected where chance within runs explains it.

    ``freedom`` are the degrees of freedom between the runs, ``p_value`` is that of so large a ratio by chance. NaN
    without an error of each run, or without repeated runs.
    """

    ratio: float
    freedom: int
    p_value: float


def spread_of(sides: Sequence[Sequence[Estimate]]) -> RunSpread:
    """Return the spread between the runs within each of several sides.

    For one side it is sum (x_i - x)^2 / ((k - 1) w), with w the mean of the runs' variances and its degrees of freedom
    by Satterthwaite: an F ratio, unlike Cochran's Q, which is chi-squared for known variances only.
    Source: M. B. Brown and A. B. Forsythe, The small sample behavior of some statistics which test the equality of
    several means, 1974.
    """
    from scipy.special import fdtrc

    between = sum(len(runs) - 1 for runs in sides)
    total = inverse = 0.0
    for runs in sides:
        values, variance = _values(runs), _variances(runs).mean()
        squares = float(((values - values.mean()) ** 2).sum())
        if squares:
            total += squares / float(variance) if variance else math.nan
        if len(runs) > 1:
            inverse += (len(runs) - 1) ** 2 / _freedom(runs)
    if not between or math.isnan(total):
        return RunSpread(math.nan, between, math.nan)
    # The F distribution at 1e9 degrees is that of chi-squared.
    within = min(between**2 / inverse, 1e9) if inverse else 1e9
    return RunSpread(total / between, between, float(fdtrc(between, within, total / between)))


def _values(runs: Sequence[Estimate]) -> Floats:
    return np.array([run.value for run in runs])


def _variances(runs: Sequence[Estimate]) -> Floats:
    return np.array([run.standard_error() ** 2 for run in runs])


def _freedom(runs: Sequence[Estimate]) -> float:
    """Return the degrees of freedom of the sum of the runs' variances, infinite if they are known."""
    return _welch(list(zip(_variances(runs).tolist(), (run.freedom for run in runs), strict=True)))


def _welch(variances: Sequence[tuple[float, float]]) -> float:
    """Return the degrees of freedom of a sum of variances from those of each. Source: Satterthwaite, 1946."""
    below = sum(variance**2 / max(freedom, 1e-6) for variance, freedom in variances)
    return sum(variance for variance, _ in variances) ** 2 / below if below > 0 else math.inf


def pooled(runs: Sequence[Estimate], confidence: float = 0.95) -> Estimate:
    """Return the mean of several runs of one plan, with limits that cover the differences between runs.

    They come from the spread between the runs (k - 1 degrees of freedom) or, if wider, from within them. A limit that
    one of the runs lacks comes from the spread alone, from three runs on. Runs with fewer than :data:`CARRYING` degrees
    of freedom have none. A single run is returned unchanged.
    """
    if len(runs) == 1:
        return runs[0]
    ratio, freedom, _ = spread_of([runs])
    return _mean(runs, confidence, _width(confidence, _freedom(runs), ratio, freedom))


def pooled_sides(sides: Sequence[Sequence[Estimate]], confidence: float = 0.95) -> list[Estimate]:
    """Return the mean of the runs of each side of a comparison, with limits for a difference of the sides.

    The degrees of freedom within runs are those of the difference (B. L. Welch, The generalization of Student's problem
    when several different population variances are involved, 1947). The sides share one spread between runs, of which
    few runs a side can show little. Runs that agree (an F test at 1 %) have it with at least 8 degrees of freedom; runs
    that do not, with their own. Limits are never narrower than the chance within runs makes them.
    """
    ratio, freedom, p_value = spread_of(sides)
    if freedom and math.isnan(ratio):
        return [pooled(runs, confidence) for runs in sides]
    within = _welch([(_variances(runs).mean() / len(runs), _freedom(runs)) for runs in sides])
    between = max(freedom, AGREEING_FREEDOM) if p_value >= AGREE_P else freedom
    width = _width(confidence, within, ratio if freedom else 0.0, between)
    return [_mean(runs, confidence, width) for runs in sides]


def _width(confidence: float, within: float, ratio: float, between: float) -> float:
    """Return the half width of an interval in standard errors, NaN if the spread between runs is unknown."""
    if math.isnan(ratio):
        return math.nan
    width = student(confidence, max(within, LEAST_FREEDOM))
    return max(width, student(confidence, between) * math.sqrt(ratio)) if ratio else width


def _mean(runs: Sequence[Estimate], confidence: float, width: float) -> Estimate:
    """Return the mean of runs with limits ``width`` standard errors off, NaN if unknown."""
    k, values, within = len(runs), _values(runs), _freedom(runs)
    centre, low, high = float(values.mean()), -math.inf, math.inf
    n, most = min(run.n for run in runs), runs[0].most
    if k > 1 and (n < FEWEST or np.median([run.freedom for run in runs]) < CARRYING):
        return Estimate(centre, low, high, n, freedom=within, most=most)
    if not math.isnan(width) and within >= LEAST_FREEDOM:
        low, high = _limit(runs, [run.low for run in runs], -width), _limit(runs, [run.high for run in runs], width)
    if k >= INDEPENDENT_RUNS:
        spread = student(confidence, k - 1) * float(values.std(ddof=1)) / math.sqrt(k)
        low = centre - spread if math.isinf(low) else low
        high = centre + spread if math.isinf(high) else high
    low, high = _informative(centre, low, high, most)
    error = half_width(centre, low, high) / (student(confidence, max(k - 1, 1)) if math.isnan(width) else width)
    return Estimate(centre, low, high, n, error, within, most)


def _informative(centre: float, low: float, high: float, most: float) -> tuple[float, float]:
    """Return limits without those more than :data:`WIDEST` figures off, or beyond the far end of a share."""
    reach = WIDEST * abs(centre) if math.isinf(most) else max(centre, most - centre)
    low = low if centre - low <= reach else -math.inf
    high = high if high - centre <= reach else math.inf
    if math.isfinite(most):  # limits beyond the near end of a share are that end
        low, high = (0.0 if -math.inf < low < 0 else low), (most if most < high < math.inf else high)
    return low, high


def _limit(runs: Sequence[Estimate], limits: Sequence[float], width: float) -> float:
    """Return the limit of the mean of runs ``width`` standard errors off, a lower one for a negative width.

    A run that is too short for a limit still has an error: several such runs may be long enough together. The distance
    of a limit grows with the width as an exponential, as that of a skewed law does, and as a straight line where values
    or limits are not positive. So do those of shares: of 250 comparisons with 1 % of failures in bursts of 50 none is
    falsely found by one run a side, and 15 are with exponentials (7 statements at 95 % together).
    """
    values, centre = _values(runs), float(np.mean([run.value for run in runs]))
    logs = values.min() > 0 and math.isinf(runs[0].most) and not any(-math.inf < limit <= 0 for limit in limits)
    errors = []
    for run, limit in zip(runs, limits, strict=True):
        if not math.isfinite(limit):
            errors.append(run.error / run.value if logs else run.error)
        else:
            distance = math.log(limit / run.value) if logs else limit - run.value
            errors.append(distance / student(0.95, run.freedom))
    off = width * float(np.linalg.norm(errors)) / len(runs)
    if math.isnan(off):
        return math.copysign(math.inf, width)
    return centre * math.exp(min(off, 700.0)) if logs else centre + off


def disagreement(runs: Sequence[Estimate]) -> tuple[float, float]:
    """Return the relative range of repeated runs, (largest - smallest) / mean, and the p-value of their spread.

    Below .01 the runs differ by more than requests within a run do, so that the interval of one run is too narrow for a
    comparison. NaN where a run has no interval.
    """
    values = _values(runs)
    mean = float(values.mean())
    return (float(np.ptp(values)) / mean if mean else math.nan), spread_of([runs]).p_value
