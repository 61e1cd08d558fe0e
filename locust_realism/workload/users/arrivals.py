"""Arrival times of a Poisson process whose rate follows a profile, by time rescaling, and the users who arrive.

With E_1, E_2, ... independent and exponential with mean 1, the n-th arrival is

    t_n = Lambda^-1(E_1 + ... + E_n)

which is exact for any profile. The common wait Exp(1/lambda(now)) is not: a long wait drawn at a low rate sleeps
through the peak. Source: L. Devroye, Non-Uniform Random Variate Generation, 1986, chapter VI.1.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from locust_realism.common.numerics import Floats
from locust_realism.common.validation import not_negative, number
from locust_realism.workload.rates.profile import RateProfile

_BATCH = 1024
_LARGEST_BATCH = 1 << 20


def arrival_times(profile: RateProfile, duration: float, rng: np.random.Generator, *, start: float = 0.0) -> Floats:
    """Sample the arrivals in [start, start + duration), ascending, shape (n,), seconds on the profile's axis.

    n is Poisson distributed with mean Lambda(start + duration) - Lambda(start). Raises ValueError for a negative
    duration or start.

    >>> from locust_realism.workload.rates.shapes import ConstantRate
    >>> times = arrival_times(ConstantRate(100), 60, np.random.default_rng(1))
    >>> len(times), bool((np.diff(times) > 0).all())
    (6012, True)
    """
    begin = not_negative("start", start)
    end = begin + not_negative("duration", duration)
    reached, limit = float(profile.cumulative(begin)), float(profile.cumulative(end))
    parts = [np.zeros(0)]
    while reached < limit:
        expected = limit - reached
        size = min(int(expected + 4 * math.sqrt(expected)) + 8, _LARGEST_BATCH)
        units = reached + np.cumsum(rng.standard_exponential(size))
        reached = float(units[-1])
        parts.append(profile.inverse(units[: np.searchsorted(units, limit)]))
    times = np.concatenate(parts)
    # An arrival that rounding puts on the edge belongs to the next window.
    return times[times < end]


class ArrivalStream:
    """Stream of the arrivals of a profile that may change.

    ``peek`` returns the time of the next arrival in seconds (inf if the rate stays 0), ``take`` returns it and moves
    on. ``change`` replaces the profile from an instant on. The next arrival keeps its residual hazard, so the whole
    stays an exact Poisson process with the rate in force at each instant: changes neither lose nor add arrivals, and
    arrivals due before keep their times. The share of one of W workers is the profile divided by W.

    >>> from locust_realism.workload.rates.shapes import ConstantRate
    >>> stream = ArrivalStream(ConstantRate(1), np.random.default_rng(7))
    >>> planned = stream.peek()
    >>> stream.change(ConstantRate(2), now=planned - 1)  # half of the remaining second remains
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

    def peek(self) -> float:
        """Return the time of the next arrival in seconds, inf if there is none."""
        if self._next >= len(self._times):
            # Batches grow from one: a stream that is dropped early has cost little.
            self._units = self._reached + np.cumsum(self._rng.standard_exponential(self._size))
            self._times = self._profile.inverse(self._units).tolist()
            self._reached = float(self._units[-1])
            self._size = min(2 * self._size, self._largest)
            self._next = 0
        return self._times[self._next]

    def take(self) -> float:
        """Return the next arrival and move on; an infinite one stays."""
        time = self.peek()
        if time < math.inf:
            self._next += 1
        return time

    def change(self, profile: RateProfile, now: float) -> None:
        """Follow ``profile`` from ``now`` (seconds on the axis of both profiles) on."""
        moment = number("now", now)
        self.peek()
        times, units = np.array(self._times[self._next :]), self._units[self._next :]
        before, after = float(self._profile.cumulative(moment)), float(profile.cumulative(moment))
        moved = units - before + after
        ahead = times > moment
        times[ahead] = profile.inverse(np.maximum(moved[ahead], 0.0))
        # Rounding must not make an arrival ahead due.
        self._times = np.where(ahead, np.maximum(times, moment), times).tolist()
        self._units = moved
        self._reached = self._reached - before + after
        self._next = 0
        self._profile = profile


class Entry(NamedTuple):
    """Planned start of one user: its time, the time of leaving (initial users only), and its person, if any."""

    due: float
    leaves_at: float | None = None
    person: int | None = None


def spread(residual: Floats, warm_up: float, rng: np.random.Generator) -> list[Entry]:
    """Return entries at random times of the warm-up, which leave a residual session after its end."""
    due = np.sort(rng.random(len(residual)) * warm_up)
    return [Entry(float(at), float(end)) for at, end in zip(due, residual + warm_up, strict=True)]


class OpenSchedule:
    """One process's ``share`` of Poisson arrivals from ``begin`` on, after the ``initial`` users.

    W schedules with share 1/W and independent generators together are the whole population. The rate may change.
    """

    def __init__(
        self,
        profile: RateProfile,
        share: float,
        rng: np.random.Generator,
        *,
        begin: float = 0.0,
        initial: list[Entry] | None = None,
    ) -> None:
        self._initial = (initial or [])[::-1]
        self._stream = ArrivalStream(profile.scale(share), rng, start=begin)

    def due(self) -> float:
        """Return the time of the next entry, inf if the rate stays 0."""
        arrival = self._stream.peek()
        return min(arrival, self._initial[-1].due) if self._initial else arrival

    def take(self) -> Entry:
        """Take the next entry, at ``due()``."""
        if self._initial and self._initial[-1].due <= self._stream.peek():
            return self._initial.pop()
        return Entry(self._stream.take())

    def change(self, profile: RateProfile, share: float, now: float) -> None:
        """Follow another profile or share from ``now`` on, with the residual hazard of the next arrival."""
        self._stream.change(profile.scale(share), now)
