"""What all processes of a run agree on: rate profiles, number of workers, time since the start, seed.

Independent Poisson processes superpose and split exactly, so W workers that each follow lambda(t)/W need nothing of
each other but a common lambda, W and t. The master says so in a plan message: when the test starts, on every change of
membership or of what was put, every second, and in answer to a worker's hello. A worker maps the elapsed time onto its
own monotonic clock. In a LocalRunner the same interface works with one member and no messages.

    planner = ensure_plan(environment)          # any process, any number of times
    planner.put("name", profile.to_dict())      # master or local; ignored on a worker, where the master's word counts
    planner.subscribe(on_plan)                  # on_plan(plan) at each new run or version, at once if there is one
    planner.elapsed(), planner.time_of(t)       # seconds of the run now; the perf_counter time of second t of the run
    planner.share()                             # this process's share of the total rate: 1/W, 0 if not a member

Code that exists before any Environment (a wait built in a class body) calls :func:`declare` instead: it registers,
once, a listener of Locust's init event, which is all that importing a locustfile does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from locust.runners import LocalRunner, MasterRunner, WorkerRunner

from .planner import Plan, Planner
from .planners import LeadingPlanner, MasterPlanner, WorkerPlanner, declared

__all__ = ["Plan", "Planner", "connecting", "declare", "ensure_plan", "ensure_plan_at_init", "on_init"]

_PLANNER_KEY = "_realism_planner"
_parts: list[Callable[..., None]] = []


def ensure_plan(environment: Any) -> Planner:
    """The planner of an Environment that has a runner; made at the first call.

    Raises ValueError if the Environment has no runner yet.
    """
    planner: Planner | None = environment.__dict__.get(_PLANNER_KEY)
    if planner is None:
        runner = environment.runner
        if isinstance(runner, MasterRunner):
            planner = MasterPlanner(environment)
        elif isinstance(runner, WorkerRunner):
            planner = WorkerPlanner(environment)
        elif isinstance(runner, LocalRunner):
            planner = LeadingPlanner(environment)
        else:
            raise ValueError(f"environment must have a runner, not {runner!r}")
        environment.__dict__[_PLANNER_KEY] = planner
    return planner


def declare(name: str, payload: Callable[[], Any]) -> None:
    """Put ``payload()`` under ``name`` when a test starts, in every Environment that has or will get a planner.

    For code that is built before there is an Environment. ``name`` must be the same in all processes of the run.
    """
    declared[name] = payload
    on_init(ensure_plan_at_init)


def on_init(listener: Callable[..., None]) -> None:
    """Add a listener to Locust's init event, once; it may be called again for the same Environment."""
    from locust import events

    init: Any = events.init
    if listener not in _parts:
        _parts.append(listener)
    if listener not in init._handlers:
        init.add_listener(listener)


@contextmanager
def connecting(environment: Any) -> Iterator[None]:
    """Connect the waits and populations that are built in the block to an Environment whose init event is being told.

    For those whose settings are options, which are known only then: what is built in a class body connects itself, but
    a listener that is added while an event is told comes too late for it.

        @events.init.add_listener
        def choose_load(environment, **_):
            with connecting(environment):
                Visitor.wait_time = paced(ConstantRate(environment.parsed_options.rate))
    """
    yield
    for listener in list(_parts):
        listener(environment=environment)


def ensure_plan_at_init(environment: Any, **_: Any) -> None:
    """Listener of the init event."""
    if environment.runner is not None:
        ensure_plan(environment)
