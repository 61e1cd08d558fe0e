"""How throughput grows with users: the universal scalability law and the knee of a closed system, with intervals.

All functions take plain arrays: ``users`` N, ``rate`` X in requests per second and ``error``, the standard error of
each X. Nothing here knows where they come from, and nothing is said about an N beyond the largest that was measured
unless the result is marked so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

MIN_LEVELS = 4
"""Fewest levels of concurrency from which a curve of three parameters is fitted."""
SHARPNESS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
FALL = 0.05
"""A rate lower than the highest by this share, and by 3 standard errors, is a fall that no closed network explains."""


@dataclass(frozen=True)
class UslFit:
    """Universal scalability law X(N) = gamma N / (1 + alpha (N - 1) + beta N (N - 1)).

    ``alpha`` is contention, ``beta`` coherency, ``gamma`` the rate of one user (requests/s). ``draws``, shape (b, 3),
    are the bootstrap's (alpha, beta, gamma). ``largest_users`` is the largest N that was measured.
    """

    alpha: float
    beta: float
    gamma: float
    draws: Floats
    largest_users: float

    def rate(self, users: ArrayLike) -> Floats:
        """X(N) in requests per second."""
        return usl_rate(users, self.alpha, self.beta, self.gamma)

    def band(self, users: ArrayLike, confidence: float = 0.95) -> tuple[Floats, Floats]:
        """Lower and upper limit of X(N), pointwise, from the bootstrap."""
        grid = np.asarray(users, dtype=np.float64)
        curves = usl_rate(grid[None, :], *(self.draws[:, i : i + 1] for i in range(3)))
        low, high = np.quantile(curves, [(1 - confidence) / 2, (1 + confidence) / 2], axis=0)
        return low, high

    @property
    def peak_users(self) -> float | None:
        """N of the highest throughput, sqrt((1 - alpha) / beta); None where the curve has no peak (beta = 0)."""
        return _peak(self.alpha, self.beta)


def usl_rate(users: ArrayLike, alpha: Any, beta: Any, gamma: Any) -> Floats:
    """Throughput of the universal scalability law (Gunther, Guerrilla Capacity Planning, 2007).

    >>> usl_rate([1, 10], 0.1, 0.0, 5.0).round(3).tolist()
    [5.0, 26.316]
    """
    n = np.asarray(users, dtype=np.float64)
    return np.asarray(gamma * n / (1 + alpha * (n - 1) + beta * n * (n - 1)), dtype=np.float64)


def _peak(alpha: float, beta: float) -> float | None:
    return math.sqrt((1 - alpha) / beta) if beta > 0 and alpha < 1 else None


def fit_usl(
    users: ArrayLike, rate: ArrayLike, error: ArrayLike, *, rng: np.random.Generator, draws: int = 400
) -> UslFit:
    """Fit the universal scalability law by weighted least squares with alpha, beta >= 0.

    In the form N/X = 1/gamma + (alpha/gamma)(N - 1) + (beta/gamma) N (N - 1) the law is linear, so that the fit is
    exact and needs no starting values; the error of N/X is N error/X^2. The bootstrap redraws X within its error,
    which is widened by the misfit where the law does not describe the data.

    >>> fit = fit_usl([1, 5, 10, 20], usl_rate([1, 5, 10, 20], 0.05, 0.002, 8.0), [0.01] * 4,
    ...               rng=np.random.default_rng(1))
    >>> round(fit.alpha, 3), round(fit.beta, 4), round(fit.gamma, 2)
    (0.05, 0.002, 8.0)
    """
    n, x, se = _checked(users, rate, error)
    best = _usl_least_squares(n, x, se)
    residual = (x - usl_rate(n, *best)) / se
    widen = math.sqrt(max(1.0, float(residual @ residual) / max(1, len(n) - 3)))
    noisy = x + rng.standard_normal((draws, len(n))) * se * widen
    noisy = np.maximum(noisy, 0.05 * x)
    drawn = np.array([_usl_least_squares(n, each, se) for each in noisy])
    return UslFit(*best, draws=drawn, largest_users=float(n.max()))


def _usl_least_squares(n: Floats, x: Floats, se: Floats) -> tuple[float, float, float]:
    from scipy.optimize import nnls

    weight = x**2 / (n * se)
    design = np.column_stack([np.ones_like(n), n - 1, n * (n - 1)]) * weight[:, None]
    scale = np.linalg.norm(design, axis=0)
    scale[scale == 0] = 1.0
    a, b, c = nnls(design / scale, n / x * weight)[0] / scale
    a = max(a, 1e-12)
    return float(b / a), float(c / a), float(1 / a)


def _checked(users: ArrayLike, rate: ArrayLike, error: ArrayLike) -> tuple[Floats, Floats, Floats]:
    n, x, se = (np.asarray(each, dtype=np.float64) for each in (users, rate, error))
    if not n.ndim == x.ndim == se.ndim == 1 or not len(n) == len(x) == len(se):
        raise ValueError(f"users, rate and error have shapes {n.shape}, {x.shape}, {se.shape}, expected one length")
    if len(np.unique(n)) < MIN_LEVELS:
        raise ValueError(f"users has {len(np.unique(n))} different levels, expected at least {MIN_LEVELS}")
    for name, values, bound in (("users", n, 1.0), ("rate", x, 0.0), ("error", se, 0.0)):
        bad = ~(values >= bound) if name == "users" else ~(values > bound)
        if bad.any() or not np.isfinite(values).all():
            raise ValueError(f"{name} is {values[bad][0] if bad.any() else 'infinite'}, expected numbers above {bound}")
    return n, x, se


@dataclass(frozen=True)
class Knee:
    """Where a closed system stops to scale: N* = (R_min + Z) / D_max = (R_min + Z) X_max.

    ``users`` with its interval ``low`` to ``high``, ``rate_max`` = 1/D_max in requests/s, ``cycle_s`` = R_min + Z.
    ``where`` the knee lies: ``measured`` (levels on both sides of it), ``beyond`` the largest level (throughput still
    grows there) or ``below`` the smallest (it grows nowhere). Only where it is measured are the figures more than an
    extrapolation. ``low`` and ``high`` are None where they lie outside what was measured.
    """

    users: float
    low: float | None
    high: float | None
    rate_max: float
    cycle_s: float
    where: str


def find_knee(users: ArrayLike, rate: ArrayLike, error: ArrayLike, *, confidence: float = 0.95) -> Knee:
    """Estimate N* by fitting closed queueing networks to throughput against users.

    The asymptotes X <= N/(R_min + Z) and X <= 1/D_max cross at N*, but how sharp the curve bends between them depends
    on the system. The fit therefore runs over a family from soft to sharp: K equal stations, one station with one
    server, one station with c servers, each beside a delay, all with exact product-form throughput
    X(N) = G(N-1)/G(N), G(N) = sum over k of f(k) Z'^(N-k)/(N-k)!. Members count by their likelihood (Akaike weights,
    each has the two parameters R_min + Z and N*), the errors are widened by the misfit of the best one, and the
    interval is that of the mixture. Levels after which throughput falls are left out: no closed network of fixed
    stations does that.

    Sources: Denning and Buzen, The operational analysis of queueing network models, 1978; Reiser and Lavenberg, 1980.

    >>> n = np.array([1, 2, 4, 8, 12, 16, 24, 32])
    >>> knee = find_knee(n, np.minimum(n / 1.2, 10.0), 0.02 * np.minimum(n / 1.2, 10.0))
    >>> round(knee.users), knee.where
    (12, 'measured')
    """
    n, x, se = _checked(users, rate, error)
    kept = rising_levels(n, x, se)
    n, x, se = n[kept], x[kept], se[kept]
    if len(np.unique(n)) < MIN_LEVELS:
        raise ValueError(f"throughput falls after {n.max():g} users, before {MIN_LEVELS} levels were measured")
    fits = [fit for fit in (_fit_member(n, x, se, kind, size) for kind, size in _members(n.max())) if fit is not None]
    chi2 = np.array([fit.chi2 for fit in fits])
    dof = max(1, len(n) - 3)
    widen = max(1.0, float(chi2.min()) / dof)
    weight = np.exp(-(chi2 - chi2.min()) / (2 * widen))
    weight /= weight.sum()
    centre = np.array([fit.log_knee for fit in fits])
    spread = np.array([math.sqrt(fit.variance * widen) for fit in fits])
    low, middle, high = _mixture_quantiles(centre, spread, weight, dof, confidence)
    log_cycle = np.array([fit.log_cycle for fit in fits])
    smallest, largest = float(n.min()), float(n.max())
    where = "beyond" if largest < 1.2 * middle or low > largest else "below" if middle < smallest else "measured"
    return Knee(
        users=middle,
        low=low if smallest <= low <= largest else None,
        high=high if smallest <= high <= 2 * largest else None,
        rate_max=math.exp(float(weight @ (centre - log_cycle))),
        cycle_s=math.exp(float(weight @ log_cycle)),
        where=where,
    )


def rising_levels(n: Floats, x: Floats, se: Floats) -> NDArray[np.bool_]:
    """Which levels lie before throughput falls: all but those past the peak and clearly below it."""
    top = int(np.argmax(x))
    fallen = (n > n[top]) & (x < (1 - FALL) * x[top]) & (x < x[top] - 3 * np.hypot(se, se[top]))
    first = n[fallen].min() if fallen.any() else math.inf
    return np.asarray(n < first, dtype=np.bool_)


@dataclass(frozen=True)
class _MemberFit:
    chi2: float
    log_cycle: float
    log_knee: float
    variance: float


def _members(largest: float) -> list[tuple[str, int]]:
    sizes = [size for size in SHARPNESS if size <= 2 * largest]
    return [("stations", size) for size in sizes] + [("servers", size) for size in sizes[1:]]


def _fit_member(n: Floats, x: Floats, se: Floats, kind: str, size: int) -> _MemberFit | None:
    from scipy.optimize import least_squares

    table = _FactorTable(n, kind, size)
    cycle = float((n / x).min())
    start_knee = max(size * 1.001, float(x.max()) * cycle)
    # No level can tell a knee far beyond it from no knee at all, so the search ends at 50 times the largest.
    bounds = ([math.log(cycle) - 3, math.log(size)], [math.log(cycle) + 3, math.log(max(50 * n.max(), 2 * size))])
    start = np.clip([math.log(cycle), math.log(start_knee)], np.array(bounds[0]) + 1e-6, np.array(bounds[1]) - 1e-6)

    def residual(parameters: Floats) -> Floats:
        return np.asarray((table.rate(*np.exp(parameters)) - x) / se, dtype=np.float64)

    fit = least_squares(residual, start, bounds=bounds, x_scale=[0.1, 0.1], max_nfev=60)
    information = fit.jac.T @ fit.jac
    if not np.isfinite(information).all() or np.linalg.cond(information) > 1e14:
        return None
    variance = float(np.linalg.inv(information)[1, 1])
    return _MemberFit(2 * float(fit.cost), float(fit.x[0]), float(fit.x[1]), variance)


class _FactorTable:
    """Log factors f(k) of a station and 1/(N-k)! for the levels, computed once for each member of the family."""

    def __init__(self, n: Floats, kind: str, size: int) -> None:
        from scipy.special import gammaln

        below = np.floor(n).astype(np.int64)
        self.share = n - below
        self.levels = np.unique(np.concatenate([below - 1, below, below + 1]))
        self.at = np.searchsorted(self.levels, below)
        self.size = size
        k = np.arange(self.levels.max() + 1)
        if kind == "stations":
            log_f = gammaln(k + size) - gammaln(size) - gammaln(k + 1)
        else:
            # f(k) = S^k / (1 2 ... c c c), with S = c D.
            log_f = k * math.log(size) - gammaln(np.minimum(k, size) + 1) - np.maximum(k - size, 0) * math.log(size)
        rest = self.levels[:, None] - k[None, :]
        self.k, self.rest = k, np.maximum(rest, 0)
        self.constant = np.where(rest >= 0, log_f[None, :] - gammaln(np.maximum(rest, 0) + 1), -np.inf)

    def rate(self, cycle: float, knee: float) -> Floats:
        """X(N) at the levels for R_min + Z = ``cycle`` and N* = ``knee``."""
        demand = cycle / knee
        delay = max(cycle - self.size * demand, 1e-9 * cycle)
        terms = self.constant + self.k * math.log(demand) + self.rest * math.log(delay)
        top = terms.max(axis=1)
        log_g = top + np.log(np.exp(terms - top[:, None]).sum(axis=1))
        lower = np.exp(log_g[self.at - 1] - log_g[self.at])
        upper = np.exp(log_g[self.at] - log_g[np.minimum(self.at + 1, len(log_g) - 1)])
        return np.asarray(lower + self.share * (upper - lower), dtype=np.float64)


def _mixture_quantiles(
    centre: Floats, spread: Floats, weight: Floats, dof: int, confidence: float
) -> tuple[float, float, float]:
    from scipy.stats import t

    counted = weight > 1e-6
    centre, spread, weight = centre[counted], np.maximum(spread[counted], 1e-9), weight[counted]

    def quantile(share: float) -> float:
        low, high = float((centre - 60 * spread).min()), float((centre + 60 * spread).max())
        for _ in range(80):
            middle = (low + high) / 2
            below = float(weight @ t.cdf((middle - centre) / spread, dof))
            low, high = (middle, high) if below < share else (low, middle)
        return math.exp(min(low, 700.0))

    side = (1 - confidence) / 2
    return quantile(side), quantile(0.5), quantile(1 - side)
