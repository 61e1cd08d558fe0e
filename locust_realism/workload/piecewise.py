"""Rate profiles made of straight pieces: lines between points, and steps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from .checks import not_negative, number
from .profile import RateProfile
from .solve import Floats


def _knots(name: str, times: Iterable[float], rates: Iterable[float], count: int) -> tuple[Floats, Floats]:
    at = np.array([number(f"{name}[{i}] time", t) for i, t in enumerate(times)])
    rate = np.array([not_negative(f"{name}[{i}] rate", r) for i, r in enumerate(rates)])
    if len(at) < count:
        raise ValueError(f"{name} must have at least {count} (time, rate) pairs, not {len(at)}")
    wrong = np.flatnonzero(np.diff(at) <= 0)
    if len(wrong):
        i = int(wrong[0])
        raise ValueError(f"{name}[{i + 1}] time must be > {at[i]!r}, the time before it, not {at[i + 1]!r}")
    return at, rate


@dataclass(frozen=True)
class _Segments:
    """Straight pieces of a rate: piece i runs from times[i] for lengths[i] and from rate first[i] to last[i].

    Before the first piece and after the last one the rate stays as it is at that end.
    """

    times: Floats
    lengths: Floats
    first: Floats
    last: Floats
    before: float
    after: float

    @cached_property
    def reached(self) -> Floats:
        """The integral from times[0] to the start of each piece and to the end of the last, shape (pieces + 1,)."""
        areas = self.lengths * (self.first + self.last) / 2
        reached: Floats = np.concatenate((np.zeros(1), np.cumsum(areas)))
        return reached

    @cached_property
    def end(self) -> float:
        return float(self.times[-1] + self.lengths[-1])

    def _piece(self, t: Floats) -> NDArray[np.intp]:
        return np.clip(np.searchsorted(self.times, t, side="right") - 1, 0, len(self.times) - 1)

    def rate(self, t: Floats) -> Floats:
        i = self._piece(t)
        inside = self.first[i] + (self.last[i] - self.first[i]) * ((t - self.times[i]) / self.lengths[i])
        return np.where(t < self.times[0], self.before, np.where(t >= self.end, self.after, inside))

    def integral(self, t: Floats) -> Floats:
        """The integral of the rate from times[0] to t (negative before it)."""
        i = self._piece(t)
        x = np.clip(t - self.times[i], 0.0, self.lengths[i])
        slope = (self.last[i] - self.first[i]) / self.lengths[i]
        inside = self.reached[i] + x * (self.first[i] + slope * x / 2)
        outside = self.before * np.minimum(t - self.times[0], 0.0) + self.after * np.maximum(t - self.end, 0.0)
        total: Floats = inside + outside
        return total

    def inverse(self, u: Floats) -> Floats:
        """The first time at which the integral from times[0] reaches u."""
        i = np.clip(np.searchsorted(self.reached, u, side="left") - 1, 0, len(self.times) - 1)
        rest = np.clip(u - self.reached[i], 0.0, self.reached[i + 1] - self.reached[i])
        slope = (self.last[i] - self.first[i]) / self.lengths[i]
        # The root of slope x^2/2 + first x = rest, in the form that neither cancels nor divides by a slope of 0.
        divisor = self.first[i] + np.sqrt(np.maximum(self.first[i] ** 2 + 2 * slope * rest, 0.0))
        with np.errstate(divide="ignore", invalid="ignore"):
            x = np.where(rest > 0, 2 * rest / divisor, 0.0)
            beyond = np.where(u > self.reached[-1], (u - self.reached[-1]) / self.after, 0.0)
            ahead = np.where(u < 0, u / self.before, 0.0)
        return self.times[i] + np.minimum(x, self.lengths[i]) + beyond + ahead


_PAIRS_SHOWN = 8


class _Piecewise(RateProfile):
    """What straight lines and steps share: they differ only in their segments."""

    repeat: bool
    _segments: _Segments

    @property
    def _turn(self) -> tuple[float, float, float]:
        """Start and length of the repeated part, and the arrivals in it."""
        start = float(self._segments.times[0])
        return start, self._segments.end - start, float(self._segments.reached[-1])

    def _folded(self, t: Floats) -> tuple[Floats, Floats]:
        """The number of whole repetitions before t and the time within one."""
        start, length, _ = self._turn
        whole = np.floor((t - start) / length)
        return whole, np.clip(t - whole * length, start, None)

    def _rate(self, t: Floats) -> Floats:
        return self._segments.rate(self._folded(t)[1] if self.repeat else t)

    def _shown(self, name: str, pairs: tuple[tuple[float, float], ...], **more: object) -> str:
        """A readable repr, also for a profile with a row a minute."""
        first, last = pairs[0][0], pairs[-1][0]
        what = repr(pairs) if len(pairs) <= _PAIRS_SHOWN else f"{len(pairs)} {name} from {first!r} to {last!r} s"
        rest = "".join(f", {key}={value!r}" for key, value in more.items() if value not in (None, False))
        return f"{type(self).__name__}({what}{rest})"

    def _from_first(self, t: Floats) -> Floats:
        if not self.repeat:
            return self._segments.integral(t)
        whole, within = self._folded(t)
        return whole * self._turn[2] + self._segments.integral(within)

    def _cumulative(self, t: Floats) -> Floats:
        return self._from_first(t) - self._from_first(np.zeros(()))

    def _inverse(self, u: Floats) -> Floats:
        units = u + self._from_first(np.zeros(()))
        if not self.repeat:
            return np.maximum(self._segments.inverse(units), 0.0)
        _, length, total = self._turn
        if total == 0:
            return np.where(u > 0, np.inf, 0.0)
        whole = np.floor(units / total)
        return np.maximum(whole * length + self._segments.inverse(units - whole * total), 0.0)


@dataclass(frozen=True, repr=False)
class PiecewiseLinearRate(_Piecewise):
    """Straight lines between points (time, rate), at least two, in order of time.

    Before the first point and after the last the rate stays as it is there; with ``repeat`` the profile starts again
    at its last point (a day given from 0 to 86400 goes on every day). Between two points the integral is a parabola,
    so the inverse is the root of a quadratic.

    >>> ramp = PiecewiseLinearRate([(0, 0), (10, 5)])
    >>> ramp.rate([5, 60]).tolist(), ramp.cumulative([10, 12]).tolist(), ramp.inverse([25, 35]).tolist()
    ([2.5, 5.0], [25.0, 35.0], [10.0, 12.0])
    """

    points: tuple[tuple[float, float], ...]
    repeat: bool = False
    kind: ClassVar[str] = "piecewise_linear"

    def __post_init__(self) -> None:
        points = [tuple(point) for point in self.points]
        times, rates = _knots("points", [p[0] for p in points], [p[1] for p in points], 2)
        object.__setattr__(self, "points", tuple(zip(times.tolist(), rates.tolist(), strict=True)))

    def __repr__(self) -> str:
        return self._shown("points", self.points, repeat=self.repeat)

    @cached_property
    def _segments(self) -> _Segments:  # type: ignore[override]
        times, rates = np.array(self.points).T
        return _Segments(times[:-1], np.diff(times), rates[:-1], rates[1:], float(rates[0]), float(rates[-1]))


@dataclass(frozen=True, repr=False)
class StepRate(_Piecewise):
    """Constant rates: ``steps`` are pairs (time, rate), each rate holding from its time to the next one's.

    Before the first step the rate is that of the first; the last one holds for ever, or, where ``end`` is given, the
    rate is 0 from there on; with ``repeat`` (which needs ``end``) the profile starts again there.

    >>> StepRate([(0, 1), (60, 10), (120, 1)]).cumulative([60, 90, 120, 130]).tolist()
    [60.0, 360.0, 660.0, 670.0]
    """

    steps: tuple[tuple[float, float], ...]
    end: float | None = None
    repeat: bool = False
    kind: ClassVar[str] = "step"

    def __post_init__(self) -> None:
        steps = [tuple(step) for step in self.steps]
        times, rates = _knots("steps", [s[0] for s in steps], [s[1] for s in steps], 1)
        object.__setattr__(self, "steps", tuple(zip(times.tolist(), rates.tolist(), strict=True)))
        if self.end is None and self.repeat:
            raise ValueError("repeat needs end, the time at which the profile starts again, not None")
        if self.end is not None:
            end = number("end", self.end)
            if end <= times[-1]:
                raise ValueError(f"end must be > {times[-1]!r}, the time of the last step, not {end!r}")
            object.__setattr__(self, "end", end)

    def __repr__(self) -> str:
        return self._shown("steps", self.steps, end=self.end, repeat=self.repeat)

    @cached_property
    def _segments(self) -> _Segments:  # type: ignore[override]
        times, rates = np.array(self.steps).T
        # Without an end the last piece may have any length: the same rate holds after it.
        lengths = np.diff(np.append(times, times[-1] + 1.0 if self.end is None else self.end))
        after = float(rates[-1]) if self.end is None else 0.0
        return _Segments(times, lengths, rates, rates, float(rates[0]), after)
