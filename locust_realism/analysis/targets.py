"""Up to how many users a target such as ``p95 < 400ms`` holds, between the measured levels only."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from locust_realism.analysis.levels import Level, batch_count, quantile_errors, shown
from locust_realism.analysis.responses import known_responses
from locust_realism.analysis.threshold_text import METRICS, Threshold, parse_threshold
from locust_realism.recording.launches import LaunchLog

Floats = NDArray[np.float64]
Row = dict[str, Any]

QUANTILE_OF = {"p50_ms": "0.5", "p90_ms": "0.9", "p95_ms": "0.95", "p99_ms": "0.99", "p999_ms": "0.999"}
TARGET_DRAWS = 1000


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


def judge_target(
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
    response = known_responses(log.response_us[level.rows]) / 1e3
    return _mean_error(response) if key == "mean_ms" else quantile_errors(response, QUANTILE_OF[key], rule=rule)


def _mean_error(values: Floats) -> tuple[float, float]:
    if not len(values):
        return math.nan, math.nan
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


def target_sentence(target: Row, last: float) -> str:
    """What became of a target, as a sentence; ``last`` is the largest measured number of users."""
    if target["status"] == "measured":
        low = f"{shown(target['low'])}" if target["low"] is not None else "fewer than were measured"
        high = f"{shown(target['high'])}" if target["high"] is not None else "more than were measured"
        return f"{target['target']} holds up to about {shown(target['users'])} users (95 % interval {low} to {high})."
    if target["status"] == "met by all":
        return (
            f"{target['target']} holds at all measured levels, up to {shown(last)} users; beyond that it is not known."
        )
    if target["status"] == "met by none":
        return f"{target['target']} holds at none of the measured levels."
    return f"{target['target']}: too few requests at every level."
