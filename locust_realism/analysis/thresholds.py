"""Thresholds judged by a summary: whether a run has failed ``p95 > 400ms`` or ``verdict is red``, and a line for each.

How they are written is in :mod:`locust_realism.analysis.threshold_text`. What cannot be judged (a name without
requests, a figure that needs more data) counts as failed: a gate must not open because the run measured nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from locust_realism.analysis.threshold_text import (
    COMPARISONS,
    METRICS,
    Metric,
    Threshold,
    ThresholdError,
    Unit,
    parse_threshold,
    parse_thresholds,
)

__all__ = [
    "METRICS",
    "Threshold",
    "ThresholdError",
    "ThresholdResult",
    "evaluate_thresholds",
    "parse_threshold",
    "parse_thresholds",
]


@dataclass(frozen=True)
class ThresholdResult:
    """What became of a threshold: ``failed``, the ``value`` judged (None: no figure) and ``line`` to print."""

    threshold: Threshold
    failed: bool
    value: float | str | None
    line: str


def evaluate_thresholds(thresholds: Iterable[Threshold], summary: Mapping[str, Any]) -> list[ThresholdResult]:
    """Judge thresholds by a summary document; one result a threshold and matching name, in the given order.

    >>> row = {"label": "Aggregated", "method": "", "n": 200, "failures": 3, "p95_ms": 412.5}
    >>> gate = parse_thresholds(["p95 > 400ms", "failures > 2%"])
    >>> for result in evaluate_thresholds(gate, {"response_times": [row]}):
    ...     print(result.line)
    FAILED  p95 > 400ms: 412.5 ms
    ok      failures > 2%: 1.5 %
    """
    results: list[ThresholdResult] = []
    for threshold in thresholds:
        results += _judge_verdict(threshold, summary) if threshold.metric == "verdict" else _judge(threshold, summary)
    return results


def _result(threshold: Threshold, failed: bool, value: float | str | None, said: str) -> ThresholdResult:
    return ThresholdResult(
        threshold, failed, value, f"{'FAILED' if failed else 'ok':6}  {threshold.text.strip()}: {said}"
    )


def _judge_verdict(threshold: Threshold, summary: Mapping[str, Any]) -> list[ThresholdResult]:
    verdict = summary.get("verdict") or {}
    status = verdict.get("overall")
    if threshold.name is not None:
        checks = [c for c in verdict.get("checks") or [] if threshold.name in (str(c.get("id")), c.get("name"))]
        status = checks[0].get("status") if checks else None
    if status is None:
        said = "no verdict" if threshold.name is None else f"no check {threshold.name!r}"
        return [_result(threshold, True, None, said + ", which counts as failed")]
    return [_result(threshold, (status == threshold.status) == (threshold.operator == "is"), status, str(status))]


def _judge(threshold: Threshold, summary: Mapping[str, Any]) -> list[ThresholdResult]:
    metric = METRICS[threshold.metric]
    section = summary.get(metric.table) or []
    rows = list(section.get("rows") or [] if isinstance(section, Mapping) else section)
    chosen = [row for row in rows if _matches(row, threshold.name)]
    if not chosen:
        said = "no requests" if threshold.name is None else f"no requests named {threshold.name!r}"
        return [_result(threshold, True, None, said + ", which counts as failed")]
    return [_judge_row(threshold, metric, row, named=len(chosen) > 1) for row in chosen]


def _matches(row: Mapping[str, Any], name: str | None) -> bool:
    label, method = row.get("label"), row.get("method") or ""
    aggregated = label == "Aggregated" and not method
    if name is None or name == "Aggregated":
        return aggregated
    return not aggregated and (name == "*" or name in (label, f"{method} {label}"))


def _judge_row(threshold: Threshold, metric: Metric, row: Mapping[str, Any], *, named: bool) -> ThresholdResult:
    value = row.get(metric.key)
    if value is None and metric.key == "p50_ms":
        value = row.get("median_ms")
    if value is not None and threshold.relative:
        value = value / row["n"] if row.get("n") else None
    label = f"{row.get('method') or ''} {row['label']}".strip() + ": " if named else ""
    if value is None:
        return _result(threshold, True, None, f"{label}no figure (too few requests), which counts as failed")
    if threshold.operator in COMPARISONS:
        failed = COMPARISONS[threshold.operator](value, threshold.bounds[0])
    else:
        low, high = threshold.bounds
        failed = (low <= value <= high) == (threshold.operator == "within")
    return _result(threshold, bool(failed), float(value), label + _shown(value, metric.unit, threshold.relative))


def _shown(value: float, unit: Unit, relative: bool) -> str:
    if relative:
        return f"{100 * value:.4g} %"
    number = f"{value:,.0f}" if float(value).is_integer() else f"{value:,.3f}".rstrip("0").rstrip(".")
    return number + {"time": " ms", "rate": "/s"}.get(unit, "")
