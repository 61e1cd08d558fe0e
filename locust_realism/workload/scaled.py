"""A distribution stretched to another mean: same shape, same CoV."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .checks import positive
from .distribution import Distribution
from .solve import Floats


@dataclass(frozen=True)
class Scaled(Distribution):
    """``factor`` times the times of another distribution; see :func:`scaled`."""

    times: Distribution
    factor: float
    kind: ClassVar[str] = "scaled"

    def __post_init__(self) -> None:
        object.__setattr__(self, "factor", positive("factor", self.factor))

    @property
    def mean(self) -> float:
        return self.factor * self.times.mean

    @property
    def cov(self) -> float:
        return self.times.cov

    @property
    def seed(self) -> int | None:
        return self.times.seed

    def sample(self, rng: np.random.Generator, size: int) -> Floats:
        return self.factor * self.times.sample(rng, size)

    def sample_length_biased(self, rng: np.random.Generator, size: int) -> Floats:
        return self.factor * self.times.sample_length_biased(rng, size)

    def _cdf(self, x: Floats) -> Floats:
        return self.times._cdf(x / self.factor)

    def _ppf(self, q: Floats) -> Floats:
        return self.factor * self.times._ppf(q)


def scaled(times: Distribution, factor: float) -> Distribution:
    """The distribution of ``factor`` > 0 times what ``times`` gives.

    >>> from locust_realism.workload.distributions import lognormal
    >>> longer = scaled(lognormal(300, cov=1.2), 2)
    >>> longer.mean, longer.cov, bool(longer.cdf(600) == lognormal(300, cov=1.2).cdf(300))
    (600.0, 1.2, True)
    """
    return times if factor == 1 else Scaled(times, factor)
