"""The total rate of a paced wait in real runs: one process, several, master and workers, users added in mid-run."""

from __future__ import annotations

import json
import math
import re
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from locust_realism.workload.rates.shapes import SineRate
from tests.support import free_port, run_locust, started_locust

pytestmark = [pytest.mark.e2e, pytest.mark.timed]

LOCUSTFILE = Path(__file__).with_name("pacing_locustfile.py")
HEADLESS = ("-f", LOCUSTFILE, "--headless", "--only-summary")
POOL = ("--users", 50, "--spawn-rate", 50, "--run-time", "12s")  # Locust may end a second or two early
PROFILE = SineRate(40, 760, 4)
BEGIN, END = 1.5, 9.5
"""Seconds of the run that are compared: two periods, with every user there."""


def assert_follows_the_profile(directory: Path, workers: int) -> None:
    """Total and every tenth of a period within 4 and 4.5 standard errors of the integral.

    On a busy machine a process stands still now and then, and launches what was due in between as soon as it can (or
    never, after a second): a bound is wider by what was planned for the times in which it was told to have stood still.
    """
    results = [json.loads(path.read_text()) for path in sorted(directory.glob("launches-*.json"))]
    processes = [result for result in results if result["launches"]]
    assert len(processes) == workers
    times = np.sort(np.concatenate([result["launches"] for result in processes]))
    assert times[-1] > END, "the run was too short for the test to mean anything"
    edges = np.linspace(BEGIN, END, 21)
    counts, _ = np.histogram(times, edges)
    planned = np.diff(PROFILE.cumulative(edges))
    shifted = np.zeros(len(planned))
    lost = 0.0
    for start, end in (stall for result in processes for stall in result["stalls"]):
        due = float(PROFILE.cumulative(end) - PROFILE.cumulative(start)) / workers
        shifted[(edges[:-1] <= end + 0.1) & (edges[1:] >= start)] += due
        across = any(start <= edge <= end + 0.1 for edge in (BEGIN, END))
        lost += due if across or end - start > 0.9 else 0.0
    expected = float(planned.sum())  # 3,200: a standard error is 1.8 %
    assert abs(int(counts.sum()) - expected) <= 4 * math.sqrt(expected) + lost
    assert np.all(np.abs(counts - planned) <= 4.5 * np.sqrt(planned) + shifted)
    # The control: these bounds do tell the profile from a constant rate with the same total.
    assert not np.all(np.abs(counts - expected / 20) <= 4.5 * math.sqrt(expected / 20) + shifted)


def test_one_process(tmp_path: Path) -> None:
    run_locust(*HEADLESS, *POOL, cwd=tmp_path, env={"RESULTS": str(tmp_path)})
    assert_follows_the_profile(tmp_path, 1)


def test_two_processes(tmp_path: Path) -> None:
    port = free_port()
    ports = ("--processes", 2, "--master-bind-port", port, "--master-port", port)
    run_locust(*HEADLESS, *POOL, *ports, cwd=tmp_path, env={"RESULTS": str(tmp_path)})
    assert_follows_the_profile(tmp_path, 2)


def test_master_and_two_workers(tmp_path: Path) -> None:
    port = free_port()
    env = {"RESULTS": str(tmp_path)}
    with ExitStack() as workers:
        for n in range(2):
            worker = ("-f", LOCUSTFILE, "--worker", "--master-port", port)
            log = tmp_path / f"worker-{n}.log"
            workers.enter_context(started_locust(*worker, cwd=tmp_path, env=env, log=log))
        master = ("--master", "--master-bind-port", port, "--expect-workers", 2)
        run_locust(*HEADLESS, *POOL, *master, cwd=tmp_path, env=env)
    assert_follows_the_profile(tmp_path, 2)


def test_users_added_in_mid_run(tmp_path: Path) -> None:
    """The rate is that of the profile with 10 users and with 50."""
    run_locust(*HEADLESS, cwd=tmp_path, env={"RESULTS": str(tmp_path), "USERS_ADDED": "1"})
    assert_follows_the_profile(tmp_path, 1)


def seeded_run(directory: Path, *arguments: object) -> tuple[str, dict[str, list[float]], list[set[float]]]:
    """Output, the first waits of each worker's slots, and the planned launches of each worker to a microsecond."""
    directory.mkdir()
    port = free_port()
    ports = ("--processes", 2, "--master-bind-port", port, "--master-port", port)
    run = ("-f", LOCUSTFILE.with_name("seed_locustfile.py"), "--headless", "-u", 8, "-r", 8, "-t", "5s", *arguments)
    output = run_locust(*run, *ports, cwd=directory, env={"RESULTS": str(directory)}).stdout
    waits: dict[str, list[float]] = {}
    planned = []
    for index in range(2):
        by_slot, launches = json.loads((directory / f"worker-{index}.json").read_text())
        waits |= {f"worker {index} slot {slot}": seen[:8] for slot, seen in by_slot.items()}
        planned.append({round(at, 6) for at in launches if 1 < at < 3})
    return output, waits, planned


def test_the_seed_that_was_logged_repeats_the_waits_of_every_slot_on_every_worker(tmp_path: Path) -> None:
    output, first, first_planned = seeded_run(tmp_path / "first")
    found = re.search(r"--realism-seed (\d+)", output)
    assert found is not None, output
    _, again, again_planned = seeded_run(tmp_path / "again", "--realism-seed", found[1])
    assert again == first
    assert len(first) == 8
    assert len({wait for waits in first.values() for wait in waits}) == 8 * 8, "streams are shared"
    for before, after in zip(first_planned, again_planned, strict=True):
        # A rounding of the time or a stall of the machine may take one; another seed would share none.
        assert len(before & after) >= 0.9 * max(len(before), len(after)) > 50
    assert not first_planned[0] & first_planned[1]
