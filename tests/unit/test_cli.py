"""The command line: golden output of each command, exit codes, and errors that a user can correct."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
import shlex
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cli_support import Run, called

from locust_realism.cli import COMMANDS, build_parser
from locust_realism.cli.compare import share
from locust_realism.cli.shared import integers, progress
from locust_realism.recording.formats import read_launches, write_launches
from locust_realism.recording.launches import LaunchLog

GOLDEN = Path(__file__).parent / "golden"
BRADY_FILE = Path(__file__).parents[3] / "shared" / "data" / "1800_AggRpt.csv"
BRADY_COV = {  # sources: Brady, CMG 2019, table "All Seven Test Runs", column 1800
    1: 0.59, 2: 0.71, 3: 0.81, 4: 0.85, 5: 0.87, 6: 0.91, 7: 0.92, 8: 0.94, 9: 0.97, 10: 0.99, 15: 1.00, 20: 0.97,
    25: 0.96, 30: 0.98, 35: 0.99, 40: 0.98, 45: 0.98, 50: 0.99, 75: 1.00, 100: 0.99, 125: 0.98, 150: 0.98, 175: 0.99,
    200: 0.98,
}  # fmt: skip


def jmeter_file(path: Path, *, seed: int = 1, n: int = 400, scale: float = 60.0) -> Path:
    """Write a headerless JMeter aggregate report in order of completion, the toolkit's input."""
    rng = np.random.default_rng(seed)
    start = 1_331_861_523_000 + np.cumsum(rng.exponential(100.0, n)).astype(np.int64)
    response = np.maximum(1, rng.exponential(scale, n)).astype(np.int64)
    thread, label = rng.integers(1, 13, n), rng.integers(0, 2, n)
    rows = []
    for i in np.argsort(start + response, kind="stable").tolist():
        bad = i % 50 == 7
        rows.append(
            f"{start[i]},{response[i]},{('010_Home', '020_Dept')[label[i]]},{'500,Oops' if bad else '200,OK'},"
            f"Thread Group 1-{thread[i]},text,{'false' if bad else 'true'},{1000 + i},{response[i] // 2}"
        )
    path.write_text("\n".join(rows) + "\n")
    return path


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs the command beside run.csv, slow.csv and fast.csv: status, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    jmeter_file(tmp_path / "run.csv")
    jmeter_file(tmp_path / "slow.csv", seed=2, n=2000, scale=90.0)
    jmeter_file(tmp_path / "fast.csv", seed=3, n=2000, scale=45.0)

    return called(capsys)


def assert_golden(name: str, text: str) -> None:
    """Compare with a file of tests/unit/golden; UPDATE_GOLDEN=1 writes it: read it before you commit it."""
    path = GOLDEN / name
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text()


def test_the_tables_of_analyze(run: Run) -> None:
    status, out, err = run("analyze", "run.csv", "--percentile-rule", "jmeter", "--groups", "1-3,6,12")
    assert (status, err) == (0, "")
    assert out.startswith("Verdict: ")
    # The tests of the verdict cover its words; scripts and readers rely on the tables.
    assert_golden("analyze.txt", out[out.index("Response times") :])


def test_the_text_of_compare(run: Run) -> None:
    status, out, _ = run("compare", "old=fast.csv", "new=slow.csv", "--tolerance", "2%")
    assert status == 1
    assert_golden("compare.txt", re.sub(r"  (green|amber|red|not enough data)$", "  VERDICT", out, flags=re.MULTILINE))


def test_analyze_as_csv_is_what_pandas_computes(run: Run, tmp_path: Path) -> None:
    _, out, _ = run("analyze", "run.csv", "--format", "csv")
    rows = {row["label"]: row for row in csv.DictReader(io.StringIO(out))}
    data = pd.read_csv(tmp_path / "run.csv", header=None)
    for label, part in [("Aggregated", data), *data.groupby(2)]:
        gaps = np.sort(part[0]).astype(float)
        gaps = pd.Series(np.diff(gaps))
        row = rows[label]
        assert int(row["n"]) == len(gaps)
        assert float(row["mean_ms"]) == pytest.approx(gaps.mean())
        assert float(row["sdev_ms"]) == pytest.approx(gaps.std())
        assert float(row["cov"]) == pytest.approx(gaps.std() / gaps.mean())
        assert float(row["p95_ms"]) == gaps.quantile(0.95, interpolation="higher") or len(gaps) * 0.95 % 1 == 0
        assert float(row["max_ms"]) == gaps.max()


def test_analyze_as_json_has_the_documented_keys(run: Run) -> None:
    _, out, _ = run("analyze", "run.csv", "--format", "json", "--fail-if", "p95 > 10s")
    document = json.loads(out, parse_constant=lambda word: pytest.fail(f"{word} in the JSON"))
    keys = {"schema_version", "source", "window", "launches", "response_times", "groups"}
    assert keys | {"dispersion", "stages", "capacity", "verdict"} <= set(document)
    launch_keys = {"label", "n", "rate", "median_ms", "mean_ms", "sdev_ms", "cov", "p90_ms", "p95_ms", "p99_ms"}
    assert launch_keys | {"min_ms", "max_ms", "method"} <= set(document["launches"][-1])
    assert {"users", "n", "rate", "mean_ms", "sdev_ms", "cov"} <= set(document["groups"][0])
    assert {"id", "name", "status", "value", "bound", "explanation"} <= set(document["verdict"]["checks"][0])
    assert document["thresholds"][0]["failed"] is False


@pytest.mark.skipif(not BRADY_FILE.exists() and not os.environ.get("CI"), reason="the published data file is not here")
def test_the_published_cov_column_comes_out(run: Run) -> None:
    sizes = ",".join(map(str, BRADY_COV))
    _, out, _ = run(
        "analyze", str(BRADY_FILE), "--skip", "120", "--duration", "1200", "--percentile-rule", "jmeter",
        "--groups", sizes, "--format", "csv", "--table", "groups",
    )  # fmt: skip
    rows = {int(row["users"]): row for row in csv.DictReader(io.StringIO(out))}
    assert {users: round(float(row["cov"]), 2) for users, row in rows.items()} == BRADY_COV
    assert round(float(rows[200]["rate"]), 2) == 15.91


@pytest.mark.parametrize(
    ("condition", "status"), [("p95 > 1ms", 1), ("p95 > 10s", 0), ("failures > 1%", 1), ("failures > 3%", 0)]
)
def test_a_threshold_decides_the_exit_status_and_gets_a_line(run: Run, condition: str, status: int) -> None:
    found, out, err = run("analyze", "run.csv", "--fail-if", condition)
    assert found == status
    assert ("FAILED  " if status else "ok      ") + condition in out
    found, out, err = run("analyze", "run.csv", "--format", "json", "--fail-if", condition)
    assert found == status
    assert condition in err
    json.loads(out)


def test_thresholds_from_a_file(run: Run, tmp_path: Path) -> None:
    (tmp_path / "gate.txt").write_text("# the gate\np95 > 10s\nfailures > 1%\n")
    assert run("analyze", "run.csv", "--thresholds", "gate.txt")[0] == 1
    (tmp_path / "gate.txt").write_text("p59 > 10s\n")
    status, _, err = run("analyze", "run.csv", "--thresholds", "gate.txt")
    assert status == 2
    assert "gate.txt: threshold cannot be read: unknown figure 'p59', perhaps 'p99'" in err
    assert "p59 > 10s\n  ^" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("analyze", "none.csv"), "cannot read none.csv: No such file"),
        (("analyze", "."), "cannot read"),
        (("analyze", "notes.txt"), "the format is unknown"),
        (("analyze", "empty.csv"), "empty"),
        (("analyze", "run.csv", "--skip", "1h"), "window"),
        (("analyze", "run.csv", "--skip", "soon"), "must be a time span such as"),
        (("analyze", "run.csv", "--groups", "0,1"), "must be a number from 1 on"),
        (("analyze", "run.csv", "--fail-if", "p95 > 40"), "a unit is missing"),
        (("analyze", "run.csv", "--target", "p95 < 1s"), "have no numbers of users"),
        (("analyze", "run.csv", "--sample", "0"), "locust-realism: --sample must be an integer >= 1, not 0"),
        (
            ("analyze", "run.csv", "--skip-requests", "-1"),
            "realism: --skip-requests must be an integer >= 0, not -1",
        ),
        (("analyze", "run.csv", "--think-cov", "-1"), "locust-realism: --think-cov must be >= 0, not -1.0"),
        (
            ("compare", "run.csv", "slow.csv", "--sample", "0"),
            "locust-realism: --sample must be an integer >= 1, not 0",
        ),
        (("analyze", "run.csv", "-o", "no/such/file"), "cannot write no/such/file"),
        (("compare", "run.csv"), "expected a baseline and at least one other"),
        (("compare", "run.csv", "run.csv"), "two sides are called 'run'"),
        (("compare", "run.csv", "x=,"), "names no file"),
        (("compare", "run.csv", "slow.csv", "--tolerance", "5 apples"), "must be a share"),
        (("merge", "run.csv", "run.csv", "-o", "out.parquet"), "given twice"),
        (("export", "run.csv", "-o", "run.xlsx"), "must end in one of"),
        (("export", "run.csv", "-o", "run.csv"), "exists already"),
        (("anlyze", "run.csv"), "invalid choice"),
        ((), "COMMAND"),
    ],
)
def test_bad_input_is_one_message_and_status_two(
    run: Run, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    (tmp_path / "notes.txt").write_text("hello \x1b[2J world\n")
    (tmp_path / "empty.csv").write_text("")
    status, _, err = run(*arguments)
    assert status == 2
    assert message in err
    assert "Traceback" not in err
    assert "\x1b" not in err


def test_compare_exit_status(run: Run, tmp_path: Path) -> None:
    assert run("compare", "slow.csv", "fast.csv")[0] == 0
    assert run("compare", "fast.csv", "slow.csv")[0] == 1
    assert run("compare", "fast.csv", "slow.csv", "--tolerance", "99%")[0] == 0
    assert run("compare", "slow.csv", "fast.csv", "--fail-if", "p50 > 1ms")[0] == 1
    other = LaunchLog.build(np.arange(2000) * 100_000, 45_000, names="something else", methods="GET")
    write_launches(other, tmp_path / "other.parquet")
    status, out, _ = run("compare", "fast.csv", "other.parquet")
    assert status == 3
    assert "cannot be compared" in out
    assert "mix differs: 100 %" in out
    assert run("compare", "fast.csv", "other.parquet", "--force")[0] in (0, 1)


def test_compare_judges_a_recording_while_all_users_were_running(run: Run, tmp_path: Path) -> None:
    """The log has 40 bunches of 50 launches during the ramp-up, then 4000 launches of independent users."""
    rng = np.random.default_rng(5)
    ramp = np.repeat(np.arange(40) * 1_000_000, 50) + np.tile(np.arange(50) * 100, 40)
    steady = 40_000_000 + np.cumsum(rng.exponential(10_000, 4000)).astype(np.int64)
    log = LaunchLog.build(1_700_000_000_000_000 + np.concatenate((ramp, steady)), 5000)
    held = [1_700_000_040_000_000, None]
    recording(tmp_path / "planned", log, held_us=held)
    recording(tmp_path / "bare", log)
    _, out, _ = run("compare", "planned", "bare", "--format", "json")
    planned, bare = json.loads(out)["runs"]
    assert (planned["verdict"], bare["verdict"]) == (["green"], ["red"])
    assert abs(planned["cov"] - 1) < 4 / math.sqrt(4000)
    assert bare["cov"] > 1.5
    assert planned["n"] == bare["n"] == 6000
    _, out, _ = run("analyze", "planned", "--format", "json")
    found = json.loads(out)
    assert (found["verdict"]["overall"], found["pattern"]["raw_cov"]) == ("green", planned["cov"])


def test_the_page_of_a_comparison_holds_its_document(run: Run) -> None:
    _, out, _ = run("compare", "old=fast.csv", "<b>new=slow.csv", "--format", "json", "--html", "diff.html")
    page = Path("diff.html").read_text()
    data = re.search(r'<script type="application/json" id="lr-data">(.*?)</script>', page, re.DOTALL)
    assert data is not None
    shown = json.loads(data[1])
    assert {key: shown[key] for key in json.loads(out)} == json.loads(out)
    assert "<b>new" not in page
    assert "<title>Comparison of old, &lt;b&gt;new</title>" in page
    assert "is slower than old" in page.partition("<noscript>")[2].partition("</noscript>")[0]


def test_compare_checks_the_agreement_of_repeated_runs(run: Run) -> None:
    _, out, _ = run("compare", "both=fast.csv,slow.csv", "fast.csv")
    assert "The runs of both do not agree" in out
    _, out, _ = run("compare", "fast.csv", "slow.csv", "--format", "json")
    found = json.loads(out)
    assert found["candidates"][0]["conclusion"] == "slower"
    assert "A side with one run" in found["warnings"][0]


def test_export_and_back_keeps_every_request(run: Run, tmp_path: Path) -> None:
    before = read_launches(tmp_path / "run.csv").sorted_by_launch()
    for name in ("out.parquet", "out.csv", "out.jtl"):
        status, out, err = run("export", "run.csv", "-o", name)
        assert (status, out) == (0, "")
        assert f"400 requests written to {name}" in err
        after = read_launches(tmp_path / name).sorted_by_launch()
        assert after.launch_us.tolist() == before.launch_us.tolist()
        assert after.response_us.tolist() == before.response_us.tolist()
        assert [after.labels[i].name for i in after.label] == [before.labels[i].name for i in before.label]
        assert after.failed.tolist() == before.failed.tolist()


def test_export_of_a_part(run: Run, tmp_path: Path) -> None:
    run("export", "run.csv", "-o", "part.parquet", "--skip", "10s", "--duration", "20s")
    before, part = read_launches(tmp_path / "run.csv"), read_launches(tmp_path / "part.parquet")
    offset = before.launch_us - before.launch_us.min()
    assert len(part) == int(((offset >= 10_000_000) & (offset <= 30_000_000)).sum())


def test_merge_keeps_workers_apart(run: Run, tmp_path: Path) -> None:
    status, _, err = run("merge", "run.csv", "slow.csv", "-o", "all.parquet", "--workers")
    assert status == 0
    merged = read_launches(tmp_path / "all.parquet")
    assert len(merged) == 2400
    assert np.bincount(merged.worker).tolist() == [400, 2000]
    assert (np.diff(merged.launch_us) >= 0).all()
    assert "do not overlap" not in err


def recording(directory: Path, log: LaunchLog, **info: object) -> Path:
    """Write the directory that a process of a run leaves."""
    directory.mkdir()
    write_launches(log, directory / "launches.parquet")
    (directory / "run.json").write_text(json.dumps(info))
    return directory


def test_directories_of_a_run_are_read_and_merged_each_launch_once(run: Run, tmp_path: Path) -> None:
    log = read_launches(tmp_path / "run.csv")
    half = np.arange(len(log)) % 2 == 0
    log = replace(log, worker=half.astype(np.int32))
    recording(tmp_path / "master", log.take(slice(0, 390)), role="master", workers={"a": 0, "b": 1})
    for index, name in enumerate("ab"):
        part = log.take(log.worker == index)
        recording(tmp_path / name, part, role="worker", worker_index=index, client_id=name)
    status, _, err = run("merge", "master", "a", "b", "-o", "all.parquet")
    assert (status, "400 requests written" in err) == (0, True)
    merged = read_launches(tmp_path / "all.parquet")
    assert merged.launch_us.tolist() == sorted(log.launch_us.tolist())
    _, out, _ = run("analyze", "a", "b", "--format", "json")
    assert json.loads(out)["window"]["n"] == 400
    (tmp_path / "void").mkdir()
    status, _, err = run("analyze", "void")
    assert status == 2
    assert "is not a recording" in err


def test_unreadable_lines_are_reported(run: Run, tmp_path: Path) -> None:
    with (tmp_path / "run.csv").open("a") as stream:
        stream.write("half a li\x1b[2Jne\n")
    status, _, err = run("analyze", "run.csv")
    assert status == 0
    assert "run.csv: 1 row left out (line 401" in err
    assert "\x1b" not in err


def test_the_planned_workload_sharpens_the_verdict(run: Run) -> None:
    def think_check(*options: str) -> dict[str, object]:
        _, out, _ = run("analyze", "slow.csv", "--format", "json", *options)
        return next(check for check in json.loads(out)["verdict"]["checks"] if check["id"] == 8)

    assert think_check("--workload", "closed", "--think-time", "20s")["status"] == "red"
    assert think_check("--workload", "closed")["status"] != "red"
    assert think_check()["status"] == "not enough data"


def test_an_output_file_appears_whole_or_not_at_all(run: Run, tmp_path: Path) -> None:
    run("analyze", "run.csv", "--format", "json", "-o", "out.json")
    assert json.loads((tmp_path / "out.json").read_text())["schema_version"]
    assert not list(tmp_path.glob("*.partial"))


def test_the_report_is_written(run: Run, tmp_path: Path) -> None:
    assert run("analyze", "run.csv", "--html", "report.html")[0] == 0
    assert (tmp_path / "report.html").read_text().startswith("<!doctype html>")


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_help(run: Run, command: str) -> None:
    status, out, _ = run(command, "--help")
    assert status == 0
    assert COMMANDS[command][1:] in " ".join(out.split())


def test_integers_and_shares() -> None:
    assert integers("1-3,10-20:5") == (1, 2, 3, 10, 15, 20)
    assert share("5 %") == 0.05


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_shown_on_a_terminal_and_cleared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with progress(f"resampling \x1b[2J {'x' * 200}") as advance:
        assert "resampling \\x1b[2J xxx" in terminal.getvalue()
        time.sleep(0.15)
        advance(0.5)
        assert " 50 % " in terminal.getvalue()
    shown = terminal.getvalue()
    assert max(map(len, shown.split("\r"))) <= 120
    assert shown.endswith("\r")
    assert shown.rstrip("\r").rpartition("\r")[2].strip() == "", "the line is blank at the end"
    assert "\x1b[2J" not in shown


def test_progress_writes_nothing_into_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", pipe := io.StringIO())
    with progress("reading") as advance:
        advance(0.5)
    assert pipe.getvalue() == ""


DOCS = sorted((Path(__file__).parents[2] / "docs").glob("*.md"))
SHOWN = [line for path in DOCS for line in path.read_text().splitlines() if line.startswith("$ locust-realism ")]


@pytest.mark.parametrize("line", SHOWN)
def test_every_command_in_the_docs_parses(line: str) -> None:
    words = shlex.split(line)[2:]
    options = build_parser(words[0]).parse_args(words)
    assert callable(options.run)


def test_the_documents_show_commands() -> None:
    assert len(SHOWN) >= 12


def test_a_reader_that_stops_early_is_no_error(tmp_path: Path) -> None:
    """The test acts as ``head -1``; the output is larger than a pipe's buffer."""
    jmeter_file(tmp_path / "run.csv")
    command = [sys.executable, "-m", "locust_realism.cli", "analyze", "run.csv", "--format", "json"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "{\n"
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(30) == 0
