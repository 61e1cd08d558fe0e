"""Workload model of a locustfile, read from its user classes: the facts that the verdict compares a run with."""

from __future__ import annotations

import inspect
from collections.abc import Sequence

from locust.env import Environment

from locust_realism.analysis.settings import WorkloadModel
from locust_realism.analysis.verdict.dispersion import STAY_SHARES
from locust_realism.analysis.verdict.evidence import Facts
from locust_realism.runtime.coordination.plan import ensure_plan
from locust_realism.runtime.pacing.pacers import paced_totals
from locust_realism.runtime.pacing.waits import PacedWait
from locust_realism.runtime.population.control import attach
from locust_realism.runtime.population.model import AnyPopulation, Population, population_of
from locust_realism.workload.distributions import Distribution
from locust_realism.workload.rates.profile import RateProfile
from locust_realism.workload.rates.shapes import rate_profile_from_dict

Waits = Sequence[object]
Populations = Sequence[AnyPopulation | None]


def workload_facts(environment: Environment) -> Facts:
    """Return the workload model and the planned launches of an Environment's user classes, as far as they define them.

    Call it on the event loop of the master or of a local run.
    """
    waits = [inspect.getattr_static(user_class, "wait_time", None) for user_class in environment.user_classes]
    populations = [population_of(user_class) for user_class in environment.user_classes]
    planned, arrivals = _planned(environment, waits), _arrivals(environment)
    if planned is None and all(map(_single_task, populations)):
        planned = arrivals  # each user launches one task on arrival
    return Facts(
        model=_model(environment, populations, waits),
        planned_profile=planned,
        arrival_profile=arrivals,
        missed_launches=missed_launches(environment),
    )


def missed_launches(environment: Environment) -> int:
    """Return the planned launches of the run so far that found no idle user within a second, over all processes."""
    return sum(counts.missed for counts in paced_totals(environment).values())


def _model(environment: Environment, populations: Populations, waits: Waits) -> WorkloadModel:
    paced = [isinstance(wait, PacedWait) and wait.scope == "total" for wait in waits]
    unlimited = [population is not None or wait for population, wait in zip(populations, paced, strict=True)]
    kind = "open" if waits and all(unlimited) else "closed" if waits and not any(unlimited) else "unknown"
    think_time = waits[0] if len(set(map(repr, waits))) == 1 and isinstance(waits[0], Distribution) else None
    stay = _stay(populations[0]) if len(populations) == 1 else None
    users = getattr(environment.runner, "target_user_count", 0)
    return WorkloadModel(
        kind=kind,
        users=users if kind == "closed" and users >= 1 else None,
        think_time_s=None if think_time is None else float(think_time.mean),
        think_time_cov=None if think_time is None else float(think_time.cov),
        # Users of a finite population return, and those of one task launch on arrival, which check 1 covers.
        poisson_arrivals=bool(waits) and all(isinstance(p, Population) and not _single_task(p) for p in populations),
        session_s=None if stay is None else float(stay.mean),
        session_quantiles_s=None if stay is None else tuple(stay.ppf(STAY_SHARES).tolist()),
    )


def _single_task(population: AnyPopulation | None) -> bool:
    length = population.session_length if isinstance(population, Population) else None
    return isinstance(length, Distribution) and length.mean == 1 and length.cov == 0


def _stay(population: AnyPopulation | None) -> Distribution | None:
    """Return the law of the session durations where it depends on the plan alone."""
    if not isinstance(population, Population) or population.limited_by_tasks:
        return None
    duration = population.session_duration
    return duration if isinstance(duration, Distribution) else None


def _arrivals(environment: Environment) -> RateProfile | None:
    """Return the arrival rate of users where all come from open populations that were not edited since the start."""
    control = attach(environment)
    if control is None or control.edited or not environment.user_classes:
        return None
    populations = [control.populations.get(user_class.__name__) for user_class in environment.user_classes]
    if not all(isinstance(population, Population) for population in populations):
        return None
    profile = sum(each.arrivals for each in control.populations.values() if isinstance(each, Population))
    return profile if isinstance(profile, RateProfile) else None


def _planned(environment: Environment, waits: Waits) -> RateProfile | None:
    """Return the profile of all launches where one paced wait plans them all."""
    first = waits[0] if waits else None
    if not isinstance(first, PacedWait) or first.scope != "total" or any(wait is not first for wait in waits):
        return None
    plan = ensure_plan(environment).plan
    item = None if plan is None else plan.items.get(first.name)
    return None if item is None else rate_profile_from_dict(item)
