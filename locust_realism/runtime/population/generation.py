"""Greenlets of the populations of a process: each starts the users of one class when they are due, and counts them.

It starts a user as Locust does, by ``user.start(runner.user_greenlets)``: Locust counts, stops and shows it like any
other. Late arrivals are not made up for in a burst: more than a second late, they are dropped and counted as missed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from http.cookiejar import Cookie
from itertools import repeat
from typing import Any, Generic, TypedDict, TypeVar

import gevent
import numpy as np
from gevent.event import Event
from locust import User
from locust.env import Environment

from locust_realism.runtime.coordination.plan import Plan, Planner, ensure_plan
from locust_realism.runtime.population.model import Population, Settings, population_of
from locust_realism.runtime.population.stats import Census
from locust_realism.runtime.users import alarm
from locust_realism.runtime.users.clients import close_client, cookie_jar, pack, unpack
from locust_realism.runtime.users.session import SessionRecord, session_of
from locust_realism.workload.distributions.base import Distribution
from locust_realism.workload.distributions.streams import Draw, batched_draws, name_key, spawn
from locust_realism.workload.rates.shapes import rate_profile_from_dict
from locust_realism.workload.users.arrivals import Entry, OpenSchedule, spread
from locust_realism.workload.users.concurrency import sample_initial
from locust_realism.workload.users.launching import MISSED_AFTER_S
from locust_realism.workload.users.people import Move, PeopleSchedule

_DROPS_PER_TURN = 200
_START_S = 1.0
"""Seconds after the warm-up until which a worker still starts its initial users; later they are elsewhere, or gone."""

_ENDLESS: Draw = repeat(math.inf).__next__
S = TypeVar("S", OpenSchedule, PeopleSchedule)
Luggage = list[tuple[int, list[list[Any]]]]
"""People who move, each with packed cookies."""
SendPeople = Callable[[list[Move], Luggage], None]
"""Sends people to the workers that own them."""


class PlanItem(TypedDict):
    """Item of the plan: settings by class, and the members at the start of the test."""

    original: list[int]
    classes: dict[str, Settings]


class Sessions:
    """Durations and numbers of tasks of the sessions of one class; inf without a limit."""

    def __init__(self, duration: Distribution | None, rng: np.random.Generator, length: Draw) -> None:
        self._of_locustfile, self._duration_rng, self._length = duration, rng, length
        self.times: Distribution | None = None
        self.duration = _ENDLESS

    def tasks(self) -> float:
        """Draw the number of tasks of a session, at least 1."""
        tasks = self._length()
        return tasks if tasks == math.inf else max(1, round(tasks))

    def set_mean_duration(self, mean: float | None) -> None:
        """Scale the durations of later sessions to another mean."""
        if self._of_locustfile is None or mean is None or (self.times is not None and mean == self.times.mean):
            return
        self.times = self._of_locustfile.with_mean(mean)
        self.duration = batched_draws(self.times, self._duration_rng)


@dataclass(eq=False)
class Generation(Generic[S]):
    """Starts the users of one class at the times of ``schedule``, for the lengths of ``sessions``.

    Subclasses handle a refused entry and the end of a user's session.
    """

    environment: Environment
    planner: Planner
    user_class: type[User]
    schedule: S
    sessions: Sessions
    census: Census = field(default_factory=Census, init=False)
    running: bool = field(default=True, init=False)
    limit: float = field(default=math.inf, init=False)
    _wake: Event = field(default_factory=Event, init=False)

    def update(self, settings: Settings, plan: Plan) -> None:
        """Apply changed settings or members."""
        if settings["max_users"] is None or self.planner.index not in plan.members:
            self.limit = math.inf
        else:
            whole, rest = divmod(settings["max_users"], len(plan.members))
            self.limit = whole + (plan.members.index(self.planner.index) < rest)
        self.sessions.set_mean_duration(settings["mean_duration"])
        self._wake.set()

    def run(self) -> None:
        """Start users until the test stops; none may start after Locust has counted the users to stop."""
        while self.running:
            at = self.planner.time_of(self.schedule.due())
            late = time.perf_counter() - at
            if late < 0:
                alarm.wait(self._wake, at)
                self._wake.clear()
                continue  # to check again that the test is running
            entry = self.schedule.take()
            if late <= MISSED_AFTER_S:
                self._arrive(entry, late)
            else:
                self.census.missed += 1
                self.refused(entry)
                if self.census.missed % _DROPS_PER_TURN:
                    continue
            gevent.sleep(0)  # users run even if the next one is due too

    def _arrive(self, entry: Entry, late: float) -> None:
        if self.census.active >= self.limit:
            self.census.balked += 1
            self.refused(entry)
            return
        try:
            user = self.user_class(self.environment)
        except Exception as error:  # noqa: BLE001 - a user's __init__ may raise anything
            self.census.failed += 1
            self.refused(entry)
            if self.census.failed == 1:
                name = self.user_class.__name__
                self.planner.abort(f"A {name} cannot be created: {error!r}. The run is ended.")
            return
        self.prepare(user, entry)
        assert self.environment.runner is not None
        user.start(self.environment.runner.user_greenlets)
        session = session_of(user)
        assert session is not None  # hook_user_start() was called
        session.planned = session.planned_start = self.planner.time_of(entry.due)
        if entry.leaves_at is not None:
            session.ends_at = self.planner.time_of(entry.leaves_at)
        else:
            session.ends_at = session.started + self.sessions.duration()
        session.tasks_left = self.sessions.tasks()
        session.on_end = lambda ended, record: self._ended(ended, record, entry)
        self.census.started(late, initial=entry.leaves_at is not None)

    def _ended(self, user: User, record: SessionRecord, entry: Entry) -> None:
        self.census.ended(record, self.running)
        self.left(user, entry)
        close_client(user)

    def refused(self, entry: Entry) -> None:
        """Handle an entry that was missed, balked, or whose user could not be created."""

    def prepare(self, user: User, entry: Entry) -> None:
        """Prepare a user before its start."""

    def left(self, user: User, entry: Entry) -> None:
        """Handle the end of a user's session, in the hub: must not block."""


@dataclass(eq=False)
class ArrivalGeneration(Generation[OpenSchedule]):
    """Starts the users of an open population."""

    _followed: tuple[object, float] | None = field(default=None, init=False)

    def update(self, settings: Settings, plan: Plan) -> None:
        wanted = (settings["arrivals"], self.planner.share())
        if wanted != self._followed:
            self._followed = wanted
            self.schedule.change(rate_profile_from_dict(settings["arrivals"]), wanted[1], self.planner.elapsed())
        super().update(settings, plan)


@dataclass(eq=False)
class PeopleGeneration(Generation[PeopleSchedule]):
    """Starts the people of a finite population; ``send`` moves those of another worker."""

    send: SendPeople
    keep_cookies: bool
    members: tuple[int, ...]
    _cookies: dict[int, Iterable[Cookie]] = field(default_factory=dict, init=False)

    def update(self, settings: Settings, plan: Plan) -> None:
        now = self.planner.elapsed()
        if settings["people"] != self.schedule.people:
            self.schedule.resize(settings["people"], now)
        if plan.members != self.members:
            self.members = plan.members
            self._send(self.schedule.change(plan.members, now))
        self.census.moved_anew = self.schedule.moved_anew
        super().update(settings, plan)

    def receive(self, moves: list[Move], luggage: Luggage) -> None:
        """Add people from another worker."""
        if self.keep_cookies:
            self._cookies |= {person: unpack(cookies) for person, cookies in luggage}
        self._send(self.schedule.receive(moves))
        self._wake.set()

    def refused(self, entry: Entry) -> None:
        if entry.person is not None and self.running:
            move = self.schedule.finished(entry.person, self.planner.elapsed())
            self._send([] if move is None else [move])
            self._wake.set()

    def left(self, user: User, entry: Entry) -> None:
        if self.keep_cookies and entry.person is not None and (jar := cookie_jar(user)) is not None:
            self._cookies[entry.person] = jar
        self.refused(entry)

    def prepare(self, user: User, entry: Entry) -> None:
        cookies = self._cookies.get(-1 if entry.person is None else entry.person)
        if cookies is not None and (jar := cookie_jar(user)) is not None:
            for cookie in cookies:
                jar.set_cookie(cookie)

    def _send(self, moves: list[Move]) -> None:
        if moves:
            cookies = self._cookies
            self.send(moves, [(person, pack(cookies.pop(person))) for person, _ in moves if person in cookies])


def build_generation(
    environment: Environment, user_class: type[User], item: PlanItem, history: Sequence[Plan], send: SendPeople
) -> ArrivalGeneration | PeopleGeneration:
    """Return the generation of a class by the plan; ``history`` are this run's plans with different members."""
    settings = item["classes"][user_class.__name__]
    planner, population = ensure_plan(environment), population_of(user_class)
    plan = planner.plan
    assert plan is not None
    assert population is not None
    duration, length = population.times("session_duration"), population.times("session_length")
    own = (plan.seed if times is None or times.seed is None else times.seed for times in (duration, length))
    name = name_key("population " + user_class.__name__)
    seeds = (plan.seed, plan.seed, *own)
    arrivals, initial, durations, lengths = (spawn(seed, planner.index, name, k) for k, seed in enumerate(seeds))
    sessions = Sessions(duration, durations, _ENDLESS if length is None else batched_draws(length, lengths))
    sessions.set_mean_duration(settings["mean_duration"])
    in_time = planner.index in item["original"] and planner.elapsed() < settings["warm_up"] + _START_S
    generation: ArrivalGeneration | PeopleGeneration
    if isinstance(population, Population):
        schedule = _open_schedule(planner, settings, sessions, arrivals, initial if in_time else None)
        generation = ArrivalGeneration(environment, planner, user_class, schedule, sessions)
    else:
        away = population.times("away")
        assert away is not None
        mean = 0.0 if sessions.times is None else sessions.times.mean
        presence = mean / (away.mean + mean)
        people = PeopleSchedule(settings["people"], away, sessions.times, presence, arrivals, planner.index)
        if in_time:
            people.begin(item["original"], settings["warm_up"])
        else:
            people.join(history[0].members, history[0].previous, planner.elapsed())
        for later in history[1:]:
            if moves := people.change(later.members, planner.elapsed()):
                send(moves, [])
        generation = PeopleGeneration(
            environment, planner, user_class, people, sessions, send, population.keep_cookies, plan.members
        )
    generation.update(settings, plan)
    return generation


def _open_schedule(
    planner: Planner,
    settings: Settings,
    sessions: Sessions,
    arrivals: np.random.Generator,
    initial: np.random.Generator | None,
) -> OpenSchedule:
    profile, share = rate_profile_from_dict(settings["arrivals"]), planner.share()
    begin, warm_up, entries = planner.elapsed(), settings["warm_up"], None
    if settings["start"] == "equilibrium" and sessions.times is not None:
        # The initial users represent the equilibrium at the end of the warm-up; arrivals begin there.
        begin = max(begin, warm_up)
        if initial is not None:
            left = sample_initial(profile, sessions.times, warm_up, initial, share, settings["initial_users"])
            entries = spread(left, warm_up, initial)
    return OpenSchedule(profile, share, arrivals, begin=begin, initial=entries)
