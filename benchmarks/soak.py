"""Memory of runs that last for days, in minutes: rows are fed at full speed, figures are computed all the while.

    python benchmarks/soak.py [--rows 20000000] [--minutes 10]

200,000,000 rows are a 55-hour run at 1,000 requests/s. Printed are the memory of the process that leads a test (all of
it, libraries included) and of a worker, on top of what Locust alone takes (aims: 300 and 60 MB), the size on disk, how
long the exact figures of the whole run take, and whether they are those of one sort. With ``--minutes`` fifty workers
report 4,000 rows/s each for so long, and memory is printed each minute. The exit status is 1 when an aim is missed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import gevent
import gevent.monkey

gevent.monkey.patch_all()

import numpy as np  # noqa: E402
import psutil  # noqa: E402
from locust import User  # noqa: E402
from locust.env import Environment  # noqa: E402

from locust_realism.analysis.document import PERCENTILES_5  # noqa: E402
from locust_realism.analysis.percentiles import QUANTILES, percentiles  # noqa: E402
from locust_realism.analysis.verdict.evidence import Facts  # noqa: E402
from locust_realism.recording.columns import pack  # noqa: E402
from locust_realism.recording.launches import LaunchLog  # noqa: E402
from locust_realism.runtime.capture.files import FilePlan, RunFiles  # noqa: E402
from locust_realism.runtime.capture.recorder import Recorder  # noqa: E402
from locust_realism.runtime.capture.run import Recording, attach  # noqa: E402
from locust_realism.runtime.capture.transport import BlockReceiver, BlockSender  # noqa: E402
from locust_realism.runtime.coordination.clock import Clock  # noqa: E402
from locust_realism.runtime.figures.provider import RunProvider  # noqa: E402
from locust_realism.runtime.memory import configure_allocators  # noqa: E402
from locust_realism.runtime.plugin import analysis_settings  # noqa: E402
from locust_realism.runtime.wire import BlockData  # noqa: E402

sys.path.insert(0, str(Path(__file__).parent))
from recording import report_of, rows_of  # noqa: E402

BLOCK = 50_000
LOGS = 4
LOOK_ROWS = 2_000_000
"""Rows between two views of the page."""

MASTER_MB, WORKER_MB = 300, 60

LOCUST_ALONE = """
import gevent.monkey; gevent.monkey.patch_all()
from locust import User
from locust.env import Environment
Environment(user_classes=[User]).create_local_runner()
print(open("/proc/self/status").read())
"""


def megabytes(size: float) -> float:
    """Return bytes as MB."""
    return size / 2**20


def field(name: str, status: str | None = None) -> int:
    """Return a size of /proc/self/status in bytes: VmHWM is the peak, RssAnon the part that no file backs."""
    # not ru_maxrss, which a process inherits from its parent
    status = Path("/proc/self/status").read_text(encoding="ascii") if status is None else status
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith(name)) * 1024


def locust_alone() -> tuple[int, int]:
    """Return the memory of an idle Locust in bytes: all of it, and without mapped files (libraries)."""
    command = [sys.executable, "-c", LOCUST_ALONE]
    status = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return field("VmRSS", status), field("RssAnon", status)


def provider_of(environment: Environment, recording: Recording) -> RunProvider:
    """Return the figures of a recording without facts of a test."""
    return RunProvider(
        environment,
        recording,
        settings=lambda: analysis_settings(None),
        facts=Facts,
        population=dict,
        generator=dict,
        report=lambda _: "",
    )


def fed(rows: int, recording: Recording, provider: RunProvider) -> list[LaunchLog]:
    """Feed equally many copies of some logs, each later than the one before; return the logs."""
    logs = [rows_of(BLOCK, seed=seed) for seed in range(LOGS)]
    span = max(int(log.launch_us.max() - log.launch_us.min()) for log in logs) + 1000
    record, files = recording.record, recording.files
    assert record is not None
    assert files is not None
    flush, done = files.flush, 0
    while done < rows:
        log, k = logs[done // BLOCK % LOGS], done // BLOCK
        shifted = replace(log, launch_us=log.launch_us + k * span, planned_us=log.planned_us + k * span)
        record.append(shifted, to_disk=files.add)
        gevent.get_hub().threadpool.apply(flush)
        done += BLOCK
        if done % LOOK_ROWS == 0:
            provider.summary(None)
    return logs


def soak(rows: int, directory: Path) -> bool:
    """Feed a long run at full speed; return True if memory stayed in bounds and the figures are exact."""
    rows = max(rows // (LOGS * BLOCK), 1) * LOGS * BLOCK
    base, _ = locust_alone()
    environment = Environment(user_classes=[User])
    environment.create_local_runner()
    recording = attach(environment, files=FilePlan(directory))
    provider = provider_of(environment, recording)
    environment.events.test_start.fire(environment=environment)
    start = time.perf_counter()
    logs = fed(rows, recording, provider)
    fed_s, start = time.perf_counter() - start, time.perf_counter()
    found = provider.final_summary()["response_times"][-1]
    figures_s, start = time.perf_counter() - start, time.perf_counter()
    recording.detach()
    close_s = time.perf_counter() - start
    # equally many copies of each value leave every nearest rank on the same value
    expected = percentiles(np.concatenate([log.response_us for log in logs]), QUANTILES) / 1e3
    exact = found["n"] == rows and [found[key] for key in PERCENTILES_5] == expected.tolist()
    disk = sum(path.stat().st_size for path in directory.rglob("*.parquet"))
    used = megabytes(field("VmHWM") - base)
    print(f"soak: {rows:,} rows in {fed_s:.0f} s, {used:.0f} MB on top of Locust's {megabytes(base):.0f} ", end="")
    print(f"(aim {MASTER_MB}), {disk / rows:.2f} B/row on disk; merged into one file in {close_s:.0f} s")
    judged = "exact" if exact else "WRONG"
    print(f"figures of the whole run in {figures_s:.1f} s, {judged}: n, {', '.join(PERCENTILES_5)}")
    return used <= MASTER_MB and exact


def worker(rows: int, directory: Path) -> bool:
    """Record ``rows`` requests and report as at 4,000/s; return True if a worker's memory stayed in bounds."""
    base, base_own = locust_alone()
    configure_allocators()
    recorder = Recorder(Clock())
    files = RunFiles(FilePlan(directory), "worker", dict)
    files.start_run()
    sender, fire = BlockSender(recorder, files.add_packed), recorder.listener
    own = 0
    for k in range(rows):
        fire(request_type="GET", name=f"/page/{k % 20}", response_time=k % 997 + 0.123, response_length=512)
        if k % 4000 == 3999:
            sender.pack_early()
        if k % 12_000 == 11_999:
            sender.part()
            gevent.get_hub().threadpool.apply(files.flush)
            own = max(own, field("RssAnon"))
    files.close()
    own_mb, all_mb = megabytes(max(own, field("RssAnon")) - base_own), megabytes(field("VmHWM") - base)
    print(
        f"worker: {rows:,} requests, {own_mb:.0f} MB of its own on top of Locust's {megabytes(base_own):.0f} ", end=""
    )
    print(f"(aim {WORKER_MB}); {all_mb:.0f} MB with libraries, which the workers of a machine share")
    return own_mb <= WORKER_MB


def paced(minutes: float, directory: Path, workers: int = 50, per_second: int = 4000) -> bool:
    """Report for fifty workers every 3 s; return True if memory stops growing after the first fifth of the time."""
    environment = Environment(user_classes=[User])
    environment.create_local_runner()
    recording = attach(environment, files=FilePlan(directory))
    environment.events.test_start.fire(environment=environment)
    assert recording.record is not None
    assert recording.files is not None
    receiver = BlockReceiver(
        recording.record,
        worker_index=int,
        request_again=lambda *_: None,
        refuse=print,
        on_rows=recording.files.add,
        clock=Clock(wall=lambda: 1.764e9),  # the time of the rows
    )
    rows, process = 3 * per_second, psutil.Process()
    blocks = [pack(rows_of(rows, seed=seed)) for seed in range(8)]
    start, held, report = time.perf_counter(), [], 0
    while time.perf_counter() - start < 60 * minutes:
        for index in range(workers):
            data = blocks[(report + index) % 8]
            block: BlockData = {
                "number": report,
                "first": report * rows,
                "rows": rows,
                "before_reset": False,
                "data": data,
            }
            receiver.receive(str(index), report_of(block))
            gevent.sleep(max(start + 3 * (report + index / workers) - time.perf_counter(), 0.0))
        report += 1
        held.append(megabytes(process.memory_info().rss))
        if report % 20 == 0:
            print(f"  {3 * report / 60:.0f} min: {held[-1]:.0f} MB, {recording.record.counts().rows:,} rows")
    receiver.finish()
    assert recording.record.counts().rows == report * workers * rows
    receiver.close()
    recording.detach()
    settled = held[len(held) // 5 :]
    growth = float(np.mean(settled[-len(settled) // 4 :]) - np.mean(settled[: max(len(settled) // 4, 1)]))
    print(f"{workers} workers at {per_second:,} rows/s for {minutes:g} min: memory grew by {growth:+.0f} MB (aim 20)")
    return growth <= 20


def main() -> int:
    """Print the figures; 1 when an aim is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=20_000_000, help="rows of the soak (default 20,000,000)")
    parser.add_argument("--minutes", type=float, default=0, help="fifty workers in real time for so long (default 0)")
    parser.add_argument("--worker", action="store_true", help="only the worker, in this process")
    options = parser.parse_args()
    with TemporaryDirectory() as name:
        if options.worker:
            return 0 if worker(min(options.rows, 2_000_000), Path(name)) else 1
        met = soak(options.rows, Path(name) / "soak") if not options.minutes else paced(options.minutes, Path(name))
    # in a process of its own: memory that the master has used would hide what a worker needs
    again = subprocess.run([sys.executable, __file__, "--worker", "--rows", str(options.rows)], check=False)
    return 0 if met and again.returncode == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
