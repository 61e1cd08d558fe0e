"""What every distribution of times offers, whatever its family."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import fields
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from .solve import Floats
from .streams import stream


class Distribution(ABC):
    """A distribution of non-negative times in seconds; subclasses are frozen dataclasses, compared by value.

    In the body of a Locust User (or TaskSet) class it is bound like a function, so ``wait_time = exponential(12)`` is
    all that a think time needs: each user then draws from a stream of its own (see ``streams``). Anywhere else use
    ``sample`` with a Generator of your own; ``distribution(user)`` draws one value from the user's stream.
    """

    kind: ClassVar[str]

    if TYPE_CHECKING:  # fields or properties of the subclasses, which a class attribute here would shadow

        @property
        def mean(self) -> float: ...
        @property
        def cov(self) -> float: ...
        @property
        def seed(self) -> int | None: ...

    def sample(self, rng: np.random.Generator, size: int) -> Floats:
        """``size`` independent draws in seconds, shape (size,)."""
        return self.ppf(rng.random(size))

    def cdf(self, x: ArrayLike) -> Floats:
        """P(X <= x) for x in seconds, any shape."""
        return self._cdf(np.asarray(x, dtype=np.float64))[()]

    def ppf(self, q: ArrayLike) -> Floats:
        """The quantile of q in [0, 1] in seconds, any shape: the inverse of ``cdf``."""
        shares = np.asarray(q, dtype=np.float64)
        if not np.all((shares >= 0) & (shares <= 1)):
            raise ValueError(f"q must be in [0, 1], not {shares[~((shares >= 0) & (shares <= 1))].flat[0]!r}")
        with np.errstate(divide="ignore"):
            return self._ppf(shares)[()]

    @abstractmethod
    def _cdf(self, x: Floats) -> Floats: ...

    @abstractmethod
    def _ppf(self, q: Floats) -> Floats: ...

    @abstractmethod
    def sample_length_biased(self, rng: np.random.Generator, size: int) -> Floats:
        """Draws with density x f(x) / mean, shape (size,): the whole length of what is under way at a random moment."""

    def sample_residual(self, rng: np.random.Generator, size: int) -> Floats:
        """What is left, at a random moment, of what is under way: density (1 - F(x)) / mean, shape (size,).

        A random moment falls into a long time more often than into a short one, and anywhere in it. Its mean is
        mean (1 + cov^2) / 2. Source: D. R. Cox, Renewal Theory, 1962, chapter 5.
        """
        return self.sample_length_biased(rng, size) * rng.random(size)

    @property
    def sdev(self) -> float:
        """Standard deviation in seconds."""
        return self.mean * self.cov

    def __set_name__(self, owner: type, name: str) -> None:
        self.__dict__.setdefault("_names", set()).add(name)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        draw = stream(instance, self)
        # Kept in the instance under the attribute's name, so that the next wait is one call and nothing else.
        for name in self.__dict__.get("_names", ()):
            if next((c.__dict__[name] for c in type(instance).__mro__ if name in c.__dict__), None) is self:
                instance.__dict__[name] = draw
        return draw

    def __call__(self, user: Any = None) -> float:
        """One draw in seconds, from the stream of the user (or, without one, of the process)."""
        return stream(user, self)()

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{f.name}={getattr(self, f.name)!r}"
            for f in fields(self)  # type: ignore[arg-type]
            if f.repr and getattr(self, f.name) is not None
        )
        return f"{self.kind}({shown})"

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; ``distributions.distribution_from_dict`` makes it a distribution again."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]
        return {"kind": self.kind} | {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}


def checked_seed(seed: Any) -> int | None:
    """The seed as it is, else ValueError."""
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int) or seed < 0):
        raise ValueError(f"seed must be an integer >= 0, not {seed!r}")
    return seed


def describe(distribution: Distribution) -> str:
    """The mean and CoV as a user of Locust reads them.

    >>> from locust_realism.workload.distributions import uniform
    >>> describe(uniform(5, 15))
    'uniform(minimum=5.0, maximum=15.0): mean 10 s, CoV 0.289'
    """
    cov = f"{distribution.cov:.3g}" if math.isfinite(distribution.cov) else "infinite"
    return f"{distribution!r}: mean {distribution.mean:.4g} s, CoV {cov}"
