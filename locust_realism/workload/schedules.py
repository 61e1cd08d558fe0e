"""Who comes when, in one process: entries of an open population, one after the other, whatever the clock does.

Times are seconds since the start of the run. Nothing here sleeps or reads a clock: the runtime asks for the time of the
next entry, waits for it, and takes the entry.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .arrivals import ArrivalStream
from .distribution import Distribution
from .populations import sample_initial
from .profile import RateProfile
from .solve import Floats


class Entry(NamedTuple):
    """One user to come: when, and for one of the start in equilibrium when it leaves; which person it is, if any."""

    due: float
    leaves_at: float | None = None
    person: int | None = None

    @property
    def initial(self) -> bool:
        """Whether the user belongs to the start in equilibrium."""
        return self.leaves_at is not None


def spread(residual: Floats, warm_up: float, rng: np.random.Generator) -> list[Entry]:
    """Users of a start in equilibrium: they enter at random times of the warm-up, with a residual session after it."""
    due = np.sort(rng.random(len(residual)) * warm_up)
    return [Entry(float(at), float(end)) for at, end in zip(due, residual + warm_up, strict=True)]


class OpenSchedule:
    """This process's share of Poisson arrivals with a rate that may change, after the users of the start.

    ``duration`` None (sessions that only a number of tasks ends) has no known equilibrium, so the start is empty. The
    streams of two processes must have independent generators; then W schedules with share 1/W together are the whole.
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

    @staticmethod
    def initial_entries(
        profile: RateProfile,
        duration: Distribution,
        share: float,
        warm_up: float,
        rng: np.random.Generator,
        mean: float | None = None,
    ) -> list[Entry]:
        """The users that are in session at the end of the warm-up, each entering at some moment of it.

        ``mean`` is their expected number, all processes together, where it is known already.
        """
        return spread(sample_initial(profile, duration, warm_up, rng, share, mean), warm_up, rng)

    def due(self) -> float:
        """When the next entry is due; infinity if the rate stays 0."""
        arrival = self._stream.peek()
        return min(arrival, self._initial[-1].due) if self._initial else arrival

    def take(self) -> Entry:
        """The next entry; raises ValueError if there is none."""
        if self._initial and self._initial[-1].due <= self._stream.peek():
            return self._initial.pop()
        due = self._stream.take()
        if math.isinf(due):
            raise ValueError("take() needs an entry that is due, and the rate stays 0")
        return Entry(due)

    def change(self, profile: RateProfile, share: float, now: float) -> None:
        """Follow another profile or share from ``now`` on; what is left of the next arrival's exponential is kept."""
        self._stream.change(profile.scale(share), now)
