"""Service levels: the number of users up to which a target such as ``p95 < 400ms`` holds, within measured levels."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from locust_realism.analysis.capacity.levels import Level, shown
from locust_realism.analysis.document import TargetRow
from locust_realism.analysis.percentiles import Floats
from locust_realism.analysis.stats.batches import LEAST_FREEDOM, student
from locust_realism.analysis.stats.estimates import (
    Estimate,
    mean_estimate,
    quantile_estimate,
    share_estimate,
)
from locust_realism.analysis.stats.responses import known_responses
from locust_realism.analysis.thresholds import METRICS, Threshold, parse_threshold
from locust_realism.recording.launches import LaunchLog

QUANTILE_OF = {"p50_ms": "0.5", "p90_ms": "0.9", "p95_ms": "0.95", "p99_ms": "0.99", "p999_ms": "0.999"}
TARGET_DRAWS = 1000


def parse_target(text: str) -> Threshold:
    """Return a target such as ``p95 < 400ms``: an upper bound of a response-time percentile, the mean or the failures.

    ValueError for any other threshold.
    """
    target = parse_threshold(text)
    allowed = {"mean_ms", *QUANTILE_OF, "failures"}
    metric = METRICS.get(target.metric)
    named = target.name not in (None, "Aggregated")
    if metric is None or metric.table != "response_times" or metric.key not in allowed or named:
        raise ValueError(f"target {text!r} must be on p50, p90, p95, p99, p99.9, mean or failures of all requests")
    if target.operator not in ("<", "<="):
        raise ValueError(f"target {text!r} must be an upper bound such as 'p95 < 400ms'")
    if metric.key == "failures" and not target.relative:
        raise ValueError(f"target {text!r} must be a share such as 'failures < 1%', since levels differ in requests")
    return target


def judge_target(
    log: LaunchLog, levels: Sequence[Level], target: Threshold, rng: np.random.Generator, rule: str
) -> TargetRow:
    """Return the largest number of users that meets a target, within the measured levels, with its interval."""
    figures = _level_figures(log, levels, METRICS[target.metric].key, rule)
    value = np.array([figure.value for figure in figures])
    error = np.array([figure.standard_error() for figure in figures])
    bound, users = target.bounds[0], np.array([level.users for level in levels])
    usable = np.isfinite(value)
    met = users[usable & (value <= bound)]
    row: TargetRow = {
        "target": target.text.strip(), "users": None, "low": None, "high": None,
        "largest_measured": float(met.max()) if len(met) else None,
        "status": "not measured", "note": None, "values": value.tolist(), "errors": error.tolist(),
    }  # fmt: skip
    if not usable.any():
        return row
    users, value = users[usable], value[usable]
    given = [figure for figure, kept in zip(figures, usable.tolist(), strict=True) if kept]
    draws = np.stack([_draws(figure, rng) for figure in given], axis=1)
    low, high = np.quantile(crossings(users, draws, bound), [0.025, 0.975], method="inverted_cdf").tolist()
    best = crossing(users, value, bound)
    row["status"] = "met by none" if best < users[0] else "met by all" if math.isinf(best) else "measured"
    row["users"] = best if row["status"] == "measured" else None
    unknown = _unknown_beside(users, given, (low, high))
    if row["users"] is not None and unknown:
        row["status"], row["note"] = "no interval", _note(users, given, unknown)
    elif not unknown:
        row["low"] = low if users[0] <= low < math.inf else None
        row["high"] = high if high < math.inf else None
    return row


def _draws(figure: Estimate, rng: np.random.Generator) -> Floats:
    """Return draws of a figure by Student's t, each side as wide as its 95 % limit, or as the error without one."""
    freedom = min(max(figure.freedom, LEAST_FREEDOM), 1e6)
    half = np.nan_to_num(figure.standard_error()) * student(0.95, freedom)
    down, up = (
        side if math.isfinite(side) else half for side in (figure.value - figure.low, figure.high - figure.value)
    )
    t = rng.standard_t(freedom, TARGET_DRAWS) / student(0.95, freedom)
    return np.asarray(figure.value + np.where(t < 0, down, up) * t)


def _unknown_beside(users: Floats, figures: Sequence[Estimate], limits: Sequence[float]) -> list[int]:
    """Return the levels beside limits of users whose figures have no limits: those of users have no meaning there."""
    beside: set[int] = set()
    for at in limits:
        above = int(np.searchsorted(users, at))
        beside.update(range(max(above - 1, 0), min(above + 1, len(users))))
    return [i for i in sorted(beside) if not (math.isfinite(figures[i].low) and math.isfinite(figures[i].high))]


def _note(users: Floats, figures: Sequence[Estimate], unknown: Sequence[int]) -> str:
    """Return how much longer to hold the levels that are too short; degrees of freedom grow with the length."""
    least = min(figures[i].freedom for i in unknown)
    times = max(LEAST_FREEDOM / max(least, LEAST_FREEDOM / 1000), 2)
    *others, last = (shown(users[i]) for i in unknown)
    levels = f"{', '.join(others)} and {last}" if others else last
    return f"hold {levels} users about {float(f'{times:.1g}'):,g} times as long"


def _level_figures(log: LaunchLog, levels: Sequence[Level], key: str, rule: str) -> list[Estimate]:
    """Return a figure of each level in the threshold's unit (ms, or a share), with limits from batches."""
    if key == "failures":
        failed = log.failed
        return [share_estimate(failed[level.rows]) for level in levels]
    responses = (known_responses(log.response_us[level.rows]) / 1e3 for level in levels)
    if key == "mean_ms":
        return list(map(mean_estimate, responses))
    return [quantile_estimate(response, QUANTILE_OF[key], rule=rule) for response in responses]


def crossing(users: Floats, values: Floats, bound: float) -> float:
    """Return the largest N at which a figure that grows with N is within ``bound``, linear between measured levels.

    Isotonic regression first makes the figures non-decreasing, so that noise cannot make a second crossing. Infinite if
    the largest level meets the bound, 0 if the smallest does not.

    >>> crossing(np.array([5.0, 10, 20]), np.array([100.0, 200, 600]), 400.0)
    15.0
    """
    return float(crossings(users, values, bound))


def crossings(users: Floats, values: Floats, bound: float) -> Floats:
    """Return :func:`crossing` along the last axis of ``values``, shape (..., levels)."""
    smooth = _non_decreasing(values)
    within = (smooth <= bound).sum(axis=-1)
    above = np.clip(within, min(1, len(users) - 1), len(users) - 1)
    below = np.maximum(above - 1, 0)
    low, high = (np.take_along_axis(smooth, at[..., None], axis=-1)[..., 0] for at in (below, above))
    with np.errstate(invalid="ignore"):
        share = (bound - low) / np.where(high > low, high - low, 1.0)
        between = users[below] + share * (users[above] - users[below])
    return np.select([within == len(users), within == 0], [np.inf, 0.0], between)


def _non_decreasing(values: Floats) -> Floats:
    """Return the isotonic regression along the last axis: max over a <= i of min over b >= i of the mean of a to b.

    Source: R. E. Barlow and others, Statistical Inference under Order Restrictions, 1972, section 1.4.
    """
    size = np.arange(values.shape[-1]) - np.arange(values.shape[-1])[:, None] + 1
    inside = size > 0
    means = np.cumsum(np.where(inside, values[..., None, :], 0.0), axis=-1) / np.maximum(size, 1)
    least = np.minimum.accumulate(np.where(inside, means, np.inf)[..., ::-1], axis=-1)[..., ::-1]
    return np.asarray(np.where(inside, least, -np.inf).max(axis=-2))


def target_sentence(target: TargetRow, last: float) -> str:
    """Return the result of a target as a sentence; ``last`` is the largest measured number of users."""
    if target["status"] == "no interval" and target["users"] is not None:
        return f"{target['target']} holds up to about {shown(target['users'])} users (no interval: {target['note']})."
    if target["users"] is not None:
        low = shown(target["low"]) if target["low"] is not None else "fewer than were measured"
        high = shown(target["high"]) if target["high"] is not None else "more than were measured"
        return f"{target['target']} holds up to about {shown(target['users'])} users (95 % interval {low} to {high})."
    if target["status"] == "met by all":
        return f"{target['target']} holds at all measured levels, up to {shown(last)} users."
    if target["status"] == "met by none":
        return f"{target['target']} holds at none of the measured levels."
    return f"{target['target']}: too few requests at every level."
