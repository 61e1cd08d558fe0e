"""Piecewise rate profiles: straight lines between points, and steps."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import pairwise
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from locust_realism.common.numerics import Floats
from locust_realism.common.validation import not_negative, number, refusal
from locust_realism.workload.rates.profile import RateProfile


@dataclass(frozen=True)
class _Segments:
    """Straight pieces of a rate: piece i runs from times[i] for lengths[i], from rate first[i] to last[i].

    The rate is first[0] ahead of the first piece and ``after`` beyond the last one.
    """

    times: Floats
    lengths: Floats
    first: Floats
    last: Floats
    after: float

    @cached_property
    def reached(self) -> Floats:
        """Integral from times[0] to the start of each piece and to the end of the last, shape (pieces + 1,)."""
        areas = self.lengths * (self.first + self.last) / 2
        return np.concatenate((np.zeros(1), np.cumsum(areas)))

    @cached_property
    def end(self) -> float:
        return float(self.times[-1] + self.lengths[-1])

    def _piece(self, t: Floats) -> NDArray[np.intp]:
        return np.clip(np.searchsorted(self.times, t, side="right") - 1, 0, len(self.times) - 1)

    def rate(self, t: Floats) -> Floats:
        i = self._piece(t)
        inside = self.first[i] + (self.last[i] - self.first[i]) * ((t - self.times[i]) / self.lengths[i])
        return np.where(t < self.times[0], self.first[0], np.where(t >= self.end, self.after, inside))

    def integral(self, t: Floats) -> Floats:
        """Return the integral of the rate from times[0] to t (negative before it)."""
        i = self._piece(t)
        x = np.clip(t - self.times[i], 0.0, self.lengths[i])
        slope = (self.last[i] - self.first[i]) / self.lengths[i]
        inside = self.reached[i] + x * (self.first[i] + slope * x / 2)
        outside = self.first[0] * np.minimum(t - self.times[0], 0.0) + self.after * np.maximum(t - self.end, 0.0)
        return np.asarray(inside + outside)

    def inverse(self, u: Floats) -> Floats:
        """Return the first time at which the integral from times[0] reaches u."""
        i = np.clip(np.searchsorted(self.reached, u, side="left") - 1, 0, len(self.times) - 1)
        rest = np.clip(u - self.reached[i], 0.0, self.reached[i + 1] - self.reached[i])
        slope = (self.last[i] - self.first[i]) / self.lengths[i]
        # Root of slope x^2/2 + first x = rest, in the form without cancellation or division by a slope of 0.
        divisor = self.first[i] + np.sqrt(np.maximum(self.first[i] ** 2 + 2 * slope * rest, 0.0))
        with np.errstate(divide="ignore", invalid="ignore"):
            x = np.where(rest > 0, 2 * rest / divisor, 0.0)
            beyond = np.where(u > self.reached[-1], (u - self.reached[-1]) / self.after, 0.0)
            ahead = np.where(u < 0, u / self.first[0], 0.0)
        return self.times[i] + np.minimum(x, self.lengths[i]) + beyond + ahead


_PAIRS_SHOWN = 8


class _Piecewise(RateProfile):
    """Base of straight lines and steps, which differ in their segments only."""

    repeat: bool
    _pairs: ClassVar[tuple[str, int]]
    """Name of the field of (time, rate) pairs, and their least number."""

    def __post_init__(self) -> None:
        name, least = self._pairs
        pairs = [tuple(pair) for pair in getattr(self, name)]
        times = [number(f"{name}[{i}] time", time) for i, (time, _) in enumerate(pairs)]
        rates = [not_negative(f"{name}[{i}] rate", rate) for i, (_, rate) in enumerate(pairs)]
        if len(pairs) < least:
            raise ValueError(f"{name} must have at least {least} (time, rate) pairs, not {len(pairs)}")
        for i, (before, time) in enumerate(pairwise(times), 1):
            if time <= before:
                raise refusal(f"{name}[{i}] time", f"> {before!r}, the time before it", time)
        object.__setattr__(self, name, tuple(zip(times, rates, strict=True)))

    def __repr__(self) -> str:
        """Return a text that stays short for a profile with a row a minute."""
        settings = {f.name: getattr(self, f.name) for f in fields(self)}
        name = self._pairs[0]
        pairs = settings.pop(name)
        few = len(pairs) <= _PAIRS_SHOWN
        points = repr(pairs) if few else f"{len(pairs)} {name} from {pairs[0][0]!r} to {pairs[-1][0]!r} s"
        rest = "".join(f", {key}={value!r}" for key, value in settings.items() if value not in (None, False))
        return f"{type(self).__name__}({points}{rest})"

    @cached_property
    @abstractmethod
    def _segments(self) -> _Segments: ...

    def _folded(self, t: Floats) -> tuple[Floats | float, Floats]:
        """Return the arrivals of the whole repetitions before t, and the time within one."""
        if not self.repeat:
            return 0.0, t
        segments, start = self._segments, self._segments.times[0]
        whole = np.floor((t - start) / (segments.end - start))
        return whole * segments.reached[-1], np.clip(t - whole * (segments.end - start), start, None)

    def _rate(self, t: Floats) -> Floats:
        return self._segments.rate(self._folded(t)[1])

    def _from_first(self, t: Floats) -> Floats:
        before, within = self._folded(t)
        return before + self._segments.integral(within)

    def _cumulative(self, t: Floats) -> Floats:
        return self._from_first(t) - self._from_first(np.zeros(()))

    def _inverse(self, u: Floats) -> Floats:
        units = u + self._from_first(np.zeros(()))
        if not self.repeat:
            return np.maximum(self._segments.inverse(units), 0.0)
        total = float(self._segments.reached[-1])
        if total == 0:
            return np.where(u > 0, np.inf, 0.0)
        whole = np.floor(units / total)
        length = float(self._segments.end - self._segments.times[0])
        return np.maximum(whole * length + self._segments.inverse(units - whole * total), 0.0)


@dataclass(frozen=True, repr=False)
class PiecewiseLinearRate(_Piecewise):
    """Straight lines between two or more points (time, rate) in order of time.

    The rate is constant before the first point and after the last one. With ``repeat`` the profile starts again at its
    last point: a day from 0 to 86400 repeats every day. The integral between two points is a parabola, and the inverse
    the root of a quadratic.

    >>> ramp = PiecewiseLinearRate([(0, 0), (10, 5)])
    >>> ramp.rate([5, 60]).tolist(), ramp.cumulative([10, 12]).tolist(), ramp.inverse([25, 35]).tolist()
    ([2.5, 5.0], [25.0, 35.0], [10.0, 12.0])
    """

    points: tuple[tuple[float, float], ...]
    repeat: bool = False
    kind: ClassVar[str] = "piecewise_linear"
    _pairs = ("points", 2)

    @property
    def span(self) -> float:
        return self.points[-1][0] - (self.points[0][0] if self.repeat else 0.0)

    @cached_property
    def _segments(self) -> _Segments:
        times, rates = np.array(self.points).T
        return _Segments(times[:-1], np.diff(times), rates[:-1], rates[1:], float(rates[-1]))


@dataclass(frozen=True, repr=False)
class StepRate(_Piecewise):
    """Constant rates: ``steps`` are pairs (time, rate), and each rate holds until the next time.

    The first rate holds before the first step too. The last one holds for ever, or until ``end``: from there on the
    rate is 0, or with ``repeat`` the profile starts again.

    >>> StepRate([(0, 1), (60, 10), (120, 1)]).cumulative([60, 90, 120, 130]).tolist()
    [60.0, 360.0, 660.0, 670.0]
    """

    steps: tuple[tuple[float, float], ...]
    end: float | None = None
    repeat: bool = False
    kind: ClassVar[str] = "step"
    _pairs = ("steps", 1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.end is None and self.repeat:
            raise ValueError("repeat needs end, the time of the profile's next start, not None")
        if self.end is not None:
            end = number("end", self.end)
            if end <= (last := self.steps[-1][0]):
                raise refusal("end", f"> {last!r}, the time of the last step", end)
            object.__setattr__(self, "end", end)

    @property
    def span(self) -> float:
        last = self.steps[-1][0] if self.end is None else self.end
        return last - (self.steps[0][0] if self.repeat else 0.0)

    @cached_property
    def _segments(self) -> _Segments:
        times, rates = np.array(self.steps).T
        # Without an end the last piece has any length: its rate holds after it too.
        lengths = np.diff(np.append(times, times[-1] + 1.0 if self.end is None else self.end))
        after = float(rates[-1]) if self.end is None else 0.0
        return _Segments(times, lengths, rates, rates, after)
