"""What a recorded row costs on the wire, in the master, in memory, on disk and to read back.

    python benchmarks/recording.py [--rows 20000000] [--soak-only]

Four tables: bytes a row of a packed block beside plain Arrow IPC with zstd; rows a second that the master takes in,
with the longest stall of its event loop; memory and disk of a run of ``--rows`` rows fed at full speed (200000000 is a
55-hour run at 1,000 requests/s); and a JTL file of 3,421,980 rows beside pandas.read_csv in the same process.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import gevent
import gevent.monkey

gevent.monkey.patch_all()

import numpy as np  # noqa: E402
import psutil  # noqa: E402
import pyarrow as pa  # noqa: E402

from locust_realism.recording.formats import read_launches, write_launches  # noqa: E402
from locust_realism.recording.launches import Label, LaunchLog, Outcome  # noqa: E402
from locust_realism.recording.packing import pack, to_table, unpack  # noqa: E402
from locust_realism.recording.store import LiveRecord  # noqa: E402
from locust_realism.runtime.run_files import FilePlan, RunFiles  # noqa: E402
from locust_realism.runtime.transport import KEY, BlockReceiver  # noqa: E402

ARTICLE_ROWS = 3_421_980


def rows_of(n: int, first_us: int = 1_764_000_000_000_000, seed: int = 1) -> LaunchLog:
    """A worker's rows: 1,000 users, 1,000 launches/s, log-normal response times, planned launches, 20 names."""
    rng = np.random.default_rng(seed)
    launch = first_us + np.cumsum(rng.exponential(1000, n)).astype(np.int64)
    response = rng.lognormal(10, 1, n).astype(np.int64)
    order = np.argsort(launch + response)
    columns: dict[str, Any] = {
        "launch_us": launch[order],
        "planned_us": launch[order] - rng.exponential(600, n).astype(np.int64),
        "response_us": response[order],
        "first_byte_us": response[order] - rng.integers(0, 500, n),
        "size_bytes": rng.choice([512, 10_240, 100_000], n),
        "label": rng.integers(0, 20, n).astype(np.int32),
        "outcome": (rng.random(n) < 0.01).astype(np.int32),
        "slot": rng.integers(0, 1000, n).astype(np.int32),
        "worker": np.zeros(n, dtype=np.int32),
        "users": np.full(n, -1, dtype=np.int32),
        "labels": tuple(Label("GET", f"/page/{k}") for k in range(20)),
        "outcomes": (Outcome(False, 200, ""), Outcome(True, 500, "HTTPError('500 Server Error')")),
    }
    return LaunchLog(**columns)


def best_of(times: int, function: Callable[[], Any]) -> float:
    """Least seconds of several calls."""
    found = []
    for _ in range(times):
        start = time.perf_counter()
        function()
        found.append(time.perf_counter() - start)
    return min(found)


def ipc_zstd(log: LaunchLog) -> int:
    """Size of the block as an Arrow IPC stream with zstd."""
    sink, table = pa.BufferOutputStream(), to_table(log)
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return int(sink.getvalue().size)


def sizes() -> None:
    """Bytes a row."""
    print(f"{'rows a block':>14}{'packed B/row':>14}{'Arrow+zstd':>12}{'pack ms':>10}{'unpack ms':>11}")
    for n in (300, 3000, 65_536):
        log = rows_of(n)
        block = pack(log)
        pack_ms, unpack_ms = (1000 * best_of(5, f) for f in (lambda log=log: pack(log), lambda b=block: unpack(b)))
        print(f"{n:14,}{len(block) / n:14.2f}{ipc_zstd(log) / n:12.2f}{pack_ms:10.2f}{unpack_ms:11.2f}")


def ingest(workers: int = 50, reports: int = 10, rows: int = 12_000) -> None:
    """Rows a second at the master, and the longest stall meanwhile."""
    record = LiveRecord(lock=gevent.monkey.get_original("threading", "Lock")())
    receiver = BlockReceiver(record, worker_index=lambda client: int(client), ask_again=lambda *_: None)
    blocks = [pack(rows_of(rows, seed=seed)) for seed in range(8)]
    longest = [0.0]

    def watch() -> None:
        last = time.perf_counter()
        while True:
            gevent.sleep(0.001)
            longest[0], last = max(longest[0], time.perf_counter() - last), time.perf_counter()

    watcher = gevent.spawn(watch)
    gevent.sleep(0.05)
    start = time.perf_counter()
    for report in range(reports):
        for worker in range(workers):
            block = {
                "number": report,
                "first": report * rows,
                "rows": rows,
                "before_reset": False,
                "data": blocks[(report + worker) % len(blocks)],
            }
            part = {"run": 1, "blocks": [block], "next": report + 1, "rows": (report + 1) * rows, "errors": 0}
            part |= {"last_error": "", "bad_start_times": 0, "clock_steps": []}
            receiver.receive(str(worker), {KEY: part})
        gevent.sleep(0)
    receiver.finish()
    took = time.perf_counter() - start
    watcher.kill()
    receiver.close()
    total = workers * reports * rows
    assert record.counts().rows == total
    print(f"master: {total:,} rows of {workers} workers at {total / took:,.0f} rows/s (aim 1,000,000), ", end="")
    print(f"longest stall {longest[0] * 1000:.1f} ms (aim 20)")


def soak(rows: int, directory: Path) -> None:
    """Memory and disk of a long run at full speed."""
    block = 200_000
    logs = [rows_of(block, seed=seed) for seed in range(4)]
    process = psutil.Process()
    before = process.memory_info().rss
    record = LiveRecord(lock=gevent.monkey.get_original("threading", "Lock")())
    files = RunFiles(FilePlan(directory), "local", dict)
    files.start_run()
    peak, done, start = 0, 0, time.perf_counter()
    while done < rows:
        log = logs[(done // block) % len(logs)]
        record.append(log)
        files.add(log)
        done += block
        gevent.get_hub().threadpool.apply(files.flush)
        peak = max(peak, process.memory_info().rss - before)
    took = time.perf_counter() - start
    files.close()
    peak = max(peak, process.memory_info().rss - before)
    disk = sum(path.stat().st_size for path in directory.rglob("*.parquet"))
    print(f"soak: {done:,} rows in {took:.0f} s, {peak / 2**20:.0f} MB of memory (aim 300), ", end="")
    print(f"{disk / done:.2f} B/row on disk, {len(record.snapshot()):,} rows in memory, {files.lost_rows} lost")


def jtl(directory: Path) -> None:
    """Reading a JTL file of the article's size."""
    import pandas as pd

    path = directory / "run.jtl"
    write_launches(rows_of(ARTICLE_ROWS), path)
    ours = best_of(2, lambda: read_launches(path))
    theirs = best_of(2, lambda: pd.read_csv(path))
    print(f"JTL of {ARTICLE_ROWS:,} rows, {path.stat().st_size / 2**20:.0f} MB: ", end="")
    print(f"{ours:.2f} s (aim 3), pandas.read_csv {theirs:.2f} s without checking a row")


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=20_000_000, help="rows of the soak (default 20,000,000)")
    parser.add_argument("--soak-only", action="store_true", help="only the soak")
    options = parser.parse_args()
    with TemporaryDirectory() as name:
        # the soak comes first: memory that the others have used would hide what it needs
        soak(options.rows, Path(name) / "soak")
        if not options.soak_only:
            sizes()
            ingest()
            jtl(Path(name))
    return 0


if __name__ == "__main__":
    sys.exit(main())
