"""The curves behind the charts: plain lists, small enough to send to a page every two seconds.

The tabs, the HTML report and a notebook draw the same curves from the ``charts`` key of the summary. Every list is
bounded, whatever the length of the run: at most ``MAX_BINS`` points over time and ``MAX_LABELS`` names.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from locust_realism.analysis.responses import answered
from locust_realism.recording.launches import MISSING, LaunchLog

MAX_BINS = 240
"""Most points of a curve over time."""
MAX_LABELS = 40
"""Most names with curves of their own: the ones with most requests."""
GAP_BINS = 48
GAP_SPAN = 8.0
"""The histogram of inter-launch times spans this many means; e**-8 of exponential gaps, 3 in 10,000, lie beyond."""
DENSITY_BINS_PER_DECADE = 24
MIN_GAPS = 30
"""Fewest gaps in a bin for which a CoV is shown: its standard error is then about 0.18."""
COV_GAPS = 100
"""Gaps that a step of the CoV's own curve holds on average, or more: its standard error is then 0.1 or less."""
BIN_WIDTHS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400)
AGGREGATED = "Aggregated"

Floats = NDArray[np.float64]
Int64 = NDArray[np.int64]


class Planned(Protocol):
    """A planned rate: its cumulative rate Lambda(t), t in seconds since the start of the run."""

    def cumulative(self, t: Any, /) -> Any:
        """Expected number of launches from 0 to t."""


def chart_data(log: LaunchLog, *, origin_us: int | None = None, planned: Planned | None = None) -> dict[str, Any]:
    """Curves of a log: over time, inter-launch times, response times.

    ``origin_us`` is the start of the run in epoch microseconds, zero of ``over_time.t_s`` (the first launch when not
    given, so that a window's curve can keep the run's axis); ``planned`` adds ``over_time.planned_rate``. Returns a
    JSON-able dict with keys ``origin_us``, ``over_time``, ``cov_over_time``, ``as_locust``, ``interlaunch`` and
    ``response`` (lists of one dict a name, Aggregated first) and ``names_left_out``, the number of names beyond
    ``MAX_LABELS``.

    >>> log = LaunchLog.build(launch_us=[0, 1_000_000, 3_000_000], response_us=[2000, 4000, 9000], names="home")
    >>> curves = chart_data(log)
    >>> curves["over_time"]["rate"], curves["over_time"]["p50_ms"]
    ([1.0, 1.0, 0.0, 1.0], [2.0, 4.0, None, 9.0])
    """
    if not len(log):
        return {
            "origin_us": origin_us,
            "over_time": _empty_time(),
            "cov_over_time": {key: [] for key in ("t_s", "n", "cov", "width_s")},
            "as_locust": [],
            "interlaunch": [],
            "response": [],
            "names_left_out": 0,
        }
    in_order = bool((np.diff(log.launch_us) >= 0).all())
    ordered = log if in_order else log.take(np.argsort(log.launch_us, kind="stable"))
    origin = int(ordered.launch_us[0]) if origin_us is None else origin_us
    pieces, left_out = _by_label(ordered)
    curves: dict[str, Any] = {
        "origin_us": origin,
        "over_time": over_time(ordered, origin_us=origin, planned=planned),
        "cov_over_time": cov_over_time(ordered, origin_us=origin),
        "names_left_out": left_out,
    }
    keys: dict[str, list[dict[str, Any]]] = {"as_locust": [], "interlaunch": [], "response": []}
    for who, rows in pieces:
        times = answered(np.sort(ordered.response_us[rows]))
        keys["interlaunch"].append(who | gap_histogram(ordered.launch_us[rows]))
        if len(times):
            keys["as_locust"].append(who | as_locust_shows(times))
            keys["response"].append(who | response_curves(times))
    return curves | keys


def over_time(log: LaunchLog, *, origin_us: int, planned: Planned | None = None) -> dict[str, list[Any]]:
    """Rate, failures, CoV, response-time percentiles and users in equal bins; ``t_s`` is the middle of each bin.

    ``width_s`` and ``end_s`` hold one number each: the width of a bin, and the last launch, which a bin may outlast.

    ``log`` is sorted by launch. Bins are a whole number of seconds from ``origin_us`` on. A bin without launches has
    None for its percentiles, one with under ``MIN_GAPS`` gaps None for its CoV.
    """
    launches = log.launch_us
    first, last = (int(launches[0]) - origin_us) / 1e6, (int(launches[-1]) - origin_us) / 1e6
    width = bin_width_s(last - first)
    low = math.floor(first / width)
    edges = origin_us + np.arange(low, math.floor(last / width) + 2, dtype=np.int64) * width * 1_000_000
    cuts = np.searchsorted(launches, edges)
    failed = np.concatenate(([0], np.cumsum(log.failed, dtype=np.int64)))
    columns: dict[str, list[Any]] = _empty_time()
    for i, (a, b) in enumerate(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True)):
        columns["t_s"].append((low + i + 0.5) * width)
        columns["rate"].append((b - a) / width)
        columns["failures"].append(int(failed[b] - failed[a]) / width)
        columns["cov"].append(_cov(launches[a:b]))
        columns["users"].append(_mean_known(log.users[a:b]))
        times = answered(np.sort(log.response_us[a:b]))
        for key, share in (("p50_ms", 50), ("p95_ms", 95), ("p99_ms", 99)):
            columns[key].append(float(times[-(-len(times) * share // 100) - 1]) / 1e3 if len(times) else None)
    columns["width_s"], columns["end_s"] = [width], [last]
    if planned is not None:
        bounds = np.maximum(0, edges - origin_us) / 1e6
        columns["planned_rate"] = _rounded(np.diff(np.asarray(planned.cumulative(bounds), dtype=np.float64)) / width)
    return columns


def cov_over_time(log: LaunchLog, *, origin_us: int) -> dict[str, list[Any]]:
    """CoV in steps long enough for one: ``t_s`` (the middle), ``n`` gaps, ``cov``, and the single ``width_s``.

    A step is the narrowest round time, none narrower than those of :func:`over_time`, that holds ``COV_GAPS`` gaps on
    average: at 2 launches a second a CoV a second could not be told from chance. ``log`` is sorted by launch and not
    empty.

    >>> log = LaunchLog.build(launch_us=np.arange(100) * 500_000, response_us=1000, names="home")
    >>> found = cov_over_time(log, origin_us=0)
    >>> found["width_s"], found["n"], found["cov"]
    ([60], [99], [0.0])
    """
    launches = log.launch_us
    first, last = (int(launches[0]) - origin_us) / 1e6, (int(launches[-1]) - origin_us) / 1e6
    least = bin_width_s(last - first)
    wanted = max(least, COV_GAPS * (last - first) / len(launches))
    width = next((width for width in BIN_WIDTHS_S if width >= wanted), max(least, BIN_WIDTHS_S[-1]))
    steps = np.arange(math.floor(first / width), math.floor(last / width) + 2, dtype=np.int64)
    cuts = np.searchsorted(launches, origin_us + steps * width * 1_000_000)
    found: dict[str, list[Any]] = {"t_s": ((steps[:-1] + 0.5) * width).tolist(), "n": [], "cov": [], "width_s": [width]}
    for a, b in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
        found["n"].append(max(0, b - a - 1))
        found["cov"].append(_cov(launches[a:b]))
    return found


def bin_width_s(span_s: float) -> int:
    """The narrowest round width in seconds with which a span needs at most ``MAX_BINS`` bins.

    >>> bin_width_s(60), bin_width_s(1000), bin_width_s(86_400)
    (1, 5, 600)
    """
    for width in BIN_WIDTHS_S:
        if span_s / width <= MAX_BINS - 1:
            return width
    return 86_400 * math.ceil(span_s / 86_400 / (MAX_BINS - 1))


def gap_histogram(launch_us: Int64) -> dict[str, Any]:
    """Histogram of the inter-launch times of sorted launches beside what exponential gaps of that mean would give.

    Keys: ``n`` gaps, ``mean_ms``, ``edges_ms`` (one more than bins), ``counts``, ``expected`` counts
    n (exp(-a/m) - exp(-b/m)), and ``beyond``/``beyond_expected``: gaps longer than the last edge.
    """
    gaps = np.diff(launch_us).astype(np.float64) / 1e3
    n = len(gaps)
    mean = float(gaps.mean()) if n else 0.0
    if mean <= 0:
        return {
            "n": n,
            "mean_ms": None,
            "edges_ms": [],
            "counts": [],
            "expected": [],
            "beyond": 0,
            "beyond_expected": 0.0,
        }
    edges = np.linspace(0.0, GAP_SPAN * mean, GAP_BINS + 1)
    counts = np.bincount(np.minimum(gaps * (GAP_BINS / edges[-1]), GAP_BINS).astype(np.int64), minlength=GAP_BINS + 1)
    tail = n * np.exp(-edges / mean)
    return {
        "n": n,
        "mean_ms": mean,
        "edges_ms": _rounded(edges),
        "counts": counts[:GAP_BINS].tolist(),
        "expected": _rounded(tail[:-1] - tail[1:]),
        "beyond": int(counts[GAP_BINS]),
        "beyond_expected": float(f"{tail[-1]:.6g}"),
    }


def response_curves(response_us: Int64) -> dict[str, Any]:
    """Percentile curve and density of response times in ascending order.

    ``tail`` holds 1/(1-q), with 2, 10, 20, 100 and so on among them, and ``tail_ms`` the nearest-rank quantile q there,
    up to the largest value; ``density_ms`` holds bin middles equally spaced in log(time) and ``density`` the share of
    requests in each.
    """
    times = np.asarray(response_us)
    n = len(times)
    steps = 10.0 ** (np.arange(math.floor(20 * math.log10(n)) + 1) / 20)
    exact = np.outer(10.0 ** np.arange(math.ceil(math.log10(n)) + 1), [1.0, 2.0, 4.0]).ravel()
    steps = np.unique(np.concatenate((steps, exact[exact <= n])))
    ranks = n - 1 - np.floor(n / steps).astype(np.int64)
    ranks[0] = 0
    positive = np.maximum(times, 1).astype(np.float64) / 1e3
    low = math.floor(math.log10(positive[0]) * DENSITY_BINS_PER_DECADE)
    which = np.floor(np.log10(positive) * DENSITY_BINS_PER_DECADE).astype(np.int64) - low
    counts = np.bincount(which)
    middles = 10.0 ** ((low + np.arange(len(counts)) + 0.5) / DENSITY_BINS_PER_DECADE)
    return {
        "n": n,
        "tail": [*_rounded(steps), n],
        "tail_ms": [*(times[np.maximum(ranks, 0)] / 1e3).tolist(), float(times[-1]) / 1e3],
        "density_ms": _rounded(middles),
        "density": _rounded(counts / n),
    }


def as_locust_shows(response_us: Int64) -> dict[str, float]:
    """Percentiles in milliseconds as Locust's own table has them: times are rounded first, then ranked.

    Locust rounds to 1 ms below 100 ms, to 10 ms below 1 s, to 100 ms below 10 s and to 1 s above, counts the
    rounded values, and takes the one at rank floor(n p) + 1. Rounding keeps the order: ``response_us`` is ascending.

    >>> as_locust_shows(np.array([104_900, 348_000, 1_449_000]))["p50_ms"]
    350.0
    """
    n = len(response_us)
    shown: dict[str, float] = {}
    for key, share in {"p50_ms": 50, "p90_ms": 90, "p95_ms": 95, "p99_ms": 99}.items():
        ms = float(response_us[min(n - 1, n * share // 100)]) / 1e3
        places = 0 if ms < 100 else -1 if ms < 1000 else -2 if ms < 10_000 else -3
        shown[key] = float(round(ms, places))
    return shown


def _by_label(log: LaunchLog) -> tuple[list[tuple[dict[str, str], Any]], int]:
    """Selections of the rows of all names, then of each of the busiest, and how many names have no curve."""
    counts = np.bincount(log.label, minlength=len(log.labels))
    used = [int(i) for i in np.argsort(-counts, kind="stable") if counts[i]]
    pieces: list[tuple[dict[str, str], Any]] = [({"label": AGGREGATED, "method": ""}, slice(None))]
    for i in used[:MAX_LABELS]:
        pieces.append(({"label": log.labels[i].name, "method": log.labels[i].method}, np.flatnonzero(log.label == i)))
    return pieces, max(0, len(used) - MAX_LABELS)


def _empty_time() -> dict[str, list[Any]]:
    keys = ("t_s", "rate", "failures", "cov", "p50_ms", "p95_ms", "p99_ms", "users", "width_s", "end_s")
    return {key: [] for key in keys}


def _cov(launches: Int64) -> float | None:
    gaps = np.diff(launches).astype(np.float64)
    if len(gaps) < MIN_GAPS or gaps.mean() <= 0:
        return None
    return float(f"{gaps.std(ddof=1) / gaps.mean():.6g}")


def _mean_known(users: NDArray[np.int32]) -> float | None:
    known = users[users != MISSING]
    return float(f"{known.mean():.6g}") if len(known) else None


def _rounded(values: Floats) -> list[float]:
    """Six significant digits: a chart shows no more, and the text sent is a third as long."""
    return [float(f"{value:.6g}") for value in values.tolist()]
