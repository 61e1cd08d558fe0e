"""How many users a system holds: throughput and percentiles against concurrency, the knee, and what meets a target.

Sources: Little, A proof for the queuing formula L = lambda W, 1961; Gunther, Guerrilla Capacity Planning, 2007; the
question, and percentiles that belong to a level of concurrency: Neumann, Locust 04, Interpret the result, 2020.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from locust_realism.analysis.intervals import in_launch_order
from locust_realism.analysis.knee import find_knee
from locust_realism.analysis.levels import (
    MAX_LEVELS,
    Level,
    rate_errors,
    shown,
    split_levels,
    think_times,
)
from locust_realism.analysis.percentiles import percentiles
from locust_realism.analysis.responses import known_responses
from locust_realism.analysis.scaling import MIN_LEVELS, fit_usl
from locust_realism.analysis.targets import judge_target, parse_target, target_sentence
from locust_realism.recording.launches import LaunchLog

Floats = NDArray[np.float64]
Row = dict[str, Any]

MIN_LEVEL_S = 5.0
"""Shortest level of a run: what passes while users are started says nothing about a number of users."""
LITTLE_TOLERANCE = 0.10
CPU_LIMIT, LATENESS_LIMIT_MS = 0.9, 100.0


def capacity(
    log: LaunchLog,
    *,
    targets: Sequence[str] = (),
    rule: str = "nearest_rank",
    think_s: float | None = None,
    health: Mapping[str, Any] | None = None,
    max_levels: int = MAX_LEVELS,
    min_level_s: float = 0.0,
    seed: int = 0,
) -> dict[str, Any]:
    """The capacity section of the summary: levels, Little's law, scalability law, knee and targets.

    - ``targets`` conditions that must hold, as thresholds are written: ``p95 < 400ms``, ``failures < 1%``
    - ``think_s`` the mean think time Z in seconds where the log has no user slots to measure it by
    - ``health`` figures of the generator: ``cpu_max`` (share of a core), ``lateness_p99_ms``, ``loop_lag_p99_ms``
    - ``min_level_s`` seconds that a level must have lasted in all; shorter ones, as while users are started, are merged
    - ``seed`` of the bootstrap: the same log gives the same intervals

    Returns a JSON-able dict with ``levels`` (a row each: users, fewest, most, n, duration_s, rate, rate_error,
    failures, mean_ms, p50_ms .. p99_ms, think_ms, feedback = R/(R+Z), little_users = X (R + Z), little_ratio), ``usl``,
    ``knee``, ``targets``, ``warnings`` and ``explanation``; ``usl`` and ``knee`` are None where there are fewer than
    four levels. A target that cannot be read raises ValueError.

    >>> log = LaunchLog.build(range(0, 100_000_000, 1_000_000), 200_000, users=5)
    >>> found = capacity(log, think_s=4.8)
    >>> found["levels"][0]["little_users"], found["knee"]
    (5.0, None)
    """
    parsed = [parse_target(text) for text in targets]
    log = in_launch_order(log)
    levels = split_levels(log, max_levels=max_levels, min_seconds=min_level_s)
    errors = rate_errors(levels)
    think = think_times(log, levels) if think_s is None else [think_s] * len(levels)
    failed = log.failed
    rows = [_level_row(log, failed, *each, rule=rule) for each in zip(levels, errors.tolist(), think, strict=True)]
    rng = np.random.default_rng(seed)
    warnings = _warnings(rows, health)
    usl, knee = _curves(rows, rng, warnings)
    found = [judge_target(log, levels, rows, target, rng, rule) for target in parsed]
    return {
        "levels": rows,
        "usl": usl,
        "knee": knee,
        "targets": found,
        "warnings": warnings,
        "explanation": _explanation(rows, knee, found),
    }


def capacity_section(
    log: LaunchLog,
    *,
    rule: str = "nearest_rank",
    think_s: float | None = None,
    health: Mapping[str, Any] | None = None,
) -> dict[str, Any] | None:
    """:func:`capacity` where the log was at more than one level of concurrency, else None: most runs hold one."""
    users = log.users[log.users > 0]
    if not len(users) or int(users.min()) == int(users.max()):
        return None
    found = capacity(log, rule=rule, health=health, min_level_s=MIN_LEVEL_S)
    if think_s is not None and all(row["think_ms"] is None for row in found["levels"]):
        found = capacity(log, rule=rule, health=health, min_level_s=MIN_LEVEL_S, think_s=think_s)
    return found if len(found["levels"]) > 1 else None


def _level_row(
    log: LaunchLog, failed: NDArray[np.bool_], level: Level, error: float, think: float | None, *, rule: str
) -> Row:
    response = known_responses(log.response_us[level.rows])
    mean_s = float(response.mean()) / 1e6 if len(response) else math.nan
    p50, p90, p95, p99 = (percentiles(response, ("0.5", "0.9", "0.95", "0.99"), rule) / 1e3).tolist()
    trip = None if think is None else mean_s + think
    held = None if trip is None else level.rate * trip
    return {
        "users": level.users, "fewest": level.fewest, "most": level.most,
        "n": len(level.rows), "duration_s": level.duration_s,
        "rate": level.rate, "rate_error": error,
        "failures": int(failed[level.rows].sum()),
        "mean_ms": 1e3 * mean_s, "p50_ms": p50, "p90_ms": p90, "p95_ms": p95, "p99_ms": p99,
        "think_ms": None if think is None else 1e3 * think,
        "feedback": mean_s / trip if trip else None,
        "little_users": held,
        "little_ratio": None if held is None else held / level.users,
    }  # fmt: skip


def _warnings(rows: Sequence[Row], health: Mapping[str, Any] | None) -> list[str]:
    said = []
    health = health or {}
    cpu = health.get("cpu_max")
    if cpu is not None and cpu > CPU_LIMIT:
        said.append(
            f"The generator was the limit, not the server: it used {cpu:.0%} of a core. Add workers and measure again."
        )
    launched = "launched 99 % of the requests up to {:,.0f} ms late"
    woke = "woke 99 % of its users up to {:,.0f} ms late in 19 of 20 seconds"
    for key, what in (("lateness_p99_ms", launched), ("loop_lag_p99_ms", woke)):
        late = health.get(key)
        if late is not None and late > LATENESS_LIMIT_MS:
            said.append(
                f"The generator {what.format(late)}, so the throughput may be its own limit and not the server's. Add "
                "workers and measure again."
            )
    off = [row for row in rows if row["little_ratio"] is not None and _breaks_littles_law(row)]
    if off:
        worst = max(off, key=lambda row: abs(row["little_ratio"] - 1))
        said.append(
            f"Little's law does not hold at {len(off)} of {len(rows)} levels: at {shown(worst['users'])} users "
            f"X (R + Z) is {shown(worst['little_users'])}. Users were idle, or the level was not in steady state."
        )
    return said


def _breaks_littles_law(row: Row) -> bool:
    """Whether X (R + Z) is off by more than the tolerance and twice the standard error of X."""
    return bool(abs(row["little_ratio"] - 1) > LITTLE_TOLERANCE + 2 * row["rate_error"] / row["rate"])


def _curves(rows: Sequence[Row], rng: np.random.Generator, warnings: list[str]) -> tuple[Row | None, Row | None]:
    if len(rows) < MIN_LEVELS:
        if rows:
            warnings.append(
                f"Throughput was measured at {len(rows)} level(s) of concurrency; a scaling curve needs {MIN_LEVELS}."
            )
        return None, None
    users, rate, error = (np.array([row[key] for row in rows]) for key in ("users", "rate", "rate_error"))
    usl = fit_usl(users, rate, error, rng=rng)
    grid = np.unique(np.linspace(users.min(), users.max(), 60))
    low, high = usl.band(grid)
    peak = usl.peak_users
    inside = peak is not None and peak <= usl.largest_users
    described = {
        "alpha": usl.alpha, "beta": usl.beta, "gamma": usl.gamma,
        "peak_users": peak if inside else None,
        "peak_beyond_measured": not inside,
        "curve": {"users": grid.tolist(), "rate": usl.rate(grid).tolist(), "low": low.tolist(), "high": high.tolist()},
    }  # fmt: skip
    try:
        knee = find_knee(users, rate, error)
    except ValueError as error_:
        warnings.append(f"No knee: {error_}.")
        return described, None
    measured = knee.where == "measured"
    return described, {
        "users": knee.users if measured else None,
        "low": knee.low if knee.where != "below" else None,
        "high": knee.high if knee.where != "beyond" else None,
        "rate_max": knee.rate_max if measured else None,
        "cycle_ms": 1e3 * knee.cycle_s if measured else None,
        "where": knee.where,
    }


def _explanation(rows: Sequence[Row], knee: Row | None, targets: Sequence[Row]) -> str:
    if not rows:
        return "The number of users was not recorded, so nothing can be said about capacity."
    first, last = rows[0]["users"], rows[-1]["users"]
    said = [f"Measured from {shown(first)} to {shown(last)} concurrent users."]
    if knee and knee["where"] == "measured":
        low = f"{shown(knee['low'])}" if knee["low"] is not None else f"fewer than {shown(first)}"
        high = f"{shown(knee['high'])}" if knee["high"] is not None else "more than were measured"
        said.append(
            f"The system scales up to about {shown(knee['users'])} users (95 % interval {low} to {high}), where "
            f"throughput levels off at {shown(knee['rate_max'])} requests/s; more users only wait longer."
        )
    elif knee and knee["where"] == "beyond":
        said.append(f"Throughput still grows at {shown(last)} users: the knee was not reached, go on with more users.")
    elif knee:
        said.append(
            f"Throughput does not grow with the users, not even from {shown(first)} on: the knee lies below, or the "
            "load does not depend on the number of users. Measure with fewer."
        )
    said += [target_sentence(target, last) for target in targets]
    return " ".join(said)
