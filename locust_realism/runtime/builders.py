"""From the master's settings of a class to the greenlet that generates its users, with random streams of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..workload.people import Move, PeopleSchedule
from ..workload.rates import rate_profile_from_dict
from ..workload.schedules import OpenSchedule
from ..workload.streams import name_key, spawn
from .finite import Luggage, PeopleGeneration
from .generation import ArrivalGeneration, Generation, Sessions
from .plan import Plan, Planner, ensure_plan
from .population import AnyPopulation, FinitePopulation, Population, population_of, times_of

_START_S = 1.0
"""A worker that is later than this after the warm-up finds the users of the start in session elsewhere, or gone."""


def build_generation(
    environment: Any,
    user_class: Any,
    payload: dict[str, Any],
    history: list[Plan],
    hand_over: Callable[[list[Move], Luggage], None],
) -> Generation:
    """The generation of a class, as the plan says it now; ``history`` are the plans of this run with other members."""
    spec = payload["classes"][user_class.__name__]
    planner, population = ensure_plan(environment), population_of(user_class)
    plan = planner.plan
    if plan is None or population is None:
        raise RuntimeError(f"There is no plan or no population of {user_class.__name__} to build from")
    duration, length = times_of(population, "session_duration"), times_of(population, "session_length")
    seeds = [plan.seed, plan.seed, *(plan.seed if t is None or t.seed is None else t.seed for t in (duration, length))]
    name = name_key("population " + user_class.__name__)
    streams = [spawn(seed, planner.index, name, k) for k, seed in enumerate(seeds)]
    sessions = Sessions(duration, length, (streams[2], streams[3]))
    sessions.set_mean_duration(spec["mean_duration"])
    generation: Generation
    if isinstance(population, Population):
        schedule = _open_schedule(planner, spec, sessions, streams, planner.index in payload["original"])
        generation = ArrivalGeneration(environment, planner, user_class, schedule, sessions)
    else:
        people = _people_schedule(planner, population, spec, sessions, streams[0])
        if planner.index in payload["original"] and planner.elapsed() < spec["warm_up"] + _START_S:
            people.begin(payload["original"], spec["warm_up"])
        else:
            people.join(history[0].members, history[0].previous, planner.elapsed())
        for later in history[1:]:
            if moves := people.change(later.members, planner.elapsed()):
                hand_over(moves, [])
        generation = PeopleGeneration(
            environment,
            planner,
            user_class,
            people,
            sessions,
            hand_over=hand_over,
            keep_cookies=population.keep_cookies,
        )
    generation.update(spec, plan)
    return generation


def warm_imports(population: AnyPopulation) -> None:
    """Draw once, so that what a distribution imports is imported before a test, not in its first moment."""
    rng = spawn(0)
    for name in ("session_duration", "session_length", "away"):
        if (times := times_of(population, name)) is not None:
            times.sample(rng, 1)
            times.sample_residual(rng, 1)


def _open_schedule(
    planner: Planner, spec: dict[str, Any], sessions: Sessions, streams: list[Any], is_original: bool
) -> OpenSchedule:
    profile, share = rate_profile_from_dict(spec["arrivals"]), planner.share()
    elapsed, warm_up = planner.elapsed(), spec["warm_up"]
    initial = None
    if spec["start"] == "equilibrium" and sessions.times is not None:
        # The users of the start are those who are there when the warm-up ends; new ones arrive from then on.
        if is_original and elapsed < warm_up + _START_S:
            initial = OpenSchedule.initial_entries(
                profile, sessions.times, share, warm_up, streams[1], spec["initial_users"]
            )
        elapsed = max(elapsed, warm_up)
    return OpenSchedule(profile, share, streams[0], begin=elapsed, initial=initial)


def _people_schedule(
    planner: Planner, population: FinitePopulation, spec: dict[str, Any], sessions: Sessions, stream: Any
) -> PeopleSchedule:
    away = times_of(population, "away")
    if away is None:
        raise RuntimeError("A finite population always has a time away")
    presence = 0.0 if sessions.mean is None else sessions.mean / (away.mean + sessions.mean)
    return PeopleSchedule(spec["people"], away, sessions.times, presence, stream, planner.index)
