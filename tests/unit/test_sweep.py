"""A sweep: finished runs are kept, no run is repeated, and rows hold the measured figures."""

from __future__ import annotations

import contextlib
import csv
import fcntl
import functools
import io
import itertools
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from locust_realism.analysis.stats.intervals import user_ranks
from locust_realism.analysis.summary import summarize
from locust_realism.analysis.verdict.users import user_tasks, user_times
from locust_realism.cli.sweep import SweepProgress
from locust_realism.recording.launches import LaunchLog
from locust_realism.sweep import runner
from locust_realism.sweep.cells import cells_of, difference_rows, series_of, target_rows
from locust_realism.sweep.design import Cell, Plan
from locust_realism.sweep.page import document_of, render_page
from locust_realism.sweep.plan_file import plan_of_options
from locust_realism.sweep.process import Outcome, RunError, locust_command
from locust_realism.sweep.results import BIN_EDGES_MS, load_figures, part_rows, read_rows
from locust_realism.sweep.runner import BusyError, part_path, rows_in_order, sweep


class Silent:
    """Watcher that stores the reports."""

    def __init__(self) -> None:
        self.begun: tuple[int, int] = (0, 0)
        self.failures: list[str] = []
        self.waited = False

    def waiting(self) -> None:
        self.waited = True

    def begin(self, seconds: Any, done: int) -> None:
        self.begun = (len(seconds), done)

    @contextlib.contextmanager
    def run(self, cell: Cell, seconds: float) -> Iterator[None]:
        yield

    def failed(self, cell: Cell, reason: str) -> None:
        self.failures.append(reason)


@functools.cache
def made(users: int, seed: int) -> Outcome:
    """Return the outcome of a run: two launches per second and user, exponential times of ``users`` milliseconds."""
    rng = np.random.default_rng(seed + 1000 * users)
    n = 400 * users
    launches = np.cumsum(rng.exponential(1e6 / (2 * users), n)).astype(np.int64)
    log = LaunchLog.build(
        launches, rng.exponential(1e3 * users, n), names="home", methods="GET", slot=np.arange(n) % users, users=users
    )
    return Outcome(summarize(log), log, {"generator": 0.2, "server": None, "machine": 0.5}, 1.7e9)


class Fake:
    """Runner of cells that counts, and fails or is interrupted at a given cell."""

    def __init__(self, die_at: int | None = None, fail: str = "", times: int = 99) -> None:
        self.ran: list[str] = []
        self.die_at, self.fail, self.times = die_at, fail, times

    def __call__(self, plan: Plan, cell: Cell, folder: Path, *, keep_fds: Any) -> Outcome:
        assert list(folder.iterdir()) == [], "each run starts in an empty folder"
        (folder / "left").write_text("over")
        if len(self.ran) == self.die_at:
            raise KeyboardInterrupt
        if cell.variant.name + str(cell.users) == self.fail and self.times:
            self.times -= 1
            raise RunError("the server was not there")
        self.ran.append(cell.key)
        return made(cell.users, cell.run_seed)


@pytest.fixture
def plan() -> Plan:
    return plan_of_options({"scenario": __file__, "users": [4, 8], "repetitions": 3, "steady": "1s", "warm_up": 0})


def test_a_stopped_sweep_continues_with_the_next_run(plan: Plan, tmp_path: Path) -> None:
    first, second = Fake(die_at=4), Fake()
    with pytest.raises(KeyboardInterrupt):
        sweep(plan, tmp_path, Silent(), run=first)
    assert len(read_rows(tmp_path / "results.parquet")) == 4, "what is done can be used at once"
    watcher = Silent()
    found = sweep(plan, tmp_path, watcher, run=second)
    assert watcher.begun == (2, 4)
    assert first.ran + second.ran == [cell.key for cell in plan.cells()]
    assert [row["key"] for row in found.rows] == [cell.key for cell in plan.cells()]
    third = Fake()
    assert sweep(plan, tmp_path, Silent(), run=third).rows == found.rows
    assert third.ran == []


def test_an_incomplete_part_does_not_count(plan: Plan, tmp_path: Path) -> None:
    sweep(plan, tmp_path, Silent(), run=Fake())
    cut, renamed = plan.cells()[1], plan.cells()[3]
    path = part_path(tmp_path, cut)
    path.write_bytes(path.read_bytes()[:200])
    part_path(tmp_path, renamed).write_bytes(part_path(tmp_path, plan.cells()[0]).read_bytes())
    again = Fake()
    found = sweep(plan, tmp_path, Silent(), run=again)
    assert again.ran == [cut.key, renamed.key]
    assert len({row["key"] for row in found.rows}) == 6


def test_a_run_without_figures_is_repeated_reported_and_left_for_the_next_sweep(plan: Plan, tmp_path: Path) -> None:
    watcher, once = Silent(), Fake(fail="8", times=1)
    assert sweep(plan, tmp_path / "a", watcher, run=once).failures == {}
    assert watcher.failures == ["the server was not there"]
    assert len(once.ran) == 6
    always = Fake(fail="8")
    found = sweep(plan, tmp_path / "b", Silent(), run=always)
    assert (len(found.rows), len(found.failures), len(always.ran)) == (3, 3, 3)
    better = Fake()
    assert len(sweep(plan, tmp_path / "b", Silent(), run=better).rows) == 6
    assert len(better.ran) == 3


def test_two_sweeps_never_share_a_directory(plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "LOCK_TIMEOUT_S", 0.3)
    watcher = Silent()
    with (tmp_path / ".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(BusyError, match="in use by another sweep"):
            sweep(plan, tmp_path, watcher, run=Fake())
    assert watcher.waited
    assert len(sweep(plan, tmp_path, Silent(), run=Fake()).rows) == 6


def test_a_row_holds_the_measured_figures(plan: Plan, tmp_path: Path) -> None:
    row = sweep(plan, tmp_path, Silent(), run=Fake()).rows[0]
    cell = plan.cells()[0]
    log = made(cell.users, cell.run_seed).log
    assert (row["users"], row["n"], row["failures"], row["server_cpu"]) == (cell.users, len(log), 0, None)
    assert row["p90_ms"] == np.sort(log.response_us)[int(np.ceil(0.9 * len(log))) - 1] / 1e3
    assert row["p90_ms_low"] < row["p90_ms"] < row["p90_ms_high"]
    assert row["rate_low"] < row["rate"] < row["rate_high"]
    assert sum(row["response_bins"]) == len(log)
    assert json.loads(row["summary"])["response_times"][-1]["n"] == len(log)
    assert (np.log10(BIN_EDGES_MS[0]), np.log10(BIN_EDGES_MS[-1]), len(BIN_EDGES_MS)) == (-3, 6, 361)
    assert pd_reads(tmp_path / "results.parquet") == 6


def pd_reads(path: Path) -> int:
    import pandas as pd

    return len(pd.read_parquet(path))


def test_limits_of_a_cell_have_their_nominal_coverage(plan: Plan) -> None:
    """The true mean is 8: 95 % limits of 3 runs hold it in at least 138 of 160 cases (binomial, 5 sigma)."""
    from locust_realism.analysis.stats.estimates import mean_estimate
    from locust_realism.analysis.stats.repeated import pooled
    from locust_realism.sweep.results import estimate_of, limits, response_figures

    rng = np.random.default_rng(5)
    held = 0
    for _ in range(160):
        found = limits("mean_ms", pooled([mean_estimate(rng.exponential(8, 400)) for _ in range(3)]))
        held += found["mean_ms_low"] <= 8 <= found["mean_ms_high"]
    assert held >= 160 * 0.95 - 5 * (160 * 0.95 * 0.05) ** 0.5
    log = LaunchLog.build(np.arange(400) * 1000, rng.exponential(8000, 400))
    assert response_figures(log)["mean_ms"] == pytest.approx(log.response_us.mean() / 1e3)
    whole = mean_estimate(log.response_us / 1e3)
    assert estimate_of(response_figures(log), "mean_ms") == whole
    assert math.isfinite(whole.freedom)  # runs without it had limits of too many degrees of freedom


def test_runs_of_one_request_beyond_a_percentile_carry_no_limits_together() -> None:
    """Ten p99 of 50 requests each, of which none lies beyond it: the mean of their maxima is no p99."""
    from locust_realism.sweep.cells import over_runs
    from locust_realism.sweep.results import estimate_of, response_figures

    rng = np.random.default_rng(4)
    rows = [response_figures(LaunchLog.build(np.arange(50), rng.exponential(8000, 50))) for _ in range(10)]
    p99, p50 = (over_runs([estimate_of(row, key) for row in rows]) for key in ("p99_ms", "p50_ms"))
    assert (p99.low, p99.high) == (-math.inf, math.inf)
    assert p50.low < 8 * math.log(2) < p50.high


@pytest.mark.parametrize(("judged", "cov", "share"), [(None, True, True), (900, True, False), (40, False, False)])
def test_a_run_that_adds_users_has_limits_of_its_judged_part_only(judged: int | None, cov: bool, share: bool) -> None:
    """The CoV of the last part of a run has the limits of that part; a few launches give no figure."""
    outcome = made(8, 3)
    window = outcome.summary["window"] | ({} if judged is None else {"judged": judged})
    pattern = outcome.summary["pattern"] | {"response_share": 0.4, "think_mean_s": 0.1, "cov": 1.0}
    found = load_figures(outcome.log, outcome.summary | {"window": window, "pattern": pattern})
    assert (found["launch_cov"] is not None, found["response_share_low"] is not None) == (cov, share)
    assert (found["response_share"] is not None) == cov
    if cov:
        n = judged or len(outcome.log)
        assert found["launch_cov_high"] - 1 == pytest.approx(1.96 / math.sqrt(n - 1))


def test_the_limits_of_the_share_of_waiting_are_those_of_tasks() -> None:
    """Two requests at a time, of .1 s each: R is .15 s. Limits from single requests, as before, hold half of the runs.

    At 95 % fewer than 50 of 60 hold once in 1,000.
    """
    from locust_realism.analysis.stats.estimates import mean_estimate
    from locust_realism.sweep.results import share_of_waiting

    held, before, true = 0, 0, 0.15 / 1.15
    for seed in range(60):
        rng = np.random.default_rng(seed)
        think, times = rng.exponential(1.0, (30, 90)), rng.exponential(0.1, (30, 90, 2))
        span = times.max(axis=2)
        start = np.cumsum(think + np.pad(span, ((0, 0), (1, 0)))[:, :-1], axis=1) - 10
        user, step = np.nonzero((start >= 0) & (start < 40))
        order = np.repeat(np.argsort(start[user, step], kind="stable"), 2)
        user, step, which = user[order], step[order], np.arange(len(order)) % 2
        log = LaunchLog.build(
            np.rint(1e6 * start[user, step]), np.rint(1e6 * times[user, step, which]), slot=user, users=30, task=order
        )
        found, mean = user_times(log), mean_estimate(log.response_us / 1e6)
        limits = share_of_waiting(found.response_share, user_tasks(log, user_ranks(log)[0]))
        held += limits.low <= true <= limits.high
        before += mean.low / (mean.low + found.think_mean) <= true <= mean.high / (mean.high + found.think_mean)
    assert held >= 50
    assert before < 40, "the negative control"


def test_the_parts_of_a_run_hold_all_its_requests_each_with_limits(plan: Plan) -> None:
    """Three times as slow in the second half: the limits of the first and of the last part are apart."""
    rng = np.random.default_rng(8)
    times = rng.exponential(10_000, 2010) * np.repeat([1, 3], 1005)
    rows = part_rows(LaunchLog.build(np.cumsum(rng.exponential(5000, 2010)).astype(np.int64), times))
    assert (len(rows), sum(row["n"] for row in rows)) == (20, 2010)
    assert all(row["p50_ms_low"] < row["p50_ms"] < row["p50_ms_high"] for row in rows)
    assert rows[0]["p50_ms_high"] < rows[-1]["p50_ms_low"]
    assert rows[3]["start_s"] == pytest.approx(sum(row["duration_s"] for row in rows[:3]))
    assert part_rows(LaunchLog.build(np.arange(79), times[:79])) == []


def test_missing_response_times_are_requests_without_figures() -> None:
    from locust_realism.sweep.results import response_figures

    log = LaunchLog.build(np.arange(200) * 1000, np.where(np.arange(200) % 2, -1, 3000))
    found = response_figures(log)
    assert (found["n"], sum(found["response_bins"])) == (200, 100)
    assert found["mean_ms"] == found["mean_ms_low"] == found["p50_ms_low"] == 3.0


def test_cells_targets_and_lines(plan: Plan, tmp_path: Path) -> None:
    """p90 of the made runs is 2.3 ms a user: a bound of 14 ms lies at 6.1 users, between the cells."""
    rows = sweep(plan, tmp_path, Silent(), run=Fake()).rows
    cells = cells_of(rows)
    assert sorted((cell["users"], cell["runs"]) for cell in cells) == [(4, 3), (8, 3)]
    (line,) = series_of(cells)
    assert (line[0], [cell["users"] for cell in line[1]]) == ("all", [4, 8])
    (target,) = target_rows(cells, ["p90 < 14ms"])
    assert target["status"] == "measured"
    assert target["low"] < 14 / 2.302585 < target["high"]
    none, every = target_rows(cells, ["p90 < 1ms", "p90 < 1s"])
    assert (none["status"], none["users"]) == ("met by none", None)
    assert (every["status"], every["largest_measured"]) == ("met by all", 8)


def test_differences_are_found_where_there_are_some_and_not_where_there_are_none(tmp_path: Path) -> None:
    def rows(name: str, users: int) -> list[dict[str, Any]]:
        plan = plan_of_options({"scenario": __file__, "users": [users], "repetitions": 4, "seeds": [len(name)]})
        found = sweep(plan, tmp_path / name, Silent(), run=Fake()).rows
        return [{**row, "variant": name, "users": 1} for row in found]

    (rate, *times) = difference_rows(rows("one", 4) + rows("another", 4))
    assert {row["verdict"] for row in (rate, *times)} == {"no difference that this data can show"}
    assert all(row["low"] < 0 < row["high"] for row in times)
    (rate, *times) = difference_rows(rows("base", 4) + rows("double", 8))
    assert (rate["verdict"], {row["verdict"] for row in times}) == ("more", {"slower"})


def test_the_page_needs_the_rows_only_and_escapes_hostile_words(plan: Plan, tmp_path: Path) -> None:
    sweep(plan, tmp_path, Silent(), run=Fake())
    rows = rows_in_order(plan, tmp_path)
    hostile = [{**row, "variant": ""} for row in rows]
    document = document_of(plan, hostile, failures=["</script><script>alert(1)</script>"])
    page = render_page(document)
    assert document["runs_done"] == 6
    assert json.dumps(document, allow_nan=False)
    assert "<script>alert(1)" not in page
    assert page.count("</script>") == page.count("<script")
    assert "req/s" in page.split("<noscript>")[1].split("</noscript>")[0]


def test_the_command_line_of_locust_follows_the_plan(tmp_path: Path) -> None:
    plan = plan_of_options(
        {"scenario": __file__, "users": [20], "think_time": ["5ms"], "warm_up": "4s", "steady": "6s", "processes": 2,
         "options": {"deep": True, "shallow": False, "target-options": "--stall 1/5"}, "host": "http://h"}
    )  # fmt: skip
    words = locust_command(plan, plan.cells()[0], tmp_path, plan.variants[0].host)
    pairs = dict(itertools.pairwise(words))
    assert (pairs["-u"], pairs["-r"], pairs["-t"], pairs["--realism-warmup"]) == ("20", "10", "11s", "4.0")
    assert (pairs["--think-time"], pairs["--processes"], pairs["--host"]) == ("0.005", "2", "http://h")
    assert "--target-options=--stall 1/5" in words
    assert "--deep" in words
    assert not any("shallow" in word for word in words)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()])
def test_progress_shows_the_time_left(plan: Plan, stream: io.StringIO) -> None:
    progress = SweepProgress(stream)
    progress.begin([10.0, 20.0, 30.0], done=2)
    assert progress.left() == 10 + 20 + 30 + 3 * 4.0
    cell = plan.cells()[0]
    with progress.run(cell, 10.0):
        assert f"{cell.words} (about 1 min 12 s to go)" in stream.getvalue()
        assert ("2/5 done" if stream.isatty() else "[3/5]") in stream.getvalue()
    assert "2 of 5 runs are done already" in stream.getvalue()
    assert (progress.done, progress.ahead) == (3, [20.0, 30.0])
    assert progress.overhead_s < 1, "measured, no longer the guess"


def test_a_failed_locust_is_reported_with_its_last_error_and_not_its_tables(tmp_path: Path) -> None:
    from locust_realism.sweep.process import _last_lines

    log = tmp_path / "locust.txt"
    table = "\n".join(f"GET page {number}" for number in range(50))
    head = "[12:00] vm/INFO/locust.main: Starting\n[12:01] vm/ERROR/locust.event: no disk\n"
    log.write_text(head + table)
    assert _last_lines(log).splitlines()[:2] == ["  [12:01] vm/ERROR/locust.event: no disk", "  GET page 0"]
    assert _last_lines(log).splitlines()[-1] == "  GET page 49", "the end of a traceback"
    assert len(_last_lines(log).splitlines()) == 13
    log.write_text(table)
    assert _last_lines(log).splitlines()[-1] == "  GET page 49"
    assert _last_lines(tmp_path / "none.txt") == ""


def test_ctrl_c_leaves_a_page_of_the_finished_runs_and_status_130(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from locust_realism.cli import main
    from locust_realism.cli import sweep as command

    monkeypatch.setattr(command.signal, "signal", lambda *_: None)
    monkeypatch.setattr(command, "sweep", lambda *given: sweep(*given, run=Fake(die_at=2)))
    words = ["sweep", "-f", __file__, "--users", "4,8", "--repetitions", "3", "--steady", "1s", "--warm-up", "0"]
    assert main([*words, "-o", str(tmp_path)]) == 130
    told = capsys.readouterr()
    assert "2 of 6 runs done" in told.out
    assert "4 to go: the same command goes on with them" in told.err
    assert "4 of 6 runs are not done" not in (tmp_path / "index.html").read_text(), "the renderer writes that"
    assert '"runs_done":2' in (tmp_path / "index.html").read_text()
    monkeypatch.setattr(command, "sweep", lambda *given: sweep(*given, run=Fake(fail="8")))
    assert main([*words, "-o", str(tmp_path)]) == 1
    assert main([*words, "-o", str(tmp_path), "--page"]) == 0
    assert main([*words, "-o", str(tmp_path / "empty"), "--page"]) == 2
    assert main([*words, "--list"]) == 0
    assert "6 runs, about 36 s" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--full"], "--full takes the article's own length from a PLAN"),
        (["-f", "none.py", "--users", "2"], "option --scenario: scenario is"),
        (["-f", __file__], "users is missing"),
        (["-f", __file__, "--users", "2", "--option", "wide"], "must be NAME=VALUE"),
        (["-f", __file__, "--users", "2", "--think-time", "1s,soon"], "option --think-time: think_time[1] is 'soon'"),
        (
            ["-f", __file__, "--users", "2", "--seeds", "1,x"],
            "option --seeds: seeds[1] is 'x', expected a whole number",
        ),
        (["none.yaml"], "cannot read none.yaml: No such file or directory\n"),
    ],
)
def test_wrong_usage_is_status_2_with_a_sentence(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from locust_realism.cli import main

    assert main(["sweep", *words]) == 2
    assert said in capsys.readouterr().err


def test_the_last_samples_by_completion_are_slow_in_a_steady_test_too() -> None:
    """Requests in flight at the end are the last rows of a file, as docs/articles.md states of JMeter's window.

    300,000 samples, a tenth of them slow: those in flight at the end are 1 % of 20,000 and more, all slow. By launch
    the last 20,000 are within sampling error (p90 lies within the shares .9 -+ 5 sqrt(.09/20000) of all).
    """
    from locust_realism.sweep.results import window_rows

    rng = np.random.default_rng(3)
    n = 300_000
    launches = np.cumsum(rng.exponential(1e6 / 5000, n)).astype(np.int64)
    response = np.where(rng.random(n) < 0.1, rng.exponential(2e6, n), rng.exponential(2e4, n)).astype(np.int64)
    exact, _, window, *pieces = window_rows(LaunchLog.build(launches, response), [20_000])
    ordered = np.sort(response) / 1e3
    low, high = (ordered[int(n * (0.9 + side * 5 * (0.09 / 20_000) ** 0.5))] for side in (-1, 1))
    assert exact["p90_ms"] == ordered[int(np.ceil(0.9 * n)) - 1]
    assert low < np.sort(response[-20_000:])[18_000] / 1e3 < high
    assert window["p90_ms"] > high
    assert [piece["kind"] for piece in pieces] == ["piece"] * 3
    assert pieces[0]["p90_ms"] < low, "slow ones of the start have not ended yet"


def test_the_cells_are_a_table_for_people_and_json_or_csv_for_machines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from locust_realism.cli import main
    from locust_realism.cli import sweep as command

    monkeypatch.setattr(command.signal, "signal", lambda *_: None)
    monkeypatch.setattr(command, "sweep", lambda *given: sweep(*given, run=Fake()))
    words = ["sweep", "-f", __file__, "--users", "4,8", "--repetitions", "3", "--steady", "1s", "--warm-up", "0"]
    shown = {}
    for form in ("table", "json", "csv"):
        assert main([*words, "-o", str(tmp_path), "--format", form]) == 0
        told = capsys.readouterr()
        shown[form] = told.out
        assert ("6 of 6 runs done" in told.err) == (form != "table")
    document = json.loads(shown["json"])
    assert [cell["users"] for cell in document["cells"]] == [4, 8]
    rows = list(csv.DictReader(io.StringIO(shown["csv"])))
    heading, *lines = shown["table"].splitlines()
    assert heading.split()[:4] == ["users", "runs", "n", "req/s"]
    assert lines[-1].startswith("6 of 6 runs done")
    for cell, row, line in zip(document["cells"], rows, lines, strict=False):
        assert float(row["p95_ms"]) == cell["p95_ms"]
        assert float(row["rate_low"]) == cell["rate_low"] < cell["rate"]
        assert line.split()[:4] == [str(cell["users"]), "3", f"{cell['n']:,}", f"{cell['rate']:,.2f}"]
        assert len(line) <= 120


def test_samples_without_a_response_time_are_not_in_the_figures_of_windows() -> None:
    from locust_realism.sweep.results import window_rows

    response = np.where(np.arange(900) % 3 == 0, -1, 5000)
    rows = window_rows(LaunchLog.build(np.arange(900) * 1000, response), [300])
    assert {row["p50_ms"] for row in rows} == {rows[0]["mean_ms"], rows[1]["mean_ms"]} == {5.0}
    assert (rows[0]["samples"], rows[2]["samples"]) == (900, 300)
    assert window_rows(LaunchLog.build(np.arange(900) * 1000, -1), [300]) == []
