"""The document of the Generator tab: rows and curves of each process from the logs, the local target's CPU."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from locust_realism.analysis.document import HEALTH_SHARES
from locust_realism.recording.health import MASTER, SHARES, HealthLog
from locust_realism.recording.launches import LaunchLog
from locust_realism.recording.offsets import ClockLine
from locust_realism.runtime.capture.accounting import Source
from locust_realism.runtime.figures.generator_view import LocalTarget, health_document, listening_processes
from locust_realism.web.findings import generator_findings

NAMES = {0: ("host_a", "running"), 1: ("host_b", "missing"), MASTER: ("master", "running")}


def health(seconds: int = 60) -> HealthLog:
    rows = []
    for second in range(1, seconds + 1):
        for worker, cpu in ((MASTER, 0.05), (0, 0.4), (1, 0.95)):
            lag = 40_000 if worker == 1 and second > seconds - 5 else 2000
            rows.append((second * 1_000_000, worker, 10 + worker, 90_000_000 + second, lag + 500, lag, cpu, 0.6))
    return HealthLog.of(rows)


def launches() -> LaunchLog:
    planned = np.arange(2000) * 10_000
    late = np.where(np.arange(2000) % 2 == 0, 1000, np.arange(2000) * 10)
    return LaunchLog.build(planned + late, 1000, planned_us=planned, worker=np.arange(2000) % 2)


def test_each_process_has_a_row_and_the_master_is_last() -> None:
    document = health_document(health(), launches(), NAMES)
    rows = {row["id"]: row for row in document["workers"]}
    assert list(rows) == ["host_a", "host_b", "master"]
    assert rows["host_b"]["state"] == "missing"
    assert rows["host_a"]["rows"] == rows["host_b"]["rows"] == 1000
    assert rows["host_b"]["cpu"] == pytest.approx(0.95)
    assert rows["host_b"]["users"] == 11
    assert rows["master"]["rows"] is rows["master"]["users"] is None
    assert rows["host_a"]["lag_p99_ms"] == 2.0
    assert rows["host_b"]["lag_p99_ms"] == 40.0
    assert rows["host_a"]["memory_bytes"] == 90_000_060


def test_lateness_is_that_of_the_planned_launches_of_each_worker() -> None:
    rows = health_document(health(), launches(), NAMES)["workers"]
    assert rows[0]["lateness_p50_ms"] == rows[0]["lateness_p99_ms"] == 1.0
    assert rows[1]["lateness_p99_ms"] == pytest.approx(19.79)
    unplanned = LaunchLog.build([1, 2], 1)
    assert "lateness_p99_ms" not in health_document(health(), unplanned, NAMES)["workers"][0]


def test_figures_that_a_system_measures_are_in_its_row_and_others_are_left_out() -> None:
    rows = [(k * 1_000_000, 0, 5, 1 << 20, 900, 800, 0.2, 0.5, k / 10, 0.0, *[np.nan] * 5, 400.0) for k in (1, 2, 3)]
    (row,) = health_document(HealthLog.of(rows), LaunchLog.empty(), NAMES)["workers"]
    assert row["run_wait"] == pytest.approx(0.2)
    assert (row["steal"], row["wake_p90_ms"]) == (0.0, 0.4)
    assert not {"throttled", "pressure", "blocked", "stopped"} & set(row)
    assert HEALTH_SHARES == SHARES


def test_row_counts_with_the_time_that_it_covers() -> None:
    """A process that stood still for 5 of 10 s writes a single row for them."""
    rows = [(k * 1_000_000, 0, 5, 1 << 20, 9, 9, 0.2, 0.4, *[np.nan] * 5, 0.0) for k in range(1, 6)]
    rows.append((10_000_000, 0, 5, 1 << 20, 9, 9, 0.0, 0.0, *[np.nan] * 5, 1.0))
    (row,) = health_document(HealthLog.of(rows), LaunchLog.empty(), NAMES)["workers"]
    assert (row["stopped"], row["cpu"]) == (pytest.approx(0.5), pytest.approx(0.1))


@pytest.mark.parametrize("worker", [0, MASTER])
@pytest.mark.parametrize(("late_seconds", "lag_ms"), [(1, 2.0), (15, 500.0)])
def test_one_late_second_is_not_the_lag_of_thirty(worker: int, late_seconds: int, lag_ms: float) -> None:
    """The measure is the verdict's; seconds that are late again and again count."""
    rows = [(s * 1_000_000, worker, 5, 9, 0, 500_000 if s > 30 - late_seconds else 2000, 0.1, 0.5) for s in range(31)]
    document = health_document(HealthLog.of(rows), LaunchLog.empty(), NAMES)
    (row,) = document["workers"]
    assert row["lag_p99_ms"] == lag_ms
    if worker != MASTER:
        assert row["lag_p99_ms"] == HealthLog.of(rows[1:]).worst()["loop_lag_p99_ms"]
    assert generator_findings(document)[0]["status"] == ("green" if late_seconds == 1 else "red")


def test_each_worker_has_the_offset_of_its_clock() -> None:
    """A worker on the master's machine, or without an estimate yet, has no offset."""
    clocks = {0: ClockLine(offset_us=-2500.0, sd_us=40.0, probes=32), 1: ClockLine(sd_us=0.0, probes=32, shared=True)}
    rows = health_document(health(), launches(), NAMES, clocks)["workers"]
    assert (rows[0]["clock_offset_ms"], rows[0]["clock_uncertainty_ms"]) == (-2.5, 0.04)
    assert "clock_offset_ms" not in rows[1]
    unknown = health_document(health(), launches(), NAMES, {0: ClockLine()})["workers"]
    assert "clock_offset_ms" not in unknown[0]


def test_each_worker_has_its_recorded_and_lost_rows() -> None:
    """The counts cover a run that memory holds only in part; a worker without a report has the rows that arrived."""
    reported = {"host_a": Source(recorded=5_000_000, dropped=2, missed=300)}
    rows = {row["id"]: row for row in health_document(health(), launches(), NAMES, reported=reported)["workers"]}
    assert (rows["host_a"]["rows"], rows["host_a"]["lost"]) == (5_000_000, 302)
    assert rows["host_b"]["rows"] == 1000
    assert "lost" not in rows["host_b"]
    assert rows["master"]["rows"] is None
    (finding,) = (one for one in generator_findings({"workers": list(rows.values())}) if "lost" in one["text"])
    assert finding["status"] == "red"
    assert finding["text"].startswith("Worker host_a lost 302 ")


def test_only_the_last_half_minute_counts_as_the_present() -> None:
    rows = [(s * 1_000_000, 0, 1, 1, 1, 1, 0.9 if s <= 30 else 0.1, 0.5) for s in range(1, 61)]
    document = health_document(HealthLog.of(rows), LaunchLog.empty(), NAMES)
    assert document["workers"][0]["cpu"] == pytest.approx(0.1)


@pytest.mark.parametrize("seconds", [1, 60, 3000])
def test_curves_have_one_point_a_bin_for_each_process(seconds: int) -> None:
    series = health_document(health(seconds), LaunchLog.empty(), NAMES)["series"]
    assert 1 <= len(series["t_s"]) <= 240
    assert [worker["id"] for worker in series["workers"]] == ["host_a", "host_b", "master"]
    for worker in series["workers"]:
        assert len(worker["cpu"]) == len(worker["lag_p99_ms"]) == len(series["t_s"])
    assert max(series["workers"][1]["lag_p99_ms"]) == 40.0
    assert series["workers"][1]["cpu"] == pytest.approx([0.95] * len(series["t_s"]))


def test_a_worker_that_came_late_has_no_curve_before() -> None:
    rows = [(s * 1_000_000, w, 1, 1, 1, 1, 0.5, 0.5) for s in range(1, 20) for w in (0, 1) if w == 0 or s > 10]
    series = health_document(HealthLog.of(rows), LaunchLog.empty(), NAMES)["series"]
    late = series["workers"][1]["cpu"]
    assert late[0] is None
    assert late[-1] == 0.5


def test_without_any_row_the_document_is_empty() -> None:
    document = health_document(HealthLog.of([]), LaunchLog.empty(), {})
    assert document == {"workers": [], "target": None, "series": {"t_s": [], "workers": []}}


def test_a_finding_names_the_worker_that_is_short_of_cpu() -> None:
    found = generator_findings(health_document(health(), launches(), NAMES))
    assert [finding["status"] for finding in found] == ["amber"]
    assert found[0]["text"].startswith("Worker host_b used 95% of its core")


def test_the_process_that_listens_on_a_local_port_is_found_with_its_cpu() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        assert [process.pid for process in listening_processes(url)] == [os.getpid()]
        target = LocalTarget()
        assert target.document(url) is None  # the first look only starts the measurement
        sum(i * i for i in range(2_000_000))
        document = target.document(url)
        assert document is not None
        assert document["cpu"] > 0.2
    assert listening_processes(url) == []


def test_bytes_that_the_target_writes_to_the_disk_are_measured(tmp_path: Path) -> None:
    process = psutil.Process()
    if not hasattr(process, "io_counters"):
        pytest.skip("this system has no counters of a process's bytes")
    with socket.create_server(("127.0.0.1", 0)) as server, (tmp_path / "file").open("wb", buffering=0) as file:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        target = LocalTarget()
        target.document(url)
        before, began = process.io_counters().write_bytes, time.perf_counter()
        file.write(os.urandom(8_000_000))
        os.fsync(file.fileno())
        document = target.document(url)
        took, written = time.perf_counter() - began, process.io_counters().write_bytes - before
    assert document is not None
    assert document["write_bytes_s"] == pytest.approx(written / took, rel=0.2)
    assert document["read_bytes_s"] >= 0
    assert 0 <= document.get("disk_busy", 0) <= 1


def test_a_busy_disk_of_the_target_is_a_finding() -> None:
    target = {"cpu": 0.1, "disk_busy": 0.85, "read_bytes_s": 1e6, "write_bytes_s": 2.5e6}
    found = generator_findings({"workers": [{"id": "w", "cpu": 0.1}], "target": target})
    assert found[0]["status"] == "amber"
    assert "busy 85% of the time (the system moves 3.5 MB/s)" in found[0]["text"]
    calm = generator_findings({"workers": [{"id": "w", "cpu": 0.1}], "target": target | {"disk_busy": 0.5}})
    assert [finding["status"] for finding in calm] == ["green"]


@pytest.mark.parametrize("host", ["", "http://example.org:80", "https://10.0.0.1", "http://127.0.0.1:99999", "::::"])
def test_a_target_elsewhere_has_no_document(host: str) -> None:
    target = LocalTarget()
    assert target.document(host) is None
    assert target.document(host) is None
