"""Times between launches: hand-computed rows, pandas as a second opinion, groups of users, and the published tables."""

import math
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from locust_realism.analysis.settings import AnalysisSettings, VerdictBounds, WorkloadModel
from locust_realism.analysis.stats.intervals import (
    coefficient_of_variation,
    default_group_sizes,
    group_table,
    in_launch_order,
    interval_row,
    launch_table,
    user_ranks,
)
from locust_realism.analysis.window import steady_rows, window_document
from locust_realism.recording.formats import read_launches
from locust_realism.recording.launches import ROW_DTYPES, LaunchLog

DEMO = Path(__file__).resolve().parents[3] / "shared" / "data" / "1800_AggRpt.csv"
TALK_SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 35, 40, 45, 50, 75, 100, 125, 150, 175, 200)
TALK_COV_1800 = (
    *(0.59, 0.71, 0.81, 0.85, 0.87, 0.91, 0.92, 0.94, 0.97, 0.99, 1.00, 0.97),
    *(0.96, 0.98, 0.99, 0.98, 0.98, 0.99, 1.00, 0.99, 0.98, 0.98, 0.99, 0.98),
)
"""The 1800 column of the talk's table of CoV by thread group (J. F. Brady, CMG IMPACT 2019)."""


@pytest.fixture(scope="module")
def run_1800():
    if not DEMO.exists():
        if os.environ.get("CI", "").lower() == "true":
            pytest.fail(f"{DEMO} is needed where CI=true")
        pytest.skip(f"{DEMO} is not here")
    return in_launch_order(read_launches(DEMO))


def test_the_published_cov_column_comes_out_to_the_second_decimal(run_1800):
    settings = AnalysisSettings.toolkit(skip_s=120, duration_s=1200, group_sizes=TALK_SIZES)
    rows = group_table(run_1800.take(steady_rows(run_1800, settings)), settings)
    assert [row["users"] for row in rows] == list(TALK_SIZES)
    assert [round(row["cov"], 2) for row in rows] == list(TALK_COV_1800)


def test_the_published_rate_comes_out_and_needs_the_trimming(run_1800):
    settings = AnalysisSettings.toolkit(skip_s=120, duration_s=1200)
    row = launch_table(run_1800.take(steady_rows(run_1800, settings)), settings)[-1]
    assert (row["n"], round(row["rate"], 2)) == (19_103, 15.91)
    untrimmed = group_table(run_1800, AnalysisSettings.toolkit(group_sizes=TALK_SIZES))
    assert [round(row["cov"], 2) for row in untrimmed] != list(TALK_COV_1800), "the negative control"


def test_users_in_lexicographic_order_give_other_figures(run_1800):
    """Slot 10 must not come before slot 2, as it does where thread names are sorted as text."""
    settings = AnalysisSettings.toolkit(skip_s=120, duration_s=1200, group_sizes=TALK_SIZES)
    part = run_1800.take(steady_rows(run_1800, settings))
    as_text = {slot: i for i, slot in enumerate(sorted({int(s) for s in part.slot}, key=str))}
    moved = LaunchLog.build(part.launch_us, part.response_us, slot=[as_text[int(s)] for s in part.slot])
    assert [round(row["cov"], 2) for row in group_table(moved, settings)] != list(TALK_COV_1800)


def test_a_row_computed_by_hand():
    row = interval_row(np.array([0, 1000, 1000, 4000, 10_000]))
    gaps = [0, 1, 3, 6]
    assert (row["launches"], row["n"], row["rate"]) == (5, 4, 400.0)
    assert row["mean_ms"] == 2.5
    assert row["sdev_ms"] == pytest.approx(math.sqrt(sum((g - 2.5) ** 2 for g in gaps) / 3))
    assert row["cov"] == pytest.approx(row["sdev_ms"] / 2.5)
    assert (row["median_ms"], row["p90_ms"], row["min_ms"], row["max_ms"]) == (1.0, 6.0, 0.0, 6.0)


def test_one_launch_has_no_gap_and_two_no_deviation():
    assert interval_row(np.array([7]))["n"] == 0
    two = interval_row(np.array([0, 5000]))
    assert (two["n"], two["mean_ms"]) == (1, 5.0)
    assert math.isnan(two["cov"])


def test_rows_of_every_name_equal_those_of_pandas():
    rng = np.random.default_rng(3)
    n = 5000
    launches = rng.integers(0, 10**8, n)
    names, methods = rng.choice(["a", "b", "c"], n), rng.choice(["GET", "PUT"], n)
    log = in_launch_order(LaunchLog.build(launches, 1000, names=names.tolist(), methods=methods.tolist()))
    frame = pd.DataFrame({"t": launches, "name": names, "method": methods}).sort_values("t")
    rows = launch_table(log, AnalysisSettings(percentile_rule="linear"))
    assert [(r["label"], r["method"]) for r in rows[:-1]] == sorted((a, b) for a in "abc" for b in ("GET", "PUT"))
    for row in rows[:-1]:
        gaps = frame[(frame.name == row["label"]) & (frame.method == row["method"])].t.diff().dropna() / 1e3
        assert (row["n"], row["mean_ms"]) == (len(gaps), pytest.approx(gaps.mean()))
        assert row["sdev_ms"] == pytest.approx(gaps.std())
        assert row["p95_ms"] == pytest.approx(gaps.quantile(0.95))
    assert rows[-1]["label"] == "Aggregated"
    assert rows[-1]["n"] == n - 1


def test_failures_are_launches():
    log = LaunchLog.build([0, 1000, 2000, 3000], 1, names="x", failed=[False, True, True, False])
    assert launch_table(log)[-1]["n"] == 3


def test_rows_may_come_in_any_order():
    rng = np.random.default_rng(4)
    launches = np.sort(rng.integers(0, 10**7, 1000))
    shuffled = LaunchLog.build(rng.permutation(launches), 1, names="x")
    assert launch_table(in_launch_order(shuffled)) == launch_table(LaunchLog.build(launches, 1, names="x"))


def test_the_toolkits_rate_ends_with_the_last_answer():
    log = LaunchLog.build([0, 1_000_000, 2_000_000], [0, 0, 500_000], names="x")
    assert launch_table(log, AnalysisSettings.toolkit())[-1]["rate"] == 2 / 2.5
    assert launch_table(log)[-1]["rate"] == 1.0


def test_only_the_busiest_names_get_rows():
    log = LaunchLog.build(range(6), 1, names=["a", "b", "b", "c", "c", "c"])
    assert [row["label"] for row in launch_table(log, AnalysisSettings(max_names=2))] == ["b", "c", "Aggregated"]


def test_groups_interleave_workers_and_leave_out_unknown_users():
    log = LaunchLog.build(range(0, 7000, 1000), 1, slot=[0, 0, 1, 1, -1, 0, 12], worker=[0, 1, 0, 1, 0, 0, 0])
    ranks, users = user_ranks(log)
    assert (ranks.tolist(), users) == ([0, 1, 2, 3, -1, 0, 4], 5)
    rows = group_table(log, sizes=(1, 2, 5))
    assert [(row["users"], row["n"]) for row in rows] == [(1, 1), (2, 2), (5, 5)]


def test_users_with_very_large_slots_are_ranked_alike():
    """Thread numbers of other tools need not be small."""
    slots = [3, 2_000_000_000, 3, 17]
    ranks, users = user_ranks(LaunchLog.build(range(4), 1, slot=slots))
    assert (ranks.tolist(), users) == ([0, 2, 0, 1], 3)
    ranks, users = user_ranks(LaunchLog.build(range(4), 1, slot=[*slots[:3], -1]))
    assert (ranks.tolist(), users) == ([0, 1, 0, -1], 2)


def test_groups_of_a_log_without_users_are_empty():
    assert group_table(LaunchLog.build(range(10), 1)) == []
    assert default_group_sizes(0) == []
    assert default_group_sizes(1) == [1]
    assert default_group_sizes(200) == list(TALK_SIZES)


def test_the_window_keeps_both_ends_and_states_the_cut():
    log = LaunchLog.build(np.arange(0, 101) * 1_000_000, 1)
    settings = AnalysisSettings(skip_s=10, duration_s=50)
    rows = steady_rows(log, settings)
    assert (rows.start, rows.stop) == (10, 61)
    document = window_document(log, rows, settings, None)
    assert (document["n"], document["cut_start"], document["cut_end"]) == (51, 10, 40)
    assert document["sentence"] == "51 requests, 10.0 s to 60.0 s; left out: 10 before and 40 after."


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (AnalysisSettings(cooldown_s=30), (0, 71)),
        (AnalysisSettings(skip_requests=25, sample_requests=50), (25, 75)),
        (AnalysisSettings(skip_s=10, skip_requests=5, cooldown_s=90), (11, 11)),
        (AnalysisSettings(skip_s=1000), (101, 101)),
    ],
)
def test_warm_up_and_cool_down_are_cut_by_time_and_by_number(settings, expected):
    log = LaunchLog.build(np.arange(0, 101) * 1_000_000, 1)
    rows = steady_rows(log, settings)
    assert (min(rows.start, rows.stop), rows.stop) == expected or rows.stop - rows.start == 0


def test_an_explicit_window_takes_the_place_of_every_cut():
    log = LaunchLog.build(np.arange(0, 101) * 1_000_000, 1)
    rows = steady_rows(log, AnalysisSettings(skip_s=50), window=(3_000_000, 5_500_000))
    assert (rows.start, rows.stop) == (3, 6)
    with pytest.raises(ValueError, match="window is"):
        steady_rows(log, AnalysisSettings(), window=(5, 3))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: AnalysisSettings(percentile_rule="p"), "percentile_rule must be one of nearest_rank, .*, not 'p'"),
        (lambda: AnalysisSettings(duration_s=0), "duration_s must be > 0, not 0"),
        (lambda: AnalysisSettings(group_sizes=(0, 1)), r"group_sizes must be an integer >= 1, not 0"),
        (lambda: AnalysisSettings(confidence=1), "confidence must be in .0, 1., not 1"),
        (lambda: VerdictBounds(cov_amber=-1), "cov_amber must be > 0, not -1"),
        (lambda: VerdictBounds(cov_red=0.01), "cov_red must be >= 0.05, the bound cov_amber, not 0.01"),
        (lambda: WorkloadModel(kind="half open"), "kind must be one of closed, open, unknown, not 'half open'"),
        (lambda: WorkloadModel(users=0), "users must be an integer >= 1, not 0"),
        (lambda: WorkloadModel(requests_per_task=0.5), "requests_per_task must be >= 1, not 0.5"),
    ],
)
def test_settings_are_checked_when_built(build, message):
    with pytest.raises(ValueError, match=message):
        build()


@pytest.mark.parametrize("dtype", [np.uint32, np.int64, np.float64])
def test_the_cov_of_every_type_is_numpys(dtype):
    """Unsigned values below their mean must not wrap; a large level must not cost the digits."""
    values = (np.random.default_rng(9).exponential(1000, 5000) + 2**31).astype(dtype)
    assert coefficient_of_variation(values) == pytest.approx(values.std(ddof=1) / values.mean(), rel=1e-9)
    assert coefficient_of_variation(np.full(1000, 7, dtype=dtype)) == 0.0


def test_ordering_in_place_gives_the_same_log_without_a_copy():
    rng = np.random.default_rng(11)
    columns = {"slot": rng.integers(0, 9, 500), "size_bytes": rng.integers(0, 9, 500)}
    log = LaunchLog.build(rng.integers(0, 10**6, 500), rng.integers(0, 99, 500), names="x", **columns)
    log.size_bytes.flags.writeable = False
    expected = in_launch_order(log)
    before = log.launch_us
    found = in_launch_order(log, in_place=True)
    assert found.launch_us is before
    for name in ROW_DTYPES:
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
