"""The rows of a running test in memory: snapshots, Reset, bounded memory."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from locust_realism.recording.launches import LaunchLog
from locust_realism.recording.store import LiveRecord


def block(first: int, n: int, name: str = "home", failed: bool = False) -> LaunchLog:
    return LaunchLog.build(np.arange(first, first + n), np.ones(n), names=name, failed=failed)


def test_snapshot_is_not_changed_by_later_blocks() -> None:
    record = LiveRecord(max_rows=100)
    record.append(block(0, 3))
    early = record.snapshot()
    record.append(block(3, 4, "buy", failed=True))
    late = record.snapshot()
    assert early.launch_us.tolist() == [0, 1, 2]
    assert [label.name for label in early.labels] == ["home"]
    assert late.launch_us.tolist() == list(range(7))
    assert [late.labels[k].name for k in late.label] == ["home"] * 3 + ["buy"] * 4
    assert late.failed.tolist() == [False] * 3 + [True] * 4
    assert early.launch_us.base is late.launch_us.base, "a snapshot must not copy the rows"


def test_clear_refuses_blocks_of_the_last_run() -> None:
    record = LiveRecord(max_rows=100)
    record.append(block(0, 5, failed=True))
    record.count_lost(2)
    before, generation = record.snapshot(), record.generation
    record.clear()
    record.append(block(7, 1), generation=generation)
    assert len(record.snapshot()) == record.counts().rows == record.counts().failed == record.counts().lost == 0
    assert len(before) == 5


def test_reset_keeps_the_run_and_starts_a_second_count() -> None:
    record = LiveRecord(max_rows=100)
    record.append(block(0, 5, failed=True))
    record.mark_reset()
    record.append(block(5, 2))
    record.append(block(90, 3), before_reset=True)
    record.append(block(7, 1, failed=True))
    assert record.snapshot().launch_us.tolist() == [0, 1, 2, 3, 4, 5, 6, 90, 91, 92, 7]
    assert record.snapshot(since_reset=True).launch_us.tolist() == [5, 6, 7]
    counts = record.counts()
    assert (counts.rows, counts.failed, counts.rows_since_reset, counts.failed_since_reset) == (11, 6, 3, 1)
    record.mark_reset()
    assert len(record.snapshot(since_reset=True)) == 0


@pytest.mark.parametrize("size", [1, 3, 7, 10, 50, 1000])
def test_memory_is_bounded_and_has_the_newest_rows(size: int) -> None:
    record = LiveRecord(max_rows=100)
    total = 0
    while total < 2000:
        record.append(block(total, size))
        total += size
        held = record.snapshot().launch_us
        assert 0 < len(held) <= 100
        assert held.tolist() == list(range(total - len(held), total)), "the newest rows, without a gap"
        assert len(held) >= (total if total <= 100 else 25), "all of them, or a quarter of the room"
    assert record.counts().rows == total
    assert record.counts().out_of_memory == total - len(record.snapshot())
    assert not record.complete


def test_reset_and_late_rows_stay_right_when_rows_leave_memory() -> None:
    record = LiveRecord(max_rows=20)
    record.append(block(0, 18))
    record.mark_reset()
    record.append(block(100, 4), before_reset=True)
    record.append(block(18, 5))
    assert record.snapshot(since_reset=True).launch_us.tolist() == [18, 19, 20, 21, 22]


def test_threads_append_and_read_concurrently() -> None:
    record = LiveRecord(max_rows=10_000)

    def feed(worker: int) -> None:
        for k in range(50):
            record.append(LaunchLog.build(np.arange(20) + k * 20, 1, worker=worker, names=f"{worker}-{k}"))

    threads = [threading.Thread(target=feed, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        log = record.snapshot()
        assert len(log) == 0 or int(log.label.max()) < len(log.labels)
    log = record.snapshot()
    assert len(log) == 4000
    for worker in range(4):
        mine = log.take(log.worker == worker)
        assert mine.launch_us.tolist() == list(range(1000))
        assert [mine.labels[k].name for k in mine.label[::20]] == [f"{worker}-{k}" for k in range(50)]


def test_max_rows_has_a_minimum() -> None:
    with pytest.raises(ValueError, match="max_rows must be >= 2, not 1"):
        LiveRecord(max_rows=1)
