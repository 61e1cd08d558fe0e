"""One state of what the processes of a run agree on, and the agreement as one process sees it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import gevent
from gevent.event import Event
from locust.runners import WorkerRunner

logger = logging.getLogger(__name__)

PLAN_TIMEOUT_S = 10.0
"""After this long without a plan a wait that needs one ends the run."""


@dataclass(frozen=True)
class Plan:
    """One state of the agreement; JSON-able through :meth:`to_dict`.

    ``run`` numbers the test runs of the master, ``version`` the changes in a run. ``members`` are the worker indexes
    that share the load, ascending, ``previous`` those of the version before. ``items`` holds what was put by name.
    """

    run: int
    version: int
    running: bool
    members: tuple[int, ...]
    previous: tuple[int, ...]
    seed: int
    items: dict[str, Any] = field(default_factory=dict)

    @property
    def workers(self) -> int:
        """W, the number of processes that share the load."""
        return len(self.members)

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain data."""
        return asdict(self)

    @staticmethod
    def from_dict(data: dict[str, Any]) -> Plan:
        """The inverse of :meth:`to_dict`; keys that this version does not know are left out."""
        known = {name: data[name] for name in Plan.__dataclass_fields__}
        known["members"], known["previous"] = tuple(known["members"]), tuple(known["previous"])
        return Plan(**known)


class Planner:
    """The plan as one process sees it; ``index`` is its worker index. Made by ``runtime.plan.ensure_plan`` only."""

    def __init__(self, environment: Any) -> None:
        self.environment = environment
        self.plan: Plan | None = None
        self.index = 0
        self._origin = 0.0
        self._subscribers: list[Callable[[Plan], None]] = []
        self._arrived = Event()
        self._aborted = False

    def put(self, name: str, payload: Any) -> None:
        """Say what holds under ``name`` from now on (plain data); sent at once if it is a change in a running test."""

    def subscribe(self, subscriber: Callable[[Plan], None]) -> None:
        """Have ``subscriber(plan)`` called at every new run and version; must not block."""
        self._subscribers.append(subscriber)
        if self.plan is not None:
            subscriber(self.plan)

    def elapsed(self) -> float:
        """Seconds since the test started, by the master's clock as far as it is known here."""
        return time.perf_counter() - self._origin

    def time_of(self, elapsed: float) -> float:
        """The ``perf_counter`` time of this process at which the run is ``elapsed`` seconds old."""
        return self._origin + elapsed

    def share(self) -> float:
        """This process's share of a total rate; 0 while the master does not count it as a member."""
        plan = self.plan
        return 1 / plan.workers if plan is not None and self.index in plan.members else 0.0

    def await_item(self, name: str, timeout: float | None = None) -> Any:
        """What was put under ``name``; blocks until it is there.

        After ``timeout`` seconds (default :data:`PLAN_TIMEOUT_S`) the run is ended with a message that says why, and
        TimeoutError is raised.
        """
        deadline = time.perf_counter() + (PLAN_TIMEOUT_S if timeout is None else timeout)
        while (plan := self.plan) is None or not plan.running or name not in plan.items:
            self._arrived.clear()
            if not self._arrived.wait(max(0.0, deadline - time.perf_counter())) and time.perf_counter() >= deadline:
                raise TimeoutError(self.abort(self._why_missing(name)))
        return plan.items[name]

    def abort(self, why: str) -> str:
        """End the run because it cannot be what was asked for: message, exit code 1. Returns the message."""
        if not self._aborted:
            self._aborted = True
            logger.error(why)
            gevent.spawn(self._end_run, why)
        return why

    def _why_missing(self, name: str) -> str:
        plan = self.plan
        if plan is None or not plan.running:
            return (
                f"No plan for {name!r} has come from the master: it must run the same locustfile, with locust_realism "
                "installed, because only the master knows how many workers share the rate. The run is ended."
            )
        return (
            f"The master's plan has no {name!r} (it has {sorted(plan.items)}): master and workers must run the same "
            "locustfile. The run is ended."
        )

    def _end_run(self, why: str) -> None:
        runner = self.environment.runner
        self.environment.process_exit_code = 1
        options = self.environment.parsed_options
        if isinstance(runner, WorkerRunner) or (options is not None and options.headless):
            runner.quit()
        elif runner is not None:
            runner.stop()

    def _accept(self, plan: Plan) -> None:
        before, self.plan = self.plan, plan
        self._arrived.set()
        if before is not None and (before.run, before.version) == (plan.run, plan.version):
            return
        if before is None or before.run != plan.run:
            self._aborted = False
        for subscriber in self._subscribers:
            try:
                subscriber(plan)
            except Exception:
                logger.exception("A subscriber of the plan failed")
