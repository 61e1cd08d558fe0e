"""Tables of response times and of response sizes: exact percentiles by name and method, and of all requests."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from locust_realism.analysis.intervals import AGGREGATED, Row, busiest_labels, coefficient_of_variation
from locust_realism.analysis.percentiles import (
    QUANTILES,
    Ascending,
    Grouped,
    count_codes,
    order_by_group,
    percentile_interval,
    sorted_percentiles,
)
from locust_realism.analysis.settings import AnalysisSettings
from locust_realism.recording.launches import LaunchLog

PERCENTILE_KEYS = ("p50", "p90", "p95", "p99", "p999")
"""Keys of the quantiles of the tables, without their unit."""


def ordered_stats(ordered: NDArray[Any], unit: float, suffix: str, settings: AnalysisSettings) -> Row:
    """Mean, sdev, CoV, percentiles, minimum and maximum of ascending values, divided by ``unit``.

    Keys carry ``suffix``; NaN where there are no values.
    """
    if not len(ordered):
        keys = ("mean", "sdev", *PERCENTILE_KEYS, "min", "max")
        return {"cov": math.nan} | {key + suffix: math.nan for key in keys}
    mean = float(ordered.mean())
    return stats_row(ordered, mean, coefficient_of_variation(ordered, mean), unit, suffix, settings)


def stats_row(ordered: Ascending, mean: float, cov: float, unit: float, suffix: str, settings: AnalysisSettings) -> Row:
    """As :func:`ordered_stats` where mean (not yet divided by ``unit``) and CoV of the values are known; n >= 1."""
    mean /= unit
    found = sorted_percentiles(ordered, QUANTILES, settings.percentile_rule) / unit
    row: Row = {"mean" + suffix: mean, "sdev" + suffix: cov * mean, "cov": cov}
    row |= {key + suffix: value for key, value in zip(PERCENTILE_KEYS, found.tolist(), strict=True)}
    row |= {"min" + suffix: float(ordered[0]) / unit, "max" + suffix: float(ordered[len(ordered) - 1]) / unit}
    return row


def percentile_intervals(ordered: Ascending, settings: AnalysisSettings) -> Row:
    """Confidence intervals of response times in milliseconds: keys ``p50_interval_ms`` ..., None where n is small."""
    row: Row = {}
    for key, quantile in zip(PERCENTILE_KEYS, QUANTILES, strict=True):
        found = percentile_interval(ordered, quantile, settings.confidence) if len(ordered) else None
        row[key + "_interval_ms"] = None if found is None else [found[0] / 1e3, found[1] / 1e3]
    return row


def response_table(log: LaunchLog, settings: AnalysisSettings | None = None) -> list[Row]:
    """Response times in milliseconds by name and method, aggregated last; failures are included and counted.

    Requests whose client gave no response time (or a negative one) are counted and have no part in the figures.

    The rate is launches divided by the time from the first launch to the last of all names, so that the rows add up.

    >>> log = LaunchLog.build([0, 500_000, 1_000_000], [2000, 4000, 9000], names=["a", "b", "a"], failed=[0, 0, 1])
    >>> [(row["label"], row["n"], row["failures"], row["rate"], row["p50_ms"]) for row in response_table(log)]
    [('a', 2, 1, 2.0, 2.0), ('b', 1, 0, 1.0, 4.0), ('Aggregated', 3, 1, 3.0, 4.0)]
    """
    settings = settings or AnalysisSettings()
    if not len(log):
        return []
    span = int(log.launch_us.max() - log.launch_us.min()) / 1e6
    failures = count_codes(log.label[log.failed], len(log.labels))

    def row(label: str, method: str, ordered: NDArray[Any], failed: int) -> Row:
        head = {"label": label, "method": method, "n": len(ordered), "failures": failed}
        rate = {"rate": len(ordered) / span if span else math.nan}
        known = answered(ordered)
        return head | rate | ordered_stats(known, 1e3, "_ms", settings) | percentile_intervals(known, settings)

    grouped = order_by_group(log.response_us, log.label, len(log.labels))
    rows = [
        row(log.labels[code].name, log.labels[code].method, grouped.group(code), int(failures[code]))
        for code in busiest_labels(log, settings.max_names)
    ]
    return [*rows, row(AGGREGATED, "", all_ordered(log.response_us, grouped), int(failures.sum()))]


def answered(ordered: NDArray[Any]) -> NDArray[Any]:
    """The response times that are known, of ascending ones: what is below zero stands for none."""
    return ordered[int(np.searchsorted(ordered, 0)) :]


def known_responses(response_us: NDArray[Any]) -> NDArray[Any]:
    """As :func:`answered`, of response times in any order, which is kept.

    >>> known_responses(np.array([700, -1, 300])).tolist()
    [700, 300]
    """
    return response_us if not len(response_us) or response_us.min() >= 0 else response_us[response_us >= 0]


def bytes_table(log: LaunchLog, settings: AnalysisSettings | None = None) -> list[Row]:
    """Sizes of the responses in bytes by name and method, aggregated last, with the total and bytes per second."""
    settings = settings or AnalysisSettings()
    if not len(log):
        return []
    span = int(log.launch_us.max() - log.launch_us.min()) / 1e6

    def row(label: str, method: str, ordered: NDArray[Any]) -> Row:
        total = int(ordered.sum(dtype=np.int64))
        head = {"label": label, "method": method, "n": len(ordered), "total_bytes": total}
        rate = {"bytes_per_s": total / span if span else math.nan}
        return head | rate | ordered_stats(ordered, 1.0, "_bytes", settings)

    grouped = order_by_group(log.size_bytes, log.label, len(log.labels))
    rows = [
        row(log.labels[code].name, log.labels[code].method, grouped.group(code))
        for code in busiest_labels(log, settings.max_names)
    ]
    return [*rows, row(AGGREGATED, "", all_ordered(log.size_bytes, grouped))]


def all_ordered(values: NDArray[Any], grouped: Grouped) -> NDArray[Any]:
    """Every value in ascending order, taken from the groups where there is only one."""
    if int((np.diff(grouped.bounds) > 0).sum()) <= 1:
        return grouped.values
    return order_by_group(values, np.zeros(len(values), dtype=np.int8), 1).values


GROUPINGS = ("name", "method", "label", "failed", "worker", "slot", "users", "slice")


def percentiles_by(
    log: LaunchLog, by: str, settings: AnalysisSettings | None = None, *, slice_s: float = 10.0
) -> list[Row]:
    """Response times by any grouping, in one pass: rows ``group``, n, mean_ms ... as in :func:`response_table`.

    ``by`` is one of :data:`GROUPINGS`; ``slice`` groups by pieces of ``slice_s`` seconds, named by their start in
    seconds since the first launch. Groups without requests have no row. An own grouping is one call of
    :func:`locust_realism.analysis.percentiles.order_by_group`.

    >>> log = LaunchLog.build([0, 1, 2], [1000, 3000, 5000], failed=[False, True, False])
    >>> [(row["group"], row["n"], row["p50_ms"]) for row in percentiles_by(log, "failed")]
    [(False, 2, 1.0), (True, 1, 3.0)]
    """
    settings = settings or AnalysisSettings()
    if by not in GROUPINGS:
        raise ValueError(f"by is {by!r}, expected one of {', '.join(GROUPINGS)}")
    if slice_s <= 0:
        raise ValueError(f"slice_s is {slice_s}, expected more than 0")
    if not len(log):
        return []
    groups, codes = _grouping(log, by, slice_s)
    grouped = order_by_group(log.response_us, codes, len(groups))
    rows = ((group, grouped.group(code)) for code, group in enumerate(groups))
    return [
        {"group": group, "n": len(ordered)} | ordered_stats(answered(ordered), 1e3, "_ms", settings)
        for group, ordered in rows
        if len(ordered)
    ]


def _grouping(log: LaunchLog, by: str, slice_s: float) -> tuple[list[Any], NDArray[Any]]:
    if by in ("name", "method", "label"):
        spelled = [(label.name, label.method) if by == "label" else getattr(label, by) for label in log.labels]
        groups = sorted(set(spelled))
        return groups, np.array([groups.index(each) for each in spelled], dtype=np.int32)[log.label]
    if by == "failed":
        return [False, True], log.failed.astype(np.int8)
    if by == "slice":
        since = log.launch_us - log.launch_us.min()
        codes = (since / (slice_s * 1e6)).astype(np.int64)
        return [slice_s * code for code in range(int(codes.max()) + 1)], codes
    values, codes = np.unique(getattr(log, by), return_inverse=True)
    return values.tolist(), codes
