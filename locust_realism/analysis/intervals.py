"""Times between launches: the table that tells independent users from bunches, and the CoV by size of user group.

Launches are taken in order of launch time whatever their order in the file (completion order has negative gaps), ties
stay as gaps of 0, and failed requests count: dropping them first would merge the gaps around them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from locust_realism.analysis.percentiles import Ascending, count_codes, order_by_group, sorted_percentiles
from locust_realism.analysis.settings import AnalysisSettings
from locust_realism.analysis.sums import deviations
from locust_realism.recording.launches import MISSING, ROW_DTYPES, LaunchLog

AGGREGATED = "Aggregated"
LOW_SIZES = (*range(1, 11), *range(15, 51, 5), 75, 100, 125, 150, 175, 200)
"""Group sizes of the published tables; beyond them the ladder grows by half each step."""

Int64 = NDArray[np.int64]
Row = dict[str, Any]
TABLE_QUANTILES = (0.5, 0.9, 0.95, 0.99)


def in_launch_order(log: LaunchLog, *, in_place: bool = False) -> LaunchLog:
    """The log with rows by launch time; the log itself where they are in that order already.

    With ``in_place`` the columns' own memory is reordered, one column at a time, so that no second copy of a large log
    is ever held; for a caller that has just read the log and keeps no other hold on it.
    """
    launches = log.launch_us
    if bool((launches[1:] >= launches[:-1]).all()):
        return log
    order = np.argsort(launches, kind="stable")
    if not in_place:
        return log.take(order)
    changed: dict[str, Any] = {}
    for name in ROW_DTYPES:
        column = getattr(log, name)
        if column.flags.writeable:
            column[:] = column[order]
        else:
            changed[name] = column[order]
    return replace(log, **changed)


def coefficient_of_variation(values: NDArray[Any], mean: float | None = None) -> float:
    """sdev / mean with the sample standard deviation (n - 1); NaN below two values or where the mean is 0.

    ``mean`` saves a pass over the values where it is known.

    >>> coefficient_of_variation(np.array([1, 2, 3]))
    0.5
    """
    n = len(values)
    if n < 2:
        return math.nan
    if mean is None:
        mean = float(values.mean())
    # Deviations from a whole number near the mean are exact for integers; one pass then gives their square sum.
    total, squares = deviations(values, round(mean))
    variance = max(squares - total * total / n, 0.0) / (n - 1)
    return math.sqrt(variance) / mean if mean else math.nan


def interval_row(launches: Int64, *, rule: str = "nearest_rank", last_response_us: int | None = None) -> Row:
    """One row of the table of inter-launch times, from launch times in ascending order, in microseconds.

    ``n`` counts the gaps, one less than ``launches``. The rate is 1 / mean gap, or, with the response time of the last
    launch given, n / (t_last + R_last - t_first) as the published tables have it. Times in the row are milliseconds.

    >>> row = interval_row(np.array([0, 1000, 3000, 6000]))
    >>> row["n"], row["rate"], row["mean_ms"], row["sdev_ms"], row["cov"]
    (3, 500.0, 2.0, 1.0, 0.5)
    """
    gaps = np.diff(launches)
    n = len(gaps)
    mean = int(launches[-1] - launches[0]) / n if n else math.nan
    cov = coefficient_of_variation(gaps, mean)
    span = int(launches[-1] - launches[0]) + (last_response_us or 0) if n else 0
    gaps.sort()
    return {"launches": len(launches)} | gap_row(gaps, mean, cov, span, rule)


def gap_row(ordered: Ascending, mean_us: float, cov: float, span_us: int, rule: str) -> Row:
    """A row of the table from ascending gaps whose mean and CoV are known; the rate is their number / ``span_us``."""
    n, mean, span = len(ordered), mean_us / 1e3, span_us
    p50, p90, p95, p99 = (sorted_percentiles(ordered, TABLE_QUANTILES, rule) / 1e3).tolist()
    return {
        "n": n,
        "rate": 1e6 * n / span if span else math.nan,
        "median_ms": p50,
        "mean_ms": mean,
        "sdev_ms": cov * mean,
        "cov": cov,
        "p50_ms": p50,
        "p90_ms": p90,
        "p95_ms": p95,
        "p99_ms": p99,
        "min_ms": int(ordered[0]) / 1e3 if n else math.nan,
        "max_ms": int(ordered[n - 1]) / 1e3 if n else math.nan,
    }


def busiest_labels(log: LaunchLog, limit: int) -> list[int]:
    """Codes of the labels that occur, at most ``limit`` and then the most frequent, in order of name and method."""
    counts = count_codes(log.label, len(log.labels))
    present = np.flatnonzero(counts)
    kept = sorted(present.tolist(), key=lambda code: -int(counts[code]))[:limit]
    return sorted(kept, key=lambda code: (log.labels[code].name, log.labels[code].method))


def launch_table(log: LaunchLog, settings: AnalysisSettings | None = None) -> list[Row]:
    """Inter-launch times of every name and method, and of all launches, in this order; rows as :func:`interval_row`.

    ``log`` is in launch order (:func:`in_launch_order`).
    """
    settings = settings or AnalysisSettings()
    if not len(log):
        return []
    grouped = order_by_group(log.launch_us - log.launch_us[0], log.label, len(log.labels))
    rows = []
    for code in busiest_labels(log, settings.max_names):
        launches = grouped.group(code).astype(np.int64)
        last = _last_response(log, settings, code)
        head = {"label": log.labels[code].name, "method": log.labels[code].method}
        rows.append(head | interval_row(launches, rule=settings.percentile_rule, last_response_us=last))
    last = _last_response(log, settings)
    total = interval_row(log.launch_us, rule=settings.percentile_rule, last_response_us=last)
    return [*rows, {"label": AGGREGATED, "method": "", **total}]


def _last_response(log: LaunchLog, settings: AnalysisSettings, code: int | None = None) -> int | None:
    if settings.rate_convention != "toolkit":
        return None
    row = len(log) - 1 if code is None else int(np.flatnonzero(log.label == code)[-1])
    return int(log.response_us[row])


def user_ranks(log: LaunchLog) -> tuple[NDArray[Any], int]:
    """Position of each launch's user, from 0, and the number of users; MISSING where no user is known.

    Users are counted by concurrency slot (a person who comes and goes would have few launches), in numeric order of the
    slot and interleaved over the workers, so that a group of k users is spread over all of them.

    >>> log = LaunchLog.build([0, 1, 2, 3], 1, slot=[10, 2, 2, -1], worker=[0, 1, 0, 0])
    >>> ranks, users = user_ranks(log)
    >>> ranks.tolist(), users
    ([2, 1, 0, -1], 3)
    """
    known = log.slot >= 0
    workers = int(log.worker.max(initial=0)) + 1
    key = np.where(known, log.slot.astype(np.int64) * workers + log.worker, np.int64(MISSING))
    size = int(key.max(initial=-1)) + 1
    if size <= max(4 * len(log), 1_000_000):
        present = np.zeros(size + 1, dtype=np.bool_)
        present[key] = True  # MISSING is the last place, which is then cleared
        present[-1] = False
        position = np.cumsum(present, dtype=np.int32) - np.int32(1)
        position[-1] = MISSING
        return position[key], int(present.sum())
    users, ranks = np.unique(key, return_inverse=True)
    missing = int(users[0] == MISSING)
    return ranks.astype(np.int32) - np.int32(missing), len(users) - missing


def default_group_sizes(users: int) -> list[int]:
    """Sizes from 1 to ``users``: those of the published tables, then half as many again at each step.

    >>> default_group_sizes(12), default_group_sizes(500)[-4:]
    ([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12], [200, 300, 450, 500])
    """
    sizes = [size for size in LOW_SIZES if size < users]
    while sizes and sizes[-1] >= LOW_SIZES[-1] and sizes[-1] * 3 // 2 < users:
        sizes.append(sizes[-1] * 3 // 2)
    return [*sizes, users] if users else []


def group_table(
    log: LaunchLog, settings: AnalysisSettings | None = None, *, sizes: Iterable[int] | None = None
) -> list[Row]:
    """CoV of the inter-launch times of the first 1, 2, 3 ... users together; ``log`` in launch order.

    Rows have users, n (gaps), rate, mean_ms, sdev_ms and cov. Empty where the log knows no users.
    """
    settings = settings or AnalysisSettings()
    ranks, users = user_ranks(log)
    chosen: Sequence[int] = sorted(set(sizes or settings.group_sizes or default_group_sizes(users)))
    # Floats hold microseconds since the first launch exactly, and one column less is touched for every size.
    launches = (log.launch_us - log.launch_us[:1]).astype(np.float64)
    # The answer to the last launch is needed by the published rate only.
    response = log.response_us if settings.rate_convention == "toolkit" else None
    if users < 2**15:
        ranks = ranks.astype(np.int16)
    rows: list[Row] = []
    for size in reversed([size for size in chosen if size <= users]):
        member = (ranks < size) & (ranks >= 0)
        if not member.all():
            ranks, launches = ranks[member], launches[member]
            response = None if response is None else response[member]
        last = int(response[-1]) if response is not None and len(response) else 0
        n = max(len(launches) - 1, 0)
        span = float(launches[-1] - launches[0]) if n else 0.0
        mean = span / n if n else math.nan
        cov = coefficient_of_variation(np.diff(launches), mean)
        rate = 1e6 * n / (span + last) if span + last else math.nan
        row = {"users": size, "n": n, "rate": rate, "mean_ms": mean / 1e3, "sdev_ms": cov * mean / 1e3, "cov": cov}
        rows.append(row)
    return rows[::-1]
