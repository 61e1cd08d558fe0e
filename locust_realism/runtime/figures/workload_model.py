"""Workload model of a locustfile, read from its user classes: the facts that the verdict compares a run with."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence

import gevent
from locust import TaskSet, User, runners
from locust.env import Environment

from locust_realism.analysis.settings import WorkloadModel
from locust_realism.analysis.verdict.dispersion import STAY_SHARES
from locust_realism.analysis.verdict.evidence import Facts
from locust_realism.runtime.coordination.plan import ensure_plan
from locust_realism.runtime.locust_compat import PerEnvironment
from locust_realism.runtime.pacing.pacers import paced_totals
from locust_realism.runtime.pacing.waits import PacedWait
from locust_realism.runtime.population.control import attach
from locust_realism.runtime.population.model import AnyPopulation, Population, population_of
from locust_realism.workload.distributions import Distribution
from locust_realism.workload.rates.profile import RateProfile
from locust_realism.workload.rates.shapes import rate_profile_from_dict
from locust_realism.workload.users.launching import MISSED_AFTER_S

Waits = Sequence[object]
Populations = Sequence[AnyPopulation | None]


def workload_facts(environment: Environment) -> Facts:
    """Return the workload model and the planned launches of an Environment's user classes, as far as they define them.

    Call it on the event loop of the master or of a local run.
    """
    waits = [waits_of(user_class) for user_class in environment.user_classes]
    populations = [population_of(user_class) for user_class in environment.user_classes]
    planned, arrivals = _planned(environment, [wait for each in waits for wait in each]), _arrivals(environment)
    if planned is None and all(map(_single_task, populations)):
        planned = arrivals  # each user launches one task on arrival
    return Facts(
        model=_model(environment, populations, waits),
        planned_profile=planned,
        arrival_profile=arrivals,
        missed_launches=missed_launches(environment),
    )


def waits_of(user_class: type[User]) -> Waits:
    """Return the waits between the tasks of a user: its own, and those that its TaskSets have instead.

    Locust's default wait is left out where every task is in a TaskSet with a wait of its own.

    >>> class Nested(TaskSet):
    ...     wait_time = "nested"
    >>> class Visitor(User):
    ...     wait_time, tasks = "own", [Nested]
    >>> waits_of(Visitor), waits_of(type("Bare", (User,), {"tasks": [Nested]}))
    (['own', 'nested'], ['nested'])
    """
    own, tasks = inspect.getattr_static(user_class, "wait_time", None), user_class.tasks
    inner = [inspect.getattr_static(task_set, "wait_time", None) for task_set in _task_sets(tasks, set())]
    found = [wait for wait in inner if wait is not TaskSet.__dict__["wait_time"]]  # the others wait as their user does
    unused = own is User.__dict__["wait_time"] and len(found) == len(inner) and all(map(inspect.isclass, tasks))
    return found if found and unused else [own, *found]


def _task_sets(tasks: Sequence[object], seen: set[object]) -> Iterator[type[TaskSet]]:
    """Yield every TaskSet among tasks, nested ones too, once."""
    for each in tasks:
        if inspect.isclass(each) and issubclass(each, TaskSet) and each not in seen:
            seen.add(each)
            yield each
            yield from _task_sets(each.tasks, seen)


class _MissedLaunches:
    """Count of the planned launches from full spawn to the stop request that found no idle user within a second."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._before: int | None = None
        self._until: int | None = None
        self._noting: gevent.Greenlet[[], None] | None = None
        events = environment.events
        events.test_start.add_listener(self._starting)
        events.spawning_complete.add_listener(self._spawned)
        events.test_stopping.add_listener(self._stopping)

    def count(self) -> int:
        """Return the count, 0 until that of the time before full spawn is known."""
        if self._before is None:
            return 0
        return (self._total() if self._until is None else self._until) - self._before

    def _total(self) -> int:
        return sum(counts.missed for counts in paced_totals(self._environment).values())

    def _starting(self, **_: object) -> None:
        self._end_noting()
        self._before = self._until = self._noting = None

    def _spawned(self, **_: object) -> None:
        if self._noting is None and self._until is None:
            # A launch is missed a second after its time, and a worker's next report has it.
            distributed = isinstance(self._environment.runner, runners.MasterRunner)
            reported_s = runners.WORKER_REPORT_INTERVAL if distributed else 0.0
            self._noting = gevent.spawn_later(MISSED_AFTER_S + reported_s, self._note)

    def _note(self) -> None:
        self._before = self._total()

    def _stopping(self, **_: object) -> None:
        self._end_noting()
        self._until = self._total()

    def _end_noting(self) -> None:
        if self._noting is not None:
            self._noting.kill(block=False)


_MISSED = PerEnvironment("missed_launches", _MissedLaunches)


def count_missed_launches(environment: Environment) -> None:
    """Begin to count the missed launches of each run; a second call changes nothing."""
    _MISSED.of(environment)


def missed_launches(environment: Environment) -> int:
    """Return the planned launches from full spawn to the stop request that found no idle user within a second.

    They are those of all processes, as of their last reports. Those of the first second after full spawn are left out,
    on a master those of the first four: reports do not separate them from those before.
    """
    return _MISSED.of(environment).count()


def _model(environment: Environment, populations: Populations, waits: Sequence[Waits]) -> WorkloadModel:
    every = [wait for each in waits for wait in each]
    unlimited = [
        population is not None or (isinstance(wait, PacedWait) and wait.scope == "total")
        for population, each in zip(populations, waits, strict=True)
        for wait in each
    ]
    kind = "open" if every and all(unlimited) else "closed" if every and not any(unlimited) else "unknown"
    think_time = every[0] if len(set(map(repr, every))) == 1 and isinstance(every[0], Distribution) else None
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
