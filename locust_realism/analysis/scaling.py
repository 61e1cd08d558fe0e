"""How throughput grows with users: the universal scalability law, with confidence bands.

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
    n, x, se = checked_levels(users, rate, error)
    best = _usl_least_squares(n, x, se)
    residual = (x - usl_rate(n, *best)) / se
    widen = math.sqrt(max(1.0, float(residual @ residual) / max(1, len(n) - 3)))
    noisy = np.maximum(x + rng.standard_normal((draws, len(n))) * se * widen, 0.05 * x)
    return UslFit(*best, draws=_usl_fits(n, noisy, se), largest_users=float(n.max()))


def _usl_least_squares(n: Floats, x: Floats, se: Floats) -> tuple[float, float, float]:
    alpha, beta, gamma = _usl_fits(n, x[None, :], se)[0].tolist()
    return alpha, beta, gamma


def _usl_fits(n: Floats, rates: Floats, se: Floats) -> Floats:
    """(alpha, beta, gamma) for each row of rates, shape (b, 3): least squares with alpha, beta >= 0.

    With two constraints the best point is the best of four free solutions: both terms, either, or none. The terms are
    scaled to alike sizes first, or the squares of N(N - 1) would drown the rest.
    """
    terms = np.stack([np.ones_like(n), n - 1, n * (n - 1)], axis=1)
    terms = terms / np.maximum(np.abs(terms).max(axis=0), 1e-300)
    scale = np.array([1.0, np.abs(n - 1).max(), np.abs(n * (n - 1)).max()])
    weight = rates**2 / (n * se)
    target = n / rates * weight
    best = np.full((len(rates), 3), math.nan)
    least = np.full(len(rates), math.inf)
    for columns in ([0, 1, 2], [0, 1], [0, 2], [0]):
        design = terms[None, :, columns] * weight[:, :, None]
        normal = np.einsum("bij,bik->bjk", design, design)
        found = np.linalg.solve(normal, np.einsum("bij,bi->bj", design, target)[..., None])[..., 0]
        cost = ((np.einsum("bij,bj->bi", design, found) - target) ** 2).sum(axis=1)
        better = (found >= 0).all(axis=1) & (cost < least)
        least[better] = cost[better]
        best[better] = 0.0
        best[np.ix_(better, columns)] = found[better]
    a, b, c = (best / scale).T
    return np.stack([b / a, c / a, 1 / a], axis=1)


def checked_levels(users: ArrayLike, rate: ArrayLike, error: ArrayLike) -> tuple[Floats, Floats, Floats]:
    """The three as arrays of one length; ValueError where they are not, or where no curve can be fitted to them."""
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
