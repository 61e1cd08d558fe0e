"""Blocks from worker to master: exact under duplicates, gaps, Reset and new runs; damage costs only its own rows."""

from __future__ import annotations

import random
from typing import Any

import gevent
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from locust_realism.recording.store import LiveRecord
from locust_realism.runtime import transport
from locust_realism.runtime.clock import Clock
from locust_realism.runtime.receiver import PATIENCE_REPORTS, BlockReceiver
from locust_realism.runtime.recorder import Recorder
from locust_realism.runtime.transport import KEY, BlockSender


class Line:
    """One worker and a master with a line between that a test disturbs; rows are numbered by their size."""

    def __init__(self, record: LiveRecord | None = None, worker: int = 0) -> None:
        self.recorder = Recorder(Clock())
        self.sender = BlockSender(self.recorder)
        self.record = LiveRecord(max_rows=100_000) if record is None else record
        self.asked: list[list[int]] = []
        self.receiver = BlockReceiver(self.record, worker_index=lambda client: int(client[1:]), ask_again=self._ask)
        self.client = f"w{worker}"
        self.fired = 0
        self.sender.start_run()

    def _ask(self, client: str, numbers: list[int]) -> None:
        self.asked.append(numbers)
        self.sender.send_again(numbers)

    def fire(self, n: int) -> None:
        for _ in range(n):
            self.recorder.listener(request_type="GET", name="/", response_time=1.0, response_length=self.fired)
            self.fired += 1

    def report(self) -> dict[str, Any]:
        data: dict[str, Any] = {}
        self.sender.add_to_report(data)
        return data

    def deliver(self, data: dict[str, Any]) -> None:
        self.receiver.receive(self.client, {**data})

    def rows(self) -> list[int]:
        self.receiver.finish()
        return self.record.snapshot().size_bytes.tolist()


@pytest.fixture
def line() -> Any:
    line = Line()
    yield line
    line.receiver.close()


def test_rows_arrive_in_order_with_their_worker(line: Line) -> None:
    line.client = "w3"
    for n in (4, 0, 1, 2500):
        line.fire(n)
        line.deliver(line.report())
    assert line.rows() == list(range(2505))
    assert set(line.record.snapshot().worker.tolist()) == {3}
    assert line.receiver.duplicates == line.record.counts().lost == 0


def test_a_report_that_comes_twice_counts_once(line: Line) -> None:
    line.fire(5)
    report = line.report()
    line.deliver(report)
    line.deliver(report)
    assert line.rows() == list(range(5))
    assert line.receiver.duplicates == 1


def test_a_report_that_got_lost_is_asked_for_and_sent_again(line: Line) -> None:
    line.fire(3)
    line.deliver(line.report())
    line.fire(3)
    line.report()
    line.fire(3)
    line.deliver(line.report())
    assert line.asked == [[1]]
    line.deliver(line.report())
    assert sorted(line.rows()) == list(range(9))
    assert line.record.counts().lost == 0


def test_a_lost_last_report_is_noticed_by_the_count_of_the_next(line: Line) -> None:
    """Reports without new rows still say how many rows there were."""
    line.fire(3)
    line.report()
    line.deliver(line.report())
    assert line.asked == [[0]]
    line.deliver(line.report())
    assert line.rows() == [0, 1, 2]


def test_what_can_no_longer_be_sent_again_is_counted_as_lost(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "RESEND_BYTES", 1)
    line.fire(3)
    line.report()
    line.fire(2)
    line.deliver(line.report())
    for _ in range(PATIENCE_REPORTS + 1):
        line.deliver(line.report())
    assert line.record.counts().lost == 3
    assert line.rows() == [3, 4]
    assert [peer.lost for peer in line.receiver.peers.values()] == [3]


def test_rows_missing_at_the_end_are_counted_as_lost(line: Line) -> None:
    line.fire(3)
    line.report()
    line.fire(2)
    line.deliver(line.report())
    assert line.rows() == [3, 4]
    assert line.record.counts().lost == 3


def test_a_damaged_block_costs_its_own_rows_only(line: Line) -> None:
    line.fire(3)
    report = line.report()
    report[KEY]["blocks"][0]["data"] = b"PAR1 nonsense"
    line.deliver(report)
    line.fire(2)
    line.deliver(line.report())
    assert line.rows() == [3, 4]
    assert line.receiver.unreadable == 1
    assert line.record.counts().lost == 3
    assert [peer.lost for peer in line.receiver.peers.values()] == [3]


def test_reports_of_something_else_are_left_alone(line: Line) -> None:
    data: dict[str, Any] = {"stats": [1]}
    line.receiver.receive("w0", data)
    assert data == {"stats": [1]}
    line.fire(1)
    data = line.report()
    line.receiver.receive("w0", data)
    assert KEY not in data, "Locust's other listeners need not see our bytes"


def test_a_new_run_forgets_the_old_one_on_both_sides(line: Line) -> None:
    line.fire(5)
    line.deliver(line.report())
    line.fire(2)
    line.receiver.start_run()
    line.sender.start_run()
    line.fire(3)
    line.deliver(line.report())
    assert line.rows() == [7, 8, 9]
    assert line.asked == []


def test_reset_on_the_worker_marks_what_it_has_not_reported(line: Line) -> None:
    line.fire(3)
    line.sender.reset()
    line.fire(2)
    line.record.mark_reset()
    line.deliver(line.report())
    assert line.rows() == list(range(5))
    assert line.record.snapshot(since_reset=True).size_bytes.tolist() == [3, 4]


def test_reset_on_the_master_covers_what_is_still_queued(line: Line) -> None:
    line.fire(3)
    line.deliver(line.report())
    line.receiver.reset()
    line.fire(2)
    line.deliver(line.report())
    assert line.rows() == list(range(5))
    assert line.record.snapshot(since_reset=True).size_bytes.tolist() == [3, 4]


def test_packing_early_changes_nothing(line: Line) -> None:
    line.fire(transport.EAGER_ROWS)
    line.sender.pack_early()
    line.fire(10)
    line.sender.pack_early()
    line.deliver(line.report())
    assert line.rows() == list(range(transport.EAGER_ROWS + 10))


def test_a_report_made_while_a_block_is_being_packed_has_its_rows(line: Line) -> None:
    """The report must hold the rows that Locust's buckets beside it hold, packed or not."""
    line.fire(transport.EAGER_ROWS)
    packing = gevent.spawn(line.sender.pack_early)
    gevent.sleep(0)
    line.deliver(line.report())
    packing.join()
    line.deliver(line.report())
    assert line.rows() == list(range(transport.EAGER_ROWS))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_whatever_the_line_does_the_balance_closes(seed: int) -> None:
    """Two workers, reports lost, doubled and late: arrived + lost = fired, and no row twice."""
    rng = random.Random(seed)
    record = LiveRecord(max_rows=10_000)
    lines = [Line(record, worker) for worker in range(2)]
    for line in lines:
        line.receiver = lines[0].receiver
        line.receiver._ask_again = lambda client, numbers: lines[int(client[1:])].sender.send_again(numbers)
    for _ in range(rng.randrange(1, 12)):
        for line in lines:
            line.fire(rng.randrange(4))
            report = line.report()
            for _ in range(rng.choice([0, 1, 1, 1, 2])):
                line.deliver(report)
    for line in lines:
        line.deliver(line.report())
        line.rows()
    log = record.snapshot()
    for worker in range(2):
        mine = log.size_bytes[log.worker == worker]
        assert len(np.unique(mine)) == len(mine)
    assert len(log) + record.counts().lost == sum(line.fired for line in lines)
    lines[0].receiver.close()
