"""Sides of a comparison: their shared names, their estimated figures, and the agreement of repeated runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from locust_realism.analysis.document import Agreement, AgreementRow, Summary
from locust_realism.analysis.percentiles import Floats
from locust_realism.analysis.stats.estimates import Estimate, mean_estimate, quantile_estimate
from locust_realism.analysis.stats.intervals import TOTAL
from locust_realism.analysis.stats.repeated import AGREE_P, disagreement
from locust_realism.analysis.stats.responses import known_responses
from locust_realism.common.json import to_json_safe
from locust_realism.recording.launches import Label, LaunchLog

FIGURES = {"p50_ms": "0.5", "p90_ms": "0.9", "p95_ms": "0.95", "p99_ms": "0.99", "mean_ms": None}
"""Figures of the response times and their quantiles, None for the mean."""


@dataclass(frozen=True)
class Side:
    """Side of a comparison: its name, the logs of its runs (steady part, in launch order) and their summaries."""

    name: str
    logs: tuple[LaunchLog, ...]
    summaries: tuple[Summary, ...] = ()

    def __post_init__(self) -> None:
        if not self.logs or not all(len(log) for log in self.logs):
            raise ValueError(f"side {self.name!r} has a run without requests, expected at least one request in each")


def shared_names(sides: Sequence[Side], limit: int) -> list[Label]:
    """Return the baseline's ``limit`` most requested names that every run has, in order, and the aggregate last.

    A single name has no row of its own.
    """
    found = [[counts_by_name(log) for log in side.logs] for side in sides]
    every = [counts for side in found for counts in side]
    common = set(every[0]).intersection(*every)
    if len(common) == 1 and all(len(counts) == 1 for counts in every):
        return [TOTAL]
    n = {label: sum(counts[label] for counts in found[0]) for label in common}
    most = sorted(common, key=lambda label: (-n[label], label))[:limit]
    return [*sorted(most, key=lambda label: (label.name, label.method)), TOTAL]


def counts_by_name(log: LaunchLog) -> dict[Label, int]:
    """Return the number of requests of each name of a log."""
    counts = np.bincount(log.label, minlength=len(log.labels)).tolist()
    return {label: n for label, n in zip(log.labels, counts, strict=True) if n}


def run_estimates(side: Side, name: Label, rule: str = "nearest_rank") -> dict[str, list[Estimate]]:
    """Return an estimate of each of :data:`FIGURES` for each run of a side: response times of one name in ms."""
    runs: dict[str, list[Estimate]] = {figure: [] for figure in FIGURES}
    for log in side.logs:
        rows = slice(None) if name == TOTAL else log.label == log.labels.index(name)
        values: Floats = known_responses(log.response_us[rows]) / 1e3
        ordered = np.sort(values)
        for figure, quantile in FIGURES.items():
            runs[figure].append(
                mean_estimate(values) if quantile is None else percentile_estimate(values, quantile, ordered, rule)
            )
    return runs


def percentile_estimate(values: Floats, quantile: str, ordered: Floats, rule: str = "nearest_rank") -> Estimate:
    """Return a percentile of one of several runs; without a value beyond it, its error and its bias are unknown."""
    found = quantile_estimate(values, quantile, rule=rule, ordered=ordered)
    if len(values) * (1 - float(quantile)) >= 1:
        return found
    return Estimate(found.value, -math.inf, math.inf, found.n, freedom=0.0)


def agreement(side: Side, figures: dict[str, list[Estimate]]) -> Agreement:
    """Return the agreement of repeated runs of one plan in the response times of all requests (:func:`run_estimates`).

    A figure agrees if chance within a run explains the spread of the runs (F test, p >= 0.01). Of sound sides at most
    5 % do not agree in one of the five figures. Runs without a p-value of any figure show nothing: ``agrees`` is None.
    """
    rows: list[AgreementRow] = []
    for figure, runs in figures.items():
        apart, p_value = disagreement(runs)
        agrees = p_value >= AGREE_P if math.isfinite(p_value) else None
        values = [run.value for run in runs]
        rows.append({"figure": figure, "values": values, "apart": apart, "p_value": p_value, "agrees": agrees})
    rows = to_json_safe(rows)
    tested = [row for row in rows if row["agrees"] is not None]
    no = [row["figure"][:-3] for row in tested if not row["agrees"]]
    largest, figure = max(((row["apart"] or 0.0, row["figure"][:-3]) for row in tested), default=(0.0, ""))
    apart_text = f"up to {100 * largest:.1f} % apart ({figure})"
    if not tested:
        sentence = f"The runs of {side.name} are too short to show whether they agree."
    elif no:
        sentence = f"The runs of {side.name} do not agree in {', '.join(no)}: they are {apart_text}, more than chance."
    else:
        sentence = f"The runs of {side.name} agree: they are {apart_text}, which is what chance explains."
    return {
        "name": side.name,
        "runs": len(side.logs),
        "rows": rows,
        "agrees": not no if tested else None,
        "sentence": sentence,
    }
