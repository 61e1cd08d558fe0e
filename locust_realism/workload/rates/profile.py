"""Arrival-rate profiles: their interface, and the ways to combine them.

A profile is a rate lambda(t) >= 0 per second, t in seconds from the start of the run, with its integral

    Lambda(t) = integral of lambda(s) ds from 0 to t          (expected arrivals until t)

and its inverse. The times t_i are arrivals of a Poisson process with rate lambda(t) exactly if the values Lambda(t_i)
are those of a Poisson process with rate 1: the inverse yields launch times without approximation. Sources: E. Cinlar,
Introduction to Stochastic Processes, 1975, chapter 4.7; D. Vere-Jones and D. Daley, An Introduction to the Theory of
Point Processes, 2003, section 7.4.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from locust_realism.common.numerics import Floats, invert_increasing
from locust_realism.common.validation import Check, not_negative, positive, refusal


@dataclass(frozen=True)
class RateProfile(ABC):
    """Rate of arrivals over time; the symbols are those of the module.

    Subclasses are frozen dataclasses. Profiles can be added (``p + q``, ``sum([p, q])``) and multiplied by a number
    (``2 * p``, ``p / 3``), played faster (``compressed``) and started later in the profile (``shifted``).
    """

    kind: ClassVar[str]
    _checks: ClassVar[Mapping[str, Check]] = {}

    def __post_init__(self) -> None:
        """Store each setting as its check returns it."""
        for name, check in self._checks.items():
            object.__setattr__(self, name, check(name, getattr(self, name)))

    @property
    def span(self) -> float:
        """Seconds after which the profile repeats or stays constant; 0 for a constant rate."""
        return 0.0

    def rate(self, t: ArrayLike) -> Floats:
        """Return lambda(t) per second at the times t (seconds, any shape)."""
        return self._rate(np.asarray(t, dtype=np.float64))[()]

    def cumulative(self, t: ArrayLike) -> Floats:
        """Return Lambda(t), the expected arrivals from 0 to t (seconds, any shape); negative for t < 0."""
        return self._cumulative(np.asarray(t, dtype=np.float64))[()]

    def inverse(self, u: ArrayLike) -> Floats:
        """Return the first t >= 0 at which Lambda(t) reaches u (u >= 0, any shape); inf if it never does.

        Raises ValueError for a negative or undefined u.
        """
        units = np.asarray(u, dtype=np.float64)
        if not np.all(units >= 0):
            raise refusal("u", ">= 0", float(np.min(units)))
        return self._inverse(np.atleast_1d(units).ravel()).reshape(units.shape)[()]

    @abstractmethod
    def _rate(self, t: Floats) -> Floats: ...

    @abstractmethod
    def _cumulative(self, t: Floats) -> Floats: ...

    @abstractmethod
    def _inverse(self, u: Floats) -> Floats:
        """Return ``inverse`` for an array of shape (n,)."""

    def scale(self, factor: float) -> RateProfile:
        """Return this profile with every rate times ``factor`` >= 0, such as 1/W for one of W workers."""
        return ScaledRate(self, factor) if factor != 1 else self

    def compressed(self, factor: float) -> RateProfile:
        """Return this profile played ``factor`` times as fast: ``compressed(24)`` plays a day in an hour.

        The rates stay the same, as they are the load on the system, so there are ``factor`` times fewer arrivals.
        """
        return CompressedRate(self, factor) if factor != 1 else self

    def shifted(self, start: float) -> RateProfile:
        """Return this profile from its time ``start`` >= 0 on: ``shifted(14 * 3600)`` starts a day at 14:00."""
        return ShiftedRate(self, start) if start != 0 else self

    def mean_rate(self, duration: float, start: float = 0.0) -> float:
        """Return the average rate per second from ``start`` to ``start + duration``."""
        seconds = positive("duration", duration)
        return float(self.cumulative(start + seconds) - self.cumulative(start)) / seconds

    def __add__(self, other: object) -> RateProfile:
        if other == 0:  # the start value of the builtin sum()
            return self
        return SumRate((self, other)) if isinstance(other, RateProfile) else NotImplemented

    __radd__ = __add__

    __mul__ = __rmul__ = scale

    def __truediv__(self, divisor: float) -> RateProfile:
        return self.scale(1 / positive("divisor", divisor))

    def to_dict(self) -> dict[str, object]:
        """Return plain data for JSON or msgpack; ``shapes.rate_profile_from_dict`` reads it."""

        def plain(value: object) -> object:
            if isinstance(value, RateProfile):
                return value.to_dict()
            return [plain(item) for item in value] if isinstance(value, tuple) else value

        return {"kind": self.kind, **{f.name: plain(getattr(self, f.name)) for f in fields(self)}}


@dataclass(frozen=True)
class _Changed(RateProfile):
    """Base of profiles that change one other: a lambda(c t + s), (a/c) (Lambda(c t + s) - Lambda(s))."""

    profile: RateProfile

    @abstractmethod
    def _terms(self) -> tuple[float, float, float]:
        """Return the factor a, the speed c and the start s."""

    @property
    def span(self) -> float:
        return self.profile.span / self._terms()[1]

    @cached_property
    def _skipped(self) -> Floats:
        return self.profile.cumulative(self._terms()[2])

    def _rate(self, t: Floats) -> Floats:
        factor, speed, start = self._terms()
        return factor * self.profile._rate(speed * t + start)

    def _cumulative(self, t: Floats) -> Floats:
        factor, speed, start = self._terms()
        return factor * (self.profile._cumulative(speed * t + start) - self._skipped) / speed

    def _inverse(self, u: Floats) -> Floats:
        factor, speed, start = self._terms()
        if factor == 0:
            return np.where(u > 0, np.inf, 0.0)
        # With a rate of 0 at the start, the first time that reaches u = 0 may lie before it.
        return np.maximum(self.profile._inverse(speed * u / factor + self._skipped) - start, 0.0) / speed


@dataclass(frozen=True)
class ScaledRate(_Changed):
    """Multiple of a profile: ``factor`` times its rate."""

    factor: float
    kind: ClassVar[str] = "scaled"
    _checks: ClassVar[Mapping[str, Check]] = {"factor": not_negative}

    def _terms(self) -> tuple[float, float, float]:
        return self.factor, 1.0, 0.0


@dataclass(frozen=True)
class CompressedRate(_Changed):
    """Profile played ``factor`` times as fast: lambda(factor t), Lambda(factor t) / factor."""

    factor: float
    kind: ClassVar[str] = "compressed"
    _checks: ClassVar[Mapping[str, Check]] = {"factor": positive}

    def _terms(self) -> tuple[float, float, float]:
        return 1.0, self.factor, 0.0


@dataclass(frozen=True)
class ShiftedRate(_Changed):
    """Profile from its time ``start`` on: lambda(start + t), Lambda(start + t) - Lambda(start)."""

    start: float
    kind: ClassVar[str] = "shifted"
    _checks: ClassVar[Mapping[str, Check]] = {"start": not_negative}

    def _terms(self) -> tuple[float, float, float]:
        return 1.0, 1.0, self.start


@dataclass(frozen=True)
class SumRate(RateProfile):
    """Sum of profiles: the superposition of independent streams of arrivals."""

    parts: tuple[RateProfile, ...]
    kind: ClassVar[str] = "sum"

    def __post_init__(self) -> None:
        parts: list[RateProfile] = []
        for part in self.parts:
            if not isinstance(part, RateProfile):
                raise refusal("parts", "rate profiles", part)
            parts += part.parts if isinstance(part, SumRate) else [part]
        if not parts:
            raise ValueError("parts must have at least one profile, not 0")
        object.__setattr__(self, "parts", tuple(parts))

    @property
    def span(self) -> float:
        return max(part.span for part in self.parts)

    def _rate(self, t: Floats) -> Floats:
        return sum((part._rate(t) for part in self.parts), np.zeros(t.shape))

    def _cumulative(self, t: Floats) -> Floats:
        return sum((part._cumulative(t) for part in self.parts), np.zeros(t.shape))

    def _inverse(self, u: Floats) -> Floats:
        # Bracket: of n summands with the sum u, at least one has reached u/n and none is past u.
        low = np.min([part._inverse(u / len(self.parts)) for part in self.parts], axis=0)
        high = np.min([part._inverse(u) for part in self.parts], axis=0)
        reached = np.isfinite(low)
        # A sum may reach u although no summand ever does: double the bracket.
        high = np.where(np.isfinite(high), high, 2 * low + 1)
        for _ in range(60):
            short = reached & (self._cumulative(np.where(reached, high, 0.0)) < u)
            if not np.any(short):
                break
            high = np.where(short, 2 * high + 1, high)
        else:
            reached &= ~short
        result = np.full(len(u), np.inf)
        result[reached] = invert_increasing(self._cumulative, self._rate, u[reached], low[reached], high[reached])
        return result
