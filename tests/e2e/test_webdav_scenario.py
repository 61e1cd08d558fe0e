"""The WebDAV scenario on its server: operations, failures by kind, and no accounts left behind."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_support
import psutil
import pytest
from apache_support import APACHE
from http_support import ask
from webdav_support import ADMIN, PASSWORD, Server, webdav_server

from support import SCENARIOS, eventually, free_port, run_locust, started_locust, two_workers

pytestmark = pytest.mark.e2e

SCENARIO = SCENARIOS / "webdav.py"
AS_ADMIN = {"LOCUST_DAV_ADMIN_USER": ADMIN, "LOCUST_DAV_ADMIN_PASSWORD": PASSWORD}
QUICK = ("--headless", "--only-summary", "-u", 6, "-r", 6, "--think-time", 0.2)
CAROL = "carol:carols own word"
BALANCE = re.compile(r"(?:Users|Folders of users): (\d+) made, (\d+) deleted by themselves, (\d+) found and deleted")


def scenario(folder: Path, *arguments: object, server: Server | None = None, **env: str) -> Any:
    """Run the scenario for a few seconds, by default with the server that starts with Locust."""
    where = ("--host", server.url) if server else ()
    given = {**(AS_ADMIN if server else {}), **env}
    return run_locust(
        "-f", SCENARIO, *QUICK, "--realism-json", folder / "run.json", *where, *arguments, cwd=folder, env=given
    )


def rows(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the exact figures by name ("GET file"), with the last requests of stopping users."""
    table = json.loads((folder / "run.json").read_text()).get("response_times", [])
    return {f"{row['method']} {row['label']}".strip(): row for row in table}


def failures(output: str) -> list[str]:
    """Return the failures of Locust's last table, by name and message."""
    report = output.partition("Error report")[2].partition("\n\n")[0]
    return re.findall(r"^\d+ +(\S.*\S) *$", report, re.MULTILINE)


def balance(output: str) -> tuple[int, int, int]:
    """Return the accounts created, deleted by their users, and deleted at the end."""
    found = BALANCE.findall(output)
    assert len(found) == 1, output
    made, deleted, swept = map(int, found[0])
    return made, deleted, swept


def embedded_server(output: str) -> tuple[str, int]:
    """Return address and process of the server that started with Locust."""
    found = re.search(r"started the embedded target \S+ at (\S+) \(process (\d+)\)", output)
    assert found, output
    return found[1], int(found[2])


def test_with_no_arguments_a_server_starts_and_ends_with_the_run(tmp_path: Path) -> None:
    result = scenario(tmp_path, "-t", "4s")
    assert result.returncode == 0, result.stdout
    assert balance(result.stdout) == (6, 6, 0)
    url, process = embedded_server(result.stdout)
    assert "not for measuring a server" in result.stdout
    assert not psutil.pid_exists(process)
    with pytest.raises(ConnectionRefusedError):
        ask("GET", url)
    done = rows(tmp_path)
    assert set(done) == {
        "POST user (create)", "HEAD file (first login)", "GET file", "PUT file", "DELETE user", "Aggregated"
    }  # fmt: skip
    gets, puts = (done[name]["n"] for name in ("GET file", "PUT file"))
    # weights 3 and 1: a share of 3/4, within four standard deviations
    assert abs(gets / (gets + puts) - 0.75) < 4 * (0.75 * 0.25 / (gets + puts)) ** 0.5


def test_two_processes_share_one_server_and_do_every_operation(tmp_path: Path) -> None:
    every = "get=1,put=1,list=1,mkcol=1,move=1,delete=1,put-large=1"
    arguments = (*two_workers(), "--dav-weights", every, "--dav-large-mb", 0.2, "-t", "5s")
    with webdav_server("slow-delete=1") as server:
        result = scenario(tmp_path, *arguments, "--stop-timeout", 0, server=server)
        assert server.users() == []
    assert result.returncode == 0, result.stdout
    assert balance(result.stdout) == (6, 6, 0)
    assert set(rows(tmp_path)) >= {
        "GET file", "PUT file", "PROPFIND folder", "MKCOL folder", "MOVE file", "DELETE file", "PUT large file"
    }  # fmt: skip
    assert rows(tmp_path)["DELETE user"]["n"] == 6, "the master's figures lack the last requests of stopping users"


def test_workers_of_another_command_load_the_server_of_the_master(tmp_path: Path) -> None:
    port = free_port()
    log = tmp_path / "worker.log"
    worker = ("-f", SCENARIO, "--worker", "--master-port", port)
    with started_locust(*worker, cwd=tmp_path, log=log), started_locust(*worker, cwd=tmp_path):
        master = ("--master", "--master-bind-port", port, "--expect-workers", 2, "-t", "4s")
        result = scenario(tmp_path, *master)
    assert result.returncode == 0, result.stdout + log.read_text()
    assert balance(result.stdout) == (6, 6, 0)
    assert "embedded target" not in log.read_text(), "a worker started a server of its own"


def test_a_worker_without_the_files_names_them(tmp_path: Path) -> None:
    port = free_port()
    log = tmp_path / "master.log"
    with started_locust("-f", SCENARIO, "--headless", "--master", "--master-bind-port", port, cwd=tmp_path, log=log):
        worker = run_locust("-f", "-", "--worker", "--master-port", port, cwd=tmp_path)
    assert worker.returncode != 0
    assert "needs the files webdav_*.py beside it" in worker.stdout


@pytest.mark.parametrize(
    ("how", "arguments"),
    [
        ("ctrl-c", tuple),
        ("ctrl-c", two_workers),
        ("ctrl-c twice", tuple),
        ("terminate", lambda: ("--stop-timeout", 5)),
        ("terminate", two_workers),
    ],
    ids=["ctrl-c", "ctrl-c, two workers", "ctrl-c twice", "terminate with a stop timeout", "terminate, two workers"],
)
def test_an_interrupted_run_deletes_its_users(
    tmp_path: Path, how: str, arguments: Callable[[], tuple[object, ...]]
) -> None:
    """The ramp is not over: unfinished accounts are deleted too. It takes longer than Locust's master waits."""
    log = tmp_path / "log"
    command = ("-f", SCENARIO, "--headless", "-u", 60, "-r", 6, *arguments())
    with webdav_server("slow-delete=0.7", "slow-login=0.1") as server:
        with started_locust(*command, "--host", server.url, cwd=tmp_path, env=AS_ADMIN, log=log) as locust:
            eventually(lambda: len(server.users()) >= 4, because="no users")
            number = signal.SIGTERM if how == "terminate" else signal.SIGINT
            # a terminal sends a Ctrl-C to all processes, a service manager ends the main one
            (os.kill if how == "terminate" else os.killpg)(locust.pid, number)
            if how == "ctrl-c twice":
                time.sleep(0.5)
                os.killpg(locust.pid, number)
            locust.wait(30)
        assert server.users() == [], log.read_text()
    made, deleted, swept = balance(log.read_text())
    assert made <= deleted + swept, "a worker interrupted in its last report did not send its counts"
    assert deleted + swept >= 4
    assert "Uncaught exception" not in log.read_text()
    assert log.read_text().count("Verdict:") == 1, "the final report is printed once"


def test_the_leftovers_of_a_killed_run_are_removed_and_no_others(tmp_path: Path) -> None:
    forever = ("-f", SCENARIO, "--headless", "-u", 3, "-r", 3)
    with webdav_server(accounts=("lr-not-of-a-run:whatever",)) as server:
        host = ("--host", server.url)
        with started_locust(*forever, *host, cwd=tmp_path, env=AS_ADMIN) as killed:
            eventually(lambda: len(server.users("lr-")) == 4)
            killed.kill()
            killed.wait()
        left = set(server.users())
        with started_locust(*forever, *host, cwd=tmp_path, env=AS_ADMIN):
            eventually(lambda: len(server.users("lr-")) == 7)
            alive = set(server.users()) - left
            cleaned = run_locust("-f", SCENARIO, "--dav-cleanup", *host, cwd=tmp_path, env=AS_ADMIN)
            assert cleaned.returncode == 0, cleaned.stdout
            assert "Removed 3 of the 3" in cleaned.stdout
            assert "is still running" in cleaned.stdout
            assert set(server.users()) == alive | {"lr-not-of-a-run"}
            named = run_locust(
                "-f",
                SCENARIO,
                f"--dav-cleanup={next(iter(alive)).rsplit('-', 2)[0]}",
                *host,
                cwd=tmp_path,
                env=AS_ADMIN,
            )
            assert "Removed 3 of the 3" in named.stdout
            assert server.users() == ["lr-not-of-a-run"]


@pytest.mark.parametrize("processes", [tuple, two_workers], ids=["one process", "two workers"])
def test_the_embedded_server_does_not_outlive_a_killed_locust(
    tmp_path: Path, processes: Callable[[], tuple[object, ...]]
) -> None:
    log = tmp_path / "log"
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    command = ("-f", SCENARIO, *QUICK, *processes())
    with started_locust(*command, cwd=tmp_path, env={"TMPDIR": str(temporary)}, log=log) as locust:
        eventually(lambda: "Users of this run" in log.read_text(), because="it did not start")
        _, server = embedded_server(log.read_text())
        assert list(temporary.glob("webdav-server-*"))
        locust.kill()
        eventually(lambda: not psutil.pid_exists(server), within=10, because="the server is an orphan")
        assert not list(temporary.glob("webdav-server-*"))


@pytest.mark.parametrize(
    ("misbehave", "arguments", "message"),
    [
        (("throttle=1",), ("--dav-admin-password", "wrong"), "refuses the administrator 'admin'"),
        ((), ("--dav-admin-user", "carol", "--dav-admin-password", "carols own word"), "may not make users"),
        (("no-provisioning",), (), "no user provisioning"),
        (("untrusted-host",), (), "trusted domains"),
        (("maintenance",), (), "maintenance"),
        ((), ("--dav-provisioning", "none"), "there is neither"),
        (("no-provisioning",), ("--dav-user", "carol", "--dav-password", "no"), "check the given accounts"),
        (("no-provisioning",), ("--dav-user", "carol", "--dav-path", "/dav"), "is no WebDAV folder"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_impossible_run_is_refused_once(
    tmp_path: Path, misbehave: tuple[str, ...], arguments: tuple[str, ...], message: str
) -> None:
    with webdav_server(*misbehave, accounts=(CAROL,)) as server:
        result = scenario(tmp_path, "-t", "20s", *arguments, server=server)
        assert result.returncode == 1
        assert message in result.stdout
        assert "Traceback" not in result.stdout
        assert rows(tmp_path).get("Aggregated", {"n": 0})["n"] == 0
        if misbehave == ("throttle=1",):
            assert server.users() == ["carol"], "more than one attempt, and locked out"


@pytest.mark.parametrize("processes", [tuple, two_workers], ids=["one process", "two workers"])
def test_a_dead_host_is_reported_once(tmp_path: Path, processes: Callable[[], tuple[object, ...]]) -> None:
    result = scenario(tmp_path, "--host", f"http://127.0.0.1:{free_port()}", *processes(), **AS_ADMIN)
    assert result.returncode == 1
    assert len(re.findall("cannot be reached: ConnectionRefusedError", result.stdout)) == 1


def test_accounts_are_deleted_after_false_errors_of_the_server(tmp_path: Path) -> None:
    """The server creates the user behind an error, and its database is locked at the deletion."""
    with webdav_server("create-locked=3", "create-lies=4", "delete-locked=1") as server:
        result = scenario(tmp_path, "-t", "6s", server=server)
        assert server.users() == []
    assert result.returncode == 1, "failures must show"
    made, deleted, swept = balance(result.stdout)
    assert made == deleted + swept >= 6
    failed = failures(result.stdout)
    assert "POST user (create): 500 Internal Server Error: database is locked" in failed
    assert "POST user (create): 400, code 101: Bad request" in failed
    assert "DELETE user: 500 Internal Server Error: database is locked" in failed
    assert "No account for a user: database is locked" in result.stdout


def test_users_whose_deletion_failed_are_deleted_at_the_end(tmp_path: Path) -> None:
    """The server refuses with status 200, which alone would count as deleted."""
    with webdav_server("delete-locked=4", "status-200") as server:
        result = scenario(tmp_path, "-t", "3s", server=server)
        assert server.users() == []
    assert balance(result.stdout) == (6, 0, 6)
    assert "DELETE user: 200, code 996: database is locked" in failures(result.stdout)


def test_failures_are_reported_by_kind(tmp_path: Path) -> None:
    """There is one message for each kind, not one for each user, and no silent repetition."""
    switches = ("file-locked=3", "html=4", "cut=5", "busy=11", "limited=13", "quota=250000")
    with webdav_server(*switches) as server:
        result = scenario(
            tmp_path, "-t", "7s", "--dav-weights", "get=2,put=2,put-large=1", "--dav-large-mb", 0.3, server=server
        )
        assert server.users() == []
    assert result.returncode == 1
    kinds = {line.partition(": ")[2] for line in failures(result.stdout)}
    assert kinds == {
        "423 Locked", "429 Too Many Requests", "503 Service Unavailable", "507 Insufficient Storage",
        "200, but no PDF: text/html", "200, but another PDF than the one that is there",
    }  # fmt: skip


@pytest.mark.parametrize("keep", ["--dav-keep-cookies", "--no-dav-keep-cookies"])
def test_with_cookies_the_password_is_checked_once(tmp_path: Path, keep: str) -> None:
    with webdav_server("slow-login=0.15") as server:
        scenario(tmp_path, "-t", "4s", keep, server=server)
    median = rows(tmp_path)["GET file"]["p50_ms"]
    assert (median >= 150) == (keep == "--no-dav-keep-cookies")


def test_given_accounts_on_a_plain_server(tmp_path: Path) -> None:
    """Without provisioning each user works in a folder of its own, uploads the PDF, and deletes the folder."""
    accounts = tmp_path / "accounts"
    accounts.write_text(f"# two people\n{CAROL}\ndora:doras own word\n")
    with webdav_server("no-provisioning", "no-pdf", accounts=(CAROL, "dora:doras own word")) as server:
        result = scenario(tmp_path, "-t", "4s", "--dav-accounts", accounts, *two_workers(), server=server)
        homes = [list((server.folder / "files" / user).iterdir()) for user in ("carol", "dora")]
    assert result.returncode == 0, result.stdout
    assert balance(result.stdout) == (6, 6, 0)
    assert homes == [[], []]
    assert rows(tmp_path)["PUT file (first)"]["n"] == 6
    assert rows(tmp_path)["GET file"]["n"] > 0 == rows(tmp_path)["GET file"]["failures"]


def press_stop(page: str) -> Any:
    """Press the Stop button, which was a GET in older versions of Locust."""
    answer = ask("POST", f"{page}/stop")
    return (ask("GET", f"{page}/stop") if answer.status == 405 else answer).document


@pytest.mark.parametrize("processes", [tuple, two_workers], ids=["one process", "two workers"])
def test_the_page_shows_no_secret_and_refuses_an_impossible_start(
    tmp_path: Path, processes: Callable[[], tuple[object, ...]]
) -> None:
    port = free_port()
    page = f"http://127.0.0.1:{port}"
    log = tmp_path / "log"
    secrets = {**AS_ADMIN, "LOCUST_DAV_PASSWORD": "not-to-be-seen"}
    form = {"user_count": 4, "spawn_rate": 4, "think_time": "0.2"}

    def there(path: str = "/") -> str:
        try:
            return ask("GET", page + path).text
        except OSError:
            return ""

    with webdav_server() as server:
        command = ("-f", SCENARIO, "--web-host", "127.0.0.1", "--web-port", port, "--host", server.url, *processes())
        with started_locust(*command, cwd=tmp_path, env=secrets, log=log) as locust:
            eventually(there)
            start = there()
            assert "think_time" in start
            assert "dav_weights" in start
            for wrong, message in [
                ({"host": f"http://127.0.0.1:{free_port()}"}, "cannot be reached"),
                ({"host": server.url, "think_time": "-1"}, "--think-time: '-1' must be a time span"),
                ({"host": server.url, "dav_weights": "fly=1"}, "fly=1"),
            ]:
                answer = ask("POST", f"{page}/swarm", data={**form, **wrong}).document
                assert answer["success"] is False
                assert message in answer["message"]
            assert server.users() == []
            assert ask("POST", f"{page}/swarm", data={**form, "host": server.url}).document["success"]
            eventually(lambda: len(server.users()) == 4)
            seen = (
                start + there() + there("/stats/requests") + there("/stats/report") + there("/logs") + log.read_text()
            )
            for _ in range(2):
                assert press_stop(page)["success"]
                assert server.users() == []
                again = ask("POST", f"{page}/swarm", data={**form, "host": server.url}).document
                assert again["success"], "a second run in the same process"
                eventually(lambda: len(server.users()) == 4)
            locust.terminate()
            locust.wait(20)
    assert PASSWORD not in seen
    assert "not-to-be-seen" not in seen
    assert BALANCE.findall(log.read_text()) == [("4", "4", "0")] * 3


def test_the_users_of_a_killed_worker_are_deleted_at_the_end(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with webdav_server() as server:
        command = ("-f", SCENARIO, *QUICK, *two_workers(), "--host", server.url)
        with started_locust(*command, cwd=tmp_path, env=AS_ADMIN, log=log) as locust:
            eventually(lambda: len(server.users()) == 6)
            psutil.Process(locust.pid).children()[0].kill()
            time.sleep(1)
            locust.terminate()
            locust.wait(30)
        assert server.users() == [], log.read_text()
    _, deleted, swept = balance(log.read_text())
    assert (deleted, swept) == (3, 3)


def test_an_unsigned_certificate_needs_an_option(tmp_path: Path) -> None:
    openssl = shutil.which("openssl")
    if openssl is None and not os.environ.get("CI"):
        pytest.skip("openssl is not installed")
    assert openssl is not None, "openssl must be installed where the project is checked"
    pem, key = tmp_path / "both.pem", tmp_path / "key.pem"
    make = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    subprocess.run([*make, "-keyout", key, "-out", pem], check=True, capture_output=True)
    pem.write_text(pem.read_text() + key.read_text())
    with webdav_server(certificate=pem) as server:
        refused = scenario(tmp_path, "-t", "20s", server=server)
        accepted = scenario(tmp_path, "-t", "3s", "--dav-insecure", server=server)
    assert refused.returncode == 1
    assert "a certificate that nobody signed: --dav-insecure" in refused.stdout
    assert accepted.returncode == 0, accepted.stdout
    assert "InsecureRequestWarning" not in accepted.stdout
    assert balance(accepted.stdout) == (6, 6, 0)


@pytest.mark.skipif(APACHE is None and not os.environ.get("CI"), reason="apache2 is not installed")
def test_on_apache(tmp_path: Path) -> None:
    """A server that is not ours takes every operation of one account, and no file is left."""
    assert APACHE is not None, "apache2 must be installed where the project is checked"
    every = "get=3,put=1,list=1,mkcol=1,move=1,delete=1,put-large=1"
    account = {"LOCUST_DAV_USER": apache_support.USER, "LOCUST_DAV_PASSWORD": apache_support.PASSWORD}
    with apache_support.running_apache() as apache:
        arguments = ("--host", f"{apache.url}/", "--dav-path", "/dav/", "--dav-weights", every, "--dav-large-mb", 0.2)
        result = scenario(tmp_path, *arguments, "-t", "5s", *two_workers(), **account)
        left, done = list(apache.files.iterdir()), rows(tmp_path)
        wrong = scenario(tmp_path, "--host", apache.url, **account)
    assert result.returncode == 0, result.stdout
    assert left == []
    assert balance(result.stdout) == (6, 6, 0)
    assert set(done) >= {"GET file", "PUT file", "PUT large file", "PROPFIND folder", "MKCOL folder", "MOVE file"}
    assert done["PUT file (first)"]["n"] == done["DELETE folder"]["n"] == 6
    assert wrong.returncode == 1
    assert re.search(r"is no WebDAV folder \(40[45] .*\): check --host and --dav-path", wrong.stdout)


def people(server: Server, search: str = "") -> list[str]:
    """Return the users of a server with LibreGraph."""
    answer = ask("GET", f'{server.url}/graph/v1.0/users?$search="{search}"', auth=(ADMIN, PASSWORD))
    return [user["onPremisesSamAccountName"] for user in answer.document["value"]]


@pytest.mark.parametrize("provisioning", ["auto", "graph"])
def test_users_are_created_on_opencloud_too(tmp_path: Path, provisioning: str) -> None:
    with webdav_server("graph", "no-pdf") as server:
        result = scenario(tmp_path, "-t", "4s", "--dav-provisioning", provisioning, server=server)
        assert people(server) == [ADMIN]
    assert result.returncode == 0, result.stdout
    assert balance(result.stdout) == (6, 6, 0)
    assert rows(tmp_path)["POST user (create)"]["n"] == rows(tmp_path)["DELETE user"]["n"] == 6
    assert rows(tmp_path)["PUT file (first)"]["n"] == 6, "OpenCloud puts no PDF into a new home"


def test_the_leftovers_of_a_killed_run_on_opencloud_are_removed(tmp_path: Path) -> None:
    with webdav_server("graph") as server:
        host = ("--host", server.url)
        with started_locust("-f", SCENARIO, *QUICK, *host, cwd=tmp_path, env=AS_ADMIN) as killed:
            eventually(lambda: len(people(server, "lr-")) == 6)
            killed.kill()
            killed.wait()
        cleaned = run_locust("-f", SCENARIO, "--dav-cleanup", *host, cwd=tmp_path, env=AS_ADMIN)
        assert "Removed 6 of the 6" in cleaned.stdout
        assert people(server) == [ADMIN]


@pytest.mark.parametrize("processes", [tuple, two_workers], ids=["one process", "two workers"])
def test_a_population_leaves_no_accounts(tmp_path: Path, processes: Callable[[], tuple[object, ...]]) -> None:
    """Five arrivals per second of two seconds each: ten are there on average, and many have left at the end."""
    load = ("--dav-arrivals", 5, "--dav-session", 2, "--population-start", "empty", "--think-time", 0.5, "-t", "8s")
    with webdav_server("first-put-503") as server:  # users log in before they upload
        result = scenario(tmp_path, *load, *processes(), server=server)
        assert server.users() == []
    assert result.returncode == 0, result.stdout
    made, deleted, swept = balance(result.stdout)
    assert made == deleted + swept
    assert 40 - 4 * 40**0.5 - 5 < made < 40 + 4 * 40**0.5  # those of the last second may be unfinished
    assert rows(tmp_path)["GET file"]["n"] > made
