"""Steady state of a run: warm-up by MSER-5, halves and equal segments, and percentiles of windows of samples."""

from __future__ import annotations

import math

import numpy as np

from locust_realism.analysis import document as doc
from locust_realism.analysis.percentiles import (
    QUANTILES,
    Floats,
    Numbers,
    four_percentiles,
    order_by_group,
    percentiles,
    sorted_percentiles,
)
from locust_realism.analysis.settings import AnalysisSettings
from locust_realism.analysis.stats.batches import inflation
from locust_realism.analysis.stats.intervals import coefficient_of_variation
from locust_realism.analysis.stats.responses import answered, known_responses, span_s
from locust_realism.recording.launches import LaunchLog

MSER_BATCH = 5
WARM_UP_ERRORS = 6.0
"""Standard errors by which a warm-up must differ from the rest of the run.

MSER-5 chose the part that differs most, and few batches give a rough error. On M/M/1 at .9 (200 runs of 10,000) the
mean after the cut is .97 of the mean of all at 4 errors, .98 at 6."""
BATCHES = 16
SEGMENTS = 20
"""Equal pieces of time; those of a half measure the variation within it and honour dependence in time."""
JMETER_WINDOW = 20_000
"""Samples from which JMeter's dashboard takes its percentiles (jmeter.reportgenerator.statistic_window)."""
MIN_SEGMENT_ROWS = 50


def mser5(values: Numbers) -> int:
    """Return the number of leading values that are warm-up by MSER-5, at most half of them.

    With b the means of batches of five and d the number of batches left out, MSER-5 minimises
    sum_{i > d} (b_i - mean_{i > d})^2 / (k - d)^2 over d. The result is 0 unless the mean of the leading values differs
    from the rest by more than ``WARM_UP_ERRORS`` standard errors: the minimum also cuts off the high values that a
    steady queue happens to begin with, which leaves a mean too low. Source: K. P. White, M. J. Cobb and S. C. Spratt,
    A comparison of five steady-state truncation heuristics for simulation, Winter Simulation Conference, 2000.

    >>> rng = np.random.default_rng(3)
    >>> values = np.concatenate((np.linspace(50, 5, 200), rng.normal(5, 1, 800)))
    >>> 180 <= mser5(values) <= 220, mser5(values[200:])
    (True, 0)
    """
    k = len(values) // MSER_BATCH
    if k < 10:
        return 0
    means = np.asarray(values[: k * MSER_BATCH], dtype=np.float64).reshape(k, MSER_BATCH).mean(axis=1)
    means -= means.mean()  # the difference of squares below keeps its digits
    left = np.arange(k, 0, -1, dtype=np.float64)
    sums = np.cumsum(means[::-1])[::-1]
    squares = np.cumsum(means[::-1] ** 2)[::-1]
    score = (squares - sums**2 / left) / left**2
    cut = int(np.argmin(score[: k // 2 + 1]))
    return cut * MSER_BATCH if cut and _differs(means[:cut], means[cut:]) else 0


def _differs(first: Floats, rest: Floats) -> bool:
    """Return True if the mean of the first values is far from that of the rest, given the rest's autocorrelation."""
    spread, lasting = float(rest.var()), mean_variance(rest)
    # A mean varies no more than a single value, however short the first part is.
    error = math.sqrt(min(lasting * len(rest) / len(first), spread) + lasting)
    return abs(float(first.mean() - rest.mean())) > WARM_UP_ERRORS * error


def mean_variance(values: Floats) -> float:
    """Return the variance of the mean of consecutive values that depend on each other.

    It is that of ``BATCHES`` means of equal batches, times (1 + r) / (1 - r) for their own lag-1 correlation r.
    NaN for fewer than two values a batch.
    """
    size = len(values) // BATCHES
    if size < 2:
        return math.nan
    means = values[len(values) - size * BATCHES :].reshape(BATCHES, size).mean(axis=1)
    return float(means.var(ddof=1)) / BATCHES * inflation(means - means.mean(), BATCHES)


def warm_up_rows(log: LaunchLog) -> int:
    """Return the number of leading rows of a log in launch order that MSER-5 leaves out, by known response times."""
    known = np.flatnonzero(log.response_us >= 0)
    cut = mser5(log.response_us[known])
    return int(known[cut]) if cut else 0


def stability(
    log: LaunchLog, settings: AnalysisSettings, times_us: Numbers | None = None, *, rate_dispersion: float = 1.0
) -> doc.Stability:
    """Return the halves and equal segments of a log in launch order, and the relative changes between the halves.

    ``times_us`` are the launch times on the axis on which the rate should be constant (rescaled by the plan), by
    default the launch times themselves. The standard errors of the changes come from ten segments in each half and
    from the correlation of neighbouring ones.
    ``rate_dispersion`` is the expected index of dispersion of the launches in half of the run: users that come and go
    make two halves differ by more than Poisson does.
    """
    times = log.launch_us if times_us is None else times_us
    n = len(log)
    if n < SEGMENTS * MIN_SEGMENT_ROWS or times[-1] <= times[0]:
        return {"enough": False, "halves": [], "segments": [], "changes": {}}
    position = (times - times[0]) * (SEGMENTS / (float(times[-1] - times[0]) * (1 + 1e-12)))
    segment = position.astype(np.int8)
    grouped = order_by_group(log.response_us, segment, SEGMENTS)
    known = [answered(grouped.group(g)) for g in range(SEGMENTS)]
    found = np.array([sorted_percentiles(each, rule=settings.percentile_rule) for each in known])
    counts = np.diff(grouped.bounds)
    means = np.array([each.mean() / 1e3 if len(each) else math.nan for each in known])
    edges = np.searchsorted(segment, np.arange(SEGMENTS + 1))
    cuts = log.launch_us[np.minimum(edges, n - 1)]
    segments: list[doc.Segment] = [
        {
            "start_s": float(cuts[g] - cuts[0]) / 1e6, "duration_s": float(cuts[g + 1] - cuts[g]) / 1e6,
            "n": int(counts[g]), "mean_ms": float(means[g]), **four_percentiles(found[g]),
        }
        for g in range(SEGMENTS)
    ]  # fmt: skip
    rate = _change(counts.astype(np.float64), queues=False)
    # Even launches cannot have a smaller error than Poisson ones in two halves of this size.
    rate["standard_error"] = max(rate["standard_error"] or 0.0, 2 * math.sqrt(max(rate_dispersion, 1.0) / n))
    p50, p95 = _change(found[:, 0] / 1e3), _change(found[:, 2] / 1e3)
    changes: doc.Changes = {"p50": p50, "p95": p95, "mean": _change(means), "rate": rate}
    middle = int(edges[SEGMENTS // 2])
    halves = [_piece(log.take(slice(a, b)), settings.percentile_rule) for a, b in ((0, middle), (middle, n))]
    return {"enough": True, "halves": halves, "segments": segments, "changes": changes}


def _change(series: Floats, *, queues: bool = True) -> doc.Change:
    """Return (second - first) / first of the means of the two halves of the segments, and its standard error.

    ``queues`` is True for response times: queues last longer than a segment, so that neighbours share their error.
    """
    half = len(series) // 2
    first, second = (part[np.isfinite(part)] for part in (series[:half], series[half:]))
    if len(first) < 2 or len(second) < 2 or not first.mean():
        return {"change": math.nan, "standard_error": math.nan, "segments": half}
    level = float(first.mean())
    error = math.sqrt(first.var(ddof=1) / len(first) + second.var(ddof=1) / len(second))
    if queues:
        error *= math.sqrt(_shared(first, second))
    return {"change": float(second.mean()) / level - 1, "standard_error": error / abs(level), "segments": half}


def _shared(first: Floats, second: Floats) -> float:
    """Return the factor by which the correlation of neighbouring segments widens the variance of a change.

    A slow drift is no such correlation: a common slope of both halves is taken out.
    """
    off = np.concatenate((first - first.mean(), second - second.mean()))
    at = np.concatenate([np.arange(len(part)) - (len(part) - 1) / 2 for part in (first, second)])
    off = off - at * (float(at @ off) / float(at @ at))
    return inflation(off, len(off), fitted=3)


def _piece(log: LaunchLog, rule: str) -> doc.Half:
    known, span = known_responses(log.response_us), span_s(log)
    mean = float(known.mean()) if len(known) else math.nan
    return {
        "n": len(log),
        "rate": len(log) / span if span else math.nan,
        "mean_ms": mean / 1e3,
        "response_cov": coefficient_of_variation(known, mean),
        **four_percentiles(percentiles(known, rule=rule)),
    }


def sample_window(log: LaunchLog, size: int = JMETER_WINDOW) -> doc.SampleWindow | None:
    """Return the percentiles of the last ``size`` samples to end, as JMeter's dashboard shows them; None if all fit.

    R type 6: rank (n + 1) p, interpolated between two values. A JMeter file is in order of completion.
    """
    n = len(log)
    if n <= size:
        return None
    last = np.argpartition(log.launch_us + log.response_us, n - size)[n - size :]
    known = known_responses(log.response_us[last])
    found = np.quantile(known, QUANTILES, method="weibull") if len(known) else None
    return None if found is None else {"samples": size, **four_percentiles(found)}


def sample_pieces(log: LaunchLog, rule: str, size: int = JMETER_WINDOW, limit: int = 50) -> list[doc.SamplePiece]:
    """Return the figures of consecutive pieces of ``size`` launches, of ``limit`` evenly chosen ones if more."""
    pieces = len(log) // size
    if pieces < 2:
        return []
    chosen = np.unique(np.linspace(0, pieces - 1, min(limit, pieces)).astype(int)).tolist()
    return [{"first_row": p * size, **_piece(log.take(slice(p * size, (p + 1) * size)), rule)} for p in chosen]


def steady_state(
    log: LaunchLog, settings: AnalysisSettings, times_us: Numbers | None = None, *, rate_dispersion: float = 1.0
) -> doc.SteadyState:
    """Return the ``steady_state`` key of the summary, of a log in launch order; arguments as :func:`stability`."""
    cut = warm_up_rows(log)
    return {
        **stability(log, settings, times_us, rate_dispersion=rate_dispersion),
        "mser5_rows": cut,
        "mser5_share": cut / len(log) if len(log) else math.nan,
        "mser5_s": int(log.launch_us[cut] - log.launch_us[0]) / 1e6 if len(log) else math.nan,
        "jmeter_window": sample_window(log),
        "pieces": sample_pieces(log, settings.percentile_rule),
    }
