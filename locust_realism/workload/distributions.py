"""Distributions of think times, session lengths and durations, and service times; all by their mean, in seconds.

The mean is that of the times that are drawn: where a distribution has a maximum, the mean is the one after truncation,
so swapping one distribution for another keeps the load. Impossible settings raise ValueError with the name, the value
and the bound when the object is made. The classes are in ``families``, ``pareto`` and ``empirical``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .checks import positive
from .distribution import Distribution
from .empirical import Empirical, empirical
from .families import (
    WEIBULL_SHAPES,
    Constant,
    Exponential,
    Gamma,
    Lognormal,
    TruncatedExponential,
    Uniform,
    Weibull,
    weibull_cov,
)
from .pareto import Pareto, pareto
from .solve import invert_scalar

__all__ = [
    "Constant",
    "Distribution",
    "Empirical",
    "Exponential",
    "Gamma",
    "Lognormal",
    "Pareto",
    "TruncatedExponential",
    "Uniform",
    "Weibull",
    "constant",
    "distribution_from_dict",
    "empirical",
    "exponential",
    "gamma",
    "lognormal",
    "pareto",
    "truncated_exponential",
    "uniform",
    "weibull",
]


def constant(mean: float) -> Constant:
    """Always ``mean`` >= 0 seconds. Users with a constant think time fall into step: for comparison, not for use.

    >>> constant(2)(), constant(2).cov
    (2.0, 0.0)
    """
    return Constant(mean)


def uniform(minimum: float, maximum: float, *, seed: int | None = None) -> Uniform:
    """Between ``minimum`` >= 0 and ``maximum`` seconds, as Locust's ``between``, on a stream for each user.

    >>> uniform(5, 15).mean
    10.0
    """
    return Uniform(minimum, maximum, seed=seed)


def exponential(mean: float, *, seed: int | None = None) -> Exponential:
    """Exponential times with ``mean`` > 0 seconds: the think time of the classic queueing models.

    ``mean`` is one over the lambda of the textbooks, and what JMeter calls lambda in its Poisson Random Timer.

    >>> exponential(12)
    exponential(mean=12.0)
    >>> exponential(-1)
    Traceback (most recent call last):
    ValueError: mean must be > 0, not -1.0
    """
    return Exponential(mean, seed=seed)


def truncated_exponential(mean: float, maximum: float, *, seed: int | None = None) -> TruncatedExponential:
    """Exponential times that never exceed ``maximum`` seconds, with ``mean`` > 0 seconds after truncation.

    Times above the maximum are drawn again, so F(x) = (1 - exp(-x/m)) / (1 - exp(-maximum/m)), with the m for which
    the mean comes out right; no time is more likely than others near it. The mean must be below maximum / 2, and the
    CoV is below 1: 0.998 for a maximum of 10 means, 0.936 for 5, 0.777 for 3. Benchmarks such as TPC-W and Faban clip
    instead, at 5 to 10 means: a longer time becomes the maximum, which takes exp(-maximum/mean) off the mean they ask
    for (0.005 % at 10 means, 0.7 % at 5) and leaves CoV 0.9996 and 0.972.

    >>> wait = truncated_exponential(7, maximum=70)
    >>> round(wait.cov, 3), round(wait.untruncated_mean, 4)
    (0.998, 7.0032)
    """
    return TruncatedExponential(mean, maximum, seed=seed)


def lognormal(mean: float, cov: float, *, seed: int | None = None) -> Lognormal:
    """Lognormal times with ``mean`` > 0 seconds and CoV ``cov`` > 0: reading times, session durations.

    >>> d = lognormal(300, cov=1.2)
    >>> round(float(d.ppf(0.5)), 1)  # the median is mean / sqrt(1 + cov^2)
    192.1
    """
    return Lognormal(mean, cov, seed=seed)


def gamma(mean: float, cov: float, *, seed: int | None = None) -> Gamma:
    """Gamma times with ``mean`` > 0 seconds and coefficient of variation ``cov`` > 0; cov below 1 for a typing rhythm.

    >>> gamma(8, cov=0.5).shape
    4.0
    """
    return Gamma(mean, cov, seed=seed)


def weibull(mean: float, cov: float | None = None, *, shape: float | None = None, seed: int | None = None) -> Weibull:
    """Weibull times with ``mean`` > 0 seconds, by either ``cov`` or ``shape`` (0.1 to 100; below 1 is a long tail).

    CoV^2 = Gamma(1 + 2/shape) / Gamma(1 + 1/shape)^2 - 1.

    >>> round(weibull(10, cov=2).shape, 4), round(weibull(10, shape=2).cov, 4)
    (0.5427, 0.5227)
    """
    if (cov is None) == (shape is None):
        raise ValueError(f"exactly one of cov and shape must be given, not cov = {cov!r} and shape = {shape!r}")
    if shape is None:
        least, most = (weibull_cov(s) for s in reversed(WEIBULL_SHAPES))
        wanted = positive("cov", cov)
        if not least <= wanted <= most:
            raise ValueError(f"cov must be in [{least:.4g}, {most:.4g}], not {wanted!r}")
        shape = invert_scalar(lambda s: -weibull_cov(s), -wanted, *WEIBULL_SHAPES)
    return Weibull(mean, shape, seed=seed)


_KINDS: dict[str, type[Distribution]] = {
    family.kind: family
    for family in (
        Constant,
        Uniform,
        Exponential,
        TruncatedExponential,
        Lognormal,
        Gamma,
        Weibull,
        Pareto,
        Empirical,
    )
}


def distribution_from_dict(data: Mapping[str, Any]) -> Distribution:
    """The distribution that ``Distribution.to_dict`` wrote; ValueError for an unknown kind or wrong settings.

    >>> distribution_from_dict(exponential(12).to_dict()) == exponential(12)
    True
    """
    kind = data.get("kind")
    if kind not in _KINDS:
        raise ValueError(f"kind must be one of {sorted(_KINDS)}, not {kind!r}")
    try:
        return _KINDS[kind](**{name: value for name, value in data.items() if name != "kind"})
    except TypeError as error:
        raise ValueError(f"kind {kind!r} does not take these settings: {error}") from None
