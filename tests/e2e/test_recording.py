"""The record of a whole run: every row of every process, and the same counts as Locust's own.

Each test runs Locust as a user does and compares the record with the rows of an independent listener in each process.
"""

from __future__ import annotations

import json
import os
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support import eventually, free_port, run_locust, started_locust

pytestmark = pytest.mark.e2e

LOCUSTFILE = Path(__file__).with_name("recording_locustfile.py")
HEADLESS = ("-f", LOCUSTFILE, "--headless", "--users", 12, "--spawn-rate", 12, "--only-summary")


def results(directory: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the results of the main process and of each process that had users."""
    mains = [json.loads(path.read_text()) for path in directory.glob("main-*.json")]
    assert len(mains) == 1, f"{len(mains)} main processes wrote a result, expected 1"
    workers = [json.loads(path.read_text()) for path in sorted(directory.glob("worker-*.json"))]
    return mains[0], workers or mains


def await_users(log: Path) -> None:
    """Wait until all users run and have made some requests; a busy machine logs it in other words."""
    eventually(lambda: re.search("All users spawned|Spawning is complete", log.read_text()), within=60)
    time.sleep(2)


def assert_exact(directory: Path, workers: int) -> dict[str, Any]:
    """Assert that the record is the union of the listeners' rows, and that Locust counted the same."""
    main, users = results(directory)
    seen = sorted(tuple(row) for process in users for row in process["seen"])
    assert len(users) == workers
    assert len(seen) > 100, "too few requests for the test to mean anything"
    assert sorted(tuple(row) for row in main["rows"]) == seen
    assert main["locust"] == [len(seen), sum(failed for _, _, failed in seen)]
    assert main["errors"] == main["lost"] == 0
    assert main["warnings"] == []
    balance = main["balance"]
    assert balance["launched"] == balance["other"] == balance["finished"] + balance["failed"] == len(seen)
    assert main["workers"] == list(range(workers))
    assert sum(name == "leave" for name, _, _ in seen) == 12, "a request made in on_stop is missing"
    return main


def test_local_run_records_every_request(tmp_path: Path) -> None:
    run_locust(*HEADLESS, "--run-time", "2s", cwd=tmp_path, env={"RESULTS": str(tmp_path)})
    main = assert_exact(tmp_path, workers=1)
    assert main["slots"] == list(range(12))


def test_processes_deliver_every_row_at_quit(tmp_path: Path) -> None:
    port = free_port()
    arguments = ("--run-time", "2s", "--processes", 2, "--master-bind-port", port, "--master-port", port)
    run_locust(*HEADLESS, *arguments, cwd=tmp_path, env={"RESULTS": str(tmp_path)})
    assert_exact(tmp_path, workers=2)


@pytest.mark.timed
@pytest.mark.parametrize(("number", "to_group"), [(signal.SIGINT, True), (signal.SIGTERM, False)])
def test_signals_lose_nothing(tmp_path: Path, number: signal.Signals, to_group: bool) -> None:
    """Ctrl-C in a terminal reaches all processes at once; a service manager sends SIGTERM to the master alone."""
    port = free_port()
    arguments = ("--processes", 2, "--master-bind-port", port, "--master-port", port)
    log = tmp_path / "log"
    with started_locust(*HEADLESS, *arguments, cwd=tmp_path, env={"RESULTS": str(tmp_path)}, log=log) as process:
        await_users(log)
        (os.killpg if to_group else os.kill)(process.pid, number)
        process.wait(timeout=30)
    assert_exact(tmp_path, workers=2)


@pytest.mark.timed
def test_the_master_waits_for_a_stopped_worker_and_names_it(tmp_path: Path) -> None:
    """The master ends within its deadline, names the silent worker, and keeps the rows of the other."""
    port = free_port()
    env = {"RESULTS": str(tmp_path)}
    master = ("--master", "--master-bind-port", port, "--expect-workers", 2, "--run-time", "5s")
    worker = ("-f", LOCUSTFILE, "--worker", "--master-port", port)
    log = tmp_path / "log"
    with (
        started_locust(*HEADLESS, *master, cwd=tmp_path, env=env, log=log) as main,
        started_locust(*worker, cwd=tmp_path, env=env, log=tmp_path / "log1"),
        started_locust(*worker, cwd=tmp_path, env=env, log=tmp_path / "log2") as frozen,
    ):
        await_users(log)
        time.sleep(0.5)  # past its first report, before the master takes it for missing
        os.kill(frozen.pid, signal.SIGSTOP)
        try:
            main.wait(timeout=40)
        finally:
            os.kill(frozen.pid, signal.SIGCONT)
    result, _ = results(tmp_path)
    assert "No last report from worker" in log.read_text()
    assert [text for text in result["warnings"] if "did not send its last report" in text]
    assert result["locust"][0] == len(result["rows"])
    assert 0 in result["workers"] or 1 in result["workers"]


def test_reset_stats_at_the_end_of_spawning(tmp_path: Path) -> None:
    """--reset-stats clears Locust's counts everywhere; the record keeps the whole run and marks the rows after it."""
    port = free_port()
    arguments = ("--run-time", "3s", "--processes", 2, "--master-bind-port", port, "--master-port", port)
    run_locust(*HEADLESS, "--reset-stats", *arguments, cwd=tmp_path, env={"RESULTS": str(tmp_path)})
    main, workers = results(tmp_path)
    seen = sorted(tuple(row) for process in workers for row in process["seen"])
    assert sorted(tuple(row) for row in main["rows"]) == seen
    assert main["since_reset"] == main["locust"]
    assert 0 < main["since_reset"][0] < len(seen)
