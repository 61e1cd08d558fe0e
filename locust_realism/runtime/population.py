"""What a user writes: populations of users who arrive, stay and leave.

    class Visitor(HttpUser):
        wait_time = exponential(12)
        population = Population(arrivals=SineRate(min_rate=0.2, max_rate=2, period=3600),
                                session_duration=lognormal(300, cov=1.2))

The class attribute is all: building a population registers, once, a listener of Locust's init event, which puts the
control of the population in place (``runtime.control``). User classes without one stay under Locust's control.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..workload.checks import not_negative, positive
from ..workload.distribution import Distribution
from ..workload.distributions import constant
from ..workload.finite_source import FiniteSource
from ..workload.populations import (
    Start,
    Stretch,
    check_start,
    expected_users,
    natural_span,
    poisson_quantile,
    with_warm_up,
)
from ..workload.profile import RateProfile
from .overrides import common_changes, given
from .plan import on_init

DEFAULT_WARM_UP_S = 10.0
"""The users of a start in equilibrium enter spread over this long, unless a warm-up is given."""

_Times = Any
"""A Distribution, or a number that stands for a constant. A field of type Distribution would be read, by type checkers,
as what its ``__get__`` gives; :func:`times_of` has the right type."""

_DESCRIBED_POINTS = 200
_LEAST_SPAN_S = 60.0


@dataclass(frozen=True)
class Population:
    """Users who arrive as a Poisson process, each for one session: the open model, in which nobody is replaced.

    ``arrivals`` is the rate of new users over all workers. A session ends, between two tasks, when ``session_duration``
    seconds have passed or ``session_length`` tasks are done, whichever comes first; at least one of the two must be
    given (a number stands for a constant). ``max_users`` is the most that may be in session at once, over all workers:
    arrivals beyond it are turned away and counted as balked. ``start="equilibrium"`` has the users of a system
    that has been in use for long, who enter spread over ``warm_up`` seconds; ``"empty"`` begins with nobody.

    The number in session is Poisson distributed with mean lambda E[S] for a constant rate (M/G/infinity).
    Raises ValueError for impossible settings.

    >>> from locust_realism.workload.distributions import exponential
    >>> from locust_realism.workload.rates import ConstantRate
    >>> print(Population(arrivals=ConstantRate(2), session_duration=exponential(120)).describe())
    240 users on average, 99.9 % of the time at most 289; 2 arrivals/s, sessions of 120 s
    >>> Population(arrivals=ConstantRate(2))
    Traceback (most recent call last):
    ValueError: session_duration or session_length must be given, not neither
    """

    arrivals: RateProfile
    session_duration: _Times | None = None
    session_length: _Times | None = None
    max_users: int | None = None
    start: Start = "equilibrium"
    warm_up: float = DEFAULT_WARM_UP_S

    def __post_init__(self) -> None:
        if not isinstance(self.arrivals, RateProfile):
            raise ValueError(f"arrivals must be a rate profile such as ConstantRate(2), not {self.arrivals!r}")
        check_start(self.start)
        _check_sessions(self)
        object.__setattr__(self, "warm_up", not_negative("warm_up", self.warm_up))
        _register()

    @property
    def limited_by_tasks(self) -> bool:
        """Whether the number of tasks may end a session, so that its duration depends on the response times."""
        return self.session_length is not None

    def stretch(self, begin: float, measured_duration: float | None = None) -> Stretch | None:
        """The population as the theory sees it, or None while the duration of a session is not known."""
        duration = times_of(self, "session_duration")
        if self.limited_by_tasks:
            duration = constant(measured_duration) if measured_duration else None
        return None if duration is None else Stretch(begin, self.arrivals, duration)

    def expected(self, t: Any, stretches: list[Stretch] | None = None) -> Any:
        """Expected number in session at the times t, shape as t; None if it depends on response times."""
        if not stretches:
            whole = self.stretch(0.0 if self.start == "empty" else -np.inf)
            if whole is None:
                return None
            stretches = [whole]
        return with_warm_up(stretches, t, self.warm_up)

    def forecast(self, run_time: float | None = None) -> tuple[float, float, int] | None:
        """Mean, highest mean and the number that is not passed 99.9 % of the time at the peak; None if not known.

        Over ``run_time`` seconds, or once over the profile, after the population has built up.
        """
        if self.session_duration is None:
            return None
        span = run_time or natural_span(self.arrivals, max(_LEAST_SPAN_S, self.session_duration.mean))
        settled = replace(self, start="equilibrium", warm_up=0.0)
        curve = settled.expected(np.linspace(0.0, span, _DESCRIBED_POINTS))
        peak = float(curve.max())
        mean = float((curve[1:] + curve[:-1]).mean() / 2)
        return mean, peak, int(poisson_quantile(0.999, peak))

    def describe(self, run_time: float | None = None) -> str:
        """What the settings mean, in one line."""
        sessions = _describe_sessions(self)
        span = run_time or natural_span(self.arrivals, _LEAST_SPAN_S)
        rate = f"{self.arrivals.mean_rate(span):.4g} arrivals/s"
        forecast = self.forecast(run_time)
        if forecast is None:
            return f"{rate}, {sessions}; the number of users depends on the response times"
        mean, peak, most = forecast
        bound = " at most" if self.limited_by_tasks else ""
        if peak > 1.01 * mean:
            users = (
                f"{mean:.4g} users on average{bound}, {peak:.4g} at the peak, 99.9 % of the time there at most {most}"
            )
        else:
            users = f"{mean:.4g} users on average{bound}, 99.9 % of the time at most {most}"
        return f"{users}; {rate}, {sessions}"

    def to_dict(self) -> dict[str, Any]:
        """What the master tells the workers; the distributions are those of the locustfile."""
        duration = times_of(self, "session_duration")
        initial = None
        if duration is not None and self.start == "equilibrium":
            initial = float(expected_users(self.arrivals, duration, self.warm_up))
        return {
            "initial_users": initial,
            "model": "open",
            "arrivals": self.arrivals.to_dict(),
            "mean_duration": None if self.session_duration is None else self.session_duration.mean,
            "max_users": self.max_users,
            "start": self.start,
            "warm_up": self.warm_up,
        }

    def with_options(self, options: Any) -> Population:
        """The population with what the command line or the start form puts in place of its settings."""
        changes = common_changes(self, options)
        arrivals = self.arrivals
        if (factor := given(options, "population_scale")) is not None:
            arrivals = arrivals.scale(not_negative("--population-scale", factor))
        if (period := given(options, "population_period")) is not None:
            span = natural_span(arrivals, 0.0)
            if span > 0:  # a constant rate has no period to change
                arrivals = arrivals.compressed(span / positive("--population-period", period))
        start = getattr(options, "population_start", None) or self.start
        return replace(self, arrivals=arrivals, start=start, **changes)


@dataclass(frozen=True)
class FinitePopulation:
    """``people`` who alternate between away (times from ``away``) and in session, over all workers.

    Sessions end as in :class:`Population`. The run starts in equilibrium: each person is in session with probability
    E[S] / (E[A] + E[S]), with a residual session or absence. Unlike with Poisson arrivals, the more are in, the fewer
    arrive; N is binomial. With ``keep_cookies`` a person comes back with the cookies of the last session, as a
    returning visitor does, also at another worker (those of a worker that is lost are lost). Raises ValueError for
    impossible settings.

    >>> from locust_realism.workload.distributions import exponential
    >>> print(FinitePopulation(400, away=exponential(900), session_duration=exponential(300)).describe())
    100 of 400 people in session on average, 99.9 % of the time at most 127; 0.3333 arrivals/s, sessions of 300 s
    """

    people: int
    away: _Times
    session_duration: _Times | None = None
    session_length: _Times | None = None
    max_users: int | None = None
    keep_cookies: bool = False
    warm_up: float = DEFAULT_WARM_UP_S

    def __post_init__(self) -> None:
        if isinstance(self.people, bool) or not isinstance(self.people, int) or self.people < 1:
            raise ValueError(f"people must be an integer >= 1, not {self.people!r}")
        object.__setattr__(self, "away", _times("away", self.away))
        _check_sessions(self)
        object.__setattr__(self, "warm_up", not_negative("warm_up", self.warm_up))
        _register()

    @property
    def limited_by_tasks(self) -> bool:
        """Whether the number of tasks may end a session."""
        return self.session_length is not None

    def source(self, measured_duration: float | None = None) -> FiniteSource | None:
        """The population as the theory sees it, or None while the duration of a session is not known."""
        mean = None if self.session_duration is None else self.session_duration.mean
        if self.limited_by_tasks:
            mean = measured_duration
        return None if mean is None else FiniteSource(self.people, self.away.mean, mean)

    def describe(self, run_time: float | None = None) -> str:
        """What the settings mean, in one line; a stationary population does not depend on ``run_time``."""
        source, sessions = self.source(), _describe_sessions(self)
        if source is None:
            return f"{self.people} people, {sessions}; the number in session depends on the response times"
        return (
            f"{source.mean:.4g} of {self.people} people in session on average, 99.9 % of the time at most "
            f"{source.quantile(0.999)}; {source.arrival_rate:.4g} arrivals/s, {sessions}"
        )

    def to_dict(self) -> dict[str, Any]:
        """What the master tells the workers."""
        return {
            "model": "finite",
            "people": self.people,
            "mean_duration": None if self.session_duration is None else self.session_duration.mean,
            "max_users": self.max_users,
            "warm_up": self.warm_up,
        }

    def with_options(self, options: Any) -> FinitePopulation:
        """The population with what the command line or the start form puts in place of its settings."""
        changes = common_changes(self, options)
        if (people := given(options, "population_people")) is not None:
            changes["people"] = int(people)
        return replace(self, **changes)


AnyPopulation = Population | FinitePopulation


def open_arrivals(profile: RateProfile, *, max_users: int | None = None) -> Population:
    """One task a user: tasks are launched by a Poisson process with the rate ``profile``, whatever the response times.

    For tests of an arrival rate, as k6's arrival-rate executors or Gatling's open injection, but with the spacing of
    independent users. ``max_users`` bounds the number under way if the system stands still.
    """
    return Population(arrivals=profile, session_length=constant(1), max_users=max_users, start="empty", warm_up=0.0)


def population_of(user_class: Any) -> AnyPopulation | None:
    """The population of a user class, or None for one that Locust controls."""
    population = getattr(user_class, "population", None)
    return population if isinstance(population, Population | FinitePopulation) else None


def any_population() -> bool:
    """Whether a population has been built in this process, in a locustfile or because of its options."""
    return bool(_built)


_built: list[bool] = []


def _register() -> None:
    from .control import attach_at_init

    _built[:] = [True]
    on_init(attach_at_init)


def times_of(population: AnyPopulation, name: str) -> Distribution | None:
    """The distribution that a population has under ``name``."""
    times: Distribution | None = getattr(population, name, None)
    return times


def _times(name: str, value: Any) -> Distribution:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return constant(positive(name, value))
    if not isinstance(value, Distribution):
        raise ValueError(f"{name} must be a distribution such as exponential(300), or a number, not {value!r}")
    return value


def _check_sessions(population: AnyPopulation) -> None:
    if population.session_duration is None and population.session_length is None:
        raise ValueError("session_duration or session_length must be given, not neither")
    for name in ("session_duration", "session_length"):
        if (value := getattr(population, name)) is not None:
            object.__setattr__(population, name, _times(name, value))
    limit = population.max_users
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        raise ValueError(f"max_users must be an integer >= 1, not {limit!r}")


def _describe_sessions(population: AnyPopulation) -> str:
    parts = []
    if population.session_duration is not None:
        parts.append(f"{population.session_duration.mean:.4g} s")
    if population.session_length is not None:
        tasks = population.session_length.mean
        parts.append(f"{tasks:.4g} task{'' if tasks == 1 else 's'}")
    return "sessions of " + " or ".join(parts)
