"""Which distribution fits measured times: maximum likelihood of each family, its uncertainty and its distance.

The likelihood is that of the counts as they were seen (see ``grouped``), given that a time is not longer than the
longest that could be seen (the gap that ends a session): with F_q the probability of being seen below an edge,

    log L = sum over bins of n_i log((F_q(b_i) - F_q(a_i)) / F_q(longest))

The best family has the least BIC = k log n - 2 log L (G. Schwarz, Annals of Statistics 6, 1978). Intervals are from the
observed information; they take the times as independent of each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from .checks import positive
from .distribution import Distribution
from .distributions import exponential, gamma, lognormal, pareto, truncated_exponential, uniform, weibull
from .grouped import GroupedTimes, seen_below
from .solve import Floats

LEAST_TIMES = 30
"""Fewer times than this are not fitted."""

_Build = Callable[[Floats], Distribution]
_Cost = Callable[[Floats], float]
_Start = Callable[[GroupedTimes], list[float]]
_HESSIAN_STEP = 1e-3
_MOST_COV = 50.0


@dataclass(frozen=True)
class Interval:
    """An estimate with the ends of its confidence interval, NaN where there is none."""

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
    - ``ad`` Anderson and Darling's A^2 over the bins: as ks, with weight on both tails; about 1 where the family is
      the right one, whatever the number of times
    - ``beyond`` share of the distribution that is longer than the longest time that could be seen
    """

    distribution: Distribution
    log_likelihood: float
    bic: float
    parameters: Mapping[str, Interval] = field(hash=False)
    ks: float
    ad: float
    beyond: float


@dataclass(frozen=True)
class _Family:
    build: _Build
    start: _Start
    names: tuple[str, ...]
    # Where a parameter is an end of the distribution, the likelihood is not smooth: no interval comes out of it.
    regular: tuple[bool, ...]

    @property
    def least_share(self) -> float:
        """What a bin's share is at least: where no time is impossible, a share that is lost in rounding is not 0."""
        return 1e-18 if all(self.regular) else 0.0


def _log_moments(times: GroupedTimes) -> tuple[float, float]:
    """Mean and standard deviation of the logarithm, from the middles of the bins."""
    middle = (times.edges[:-1] + times.edges[1:] - times.resolution) / 2
    logs = np.log(np.maximum(middle, times.resolution / 3))
    mean = float(np.average(logs, weights=times.counts))
    return mean, math.sqrt(float(np.average((logs - mean) ** 2, weights=times.counts)))


def _cov(times: GroupedTimes) -> float:
    return min(max(times.sdev / times.mean, 0.02), 20.0)


def _longest(times: GroupedTimes) -> float:
    return float(times.edges[int(np.flatnonzero(times.counts)[-1]) + 1])


def _shortest(times: GroupedTimes) -> float:
    return float(times.edges[int(np.flatnonzero(times.counts)[0])])


def _lognormal_start(times: GroupedTimes) -> list[float]:
    mu, sigma = _log_moments(times)
    sigma = min(max(sigma, 0.02), 2.5)
    return [mu + sigma**2 / 2, 0.5 * math.log(math.expm1(sigma**2))]


def _pareto_start(times: GroupedTimes) -> list[float]:
    least = max(_shortest(times), times.resolution / 4)
    mu, _ = _log_moments(times)
    return [math.log(least), -math.log(max(mu - math.log(least), 0.05))]


def _pareto(least: float, shape: float, longest: float) -> Distribution:
    """By its minimum, between which and the mean there is a closed form."""
    share = least / longest
    if not 0 < share < 1:
        raise ValueError(f"minimum must be in (0, {longest!r}), not {least!r}")
    tail = -math.log(share) if shape == 1 else (1 - share ** (shape - 1)) / (shape - 1)
    return pareto(least * shape * tail / -math.expm1(shape * math.log(share)), shape, longest)


def _families(times: GroupedTimes) -> dict[str, _Family]:
    gap = float(times.edges[-1]) - times.resolution
    end = _longest(times)

    def by_cov(make: Callable[..., Distribution]) -> _Build:
        return lambda p: make(math.exp(p[0]), cov=math.exp(p[1]))

    mean = math.log(times.mean)
    families = {
        "exponential": _Family(lambda p: exponential(math.exp(p[0])), lambda t: [mean], ("mean",), (True,)),
        "lognormal": _Family(by_cov(lognormal), _lognormal_start, ("mean", "cov"), (True, True)),
        "gamma": _Family(by_cov(gamma), lambda t: [mean, math.log(_cov(t))], ("mean", "cov"), (True, True)),
        "weibull": _Family(
            lambda p: weibull(math.exp(p[0]), shape=math.exp(p[1])),
            lambda t: [mean, -math.log(_cov(t))],
            ("mean", "shape"),
            (True, True),
        ),
        "pareto": _Family(
            lambda p: _pareto(math.exp(p[0]), math.exp(p[1]), gap), _pareto_start, ("minimum", "shape"), (False, True)
        ),
        "uniform": _Family(
            lambda p: uniform(max(p[0], 0.0), p[1]),
            lambda t: [_shortest(t), end],
            ("minimum", "maximum"),
            (False, False),
        ),
    }
    if times.mean < end / 2.1:
        families["truncated_exponential"] = _Family(
            lambda p: truncated_exponential(math.exp(p[0]), math.exp(p[1])),
            lambda t: [mean, math.log(end)],
            ("mean", "maximum"),
            (True, False),
        )
    return families


def fit_families(
    times: GroupedTimes, *, confidence: float = 0.95, only: Collection[str] | None = None
) -> list[FamilyFit]:
    """All families (or those of ``only``) fitted to the times, the best one (by BIC) first.

    Raises ValueError for fewer than 30 times, for times that are all 0, and for a confidence outside (0, 1).

    >>> from .grouped import TimeCounter
    >>> counter = TimeCounter(1.0, 1800.0)
    >>> start = np.random.default_rng(3).uniform(0, 1e6, 2000)
    >>> end = start + exponential(12).sample(np.random.default_rng(4), 2000)
    >>> counter.add((np.floor(end) - np.floor(start)).astype(np.int64) * 1_000_000)
    >>> best = fit_families(counter.grouped())[0]
    >>> best.distribution.kind, best.parameters["mean"].low < 12 < best.parameters["mean"].high
    ('exponential', True)
    """
    if not 0 < positive("confidence", confidence) < 1:
        raise ValueError(f"confidence must be in (0, 1), not {confidence!r}")
    if times.n < LEAST_TIMES:
        raise ValueError(f"times must be at least {LEAST_TIMES}, not {times.n}")
    if times.total == 0:
        raise ValueError("times must not all be 0: the log's clock is too coarse for them")
    families = _families(times)
    wanted = families if only is None else [name for name in families if name in only]
    fits = [_fit(name, families[name], times, confidence) for name in wanted]
    return sorted((fit for fit in fits if fit is not None), key=lambda fit: fit.bic)


class _Likelihood:
    """Minus the log-likelihood of a family's parameters; infinite where they are impossible."""

    def __init__(self, family: _Family, times: GroupedTimes) -> None:
        used = np.flatnonzero(times.counts)
        self._counts = times.counts[used]
        self._edges, self._where = np.unique(
            np.concatenate((times.edges[used], times.edges[used + 1], times.edges[-1:])), return_inverse=True
        )
        self._build, self._least, self._resolution = family.build, family.least_share, times.resolution
        # Of times that may be anything up to the longest that can be seen, the mean is not known.
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
    start = np.array(_possible(family.start(times), cost, name, times))
    if not math.isfinite(cost(start)):
        return None
    # Where an end of the distribution is sought, the values around it that are possible are few.
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
    """Start values with which every time that was seen is possible."""
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


def _parameters(family: _Family, cost: _Cost, at: Floats, confidence: float) -> dict[str, Interval]:
    """The parameters with intervals, and the mean and CoV by the delta method on their logarithms."""
    from scipy.special import ndtri

    z = float(ndtri((1 + confidence) / 2))
    free = np.flatnonzero(family.regular)
    covariance = _covariance(cost, at, free)
    found: dict[str, Interval] = {}
    for what in dict.fromkeys((*family.names, "mean", "cov")):

        def log_value(p: Floats, what: str = what) -> float:
            return math.log(max(float(getattr(family.build(p), what)), 1e-300))

        value = float(getattr(family.build(at), what))
        if what in family.names and not family.regular[family.names.index(what)]:
            found[what] = Interval(value)
            continue
        try:
            slope = np.array([(log_value(at + s) - log_value(at - s)) / 2e-4 for s in 1e-4 * np.eye(len(at))[free]])
            variance = float(slope @ covariance @ slope) if len(free) else math.nan
        except ValueError:  # the estimate is at the end of what the family allows
            variance = math.nan
        if not (variance > 0 and math.isfinite(value)):
            found[what] = Interval(value)
            continue
        half = z * math.sqrt(variance)
        found[what] = Interval(value, value * math.exp(-half), value * math.exp(min(half, 700.0)))
    return found


def _covariance(cost: _Cost, at: Floats, free: NDArray[np.intp]) -> Floats:
    """Inverse of the observed information of the free parameters, by central differences; NaN where there is none."""
    k = len(free)
    steps = _HESSIAN_STEP * np.eye(len(at))[free]
    hessian = np.zeros((k, k))
    for i in range(k):
        for j in range(k):
            corners = [cost(at + a * steps[i] + b * steps[j]) * a * b for a in (1, -1) for b in (1, -1)]
            hessian[i, j] = sum(corners) / (4 * _HESSIAN_STEP**2)
    try:
        np.linalg.cholesky(hessian)
        inverse: Floats = np.asarray(np.linalg.inv(hessian), dtype=np.float64)
    except np.linalg.LinAlgError:
        return np.full((k, k), np.nan)
    return inverse
