"""Warm-up, halves, segments, sample windows, stages and levels, against plain recomputation."""

import math
from dataclasses import replace

import numpy as np
import pytest

from locust_realism.analysis.capacity.levels import MAX_LEVELS, level_rows, split_levels
from locust_realism.analysis.settings import AnalysisSettings
from locust_realism.analysis.stats.steady_state import (
    mser5,
    sample_pieces,
    sample_window,
    stability,
    steady_state,
    warm_up_rows,
)
from locust_realism.analysis.verdict.stages import held_users, stage_table
from locust_realism.recording.launches import MISSING, LaunchLog

SETTINGS = AnalysisSettings()


def log_of(rng, n, mean_ms=10.0, rate=100.0, **columns):
    launches = np.cumsum(rng.exponential(1e6 / rate, n)).astype(np.int64)
    return LaunchLog.build(launches, rng.exponential(mean_ms * 1e3, n).astype(int), names="x", **columns)


def levels_of(log):
    return level_rows(log, split_levels(log), "nearest_rank")


def stages_of(log):
    origin = int(log.launch_us[0])
    return [*stage_table(log, SETTINGS, held_users(log, origin), origin), *levels_of(log)]


def test_mser5_minimises_its_own_definition():
    rng = np.random.default_rng(1)
    values = np.concatenate((np.linspace(20, 3, 150), rng.normal(3, 1, 600)))
    means = values.reshape(-1, 5).mean(axis=1)
    k = len(means)
    scores = [((means[d:] - means[d:].mean()) ** 2).sum() / (k - d) ** 2 for d in range(k - 5)]
    assert mser5(values) == 5 * int(np.argmin(scores))


def test_mser5_cuts_at_most_half():
    """A mean that never settles is no warm-up that ends late."""
    rng = np.random.default_rng(24)
    late = np.concatenate((rng.normal(20, 1, 800), rng.normal(5, 1, 200)))
    assert mser5(late) <= 505
    assert mser5(np.linspace(100, 0, 1000)) <= 505


def queue(rng, n, utilisation):
    """Return times in system of an M/M/1 queue of service rate 1 in its steady state, by Lindley's recursion."""
    gaps, service = rng.exponential(1 / utilisation, n + 20_000), rng.exponential(1.0, n + 20_000)
    walk = np.concatenate(([0.0], np.cumsum(service[:-1] - gaps[1:])))
    return (walk - np.minimum.accumulate(walk) + service)[20_000:], np.cumsum(gaps)[20_000:]


def plain_mser5(values):
    """Return the cut as it was before: the minimum wherever it lies."""
    means = values.reshape(-1, 5).mean(axis=1)
    k = len(means)
    left = np.arange(k, 0, -1.0)
    sums, squares = np.cumsum(means[::-1])[::-1], np.cumsum(means[::-1] ** 2)[::-1]
    return 5 * int(np.argmin(((squares - sums**2 / left) / left**2)[: k - 5]))


def test_mser5_leaves_the_mean_of_a_steady_queue():
    """M/M/1 at .9: mean over 200 runs of 10,000 within 4 standard errors of 10; the plain cut leaves .88 of it."""
    kept, before, every = [], [], []
    for seed in range(200):
        times, _ = queue(np.random.default_rng([25, seed]), 10_000, 0.9)
        kept.append(times[mser5(times) :].mean() * 0.1)
        before.append(times[plain_mser5(times) :].mean() * 0.1)
        every.append(times.mean() * 0.1)
    error = np.std(every) / math.sqrt(200)
    assert abs(np.mean(kept) - 1) < 4 * error
    assert np.mean(kept) - np.mean(every) > -0.03, "the same runs, uncut"
    assert np.mean(before) - np.mean(every) < -0.08, "the negative control"


def test_mser5_still_finds_the_warm_up_of_a_queue():
    found = []
    for seed in range(20):
        times, _ = queue(np.random.default_rng([26, seed]), 9000, 0.5)
        cold = np.concatenate((20.0 + 10 * np.exp(-np.arange(1000) / 300), times))
        found.append(mser5(cold))
    assert min(found) >= 950
    assert np.median(found) <= 1100


def test_halves_know_the_error_that_neighbours_share():
    """M/M/1 at .9, 150 steady runs: z of the mean has a spread of about 1, not of 1.2 as without the correlation."""
    scores, plain = [], []
    for seed in range(150):
        times, arrivals = queue(np.random.default_rng([27, seed]), 6000, 0.9)
        log = LaunchLog.build((arrivals * 1e6).astype(int), (times * 1e6).astype(int))
        found = stability(log, SETTINGS)
        change = found["changes"]["mean"]
        scores.append(change["change"] / change["standard_error"])
        means = np.array([segment["mean_ms"] for segment in found["segments"]])
        error = math.sqrt((means[:10].var(ddof=1) + means[10:].var(ddof=1)) / 10) / means[:10].mean()
        plain.append(change["change"] / error)
    assert np.std(scores) < 1.15
    assert np.std(plain) > 1.2, "the negative control"


def test_mser5_keeps_its_digits_far_from_zero():
    values = np.concatenate((np.full(100, 50.0), np.random.default_rng(2).normal(5, 1, 900)))
    assert mser5(values) == mser5(values + 1e9) == 100


def test_mser5_of_a_short_sample_cuts_nothing():
    assert mser5(np.arange(49)) == 0


def test_halves_and_segments_are_those_of_a_plain_cut_in_time():
    log = log_of(np.random.default_rng(3), 5000)
    found = stability(log, SETTINGS)
    middle = (log.launch_us[0] + log.launch_us[-1]) / 2
    first = log.response_us[log.launch_us <= middle] / 1e3
    assert found["halves"][0]["n"] == len(first)
    assert found["halves"][0]["p95_ms"] == np.quantile(first, 0.95, method="inverted_cdf")
    assert sum(part["n"] for part in found["segments"]) == 5000
    assert len(found["segments"]) == 20


def test_a_steady_run_changes_within_its_error_and_a_slower_half_does_not():
    """z of 150 steady runs has the spread of Student's t(18) within 4 standard errors."""
    scores = []
    for seed in range(150):
        change = stability(log_of(np.random.default_rng(seed), 2000), SETTINGS)["changes"]["p50"]
        scores.append(change["change"] / change["standard_error"])
    spread, expected = np.std(scores), math.sqrt(18 / 16)
    assert abs(spread - expected) < 4 * expected / math.sqrt(2 * 150)
    rng = np.random.default_rng(4)
    slower = LaunchLog.concat([log_of(rng, 2000), log_of(rng, 2000, mean_ms=15.0)])
    shifted = slower.launch_us.copy()
    shifted[2000:] += shifted[1999]
    change = stability(LaunchLog.build(shifted, slower.response_us), SETTINGS)["changes"]["p50"]
    assert change["change"] > 4 * change["standard_error"]


def test_too_few_launches_are_not_compared():
    assert stability(log_of(np.random.default_rng(5), 500), SETTINGS)["enough"] is False
    empty = steady_state(LaunchLog.empty(), SETTINGS)
    assert empty["enough"] is False
    assert empty["jmeter_window"] is None


def test_jmeters_window_holds_the_last_samples_to_end():
    """R type 6 of the last 20,000 completions, which is not the percentile of the run."""
    rng = np.random.default_rng(6)
    n = 50_000
    response = np.concatenate((rng.exponential(10_000, n - 15_000), rng.exponential(80_000, 15_000))).astype(int)
    log = LaunchLog.build(np.arange(n) * 1000, response)
    found = sample_window(log)
    last = response[np.argsort(log.launch_us + response, kind="stable")][-20_000:] / 1e3
    assert found["p90_ms"] == pytest.approx(np.quantile(last, 0.9, method="weibull"))
    assert found["p90_ms"] > 1.3 * np.quantile(response, 0.9) / 1e3, "the error that the window makes"
    assert sample_window(log.take(slice(0, 20_000))) is None


def test_pieces_of_20000_samples_are_evenly_chosen():
    log = LaunchLog.build(np.arange(1000), np.arange(1000) * 1000)
    pieces = sample_pieces(log, SETTINGS.percentile_rule, size=100, limit=4)
    assert [piece["first_row"] for piece in pieces] == [0, 300, 600, 900]
    assert pieces[1]["p50_ms"] == 349.0
    assert sample_pieces(log, SETTINGS.percentile_rule, size=600) == []


def test_three_levels_in_one_run_are_three_rows_and_three_stages():
    rng = np.random.default_rng(7)
    users = np.repeat([20, 50, 100], 2000)
    log = log_of(rng, 6000, users=users)
    rows = stages_of(log)
    stages = [row for row in rows if row["kind"] == "stage"]
    levels = [row for row in rows if row["kind"] == "level"]
    assert [row["users"] for row in stages] == [row["users"] for row in levels] == [20, 50, 100]
    for row, level in zip(levels, (20, 50, 100), strict=True):
        part = log.response_us[users == level] / 1e3
        assert (row["n"], row["p95_ms"]) == (2000, np.quantile(part, 0.95, method="inverted_cdf"))
        assert row["rate"] == pytest.approx(100, rel=4 / math.sqrt(2000))
        assert row["response_share"] == pytest.approx(row["rate"] * part.mean() / 1e3 / level)
    assert sum(row["duration_s"] for row in levels) == pytest.approx((log.launch_us[-1] - log.launch_us[0]) / 1e6)


def test_the_share_of_waiting_users_is_that_of_their_own_times():
    """Little's R / (R + Z) against the users' own round trips: 50 users, 2 s of thinking, 0.5 s of waiting."""
    rng = np.random.default_rng(12)
    think, response = rng.exponential(2.0, (50, 400)), rng.exponential(0.5, (50, 400))
    launches = np.cumsum(think + response, axis=1) - response
    log = LaunchLog.build((launches.ravel() * 1e6).astype(int), (response.ravel() * 1e6).astype(int), users=50)
    log = log.take(np.argsort(log.launch_us, kind="stable"))
    (row,) = levels_of(log.take(log.launch_us < 900_000_000))
    assert row["response_share"] == pytest.approx(0.5 / 2.5, rel=0.03)


def test_planned_stages_are_rows_of_their_own():
    log = LaunchLog.build(np.arange(100) * 1_000_000, 5000)
    planned = [{"start_s": 0, "end_s": 40, "rate": 1.0}, {"start_s": 40, "end_s": 100, "users": 7}]
    first, second = stage_table(log, SETTINGS, planned, origin_us=0)
    assert (first["n"], first["rate"], first["duration_s"]) == (40, 1.0, 40.0)
    assert (second["n"], second["users"], second["cov"]) == (60, 7, 0.0)


def test_a_planned_rate_stands_beside_the_measured_one():
    log = LaunchLog.build(np.arange(100) * 1_000_000, 5000)
    row = stage_table(log, SETTINGS, [{"start_s": 0, "end_s": 50, "rate": 3.0}], origin_us=0)[0]
    assert (row["planned_rate"], row["rate"]) == (3.0, 1.0)


def test_many_levels_share_rows():
    rng = np.random.default_rng(8)
    log = log_of(rng, 20_000, users=rng.integers(100, 900, 20_000))
    rows = levels_of(log)
    assert len(rows) <= MAX_LEVELS
    assert sum(row["n"] for row in rows) == 20_000
    assert all(row["users_low"] <= row["users"] <= row["users_high"] for row in rows)


def test_unknown_numbers_of_users_give_no_levels():
    assert levels_of(log_of(np.random.default_rng(9), 100)) == []
    mixed = log_of(np.random.default_rng(9), 100, users=np.repeat([-1, 5], 50))
    assert [row["n"] for row in levels_of(mixed)] == [50]


def with_missing(log):
    """Return the log with every seventh response time missing, and the log without these rows."""
    gone = np.arange(len(log)) % 7 == 3
    return replace(log, response_us=np.where(gone, MISSING, log.response_us)), log.take(~gone)


def response_figures(row):
    return {key: value for key, value in row.items() if key == "mean_ms" or key.startswith("p")}


def test_missing_response_times_have_no_part_in_the_times_of_stages_and_levels():
    log = log_of(np.random.default_rng(21), 6000, users=np.repeat([5, 9], 3000))
    holed, known = with_missing(log)
    found, expected = stages_of(holed), stages_of(known)
    assert [row["kind"] for row in found] == ["stage", "stage", "level", "level"]
    assert sum(row["n"] for row in found[2:]) == 6000
    for mine, theirs in zip(found, expected, strict=True):
        assert response_figures(mine) == response_figures(theirs)
    assert response_figures(stages_of(log)[-1]) != response_figures(found[-1])
    none = stages_of(replace(log, response_us=np.full(6000, MISSING)))
    assert none[0]["n"] == 3000
    assert math.isnan(none[0]["mean_ms"])


def test_missing_response_times_have_no_part_in_halves_segments_and_windows():
    log = log_of(np.random.default_rng(22), 5000)
    holed, _ = with_missing(log)
    found = steady_state(holed, SETTINGS)
    known = holed.response_us[holed.response_us >= 0]
    middle = (log.launch_us[0] + log.launch_us[-1]) / 2
    first = holed.response_us[(log.launch_us <= middle) & (holed.response_us >= 0)] / 1e3
    assert sum(half["n"] for half in found["halves"]) == sum(row["n"] for row in found["segments"]) == 5000
    assert found["halves"][0]["p50_ms"] == np.quantile(first, 0.5, method="inverted_cdf")
    assert found["halves"][0]["mean_ms"] == pytest.approx(first.mean())
    weights = [row["n"] for row in found["segments"]]
    assert np.average([row["mean_ms"] for row in found["segments"]], weights=weights) == pytest.approx(
        known.mean() / 1e3, rel=0.01
    )
    window = sample_window(holed, 4999)
    assert window["samples"] == 4999
    assert window["p50_ms"] == pytest.approx(np.quantile(known, 0.5, method="weibull") / 1e3, rel=0.01)
    assert sample_window(replace(log, response_us=np.full(5000, MISSING)), 100) is None


def test_the_warm_up_depends_on_known_response_times_only():
    rng = np.random.default_rng(23)
    values = np.concatenate((np.linspace(50_000, 5_000, 700), rng.normal(5_000, 500, 2100))).astype(int)
    log = LaunchLog.build(np.arange(2800) * 1000, values)
    holed, known = with_missing(log)
    cut = warm_up_rows(holed)
    assert known.launch_us[mser5(known.response_us)] == log.launch_us[cut]
    assert 600 <= cut <= 800
    assert warm_up_rows(replace(log, response_us=np.full(2800, MISSING))) == 0
