"""Families of distributions; the package has each under its kind: ``exponential`` is Exponential."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from locust_realism.common.numerics import Floats, invert_scalar
from locust_realism.common.validation import Check, not_negative, positive, refusal
from locust_realism.workload.distributions.base import Distribution


@dataclass(frozen=True, repr=False)
class Constant(Distribution):
    """Constant time ``mean`` >= 0 seconds, CoV 0; for comparison only, as such users fall into step.

    >>> Constant(2)(), Constant(2).cov
    (2.0, 0.0)
    """

    mean: float
    kind: ClassVar[str] = "constant"
    cov: ClassVar[float] = 0.0
    _checks: ClassVar[Mapping[str, Check]] = {"mean": not_negative}

    def _cdf(self, x: Floats) -> Floats:
        return np.where(x >= self.mean, 1.0, 0.0)

    def _ppf(self, q: Floats) -> Floats:
        return np.full(q.shape, self.mean)

    def sample_length_biased(self, rng: np.random.Generator, size: int) -> Floats:
        return np.full(size, self.mean)


@dataclass(frozen=True, repr=False)
class Uniform(Distribution):
    """Uniform times from ``minimum`` a >= 0 to ``maximum`` b seconds, as Locust's ``between``.

    The CoV is (b - a) / (sqrt(3) (a + b)), at most 0.577.

    >>> Uniform(5, 15).mean
    10.0
    """

    minimum: float
    maximum: float
    kind: ClassVar[str] = "uniform"
    _checks: ClassVar[Mapping[str, Check]] = {"minimum": not_negative}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.maximum < self.minimum:
            raise refusal("maximum", f">= minimum = {self.minimum!r}", self.maximum)

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
        return np.sqrt(self.minimum**2 + rng.random(size) * (self.maximum**2 - self.minimum**2))


class _StretchedExponential(Distribution):
    """Base of exponential and Weibull times: scale times a power of a standard exponential time."""

    if TYPE_CHECKING:  # a field, or a constant of the class

        @property
        def shape(self) -> float: ...

    @cached_property
    def scale(self) -> float:
        """Scale s in seconds."""
        return self.mean / math.gamma(1 + 1 / self.shape)

    def sample(self, rng: np.random.Generator, size: int) -> Floats:
        return self.scale * rng.standard_exponential(size) ** (1 / self.shape)

    def _cdf(self, x: Floats) -> Floats:
        return -np.expm1(-((np.maximum(x, 0.0) / self.scale) ** self.shape))

    def _ppf(self, q: Floats) -> Floats:
        return self.scale * (-np.log1p(-q)) ** (1 / self.shape)

    def sample_length_biased(self, rng: np.random.Generator, size: int) -> Floats:
        return self.scale * rng.standard_gamma(1 + 1 / self.shape, size) ** (1 / self.shape)


@dataclass(frozen=True, repr=False)
class Exponential(_StretchedExponential):
    """Exponential times with ``mean`` > 0 seconds: the think time of the classic queueing models.

    F(x) = 1 - exp(-x / mean), CoV 1. ``mean`` is 1 / lambda of the textbooks, and the lambda of JMeter's Poisson Random
    Timer.

    >>> Exponential(12)
    exponential(mean=12.0)
    >>> Exponential(-1)
    Traceback (most recent call last):
    ValueError: mean must be > 0, not -1.0
    """

    mean: float
    kind: ClassVar[str] = "exponential"
    cov: ClassVar[float] = 1.0
    shape: ClassVar[float] = 1.0


@dataclass(frozen=True, repr=False)
class TruncatedExponential(Distribution):
    """Exponential times up to ``maximum`` seconds, with ``mean`` > 0 seconds after truncation.

    Times above the maximum are drawn again: F(x) = (1 - exp(-x/m)) / (1 - exp(-maximum/m)), with m such that the mean
    is ``mean``. It must be below maximum / 2. The CoV is below 1: 0.998 for a maximum of 10 means, 0.936 for 5, 0.777
    for 3. Benchmarks such as TPC-W and Faban clip instead, at 5 to 10 means: a longer time becomes the maximum. That
    lowers the mean by a share exp(-maximum/mean) (0.005 % at 10 means, 0.7 % at 5), with CoV 0.9996 and 0.972.

    >>> wait = TruncatedExponential(7, maximum=70)
    >>> round(wait.cov, 3), round(wait.untruncated_mean, 4)
    (0.998, 7.0032)
    """

    mean: float
    maximum: float
    kind: ClassVar[str] = "truncated_exponential"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.mean < self.maximum / 2:
            raise refusal("mean", f"< maximum / 2 = {self.maximum / 2!r}, the mean of a uniform time", self.mean)

    @cached_property
    def _b(self) -> float:
        """Maximum in units of the mean before truncation."""
        share = self.mean / self.maximum
        # mean / maximum = 1/b - 1/(e^b - 1) falls from 1/2 to 0 as b grows.
        return invert_scalar(lambda b: -_truncated_mean(b), -share, 0.0, 2 / share)

    @property
    def untruncated_mean(self) -> float:
        """Mean of the exponential distribution before truncation."""
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
        from scipy.special import gammainc, gammaincinv

        # x f(x) is a gamma density of shape 2, cut at the maximum.
        shares = rng.random(size) * gammainc(2.0, self._b)
        return self.untruncated_mean * np.asarray(gammaincinv(2.0, shares))


def _truncated_mean(b: float) -> float:
    if b < 1e-2:
        return 0.5 - b / 12 + b**3 / 720
    return 1 / b - (1 / math.expm1(b) if b < 700 else 0.0)


@dataclass(frozen=True, repr=False)
class Lognormal(Distribution):
    """Lognormal times with ``mean`` > 0 seconds and CoV ``cov`` > 0: reading times, session durations.

    exp(mu + sigma N) with sigma^2 = ln(1 + cov^2) and mu = ln(mean) - sigma^2 / 2.

    >>> d = Lognormal(300, cov=1.2)
    >>> round(float(d.ppf(0.5)), 1)  # the median is mean / sqrt(1 + cov^2)
    192.1
    """

    mean: float
    cov: float
    kind: ClassVar[str] = "lognormal"

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
            return np.asarray(ndtr((np.log(np.maximum(x, 0.0)) - self.mu) / self.sigma))

    def _ppf(self, q: Floats) -> Floats:
        from scipy.special import ndtri

        return np.exp(self.mu + self.sigma * np.asarray(ndtri(q)))

    def sample_length_biased(self, rng: np.random.Generator, size: int) -> Floats:
        return rng.lognormal(self.mu + self.sigma**2, self.sigma, size)


@dataclass(frozen=True, repr=False)
class Gamma(Distribution):
    """Gamma times with ``mean`` > 0 seconds and ``cov`` > 0; a CoV below 1 suits the rhythm of typing.

    Shape 1 / cov^2 and scale mean cov^2: Erlang for whole 1 / cov^2, exponential for cov 1.

    >>> Gamma(8, cov=0.5).shape
    4.0
    """

    mean: float
    cov: float
    kind: ClassVar[str] = "gamma"

    @property
    def shape(self) -> float:
        """Shape parameter 1 / cov^2."""
        return 1 / self.cov**2

    def sample(self, rng: np.random.Generator, size: int) -> Floats:
        return self.mean / self.shape * rng.standard_gamma(self.shape, size)

    def _cdf(self, x: Floats) -> Floats:
        from scipy.special import gammainc

        return np.asarray(gammainc(self.shape, np.maximum(x, 0.0) * self.shape / self.mean))

    def _ppf(self, q: Floats) -> Floats:
        from scipy.special import gammaincinv

        return np.asarray(gammaincinv(self.shape, q)) * self.mean / self.shape

    def sample_length_biased(self, rng: np.random.Generator, size: int) -> Floats:
        return self.mean / self.shape * rng.standard_gamma(self.shape + 1, size)


@dataclass(frozen=True, repr=False)
class Hyperexponential(Distribution):
    """Two kinds of exponential times, short and long, with ``mean`` > 0 seconds and ``cov`` from 1.

    A glance or a long read: F(x) = 1 - p exp(-2 p x / mean) - q exp(-2 q x / mean), where p = (1 + sqrt((cov^2 - 1) /
    (cov^2 + 1))) / 2 is the share of short times and q = 1 - p. Both kinds take half of the time each (balanced means).
    Source: H. C. Tijms, Stochastic Models, 1994, appendix B.

    >>> d = Hyperexponential(10, cov=3)
    >>> round(d.short_share, 3), round(float(d.ppf(0.5)), 1)
    (0.947, 3.9)
    >>> Hyperexponential(10, cov=0.5)
    Traceback (most recent call last):
    ValueError: cov must be in [1.0, 1000000.0], not 0.5
    """

    mean: float
    cov: float
    kind: ClassVar[str] = "hyperexponential"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not HYPEREXPONENTIAL_COVS[0] <= self.cov <= HYPEREXPONENTIAL_COVS[1]:
            raise refusal("cov", f"in {list(HYPEREXPONENTIAL_COVS)}", self.cov)

    @cached_property
    def short_share(self) -> float:
        """Share of the short times."""
        square = self.cov**2
        return (1 + math.sqrt((square - 1) / (square + 1))) / 2

    @cached_property
    def _long_share(self) -> float:
        return 0.5 / (self.cov**2 + 1) / self.short_share  # 1 - short_share without its rounding

    def sample(self, rng: np.random.Generator, size: int) -> Floats:
        shares = np.where(rng.random(size) < self.short_share, self.short_share, self._long_share)
        return self.mean / 2 / shares * rng.standard_exponential(size)

    def _log_left(self, x: Floats) -> Floats:
        """Return the logarithm of the share of times over x times half the mean."""
        p, q = self.short_share, self._long_share
        return -q * x + np.log(q + p * np.exp((q - p) * x))

    def _cdf(self, x: Floats) -> Floats:
        return -np.expm1(self._log_left(np.clip(x * 2 / self.mean, 0.0, _LARGEST)))

    def _ppf(self, shares: Floats) -> Floats:
        # Newton's steps from 0 on a convex falling function end left of the root: none goes too far.
        p, q = self.short_share, self._long_share
        target = np.maximum(np.log1p(-shares), -40.0)  # the largest share below 1 has -36.7
        x = np.zeros_like(target)
        for _ in range(_MOST_STEPS):
            left = np.exp((q - p) * x)
            step = (self._log_left(x) - target) / ((q * q + p * p * left) / (q + p * left))
            x = x + step
            if (step <= 1e-15 * x).all():
                break
        return np.where(shares < 1, x * self.mean / 2, math.inf)

    def sample_length_biased(self, rng: np.random.Generator, size: int) -> Floats:
        shares = np.where(rng.random(size) < 0.5, self.short_share, self._long_share)
        return self.mean / 2 / shares * rng.standard_gamma(2.0, size)


HYPEREXPONENTIAL_COVS = (1.0, 1e6)
"""CoV from that of the exponential law to the largest whose long times floats can hold."""
_LARGEST = 1e300
_MOST_STEPS = 100
"""Newton's steps towards a quantile; 20 are usual."""


@dataclass(frozen=True, repr=False)
class Weibull(_StretchedExponential):
    """Weibull times: F(x) = 1 - exp(-(x / s)^shape), s = mean / Gamma(1 + 1/shape); exponential for shape 1."""

    mean: float
    shape: float
    kind: ClassVar[str] = "weibull"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not WEIBULL_SHAPES[0] <= self.shape <= WEIBULL_SHAPES[1]:
            raise refusal("shape", f"in {list(WEIBULL_SHAPES)}", self.shape)

    @property
    def cov(self) -> float:
        return _weibull_cov(self.shape)


WEIBULL_SHAPES = (0.1, 100.0)
"""Shapes with a mean and a CoV that floats can hold."""


def _weibull_cov(shape: float) -> float:
    return math.sqrt(math.expm1(math.lgamma(1 + 2 / shape) - 2 * math.lgamma(1 + 1 / shape)))


def weibull(mean: float, cov: float | None = None, *, shape: float | None = None, seed: int | None = None) -> Weibull:
    """Return Weibull times with ``mean`` > 0 seconds and either ``cov`` or ``shape`` (0.1 to 100; long tail below 1).

    CoV^2 = Gamma(1 + 2/shape) / Gamma(1 + 1/shape)^2 - 1.

    >>> round(weibull(10, cov=2).shape, 4), round(weibull(10, shape=2).cov, 4)
    (0.5427, 0.5227)
    """
    if (cov is None) == (shape is None):
        raise ValueError(f"exactly one of cov and shape must be given, not cov = {cov!r} and shape = {shape!r}")
    if shape is None:
        least, most = (_weibull_cov(s) for s in reversed(WEIBULL_SHAPES))
        wanted = positive("cov", cov)
        if not least <= wanted <= most:
            raise refusal("cov", f"in [{least:.4g}, {most:.4g}]", wanted)
        shape = invert_scalar(lambda s: -_weibull_cov(s), -wanted, *WEIBULL_SHAPES)
    return Weibull(mean, shape, seed=seed)


@dataclass(frozen=True, repr=False)
class Pareto(Distribution):
    """Pareto times with ``mean`` > 0 seconds: P(X > x) = (minimum / x)^shape, a heavy tail.

    A smaller shape has a heavier tail. A ``maximum`` truncates the distribution (the bounded Pareto distribution):
    ``mean`` is the mean after truncation, and the shape may be any number > 0. Without a maximum the shape must be
    > 1, and the CoV is infinite up to 2: a finite run then never shows the mean, so give a maximum.

    >>> round(Pareto(10, shape=3).minimum, 4), round(Pareto(10, shape=1.5, maximum=600).cov, 3)
    (6.6667, 1.912)
    >>> Pareto(10, shape=0.9)
    Traceback (most recent call last):
    ValueError: shape must be > 1 without a maximum (the mean is infinite), not 0.9
    """

    mean: float
    shape: float
    maximum: float | None = None
    kind: ClassVar[str] = "pareto"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.maximum is None:
            if self.shape <= 1:
                raise refusal("shape", "> 1 without a maximum (the mean is infinite)", self.shape)
        elif not self.mean < self.maximum:
            raise refusal("mean", f"< maximum = {self.maximum!r}", self.mean)
        elif self._log_ratio < _LEAST_LOG_RATIO / 2:
            raise refusal("mean", f"nearer to maximum = {self.maximum!r} with shape {self.shape!r}", self.mean)

    @cached_property
    def _log_ratio(self) -> float:
        """Value of ln(minimum / maximum); -inf without a maximum."""
        if self.maximum is None:
            return -math.inf
        share = self.mean / self.maximum
        return invert_scalar(lambda y: _moment(1, self.shape, y), share, _LEAST_LOG_RATIO, 0.0)

    @cached_property
    def minimum(self) -> float:
        """Least time in seconds."""
        if self.maximum is None:
            return self.mean * (self.shape - 1) / self.shape
        return self.maximum * math.exp(self._log_ratio)

    @property
    def cov(self) -> float:
        """CoV; inf for shape <= 2 without a maximum."""
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
        """Return the quantile of a density proportional to x^(-shape - 1), any shape, on the same interval."""
        if shape == 0:
            return self.minimum * np.exp(-q * self._log_ratio)
        power = shape * self._log_ratio
        # ln(1 - q + q e^power), in the form that does not cancel
        log = np.log1p(q * math.expm1(power)) if abs(power) < 1 else np.log((1 - q) + q * math.exp(power))
        return np.minimum(self.minimum * np.exp(-log / shape), self.maximum or math.inf)

    def sample_length_biased(self, rng: np.random.Generator, size: int) -> Floats:
        return self._quantile(rng.random(size), self.shape - 1)


_LEAST_LOG_RATIO = -600.0


def _moment(order: int, shape: float, log_ratio: float) -> float:
    """Return E[(X / maximum)^order] for ln(minimum / maximum) = ``log_ratio`` < 0."""
    if log_ratio == 0:
        return 1.0
    excess = shape - order
    tail = -log_ratio if excess == 0 else -math.expm1(excess * log_ratio) / excess
    return math.exp(order * log_ratio) * tail * shape / -math.expm1(shape * log_ratio)
