"""Every scenario runs unchanged on the target that starts with it, in one process and in several."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from http_support import ask
from target_support import refused, spent, target

from locust_realism.recording.formats import read_launches
from locust_realism.recording.launches import LaunchLog
from locust_realism.targets import theory
from support import SCENARIOS, free_port, run_locust, two_workers

pytestmark = pytest.mark.e2e

SHOP_PAGES = {
    "GET home", "GET catalogue", "GET product", "GET search", "POST add to basket", "GET basket", "POST checkout",
    "GET account", "POST upload", "GET help",
}  # fmt: skip
OBJECTS = {
    "GET 010_Home": 4, "GET 012_Home_jpg": 4, "GET 020_Dept": 2, "GET 022_Dept_jpg": 2, "GET 030_Demographics": 2,
    "GET 040_Statistics": 1,
}  # fmt: skip


def play(name: str, folder: Path, *arguments: object, fails: bool = False) -> dict[str, dict[str, Any]]:
    """Run a scenario for some seconds and return the rows of its requests by method and name."""
    result = run_locust(
        "-f", SCENARIOS / f"{name}.py", "--headless", "--only-summary", "--realism-seed", 3,
        "--realism-json", folder / "run.json", *arguments, cwd=folder,
    )  # fmt: skip
    assert result.returncode == int(fails), result.stdout
    assert "Traceback" not in result.stdout, result.stdout
    table = json.loads((folder / "run.json").read_text())["response_times"]
    rows = {f"{row['method']} {row['label']}".strip(): row for row in table}
    (folder / "run.log").write_text(result.stdout)
    assert rows["Aggregated"]["failures"] == 0 or fails, result.stdout
    return rows


def recording_of(folder: Path) -> Path:
    """Return the recording of the whole run; those of workers lie beside it."""
    (found,) = (path for path in folder.glob("realism-recordings/*") if "-worker-" not in path.name)
    return found


@pytest.mark.timed
@pytest.mark.parametrize("processes", [tuple, two_workers], ids=["one process", "two workers"])
def test_gov_site_requests_six_objects_in_the_mix_of_the_talk(tmp_path: Path, processes: Any) -> None:
    rows = play("gov_site", tmp_path, "-u", 60, "-r", 60, "--think-time", 0.8, "-t", "5s", *processes())
    total = rows.pop("Aggregated")["n"]
    assert set(rows) == set(OBJECTS)
    for name, weight in OBJECTS.items():
        share = weight / 15
        assert abs(rows[name]["n"] / total - share) < 4 * math.sqrt(share * (1 - share) / total), name
    # a statistic takes 617 ms with a CoV of 0.05 without other requests, and never less
    assert rows["GET 040_Statistics"]["min_ms"] > 500
    assert rows["GET 010_Home"]["p50_ms"] < 250
    # theory's throughput of 60 users with Z = 0.8 s at eight servers that share 52 ms of work each, and not at one
    launches = np.sort(read_launches(recording_of(tmp_path)).launch_us)
    steady = np.sum((launches > launches[0] + 1_500_000) & (launches <= launches[0] + 4_500_000))
    eight, one = (3 * theory.closed(60, 0.8, 0.052, servers).throughput for servers in (8, 1))
    # cycles of a user have a squared CoV of (0.8^2 / 3 + 0.15^2) / 0.85^2 = 0.33
    error = 4 * math.sqrt(0.33 * eight)
    assert abs(steady - eight) < error < eight - one


@pytest.mark.timed
@pytest.mark.parametrize(
    ("distribution", "cov"), [("uniform", 1 / math.sqrt(3)), ("exponential", 1.0), ("constant", 0.0)]
)
def test_think_times_have_the_requested_mean_and_distribution(tmp_path: Path, distribution: str, cov: float) -> None:
    """A recorded think time is the gap between an answer and the same user's next request."""
    arguments = ("-u", 40, "-r", 40, "--think-time", 0.4, "--think-distribution", distribution, "-t", "6s")
    play("gov_site", tmp_path, *arguments, "--target-options=--speed 1000")
    log = read_launches(recording_of(tmp_path))
    thought = np.concatenate([thinks(log, slot) for slot in range(40)])
    # the end of the run truncates long think times, the machine adds some milliseconds to each
    assert thought.mean() == pytest.approx(0.4, rel=0.12)
    assert thought.std() / thought.mean() == pytest.approx(cov, abs=0.15)


def thinks(log: LaunchLog, slot: int) -> np.ndarray:
    """Return the think times of a user in seconds."""
    mine = log.take(np.flatnonzero(log.slot == slot)).sorted_by_launch()
    return (mine.launch_us[1:] - mine.launch_us[:-1] - mine.response_us[:-1]) / 1e6


@pytest.mark.parametrize("processes", [tuple, two_workers], ids=["one process", "two workers"])
def test_api_gateway_renews_its_tokens_before_they_expire(tmp_path: Path, processes: Any) -> None:
    arguments = (
        "-u",
        10,
        "-r",
        10,
        "--think-time",
        0.1,
        "-t",
        "7s",
        "--target-options=--token-lifetime 2 --key-cache 1",
    )
    rows = play("api_gateway", tmp_path, *arguments, *processes())
    assert rows["GET call"]["failures"] == 0, "a call with an expired token"
    # each of ten users: one at once, and after 60 to 90 % of two seconds the next
    assert 10 * (1 + 7 / 1.8 - 1.5) <= rows["POST token"]["n"] <= 10 * (1 + 7 / 1.2)
    assert rows["GET call"]["n"] > 100


def test_api_gateway_with_wrong_credentials_fails_and_continues(tmp_path: Path) -> None:
    rows = play("api_gateway", tmp_path, "-u", 2, "-t", "3s", "--api-client-secret", "wrong", fails=True)
    assert set(rows) == {"POST token", "Aggregated"}
    assert rows["POST token"]["failures"] == rows["POST token"]["n"] > 0


@pytest.mark.parametrize("processes", [tuple, two_workers], ids=["one process", "two workers"])
def test_shop_visits_every_page(tmp_path: Path, processes: Any) -> None:
    rows = play("shop", tmp_path, "-u", 60, "-r", 60, "--think-time", 0.2, "-t", "8s", *processes())
    assert set(rows) - {"Aggregated"} == SHOP_PAGES
    assert rows["GET product"]["n"] > rows["GET basket"]["n"] > rows["POST checkout"]["n"]


@pytest.mark.parametrize("processes", [tuple, two_workers], ids=["one process", "two workers"])
def test_shop_plays_a_day_in_seconds(tmp_path: Path, processes: Any) -> None:
    """Half a day from the middle rate over the peak and back has the integral of the sine."""
    day = ("--shop-load", "sine", "--shop-min-rate", 2, "--shop-max-rate", 30, "--shop-compression", 86400 / 16)
    rows = play("shop", tmp_path, *day, "-u", 60, "-r", 60, "-t", "8s", *processes())
    expected = 8 * 16 + 14 * 16 / math.pi
    missed = 0.7 * 16 + 4 * math.sqrt(expected)  # a start that is slow by 0.7 s, and chance
    assert expected - missed < rows["Aggregated"]["n"] < expected + 4 * math.sqrt(expected)


@pytest.mark.parametrize("processes", [tuple, two_workers], ids=["one process", "two workers"])
def test_shop_runs_a_population_of_customers(tmp_path: Path, processes: Any) -> None:
    load = ("--shop-load", "population", "--shop-min-rate", 10, "--shop-max-rate", 10.001, "--shop-session", 1)
    rows = play("shop", tmp_path, *load, "--think-time", 0.5, "-t", "6s", "--population-start", "empty", *processes())
    # customers start at home; some return to it
    assert rows["GET home"]["n"] > 10 * 6 - 4 * math.sqrt(60) - 10
    assert "Customer: 10" in (tmp_path / "run.log").read_text()  # 10/s x 1 s


@pytest.mark.parametrize("processes", [tuple, two_workers], ids=["one process", "two workers"])
def test_quickstart_is_short_and_runs(tmp_path: Path, processes: Any) -> None:
    rows = play("quickstart", tmp_path, "-u", 20, "-r", 20, "-t", "3s", *processes())
    assert set(rows) == {"GET /", "GET /about", "Aggregated"}
    code = (SCENARIOS / "quickstart.py").read_text().split('"""', 2)[2]
    assert len([line for line in code.splitlines() if line.strip()]) <= 20


@pytest.mark.parametrize("name", ["gov_site", "api_gateway", "shop", "quickstart"])
def test_an_unreachable_host_is_reported_once(tmp_path: Path, name: str) -> None:
    host = f"http://127.0.0.1:{free_port()}"
    result = run_locust("-f", SCENARIOS / f"{name}.py", "--headless", "-t", "5s", "--host", host, cwd=tmp_path)
    assert result.returncode == 1
    assert result.stdout.count(f"{host} cannot be reached") == 1, result.stdout


def test_a_wrong_target_option_ends_the_run_with_its_bound(tmp_path: Path) -> None:
    options = ("--headless", "-t", "3s", "--target-options=--servers 0")
    result = run_locust("-f", SCENARIOS / "gov_site.py", *options, cwd=tmp_path)
    assert result.returncode == 1
    assert "--servers 0: servers must be an integer >= 1, not 0" in result.stdout


def test_the_shop_compresses_keeps_a_session_and_accepts_a_picture() -> None:
    with target("--speed", 100, script=SCENARIOS / "targets" / "shop_server.py") as shop:
        plain = shop.get("/catalogue")
        packed = shop.get("/catalogue", headers={"Accept-Encoding": "gzip"})
        cookie = plain.headers["Set-Cookie"]
        assert "JSESSIONID=" in cookie
        assert plain.headers["Vary"] == packed.headers["Vary"] == "Accept-Encoding"
        import gzip

        assert gzip.decompress(packed.body) == plain.body
        assert len(packed.body) < len(plain.body) / 4
        known = shop.get("/", headers={"Cookie": cookie.partition(";")[0]})
        assert "Set-Cookie" not in known.headers
        boundary = {"Content-Type": "multipart/form-data; boundary=xx"}
        head = b'--xx\r\nContent-Disposition: form-data; name="picture"; filename="a"\r\n\r\n'
        sent = shop.post("/upload", headers=boundary, data=head + b"P" * 5000 + b"\r\n--xx--\r\n")
        assert "a picture of 5000 bytes" in sent.text
        assert shop.get("/basket/add").status == 405
        assert shop.get("/nothing").status == shop.get("/product/9999").status == 404


def test_the_gateway_forwards_calls_with_a_token_until_it_expires() -> None:
    script = SCENARIOS / "targets" / "api_gateway_server.py"
    form = {"grant_type": "client_credentials"}
    with target("--token-lifetime", 1, "--time", "validate=0.2", "--time", "mediate=0.01", script=script) as gateway:
        assert gateway.get("/api").status == 401
        assert gateway.post("/oauth2/token", auth=("trial", "wrong"), data=form).status == 401
        assert gateway.post("/oauth2/token", auth=("trial", "trial"), data={"grant_type": "password"}).status == 400
        granted = gateway.post("/oauth2/token", auth=("trial", "trial"), data=form).document
        assert (granted["token_type"], granted["expires_in"]) == ("Bearer", 1.0)
        headers = {"Authorization": f"Bearer {granted['access_token']}"}
        first, second = (spent(ask("GET", gateway.url + "/api", headers=headers))["service"] for _ in range(2))
        assert first > 200 > second  # the key manager validates a new token
        import time

        time.sleep(1.0)
        assert gateway.get("/api", headers=headers).status == 401
        assert gateway.get("/api", headers={"Authorization": "Bearer made-up"}).status == 401
        stations = gateway.state()["stations"]
    assert stations["api"]["served"] == 2
    assert "usage:" in refused("--discipline", "none", script=script)
