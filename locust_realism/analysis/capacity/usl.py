"""Universal scalability law: throughput against users, with a confidence band.

``users`` are N, ``rate`` X in requests per second and ``error`` the standard error of each X.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from locust_realism.analysis.document import Usl
from locust_realism.analysis.percentiles import Floats

MIN_LEVELS = 4
"""Fewest levels of concurrency from which a curve of three parameters is fitted."""
DRAWS = 400
"""Draws of the bootstrap."""


def usl_rate(users: ArrayLike, alpha: float | Floats, beta: float | Floats, gamma: float | Floats) -> Floats:
    """Return the throughput of the universal scalability law (Gunther, Guerrilla Capacity Planning, 2007).

    >>> usl_rate([1, 10], 0.1, 0.0, 5.0).round(3).tolist()
    [5.0, 26.316]
    """
    n = np.asarray(users, dtype=np.float64)
    return np.asarray(gamma * n / (1 + alpha * (n - 1) + beta * n * (n - 1)), dtype=np.float64)


def fit_usl(users: ArrayLike, rate: ArrayLike, error: ArrayLike, *, rng: np.random.Generator) -> Usl:
    """Fit the universal scalability law by weighted least squares with alpha, beta >= 0.

    In the form N/X = 1/gamma + (alpha/gamma)(N - 1) + (beta/gamma) N (N - 1) the law is linear, so that the fit is
    exact and needs no starting values; the error of N/X is N error/X^2. The bootstrap redraws X within its error,
    widened by the misfit of the law, and gives the pointwise 95 % band of the curve. ``peak_users`` is
    sqrt((1 - alpha) / beta), the number of users at the highest throughput, None beyond the measured levels.

    >>> fit = fit_usl([1, 5, 10, 20], usl_rate([1, 5, 10, 20], 0.05, 0.002, 8.0), [0.01] * 4,
    ...               rng=np.random.default_rng(1))
    >>> round(fit["alpha"], 3), round(fit["beta"], 4), round(fit["gamma"], 2)
    (0.05, 0.002, 8.0)
    """
    n, x, se = checked_levels(users, rate, error)
    alpha, beta, gamma = _fit_rows(n, x[None, :], se)[0].tolist()
    residual = (x - usl_rate(n, alpha, beta, gamma)) / se
    widen = math.sqrt(max(1.0, float(residual @ residual) / max(1, len(n) - 3)))
    noisy = np.maximum(x + rng.standard_normal((DRAWS, len(n))) * se * widen, 0.05 * x)
    grid = np.unique(np.linspace(n.min(), n.max(), 60))
    low, high = np.quantile(usl_rate(grid, *_fit_rows(n, noisy, se).T[:, :, None]), [0.025, 0.975], axis=0)
    peak = math.sqrt((1 - alpha) / beta) if beta > 0 and alpha < 1 else math.inf
    inside = peak <= n.max()
    return {
        "alpha": alpha, "beta": beta, "gamma": gamma,
        "peak_users": peak if inside else None, "peak_beyond_measured": not inside,
        "curve": {
            "users": grid.tolist(), "rate": usl_rate(grid, alpha, beta, gamma).tolist(),
            "low": low.tolist(), "high": high.tolist(),
        },
    }  # fmt: skip


def _fit_rows(n: Floats, rates: Floats, se: Floats) -> Floats:
    """Return (alpha, beta, gamma) for each row of rates, shape (b, 3): least squares with alpha, beta >= 0.

    With two constraints the best point is the best of four free solutions: both terms, either, or none. Terms of
    similar size keep the digits that the squares of N (N - 1) would cost.
    """
    terms = np.stack([np.ones_like(n), n - 1, n * (n - 1)], axis=1)
    scale = terms.max(axis=0)
    weighted = terms / scale * (rates**2 / (n * se))[:, :, None]
    target = (rates / se)[:, :, None]
    best = np.zeros((len(rates), 3))
    least = np.full(len(rates), math.inf)
    for columns in ([0, 1, 2], [0, 1], [0, 2], [0]):
        design = weighted[:, :, columns]
        turned = design.transpose(0, 2, 1)
        found = np.linalg.solve(turned @ design, turned @ target)
        cost = ((design @ found - target) ** 2).sum(axis=(1, 2))
        better = (found >= 0).all(axis=(1, 2)) & (cost < least)
        least[better], best[better] = cost[better], 0.0
        best[np.ix_(better, columns)] = found[better, :, 0]
    a, b, c = (best / scale).T
    return np.stack([b / a, c / a, 1 / a], axis=1)


def checked_levels(users: ArrayLike, rate: ArrayLike, error: ArrayLike) -> tuple[Floats, Floats, Floats]:
    """Return the three as arrays of one length; ValueError for other lengths, bounds, or too few levels for a curve."""
    n, x, se = (np.asarray(each, dtype=np.float64) for each in (users, rate, error))
    if not n.ndim == x.ndim == se.ndim == 1 or not len(n) == len(x) == len(se):
        raise ValueError(f"users, rate and error have shapes {n.shape}, {x.shape}, {se.shape}, expected one length")
    if len(np.unique(n)) < MIN_LEVELS:
        raise ValueError(f"users has {len(np.unique(n))} different levels, expected at least {MIN_LEVELS}")
    for name, values, good, bound in (
        ("users", n, n >= 1, "of at least 1"),
        ("rate", x, x > 0, "above 0"),
        ("error", se, se > 0, "above 0"),
    ):
        bad = values[~(good & np.isfinite(values))]
        if len(bad):
            raise ValueError(f"{name} is {bad[0]:g}, expected numbers {bound}")
    return n, x, se
