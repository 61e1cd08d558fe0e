"""Routes beside Locust's web UI, through Flask's test client: no browser, no socket."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flask_login import UserMixin
from locust.env import Environment
from web_support import FORMULA, HOSTILE, LogProvider, poisson_log

import locust_realism
from locust_realism.analysis.summary import summarize
from locust_realism.recording.launches import MISSING
from locust_realism.report.csv_tables import csv_text, guarded_cell
from locust_realism.web.findings import generator_findings
from locust_realism.web.views import DOWNLOADS, TABS, register, static_files

STATIC = Path(locust_realism.__file__).parent / "web" / "static"
DATA_ROUTES = ["api/status", "api/summary", "api/population", "api/generator"]
ROUTES = [*DATA_ROUTES, "report", "help", "static/realism.js", *(f"download/{name}" for name in DOWNLOADS)]


class Site:
    """Web UI with our views, and its client."""

    def __init__(self, **options: Any) -> None:
        self.provider = LogProvider(poisson_log())
        environment = Environment()
        environment.create_local_runner()
        self.web_ui: Any = environment.create_web_ui("127.0.0.1", 0, delayed_start=True, **options)
        register(self.web_ui, self.provider)
        self.client = self.web_ui.app.test_client()

    def get(self, path: str) -> Any:
        return self.client.get(path)

    def json(self, path: str) -> Any:
        answer = self.get(path)
        assert answer.status_code == 200, answer.text
        return answer.get_json()


@pytest.fixture(autouse=True)
def no_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide pytest's arguments: Locust reads the command line whenever it renders its page."""
    monkeypatch.setattr("sys.argv", ["locust"])


@pytest.fixture
def site() -> Site:
    return Site()


def test_the_page_gets_the_script_once_and_stays_as_it_was_otherwise(site: Site) -> None:
    bare = Environment()
    bare.create_local_runner()
    plain = bare.create_web_ui("127.0.0.1", 0, delayed_start=True).app.test_client().get("/").text  # type: ignore[union-attr]
    page = site.get("/").text
    assert page.count("realism/static/realism.js") == 1
    without = re.sub(r'<script type="module" src="./realism/static/realism.js"></script>\n  ', "", page)
    strip = re.compile(r"window\.templateArgs = .*")
    assert strip.sub("", without) == strip.sub("", plain)
    assert page.rstrip().endswith("</html>")


def test_tabs_and_downloads_of_others_stay() -> None:
    environment = Environment()
    environment.create_local_runner()
    web_ui: Any = environment.create_web_ui("127.0.0.1", 0, delayed_start=True)
    web_ui.template_args["extended_tabs"] = [{"title": "Theirs", "key": "theirs"}]
    register(web_ui, LogProvider(poisson_log(seconds=1)))
    register(web_ui, LogProvider(poisson_log(seconds=1)))
    titles = [tab["title"] for tab in web_ui.template_args["extended_tabs"]]
    assert titles == ["Theirs", *TABS]
    hrefs = [entry["href"] for entry in web_ui.template_args["extended_csv_files"]]
    client = web_ui.app.test_client()
    assert len(hrefs) == len(DOWNLOADS)
    assert all(client.get(href.removeprefix(".")).status_code == 200 for href in hrefs)
    assert client.get("/").text.count("realism.js") == 1


def test_a_failing_hook_leaves_the_page_of_locust_alone(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    from flask import Response

    real = Response.get_data

    def broken(self: Response, as_text: bool = False) -> Any:
        if as_text:
            raise RuntimeError("no text today")
        return real(self)

    monkeypatch.setattr(Response, "get_data", broken)
    answer = site.get("/")
    assert answer.status_code == 200
    assert b"templateArgs" in answer.data
    assert b"realism.js" not in answer.data


def test_other_pages_of_locust_get_no_script(site: Site) -> None:
    for path in ("/stats/requests", "/stats/report", "/logs", "/tasks"):
        assert "static/realism.js" not in site.get(path).text


def test_summary_is_that_of_the_python_api(site: Site) -> None:
    served = site.json("/realism/api/summary")
    direct = summarize(site.provider.log, run_start_us=1_700_000_000_000_000)
    for key in ("launches", "response_times", "groups", "verdict"):
        assert served[key] == json.loads(json.dumps(direct[key]))
    assert served["launches"][-1]["n"] == len(site.provider.log) - 1
    assert served["age_s"] >= 0
    assert served["state"] == "running"


@pytest.mark.parametrize("window", ["run", "reset", "minute", "5..20", "5.5..20.25"])
def test_windows_reach_the_provider(site: Site, window: str) -> None:
    site.json(f"/realism/api/summary?window={window}")
    assert site.provider.windows == [window]


@pytest.mark.parametrize("window", ["20..5", "all", "1..2..3", "-5..5", "1e9..2e9", "nan..5", "../..", "<script>"])
def test_a_bad_window_is_an_error_with_the_allowed_ones(site: Site, window: str) -> None:
    answer = site.client.get("/realism/api/summary", query_string={"window": window})
    assert answer.status_code == 400
    assert "must be one of run, reset, minute or FROM..TO" in answer.get_json()["error"]
    assert site.provider.windows == []


def test_an_exception_is_answered_in_json_and_locust_goes_on(site: Site) -> None:
    site.provider.failing = RuntimeError("disk full")
    answer = site.get("/realism/api/summary")
    assert (answer.status_code, answer.get_json()) == (500, {"error": "RuntimeError: disk full"})
    assert site.get("/").status_code == 200
    assert site.get("/stats/requests").status_code == 200


def test_nan_and_infinity_become_null(site: Site) -> None:
    site.provider.population_document = {
        "a": math.nan,
        "b": [math.inf, np.float64(2.5), np.int32(7)],
        "c": {1: -math.inf},
    }
    text = site.get("/realism/api/population").text
    assert json.loads(text, parse_constant=pytest.fail) == {"a": None, "b": [None, 2.5, 7], "c": {"1": None}}


@pytest.mark.parametrize("base", ["/load", "/a/b/"])
def test_every_route_is_below_the_base_path(base: str) -> None:
    site = Site(web_base_path=base)
    root = base.rstrip("/")
    for route in ROUTES:
        assert site.get(f"{root}/realism/{route}").status_code == 200, route
        assert site.get(f"/realism/{route}").status_code == 404, route
    assert 'src="./realism/static/realism.js"' in site.get(f"{root}/").text


def test_every_route_needs_a_login() -> None:
    site = Site(web_login=True)
    site.web_ui.app.secret_key = "secret"

    class Person(UserMixin):
        id = "someone"

    site.web_ui.login_manager.user_loader(lambda _: Person())
    for route in ROUTES:
        answer = site.get(f"/realism/{route}")
        assert answer.status_code in (302, 401), route
        assert "login" in answer.headers.get("Location", ""), route
    assert site.provider.windows == []
    with site.client.session_transaction() as session:
        session["_user_id"] = "someone"
        session["_fresh"] = True
    for route in ROUTES:
        assert site.get(f"/realism/{route}").status_code == 200, route


@pytest.mark.parametrize(
    "name",
    [
        "../views.py",
        "..%2fviews.py",
        "%2e%2e/views.py",
        "/etc/passwd",
        "vendor/../../views.py",
        "realism.js%00",
        "vendor",
        "",
    ],
)
def test_no_file_is_served_from_a_path_in_a_request(site: Site, name: str) -> None:
    answer = site.get(f"/realism/static/{name}")
    assert answer.status_code in (404, 308)
    assert b"def register" not in answer.data


@pytest.mark.parametrize("name", ["passwd", "../views.py", "rows.csv", "launches.CSV"])
def test_only_known_downloads_exist(site: Site, name: str) -> None:
    assert site.get(f"/realism/download/{name}").status_code == 404


def test_only_reading_is_possible(site: Site) -> None:
    for route in ROUTES:
        assert site.client.post(f"/realism/{route}").status_code == 405, route


def test_every_page_of_ours_has_a_policy(site: Site) -> None:
    for route in ROUTES:
        headers = site.get(f"/realism/{route}").headers
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy, route
        assert "script-src 'unsafe-inline'" not in policy, route
        assert headers["X-Content-Type-Options"] == "nosniff", route
    assert "Content-Security-Policy" not in site.get("/").headers


def test_the_report_runs_its_own_scripts_by_hash_only(site: Site) -> None:
    policy = site.get("/realism/report").headers["Content-Security-Policy"]
    assert re.search(r"script-src 'sha256-[A-Za-z0-9+/=]{44}';", policy)
    assert "connect-src" not in policy


def test_static_files_are_modules_with_their_type_and_an_etag(site: Site) -> None:
    first = site.get("/realism/static/realism.js")
    assert first.content_type.startswith("text/javascript")
    again = site.client.get("/realism/static/realism.js", headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.data) == (304, b"")


def test_every_import_of_a_module_is_served() -> None:
    files = static_files()
    for name, (content, _) in files.items():
        if name.endswith(".js") and "/" not in name:
            for wanted in re.findall(r'from "\./([\w.-]+)"', content.decode()):
                assert wanted in files, f"{name} imports {wanted}"


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_the_csv_files_hold_the_tables_with_guarded_cells(site: Site) -> None:
    summary = site.json("/realism/api/summary")
    for name, key in (("percentiles", "response_times"), ("launches", "launches"), ("groups", "groups")):
        answer = site.get(f"/realism/download/{name}.csv")
        assert f'filename="locust_realism_{name}.csv"' in answer.headers["Content-Disposition"]
        rows = rows_of(answer.text)
        assert len(rows) == len(summary[key])
        for row, expected in zip(rows, summary[key], strict=True):
            assert row["n"] == str(expected["n"])
            assert float(row["cov"]) == pytest.approx(expected["cov"], rel=1e-12)
            assert not any(cell.startswith(("=", "+", "@")) for cell in row.values())
    names = {row["label"] for row in rows_of(site.get("/realism/download/launches.csv").text)}
    assert {"'" + FORMULA, HOSTILE, "GET file", "Aggregated"} == names
    assert rows_of(site.get("/realism/download/sessions.csv").text)[0]["user"] == "'" + FORMULA
    total, expected = rows_of(site.get("/realism/download/percentiles.csv").text)[-1], summary["response_times"][-1]
    assert total["rule"] == "nearest_rank"
    assert [float(total["p50_low_ms"]), float(total["p50_high_ms"])] == expected["p50_interval_ms"]
    assert (total["p999_low_ms"], expected["p999_interval_ms"]) == ("", None)
    assert total["interval_note"] == expected["interval_note"]


@pytest.mark.parametrize("cell", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "  =1", "\u00a0=1"])
def test_a_cell_that_could_be_a_formula_is_guarded(cell: str) -> None:
    assert guarded_cell(cell) == "'" + cell
    assert rows_of(csv_text(["a"], [{"a": cell}]))[0]["a"].startswith("'")


@pytest.mark.parametrize("cell", ["home", "GET /a=1", "", -1, -2.5, "a-b"])
def test_other_cells_stay_as_they_are(cell: Any) -> None:
    assert guarded_cell(cell) == cell


def test_parquet_holds_every_row_exactly(site: Site) -> None:
    import pyarrow.parquet as pq

    answer = site.get("/realism/download/run.parquet")
    table = pq.read_table(io.BytesIO(answer.data))
    log = site.provider.log
    assert table.num_rows == len(log)
    assert np.array_equal(table["launch_us"].to_numpy(), log.launch_us)
    assert np.array_equal(table["response_us"].to_numpy(), log.response_us)
    assert table["name"].to_pylist() == [log.labels[code].name for code in log.label]
    assert table["failed"].to_pylist() == log.failed.tolist()
    assert (log.planned_us == MISSING).all()
    assert table["planned_us"].null_count == len(log)


def test_vendored_files_are_those_of_the_manifest() -> None:
    import hashlib

    vendor = STATIC / "vendor"
    manifest = json.loads((vendor / "MANIFEST.json").read_text())
    listed = {name: digest for package in manifest["packages"] for name, digest in package["files"].items()}
    present = {str(path.relative_to(vendor)) for path in vendor.rglob("*") if path.is_file()} - {"MANIFEST.json"}
    assert set(listed) == present
    for name, digest in listed.items():
        assert hashlib.sha256((vendor / name).read_bytes()).hexdigest() == digest, name
    for package in manifest["packages"]:
        assert re.fullmatch(r"\d+\.\d+\.\d+", package["version"])
        assert any(name.endswith("LICENSE") for name in package["files"])
        assert any(name.endswith("NOTICE") for name in package["files"])
        assert package["version"] in package["origin"]


@pytest.mark.parametrize(
    ("worker", "status", "words"),
    [
        ({"cpu": 0.96}, "red", "96% of its core"),
        ({"cpu": 0.9}, "amber", "90% of its core"),
        ({"cpu": 0.78}, "green", "No figure of the generator"),
        ({"machine_cpu": 0.99}, "amber", "99% busy"),
        ({"run_wait": 0.4}, "amber", "waited for a CPU 40% of the time"),
        ({"steal": 0.3}, "amber", "took 30% of the CPU time"),
        ({"throttled": 0.25}, "amber", "stopped worker w1 25% of the time"),
        ({"stopped": 0.2}, "amber", "stood still 20% of the time"),
        ({"blocked": 0.5}, "amber", "Code on the event loop made 50% of the wake-ups of worker w1 late."),
        (
            {"run_wait": 0.29, "steal": 0.19, "throttled": 0.19, "stopped": 0.09, "blocked": 0.19},
            "green",
            "No figure of the generator",
        ),
        (
            {"lag_p99_ms": 150},
            "red",
            "In 19 of 20 of the last 30 seconds worker w1 woke 99 % of its users at most 150 ms late.",
        ),
        ({"lag_p99_ms": 60}, "amber", "60 ms late"),
        ({"lateness_p99_ms": 150}, "red", "150 ms after their planned time"),
        ({"lateness_p99_ms": 30}, "amber", "30 ms after their planned time"),
        ({"lost": 12}, "red", "lost 12 recorded requests"),
        ({"clock_uncertainty_ms": 20}, "amber", "an uncertainty of 20.0 ms"),
        ({"cpu": 0.3, "lag_p99_ms": 2, "lost": 0}, "green", "No figure of the generator"),
        ({"cpu": None, "lag_p99_ms": math.nan}, "green", "No figure of the generator"),
    ],
)
def test_each_figure_over_its_bound_is_a_finding(worker: dict[str, Any], status: str, words: str) -> None:
    found = generator_findings({"workers": [{"id": "w1", **worker}, {"id": "w2", "cpu": 0.1}]})
    assert [finding["status"] for finding in found] == [status]
    assert words in found[0]["text"]


def test_findings_state_figures_and_leave_the_remedy_to_the_verdict() -> None:
    """A process that is late on a machine that others fill must not be told to add workers."""
    found = generator_findings({"workers": [{"id": "w1", "cpu": 0.06, "lag_p99_ms": 150, "machine_cpu": 0.97}]})
    texts = [finding["text"] for finding in found]
    assert [finding["status"] for finding in found] == ["red", "amber"]
    assert not [text for text in texts if "add " in text.lower() or "move " in text.lower()]


@pytest.mark.parametrize("figure", ["cpu", "run_wait", "stopped", "blocked", "lag_p99_ms"])
def test_findings_name_no_cause(figure: str) -> None:
    """A throttled container, or workers of the same run, wait for a CPU without any other program."""
    (found,) = generator_findings({"workers": [{"id": "w1", figure: 500.0 if figure == "lag_p99_ms" else 0.99}]})
    for word in ("other program", "bunches", "own delay", "had a CPU"):
        assert word not in found["text"]


@pytest.mark.parametrize("unknown", [{}, {"cpu": None, "lag_p99_ms": math.nan}, {"rows": 14, "lost": 0}])
def test_a_generator_without_a_measurement_is_never_green(unknown: dict[str, Any]) -> None:
    found = generator_findings({"workers": [{"id": "w1", **unknown}]})
    assert [finding["status"] for finding in found] == ["not enough data"]
    assert "not measured yet" in found[0]["text"]


def test_a_generator_that_takes_much_cpu_from_its_target_is_a_finding(site: Site) -> None:
    # the published case: Locust took 61.7 % of the CPU that it and the server used
    shared = {"workers": [{"id": "w1", "cpu": 0.617}], "target": {"cpu": 0.383, "name": "server"}}
    assert "62% of the CPU that they use is Locust's own" in generator_findings(shared)[0]["text"]
    assert generator_findings({"workers": [{"id": "w", "cpu": 0.1}], "target": {"cpu": 0.1}})[0]["status"] == "green"
    assert generator_findings({"workers": []}) == []
    site.provider.generator_document = shared
    assert site.json("/realism/api/generator")["findings"] == generator_findings(shared)
