"""Expected and sampled number of concurrent users N(t) of a population that arrives, stays and leaves.

Arrivals at rate lambda(t) of people who stay a time S, whatever the others do, are the M(t)/G/infinity queue. N(t) is
Poisson distributed with the mean

    m(t) = E[ Lambda(t) - Lambda(t - S) ]          (all who came within one S before t are still here)

so N follows the rate with a lag, and for a constant rate m = lambda E[S] (Little's law) whatever the distribution of S.
Source: S. G. Eick, W. A. Massey, W. Whitt, The physics of the Mt/G/infinity queue, Operations Research 41, 1993.

A finite number of people who alternate between away (mean A) and in session (mean S) are each in session with
probability p = S / (A + S), independently, so N is binomial. Source: D. R. Cox, Renewal Theory, 1962, chapter 7.

Times are seconds, rates per second.
"""

from __future__ import annotations

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
    _check_start(start)
    times = np.asarray(t, dtype=np.float64)
    flat = times.ravel()
    stays = _quadrature(duration)
    begin = not_negative("warm_up", warm_up)

    def present(at: Floats, oldest: float) -> Floats:
        result = np.empty(len(at))
        for i, moment in enumerate(at):
            result[i] = profile.cumulative(moment) - np.mean(profile.cumulative(np.maximum(moment - stays, oldest)))
        return result

    if start == "empty":
        mean = present(np.maximum(flat, 0.0), 0.0)
    else:
        mean = present(np.maximum(flat, begin), -np.inf)
        if begin > 0:
            mean = mean * np.clip(flat / begin, 0.0, 1.0)
    return mean.reshape(times.shape)[()]


def sample_initial(
    profile: RateProfile, duration: Distribution, at: float, rng: np.random.Generator, share: float = 1.0
) -> Floats:
    """What is left of the sessions that are under way at the time ``at``, shape (N,), N Poisson with mean m(at).

    A session under way is a long one more often than a short one (its whole length is length-biased), the moment falls
    anywhere into it, and it began when the rate was lambda(at - age): the residual times are drawn from a pool of such
    pairs, each with the weight of the rate at its beginning. ``share`` thins the population, for one of W workers.
    """
    mean = float(expected_users(profile, duration, at)) * not_negative("share", share)
    count = int(rng.poisson(mean))
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
    _check_start(start)
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


@dataclass(frozen=True)
class FiniteSource:
    """``people`` who are away for ``away`` seconds on average and then in session for ``session`` seconds.

    >>> source = FiniteSource(people=400, away=900, session=300)
    >>> source.presence, source.mean, source.variance, round(source.arrival_rate, 3)
    (0.25, 100.0, 75.0, 0.333)
    """

    people: int
    away: float
    session: float

    def __post_init__(self) -> None:
        if isinstance(self.people, bool) or self.people != int(self.people) or self.people < 1:
            raise ValueError(f"people must be an integer >= 1, not {self.people!r}")
        positive("away", self.away)
        positive("session", self.session)

    @property
    def presence(self) -> float:
        """Probability p that a person is in session."""
        return self.session / (self.away + self.session)

    @property
    def mean(self) -> float:
        """Mean number in session, people p."""
        return self.people * self.presence

    @property
    def variance(self) -> float:
        """Variance of the number in session, people p (1 - p): less than that of a Poisson number."""
        return self.people * self.presence * (1 - self.presence)

    @property
    def arrival_rate(self) -> float:
        """Sessions that begin in a second."""
        return self.people / (self.away + self.session)

    def quantile(self, q: float) -> int:
        """The smallest n with P(N <= n) >= q."""
        from scipy import special

        counts = np.arange(self.people + 1)
        return int(np.searchsorted(special.bdtr(counts, self.people, self.presence), q))


def owners(people: ArrayLike, members: ArrayLike) -> NDArray[np.int64]:
    """The member that each person belongs to, by rendezvous hashing: the one with the highest hash of the pair.

    When a member comes or goes, only the people who move to it or from it move. ``people`` and ``members`` are integers
    >= 0; the result has the shape of ``people``. Source: D. G. Thaler and C. V. Ravishankar, Using name-based mappings
    to increase hit rates, IEEE/ACM Transactions on Networking 6, 1998. The hash is splitmix64 (G. L. Steele et al.,
    Fast splittable pseudorandom number generators, OOPSLA 2014).

    >>> before, after = owners(range(1000), [0, 1, 2]), owners(range(1000), [0, 2])
    >>> bool((before[before != 1] == after[before != 1]).all())
    True
    """
    persons = np.asarray(people, dtype=np.uint64)
    nodes = np.asarray(members, dtype=np.uint64)
    if len(nodes) == 0:
        raise ValueError("members must have at least 1 member, not 0")
    scores = _splitmix(_splitmix(persons)[..., np.newaxis] ^ _splitmix(~nodes))
    result: NDArray[np.int64] = nodes[np.argmax(scores, axis=-1)].astype(np.int64)
    return result


def _splitmix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    with np.errstate(over="ignore"):
        z = x + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


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


def _check_start(start: str) -> None:
    if start not in STARTS:
        raise ValueError(f"start must be one of {STARTS}, not {start!r}")
