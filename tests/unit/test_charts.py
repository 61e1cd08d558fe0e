"""Curves of the charts, against plain counts, numpy and Locust's own statistics."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from locust_realism.analysis.charts import MAX_BINS, MAX_LABELS, as_locust_shows, bin_width_s, chart_data
from locust_realism.recording.launches import LaunchLog

ORIGIN = 1_700_000_000_000_000


def poisson(seconds: float = 100.0, rate: float = 50.0, seed: int = 1, names: int = 3) -> LaunchLog:
    rng = np.random.default_rng(seed)
    n = rng.poisson(rate * seconds)
    return LaunchLog.build(
        ORIGIN + np.sort(rng.integers(0, int(seconds * 1e6), n)),
        rng.lognormal(11, 1, n).astype(np.int64),
        names=[f"name {i}" for i in rng.integers(0, names, n)],
        failed=rng.random(n) < 0.1,
        users=rng.integers(1, 20, n),
    )


def test_a_log_without_rows_has_empty_curves() -> None:
    curves = chart_data(LaunchLog.empty())
    assert curves["interlaunch"] == curves["response"] == curves["as_locust"] == []
    assert set(map(len, curves["over_time"].values())) == {0}
    assert set(map(len, curves["cov_over_time"].values())) == {0}


def test_over_time_counts_each_launch_once() -> None:
    log = poisson()
    found = chart_data(log, origin_us=ORIGIN)["over_time"]
    width = found["width_s"][0]
    assert found["end_s"] == [(int(log.launch_us[-1]) - ORIGIN) / 1e6]
    assert sum(found["rate"]) * width == pytest.approx(len(log))
    assert sum(found["failures"]) * width == pytest.approx(log.failed.sum())
    second = (log.launch_us - ORIGIN) // 1_000_000
    for i in (0, 17, 99):
        rows = second == i
        assert found["t_s"][i] == i + 0.5
        assert found["rate"][i] == rows.sum()
        ordered = np.sort(log.response_us[rows])
        assert found["p95_ms"][i] == ordered[int(np.ceil(0.95 * len(ordered))) - 1] / 1e3
        gaps = np.diff(log.launch_us[rows])
        assert found["cov"][i] == pytest.approx(gaps.std(ddof=1) / gaps.mean(), rel=1e-5)
        assert found["users"][i] == pytest.approx(log.users[rows].mean(), rel=1e-5)


def test_rows_in_any_order_give_the_same_curves() -> None:
    log = poisson()
    shuffled = log.take(np.random.default_rng(2).permutation(len(log)))
    assert chart_data(shuffled) == chart_data(log)


@pytest.mark.parametrize("seconds", [0.5, 59, 240, 241, 3600, 86_400, 86_400 * 30, 86_400 * 1000])
def test_the_number_of_bins_is_bounded_whatever_the_length(seconds: float) -> None:
    log = LaunchLog.build(ORIGIN + np.array([0, seconds * 5e5, seconds * 1e6]).astype(np.int64), 1000)
    assert 1 <= len(chart_data(log)["over_time"]["t_s"]) <= MAX_BINS
    assert bin_width_s(seconds) >= 1


def test_a_window_keeps_the_axis_of_the_run() -> None:
    log = poisson()
    late = log.take(log.launch_us >= ORIGIN + 40_000_000)
    assert chart_data(late, origin_us=ORIGIN)["over_time"]["t_s"][0] == 40.5


@pytest.mark.parametrize(("rate", "width"), [(0.5, 300), (2, 60), (25, 5), (400, 1)])
def test_a_step_of_the_cov_curve_holds_a_hundred_gaps(rate: float, width: int) -> None:
    """Narrowest round width with 100 gaps on average (the span has a Poisson number of them, 2,000 or more)."""
    log = poisson(seconds=min(4000 / rate, 240.0) if rate > 20 else 4000 / rate, rate=rate)
    found = chart_data(log, origin_us=ORIGIN)["cov_over_time"]
    assert found["width_s"] == [width]
    at = 3
    inside = (log.launch_us >= ORIGIN + at * width * 1_000_000) & (
        log.launch_us < ORIGIN + (at + 1) * width * 1_000_000
    )
    gaps = np.diff(log.launch_us[inside])
    assert (found["t_s"][at], found["n"][at]) == ((at + 0.5) * width, len(gaps))
    assert found["cov"][at] == pytest.approx(gaps.std(ddof=1) / gaps.mean(), rel=1e-5)
    assert sum(found["n"]) == len(log) - len(found["n"]), "one gap less than launches in each step"
    inside_band = [
        abs(cov - 1) < 2 / n**0.5 for cov, n in zip(found["cov"], found["n"], strict=True) if cov is not None
    ]
    assert np.mean(inside_band) > 0.8  # about 0.95 of independent launches; the drawn band is 2 / sqrt(n)


def test_the_cov_curve_is_bounded_and_no_finer_than_the_others() -> None:
    for seconds in (0.5, 3600.0, 86_400.0 * 400):
        log = LaunchLog.build(ORIGIN + np.linspace(0, seconds * 1e6, 500).astype(np.int64), 1000)
        curves = chart_data(log)
        assert curves["cov_over_time"]["width_s"] >= curves["over_time"]["width_s"]
        assert len(curves["cov_over_time"]["t_s"]) <= MAX_BINS


def test_a_pause_shows_in_its_own_step() -> None:
    """Negative control: even bunches before, independent launches after 50 s."""
    first = ORIGIN + np.repeat(np.arange(500) * 100_000, 5) + np.tile(np.arange(5), 500)
    log = LaunchLog.build(np.concatenate([first, poisson(seconds=50).launch_us + 50_000_000]), 1000)
    found = chart_data(log, origin_us=ORIGIN)["cov_over_time"]
    cov = dict(zip(found["t_s"], found["cov"], strict=True))
    assert min(value for t, value in cov.items() if t < 49) > 1.9  # bunches of five: sqrt(4)
    assert max(value for t, value in cov.items() if t > 51) < 1.4


def test_planned_rates_are_those_of_the_bins() -> None:
    class Ramp:
        def cumulative(self, t: Any) -> Any:
            return np.asarray(t) ** 2 / 2

    found = chart_data(poisson(), origin_us=ORIGIN, planned=Ramp())["over_time"]
    assert found["planned_rate"] == pytest.approx(found["t_s"], rel=1e-5)
    assert "planned_rate" not in chart_data(poisson())["over_time"]


def test_the_histogram_of_exponential_gaps_follows_the_curve_and_that_of_even_gaps_does_not() -> None:
    def chi_square(log: LaunchLog) -> float:
        curve = chart_data(log)["interlaunch"][0]
        counts, expected = np.array(curve["counts"]), np.array(curve["expected"])
        assert counts.sum() + curve["beyond"] == curve["n"] == len(log) - 1
        assert expected.sum() + curve["beyond_expected"] == pytest.approx(curve["n"], rel=1e-4)
        enough = expected >= 5
        return float((((counts - expected) ** 2) / expected)[enough].sum() / enough.sum())

    even = LaunchLog.build(ORIGIN + np.arange(5000) * 20_000, 1000)
    assert chi_square(poisson()) < 1.8  # 40 degrees of freedom: more is one run in a thousand
    assert chi_square(even) > 100


def test_the_percentile_curve_holds_observed_values_at_nearest_ranks() -> None:
    log = poisson()
    curve = chart_data(log)["response"][0]
    ordered = np.sort(log.response_us) / 1e3
    n = len(ordered)
    assert curve["tail_ms"] == sorted(curve["tail_ms"])
    assert (curve["tail"][-1], curve["tail_ms"][-1]) == (n, ordered[-1])
    for tail, num, den in ((2, 1, 2), (10, 9, 10), (100, 99, 100), (1000, 999, 1000)):
        assert curve["tail_ms"][curve["tail"].index(tail)] == ordered[-(-n * num // den) - 1]


def test_the_density_adds_up_to_one_and_peaks_where_the_values_are() -> None:
    curve = chart_data(poisson())["response"][0]
    assert sum(curve["density"]) == pytest.approx(1, rel=1e-4)
    peak = curve["density_ms"][int(np.argmax(curve["density"]))]
    assert np.exp(11) / 1e3 / 2 < peak < np.exp(11) / 1e3 * 2  # log(R) is normal around 11


@pytest.mark.parametrize("response_us", [[0], [0, 0, 0], [5], [1, 1_000_000]])
def test_curves_of_a_few_or_zero_times(response_us: list[int]) -> None:
    found = chart_data(LaunchLog.build(np.arange(len(response_us)) * 1000, response_us))
    assert found["response"][0]["n"] == len(response_us)
    assert found["response"][0]["tail_ms"][-1] == max(response_us) / 1e3
    json.dumps(found, allow_nan=False)


def test_simultaneous_launches_have_no_histogram() -> None:
    assert chart_data(LaunchLog.build([7, 7, 7], 1))["interlaunch"][0]["counts"] == []


def test_the_busiest_names_have_curves_and_the_rest_is_counted() -> None:
    log = poisson(names=MAX_LABELS + 5)
    found = chart_data(log)
    assert len(found["response"]) == MAX_LABELS + 1
    assert found["names_left_out"] == 5
    assert found["response"][0]["label"] == "Aggregated"
    counts = [curve["n"] for curve in found["response"][1:]]
    assert counts == sorted(counts, reverse=True)


@pytest.mark.parametrize(("scale", "seed"), [(20_000, 1), (150_000, 2), (2_000_000, 3), (30_000_000, 4)])
def test_percentiles_as_locust_shows_them_are_those_of_locust(scale: int, seed: int) -> None:
    from locust.stats import RequestStats

    times = np.random.default_rng(seed).exponential(scale, 2000).astype(np.int64)
    stats = RequestStats()
    for value in times.tolist():
        stats.log_request("GET", "home", value / 1e3, 0)
    entry = stats.get("home", "GET")
    shown = as_locust_shows(np.sort(times))
    for key, share in (("p50_ms", 0.5), ("p90_ms", 0.9), ("p95_ms", 0.95), ("p99_ms", 0.99)):
        assert shown[key] == entry.get_response_time_percentile(share), key
