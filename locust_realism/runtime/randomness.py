"""Random streams of a run: seeded when a test starts, from (seed, worker index, user slot).

:func:`connect` puts the source of all distributions' draws in place. The seed is the plan's: ``--realism-seed``, or one
that is drawn by the master and said in its log. Streams belong to a slot, not to a user object: the user who takes over
a slot goes on where the one before it ended, so the same slot of the same worker has the same sequence in every run.
"""

from __future__ import annotations

import logging
from typing import Any

from locust_realism.runtime.plan import Planner, ensure_plan, ensure_plan_at_init, on_init
from locust_realism.runtime.sessions import session_of
from locust_realism.workload.distributions import Distribution
from locust_realism.workload.streams import Draw, UserStreams, batched_draws, name_key, spawn, use_source

logger = logging.getLogger(__name__)

_STREAMS_KEY = "_realism_streams_of_run"
_NUMBER_KEY = "_realism_number"


class RunStreams:
    """The streams of one test run in one process; a new run has new ones."""

    def __init__(self, planner: Planner) -> None:
        self.planner = planner
        self.run = -1
        self._draws: dict[tuple[int, Distribution], Draw] = {}
        self._users = 0
        self._said: set[str] = set()

    def say_once(self, warning: str) -> None:
        """Log a warning the first time."""
        if warning not in self._said:
            self._said.add(warning)
            logger.warning(warning)

    def of_run(self) -> RunStreams:
        """These streams, emptied if another run has begun."""
        run = -1 if self.planner.plan is None else self.planner.plan.run
        if run != self.run:
            self.run = run
            self._draws.clear()
            self._users = 0
        return self

    def slot(self, user: Any) -> int:
        """The user's concurrency slot; where sessions are not followed, its number among the users who asked."""
        session = session_of(user)
        if session is not None:
            return session.slot
        number: tuple[int, int] | None = user.__dict__.get(_NUMBER_KEY)
        if number is None or number[0] != self.run:
            number = user.__dict__[_NUMBER_KEY] = (self.run, self._users)
            self._users += 1
        return number[1]

    def seed(self) -> int:
        """The run's seed."""
        plan = self.planner.plan
        if plan is None:
            raise LookupError("no plan has come yet")
        return plan.seed

    def draw(self, user: Any, distribution: Distribution) -> Draw:
        """The stream of a distribution for the slot of a user."""
        slot = self.slot(user)
        draw = self._draws.get((slot, distribution))
        if draw is None:
            seed = self.seed() if distribution.seed is None else distribution.seed
            rng = spawn(seed, max(0, self.planner.index), slot, name_key(repr(distribution)))
            draw = self._draws[slot, distribution] = batched_draws(distribution, rng)
        return draw


def run_streams(environment: Any) -> RunStreams:
    """The streams of the run that is on in an Environment, which must have a runner."""
    streams: RunStreams | None = environment.__dict__.get(_STREAMS_KEY)
    if streams is None:
        streams = environment.__dict__[_STREAMS_KEY] = RunStreams(ensure_plan(environment))
    return streams.of_run()


_elsewhere = UserStreams()


def _source(user: Any, distribution: Distribution) -> Draw:
    environment = getattr(user, "environment", None)
    if getattr(environment, "runner", None) is None:
        return _elsewhere(user, distribution)
    streams = run_streams(environment)
    if streams.planner.plan is None:
        # A worker whose master does not send plans: think times need no plan, they are only not repeatable.
        streams.say_once("No plan has come from the master, so the run's seed is not known: waits are not repeatable")
        return _elsewhere(user, distribution)
    return streams.draw(user, distribution)


def connect() -> None:
    """Seed all distributions of this process from the run's seed; calling it again changes nothing."""
    use_source(_source)
    on_init(ensure_plan_at_init)
