"""Populations of users as a locustfile declares them: users who arrive, stay for a session and leave.

    class Visitor(HttpUser):
        wait_time = exponential(12)
        population = Population(arrivals=SineRate(min_rate=0.2, max_rate=2, period=3600),
                                session_duration=lognormal(300, cov=1.2))

The class attribute is a complete declaration; user classes without one stay under Locust's control. Options of the
command line and the start form replace settings (:meth:`Population.with_options`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NotRequired, Self, TypedDict

import numpy as np

from locust_realism.common.durations import read_duration
from locust_realism.common.validation import integer, not_negative, number, one_of, positive, refusal
from locust_realism.workload.distributions import constant
from locust_realism.workload.distributions.base import Distribution
from locust_realism.workload.distributions.streams import Sampled
from locust_realism.workload.rates.profile import RateProfile
from locust_realism.workload.users.concurrency import (
    STARTS,
    FiniteSource,
    Start,
    Stretch,
    expected_users,
    poisson_quantile,
)  # fmt: skip

DEFAULT_WARM_UP_S = 10.0
"""Seconds over which the initial users enter, unless a warm-up is given."""
PEAK_SHARE = 0.999
"""Share of the time in which the number of users stays at or below the forecast peak."""

_DURATIONS = ("population_period", "population_session_duration", "realism_warmup")
_DESCRIBED_POINTS = 200
_LEAST_SPAN_S = 60.0

Times = Sampled | float
"""A distribution, or a number for a constant. For a field of type Distribution, type checkers would report the type
that its ``__get__`` returns; :meth:`_Sessions.times` has the right type."""


class Settings(TypedDict):
    """Settings of one class in the plan; the distributions are those of the locustfile, scaled to ``mean_duration``."""

    model: str
    mean_duration: float | None
    max_users: int | None
    warm_up: float
    arrivals: NotRequired[dict[str, object]]
    start: NotRequired[str]
    initial_users: NotRequired[float | None]
    people: NotRequired[int]


_when_built: list[Callable[[], None]] = []
_built: list[bool] = []


def when_built(callback: Callable[[], None]) -> None:
    """Call ``callback()`` whenever a population is built."""
    _when_built.append(callback)


def any_population() -> bool:
    """Return True if a population has been built in this process, by a locustfile or for its options."""
    return bool(_built)


class _Sessions:
    """Sessions of a population and their limits; base of both models."""

    session_duration: Times | None
    session_length: Times | None
    max_users: int | None
    start: Start = "equilibrium"
    warm_up: float

    def _check_sessions(self, *required: str) -> None:
        if self.session_duration is None and self.session_length is None:
            raise ValueError("session_duration or session_length must be given, not neither")
        optional = (name for name in ("session_duration", "session_length") if getattr(self, name) is not None)
        for name in (*required, *optional):
            value = getattr(self, name)
            if isinstance(value, int | float) and not isinstance(value, bool):
                object.__setattr__(self, name, constant(positive(name, value)))
            elif not isinstance(value, Distribution):
                raise refusal(name, "a distribution such as exponential(300), or a number", value)
        if self.max_users is not None:
            integer("max_users", self.max_users, least=1)
        object.__setattr__(self, "warm_up", not_negative("warm_up", self.warm_up))
        _built[:] = [True]
        for callback in _when_built:
            callback()

    @property
    def initial_s(self) -> float:
        """Seconds of the run in which the initial users enter; 0 without a known equilibrium."""
        return self.warm_up if self.start == "equilibrium" and self.session_duration is not None else 0.0

    @property
    def limited_by_tasks(self) -> bool:
        """True if the number of tasks may end a session: its duration then depends on the response times."""
        return self.session_length is not None

    def times(self, name: str) -> Distribution | None:
        """Return the distribution in the field ``name``."""
        times = getattr(self, name, None)
        return times if isinstance(times, Distribution) else None

    @property
    def mean_duration(self) -> float | None:
        """Mean of ``session_duration`` in seconds, None without one."""
        duration = self.times("session_duration")
        return None if duration is None else duration.mean

    def _describe_sessions(self) -> str:
        parts = [] if self.mean_duration is None else [f"{self.mean_duration:.4g} s"]
        if (length := self.times("session_length")) is not None:
            parts.append(f"{length.mean:.4g} task{'' if length.mean == 1 else 's'}")
        return "sessions of " + " or ".join(parts)

    def _changes(self, options: object) -> dict[str, object]:
        """Return the settings of any model that the options replace."""
        changes: dict[str, object] = {}
        duration = self.times("session_duration")
        if (mean := _given(options, "population_session_duration")) is not None and duration is not None:
            changes["session_duration"] = duration.with_mean(positive("--population-session-duration", mean))
        if (limit := _given(options, "population_max_users")) is not None:
            changes["max_users"] = int(limit)
        if warm_up := _given(options, "realism_warmup"):
            changes["warm_up"] = warm_up
        return changes

    def _replaced(self, changes: dict[str, object]) -> Self:
        make: Callable[..., Self] = replace
        return make(self, **changes)


@dataclass(frozen=True)
class Population(_Sessions):
    """Open population: users arrive as a Poisson process, each for one session, and nobody is replaced.

    ``arrivals`` is the rate of new users over all workers. A session ends, between two tasks, after
    ``session_duration`` seconds or ``session_length`` tasks, whichever is first; at least one of the two must be given
    (a number stands for a constant). ``max_users`` limits the users in session over all workers: arrivals beyond it are
    turned away and counted. ``start="equilibrium"`` begins with the users of the steady state, who enter over
    ``warm_up`` seconds; ``"empty"`` begins without users.

    The number in session is Poisson distributed, with mean lambda E[S] for a constant rate (M/G/infinity).
    Raises ValueError for impossible settings.

    >>> from locust_realism.workload.distributions import exponential
    >>> from locust_realism.workload.rates.shapes import ConstantRate
    >>> print(Population(arrivals=ConstantRate(2), session_duration=exponential(120)).describe())
    240 users on average, 99.9 % of the time at most 289; 2 arrivals/s, sessions of 120 s
    >>> Population(arrivals=ConstantRate(2))
    Traceback (most recent call last):
    ValueError: session_duration or session_length must be given, not neither
    """

    arrivals: RateProfile
    session_duration: Times | None = None
    session_length: Times | None = None
    max_users: int | None = None
    start: Start = "equilibrium"
    warm_up: float = DEFAULT_WARM_UP_S

    def __post_init__(self) -> None:
        if not isinstance(self.arrivals, RateProfile):
            raise refusal("arrivals", "a rate profile such as ConstantRate(2)", self.arrivals)
        one_of("start", self.start, STARTS)
        self._check_sessions()

    def stretch(self, begin: float, measured_duration: float | None = None) -> Stretch | None:
        """Return the settings from ``begin`` on for the theory, None while the mean session is not known."""
        duration = self.times("session_duration")
        if self.limited_by_tasks:
            duration = constant(measured_duration) if measured_duration else None
        return None if duration is None else Stretch(begin, self.arrivals, duration)

    def forecast(self, run_time: float | None = None) -> tuple[float, float, int] | None:
        """Return the mean, the highest mean, and the number not exceeded 99.9 % of the time at the peak.

        They cover ``run_time`` seconds, or the profile once, after the warm-up. They are upper limits if the number of
        tasks may end a session too; None if it alone does.
        """
        duration = self.times("session_duration")
        if duration is None:
            return None
        span = run_time or max(_LEAST_SPAN_S, duration.mean, self.arrivals.span)
        curve = expected_users(self.arrivals, duration, np.linspace(0.0, span, _DESCRIBED_POINTS))
        peak = float(curve.max())
        return float((curve[1:] + curve[:-1]).mean() / 2), peak, int(poisson_quantile(PEAK_SHARE, peak))

    def peak_users(self, run_time: float | None = None) -> int | None:
        """Return the number in session not exceeded 99.9 % of the time at the peak, None if not known."""
        forecast = self.forecast(run_time)
        return None if forecast is None else forecast[2]

    def describe(self, run_time: float | None = None) -> str:
        """Return the settings and the expected users in one line."""
        sessions = self._describe_sessions()
        span = run_time or max(_LEAST_SPAN_S, self.arrivals.span)
        rate = f"{self.arrivals.mean_rate(span):.4g} arrivals/s"
        forecast = self.forecast(run_time)
        if forecast is None:
            return f"{rate}, {sessions}; the number of users depends on the response times"
        mean, peak, most = forecast
        users = f"{mean:.4g} users on average{' at most' if self.limited_by_tasks else ''}"
        there = ""
        if peak > 1.01 * mean:
            users, there = f"{users}, {peak:.4g} at the peak", " there"
        return f"{users}, 99.9 % of the time{there} at most {most}; {rate}, {sessions}"

    def to_dict(self) -> Settings:
        """Return the settings for the plan."""
        duration, initial = self.times("session_duration"), None
        if duration is not None and self.start == "equilibrium":
            initial = float(expected_users(self.arrivals, duration, self.warm_up))
        return {
            "model": "open", "mean_duration": self.mean_duration, "max_users": self.max_users, "warm_up": self.warm_up,
            "arrivals": self.arrivals.to_dict(), "start": self.start, "initial_users": initial,
        }  # fmt: skip

    def with_options(self, options: object) -> Population:
        """Return the population with the settings of the command line or the start form."""
        arrivals = self.arrivals
        if (factor := _given(options, "population_scale")) is not None:
            arrivals = arrivals.scale(not_negative("--population-scale", factor))
        period = _given(options, "population_period")
        if period is not None and arrivals.span > 0:  # a constant rate has no period to change
            arrivals = arrivals.compressed(arrivals.span / positive("--population-period", period))
        start = getattr(options, "population_start", None) or self.start
        return self._replaced({"arrivals": arrivals, "start": start, **self._changes(options)})


@dataclass(frozen=True)
class FinitePopulation(_Sessions):
    """Finite population: ``people`` over all workers, in turn away (times from ``away``) and in session.

    Sessions end as in :class:`Population`. The run starts in equilibrium: each person is in session with probability
    E[S] / (E[A] + E[S]), with a residual session or absence. Unlike with Poisson arrivals, more users in session mean
    fewer arrivals; N is binomial. ``keep_cookies`` gives a person the cookies of the last session again, at another
    worker too (those of a lost worker are lost). Raises ValueError for impossible settings.

    >>> from locust_realism.workload.distributions import exponential
    >>> print(FinitePopulation(400, away=exponential(900), session_duration=exponential(300)).describe())
    100 of 400 people in session on average, 99.9 % of the time at most 127; 0.3333 arrivals/s, sessions of 300 s
    """

    people: int
    away: Times
    session_duration: Times | None = None
    session_length: Times | None = None
    max_users: int | None = None
    keep_cookies: bool = False
    warm_up: float = DEFAULT_WARM_UP_S

    def __post_init__(self) -> None:
        integer("people", self.people, least=1)
        self._check_sessions("away")

    def source(self, measured_duration: float | None = None) -> FiniteSource | None:
        """Return the settings for the theory, None while the mean session is not known."""
        away, session = self.times("away"), measured_duration if self.limited_by_tasks else self.mean_duration
        return None if away is None or session is None else FiniteSource(self.people, away.mean, session)

    def peak_users(self, run_time: float | None = None) -> int | None:
        """Return the number in session not exceeded 99.9 % of the time, None if not known."""
        source = self.source()
        return None if source is None else source.quantile(PEAK_SHARE)

    def describe(self, run_time: float | None = None) -> str:
        """Return the settings and the expected users in one line; ``run_time`` has no effect."""
        source, sessions = self.source(), self._describe_sessions()
        if source is None:
            return f"{self.people} people, {sessions}; the number in session depends on the response times"
        return (
            f"{source.mean:.4g} of {self.people} people in session on average, 99.9 % of the time at most "
            f"{source.quantile(PEAK_SHARE)}; {source.arrival_rate:.4g} arrivals/s, {sessions}"
        )

    def to_dict(self) -> Settings:
        """Return the settings for the plan."""
        return {
            "model": "finite", "mean_duration": self.mean_duration, "max_users": self.max_users,
            "warm_up": self.warm_up, "people": self.people,
        }  # fmt: skip

    def with_options(self, options: object) -> FinitePopulation:
        """Return the population with the settings of the command line or the start form."""
        changes = self._changes(options)
        if (people := _given(options, "population_people")) is not None:
            changes["people"] = int(people)
        return self._replaced(changes)


AnyPopulation = Population | FinitePopulation


def open_arrivals(profile: RateProfile, *, max_users: int | None = None) -> Population:
    """Return a population of one task a user: a Poisson process launches tasks at the rate ``profile``.

    For tests of an arrival rate whatever the response times, as k6's arrival-rate executors or Gatling's open
    injection, but with the spacing of independent users. ``max_users`` limits the users of a stalled system.
    """
    return Population(arrivals=profile, session_length=constant(1), max_users=max_users, start="empty", warm_up=0.0)


def population_of(user_class: object) -> AnyPopulation | None:
    """Return the population of a user class, None for one that Locust controls."""
    population = getattr(user_class, "population", None)
    return population if isinstance(population, Population | FinitePopulation) else None


def _given(options: object, name: str) -> float | None:
    """Return the value of an option as a number (a duration in seconds), None if it is empty or absent."""
    value = getattr(options, name, None)
    if value is None or value == "":
        return None
    flag = "--" + name.replace("_", "-")
    if isinstance(value, str):
        if name in _DURATIONS:
            return read_duration(value, flag)
        with suppress(ValueError):  # which number() refuses with its own message
            value = float(value)
    return number(flag, value)
