"""Blocks that another process sent: bounded before they are decompressed, and refused with a ValueError only."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from locust_realism.recording.columns import FILE_COLUMNS, VERSION_KEY, pack, pack_table, to_table, unpack, unpack_table
from locust_realism.recording.health import HealthLog
from locust_realism.recording.launches import MISSING, LaunchLog
from locust_realism.recording.reading import part_files
from locust_realism.recording.sessions import SessionLog
from locust_realism.recording.spool import Spool

MAX_BYTES = 1 << 20


def typical_log(n: int = 500) -> LaunchLog:
    launch = 1_764_000_000_000_000 + np.arange(n) * 1000
    return LaunchLog.build(launch, launch % 7000, names=[f"page {k % 7}" for k in range(n)], failed=launch % 9 == 0)


def block_of(table: pa.Table, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", **options)
    return bytes(memoryview(sink.getvalue()))


def replaced(name: str, values: pa.Array) -> pa.Table:
    """Return a typical table with another column in place of one."""
    table = to_table(typical_log(len(values)))
    return table.set_column(table.column_names.index(name), name, values)


def test_bounded_unpack_returns_the_same_rows() -> None:
    log = typical_log()
    rows, expected = unpack(pack(log), max_bytes=MAX_BYTES), unpack(pack(log))
    assert rows.to_pandas().equals(expected.to_pandas())
    assert len(unpack(pack(LaunchLog.empty()), max_bytes=MAX_BYTES)) == 0


def test_block_of_a_worker_without_tasks_is_read() -> None:
    table = to_table(typical_log()).drop_columns(["task", "think_us"]).replace_schema_metadata({VERSION_KEY: b"1"})
    log = unpack(pack_table(table), max_bytes=MAX_BYTES)
    assert log.launch_us.tolist() == typical_log().launch_us.tolist()
    assert set(log.task.tolist()) == set(log.think_us.tolist()) == {MISSING}


def test_bounded_tables_of_sessions_and_health_return_the_same_rows() -> None:
    sessions = SessionLog.build([1, 2], [3, 4], user_class=["Buyer", "Reader"], ending="ran out", slot=[0, 1])
    table = unpack_table(pack_table(sessions.to_table()), max_bytes=MAX_BYTES)
    assert SessionLog.from_table(table).rows() == sessions.rows()
    health = HealthLog.of([(5, 0, 3, 1 << 20, 900, 800, 0.25, 0.5)])
    table = unpack_table(pack_table(health.to_table()), max_bytes=MAX_BYTES)
    assert HealthLog.from_table(table).cpu.tolist() == [0.25]


def test_parts_that_an_interrupted_recorder_left_are_within_the_bounds(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    for _ in range(40):  # more than MERGE_AT: one part is a merged one
        spool.add(pack(typical_log(100)), 100)
        spool.flush()
    parts = [unpack(path.read_bytes(), max_bytes=8 * MAX_BYTES) for path in part_files(tmp_path)]
    assert max(map(len, parts)) > 100
    assert LaunchLog.concat(parts).launch_us.tolist() == typical_log(100).launch_us.tolist() * 40


def test_bound_covers_every_value_of_every_row() -> None:
    block = pack(typical_log(5000))
    assert len(unpack(block, max_bytes=5000 * len(FILE_COLUMNS) * 16)) == 5000
    with pytest.raises(ValueError, match="unfolds to more than"):
        unpack(block, max_bytes=5000 * len(FILE_COLUMNS) * 8)


def repeated_text() -> bytes:
    """Return a dictionary of one text of 100 kB for 5,000 rows: 500 MB if written out."""
    names = pa.DictionaryArray.from_arrays(pa.array(np.zeros(5000, np.int32)), pa.array(["x" * 100_000]))
    return block_of(replaced("name", names))


def many_rows() -> bytes:
    """Return fifty million equal rows in run lengths: 400 MB a column."""
    column = pa.array(np.zeros(50_000_000, np.int64))
    return block_of(pa.table({"launch_us": column}), row_group_size=50_000_000)


def compressed_text() -> bytes:
    """Return a text of 200 MB of one letter, in kilobytes of zstd."""
    return block_of(replaced("message", pa.array(["x" * 200_000_000])), use_dictionary=False)


def repeated_prefixes() -> bytes:
    """Return texts that repeat the preceding one: DELTA_BYTE_ARRAY stores only the differences."""
    table = replaced("message", pa.array(["x" * 100_000] * 5000))
    return block_of(table, use_dictionary=False, column_encoding={"message": "DELTA_BYTE_ARRAY"})


def one_row_of_a_list() -> bytes:
    """Return one row with a list of 10 million elements, which the number of rows does not bound."""
    return block_of(pa.table({"launch_us": pa.array([np.zeros(10_000_000, np.int64)])}))


@pytest.mark.parametrize("bomb", [many_rows, compressed_text, repeated_prefixes, one_row_of_a_list])
def test_bomb_is_refused_before_its_memory_is_allocated(bomb: Callable[[], bytes]) -> None:
    block = bomb()
    assert len(block) < MAX_BYTES
    before = pa.default_memory_pool().max_memory()
    tracemalloc.start()
    with pytest.raises(ValueError, match=r"^[^\n]{1,200}$"):
        unpack(block, max_bytes=MAX_BYTES)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * MAX_BYTES
    assert pa.default_memory_pool().max_memory() == before


def test_text_in_a_dictionary_is_not_written_out_for_each_row() -> None:
    block = repeated_text()
    before = pa.total_allocated_bytes()
    log = unpack(block, max_bytes=2 * MAX_BYTES)
    assert len(log.labels) == 1
    assert pa.total_allocated_bytes() - before < 4 * MAX_BYTES


def test_footer_that_understates_its_pages_is_refused() -> None:
    """Arrow allocates by the page headers, not by the footer."""
    block = bytearray(compressed_text())
    footer = pq.read_metadata(pa.BufferReader(block))
    column = next(
        c for k in range(len(FILE_COLUMNS)) if (c := footer.row_group(0).column(k)).path_in_schema == "message"
    )

    def varint(value: int) -> bytes:
        value, out = value << 1, bytearray()
        while value > 0x7F:
            out.append(value & 0x7F | 0x80)
            value >>= 7
        return bytes([*out, value])

    claimed = varint(column.total_uncompressed_size)
    start = len(block) - 8 - int.from_bytes(block[-8:-4], "little")
    assert block.count(claimed, start) >= 1
    block[start:] = block[start:].replace(claimed, varint(1 << 27)[: len(claimed) - 1] + b"\x01")
    with pytest.raises(ValueError, match="unfolds to more than"):
        unpack(bytes(block), max_bytes=MAX_BYTES)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (replaced("launch_us", pa.array(["soon"])), "launch_us is of type"),
        (replaced("launch_us", pa.array([float("nan")])), "launch_us is of type double"),
        (replaced("launch_us", pa.array([2**60])), "launch_us is in"),
        (replaced("response_us", pa.array([-2])), "response_us is in"),
        (replaced("users", pa.array([2**31 - 1], pa.int32())), "users is in"),
        (replaced("slot", pa.array([2**40])), "slot is in"),
        (replaced("task", pa.array([2**52])), "task is in"),
        (replaced("task", pa.array([-2])), "task is in"),
        (replaced("task", pa.array([1e18])), "task is of type double"),
        (replaced("task", pa.array(["first"])), "task is of type"),
        (replaced("task", pa.array([None], pa.int64())), "task has 1 nulls"),
        (replaced("think_us", pa.array([2**62])), "think_us is in"),
        (replaced("think_us", pa.array([float("inf")])), "think_us is of type double"),
        (replaced("name", pa.array([b"\xff"], pa.binary())), "name"),
        (replaced("launch_us", pa.array([0], pa.timestamp("us"))), "launch_us is of type"),
        (to_table(typical_log()).drop_columns(["launch_us"]), "launch_us"),
        (to_table(typical_log()).append_column("name", pa.array(["a"] * 500)), "2 columns 'name'"),
    ],
)
def test_column_of_another_type_or_range_is_a_value_error(table: pa.Table, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        unpack(block_of(table), max_bytes=MAX_BYTES)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_block_with_changed_bytes_is_read_or_is_a_value_error(data: st.DataObject) -> None:
    block = bytearray(pack(typical_log(40)))
    for _ in range(data.draw(st.integers(1, 4))):
        block[data.draw(st.integers(4, len(block) - 1))] = data.draw(st.integers(0, 255))
    try:
        log = unpack(bytes(block), max_bytes=MAX_BYTES)
    except ValueError:
        return
    assert len(log) <= MAX_BYTES // 8
