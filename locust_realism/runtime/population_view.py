"""The document of the Population tab: what was expected, what is there, what comes next."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ..workload.populations import natural_span, poisson_band, with_warm_up
from ..workload.profile import RateProfile
from ..workload.solve import Floats
from .census import Tally
from .control import PopulationControl, attach
from .histogram import Histogram
from .plan import ensure_plan
from .population import FinitePopulation, Population

BAND = 0.95
LATE_S = 0.1
"""An arrival counts as late from here on."""
_CURVE_POINTS = 200
_AHEAD_POINTS = 240
_LEAST_AHEAD_S, _MOST_AHEAD_S = 600.0, 86_400.0
_CACHE_KEY = "_realism_population_curves"

Document = dict[str, Any]


def population_document(environment: Any, planned: RateProfile | None = None) -> Document:
    """Users over time against the expected curve, for the web tab and the report; ``{"model": None}`` without any.

    ``planned`` is the profile of all launches where waits make them: its next hours are the document's ``profile``
    when no population has one.

    Keys: ``model`` (name and text), ``series`` (lists ``t_s``, ``users``, ``arrivals``, ``departures``, and where the
    theory knows them ``planned_arrivals``, ``expected``, ``low``, ``high``: the 95 % band at each moment),
    ``sessions``, ``balked``, ``late``, ``missed``, ``cut_short``, ``lost``, ``moved_anew``, ``failed``, ``entered``,
    ``arrivals``, ``departures``, ``lateness``, ``tasks_per_session``, ``profile`` and ``classes`` (the counts of each).
    To be called where the test is led: on the master, or in a LocalRunner.
    """
    control = attach(environment)
    launches = _launches_ahead(environment, planned)
    if control is None or not control.populations:
        return {"model": None} | ({} if launches is None else {"profile": launches})
    _collect_local(control)
    tallies = [control.tallies.setdefault(name, Tally()) for name in control.populations]
    columns = _added(control)
    durations, late = Histogram(), Histogram()
    for tally in tallies:
        durations.merge(tally.histogram("durations").report())
        late.merge(tally.histogram("late").report())
    document: Document = {
        "model": _model(control),
        "series": columns | _expectation(control, columns["t_s"]),
        "sessions": _session_figures(durations),
        "late": late.above(LATE_S) + int(sum(tally.total("missed") for tally in tallies)),
        "lateness": _lateness(late, max(tally.total("late_max") for tally in tallies)),
        "tasks_per_session": sum(t.total("tasks_sum") for t in tallies) / durations.n if durations.n else None,
        "classes": {name: _counts(control.tallies[name]) for name in control.populations},
        "profile": _ahead(control) or launches,
    }
    for key in ("balked", "missed", "cut_short", "lost", "moved_anew", "failed", "entered", "arrivals"):
        document[key] = sum(counts[key] for counts in document["classes"].values())
    document["departures"] = _sum_dicts([counts["departures"] for counts in document["classes"].values()])
    return document


def _collect_local(control: PopulationControl) -> None:
    """In a LocalRunner nobody sends reports."""
    for name, generation in control.generations.items():
        control.tallies.setdefault(name, Tally()).add("local", generation.census.report())


def _model(control: PopulationControl) -> dict[str, str]:
    lines = [
        f"{name}: {population.describe()}" if len(control.populations) > 1 else population.describe()
        for name, population in control.populations.items()
    ]
    kinds = {isinstance(population, FinitePopulation) for population in control.populations.values()}
    name = {frozenset({True}): "Finite population", frozenset({False}): "Open population"}.get(frozenset(kinds))
    return {"name": name or "Open and finite populations", "text": "; ".join(lines)}


def _added(control: PopulationControl) -> dict[str, list[float]]:
    """The columns of all classes added up, at the seconds of the first; classes are counted at the same seconds."""
    parts = [control.tallies[name].series.columns() for name in control.populations]
    first = max(parts, key=lambda part: len(part["t_s"]))
    others = [dict(zip(part["t_s"], range(len(part["t_s"])), strict=True)) for part in parts]
    result: dict[str, list[float]] = {"t_s": list(first["t_s"])}
    for name in ("users", "arrivals", "departures"):
        result[name] = [
            sum(part[name][where[t]] for part, where in zip(parts, others, strict=True) if t in where)
            for t in first["t_s"]
        ]
    return result


def _expectation(control: PopulationControl, times: list[float]) -> dict[str, list[float]]:
    """Expected users with the band of one moment, and planned arrivals; nothing while a class's law is not known."""
    if not times:
        return {}
    t = np.asarray(times, dtype=np.float64)
    mean, variance, planned = np.zeros(len(t)), np.zeros(len(t)), np.zeros(len(t))
    known = True
    for name, population in control.populations.items():
        ended = control.tallies[name].histogram("durations")
        measured = ended.mean if ended.n else None
        if isinstance(population, Population):
            planned += _planned(control, name, population, t)
            curve = _open_curve(control, name, population, t, measured)
            known &= curve is not None
            if curve is not None:
                mean, variance = mean + curve, variance + curve
        else:
            source = population.source(measured)
            known &= source is not None
            if source is not None:
                rising = np.clip(t / population.warm_up, 0, 1) if population.warm_up else np.ones(len(t))
                planned += source.arrival_rate * (t > population.warm_up)
                mean, variance = mean + rising * source.mean, variance + rising * source.variance
    result = {"planned_arrivals": planned.tolist()}
    if not known:
        return result
    if np.allclose(mean, variance):
        low, high = poisson_band(mean, BAND)
    else:
        half = 1.96 * np.sqrt(variance)
        low, high = np.floor(np.maximum(0, mean - half)), np.ceil(mean + half)
    return result | {"expected": mean.tolist(), "low": low.tolist(), "high": high.tolist()}


def _planned(control: PopulationControl, name: str, population: Population, t: Floats) -> Floats:
    """Planned arrivals per second in the second before each t; those of a start in equilibrium begin after warm-up."""
    rate = np.asarray(population.arrivals.rate(t), dtype=np.float64)
    stretches = control.stretches.get(name, [])
    for earlier, later in pairwise(stretches):
        rate = np.where(t < later.begin, np.where(t >= earlier.begin, earlier.profile.rate(t), rate), rate)
    built_up = population.start == "equilibrium" and population.session_duration is not None
    return np.where(t > population.warm_up, rate, 0.0) if built_up else rate


def _open_curve(
    control: PopulationControl, name: str, population: Population, t: Floats, measured: float | None
) -> Floats | None:
    """Expected N at t, from a curve that is computed once for each state of the settings and twice the time shown."""
    stretches = control.stretches.get(name)
    if not stretches or population.limited_by_tasks:
        whole = population.stretch(0.0 if population.start == "empty" else -math.inf, measured)
        if whole is None:
            return None
        stretches = [whole]
    cache: dict[str, Any] = control.environment.__dict__.setdefault(_CACHE_KEY, {})
    # a mean that is measured changes with every session: to three digits it does not
    key = (
        control.planner.plan.run if control.planner.plan else 0,
        len(stretches),
        population,
        f"{measured:.3g}" if population.limited_by_tasks and measured else "",
    )
    kept = cache.get(name)
    if kept is None or kept[0] != key or kept[1][-1] < t[-1]:
        knots = [s.begin for s in stretches if s.begin > 0]
        grid = np.unique(np.concatenate((np.linspace(0, max(60.0, 2 * float(t[-1])), _CURVE_POINTS), knots)))
        if population.warm_up:
            grid = np.unique(np.append(grid, population.warm_up))
        kept = cache[name] = (key, grid, with_warm_up(stretches, grid, population.warm_up))
    return np.interp(t, kept[1], kept[2])


def _session_figures(durations: Histogram) -> Document:
    figures: Document = {"n": durations.n}
    if durations.n:
        figures |= {"mean_s": durations.mean, "sdev_s": durations.sdev, "cov": durations.cov}
        figures |= {f"p{round(100 * q)}_s": durations.quantile(q) for q in (0.5, 0.9, 0.95, 0.99)}
        figures |= {"min_s": durations.least, "max_s": durations.most}
    figures["edges_s"], figures["counts"] = durations.bars()
    return {
        key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in figures.items()
    }


def _lateness(late: Histogram, most: float) -> Document:
    if not late.n:
        return {"n": 0}
    return {
        "n": late.n,
        "p50_ms": 1000 * late.quantile(0.5),
        "p95_ms": 1000 * late.quantile(0.95),
        "p99_ms": 1000 * late.quantile(0.99),
        "max_ms": 1000 * most,
    }


def _counts(tally: Tally) -> Document:
    names = ("active", "entered", "arrivals", "balked", "missed", "cut_short", "moved_anew", "failed")
    return {name: int(tally.total(name)) for name in names} | {"lost": tally.lost, "departures": tally.departures()}


def _sum_dicts(dicts: list[dict[str, int]]) -> dict[str, int]:
    return {key: sum(d[key] for d in dicts) for key in dicts[0]} if dicts else {}


def _ahead(control: PopulationControl) -> Document | None:
    """The arrival rate of the open populations from now on, for as long as their profile says something new."""
    profiles = [p.arrivals for p in control.populations.values() if isinstance(p, Population)]
    if not profiles:
        return None
    return _profile_ahead(profiles, control.planner.elapsed(), "arrivals per second")


def _launches_ahead(environment: Any, planned: RateProfile | None) -> Document | None:
    if planned is None:
        return None
    return _profile_ahead([planned], ensure_plan(environment).elapsed(), "launches per second")


def _profile_ahead(profiles: Sequence[RateProfile], elapsed_s: float, unit: str) -> Document:
    """The sum of the profiles from now on, for as long as they say something new."""
    now = max(0.0, elapsed_s)
    span = min(_MOST_AHEAD_S, max(natural_span(profile, _LEAST_AHEAD_S) for profile in profiles))
    t = np.linspace(now, now + span, _AHEAD_POINTS)
    rate = np.sum([profile.rate(t) for profile in profiles], axis=0)
    return {"t_s": t.tolist(), "rate": rate.tolist(), "now_s": now, "unit": unit}
