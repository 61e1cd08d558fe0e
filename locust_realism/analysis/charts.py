"""Curves of the charts: plain lists, small enough to send to a page every two seconds.

The tabs, the HTML report and a notebook draw the same curves from the ``charts`` key of the summary. A run of any
length has at most ``MAX_BINS`` points over time and ``MAX_LABELS`` names.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from locust_realism.analysis import document as doc
from locust_realism.analysis.percentiles import Floats, Int64, Numbers
from locust_realism.analysis.stats.intervals import TOTAL, in_launch_order
from locust_realism.analysis.stats.responses import answered, span_s
from locust_realism.analysis.verdict.dispersion import Profile
from locust_realism.recording.launches import MISSING, LaunchLog

MAX_BINS = 240
"""Most points of a curve over time."""
MAX_LABELS = 40
"""Most names with curves of their own: the most requested ones."""
GAP_BINS = 48
GAP_SPAN = 8.0
"""Span of the histogram of inter-launch times in means; e**-8 of exponential gaps, 3 in 10,000, lie beyond."""
DENSITY_BINS_PER_DECADE = 24
MIN_GAPS = 30
"""Fewest gaps of a bin with a CoV: its standard error is then about 0.18."""
COV_GAPS = 100
"""Least mean number of gaps in a step of the CoV's own curve: its standard error is then 0.1 or less."""
BIN_WIDTHS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400)


def chart_data(log: LaunchLog, *, origin_us: int | None = None, planned: Profile | None = None) -> doc.Charts:
    """Return the curves of a log: over time, inter-launch times, response times.

    ``origin_us`` is the start of the run in epoch microseconds, zero of ``over_time.t_s``, by default the first launch,
    so that the curve of a window keeps the run's axis. ``planned`` adds ``over_time.planned_rate``. Lists by name begin
    with Aggregated; ``names_left_out`` counts the names beyond ``MAX_LABELS``.

    >>> log = LaunchLog.build(launch_us=[0, 1_000_000, 3_000_000], response_us=[2000, 4000, 9000], names="home")
    >>> curves = chart_data(log)
    >>> curves["over_time"]["rate"], curves["over_time"]["p50_ms"]
    ([1.0, 1.0, 0.0, 1.0], [2.0, 4.0, None, 9.0])
    """
    curves: doc.Charts = {
        "origin_us": origin_us,
        "over_time": {
            "t_s": [], "rate": [], "failures": [], "cov": [], "p50_ms": [], "p95_ms": [], "p99_ms": [], "users": [],
            "width_s": [], "end_s": [],
        },
        "cov_over_time": {"t_s": [], "n": [], "cov": [], "width_s": []},
        "as_locust": [], "interlaunch": [], "response": [], "names_left_out": 0,
    }  # fmt: skip
    if not len(log):
        return curves
    log = in_launch_order(log)
    curves["origin_us"] = origin = int(log.launch_us[0]) if origin_us is None else origin_us
    curves["over_time"] = over_time(log, origin_us=origin, planned=planned)
    curves["cov_over_time"] = cov_over_time(log, origin_us=origin)
    counts = np.bincount(log.label, minlength=len(log.labels))
    names = int(np.count_nonzero(counts))
    curves["names_left_out"] = max(0, names - MAX_LABELS)
    for code in (None, *np.argsort(-counts, kind="stable")[: min(MAX_LABELS, names)].tolist()):
        label = TOTAL if code is None else log.labels[code]
        part = slice(None) if code is None else np.flatnonzero(log.label == code)
        named: doc.NamedRow = {"label": label.name, "method": label.method}
        curves["interlaunch"].append({**named, **gap_histogram(log.launch_us[part])})
        times = answered(np.sort(log.response_us[part]))
        if len(times):
            curves["as_locust"].append({**named, **as_locust_shows(times)})
            curves["response"].append({**named, **response_curves(times)})
    return curves


def _bins(log: LaunchLog, origin_us: int, least_s: float = 0.0) -> tuple[int, Int64, list[tuple[int, int]]]:
    """Return the width of the bins, their edges since ``origin_us``, all in whole seconds, and the rows of each."""
    first, last = ((int(log.launch_us[at]) - origin_us) / 1e6 for at in (0, -1))
    width = bin_width_s(last - first, least_s)
    edges = np.arange(math.floor(first / width), math.floor(last / width) + 2, dtype=np.int64) * width
    cuts = np.searchsorted(log.launch_us, origin_us + edges * 1_000_000).tolist()
    return width, edges, list(pairwise(cuts))


def over_time(log: LaunchLog, *, origin_us: int, planned: Profile | None = None) -> doc.OverTime:
    """Return rate, failures, CoV, response-time percentiles and users in equal bins; ``t_s`` is their middle.

    ``width_s`` and ``end_s`` hold one number each: the width of a bin, and the last launch, which a bin may outlast.
    ``log`` is in launch order. Bins are a whole number of seconds from ``origin_us`` on. A bin without launches has
    None for its percentiles, one with fewer than ``MIN_GAPS`` gaps None for its CoV.
    """
    width, edges, parts = _bins(log, origin_us)
    failed = log.failed
    p50, p95, p99 = zip(*(_percentiles_ms(log.response_us[a:b]) for a, b in parts), strict=True)
    columns: doc.OverTime = {
        "t_s": (edges[:-1] + width / 2).tolist(),
        "rate": [(b - a) / width for a, b in parts],
        "failures": [int(failed[a:b].sum()) / width for a, b in parts],
        "cov": [_cov(log.launch_us[a:b]) for a, b in parts],
        "p50_ms": list(p50), "p95_ms": list(p95), "p99_ms": list(p99),
        "users": [_mean_known(log.users[a:b]) for a, b in parts],
        "width_s": [width],
        "end_s": [(int(log.launch_us[-1]) - origin_us) / 1e6],
    }  # fmt: skip
    if planned is not None:
        columns["planned_rate"] = _rounded(np.diff(planned.cumulative(np.maximum(0.0, edges))) / width)
    return columns


def cov_over_time(log: LaunchLog, *, origin_us: int) -> doc.CovOverTime:
    """Return the CoV in steps: ``t_s`` (the middle), ``n`` gaps, ``cov``, and the single ``width_s``.

    A step is the narrowest round time, at least that of :func:`over_time`, that holds ``COV_GAPS`` gaps on average: at
    2 launches a second the CoV of a second is chance. ``log`` is in launch order and not empty.

    >>> log = LaunchLog.build(launch_us=np.arange(100) * 500_000, response_us=1000, names="home")
    >>> found = cov_over_time(log, origin_us=0)
    >>> found["width_s"], found["n"], found["cov"]
    ([60], [99], [0.0])
    """
    launches = log.launch_us
    width, edges, parts = _bins(log, origin_us, COV_GAPS * span_s(log) / len(launches))
    return {
        "t_s": (edges[:-1] + width / 2).tolist(),
        "n": [max(0, b - a - 1) for a, b in parts],
        "cov": [_cov(launches[a:b]) for a, b in parts],
        "width_s": [width],
    }


def bin_width_s(span_s: float, least_s: float = 0.0) -> int:
    """Return the narrowest round width in seconds, ``least_s`` or more, with at most ``MAX_BINS`` bins in a span.

    >>> bin_width_s(60), bin_width_s(1000), bin_width_s(86_400), bin_width_s(60, 7)
    (1, 5, 600, 10)
    """
    least_s = max(span_s / (MAX_BINS - 1), least_s)
    return next((width for width in BIN_WIDTHS_S if width >= least_s), 86_400 * math.ceil(least_s / 86_400))


def gap_histogram(launch_us: Int64) -> doc.GapHistogram:
    """Return the histogram of the inter-launch times of sorted launches, beside that of exponential gaps of this mean.

    ``edges_ms`` has one more value than there are bins; ``expected`` counts are n (exp(-a/m) - exp(-b/m));
    ``beyond`` and ``beyond_expected`` count the gaps longer than the last edge.
    """
    gaps = np.diff(launch_us).astype(np.float64) / 1e3
    n = len(gaps)
    mean = float(gaps.mean()) if n else 0.0
    if mean <= 0:
        return {
            "n": n, "mean_ms": None, "edges_ms": [], "counts": [], "expected": [], "beyond": 0, "beyond_expected": 0.0
        }  # fmt: skip
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


def response_curves(times: Numbers) -> doc.ResponseCurve:
    """Return the percentile curve and the density of ascending response times in microseconds.

    ``tail`` holds 1/(1-q), with 2, 10, 20, 100 and so on among them, and ``tail_ms`` the nearest-rank quantile q there,
    up to the largest value; ``density_ms`` holds bin middles equally spaced in log(time) and ``density`` the share of
    requests in each.
    """
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
        "tail_ms": [*(times[ranks] / 1e3).tolist(), float(times[-1]) / 1e3],
        "density_ms": _rounded(middles),
        "density": _rounded(counts / n),
    }


def as_locust_shows(times: Numbers) -> doc.FourPercentiles:
    """Return percentiles in milliseconds as Locust's own table has them: times are rounded first, then ranked.

    Locust rounds to 1 ms below 100 ms, to 10 ms below 1 s, to 100 ms below 10 s and to 1 s above, counts the rounded
    values, and takes the one at rank floor(n p) + 1. Rounding keeps the order of ``times``, which are ascending
    microseconds.

    >>> as_locust_shows(np.array([104_900, 348_000, 1_449_000]))["p50_ms"]
    350.0
    """

    def shown(percent: int) -> float:
        ms = float(times[min(len(times) - 1, len(times) * percent // 100)]) / 1e3
        places = 0 if ms < 100 else -1 if ms < 1000 else -2 if ms < 10_000 else -3
        return float(round(ms, places))

    return {"p50_ms": shown(50), "p90_ms": shown(90), "p95_ms": shown(95), "p99_ms": shown(99)}


def _percentiles_ms(response_us: Int64) -> list[float | None]:
    """Return p50, p95 and p99 of the known response times by nearest rank, in milliseconds."""
    times = answered(np.sort(response_us))
    return [float(times[-(-len(times) * p // 100) - 1]) / 1e3 if len(times) else None for p in (50, 95, 99)]


def _cov(launches: Int64) -> float | None:
    gaps = np.diff(launches).astype(np.float64)
    if len(gaps) < MIN_GAPS or gaps.mean() <= 0:
        return None
    return float(f"{gaps.std(ddof=1) / gaps.mean():.6g}")


def _mean_known(users: NDArray[np.int32]) -> float | None:
    known = users[users != MISSING]
    return float(f"{known.mean():.6g}") if len(known) else None


def _rounded(values: Floats) -> list[float]:
    """Return values with six significant digits: a chart shows no more, and the text is a third as long."""
    return [float(f"{value:.6g}") for value in values.tolist()]
