"""Blocks from worker to master: exact under duplicates, gaps, Reset and new runs; damage costs only its own rows."""

from __future__ import annotations

import random
import time
from typing import Any

import gevent
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from locust_realism.recording.columns import pack, pack_table, to_table, unpack
from locust_realism.recording.launches import MISSING
from locust_realism.recording.offsets import ClockLine
from locust_realism.recording.store import LiveRecord
from locust_realism.runtime.capture import transport
from locust_realism.runtime.capture.recorder import Recorder
from locust_realism.runtime.capture.transport import PATIENCE_REPORTS, BlockReceiver, BlockSender
from locust_realism.runtime.coordination.clock import Clock
from locust_realism.runtime.wire import ROWS, RowsData, WireError, check


class Line:
    """One worker and a master with a line between that a test disturbs; rows are numbered by their size."""

    def __init__(self, record: LiveRecord | None = None, worker: int = 0) -> None:
        self.recorder = Recorder(Clock())
        self.sender = BlockSender(self.recorder)
        self.record = LiveRecord(max_rows=100_000) if record is None else record
        self.requested: list[list[int]] = []
        self.unreadable: list[str] = []
        self.receiver = BlockReceiver(
            self.record,
            worker_index=lambda client: int(client[1:]),
            request_again=self._request,
            refuse=lambda client, error: self.unreadable.append(str(error)),
        )
        self.client = f"w{worker}"
        self.fired = 0
        self.sender.start_run()

    def _request(self, client: str, numbers: list[int]) -> None:
        self.requested.append(numbers)
        self.sender.send_again(numbers)

    def fire(self, n: int) -> None:
        for _ in range(n):
            self.recorder.listener(request_type="GET", name="/", response_time=1.0, response_length=self.fired)
            self.fired += 1

    def report(self) -> RowsData:
        return self.sender.part()

    def deliver(self, part: RowsData) -> None:
        self.receiver.receive(self.client, check(part, ROWS.schema, ROWS.name))

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
    assert line.record.counts().lost == 0


def test_a_report_that_comes_twice_counts_once(line: Line) -> None:
    line.fire(5)
    report = line.report()
    line.deliver(report)
    line.deliver(report)
    assert line.rows() == list(range(5))


def test_a_lost_report_is_requested_and_sent_again(line: Line) -> None:
    line.fire(3)
    line.deliver(line.report())
    line.fire(3)
    line.report()
    line.fire(3)
    line.deliver(line.report())
    assert line.requested == [[1]]
    line.deliver(line.report())
    assert sorted(line.rows()) == list(range(9))
    assert line.record.counts().lost == 0


def test_a_report_without_rows_reveals_the_loss_of_the_one_before(line: Line) -> None:
    """Reports without new rows still have the number of rows so far."""
    line.fire(3)
    line.report()
    line.deliver(line.report())
    assert line.requested == [[0]]
    line.deliver(line.report())
    assert line.rows() == [0, 1, 2]


def test_rows_that_the_worker_no_longer_keeps_are_counted_as_lost(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
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
    report["blocks"][0]["data"] = b"PAR1 nonsense"
    line.deliver(report)
    line.fire(2)
    line.deliver(line.report())
    assert line.rows() == [3, 4]
    assert len(line.unreadable) == 1
    assert line.record.counts().lost == 3
    assert [peer.lost for peer in line.receiver.peers.values()] == [3]


def test_a_block_with_other_rows_than_it_states_costs_those(line: Line) -> None:
    line.fire(3)
    report = line.report()
    report["blocks"][0]["rows"] = report["rows"] = report["recorded"] = 4
    line.deliver(report)
    assert line.rows() == []
    assert "expected 3" in line.unreadable[0]
    assert line.record.counts().lost == 4


def test_a_report_full_of_junk_is_refused_after_a_few_blocks(line: Line, capfd: pytest.CaptureFixture[str]) -> None:
    line.fire(1)
    report = line.report()
    (block,) = report["blocks"]
    report["blocks"] = [{**block, "number": k, "first": k, "data": b"junk"} for k in range(100)]
    line.deliver({**report, "next": 100, "rows": 100, "recorded": 100})
    assert line.rows() == []
    assert len(line.unreadable) == transport.MAX_REFUSED
    assert line.record.counts().lost == 100
    assert "Traceback" not in capfd.readouterr().err, "gevent prints what leaves a native thread"


@pytest.mark.parametrize(
    ("name", "value"),
    [("recorded", 1 << 52), ("recorded", 4), ("dropped", 1 << 52), ("errors", 1 << 52), ("bad_start_times", 1 << 52)],
)
def test_counts_that_cannot_follow_the_last_report_are_refused(line: Line, name: Any, value: int) -> None:
    line.fire(3)
    line.deliver(line.report())
    line.fire(2)
    report = line.report()
    with pytest.raises(WireError, match=f"{name} is {value}"):
        line.deliver({**report, name: value})
    line.deliver(report)
    assert line.rows() == list(range(5))


DAY_S = 86_400


@pytest.mark.parametrize("ahead_s", [-2 * DAY_S, 2 * DAY_S, 85 * 365 * DAY_S])
def test_a_block_with_a_row_of_another_time_is_refused(line: Line, ahead_s: int) -> None:
    line.fire(2)
    report = line.report()
    log = unpack(report["blocks"][0]["data"])
    log.launch_us[1] += ahead_s * 10**6
    report["blocks"][0]["data"] = pack(log)
    line.deliver(report)
    assert line.rows() == []
    assert "launch_us is" in line.unreadable[0]
    assert line.record.counts().lost == 2


@pytest.mark.parametrize(("ahead_s", "measured"), [(-DAY_S + 60, False), (DAY_S - 60, False), (3 * DAY_S, True)])
def test_rows_of_a_worker_with_a_wrong_clock_are_kept(line: Line, ahead_s: int, measured: bool) -> None:
    """A clock may be wrong by a day, and by more where its offset is known."""
    offset = ClockLine(offset_us=-ahead_s * 1e6, sd_us=100.0, probes=9)
    line.receiver._clock_lines = lambda: {0: offset} if measured else {}
    line.recorder.clock = Clock(wall=lambda: time.time() + ahead_s)
    line.fire(2)
    line.deliver(line.report())
    assert line.rows() == [0, 1]


def test_a_response_time_in_another_unit_does_not_cost_the_block(line: Line) -> None:
    """200 ms as nanoseconds would put the launch two days before the run."""
    line.recorder.listener(request_type="GET", name="/", response_time=2e8, response_length=0)
    line.fired = 1
    line.fire(1)
    line.deliver(line.report())
    rows, response = line.rows(), line.record.snapshot().response_us.tolist()
    assert sorted(zip(rows, response, strict=True)) == [(0, MISSING), (1, 1000)]


@pytest.mark.parametrize("name", ["launch_us", "status", "method"])
def test_a_block_with_nulls_is_refused(line: Line, name: str) -> None:
    line.fire(2)
    report = line.report()
    table = to_table(unpack(report["blocks"][0]["data"]))
    column = table.column(name).to_pylist()
    nulls = pa.array([None, *column[1:]], type=pa.string() if name == "method" else table.schema.field(name).type)
    report["blocks"][0]["data"] = pack_table(table.set_column(table.column_names.index(name), name, nulls))
    line.deliver(report)
    assert line.rows() == []
    assert f"{name} has 1 nulls" in line.unreadable[0]
    assert line.record.counts().lost == 2


def test_a_new_run_resets_both_sides(line: Line) -> None:
    line.fire(5)
    line.deliver(line.report())
    line.fire(2)
    line.receiver.start_run()
    line.sender.start_run()
    line.fire(3)
    line.deliver(line.report())
    assert line.rows() == [7, 8, 9]
    assert line.requested == []


def test_reset_on_the_worker_marks_unreported_rows(line: Line) -> None:
    line.fire(3)
    line.sender.reset()
    line.fire(2)
    line.record.mark_reset()
    line.deliver(line.report())
    assert line.rows() == list(range(5))
    assert line.record.snapshot(since_reset=True).size_bytes.tolist() == [3, 4]


def test_reset_on_the_master_marks_queued_rows(line: Line) -> None:
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
def test_the_balance_closes_on_any_line(seed: int) -> None:
    """Two workers, reports lost, doubled and late: arrived + lost = fired, and no row twice."""
    rng = random.Random(seed)
    record = LiveRecord(max_rows=10_000)
    lines = [Line(record, worker) for worker in range(2)]
    for line in lines:
        line.receiver = lines[0].receiver
        line.receiver._request_again = lambda client, numbers: lines[int(client[1:])].sender.send_again(numbers)
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
