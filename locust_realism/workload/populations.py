"""Expected and sampled number of concurrent users N(t) of a population that arrives, stays and leaves.

Arrivals at rate lambda(t) of people who stay a time S, whatever the others do, are the M(t)/G/infinity queue. N(t) is
Poisson distributed with the mean

    m(t) = E[ Lambda(t) - Lambda(t - S) ]          (all who came within one S before t are still here)

so N follows the rate with a lag, and for a constant rate m = lambda E[S] (Little's law) whatever the distribution of S.
Source: S. G. Eick, W. A. Massey, W. Whitt, The physics of the Mt/G/infinity queue, Operations Research 41, 1993.

Times are seconds, rates per second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .arrivals import arrival_times
from .checks import not_negative, positive
from .distribution import Distribution
from .profile import RateProfile
from .solve import Floats

Start = Literal["equilibrium", "empty"]
STARTS: tuple[Start, ...] = ("equilibrium", "empty")

_QUADRATURE = 4096
_POOL = 1 << 16
BAND = 0.999
"""Share of the time that the number of users spends inside :func:`poisson_band`, for one moment chosen in advance."""


def _quadrature(duration: Distribution) -> Floats:
    """Equally likely session times whose mean is exact: the midpoints of 4096 quantiles, the tail in the last."""
    times = np.asarray(duration.ppf((np.arange(_QUADRATURE) + 0.5) / _QUADRATURE), dtype=np.float64)
    rest = duration.mean * _QUADRATURE - float(times[:-1].sum())
    if rest >= times[-2]:
        times[-1] = rest
        return times
    return times * (duration.mean / float(times.mean()))


@dataclass(frozen=True)
class Stretch:
    """From ``begin`` (seconds) on, people arrive by ``profile`` and stay for ``duration``."""

    begin: float
    profile: RateProfile
    duration: Distribution


def expected_users_of(stretches: Sequence[Stretch], t: ArrayLike) -> Floats:
    """Mean number in session at the times ``t`` of a population whose settings were changed while it ran.

    A stretch ends where the next begins. Who came in one stays as long as was meant then:
    m(t) = sum over stretches [a, b) of E[ Lambda(min(t, b)) - Lambda(max(a, t - S)) ], where that is positive.
    """
    times = np.asarray(t, dtype=np.float64)
    flat = times.ravel()
    total = np.zeros(len(flat))
    ends = [stretch.begin for stretch in stretches[1:]] + [np.inf]
    for stretch, end in zip(stretches, ends, strict=True):
        stays = _quadrature(stretch.duration)
        for i, moment in enumerate(flat):
            last = min(moment, end)
            if last > stretch.begin:
                first = np.clip(moment - stays, stretch.begin, last)
                came = stretch.profile.cumulative(last) - stretch.profile.cumulative(first)
                total[i] += float(np.mean(came))
    return total.reshape(times.shape)[()]


def expected_users(
    profile: RateProfile,
    duration: Distribution,
    t: ArrayLike,
    *,
    start: Start = "equilibrium",
    warm_up: float = 0.0,
) -> Floats:
    """Mean number of users in session at the times ``t`` (seconds, any shape) after the start.

    ``start="empty"`` begins with nobody. ``"equilibrium"`` has, at the end of the warm-up, the users that a system has
    that has followed the profile for ever; during the warm-up they enter evenly, so N rises in a straight line.

    >>> from locust_realism.workload.distributions import exponential
    >>> from locust_realism.workload.rates import ConstantRate
    >>> expected_users(ConstantRate(2), exponential(30), [0, 100]).round(6).tolist()
    [60.0, 60.0]
    >>> expected_users(ConstantRate(2), exponential(30), [0, 30], start="empty").round(2).tolist()
    [0.0, 37.93]
    """
    check_start(start)
    begin = not_negative("warm_up", warm_up)
    return with_warm_up([Stretch(0.0 if start == "empty" else -np.inf, profile, duration)], t, begin)


def with_warm_up(stretches: Sequence[Stretch], t: ArrayLike, warm_up: float) -> Floats:
    """:func:`expected_users_of`, but if the first stretch had no beginning, with a straight line until ``warm_up``."""
    times = np.asarray(t, dtype=np.float64)
    if stretches[0].begin > -np.inf or warm_up <= 0:
        return expected_users_of(stretches, times)
    return expected_users_of(stretches, np.maximum(times, warm_up)) * np.clip(times / warm_up, 0.0, 1.0)


def sample_initial(
    profile: RateProfile,
    duration: Distribution,
    at: float,
    rng: np.random.Generator,
    share: float = 1.0,
    mean: float | None = None,
) -> Floats:
    """What is left of the sessions that are under way at the time ``at``, shape (N,), N Poisson with mean m(at).

    A session under way is a long one more often than a short one (its whole length is length-biased), the moment falls
    anywhere into it, and it began when the rate was lambda(at - age): the residual times are drawn from a pool of such
    pairs, each with the weight of the rate at its beginning. ``share`` thins the population, for one of W workers;
    ``mean`` is m(at) where it is known already.
    """
    whole_mean = float(expected_users(profile, duration, at)) if mean is None else not_negative("mean", mean)
    count = int(rng.poisson(whole_mean * not_negative("share", share)))
    if count == 0:
        return np.zeros(0)
    size = max(_POOL, 4 * count)
    whole = duration.sample_length_biased(rng, size)
    part = rng.random(size)
    weight = np.asarray(profile.rate(at - whole * (1 - part)), dtype=np.float64)
    total = float(weight.sum())
    if total == 0:
        return np.zeros(0)
    residual: Floats = (whole * part)[rng.choice(size, size=count, p=weight / total)]
    return residual


def sample_users(
    profile: RateProfile,
    duration: Distribution,
    t: ArrayLike,
    rng: np.random.Generator,
    *,
    start: Start = "equilibrium",
) -> NDArray[np.int64]:
    """N at the ascending times ``t`` >= 0 (shape (n,)) of one simulated population."""
    check_start(start)
    moments = np.asarray(t, dtype=np.float64)
    begins = arrival_times(profile, float(moments.max(initial=0.0)) + 1e-9, rng)
    ends = begins + duration.sample(rng, len(begins))
    if start == "equilibrium":
        residual = sample_initial(profile, duration, 0.0, rng)
        begins = np.concatenate((np.zeros(len(residual)), begins))
        ends = np.concatenate((residual, ends))
    arrived = np.searchsorted(np.sort(begins), moments, side="right")
    left = np.searchsorted(np.sort(ends), moments, side="right")
    return (arrived - left).astype(np.int64)


def poisson_quantile(q: float, mean: ArrayLike) -> NDArray[np.int64]:
    """The smallest n with P(N <= n) >= q for N Poisson with each ``mean``.

    >>> poisson_quantile(0.999, [0, 240]).tolist()
    [0, 289]
    """
    from scipy import special

    means = np.asarray(mean, dtype=np.float64)
    guess = np.ceil(special.pdtrik(q, np.maximum(means, 1e-12)))
    guess = np.where(means <= 0, 0, np.nan_to_num(guess))
    # The inverse is a float near an integer: step to the smallest integer for which it holds.
    guess = np.where((guess > 0) & (special.pdtr(guess - 1, means) >= q), guess - 1, guess)
    guess = np.where(special.pdtr(guess, means) < q, guess + 1, guess)
    return guess.astype(np.int64)


def poisson_band(mean: ArrayLike, share: float = BAND) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The least and the most users that a Poisson number with this mean has with probability ``share``."""
    return poisson_quantile((1 - share) / 2, mean), poisson_quantile((1 + share) / 2, mean)


def time_average_sd(rate: float, duration: Distribution, window: float) -> float:
    """Standard deviation of the average of N over ``window`` seconds of a stationary population.

    sd / mean = sqrt((1 + c^2) / (lambda T)), for a window much longer than a session, c the CoV of the session times.
    """
    mean = rate * duration.mean
    return mean * float(np.sqrt((1 + duration.cov**2) / (rate * positive("window", window))))


def natural_span(profile: Any, least: float) -> float:
    """How long a profile must be looked at to have been seen whole, in seconds: its longest period or last point."""
    spans = [least]
    if (period := getattr(profile, "period", None)) is not None:
        spans.append(period)
    for name in ("points", "steps"):
        if knots := getattr(profile, name, None):
            spans.append(knots[-1][0] - (knots[0][0] if getattr(profile, "repeat", False) else 0.0))
    if (end := getattr(profile, "end", None)) is not None:
        spans.append(end)
    if (inner := getattr(profile, "profile", None)) is not None:
        spans.append(
            natural_span(inner, 0.0) / (getattr(profile, "factor", 1.0) if profile.kind == "compressed" else 1)
        )
    spans += [natural_span(part, 0.0) for part in getattr(profile, "parts", ())]
    return max(spans)


def check_start(start: str) -> None:
    """ValueError unless ``start`` is one of :data:`STARTS`."""
    if start not in STARTS:
        raise ValueError(f"start must be one of {STARTS}, not {start!r}")
