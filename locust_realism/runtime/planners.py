"""The planners of a master, a worker and a LocalRunner: who says the plan, when, and who takes whose word."""

from __future__ import annotations

import logging
import secrets
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import gevent
from locust.runners import STATE_INIT, STATE_RUNNING, STATE_SPAWNING

from .planner import Plan, Planner

logger = logging.getLogger(__name__)

PLAN_MESSAGE = "realism_plan"
HELLO_MESSAGE = "realism_hello"
ABORT_MESSAGE = "realism_abort"

PLAN_INTERVAL_S = 1.0
"""The master repeats the plan this often."""
MEMBERSHIP_INTERVAL_S = 0.2
"""The master looks this often whether workers came or went."""
_CLOCK_SAMPLES = 32

declared: dict[str, Callable[[], Any]] = {}
"""What is in the plan of every run, by name; see ``runtime.plan.declare``."""


class LeadingPlanner(Planner):
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
        self._items |= {name: payload() for name, payload in declared.items()}
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


class MasterPlanner(LeadingPlanner):
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


class WorkerPlanner(Planner):
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


def chosen_seed(environment: Any) -> int:
    """The seed of the run: ``--realism-seed``, or one that is drawn and said, so that the run can be repeated."""
    given = getattr(environment.parsed_options, "realism_seed", None)
    if given not in (None, ""):
        return int(given)
    seed = secrets.randbits(32)
    logger.info("Random waits and arrivals of this run: repeat them with --realism-seed %d", seed)
    return seed
