"""Tables of response times and of response sizes: exact percentiles by name and method, and of all requests."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from locust_realism.analysis.document import BytesRow, ResponseRow, StageFigures
from locust_realism.analysis.percentiles import (
    QUANTILES,
    Ascending,
    Int64,
    Numbers,
    count_codes,
    five_percentiles,
    order_by_group,
    percentile_interval,
    percentiles,
    sorted_percentiles,
)
from locust_realism.analysis.settings import AnalysisSettings
from locust_realism.analysis.stats.intervals import DEFAULT_SETTINGS, TOTAL, busiest_labels, coefficient_of_variation
from locust_realism.recording.launches import Label, LaunchLog


class Stats(NamedTuple):
    """Values in ascending order with their mean and CoV, NaN without values."""

    ordered: Ascending
    mean: float
    cov: float


def stats_of(ordered: Numbers) -> Stats:
    """Return the statistics of values in ascending order."""
    mean = float(ordered.mean()) if len(ordered) else math.nan
    return Stats(ordered, mean, coefficient_of_variation(ordered, mean))


def response_row(
    label: Label, n: int, failures: int, span_s: float, known: Stats, settings: AnalysisSettings
) -> ResponseRow:
    """Return a row of the table of response times.

    ``n`` counts the requests of the label, ``known`` are their known response times in microseconds, ``span_s`` is the
    time from the first launch to the last of all names.
    """
    low, *times, high = sorted_percentiles(known.ordered, (0, *QUANTILES, 1), settings.percentile_rule).tolist()
    mean_ms = known.mean / 1e3
    found = (percentile_interval(known.ordered, quantile, settings.confidence) for quantile in QUANTILES)
    p50, p90, p95, p99, p999 = (limits and [limit / 1e3 for limit in limits] for limits in found)
    return {
        "label": label.name, "method": label.method,
        "n": n, "failures": failures, "rate": n / span_s if span_s else math.nan,
        "mean_ms": mean_ms, "sdev_ms": known.cov * mean_ms, "cov": known.cov,
        **five_percentiles(np.array(times)),
        "min_ms": low / 1e3, "max_ms": high / 1e3,
        "p50_interval_ms": p50, "p90_interval_ms": p90, "p95_interval_ms": p95, "p99_interval_ms": p99,
        "p999_interval_ms": p999,
    }  # fmt: skip


def bytes_row(label: Label, total: int, span_s: float, sizes: Stats, settings: AnalysisSettings) -> BytesRow:
    """Return a row of the table of response sizes, of ``total`` bytes in all; ``span_s`` as in :func:`response_row`."""
    found = sorted_percentiles(sizes.ordered, (0, *QUANTILES, 1), settings.percentile_rule)
    low, p50, p90, p95, p99, p999, high = found.tolist()
    return {
        "label": label.name, "method": label.method,
        "n": len(sizes.ordered), "total_bytes": total, "bytes_per_s": total / span_s if span_s else math.nan,
        "mean_bytes": sizes.mean, "sdev_bytes": sizes.cov * sizes.mean, "cov": sizes.cov,
        "p50_bytes": p50, "p90_bytes": p90, "p95_bytes": p95, "p99_bytes": p99, "p999_bytes": p999,
        "min_bytes": low, "max_bytes": high,
    }  # fmt: skip


def response_table(log: LaunchLog, settings: AnalysisSettings = DEFAULT_SETTINGS) -> list[ResponseRow]:
    """Return the response times in milliseconds by name and method, aggregated last, failed requests included.

    A request without a response time (or with a negative one) counts in ``n`` and has no part in the times. The rate is
    launches divided by the time from the first launch to the last of all names, so that the rows add up.

    >>> log = LaunchLog.build([0, 500_000, 1_000_000], [2000, 4000, 9000], names=["a", "b", "a"], failed=[0, 0, 1])
    >>> [(row["label"], row["n"], row["failures"], row["rate"], row["p50_ms"]) for row in response_table(log)]
    [('a', 2, 1, 2.0, 2.0), ('b', 1, 0, 1.0, 4.0), ('Aggregated', 3, 1, 3.0, 4.0)]
    """
    span, failures = span_s(log), count_codes(log.label[log.failed], len(log.labels))
    return [
        response_row(
            label, len(ordered), int(failures.sum() if code is None else failures[code]), span,
            stats_of(answered(ordered)), settings,
        )
        for code, label, ordered in _by_name(log, log.response_us, settings)
    ]  # fmt: skip


def bytes_table(log: LaunchLog, settings: AnalysisSettings = DEFAULT_SETTINGS) -> list[BytesRow]:
    """Return the sizes of the responses in bytes by name and method, aggregated last."""
    span = span_s(log)
    return [
        bytes_row(label, int(ordered.sum(dtype=np.int64)), span, stats_of(ordered), settings)
        for _, label, ordered in _by_name(log, log.size_bytes, settings)
    ]


def span_s(log: LaunchLog) -> float:
    """Return the seconds from the first launch of a log to the last, 0 of an empty one."""
    return int(np.ptp(log.launch_us)) / 1e6 if len(log) else 0.0


def _by_name(log: LaunchLog, values: Int64, settings: AnalysisSettings) -> list[tuple[int | None, Label, Numbers]]:
    """Return code, label and ascending values of the busiest names, then of all requests with the code None."""
    if not len(log):
        return []
    grouped = order_by_group(values, log.label, len(log.labels))
    names = [(code, log.labels[code], grouped.group(code)) for code in busiest_labels(log, settings.max_names)]
    if np.count_nonzero(np.diff(grouped.bounds)) > 1:
        grouped = order_by_group(values, np.zeros(len(values), dtype=np.int8), 1)
    return [*names, (None, TOTAL, grouped.values)]


def answered(ordered: Numbers) -> Numbers:
    """Return the known response times of ascending ones; a negative value stands for an unknown time."""
    return ordered[int(np.searchsorted(ordered, 0)) :]


def known_responses(response_us: Int64) -> Int64:
    """Return the known response times in their order, as :func:`answered` does for ascending ones.

    >>> known_responses(np.array([700, -1, 300])).tolist()
    [700, 300]
    """
    return response_us if not len(response_us) or response_us.min() >= 0 else response_us[response_us >= 0]


def part_figures(
    response_us: Int64, failures: int, gaps_us: Int64, rate: float, duration_s: float, rule: str
) -> StageFigures:
    """Return the figures of a part of a run: response times in milliseconds, and the CoV of the gaps."""
    known = known_responses(response_us)
    return {
        "duration_s": duration_s, "n": len(response_us), "failures": failures, "rate": rate,
        "mean_ms": float(known.mean()) / 1e3 if len(known) else math.nan,
        **five_percentiles(percentiles(known, QUANTILES, rule)), "cov": coefficient_of_variation(gaps_us),
    }  # fmt: skip
