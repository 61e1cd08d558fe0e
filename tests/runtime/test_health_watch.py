"""Causes of lateness, made for real: blocking code, a busy machine, a stopped process, a limit of a cgroup."""

from __future__ import annotations

import gc
import json
import math
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gevent
import numpy as np
import psutil
import pytest
from gevent.monkey import get_original
from locust import User, constant, task
from locust.env import Environment

from locust_realism.analysis.summary import describe_workload, recorded_facts
from locust_realism.analysis.verdict.evidence import Facts
from locust_realism.recording.diagnosis import Diagnosis, Tally
from locust_realism.recording.health import HealthLog
from locust_realism.runtime.capture import busy_processes, watchdog
from locust_realism.runtime.capture.files import FilePlan
from locust_realism.runtime.capture.health_watch import HealthWatch
from locust_realism.runtime.capture.kernel_figures import Counter, KernelFigures, cgroup_files, run_wait_seconds
from locust_realism.runtime.capture.run import attach
from locust_realism.runtime.capture.watchdog import Beats
from locust_realism.runtime.coordination.clock import Clock
from locust_realism.runtime.locust_compat import native_ident
from tests.runtime.cluster import cluster, eventually

native_sleep = get_original("time", "sleep")


def spin(seconds: float) -> None:
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


def call_that_blocks(seconds: float) -> None:
    native_sleep(seconds)


def repeat(block: Callable[[float], None], busy_s: float, idle_s: float) -> None:
    while True:
        block(busy_s)
        gevent.sleep(idle_s)


def watched(seconds: float, *blocks: tuple[Callable[[float], None], float, float]) -> tuple[HealthLog, Diagnosis]:
    """Watch this process for a time while greenlets block the loop."""
    runner: Any = SimpleNamespace(user_greenlets=[])
    watch = HealthWatch(runner, Clock())
    greenlets = [gevent.spawn(repeat, *block) for block in blocks]
    gevent.sleep(seconds)
    tally = Tally()
    tally.add(watch.take_causes())
    gevent.killall(greenlets)
    watch.close()
    return watch.take(), tally.diagnosis()


@pytest.mark.parametrize("guarded", [True, False])
def test_the_watchdog_collects_no_garbage_of_the_event_loop(guarded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each container that its thread makes would start a collection there; negative control: without the guard."""
    if not guarded:
        monkeypatch.setattr(watchdog, "gc", SimpleNamespace(isenabled=gc.isenabled, disable=int, enable=int))
    collected: list[str] = []
    own, thresholds = native_ident(), gc.get_threshold()

    def note(phase: str, info: dict[str, int]) -> None:
        if native_ident() != own:
            collected.extend(Path(each.filename).name for each in traceback.extract_stack())

    gc.callbacks.append(note)
    gc.set_threshold(1)
    try:
        watched(1.2, (spin, 0.05, 0.01))
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks.remove(note)
    assert ("watchdog.py" not in collected) == guarded
    assert gc.isenabled()


def share_of(function: Callable[..., object], found: Diagnosis) -> float:
    """Return the share of the time of a function of this file, 0 where it is not named."""
    lines = {line for *_, line in function.__code__.co_lines() if line is not None}
    names = {f"{Path(__file__).name}:{line} in {function.__name__}" for line in lines}
    return sum(share for name, share in found.blockers if name in names)


@pytest.mark.parametrize(("busy_ms", "idle_ms"), [(5, 5), (80, 320)])
@pytest.mark.parametrize("block", [spin, call_that_blocks])
def test_the_line_that_blocks_is_named_with_its_share(
    block: Callable[[float], None], busy_ms: float, idle_ms: float
) -> None:
    """A loop of Python and a call that sleeps are found, 5 of every 10 ms and 80 of every 400.

    The loop's share is that of its CPU time: on a busy machine it waits for a CPU meanwhile, which is no fault of it.
    """
    health, found = watched(5.3, (block, busy_ms / 1000, idle_ms / 1000))
    share = health.cpu.mean() if block is spin else busy_ms / (busy_ms + idle_ms)
    assert 0.4 * share < share_of(block, found) < 1.4 * share, (share, found)
    assert "test_health_watch.py" in found.blockers[0][0]
    assert health.blocked.mean() > 0.4 * share
    assert health.stopped.mean() < 0.03


def test_quiet_loop_has_no_causes() -> None:
    """Negative control: nothing is blocked, stopped or paused where only gevent sleeps."""
    health, found = watched(4.3)
    assert len(health) == 4
    assert health.blocked.mean() < 0.03
    assert health.stopped.mean() < 0.02
    assert sum(share for _, share in found.blockers) < 0.02
    assert found.pauses == ()
    assert ((health.cpu >= 0) & (health.cpu < 0.5)).all()


def test_single_pause_is_listed_with_its_time() -> None:
    """One stall of 0.4 s is one pause at its time, not a share of the run."""
    began = time.time()
    _, found = watched(3.3, (spin, 0.4, 100.0))
    ((at_us, length),) = found.pauses
    assert length == pytest.approx(0.4, abs=0.1)
    assert at_us / 1e6 == pytest.approx(began, abs=1.0)


def test_block_at_the_end_of_a_row_is_in_that_row() -> None:
    """A block of 0.5 s that the end of a second falls into makes that second late, and not the next one."""

    def block_once() -> None:
        gevent.sleep(0.75)
        call_that_blocks(0.5)

    runner: Any = SimpleNamespace(user_greenlets=[])
    watch = HealthWatch(runner, Clock())
    blocking = gevent.spawn(block_once)
    gevent.sleep(2.5)
    blocking.join()
    watch.close()
    first, second = watch.take().lag_max_us / 1e6
    assert first == pytest.approx(0.48, abs=0.05)
    assert second < 0.1


@pytest.fixture
def burners(tmp_path: Path) -> Iterator[None]:
    """Four processes for each core that use it whole."""
    script = tmp_path / "burn.py"
    script.write_text("while True: pass\n")
    processes = [subprocess.Popen([sys.executable, str(script)]) for _ in range(4 * (os.cpu_count() or 1))]
    yield
    for process in processes:
        process.kill()
        process.wait()


@pytest.mark.usefixtures("burners")
def test_busy_machine_is_named_and_is_no_fault_of_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process waits for a CPU, and the busy processes are named; its own code, 1 of 10 ms, does not block."""
    monkeypatch.setattr(busy_processes, "LOOK_S", 1.0)
    monkeypatch.setattr(busy_processes, "STALE_S", 10.0)
    health, found = watched(8.3, (spin, 0.001, 0.009))
    assert health.run_wait.mean() > 0.05
    assert health.machine_cpu.mean() > 0.9
    assert health.blocked.mean() < 0.15
    assert health.stopped.mean() < 0.05
    cores = {name: cores for name, cores in found.others if name.endswith(" burn.py")}
    assert sum(cores.values()) > 0.2, found.others


CHILD = f"""
import gevent.monkey
gevent.monkey.patch_all()
import json, sys
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from tests.runtime.test_health_watch import share_of, spin, watched
blocks = [(spin, float(sys.argv[2]), float(sys.argv[3]))] if len(sys.argv) > 2 else []
print("ready", flush=True)
sys.stdin.readline()
health, found = watched(float(sys.argv[1]), *blocks)
print(json.dumps({{**health.worst(), "spin": share_of(spin, found), "pauses": len(found.pauses)}}))
"""


@contextmanager
def child(*arguments: float, prepare: Callable[[int], object] = lambda pid: None) -> Iterator[subprocess.Popen[str]]:
    """Yield a process that watches itself, begun after ``prepare(pid)``."""
    command = [sys.executable, "-c", CHILD, *map(str, arguments)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        prepare(process.pid)
        process.stdin.write("\n")
        process.stdin.flush()
        yield process


def figures(process: subprocess.Popen[str]) -> dict[str, float]:
    """Return the figures that a child prints at its end."""
    assert process.stdout is not None
    found: dict[str, float] = json.loads(process.stdout.readline())
    return found


def test_stopped_process_is_told_from_a_blocked_one() -> None:
    """A process that SIGSTOP holds for 0.3 s of each 1.5 was stopped a fifth of the time; nobody's code blocked it."""
    with child(6.3) as process:
        for _ in range(4):
            gevent.sleep(1.2)
            process.send_signal(signal.SIGSTOP)
            gevent.sleep(0.3)
            process.send_signal(signal.SIGCONT)
        found = figures(process)
    assert 0.1 < found["stopped"] < 0.3
    assert found["blocked"] < 0.05
    assert 3 <= found["pauses"] <= 4


@pytest.mark.parametrize(("schedstat", "known"), [("0 0 0\n", False), (None, False), ("5000 0 1\n", True)])
def test_stops_are_unknown_where_the_wait_for_a_cpu_is(
    schedstat: str | None, known: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without that figure a full machine looks like a stopped process; negative control: a kernel that counts."""
    path = tmp_path / "schedstat"
    if schedstat is not None:
        path.write_text(schedstat)
    monkeypatch.setattr(watchdog, "run_wait_counter", lambda: Counter(run_wait_seconds, path))
    health, _ = watched(1.5, (call_that_blocks, 0.05, 0.05))
    assert len(health) == 1
    assert math.isfinite(health.stopped[0]) == known
    assert ("stopped" in health.worst()) == known


def test_figures_that_the_system_refuses_end_no_rows(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """Each is missing with one warning, and no trace on the console; the other figures go on."""

    def refuse(*_: object) -> None:
        raise psutil.AccessDenied

    monkeypatch.setattr(busy_processes.BusyProcesses, "due", lambda *_: True)
    monkeypatch.setattr(busy_processes.BusyProcesses, "look", refuse)
    monkeypatch.setattr(KernelFigures, "take", refuse)
    monkeypatch.setattr(psutil.Process, "memory_info", refuse)
    health, found = watched(3.3)
    assert len(health) == 3
    assert all(map(math.isnan, (*health.machine_cpu, *health.run_wait)))
    assert ((health.lag_p99_us >= 0) & (health.cpu >= 0) & (health.memory_bytes == 0)).all()
    assert found.others == ()
    logged = sorted(text for record in caplog.records if "no measurement" in (text := record.getMessage()))
    assert logged == [
        f"locust_realism: no measurement of {figure}; the test goes on."
        for figure in ("memory", "other processes", "the kernel's figures")
    ]
    assert "Traceback" not in capfd.readouterr().err


def cpu_cgroup() -> Path:
    """Make and return a cgroup with a fifth of a CPU, or skip the test where this machine allows none."""
    place = next(cgroup_files("test-health-watch", Path("/proc/self/cgroup").read_text())) / str(os.getpid())
    try:
        place.parent.mkdir(exist_ok=True)
        place.mkdir()
        if (place / "cpu.cfs_quota_us").exists():
            (place / "cpu.cfs_quota_us").write_text("20000")
        else:
            (place / "cpu.max").write_text("20000 100000")
    except OSError as error:
        pytest.skip(f"this machine allows no cgroup with a CPU limit: {error}")
    return place


def test_limit_of_a_cgroup_is_found() -> None:
    """A process that wants half a CPU and may have a fifth was throttled, which blocked code and stops are not."""
    place = cpu_cgroup()
    try:
        with child(6.3, 0.005, 0.005, prepare=lambda pid: (place / "cgroup.procs").write_text(str(pid))) as process:
            found = figures(process)
    finally:
        for folder in (place, place.parent):
            with suppress(OSError):
                folder.rmdir()
    assert found["throttled"] > 0.2
    assert found["stopped"] < 0.05
    assert found["blocked"] < 0.3


# From the worker to the verdict ---------------------------------------------------------------------------------------


class Blocker(User):
    wait_time = constant(0.02)

    @task
    def hash_password(self) -> None:
        spin(0.02)


def test_causes_of_a_worker_reach_the_master(monkeypatch: pytest.MonkeyPatch) -> None:
    """Places and pauses travel in the reports; the master's diagnosis and health have them."""
    recordings: dict[Environment, Any] = {}

    def prepare(environment: Environment) -> None:
        recordings[environment] = attach(environment)

    with cluster(monkeypatch, [Blocker], prepare, workers=1) as made:
        side = recordings[made.master].side
        watch = side._watch
        made.start()
        eventually(lambda: share_of(spin, side.diagnosis()) > 0.1, because="the worker's place arrives")
        made.stop()
        assert side.health().worst()["blocked"] > 0.1
        watch._beats.append(Beats())
        side.collect()
        assert watch._beats == [], "they do not pile up"
        for recording in recordings.values():
            recording.detach()


def test_the_last_report_of_a_worker_after_the_stop_counts_once() -> None:
    """It has the seconds before the stop. Pauses before full spawn and after the stop are no part of the diagnosis."""
    environment = Environment(user_classes=[Blocker])
    environment.create_local_runner()
    recording = attach(environment)
    side, at_us = recording.side, recording.clock.now_us()
    side.has_users = False  # as on a master
    side._open["worker"] = (0, at_us, np.zeros(0, dtype=np.int64))
    side.start_tally()
    gevent.sleep(0.01)
    side.end_tally()
    report: Any = {
        "beats": 10, "blocked": 10.0, "sampled": 10.0, "places": [("f", 5.0)], "looks": 0, "own": 0.0, "others": [],
        "pauses": [(at_us - 9_000_000, 1.0), (at_us - 500_000, 0.8), (at_us + 9_000_000, 1.0)],
    }  # fmt: skip
    for client in ("worker", "worker", "stranger"):
        side._tally(client, report)
    found = side.diagnosis()
    assert {client: tally.beats for client, tally in side._tallies.items()} == {"worker": 10}
    assert found.blockers == (("f", 0.5),)
    assert found.pauses == ((at_us - 500_000, 0.8),)
    recording.detach()


def test_the_file_has_the_diagnosis_of_the_live_run(tmp_path: Path) -> None:
    """Facts read from a recording equal those of the run when it has ended."""
    environment = Environment(user_classes=[Blocker])
    runner: Any = environment.create_local_runner()
    recording = attach(environment, files=FilePlan(tmp_path))
    start_us = recording.clock.now_us()
    recording.workload = describe_workload(Facts(), start_us)
    runner.start(1, spawn_rate=1)
    gevent.sleep(2.5)
    environment.events.request.fire(
        request_type="A",
        name="a",
        response_time=1,
        response_length=0,
        exception=None,
        start_time=time.time(),
        context={},
    )
    spin(0.3)
    gevent.sleep(1.0)
    runner.stop()
    recording.flush()
    live = recording.side.diagnosis()
    recording.detach()
    runner.quit()
    (directory,) = tmp_path.iterdir()
    facts = recorded_facts([directory])
    assert share_of(spin, live) > 0.1
    assert facts.blockers == live.blockers
    assert facts.pauses == live.since(start_us)
    assert any(length == pytest.approx(0.3, abs=0.1) for _, length in facts.pauses)
    assert facts.health == recording.side.health().between(*recording.held_us).worst()
