"""Capacity of closed queues with a known knee, and of the shape of a published run."""

from __future__ import annotations

import heapq
import math
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import isotonic_regression

from locust_realism.analysis.capacity.capacity import capacity, capacity_section
from locust_realism.analysis.capacity.levels import level_edges, level_rows, rate_errors, split_levels
from locust_realism.analysis.capacity.slo import (
    _draws,
    crossing,
    crossings,
    judge_target,
    parse_target,
    target_sentence,
)
from locust_realism.analysis.capacity.usl import fit_usl, usl_rate
from locust_realism.analysis.settings import DEFAULT_BOUNDS, VerdictBounds
from locust_realism.analysis.stats.estimates import Estimate, quantile_estimate
from locust_realism.analysis.summary import summarize
from locust_realism.recording.launches import MISSING, LaunchLog

THINK, SERVICE = 1.0, 0.1
KNEE = (THINK + SERVICE) / SERVICE


def closed_queue(rng: np.random.Generator, users: int, requests: int) -> LaunchLog:
    """Simulate events: each user thinks (exponential), then waits for one first-come-first-served server."""
    warm_up = 4 * users + 100
    think, service = rng.exponential(THINK, requests + warm_up), rng.exponential(SERVICE, requests + warm_up)
    events = [(at, user) for user, at in enumerate(rng.exponential(THINK, users).tolist())]
    heapq.heapify(events)
    free, rows = 0.0, []
    for pause, work in zip(think.tolist(), service.tolist(), strict=True):
        launch, user = events[0]
        free = max(launch, free) + work
        rows.append((launch, free - launch, user))
        heapq.heapreplace(events, (free + pause, user))
    launches, responses, slots = np.array(rows[warm_up:]).T
    return LaunchLog.build((1e6 * launches).astype(np.int64), 1e6 * responses, slot=slots.astype(int), users=users)


def staircase(rng: np.random.Generator, levels: list[int], requests: int) -> LaunchLog:
    """Return one run after the other at each number of users, on one axis of time."""
    parts, start = [], 0
    for users in levels:
        part = closed_queue(rng, users, requests)
        launch_us = part.launch_us - part.launch_us.min() + start
        start = int(launch_us.max()) + 1_000_000
        parts.append(LaunchLog.build(launch_us, part.response_us, slot=part.slot, users=users))
    return LaunchLog.concat(parts)


@pytest.fixture(scope="module")
def ramp() -> LaunchLog:
    """Return a log of ten levels on both sides of the knee at 11 users."""
    parts = (0.1, 0.25, 0.4, 0.6, 0.8, 1, 1.2, 1.5, 2, 2.5)
    return staircase(np.random.default_rng(8), sorted({round(KNEE * part) for part in parts}), 1200)


def test_the_interval_holds_the_knee_of_a_simulated_queue_and_no_other(ramp: LaunchLog) -> None:
    """Negative control: the interval for N* = 11 excludes 14 and 8.5."""
    found = capacity(ramp)["knee"]
    assert 8.5 < found["low"] < KNEE < found["high"] < 14


def test_littles_law_holds_in_a_queue_and_fails_for_idle_users(ramp: LaunchLog) -> None:
    found = capacity(ramp)
    for row in found["levels"]:
        assert row["little_ratio"] == pytest.approx(1, abs=0.06)
        assert row["think_ms"] == pytest.approx(1000, rel=0.1), "3 standard errors of 1,200 pauses"
    assert not any("Little" in warning for warning in found["warnings"])
    idle = LaunchLog.build(ramp.launch_us, ramp.response_us, slot=ramp.slot, users=2 * ramp.users)
    assert any("Little's law does not hold at 10 of 10" in warning for warning in capacity(idle)["warnings"])


def test_data_of_the_published_shape_gives_fifteen_users() -> None:
    """A ramp of one user each 40 s, a think time of 1 s: flat to 15 users, steep after (Neumann, Locust 04)."""
    rng = np.random.default_rng(9)
    launch, response, users, start = [], [], [], 0.0
    for n in range(1, 31):
        flat = 0.165 if n <= 10 else 0.165 + 0.005 * (n - 10)
        mean = max(flat, n / (15 / 1.19) - 1.0) if n <= 15 else n / 12.6 * (1 + 0.04 * np.sin(n)) - 1.0
        rate = n / (1.0 + mean)
        count = rng.poisson(40 * rate)
        launch.append(np.sort(start + 40 * rng.random(count)))
        response.append(np.maximum(0.05, rng.normal(mean, 0.15 * mean, count)))
        users.append(np.full(count, n))
        start += 40
    log = LaunchLog.build(
        (1e6 * np.concatenate(launch)).astype(np.int64), 1e6 * np.concatenate(response), users=np.concatenate(users)
    )
    found = capacity(log, targets=["p50 < 400ms"], think_s=1.0)
    knee = found["knee"]
    assert abs(knee["users"] - 15) <= 2
    assert knee["low"] <= 15 <= knee["high"] + 1
    assert knee["high"] - knee["low"] < 6
    assert 14 <= found["targets"][0]["users"] <= 20


@pytest.mark.parametrize(
    ("levels", "where"),
    [([1, 2, 3, 4, 5], "beyond"), ([40, 50, 60, 70, 80], "below"), ([2, 5, 10, 20, 30], "measured")],
)
def test_no_figure_lies_beyond_the_measured_levels(levels: list[int], where: str) -> None:
    found = capacity(staircase(np.random.default_rng(10), levels, 1000))
    assert found["knee"]["where"] == where
    assert (found["knee"]["users"] is None) == (where != "measured")
    assert max(found["usl"]["curve"]["users"]) <= max(levels)
    assert found["usl"]["peak_users"] is None or found["usl"]["peak_users"] <= max(levels)
    words = {"beyond": "not reached", "below": "does not grow", "measured": "scales up to about"}
    assert words[where] in found["explanation"]


def test_the_peak_of_the_scalability_law_is_that_of_throughput_that_falls() -> None:
    n = np.array([2.0, 4, 6, 8, 10, 12, 15, 20, 30, 40])
    x = np.minimum(n, 10.0)
    x[n > 20] = [6.0, 4.0]
    assert 8 < fit_usl(n, x, 0.02 * x, rng=np.random.default_rng(1))["peak_users"] < 25


def test_the_band_of_the_scalability_law_covers_the_true_curve() -> None:
    """A pointwise 95 % band over 100 samples: 6 standard errors below .95 is .82."""
    n = np.array([1.0, 2, 4, 8, 16, 32, 48])
    truth = usl_rate(n, 0.03, 0.0008, 20.0)
    rng = np.random.default_rng(3)
    grid = np.unique(np.linspace(1, 48, 60))
    inside, line = np.zeros(len(grid)), usl_rate(grid, 0.03, 0.0008, 20.0)
    for _ in range(100):
        curve = fit_usl(n, truth + rng.normal(0, 0.02 * truth), 0.02 * truth, rng=rng)["curve"]
        assert curve["users"] == grid.tolist()
        inside += (curve["low"] <= line) & (line <= curve["high"])
    assert (inside / 100 > 0.82).all()


def test_levels_of_few_requests_do_not_break_littles_law_by_chance() -> None:
    """Poisson launches, a think time of 1 s: a tenth of the levels of 30 requests is off by 1.8 stddev or more."""
    rng = np.random.default_rng(8)
    users = np.repeat(np.arange(10, 40), 30)
    gaps = rng.exponential(1.1 / users)
    log = LaunchLog.build((np.cumsum(gaps) * 1e6).astype(np.int64), 100_000, users=users)
    found = capacity(log, think_s=1.0)
    off = [row for row in found["levels"] if abs(row["little_ratio"] - 1) > 0.1]
    assert len(off) > 8, "chance alone is beyond the tolerance"
    off_levels = [int(warning.split(" of ")[0].split()[-1]) for warning in found["warnings"] if "Little" in warning]
    assert sum(off_levels) <= 4, "5 % of 30, and 2 stddev of that"


def test_a_busy_generator_is_named_as_the_limit() -> None:
    log = LaunchLog.build(np.arange(400) * 10_000, 1000, users=np.repeat([1, 2, 3, 4], 100))
    levels = split_levels(log)
    table = level_rows(log, levels, "nearest_rank")

    def warnings(bounds: VerdictBounds = DEFAULT_BOUNDS, **health: float) -> list[str]:
        return capacity_section(log, levels, table, health=health, bounds=bounds)["warnings"]

    assert any("used 97% of a core" in warning for warning in warnings(cpu_max=0.97))
    assert any("250 ms late" in warning for warning in warnings(lateness_p99_ms=250.0))
    assert not any("generator" in warning.lower() for warning in warnings(cpu_max=0.94))
    own = VerdictBounds(cpu_amber=0.3, cpu_red=0.4)
    assert any("used 50% of a core" in warning for warning in warnings(own, cpu_max=0.5))


def linear_run(rng: np.random.Generator, levels: list[int], n: int) -> LaunchLog:
    """Return exponential response times of mean 20 N / ln 20 ms, whose p95 is 20 ms a user."""
    parts = []
    for index, users in enumerate(levels):
        launch = index * 100_000_000 + np.sort(rng.integers(0, 99_000_000, n))
        parts.append(LaunchLog.build(launch, rng.exponential(20_000 * users / np.log(20), n), users=users))
    return LaunchLog.concat(parts)


def test_the_interval_of_a_target_covers_the_known_number_of_users() -> None:
    """p95 < 400 ms holds up to 20 users: 40 runs, of which at 95 % fewer than 32 cover once in 2,000."""
    rng = np.random.default_rng(5)
    covered = 0
    for _ in range(40):
        log = linear_run(rng, [5, 10, 15, 18, 22, 30], 1500)
        target = judge_target(log, split_levels(log), parse_target("p95 < 400ms"), rng, "nearest_rank")
        assert target["status"] == "measured"
        covered += target["low"] <= 20 <= target["high"]
        assert target["high"] - target["low"] < 8
    assert covered >= 32


def test_a_target_between_levels_without_limits_has_none() -> None:
    """30 requests set no upper limit of p95; draws without one, as before, gave the users an interval."""
    log = linear_run(np.random.default_rng(5), [5, 10, 15, 18, 22, 30], 30)
    target = judge_target(log, split_levels(log), parse_target("p95 < 400ms"), np.random.default_rng(1), "nearest_rank")
    assert target["status"] == "no interval"
    assert target["low"] is target["high"] is None
    sentence = target_sentence(target, 30)
    assert "users (no interval: hold " in sentence
    assert "30 users about 2 times as long)" in sentence
    assert "than were measured" not in sentence, "the levels were measured, but for too short a time"


def test_draws_of_a_figure_without_limits_are_finite() -> None:
    """Student's t with a hundredth of a degree of freedom is infinite in one of six draws."""
    rng = np.random.default_rng(1)
    assert np.isinf(rng.standard_t(0.003, 1000)).any(), "the negative control"
    assert np.isfinite(_draws(Estimate(100.0, -math.inf, math.inf, 100, 10.0, 0.003), rng)).all()


@pytest.mark.parametrize(("target", "status"), [("p95 < 10s", "met by all"), ("p95 < 1ms", "met by none")])
def test_a_target_outside_the_measured_levels_has_no_users(target: str, status: str) -> None:
    found = capacity(linear_run(np.random.default_rng(6), [5, 10, 15, 20], 500), targets=[target])
    assert found["targets"][0]["status"] == status
    assert found["targets"][0]["users"] is None


def test_each_level_of_a_run_has_its_own_percentiles() -> None:
    log = linear_run(np.random.default_rng(7), [20, 50, 100], 2000)
    rows = capacity(log)["levels"]
    assert [row["users"] for row in rows] == [20, 50, 100]
    for row in rows:
        assert row["p95_ms"] == pytest.approx(20 * row["users"], rel=0.15)


def test_the_same_log_gives_the_same_figures_whatever_the_order_of_its_rows() -> None:
    log = linear_run(np.random.default_rng(8), [5, 10, 15, 20], 200)
    shuffled = log.take(np.random.default_rng(1).permutation(len(log)))
    assert capacity(log, targets=["p95 < 300ms"]) == capacity(shuffled, targets=["p95 < 300ms"])


def test_the_error_of_a_rate_is_that_of_a_poisson_process() -> None:
    """The mean estimated error against sqrt(rate / T), over 30 runs at 3 levels."""
    ratios = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        launch = np.cumsum(rng.exponential(10_000, 3000)).astype(np.int64)
        levels = split_levels(LaunchLog.build(launch, 1, users=np.repeat([1, 2, 3], 1000)))
        ratios += [
            error / np.sqrt(level.rate / level.duration_s)
            for level, error in zip(levels, rate_errors(levels), strict=True)
        ]
    assert np.mean(ratios) == pytest.approx(1, abs=0.06)


def test_the_error_of_a_percentile_is_its_spread_over_runs() -> None:
    rng = np.random.default_rng(2)
    found = [quantile_estimate(rng.exponential(1, 4000), 0.95) for _ in range(200)]
    errors = np.array([each.standard_error() for each in found])
    assert errors.mean() == pytest.approx(np.std([each.value for each in found], ddof=1), rel=0.2)


def test_levels_merge_neighbours_until_each_has_its_launches() -> None:
    counts = np.zeros(101, dtype=np.int64)
    counts[1:] = 10
    edges = level_edges(counts / 24, max_levels=100)
    sizes = np.diff([*edges, 101]) * 10
    assert sizes.min() >= 24
    assert len(level_edges(counts / 24, max_levels=8)) <= 8


def test_a_ramp_of_seconds_is_one_level() -> None:
    """A start of 50 users in 10 s, then 100 s with all: half of the ramp is a level, the rest is left out."""
    users = np.concatenate([np.repeat(np.arange(1, 51), 40), np.full(20_000, 50)])
    launch = np.concatenate([np.arange(2000) * 5_000, 10_000_000 + np.arange(20_000) * 5_000])
    log = LaunchLog.build(launch, 1000, users=users)
    assert len(split_levels(log)) > 20
    levels = split_levels(log, min_seconds=5.0)
    assert 2 <= len(levels) <= 3
    assert all(level.duration_s >= 5 for level in levels)
    assert capacity_section(log, levels, level_rows(log, levels, "nearest_rank")) == capacity(log, min_level_s=5.0)


def test_a_ramp_between_two_levels_belongs_to_neither() -> None:
    """20 users, then 50: the launches of the two seconds between them are in no level."""
    users = np.concatenate([np.full(4000, 20), np.repeat(np.arange(21, 50), 10), np.full(4000, 50)])
    log = LaunchLog.build(np.arange(len(users)) * 7_000, 1000, users=users)
    levels = split_levels(log, min_seconds=5.0)
    assert [(level.fewest, level.most, len(level.rows)) for level in levels] == [(20, 20, 4000), (50, 50, 4000)]


def test_a_short_run_at_one_level_is_that_level() -> None:
    log = LaunchLog.build(np.arange(100) * 10_000, 1000, users=7)
    assert [len(level.rows) for level in split_levels(log, min_seconds=5.0)] == [100]


def test_stages_and_capacity_of_one_document_have_the_same_levels() -> None:
    rng = np.random.default_rng(12)
    users = np.concatenate([np.repeat(np.arange(1, 41), 100), rng.integers(30, 45, 5000)])
    launch = np.cumsum(rng.exponential(1e6 / users)).astype(np.int64)
    document = summarize(LaunchLog.build(launch, rng.exponential(50_000, len(users)), users=users))
    stages = [row for row in document["stages"] if row["kind"] == "level"]
    assert document["capacity"] is not None
    for row, level in zip(stages, document["capacity"]["levels"], strict=True):
        assert (row["users"], row["users_low"], row["users_high"]) == (level["users"], level["fewest"], level["most"])
        for key in ("n", "duration_s", "rate", "failures", "mean_ms", "p50_ms", "p90_ms", "p95_ms", "p99_ms"):
            assert row[key] == level[key], key


def test_noise_makes_no_second_crossing() -> None:
    assert crossing(np.array([5.0, 10, 20, 40]), np.array([100.0, 300, 200, 600]), 250.0) == 20
    assert crossing(np.arange(3.0), np.array([1.0, 1, 1]), 2.0) == np.inf
    assert crossing(np.arange(3.0), np.array([3.0, 1, 3]), 1.5) == 0
    assert crossing(np.arange(3.0), np.array([1.0, 2, np.inf]), 2.5) == 1
    assert crossing(np.arange(1.0, 2), np.array([3.0]), 3.0) == np.inf
    values = np.random.default_rng(1).normal(np.arange(9), 3, (50, 9))
    one = [crossing(np.arange(9.0), isotonic_regression(each).x, 4.0) for each in values]
    np.testing.assert_allclose(crossings(np.arange(9.0), values, 4.0), one)


@pytest.mark.parametrize(
    "text", ["p95 > 400ms", "cov < 2", "p95[GET a] < 1s", "verdict is red", "failures < 10", "rate < 5/s"]
)
def test_an_unsuitable_target_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="target"):
        parse_target(text)


def test_a_log_without_users_has_no_levels() -> None:
    found = capacity(LaunchLog.build(range(100), 1))
    assert found["levels"] == []
    assert "not recorded" in found["explanation"]


def test_missing_response_times_are_requests_of_a_level_and_have_no_part_in_its_figures() -> None:
    rng = np.random.default_rng(8)
    launch = np.arange(6000) * 10_000
    log = LaunchLog.build(launch, rng.exponential(50_000, 6000).astype(int), users=np.repeat([5, 9], 3000))
    gone = np.arange(6000) % 4 == 1
    holed = replace(log, response_us=np.where(gone, MISSING, log.response_us))
    found = capacity(holed, think_s=0.1, targets=["mean < 1s", "p50 < 1s"])
    row, known = found["levels"][0], log.response_us[:3000][~gone[:3000]] / 1e3
    assert row["n"] == 3000
    assert row["mean_ms"] == pytest.approx(known.mean())
    assert row["p50_ms"] == np.quantile(known, 0.5, method="inverted_cdf")
    assert [target["values"][0] for target in found["targets"]] == pytest.approx([row["mean_ms"], row["p50_ms"]])
    silent = replace(log, response_us=np.where(np.arange(6000) < 3000, MISSING, log.response_us))
    assert [value is None for value in capacity(silent, targets=["mean < 1s"])["targets"][0]["values"]] == [True, False]


def test_a_summary_with_capacity_imports_nothing_heavy() -> None:
    """The live figures run beside the load: an import of half a second would make launches late."""
    code = """
import sys
import numpy as np
from locust_realism.analysis.summary import summarize
from locust_realism.recording.launches import LaunchLog
rng = np.random.default_rng(1)
users = np.repeat([5, 10, 20, 40, 60, 80], 2000)
launch = np.cumsum(rng.exponential(1e6 / np.minimum(users, 40))).astype(np.int64)
response = rng.exponential(1e5, 12_000).astype(np.int64)
log = LaunchLog.build(launch, response, users=users, slot=rng.integers(0, 5, 12_000))
assert summarize(log)["capacity"]["knee"]["where"] == "measured"
print(*sorted(sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    loaded = set(done.stdout.split())
    assert not loaded & {"scipy.optimize", "scipy.signal", "scipy.stats", "pandas", "pyarrow.compute"}
