"""The summary document: complete, JSON-able whatever the log, and the same for every order and split of its rows."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from locust_realism.analysis.settings import AnalysisSettings
from locust_realism.analysis.stats.responses import bytes_table, response_table
from locust_realism.analysis.summary import SCHEMA_VERSION, summarize
from locust_realism.analysis.verdict.evidence import Facts
from locust_realism.common.json import to_json_safe
from locust_realism.recording.launches import LaunchLog


def example(n=3000, seed=1):
    rng = np.random.default_rng(seed)
    return LaunchLog.build(
        np.cumsum(rng.exponential(10_000, n)).astype(int),
        rng.lognormal(9, 1, n).astype(int),
        names=rng.choice(["home", "buy"], n).tolist(),
        methods="GET",
        failed=rng.uniform(size=n) < 0.02,
        slot=rng.integers(0, 20, n),
        worker=rng.integers(0, 2, n),
        users=40,
        size_bytes=rng.integers(0, 5000, n),
    )


def strict(document):
    return json.loads(json.dumps(document, allow_nan=False))


def test_charts_are_a_setting():
    document = strict(summarize(example(), settings=AnalysisSettings(charts=False)))
    assert document["schema_version"] == SCHEMA_VERSION
    assert document["launches"][-1]["label"] == document["response_times"][-1]["label"] == "Aggregated"
    assert "charts" not in document


def test_response_times_equal_numpys():
    log = example()
    row = summarize(log)["response_times"][-1]
    values = log.response_us / 1e3
    assert row["p95_ms"] == np.quantile(values, 0.95, method="inverted_cdf")
    assert row["mean_ms"] == pytest.approx(values.mean())
    assert row["cov"] == pytest.approx(values.std(ddof=1) / values.mean())
    assert row["failures"] == int(log.failed.sum())
    assert row["p999_interval_ms"] is None, "3,000 values are too few for p99.9"
    assert row["p99_interval_ms"][0] <= row["p99_ms"] <= row["p99_interval_ms"][1]


def test_sizes_add_up():
    log = example()
    rows = bytes_table(log)
    assert sum(row["total_bytes"] for row in rows[:-1]) == rows[-1]["total_bytes"] == int(log.size_bytes.sum())
    assert rows[-1]["p50_bytes"] == np.quantile(log.size_bytes, 0.5, method="inverted_cdf")


def test_the_order_of_the_rows_does_not_matter():
    log = example()
    order = np.random.default_rng(2).permutation(len(log))
    assert strict(summarize(log.take(order))) == strict(summarize(log))


def test_the_union_of_workers_gives_bit_for_bit_what_one_log_gives():
    log = example()
    parts = [log.take(log.worker == worker) for worker in (1, 0)]
    merged, whole = strict(summarize(LaunchLog.concat(parts))), strict(summarize(log))
    assert merged == whole


def test_a_cut_window_shows_the_untrimmed_figures():
    document = summarize(example(), settings=AnalysisSettings(skip_s=5, cooldown_s=5))
    every = summarize(example())
    assert document["window"]["untrimmed"]["n"] == 2999
    cov, p95 = every["launches"][-1]["cov"], every["response_times"][-1]["p95_ms"]
    said = document["window"]["sentence"]
    assert f"With all of them the CoV is {cov:.4g} at " in said
    assert f", {p95:.4g} and " in said
    assert "With all of them" not in every["window"]["sentence"]
    assert document["window"]["cut_start"] > 0
    assert document["window"]["n"] == document["response_times"][-1]["n"] < 3000
    assert "untrimmed" not in summarize(example())["window"]


def test_mser5_cuts_a_slow_start():
    log = example()
    slow = replace(log, response_us=log.response_us + np.where(np.arange(len(log)) < 500, 500_000, 0))
    window = summarize(slow, settings=AnalysisSettings(mser5=True))["window"]
    assert 480 <= window["cut_start"] <= 520
    assert summarize(log, settings=AnalysisSettings(mser5=True))["window"]["cut_start"] < 1500


def test_the_sentence_of_a_window_without_launches():
    document = strict(summarize(example(), window=(10**12, 10**13)))
    assert document["window"]["n"] == 0
    assert document["window"]["sentence"] == "None of 3,000 requests lies in the window."
    assert document["verdict"]["overall"] == "not enough data"


def test_hostile_names_pass_unharmed():
    name = '</script><b>"=cmd()|\u2028\x00'
    log = LaunchLog.build([0, 1, 2], 1, names=name)
    assert strict(summarize(log))["launches"][0]["label"] == name


def test_empty_tables_of_an_empty_log():
    assert response_table(LaunchLog.empty()) == bytes_table(LaunchLog.empty()) == []
    document = strict(summarize(LaunchLog.empty()))
    assert (document["launches"], document["groups"], document["window"]["n"]) == ([], [], 0)


def test_json_safe_reaches_every_depth():
    given_ = {"a": [math.nan, (np.float64(1.5), np.array([math.inf, 2]))], 3: AnalysisSettings}
    assert to_json_safe(given_) == {"a": [None, [1.5, [None, 2.0]]], "3": AnalysisSettings}


def test_only_the_part_in_which_all_users_ran_is_judged():
    rng = np.random.default_rng(4)
    steady = np.cumsum(rng.exponential(10_000, 3000)).astype(np.int64) + 10_000_000
    logins = np.repeat(np.arange(10) * 1_000_000, 20) + np.tile(np.arange(20) * 500, 10)  # 20 a second, all at once
    leaving = steady[-1] + 50_000 + np.arange(200) * 300
    log = LaunchLog.build(np.concatenate([logins, steady, leaving]), 1000, slot=np.arange(3400) % 50)
    held = (10_000_000, int(steady[-1]))
    whole, part = summarize(log), summarize(log, facts=Facts(held_us=held))
    assert whole["verdict"]["overall"] == "red"
    assert part["verdict"]["checks"][0]["follows_from"] is None
    assert {check["id"]: check["status"] for check in part["verdict"]["checks"]}[1] == "green"
    assert part["launches"] == whole["launches"]  # what was launched is shown all the same
    assert part["response_times"] == whole["response_times"]
    assert part["window"]["judged"] == 3000
    covered = f"The verdict covers the time from full spawn at 10.0 s to the stop request at {held[1] / 1e6:.1f} s."
    assert covered in part["window"]["sentence"]


def test_nothing_is_judged_while_users_are_started():
    log = LaunchLog.build(np.repeat(np.arange(300) * 100_000, 2), 1000)
    document = summarize(log, facts=Facts(held_us=(None, None)))
    assert document["verdict"]["overall"] == "not enough data"
    assert not any(check["status"] in ("amber", "red") for check in document["verdict"]["checks"])
    assert document["window"]["sentence"].endswith("The verdict begins at full spawn.")
    assert document["launches"][-1]["n"] == 599
    late = summarize(log, facts=Facts(held_us=(60_000_000, None)))
    assert late["window"]["sentence"].endswith(": none was launched between full spawn and the stop request.")


def test_a_request_without_a_response_time_counts_and_changes_no_figure():
    response = [-1, 4000, -1, 2000, -3000, 6000, -1]
    log = LaunchLog.build(np.arange(7) * 1000, response, names=["a", "a", "a", "a", "a", "a", "none"])
    document = summarize(log)
    row, nothing, total = document["response_times"]
    assert (row["n"], row["p50_ms"], row["min_ms"], row["mean_ms"]) == (6, 4.0, 2.0, 4.0)
    assert (nothing["n"], nothing["p50_ms"], nothing["max_ms"]) == (1, None, None)
    assert (total["n"], total["min_ms"], total["p50_interval_ms"]) == (7, 2.0, None)
    assert {curve["label"] for curve in document["charts"]["response"]} == {"a", "Aggregated"}
    assert document["charts"]["over_time"]["p50_ms"] == [4.0]
    assert document["launches"][-1]["launches"] == 7
