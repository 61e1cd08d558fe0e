"""The table of coverage in small: rows of benchmarks/rows meet their goals, and the formulas before them do not.

All seeds are fixed. Each row runs twice: as it is, and with the old formula, which must miss the row's goal.
"""

import json
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from locust_realism.analysis.stats import steady_state
from locust_realism.analysis.verdict import dispersion, evidence
from locust_realism.analysis.verdict.users import UserTimes, user_times
from locust_realism.recording.launches import LaunchLog
from support import BENCHMARKS, loaded

coverage = loaded(BENCHMARKS / "coverage.py")

from rows import launches, processes, runner  # noqa: E402  the script put benchmarks on the path
from rows.row import Outcome, Row  # noqa: E402


def figures(row: Row, runs: int):
    """Return the figures of the first runs of a row of the table."""
    name = f"{row.statement} | {row.data}"
    return coverage.result_of([row.run(runner.seeded(name, run)) for run in range(runs)])


def row_of(statement: str, data: str) -> Row:
    (row,) = (row for row in launches.ROWS if row.statement.startswith(statement) and row.data == data)
    return row


def finished_pauses(log: LaunchLog, **_: object) -> UserTimes:
    """Return the users' times by the weighted pauses that lie wholly in the log."""
    order = np.argsort(log.slot, kind="stable")
    same = np.diff(log.slot[order]) == 0
    gap = np.diff(log.launch_us[order])[same] / 1e6
    window = float(log.launch_us[-1] - log.launch_us[0]) / 1e6
    weight = window / np.maximum(window - gap, window / 4)
    think = float(((gap - launches.WAIT) * weight).sum() / weight.sum())
    return replace(user_times(log), think_mean=think, response_share=launches.WAIT / (launches.WAIT + think))


def dropped_rest(gaps: np.ndarray, per_window: int) -> tuple[np.ndarray, float]:
    """Return the gaps over the mean of their window, of whole windows only, and their CoV."""
    pieces = gaps[: len(gaps) // per_window * per_window].reshape(-1, per_window)
    relative = (pieces / pieces.mean(axis=1, keepdims=True)).ravel()
    return relative, float(relative.std())


WINDOW = "100 users, exponential think times of 12 s, window of {} s"
ROWS = [
    (row_of("Think time", WINDOW.format(20)), 60, launches, "user_times", finished_pauses),
    (row_of("Think time", WINDOW.format(60)), 60, launches, "user_times", finished_pauses),
    (row_of("R/(R+Z)", WINDOW.format(20)), 60, launches, "user_times", finished_pauses),
    (row_of("Check 8", WINDOW.format(30)), 2, evidence, "user_times", finished_pauses),
    (row_of("Check 9", "Poisson, 399 gaps"), 50, dispersion, "local_gaps", dropped_rest),
    (row_of("Check 1,", "379 gaps, the last 47 % in bunches of ten"), 5, dispersion, "local_gaps", dropped_rest),
    (row_of("Mean after the cut of MSER-5, no", "M/M/1 at 0.9, 10,000 requests"), 100, steady_state, "WARM_UP_ERRORS",
     0.0),
    (row_of("Cause", "Poisson, 10,000 launches, 20 pauses of 0.1 s"), 3, dispersion, "repeated_stalls",
     lambda *_: None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("row", "runs", "module", "name", "old"), ROWS, ids=[f"{row.statement}-{row.data}" for row, *_ in ROWS]
)
def test_a_row_meets_its_goal_and_the_old_formula_does_not(
    row: Row, runs: int, module: object, name: str, old: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert coverage.met(figures(row, runs), row.goal)
    monkeypatch.setattr(module, name, old)
    assert coverage.met(figures(row, runs), row.goal) is False, "the negative control"


def walked(gaps: np.ndarray, services: np.ndarray, wait: float) -> Iterator[float]:
    """Yield response times by Lindley's recursion, one after the other."""
    for gap, service in zip([*gaps, 0.0], services, strict=True):
        yield wait + service
        wait = max(wait + service - gap, 0.0)


@pytest.mark.parametrize("first_wait", [0.0, 0.3])
def test_the_recursion_of_lindley(first_wait: float) -> None:
    rng = np.random.default_rng(1)
    gaps, services = rng.exponential(0.02, 999), rng.exponential(0.01, 1000)
    arrivals = np.concatenate(([0.0], np.cumsum(gaps)))
    found = processes.lindley(arrivals, services, first_wait)
    assert found == pytest.approx(np.fromiter(walked(gaps, services, first_wait), np.float64))


@pytest.mark.parametrize(
    ("process", "parameters"),
    [
        (processes.iid, {}),
        (processes.ar1, {"phi": 0.9}),
        (processes.mm1, {"rho": 0.5}),
        (processes.mm1, {"rho": 0.9}),
        (processes.mg1, {"rho": 0.5}),
        (processes.mg1, {"rho": 0.8, "cov": 2.0}),
    ],
    ids=str,
)
def test_processes_are_steady_from_the_first_request_and_have_their_true_figures(
    process: Callable[..., processes.Requests], parameters: dict[str, float]
) -> None:
    """The first requests of 1,000 independent runs have the law of the truth, within four standard errors."""
    rng = np.random.default_rng(7)
    runs = 1000
    first = np.array([process(rng, 3, **parameters)[1] for _ in range(runs)])
    mean, cov = (processes.truth(process, figure, **parameters) for figure in ("mean", "cov"))
    for times in first.T:
        assert abs(times.mean() - mean) < 4 * cov * mean / math.sqrt(runs)
        for q in (0.5, 0.95):
            below = (times <= processes.truth(process, f"p{100 * q:g}", **parameters)).mean()
            assert abs(below - q) < 4 * math.sqrt(q * (1 - q) / runs)


def test_a_queue_that_starts_empty_is_not_steady() -> None:
    """Negative control: without the wait of the first request the third is 2/3 too fast at .9."""
    rng = np.random.default_rng(7)
    found = [processes.lindley(np.cumsum(rng.exponential(1 / 90, 3)), rng.exponential(0.01, 3))[-1] for _ in range(500)]
    assert np.mean(found) < 0.5 * processes.truth(processes.mm1, "mean", rho=0.9)


def test_the_truth_of_a_day_is_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mean over a day lies above that of its mean rate and below that of its peak."""
    monkeypatch.setattr(processes, "SIMULATED", 100_000)
    found = processes.truth(processes.sine, "mean", n=10_000)
    assert processes.truth(processes.mm1, "mean", rho=0.6) < found < processes.truth(processes.mm1, "mean", rho=0.9)
    with pytest.raises(ValueError, match="figure must be mean, cov or a percentile, not 'median'"):
        processes.truth(processes.sine, "median", n=10_000)


def drawn(name: str, rng: np.random.Generator) -> list[float]:
    """Return three random numbers of a run."""
    return rng.random(3).tolist()


def test_every_run_of_every_row_has_a_seed_of_its_own() -> None:
    first, second = runner.simulate(drawn, [("a", 60), ("b", 60)])
    assert len({tuple(run) for run in [*first, *second]}) == 120
    assert list(runner.simulate(drawn, [("b", 60)])) == [second], "whatever else is simulated"
    (fewer,) = runner.simulate(drawn, [("a", 30)])
    assert fewer == first[:30]


def test_a_program_that_was_killed_goes_on_with_the_cells_that_are_left(tmp_path: Path) -> None:
    kept, made = tmp_path / "cells.jsonl", []

    def once(name: str, rng: np.random.Generator) -> list[float]:
        made.append(name)
        if name == "c" and len(made) < 12:
            raise KeyboardInterrupt
        return drawn(name, rng)

    cells = [("a", 5), ("b", 5), ("c", 5)]
    with pytest.raises(KeyboardInterrupt):
        list(runner.simulate(once, cells, kept=kept))
    assert [json.loads(line)["cell"] for line in kept.read_text().splitlines()] == ["a", "b"]
    resumed = list(runner.simulate(once, cells, kept=kept))
    assert made[11:] == ["c"] * 5
    assert resumed == list(runner.simulate(drawn, cells))
    list(runner.simulate(once, [("a", 6)], kept=kept))
    assert made[16:] == ["a"] * 6, "another number of runs is another cell"


OUTCOMES = [Outcome(0.01 * (run % 3 - 1), run % 20 > 0, run % 50 == 0) for run in range(400)]


@pytest.mark.parametrize(
    ("goal", "met"),
    [
        ("bias within .1 %", True),
        ("holds >= .95", True),
        ("holds >= .99", False),
        ("found <= 2 %", True),
        ("found <= .5 %", False),
        ("found >= 5 %", False),
        ("bias within 1 %, holds >= .93, given >= 1", True),
        ("bias within 1 %, holds >= .99", False),
        ("", None),
    ],
)
def test_a_goal_is_missed_where_the_interval_excludes_it(goal: str, met: bool | None) -> None:
    assert coverage.met(coverage.result_of(OUTCOMES), goal) is met


def test_a_biased_estimate_misses_its_goal() -> None:
    outcomes = [Outcome(0.05 + 0.01 * (run % 3)) for run in range(100)]
    assert coverage.met(coverage.result_of(outcomes), "bias within 2 %") is False


def test_a_goal_that_nobody_can_read_is_refused() -> None:
    with pytest.raises(ValueError, match=r"goal 'holds > \.9' is not like"):
        coverage.met(coverage.result_of(OUTCOMES), "holds > .9")


def test_a_withheld_interval_is_not_given_and_does_not_hold() -> None:
    outcomes = [Outcome(0.0, True if run < 10 else None) for run in range(40)]
    found = coverage.result_of(outcomes, interval=True)
    assert (found.given.value, found.holds.value, found.bias.value) == (0.25, 1.0, 0.0)
    nothing = coverage.result_of([Outcome(0.0)] * 10, interval=True)
    assert nothing.given.value == 0
    assert coverage.met(nothing, "holds >= .93") is None


def test_the_program_prints_a_line_a_row_and_fails_with_a_missed_goal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    rows = [
        Row("Mean", "iid", lambda rng: Outcome(rng.normal(0, 0.1), True), 100, "bias within 5 %"),
        Row("Test", "iid", lambda rng: Outcome(found=rng.random() < 0.2), 100, "found <= 5 %"),
    ]
    found = {f"{row.statement} | {row.data}": ("module", row) for row in rows}
    monkeypatch.setattr(coverage, "all_rows", lambda: found)
    page = tmp_path / "statistics.md"
    page.write_text(f"before\n{coverage.BEGIN}\nold\n{coverage.END}\nafter\n")
    monkeypatch.setattr(coverage, "PAGE", page)
    monkeypatch.setattr(sys, "argv", ["coverage.py", "--processes", "1", "--docs"])
    assert coverage.main() == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" | ")[-1] for line in lines[2:]] == ["yes |", "no |"]
    assert lines[2].startswith("| Mean | iid | 100 | ")
    assert page.read_text().splitlines() == ["before", coverage.BEGIN, *lines, coverage.END, "after"]
    monkeypatch.setattr(sys, "argv", ["coverage.py", "--processes", "1", "--rows", "Mean"])
    assert coverage.main() == 0


def test_the_page_has_every_row() -> None:
    page = coverage.PAGE.read_text(encoding="utf-8")
    missing = [name for name in coverage.all_rows() if f"| {name} |" not in page]
    assert not missing
