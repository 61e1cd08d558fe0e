"""The verdict on the launches of each name: the first check of the verdict, asked of one name at a time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from locust_realism.analysis.checks import NO_DATA, grade, reference_cov
from locust_realism.analysis.dispersion import local_gaps
from locust_realism.analysis.evidence import Evidence
from locust_realism.analysis.intervals import busiest_labels, coefficient_of_variation, user_ranks
from locust_realism.analysis.judged_times import flat_times, gaps_per_window, grain_us
from locust_realism.analysis.percentiles import order_by_group
from locust_realism.analysis.settings import AnalysisSettings
from locust_realism.analysis.users import task_starts
from locust_realism.recording.launches import Int64, LaunchLog

Row = dict[str, Any]


def name_verdicts(judged: LaunchLog, evidence: Evidence, settings: AnalysisSettings) -> list[Row]:
    """Rows ``label``, ``method``, ``n`` (gaps), ``cov`` and ``status`` of each name, in the order of the launch table.

    ``judged`` are the launches that the verdict is about, in launch order, and ``evidence`` what was collected of them.
    A name is looked at as the verdict's first check looks at all launches: rescaled by the plan or within windows of
    nearly constant rate, without the grain of clock and timers, and once a task where users launch it several times in
    a row. The status is that of this check with the bounds of ``settings``: green only where a deviation that matters
    would have shown.
    """
    if not len(judged):
        return []
    once = judged if evidence.users.requests_per_task == 1 else judged.take(_first_of_task(judged))
    first = int(judged.launch_us[0])
    grouped = order_by_group(once.launch_us - first, once.label, len(once.labels))
    rows = []
    for code in busiest_labels(judged, settings.max_names):
        launches = grouped.group(code).astype(np.int64) + first
        cov = _judged_cov(launches, evidence, settings)
        who = {"label": judged.labels[code].name, "method": judged.labels[code].method}
        rows.append(
            who | {"n": len(launches) - 1, "cov": cov, "status": _status(len(launches) - 1, cov, evidence, settings)}
        )
    return rows


def _judged_cov(launches: Int64, evidence: Evidence, settings: AnalysisSettings) -> float:
    facts = evidence.facts
    start = facts.run_start_us if facts.run_start_us is not None else int(launches[0])
    times = flat_times(launches, evidence.profile, start, grain_us(evidence.tick_us, settings))
    if evidence.profile is not None:
        return coefficient_of_variation(np.diff(times))
    cycle = evidence.users.round_trip
    return local_gaps(np.diff(times), gaps_per_window(times, cycle if math.isfinite(cycle) else 0.0))[1]


def _status(n: int, cov: float, evidence: Evidence, settings: AnalysisSettings) -> str:
    bounds = settings.bounds
    if n < bounds.min_gaps:
        return NO_DATA
    low, high = reference_cov(evidence)
    error = bounds.standard_errors * high / math.sqrt(n)
    return grade(max(low - cov, cov - high, 0.0), bounds.cov_amber, bounds.cov_red, error)


def _first_of_task(log: LaunchLog) -> Int64:
    """Rows of a log in launch order that are the first of their name in their user's task."""
    order = np.argsort(user_ranks(log)[0], kind="stable")
    task = np.cumsum(task_starts(log)[order])  # an unknown user's launch is a task of its own
    _, first = np.unique(task * np.int64(len(log.labels)) + log.label[order], return_index=True)
    return np.sort(order[first])
