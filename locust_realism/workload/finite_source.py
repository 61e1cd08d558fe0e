"""A fixed number of people who alternate between away and in session, and which worker each of them belongs to.

Each person is in session with probability p = S / (A + S), independently, A and S the mean times away and in session,
whatever their distributions: N is binomial. Source: D. R. Cox, Renewal Theory, 1962, chapter 7.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .checks import positive


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
