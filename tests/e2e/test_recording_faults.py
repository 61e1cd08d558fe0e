"""Killed processes: every row of a flushed block on disk is read again, and none counts twice."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from pathlib import Path

import pytest

from locust_realism.recording.formats import open_launches
from locust_realism.recording.merge import merge_recordings
from locust_realism.recording.reading import read_info
from tests.support import eventually, free_port, started_locust

pytestmark = pytest.mark.e2e

LOCUSTFILE = Path(__file__).with_name("recording_locustfile.py")


def processes_of(directory: Path, victim: str, seed: int) -> dict[Path, int]:
    """Kill ``victim``, the master or one of two workers, at a random moment by the seed, and end the test.

    Returns the launches that each recording held at that moment.
    """
    port = free_port()
    env = {"RESULTS": str(directory), "RECORD": "1"}
    settings = ("--headless", "--users", 12, "--spawn-rate", 12, "--only-summary")
    master = ("-f", LOCUSTFILE, "--master", "--master-bind-port", port, "--expect-workers", 2, *settings)
    worker = ("-f", LOCUSTFILE, "--worker", "--master-port", port)
    log = directory / "log"
    with (
        started_locust(*master, cwd=directory, env=env, log=log) as main,
        started_locust(*worker, cwd=directory, env=env, log=directory / "log1") as first,
        started_locust(*worker, cwd=directory, env=env, log=directory / "log2") as second,
    ):
        recordings = directory / "realism-recordings"
        eventually(lambda: len(list(recordings.glob("*/launches-*"))) >= 3, within=60)
        time.sleep(random.Random(seed).uniform(0, 4))
        held = {path: len(open_launches(path).log) for path in recordings.iterdir() if any(path.glob("launches*"))}
        (main if victim == "master" else first).kill()
        if victim == "master":
            first.send_signal(signal.SIGINT)
            second.send_signal(signal.SIGINT)
            first.wait(20)
            second.wait(20)
        else:
            time.sleep(1)
            os.kill(main.pid, signal.SIGTERM)
            main.wait(30)
            second.wait(20)
    return held


def assert_sound(directory: Path) -> tuple[Path, list[Path]]:
    """Assert that every recording is readable and holds each launch once; return the master's and the workers'."""
    found = sorted((directory / "realism-recordings").iterdir())
    roles = {path: read_info(path).get("role") for path in found}
    for path in found:
        file = open_launches(path)
        assert file.bad_rows == 0
        keys = list(zip(file.log.worker.tolist(), file.log.slot.tolist(), file.log.launch_us.tolist(), strict=True))
        assert len(keys) == len(set(keys)), "a launch counts twice"
        assert len(keys) > 0
    (master,) = [path for path in found if roles[path] == "master"]
    workers = [path for path in found if roles[path] == "worker"]
    assert len(workers) == 2
    return master, workers


def run_with(tmp_path: Path, victim: str, seed: int) -> None:
    held = processes_of(tmp_path, victim, seed)
    master, workers = assert_sound(tmp_path)
    assert held
    for path, rows in held.items():
        assert len(open_launches(path).log) >= rows > 0, "launches that were on disk are gone"
    merged = merge_recordings([master, *workers]).log
    sizes = {path: len(open_launches(path).log) for path in (master, *workers)}
    best = sum(sizes[path] for path in workers)
    assert len(merged) >= max(best, sizes[master])
    keys = set(zip(merged.worker.tolist(), merged.slot.tolist(), merged.launch_us.tolist(), strict=True))
    assert len(keys) == len(merged)
    if victim == "worker":
        # the master's balance covers the reports that it received, not the rows after the last one
        (result,) = tmp_path.glob("main-*.json")
        balance = json.loads(result.read_text(encoding="utf-8"))["balance"]
        accounted = balance["finished"] + balance["failed"] + balance["lost"] + (balance["cut"] or 0)
        assert balance["launched"] == accounted > 0
    if victim == "master":
        # the workers ended in order: their files hold the rows that the master never received
        alone = merge_recordings(workers).log
        assert alone.launch_us.tolist() == merged.launch_us.tolist()
        assert len(alone) >= sizes[master]


@pytest.mark.parametrize("victim", ["master", "worker"])
def test_a_killed_process_costs_only_its_last_seconds(tmp_path: Path, victim: str) -> None:
    run_with(tmp_path, victim, seed=1)


@pytest.mark.nightly
@pytest.mark.parametrize("victim", ["master", "worker"])
@pytest.mark.parametrize("seed", range(10))
def test_processes_killed_at_random_moments(tmp_path: Path, victim: str, seed: int) -> None:
    run_with(tmp_path, victim, seed)
