"""Where a closed system stops to scale: the knee N* = (R_min + Z) / D_max, estimated from throughput against users."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from locust_realism.analysis.scaling import MIN_LEVELS, checked_levels

Floats = NDArray[np.float64]

SHARPNESS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
MOST_USERS = 400
FALL = 0.05
"""A rate lower than the highest by this share, and by 3 standard errors, is a fall that no closed network explains."""


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
    n, x, se = checked_levels(users, rate, error)
    kept = rising_levels(n, x, se)
    n, x, se = n[kept], x[kept], se[kept]
    if len(np.unique(n)) < MIN_LEVELS:
        raise ValueError(f"throughput falls after {n.max():g} users, before {MIN_LEVELS} levels were measured")
    # Thousands of users are counted in bundles: that moves each member along the family, which is as wide as before.
    bundle = max(1.0, float(n.max()) / MOST_USERS)
    found = (_fit_member(n / bundle, x, se, kind, size) for kind, size in _members(n.max() / bundle))
    fits = [fit for fit in found if fit is not None]
    chi2 = np.array([fit.chi2 for fit in fits])
    dof = max(1, len(n) - 3)
    widen = max(1.0, float(chi2.min()) / dof)
    weight = np.exp(-(chi2 - chi2.min()) / (2 * widen))
    weight /= weight.sum()
    centre = np.array([fit.log_knee for fit in fits]) + math.log(bundle)
    spread = np.array([math.sqrt(fit.variance * widen) for fit in fits])
    low, middle, high = _mixture_quantiles(centre, spread, weight, dof, confidence)
    log_cycle = np.array([fit.log_cycle for fit in fits]) + math.log(bundle)
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
    table = _FactorTable(n, kind, size)
    cycle = float((n / x).min())
    # No level can tell a knee far beyond it from no knee at all, so the search ends at 50 times the largest.
    low = np.log([cycle / 20, size])
    high = np.log([cycle * 20, max(50 * n.max(), 2 * size)])
    start = np.clip(np.log([cycle, max(size * 1.001, float(x.max()) * cycle)]), low + 1e-6, high - 1e-6)

    def residual(parameters: Floats) -> Floats:
        return (table.rate(*np.exp(parameters)) - x) / se

    best, chi2, information = _least_squares(residual, start, low, high)
    if not np.isfinite(information).all() or np.linalg.cond(information) > 1e14:
        return None
    return _MemberFit(chi2, float(best[0]), float(best[1]), float(np.linalg.inv(information)[1, 1]))


def _least_squares(
    residual: Callable[[Floats], Floats], start: Floats, low: Floats, high: Floats, *, rounds: int = 60
) -> tuple[Floats, float, Floats]:
    """Levenberg and Marquardt's method for two parameters within bounds: best point, sum of squares there, J^T J.

    scipy.optimize has this too, but takes a second to import, which a running test would feel.
    """
    point, damping, step = start, 1e-3, 1e-6
    here = residual(point)
    cost = float(here @ here)
    for _ in range(rounds):
        slope = np.stack([(residual(point + step * axis) - here) / step for axis in np.eye(len(point))], axis=1)
        normal, gradient = slope.T @ slope, slope.T @ here
        while damping < 1e9:
            (a, b), (_, d) = normal
            a, d = a + damping * (a + 1e-12), d + damping * (d + 1e-12)
            move = np.array([d * gradient[0] - b * gradient[1], a * gradient[1] - b * gradient[0]]) / (a * d - b * b)
            trial = np.clip(point - move, low, high)
            there = residual(trial)
            if float(there @ there) < cost:
                break
            damping *= 8
        else:
            break
        gain, cost = cost - float(there @ there), float(there @ there)
        point, here, damping = trial, there, max(damping / 8, 1e-9)
        if gain < 1e-8 * (cost + 1e-8):
            break
    return point, cost, normal


class _FactorTable:
    """Log factors f(k) of a station and 1/(N-k)! for the levels, computed once for each member of the family."""

    def __init__(self, n: Floats, kind: str, size: int) -> None:
        below = np.floor(n).astype(np.int64)
        self.share = n - below
        self.levels = np.unique(np.concatenate([below - 1, below, below + 1]))
        self.at = np.searchsorted(self.levels, below)
        self.size = size
        k = np.arange(self.levels.max() + 1)
        log_factorial = np.concatenate(([0.0], np.cumsum(np.log(np.arange(1, len(k) + size)))))
        if kind == "stations":
            log_f = log_factorial[k + size - 1] - log_factorial[size - 1] - log_factorial[k]
        else:
            # f(k) = S^k / (1 2 ... c c c), with S = c D.
            log_f = k * math.log(size) - log_factorial[np.minimum(k, size)] - np.maximum(k - size, 0) * math.log(size)
        rest = self.levels[:, None] - k[None, :]
        self.k, self.rest = k, np.maximum(rest, 0)
        self.constant = np.where(rest >= 0, log_f[None, :] - log_factorial[self.rest], -np.inf)

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
    from scipy.special import stdtr

    counted = weight > 1e-6
    centre, spread, weight = centre[counted], np.maximum(spread[counted], 1e-9), weight[counted]

    def quantile(share: float) -> float:
        low, high = float((centre - 60 * spread).min()), float((centre + 60 * spread).max())
        for _ in range(80):
            middle = (low + high) / 2
            below = float(weight @ stdtr(dof, (middle - centre) / spread))
            low, high = (middle, high) if below < share else (low, middle)
        return math.exp(min(low, 700.0))

    side = (1 - confidence) / 2
    return quantile(side), quantile(0.5), quantile(1 - side)
