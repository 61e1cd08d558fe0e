"""Blocks of rows: the same rows come back, blocks are small, damage is found."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from locust_realism.recording.columns import FORMAT_VERSION, VERSION_KEY, combine, from_table, pack, to_table, unpack
from locust_realism.recording.launches import ROW_DTYPES, Label, LaunchLog, Outcome

INT64 = st.integers(-(2**63), 2**63 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
TEXT = st.text(max_size=20).filter(lambda text: "\x00" not in text)


@st.composite
def logs(draw: st.DrawFn) -> LaunchLog:
    n = draw(st.integers(0, 30))
    labels = tuple(draw(st.lists(st.builds(Label, TEXT, TEXT), min_size=1, max_size=5, unique=True)))
    outcome = st.builds(Outcome, st.booleans(), INT32, TEXT)
    outcomes = tuple(draw(st.lists(outcome, min_size=1, max_size=5, unique=True)))
    rows: dict[str, Any] = {}
    for name, dtype in ROW_DTYPES.items():
        values = {"label": st.integers(0, len(labels) - 1), "outcome": st.integers(0, len(outcomes) - 1)}.get(
            name, INT64 if dtype is np.int64 else INT32
        )
        rows[name] = np.array(draw(st.lists(values, min_size=n, max_size=n)), dtype=dtype)
    return LaunchLog(**rows, labels=labels, outcomes=outcomes)


def written_out(log: LaunchLog) -> list[tuple[Any, ...]]:
    """Rows with label and outcome written out, so that logs with other tables compare equal."""
    columns = [getattr(log, name).tolist() for name in ROW_DTYPES if name not in ("label", "outcome")]
    labels = [log.labels[k] for k in log.label]
    return list(zip(*columns, labels, [log.outcomes[k] for k in log.outcome], strict=True))


@settings(max_examples=80, deadline=None)
@given(logs())
def test_unpack_returns_the_packed_rows(log: LaunchLog) -> None:
    assert written_out(unpack(pack(log))) == written_out(log)


@settings(max_examples=30, deadline=None)
@given(st.lists(logs(), max_size=4))
def test_packing_and_concatenating_commute(parts: list[LaunchLog]) -> None:
    """A master that joins blocks has the rows of a single recorder."""
    assert written_out(LaunchLog.concat(unpack(pack(part)) for part in parts)) == written_out(LaunchLog.concat(parts))


def typical_block(n: int, seed: int = 1, first_byte: bool = True) -> LaunchLog:
    """Return rows of a typical worker: Poisson launches of a task each, log-normal response times, planned launches."""
    rng = np.random.default_rng(seed)
    launch = 1_764_000_000_000_000 + np.cumsum(rng.exponential(1000, n)).astype(np.int64)
    response = rng.lognormal(10, 1, n).astype(np.int64)
    log = LaunchLog.build(
        launch,
        response,
        planned_us=launch - rng.integers(0, 2000, n),
        first_byte_us=np.where(rng.random(n) < 0.5, response // 2, -1) if first_byte else -1,
        size_bytes=rng.choice([1024, 5120, 100_000], n),
        names=[f"page {k}" for k in rng.integers(0, 8, n)],
        methods="GET",
        failed=rng.random(n) < 0.02,
        slot=rng.integers(0, 1000, n),
        task=np.arange(n),
        think_us=rng.exponential(1e6, n),
    )
    return replace(log, outcomes=(Outcome(False, 200, ""), Outcome(True, 500, "HTTPError('500 Server Error')")))


def test_a_full_row_takes_at_most_16_bytes_at_3000_rows_a_block() -> None:
    log = typical_block(3000)
    assert len(pack(log)) / 3000 <= 16
    shuffled = log.take(np.random.default_rng(2).permutation(3000))
    assert len(pack(shuffled)) / 3000 > 18, "the order of launch, in which the recorder packs, saves the rest"


def test_block_has_only_the_labels_of_its_rows() -> None:
    """A recorder's tables grow with the run; its blocks do not."""
    labels = tuple(Label("GET", f"/page/{k}") for k in range(10_000))
    log = LaunchLog(**{**vars(LaunchLog.build([1, 2], [3, 4])), "labels": labels})
    assert len(pack(log)) < 10_000
    assert unpack(pack(log)).labels == (labels[0],)


@pytest.mark.parametrize("cut", [0, 3, 100, -1, -9])
def test_damaged_block_is_a_value_error(cut: int) -> None:
    with pytest.raises(ValueError, match="not a readable Parquet block"):
        unpack(pack(typical_block(50))[:cut])


def test_later_format_is_refused_and_fewer_columns_are_read() -> None:
    table = to_table(LaunchLog.build([1, 2], [3, 4], names="home"))
    later = table.replace_schema_metadata({VERSION_KEY: str(FORMAT_VERSION + 1).encode()})
    with pytest.raises(ValueError, match=f"format version {FORMAT_VERSION + 1}, expected at most {FORMAT_VERSION}"):
        from_table(later)
    few = from_table(table.select(["name", "launch_us", "response_us"]))
    assert (few.planned_us.tolist(), few.slot.tolist(), few.worker.tolist()) == ([-1, -1], [-1, -1], [0, 0])
    with pytest.raises(ValueError, match="launch_us"):
        from_table(table.select(["name", "response_us"]))


def test_combine_by_counting_and_by_sorting_agree() -> None:
    rng = np.random.default_rng(4)
    small, large = rng.integers(0, 7, 500), rng.integers(0, 9, 500)
    counted, counted_used = combine([(small, 7), (large, 9)])
    ordered, ordered_used = combine([(small, 7), (large, 1 << 20)])
    assert counted.tolist() == ordered.tolist()
    assert counted_used.tolist() == ordered_used.tolist()
    assert (counted_used[counted] == np.stack([small, large], axis=1)).all()


def test_packing_and_unpacking_import_no_pandas() -> None:
    """A load generator imports pyarrow only: pandas would take 60 MB and stop the event loop."""
    code = (
        "import sys\n"
        "from locust_realism.recording.launches import LaunchLog\n"
        "from locust_realism.recording.columns import pack, unpack\n"
        "log = LaunchLog.build([1, 2], [3, 4], names=['a', 'b'], failed=[True, False])\n"
        "assert unpack(pack(log)).failed.tolist() == [True, False]\n"
        "print(sorted({'pandas', 'scipy', 'gevent', 'locust'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
