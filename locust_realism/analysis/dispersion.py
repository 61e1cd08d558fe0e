"""Scales on which launches are too even or too lumpy: index of dispersion, dependence of gaps, rescaled time.

The CoV of the gaps looks at one scale only and is pulled to 1 by the mere number of users. The index of dispersion
IDC(w) = variance / mean of the counts in windows of length w looks at every scale: 1 for a Poisson process at all of
them, c^2 of one user's round trip for a fixed pool of users at long ones.
Source: R. Gusella, Characterizing the variability of arrival processes with indexes of dispersion, IEEE JSAC 9, 1991.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from locust_realism.analysis.sums import lagged_products

Int64 = NDArray[np.int64]
Floats = NDArray[np.float64]
Row = dict[str, Any]

MIN_WINDOWS = 20
"""Fewest windows from which a variance of counts is estimated."""
MAX_BINS = 4_000_000
MODEL_INTERVALS = 200_000
Z95 = 1.959963984540054


class Profile(Protocol):
    """A planned rate: cumulative rate Lambda(t), t in seconds since the start of the run."""

    def cumulative(self, t: Any, /) -> Any:
        """Expected number of launches from 0 to t."""


def rescale_by_profile(launches_us: NDArray[Any], profile: Profile, run_start_us: int) -> Floats:
    """Launch times in operational time u = Lambda(t), stretched so that the span stays what it was, in microseconds.

    A Poisson process of rate lambda(t) is one of constant rate on this axis, so that what the plan varies is not taken
    for bunching. Source: D. R. Cox and P. A. W. Lewis, The Statistical Analysis of Series of Events, 1966, section 3.1.
    """
    # A launch that the clock puts before the start counts as one at the start.
    u = np.asarray(profile.cumulative(np.maximum(launches_us - run_start_us, 0) / 1e6), dtype=np.float64)
    if not np.isfinite(u).all() or (np.diff(u) < 0).any():
        raise ValueError("planned_profile has a cumulative rate that is not finite and ascending at the launch times")
    span = float(u[-1] - u[0]) if len(u) else 0.0
    if span <= 0:
        return launches_us.astype(np.float64)
    stretched: Floats = (u - u[0]) * (float(launches_us[-1] - launches_us[0]) / span) + float(launches_us[0])
    return stretched


def clock_tick_us(launches_us: Int64) -> int:
    """Resolution of the clock that took the launch times, in microseconds: what all differences are multiples of.

    >>> clock_tick_us(np.array([5000, 8000, 8000, 12000])), clock_tick_us(np.array([0, 3, 7]))
    (1000, 1)
    """
    if len(launches_us) < 2:
        return 1
    head = np.diff(launches_us[:20_000])
    tick = int(np.gcd.reduce(head))
    if tick > 1 and len(launches_us) > 20_000 and bool(((launches_us - launches_us[0]) % tick).any()):
        tick = 1
    return max(tick, 1)


def dither(launches_us: NDArray[Any], tick_us: int, seed: int = 0) -> Floats:
    """Launch times with the part that a coarse clock cut off put back at random, uniform in a tick, in order again.

    For independent launches this restores the law of the gaps exactly; bunches shorter than a tick stay unseen.
    """
    times = np.asarray(launches_us, dtype=np.float64)
    if tick_us <= 1:
        return times
    spread = times + np.random.default_rng(seed).uniform(0.0, tick_us, len(times))
    spread.sort()
    return spread


def coarse_clock_cov(rate: float, tick_s: float) -> float:
    """CoV that a clock of resolution q shows of Poisson launches: sqrt(m coth(m / 2) - 1), m = rate q.

    >>> round(coarse_clock_cov(1000, 0.001), 3), coarse_clock_cov(1000, 0)
    (1.079, 1.0)
    """
    m = rate * tick_s
    return math.sqrt(m / math.tanh(m / 2) - 1) if m > 1e-6 else 1.0


def window_ladder(span_s: float, longest_s: float = math.inf) -> list[float]:
    """Windows of 10, 20, 50, 100 ms ... as long as 20 of them fit, ``longest_s`` at most.

    >>> window_ladder(2.0)
    [0.01, 0.02, 0.05, 0.1]
    """
    limit = min(span_s / MIN_WINDOWS, longest_s)
    steps = (mantissa * 10.0**power for power in range(-2, 7) for mantissa in (1, 2, 5))
    return [round(step, 2) for step in steps if step <= limit * (1 + 1e-9)]


def window_counts(times_us: NDArray[Any], window_s: Sequence[float]) -> list[Int64]:
    """Launches in consecutive windows of each length; whole windows only, from the first launch on.

    Counted once, in the shortest window, of which all others are multiples; where that would be more than
    ``MAX_BINS`` bins, the shortest windows get no counts.
    """
    if not len(times_us) or not window_s:
        return [np.zeros(0, dtype=np.int64) for _ in window_s]
    start, span = times_us[0], float(times_us[-1] - times_us[0])
    base = min(window_s) * 1e6
    while span / base > MAX_BINS:
        base *= 10
    bins = int(span // base)
    index = ((times_us - start) / base).astype(np.int64)
    base_counts = _counts_in_order(index, bins + 1)[:bins]
    counts = []
    for window in window_s:
        step = round(window * 1e6 / base)
        whole = bins // step if step and abs(step * base - window * 1e6) < 1 else 0
        counts.append(base_counts[: whole * step].reshape(whole, max(step, 1)).sum(axis=1))
    return counts


def _counts_in_order(index: Int64, bins: int) -> Int64:
    """How often each number occurs in an ascending array: one search instead of a count that keeps the lock."""
    return np.diff(np.searchsorted(index, np.arange(bins + 1)))


def poisson_band(windows: float) -> tuple[float, float]:
    """95 % band of the IDC of a Poisson process over k independent windows, by Wilson and Hilferty.

    >>> [round(bound, 2) for bound in poisson_band(20)]
    [0.47, 1.73]
    """
    if windows <= 1:
        raise ValueError(f"windows is {windows}, expected more than 1")
    part = 2 / (9 * (windows - 1))
    low, high = ((1 - part + sign * Z95 * math.sqrt(part)) ** 3 for sign in (-1, 1))
    return max(low, 0.0), high


def index_of_dispersion(counts: ArrayLike) -> float:
    """Variance (n - 1) over mean of counts; NaN below two windows or where all are empty."""
    values = np.asarray(counts)
    if len(values) < 2 or not values.any():
        return math.nan
    return float(values.var(ddof=1) / values.mean())


def renewal_dispersion(window_s: Sequence[float], trips_s: Floats, seed: int = 0) -> list[float]:
    """IDC that a fixed pool of independent users should show: that of one user's launches, whatever their number.

    ``trips_s`` are observed or drawn times between one user's launches, c their CoV; the curve goes from 1 at short
    windows to c^2 at long ones. It comes from a simulation of ``MODEL_INTERVALS`` of them, drawn with replacement and
    with a fixed seed, and is known to about 2 %. Source: D. R. Cox, Renewal Theory, 1962, section 4.5.

    >>> short, long = renewal_dispersion([0.01, 100], np.random.default_rng(1).uniform(0, 2, 10_000))
    >>> round(short, 1), round(long, 1)
    (1.0, 0.3)
    """
    mean = float(trips_s.mean())
    times = np.cumsum(np.random.default_rng(seed).choice(trips_s, MODEL_INTERVALS))
    curve = []
    for window in window_s:
        if window <= 0.02 * mean:
            # A second launch of the same user within so short a window is as good as impossible.
            curve.append(1.0)
            continue
        counts = np.bincount((times / window).astype(np.int64))[:-1]
        curve.append(index_of_dispersion(counts))
    return curve


def population_dispersion(window_s: Sequence[float], rate_per_user: float, session_s: float) -> list[float]:
    """IDC of independent users who come as a Poisson process, stay exp(S) and launch at rate r each while there.

    1 + 2 r S (1 - (1 - exp(-w/S)) / (w/S)): the number of users varies, and the launches with it.
    """
    if session_s <= 0:
        return [1.0 for _ in window_s]
    shares = [window / session_s for window in window_s]
    return [1 + 2 * rate_per_user * session_s * (1 + math.expm1(-share) / share) for share in shares]


def dispersion_table(
    times_us: NDArray[Any], window_s: Sequence[float], model: Sequence[float] | None = None, *, memory_s: float = 0.0
) -> list[Row]:
    """Rows window_s, windows, independent_windows, mean, idc, poisson_low, poisson_high, model, model_low, model_high.

    Shortest first; windows with fewer than ``MIN_WINDOWS`` are left out. The band of the model has the relative width
    that Poisson's has for the number of independent windows: counts that rise and fall together for ``memory_s``
    seconds, as the number of users of a population does, are worth fewer windows than there are.
    """
    expected = list(model) if model is not None else [1.0] * len(window_s)
    span = float(times_us[-1] - times_us[0]) / 1e6 if len(times_us) else 0.0
    rows = []
    for window, counts, curve in zip(window_s, window_counts(times_us, window_s), expected, strict=True):
        if len(counts) < MIN_WINDOWS:
            continue
        k = len(counts)
        slow = max(curve - 1, 0.0) / curve
        independent = 1 + 1 / (1 / (k - 1) + slow**2 * 2 * memory_s / span)
        low, high = poisson_band(k)
        row: Row = {"window_s": window, "windows": k, "independent_windows": independent, "mean": float(counts.mean())}
        row |= {"idc": index_of_dispersion(counts), "poisson_low": low, "poisson_high": high, "model": curve}
        low, high = poisson_band(independent)
        rows.append(row | {"model_low": curve * low, "model_high": curve * high})
    return rows


def local_gaps(gaps: Floats, per_window: int) -> tuple[Floats, float]:
    """Gaps over the mean of their window, and their CoV, so that a rate that drifts slowly does not count as bunching.

    Consecutive windows of ``per_window`` gaps; a rest joins no window unless there is only one. The CoV is corrected
    for the estimated means: for exponential gaps the mean squared CoV within windows of m gaps is m / (m + 1).

    >>> gaps = np.random.default_rng(1).exponential(np.linspace(1, 5, 20_000))
    >>> _, cov = local_gaps(gaps, 200)
    >>> round(cov, 2)
    1.0
    """
    m = min(per_window, len(gaps))
    if m < 2:
        return gaps, math.nan
    pieces = gaps[: len(gaps) // m * m].reshape(-1, m)
    means = pieces.mean(axis=1, keepdims=True)
    means[means == 0] = math.nan
    relative = pieces / means
    squares = np.nanmean(relative.var(axis=1, ddof=1)) if np.isfinite(means).any() else math.nan
    return np.nan_to_num(relative.ravel(), nan=0.0), math.sqrt(float(squares) * (m + 1) / m)


def autocorrelation(values: Floats, lags: int = 20) -> list[float]:
    """Correlation of each value with the one 1, 2, ... ``lags`` places later; empty where there are too few values."""
    n = len(values)
    if n < 4 * lags:
        return []
    power, *products = lagged_products(values - values.mean(), lags)
    return [product / power for product in products] if power else []


def exponential_distance(ordered_gaps: Floats) -> float:
    """Kolmogorov's distance between the distribution of gaps of mean 1, in ascending order, and the exponential.

    On long samples it is looked at in 20,000 places, which misses less than 1e-4 of it.

    >>> round(exponential_distance(np.full(1000, 1.0)), 3)
    0.632
    """
    n = len(ordered_gaps)
    if not n:
        return math.nan
    ranks = np.unique(np.linspace(0, n - 1, min(n, 20_000)).astype(np.int64))
    curve = -np.expm1(-ordered_gaps[ranks])
    return float(max(((ranks + 1) / n - curve).max(), (curve - ranks / n).max()))
