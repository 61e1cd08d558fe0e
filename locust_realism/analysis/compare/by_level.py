"""Comparison of two or more servers side by side at each number of users."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from locust_realism.analysis.capacity.levels import MIN_LAUNCHES, Level, level_edges, split_levels
from locust_realism.analysis.compare.difference import compared
from locust_realism.analysis.compare.groups import Side
from locust_realism.analysis.document import ComparedLevel, SideLevel
from locust_realism.analysis.percentiles import Int64
from locust_realism.analysis.stats.estimates import Estimate, quantile_estimate
from locust_realism.analysis.stats.repeated import pooled
from locust_realism.analysis.stats.responses import known_responses
from locust_realism.recording.launches import LaunchLog

NO_EDGES: Int64 = np.zeros(0, dtype=np.int64)
Measured = tuple[LaunchLog, Level]
"""Log of one run and one of its levels."""


def shared_edges(sides: Sequence[Side]) -> Int64:
    """Return the smallest number of users of each level of all sides together, shape (levels,).

    Empty if a side has no recorded users or all sides have the same single level.
    """
    users = [np.concatenate([log.users[log.users > 0] for log in side.logs]) for side in sides]
    edges = level_edges(np.bincount(np.concatenate(users)) / MIN_LAUNCHES) if all(map(len, users)) else NO_EDGES
    return edges if len(edges) > 1 else NO_EDGES


def compare_levels(
    sides: Sequence[Side], edges: Int64, confidence: float = 0.95, rule: str = "nearest_rank"
) -> list[ComparedLevel]:
    """Return one row a level of concurrency: ``fewest`` and ``most`` users, and the figures of each side.

    ``sides`` of a row is in the order of ``sides``, None for a side without launches at this level; all but the first
    have a verdict on p95 against the first. ``edges`` are :func:`shared_edges`, ``confidence`` is that of one interval.

    >>> def run(scale):
    ...     response = np.random.default_rng(1).exponential(scale, 4000)
    ...     return LaunchLog.build(np.arange(4000) * 5000, response, users=np.repeat([50, 75], 2000))
    >>> sides = Side("Tomcat", (run(90_000),)), Side("JBoss", (run(50_000),))
    >>> [(row["most"], row["sides"][1]["verdict"]) for row in compare_levels(sides, shared_edges(sides))]
    [(50, 'faster'), (75, 'faster')]
    """
    found = [_levels_of(side.logs, edges) for side in sides]
    rows: list[ComparedLevel] = []
    for index in sorted(set().union(*found)):
        at = [levels.get(index, []) for levels in found]
        here = [level for runs in at for _, level in runs]
        base, *others = [_estimated(runs, rule) if runs else None for runs in at]
        shown = [base and base[0], *(other and _against(base, other, confidence) for other in others)]
        fewest, most = min(level.fewest for level in here), max(level.most for level in here)
        rows.append({"fewest": fewest, "most": most, "sides": shown})
    return rows


def _levels_of(logs: Sequence[LaunchLog], edges: Int64) -> dict[int, list[Measured]]:
    """Return the levels of repeated runs by their index in ``edges``."""
    found: dict[int, list[Measured]] = {}
    for log in logs if len(edges) else ():
        for level in split_levels(log, edges=edges):
            index = int(np.searchsorted(edges, level.fewest, side="right")) - 1
            found.setdefault(index, []).append((log, level))
    return found


def _estimated(runs: Sequence[Measured], rule: str) -> tuple[SideLevel, list[Estimate]]:
    """Return the figures of one side at one level, means over its runs, and the estimate of p95 of each run."""
    times = [known_responses(log.response_us[level.rows]) / 1e3 for log, level in runs]
    p50, p95 = ([quantile_estimate(each, q, rule=rule) for each in times] for q in ("0.5", "0.95"))
    n = sum(len(level.rows) for _, level in runs)
    row: SideLevel = {
        "n": n,
        "rate": sum(len(level.gap_s) for _, level in runs) / sum(level.duration_s for _, level in runs),
        "failures": sum(int(log.failed[level.rows].sum()) for log, level in runs) / n,
        "p50_ms": pooled(p50).value,
        "p95_ms": pooled(p95).value,
    }
    return row, p95


def _against(
    base: tuple[SideLevel, list[Estimate]] | None, other: tuple[SideLevel, list[Estimate]], confidence: float
) -> SideLevel:
    if base is None:
        return other[0]
    change = compared(base[1], other[1], confidence)
    return {**other[0], "verdict": change["verdict"], "low": change["low"], "high": change["high"]}
