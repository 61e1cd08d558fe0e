"""Paced waits: the rate of task launches follows a profile, whatever the response times.

``wait_time = paced(profile)`` (or ``diurnal_sine(...)``) in a User class makes all users of all workers that have this
wait launch lambda(t) tasks a second in total. Each of the W processes draws one stream of lambda(t)/W launches and
releases a random waiting user at each launch time (see ``workload.launching`` for what happens when none waits). W,
the time and the profile in force come from the master's plan, so one import works in a local run, with --processes and
with master and workers. The first task of a user waits for its turn as every other does.

Building a wait registers only what it needs: the plan messages, and a hook for the wait before a user's first task.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from datetime import time as wall_time
from itertools import count
from types import MethodType
from typing import Any, Literal

from locust.user.task import DefaultTaskSet, TaskSet

from locust_realism.runtime.paced_totals import collect
from locust_realism.runtime.pacers import pacer_of
from locust_realism.runtime.plan import declare
from locust_realism.runtime.randomness import connect
from locust_realism.runtime.sessions import session_of
from locust_realism.workload.checks import number, positive
from locust_realism.workload.distributions import Distribution, constant
from locust_realism.workload.rates import RateProfile, SineRate
from locust_realism.workload.time_of_day import seconds_since, time_of_day

DAY_S = 86400.0
_numbers = count(1)


@dataclass(frozen=True)
class PacedWait:
    """A wait_time that follows a profile; made by :func:`paced` and :func:`diurnal_sine`, bound like a function."""

    name: str
    profile: RateProfile
    scope: Literal["total", "user"] = "total"
    extra_wait: Distribution | None = None
    zero_at: wall_time | None = None
    compression: float = 1.0
    seed: int | None = None

    def profile_at(self, now: datetime) -> RateProfile:
        """The profile on the time axis of a run that starts ``now``."""
        start = 0.0 if self.zero_at is None else seconds_since(self.zero_at, now)
        return self.profile.shifted(start).compressed(self.compression)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __call__(self, instance: Any) -> float:
        """Block until the launch of the next task; returns the extra wait in seconds that is still to come."""
        user = instance.user if isinstance(instance, TaskSet) else instance
        planned = pacer_of(user.environment, self).wait(user)
        extra = 0.0 if self.extra_wait is None else self.extra_wait(user)
        session = session_of(user)
        if session is not None:
            session.planned = planned + extra
        return extra


def paced(
    profile: RateProfile,
    *,
    scope: Literal["total", "user"] = "total",
    extra_wait: Distribution | float | None = None,
    zero_at: wall_time | str | None = None,
    compression: float = 1.0,
    seed: int | None = None,
) -> PacedWait:
    """A wait_time with which task launches follow an arrival-rate profile.

    - ``profile``: lambda(t) in launches of tasks (not requests) a second, over all users that have this very wait (the
      class and its subclasses) on all workers
    - ``scope``: with "user" the profile is the rate of each user by itself
    - ``extra_wait``: seconds that each user waits on top after its launch time, a distribution or a number
    - ``zero_at``: the time of day (with its zone) at which the profile is at its 0, for a profile that is a day;
      without it the profile is at 0 when the run starts
    - ``compression``: play the profile so many times as fast, at the same rates: 24 plays a day in an hour
    - ``seed``: of this wait's launches; without it the run's (--realism-seed) is used

    Enough users must be there: a launch that finds no user waiting is late, and missed after a second; the number of
    both is logged when the run stops. Raises ValueError for impossible settings.

        class Visitor(HttpUser):
            wait_time = paced(rate_from_csv("monday.csv"), zero_at="00:00 Europe/Berlin")
    """
    if not isinstance(profile, RateProfile):
        raise ValueError(f"profile must be a rate profile such as ConstantRate(5), not {profile!r}")
    if scope not in ("total", "user"):
        raise ValueError(f"scope must be 'total' or 'user', not {scope!r}")
    if extra_wait is not None and not isinstance(extra_wait, Distribution):
        extra_wait = constant(number("extra_wait", extra_wait))
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int) or seed < 0):
        raise ValueError(f"seed must be an integer >= 0, not {seed!r}")
    wait = PacedWait(
        # The same in every process, since all load the same locustfile; that it holds the settings shows when not.
        f"paced wait {next(_numbers)}: {profile!r}",
        profile,
        scope,
        extra_wait,
        None if zero_at is None else time_of_day("zero_at", zero_at),
        positive("compression", compression),
        seed,
    )
    declare(wait.name, lambda: wait.profile_at(datetime.now(UTC)).to_dict())
    connect()
    collect()
    _wait_before_first_tasks()
    return wait


def diurnal_sine(
    min_rate: float,
    max_rate: float,
    period: float | None = None,
    *,
    oscillations_per_day: float | None = None,
    peak_at: float | wall_time | str | None = None,
    scope: Literal["total", "user"] = "total",
    extra_wait: Distribution | float | None = None,
    compression: float = 1.0,
    seed: int | None = None,
) -> PacedWait:
    """A wait_time with which the total rate of task launches swings between two rates, as the load of a day does.

    ``min_rate`` and ``max_rate`` are task launches a second over all users and workers (minHitsPerSec and maxHitsPerSec
    of JMeter plans), ``period`` is in seconds (default a day) or is given as ``oscillations_per_day``. ``peak_at`` is
    the time of a peak: seconds after the start of the run, or a time of day with its zone such as "14:00 Europe/Berlin"
    or a ``datetime.time`` with tzinfo; without it the run starts at the middle rate, rising. The rest is as in
    :func:`paced`. Raises ValueError for impossible settings, and if both period and oscillations_per_day are given.

        class Visitor(HttpUser):
            wait_time = diurnal_sine(min_rate=1, max_rate=10, peak_at="14:00 Europe/Berlin")
    """
    if period is not None and oscillations_per_day is not None:
        raise ValueError(
            f"period = {period!r} and oscillations_per_day = {oscillations_per_day!r} cannot both be given"
        )
    if oscillations_per_day is not None:
        period = DAY_S / positive("oscillations_per_day", oscillations_per_day)
    seconds, zero_at = peak_at, None
    if isinstance(peak_at, str | wall_time):
        seconds, zero_at = 0.0, time_of_day("peak_at", peak_at)
    profile = SineRate(min_rate, max_rate, DAY_S if period is None else period, seconds)  # type: ignore[arg-type]
    return paced(profile, scope=scope, extra_wait=extra_wait, zero_at=zero_at, compression=compression, seed=seed)


def _wait_before_first_tasks() -> None:
    """Let users with a paced wait wait before their first task too: Locust launches that one at once."""
    if getattr(DefaultTaskSet.on_start, "_realism_hook", False):
        return
    on_start: Callable[[Any], None] = DefaultTaskSet.on_start

    def on_start_paced(self: Any) -> None:
        on_start(self)
        if isinstance(inspect.getattr_static(type(self.user), "wait_time", None), PacedWait):
            session = session_of(self.user)
            if session is not None:
                session.between_tasks = True
            self.wait()

    on_start_paced._realism_hook = True  # type: ignore[attr-defined]
    DefaultTaskSet.on_start = on_start_paced  # type: ignore[method-assign]
