"""What the locustfile means the load to be, read from its user classes: the facts that the verdict compares with."""

from __future__ import annotations

import inspect
from typing import Any

from locust_realism.analysis.evidence import Facts
from locust_realism.analysis.settings import WorkloadModel
from locust_realism.runtime.pacing import PacedWait
from locust_realism.runtime.plan import ensure_plan
from locust_realism.runtime.population import population_of
from locust_realism.workload.distributions import Distribution
from locust_realism.workload.rates import rate_profile_from_dict


def intended_load(environment: Any) -> Facts:
    """The workload model and the planned launches of an Environment's user classes, as far as they say.

    Call it on the event loop of the master or of a local run; what cannot be known is left out.
    """
    classes = list(environment.user_classes)
    waits = [inspect.getattr_static(user_class, "wait_time", None) for user_class in classes]
    return Facts(model=_model(environment, classes, waits), planned_profile=_planned(environment, waits))


def _model(environment: Any, classes: list[Any], waits: list[Any]) -> WorkloadModel:
    populated = [population_of(user_class) is not None for user_class in classes]
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
        poisson_arrivals=bool(classes) and all(populated),
    )


def _planned(environment: Any, waits: list[Any]) -> Any:
    """The profile of all launches together, where one paced wait makes them all."""
    first = waits[0] if waits else None
    if not isinstance(first, PacedWait) or first.scope != "total" or any(wait is not first for wait in waits):
        return None
    plan = ensure_plan(environment).plan
    item = None if plan is None else plan.items.get(first.name)
    return None if item is None else rate_profile_from_dict(item)
