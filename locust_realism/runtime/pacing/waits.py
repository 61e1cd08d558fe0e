"""Paced waits: the rate of task launches follows a profile, whatever the response times.

With ``wait_time = paced(profile)`` (or ``diurnal_sine(...)``) in a User class, all users of all workers with this wait
launch lambda(t) tasks a second in total. Each of the W processes draws one stream of lambda(t)/W launches and releases
a random waiting user at each launch time (rules for want of one: ``workload.users.launching``). W, the time and the
profile in force are those of the master's plan: one import works in a local run, with --processes and with master and
workers. A user's first task waits for a launch as every other does.

Building a wait registers the plan messages and a hook for the wait before a user's first task, nothing else.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import UTC, datetime
from datetime import time as wall_time
from itertools import count
from types import MethodType
from typing import Literal, Self, overload

from locust import TaskSet, User

from locust_realism.common.validation import integer, number, one_of, positive, refusal
from locust_realism.runtime.coordination.plan import declare, on_init
from locust_realism.runtime.coordination.randomness import connect
from locust_realism.runtime.locust_compat import replace
from locust_realism.runtime.pacing.pacers import PacedSettings, pacer_of, report_counts
from locust_realism.runtime.users.session import session_of, sleep_on_time
from locust_realism.workload.distributions import Distribution, constant
from locust_realism.workload.distributions.streams import stream
from locust_realism.workload.rates.shapes import RateProfile, SineRate
from locust_realism.workload.rates.time_of_day import seconds_since, time_of_day

DAY_S = 86400.0
_numbers = count(1)


class PacedWait(PacedSettings):
    """wait_time that follows a profile, made by :func:`paced` and :func:`diurnal_sine`; bound like a function."""

    def profile_at(self, now: datetime) -> RateProfile:
        """Return the profile on the time axis of a run that starts ``now``."""
        start = 0.0 if self.zero_at is None else seconds_since(self.zero_at, now)
        return self.profile.shifted(start).compressed(self.compression)

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Self: ...
    @overload
    def __get__(self, instance: User | TaskSet, owner: type | None = None) -> Callable[[], float]: ...
    def __get__(self, instance: User | TaskSet | None, owner: type | None = None) -> Self | Callable[[], float]:
        return self if instance is None else MethodType(self, instance)

    def __call__(self, instance: User | TaskSet) -> float:
        """Block until the launch of the next task and return the extra wait in seconds after it."""
        user = instance.user if isinstance(instance, TaskSet) else instance
        planned = pacer_of(user.environment, self).wait(user)
        extra = 0.0 if self.extra_wait is None else stream(user, self.extra_wait)()
        if (session := session_of(user)) is not None:
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
    """Return a wait_time by which task launches follow an arrival-rate profile.

    - ``profile``: lambda(t) in launches of tasks (not requests) a second, over all users with this wait (the class and
      its subclasses) on all workers
    - ``scope``: "total", or "user" if the profile is the rate of each user
    - ``extra_wait``: seconds that each user waits after its launch time, a distribution or a number
    - ``zero_at``: time of day (with its zone) of second 0 of a profile that is a day; default: the start of the run
    - ``compression``: factor by which the profile plays faster, at the same rates: 24 plays a day in an hour
    - ``seed``: seed of this wait's launches; default: the run's (--realism-seed)

    There must be enough users: a launch without an idle user is late, and missed after a second. Both counts are logged
    when the run stops. Raises ValueError for impossible settings.

        class Visitor(HttpUser):
            wait_time = paced(rate_from_csv("monday.csv"), zero_at="00:00 Europe/Berlin")
    """
    if not isinstance(profile, RateProfile):
        raise refusal("profile", "a rate profile such as ConstantRate(5)", profile)
    one_of("scope", scope, ("total", "user"))
    if extra_wait is not None and not isinstance(extra_wait, Distribution):
        extra_wait = constant(number("extra_wait", extra_wait))
    if seed is not None:
        integer("seed", seed)
    # All processes load the same locustfile, so the name is the same; with the settings in it, others are noticed.
    name = f"paced wait {next(_numbers)}: {profile!r}"
    day_start = None if zero_at is None else time_of_day("zero_at", zero_at)
    wait = PacedWait(name, profile, scope, extra_wait, day_start, positive("compression", compression), seed)
    declare(wait.name, lambda: wait.profile_at(datetime.now(UTC)).to_dict())
    connect()
    sleep_on_time()
    on_init(report_counts)
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
    """Return a wait_time by which the total rate of task launches follows a sine, as the load of a day does.

    ``min_rate`` and ``max_rate`` are task launches a second over all users and workers (minHitsPerSec and maxHitsPerSec
    of JMeter plans). ``period`` is in seconds (default a day), or ``oscillations_per_day`` sets it. ``peak_at`` is the
    time of a peak: seconds after the start of the run, or a time of day with its zone ("14:00 Europe/Berlin", or a
    ``datetime.time`` with tzinfo); without it the run starts at the middle rate, rising. The rest is as in
    :func:`paced`. Raises ValueError for impossible settings, and if both period and oscillations_per_day are given.

        class Visitor(HttpUser):
            wait_time = diurnal_sine(min_rate=1, max_rate=10, peak_at="14:00 Europe/Berlin")
    """
    if period is not None and oscillations_per_day is not None:
        both = f"period = {period!r} and oscillations_per_day = {oscillations_per_day!r}"
        raise ValueError(f"{both} cannot both be given")
    if oscillations_per_day is not None:
        period = DAY_S / positive("oscillations_per_day", oscillations_per_day)
    zero_at = None
    if isinstance(peak_at, str | wall_time):
        zero_at, peak_at = time_of_day("peak_at", peak_at), 0.0
    profile = SineRate(min_rate, max_rate, DAY_S if period is None else period, peak_at)
    return paced(profile, scope=scope, extra_wait=extra_wait, zero_at=zero_at, compression=compression, seed=seed)


def _wait_before_first_tasks() -> None:
    """Add the wait before a user's first task, which Locust launches at once."""

    def with_wait(on_start: Callable[[TaskSet], None]) -> Callable[[TaskSet], None]:
        def on_start_paced(self: TaskSet) -> None:
            on_start(self)
            if isinstance(inspect.getattr_static(type(self.user), "wait_time", None), PacedWait):
                if (session := session_of(self.user)) is not None:
                    session.between_tasks = True
                self.wait()

        return on_start_paced

    replace("DefaultTaskSet.on_start", with_wait)
