"""What every arrival-rate profile offers, and the ways to combine profiles.

A profile is a rate lambda(t) >= 0 per second, t in seconds from the start of the run, with its integral

    Lambda(t) = integral of lambda(s) ds from 0 to t          (expected arrivals until t)

and the inverse of that. Arrivals at t_i of a Poisson process with rate lambda(t) have Lambda(t_i) that form a Poisson
process with rate 1, and the other way round; so launch times come from the inverse with no approximation. Source:
E. Cinlar, Introduction to Stochastic Processes, 1975, chapter 4.7; D. Vere-Jones and D. Daley, An Introduction to the
Theory of Point Processes, 2003, section 7.4.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from .checks import not_negative, positive
from .solve import Floats, invert_increasing


@dataclass(frozen=True)
class RateProfile(ABC):
    """A rate of arrivals over time; see the module's text for the symbols.

    Subclasses are frozen dataclasses. Profiles can be added (``p + q``, ``sum([p, q])``) and multiplied by a number
    (``2 * p``, ``p / 3``), played faster (``compressed``) and started later in the profile (``shifted``).
    """

    kind: ClassVar[str]

    def rate(self, t: ArrayLike) -> Floats:
        """lambda(t) per second at the times t (seconds, any shape)."""
        return self._rate(np.asarray(t, dtype=np.float64))[()]

    def cumulative(self, t: ArrayLike) -> Floats:
        """Lambda(t), the expected number of arrivals from 0 to t (seconds, any shape; negative for t < 0)."""
        return self._cumulative(np.asarray(t, dtype=np.float64))[()]

    def inverse(self, u: ArrayLike) -> Floats:
        """The first t >= 0 at which Lambda(t) reaches u (u >= 0, any shape); infinity where it never does.

        Raises ValueError for a negative or undefined u.
        """
        units = np.asarray(u, dtype=np.float64)
        if not np.all(units >= 0):
            raise ValueError(f"u must be >= 0, not {float(np.min(units))!r}")
        return self._inverse(np.atleast_1d(units).ravel()).reshape(units.shape)[()]

    @abstractmethod
    def _rate(self, t: Floats) -> Floats: ...

    @abstractmethod
    def _cumulative(self, t: Floats) -> Floats: ...

    @abstractmethod
    def _inverse(self, u: Floats) -> Floats:
        """As ``inverse``, for an array of shape (n,)."""

    def scale(self, factor: float) -> RateProfile:
        """This profile with every rate times ``factor`` >= 0, for example 1/W for one of W workers."""
        return ScaledRate(self, factor) if factor != 1 else self

    def compressed(self, factor: float) -> RateProfile:
        """This profile played ``factor`` times as fast: ``compressed(24)`` plays a day in an hour.

        The rates stay as they are (they are what the system has to bear), so there are ``factor`` times fewer arrivals.
        """
        return CompressedRate(self, factor) if factor != 1 else self

    def shifted(self, start: float) -> RateProfile:
        """This profile from its time ``start`` >= 0 on: ``shifted(14 * 3600)`` starts a day's profile at 14:00."""
        return ShiftedRate(self, start) if start != 0 else self

    def mean_rate(self, duration: float, start: float = 0.0) -> float:
        """Average rate per second from ``start`` to ``start + duration``."""
        seconds = positive("duration", duration)
        return float(self.cumulative(start + seconds) - self.cumulative(start)) / seconds

    def __add__(self, other: object) -> RateProfile:
        if other == 0:  # where the builtin sum() begins
            return self
        return SumRate((self, other)) if isinstance(other, RateProfile) else NotImplemented

    __radd__ = __add__

    def __mul__(self, factor: float) -> RateProfile:
        return self.scale(factor)

    __rmul__ = __mul__

    def __truediv__(self, divisor: float) -> RateProfile:
        return self.scale(1 / positive("divisor", divisor))

    def to_dict(self) -> dict[str, Any]:
        """The profile as plain data for JSON or msgpack; ``rates.rate_profile_from_dict`` makes it a profile again."""

        def plain(value: Any) -> Any:
            if isinstance(value, RateProfile):
                return value.to_dict()
            return [plain(item) for item in value] if isinstance(value, tuple) else value

        return {"kind": self.kind, **{f.name: plain(getattr(self, f.name)) for f in fields(self)}}


@dataclass(frozen=True)
class ScaledRate(RateProfile):
    """``factor`` times a profile."""

    profile: RateProfile
    factor: float
    kind: ClassVar[str] = "scaled"

    def __post_init__(self) -> None:
        object.__setattr__(self, "factor", not_negative("factor", self.factor))

    def _rate(self, t: Floats) -> Floats:
        return self.factor * self.profile._rate(t)

    def _cumulative(self, t: Floats) -> Floats:
        return self.factor * self.profile._cumulative(t)

    def _inverse(self, u: Floats) -> Floats:
        if self.factor == 0:
            return np.where(u > 0, np.inf, 0.0)
        return self.profile._inverse(u / self.factor)


@dataclass(frozen=True)
class CompressedRate(RateProfile):
    """A profile played ``factor`` times as fast: lambda(factor t), Lambda(factor t) / factor."""

    profile: RateProfile
    factor: float
    kind: ClassVar[str] = "compressed"

    def __post_init__(self) -> None:
        object.__setattr__(self, "factor", positive("factor", self.factor))

    def _rate(self, t: Floats) -> Floats:
        return self.profile._rate(self.factor * t)

    def _cumulative(self, t: Floats) -> Floats:
        return self.profile._cumulative(self.factor * t) / self.factor

    def _inverse(self, u: Floats) -> Floats:
        return self.profile._inverse(self.factor * u) / self.factor


@dataclass(frozen=True)
class ShiftedRate(RateProfile):
    """A profile from its time ``start`` on: lambda(start + t), Lambda(start + t) - Lambda(start)."""

    profile: RateProfile
    start: float
    kind: ClassVar[str] = "shifted"

    def __post_init__(self) -> None:
        object.__setattr__(self, "start", not_negative("start", self.start))

    def _rate(self, t: Floats) -> Floats:
        return self.profile._rate(self.start + t)

    def _cumulative(self, t: Floats) -> Floats:
        return self.profile._cumulative(self.start + t) - self.profile.cumulative(self.start)

    def _inverse(self, u: Floats) -> Floats:
        # Where the rate is 0 at the start, the first time that reaches u = 0 may lie before it.
        return np.maximum(self.profile._inverse(u + self.profile.cumulative(self.start)) - self.start, 0.0)


@dataclass(frozen=True)
class SumRate(RateProfile):
    """The sum of profiles: the superposition of independent streams of arrivals."""

    parts: tuple[RateProfile, ...]
    kind: ClassVar[str] = "sum"

    def __post_init__(self) -> None:
        parts: list[RateProfile] = []
        for part in self.parts:
            if not isinstance(part, RateProfile):
                raise ValueError(f"parts must be rate profiles, not {part!r}")
            parts += part.parts if isinstance(part, SumRate) else [part]
        if not parts:
            raise ValueError("parts must have at least one profile, not 0")
        object.__setattr__(self, "parts", tuple(parts))

    def _rate(self, t: Floats) -> Floats:
        return sum((part._rate(t) for part in self.parts), np.zeros(t.shape))

    def _cumulative(self, t: Floats) -> Floats:
        return sum((part._cumulative(t) for part in self.parts), np.zeros(t.shape))

    def _inverse(self, u: Floats) -> Floats:
        # Of n summands that make u at least one has reached u/n, and none is past u: that brackets the time.
        low = np.min([part._inverse(u / len(self.parts)) for part in self.parts], axis=0)
        high = np.min([part._inverse(u) for part in self.parts], axis=0)
        reached = np.isfinite(low)
        # A sum may reach u although no summand ever does: look further and further ahead.
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
