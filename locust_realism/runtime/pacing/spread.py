"""Random starts within the second: users whom Locust's spawner starts together do not begin together.

Locust starts the users of each second at one instant. All their first tasks leave at once, a lump in the launches that
independent users do not have. Here each user begins, ``on_start`` included, after a delay that is uniform over STEP_S.
Its greenlet exists at once, so Locust's counts of users stay as they are; its session starts when it begins.

Users of a population have a time of their own, and those of a paced wait get their first launch from its plan: neither
is delayed.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable

import numpy as np
from gevent import GreenletExit
from locust import User
from locust.env import Environment

from locust_realism.runtime.coordination.randomness import run_streams
from locust_realism.runtime.locust_compat import PerEnvironment, delaying_start, replace
from locust_realism.runtime.pacing.waits import PacedWait
from locust_realism.runtime.users import alarm
from locust_realism.runtime.users.session import session_of
from locust_realism.workload.distributions.streams import Draw, name_key, spawn

STEP_S = 1.0
"""Seconds between two steps of Locust's spawner at one user a second or more."""


class StartDelays:
    """Delays in the order of the starts, of each run anew: a stream of the run's seed for each worker."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._run: int | None = None
        self._draw: Draw = np.random.default_rng().random

    def next(self) -> float:
        """Draw the next delay in seconds, uniform from 0 to STEP_S."""
        streams = run_streams(self._environment)
        if streams.run != self._run:
            self._run, planner = streams.run, streams.planner
            if planner.plan is not None:
                self._draw = spawn(planner.plan.seed, max(0, planner.index), name_key("spread")).random
        return STEP_S * self._draw()


_delays = PerEnvironment("start_delays", StartDelays)


def spread_starts(environment: Environment) -> None:
    """Spread the starts of users in an Environment that has a runner, unless its options have ``--realism-no-spread``.

    A second call changes nothing. The option is read at each start: a worker gets its master's with the spawn message.
    """
    _delays.of(environment)
    replace("User.run", _run_after_delay)


def _run_after_delay(run: Callable[[User], None]) -> Callable[[User], None]:
    def run_after_delay(self: User) -> None:
        session, delays = session_of(self), _delays.get(self.environment)
        if session is not None and delays is not None and session.planned_start is None and _has_lumps(self):
            try:
                with delaying_start(self):
                    alarm.sleep(delays.next())
            except GreenletExit as error:  # stopped before it began
                session.note_ending(self, error)
                return
            session.started = time.perf_counter()
        run(self)

    return run_after_delay


def _has_lumps(user: User) -> bool:
    if getattr(user.environment.parsed_options, "realism_no_spread", False):
        return False
    return not isinstance(inspect.getattr_static(type(user), "wait_time", None), PacedWait)
