"""``locust-realism fit``: output, files, documentation, and hostile names in all of them."""

from __future__ import annotations

import ast
import csv
import html
import io
import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_support import Run, called
from log_support import lines, traffic, write_log

from locust_realism.fit.fitting import fit_log
from locust_realism.fit.locustfile import SAFE_METHODS, NothingToSend, render_locustfile
from locust_realism.fit.rendering import render_fit, render_fit_page
from locust_realism.report.terminal import Screen, display_width
from locust_realism.workload.distributions import exponential, lognormal
from locust_realism.workload.rates.csv_file import rate_from_csv
from locust_realism.workload.rates.shapes import ConstantRate, SineRate

HERE = Path(__file__).parent
DOCS = HERE.parents[1] / "docs" / "fit.md"
DAY = 86_400.0
REQUESTS = ["GET / HTTP/1.1", "GET /item/77 HTTP/1.1", "POST /cart HTTP/1.1"]
HOSTILE = [
    "GET /</script><img/src=x/onerror=alert(1)> HTTP/1.1",
    "GET /\\x1b[31mred HTTP/1.1",
    "GET /\x1b]0;title\x07 HTTP/1.1",
    "GET /'+__import__('os').system('id')+' HTTP/1.1",
    'GET /\\"\\"\\";import/os HTTP/1.1',
    "GET /{0.__class__}/%s HTTP/1.1",
    "GET http://169.254.169.254/latest/meta-data HTTP/1.1",
    "GET //evil.example/x HTTP/1.1",
    "GET /=cmd|calc HTTP/1.1",
    "GET /\u202egnp.exe HTTP/1.1",
    "DELETE /all HTTP/1.1",
    "X-\x00 / HTTP/1.1",
]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the command in an empty directory that holds access.log, of two days; returns status, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    rate = SineRate(min_rate=0.002, max_rate=0.02, period=DAY, peak_at=14 * 3600)
    made = traffic(rate, lognormal(30, cov=1.2), 5, [0.5, 0.3, 0.2], 2 * DAY, seed=3)
    rows = lines(made, REQUESTS)
    write_log(tmp_path / "access.log", [*rows[:500], "not a line", *rows[500:]])

    return called(capsys)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    made = traffic(ConstantRate(0.2), exponential(5), 4, [1 / len(HOSTILE)] * len(HOSTILE), 7200, seed=5)
    path = tmp_path_factory.mktemp("hostile") / 'a"""\n<b>.log'
    return fit_log([write_log(path, lines(made, HOSTILE))])


def test_table_equals_the_golden_file(run: Run) -> None:
    status, out, err = run("fit", "access.log")
    assert (status, err) == (0, "")
    # The likelihood of a family that cannot fit is flat or has corners, and the last digits depend on the machine.
    head, best, others, rest = re.fullmatch(r"(.*best first\n[^\n]*\n)([^\n]*\n)(.*?\n)(\n.*)", out, re.DOTALL).groups()  # type: ignore[union-attr]
    names = sorted(row.split("(")[0].strip() for row in others.splitlines())
    assert names == ["exponential", "gamma", "pareto", "truncated_exponential", "uniform", "weibull"]
    out = head + best + rest
    path = HERE / "golden" / "fit.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(out)
    assert out == path.read_text()


def keys_of(value: Any) -> set[str]:
    """Return all keys of a document, at any depth, except names of distributions."""
    if isinstance(value, dict):
        return set(value) | {key for name, part in value.items() if name not in FREE for key in keys_of(part)}
    if isinstance(value, list):
        return {key for part in value for key in keys_of(part)}
    return set()


FREE = ("distribution", "parameters", "left_out")


def test_json_has_exactly_the_documented_keys(run: Run) -> None:
    _, out, _ = run("fit", "access.log", "--format", "json")
    document = json.loads(out, parse_constant=lambda word: pytest.fail(f"{word} in the JSON"))
    documented = set(re.findall(r"`(\w+)`", DOCS.read_text(encoding="utf-8")))
    curves = document["think_times"]["curves"].pop("families")
    assert set(curves) == {family["family"] for family in document["think_times"]["families"]}
    assert keys_of(document) <= documented
    section = DOCS.read_text(encoding="utf-8").partition("## The JSON document")[2]
    named = set(re.findall(r"`(\w+)`", section)) - {"null"}
    assert named - {"value", "interval"} <= keys_of(document) | {"file", "line", "reason"}


def test_csv_tables_equal_the_json(run: Run) -> None:
    document = json.loads(run("fit", "access.log", "--format", "json")[1])

    def rows(table: str) -> list[dict[str, str]]:
        status, out, err = run("fit", "access.log", "--format", "csv", "--table", table)
        assert (status, err) == (0, "")
        return list(csv.DictReader(io.StringIO(out)))

    names = rows("requests")
    assert [row["name"] for row in names] == [row["name"] for row in document["requests"]]
    assert [float(names[0][f"share_{end}"]) for end in ("low", "high")] == document["requests"][0]["share_interval"]
    bins = rows("arrivals")
    assert [float(row["rate"]) for row in bins] == [row["rate"] for row in document["arrivals"]["by_time_of_day"]]
    best = rows("families")[0]
    family = document["think_times"]["families"][0]
    assert best["distribution"].startswith(f"{family['family']}(")
    assert [float(best["mean"]), float(best["mean_low"]), float(best["mean_high"])] == [
        family["parameters"]["mean"]["value"], *family["parameters"]["mean"]["interval"]
    ]  # fmt: skip


def test_rate_from_csv_reads_the_profile(run: Run, tmp_path: Path) -> None:
    _, out, _ = run("fit", "access.log", "--format", "json", "--profile-csv", "day.csv")
    rows = json.loads(out)["arrivals"]["by_time_of_day"]
    profile = rate_from_csv("day.csv", interpolation="step", repeat=True)
    for row in rows:
        for moment in (row["start_s"], row["start_s"] + 3599, row["start_s"] + DAY + 5):
            assert float(profile.rate(moment)) == pytest.approx(row["rate"], rel=1e-8)
    total = sum(row["rate"] * 3600 for row in rows)
    assert float(profile.cumulative(DAY)) == pytest.approx(total)
    run("fit", "access.log", "--profile-csv", "week.csv", "--profile", "week", "--rate", "requests")
    week = rate_from_csv("week.csv", interpolation="step")
    assert float(week.cumulative(2 * DAY)) == pytest.approx(json.loads(out)["source"]["requests"], rel=0.02)


def test_locustfile_has_the_fitted_values(run: Run, tmp_path: Path) -> None:
    status, out, _ = run("fit", "access.log", "--format", "json", "--locustfile", "fitted.py")
    assert status == 0
    document = json.loads(out)
    text = Path("fitted.py").read_text()
    tree = ast.parse(text)
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    tasks = [node for node in classes[0].body if isinstance(node, ast.FunctionDef)]
    weights = [ast.literal_eval(task.decorator_list[0].args[0]) for task in tasks]  # type: ignore[attr-defined]
    get = [row for row in document["requests"] if row["method"] in SAFE_METHODS]
    assert weights == [round(10_000 * row["share"]) for row in get]
    assert len(get) == 2
    assert "#" in text
    assert re.search(r"# \d+\.\d+ %  POST /cart$", text, re.MULTILINE)
    lengths = re.search(r"empirical\(\n(.*?)\n {8}\)", text, re.DOTALL)
    assert lengths is not None
    values = eval(" ".join(lengths[1].split()))  # noqa: S307 - what was just written, of numbers only
    assert len(values) == 1000
    assert np.mean(values) == pytest.approx(document["sessions"]["mean_length"], rel=0.01)
    assert f"lognormal(mean={document['think_times']['best']['distribution']['mean']:.6g}" in text


def test_hostile_names_are_literals_in_the_locustfile(hostile: dict[str, Any]) -> None:
    text = render_locustfile(hostile, file='x"""\nimport os\n"""')
    assert text.isascii()
    tree = ast.parse(text)
    imported = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    modules = {getattr(node, "module", None) or node.names[0].name for node in imported}
    assert modules == {"__future__", "locust", "locust_realism"}
    calls = [
        node for node in ast.walk(tree) if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "request"
    ]
    paths = [ast.literal_eval(call.args[1]) for call in calls]
    assert len(paths) >= 4
    assert all(path.startswith("/") for path in paths)
    assert not any("169.254" in path for path in paths)  # no other server is ever asked
    assert all(ast.literal_eval(call.args[0]) in SAFE_METHODS for call in calls)
    assert not any(isinstance(node, ast.Call) and "system" in ast.dump(node.func) for node in ast.walk(tree))


def test_hostile_names_are_text_in_the_page_and_on_the_terminal(hostile: dict[str, Any]) -> None:
    page = render_fit_page(hostile)
    assert "<img/src" not in page
    assert page.count("<script") == page.count("</script>") == 4
    embedded = re.search(r'id="lr-data">(.*?)</script>', page, re.DOTALL)
    assert embedded is not None
    names = {row["name"] for row in json.loads(embedded[1])["requests"]}
    assert "/</script><img/src=x/onerror=alert(1)>" in names
    assert html.escape("/</script><img/src=x/onerror=alert(1)>") in page  # for a reader without scripts
    table = render_fit(hostile, Screen(100))
    assert not set(table) & {"\x1b", "\x07", "\u202e", "\x00"}


@pytest.mark.parametrize("width", [60, 80, 120])
def test_table_fits_the_width(hostile: dict[str, Any], width: int) -> None:
    for row in render_fit(hostile, Screen(width)).splitlines():
        assert display_width(row) <= width


def test_log_without_a_safe_request_gives_no_locustfile(run: Run, tmp_path: Path) -> None:
    made = traffic(ConstantRate(0.1), exponential(5), 4, [1.0], 7200, seed=5)
    write_log(tmp_path / "posts.log", lines(made, ["POST /a HTTP/1.1"]))
    with pytest.raises(NothingToSend):
        render_locustfile(fit_log([tmp_path / "posts.log"]))
    status, _, err = run("fit", "posts.log", "--locustfile", "fitted.py")
    assert status == 2
    assert "no GET, HEAD or OPTIONS request" in err
    assert not Path("fitted.py").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.log"], "cannot read missing.log: No such file"),
        (["access.log", "--gap", "0"], "gap_s must be in"),
        (["access.log", "--bin", "7m"], "--bin must be"),
        (["access.log", "--exclude", "("], "exclude must be regular expressions"),
        (["access.log", "--timezone", "Nowhere"], "timezone must be a name"),
        (["access.log", "--confidence", "2"], "confidence must be in"),
        (["access.log", "--profile-csv", "no/such/dir.csv"], "cannot write"),
        (["."], "is no access log in the common or combined format, and the directory holds no launches"),
    ],
)
def test_each_mistake_gives_one_line(run: Run, arguments: list[str], message: str) -> None:
    status, out, err = run("fit", *arguments)
    assert (status, out) == (2, "")
    assert message in err
    assert "Traceback" not in err


def test_documented_commands_work(run: Run, tmp_path: Path) -> None:
    commands = re.findall(r"^\$ locust-realism (.*)$", DOCS.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(commands) >= 4
    rows = Path("access.log").read_text().splitlines()
    write_log(tmp_path / "access.log.1", rows[1000:2000])
    write_log(tmp_path / "access.log.2.gz", rows[:1000])
    write_log(tmp_path / "access.log", rows[2000:])
    for command in commands:
        assert run(*command.split())[0] == 0
    for written in ("day.csv", "fit.html", "fitted.py", "fit.json"):
        assert Path(written).stat().st_size > 500
    options = set(re.findall(r"--[a-z-]+", run("fit", "--help")[1])) - {"--help"}
    assert options <= set(re.findall(r"--[a-z-]+", DOCS.read_text(encoding="utf-8"))) | {"--output"}
