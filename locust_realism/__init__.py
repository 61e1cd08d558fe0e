"""Make a Locust load test behave like real users, and see with exact figures whether it did.

In a locustfile::

    from locust import HttpUser, task
    from locust_realism import exponential, install

    install()

    class Visitor(HttpUser):
        wait_time = exponential(12)

        @task
        def home(self):
            self.client.get("/")

Importing registers nothing and imports neither Locust nor gevent: the public names below are looked up when they are
first used, so that a notebook can read the files of a run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from locust_realism.common.lazy import lazy_names
from locust_realism.common.moved import register_moved_modules

if TYPE_CHECKING:
    from locust_realism.analysis.summary import summarize as summarize
    from locust_realism.recording.formats import read_launches as read_launches
    from locust_realism.recording.launches import LaunchLog as LaunchLog
    from locust_realism.runtime.pacing.waits import diurnal_sine as diurnal_sine
    from locust_realism.runtime.pacing.waits import paced as paced
    from locust_realism.runtime.plugin import install as install
    from locust_realism.runtime.population.model import FinitePopulation as FinitePopulation
    from locust_realism.runtime.population.model import Population as Population
    from locust_realism.runtime.population.model import open_arrivals as open_arrivals
    from locust_realism.workload.distributions import constant as constant
    from locust_realism.workload.distributions import empirical as empirical
    from locust_realism.workload.distributions import exponential as exponential
    from locust_realism.workload.distributions import gamma as gamma
    from locust_realism.workload.distributions import hyperexponential as hyperexponential
    from locust_realism.workload.distributions import lognormal as lognormal
    from locust_realism.workload.distributions import pareto as pareto
    from locust_realism.workload.distributions import truncated_exponential as truncated_exponential
    from locust_realism.workload.distributions import uniform as uniform
    from locust_realism.workload.distributions import weibull as weibull
    from locust_realism.workload.distributions.base import Distribution as Distribution
    from locust_realism.workload.rates.csv_file import rate_from_csv as rate_from_csv
    from locust_realism.workload.rates.profile import RateProfile as RateProfile
    from locust_realism.workload.rates.shapes import ConstantRate as ConstantRate
    from locust_realism.workload.rates.shapes import PiecewiseLinearRate as PiecewiseLinearRate
    from locust_realism.workload.rates.shapes import SineRate as SineRate
    from locust_realism.workload.rates.shapes import StepRate as StepRate
    from locust_realism.workload.users.arrivals import arrival_times as arrival_times

_HOMES: dict[str, str] = {
    "ConstantRate": "workload.rates.shapes",
    "Distribution": "workload.distributions.base",
    "FinitePopulation": "runtime.population.model",
    "LaunchLog": "recording.launches",
    "PiecewiseLinearRate": "workload.rates.shapes",
    "Population": "runtime.population.model",
    "RateProfile": "workload.rates.profile",
    "SineRate": "workload.rates.shapes",
    "StepRate": "workload.rates.shapes",
    "arrival_times": "workload.users.arrivals",
    "constant": "workload.distributions",
    "diurnal_sine": "runtime.pacing.waits",
    "empirical": "workload.distributions",
    "exponential": "workload.distributions",
    "gamma": "workload.distributions",
    "hyperexponential": "workload.distributions",
    "install": "runtime.plugin",
    "lognormal": "workload.distributions",
    "open_arrivals": "runtime.population.model",
    "paced": "runtime.pacing.waits",
    "pareto": "workload.distributions",
    "rate_from_csv": "workload.rates.csv_file",
    "read_launches": "recording.formats",
    "summarize": "analysis.summary",
    "truncated_exponential": "workload.distributions",
    "uniform": "workload.distributions",
    "weibull": "workload.distributions",
}
"""Public name to the module that defines it."""

__all__ = sorted(_HOMES)

register_moved_modules()


__getattr__ = lazy_names(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
