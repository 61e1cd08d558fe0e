"""Knee of a closed system, N* = (R_min + Z) / D_max: its saturation point, from throughput against users."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from locust_realism.analysis.capacity.usl import MIN_LEVELS, checked_levels
from locust_realism.analysis.document import KneeRow
from locust_realism.analysis.percentiles import Floats

SHARPNESS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
MOST_USERS = 400
FALL = 0.05
"""Share below the highest rate, beyond 3 standard errors too, of a fall that no closed network explains."""


def find_knee(users: ArrayLike, rate: ArrayLike, error: ArrayLike) -> KneeRow:
    """Estimate N* = (R_min + Z) / D_max by fitting closed queueing networks to throughput against users.

    The asymptotes X <= N/(R_min + Z) and X <= 1/D_max cross at N*; the sharpness of the bend between them depends on
    the system. The fit therefore covers a family from soft to sharp: K equal stations, one station with one
    server, one station with c servers, each beside a delay, all with exact product-form throughput
    X(N) = G(N-1)/G(N), G(N) = sum over k of f(k) Z'^(N-k)/(N-k)!. Members count by their likelihood (Akaike weights,
    each has the two parameters R_min + Z and N*), the misfit of the best one widens the errors, and the 95 % interval
    is that of the mixture. Levels after a fall of throughput are left out: no closed network of fixed stations has one.

    ``where`` is ``measured`` (levels on both sides of the knee), ``beyond`` the largest level (throughput still grows
    there) or ``below`` the smallest (it grows nowhere). ``rate_max`` is 1/D_max, ``cycle_ms`` R_min + Z. Figures
    outside the measured levels are None. ValueError for fewer than four levels.

    Sources: Denning and Buzen, The operational analysis of queueing network models, 1978; Reiser and Lavenberg, 1980.

    >>> n = np.array([1, 2, 4, 8, 12, 16, 24, 32])
    >>> knee = find_knee(n, np.minimum(n / 1.2, 10.0), 0.02 * np.minimum(n / 1.2, 10.0))
    >>> round(knee["users"]), knee["where"]
    (12, 'measured')
    """
    n, x, se = checked_levels(users, rate, error)
    kept = _rising_levels(n, x, se)
    n, x, se = n[kept], x[kept], se[kept]
    smallest, largest = float(n.min()), float(n.max())
    if len(np.unique(n)) < MIN_LEVELS:
        raise ValueError(f"throughput falls after {largest:g} users, before {MIN_LEVELS} levels were measured")
    # Bundles of users keep the sums short: a bundle moves each member along the family, which stays as wide.
    bundle = max(1.0, largest / MOST_USERS)
    sizes = [size for size in SHARPNESS if size <= 2 * largest / bundle]
    members = [("stations", size) for size in sizes] + [("servers", size) for size in sizes[1:]]
    found = (_fit_member(n / bundle, x, se, *member) for member in members)
    chi2, log_cycle, log_knee, variance = np.array([fit for fit in found if fit is not None]).T
    dof = max(1, len(n) - 3)
    widen = max(1.0, float(chi2.min()) / dof)
    weight = np.exp(-(chi2 - chi2.min()) / (2 * widen))
    weight /= weight.sum()
    spread = np.sqrt(variance * widen)
    low, middle, high = (bundle * _mixture_quantiles(log_knee, spread, weight, dof)).tolist()
    where = "beyond" if largest < 1.2 * middle or low > largest else "below" if middle < smallest else "measured"
    measured = where == "measured"
    return {
        "users": middle if measured else None,
        "low": low if where != "below" and smallest <= low <= largest else None,
        "high": high if where != "beyond" and smallest <= high <= 2 * largest else None,
        "rate_max": math.exp(float(weight @ (log_knee - log_cycle))) if measured else None,
        "cycle_ms": 1e3 * bundle * math.exp(float(weight @ log_cycle)) if measured else None,
        "where": where,
    }


def _rising_levels(n: Floats, x: Floats, se: Floats) -> NDArray[np.bool_]:
    """Return a mask of the levels before throughput falls: all but those past the peak and clearly below it."""
    top = int(np.argmax(x))
    fallen = (n > n[top]) & (x < (1 - FALL) * x[top]) & (x < x[top] - 3 * np.hypot(se, se[top]))
    return np.asarray(n < n[fallen].min(initial=math.inf), dtype=np.bool_)


def _fit_member(n: Floats, x: Floats, se: Floats, kind: str, size: int) -> tuple[float, float, float, float] | None:
    """Return the sum of squares, log cycle, log knee and its variance; None if the information is singular."""
    table = _FactorTable(n, kind, size)
    cycle = float((n / x).min())
    # No level distinguishes a knee far beyond it from no knee, so the search ends at 50 times the largest.
    low = np.log([cycle / 20, size])
    high = np.log([cycle * 20, max(50 * n.max(), 2 * size)])
    start = np.clip(np.log([cycle, max(size * 1.001, float(x.max()) * cycle)]), low + 1e-6, high - 1e-6)

    def residual(parameters: Floats) -> Floats:
        return (table.rate(*np.exp(parameters)) - x) / se

    best, chi2, information = _least_squares(residual, start, low, high)
    if not np.isfinite(information).all() or np.linalg.cond(information) > 1e14:
        return None
    return chi2, float(best[0]), float(best[1]), float(np.linalg.inv(information)[1, 1])


def _least_squares(
    residual: Callable[[Floats], Floats], start: Floats, low: Floats, high: Floats
) -> tuple[Floats, float, Floats]:
    """Return the point of the least sum of squares within bounds, this sum and J^T J (Levenberg and Marquardt)."""
    # scipy.optimize takes too long to import in a running test.
    point, damping, step = start, 1e-3, 1e-6
    here = residual(point)
    cost = float(here @ here)
    for _ in range(60):
        slope = np.stack([(residual(point + step * axis) - here) / step for axis in np.eye(len(point))], axis=1)
        normal, gradient = slope.T @ slope, slope.T @ here
        while damping < 1e9:
            (a, b), (_, d) = normal + damping * np.diag(normal.diagonal() + 1e-12)
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
    """Log factors f(k) of a station and 1/(N-k)! at the levels, computed once for each member of the family."""

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
        """Return X(N) at the levels for R_min + Z = ``cycle`` and N* = ``knee``."""
        demand = cycle / knee
        delay = max(cycle - self.size * demand, 1e-9 * cycle)
        terms = self.constant + self.k * math.log(demand) + self.rest * math.log(delay)
        top = terms.max(axis=1)
        log_g = top + np.log(np.exp(terms - top[:, None]).sum(axis=1))
        lower = np.exp(log_g[self.at - 1] - log_g[self.at])
        upper = np.exp(log_g[self.at] - log_g[np.minimum(self.at + 1, len(log_g) - 1)])
        return np.asarray(lower + self.share * (upper - lower), dtype=np.float64)


def _mixture_quantiles(centre: Floats, spread: Floats, weight: Floats, dof: int) -> Floats:
    """Return exp of the quantiles .025, .5 and .975 of a mixture of Student's t, by bisection."""
    from scipy.special import stdtr

    counted = weight > 1e-6
    centre, spread, weight = centre[counted], np.maximum(spread[counted], 1e-9), weight[counted]
    shares = np.array([0.025, 0.5, 0.975])
    low, high = np.full(3, (centre - 60 * spread).min()), np.full(3, (centre + 60 * spread).max())
    for _ in range(80):
        middle = (low + high) / 2
        below = stdtr(dof, (middle[:, None] - centre) / spread) @ weight < shares
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.asarray(np.exp(np.minimum(low, 700.0)), dtype=np.float64)
