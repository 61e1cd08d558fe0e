"""Families of distributions fitted to measured times by maximum likelihood, with their uncertainty and distance.

The likelihood is that of the seen counts (see ``visits``), given that a time is not longer than the longest that could
be seen (the gap that ends a session). With F_q the probability of being seen below an edge,

    log L = sum over bins of n_i log((F_q(b_i) - F_q(a_i)) / F_q(longest))

The best family has the least BIC = k log n - 2 log L (G. Schwarz, Annals of Statistics 6, 1978). Intervals come from
the observed information, for independent times.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from itertools import product

import numpy as np
from numpy.typing import NDArray

from locust_realism.analysis.stats.batches import student
from locust_realism.common.numerics import Floats
from locust_realism.common.validation import refusal, share
from locust_realism.fit.visits import GroupedTimes, seen_below
from locust_realism.workload.distributions import (
    exponential,
    gamma,
    lognormal,
    pareto,
    truncated_exponential,
    uniform,
    weibull,
)
from locust_realism.workload.distributions.base import Distribution

LEAST_TIMES = 30
"""Least number of times for a fit."""

_KS_LIMITS = {
    "exponential": 1.09,
    "gamma": 0.90,
    "lognormal": 0.89,
    "weibull": 0.90,
    "pareto": 1.09,
    "truncated_exponential": 0.97,
    "uniform": 1.36,
}
"""95 % points of sqrt(n) times the KS distance of a fitted family, rounded up to .01.

Published for the exponential (1.094) and the normal family (.886; the logarithms of lognormal times): H. W. Lilliefors,
Journal of the American Statistical Association 64, 1969, and 62, 1967. Logarithms of Pareto times are exponential. Ends
of a uniform family are estimated so exactly that Kolmogorov's 1.358 stays. The others are the greatest of up to three
shapes, each from 300 fits of 2,000 times to a clock of 1 ms (default_rng([8, 2000, 1, shape, run])).
benchmarks/rows/fit.py counts how many of other fits exceed them. 100 times give .03 to .05 less, whole seconds .1.
"""

_HESSIAN_STEP = 1e-3
_MOST_COV = 50.0


@dataclass(frozen=True)
class Interval:
    """Estimate with the ends of its confidence interval, NaN where there is none."""

    value: float
    low: float = math.nan
    high: float = math.nan


@dataclass(frozen=True)
class FamilyFit:
    """One family fitted to times.

    - ``distribution`` with the parameters of the greatest likelihood
    - ``log_likelihood``, ``bic`` (the smaller the better)
    - ``parameters`` of the distribution, and ``mean`` and ``cov``, with their intervals
    - ``ks`` greatest distance between the shares seen and expected below an edge (Kolmogorov and Smirnov)
    - ``ad`` Anderson and Darling's A^2 over the bins, with weight on both tails; for the right family .4 on average, .6
      for an exponential and 1 for a uniform one, at any number of times
    - ``beyond`` share of the distribution beyond the longest time that could be seen
    """

    distribution: Distribution
    log_likelihood: float
    bic: float
    parameters: Mapping[str, Interval] = field(hash=False)
    ks: float
    ad: float
    beyond: float

    def ks_by_chance(self, n: int) -> float:
        """Return the KS distance that n times of the right family exceed once in 20 fits, less often if grouped."""
        return _KS_LIMITS[self.distribution.kind] / math.sqrt(n)


@dataclass(frozen=True)
class _Family:
    build: Callable[[Floats], Distribution]
    start: list[float]
    names: tuple[str, ...]
    # A parameter that is an end of the distribution has no smooth likelihood, and no interval.
    regular: tuple[bool, ...] = (True, True)


def _pareto(least: float, shape: float, longest: float) -> Distribution:
    """Return the distribution by its minimum, whose relation to the mean has a closed form."""
    ratio = least / longest
    if not 0 < ratio < 1:
        raise refusal("minimum", f"in (0, {longest!r})", least)
    tail = -math.log(ratio) if shape == 1 else (1 - ratio ** (shape - 1)) / (shape - 1)
    return pareto(least * shape * tail / -math.expm1(shape * math.log(ratio)), shape, longest)


def _families(times: GroupedTimes) -> dict[str, _Family]:
    """Return the families with start values from the moments of the times and of their logarithms."""
    used, gap = np.flatnonzero(times.counts), float(times.edges[-1]) - times.resolution
    shortest, end = float(times.edges[used[0]]), float(times.edges[used[-1] + 1])
    logs = np.log(np.maximum((times.edges[:-1] + times.edges[1:] - times.resolution) / 2, times.resolution / 3))
    mu = float(np.average(logs, weights=times.counts))
    sigma = min(max(math.sqrt(np.average((logs - mu) ** 2, weights=times.counts)), 0.02), 2.5)
    mean, cov = math.log(times.mean), math.log(min(max(times.stddev / times.mean, 0.02), 20.0))
    least = math.log(max(shortest, times.resolution / 4))
    wide = [mu + sigma**2 / 2, 0.5 * math.log(math.expm1(sigma**2))]
    tail = [least, -math.log(max(mu - least, 0.05))]
    exp = math.exp
    families = {
        "exponential": _Family(lambda p: exponential(exp(p[0])), [mean], ("mean",), (True,)),
        "lognormal": _Family(lambda p: lognormal(exp(p[0]), cov=exp(p[1])), wide, ("mean", "cov")),
        "gamma": _Family(lambda p: gamma(exp(p[0]), cov=exp(p[1])), [mean, cov], ("mean", "cov")),
        "weibull": _Family(lambda p: weibull(exp(p[0]), shape=exp(p[1])), [mean, -cov], ("mean", "shape")),
        "pareto": _Family(lambda p: _pareto(exp(p[0]), exp(p[1]), gap), tail, ("minimum", "shape"), (False, True)),
        "uniform": _Family(
            lambda p: uniform(max(p[0], 0.0), p[1]), [shortest, end], ("minimum", "maximum"), (False, False)
        ),
    }
    if times.mean < end / 2.1:
        families["truncated_exponential"] = _Family(
            lambda p: truncated_exponential(exp(p[0]), exp(p[1])),
            [mean, math.log(end)],
            ("mean", "maximum"),
            (True, False),
        )
    return families


def fit_families(
    times: GroupedTimes, *, confidence: float = 0.95, only: Collection[str] | None = None
) -> list[FamilyFit]:
    """Return all families (or those of ``only``) fitted to the times, the best one (by BIC) first.

    Raises ValueError for fewer than 30 times, for times that are all 0, and for a confidence outside (0, 1).

    >>> from locust_realism.fit.visits import GroupedTimes
    >>> counter = GroupedTimes(1.0, 1800.0)
    >>> start = np.random.default_rng(3).uniform(0, 1e6, 2000)
    >>> end = start + exponential(12).sample(np.random.default_rng(4), 2000)
    >>> counter.add((np.floor(end) - np.floor(start)).astype(np.int64) * 1_000_000)
    >>> best = fit_families(counter)[0]
    >>> best.distribution.kind, best.parameters["mean"].low < 12 < best.parameters["mean"].high
    ('exponential', True)
    """
    share("confidence", confidence)
    if times.n < LEAST_TIMES:
        raise refusal("times", f"at least {LEAST_TIMES}", times.n)
    if times.total == 0:
        raise ValueError("times must not all be 0: the log's clock is too coarse for them")
    families = _families(times)
    wanted = families if only is None else [name for name in families if name in only]
    fits = [_fit(name, families[name], times, confidence) for name in wanted]
    return sorted((fit for fit in fits if fit is not None), key=lambda fit: fit.bic)


class _Likelihood:
    """Minus the log-likelihood of a family's parameters; infinite for impossible ones."""

    def __init__(self, family: _Family, times: GroupedTimes) -> None:
        used = np.flatnonzero(times.counts)
        self._counts = times.counts[used]
        self._edges, self._where = np.unique(
            np.concatenate((times.edges[used], times.edges[used + 1], times.edges[-1:])), return_inverse=True
        )
        self._build, self._resolution = family.build, times.resolution
        # Above 0 for families in which every time is possible, against rounding.
        self._least = 1e-18 if all(family.regular) else 0.0
        # A mean beyond the longest time that can be seen cannot be estimated.
        self._longest = float(times.edges[-1])

    def __call__(self, parameters: Floats) -> float:
        try:
            distribution = self._build(parameters)
            if not (distribution.cov <= _MOST_COV and distribution.mean <= self._longest):
                return math.inf
        except (ValueError, OverflowError):
            return math.inf
        with np.errstate(all="ignore"):
            below = seen_below(distribution._cdf, self._edges, self._resolution)[self._where]
            k = len(self._counts)
            shares = (below[k : 2 * k] - below[:k]) / below[-1]
            total = float(self._counts @ np.log(np.maximum(shares, self._least)))
        return -total if math.isfinite(total) else math.inf


def _fit(name: str, family: _Family, times: GroupedTimes, confidence: float) -> FamilyFit | None:
    from scipy.optimize import minimize

    cost = _Likelihood(family, times)
    start = np.array(_possible(family.start, cost, name, times))
    if not math.isfinite(cost(start)):
        return None
    # Few values around an end of the distribution are possible: a small simplex.
    sizes = {"uniform": [times.resolution / 2] * 2, "truncated_exponential": [0.05, 0.002]}
    simplex = np.vstack([start, *(start + np.diag(sizes.get(name, [0.2] * len(start))))])
    options = {"xatol": 1e-7, "fatol": 1e-7, "maxiter": 1000, "initial_simplex": simplex}
    best = minimize(cost, start, method="Nelder-Mead", options=options)
    distribution = family.build(best.x)
    below = seen_below(distribution._cdf, times.edges, times.resolution)
    return FamilyFit(
        distribution,
        -float(best.fun),
        len(start) * math.log(times.n) + 2 * float(best.fun),
        _parameters(family, cost, best.x, confidence),
        *_distances(times, below / below[-1]),
        1 - float(below[-1]),
    )


def _possible(start: list[float], cost: _Likelihood, name: str, times: GroupedTimes) -> list[float]:
    """Return start values with which every seen time is possible."""
    if name == "pareto":
        while not math.isfinite(cost(np.array(start))) and start[0] > math.log(times.resolution) - 20:
            start[0] -= 0.2
    elif name == "uniform":
        start = [max(start[0] - times.resolution, 0.0), start[1] + times.resolution]
    return start


def _distances(times: GroupedTimes, expected: Floats) -> tuple[float, float]:
    seen = times.shares_below()
    inner = (expected > 1e-12) & (expected < 1 - 1e-12)
    weight = np.diff(expected, append=1.0)[inner] / (expected * (1 - expected))[inner]
    ad = times.n * float(((seen - expected)[inner] ** 2) @ weight)
    return float(np.abs(seen - expected).max()), ad


def _parameters(family: _Family, cost: _Likelihood, at: Floats, confidence: float) -> dict[str, Interval]:
    """Return the parameters with intervals, and the mean and CoV by the delta method on their logarithms."""
    z = student(confidence, math.inf)
    free = np.flatnonzero(family.regular)
    covariance = _covariance(cost, at, free)
    found: dict[str, Interval] = {}
    for name in dict.fromkeys((*family.names, "mean", "cov")):
        value = float(getattr(family.build(at), name))
        found[name] = Interval(value)
        if name in family.names and not family.regular[family.names.index(name)]:
            continue
        try:
            points = [(at + s, at - s) for s in 1e-4 * np.eye(len(at))[free]]
            ends = np.array([[getattr(family.build(p), name) for p in pair] for pair in points]).reshape(-1, 2)
            slope = -np.diff(np.log(np.maximum(ends, 1e-300)))[:, 0] / 2e-4
            variance = float(slope @ covariance @ slope) if len(free) else math.nan
        except ValueError:  # the estimate is at the end of what the family allows
            variance = math.nan
        if variance > 0 and math.isfinite(value):
            half = z * math.sqrt(variance)
            found[name] = Interval(value, value * math.exp(-half), value * math.exp(min(half, 700.0)))
    return found


def _covariance(cost: _Likelihood, at: Floats, free: NDArray[np.intp]) -> Floats:
    """Return the inverse of the free parameters' observed information, by central differences; NaN if there is none."""
    k = len(free)
    hessian = np.zeros((k, k))
    steps = _HESSIAN_STEP * np.eye(len(at))[free]
    for (i, one), (j, two) in product(enumerate(steps), repeat=2):
        corners = [cost(at + a * one + b * two) * a * b for a, b in product((1, -1), repeat=2)]
        hessian[i, j] = sum(corners) / (4 * _HESSIAN_STEP**2)
    try:
        np.linalg.cholesky(hessian)
        return np.asarray(np.linalg.inv(hessian), dtype=np.float64)
    except np.linalg.LinAlgError:
        return np.full((k, k), np.nan)
