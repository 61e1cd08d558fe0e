"""Counts in batches do not depend on pieces or ties; limits hold for dependent values, binomial ones do not."""

import math

import numpy as np
import pytest
from queue_support import lower_bound, queue
from scipy import stats

from locust_realism.analysis.percentiles import QUANTILES
from locust_realism.analysis.stats import batches
from locust_realism.analysis.stats.batches import (
    BATCHES,
    BatchCounts,
    batch_edges,
    effective_n,
    inflation,
    limit_ranks,
    ratio_spread,
    student,
)
from locust_realism.analysis.stats.estimates import quantile_estimate
from locust_realism.analysis.stats.responses import interval_note, response_table
from locust_realism.recording.launches import LaunchLog


@pytest.mark.parametrize("freedom", [1.0, 1.3, 2.0, 2.7, 5.0, 21.2, 400.0, 1e6, math.inf])
def test_students_quantiles_are_scipys(freedom):
    """Also at the confidence of a comparison of 428 figures, and beyond."""
    for confidence in (0.5, 0.9, 0.95, 0.9995, 1 - 0.05 / 428, 0.99999):
        assert student(confidence, freedom) == pytest.approx(stats.t.ppf((1 + confidence) / 2, freedom), rel=5e-4)


@pytest.mark.parametrize("n", [0, 1, 63, 64, 65, 9999])
def test_batches_are_equal_and_cover_every_row(n):
    sizes = np.diff(batch_edges(n))
    assert sizes.sum() == n
    assert len(sizes) == min(n, BATCHES)
    assert not n or np.ptp(sizes) <= 1


def counted(launch, groups, values, percentiles, cuts=()):
    number = [int(((groups == group) & (values >= 0)).sum()) for group in range(len(percentiles))]
    counts = BatchCounts(percentiles, number)
    for rows in np.split(np.arange(len(values)), cuts):
        counts.add(launch[rows], groups[rows], values[rows])
    return [counts.of(group) for group in range(len(percentiles))]


def test_counts_are_the_same_for_every_piece_and_every_order_of_ties(monkeypatch):
    """Rows of several workers come in other pieces, and launches of the same microsecond in another order."""
    rng, n = np.random.default_rng(1), 3000
    launch = np.sort(rng.integers(0, 200, n))
    groups, values = rng.integers(0, 4, n), rng.integers(-1, 50, n)
    percentiles = np.sort(rng.integers(0, 50, (3, 5)), axis=1) + 0.5
    whole = counted(launch, groups, values, percentiles)
    order = np.lexsort((rng.random(n), launch))
    monkeypatch.setattr(batches, "PIECE", 50)
    for cuts in ([], np.sort(rng.integers(0, n, 200)), np.arange(1, n, 7)):
        again = counted(launch, groups[order], values[order], percentiles, cuts)
        for (below, number), (below_again, number_again) in zip(whole, again, strict=True):
            assert np.array_equal(below, below_again)
            assert np.array_equal(number, number_again)
    for group, (below, number) in enumerate(whole):
        is_mine = (groups == group) & (values >= 0)
        mine, position = values[is_mine], np.searchsorted(launch[is_mine], launch[is_mine])
        batch = position * BATCHES // len(mine)
        assert number.tolist() == np.bincount(batch, minlength=BATCHES).tolist()
        assert below[0].tolist() == np.bincount(batch, mine <= percentiles[group, 0], BATCHES).tolist()
        assert below.sum(axis=1).tolist() == [(mine <= bound).sum() for bound in percentiles[group]]


@pytest.mark.parametrize("n", [8, 63, 64, 2000])
def test_a_name_in_a_part_of_the_run_has_the_limits_of_its_own_values(n):
    """Batches of the run's rows would hold 2,000 logins at the start in two of 64, without an interval at any length.

    The limits are also those that compare, sweep and capacity give the same values.
    """
    rng, rows = np.random.default_rng(8), 100_000
    launch, response = np.arange(rows), rng.integers(1, 10**6, rows)
    for start in (0, rows - n):
        names = np.full(rows, "browse", dtype=object)
        names[start : start + n] = "login"
        login = response_table(LaunchLog.build(launch, response, names=names.tolist()))[1]
        mine = response[start : start + n] / 1e3
        for key, quantile in zip(("p50", "p90", "p95", "p99", "p999"), QUANTILES, strict=True):
            found = quantile_estimate(mine, quantile)
            limits = [found.low, found.high] if math.isfinite(found.low + found.high) else None
            assert login[f"{key}_interval_ms"] == limits
        assert login["p50_interval_ms"] is not None or n == 8


def test_the_variance_of_a_ratio_is_that_of_a_name_that_comes_and_goes():
    """The name has a third of the requests in half of the batches; its share of hits is that of independent ones."""
    rng, runs = np.random.default_rng(2), 400
    counts = rng.binomial(100, np.repeat([0.0, 1 / 3], 32), (runs, 64))
    found = np.array([ratio_spread(rng.binomial(each, 0.2), each).variance * each.sum() / 0.16 for each in counts])
    # (1 + r) / (1 - r) never goes below 1, which makes the mean a little larger.
    assert 1.0 < found.mean() < 1.25


def test_the_effective_number_is_n_without_dependence_and_that_of_the_queue_with_it():
    rng = np.random.default_rng(3)
    _, values = queue(rng, 200_000, 0.8)
    found = []
    for each in (values, rng.permutation(values)):
        below = np.add.reduceat(each <= np.median(each), batch_edges(len(each))[:-1])
        found.append(effective_n(below, np.diff(batch_edges(len(each)))))
    # 26 requests to an independent one: measured in 1,500 runs of 10,000.
    assert 200_000 / 26 / 1.5 < found[0] < 200_000 / 26 * 1.5
    assert found[1] > 120_000


def test_few_values_have_no_limits():
    for n in range(1, 8):
        below = (np.arange(n) < n / 2).astype(np.int64)
        assert limit_ranks(0.5, below, np.ones(n, dtype=np.int64), n, 0.95)[:2] == (None, None)
    assert math.isnan(ratio_spread(np.array([1]), np.array([1])).variance)


def test_limits_in_the_summary_hold_on_a_queue_and_binomial_ones_do_not():
    """M/M/1 at .8, p50 and p95 of 10,000 requests: at least .93 of the limits that are given."""
    rng, runs = np.random.default_rng(4), 100
    truth = {"p50": 50 * math.log(2), "p95": 50 * math.log(20)}
    ranks = {"p50": stats.binom.ppf([0.025, 0.975], 10_000, 0.5), "p95": stats.binom.ppf([0.025, 0.975], 10_000, 0.95)}
    held, old = {name: [] for name in truth}, {name: [] for name in truth}
    for _ in range(runs):
        launch, response = queue(rng, 10_000, 0.8)
        row = response_table(LaunchLog.build(launch, response))[-1]
        ordered = np.sort(response) / 1e3
        for name, value in truth.items():
            low, high = ordered[ranks[name].astype(int) - [1, 0]]
            old[name].append(low <= value <= high)
            if (limits := row[f"{name}_interval_ms"]) is not None:
                held[name].append(limits[0] <= value <= limits[1])
    for name in truth:
        assert len(held[name]) > runs / 2
        assert np.mean(held[name]) >= lower_bound(0.93, len(held[name]))
        assert np.mean(old[name]) < 0.5, "the negative control"


def test_a_percentile_that_a_queue_cannot_carry_has_a_note_and_no_interval():
    launch, response = queue(np.random.default_rng(5), 10_000, 0.95)
    row = response_table(LaunchLog.build(launch, response))[-1]
    assert row["effective_n"] < 200
    assert row["p99_interval_ms"] is None
    assert row["interval_note"].startswith(f"10,000 response times hold about as much as {row['effective_n']:,.0f} ")
    independent = response_table(LaunchLog.build(launch, np.random.default_rng(5).permutation(response)))[-1]
    assert independent["effective_n"] > 8000
    assert independent["p99_interval_ms"][0] < independent["p99_ms"] < independent["p99_interval_ms"][1]
    assert interval_note(8, 8.0, [1, 2, 3, 4, 5]) is None


def test_a_run_as_long_as_the_note_advises_has_the_interval():
    rng = np.random.default_rng(6)
    row = response_table(LaunchLog.build(*queue(rng, 5000, 0.8)))[-1]
    assert row["p95_interval_ms"] is None
    factor = int(row["interval_note"].split("For a confidence interval run about ")[1].split(" times")[0])
    given = 0
    for _ in range(8):
        row = response_table(LaunchLog.build(*queue(rng, 5000 * factor, 0.8)))[-1]
        given += row["p95_interval_ms"] is not None
    assert 2 <= factor <= 10
    assert given >= 6


def test_launches_at_one_instant_have_no_interval_and_no_length_is_advised():
    response = np.random.default_rng(7).integers(1, 10**6, 500)
    same = response_table(LaunchLog.build(np.zeros(500, dtype=np.int64), response))[-1]
    assert same["p50_interval_ms"] is None
    assert math.isnan(same["effective_n"])
    assert same["interval_note"].startswith("All launches are at one instant.")
    one = response_table(LaunchLog.build([0], [1000]))[-1]
    assert "times as long" in one["interval_note"]


def test_one_name_has_the_interval_of_all():
    launch, response = queue(np.random.default_rng(7), 5000, 0.5)
    one, total = response_table(LaunchLog.build(launch, response, names="a"))
    assert {**one, "label": total["label"], "method": total["method"]} == total


def test_inflation_is_bounded_and_at_least_one():
    assert inflation(np.zeros(4), 4) == pytest.approx(1.25 / 0.75)
    assert inflation(np.array([1.0, -1, 1, -1]), 4) == 1.0
    assert inflation(np.repeat([1.0, -1.0], 50), 100) == pytest.approx(19)
