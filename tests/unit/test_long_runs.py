"""Tables of a recording that is read in slices equal those of one sort of all rows in memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from locust_realism.analysis import long_runs
from locust_realism.analysis.long_runs import recorded_tables, with_recorded_tables
from locust_realism.analysis.settings import AnalysisSettings
from locust_realism.analysis.summary import summarize
from locust_realism.analysis.verdict.evidence import Facts
from locust_realism.recording import slices
from locust_realism.recording.columns import pack
from locust_realism.recording.launches import Label, LaunchLog
from locust_realism.recording.offsets import ClockLine, on_master_clock
from locust_realism.recording.slices import recorded_launches
from locust_realism.recording.spool import Spool
from locust_realism.recording.store import WHOLE_RUN, Since

START = 1_700_000_000_000_000
N = 60_000
TABLES = ("launches", "response_times", "bytes")


def launched(n: int = N, names: int = 7, seed: int = 1) -> LaunchLog:
    """Return rows in the order of their ends, as in a recording: with ties, stragglers, and times of all sizes."""
    rng = np.random.default_rng(seed)
    launch = START + np.sort(rng.integers(0, 20_000_000, n)) // 100 * 100
    response = rng.lognormal(9, 2, n).astype(np.int64)
    response[rng.random(n) < 0.001] = 7_200_000_000
    response[rng.random(n) < 0.001] = -1
    log = LaunchLog.build(
        launch,
        response,
        failed=rng.random(n) < 0.02,
        size_bytes=rng.choice([0, 512, 10_240, 5 << 30], n),
        worker=rng.integers(0, 3, n),
        label=(rng.random(n) ** 3 * names).astype(np.int32),
    )
    log = replace(log, labels=tuple(Label("GET", f"/{k}") for k in range(names)))
    return log.take(np.argsort(launch + response, kind="stable"))


def record(directory: Path, log: LaunchLog, parts: int = 5) -> None:
    spool = Spool(directory)
    for k in range(parts):
        part = log.take(slice(k * len(log) // parts, (k + 1) * len(log) // parts))
        spool.add(pack(part), len(part))
    spool.flush()


@pytest.fixture
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make slices, tables and cells so small that every border is crossed many times."""
    monkeypatch.setattr(slices, "SLICE_ROWS", 7000)


def assert_same(found: Any, expected: Any) -> None:
    """Compare bit for bit, standard deviations to 12 digits."""
    for key in TABLES:
        assert [row["label"] for row in found[key]] == [row["label"] for row in expected[key]]
        for mine, theirs in zip(found[key], expected[key], strict=True):
            assert mine.keys() == theirs.keys()
            for name, value in theirs.items():
                if name in ("cov", "sdev_ms", "sdev_bytes") and value is not None:
                    assert mine[name] == pytest.approx(value, rel=1e-12), (key, theirs["label"], name)
                else:
                    assert mine[name] == value, (key, theirs["label"], name)
    assert found["window"].keys() - expected["window"].keys() == set()
    assert ("untrimmed" in found["window"]) == ("untrimmed" in expected["window"])
    for name, value in found["window"].items():
        same = pytest.approx(expected["window"][name], rel=1e-12) if name == "untrimmed" else expected["window"][name]
        assert value == same, name


CUTS: list[dict[str, Any]] = [
    {},
    {"skip_s": 3.0, "cooldown_s": 2.5},
    {"skip_requests": 12_345, "sample_requests": 30_001},
    {"skip_s": 1.0, "duration_s": 4.0, "percentile_rule": "linear"},
    {"skip_requests": 59_999},
    {"percentile_rule": "jmeter", "max_names": 3},
]


@pytest.mark.usefixtures("small_slices")
@pytest.mark.parametrize("cut", CUTS, ids=str)
def test_tables_equal_one_sort_of_all_rows(tmp_path: Path, cut: dict[str, Any]) -> None:
    log, settings = launched(), AnalysisSettings(charts=False, **cut)
    record(tmp_path, log)
    with recorded_launches(tmp_path, {}) as launches:
        assert sum(1 for _ in launches.slices()) >= 5
        found = recorded_tables(launches, settings, run_start_us=START)
    expected = summarize(log, settings=settings, run_start_us=START)
    assert_same(found, expected)
    assert found["source"] == {name: expected["source"][name] for name in ("rows", "names", "failures")}
    assert found["names_left_out"] == (4 if "max_names" in cut else 0)


@pytest.mark.usefixtures("small_slices")
def test_a_window_of_time(tmp_path: Path) -> None:
    log, window = launched(), (START + 4_000_000, START + 9_000_000)
    record(tmp_path, log)
    with recorded_launches(tmp_path, {}) as launches:
        found = recorded_tables(launches, window=window, run_start_us=START)
    assert_same(found, summarize(log, window=window, run_start_us=START))


@pytest.mark.usefixtures("small_slices")
def test_clocks_of_workers_are_mapped(tmp_path: Path) -> None:
    """Launches that are in order by each worker's clock are in another one by the master's."""
    log = launched()
    lines = {1: ClockLine(at_us=START, offset_us=3e6, drift=3e-5, sd_us=20, probes=9), 2: ClockLine(offset_us=9e9)}
    record(tmp_path, log)
    with recorded_launches(tmp_path, lines) as launches:
        found = recorded_tables(launches, run_start_us=START)
    expected = summarize(on_master_clock(log, lines), run_start_us=START)
    assert_same(found, expected)
    assert expected["launches"] != summarize(log, run_start_us=START)["launches"]


@pytest.mark.usefixtures("small_slices")
def test_rows_since_a_reset_by_order_of_arrival(tmp_path: Path) -> None:
    log = launched()
    record(tmp_path, log)
    since = Since(20_000, ((21_000, 23_000), (40_000, 40_001)))
    kept = np.r_[20_000:21_000, 23_000:40_000, 40_001:N]
    with recorded_launches(tmp_path, {}, since) as launches:
        assert_same(recorded_tables(launches), summarize(log.take(kept)))


def test_more_ranges_than_fit_take_more_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counters that do not fit into memory at once, and ranges that are narrowed twice, give the same figures."""
    monkeypatch.setattr("locust_realism.recording.selection.TABLE", 3000)
    monkeypatch.setattr("locust_realism.recording.selection.STEP_BITS", 9)
    log = launched(5000)
    record(tmp_path, log)
    with recorded_launches(tmp_path, {}) as launches:
        assert_same(recorded_tables(launches), summarize(log))


def test_names_beyond_the_limit_are_in_the_aggregated_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_runs, "MAX_NAMES", 2)
    log = launched(5000)
    record(tmp_path, log)
    with recorded_launches(tmp_path, {}) as launches:
        found = recorded_tables(launches)
    assert found["names_left_out"] == 5
    assert_same(found, summarize(log, settings=AnalysisSettings(max_names=2)))


def test_one_row_and_none(tmp_path: Path) -> None:
    with recorded_launches(tmp_path / "nowhere", {}) as launches:
        assert recorded_tables(launches)["response_times"] == []
    log = LaunchLog.build([START], [5])
    record(tmp_path, log, parts=1)
    with recorded_launches(tmp_path, {}) as launches:
        assert_same(recorded_tables(launches), summarize(log))
        nothing = recorded_tables(launches, window=(START + 1, START + 2))
    assert (nothing["window"]["n"], nothing["launches"]) == (0, [])


def test_parts_merged_during_the_reading(tmp_path: Path) -> None:
    """The writer goes on, merges and deletes; the reader finishes the files that it opened."""
    log = launched(2000)
    record(tmp_path, log)
    with recorded_launches(tmp_path, {}) as launches:
        spool = Spool(tmp_path)
        spool._number, spool._parts = 5, [(k, k) for k in range(1, 6)]
        spool.add(pack(launched(100, seed=2)), 100)
        spool.close()
        assert [path.name for path in tmp_path.glob("*.parquet")] == ["launches.parquet"]
        assert_same(recorded_tables(launches), summarize(log))
    with recorded_launches(tmp_path, {}) as launches:
        assert launches.rows == 2100


def test_settings_that_need_the_launches_are_refused(tmp_path: Path) -> None:
    with recorded_launches(tmp_path, {}) as launches, pytest.raises(ValueError, match="mser5=True"):
        recorded_tables(launches, AnalysisSettings(mser5=True))


def test_since_selects_rows_by_arrival() -> None:
    assert WHOLE_RUN.kept(10, 5) == slice(0, None)
    assert Since(12).kept(10, 5) == slice(2, None)
    kept = Since(12, ((13, 14), (30, 40))).kept(10, 5)
    assert np.asarray(kept).tolist() == [False, False, True, False, True]


@pytest.mark.parametrize("age_s", [None, 12.0])
def test_the_window_of_all_launches_states_the_part_of_the_verdict(tmp_path: Path, age_s: float | None) -> None:
    log = launched(5000)
    record(tmp_path, log)
    newest = log.take(log.launch_us > START + 5_000_000)
    held = Facts(held_us=(START + 8_000_000, START + 15_000_000))
    document = summarize(newest, facts=held, run_start_us=START)
    with recorded_launches(tmp_path, {}) as launches:
        tables = recorded_tables(launches, run_start_us=START)
    window = with_recorded_tables(document, tables, age_s)["window"]
    assert window["n"] == 5000
    assert window["judged"] == document["window"]["judged"] < len(newest)
    covered = "The verdict covers the time from full spawn at 8.0 s to the stop request at 15.0 s."
    assert window["sentence"].count(covered) == document["window"]["sentence"].count(covered) == 1
    window = with_recorded_tables(summarize(newest, run_start_us=START), tables, age_s)["window"]
    assert "verdict covers" not in window["sentence"]
