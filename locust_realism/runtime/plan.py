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

import logging
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

import gevent
from gevent.event import Event
from locust.runners import STATE_INIT, STATE_RUNNING, STATE_SPAWNING, LocalRunner, MasterRunner, WorkerRunner

logger = logging.getLogger(__name__)

PLAN_MESSAGE = "realism_plan"
HELLO_MESSAGE = "realism_hello"
ABORT_MESSAGE = "realism_abort"

PLAN_INTERVAL_S = 1.0
"""The master repeats the plan this often."""
MEMBERSHIP_INTERVAL_S = 0.2
"""The master looks this often whether workers came or went."""
PLAN_TIMEOUT_S = 10.0
"""After this long without a plan a wait that needs one ends the run."""
_CLOCK_SAMPLES = 32


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
    """The plan as one process sees it; made by :func:`ensure_plan` only. ``index`` is this process's worker index."""

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


class _LeadingPlanner(Planner):
    """Master or LocalRunner: makes the plan."""

    def __init__(self, environment: Any) -> None:
        super().__init__(environment)
        self._items: dict[str, Any] = {}
        self._run = 0
        self._ticker: Any = None
        environment.events.test_start.add_listener(self._on_test_start)
        environment.events.test_stopping.add_listener(self._on_test_stopping)
        if environment.runner is not None and environment.runner.state in (STATE_SPAWNING, STATE_RUNNING):
            self._on_test_start()

    def put(self, name: str, payload: Any) -> None:
        if name in self._items and self._items[name] == payload:
            return
        self._items[name] = payload
        self._change()

    def _members(self) -> tuple[int, ...]:
        return (0,)

    def _broadcast(self) -> None:
        """Send the plan to the workers."""

    def _on_test_start(self, **_: Any) -> None:
        self._items |= {name: payload() for name, payload in _declared.items()}
        self._run += 1
        self._origin = time.perf_counter()
        members = self._members()
        seed = chosen_seed(self.environment)
        self._accept(Plan(self._run, 0, True, members, members, seed, dict(self._items)))
        self._broadcast()

    def _on_test_stopping(self, **_: Any) -> None:
        if self.plan is not None and self.plan.running:
            self._change(running=False)

    def _change(self, running: bool = True) -> None:
        """A new version of the plan of the running test, if there is one."""
        plan = self.plan
        if plan is None or not plan.running:
            return
        members = self._members()
        seed = plan.seed
        self._accept(Plan(plan.run, plan.version + 1, running, members, plan.members, seed, dict(self._items)))
        self._broadcast()


class _MasterPlanner(_LeadingPlanner):
    """Master: tells the workers, and watches who they are."""

    def __init__(self, environment: Any) -> None:
        environment.runner.register_message(HELLO_MESSAGE, self._on_hello)
        environment.runner.register_message(ABORT_MESSAGE, self._on_abort)
        super().__init__(environment)
        self.index = -1
        environment.runner.greenlet.spawn(self._watch)

    def _members(self) -> tuple[int, ...]:
        runner = self.environment.runner
        alive = [c.id for c in runner.clients.all if c.state in (STATE_INIT, STATE_SPAWNING, STATE_RUNNING)]
        return tuple(sorted(runner.get_worker_index(client_id) for client_id in alive))

    def _watch(self) -> None:
        sent = time.perf_counter()
        while True:
            gevent.sleep(MEMBERSHIP_INTERVAL_S)
            plan = self.plan
            if plan is None or not plan.running:
                continue
            if self._members() != plan.members:
                self._change()
            elif time.perf_counter() - sent < PLAN_INTERVAL_S:
                continue
            else:
                self._broadcast()
            sent = time.perf_counter()

    def _broadcast(self) -> None:
        for client in self.environment.runner.clients.all:
            self._send(client.id)

    def _send(self, client_id: str) -> None:
        if self.plan is None:
            return
        runner = self.environment.runner
        data = {**self.plan.to_dict(), "elapsed": self.elapsed(), "index": runner.get_worker_index(client_id)}
        try:
            runner.send_message(PLAN_MESSAGE, data, client_id)
        except Exception:
            logger.exception("The plan could not be sent to worker %s", client_id)

    def _on_hello(self, msg: Any, **_: Any) -> None:
        self._send(msg.node_id)

    def _on_abort(self, msg: Any, **_: Any) -> None:
        self.abort(f"Worker {msg.node_id} ends the run: {msg.data['why']}")


class _WorkerPlanner(Planner):
    """Worker: takes the master's word."""

    def __init__(self, environment: Any) -> None:
        super().__init__(environment)
        self.index = environment.runner.worker_index
        self._origins: deque[float] = deque(maxlen=_CLOCK_SAMPLES)
        environment.runner.register_message(PLAN_MESSAGE, self._on_message)
        environment.runner.send_message(HELLO_MESSAGE, None)

    def _on_message(self, msg: Any, **_: Any) -> None:
        received = time.perf_counter()
        plan = Plan.from_dict(msg.data)
        self.index = msg.data["index"]
        if self.plan is None or self.plan.run != plan.run:
            self._origins.clear()
        # A message can only come late, so the least of the last origins is the best; of the last, because clocks drift.
        self._origins.append(received - msg.data["elapsed"])
        self._origin = min(self._origins)
        self._accept(plan)

    def _end_run(self, why: str) -> None:
        self.environment.runner.send_message(ABORT_MESSAGE, {"why": why})
        gevent.sleep(0.2)  # let the message out before the connection is closed
        super()._end_run(why)


_PLANNER_KEY = "_realism_planner"
_declared: dict[str, Callable[[], Any]] = {}
_parts: list[Callable[..., None]] = []


def ensure_plan(environment: Any) -> Planner:
    """The planner of an Environment that has a runner; made at the first call.

    Raises ValueError if the Environment has no runner yet.
    """
    planner: Planner | None = environment.__dict__.get(_PLANNER_KEY)
    if planner is None:
        runner = environment.runner
        if isinstance(runner, MasterRunner):
            planner = _MasterPlanner(environment)
        elif isinstance(runner, WorkerRunner):
            planner = _WorkerPlanner(environment)
        elif isinstance(runner, LocalRunner):
            planner = _LeadingPlanner(environment)
        else:
            raise ValueError(f"environment must have a runner, not {runner!r}")
        environment.__dict__[_PLANNER_KEY] = planner
    return planner


def declare(name: str, payload: Callable[[], Any]) -> None:
    """Put ``payload()`` under ``name`` when a test starts, in every Environment that has or will get a planner.

    For code that is built before there is an Environment. ``name`` must be the same in all processes of the run.
    """
    _declared[name] = payload
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


def chosen_seed(environment: Any) -> int:
    """The seed of the run: ``--realism-seed``, or one that is drawn and said, so that the run can be repeated."""
    given = getattr(environment.parsed_options, "realism_seed", None)
    if given not in (None, ""):
        return int(given)
    seed = secrets.randbits(32)
    logger.info("Random waits and arrivals of this run: repeat them with --realism-seed %d", seed)
    return seed
