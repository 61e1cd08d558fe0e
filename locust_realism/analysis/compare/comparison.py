"""Differences between runs with confidence intervals, and a conclusion: faster, slower or neither.

A side of a comparison is one run, or several repeated runs of the same plan, which also show the spread between runs.
All intervals of one comparison hold together at the stated confidence (Bonferroni): of forty figures none may seem
changed by chance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from locust_realism.analysis import document as doc
from locust_realism.analysis.compare.by_level import compare_levels, shared_edges
from locust_realism.analysis.compare.comparability import match_loads
from locust_realism.analysis.compare.difference import (
    FASTER,
    MORE,
    SAME,
    SLOWER,
    TOO_SHORT,
    UNSHOWN,
    compared,
    counted,
    smallest_shown,
)
from locust_realism.analysis.compare.groups import FIGURES, Side, agreement, run_estimates, shared_names
from locust_realism.analysis.stats.estimates import Estimate, rate_estimate, share_estimate
from locust_realism.analysis.stats.intervals import AGGREGATED, TOTAL
from locust_realism.common.json import to_json_safe
from locust_realism.recording.launches import Label, LaunchLog

MAX_NAMES = 20
"""Most names with rows of their own, those with the most requests in the baseline."""

FELT = ("p95_ms", "p99_ms", "p90_ms", "p50_ms", "mean_ms")
"""Figures in the order in which a sentence prefers them."""

Figures = dict[Label, dict[str, list[Estimate]]]
"""Estimates of response times by name and figure, one for each run."""


def compare(
    sides: Sequence[Side],
    *,
    confidence: float = 0.95,
    tolerance: float = 0.0,
    rule: str = "nearest_rank",
    progress: Callable[[float], None] | None = None,
) -> doc.Comparison:
    """Compare each side with the first, the baseline.

    - ``tolerance`` share of the baseline that a difference must exceed to count (0.05: five per cent)
    - ``progress`` called with the finished share

    ValueError for fewer than two sides, and for shares out of bounds.

    >>> rng = np.random.default_rng(1)
    >>> def run(scale):
    ...     return LaunchLog.build(np.arange(4000) * 5000, rng.exponential(scale, 4000))
    >>> found = compare([Side("A", (run(20_000),)), Side("B", (run(30_000),))])
    >>> found["candidates"][0]["conclusion"]
    'slower'
    """
    if len(sides) < 2:
        raise ValueError(f"{len(sides)} run(s) given, expected a baseline and at least one other")
    if not 0 < confidence < 1 or not 0 <= tolerance < 1:
        raise ValueError(f"confidence is {confidence} and tolerance {tolerance}, expected numbers in (0, 1) and [0, 1)")
    names, edges = shared_names(sides, MAX_NAMES), shared_edges(sides)
    # Each candidate has a statement for each name and figure, two more for throughput and failures, one for each level.
    statements = (len(names) * len(FIGURES) + 2 + len(edges)) * (len(sides) - 1)
    each = 1 - (1 - confidence) / statements
    tables: list[Figures] = []
    for side in sides:
        tables.append({})
        for name in names:
            tables[-1][name] = run_estimates(side, name, rule)
            if progress is not None:
                progress(sum(map(len, tables)) / (len(names) * len(sides)))
    base, *others = zip(sides, tables, strict=True)
    found: doc.Comparison = to_json_safe({
        "baseline": sides[0].name, "confidence": confidence, "tolerance": tolerance, "rule": rule,
        "candidates": [_candidate(*base, *other, each, tolerance) for other in others],
        "runs": [_run(side) for side in sides],
        "agreement": [
            agreement(side, table[TOTAL]) for side, table in zip(sides, tables, strict=True) if len(side.logs) > 1
        ],
        "levels": compare_levels(sides, edges, each, rule),
    })  # fmt: skip
    return found


def _candidate(
    base: Side, before: Figures, side: Side, after: Figures, confidence: float, tolerance: float
) -> doc.Candidate:
    rows: list[doc.NamedDifference] = [
        {
            "label": name.name, "method": name.method, "figure": figure,
            **compared(before[name][figure], after[name][figure], confidence, tolerance),
        }
        for name in before
        for figure in FIGURES
    ]  # fmt: skip

    def of_runs(estimate: Callable[[LaunchLog], Estimate], tolerance: float) -> doc.DifferenceRow:
        a, b = ([estimate(log) for log in each.logs] for each in (base, side))
        return counted(compared(a, b, confidence, tolerance))

    verdicts = {row["verdict"] for row in _total(rows)}
    one = next(word for word in (FASTER, SLOWER, UNSHOWN, TOO_SHORT, SAME) if word in verdicts)
    found: doc.Candidate = {
        "name": side.name,
        "conclusion": "mixed" if {FASTER, SLOWER} <= verdicts else one,
        "sentence": "",
        "alike": match_loads(base.logs, side.logs, base.summaries, side.summaries),
        "rows": rows,
        "throughput": of_runs(lambda log: rate_estimate(log.launch_us), tolerance),
        "failures": of_runs(lambda log: share_estimate(log.failed), 0.0),
    }
    found["sentence"] = _sentence(base.name, found, tolerance)
    return found


def _sentence(base: str, found: doc.Candidate, tolerance: float) -> str:
    name, failures, status = found["name"], found["failures"], found["alike"]["status"]
    if status == "refused":
        return f"{name} and {base} cannot be compared: the loads were not alike."
    words = {
        FASTER: f"{name} is faster than {base}",
        SLOWER: f"{name} is slower than {base}",
        "mixed": f"{name} is faster than {base} in some percentiles and slower in others",
        SAME: f"{name} is as fast as {base} within {100 * tolerance:.0f} %",
        UNSHOWN: f"Between {name} and {base} there is no difference that this data can show",
        TOO_SHORT: f"The runs of {name} and {base} are too short to compare",
    }
    ending = {UNSHOWN: _limit_of_detection, TOO_SHORT: _too_short}.get(found["conclusion"], _largest_change)
    text = f"{words[found['conclusion']]}{ending(_total(found['rows']))}."
    if failures["verdict"] == MORE:
        text += f" It fails more often: {100 * (failures['a'] or 0):.3g} % to {100 * (failures['b'] or 0):.3g} %."
    if status == "warning":
        text += " The loads were not quite alike: see the reasons."
    return text


def _total(rows: Sequence[doc.NamedDifference]) -> list[doc.NamedDifference]:
    """Return the rows of all requests, those of the figures that users feel most first."""
    total = [row for row in rows if row["label"] == AGGREGATED and row["method"] == ""]
    return sorted(total, key=lambda row: FELT.index(row["figure"]))


def _largest_change(rows: Sequence[doc.NamedDifference]) -> str:
    """Return the first changed figure as the end of a sentence."""
    for row in rows:
        if row["verdict"] in (FASTER, SLOWER):
            a, b, ratio = (row["a"] or 0.0, row["b"] or 0.0, row["ratio"] or 0.0)
            return f": {row['figure'][:-3]} {a:,.4g} ms to {b:,.4g} ms ({100 * (ratio - 1):+.0f} %)"
    return ""


def _limit_of_detection(rows: Sequence[doc.NamedDifference]) -> str:
    """Return what would show a difference as the end of a sentence: a larger one of the first figure that varies."""
    for row in rows:
        if share := smallest_shown(row):
            return f": {row['figure'][:-3]} would have to differ by {float(f'{100 * share:.2g}'):g} % or more"
    return ""


def _too_short(rows: Sequence[doc.NamedDifference]) -> str:
    """Return the figures that need longer runs, if not all do, and the remedy as the end of a sentence."""
    short = [row["figure"][:-3] for row in rows if row["verdict"] == TOO_SHORT]
    return ("" if len(short) == len(rows) else f" in {', '.join(short)}") + ": run longer or repeat them"


def _run(side: Side) -> doc.ComparedRun:
    """Return throughput, failures and launch pattern of one side."""
    n, failed = sum(len(log) for log in side.logs), sum(int(log.failed.sum()) for log in side.logs)
    covs = [cov for cov in map(_launch_cov, side.summaries) if cov is not None]
    return {
        "name": side.name,
        "runs": len(side.logs),
        "n": n,
        "rate": float(np.mean([rate_estimate(log.launch_us).value for log in side.logs])),
        "failures": failed / n,
        "cov": float(np.mean(covs)) if covs else None,
        "verdict": [summary["verdict"]["overall"] for summary in side.summaries],
    }


def _launch_cov(summary: doc.Summary) -> float | None:
    """Return the raw CoV of the launches that the verdict covers, or of all of them without a verdict."""
    raw = summary["pattern"]["raw_cov"]
    return raw if raw is not None or not summary["launches"] else summary["launches"][-1]["cov"]
