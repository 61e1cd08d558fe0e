"""Number of concurrent users N(t) of open and finite populations; times in seconds, rates per second.

Open: independent arrivals at rate lambda(t), each for a session S, are the M(t)/G/infinity queue. N(t) is Poisson with

    m(t) = E[ Lambda(t) - Lambda(t - S) ]          (arrivals within one S before t)

so N follows the rate with a lag, and for a constant rate m = lambda E[S] (Little's law) for any distribution of S.
Source: S. G. Eick, W. A. Massey, W. Whitt, The physics of the Mt/G/infinity queue, Operations Research 41, 1993.

Finite: a fixed number of people alternate between away (mean A) and in session (mean S), independently. Each is in
session with probability p = S / (A + S) for any distributions: N is binomial. Source: D. R. Cox, Renewal Theory, 1962,
chapter 7.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from locust_realism.common.numerics import Floats
from locust_realism.common.validation import not_negative, one_of
from locust_realism.workload.distributions.base import Distribution
from locust_realism.workload.rates.profile import RateProfile

Start = Literal["equilibrium", "empty"]
STARTS: tuple[Start, ...] = ("equilibrium", "empty")

_QUADRATURE = 4096
_POOL = 1 << 16


def _quadrature(duration: Distribution) -> Floats:
    """Return 4096 equally likely session times with the exact mean: midpoints of quantiles, the last with the tail."""
    times = np.asarray(duration.ppf((np.arange(_QUADRATURE) + 0.5) / _QUADRATURE), dtype=np.float64)
    rest = duration.mean * _QUADRATURE - float(times[:-1].sum())
    if rest >= times[-2]:
        times[-1] = rest
        return times
    return times * (duration.mean / float(times.mean()))


@dataclass(frozen=True)
class Stretch:
    """Settings of an open population from ``begin`` (seconds) on: arrivals by ``profile``, sessions of ``duration``."""

    begin: float
    profile: RateProfile
    duration: Distribution


def expected_users_of(stretches: Sequence[Stretch], t: ArrayLike, warm_up: float = 0.0) -> Floats:
    """Return the mean number in session at the times ``t`` of a population with changes of its settings.

    A stretch ends where the next begins; its arrivals keep their session times beyond that:
    m(t) = sum over stretches [a, b) of E[ Lambda(min(t, b)) - Lambda(max(a, t - S)) ], where that is positive.
    If the first stretch begins at -inf, N rises in a straight line until ``warm_up``.
    """
    times = np.asarray(t, dtype=np.float64)
    if stretches[0].begin > -np.inf or warm_up <= 0:
        rising = np.ones(times.shape)
    else:
        rising, times = np.clip(times / warm_up, 0.0, 1.0), np.maximum(times, warm_up)
    flat = times.ravel()
    total = np.zeros(len(flat))
    ends = [stretch.begin for stretch in stretches[1:]] + [np.inf]
    for stretch, end in zip(stretches, ends, strict=True):
        stays = _quadrature(stretch.duration)
        for i, instant in enumerate(flat):
            last = min(instant, end)
            if last > stretch.begin:
                first = np.clip(instant - stays, stretch.begin, last)
                total[i] += float(np.mean(stretch.profile.cumulative(last) - stretch.profile.cumulative(first)))
    return (total.reshape(times.shape) * rising)[()]


def expected_users(
    profile: RateProfile,
    duration: Distribution,
    t: ArrayLike,
    *,
    start: Start = "equilibrium",
    warm_up: float = 0.0,
) -> Floats:
    """Return the mean number of users in session at the times ``t`` (seconds, any shape) after the start.

    ``start="empty"`` begins without users. ``"equilibrium"`` has the steady-state users at the end of the warm-up; they
    enter evenly during it, so N rises in a straight line.

    >>> from locust_realism.workload.distributions import exponential
    >>> from locust_realism.workload.rates.shapes import ConstantRate
    >>> expected_users(ConstantRate(2), exponential(30), [0, 100]).round(6).tolist()
    [60.0, 60.0]
    >>> expected_users(ConstantRate(2), exponential(30), [0, 30], start="empty").round(2).tolist()
    [0.0, 37.93]
    """
    one_of("start", start, STARTS)
    stretch = Stretch(0.0 if start == "empty" else -np.inf, profile, duration)
    return expected_users_of([stretch], t, not_negative("warm_up", warm_up))


def sample_initial(
    profile: RateProfile,
    duration: Distribution,
    at: float,
    rng: np.random.Generator,
    share: float = 1.0,
    mean: float | None = None,
) -> Floats:
    """Sample the residual times of the sessions at the time ``at``, shape (N,), N Poisson with mean m(at).

    The whole length of such a session is length-biased, its age a uniform share of that, and its weight the rate
    lambda(at - age) at its beginning: the residual times are drawn from a pool of such pairs. ``share`` thins the
    population, for one of W workers; ``mean`` is m(at) if known already.
    """
    whole_mean = float(expected_users(profile, duration, at)) if mean is None else not_negative("mean", mean)
    count = int(rng.poisson(whole_mean * not_negative("share", share)))
    if count == 0:
        return np.zeros(0)
    size = max(_POOL, 4 * count)
    whole, part = duration.sample_length_biased(rng, size), rng.random(size)
    weight = profile.rate(at - whole * (1 - part))
    total = float(weight.sum())
    if total == 0:
        return np.zeros(0)
    return np.asarray((whole * part)[rng.choice(size, size=count, p=weight / total)])


def poisson_quantile(q: float, mean: ArrayLike) -> NDArray[np.int64]:
    """Return the smallest n with P(N <= n) >= q for N Poisson with each ``mean``.

    >>> poisson_quantile(0.999, [0, 240]).tolist()
    [0, 289]
    """
    from scipy import special

    means = np.asarray(mean, dtype=np.float64)
    guess = np.ceil(special.pdtrik(q, np.maximum(means, 1e-12)))
    guess = np.where(means <= 0, 0, np.nan_to_num(guess))
    # The inverse is a float near an integer: step to the smallest integer that satisfies the condition.
    guess = np.where((guess > 0) & (special.pdtr(guess - 1, means) >= q), guess - 1, guess)
    guess = np.where(special.pdtr(guess, means) < q, guess + 1, guess)
    return guess.astype(np.int64)


def poisson_band(mean: ArrayLike, share: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the limits that a Poisson number with this mean keeps with probability ``share``."""
    return poisson_quantile((1 - share) / 2, mean), poisson_quantile((1 + share) / 2, mean)


@dataclass(frozen=True)
class FiniteSource:
    """Finite source: ``people`` with mean times of ``away`` and ``session`` seconds, in turn.

    >>> source = FiniteSource(people=400, away=900, session=300)
    >>> source.presence, source.mean, source.variance, round(source.arrival_rate, 3)
    (0.25, 100.0, 75.0, 0.333)
    """

    people: int
    away: float
    session: float

    @property
    def presence(self) -> float:
        """Probability p that a person is in session."""
        return self.session / (self.away + self.session)

    @property
    def mean(self) -> float:
        """Mean number in session: people p."""
        return self.people * self.presence

    @property
    def variance(self) -> float:
        """Variance of the number in session: people p (1 - p), less than that of a Poisson number."""
        return self.people * self.presence * (1 - self.presence)

    @property
    def arrival_rate(self) -> float:
        """Beginnings of sessions per second."""
        return self.people / (self.away + self.session)

    def quantile(self, q: float) -> int:
        """Return the smallest n with P(N <= n) >= q."""
        from scipy import special

        counts = np.arange(self.people + 1)
        return int(np.searchsorted(special.bdtr(counts, self.people, self.presence), q))


def owners(people: ArrayLike, members: ArrayLike) -> NDArray[np.int64]:
    """Return the member that owns each person, by rendezvous hashing: the one with the highest hash of the pair.

    A member that joins or leaves moves its own people only. ``people`` and ``members`` are integers >= 0; the result
    has the shape of ``people``. Source: D. G. Thaler and C. V. Ravishankar, Using name-based mappings to increase hit
    rates, IEEE/ACM Transactions on Networking 6, 1998. The hash is splitmix64 (G. L. Steele et al., Fast splittable
    pseudorandom number generators, OOPSLA 2014).

    >>> before, after = owners(range(1000), [0, 1, 2]), owners(range(1000), [0, 2])
    >>> bool((before[before != 1] == after[before != 1]).all())
    True
    """
    persons, nodes = np.asarray(people, dtype=np.uint64), np.asarray(members, dtype=np.uint64)
    if len(nodes) == 0:
        raise ValueError("members must have at least 1 member, not 0")
    scores = _splitmix(_splitmix(persons)[..., np.newaxis] ^ _splitmix(~nodes))
    return np.asarray(nodes[np.argmax(scores, axis=-1)], dtype=np.int64)


def _splitmix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    with np.errstate(over="ignore"):
        z = x + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))
