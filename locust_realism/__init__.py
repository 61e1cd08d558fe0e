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

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .recording.launches import LaunchLog as LaunchLog
    from .runtime.pacing import diurnal_sine as diurnal_sine
    from .runtime.pacing import paced as paced
    from .runtime.plugin import install as install
    from .runtime.population import FinitePopulation as FinitePopulation
    from .runtime.population import Population as Population
    from .runtime.population import open_arrivals as open_arrivals
    from .workload.arrivals import arrival_times as arrival_times
    from .workload.distributions import constant as constant
    from .workload.distributions import empirical as empirical
    from .workload.distributions import exponential as exponential
    from .workload.distributions import gamma as gamma
    from .workload.distributions import lognormal as lognormal
    from .workload.distributions import pareto as pareto
    from .workload.distributions import truncated_exponential as truncated_exponential
    from .workload.distributions import uniform as uniform
    from .workload.distributions import weibull as weibull
    from .workload.rate_csv import rate_from_csv as rate_from_csv
    from .workload.rates import ConstantRate as ConstantRate
    from .workload.rates import PiecewiseLinearRate as PiecewiseLinearRate
    from .workload.rates import SineRate as SineRate
    from .workload.rates import StepRate as StepRate

_HOMES: dict[str, str] = {
    "ConstantRate": "workload.rates",
    "FinitePopulation": "runtime.population",
    "LaunchLog": "recording.launches",
    "PiecewiseLinearRate": "workload.rates",
    "Population": "runtime.population",
    "SineRate": "workload.rates",
    "StepRate": "workload.rates",
    "arrival_times": "workload.arrivals",
    "constant": "workload.distributions",
    "diurnal_sine": "runtime.pacing",
    "empirical": "workload.distributions",
    "exponential": "workload.distributions",
    "gamma": "workload.distributions",
    "install": "runtime.plugin",
    "lognormal": "workload.distributions",
    "open_arrivals": "runtime.population",
    "paced": "runtime.pacing",
    "pareto": "workload.distributions",
    "rate_from_csv": "workload.rate_csv",
    "truncated_exponential": "workload.distributions",
    "uniform": "workload.distributions",
    "weibull": "workload.distributions",
}
"""Public name to the module that defines it."""

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
