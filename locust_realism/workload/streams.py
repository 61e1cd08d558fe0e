"""Random streams of draws: one for each user slot and distribution, drawn in batches.

A scalar draw from a numpy Generator costs seven times ``random.expovariate``; one out of a batch costs less than it.
Which Generator a user gets is decided by a source that the edge to Locust puts in place with :func:`use_source`, seeded
when a test starts from (seed, worker index, slot); there is no global stream, so nothing is shared by two users or by
forked processes. Without a source, a distribution without a seed draws from fresh entropy for each user, and one with
``seed=`` numbers the users of the process in the order in which they first wait.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from .distributions import Distribution

_FIRST_BATCH = 8
_LARGEST_BATCH = 256

Draw = Callable[[], float]
Source = Callable[[Any, "Distribution"], Draw]


def spawn(seed: int, *key: int) -> np.random.Generator:
    """The Generator of a stream: equal for equal seed and key, independent for different ones (numpy's SeedSequence).

    >>> spawn(1, 0, 3).random() == spawn(1, 0, 3).random(), spawn(1, 0, 3).random() == spawn(1, 0, 4).random()
    (True, False)
    """
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


def name_key(text: str) -> int:
    """A number that stands for a name in a spawn key, the same in every process.

    >>> name_key("exponential(mean=12.0)")
    1673389792
    """
    return zlib.crc32(text.encode())


def batched_draws(distribution: Distribution, rng: np.random.Generator) -> Draw:
    """A function whose calls give the draws of ``distribution.sample`` one after the other, as Python floats.

    Batches grow from 8 to 256, so that a short-lived user wastes little; the sequence depends on nothing but ``rng``.
    """

    def batches() -> Iterator[list[float]]:
        size = _FIRST_BATCH
        while True:
            yield distribution.sample(rng, size).tolist()
            size = min(2 * size, _LARGEST_BATCH)

    draw: Draw = chain.from_iterable(batches()).__next__
    return draw


class UserStreams:
    """The source for want of another: streams are kept with the user that they belong to."""

    _KEPT = "_realism_streams"

    def __init__(self) -> None:
        self._users_seen: dict[Distribution, int] = {}
        self._without_user: dict[Distribution, Draw] = {}

    def __call__(self, user: Any, distribution: Distribution) -> Draw:
        kept = self._without_user if user is None else user.__dict__.setdefault(self._KEPT, {})
        draw: Draw | None = kept.get(distribution)
        if draw is None:
            draw = kept[distribution] = batched_draws(distribution, self._generator(user, distribution))
        return draw

    def _generator(self, user: Any, distribution: Distribution) -> np.random.Generator:
        if distribution.seed is None:
            return np.random.default_rng()
        number = self._users_seen.get(distribution, 0)
        self._users_seen[distribution] = number + 1
        runner = getattr(getattr(user, "environment", None), "runner", None)
        worker = max(0, getattr(runner, "worker_index", 0))
        return spawn(distribution.seed, worker, number, name_key(repr(distribution)))


_source: Source = UserStreams()


def use_source(source: Source | None) -> None:
    """Put a source of streams in place, for every distribution of the process; None brings back the one at first."""
    global _source
    _source = UserStreams() if source is None else source


def stream(owner: Any, distribution: Distribution) -> Draw:
    """The draws of a distribution for a user, a TaskSet of a user, or None for nobody in particular."""
    # A user has an environment; a TaskSet has a user. A user may well have a ``user`` too: its login, for example.
    user = owner if hasattr(owner, "environment") else getattr(owner, "user", owner)
    return _source(user, distribution)
