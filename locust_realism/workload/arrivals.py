"""Arrival times of a Poisson process whose rate follows a profile, by time rescaling.

With E_1, E_2, ... independent and exponential with mean 1, the n-th arrival is

    t_n = Lambda^-1(E_1 + ... + E_n)

which is exact for any profile. Waiting Exp(1/lambda(now)) instead, as is often done, is not: a long wait drawn while
the rate is low sleeps through the peak. Source: L. Devroye, Non-Uniform Random Variate Generation, 1986, chapter VI.1.
"""

from __future__ import annotations

import math

import numpy as np

from .checks import not_negative, number
from .profile import RateProfile
from .solve import Floats

_BATCH = 1024
_LARGEST_BATCH = 1 << 20


def arrival_times(profile: RateProfile, duration: float, rng: np.random.Generator, *, start: float = 0.0) -> Floats:
    """Times of the arrivals in [start, start + duration), ascending, shape (n,), seconds on the profile's axis.

    n is Poisson distributed with mean Lambda(start + duration) - Lambda(start). Raises ValueError for a negative
    duration or start.

    >>> from locust_realism.workload.rates import ConstantRate
    >>> times = arrival_times(ConstantRate(100), 60, np.random.default_rng(1))
    >>> len(times), bool((np.diff(times) > 0).all())
    (6012, True)
    """
    begin = not_negative("start", start)
    end = begin + not_negative("duration", duration)
    base, limit = float(profile.cumulative(begin)), float(profile.cumulative(end))
    parts: list[Floats] = []
    reached = base
    while reached < limit:
        expected = limit - reached
        size = min(int(expected + 4 * math.sqrt(expected)) + 8, _LARGEST_BATCH)
        units = reached + np.cumsum(rng.standard_exponential(size))
        reached = float(units[-1])
        parts.append(profile.inverse(units[: np.searchsorted(units, limit)]))
    times = np.concatenate(parts) if parts else np.zeros(0)
    # Where rounding in the inverse would put the last one on the edge, it belongs to the next window.
    return times[times < end]


class ArrivalStream:
    """Arrivals one after the other, of a profile that may change while they are drawn.

    ``peek`` is the time of the next arrival in seconds (infinity where the rate stays 0), ``take`` returns it and
    moves on. ``change`` puts another profile in place from a moment on: the next arrival keeps what is left of its
    exponential (its residual hazard), so the whole remains an exact Poisson process with the rate that held at each
    moment, and no arrival is lost or made by changing however often. An arrival that was due before the change stays
    where it was planned. The share of one of W workers is the profile divided by W, so a change of W is one of rate.

    >>> from locust_realism.workload.rates import ConstantRate
    >>> stream = ArrivalStream(ConstantRate(1), np.random.default_rng(7))
    >>> planned = stream.peek()
    >>> stream.change(ConstantRate(2), now=planned - 1)  # half of the second that was left is left
    >>> round(stream.peek() - planned, 12)
    -0.5
    """

    def __init__(
        self, profile: RateProfile, rng: np.random.Generator, *, start: float = 0.0, largest_batch: int = _BATCH
    ) -> None:
        self._profile = profile
        self._rng = rng
        self._units = np.zeros(0)  # Lambda at each arrival of the batch
        self._times: list[float] = []  # the same arrivals in seconds
        self._next = 0
        self._reached = float(profile.cumulative(number("start", start)))
        self._size = 1
        self._largest = largest_batch

    @property
    def profile(self) -> RateProfile:
        """The profile that is in force."""
        return self._profile

    def peek(self) -> float:
        """Time of the next arrival in seconds, infinity where there is none."""
        if self._next >= len(self._times):
            self._draw()
        return self._times[self._next]

    def take(self) -> float:
        """The next arrival; the one after it is then the next. An infinite one is not used up."""
        time = self.peek()
        if time < math.inf:
            self._next += 1
        return time

    def _draw(self) -> None:
        # Batches grow from one, so that a stream that is dropped early has cost little.
        self._units = self._reached + np.cumsum(self._rng.standard_exponential(self._size))
        self._times = self._profile.inverse(self._units).tolist()
        self._reached = float(self._units[-1])
        self._size = min(2 * self._size, self._largest)
        self._next = 0

    def change(self, profile: RateProfile, now: float) -> None:
        """Follow ``profile`` from ``now`` (seconds on the axis of both profiles) on."""
        moment = number("now", now)
        self.peek()
        times, units = np.array(self._times[self._next :]), self._units[self._next :]
        before, after = float(self._profile.cumulative(moment)), float(profile.cumulative(moment))
        moved = units - before + after
        ahead = times > moment
        times[ahead] = profile.inverse(np.maximum(moved[ahead], 0.0))
        # Rounding may not turn an arrival that lies ahead into one that is due.
        self._times = np.where(ahead, np.maximum(times, moment), times).tolist()
        self._units = moved
        self._reached = self._reached - before + after
        self._next = 0
        self._profile = profile
