"""Interface of every distribution of times."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, ClassVar, Self, overload

import numpy as np
from numpy.typing import ArrayLike

from locust_realism.common.numerics import Floats
from locust_realism.common.validation import Check, integer, positive, refusal
from locust_realism.workload.distributions.streams import stream


@dataclass(frozen=True, repr=False)
class Distribution(ABC):
    """Distribution of non-negative times in seconds; subclasses are frozen dataclasses, compared by value.

    In the body of a Locust User or TaskSet class it is bound like a function: ``wait_time = exponential(12)`` is a
    complete think time, and each user draws from a stream of its own (module ``streams``). Anywhere else, call
    ``sample`` with a Generator. ``distribution(user)`` draws one value from the user's stream.
    """

    seed: int | None = field(default=None, kw_only=True)
    kind: ClassVar[str]
    _checks: ClassVar[Mapping[str, Check]] = {}

    if TYPE_CHECKING:  # fields or properties of the subclasses, which a class attribute here would shadow

        @property
        def mean(self) -> float: ...
        @property
        def cov(self) -> float: ...

    def __post_init__(self) -> None:
        """Check every setting: > 0 unless ``_checks`` has another rule."""
        for name, value in self._settings().items():
            if value is not None:
                self._store(name, {"seed": integer, **self._checks}.get(name, positive)(name, value))

    def _store(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _settings(self) -> dict[str, object]:
        """Return the fields in order, the seed last."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "seed"} | {"seed": self.seed}

    def sample(self, rng: np.random.Generator, size: int) -> Floats:
        """Return ``size`` independent draws in seconds, shape (size,)."""
        return self.ppf(rng.random(size))

    def cdf(self, x: ArrayLike) -> Floats:
        """Return P(X <= x) for x in seconds, any shape."""
        return self._cdf(np.asarray(x, dtype=np.float64))[()]

    def ppf(self, q: ArrayLike) -> Floats:
        """Return the quantile of q in [0, 1] in seconds, any shape: the inverse of ``cdf``."""
        shares = np.asarray(q, dtype=np.float64)
        outside = shares[~((shares >= 0) & (shares <= 1))]
        if outside.size:
            raise refusal("q", "in [0, 1]", float(outside.flat[0]))
        with np.errstate(divide="ignore"):
            return self._ppf(shares)[()]

    @abstractmethod
    def _cdf(self, x: Floats) -> Floats: ...

    @abstractmethod
    def _ppf(self, q: Floats) -> Floats: ...

    @abstractmethod
    def sample_length_biased(self, rng: np.random.Generator, size: int) -> Floats:
        """Sample the whole length of the time at a random instant: density x f(x) / mean, shape (size,)."""

    def sample_residual(self, rng: np.random.Generator, size: int) -> Floats:
        """Sample the residual life at a random instant: density (1 - F(x)) / mean, shape (size,).

        A random instant falls into a long time more often than into a short one, and anywhere in it. The mean is
        mean (1 + cov^2) / 2. Source: D. R. Cox, Renewal Theory, 1962, chapter 5.
        """
        return self.sample_length_biased(rng, size) * rng.random(size)

    def with_mean(self, mean: float) -> Distribution:
        """Return this distribution stretched to another mean: same shape, same CoV.

        >>> from locust_realism.workload.distributions import lognormal
        >>> longer = lognormal(300, cov=1.2).with_mean(600)
        >>> longer.mean, longer.cov, bool(longer.cdf(600) == lognormal(300, cov=1.2).cdf(300))
        (600.0, 1.2, True)
        """
        factor = positive("mean", mean) / self.mean
        return self if factor == 1 else Scaled(self, factor)

    def __set_name__(self, owner: type, name: str) -> None:
        self.__dict__.setdefault("_names", set()).add(name)

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type | None = None) -> Callable[[], float]: ...
    def __get__(self, instance: object, owner: type | None = None) -> Self | Callable[[], float]:
        if instance is None:
            return self
        draw = stream(instance, self)
        # Stored in the instance under the attribute's name: the next wait is one call and nothing else.
        for name in self.__dict__.get("_names", ()):
            if next((c.__dict__[name] for c in type(instance).__mro__ if name in c.__dict__), None) is self:
                instance.__dict__[name] = draw
        return draw

    def __call__(self, user: object = None) -> float:
        """Draw one time in seconds from the stream of ``user``, or of the process without one."""
        return stream(user, self)()

    def __repr__(self) -> str:
        shown = [f"{name}={value!r}" for name, value in self._settings().items() if value is not None]
        return f"{self.kind}({', '.join(shown)})"

    def to_dict(self) -> dict[str, object]:
        """Return plain data for JSON; ``distributions.distribution_from_dict`` reads it."""
        settings = self._settings().items()
        return {"kind": self.kind} | {k: list(v) if isinstance(v, tuple) else v for k, v in settings}


@dataclass(frozen=True, repr=False)
class Scaled(Distribution):
    """``factor`` > 0 times the times of another distribution, with its seed; see :meth:`Distribution.with_mean`."""

    times: Distribution
    factor: float
    kind: ClassVar[str] = "scaled"

    def __post_init__(self) -> None:
        self._store("factor", positive("factor", self.factor))
        self._store("seed", self.times.seed)

    @property
    def mean(self) -> float:
        return self.factor * self.times.mean

    @property
    def cov(self) -> float:
        return self.times.cov

    def sample(self, rng: np.random.Generator, size: int) -> Floats:
        return self.factor * self.times.sample(rng, size)

    def sample_length_biased(self, rng: np.random.Generator, size: int) -> Floats:
        return self.factor * self.times.sample_length_biased(rng, size)

    def _cdf(self, x: Floats) -> Floats:
        return self.times._cdf(x / self.factor)

    def _ppf(self, q: Floats) -> Floats:
        return self.factor * self.times._ppf(q)
