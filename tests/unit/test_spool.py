"""Recordings on disk: readable at any moment, each row once, rows lost only beyond a bound."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from locust_realism.recording import spool as spool_module
from locust_realism.recording.columns import VERSION_KEY, pack, read_table
from locust_realism.recording.formats import open_launches, read_launches
from locust_realism.recording.launches import MISSING, LaunchLog
from locust_realism.recording.merge import merge_recordings
from locust_realism.recording.reading import held_us, part_files, read_info
from locust_realism.recording.spool import MERGE_AT, Spool, merge_files, write_info


def block(first: int, n: int, worker: int = 0) -> LaunchLog:
    launch = np.arange(first, first + n)
    name = f"page {first % 3}"
    return LaunchLog.build(launch, 5, names=name, worker=worker, task=launch // 2, think_us=launch + 7)


def filled(directory: Path, parts: int, rows: int = 3) -> Spool:
    spool = Spool(directory)
    for k in range(parts):
        spool.add(pack(block(k * rows, rows)), rows)
        spool.flush()
    return spool


@pytest.mark.parametrize("parts", [1, 2, MERGE_AT - 1, MERGE_AT, MERGE_AT + 1, 3 * MERGE_AT + 5])
def test_rows_are_read_once_and_in_order_at_any_moment(tmp_path: Path, parts: int) -> None:
    spool = filled(tmp_path, parts)
    assert read_launches(tmp_path).launch_us.tolist() == list(range(3 * parts))
    assert len(part_files(tmp_path)) < MERGE_AT + parts / MERGE_AT, "small parts must have been merged"
    spool.close()
    assert [path.name for path in part_files(tmp_path)] == ["launches.parquet"]
    assert read_launches(tmp_path).launch_us.tolist() == list(range(3 * parts))
    assert [path.name for path in tmp_path.iterdir()] == ["launches.parquet"]


def test_parts_of_parts_are_merged_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool_module, "MERGE_AT", 3)
    filled(tmp_path, 40)
    assert len(list(tmp_path.iterdir())) <= 8
    assert read_launches(tmp_path).launch_us.tolist() == list(range(120))


def test_crash_between_merging_and_deleting_counts_rows_once(tmp_path: Path) -> None:
    filled(tmp_path, 5)
    parts = part_files(tmp_path)
    merge_files(parts[1:4], tmp_path / "launches-000002-000004.parquet")
    (tmp_path / "launches-000006-000006.parquet.partial").write_bytes(b"PAR1 cut off")
    assert read_launches(tmp_path).launch_us.tolist() == list(range(15))
    merge_files(part_files(tmp_path), tmp_path / "launches.parquet")
    assert read_launches(tmp_path).launch_us.tolist() == list(range(15))


def test_damaged_part_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    filled(tmp_path, 5)
    path = part_files(tmp_path)[2]
    path.write_bytes(path.read_bytes()[:40])
    found = open_launches(tmp_path)
    assert found.log.launch_us.tolist() == [0, 1, 2, 3, 4, 5, 9, 10, 11, 12, 13, 14]
    assert found.bad_rows == 1
    assert "launches-000003-000003.parquet: not a readable Parquet block" in found.complaint("run")


def test_rows_of_an_unwritable_directory_are_kept_and_written_later(tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.write_text("a file where the directory should be")
    one = pack(block(0, 3))
    spool = Spool(place / "run", kept_bytes=10 * len(one))
    for k in range(25):
        spool.add(pack(block(3 * k, 3)), 3)
        spool.flush()
    assert "cannot be written" in spool.problem
    assert spool.written_rows == 0
    assert 3 * 14 <= spool.lost_rows <= 3 * 17
    place.unlink()
    spool.flush()
    assert spool.problem == ""
    assert read_launches(place / "run").launch_us.tolist() == list(range(spool.lost_rows, 75))


def test_deleted_directory_is_made_again(tmp_path: Path) -> None:
    spool = filled(tmp_path / "run", 3)
    for path in (tmp_path / "run").iterdir():
        path.unlink()
    (tmp_path / "run").rmdir()
    spool.add(pack(block(100, 3)), 3)
    spool.flush()
    assert read_launches(tmp_path / "run").launch_us.tolist() == [100, 101, 102]
    spool.close()
    assert read_launches(tmp_path / "run").launch_us.tolist() == [100, 101, 102]


def test_full_disk_is_reported_and_rows_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = filled(tmp_path, 2)
    write_whole = spool_module.write_whole

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(spool_module, "write_whole", full)
    spool.add(pack(block(6, 3)), 3)
    spool.flush()
    assert "No space left on device" in spool.problem
    assert spool.lost_rows == 0
    monkeypatch.setattr(spool_module, "write_whole", write_whole)
    spool.flush()
    assert spool.problem == ""
    assert read_launches(tmp_path).launch_us.tolist() == list(range(9))


WRITER = """
import sys, numpy as np
from pathlib import Path
from locust_realism.recording import spool
from locust_realism.recording.launches import LaunchLog
from locust_realism.recording.columns import pack
spool.MERGE_AT = 4
s = spool.Spool(Path(sys.argv[1]))
for k in range(10**9):
    s.add(pack(LaunchLog.build(np.arange(k * 50, k * 50 + 50), 5)), 50)
    s.flush()
    print(k, flush=True)
"""


def test_kill_9_at_any_moment_keeps_every_flushed_row_once(tmp_path: Path) -> None:
    """Kill the writer between any two instructions of writing and merging; 6 moments here, more in the nightly test."""
    kill_at_random_moments(tmp_path, seeds=6)


@pytest.mark.nightly
def test_kill_9_at_many_moments(tmp_path: Path) -> None:
    kill_at_random_moments(tmp_path, seeds=60)


def kill_at_random_moments(tmp_path: Path, seeds: int) -> None:
    for seed in range(seeds):
        directory = tmp_path / str(seed)
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(directory)], stdout=subprocess.PIPE, text=True)
        assert writer.stdout is not None
        writer.stdout.readline()
        time.sleep(random.Random(seed).uniform(0, 0.3))
        writer.kill()
        flushed = [line for line in writer.stdout.read().splitlines() if line]
        writer.wait()
        promised = 50 * (int(flushed[-1]) + 1) if flushed else 50
        found = open_launches(directory)
        assert found.bad_rows == 0
        rows = found.log.launch_us.tolist()
        assert rows == list(range(len(rows))), "a row is missing, or there twice"
        assert promised <= len(rows) <= promised + 50


class TestMerge:
    def worker(self, directory: Path, index: int, rows: int, client: str | None = None) -> Path:
        spool = Spool(directory)
        spool.add(pack(block(1000 * index, rows)), rows)
        spool.close()
        write_info(directory, {"role": "worker", "worker_index": index, "client_id": client or f"w{index}"})
        return directory

    def master(self, directory: Path, rows: dict[int, int]) -> Path:
        spool = Spool(directory)
        for index, n in rows.items():
            spool.add(pack(block(1000 * index, n, worker=index)), n)
        spool.flush()
        write_info(directory, {"role": "master", "workers": {f"w{index}": index for index in rows}})
        return directory

    def test_workers_alone_give_the_whole_run(self, tmp_path: Path) -> None:
        directories = [self.worker(tmp_path / f"w{k}", k, 10 + k) for k in (2, 0, 1)]
        log = merge_recordings(directories).log
        expected = [*range(10), *range(1000, 1011), *range(2000, 2012)]
        assert log.launch_us.tolist() == expected
        assert log.worker.tolist() == [0] * 10 + [1] * 11 + [2] * 12
        assert log.task.tolist() == [launch // 2 for launch in expected]
        assert log.think_us.tolist() == [launch + 7 for launch in expected]

    def test_a_worker_of_the_format_without_tasks_is_merged_with_the_others(self, tmp_path: Path) -> None:
        old, new = self.worker(tmp_path / "old", 0, 5), self.worker(tmp_path / "new", 1, 5)
        parts = part_files(old)
        for path in parts:
            table = read_table(str(path)).drop_columns(["task", "think_us"])
            pq.write_table(table.replace_schema_metadata({VERSION_KEY: b"1"}), path)
        log = merge_recordings([new, old]).log
        assert parts
        assert log.task.tolist() == [MISSING] * 5 + [launch // 2 for launch in range(1000, 1005)]
        assert log.think_us.tolist() == [MISSING] * 5 + [launch + 7 for launch in range(1000, 1005)]

    def test_a_master_that_died_is_completed_and_nothing_counts_twice(self, tmp_path: Path) -> None:
        master = self.master(tmp_path / "m", {0: 10, 1: 4})  # worker 1 had more on the way
        found = merge_recordings([master, self.worker(tmp_path / "a", 0, 7), self.worker(tmp_path / "b", 1, 11)])
        assert found.log.launch_us.tolist() == [*range(10), *range(1000, 1011)]

    def test_recordings_of_different_runs_are_refused(self, tmp_path: Path) -> None:
        master = self.master(tmp_path / "m", {0: 10})
        first, again = self.worker(tmp_path / "a", 0, 7), self.worker(tmp_path / "b", 0, 7, "other")
        with pytest.raises(ValueError, match="not of one run"):
            merge_recordings([first, again])
        with pytest.raises(ValueError, match="did not have"):
            merge_recordings([master, again])
        with pytest.raises(ValueError, match="given twice"):
            merge_recordings([first, first])


def test_unreadable_info_is_empty(tmp_path: Path) -> None:
    assert read_info(tmp_path) == {}
    (tmp_path / "run.json").write_text("{")
    assert read_info(tmp_path) == {}


def test_other_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "photo.jpg").write_bytes(b"")
    with pytest.raises(ValueError, match="not a recording"):
        read_launches(tmp_path)


@pytest.mark.parametrize("text", ["{}", '{"held_us": 5}', '{"held_us": [1]}', '{"held_us": ["a", 2]}', "[]", "no json"])
def test_recording_without_times_of_the_held_load(tmp_path, text):
    (tmp_path / "run.json").write_text(text)
    assert held_us(tmp_path) is None
    (tmp_path / "run.json").write_text('{"held_us": [1, null]}')
    assert held_us(tmp_path) == (1, None)
