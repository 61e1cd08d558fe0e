"""The sides of a comparison, and their repeated runs: which names they share, and whether the runs agree."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from locust_realism.analysis.differences import disagreement, mean_estimate, quantile_estimate
from locust_realism.analysis.intervals import AGGREGATED
from locust_realism.analysis.responses import known_responses
from locust_realism.recording.launches import Label, LaunchLog

Row = dict[str, Any]

FIGURES = {"p50_ms": "0.5", "p90_ms": "0.9", "p95_ms": "0.95", "p99_ms": "0.99", "mean_ms": None}
"""Figures of the response times and their quantiles, None for the mean."""
TOTAL = Label("", AGGREGATED)
AGREE_P = 0.01
"""Repeated runs disagree where chance alone spreads them as far less often than this."""


@dataclass(frozen=True)
class Side:
    """One side of a comparison: its name, the logs of its runs (steady part, in launch order) and their summaries."""

    name: str
    logs: tuple[LaunchLog, ...]
    summaries: tuple[Mapping[str, Any], ...] = ()

    def __post_init__(self) -> None:
        if not self.logs or not all(len(log) for log in self.logs):
            raise ValueError(f"side {self.name!r} has a run without requests, expected at least one request in each")


def shared_names(sides: Sequence[Side], limit: int) -> list[Label]:
    """Names that every run has, the most requested of the baseline, then the aggregate; only this where one name is."""
    common = set.intersection(*({log.labels[i] for i in np.unique(log.label)} for side in sides for log in side.logs))
    counts = dict.fromkeys(common, 0)
    for log in sides[0].logs:
        for code, n in enumerate(np.bincount(log.label, minlength=len(log.labels)).tolist()):
            if log.labels[code] in counts:
                counts[log.labels[code]] += n
    most = sorted(common, key=lambda label: (-counts[label], label))[:limit]
    alone = len(common) == 1 and all(len(np.unique(log.label)) == 1 for side in sides for log in side.logs)
    return [TOTAL] if alone else [*sorted(most, key=lambda label: (label.name, label.method)), TOTAL]


def response_ms(log: LaunchLog, name: Label) -> NDArray[np.float64]:
    """Response times of one name (or of all) in launch order, in milliseconds; those that are missing are left out."""
    rows = slice(None) if name == TOTAL else log.label == log.labels.index(name)
    milliseconds: NDArray[np.float64] = known_responses(log.response_us[rows]) / 1e3
    return milliseconds


def agreement(side: Side, *, confidence: float = 0.95, rule: str = "nearest_rank") -> Row:
    """Whether repeated runs of one plan agree, and how far apart they are, for the percentiles of all requests.

    A figure agrees where the spread of the runs is what chance within a run explains (Cochran's Q, p >= 0.01).
    """
    rows: list[Row] = []
    for figure, quantile in FIGURES.items():
        runs = [
            mean_estimate(response_ms(log, TOTAL), confidence)
            if quantile is None
            else quantile_estimate(response_ms(log, TOTAL), quantile, confidence, rule=rule)
            for log in side.logs
        ]
        apart, p_value = disagreement(runs, confidence)
        known = math.isfinite(p_value)
        rows.append(
            {
                "figure": figure,
                "values": [run.value for run in runs],
                "apart": apart if math.isfinite(apart) else None,
                "p_value": p_value if known else None,
                "agrees": bool(p_value >= AGREE_P) if known else None,
            }
        )
    worst = max(rows, key=lambda row: row["apart"] or 0.0)
    no = [row["figure"][:-3] for row in rows if row["agrees"] is False]
    apart_text = f"up to {worst['apart'] or 0:.1%} apart ({worst['figure'][:-3]})".replace("%", " %")
    if no:
        sentence = f"The runs of {side.name} do not agree in {', '.join(no)}: they are {apart_text}, more than chance."
    else:
        sentence = f"The runs of {side.name} agree: they are {apart_text}, which is what chance explains."
    return {"name": side.name, "runs": len(side.logs), "rows": rows, "agrees": not no, "sentence": sentence}
