"""Distributions of think times, session lengths and durations, and service times; all by their mean, in seconds.

The mean is that of the drawn times: a distribution with a maximum is set by its mean after truncation, so an exchange
of distributions keeps the load. Impossible settings raise ValueError with name, bound and value at construction.
"""

from __future__ import annotations

from collections.abc import Mapping

from locust_realism.common.validation import make_of_kind
from locust_realism.workload.distributions.base import Distribution
from locust_realism.workload.distributions.empirical import Empirical, empirical
from locust_realism.workload.distributions.families import Constant as constant
from locust_realism.workload.distributions.families import Exponential as exponential
from locust_realism.workload.distributions.families import Gamma as gamma
from locust_realism.workload.distributions.families import Hyperexponential as hyperexponential
from locust_realism.workload.distributions.families import Lognormal as lognormal
from locust_realism.workload.distributions.families import Pareto as pareto
from locust_realism.workload.distributions.families import TruncatedExponential as truncated_exponential
from locust_realism.workload.distributions.families import Uniform as uniform
from locust_realism.workload.distributions.families import Weibull, weibull

__all__ = [
    "Distribution", "constant", "distribution_from_dict", "empirical", "exponential", "gamma", "hyperexponential",
    "lognormal", "pareto", "truncated_exponential", "uniform", "weibull",
]  # fmt: skip

KINDS: dict[str, type[Distribution]] = {
    family.kind: family
    for family in (
        constant, uniform, exponential, truncated_exponential, hyperexponential, lognormal, gamma, Weibull, pareto,
        Empirical,
    )
}  # fmt: skip
"""Classes by the kind that ``to_dict`` writes, which is the public name too."""


def distribution_from_dict(data: Mapping[str, object]) -> Distribution:
    """Return the distribution that ``Distribution.to_dict`` wrote; ValueError for an unknown kind or wrong settings.

    >>> distribution_from_dict(exponential(12).to_dict()) == exponential(12)
    True
    """
    return make_of_kind(KINDS, data)
