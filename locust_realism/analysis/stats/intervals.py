"""Times between launches: rows by name, CoV by size of user group, and exact sums over long columns.

Launches are taken in order of launch time (completion order has negative gaps). Ties stay as gaps of 0. Failed requests
count: without them the gaps around them would merge.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from locust_realism.analysis.document import GapRow, GroupRow, LaunchRow
from locust_realism.analysis.percentiles import (
    QUANTILES,
    Ascending,
    Floats,
    Int64,
    Integers,
    Numbers,
    count_codes,
    four_percentiles,
    order_by_group,
    sorted_percentiles,
)
from locust_realism.analysis.settings import AnalysisSettings
from locust_realism.recording.launches import MISSING, ROW_DTYPES, Label, LaunchLog

AGGREGATED = "Aggregated"
TOTAL = Label("", AGGREGATED)
"""Label of the row of all requests."""
LOW_SIZES = (*range(1, 11), *range(15, 51, 5), 75, 100, 125, 150, 175, 200)
"""Group sizes of the published tables; each size beyond them is half as large again."""
TABLE_QUANTILES = QUANTILES[:4]
DEFAULT_SETTINGS = AnalysisSettings()

PIECE = 8192
"""Values in a piece of a sum: 64 KB as floats.

A longer inner product would go to several threads of numpy's BLAS library, which wait for each other in a busy loop: a
third more processor time on two cores, taken from the test that runs beside.
"""


def inner_product(a: Floats, b: Floats) -> float:
    """Return the sum of a[i] b[i] over arrays of equal length.

    >>> inner_product(np.arange(20_000.0), np.ones(20_000))
    199990000.0
    """
    return float(sum(float(a[at : at + PIECE] @ b[at : at + PIECE]) for at in range(0, len(a), PIECE)))


def lagged_products(values: Floats, lags: int) -> list[float]:
    """Return the sum of v[i] v[i + lag] for each lag from 0 to ``lags``, in one pass over the values.

    >>> lagged_products(np.array([1.0, 2.0, 3.0]), 2)
    [14.0, 8.0, 3.0]
    """
    sums = [0.0] * (lags + 1)
    for at in range(0, len(values), PIECE):
        piece = values[at : at + PIECE]
        for lag in range(lags + 1):
            later = values[at + lag : at + lag + PIECE]
            sums[lag] += float(piece[: len(later)] @ later)
    return sums


def in_launch_order(log: LaunchLog, *, in_place: bool = False) -> LaunchLog:
    """Return the log with its rows by launch time, the log itself if they are in that order already.

    ``in_place`` reorders the columns' own memory, one column at a time, so that no second copy of a large log exists;
    the caller must hold the only reference to the log.
    """
    launches = log.launch_us
    if bool((launches[1:] >= launches[:-1]).all()):
        return log
    order = np.argsort(launches, kind="stable")
    if not in_place:
        return log.take(order)
    changed: dict[str, Any] = {}
    for name in ROW_DTYPES:
        column: Integers = getattr(log, name)
        if column.flags.writeable:
            column[:] = column[order]
        else:
            changed[name] = column[order]
    return replace(log, **changed)


def coefficient_of_variation(values: Numbers, mean: float | None = None) -> float:
    """Return stddev / mean with the sample standard deviation (n - 1); NaN below two values or for a mean of 0.

    A known ``mean`` saves a pass over the values.

    >>> coefficient_of_variation(np.array([1, 2, 3]))
    0.5
    """
    n = len(values)
    if n < 2:
        return math.nan
    mean = float(values.mean()) if mean is None else mean
    total = squares = 0.0
    for at in range(0, n, PIECE):
        off = values[at : at + PIECE].astype(np.float64)  # unsigned integers would wrap
        off -= round(mean)  # deviations from a whole number near the mean are exact for integers
        total += float(off.sum())
        squares += float(off @ off)
    variance = max(squares - total * total / n, 0.0) / (n - 1)
    return math.sqrt(variance) / mean if mean else math.nan


def interval_row(launches: Int64, *, rule: str = "nearest_rank", last_response_us: int = 0) -> GapRow:
    """Return one row of the table of inter-launch times, from ascending launch times in microseconds.

    ``n`` counts the gaps, one less than ``launches``. The rate is 1 / mean gap, or, with the response time of the last
    launch given, n / (t_last + R_last - t_first) as the published tables have it. Times in the row are milliseconds.

    >>> row = interval_row(np.array([0, 1000, 3000, 6000]))
    >>> row["n"], row["rate"], row["mean_ms"], row["sdev_ms"], row["cov"]
    (3, 500.0, 2.0, 1.0, 0.5)
    """
    gaps = np.diff(launches)
    n = len(gaps)
    span = int(launches[-1] - launches[0]) if n else 0
    mean = span / n if n else math.nan
    cov = coefficient_of_variation(gaps, mean)
    gaps.sort()
    return gap_row(gaps, len(launches), mean, cov, span + last_response_us if n else 0, rule)


def gap_row(ordered: Ascending, launches: int, mean_us: float, cov: float, span_us: int, rule: str) -> GapRow:
    """Return a row of the table from ascending gaps of known mean and CoV; the rate is their number / ``span_us``."""
    n, mean = len(ordered), mean_us / 1e3
    found = four_percentiles(sorted_percentiles(ordered, TABLE_QUANTILES, rule))
    low, high = (float(ordered[at]) / 1e3 if n else math.nan for at in (0, n - 1))
    return {
        "launches": launches, "n": n, "rate": 1e6 * n / span_us if span_us else math.nan,
        "median_ms": found["p50_ms"], "mean_ms": mean, "sdev_ms": cov * mean, "cov": cov,
        **found, "min_ms": low, "max_ms": high,
    }  # fmt: skip


def busiest_labels(log: LaunchLog, limit: int) -> list[int]:
    """Return the codes of the ``limit`` most frequent labels, in order of name and method."""
    counts = count_codes(log.label, len(log.labels))
    kept = sorted(np.flatnonzero(counts).tolist(), key=lambda code: -int(counts[code]))[:limit]
    return sorted(kept, key=lambda code: (log.labels[code].name, log.labels[code].method))


def launch_table(log: LaunchLog, settings: AnalysisSettings = DEFAULT_SETTINGS) -> list[LaunchRow]:
    """Return the inter-launch times by name and method, those of all launches last; rows as :func:`interval_row`.

    ``log`` is in launch order (:func:`in_launch_order`).
    """
    if not len(log):
        return []
    grouped = order_by_group(log.launch_us - log.launch_us[0], log.label, len(log.labels))
    rows: list[LaunchRow] = []
    is_published = settings.rate_convention == "toolkit"
    for code in (*busiest_labels(log, settings.max_names), None):
        label = TOTAL if code is None else log.labels[code]
        launches = log.launch_us if code is None else grouped.group(code).astype(np.int64)
        last = log.response_us[slice(None) if code is None else log.label == code][-1] if is_published else 0
        found = interval_row(launches, rule=settings.percentile_rule, last_response_us=int(last))
        rows.append({"label": label.name, "method": label.method, **found})
    return rows


def user_ranks(log: LaunchLog) -> tuple[NDArray[np.int32], int]:
    """Return the rank of each launch's user, from 0 (MISSING for an unknown user), and the number of users.

    A user is a concurrency slot of a worker (a person who comes and goes would have few launches). Ranks follow the
    numeric order of the slots, interleaved over the workers, so that a group of k users is spread over all of them.

    >>> log = LaunchLog.build([0, 1, 2, 3], 1, slot=[10, 2, 2, -1], worker=[0, 1, 0, 0])
    >>> ranks, users = user_ranks(log)
    >>> ranks.tolist(), users
    ([2, 1, 0, -1], 3)
    """
    workers = int(log.worker.max(initial=0)) + 1
    key = np.where(log.slot >= 0, log.slot.astype(np.int64) * workers + log.worker, np.int64(MISSING))
    size = int(key.max(initial=-1)) + 1
    if size <= max(4 * len(log), 1_000_000):
        present = np.zeros(size + 1, dtype=np.bool_)
        present[key] = True  # MISSING, -1, sets the last place, which the next line clears
        present[-1] = False
        position = np.cumsum(present, dtype=np.int32) - np.int32(1)
        position[-1] = MISSING
        return position[key], int(present.sum())
    users, ranks = np.unique(key, return_inverse=True)
    missing = int(users[0] == MISSING)
    return ranks.astype(np.int32) - np.int32(missing), len(users) - missing


def default_group_sizes(users: int) -> list[int]:
    """Return the sizes from 1 to ``users``: those of the published tables, then each half as large again.

    >>> default_group_sizes(12), default_group_sizes(500)[-4:]
    ([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12], [200, 300, 450, 500])
    """
    sizes = [size for size in LOW_SIZES if size < users]
    while sizes and sizes[-1] >= LOW_SIZES[-1] and sizes[-1] * 3 // 2 < users:
        sizes.append(sizes[-1] * 3 // 2)
    return [*sizes, users] if users else []


def group_table(
    log: LaunchLog, settings: AnalysisSettings = DEFAULT_SETTINGS, *, sizes: Iterable[int] | None = None
) -> list[GroupRow]:
    """Return the CoV of the inter-launch times of the first 1, 2, 3 ... users together; empty without known users.

    ``log`` is in launch order; ``n`` of a row counts gaps.
    """
    ranks, users = user_ranks(log)
    chosen = sorted(set(sizes or settings.group_sizes or default_group_sizes(users)))
    # Floats hold microseconds since the first launch exactly; each size then copies one column less.
    launches = (log.launch_us - log.launch_us[:1]).astype(np.float64)
    # Only the published rate reads the response to the last launch.
    response = log.response_us if settings.rate_convention == "toolkit" else None
    member_of: Integers = ranks.astype(np.int16) if users < 2**15 else ranks
    rows: list[GroupRow] = []
    for size in reversed([size for size in chosen if size <= users]):
        member = (member_of < size) & (member_of >= 0)
        if not member.all():
            member_of, launches = member_of[member], launches[member]
            response = None if response is None else response[member]
        last = int(response[-1]) if response is not None and len(response) else 0
        n = max(len(launches) - 1, 0)
        span = float(launches[-1] - launches[0]) if n else 0.0
        mean = span / n if n else math.nan
        cov = coefficient_of_variation(np.diff(launches), mean)
        rate = 1e6 * n / (span + last) if span + last else math.nan
        rows.append(
            {"users": size, "n": n, "rate": rate, "mean_ms": mean / 1e3, "sdev_ms": cov * mean / 1e3, "cov": cov}
        )
    return rows[::-1]
