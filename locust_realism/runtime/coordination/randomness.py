"""Random streams of a run: seeded when a test starts, from (seed, worker index, user slot).

:func:`connect` sets the source of all distributions' draws. The seed is the plan's: ``--realism-seed``, or one that the
master draws and logs. A stream belongs to a slot, not to a user object: the next user of a slot continues its sequence,
so the same slot of the same worker has the same sequence in every run.
"""

from __future__ import annotations

import logging
from typing import Any

from locust import User
from locust.env import Environment

from locust_realism.runtime.coordination.plan import Planner, ensure_plan, ensure_plan_at_init, on_init
from locust_realism.runtime.locust_compat import PerEnvironment
from locust_realism.runtime.users.session import session_of
from locust_realism.workload.distributions.streams import (
    Draw,
    Sampled,
    UserStreams,
    batched_draws,
    name_key,
    spawn,
    use_source,
)

logger = logging.getLogger(__name__)

_NUMBER_KEY = "_realism_number"


class RunStreams:
    """Streams of one test run in one process; a new run has new ones."""

    def __init__(self, planner: Planner) -> None:
        self.planner = planner
        self.run = -1
        self._draws: dict[tuple[int, Sampled], Draw] = {}
        self._users = 0
        self.warned = False

    def of_run(self) -> RunStreams:
        """Return these streams, emptied if another run has begun."""
        run = -1 if self.planner.plan is None else self.planner.plan.run
        if run != self.run:
            self.run, self._users = run, 0
            self._draws.clear()
        return self

    def slot(self, user: User) -> int:
        """Return the user's concurrency slot; without sessions its number in the order of the calls."""
        session = session_of(user)
        if session is not None:
            return session.slot
        number: tuple[int, int] | None = vars(user).get(_NUMBER_KEY)
        if number is None or number[0] != self.run:
            number = vars(user)[_NUMBER_KEY] = (self.run, self._users)
            self._users += 1
        return number[1]

    def seed(self) -> int:
        """Return the run's seed; LookupError without a plan."""
        if self.planner.plan is None:
            raise LookupError("no plan has come yet")
        return self.planner.plan.seed

    def draw(self, user: User, distribution: Sampled) -> Draw:
        """Return the stream of a distribution for the slot of a user."""
        slot = self.slot(user)
        draw = self._draws.get((slot, distribution))
        if draw is None:
            seed = self.seed() if distribution.seed is None else distribution.seed
            rng = spawn(seed, max(0, self.planner.index), slot, name_key(repr(distribution)))
            draw = self._draws[slot, distribution] = batched_draws(distribution, rng)
        return draw


_streams = PerEnvironment("streams_of_run", lambda environment: RunStreams(ensure_plan(environment)))


def run_streams(environment: Environment) -> RunStreams:
    """Return the streams of the present run in an Environment, which must have a runner."""
    return _streams.of(environment).of_run()


_elsewhere = UserStreams()


def _source(user: Any, distribution: Sampled) -> Draw:
    if getattr(getattr(user, "environment", None), "runner", None) is None:
        return _elsewhere(user, distribution)
    streams = run_streams(user.environment)
    if streams.planner.plan is not None:
        return streams.draw(user, distribution)
    # a worker whose master sends no plans: think times need none, but are not repeatable
    if not streams.warned:
        streams.warned = True
        logger.warning("No plan has come from the master, so the run's seed is unknown: waits are not repeatable.")
    return _elsewhere(user, distribution)


def connect() -> None:
    """Seed all distributions of this process from the run's seed; calling it again changes nothing."""
    use_source(_source)
    on_init(ensure_plan_at_init)
