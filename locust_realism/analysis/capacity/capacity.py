"""Capacity of a system: throughput and percentiles against concurrency, the knee, and the users that meet a target.

Sources: Little, A proof for the queuing formula L = lambda W, 1961; Gunther, Guerrilla Capacity Planning, 2007;
percentiles that belong to a level of concurrency: Neumann, Locust 04, Interpret the result, 2020.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from locust_realism.analysis import document as doc
from locust_realism.analysis.capacity.knee import find_knee
from locust_realism.analysis.capacity.levels import Level, level_rows, rate_errors, shown, split_levels
from locust_realism.analysis.capacity.little import LevelTimes, given_times, level_times
from locust_realism.analysis.capacity.slo import judge_target, parse_target, target_sentence
from locust_realism.analysis.capacity.usl import MIN_LEVELS, fit_usl
from locust_realism.analysis.percentiles import Floats
from locust_realism.analysis.settings import DEFAULT_BOUNDS, VerdictBounds, generator_bounds, grade_generator
from locust_realism.analysis.stats.intervals import in_launch_order
from locust_realism.common.json import to_json_safe
from locust_realism.recording.launches import LaunchLog

MIN_LEVEL_S = 5.0
"""Shortest level of a run; the numbers of users that pass while users are started are merged."""
LITTLE_TOLERANCE = 0.10


def capacity(
    log: LaunchLog,
    *,
    targets: Sequence[str] = (),
    rule: str = "nearest_rank",
    think_s: float | None = None,
    min_level_s: float = 0.0,
) -> doc.Capacity:
    """Return the capacity section of the summary: levels, Little's law, scalability law, knee and targets.

    - ``targets`` conditions that must hold, as thresholds are written: ``p95 < 400ms``, ``failures < 1%``
    - ``think_s`` mean think time Z in seconds, in place of the pauses between a user's requests
    - ``min_level_s`` seconds of the shortest level; shorter ones, as while users are started, are merged

    A row of ``levels`` has feedback = R/(R+Z), little_users = X (R + Z) of the users' tasks and little_ratio, their
    share of the users. ``usl`` and ``knee`` are None below four levels. ValueError for a target that is none. The same
    log gives the same intervals.

    >>> log = LaunchLog.build(range(0, 100_000_000, 1_000_000), 200_000, users=5)
    >>> found = capacity(log, think_s=4.8)
    >>> found["levels"][0]["little_users"], found["knee"]
    (5.0, None)
    """
    parsed = [parse_target(text) for text in targets]
    log = in_launch_order(log)
    levels = split_levels(log, min_seconds=min_level_s)
    table = level_rows(log, levels, rule)
    times = level_times(log, levels) if think_s is None else given_times(levels, _means(table), think_s)
    rng = np.random.default_rng(0)
    found = _section(levels, table, times, [], rng)
    found["targets"] = to_json_safe([judge_target(log, levels, target, rng, rule) for target in parsed])
    if levels:
        sentences = (target_sentence(target, levels[-1].users) for target in found["targets"])
        found["explanation"] = " ".join((found["explanation"], *sentences))
    return found


def capacity_section(
    log: LaunchLog,
    levels: Sequence[Level],
    table: Sequence[doc.LevelRow],
    *,
    think_s: float | None = None,
    health: Mapping[str, float] | None = None,
    bounds: VerdictBounds = DEFAULT_BOUNDS,
) -> doc.Capacity | None:
    """Return :func:`capacity` of levels with known rows, without targets; None below two levels: most runs hold one.

    ``log`` is in launch order; ``think_s`` counts if no level has measured pauses. ``health`` holds figures of the
    generator, ``cpu_max`` (share of a core), ``lateness_p99_ms`` and ``loop_lag_p99_ms``; ``bounds`` from which each is
    red, and a warning.
    """
    if len(levels) < 2:
        return None
    times = level_times(log, levels)
    if np.isnan(times.think_s).all() and think_s is not None:
        times = given_times(levels, _means(table), think_s)
    limits = generator_bounds(bounds)
    shortages = [
        text.format(value)
        for key, figure, text in SHORTAGES
        if (value := (health or {}).get(key)) is not None and grade_generator(figure, value, limits) == doc.RED
    ]
    return _section(levels, table, times, shortages, np.random.default_rng(0))


_LATE = "The generator {}, so the throughput may be its own limit and not the server's."
_LIMIT = "The generator was the limit, not the server: it used {:.0%} of a core. The verdict has the remedy."
SHORTAGES: tuple[tuple[str, doc.GeneratorFigure, str], ...] = (
    ("cpu_max", "cpu", _LIMIT),
    ("lateness_p99_ms", "lateness_p99_ms", _LATE.format("launched 99 % of the requests up to {:,.0f} ms late")),
    ("loop_lag_p99_ms", "lag_p99_ms", _LATE.format("woke 99 % of its users up to {:,.0f} ms late in 19 of 20 seconds")),
)
"""Key of the health, graded figure and warning, if the figure is red."""


def _section(
    levels: Sequence[Level],
    table: Sequence[doc.LevelRow],
    times: LevelTimes,
    warnings: list[str],
    rng: np.random.Generator,
) -> doc.Capacity:
    users, rate = np.array([(level.users, level.rate) for level in levels]).reshape(-1, 2).T
    error = rate_errors(levels)
    trip = times.wait_s + times.think_s
    feedback = times.wait_s / np.where(trip == 0, np.nan, trip)
    held = times.rate * trip
    off = np.abs(held / users - 1)
    rows: list[doc.CapacityLevel] = to_json_safe([
        {
            "users": level.users, "fewest": level.fewest, "most": level.most,
            "n": row["n"], "duration_s": level.duration_s, "failures": row["failures"],
            "mean_ms": row["mean_ms"], "response_cov": row["response_cov"],
            "p50_ms": row["p50_ms"], "p90_ms": row["p90_ms"], "p95_ms": row["p95_ms"], "p99_ms": row["p99_ms"],
            "rate": level.rate, "rate_error": error[i], "think_ms": 1e3 * times.think_s[i],
            "feedback": feedback[i], "little_users": held[i], "little_ratio": held[i] / level.users,
        }
        for i, (level, row) in enumerate(zip(levels, table, strict=True))
    ])  # fmt: skip
    broken = off > LITTLE_TOLERANCE + 2 * np.fmax(error / rate, times.error)
    if broken.any():
        worst = int(np.argmax(np.where(broken, off, 0)))
        warnings.append(
            f"Little's law does not hold at {broken.sum()} of {len(rows)} levels: at {shown(users[worst])} users "
            f"X (R + Z) is {shown(held[worst])}. Users were idle, or the level was not in steady state."
        )
    for reason in dict.fromkeys(filter(None, times.reasons)):
        here = np.array([each == reason for each in times.reasons])
        longest = int(np.argmax(np.where(here, times.missing_s, -1)))
        remedy = reason.format(users=shown(users[longest]), seconds=shown(times.missing_s[longest]))
        warnings.append(f"The think time is unknown at {here.sum()} of {len(rows)} levels: {remedy}.")
    usl, knee = None, None
    if len(rows) >= MIN_LEVELS:
        usl = fit_usl(users, rate, error, rng=rng)
        try:
            knee = find_knee(users, rate, error)
        except ValueError as problem:
            warnings.append(f"No knee: {problem}.")
    elif rows:
        warnings.append(
            f"Throughput was measured at {len(rows)} level(s) of concurrency; a scaling curve needs {MIN_LEVELS}."
        )
    explanation = _explanation(levels, knee)
    return {"levels": rows, "usl": usl, "knee": knee, "targets": [], "warnings": warnings, "explanation": explanation}


def _means(table: Sequence[doc.LevelRow]) -> Floats:
    """Return the mean response times in seconds, NaN where unknown."""
    return np.array([row["mean_ms"] for row in table], dtype=np.float64) / 1e3


def _explanation(levels: Sequence[Level], knee: doc.KneeRow | None) -> str:
    if not levels:
        return "The number of users was not recorded, so the capacity is unknown."
    first, last = shown(levels[0].users), shown(levels[-1].users)
    measured = f"Measured from {first} to {last} concurrent users."
    if not knee:
        return measured
    if knee["users"] is not None and knee["rate_max"] is not None:
        low = shown(knee["low"]) if knee["low"] is not None else f"fewer than {first}"
        high = shown(knee["high"]) if knee["high"] is not None else "more than were measured"
        return (
            f"{measured} The system scales up to about {shown(knee['users'])} users (95 % interval {low} to {high}), "
            f"where throughput levels off at {shown(knee['rate_max'])} requests/s; more users only wait longer."
        )
    if knee["where"] == "beyond":
        return f"{measured} Throughput still grows at {last} users: the knee was not reached. Add users."
    return (
        f"{measured} Throughput does not grow with the users, not even from {first} on: the knee lies "
        "below, or the load does not depend on the number of users. Measure with fewer users."
    )
