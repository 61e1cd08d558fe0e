"""Comparisons claim no more than the data shows, also for autocorrelated response times."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import signal, stats

from locust_realism.analysis.compare.comparability import match_loads
from locust_realism.analysis.compare.comparison import compare
from locust_realism.analysis.compare.difference import (
    FASTER,
    SAME,
    SLOWER,
    TOO_SHORT,
    UNSHOWN,
    compared,
    counted,
    difference_row,
)
from locust_realism.analysis.compare.groups import Side, agreement, run_estimates
from locust_realism.analysis.document import Agreement
from locust_realism.analysis.stats.estimates import (
    Estimate,
    mean_estimate,
    quantile_estimate,
    rate_estimate,
    share_estimate,
)
from locust_realism.analysis.stats.intervals import TOTAL
from locust_realism.analysis.stats.repeated import disagreement, pooled
from locust_realism.recording.launches import MISSING, LaunchLog

RUNS = 300


def lower_bound(share: float, runs: int = RUNS) -> float:
    """Return 4 standard errors below a coverage, which chance goes under once in 30,000."""
    return share - 4 * math.sqrt(share * (1 - share) / runs)


def correlated(rng: np.random.Generator, n: int, phi: float, scale: float = 1.0) -> NDArray[np.float64]:
    """Return lognormal response times whose logarithms are an autoregressive process with coefficient phi."""
    noise = rng.standard_normal(n + 500)
    return scale * np.exp(signal.lfilter([math.sqrt(1 - phi**2)], [1, -phi], noise)[500:])


def run(seed: int, *, n: int = 4000, scale: float = 50_000, phi: float = 0.0, **columns: object) -> LaunchLog:
    rng = np.random.default_rng(seed)
    launch = 1_700_000_000_000_000 + np.cumsum(rng.exponential(10_000, n)).astype(np.int64)
    columns.setdefault("names", "home")
    return LaunchLog.build(launch, correlated(rng, n, phi, scale).astype(np.int64), **columns)  # type: ignore[arg-type]


@pytest.mark.parametrize("phi", [0.0, 0.8, 0.95])
@pytest.mark.parametrize("quantile", [0.5, 0.95])
def test_the_interval_of_a_difference_covers_the_true_one(phi: float, quantile: float) -> None:
    """95 % intervals, n = 8,000, true difference 10 %; .93 passes at phi .95, where batches are still correlated."""
    rng = np.random.default_rng(1)
    true = 0.1 * math.exp(stats.norm.ppf(quantile))
    hits = 0
    for _ in range(RUNS):
        a, b = correlated(rng, 8000, phi), correlated(rng, 8000, phi, 1.1)
        change = quantile_estimate(b, quantile) - quantile_estimate(a, quantile)
        hits += change.low <= true <= change.high
    assert hits / RUNS >= lower_bound(0.93 if phi > 0.9 else 0.95)


def test_binomial_intervals_of_dependent_requests_do_not_cover() -> None:
    """Negative control: the binomial interval of the median covers less than half the time at phi = .95."""
    rng = np.random.default_rng(2)
    hits = naive = 0
    for _ in range(100):
        values = correlated(rng, 8000, 0.95)
        ordered = np.sort(values)
        low, high = stats.binom.ppf([0.025, 0.975], 8000, 0.5).astype(int)
        naive += ordered[low - 1] <= 1 <= ordered[high]
        found = quantile_estimate(values, 0.5)
        hits += found.low <= 1 <= found.high
    assert naive < 50
    assert hits >= 100 * lower_bound(0.93, 100)


def test_the_interval_of_a_mean_and_of_a_rate_covers() -> None:
    rng = np.random.default_rng(3)
    mean_hits = rate_hits = 0
    for _ in range(RUNS):
        found = mean_estimate(correlated(rng, 8000, 0.8))
        mean_hits += found.low <= math.exp(0.5) <= found.high
        rate = rate_estimate(np.cumsum(rng.gamma(2.0, 5_000, 2000)).astype(np.int64))
        rate_hits += rate.low <= 100 <= rate.high
    # The mean of skewed values converges slowly: two per cent below nominal is usual at this size.
    assert mean_hits / RUNS >= lower_bound(0.93)
    assert rate_hits / RUNS >= lower_bound(0.94)


@pytest.mark.parametrize("burst", [1, 10])
def test_the_interval_of_a_share_covers_also_when_failures_come_in_bursts(burst: int) -> None:
    rng = np.random.default_rng(4)
    hits = 0
    for _ in range(RUNS):
        failed = np.repeat(rng.random(6000 // burst) < 0.03, burst)
        found = share_estimate(failed)
        hits += found.low <= 0.03 <= found.high
    assert hits / RUNS >= lower_bound(0.93)


def test_the_share_without_bursts_has_wilsons_limits() -> None:
    hits = np.zeros(500, dtype=np.bool_)
    hits[::50] = True  # spread more evenly than chance would, so that the batches' spread is below the binomial's
    expected = stats.binomtest(10, 500).proportion_ci(method="wilson")
    found = share_estimate(hits)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), rel=1e-6)


def test_two_runs_of_the_same_system_seldom_differ() -> None:
    """Intervals hold together at 95 %: of 150 equal pairs at most 7.5 + 4 stddev = 18 may differ."""
    alarms = 0
    for seed in range(150):
        sides = [Side("A", (run(2 * seed, n=1500, phi=0.5),)), Side("B", (run(2 * seed + 1, n=1500, phi=0.5),))]
        (found,) = compare(sides)["candidates"]
        alarms += any(row["verdict"] in (FASTER, SLOWER) for row in found["rows"])
    assert alarms <= 18


@pytest.mark.parametrize(("factor", "word"), [(1.3, SLOWER), (0.75, FASTER), (1.0, UNSHOWN)])
def test_a_change_is_named_and_its_size_given(factor: float, word: str) -> None:
    found = compare([Side("old", (run(1),)), Side("new", (run(2, scale=50_000 * factor),))])["candidates"][0]
    assert found["conclusion"] == word
    words = {
        SLOWER: "new is slower than old: p95",
        FASTER: "new is faster than old: p95",
        UNSHOWN: "no difference that",
    }
    assert words[word] in found["sentence"]
    row = next(row for row in found["rows"] if row["figure"] == "p50_ms")
    assert row["low"] <= 50 * (factor - 1) <= row["high"]
    assert row["b"] - row["a"] == pytest.approx(row["difference"])


def test_a_tolerance_requires_more_than_any_difference() -> None:
    sides = [Side("A", (run(1, n=40_000),)), Side("B", (run(2, n=40_000, scale=53_000),))]
    assert compare(sides)["candidates"][0]["conclusion"] == SLOWER
    assert compare(sides, tolerance=0.2)["candidates"][0]["conclusion"] == SAME


def test_each_name_is_compared_by_itself() -> None:
    names = ["home", "file"] * 2000
    slow = run(2, names=names)
    file = slow.label == slow.labels.index(("", "file"))
    slow = LaunchLog.build(slow.launch_us, np.where(file, 2 * slow.response_us, slow.response_us), names=names)
    rows = compare([Side("A", (run(1, names=names),)), Side("B", (slow,))])["candidates"][0]["rows"]
    verdicts = {(row["label"], row["figure"]): row["verdict"] for row in rows}
    assert verdicts["file", "p95_ms"] == SLOWER
    assert verdicts["home", "p95_ms"] == UNSHOWN


def test_more_failures_are_reported() -> None:
    failed = np.random.default_rng(1).random(4000) < 0.05
    found = compare([Side("A", (run(1),)), Side("B", (run(2, failed=failed),))])["candidates"][0]
    assert found["failures"]["verdict"] == "more"
    assert "fails more often: 0 % to" in found["sentence"]


def test_a_burst_of_failures_is_no_share_beyond_one() -> None:
    """One burst of 50 in 5,000 sets no limit; the difference to a run without failures was up to 2,000,000 %."""
    failed = np.zeros(5000, dtype=np.bool_)
    failed[2000:2050] = True
    burst, none = share_estimate(failed), share_estimate(~failed & failed)
    row = counted(compared([none], [burst], 1 - 0.05 / 7))
    assert (row["verdict"], row["high"]) == (TOO_SHORT, None)
    rare = np.random.default_rng(3).random(60) < 0.9
    many = compared([share_estimate(rare)] * 2, [share_estimate(~rare)] * 2, 1 - 1e-7)
    assert -1 <= many["low"] < many["high"] <= 1


def test_a_limit_far_beyond_its_figure_is_none() -> None:
    """Two runs of 800 AR(1) values of .97 had limits of p50 of billions of milliseconds."""
    rng = np.random.default_rng(3)
    widest = 0.0
    for _ in range(10):
        sides = [
            Side(name, (LaunchLog.build(np.arange(800), correlated(rng, 800, 0.97, 1e5), names="home"),))
            for name in "ab"
        ]
        for row in compare(sides)["candidates"][0]["rows"]:
            limits = [abs(row[key]) for key in ("low", "high") if row[key] is not None]
            widest = max(widest, *(limit / row["a"] for limit in limits), 0)
            assert (row["verdict"] == TOO_SHORT) == (len(limits) < 2)
    assert 1 < widest < 30


def test_runs_of_one_value_name_no_change_to_reach() -> None:
    constant = LaunchLog.build(np.arange(500) * 1000, 700, names="home")
    (found,) = compare([Side("a", (constant,)), Side("b", (constant,))])["candidates"]
    assert found["sentence"] == "Between b and a there is no difference that this data can show."


def test_a_comparison_of_unknown_times_is_json() -> None:
    log = LaunchLog.build(np.arange(200) * 1000, [MISSING] * 97 + [700] * 103, users=np.repeat([10, 20], 100))
    json.dumps(compare([Side("a", (log,)), Side("b", (log,))]), allow_nan=False)


def test_few_requests_set_no_limit_and_show_nothing() -> None:
    row = next(
        row
        for row in compare([Side("A", (run(1, n=50),)), Side("B", (run(2, n=50),))])["candidates"][0]["rows"]
        if row["figure"] == "p99_ms"
    )
    assert row["verdict"] == TOO_SHORT
    assert row["high"] is None


def agreement_of(side: Side) -> Agreement:
    return agreement(side, run_estimates(side, TOTAL))


def test_repeats_that_agree_and_repeats_that_do_not() -> None:
    alike = agreement_of(Side("A", tuple(run(seed) for seed in range(4))))
    assert alike["agrees"]
    assert "agree: they are" in alike["sentence"]
    apart = agreement_of(Side("B", (run(1), run(2), run(3, scale=60_000))))
    assert not apart["agrees"]
    assert "do not agree in p50" in apart["sentence"]
    row = next(row for row in apart["rows"] if row["figure"] == "p50_ms")
    assert row["apart"] == pytest.approx(0.2, abs=0.06)


@pytest.mark.parametrize("response_us", [[700], [MISSING] * 60])
def test_repeats_too_short_for_a_test_neither_agree_nor_differ(response_us: list[int]) -> None:
    """Runs of one request, and of unknown times, which were said to agree before."""
    found = agreement_of(Side("A", tuple(LaunchLog.build(np.arange(len(response_us)), response_us) for _ in range(3))))
    assert found["agrees"] is None
    assert found["sentence"] == "The runs of A are too short to show whether they agree."


def test_the_p_value_of_agreement_is_that_of_an_f_ratio() -> None:
    runs = [Estimate(x, x - 1, x + 1, 100, 0.5, 8) for x in (10.0, 11.0, 9.0)]
    assert disagreement(runs) == pytest.approx((0.2, stats.f.sf(1 / 0.25, 2, 24)))


def test_runs_that_differ_among_themselves_widen_the_comparison() -> None:
    """Repeats at 45, 50 and 60 ms against one side at 56: one run shows a difference, three do not."""
    spread = tuple(run(seed, scale=scale) for seed, scale in ((1, 45_000), (2, 50_000), (3, 60_000)))
    other = (run(5, scale=56_000),)
    assert compare([Side("A", spread[1:2]), Side("B", other)])["candidates"][0]["conclusion"] == SLOWER
    assert compare([Side("A", spread), Side("B", other)])["candidates"][0]["conclusion"] == UNSHOWN


def test_pooled_limits_cover_when_runs_differ() -> None:
    """Five runs, each with its own offset of stddev 1: 95 % intervals cover the common mean."""
    rng = np.random.default_rng(6)
    hits = 0
    for _ in range(RUNS):
        runs = [mean_estimate(rng.normal(offset, 1, 400)) for offset in rng.normal(0, 1, 5)]
        found = pooled(runs)
        hits += found.low <= 0 <= found.high
    assert hits / RUNS >= lower_bound(0.95)


@pytest.mark.parametrize(
    ("columns", "status", "reason"),
    [
        ({}, "alike", None),
        ({"users": 11}, "warning", "users differ"),
        ({"users": 20}, "refused", "users differ"),
        ({"names": ["home"] * 3600 + ["file"] * 400}, "warning", "mix differs: 10 %"),
        ({"names": ["home"] * 2000 + ["file"] * 2000}, "refused", "mix differs: 50 %"),
    ],
)
def test_loads_that_are_not_alike_are_warned_of_or_refused(
    columns: dict[str, object], status: str, reason: str | None
) -> None:
    found = match_loads([run(1, users=10)], [run(2, **{"users": 10, **columns})])
    assert found["status"] == status
    assert (reason is None) == (not found["reasons"])
    assert reason is None or reason in found["reasons"][0]


def test_a_rate_that_differs_is_refused_unless_the_users_are_the_same() -> None:
    slow = LaunchLog.build(np.arange(4000) * 25_000, 50_000, names="home")
    assert match_loads([run(1)], [slow])["status"] == "refused"
    with_users = LaunchLog.build(slow.launch_us, slow.response_us, names="home", users=10)
    found = match_loads([run(1, users=10)], [with_users])
    assert found["status"] == "warning"
    assert "with the same users" in found["reasons"][0]


@pytest.mark.parametrize(
    ("a", "b", "reason"), [("red", "green", "first side is red"), ("red", "red", "both sides are red")]
)
def test_a_red_launch_pattern_is_reported(a: str, b: str, reason: str) -> None:
    summaries = [{"verdict": {"overall": status}} for status in (a, b)]
    found = match_loads([run(1)], [run(2)], summaries[:1], summaries[1:])
    assert reason in found["reasons"][0]


def test_a_refused_comparison_has_reasons_and_no_conclusion() -> None:
    found = compare([Side("A", (run(1, users=5),)), Side("B", (run(2, users=50),))])["candidates"][0]
    assert found["alike"]["status"] == "refused"
    assert "cannot be compared" in found["sentence"]


def test_two_servers_side_by_side_at_each_number_of_users() -> None:
    """Table of Tomcat and JBoss: one is faster at 50 users, the other at 100, one was not measured at 150."""
    users = np.repeat([50, 75, 100], 2000)
    rng = np.random.default_rng(1)
    scale = np.select([users == 50, users == 75], [20_000, 40_000], 90_000)
    tomcat = LaunchLog.build(np.arange(6000) * 10_000, rng.exponential(scale), users=users)
    jboss = LaunchLog.build(
        np.arange(8000) * 10_000, rng.exponential(40_000, 8000), users=np.repeat([50, 75, 100, 150], 2000)
    )
    rows = compare([Side("Tomcat", (tomcat,)), Side("JBoss", (jboss,))])["levels"]
    assert [(row["fewest"], row["most"]) for row in rows] == [(50, 50), (75, 75), (100, 100), (150, 150)]
    assert [row["sides"][1]["verdict"] for row in rows[:3]] == [SLOWER, UNSHOWN, FASTER]
    assert rows[3]["sides"][0] is None
    assert rows[0]["sides"][0]["rate"] == pytest.approx(100)
    assert rows[0]["sides"][0]["p95_ms"] == pytest.approx(np.sort(tomcat.response_us[:2000])[1899] / 1e3)


def test_limits_of_a_difference_are_recovered_from_those_of_its_sides() -> None:
    """For symmetric limits they are the familiar root of the sum of squares."""
    a, b = Estimate(10, 8, 12, 50), Estimate(5, 4, 6, 50)
    assert (a - b).low == pytest.approx(5 - math.hypot(2, 1))
    assert difference_row(b, a)["verdict"] == SLOWER
    assert difference_row(a, b)["verdict"] == FASTER
    assert (a - Estimate(5, 4, math.inf, 50)).low == -math.inf


@pytest.mark.parametrize(("confidence", "tolerance"), [(0.0, 0.0), (1.0, 0.0), (0.95, -0.1), (0.95, 1.0)])
def test_settings_out_of_bounds_are_refused(confidence: float, tolerance: float) -> None:
    with pytest.raises(ValueError, match="expected numbers in"):
        compare([Side("A", (run(1),)), Side("B", (run(2),))], confidence=confidence, tolerance=tolerance)


def test_a_side_without_requests_is_refused() -> None:
    with pytest.raises(ValueError, match="without requests"):
        Side("A", (LaunchLog.empty(),))
    with pytest.raises(ValueError, match="at least one other"):
        compare([Side("A", (run(1),))])


def test_missing_response_times_are_requests_without_figures() -> None:
    a, b = run(31, users=5), run(32, users=5)
    gone = np.arange(len(b)) % 5 == 2
    holed = replace(b, response_us=np.where(gone, MISSING, b.response_us))
    found = compare([Side("a", (a,)), Side("b", (holed,))])
    rows = {row["figure"]: row for row in found["candidates"][0]["rows"]}
    known = b.response_us[~gone] / 1e3
    assert found["runs"][1]["n"] == len(b)
    assert rows["mean_ms"]["b"] == pytest.approx(known.mean())
    assert rows["p50_ms"]["b"] == np.quantile(known, 0.5, method="inverted_cdf")
    # a fifth of zeros would make the same server seem faster
    assert rows["mean_ms"]["verdict"] == rows["p50_ms"]["verdict"] == UNSHOWN
    assert agreement_of(Side("ab", (a, holed)))["agrees"]
    nothing = compare([Side("a", (a,)), Side("b", (replace(b, response_us=np.full(len(b), MISSING)),))])
    assert {row["verdict"] for row in nothing["candidates"][0]["rows"]} == {TOO_SHORT}


def test_missing_response_times_have_no_part_in_the_levels() -> None:
    a = run(33, users=np.repeat([50, 75], 2000))
    gone = np.arange(len(a)) % 5 == 2
    holed = replace(a, response_us=np.where(gone, MISSING, a.response_us))
    rows = compare([Side("a", (a,)), Side("b", (holed,))])["levels"]
    assert [row["sides"][1]["n"] for row in rows] == [row["sides"][0]["n"] for row in rows] == [2000, 2000]
    expected = np.quantile(a.response_us[:2000][~gone[:2000]] / 1e3, 0.5, method="inverted_cdf")
    assert rows[0]["sides"][1]["p50_ms"] == expected
