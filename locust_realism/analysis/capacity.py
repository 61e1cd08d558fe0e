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
from locust_realism.analysis.levels import (
    MAX_LEVELS,
    Level,
    quantile_errors,
    rate_errors,
    split_levels,
    think_times,
)
from locust_realism.analysis.percentiles import percentiles
from locust_realism.analysis.scaling import MIN_LEVELS, find_knee, fit_usl
from locust_realism.analysis.thresholds import METRICS, Threshold, parse_threshold
from locust_realism.recording.launches import LaunchLog

Floats = NDArray[np.float64]
Row = dict[str, Any]

LITTLE_TOLERANCE = 0.10
QUANTILE_OF = {"p50_ms": "0.5", "p90_ms": "0.9", "p95_ms": "0.95", "p99_ms": "0.99", "p999_ms": "0.999"}
TARGET_DRAWS = 1000
CPU_LIMIT, LATENESS_LIMIT_MS = 0.9, 100.0


def capacity(
    log: LaunchLog,
    *,
    targets: Sequence[str] = (),
    rule: str = "nearest_rank",
    think_s: float | None = None,
    health: Mapping[str, Any] | None = None,
    max_levels: int = MAX_LEVELS,
    seed: int = 0,
) -> dict[str, Any]:
    """The capacity section of the summary: levels, Little's law, scalability law, knee and targets.

    - ``targets`` conditions that must hold, as thresholds are written: ``p95 < 400ms``, ``failures < 1%``
    - ``think_s`` the mean think time Z in seconds where the log has no user slots to measure it by
    - ``health`` figures of the generator: ``cpu_max`` (share of a core), ``lateness_p99_ms``, ``loop_lag_p99_ms``
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
    levels = split_levels(log, max_levels=max_levels)
    errors = rate_errors(levels)
    think = think_times(log, levels) if think_s is None else [think_s] * len(levels)
    rows = [_level_row(log, *each, rule=rule) for each in zip(levels, errors.tolist(), think, strict=True)]
    rng = np.random.default_rng(seed)
    warnings = _warnings(rows, health)
    usl, knee = _curves(rows, rng, warnings)
    found = [_target(log, levels, rows, target, rng, rule) for target in parsed]
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
    found = capacity(log, rule=rule, health=health)
    if think_s is not None and all(row["think_ms"] is None for row in found["levels"]):
        found = capacity(log, rule=rule, health=health, think_s=think_s)
    return found if len(found["levels"]) > 1 else None


def parse_target(text: str) -> Threshold:
    """A target such as ``p95 < 400ms``: an upper bound of a response-time percentile, the mean or the failures."""
    target = parse_threshold(text)
    allowed = {"mean_ms", *QUANTILE_OF, "failures"}
    metric = METRICS.get(target.metric)
    named = target.name not in (None, "Aggregated")
    if metric is None or metric.table != "response_times" or metric.key not in allowed or named:
        raise ValueError(f"target {text!r} must be on p50, p90, p95, p99, p99.9, mean or failures of all requests")
    if target.operator not in ("<", "<="):
        raise ValueError(f"target {text!r} must be an upper bound such as 'p95 < 400ms': it says what must hold")
    if metric.key == "failures" and not target.relative:
        raise ValueError(f"target {text!r} must be a share such as 'failures < 1%': levels differ in requests")
    return target


def _level_row(log: LaunchLog, level: Level, error: float, think: float | None, *, rule: str) -> Row:
    response = log.response_us[level.rows]
    mean_s = float(response.mean()) / 1e6
    p50, p90, p95, p99 = (percentiles(response, ("0.5", "0.9", "0.95", "0.99"), rule) / 1e3).tolist()
    trip = None if think is None else mean_s + think
    held = None if trip is None else level.rate * trip
    return {
        "users": level.users, "fewest": level.fewest, "most": level.most,
        "n": len(level.rows), "duration_s": level.duration_s,
        "rate": level.rate, "rate_error": error,
        "failures": int(log.failed[level.rows].sum()),
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
    for key, what in (("lateness_p99_ms", "launched requests"), ("loop_lag_p99_ms", "woke its users")):
        late = health.get(key)
        if late is not None and late > LATENESS_LIMIT_MS:
            said.append(
                f"The generator {what} up to {late:,.0f} ms late (99th percentile), so the throughput may be its own "
                "limit and not the server's. Add workers and measure again."
            )
    off = [row for row in rows if row["little_ratio"] is not None and abs(row["little_ratio"] - 1) > LITTLE_TOLERANCE]
    if off:
        worst = max(off, key=lambda row: abs(row["little_ratio"] - 1))
        said.append(
            f"Little's law does not hold at {len(off)} of {len(rows)} levels: at {worst['users']:.4g} users "
            f"X (R + Z) is {worst['little_users']:.4g}. Users were idle, or the level was not in steady state."
        )
    return said


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


def _target(
    log: LaunchLog, levels: Sequence[Level], rows: Sequence[Row], target: Threshold, rng: np.random.Generator, rule: str
) -> Row:
    """The largest number of users that meets a target, between the measured levels only, with its interval."""
    metric = METRICS[target.metric]
    pairs = [_level_figure(log, level, metric.key, rule) for level in levels]
    value, error = np.array(pairs).reshape(-1, 2).T
    bound = target.bounds[0]
    users = np.array([row["users"] for row in rows])
    usable = np.isfinite(value)
    met = users[usable & (value <= bound)]
    result: Row = {
        "target": target.text.strip(), "users": None, "low": None, "high": None,
        "largest_measured": float(met.max()) if len(met) else None,
        "status": "not measured", "values": value.tolist(), "errors": [e if math.isfinite(e) else None for e in error],
    }  # fmt: skip
    if not usable.any():
        return result
    known = np.where(np.isfinite(error), error, 0.0)[usable]
    draws = value[usable] + rng.standard_normal((TARGET_DRAWS, int(usable.sum()))) * known
    crossings = np.array([crossing(users[usable], each, bound) for each in draws])
    low, high = np.quantile(crossings, [0.025, 0.975], method="inverted_cdf")
    best = crossing(users[usable], value[usable], bound)
    status = "met by none" if best < users[usable][0] else "met by all" if math.isinf(best) else "measured"
    result |= {
        "status": status,
        "users": best if status == "measured" else None,
        "low": float(low) if math.isfinite(low) and low >= users[usable][0] else None,
        "high": float(high) if math.isfinite(high) else None,
    }
    return result


def _level_figure(log: LaunchLog, level: Level, key: str, rule: str) -> tuple[float, float]:
    """A figure of one level and its standard error, in the threshold's unit (ms, or a share)."""
    if key == "failures":
        failed = log.failed[level.rows].astype(np.float64)
        return _mean_error(failed)
    response = log.response_us[level.rows] / 1e3
    return _mean_error(response) if key == "mean_ms" else quantile_errors(response, QUANTILE_OF[key], rule=rule)


def _mean_error(values: Floats) -> tuple[float, float]:
    from locust_realism.analysis.levels import batch_count

    pieces = np.array([piece.mean() for piece in np.array_split(values, batch_count(len(values)))])
    return float(values.mean()), float(pieces.std(ddof=1)) / math.sqrt(len(pieces))


def crossing(users: Floats, values: Floats, bound: float) -> float:
    """Largest N at which a figure that grows with N stays within ``bound``, linear between the measured levels.

    The figures are first made non-decreasing by isotonic regression, so that noise cannot make a second crossing.
    Infinite where even the largest level meets it, 0 where the smallest does not.

    >>> crossing(np.array([5.0, 10, 20]), np.array([100.0, 200, 600]), 400.0)
    15.0
    """
    if values.min() > bound:
        return 0.0
    if values.max() <= bound:
        return math.inf
    smooth = isotonic(values)
    beyond = np.flatnonzero(smooth > bound)
    if not len(beyond):
        return math.inf
    first = int(beyond[0])
    if first == 0:
        return 0.0
    rise = smooth[first] - smooth[first - 1]
    part = (bound - smooth[first - 1]) / rise
    return float(users[first - 1] + part * (users[first] - users[first - 1]))


def isotonic(values: Floats) -> Floats:
    """The non-decreasing sequence nearest to the values by least squares (pool adjacent violators).

    >>> isotonic(np.array([1.0, 3.0, 2.0, 4.0])).tolist()
    [1.0, 2.5, 2.5, 4.0]
    """
    blocks: list[list[float]] = []
    for value in values.tolist():
        blocks.append([value, 1.0])
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            mean, count = blocks.pop()
            before, many = blocks[-1]
            blocks[-1] = [(before * many + mean * count) / (many + count), many + count]
    return np.concatenate([np.full(int(count), mean) for mean, count in blocks])


def _explanation(rows: Sequence[Row], knee: Row | None, targets: Sequence[Row]) -> str:
    if not rows:
        return "The number of users was not recorded, so nothing can be said about capacity."
    first, last = rows[0]["users"], rows[-1]["users"]
    said = [f"Measured from {first:.4g} to {last:.4g} concurrent users."]
    if knee and knee["where"] == "measured":
        low = f"{knee['low']:.3g}" if knee["low"] is not None else f"fewer than {first:.4g}"
        high = f"{knee['high']:.3g}" if knee["high"] is not None else "more than were measured"
        said.append(
            f"The system scales up to about {knee['users']:.3g} users (95 % interval {low} to {high}), where "
            f"throughput levels off at {knee['rate_max']:.4g} requests/s; more users only wait longer."
        )
    elif knee and knee["where"] == "beyond":
        said.append(f"Throughput still grows at {last:.4g} users: the knee was not reached, go on with more users.")
    elif knee:
        said.append(
            f"Throughput does not grow with the users, not even from {first:.4g} on: the knee lies below, or the load "
            "does not depend on the number of users. Measure with fewer."
        )
    said += [_target_sentence(target, last) for target in targets]
    return " ".join(said)


def _target_sentence(target: Row, last: float) -> str:
    if target["status"] == "measured":
        low = f"{target['low']:.3g}" if target["low"] is not None else "fewer than were measured"
        high = f"{target['high']:.3g}" if target["high"] is not None else "more than were measured"
        return f"{target['target']} holds up to about {target['users']:.3g} users (95 % interval {low} to {high})."
    if target["status"] == "met by all":
        return f"{target['target']} holds at all measured levels, up to {last:.4g} users; beyond that it is not known."
    if target["status"] == "met by none":
        return f"{target['target']} holds at none of the measured levels."
    return f"{target['target']}: too few requests at every level."
