"""Figures for each stage of a run, and for each number of concurrent users, never mixed into one percentile."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from locust_realism.analysis.intervals import coefficient_of_variation
from locust_realism.analysis.percentiles import QUANTILES, count_codes, order_by_group, sorted_percentiles
from locust_realism.analysis.responses import PERCENTILE_KEYS, answered
from locust_realism.analysis.settings import AnalysisSettings
from locust_realism.recording.launches import LaunchLog

Row = dict[str, Any]
Int64 = NDArray[np.int64]

MAX_LEVELS = 60
"""Most rows by number of users; beyond it neighbouring numbers share a row."""
MIN_LEVEL_ROWS = 20
MIN_HELD_S = 10.0
"""A number of users held for so long counts as a stage where the plan's stages are not known."""


def stage_table(
    log: LaunchLog, settings: AnalysisSettings, planned: Sequence[Mapping[str, Any]] = (), origin_us: int | None = None
) -> list[Row]:
    """Rows of ``kind`` ``stage`` in order of time, then rows of ``kind`` ``level`` by number of users.

    ``planned`` are the plan's stages: start_s and end_s since ``origin_us`` and what was held (users, rate,
    arrival_rate, think_time_s), copied into the row, the rate as ``planned_rate``. Where it is empty, stages are the
    times for which the number of users at the launches stayed the same for at least ``MIN_HELD_S``. ``log`` is in
    launch order.
    """
    if not len(log):
        return []
    origin = int(log.launch_us[0]) if origin_us is None else origin_us
    spans = [dict(stage) for stage in planned] or held_users(log, origin)
    rows = []
    for stage in spans:
        low = int(np.searchsorted(log.launch_us, origin + round(float(stage["start_s"]) * 1e6)))
        high = int(np.searchsorted(log.launch_us, origin + round(float(stage["end_s"]) * 1e6)))
        part = log.take(slice(low, high))
        seconds = float(stage["end_s"]) - float(stage["start_s"])
        row: Row = {"kind": "stage", **stage, "planned_rate": stage.get("rate"), "duration_s": seconds}
        row |= _figures(part, seconds, settings)
        rows.append(row | {"cov": coefficient_of_variation(np.diff(part.launch_us))})
    return rows + level_rows(log, settings)


def held_users(log: LaunchLog, origin: int) -> list[Row]:
    """Times since ``origin`` for which the number of users at the launches stayed the same: users, start_s, end_s."""
    if not len(log):
        return []
    edges = np.flatnonzero(np.diff(log.users)) + 1
    starts, ends = np.concatenate(([0], edges)), np.concatenate((edges, [len(log)]))
    spans = []
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        users = int(log.users[start])
        first = int(log.launch_us[start])
        last = int(log.launch_us[end]) if end < len(log) else int(log.launch_us[-1]) + 1
        if users >= 0 and last - first >= MIN_HELD_S * 1e6:
            spans.append({"users": users, "start_s": (first - origin) / 1e6, "end_s": (last - origin) / 1e6})
    return spans if len(spans) <= MAX_LEVELS else []


def level_rows(log: LaunchLog, settings: AnalysisSettings) -> list[Row]:
    """One row for each number of users running at the launch (a range where there are more than ``MAX_LEVELS``).

    The time at a level is the sum of the times from each of its launches to the next launch. The CoV is that of gaps
    between two launches at the same level. ``log`` is in launch order; launches with unknown users are left out.
    """
    if not (log.users >= 0).any():
        return []
    follow = np.diff(log.launch_us, append=log.launch_us[-1:])  # nothing follows the last launch
    users, response, failed = log.users, log.response_us, log.failed
    if int(users.min()) < 0:
        known = users >= 0
        users, response, failed, follow = users[known], response[known], failed[known], follow[known]
    low, high = int(users.min()), int(users.max())
    width = max(1, math.ceil((high - low + 1) / MAX_LEVELS))
    code = ((users - low) // width).astype(np.int8)
    groups = int(code.max()) + 1
    at_level = count_codes(code, groups, follow) / 1e6
    grouped = order_by_group(response, code, groups)
    users_sum = count_codes(code, groups, users)
    failures = count_codes(code[failed], groups)
    covs = _gap_covs(code[:-1], follow[:-1], code[1:] == code[:-1], groups)
    rows = []
    for g in range(groups):
        ordered = grouped.group(g)
        if len(ordered) < MIN_LEVEL_ROWS:
            continue
        row: Row = {"kind": "level", "users": float(users_sum[g]) / len(ordered), "users_low": low + g * width}
        row |= {"users_high": min(low + (g + 1) * width - 1, high), "duration_s": float(at_level[g])}
        row |= _ordered_figures(ordered, float(at_level[g]), int(failures[g]), settings)
        # Little: the mean number of users that wait is X R, so that their share of all is R / (R + Z).
        row["response_share"] = row["rate"] * row["mean_ms"] / 1e3 / row["users"] if row["users"] else math.nan
        rows.append(row | {"cov": float(covs[g])})
    return rows


def _gap_covs(code: NDArray[Any], follow: Int64, same: NDArray[np.bool_], groups: int) -> NDArray[np.float64]:
    """CoV of the gaps within each level, by sums of deviations from the mean of all, which keeps their digits."""
    if not same.all():
        code, follow = code[same], follow[same]
    if not len(follow):
        return np.full(groups, math.nan)
    centre = float(follow.mean())
    off = follow - centre
    n = count_codes(code, groups).astype(np.float64)
    total, squares = count_codes(code, groups, off), count_codes(code, groups, off * off)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = centre + total / n
        variance = np.maximum(squares - total**2 / n, 0) / (n - 1)
        return np.where((n > 1) & (mean > 0), np.sqrt(variance) / mean, math.nan)


def _figures(log: LaunchLog, seconds: float, settings: AnalysisSettings) -> Row:
    return _ordered_figures(np.sort(log.response_us), seconds, int(log.failed.sum()), settings)


def _ordered_figures(ordered: NDArray[Any], seconds: float, failures: int, settings: AnalysisSettings) -> Row:
    n = len(ordered)
    row: Row = {"n": n, "failures": failures, "rate": n / seconds if seconds > 0 else math.nan}
    known = answered(ordered)
    row |= {"mean_ms": float(known.mean()) / 1e3 if len(known) else math.nan}
    found = (sorted_percentiles(known, QUANTILES, settings.percentile_rule) / 1e3).tolist()
    return row | {key + "_ms": value for key, value in zip(PERCENTILE_KEYS, found, strict=True)}
