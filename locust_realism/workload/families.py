"""The families of distributions with closed forms: the frozen dataclasses behind the functions of ``distributions``."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np

from .checks import not_negative, positive
from .distribution import Distribution, checked_seed
from .solve import Floats, invert_scalar


def _checked(distribution: Distribution, **values: float) -> None:
    checked_seed(distribution.seed)
    for name, value in values.items():
        object.__setattr__(distribution, name, value)


@dataclass(frozen=True, repr=False)
class Constant(Distribution):
    """Always the same time; CoV 0."""

    mean: float
    seed: int | None = field(default=None, kw_only=True)
    kind: ClassVar[str] = "constant"
    cov: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        _checked(self, mean=not_negative("mean", self.mean))

    def _cdf(self, x: Floats) -> Floats:
        return np.where(x >= self.mean, 1.0, 0.0)

    def _ppf(self, q: Floats) -> Floats:
        return np.full(q.shape, self.mean)

    def sample_length_biased(self, rng: np.random.Generator, size: int) -> Floats:
        return np.full(size, self.mean)


@dataclass(frozen=True, repr=False)
class Uniform(Distribution):
    """Every time between two bounds equally likely; CoV (b - a) / (sqrt(3) (a + b)), at most 0.577."""

    minimum: float
    maximum: float
    seed: int | None = field(default=None, kw_only=True)
    kind: ClassVar[str] = "uniform"

    def __post_init__(self) -> None:
        low, high = not_negative("minimum", self.minimum), positive("maximum", self.maximum)
        if high < low:
            raise ValueError(f"maximum must be >= minimum = {low!r}, not {high!r}")
        _checked(self, minimum=low, maximum=high)

    @property
    def mean(self) -> float:
        return (self.minimum + self.maximum) / 2

    @property
    def cov(self) -> float:
        return (self.maximum - self.minimum) / (math.sqrt(3) * (self.maximum + self.minimum))

    def _cdf(self, x: Floats) -> Floats:
        if self.minimum == self.maximum:
            return np.where(x >= self.minimum, 1.0, 0.0)
        return np.clip((x - self.minimum) / (self.maximum - self.minimum), 0.0, 1.0)

    def _ppf(self, q: Floats) -> Floats:
        return self.minimum + q * (self.maximum - self.minimum)

    def sample_length_biased(self, rng: np.random.Generator, size: int) -> Floats:
        squares = self.minimum**2 + rng.random(size) * (self.maximum**2 - self.minimum**2)
        return np.sqrt(squares)


@dataclass(frozen=True, repr=False)
class Exponential(Distribution):
    """F(x) = 1 - exp(-x / mean); CoV 1."""

    mean: float
    seed: int | None = field(default=None, kw_only=True)
    kind: ClassVar[str] = "exponential"
    cov: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        _checked(self, mean=positive("mean", self.mean))

    def sample(self, rng: np.random.Generator, size: int) -> Floats:
        return self.mean * rng.standard_exponential(size)

    def _cdf(self, x: Floats) -> Floats:
        return -np.expm1(-np.maximum(x, 0.0) / self.mean)

    def _ppf(self, q: Floats) -> Floats:
        return -self.mean * np.log1p(-q)

    def sample_length_biased(self, rng: np.random.Generator, size: int) -> Floats:
        return self.mean * rng.standard_gamma(2.0, size)


@dataclass(frozen=True, repr=False)
class TruncatedExponential(Distribution):
    """An exponential distribution cut off at ``maximum``, by its mean after the cut; see ``truncated_exponential``."""

    mean: float
    maximum: float
    seed: int | None = field(default=None, kw_only=True)
    kind: ClassVar[str] = "truncated_exponential"

    def __post_init__(self) -> None:
        mean, maximum = positive("mean", self.mean), positive("maximum", self.maximum)
        if not mean < maximum / 2:
            raise ValueError(f"mean must be < maximum / 2 = {maximum / 2!r}, that of a uniform time, not {mean!r}")
        _checked(self, mean=mean, maximum=maximum)

    @cached_property
    def _b(self) -> float:
        """The maximum in units of the mean before truncation."""
        share = self.mean / self.maximum
        # mean / maximum = 1/b - 1/(e^b - 1) falls from 1/2 to 0 as b grows.
        return invert_scalar(lambda b: -_cut_mean(b), -share, 0.0, 2 / share)

    @property
    def untruncated_mean(self) -> float:
        """Mean of the exponential distribution that is cut off."""
        return self.maximum / self._b

    @property
    def cov(self) -> float:
        b = self._b
        small = b < 1e-2  # the two terms cancel
        variance = 1 / 12 - b * b / 240 if small else 1 / (b * b) - math.exp(-b) / math.expm1(-b) ** 2
        return math.sqrt(variance) * self.maximum / self.mean

    def _cdf(self, x: Floats) -> Floats:
        inside = np.clip(x / self.maximum, 0.0, 1.0)
        return np.expm1(-self._b * inside) / math.expm1(-self._b)

    def _ppf(self, q: Floats) -> Floats:
        return np.minimum(-self.maximum / self._b * np.log1p(q * math.expm1(-self._b)), self.maximum)

    def sample_length_biased(self, rng: np.random.Generator, size: int) -> Floats:
        parts: list[Floats] = []
        while size > 0:
            if self._b < 2:
                draws = self.sample(rng, 3 * size + 8)
                draws = draws[rng.random(len(draws)) * self.maximum < draws]
            else:
                draws = self.untruncated_mean * rng.standard_gamma(2.0, 2 * size + 8)
                draws = draws[draws <= self.maximum]
            parts.append(draws[:size])
            size -= len(parts[-1])
        return np.concatenate(parts) if parts else np.zeros(0)


def _cut_mean(b: float) -> float:
    if b < 1e-2:
        return 0.5 - b / 12 + b**3 / 720
    return 1 / b - (1 / math.expm1(b) if b < 700 else 0.0)


@dataclass(frozen=True, repr=False)
class Lognormal(Distribution):
    """exp(mu + sigma N) with sigma^2 = ln(1 + cov^2) and mu = ln(mean) - sigma^2 / 2."""

    mean: float
    cov: float
    seed: int | None = field(default=None, kw_only=True)
    kind: ClassVar[str] = "lognormal"

    def __post_init__(self) -> None:
        _checked(self, mean=positive("mean", self.mean), cov=positive("cov", self.cov))

    @cached_property
    def sigma(self) -> float:
        """Standard deviation of the logarithm."""
        return math.sqrt(math.log1p(self.cov**2))

    @cached_property
    def mu(self) -> float:
        """Mean of the logarithm of the time in seconds."""
        return math.log(self.mean) - self.sigma**2 / 2

    def sample(self, rng: np.random.Generator, size: int) -> Floats:
        return rng.lognormal(self.mu, self.sigma, size)

    def _cdf(self, x: Floats) -> Floats:
        from scipy.special import ndtr

        with np.errstate(divide="ignore"):
            normal: Floats = ndtr((np.log(np.maximum(x, 0.0)) - self.mu) / self.sigma)
        return normal

    def _ppf(self, q: Floats) -> Floats:
        from scipy.special import ndtri

        normal: Floats = ndtri(q)
        return np.exp(self.mu + self.sigma * normal)

    def sample_length_biased(self, rng: np.random.Generator, size: int) -> Floats:
        return rng.lognormal(self.mu + self.sigma**2, self.sigma, size)


@dataclass(frozen=True, repr=False)
class Gamma(Distribution):
    """Gamma with shape 1 / cov^2 and scale mean cov^2: Erlang where 1 / cov^2 is whole, exponential at cov 1."""

    mean: float
    cov: float
    seed: int | None = field(default=None, kw_only=True)
    kind: ClassVar[str] = "gamma"

    def __post_init__(self) -> None:
        _checked(self, mean=positive("mean", self.mean), cov=positive("cov", self.cov))

    @property
    def shape(self) -> float:
        """The shape parameter."""
        return 1 / self.cov**2

    def sample(self, rng: np.random.Generator, size: int) -> Floats:
        return self.mean / self.shape * rng.standard_gamma(self.shape, size)

    def _cdf(self, x: Floats) -> Floats:
        from scipy.special import gammainc

        lower: Floats = gammainc(self.shape, np.maximum(x, 0.0) * self.shape / self.mean)
        return lower

    def _ppf(self, q: Floats) -> Floats:
        from scipy.special import gammaincinv

        lower: Floats = gammaincinv(self.shape, q)
        return lower * self.mean / self.shape

    def sample_length_biased(self, rng: np.random.Generator, size: int) -> Floats:
        return self.mean / self.shape * rng.standard_gamma(self.shape + 1, size)


@dataclass(frozen=True, repr=False)
class Weibull(Distribution):
    """F(x) = 1 - exp(-(x / s)^shape) with s = mean / Gamma(1 + 1/shape); exponential at shape 1."""

    mean: float
    shape: float
    seed: int | None = field(default=None, kw_only=True)
    kind: ClassVar[str] = "weibull"

    def __post_init__(self) -> None:
        _checked(self, mean=positive("mean", self.mean), shape=positive("shape", self.shape))
        if not WEIBULL_SHAPES[0] <= self.shape <= WEIBULL_SHAPES[1]:
            raise ValueError(f"shape must be in {list(WEIBULL_SHAPES)}, not {self.shape!r}")

    @cached_property
    def scale(self) -> float:
        """The scale s in seconds."""
        return self.mean / math.gamma(1 + 1 / self.shape)

    @cached_property
    def cov(self) -> float:
        return weibull_cov(self.shape)

    def sample(self, rng: np.random.Generator, size: int) -> Floats:
        return self.scale * rng.standard_exponential(size) ** (1 / self.shape)

    def _cdf(self, x: Floats) -> Floats:
        return -np.expm1(-((np.maximum(x, 0.0) / self.scale) ** self.shape))

    def _ppf(self, q: Floats) -> Floats:
        return self.scale * (-np.log1p(-q)) ** (1 / self.shape)

    def sample_length_biased(self, rng: np.random.Generator, size: int) -> Floats:
        return self.scale * rng.standard_gamma(1 + 1 / self.shape, size) ** (1 / self.shape)


WEIBULL_SHAPES = (0.1, 100.0)
"""The shapes for which mean and CoV can be computed in floats."""


def weibull_cov(shape: float) -> float:
    """CoV of a Weibull distribution: CoV^2 = Gamma(1 + 2/shape) / Gamma(1 + 1/shape)^2 - 1."""
    return math.sqrt(math.expm1(math.lgamma(1 + 2 / shape) - 2 * math.lgamma(1 + 1 / shape)))
