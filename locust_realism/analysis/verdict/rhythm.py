"""Rhythm of a run: stalls of the server, repetitions of failed requests, and the period of the launches."""

from __future__ import annotations

import math

import numpy as np

from locust_realism.analysis.percentiles import Floats, Int64
from locust_realism.analysis.stats.intervals import coefficient_of_variation, user_ranks
from locust_realism.analysis.verdict.dispersion import MIN_STALLS, REGULAR, Stalls
from locust_realism.recording.launches import LaunchLog

RARE = 7.0
"""Excess over ln(n) of the longest of n exponential gaps, in mean gaps, in one of 1,000 runs: exp(-7) = 0.0009.

The smallest of n probabilities has this excess in its negative logarithm.
"""
STUCK = 3
"""Fewest users that launch in the midst of a stall, so that the generator itself was running."""
SHARED = 0.5
"""Part of the log-likelihood that counts, since users share delays of the server and of a busy event loop."""
ENOUGH = 100
"""Fewest responses outside of possible stalls from which the usual ones are known."""
AT_ONCE_S = 0.05
AT_ONCE = 0.2
"""Longest pause between a failure and its repetition: in seconds, or in mean pauses after a success if longer."""
MAX_ROWS = 1_000_000
"""Launches of a long run that are looked at, those of some users."""
FEW = 20
"""Fewest failures, and fewest successes, that are compared."""
CELLS = 2**16
"""Most windows of the periodogram."""
LEAST_PERIODS = 2
MOST_LINES = 200
"""Strongest lines that are compared with their surroundings: batches have thousands, at 0.2 ms each."""
LINE = 12.0
"""Least excess of a spectral line over its surroundings, in units of their mean; exp(-12) is a chance of 6e-6."""


def answer_stalls(log: LaunchLog) -> Stalls | None:
    """Return the server's stalls of a log in launch order, None with fewer than three.

    A stall is a time without an answer in which requests go on leaving, and in which all requests under way take longer
    than usual. So small a joint probability of their response times occurs in one of 1,000 runs without stalls.

    >>> launches = np.arange(20_000) * 1000
    >>> stalled = np.where(launches % 2_000_000 < 300_000, 300_000 - launches % 2_000_000, 0)
    >>> answer_stalls(LaunchLog.build(launches, stalled + 500))
    Stalls(number=9, mean_s=0.301, period_s=2.0, regular=True)
    """
    known = log.response_us >= 0
    launches, took = log.launch_us[known], log.response_us[known]
    ends = np.sort(launches + took)
    n = len(ends) - 1
    if n < 100 or ends[-1] <= ends[0]:
        return None
    gaps, mean = np.diff(ends), float(ends[-1] - ends[0]) / n
    rare = math.log(n) + RARE
    at = np.flatnonzero(gaps > rare * mean)
    # A generator that stops launches nothing meanwhile, and answers seldom pause for half that long before.
    edges = np.transpose((ends[at] + rare * mean / 2, ends[at] + 0.8 * gaps[at]))
    running = np.searchsorted(launches, edges)
    left = np.diff(running)[:, 0] >= STUCK
    at, running = at[left], running[left]
    if len(at) < MIN_STALLS:
        return None
    near = np.searchsorted(launches, np.transpose((ends[at] - gaps[at], ends[at + 1])))
    outside = np.ones(len(took), dtype=np.bool_)
    for first, last in near.tolist():
        outside[first:last] = False
    usual = np.sort(took[outside] if outside.sum() >= ENOUGH else took)
    users = user_ranks(log)[0][known]
    users = np.where(users >= 0, users, -1 - ((launches - launches[0]) / mean).astype(np.int64))
    found = []
    for gap, (first, last), (begin, end) in zip(at.tolist(), near.tolist(), running.tolist(), strict=True):
        rows = np.arange(first, last)[launches[first:last] + took[first:last] >= ends[gap + 1]]
        chance = _silence(usual, ends[gap] - launches[rows], ends[gap + 1] - launches[rows], users[rows])
        if SHARED * chance < -rare and len(np.unique(users[begin:end])) >= STUCK:
            found.append(gap)
    if len(found) < MIN_STALLS:
        return None
    between = np.diff(ends[found]) / 1e6
    regular = coefficient_of_variation(between) < REGULAR
    return Stalls(len(found), float(gaps[found].mean()) / 1e6, float(between.mean()), regular)


def _silence(usual: Int64, before: Int64, waited: Int64, users: Int64) -> float:
    """Return the log-likelihood that requests wait for ``waited``, given that they wait for ``before``.

    ``usual`` are ascending response times. The parallel requests of a user share their delays: they count once.
    """
    longer, longer_before = (len(usual) + 1 - np.searchsorted(usual, times) for times in (waited, before))
    _, who = np.unique(users, return_inverse=True)
    return float((np.bincount(who, weights=np.log(longer / longer_before)) / np.bincount(who)).sum())


def retry_share(log: LaunchLog) -> float:
    """Return the share of the launches that repeat a failed request of the same user at once; NaN if it is unknown.

    At once is within AT_ONCE_S, or AT_ONCE of the mean pause after a success. Failures that are followed as soon as
    successes are by the same request are not repeated.

    >>> launches = np.arange(200) * 1_000_000
    >>> again = LaunchLog.build(launches, 1000, slot=0, failed=np.arange(200) % 4 == 0)
    >>> retry_share(again)
    0.0
    """
    if int(log.failed.sum()) < FEW:
        return math.nan if not len(log) else 0.0
    ranks, users = user_ranks(log)
    stride = min(math.ceil(len(log) / MAX_ROWS), max(users // 2, 1))
    rows = np.flatnonzero((ranks >= 0) & (ranks % stride == 0))
    total = max(len(rows), 1) if stride > 1 else len(log)
    rows = rows[np.argsort(ranks[rows], kind="stable")]
    before, after = rows[:-1], rows[1:]
    same = (ranks[before] == ranks[after]) & (log.label[before] == log.label[after]) & (log.response_us[before] >= 0)
    before, after = before[same], after[same]
    pause_us = log.launch_us[after] - log.launch_us[before] - log.response_us[before]
    failed, parallel = log.failed[before], pause_us < 0
    lost, good = pause_us[failed & ~parallel], pause_us[~failed & ~parallel]
    if len(lost) < FEW:
        return 0.0
    known = len(good) >= FEW
    at_once = max(1e6 * AT_ONCE_S, AT_ONCE * float(good.mean()) if known else 0.0)
    usual = float((good <= at_once).mean()) if known else 0.0
    excess = float((lost <= at_once).mean()) - usual
    error = math.sqrt(0.25 / len(lost) + (0.25 / len(good) if known else 0.0))
    return excess / (1 - usual) * len(lost) / total if excess > 3 * error else 0.0


def launch_period_s(times_us: Floats) -> float:
    """Return the period in seconds of launch times in microseconds, in ascending order; NaN without one.

    The periodogram of the counts is 1 on average for a Poisson process (Bartlett 1963). A period is a line that stands
    out of its surroundings; of a line and its multiples the lowest counts.

    >>> rng = np.random.default_rng(1)
    >>> times = np.cumsum(rng.exponential(10_000, 5000))
    >>> launch_period_s(times), round(launch_period_s(times + 150_000 * np.sin(times / 1e6 * np.pi)), 1)
    (nan, 2.0)
    """
    n = len(times_us)
    if n < 200 or times_us[-1] <= times_us[0]:
        return math.nan
    span = float(times_us[-1] - times_us[0])
    cells = min(CELLS, 2 ** math.ceil(math.log2(4 * n)))
    counts = np.bincount(((times_us - times_us[0]) * (cells / span)).astype(np.int64).clip(max=cells - 1))
    power = np.abs(np.fft.rfft(counts - counts.mean())) ** 2 / n
    power = power[1 : cells // 4]
    # A median of 2.4 octaves hides a line, not a slope; that of an exponential law is ln 2 times its mean.
    lines = np.flatnonzero(power[LEAST_PERIODS - 1 :] > LINE + math.log(cells)) + LEAST_PERIODS - 1
    if len(lines) > MOST_LINES:
        lines = np.sort(lines[np.argpartition(power[lines], -MOST_LINES)[-MOST_LINES:]])
    found = [k for k in lines.tolist() if power[k] > LINE * _surroundings(power, k)]
    if not found:
        return math.nan
    strongest = max(found, key=power.__getitem__)
    lowest = next(k for k in found if power[k] >= 0.1 * power[strongest])
    return span / 1e6 / (lowest + 1)


def _surroundings(power: Floats, k: int) -> float:
    """Return the mean level of a periodogram around its frequency k, from the median without the line itself."""
    low, high = max(0, int(k / 1.8) - 3), min(len(power), int(k * 1.8) + 7)
    near = np.concatenate((power[low : max(low, k - 1)], power[k + 2 : high]))
    return max(1.0, float(np.median(near)) / math.log(2)) if len(near) else math.inf
