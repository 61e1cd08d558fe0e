"""Tables of response times and of response sizes: exact percentiles by name and method, and of all requests."""

from __future__ import annotations

import math
from collections.abc import Sequence
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
    percentiles,
    sorted_percentiles,
)
from locust_realism.analysis.settings import AnalysisSettings
from locust_realism.analysis.stats.batches import BatchCounts, Ranks, effective_n, limit_ranks
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


class Limits(NamedTuple):
    """Ranks of the limits of each percentile of the table, and the effective number of values.

    This number is NaN without values, and where several are of launches at one instant.
    """

    ranks: tuple[Ranks, ...]
    effective_n: float


UNLIMITED = Limits((Ranks(None, None, 0.0),) * len(QUANTILES), math.nan)


def limits_of(counts: BatchCounts, group: int, confidence: float) -> Limits:
    """Return the limits of a group of response times, whose percentiles at :data:`QUANTILES` were counted."""
    below, number = counts.of(group)
    if not number.sum() or number.max() == number.sum() > 1:
        return UNLIMITED
    effective = effective_n(below[QUANTILES.index(0.5)], number)
    ranks = (limit_ranks(q, each, number, effective, confidence) for q, each in zip(QUANTILES, below, strict=True))
    return Limits(tuple(ranks), effective)


def response_row(
    label: Label, n: int, failures: int, span_s: float, known: Stats, limits: Limits, settings: AnalysisSettings
) -> ResponseRow:
    """Return a row of the table of response times.

    ``n`` counts the requests of the label, ``known`` are their known response times in microseconds, ``span_s`` is the
    time from the first launch to the last of all names.
    """
    low, *times, high = sorted_percentiles(known.ordered, (0, *QUANTILES, 1), settings.percentile_rule).tolist()
    mean_ms = known.mean / 1e3
    p50, p90, p95, p99, p999 = (
        [float(known.ordered[each.low - 1]) / 1e3, float(known.ordered[each.high - 1]) / 1e3]
        if each.low is not None and each.high is not None
        else None
        for each in limits.ranks
    )
    return {
        "label": label.name, "method": label.method,
        "n": n, "failures": failures, "rate": n / span_s if span_s else math.nan,
        "mean_ms": mean_ms, "sdev_ms": known.cov * mean_ms, "cov": known.cov,
        **five_percentiles(np.array(times)),
        "min_ms": low / 1e3, "max_ms": high / 1e3,
        "p50_interval_ms": p50, "p90_interval_ms": p90, "p95_interval_ms": p95, "p99_interval_ms": p99,
        "p999_interval_ms": p999, "effective_n": limits.effective_n,
        "interval_note": interval_note(len(known.ordered), limits.effective_n, (p50, p90, p95, p99, p999)),
    }  # fmt: skip


ALONE, TOGETHER = 6, 25
"""A run's effective values beyond a percentile from which nine of ten have its interval: independent ones, M/M/1.

Measured on 100 to 300,000 requests. The effective values of a short run vary by a factor of two to three themselves.
"""
NAMES = ("p50", "p90", "p95", "p99", "p99.9")


def interval_note(n: int, effective: float, intervals: Sequence[object]) -> str | None:
    """Return why some of the intervals are missing and about how much longer a run has them; None if none is.

    ``effective`` is NaN where all launches are at one instant.

    >>> print(interval_note(999, 93.0, [[6.2, 7.9], [21.0, 30.0], [28.1, 40.2], None, None]))
    ... # doctest: +NORMALIZE_WHITESPACE
    999 response times hold about as much as 93 independent ones.
    For a confidence interval run about 30 times as long (p99), 300 (p99.9).
    """
    if not n or None not in intervals:
        return None
    if math.isnan(effective):
        return "All launches are at one instant. Confidence intervals need launches at several instants."
    enough = ALONE + (TOGETHER - ALONE) * (1 - effective / n)
    first, *others = (
        f"{_rounded_up(enough / ((1 - q) * effective)):,}{{}} ({name})"
        for name, q, interval in zip(NAMES, QUANTILES, intervals, strict=True)
        if interval is None
    )
    times = ", ".join([first.format(" times as long"), *(each.format("") for each in others)])
    as_few = f"{n:,} response times hold about as much as {effective:,.0f} independent ones. "
    return f"{as_few if 2 * effective < n else ''}For a confidence interval run about {times}."


def _rounded_up(factor: float) -> int:
    """Return a factor of at least 2 with one digit."""
    unit = int(10 ** max(math.floor(math.log10(factor)), 0))
    return max(math.ceil(factor / unit) * unit, 2)


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
    launches divided by the time from the first launch to the last of all names, so that the rows add up. ``log`` is in
    launch order.

    >>> log = LaunchLog.build([0, 500_000, 1_000_000], [2000, 4000, 9000], names=["a", "b", "a"], failed=[0, 0, 1])
    >>> [(row["label"], row["n"], row["failures"], row["rate"], row["p50_ms"]) for row in response_table(log)]
    [('a', 2, 1, 2.0, 2.0), ('b', 1, 0, 1.0, 4.0), ('Aggregated', 3, 1, 3.0, 4.0)]
    """
    span, failures = span_s(log), count_codes(log.label[log.failed], len(log.labels))
    found = _by_name(log, log.response_us, settings)
    stats = [stats_of(answered(ordered)) for *_, ordered in found]
    limits = _limits(log, [code for code, *_ in found if code is not None], stats, settings) if found else []
    return [
        response_row(
            label, len(ordered), int(failures.sum() if code is None else failures[code]), span, known, each, settings
        )
        for (code, label, ordered), known, each in zip(found, stats, limits, strict=True)
    ]


def _limits(log: LaunchLog, codes: list[int], stats: list[Stats], settings: AnalysisSettings) -> list[Limits]:
    """Return the limits of the names with these codes, then of all requests, in the order of ``stats``."""
    found = np.array([sorted_percentiles(each.ordered, QUANTILES, settings.percentile_rule) for each in stats])
    n = [len(each.ordered) for each in stats]
    everyone = BatchCounts(found[-1:], n[-1:])
    everyone.add(log.launch_us, None, log.response_us)
    total = limits_of(everyone, 0, settings.confidence)
    if len(codes) == 1 and n[0] == n[-1]:
        return [total, total]
    # Names without a row of their own are one more group, which does not count.
    group = np.full(len(log.labels), len(codes), dtype=np.intp)
    group[codes] = np.arange(len(codes))
    by_name = BatchCounts(found[:-1], n[:-1])
    by_name.add(log.launch_us, group[log.label], log.response_us)
    return [*(limits_of(by_name, each, settings.confidence) for each in range(len(codes))), total]


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
    mean = float(known.mean()) if len(known) else math.nan
    return {
        "duration_s": duration_s, "n": len(response_us), "failures": failures, "rate": rate,
        "mean_ms": mean / 1e3, "response_cov": coefficient_of_variation(known, mean),
        **five_percentiles(percentiles(known, QUANTILES, rule)), "cov": coefficient_of_variation(gaps_us),
    }  # fmt: skip
