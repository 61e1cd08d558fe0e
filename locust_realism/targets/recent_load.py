"""Costs that depend on the load of the last minutes: a cache that is warm or cold, a collector that has much to copy.

What a test under constant load never sees: at night the cache forgets, in the morning everything is slow; at noon the
collector pauses often, and long.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..workload.checks import number, positive


@dataclass(frozen=True)
class Cache:
    """Work takes up to ``cold`` times as long when little was asked for of late.

    The factor is 1 + (cold - 1) exp(-r / warm_rate), with r the recent rate a second (see :class:`RecentRate`, with
    ``memory`` seconds): ``cold`` after a long silence, near 1 at several times ``warm_rate``. Raises ValueError unless
    cold >= 1 and the others are > 0.

    >>> cache = Cache(cold=3, warm_rate=10, memory=30)
    >>> cache.factor(0.0), round(cache.factor(10.0), 3), round(cache.factor(50.0), 3)
    (3.0, 1.736, 1.013)
    """

    cold: float
    warm_rate: float
    memory: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "cold", number("cold", self.cold))
        if self.cold < 1:
            raise ValueError(f"cold must be >= 1, not {self.cold!r}")
        object.__setattr__(self, "warm_rate", positive("warm_rate", self.warm_rate))
        object.__setattr__(self, "memory", positive("memory", self.memory))

    def factor(self, rate: float) -> float:
        """How many times as long work takes at a recent ``rate`` a second."""
        return 1 + (self.cold - 1) * math.exp(-rate / self.warm_rate)


@dataclass(frozen=True)
class Collector:
    """After every ``every`` requests all stand still, ``seconds_each`` for each request of the last ``memory`` seconds.

    As a copying collector does: its pauses come with what was allocated, and their length with what still lives. At a
    rate of r a second the pauses take r memory seconds_each, r / every times a second. Raises ValueError for
    impossible settings.

    >>> Collector(every=500, seconds_each=0.0005, memory=20).pause(rate=50.0)
    0.5
    """

    every: int
    seconds_each: float
    memory: float

    def __post_init__(self) -> None:
        if isinstance(self.every, bool) or not isinstance(self.every, int) or self.every < 1:
            raise ValueError(f"every must be an integer >= 1, not {self.every!r}")
        object.__setattr__(self, "seconds_each", positive("seconds_each", self.seconds_each))
        object.__setattr__(self, "memory", positive("memory", self.memory))

    def pause(self, rate: float) -> float:
        """Length of a pause in seconds at a recent ``rate`` a second."""
        return self.seconds_each * self.memory * rate


class RecentRate:
    """Requests a second of late: each counts 1/memory when it comes, and fades by exp(-age/memory).

    >>> rate = RecentRate(memory=10)
    >>> for second in range(100):
    ...     rate.count(float(second))
    >>> round(rate.at(99.0), 2), round(rate.at(199.0), 5)
    (1.05, 5e-05)
    """

    def __init__(self, memory: float) -> None:
        self.memory = memory
        self._rate = self._since = 0.0

    def count(self, now: float) -> None:
        """A request comes."""
        self._rate = self.at(now) + 1 / self.memory
        self._since = now

    def at(self, now: float) -> float:
        """The recent rate a second; ``now`` does not go back."""
        return self._rate * math.exp(-(now - self._since) / self.memory)
