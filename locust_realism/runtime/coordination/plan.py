"""Agreement of all processes of a run: rate profiles, number of workers, time since the start, seed.

Independent Poisson processes superpose and split exactly, so W workers that each follow lambda(t)/W need nothing of
each other but a common lambda, W and t. The master sends them in a plan message: when a test starts, on each change of
the members or of an item, every second, and in answer to a worker's hello. A worker maps the elapsed time onto its own
monotonic clock. A LocalRunner has the same interface, with one member and no messages.

    planner = ensure_plan(environment)          # any process, any number of times
    planner.put("name", profile.to_dict())      # master or local; without effect on a worker
    planner.subscribe(on_plan)                  # on_plan(plan) at each new run or version, at once if there is one
    planner.elapsed(), planner.time_of(t)       # seconds of the run now; the perf_counter time of second t of the run
    planner.share()                             # this process's share of the total rate: 1/W, 0 if not a member

Code that runs before any Environment exists (a wait built in a class body) calls :func:`declare` instead: it adds a
listener to Locust's init event, once, which is the only effect of importing a locustfile.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, cast

import gevent
from gevent.event import Event
from locust.env import Environment
from locust.runners import STATE_INIT, STATE_RUNNING, STATE_SPAWNING, LocalRunner, MasterRunner, Runner, WorkerRunner

from locust_realism.runtime.coordination.handshake import handshake
from locust_realism.runtime.locust_compat import PerEnvironment, add_once
from locust_realism.runtime.wire import ABORT, PLAN, AbortData, PlanData, wire_of

logger = logging.getLogger(__name__)

PLAN_TIMEOUT_S = 10.0
"""Seconds without a plan after which a wait that needs one ends the run."""

PLAN_INTERVAL_S = 1.0
"""Seconds between repetitions of the plan by the master."""
MEMBERSHIP_INTERVAL_S = 0.2
"""Seconds between the master's checks of its members."""


@dataclass(frozen=True)
class Plan:
    """One state of the agreement, plain data throughout.

    - ``run`` number of the test run since the master started, ``version`` number of the change within the run
    - ``members`` worker indexes that share the load, ascending; ``previous`` those of the version before
    - ``items`` payloads by name
    """

    run: int
    version: int
    running: bool
    members: tuple[int, ...]
    previous: tuple[int, ...]
    seed: int
    items: dict[str, Any] = field(default_factory=dict)

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Plan:
        """Return the plan of a message; keys that this version does not have are left out."""
        known = {name: data[name] for name in Plan.__dataclass_fields__}
        return Plan(**{**known, "members": tuple(data["members"]), "previous": tuple(data["previous"])})


class Planner:
    """The plan as one process has it; ``index`` is its worker index. Made by :func:`ensure_plan` only."""

    def __init__(self, environment: Environment) -> None:
        assert environment.runner is not None
        self.environment = environment
        self._runner: Runner = environment.runner
        self.plan: Plan | None = None
        self.index = 0
        self._origin = 0.0
        self._subscribers: list[Callable[[Plan], None]] = []
        self._arrived = Event()
        self._aborted = False

    def put(self, name: str, payload: object) -> None:
        """Set an item to plain data; a change in a running test is sent at once. Without effect on a worker."""

    def subscribe(self, subscriber: Callable[[Plan], None]) -> None:
        """Call ``subscriber(plan)`` at every new run and version, and at once if there is a plan; it must not block."""
        self._subscribers.append(subscriber)
        if self.plan is not None:
            subscriber(self.plan)

    def elapsed(self) -> float:
        """Return the seconds since the test started, by the best estimate of the master's clock."""
        return time.perf_counter() - self._origin

    def time_of(self, elapsed: float) -> float:
        """Return the ``perf_counter`` time of this process at second ``elapsed`` of the run."""
        return self._origin + elapsed

    def share(self) -> float:
        """Return this process's share of a total rate, 0 while it is not a member."""
        plan = self.plan
        return 1 / len(plan.members) if plan is not None and self.index in plan.members else 0.0

    def await_item(self, name: str, timeout: float | None = None) -> Any:
        """Wait for an item of the running test and return it.

        After ``timeout`` seconds (default :data:`PLAN_TIMEOUT_S`) the run is aborted with a message, and TimeoutError
        is raised.
        """
        deadline = time.perf_counter() + (PLAN_TIMEOUT_S if timeout is None else timeout)
        while (plan := self.plan) is None or not plan.running or name not in plan.items:
            self._arrived.clear()
            if not self._arrived.wait(max(0.0, deadline - time.perf_counter())) and time.perf_counter() >= deadline:
                raise TimeoutError(self.abort(self._missing(name)))
        return plan.items[name]

    def abort(self, why: str) -> str:
        """End a run that cannot be as planned, with exit code 1; log and return the message."""
        if not self._aborted:
            self._aborted = True
            logger.error(why)
            gevent.spawn(self._end_run, why)
        return why

    def _missing(self, name: str) -> str:
        if self.plan is not None and self.plan.running:
            items = f"it has {sorted(self.plan.items)}"
            need = "master and workers must run the same locustfile. The run is ended."
            return f"The master's plan has no {name!r} ({items}): {need}"
        return (
            f"No plan for {name!r} has come from the master: it must run the same locustfile, with locust_realism "
            "installed, because only the master has the number of workers that share the rate. The run is ended."
        )

    def _end_run(self, why: str) -> None:
        self.environment.process_exit_code = 1
        options = self.environment.parsed_options
        if isinstance(self._runner, WorkerRunner) or (options is not None and options.headless):
            self._runner.quit()
        else:
            self._runner.stop()

    def _accept(self, plan: Plan) -> None:
        before, self.plan = self.plan, plan
        self._arrived.set()
        if before is None or before.run != plan.run:
            self._aborted = False
        elif before.version == plan.version:
            return
        for subscriber in self._subscribers:
            try:
                subscriber(plan)
            except Exception:
                logger.exception(
                    "locust_realism: %s failed on version %s of the plan of run %s; its other subscribers receive it",
                    getattr(subscriber, "__qualname__", subscriber), plan.version, plan.run,
                )  # fmt: skip


declared: dict[str, Callable[[], object]] = {}
"""Items of every run's plan, by name; see :func:`declare`."""


class LeadingPlanner(Planner):
    """Master or LocalRunner: makes the plan."""

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self._items: dict[str, Any] = {}
        environment.events.test_start.add_listener(self._on_test_start)
        environment.events.test_stopping.add_listener(lambda **_: self._change(running=False))
        if self._runner.state in (STATE_SPAWNING, STATE_RUNNING):
            self._on_test_start()

    def put(self, name: str, payload: object) -> None:
        if name not in self._items or self._items[name] != payload:
            self._items[name] = payload
            self._change()

    def _members(self) -> tuple[int, ...]:
        return (0,)

    def _broadcast(self) -> None:
        """Send the plan to the workers."""

    def _on_test_start(self, **_: object) -> None:
        self._items |= {name: payload() for name, payload in declared.items()}
        self._origin = time.perf_counter()
        members, run = self._members(), 1 if self.plan is None else self.plan.run + 1
        self._accept(Plan(run, 0, True, members, members, chosen_seed(self.environment), dict(self._items)))
        self._broadcast()

    def _change(self, running: bool = True) -> None:
        """Make a new version of the plan of the running test, if there is one."""
        if (plan := self.plan) is not None and plan.running:
            version, items = plan.version + 1, dict(self._items)
            self._accept(Plan(plan.run, version, running, self._members(), plan.members, plan.seed, items))
            self._broadcast()


class MasterPlanner(LeadingPlanner):
    """Master: sends the plan to the workers, and follows their membership."""

    _runner: MasterRunner

    def __init__(self, environment: Environment) -> None:
        wire_of(environment).on_message(ABORT, self._on_abort)
        handshake(environment).listeners.append(self._send)
        super().__init__(environment)
        self.index = -1
        self._runner.greenlet.spawn(self._watch)

    def _members(self) -> tuple[int, ...]:
        alive = [c.id for c in self._runner.clients.all if c.state in (STATE_INIT, STATE_SPAWNING, STATE_RUNNING)]
        return tuple(sorted(self._runner.get_worker_index(client_id) for client_id in alive))

    def _watch(self) -> None:
        sent = time.perf_counter()
        while True:
            gevent.sleep(MEMBERSHIP_INTERVAL_S)
            if self.plan is None or not self.plan.running:
                continue
            changed = self._members() != self.plan.members
            if changed or time.perf_counter() - sent >= PLAN_INTERVAL_S:
                (self._change if changed else self._broadcast)()
                sent = time.perf_counter()

    def _broadcast(self) -> None:
        for client in self._runner.clients.all:
            if handshake(self.environment).reports(client.id):  # others log each message that they lack
                self._send(client.id)

    def _send(self, client_id: str) -> None:
        if self.plan is None:
            return
        extra = {"elapsed": self.elapsed(), "index": self._runner.get_worker_index(client_id)}
        data = cast("PlanData", {**asdict(self.plan), **extra})
        try:
            wire_of(self.environment).send(PLAN, data, client_id)
        except Exception:
            logger.exception("The plan could not be sent to worker %s", client_id)

    def _on_abort(self, sender: str, data: AbortData) -> None:
        self.abort(f"Worker {sender} ends the run: {data['why']}")


class WorkerPlanner(Planner):
    """Worker: receives the plan of the master."""

    _runner: WorkerRunner

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self.index = self._runner.worker_index
        self._origins: deque[float] = deque(maxlen=32)
        wire_of(environment).on_message(PLAN, self._on_plan)
        handshake(environment).send()  # once more if it was sent before: the answer is the plan

    def _on_plan(self, sender: str, data: PlanData) -> None:
        origin = time.perf_counter() - data["elapsed"]
        self.index = data["index"]
        if self.plan is None or self.plan.run != data["run"]:
            self._origins.clear()
        # A message can only come late, so the least of the last origins is the best; of the last, because clocks drift.
        self._origins.append(origin)
        self._origin = min(self._origins)
        self._accept(Plan.from_dict(data))

    def _end_run(self, why: str) -> None:
        wire_of(self.environment).send(ABORT, AbortData(why=why[:1000]))
        gevent.sleep(0.2)  # let the message out before the connection is closed
        super()._end_run(why)


def chosen_seed(environment: Environment) -> int:
    """Return ``--realism-seed``, or a random seed that is logged, so that the run can be repeated."""
    given = getattr(environment.parsed_options, "realism_seed", None)
    if given not in (None, ""):
        return int(given)
    seed = secrets.randbits(32)
    logger.info("Random waits and arrivals of this run: repeat them with --realism-seed %d", seed)
    return seed


def _make_planner(environment: Environment) -> Planner:
    kinds = {MasterRunner: MasterPlanner, WorkerRunner: WorkerPlanner, LocalRunner: LeadingPlanner}
    for runner_class, kind in kinds.items():
        if isinstance(environment.runner, runner_class):
            return kind(environment)
    raise ValueError(f"environment must have a runner, not {environment.runner!r}")


_planners = PerEnvironment("planner", _make_planner)


def ensure_plan(environment: Environment) -> Planner:
    """Return the planner of an Environment, made at the first call; ValueError if it has no runner yet."""
    return _planners.of(environment)


_parts: list[Callable[..., object]] = []


def declare(name: str, payload: Callable[[], object]) -> None:
    """Put ``payload()`` under ``name`` when a test starts, in every Environment that has or will get a planner.

    For code that is built before there is an Environment. ``name`` must be the same in all processes of the run.
    """
    declared[name] = payload
    on_init(ensure_plan_at_init)


def on_init(listener: Callable[..., object]) -> None:
    """Add a listener to Locust's init event, once; it may be called again for the same Environment."""
    from locust import events

    if listener not in _parts:
        _parts.append(listener)
    add_once(events.init, listener)


@contextmanager
def connecting(environment: Environment) -> Iterator[None]:
    """Connect waits and populations that are built in the block to an Environment whose init event is being fired.

    A wait that is built in a class body connects itself at the init event. One whose settings are options is built by a
    listener of that event, too late for a listener of its own:

        @events.init.add_listener
        def choose_load(environment, **_):
            with connecting(environment):
                Visitor.wait_time = paced(ConstantRate(environment.parsed_options.rate))
    """
    yield
    for listener in list(_parts):
        listener(environment=environment)


def ensure_plan_at_init(environment: Environment, **_: object) -> None:
    """Make the planner of an Environment (listener of the init event)."""
    if environment.runner is not None:
        ensure_plan(environment)
