"""Random streams of draws: one for each user slot and distribution, drawn in batches.

A scalar draw from a numpy Generator costs seven times ``random.expovariate``; one out of a batch costs less than it.
The edge to Locust installs a source of streams with :func:`use_source`, seeded at the start of a test from (seed,
worker index, slot). No stream is global, so neither two users nor forked processes share one. Without a source, a
distribution without a seed draws from fresh entropy for each user; one with ``seed=`` numbers the users of the process
in the order of their first waits.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

_FIRST_BATCH = 8
_LARGEST_BATCH = 256

Draw = Callable[[], float]


class Sampled(Protocol):
    """Anything hashable to draw times from: a distribution, as far as streams use it."""

    @property
    def seed(self) -> int | None: ...
    def sample(self, rng: np.random.Generator, size: int, /) -> NDArray[np.float64]: ...


Source = Callable[[object, Sampled], Draw]


def spawn(seed: int, *key: int) -> np.random.Generator:
    """Return the Generator of a stream: equal for equal seed and key, else independent (numpy's SeedSequence).

    >>> spawn(1, 0, 3).random() == spawn(1, 0, 3).random(), spawn(1, 0, 3).random() == spawn(1, 0, 4).random()
    (True, False)
    """
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


def name_key(text: str) -> int:
    """Return a number for a name in a spawn key, the same in every process.

    >>> name_key("exponential(mean=12.0)")
    1673389792
    """
    return zlib.crc32(text.encode())


def batched_draws(distribution: Sampled, rng: np.random.Generator) -> Draw:
    """Return a function whose calls yield the draws of ``distribution.sample`` in order, as Python floats.

    Batches grow from 8 to 256, so that a short-lived user wastes few draws; the sequence depends on ``rng`` only.
    """

    def batches() -> Iterator[list[float]]:
        size = _FIRST_BATCH
        while True:
            yield distribution.sample(rng, size).tolist()
            size = min(2 * size, _LARGEST_BATCH)

    draw: Draw = chain.from_iterable(batches()).__next__
    return draw


class UserStreams:
    """Default source: stores the streams in the user that they belong to."""

    _KEY = "_realism_streams"

    def __init__(self) -> None:
        self._users_seen: Counter[Sampled] = Counter()
        self._without_user: dict[Sampled, Draw] = {}

    def __call__(self, user: object, distribution: Sampled) -> Draw:
        draws: dict[Sampled, Draw] = self._without_user if user is None else user.__dict__.setdefault(self._KEY, {})
        if distribution not in draws:
            draws[distribution] = batched_draws(distribution, self._generator(user, distribution))
        return draws[distribution]

    def _generator(self, user: object, distribution: Sampled) -> np.random.Generator:
        if distribution.seed is None:
            return np.random.default_rng()
        number = self._users_seen[distribution]
        self._users_seen[distribution] += 1
        runner = getattr(getattr(user, "environment", None), "runner", None)
        worker = max(0, getattr(runner, "worker_index", 0))
        return spawn(distribution.seed, worker, number, name_key(repr(distribution)))


_source: Source = UserStreams()


def use_source(source: Source | None) -> None:
    """Install a source of streams for every distribution of the process; None restores the default."""
    global _source
    _source = UserStreams() if source is None else source


def stream(owner: object, distribution: Sampled) -> Draw:
    """Return the draws of a distribution for a user, for the user of a TaskSet, or for the process (None)."""
    # A user has an environment, a TaskSet has a user; a user may have a ``user`` too, such as its login.
    user = owner if hasattr(owner, "environment") else getattr(owner, "user", owner)
    return _source(user, distribution)
