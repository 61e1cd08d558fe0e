"""The Pareto distribution, with or without a maximum: the heavy tail of file sizes and of long sessions."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np

from .checks import positive
from .distribution import Distribution, checked_seed
from .solve import Floats, invert_scalar


@dataclass(frozen=True, repr=False)
class Pareto(Distribution):
    """Density proportional to x^(-shape - 1) from ``minimum`` (found from the mean) to ``maximum``; see ``pareto``."""

    mean: float
    shape: float
    maximum: float | None = None
    seed: int | None = field(default=None, kw_only=True)
    kind: ClassVar[str] = "pareto"

    def __post_init__(self) -> None:
        checked_seed(self.seed)
        mean, shape = positive("mean", self.mean), positive("shape", self.shape)
        object.__setattr__(self, "mean", mean)
        object.__setattr__(self, "shape", shape)
        if self.maximum is None:
            if shape <= 1:
                raise ValueError(f"shape must be > 1 without a maximum (the mean is infinite), not {shape!r}")
            return
        maximum = positive("maximum", self.maximum)
        object.__setattr__(self, "maximum", maximum)
        if not mean < maximum:
            raise ValueError(f"mean must be < maximum = {maximum!r}, not {mean!r}")
        if self._log_ratio < _LEAST_LOG_RATIO / 2:
            raise ValueError(f"mean must not be so far below maximum = {maximum!r} with shape {shape!r}: {mean!r}")

    @cached_property
    def _log_ratio(self) -> float:
        """ln(minimum / maximum); -infinity without a maximum."""
        if self.maximum is None:
            return -math.inf
        share = self.mean / self.maximum
        return invert_scalar(lambda y: _moment(1, self.shape, y), share, _LEAST_LOG_RATIO, 0.0)

    @cached_property
    def minimum(self) -> float:
        """The least time in seconds."""
        if self.maximum is None:
            return self.mean * (self.shape - 1) / self.shape
        return self.maximum * math.exp(self._log_ratio)

    @property
    def cov(self) -> float:
        """Infinite where shape <= 2 and there is no maximum."""
        if self.maximum is None:
            return 1 / math.sqrt(self.shape * (self.shape - 2)) if self.shape > 2 else math.inf
        second = _moment(2, self.shape, self._log_ratio) * self.maximum**2
        return math.sqrt(max(second / self.mean**2 - 1, 0.0))

    def _cdf(self, x: Floats) -> Floats:
        inside = np.clip(x, self.minimum, self.maximum)
        above = -np.expm1(-self.shape * np.log(inside / self.minimum))
        return np.where(x < self.minimum, 0.0, above / -math.expm1(self.shape * self._log_ratio))

    def _ppf(self, q: Floats) -> Floats:
        return self._quantile(q, self.shape)

    def _quantile(self, q: Floats, shape: float) -> Floats:
        """The quantile of a density proportional to x^(-shape - 1), any shape, on the same interval."""
        if shape == 0:
            return self.minimum * np.exp(-q * self._log_ratio)
        power = shape * self._log_ratio
        # ln(1 - q + q e^power), each form where it does not cancel
        log = np.log1p(q * math.expm1(power)) if abs(power) < 1 else np.log((1 - q) + q * math.exp(power))
        return np.minimum(self.minimum * np.exp(-log / shape), self.maximum or math.inf)

    def sample_length_biased(self, rng: np.random.Generator, size: int) -> Floats:
        return self._quantile(rng.random(size), self.shape - 1)


_LEAST_LOG_RATIO = -600.0


def _moment(order: int, shape: float, log_ratio: float) -> float:
    """E[(X / maximum)^order] where ln(minimum / maximum) is ``log_ratio`` < 0."""
    if log_ratio == 0:
        return 1.0
    excess = shape - order
    tail = -log_ratio if excess == 0 else -math.expm1(excess * log_ratio) / excess
    return math.exp(order * log_ratio) * tail * shape / -math.expm1(shape * log_ratio)


def pareto(mean: float, shape: float, maximum: float | None = None, *, seed: int | None = None) -> Pareto:
    """Pareto times with ``mean`` > 0 seconds: P(X > x) = (minimum / x)^shape, a heavy tail.

    The smaller the shape, the heavier the tail. With a ``maximum`` the distribution is cut off there (the bounded
    Pareto distribution), ``mean`` is that after the cut, and any shape > 0 will do. Without one the shape must be above
    1, and the CoV is infinite up to 2: a finite run then never shows the mean, so give a maximum.

    >>> round(pareto(10, shape=3).minimum, 4), round(pareto(10, shape=1.5, maximum=600).cov, 3)
    (6.6667, 1.912)
    >>> pareto(10, shape=0.9)
    Traceback (most recent call last):
    ValueError: shape must be > 1 without a maximum (the mean is infinite), not 0.9
    """
    return Pareto(mean, shape, maximum, seed=seed)
