"""Whether one run is faster than another: differences with confidence intervals, and whether the loads were alike.

A side of a comparison is one run, or several repeated runs of the same plan; several also count how runs differ from
each other, which no single run can tell. All intervals of one comparison hold together at the stated confidence
(Bonferroni), so that looking at forty figures does not make two of them seem changed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from locust_realism.analysis.alikeness import Alikeness, loads_alike
from locust_realism.analysis.differences import (
    Estimate,
    mean_estimate,
    pooled,
    quantile_estimate,
    rate_estimate,
    share_estimate,
)
from locust_realism.analysis.intervals import AGGREGATED
from locust_realism.analysis.sides import FIGURES, Side, agreement, response_ms, shared_names
from locust_realism.recording.launches import Label, LaunchLog

Row = dict[str, Any]

FASTER, SLOWER, SAME, UNSHOWN = (
    "faster", "slower", "the same within the tolerance", "no difference that this data can show",
)  # fmt: skip


def compare(
    sides: Sequence[Side],
    *,
    confidence: float = 0.95,
    tolerance: float = 0.0,
    rule: str = "nearest_rank",
    max_names: int = 20,
    progress: Callable[[float], None] | None = None,
) -> Row:
    """Compare each side with the first, the baseline.

    - ``tolerance`` share of the baseline that a difference must exceed to count (0.05: five per cent)
    - ``max_names`` names compared each by itself, those with the most requests in the baseline

    Returns a JSON-able dict: ``baseline``, ``confidence``, ``tolerance``, ``rule``, ``candidates`` (a dict each: name,
    ``conclusion``, ``sentence``, ``alike``, ``rows`` of response times in ms, ``throughput``, ``failures``), ``runs``
    (rate, failures, launch pattern of every side) and ``agreement`` (of sides with several runs). A row has label,
    method, figure, a, b, difference, low, high, ratio and verdict; limits that the data does not set are None.

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
    names = shared_names(sides, max_names)
    # One statement for each name and figure, and two more for throughput and failures, of each candidate.
    statements = (len(names) * len(FIGURES) + 2) * (len(sides) - 1)
    each = 1 - (1 - confidence) / statements
    tick = _ticker(progress, len(names) * len(sides))
    tables = [{name: _figures(side, name, each, rule, tick) for name in names} for side in sides]
    candidates = [
        _candidate(sides[0], side, tables[0], table, each, tolerance)
        for side, table in zip(sides[1:], tables[1:], strict=True)
    ]
    return {
        "baseline": sides[0].name,
        "confidence": confidence,
        "tolerance": tolerance,
        "rule": rule,
        "candidates": candidates,
        "runs": [_run(side) for side in sides],
        "agreement": [agreement(side, rule=rule) for side in sides if len(side.logs) > 1],
    }


def _ticker(progress: Callable[[float], None] | None, total: int) -> Callable[[], None]:
    done = 0

    def tick() -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done / total)

    return tick


def _figures(side: Side, name: Label, confidence: float, rule: str, tick: Callable[[], None]) -> dict[str, Estimate]:
    runs: dict[str, list[Estimate]] = {figure: [] for figure in FIGURES}
    for log in side.logs:
        values = response_ms(log, name)
        ordered = np.sort(values)
        for figure, quantile in FIGURES.items():
            runs[figure].append(
                mean_estimate(values, confidence)
                if quantile is None
                else quantile_estimate(values, quantile, confidence, rule=rule, ordered=ordered)
            )
    tick()
    return {figure: pooled(estimates, confidence) for figure, estimates in runs.items()}


def _candidate(
    base: Side,
    side: Side,
    before: Mapping[Label, Mapping[str, Estimate]],
    after: Mapping[Label, Mapping[str, Estimate]],
    confidence: float,
    tolerance: float,
) -> Row:
    rows = [
        {"label": name.name, "method": name.method, "figure": figure}
        | difference_row(before[name][figure], after[name][figure], tolerance)
        for name in before
        for figure in FIGURES
    ]
    throughput = _pair(base, side, confidence, tolerance, lambda log, c: rate_estimate(log.launch_us, c))
    failures = _pair(base, side, confidence, 0.0, lambda log, c: share_estimate(log.failed, c))
    alike = loads_alike(base.logs, side.logs, base.summaries, side.summaries)
    conclusion = conclude([row["verdict"] for row in rows if row["label"] == AGGREGATED and row["method"] == ""])
    return {
        "name": side.name,
        "conclusion": conclusion,
        "sentence": _sentence(base, side, conclusion, rows, failures, alike, tolerance),
        "alike": {"status": alike.status, "reasons": list(alike.reasons)},
        "rows": rows,
        "throughput": throughput | {"verdict": _more_or_less(throughput["verdict"])},
        "failures": failures | {"verdict": _more_or_less(failures["verdict"])},
    }


def _pair(
    base: Side, side: Side, confidence: float, tolerance: float, estimate: Callable[[LaunchLog, float], Estimate]
) -> Row:
    a, b = (pooled([estimate(log, confidence) for log in each.logs], confidence) for each in (base, side))
    return difference_row(a, b, tolerance)


def _more_or_less(verdict: str) -> str:
    return {FASTER: "less", SLOWER: "more"}.get(verdict, verdict)


def difference_row(a: Estimate, b: Estimate, tolerance: float = 0.0) -> Row:
    """The difference b - a with its limits and what they show: a larger time is slower.

    >>> difference_row(Estimate(100, 98, 102, 500), Estimate(120, 117, 123, 500))["verdict"]
    'slower'
    """
    change = b - a
    bound = tolerance * abs(a.value)
    if change.low > bound:
        verdict = SLOWER
    elif change.high < -bound:
        verdict = FASTER
    elif tolerance > 0 and -bound <= change.low and change.high <= bound:
        verdict = SAME
    else:
        verdict = UNSHOWN

    def known(value: float) -> float | None:
        return float(value) if math.isfinite(value) else None

    return {
        "a": known(a.value), "b": known(b.value), "difference": known(change.value),
        "low": known(change.low), "high": known(change.high),
        "ratio": known(b.value / a.value) if a.value else None,
        "n_a": a.n, "n_b": b.n, "verdict": verdict,
    }  # fmt: skip


def conclude(verdicts: Sequence[str]) -> str:
    """One word for several figures of all requests: mixed where some are faster and some slower.

    >>> conclude([SLOWER, UNSHOWN]), conclude([SLOWER, FASTER])
    ('slower', 'mixed')
    """
    found = set(verdicts)
    if {FASTER, SLOWER} <= found:
        return "mixed"
    return next((word for word in (FASTER, SLOWER, UNSHOWN) if word in found), SAME)


def _sentence(
    base: Side, side: Side, conclusion: str, rows: Sequence[Row], failures: Row, alike: Alikeness, tolerance: float
) -> str:
    if alike.status == "refused":
        return f"{side.name} and {base.name} cannot be compared: the loads were not alike."
    shown = [row for row in rows if row["label"] == AGGREGATED and row["verdict"] in (FASTER, SLOWER)]
    detail = ""
    if shown:
        # The figure that users feel most, of those that changed.
        order = ("p95_ms", "p99_ms", "p90_ms", "p50_ms", "mean_ms")
        best = min(shown, key=lambda row: order.index(row["figure"]))
        detail = f": {best['figure'][:-3]} {best['a']:,.4g} ms to {best['b']:,.4g} ms ({best['ratio'] - 1:+.0%})"
    words = {
        FASTER: f"{side.name} is faster than {base.name}",
        SLOWER: f"{side.name} is slower than {base.name}",
        "mixed": f"{side.name} is faster than {base.name} in some percentiles and slower in others",
        SAME: f"{side.name} is as fast as {base.name} within {tolerance:.0%}",
        UNSHOWN: f"Between {side.name} and {base.name} there is no difference that this data can show",
    }
    text = words[conclusion] + detail.replace("%", " %") + "."
    if failures["verdict"] == SLOWER:
        text += f" It fails more often: {100 * failures['a']:.3g} % to {100 * failures['b']:.3g} %."
    if alike.status == "warning":
        text += " The loads were not quite alike: see the reasons."
    return text


def _run(side: Side) -> Row:
    """Throughput, failures and launch pattern of one side."""
    n, failed = sum(len(log) for log in side.logs), sum(int(log.failed.sum()) for log in side.logs)
    rates = [rate_estimate(log.launch_us).value for log in side.logs]
    covs = [cov for cov in map(_launch_cov, side.summaries) if cov is not None]
    return {
        "name": side.name,
        "runs": len(side.logs),
        "n": n,
        "rate": float(np.mean(rates)) if all(map(math.isfinite, rates)) else None,
        "failures": failed / n,
        "cov": float(np.mean(covs)) if covs else None,
        "verdict": [(summary.get("verdict") or {}).get("overall") for summary in side.summaries],
    }


def _launch_cov(summary: Mapping[str, Any]) -> float | None:
    """CoV as recorded of the launches that the verdict is about, of all of them where only the table is there."""
    found = (summary.get("pattern") or {}).get("raw_cov")
    if found is None:
        found = (summary.get("launches") or [{}])[-1].get("cov")
    return None if found is None else float(found)
