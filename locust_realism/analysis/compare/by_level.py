"""Comparison of two or more servers side by side at each number of users."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from locust_realism.analysis.capacity.levels import MIN_LAUNCHES, Level, level_edges, split_levels
from locust_realism.analysis.compare.comparison import difference_row
from locust_realism.analysis.compare.groups import Side
from locust_realism.analysis.document import ComparedLevel, SideLevel
from locust_realism.analysis.percentiles import Int64
from locust_realism.analysis.stats.estimates import Estimate, quantile_estimate
from locust_realism.analysis.stats.responses import known_responses
from locust_realism.recording.launches import LaunchLog

Measured = tuple[LaunchLog, Level]
"""Log of one run and one of its levels."""


def compare_levels(
    sides: Sequence[Side], *, confidence: float = 0.95, rule: str = "nearest_rank"
) -> list[ComparedLevel]:
    """Return one row a level of concurrency: ``fewest`` and ``most`` users, and the figures of each side.

    ``sides`` of a row is in the order of ``sides``, None for a side without launches at this level; all but the first
    have a verdict on p95 against the first. The intervals of all rows hold together (Bonferroni). Empty if a side has
    no recorded users or all sides have the same single level.

    >>> def run(scale):
    ...     response = np.random.default_rng(1).exponential(scale, 4000)
    ...     return LaunchLog.build(np.arange(4000) * 5000, response, users=np.repeat([50, 75], 2000))
    >>> rows = compare_levels([Side("Tomcat", (run(90_000),)), Side("JBoss", (run(50_000),))])
    >>> [(row["most"], row["sides"][1]["verdict"]) for row in rows]
    [(50, 'faster'), (75, 'faster')]
    """
    users = [np.concatenate([log.users[log.users > 0] for log in side.logs]) for side in sides]
    if not all(map(len, users)):
        return []
    edges = level_edges(np.bincount(np.concatenate(users)) / MIN_LAUNCHES)
    if len(edges) < 2:
        return []
    single = 1 - (1 - confidence) / (len(edges) * max(1, len(sides) - 1))
    found = [_levels_of(side.logs, edges) for side in sides]
    rows: list[ComparedLevel] = []
    for index in sorted(set().union(*found)):
        at = [levels.get(index, []) for levels in found]
        here = [level for pairs in at for _, level in pairs]
        base, *others = [_estimated(pairs, single, rule) if pairs else None for pairs in at]
        shown = [base and base[0], *(other and _against(base, other) for other in others)]
        fewest, most = min(level.fewest for level in here), max(level.most for level in here)
        rows.append({"fewest": fewest, "most": most, "sides": shown})
    return rows


def _levels_of(logs: Sequence[LaunchLog], edges: Int64) -> dict[int, list[Measured]]:
    """Return the levels of repeated runs by their index in ``edges``."""
    found: dict[int, list[Measured]] = {}
    for log in logs:
        for level in split_levels(log, edges=edges):
            index = int(np.searchsorted(edges, level.fewest, side="right")) - 1
            found.setdefault(index, []).append((log, level))
    return found


def _estimated(pairs: Sequence[Measured], confidence: float, rule: str) -> tuple[SideLevel, Estimate]:
    """Return the figures of one side at one level, and the estimate of p95; the times of repeated runs add up."""
    values = np.concatenate([known_responses(log.response_us[level.rows]) / 1e3 for log, level in pairs])
    p50, p95 = (quantile_estimate(values, quantile, confidence, rule=rule) for quantile in ("0.5", "0.95"))
    n = sum(len(level.rows) for _, level in pairs)
    row: SideLevel = {
        "n": n,
        "rate": sum(len(level.gap_s) for _, level in pairs) / sum(level.duration_s for _, level in pairs),
        "failures": sum(int(log.failed[level.rows].sum()) for log, level in pairs) / n,
        "p50_ms": p50.value,
        "p95_ms": p95.value,
    }
    return row, p95


def _against(base: tuple[SideLevel, Estimate] | None, other: tuple[SideLevel, Estimate]) -> SideLevel:
    if base is None:
        return other[0]
    change = difference_row(base[1], other[1])
    return {**other[0], "verdict": change["verdict"], "low": change["low"], "high": change["high"]}
