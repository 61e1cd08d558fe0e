"""A run longer than memory holds: its tables cover every launch, and the rest states the launches that it covers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gevent
import numpy as np
import pytest
from document_support import faults
from locust import User
from locust.env import Environment

from locust_realism.analysis.document import LiveSummary, StatusDocument
from locust_realism.analysis.settings import AnalysisSettings
from locust_realism.analysis.summary import summarize
from locust_realism.analysis.thresholds import evaluate_thresholds, parse_thresholds
from locust_realism.analysis.verdict.evidence import Facts
from locust_realism.recording.diagnosis import Diagnosis
from locust_realism.recording.formats import read_launches
from locust_realism.recording.health import HealthLog
from locust_realism.recording.launches import LaunchLog
from locust_realism.report.console import render_summary
from locust_realism.report.terminal import Screen
from locust_realism.runtime.capture.files import FilePlan
from locust_realism.runtime.capture.run import Recording, attach
from locust_realism.runtime.figures import provider
from locust_realism.runtime.figures.provider import RunProvider
from locust_realism.web.findings import generator_findings

MAX_ROWS = 1000


class Run:
    """Local run whose requests the test fires; ``rows`` has them all, apart from the record."""

    def __init__(self, files: FilePlan | None, settings: AnalysisSettings) -> None:
        self.environment = Environment(user_classes=[User])
        self.environment.create_local_runner()
        self.recording: Recording = attach(self.environment, max_rows=MAX_ROWS, files=files)
        self.provider = RunProvider(
            self.environment,
            self.recording,
            settings=lambda: settings,
            facts=Facts,
            population=dict,
            generator=dict,
            report=lambda _: "",
        )
        self.start()

    def start(self) -> None:
        self.rows: list[tuple[float, float, str, int]] = []
        self.environment.events.test_start.fire(environment=self.environment)
        self.provider.run_starts()
        self.provider.started_us -= 3_600_000_000  # an hour ago: launches of the future would be none
        self.began = self.recording.clock.now_us() / 1e6

    def fire(self, n: int, seed: int) -> None:
        """Requests of four names in the order of their ends, a millisecond apart; each third has a straggler."""
        rng = np.random.default_rng(seed)
        ends = self.began - 600 + len(self.rows) * 1e-3 + np.arange(n) * 1e-3
        for end in ends.tolist():
            response = float(rng.lognormal(3, 1)) + (5e3 if rng.random() < 0.3 else 0)
            row = (end - response / 1e3, response, f"/{int(rng.random() ** 2 * 4)}", int(rng.integers(0, 9999)))
            self.rows.append(row)
            self.environment.events.request.fire(
                request_type="GET",
                name=row[2],
                response_time=row[1],
                response_length=row[3],
                exception=None,
                start_time=row[0],
                context={},
            )
        self.recording.flush()

    def expected(self, first: int = 0, settings: AnalysisSettings | None = None) -> Any:
        """Return the summary of one sort of every row since ``first``."""
        starts, times, names, sizes = zip(*self.rows[first:], strict=True)
        log = LaunchLog.build(
            np.rint(np.array(starts) * 1e6).astype(np.int64),
            np.rint(np.array(times) * 1e3).astype(np.int64),
            names=names,
            methods="GET",
            size_bytes=sizes,
        )
        return summarize(log, settings=settings)


@contextmanager
def running(files: FilePlan | None, settings: AnalysisSettings = AnalysisSettings()) -> Iterator[Run]:  # noqa: B008
    run = Run(files, settings)
    try:
        yield run
    finally:
        run.recording.detach()
        run.environment.runner.quit()  # type: ignore[union-attr]


def assert_tables(found: Any, expected: Any) -> None:
    """Assert equal tables, bit for bit; standard deviations to 12 digits."""
    for key in ("launches", "response_times", "bytes"):
        for mine, theirs in zip(found[key], expected[key], strict=True):
            for name, value in theirs.items():
                if name in ("cov", "sdev_ms", "sdev_bytes"):
                    value = pytest.approx(value, rel=1e-12)
                assert mine[name] == value, (key, theirs["label"], name)


def test_the_figures_are_those_of_every_launch_at_the_end_and_meanwhile(tmp_path: Path) -> None:
    with running(FilePlan(tmp_path)) as run:
        run.fire(900, seed=1)
        assert "newest" not in run.provider.summary(None)
        for seed in (2, 3, 4, 5):
            run.fire(900, seed)
        held = len(run.recording.launches())
        assert held <= MAX_ROWS
        found = run.provider.final_summary()
        assert_tables(found, run.expected())
        assert found["source"]["rows"] == found["window"]["n"] == 4500
        assert found["newest"]["n"] == held
        text = render_summary(found, Screen(200))
        assert "4,500 requests, 2,99" in text
        assert f"Verdict, groups, charts, stages and capacity are of the newest {held:,}, from " in text
        assert any("has outgrown memory" in warning for warning in found["source"]["warnings"])
        json.dumps(found, allow_nan=False)
        assert faults(found, LiveSummary) == faults(run.provider.status(), StatusDocument) == []
        p99 = run.expected()["response_times"][-1]["p99_ms"]
        conditions = parse_thresholds([f"p99 > {p99 - 0.001:.3f}ms", f"p99 > {p99:.3f}ms"])
        assert [result.failed for result in evaluate_thresholds(conditions, found)] == [True, False]

        run.fire(100, seed=6)
        live = run.provider.summary(None)
        assert live["source"]["rows"] == 4500, "the tables are those of a moment ago"
        assert live["tables_age_s"] > 0
        assert "as of" in live["window"]["sentence"] or live["tables_age_s"] < 0.5


def test_the_warm_up_is_cut_out_of_the_whole(tmp_path: Path) -> None:
    settings = AnalysisSettings(skip_requests=700, sample_requests=2500)
    with running(FilePlan(tmp_path), settings) as run:
        for seed in range(4):
            run.fire(900, seed)
        found = run.provider.final_summary()
        assert_tables(found, run.expected(settings=settings))
        assert (found["window"]["cut_start"], found["window"]["n"]) == (700, 2500)


def test_after_a_reset_only_what_came_since(tmp_path: Path) -> None:
    with running(FilePlan(tmp_path)) as run:
        for seed in range(4):
            run.fire(700, seed)
        run.environment.events.reset_stats.fire()
        for seed in range(3):
            run.fire(700, seed)
        since = run.provider.summary("reset")
        assert since["window"]["n"] == 2100
        assert_tables(since, run.expected(first=2800))
        assert_tables(run.provider.final_summary(), run.expected())


def test_a_part_of_the_run_that_is_no_longer_in_memory(tmp_path: Path) -> None:
    with running(FilePlan(tmp_path)) as run:
        for seed in range(5):
            run.fire(900, seed)
        origin = run.provider.started_us / 1e6
        part = run.provider.summary("2999..3001.5")
        inside = [row for row in run.rows if 2999 <= row[0] - origin <= 3001.5]
        assert part["window"]["n"] == len(inside) > MAX_ROWS
        assert part["response_times"][-1]["n"] == len(inside)


def summarized(monkeypatch: pytest.MonkeyPatch) -> dict[str, Facts]:
    """Return a table with the ``facts`` of the latest summary of a provider."""
    found: dict[str, Facts] = {}

    def keep(*args: Any, facts: Facts, **others: Any) -> Any:
        found["facts"] = facts
        return summarize(*args, facts=facts, **others)

    monkeypatch.setattr(provider, "summarize", keep)
    return found


def test_chosen_seconds_have_their_own_health_and_causes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lateness of other seconds is no cause in the chosen ones; the whole run has all of it."""
    found = summarized(monkeypatch)
    with running(None) as run:
        run.fire(500, seed=4)
        start_us = run.provider.started_us
        rows = [(start_us + s * 1_000_000, 0, 3, 9, 900, 800, 0.9 if s > 20 else 0.1, 0.5) for s in range(1, 41)]
        causes = Diagnosis((("a.py:1 in f", 0.2),), (("ffmpeg", 1.0),), ((start_us + 30_000_000, 0.5),))
        monkeypatch.setattr(run.recording.side, "health", lambda: HealthLog.of(rows))
        monkeypatch.setattr(run.recording.side, "diagnosis", lambda: causes)
        for window, cores, pauses in (("5..15", 0.1, 0), ("25..35", 0.9, 1)):
            run.provider.figures.fresh(window)
            facts = found["facts"]
            assert facts.health["generator_cpu"] == pytest.approx(cores)
            assert (facts.blockers, facts.others, len(facts.pauses)) == ((), (), pauses)
        run.provider.final_summary()
        facts = found["facts"]
        assert facts.health["generator_cpu"] == pytest.approx(0.5)
        assert (facts.blockers, facts.others, facts.pauses) == (causes.blockers, causes.others, ((30.0, 0.5),))


def test_missed_launches_count_in_the_whole_run_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """They have no times: the last minute, or the newest launches of a long run, do not have them."""
    found = summarized(monkeypatch)
    with running(None) as run:
        run.provider._facts = lambda: Facts(missed_launches=50)
        run.fire(500, seed=4)
        missed = []
        for window in ("run", "minute", "reset", "2000..4000"):
            run.provider._answer(window, fresh=True)
            missed.append(found["facts"].missed_launches)
        assert missed == [50, 0, 0, 0]
        run.fire(2000, seed=5)
        run.provider.final_summary()
        assert found["facts"].missed_launches == 0, "memory holds the newest launches only"


def test_the_tab_grades_blocked_wake_ups_where_a_place_in_code_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check 4 does so: Locust's own work makes wake-ups late, too."""
    with running(None) as run:
        document: Any = {"workers": [{"id": "local", "blocked": 0.5}], "target": None}
        run.provider._generator = lambda: document
        for places, status in (((), "green"), ((("a.py:1 in f", 0.5),), "amber")):
            diagnosis = Diagnosis(places)
            monkeypatch.setattr(run.recording.side, "diagnosis", lambda diagnosis=diagnosis: diagnosis)
            assert [one["status"] for one in generator_findings(run.provider.generator())] == [status]


def test_without_a_recording_the_window_states_the_loss() -> None:
    with running(None) as run:
        for seed in range(3):
            run.fire(900, seed)
        found = run.provider.final_summary()
        held = len(run.recording.launches())
        assert found["response_times"][-1]["n"] == held < 2700
        assert "older launches no longer fit into memory and are gone" in found["window"]["sentence"]
        (warning,) = run.recording.warnings()
        assert f"{2700 - held:,} of 2,700 launches are gone, and every figure is of the newest {held:,}" in warning


def test_an_unwritable_recording_does_not_count_as_the_whole(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with running(FilePlan(tmp_path / "file")) as run:
        for seed in range(3):
            run.fire(900, seed)
        found = run.provider.final_summary()
        assert found["response_times"][-1]["n"] == len(run.recording.launches())
        assert "the recording, which should hold the others, is not complete" in found["window"]["sentence"]


def test_a_second_run_does_not_wait_for_the_files_of_the_first(tmp_path: Path) -> None:
    with running(FilePlan(tmp_path)) as run:
        run.fire(1500, seed=1)
        first = run.recording.files.directory  # type: ignore[union-attr]
        run.start()
        run.fire(50, seed=2)
        assert_tables(run.provider.final_summary(), run.expected())
        with gevent.Timeout(10):
            while not (first / "launches.parquet").exists():  # type: ignore[operator]
                gevent.sleep(0.01)
    assert len(read_launches(first)) == 1500
    (second,) = set(tmp_path.iterdir()) - {first}
    assert len(read_launches(second)) == 50
