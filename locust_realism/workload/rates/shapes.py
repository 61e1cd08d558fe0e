"""Arrival-rate profiles lambda(t): constant, sine, and (re-exported) straight lines, steps and combinations.

Rates are per second, times are seconds from the start of the run. Every profile has ``rate(t)``, ``cumulative(t)``
and ``inverse(u)``, vectorised over numpy arrays and exact to float precision, and converts to plain data and back.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import InitVar, dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from locust_realism.common.numerics import Floats, invert_increasing
from locust_realism.common.validation import Check, make_of_kind, not_negative, number, positive, refusal
from locust_realism.workload.rates.piecewise import PiecewiseLinearRate, StepRate
from locust_realism.workload.rates.profile import CompressedRate, RateProfile, ScaledRate, ShiftedRate, SumRate

__all__ = [
    "CompressedRate", "ConstantRate", "PiecewiseLinearRate", "RateProfile", "ScaledRate", "ShiftedRate", "SineRate",
    "StepRate", "SumRate", "rate_profile_from_dict",
]  # fmt: skip

_TWO_PI = 2 * math.pi
_GRID = np.linspace(0.0, 1.0, 4097)
_PRECISION = 2 * np.finfo(np.float64).eps


@dataclass(frozen=True)
class ConstantRate(RateProfile):
    """Constant rate lambda(t) = value: a homogeneous Poisson process.

    >>> ConstantRate(5).cumulative([0, 2]).tolist()
    [0.0, 10.0]
    """

    value: float
    kind: ClassVar[str] = "constant"
    _checks: ClassVar[Mapping[str, Check]] = {"value": not_negative}

    def _rate(self, t: Floats) -> Floats:
        return np.full(t.shape, self.value)

    def _cumulative(self, t: Floats) -> Floats:
        return self.value * t

    def _inverse(self, u: Floats) -> Floats:
        return u / self.value if self.value else np.where(u > 0, np.inf, 0.0)


@dataclass(frozen=True)
class SineRate(RateProfile):
    """Sine between ``min_rate`` and ``max_rate`` with a period of ``period`` seconds: the course of a day.

    With the middle m = (max + min)/2, the amplitude a = (max - min)/2, the period P and the time p of the peak:

        lambda(t) = m + a cos(2 pi (t - p) / P)
        Lambda(t) = m t + a P/(2 pi) (sin(2 pi (t - p) / P) + sin(2 pi p / P))

    ``peak_at`` is p, in seconds after the start; or give ``phase`` in radians, for lambda(t) = m + a sin(2 pi t/P +
    phase). With neither, phase is 0: the run starts at the middle, rising, and the first peak is at P/4. The inverse
    is one step of Newton's method from a table of one period, then bracketed Newton steps for values that have not
    converged. Raises ValueError unless 0 <= min_rate <= max_rate and period > 0, or if both peak_at and phase are
    given.

    >>> day = SineRate(min_rate=1, max_rate=9, period=86400, peak_at=43200)
    >>> day.rate([0, 43200]).round(9).tolist(), float(day.cumulative(86400))
    ([1.0, 9.0], 432000.0)
    >>> day
    SineRate(min_rate=1.0, max_rate=9.0, period=86400.0, peak_at=43200.0)
    """

    min_rate: float
    max_rate: float
    period: float
    peak_at: float | None = None
    phase: InitVar[float | None] = None
    kind: ClassVar[str] = "sine"
    _checks: ClassVar[Mapping[str, Check]] = {"min_rate": not_negative, "max_rate": not_negative, "period": positive}

    def __post_init__(self, phase: float | None) -> None:
        super().__post_init__()
        if self.max_rate < self.min_rate:
            raise refusal("max_rate", f">= min_rate = {self.min_rate!r}", self.max_rate)
        if self.peak_at is None:
            peak = self.period * (0.25 - number("phase", phase or 0.0) / _TWO_PI)
        elif phase is None:
            peak = number("peak_at", self.peak_at)
        else:
            raise ValueError(f"peak_at = {self.peak_at!r} and phase = {phase!r} cannot both be given")
        # Twice, since -1e-20 % 1.0 rounds to 1.0.
        object.__setattr__(self, "peak_at", peak % self.period % self.period)

    @property
    def span(self) -> float:
        return self.period

    @property
    def middle(self) -> float:
        """Average over a period, per second."""
        return (self.min_rate + self.max_rate) / 2

    @property
    def amplitude(self) -> float:
        """Half of the range, per second."""
        return (self.max_rate - self.min_rate) / 2

    @property
    def _peak(self) -> float:
        """Peak as a share of the period."""
        return (self.peak_at or 0.0) / self.period

    def _rate(self, t: Floats) -> Floats:
        # Reduce the angle to one period first: late times lose no precision.
        return self.middle + self.amplitude * np.cos(_TWO_PI * (np.mod(t / self.period, 1.0) - self._peak))

    def _within_period(self, x: Floats) -> Floats:
        """Return Lambda at the share x in [0, 1] of the first period, in arrivals of one period at the middle rate."""
        relative = self.amplitude / (_TWO_PI * self.middle)
        return x + relative * (np.sin(_TWO_PI * (x - self._peak)) + math.sin(_TWO_PI * self._peak))

    def _within_period_slope(self, x: Floats) -> Floats:
        return 1 + self.amplitude / self.middle * np.cos(_TWO_PI * (x - self._peak))

    def _cumulative(self, t: Floats) -> Floats:
        if self.max_rate == 0:
            return np.zeros(t.shape)
        turns = t / self.period
        whole = np.floor(turns)
        return (whole + self._within_period(turns - whole)) * (self.middle * self.period)

    def _inverse(self, u: Floats) -> Floats:
        if self.max_rate == 0:
            return np.where(u > 0, np.inf, 0.0)
        units = u / (self.middle * self.period)
        whole = np.floor(units)
        rest = units - whole
        # One Newton step from the table converges nearly everywhere; the rest is bracketed.
        x = np.interp(rest, self._table, _GRID)
        with np.errstate(divide="ignore", invalid="ignore"):
            x -= (self._within_period(x) - rest) / self._within_period_slope(x)
            again = np.flatnonzero(~((np.abs(self._within_period(x) - rest) <= _PRECISION) & (x >= 0) & (x <= 1)))
        if len(again):
            low, high, guess = np.zeros(len(again)), np.ones(len(again)), np.interp(rest[again], self._table, _GRID)
            x[again] = invert_increasing(self._within_period, self._within_period_slope, rest[again], low, high, guess)
        return (whole + x) * self.period

    @cached_property
    def _table(self) -> Floats:
        return self._within_period(_GRID)


_KINDS: dict[str, type[RateProfile]] = {
    profile.kind: profile
    for profile in (
        ConstantRate, SineRate, PiecewiseLinearRate, StepRate, ScaledRate, CompressedRate, ShiftedRate, SumRate,
    )
}  # fmt: skip


def rate_profile_from_dict(data: Mapping[str, object]) -> RateProfile:
    """Return the profile that ``RateProfile.to_dict`` wrote; ValueError for an unknown kind or wrong fields.

    >>> profile = 2 * ConstantRate(3)
    >>> rate_profile_from_dict(profile.to_dict()) == profile
    True
    """

    def restored(value: object) -> object:
        if isinstance(value, Mapping):
            return rate_profile_from_dict(value)
        return tuple(restored(item) for item in value) if isinstance(value, list | tuple) else value

    return make_of_kind(_KINDS, {name: restored(value) for name, value in data.items()})
