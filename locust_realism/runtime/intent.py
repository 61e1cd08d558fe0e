"""What the locustfile means the load to be, read from its user classes: the facts that the verdict compares with."""

from __future__ import annotations

import inspect
from typing import Any

from locust_realism.analysis.evidence import Facts
from locust_realism.analysis.settings import WorkloadModel
from locust_realism.runtime.control import attach
from locust_realism.runtime.pacing import PacedWait
from locust_realism.runtime.plan import ensure_plan
from locust_realism.runtime.population import AnyPopulation, Population, population_of
from locust_realism.workload.distributions import Distribution
from locust_realism.workload.profile import RateProfile
from locust_realism.workload.rates import rate_profile_from_dict


def intended_load(environment: Any) -> Facts:
    """The workload model and the planned launches of an Environment's user classes, as far as they say.

    Call it on the event loop of the master or of a local run; what cannot be known is left out.
    """
    classes = list(environment.user_classes)
    waits = [inspect.getattr_static(user_class, "wait_time", None) for user_class in classes]
    planned, arrivals = _planned(environment, waits), _arrivals(environment, classes)
    if planned is None and all(map(_is_one_task, classes)):
        planned = arrivals  # who comes launches at once, and that is all
    return Facts(model=_model(environment, classes, waits), planned_profile=planned, arrival_profile=arrivals)


def _model(environment: Any, classes: list[Any], waits: list[Any]) -> WorkloadModel:
    populations = [population_of(user_class) for user_class in classes]
    populated = [population is not None for population in populations]
    paced = [isinstance(wait, PacedWait) and wait.scope == "total" for wait in waits]
    open_ended = [a or b for a, b in zip(populated, paced, strict=True)]
    kind = "open" if classes and all(open_ended) else "closed" if classes and not any(open_ended) else "unknown"
    same = len(set(map(repr, waits))) == 1 and isinstance(waits[0], Distribution)
    users = getattr(environment.runner, "target_user_count", 0)
    return WorkloadModel(
        kind=kind,
        users=users if kind == "closed" and users >= 1 else None,
        think_time_s=float(waits[0].mean) if same else None,
        think_time_cov=float(waits[0].cov) if same else None,
        # users of a finite population come again, and those of one task launch with their arrival: check 1 looks at it
        poisson_arrivals=bool(classes) and all(isinstance(p, Population) and not _single_task(p) for p in populations),
        session_s=_stay(populations[0]) if len(populations) == 1 else None,
    )


def _is_one_task(user_class: Any) -> bool:
    population = population_of(user_class)
    return isinstance(population, Population) and _single_task(population)


def _single_task(population: Population) -> bool:
    length = population.session_length
    return isinstance(length, Distribution) and length.mean == 1 and length.cov == 0


def _stay(population: AnyPopulation | None) -> float | None:
    """Mean time that a user stays in seconds, where the plan alone decides it."""
    if not isinstance(population, Population) or population.limited_by_tasks:
        return None
    duration = population.session_duration
    return float(duration.mean) if isinstance(duration, Distribution) else None


def _arrivals(environment: Any, classes: list[Any]) -> RateProfile | None:
    """The rate at which users arrive, where open populations bring them all and were not edited since the start."""
    control = attach(environment)
    if control is None:
        return None
    populations = control.populations
    if not classes or not all(isinstance(populations.get(c.__name__), Population) for c in classes):
        return None
    if control.edited:
        return None
    profile = sum(population.arrivals for population in populations.values() if isinstance(population, Population))
    return profile if isinstance(profile, RateProfile) else None


def _planned(environment: Any, waits: list[Any]) -> Any:
    """The profile of all launches together, where one paced wait makes them all."""
    first = waits[0] if waits else None
    if not isinstance(first, PacedWait) or first.scope != "total" or any(wait is not first for wait in waits):
        return None
    plan = ensure_plan(environment).plan
    item = None if plan is None else plan.items.get(first.name)
    return None if item is None else rate_profile_from_dict(item)
