"""Cost of a recorded row on the wire, in the master and when it is read back.

    python benchmarks/recording.py

Bytes a row of a packed block beside plain Arrow IPC with zstd; rows a second that the master takes in, with the longest
stall of its event loop beside that of an idle loop; and a JTL file of 3,421,980 rows beside pandas.read_csv in the same
process. What a long run takes is in soak.py.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import gevent
import gevent.monkey

gevent.monkey.patch_all()

import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402

from locust_realism.recording.columns import pack, to_table, unpack  # noqa: E402
from locust_realism.recording.formats import read_launches, write_launches  # noqa: E402
from locust_realism.recording.launches import Label, LaunchLog, Outcome  # noqa: E402
from locust_realism.recording.store import LiveRecord  # noqa: E402
from locust_realism.runtime.capture.transport import BlockReceiver  # noqa: E402
from locust_realism.runtime.coordination.clock import Clock  # noqa: E402
from locust_realism.runtime.wire import BlockData, RowsData  # noqa: E402

ARTICLE_ROWS = 3_421_980


def rows_of(n: int, first_us: int = 1_764_000_000_000_000, seed: int = 1) -> LaunchLog:
    """Return rows of 1,000 users: 1,000 tasks/s of a request, log-normal responses, planned launches, 20 names."""
    rng = np.random.default_rng(seed)
    launch = first_us + np.cumsum(rng.exponential(1000, n)).astype(np.int64)
    response = rng.lognormal(10, 1, n).astype(np.int64)
    columns: dict[str, Any] = {
        "launch_us": launch,
        "planned_us": launch - rng.exponential(600, n).astype(np.int64),
        "response_us": response,
        "first_byte_us": np.maximum(response - rng.integers(0, 500, n), 0),
        "size_bytes": rng.choice([512, 10_240, 100_000], n),
        "label": rng.integers(0, 20, n).astype(np.int32),
        "outcome": (rng.random(n) < 0.01).astype(np.int32),
        "slot": rng.integers(0, 1000, n).astype(np.int32),
        "worker": np.zeros(n, dtype=np.int32),
        "users": np.full(n, -1, dtype=np.int32),
        "task": np.arange(n),
        "think_us": rng.exponential(1e6, n).astype(np.int64),
        "labels": tuple(Label("GET", f"/page/{k}") for k in range(20)),
        "outcomes": (Outcome(False, 200, ""), Outcome(True, 500, "HTTPError('500 Server Error')")),
    }
    return LaunchLog(**columns)


def best_of(times: int, function: Callable[[], Any]) -> float:
    """Return the least seconds of several calls."""
    found = []
    for _ in range(times):
        start = time.perf_counter()
        function()
        found.append(time.perf_counter() - start)
    return min(found)


def ipc_zstd(log: LaunchLog) -> int:
    """Return the size of the block as an Arrow IPC stream with zstd."""
    sink, table = pa.BufferOutputStream(), to_table(log)
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return int(sink.getvalue().size)


def sizes() -> None:
    """Print the bytes a row."""
    print(f"{'rows a block':>14}{'packed B/row':>14}{'Arrow+zstd':>12}{'pack ms':>10}{'unpack ms':>11}")
    for n in (300, 3000, 65_536):
        log = rows_of(n)
        block = pack(log)
        pack_ms, unpack_ms = (1000 * best_of(5, f) for f in (lambda log=log: pack(log), lambda b=block: unpack(b)))
        print(f"{n:14,}{len(block) / n:14.2f}{ipc_zstd(log) / n:12.2f}{pack_ms:10.2f}{unpack_ms:11.2f}")


def longest_stall(function: Callable[[], Any]) -> tuple[float, float]:
    """Return the seconds that a function takes, and the longest gap of the event loop meanwhile in ms."""
    longest = 0.0

    def watch() -> None:
        nonlocal longest
        last = time.perf_counter()
        while True:
            gevent.sleep(0.001)
            longest, last = max(longest, time.perf_counter() - last), time.perf_counter()

    watcher = gevent.spawn(watch)
    gevent.sleep(0.05)
    start = time.perf_counter()
    function()
    took = time.perf_counter() - start
    watcher.kill()
    return took, 1000 * longest


def ingest(workers: int = 50, reports: int = 10, rows: int = 12_000, runs: int = 5) -> None:
    """Print rows a second at the master and the longest stall: medians of several runs, idle ones in between."""
    blocks = [pack(rows_of(rows, seed=seed)) for seed in range(8)]
    found, idle = [], []
    for _ in range(runs):
        record = LiveRecord(lock=gevent.monkey.get_original("threading", "Lock")())
        of_rows = Clock(wall=lambda: 1.764e9)  # the time of the rows
        receiver = BlockReceiver(record, worker_index=int, request_again=lambda *_: None, refuse=print, clock=of_rows)
        found.append(longest_stall(partial(feed, receiver, blocks, workers, reports, rows)))
        assert record.counts().rows == workers * reports * rows
        receiver.close()
        idle.append(longest_stall(partial(gevent.sleep, found[-1][0]))[1])
    total = workers * reports * rows
    took, stall = (statistics.median(values) for values in zip(*found, strict=True))
    print(f"master: {total:,} rows of {workers} workers at {total / took:,.0f} rows/s (aim 1,000,000), ", end="")
    print(f"longest stall {stall:.1f} ms (aim 20; of an idle loop {statistics.median(idle):.1f})")


def report_of(block: BlockData) -> RowsData:
    """Return a worker's report with one block, the last of so many equal ones."""
    done = (block["number"] + 1) * block["rows"]
    return {
        "run": 1,
        "blocks": [block],
        "next": block["number"] + 1,
        "rows": done,
        "errors": 0,
        "recorded": done,
        "dropped": 0,
        "last_error": "",
        "bad_start_times": 0,
        "clock_steps": [],
    }


def feed(receiver: BlockReceiver, blocks: list[bytes], workers: int, reports: int, rows: int) -> None:
    """Feed reports of all workers, one after the other, as fast as the receiver takes them."""
    for report in range(reports):
        for worker in range(workers):
            block: BlockData = {
                "number": report,
                "first": report * rows,
                "rows": rows,
                "before_reset": False,
                "data": blocks[(report + worker) % len(blocks)],
            }
            receiver.receive(str(worker), report_of(block))
        gevent.sleep(0)
    receiver.finish()


def jtl(directory: Path) -> None:
    """Print the time to read a JTL file of the article's size."""
    import pandas as pd

    path = directory / "run.jtl"
    write_launches(rows_of(ARTICLE_ROWS), path)
    ours = best_of(2, lambda: read_launches(path))
    theirs = best_of(2, lambda: pd.read_csv(path))
    print(f"JTL of {ARTICLE_ROWS:,} rows, {path.stat().st_size / 2**20:.0f} MB: ", end="")
    print(f"{ours:.2f} s (aim 3), pandas.read_csv {theirs:.2f} s without checking a row")


def main() -> int:
    """Print the tables."""
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    with TemporaryDirectory() as name:
        sizes()
        ingest()
        jtl(Path(name))
    return 0


if __name__ == "__main__":
    sys.exit(main())
