"""Document of the Population tab: expected users, users in session, and the planned rate ahead."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, get_args

import gevent
import numpy as np
from locust.env import Environment
from numpy.typing import NDArray

from locust_realism.analysis.document import (
    ClassCounts,
    PopulationDocument,
    PopulationModel,
    PopulationSeries,
    ProfileAhead,
)
from locust_realism.common.numerics import Floats
from locust_realism.recording.sessions import SessionLog
from locust_realism.runtime.coordination.plan import ensure_plan
from locust_realism.runtime.locust_compat import PerEnvironment
from locust_realism.runtime.population.control import PopulationControl, attach
from locust_realism.runtime.population.model import AnyPopulation, Population
from locust_realism.runtime.population.stats import (
    Tally,
    complete,
    lateness_figures,
    planned,
    session_figures,
)
from locust_realism.runtime.users.session import ENDINGS
from locust_realism.workload.rates.profile import RateProfile
from locust_realism.workload.users.concurrency import Stretch, expected_users_of, poisson_band

if TYPE_CHECKING:
    from locust_realism.runtime.capture.run import Recording

BAND = 0.95
"""Probability of the band of expected users, at one instant."""
_NORMAL_QUANTILE = 1.96
_CURVE_POINTS = 200
_AHEAD_POINTS = 240
_LEAST_AHEAD_S, _MOST_AHEAD_S = 600.0, 86_400.0
_Count = Literal["balked", "missed", "cut_short", "lost", "moved_anew", "failed", "entered", "arrivals"]
_COUNTS: tuple[_Count, ...] = get_args(_Count)


def population_document(
    environment: Environment, launches: RateProfile | None = None, recorded: Recording | None = None
) -> PopulationDocument:
    """Return users over time beside the expected curve, for the tab and the report; ``model`` is None without any.

    ``launches`` is the profile of all launches by waits, for the key ``profile`` of a run without an open population.
    ``recorded`` has the rows for lengths and lateness of sessions: exact, of the newest million that are in memory.
    Initial users count for lateness only, as their sessions began before the run. Call it on the master or in a
    LocalRunner.
    """
    control = attach(environment)
    ahead = None
    if launches is not None:
        ahead = _profile_ahead([launches], ensure_plan(environment).elapsed(), "launches per second")
    if control is None or not control.populations:
        return {"model": None} if ahead is None else {"model": None, "profile": ahead}
    control.collect()
    document: PopulationDocument = {"model": _model(control.populations), "profile": ahead}
    profiles = [each.arrivals for each in control.populations.values() if isinstance(each, Population)]
    if profiles:
        document["profile"] = _profile_ahead(profiles, control.planner.elapsed(), "arrivals per second")
    means = _add_sessions(document, control, recorded)
    tallies = {name: control.tally(name) for name in control.populations}
    total = _counts(tallies.values())
    document["series"] = _series(control, means)
    document["classes"] = {name: _counts([tally]) for name, tally in tallies.items()}
    document["late"] = total["missed"] + sum(tally.total("late_starts") for tally in tallies.values())
    for name in _COUNTS:
        document[name] = total[name]
    document["departures"] = total["departures"]
    return document


def _add_sessions(
    document: PopulationDocument, control: PopulationControl, recorded: Recording | None
) -> dict[str, float]:
    """Add the figures of ended sessions; return their mean durations by class."""
    first_us = dict.fromkeys(control.populations, 0)
    if recorded is not None:
        for name, initial_s in control.initial_s.items():
            first_us[name] = recorded.clock.axis_us(control.planner.time_of(initial_s))

    def compute() -> dict[str, float]:
        log = SessionLog.empty() if recorded is None else recorded.side.sessions()
        counted, started = planned(log, first_us) & complete(log), planned(log, dict.fromkeys(first_us, 0))
        durations, codes = (log.end_us - log.start_us)[counted] / 1e6, log.user_class[counted]
        document["sessions"] = session_figures(durations)
        document["lateness"] = lateness_figures((log.start_us - log.planned_us)[started])
        document["tasks_per_session"] = float(log.tasks[counted].mean()) if len(durations) else None
        by_class = {name: durations[codes == code] for code, name in enumerate(log.user_classes)}
        return {name: float(own.mean()) for name, own in by_class.items() if len(own)}

    means: dict[str, float] = gevent.get_hub().threadpool.apply(compute)  # a million rows take 0.1 s
    return means


def _model(populations: dict[str, AnyPopulation]) -> PopulationModel:
    lines = [(f"{name}: " if len(populations) > 1 else "") + each.describe() for name, each in populations.items()]
    kinds = {"Open" if isinstance(each, Population) else "Finite" for each in populations.values()}
    name = f"{kinds.pop()} population" if len(kinds) == 1 else "Open and finite populations"
    return {"name": name, "text": "; ".join(lines)}


def _series(control: PopulationControl, measured: dict[str, float]) -> PopulationSeries:
    """Return the sums of all classes, counted at the same seconds, with the expected curve."""
    parts = [control.tally(name).series.columns() for name in control.populations]
    times = max((part["t_s"] for part in parts), key=len)
    rows = [dict(zip(part["t_s"], range(len(part["t_s"])), strict=True)) for part in parts]
    users, arrivals, departures = (
        [sum(part[name][row[t]] for part, row in zip(parts, rows, strict=True) if t in row) for t in times]
        for name in ("users", "arrivals", "departures")
    )
    series: PopulationSeries = {"t_s": list(times), "users": users, "arrivals": arrivals, "departures": departures}
    if times:
        _add_expectation(series, control, np.asarray(times, dtype=np.float64), measured)
    return series


def _add_expectation(
    series: PopulationSeries, control: PopulationControl, t: Floats, measured: dict[str, float]
) -> None:
    """Add planned arrivals, and the expected users with their band if the law of every class is known."""
    mean, variance, rate = np.zeros(len(t)), np.zeros(len(t)), np.zeros(len(t))
    for name, population in control.populations.items():
        curve = spread = np.full(len(t), np.nan)  # while the law is not known
        if isinstance(population, Population):
            rate += _planned(control, name, population, t)
            if (expected := _open_curve(control, name, population, t, measured.get(name))) is not None:
                curve = spread = expected
        elif (source := population.source(measured.get(name))) is not None:
            rising = np.clip(t / population.warm_up, 0, 1) if population.warm_up else np.ones(len(t))
            rate += source.arrival_rate * (t > population.warm_up)
            curve, spread = rising * source.mean, rising * source.variance
        mean, variance = mean + curve, variance + spread
    series["planned_arrivals"] = rate.tolist()
    if np.isnan(mean).any():
        return
    low: NDArray[np.number]
    high: NDArray[np.number]
    if np.allclose(mean, variance):
        low, high = poisson_band(mean, BAND)
    else:
        half = _NORMAL_QUANTILE * np.sqrt(variance)
        low, high = np.floor(np.maximum(0, mean - half)), np.ceil(mean + half)
    series["expected"], series["low"], series["high"] = mean.tolist(), low.tolist(), high.tolist()


def _planned(control: PopulationControl, name: str, population: Population, t: Floats) -> Floats:
    """Return the planned arrivals per second at each t; after a start in equilibrium they begin with its end."""
    rate = np.asarray(population.arrivals.rate(t), dtype=np.float64)
    for earlier, later in pairwise(control.stretches.get(name, [])):
        rate = np.where((t >= earlier.begin) & (t < later.begin), earlier.profile.rate(t), rate)
    return np.where(t > population.initial_s, rate, 0.0) if population.initial_s else rate


_CURVES: PerEnvironment[dict[str, tuple[tuple[object, ...], Floats, Floats]]] = PerEnvironment(
    "population_curves", lambda environment: {}
)
"""State of the settings, times and expected N by user class."""


def _open_curve(
    control: PopulationControl, name: str, population: Population, t: Floats, measured: float | None
) -> Floats | None:
    """Return the expected N at t, from a curve computed once for each state of the settings and twice the time."""
    stretches: Sequence[Stretch] = control.stretches.get(name, [])
    if not stretches or population.limited_by_tasks:
        whole = population.stretch(0.0 if population.start == "empty" else -np.inf, measured)
        if whole is None:
            return None
        stretches = [whole]
    # A measured mean changes with every session, but rarely in three digits.
    digits = f"{measured:.3g}" if population.limited_by_tasks and measured else ""
    run = control.planner.plan.run if control.planner.plan else 0
    key = (run, len(stretches), population, digits)
    curves = _CURVES.of(control.environment)
    known = curves.get(name)
    if known is None or known[0] != key or known[1][-1] < t[-1]:
        knots = [s.begin for s in stretches if s.begin > 0]
        grid = np.linspace(0, max(60.0, 2 * float(t[-1])), _CURVE_POINTS)
        grid = np.unique(np.concatenate((grid, knots, [population.warm_up])))
        known = curves[name] = key, grid, expected_users_of(stretches, grid, population.warm_up)
    return np.interp(t, known[1], known[2])


def _counts(tallies: Collection[Tally]) -> ClassCounts:
    def total(name: str) -> int:
        return sum(tally.total(name) for tally in tallies)

    ended = [tally.departures() for tally in tallies]
    return {
        "active": total("active"), "entered": total("entered"), "arrivals": total("arrivals"),
        "balked": total("balked"), "missed": total("missed"), "cut_short": total("cut_short"),
        "moved_anew": total("moved_anew"), "failed": total("failed"), "lost": total("lost"),
        "departures": {how: sum(each[how] for each in ended) for how in ENDINGS},
    }  # fmt: skip


def _profile_ahead(profiles: Sequence[RateProfile], elapsed_s: float, unit: str) -> ProfileAhead:
    """Return the sum of the profiles from now on, over their span."""
    now = max(0.0, elapsed_s)
    span = min(_MOST_AHEAD_S, max(_LEAST_AHEAD_S, *(profile.span for profile in profiles)))
    t = np.linspace(now, now + span, _AHEAD_POINTS)
    rate = np.sum([profile.rate(t) for profile in profiles], axis=0)
    return {"t_s": t.tolist(), "rate": rate.tolist(), "now_s": now, "unit": unit}
