"""Index of dispersion of the launches at every scale, dependence of the gaps, and the time scale of a planned rate.

The CoV of the gaps covers one scale only, and many users alone pull it to 1. The index of dispersion IDC(w) =
variance / mean of the counts in windows of length w covers every scale. It is 1 for a Poisson process, and c^2 of one
user's round trip for a fixed pool of users at long windows.
Source: R. Gusella, Characterizing the variability of arrival processes with indexes of dispersion, IEEE JSAC 9, 1991.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from locust_realism.analysis.document import DispersionRow
from locust_realism.analysis.percentiles import Floats, Int64, Numbers
from locust_realism.analysis.stats.intervals import lagged_products
from locust_realism.common.validation import refusal

MIN_WINDOWS = 20
"""Fewest windows from which a variance of counts is estimated."""
MAX_BINS = 4_000_000
MODEL_INTERVALS = 200_000
POOL_INTERVALS = 100_000
STAY_SHARES = tuple((1 - 10 ** -(np.arange(1, 121) / 20)).tolist())
"""Shares at which a law of stays is known by its quantiles: .11, .21 ... .999999, dense in the tail."""
Z95 = 1.959963984540054
MIN_STALLS = 3
MOST_STALLS = 0.02
"""Share of the gaps from which long ones are no stalls but the usual pattern."""
CHANCE_STALLS = 0.1
"""Share of the stalls that may be long gaps of independent launches."""
RARE_STALLS = 1e-4
"""Probability of the gaps of independent launches that counts as none."""
BESIDE = np.array([-2, -1, 1, 2])
"""Neighbours of a long gap."""
SLOW, SLOW_ERRORS = 0.4, 2.5
"""Excess of the gaps beside long ones from which the rate is low there: in usual gaps, and in standard errors."""
REGULAR = 0.3
"""CoV of the distances between stalls below which they have a period."""


class Profile(Protocol):
    """Planned rate, as its integral Lambda(t), t in seconds since the start of the run."""

    def cumulative(self, t: ArrayLike, /) -> Floats:
        """Return the expected number of launches from 0 to t."""


def rescale_by_profile(launches_us: Numbers, profile: Profile, run_start_us: int) -> Floats:
    """Return launch times in operational time u = Lambda(t), stretched to the span of the launches, in microseconds.

    A Poisson process of rate lambda(t) has a constant rate on this axis, so that a planned change is no bunching.
    Source: D. R. Cox and P. A. W. Lewis, The Statistical Analysis of Series of Events, 1966, section 3.1.
    """
    # A launch before the start, by the clock, counts as one at the start.
    u = np.asarray(profile.cumulative(np.maximum(launches_us - run_start_us, 0) / 1e6), dtype=np.float64)
    if not np.isfinite(u).all() or (np.diff(u) < 0).any():
        raise ValueError("planned_profile has a cumulative rate that is not finite and ascending at the launch times")
    span = float(u[-1] - u[0]) if len(u) else 0.0
    if span <= 0:
        return launches_us.astype(np.float64)
    stretched: Floats = (u - u[0]) * (float(launches_us[-1] - launches_us[0]) / span) + float(launches_us[0])
    return stretched


def clock_tick_us(launches_us: Int64) -> int:
    """Return the resolution of the launch times in microseconds: the common divisor of their differences.

    >>> clock_tick_us(np.array([5000, 8000, 8000, 12000])), clock_tick_us(np.array([0, 3, 7]))
    (1000, 1)
    """
    if len(launches_us) < 2:
        return 1
    tick = int(np.gcd.reduce(np.diff(launches_us[:20_000])))
    return tick if tick > 1 and not ((launches_us - launches_us[0]) % tick).any() else 1


def dither(launches_us: Numbers, tick_us: int, seed: int = 0) -> Floats:
    """Return launch times plus a uniform random part of a tick, ascending: the part that a coarse clock drops.

    This restores the law of the gaps of independent launches exactly; bunches shorter than a tick stay hidden.
    """
    times = np.asarray(launches_us, dtype=np.float64)
    if tick_us <= 1:
        return times
    spread = times + np.random.default_rng(seed).uniform(0.0, tick_us, len(times))
    spread.sort()
    return spread


def window_ladder(span_s: float) -> list[float]:
    """Return windows of 10, 20, 50, 100 ms ... of which 20 fit into the span.

    >>> window_ladder(2.0)
    [0.01, 0.02, 0.05, 0.1]
    """
    steps = (mantissa * 10.0**power for power in range(-2, 7) for mantissa in (1, 2, 5))
    return [round(step, 2) for step in steps if step <= span_s / MIN_WINDOWS * (1 + 1e-9)]


def window_counts(times_us: Numbers, window_s: Sequence[float]) -> list[Int64]:
    """Return the launches in consecutive whole windows of each length, from the first launch on.

    The launches are counted once, in the shortest window, of which all others are multiples. The shortest windows get
    no counts where they would need more than ``MAX_BINS`` bins.
    """
    if not len(times_us) or not window_s:
        return [np.zeros(0, dtype=np.int64) for _ in window_s]
    start, span = times_us[0], float(times_us[-1] - times_us[0])
    base = min(window_s) * 1e6
    while span / base > MAX_BINS:
        base *= 10
    bins = int(span // base)
    index = ((times_us - start) / base).astype(np.int64)
    # One search per bin: numpy.bincount would hold the interpreter's lock.
    base_counts = np.diff(np.searchsorted(index, np.arange(bins + 1)))
    counts = []
    for window in window_s:
        step = round(window * 1e6 / base)
        whole = bins // step if step and abs(step * base - window * 1e6) < 1 else 0
        counts.append(base_counts[: whole * step].reshape(whole, max(step, 1)).sum(axis=1))
    return counts


def poisson_band(windows: float, errors: float = Z95) -> tuple[float, float]:
    """Return the band of a Poisson process's IDC over k independent windows, 95 % by default.

    ``errors`` is half the band's width in standard errors. Wilson and Hilferty's cube root follows the skewed variance
    of few counts.

    >>> [round(bound, 2) for bound in poisson_band(20)]
    [0.47, 1.73]
    """
    if windows <= 1:
        raise refusal("windows", "> 1", windows)
    part = 2 / (9 * (windows - 1))
    low, high = ((1 - part + sign * errors * math.sqrt(part)) ** 3 for sign in (-1, 1))
    return max(low, 0.0), high


def index_of_dispersion(counts: ArrayLike) -> float:
    """Return variance (n - 1) / mean of counts; NaN below two windows or where all are empty."""
    values = np.asarray(counts)
    if len(values) < 2 or not values.any():
        return math.nan
    return float(values.var(ddof=1) / values.mean())


def renewal_dispersion(window_s: Sequence[float], trips_s: Floats, seed: int = 0) -> list[float]:
    """Return the IDC of a fixed pool of independent users, which is that of one user's launches.

    ``trips_s`` are times between one user's launches, c their CoV; the curve falls or rises from 1 at short windows to
    c^2 at long ones. It comes from a simulation of ``MODEL_INTERVALS`` of them, drawn with replacement and a fixed
    seed, with an error of about 2 %. Source: D. R. Cox, Renewal Theory, 1962, section 4.5.

    >>> short, long = renewal_dispersion([0.01, 100], np.random.default_rng(1).uniform(0, 2, 10_000))
    >>> round(short, 1), round(long, 1)
    (1.0, 0.3)
    """
    mean = float(trips_s.mean())
    if mean <= 0:
        return [1.0 for _ in window_s]
    times = np.cumsum(np.random.default_rng(seed).choice(trips_s, MODEL_INTERVALS))
    # A user hardly ever launches twice in a window much shorter than a round trip.
    return [_dispersion_in(times, window) if window > 0.02 * mean else 1.0 for window in window_s]


def _dispersion_in(times_s: Floats, window_s: float) -> float:
    """Return the IDC of ascending times in the whole windows from 0 on, most of which may be empty."""
    index = (times_s / window_s).astype(np.int64)
    windows = int(index[-1])
    counts = np.diff(np.flatnonzero(np.diff(index)), prepend=-1)  # of windows that are not empty
    total, squares = int(counts.sum()), int(counts @ counts)
    if windows < 2 or not total:
        return math.nan
    return (squares - total**2 / windows) / (windows - 1) * windows / total


def pool_gaps(trips_s: Floats, users: int, seed: int = 0) -> Floats:
    """Return the times between the launches of so many independent users with these times between their own ones.

    Few users make the gaps less random than exponential ones: neighbouring gaps have a negative correlation. They come
    from a simulation of ``POOL_INTERVALS`` trips, drawn with replacement and a fixed seed.

    >>> gaps = pool_gaps(np.random.default_rng(1).uniform(0, 2, 10_000), 5)
    >>> round(float(gaps.std() / gaps.mean()), 1), round(autocorrelation(gaps, 1)[0], 1)
    (0.9, -0.1)
    """
    rng = np.random.default_rng(seed)
    each = max(POOL_INTERVALS // users, 20)
    times = np.cumsum(rng.choice(trips_s, (users, each)), axis=1)
    times += (rng.random(users) * float(trips_s.mean()))[:, np.newaxis]
    # all users launch from their last start to their first end
    start, end = times[:, each // 10].max(), times[:, -1].min()
    return np.diff(np.sort(times[(times >= start) & (times <= end)]))


@dataclass(frozen=True)
class Stay:
    """Law of the stays of a population's users, by its knots: stay ``t`` in seconds, share ``left`` that stays longer.

    ``residual`` is the integral of ``left`` from each knot on, ``mean`` its first value.
    """

    t: Floats
    left: Floats
    residual: Floats

    @classmethod
    def of(cls, mean_s: float, quantiles_s: Sequence[float] | None = None) -> Stay:
        """Return the law with these quantiles at ``STAY_SHARES``; the exponential one without.

        >>> round(Stay.of(30).mean, 2)
        30.0
        """
        shares = np.asarray(STAY_SHARES)
        given = -mean_s * np.log1p(-shares) if quantiles_s is None else np.asarray(quantiles_s, dtype=np.float64)
        t, left = np.concatenate(([0.0], given)), np.concatenate(([1.0], 1 - shares))
        areas = np.diff(t) * (left[1:] + left[:-1]) / 2
        # Straight lines between the knots miss a little of the mean.
        residual = np.concatenate((np.cumsum(areas[::-1])[::-1], [0.0]))
        return cls(t, left, residual * (mean_s / residual[0]) if residual[0] > 0 else residual)

    @property
    def mean(self) -> float:
        """Mean stay in seconds."""
        return float(self.residual[0])

    @property
    def memory_s(self) -> float:
        """Seconds for which a deviation of the number of users lasts: 2 x integral of its squared correlation.

        The correlation after t is the residual at t over the mean; an exponential law has the mean stay.
        """
        if self.mean <= 0:
            return 0.0
        a, b = self.residual[:-1] / self.mean, self.residual[1:] / self.mean
        return float((np.diff(self.t) * (a * a + a * b + b * b)).sum()) * 2 / 3


def population_dispersion(window_s: Sequence[float], rate_per_user: float, stay: Stay) -> list[float]:
    """Return the IDC of users who arrive as a Poisson process and launch at rate r each while they stay.

    The launches vary with the number of users N, of covariance C(t) = lambda * integral from t of (1 - F):
    IDC(w) = 1 + 2 r^2 / (rate w) * integral from 0 to w of (w - t) C(t) dt, with rate = r lambda S; the limit at long
    windows is 1 + r S (1 + c^2), S the mean stay and c its CoV. Source: D. R. Cox and V. Isham, Point Processes, 1980,
    section 3.3 (doubly stochastic Poisson processes), with the M/G/infinity queue as the rate.

    >>> [round(value, 1) for value in population_dispersion([0.01, 1e6], 2.0, Stay.of(5.0))]
    [1.0, 21.0]
    """
    if stay.mean <= 0 or not rate_per_user > 0:
        return [1.0 for _ in window_s]
    found = []
    for window in window_s:
        t = np.unique(np.concatenate((stay.t[stay.t < window], np.linspace(0, window, 200))))
        weighted = (window - t) * np.interp(t, stay.t, stay.residual, right=0.0) / stay.mean
        area = float((np.diff(t) * (weighted[1:] + weighted[:-1])).sum()) / 2
        found.append(1 + 2 * rate_per_user * area / window)
    return found


def seen_in(span_s: float, window_s: Sequence[float], curve: Sequence[float], at_span: float) -> list[float]:
    """Return the expected sample IDC within ``span_s`` seconds of a process with this ``curve``, ``at_span`` its end.

    k windows deviate from their own mean, which varies itself: (k IDC(w) - IDC(T)) / (k - 1), k = T / w. Variation
    slower than the run is no variation within it.

    >>> seen_in(100.0, [1.0, 5.0], [1.0, 1.0], 1.0)
    [1.0, 1.0]
    """
    counts = [span_s / window for window in window_s]
    return [(k * value - at_span) / (k - 1) if k > 1 else value for k, value in zip(counts, curve, strict=True)]


def dispersion_table(
    times_us: Numbers, window_s: Sequence[float], model: Sequence[float] | None = None, *, memory_s: float = 0.0
) -> list[DispersionRow]:
    """Return a row for each window of which ``MIN_WINDOWS`` fit, shortest first.

    The band of the model has the relative width of Poisson's band for the number of independent windows. Counts that
    rise and fall together for ``memory_s`` seconds, with the users of a population, are worth fewer windows.
    """
    expected = list(model) if model is not None else [1.0] * len(window_s)
    span = float(times_us[-1] - times_us[0]) / 1e6 if len(times_us) else 0.0
    rows: list[DispersionRow] = []
    for window, counts, curve in zip(window_s, window_counts(times_us, window_s), expected, strict=True):
        if len(counts) < MIN_WINDOWS:
            continue
        k = len(counts)
        slow = max(curve - 1, 0.0) / curve
        independent = 1 + 1 / (1 / (k - 1) + slow**2 * 2 * memory_s / span)
        low, high = poisson_band(k)
        model_low, model_high = poisson_band(independent)
        rows.append(
            {
                "window_s": window, "windows": k, "independent_windows": independent, "mean": float(counts.mean()),
                "idc": index_of_dispersion(counts), "poisson_low": low, "poisson_high": high,
                "model": curve, "model_low": curve * model_low, "model_high": curve * model_high,
            }
        )  # fmt: skip
    return rows


def local_gaps(gaps: Floats, per_window: int) -> tuple[Floats, float]:
    """Return the gaps over the mean of their window, and their CoV, so that a slow drift is no bunching.

    The windows are consecutive, of ``per_window`` gaps at least and of nearly equal size, and cover every gap. The CoV
    is corrected for the estimated means: for exponential gaps the mean squared CoV within m gaps is m / (m + 1).

    >>> gaps = np.random.default_rng(1).exponential(np.linspace(1, 5, 20_000))
    >>> _, cov = local_gaps(gaps, 200)
    >>> round(cov, 2)
    1.0
    """
    n = len(gaps)
    if n < 2:
        return gaps, math.nan
    windows = max(n // max(per_window, 2), 1)
    edges = np.linspace(0, n, windows + 1).astype(np.int64)
    size = np.diff(edges)
    means = np.add.reduceat(gaps, edges[:-1]) / size
    relative = gaps / np.repeat(np.where(means > 0, means, np.inf), size)
    squares = np.add.reduceat(relative * relative, edges[:-1])
    known = means > 0
    if not known.any():
        return relative, math.nan
    variance = (squares - size) / (size - 1) * (size + 1) / size
    return relative, math.sqrt(max(float(np.average(variance[known], weights=size[known])), 0.0))


def autocorrelation(values: Floats, lags: int = 20) -> list[float]:
    """Return the correlation of the values with those 1, 2, ... ``lags`` places later; empty for too few values."""
    n = len(values)
    if n < 4 * lags:
        return []
    power, *products = lagged_products(values - values.mean(), lags)
    return [product / power for product in products] if power else []


@dataclass(frozen=True)
class Stalls:
    """Repeated pauses: their number, mean length and mean distance from start to start in seconds.

    ``regular`` is True if these distances have a CoV below ``REGULAR``.
    """

    number: int
    mean_s: float
    period_s: float
    regular: bool = False


def repeated_stalls(relative: Floats, launches_us: Int64) -> Stalls | None:
    """Return the pauses that are too long for independent launches, None for fewer than ``MIN_STALLS`` of them.

    ``relative`` are the gaps over their expected mean, in the order of the launches. Of n exponential gaps n exp(-x)
    exceed x mean gaps: the longest k gaps are stalls while at most a tenth of them is expected by chance. Long gaps
    between long ones are a low rate, not stalls.

    >>> gaps = np.random.default_rng(1).exponential(1.0, 10_000)
    >>> repeated_stalls(gaps, np.cumsum(np.insert(gaps, 0, 0.0) * 1e4).astype(np.int64)) is None
    True
    >>> gaps[500::1000] += 30
    >>> found = repeated_stalls(gaps, np.cumsum(np.insert(gaps, 0, 0.0) * 1e4).astype(np.int64))
    >>> found.number, round(found.mean_s, 1), round(found.period_s), found.regular
    (10, 0.3, 10, True)
    """
    n = len(relative)
    most = int(MOST_STALLS * n) + 1
    if most <= MIN_STALLS:
        return None
    longest = np.argpartition(relative, n - most)[n - most :]
    longest = longest[np.argsort(-relative[longest])]
    k = np.arange(1, most + 1)
    chance = n * np.exp(-relative[longest])
    # One long pause beside usual gaps is a single one: all but the longest must be beyond chance together.
    log_factorial = np.concatenate(([0.0], np.cumsum(np.log(k[:-1]))))
    together = (k - 1) * np.log(np.maximum(chance, 1e-300)) - log_factorial < math.log(RARE_STALLS)
    beyond_chance = np.flatnonzero((chance < CHANCE_STALLS * k) & together)
    number = int(k[beyond_chance[-1]]) if len(beyond_chance) else 0
    if not MIN_STALLS <= number < most:
        return None
    # A usual gap among far longer ones is none of them.
    longest = longest[:number][relative[longest[:number]] >= float(np.median(relative[longest[:number]])) / 2]
    number = len(longest)
    if number < MIN_STALLS:
        return None
    rows = np.sort(longest)
    beside = relative[np.setdiff1d((rows[:, None] + BESIDE).clip(0, n - 1), rows)]
    if float(beside.mean()) > 1 + max(SLOW, SLOW_ERRORS / math.sqrt(len(beside))):
        return None
    starts, lengths = launches_us[rows] / 1e6, np.diff(launches_us)[rows] / 1e6
    # A gap lasts as long as the stall and a usual gap together.
    usual = float(np.median(lengths / relative[rows]))
    between = np.diff(starts)
    varies = float(between.std() / between.mean()) if between.mean() > 0 else math.inf
    return Stalls(number, max(float(lengths.mean()) - usual, 0.0), float(between.mean()), varies < REGULAR)


def exponential_distance(ordered_gaps: Floats) -> float:
    """Return Kolmogorov's distance between ascending gaps of mean 1 and the exponential distribution.

    Long samples are compared at 20,000 ranks, which misses less than 1e-4.

    >>> round(exponential_distance(np.full(1000, 1.0)), 3)
    0.632
    """
    n = len(ordered_gaps)
    if not n:
        return math.nan
    ranks = np.unique(np.linspace(0, n - 1, min(n, 20_000)).astype(np.int64))
    curve = -np.expm1(-ordered_gaps[ranks])
    return float(max(((ranks + 1) / n - curve).max(), (curve - ranks / n).max()))
