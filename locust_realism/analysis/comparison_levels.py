"""Two or more servers side by side at each number of users, as a table of an A/B test has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from locust_realism.analysis.comparison import difference_row
from locust_realism.analysis.differences import Estimate, quantile_estimate
from locust_realism.analysis.levels import MIN_LAUNCHES, level_edges, split_levels
from locust_realism.analysis.responses import known_responses
from locust_realism.analysis.sides import Side
from locust_realism.recording.launches import LaunchLog

Row = dict[str, Any]


def compare_levels(sides: Sequence[Side], *, confidence: float = 0.95, rule: str = "nearest_rank") -> list[Row]:
    """One row a level of concurrency: ``fewest`` and ``most`` users and, for each side, rate, p50, p95 and failures.

    ``sides`` of a row is a list in the order of ``sides``, None where a side was not measured at this level; all but
    the first have ``verdict`` on p95 against the first. The intervals of all rows hold together (Bonferroni). Empty
    where a side has no recorded users or all have the same single level.

    >>> def run(scale):
    ...     response = np.random.default_rng(1).exponential(scale, 4000)
    ...     return LaunchLog.build(np.arange(4000) * 5000, response, users=np.repeat([50, 75], 2000))
    >>> rows = compare_levels([Side("Tomcat", (run(90_000),)), Side("JBoss", (run(50_000),))])
    >>> [(row["most"], row["sides"][1]["verdict"]) for row in rows]
    [(50, 'faster'), (75, 'faster')]
    """
    counts = [_counts(side.logs) for side in sides]
    if not all(len(each) for each in counts):
        return []
    total = np.zeros(max(map(len, counts)), dtype=np.int64)
    for each in counts:
        total[: len(each)] += each
    edges = level_edges(total / MIN_LAUNCHES)
    if len(edges) < 2:
        return []
    single = 1 - (1 - confidence) / (len(edges) * max(1, len(sides) - 1))
    found = [_side_levels(side.logs, edges, single, rule) for side in sides]
    rows = []
    for index in range(len(edges)):
        at = [levels.get(index) for levels in found]
        here = [level for level in at if level]
        if here:
            rows.append(
                {
                    "fewest": min(level["fewest"] for level in here),
                    "most": max(level["most"] for level in here),
                    "sides": [_shown(level, at[0] if position else None) for position, level in enumerate(at)],
                }
            )
    return rows


def _counts(logs: Sequence[LaunchLog]) -> np.ndarray[Any, np.dtype[np.int64]]:
    users = np.concatenate([log.users[log.users > 0] for log in logs])
    return np.bincount(users) if len(users) else np.zeros(0, dtype=np.int64)


def _side_levels(logs: Sequence[LaunchLog], edges: Any, confidence: float, rule: str) -> dict[int, Row]:
    # Launches of repeated runs belong to the same level; their times lie apart, so the level's time is summed.
    found: dict[int, Row] = {}
    for log in logs:
        for level in split_levels(log, edges=edges):
            index = int(np.searchsorted(edges, level.fewest, side="right")) - 1
            row = found.setdefault(
                index, {"fewest": level.fewest, "most": level.most, "n": 0, "time": 0.0, "failed": 0, "response": []}
            )
            row["fewest"], row["most"] = min(row["fewest"], level.fewest), max(row["most"], level.most)
            row["n"] += len(level.rows)
            row["time"] += level.duration_s
            row["failed"] += int(log.failed[level.rows].sum())
            row["response"].append(known_responses(log.response_us[level.rows]) / 1e3)
    for row in found.values():
        values = np.concatenate(row.pop("response"))
        row["p50"] = quantile_estimate(values, "0.5", confidence, rule=rule)
        row["p95"] = quantile_estimate(values, "0.95", confidence, rule=rule)
    return found


def _shown(level: Mapping[str, Any] | None, base: Mapping[str, Any] | None) -> Row | None:
    if level is None:
        return None
    p50, p95 = level["p50"], level["p95"]
    shown: Row = {
        "n": level["n"],
        "rate": level["n"] / level["time"],
        "failures": level["failed"] / level["n"],
        "p50_ms": _known(p50),
        "p95_ms": _known(p95),
    }
    if base is not None:
        change = difference_row(base["p95"], p95)
        shown |= {"verdict": change["verdict"], "low": change["low"], "high": change["high"]}
    return shown


def _known(estimate: Estimate) -> float | None:
    return estimate.value if np.isfinite(estimate.value) else None
