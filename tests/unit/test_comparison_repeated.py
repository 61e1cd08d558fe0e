"""Repeated runs show more than one run, and no more than holds where runs differ."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy import signal, stats

from locust_realism.analysis.compare.by_level import compare_levels, shared_edges
from locust_realism.analysis.compare.comparison import compare
from locust_realism.analysis.compare.difference import SLOWER, TOO_SHORT, UNSHOWN, compared
from locust_realism.analysis.compare.groups import Side
from locust_realism.analysis.stats.batches import LEAST_FREEDOM, student
from locust_realism.analysis.stats.estimates import Estimate, quantile_estimate
from locust_realism.analysis.stats.repeated import disagreement, pooled, pooled_sides, spread_of
from locust_realism.recording.launches import LaunchLog

TRIALS = 150
CONFIDENCE = 1 - 0.05 / 7
"""Of one of the seven statements on one name that hold together at 95 %."""
FREEDOM = 12


def drawn(rng: np.random.Generator, mean: float, between: float = 0.0, error: float = 5.0) -> Estimate:
    """Draw a run whose figure has that error, and whose truth varies by ``between`` of it from run to run."""
    value = rng.normal(mean, error * math.hypot(1, between))
    s = error * math.sqrt(rng.chisquare(FREEDOM) / FREEDOM)
    half = student(0.95, FREEDOM) * s
    return Estimate(value, value - half, value + half, 1000, s, FREEDOM)


def share_changed(k: int, mean: float = 100.0, between: float = 0.0, seed: int = 1) -> float:
    """Return the share of comparisons of 100 with ``mean``, k runs a side, that find a difference."""
    rng, found = np.random.default_rng(seed), 0
    for _ in range(TRIALS):
        a, b = ([drawn(rng, each, between) for _ in range(k)] for each in (100.0, mean))
        found += compared(a, b, CONFIDENCE)["verdict"] != UNSHOWN
    return found / TRIALS


def old_pooled(runs: Sequence[Estimate]) -> Estimate:
    """Return the mean with limits from the spread of one side alone, k - 1 degrees of freedom, or from within."""
    values = np.array([run.value for run in runs])
    half = student(CONFIDENCE, len(runs) - 1) * float(values.std(ddof=1)) / math.sqrt(len(runs))
    within = math.hypot(*(run.error for run in runs)) / len(runs) * student(CONFIDENCE, FREEDOM)
    half, centre = max(half, within), float(values.mean())
    return Estimate(centre, centre - half, centre + half, 1000)


def test_two_runs_a_side_find_a_doubling_as_one_does() -> None:
    """The spread of each side alone finds it in less than half of the cases (negative control)."""
    rng, old = np.random.default_rng(2), 0
    for _ in range(TRIALS):
        a, b = ([drawn(rng, mean) for _ in range(2)] for mean in (100.0, 200.0))
        old += (old_pooled(b) - old_pooled(a)).low > 0
    assert share_changed(1, 200) == 1
    assert share_changed(2, 200) > 0.97
    assert old / TRIALS < 0.5


def test_more_runs_find_smaller_changes() -> None:
    """A change of 4 errors of one run: each run more a side finds it more often, by far more than chance."""
    found = [share_changed(k, 120.0) for k in (1, 2, 3, 5)]
    assert all(more > less + 0.05 for less, more in pairwise(found)), found


@pytest.mark.parametrize("between", [0.5, 1.0, 2.0, 4.0])
def test_false_alarms_fall_with_the_runs_where_runs_differ(between: float) -> None:
    """One statement of seven may be false in .7 %; a single run a side cannot hold that (negative control)."""
    one, two, five = (share_changed(k, between=between) for k in (1, 2, 5))
    assert five <= 0.03
    assert five <= two + 0.02
    assert two <= one + 0.02
    if between >= 2:
        assert one > 0.1


def test_the_spread_between_runs_has_no_scale() -> None:
    rng = np.random.default_rng(3)
    a, b = ([drawn(rng, 100.0, 2.0) for _ in range(3)] for _ in range(2))
    twice = [Estimate(2 * run.value, 2 * run.low, 2 * run.high, run.n, 2 * run.error, run.freedom) for run in b]
    assert spread_of([a, twice]) == pytest.approx(spread_of([a, b]))
    limits = [(side.low, side.high) for side in pooled_sides([a, b]) + pooled_sides([a, twice])]
    assert limits[2] == pytest.approx(limits[0])
    assert limits[3] == pytest.approx((2 * limits[1][0], 2 * limits[1][1]))


def test_one_run_is_compared_with_three() -> None:
    """The three runs show the spread, which widens the limits of the one, too."""
    rng = np.random.default_rng(4)
    one = drawn(rng, 100.0)
    same, apart = (
        [replace(one, value=v, low=v - 10, high=v + 10) for v in values] for values in ((99, 100, 101), (60, 100, 140))
    )
    widths = [side.high - side.low for three in (same, apart) for side in pooled_sides([[one], three])]
    assert widths[2] > 3 * widths[0]
    assert widths[0] <= 1.05 * (one.high - one.low)


def test_runs_too_short_for_limits_carry_them_together() -> None:
    """An error with three quarters of the least degrees of freedom sets no limit; those of two such runs do."""
    freedom = 0.75 * LEAST_FREEDOM
    short = [Estimate(value, -math.inf, math.inf, 500, 5.0, freedom) for value in (100.0, 104.0, 97.0)]
    assert compared(short[:1], short[1:2])["low"] is None
    row = compared(short[:2], [replace(run, value=run.value + 300) for run in short[:2]])
    assert row["low"] is not None
    assert row["verdict"] == SLOWER
    unknown = [replace(run, error=math.nan) for run in short]
    assert compared(unknown[:2], unknown[:2])["high"] is None
    spread = pooled(unknown)
    half = student(0.95, 2) * float(np.std([100, 104, 97], ddof=1)) / math.sqrt(3)
    assert (spread.low, spread.high) == pytest.approx((spread.value - half, spread.value + half))


def test_more_runs_do_not_carry_a_percentile_that_is_biased() -> None:
    """p99 of M/M/1 at .9 in 3,000 requests is 22 % too small; limits of ten runs held in 28 % (negative control)."""
    rng, true, given, old = np.random.default_rng(9), 10 * math.log(100), 0, 0
    for _ in range(20):
        runs = []
        for _ in range(10):
            walk = np.concatenate(([0.0], np.cumsum(rng.exponential(1, 3000) - rng.exponential(1 / 0.9, 3000))))
            wait = walk - np.minimum(np.minimum.accumulate(walk), -rng.exponential(10) * (rng.random() < 0.9))
            runs.append(quantile_estimate(wait[:-1] + np.diff(walk).clip(0), 0.99))
        given += math.isfinite(pooled(runs).high)
        values = [run.value for run in runs]
        half = student(0.95, 9) * float(np.std(values, ddof=1)) / math.sqrt(10)
        old += abs(float(np.mean(values)) - true) <= half
    assert given == 0
    assert old <= 14


def test_runs_that_agree_are_seldom_called_different() -> None:
    """At 1 %, with errors of 6 degrees of freedom; Cochran's Q rejects 3 % and more (negative control)."""
    rng, trials = np.random.default_rng(5), 1000
    found = cochran = 0
    for _ in range(trials):
        errors = np.sqrt(rng.chisquare(6, 5) / 6)
        values = rng.normal(100, 1, 5)
        runs = [Estimate(x, x - 1, x + 1, 500, s, 6) for x, s in zip(values.tolist(), errors.tolist(), strict=True)]
        found += disagreement(runs)[1] < 0.01
        weight = 1 / errors**2
        q = weight @ (values - weight @ values / weight.sum()) ** 2
        cochran += stats.chi2.sf(q, 4) < 0.01
    assert found / trials <= 0.01 + 4 * math.sqrt(0.01 * 0.99 / trials)
    assert cochran / trials > 0.03


def staircase(rng: np.random.Generator, slower: float = 1.0, levels: int = 5) -> LaunchLog:
    """Draw 600 requests at each number of users; neighbours keep half of their logarithm."""
    n = 600 * levels
    logs = signal.lfilter([0.5], [1, -0.5], rng.standard_normal(n))
    users = np.repeat(np.arange(1, levels + 1) * 10, 600)
    return LaunchLog.build(np.arange(n) * 10_000, 1000 * users * slower * np.exp(logs), users=users)


def test_levels_and_table_hold_together() -> None:
    """The five levels and the seven statements of the table share the 5 %; eight comparisons of equals find nothing."""
    rng = np.random.default_rng(6)
    for _ in range(8):
        sides = [Side(name, (staircase(rng),)) for name in "ab"]
        document = compare(sides)
        (one,) = document["candidates"]
        verdicts = {level["sides"][1]["verdict"] for level in document["levels"]}
        assert verdicts | {row["verdict"] for row in one["rows"]} <= {UNSHOWN, TOO_SHORT}
    edges = shared_edges(sides)
    assert document["levels"] == compare_levels(sides, edges, 1 - 0.05 / (7 + 5))
    assert document["levels"] != compare_levels(sides, edges, 1 - 0.05 / 5)


def test_runs_of_a_level_are_repeated_runs_and_not_one_long_one() -> None:
    rng = np.random.default_rng(7)
    a, b = [staircase(rng) for _ in range(3)], [staircase(rng, 3.0) for _ in range(3)]
    levels = compare([Side("a", tuple(a)), Side("b", tuple(b))])["levels"]
    assert [level["sides"][1]["verdict"] for level in levels] == [SLOWER] * 5
    p95 = [np.sort(log.response_us[:600])[569] / 1e3 for log in a]
    assert levels[0]["sides"][0]["p95_ms"] == pytest.approx(np.mean(p95))
    apart = [staircase(rng, factor) for factor in (0.3, 1.0, 3.0)]
    levels = compare([Side("a", tuple(a)), Side("b", tuple(apart))])["levels"]
    assert {level["sides"][1]["verdict"] for level in levels} <= {UNSHOWN, TOO_SHORT}


def test_nothing_found_gives_the_change_that_would_show() -> None:
    rng = np.random.default_rng(8)
    (one,) = compare([Side(name, (staircase(rng, levels=1),)) for name in "ab"])["candidates"]
    row = next(row for row in one["rows"] if row["figure"] == "p95_ms")
    least = max(row["high"] - row["difference"], row["difference"] - row["low"]) / row["a"]
    assert f"p95 would have to differ by {100 * least:.2g} % or more" in one["sentence"]
    tiny = [LaunchLog.build(np.arange(5) * 1000, rng.integers(1, 9, 5)) for _ in range(2)]
    (one,) = compare([Side("a", (tiny[0],)), Side("b", (tiny[1],))])["candidates"]
    assert one["conclusion"] == TOO_SHORT
    assert one["sentence"] == "The runs of b and a are too short to compare: run longer or repeat them."


def test_constant_runs_that_differ_have_no_limits_from_within() -> None:
    """Response times of exactly 50 and 51 ms: nothing varies within a run, so two runs a side show no spread."""
    runs = [Estimate(value, value, value, 100, 0.0, 20) for value in (50.0, 51.0)]
    assert compared(runs, [replace(run, value=60.0, low=60.0, high=60.0) for run in runs])["low"] is None
    same = pooled(runs[:1] * 3)
    assert (same.low, same.high) == (50.0, 50.0)
