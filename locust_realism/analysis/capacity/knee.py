"""Knee of a closed system, N* = (R_min + Z) / D_max: its saturation point, from throughput against users."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from locust_realism.analysis.capacity.usl import MIN_LEVELS, checked_levels
from locust_realism.analysis.document import KneeRow
from locust_realism.analysis.percentiles import Floats, Int64

SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
"""Numbers of equal stations, and of servers of one station."""
FASTER = tuple((stations, ratio) for stations in (1, 2, 4) for ratio in (0.6, 0.8, 0.9))
"""Stations beside the bottleneck, and the ratio of their demand to its own.

The best of the grids simulated with networks of one to five stations with demands .5 to 1 of the largest, at 1 %
error of the rates: with fewer stations or ratios some of these networks fall below .93, with more the equal ones do.
"""
MOST_USERS = 400
FALL = 0.05
"""Share below the highest rate, beyond 3 standard errors too, of a fall that no closed network explains."""
BETWEEN_SHAPES = 1.15
"""Factor of the errors, since the true shape lies between those of the family: simulated intervals that hold .93 to .99
without it hold .95 to .99 with it."""
LARGEST_STEP = 1.5
"""Largest step of log N* in one iteration."""
LEAST_CURVATURE = 1e-4
"""Information on log N* below which no level bounds it: a standard error of a factor of e^100."""


def find_knee(users: ArrayLike, rate: ArrayLike, error: ArrayLike) -> KneeRow:
    """Estimate N* = (R_min + Z) / D_max by fitting closed queueing networks to throughput against users.

    The asymptotes X <= N/(R_min + Z) and X <= 1/D_max cross at N*; the sharpness of the bend between them depends on
    the system. The fit therefore covers a family from soft to sharp: K equal stations, a bottleneck with faster
    stations, one station with c servers, each beside a delay, all with exact product-form throughput
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
    chi2, log_cycle, log_knee, variance = _fit_family(_Family(n / bundle), n / bundle, x, se)
    dof = max(1, len(n) - 3)
    widen = max(1.0, float(chi2.min()) / dof)
    weight = np.exp(-(chi2 - chi2.min()) / (2 * widen))
    weight /= weight.sum()
    spread = BETWEEN_SHAPES * np.sqrt(variance * widen)
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


def _fit_family(family: _Family, n: Floats, x: Floats, se: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the sum of squares, log cycle, log knee and its variance of each member of the family.

    X = h(N; knee) / cycle is linear in 1 / cycle, which therefore has its best value at each knee (variable
    projection, Golub and Pereyra, 1973). The knee follows by damped Gauss-Newton steps, for all members at once.
    """
    # scipy.optimize takes too long to import in a running test.
    target = x / se
    # No level distinguishes a knee far beyond it from no knee, so the search ends at 50 times the largest.
    low = np.log(family.least * 1.001)
    high = np.log(np.maximum(50 * n.max(), 2 * family.least))

    def at(log_knee: Floats, members: Int64) -> Floats:
        """Return the sum of squares, its gradient and curvature by log knee, and log cycle: shape (4, m)."""
        rate, slope = (each / se for each in family.rates(log_knee, members))
        square = (rate**2).sum(axis=1)
        scale = rate @ target / square
        residual = scale[:, None] * rate - target
        slope *= scale[:, None]
        slope -= rate * ((slope * rate).sum(axis=1) / square)[:, None]
        return np.array(
            [(residual**2).sum(axis=1), (slope * residual).sum(axis=1), (slope**2).sum(axis=1), -np.log(scale)]
        )

    knee = np.clip(np.full(len(low), math.log(max(1.001, float(x.max() * (n / x).min())))), low, high)
    going = np.arange(len(low))
    found, damping = at(knee, going), np.full(len(low), 1e-3)
    for _ in range(60):
        _, gradient, curvature, _ = found[:, going]
        move = np.clip(gradient / (curvature * (1 + damping[going]) + 1e-300), -LARGEST_STEP, LARGEST_STEP)
        trial = np.clip(knee[going] - move, low[going], high[going])
        there = at(trial, going)
        gain = found[0, going] - there[0]
        better = gain > 0
        stuck = np.abs(trial - knee[going]) < 1e-7
        improved = going[better]
        knee[improved], found[:, improved] = trial[better], there[:, better]
        damping[going] = np.where(better, damping[going] / 8, 8 * damping[going] + 1e-3)
        going = going[~(stuck | (better & (gain < 1e-6 * (there[0] + 1e-3))))]
        if not len(going):
            break
    chi2, _, curvature, log_cycle = found
    return chi2, log_cycle, knee, 1 / np.maximum(curvature, LEAST_CURVATURE)


class _Family:
    """Closed networks from a sharp bend to a soft one, as arrays over the members (m,), with their throughput.

    ``least`` is R_min / D_max, the knee without a delay. f(k) has the unit D_max^k.
    """

    def __init__(self, n: Floats, shapes: Shapes | None = None) -> None:
        below = np.floor(n).astype(np.int64)
        self.share = n - below
        # X between two whole numbers of users is linear, from X(0) = 0 on: G(-1) is 0.
        self.levels = np.unique(below[:, None] + np.arange(-1, 2 if self.share.any() else 1))
        self.at = np.searchsorted(self.levels, below)
        self.k = np.arange(int(self.levels.max()) + 1)
        shapes = _shapes(self.k) if shapes is None else shapes
        self.least = np.array([least for least, _ in shapes])
        rest = self.levels[:, None] - self.k
        absent = np.where(rest >= 0, -_log_factorial(np.maximum(rest, 0)), -np.inf)
        self.constant = np.stack([log_f for _, log_f in shapes])[:, None, :] + absent

    def rates(self, log_knee: Floats, members: Int64) -> tuple[Floats, Floats]:
        """Return X(N) of ``members`` for R_min + Z = 1 and its derivative by log N*, shapes (m, levels)."""
        demand = np.exp(-log_knee)
        used = self.least[members] * demand
        delay = 1 - used
        terms = self.constant[members] + (self.k * np.log(demand / delay)[:, None])[:, None, :]
        top = np.maximum(terms.max(axis=2), -1e300)
        np.exp(np.subtract(terms, top[:, :, None], out=terms), out=terms)
        total = terms.sum(axis=2)
        log_g = top + np.log(np.maximum(total, 1e-300)) + self.levels * np.log(delay)[:, None]
        # Users at the stations, mean of k; the others are in the delay.
        inside = terms @ self.k / np.maximum(total, 1e-300)
        slope = (self.levels - inside) * (used / delay)[:, None] - inside
        lower, upper = self.at - 1, np.minimum(self.at + 1, len(self.levels) - 1)
        rate = np.exp(log_g[:, lower] - log_g[:, self.at])
        change = rate * (slope[:, lower] - slope[:, self.at])
        if self.share.any():
            above = np.exp(log_g[:, self.at] - log_g[:, upper])
            change += self.share * (above * (slope[:, self.at] - slope[:, upper]) - change)
            rate += self.share * (above - rate)
        return rate, change


Shapes = list[tuple[float, Floats]]
"""R_min / D_max of each network, and log f(k)."""


def _shapes(k: Int64) -> Shapes:
    """Return the networks whose knee can lie within twice the largest level, k users at their stations."""
    sizes = [size for size in SIZES if size <= 2 * len(k)]
    equal: Shapes = [(size, _stations(k, size)) for size in sizes]
    servers: Shapes = [(size, _servers(k, size)) for size in sizes[1:]]
    faster = [(1 + many * ratio, _with_bottleneck(_stations(k, many, ratio))) for many, ratio in FASTER]
    return [*equal, *servers, *faster]


def _stations(k: Int64, size: int, ratio: float = 1.0) -> Floats:
    """Return log f(k) of equal stations whose demand is ``ratio``: the ways to spread k users over them."""
    return _log_factorial(k + size - 1) - _log_factorial(size - 1) - _log_factorial(k) + k * math.log(ratio)


def _with_bottleneck(log_f: Floats) -> Floats:
    """Return log f(k) of stations and one more, of demand 1: the convolution with f = 1."""
    return np.asarray(np.log(np.cumsum(np.exp(log_f))))


def _servers(k: Int64, size: int) -> Floats:
    """Return log f(k) = S^k / (1 2 ... c c c) of one station with c servers, S = c D."""
    return np.minimum(k, size) * math.log(size) - _log_factorial(np.minimum(k, size))


def _log_factorial(n: Int64 | int) -> Floats:
    from scipy.special import gammaln

    return np.asarray(gammaln(np.asarray(n) + 1.0))


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
