"""Calibration on real runs: figures of the server's log, the tables, and one short run from end to end."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from locust_realism.analysis.verdict.causes import CAUSES
from support import BENCHMARKS, loaded


@pytest.fixture(scope="module")
def calibration() -> ModuleType:
    """The script as a module."""
    return loaded(BENCHMARKS / "calibrate_runs.py")


def run_of(calibration: ModuleType, **changes: Any) -> Any:
    """Return a run of 100 Poisson launches a second with changes."""
    run = calibration.Run("one", "open arrivals", "exponential(1)", 1, 1, 10, population="open")
    return replace(run, **changes)


def poisson(seconds: float = 100.0, rate: float = 100.0) -> np.ndarray:
    """Return times of independent launches."""
    rng = np.random.default_rng(5)
    return np.sort(rng.uniform(0, seconds, rng.poisson(rate * seconds)))


def test_independent_arrivals_are_in_band_and_bunches_and_metronomes_are_not(calibration: ModuleType) -> None:
    """10,000 arrivals: standard errors 0.01 (CoV), 0.045 (IDC at 0.1 s), 0.14 (IDC at 1 s), 0.03 (short gaps)."""
    truth = calibration.Truth.of(poisson())
    assert truth.cov == pytest.approx(1, abs=0.04)
    assert truth.idc["0.1"] == pytest.approx(1, abs=0.18)
    assert truth.idc["1"] == pytest.approx(1, abs=0.56)
    assert truth.short_gaps == pytest.approx(1, abs=0.12)
    assert truth.rate == pytest.approx(100, abs=4)
    run = run_of(calibration)
    assert calibration.out_of_band(truth, run) == []
    in_bunches = calibration.Truth.of(np.repeat(poisson(rate=50.0), 2))
    assert in_bunches.short_gaps > 4
    assert [fault.split()[0] for fault in calibration.out_of_band(in_bunches, run)] == ["CoV", "IDC(0.1", "IDC(1"]
    even = calibration.Truth.of(np.arange(0, 100, 0.01))
    assert [fault.split()[0] for fault in calibration.out_of_band(even, run)] == ["CoV", "IDC(0.1", "IDC(1"]


def test_the_law_of_the_workload_is_the_reference(calibration: ModuleType) -> None:
    """A pool of uniform waits is even at a second, sessions of 20 s vary, a plan is Poisson."""
    closed = calibration.law(run_of(calibration, think="uniform(0, 2)", population=""))
    assert closed["0.1"] == pytest.approx(0.97, abs=0.05)
    assert 0.4 < closed["1"] < 0.8
    sessions = calibration.law(run_of(calibration, session=(1.0, 20.0)))
    assert sessions["1"] == pytest.approx(1 + 2 * 20 * (1 - 20 * (1 - np.exp(-0.05))), rel=1e-6)
    assert calibration.law(run_of(calibration)) == {"0.1": 1.0, "1": 1.0}


def test_a_planned_sine_is_judged_on_its_own_time_scale(calibration: ModuleType, tmp_path: Path) -> None:
    from locust_realism.workload.rates.shapes import SineRate

    times = SineRate(20, 180, period=5).inverse(poisson(rate=100.0) * 100) + 1_700_000_000
    lines = [f"{round(at * 1e6)} /?t=1\n{round(at * 1e6) + 1} /\n" for at in times]
    log = tmp_path / "arrivals.log"
    log.write_text("".join(lines))
    for profile, faults in (("SineRate(20, 180, period=5)", 0), ("", 3)):
        run = run_of(calibration, profile=profile)
        truth = calibration.first_of_tasks(log, run, 1_700_000_000.0)(times[0], times[-1])
        assert truth.n == len(times) - 1, "the second request of a task does not count"
        assert len(calibration.out_of_band(truth, run)) == faults


@pytest.mark.parametrize(
    ("sentence", "span"),
    [
        ("", (1005.0, 1015.0)),
        ("The verdict covers the time from full spawn at 7.5 s to the stop request at 1,010.0 s.", (1007.55, 2010.0)),
        (
            "The verdict covers the time from 6.0 s to the stop request at 15.0 s. It begins 3 mean waits after full "
            "spawn at 3.0 s.",
            (1006.05, 1015.0),
        ),
        ("The verdict begins at full spawn.", (1005.0, 1015.0)),
    ],
)  # fmt: skip
def test_the_span_of_the_verdict_is_read_from_the_summary(
    calibration: ModuleType, sentence: str, span: tuple[float, float]
) -> None:
    times = {"origin_us": 1_000_000_000, "start_us": 1_005_000_000, "end_us": 1_015_000_000}
    assert calibration.judged_span(times | {"judged_sentence": sentence}) == pytest.approx(span)


def test_figures_disagree_beyond_two_errors_only(calibration: ModuleType) -> None:
    server = calibration.Truth(1000, 100.0, 1.0, 1.0, {"0.1": 1.0})
    assert calibration.disagreements(1.05, {"0.1": 1.2}, server) == []
    assert len(calibration.disagreements(1.08, {"0.1": 1.4}, server)) == 2


def line(kind: str, overall: str = "green", cause: str | None = None, **more: Any) -> dict[str, Any]:
    """Return a line of a finished run."""
    figures = {"n": 1000, "rate": 100.0, "cov": 1.0, "short_gaps": 1.0, "idc": {"0.1": 1.0}}
    return {
        "name": f"{kind} {id(more)}", "kind": kind, "overall": overall, "causes": [cause] if cause else [], "red": [],
        "amber": [], "out_of_band": [], "disagrees": [], "cov": 1.02, "idc": {"0.1": 0.9}, "judged": 1000,
        "server": figures, "server_judged": figures, **more,
    }  # fmt: skip


def test_the_tables_count_sound_runs_in_band_and_causes_that_are_right(calibration: ModuleType) -> None:
    lines = [line("paced"), line("paced", "red", "a single pause", out_of_band=["CoV 1.2"], red=[2])]
    lines += [
        line("paced", "amber", "a single pause"),
        line("paced", "not enough data"),
        {"name": "paced 4", "kind": "paced", "error": "no end"},
    ]
    lines += [line("one pause", "red", "a single pause")] * 9 + [line("one pause", "red", "launches in batches")]
    text = calibration.tables(lines)
    assert "| paced | 4 | 1 / 1 / 1 / 1 | 3 | none (2); a single pause (2) | 2: 1 | 1.02, 1.00 (± 0.02) " in text
    assert "| one pause | 10 | 9 of 10, 90 % (60 to 98 %) | a single pause (9); launches in batches (1) |" in text
    assert "server in band: 2 of 4." in text
    assert "Red: 0 of 2" in text
    assert "Amber: 1 of 2" in text
    assert "Failed run: paced 4: no end" in text


def test_there_are_enough_runs_of_each_kind_with_names_of_their_own(calibration: ModuleType) -> None:
    runs = calibration.all_runs()
    assert len({run.name for run in runs}) == len(runs)
    assert sum(run.sound for run in runs) >= 120
    for kind in calibration.RIGHT:
        assert sum(run.kind == kind for run in runs) >= 10, kind
    assert {run.client for run in runs if run.sound} == {"fast", "http"}
    assert {run.processes for run in runs if run.sound} == {1, 2}


def test_each_pattern_of_a_right_cause_names_one_of_the_verdict(calibration: ModuleType) -> None:
    """A cause that is called something else would never be right."""
    names = [cause.name for cause in CAUSES]
    for kind, pattern in calibration.RIGHT.items():
        for alternative in pattern.split("|"):
            assert any(re.search(alternative, name) for name in names), (kind, alternative)


def test_done_runs_are_left_out_and_failed_ones_are_done_again(
    calibration: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started = []

    def perform(run: Any, folder: Path, python: str) -> dict[str, Any]:
        started.append(run.name)
        failed = {"error": "no end"} if len(started) == 2 else {}
        return line(run.kind, name=run.name, seconds=1.0, **failed)

    monkeypatch.setattr(calibration, "perform", perform)
    options = ["--runs-dir", str(tmp_path), "--only", "^paced-0[1-3]$"]
    assert calibration.main(options) == 1
    assert calibration.main(options) == 0
    assert started == ["paced-01", "paced-02", "paced-03", "paced-02"]
    assert calibration.main([*options, "--table"]) == 0
    assert capsys.readouterr().out.count("| paced | 3 |") == 2


@pytest.mark.e2e
@pytest.mark.timed
def test_one_sound_run_from_end_to_end(calibration: ModuleType, tmp_path: Path) -> None:
    """Open arrivals of 200/s for 4 s: verdict and server count the same launches, and their CoV agrees.

    The recording of the master, not that of a worker, has the same verdict again.
    """
    run = run_of(calibration, seconds=4, population="open_arrivals(ConstantRate(200))", seed=3, processes=2)
    found = calibration.perform(run, tmp_path / "run")
    assert "error" not in found, found
    json.dumps(found)
    assert found["overall"] in ("green", "amber", "red", "not enough data")
    server = found["server_judged"]
    assert server["n"] == pytest.approx(200 * 4, rel=0.3)  # the run may end a second early; 4.5 standard errors
    assert found["judged"] == pytest.approx(server["n"], rel=0.1)
    assert found["cov"] == pytest.approx(server["cov"], rel=0.25)  # a busy machine delays the sending
    assert re.fullmatch(r"one: \w.*", calibration.describe({**found, "name": "one"}))
    assert calibration.judge_again(run, tmp_path / "run", {**found, "overall": "", "cov": 0.0}) == found
