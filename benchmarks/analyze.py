"""The whole of ``locust-realism analyze`` on a JMeter file of 3.4 million rows: time, memory, and the parts of it.

    python benchmarks/analyze.py [--rows 3421980] [--toolkit DIR]

The command runs in a process of its own, with every check, table and curve. CPU time and the highest resident memory
are those of that process, as the kernel counts them. With ``--toolkit`` (a checkout of web-generator-toolkit; perl and
its GD module must be installed) the toolkit's Perl scripts take the same file. Exit status 1 where an aim is missed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from locust_realism.recording.formats import write_launches
from locust_realism.recording.launches import Label, LaunchLog

AIM_S = 5.0
AIM_MB = 500
EPOCH_US = 1_700_000_000_000_000
NAMES = ("010_Home", "012_Home_jpg", "020_Dept", "022_Dept_jpg", "030_Demographics", "040_Statistics")


def example(rows: int, users: int = 200, rate: float = 5706.3) -> LaunchLog:
    """A log of the article's size and rate: six names, whole milliseconds as JMeter has them, in completion order."""
    rng = np.random.default_rng(1)
    launch = np.cumsum(rng.exponential(1e6 / rate, rows)).astype(np.int64) // 1000 * 1000 + EPOCH_US
    response = np.maximum(rng.lognormal(2.5, 1.2, rows), 1).astype(np.int64) * 1000
    order = np.argsort(launch + response, kind="stable")
    empty = np.zeros(rows, dtype=np.int32)
    return LaunchLog(
        launch_us=launch[order],
        planned_us=np.full(rows, -1),
        response_us=response[order],
        first_byte_us=response[order] // 2000 * 1000,
        size_bytes=rng.integers(1000, 150_000, rows),
        label=rng.integers(0, len(NAMES), rows).astype(np.int32),
        outcome=empty,
        slot=rng.integers(0, users, rows).astype(np.int32),
        worker=empty,
        users=empty + users,
        task=np.full(rows, -1),
        think_us=np.full(rows, -1),
        labels=tuple(Label("", name) for name in NAMES),
        outcomes=LaunchLog.build([0], [0]).outcomes,
    )


def measured(command: list[str], **options: object) -> tuple[float, float, float]:
    """Wall time, CPU time in seconds and highest resident memory in MB of a command that must succeed."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, **options)  # type: ignore[call-overload]
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise RuntimeError(f"{' '.join(command)} ended with status {os.waitstatus_to_exitcode(status)}")
    return time.perf_counter() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def toolkit(directory: Path, file: Path) -> None:
    """The toolkit's two scripts on the same file, where they run."""
    scripts = (directory / "bin").resolve()
    environment = {**os.environ, "WEB_GEN_TOOLKIT": str(scripts)}
    try:
        for script, arguments in (("perf_jmeter_records_select.pl", ["0_100000"]), ("perf_arr_rt_jmeter_stats.pl", [])):
            command = ["perl", str(scripts / script), *arguments]
            wall, cpu, memory = measured(command, cwd=file.parent, env=environment)
            print(f"{script:44}{wall:8.1f} s wall{cpu:8.1f} s CPU{memory:8.0f} MB")
    except (OSError, RuntimeError) as error:
        print(f"the toolkit's scripts do not run here: {error}")


def main() -> int:
    """Write the file, analyse it, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=3_421_980)
    parser.add_argument("--write", type=Path, metavar="FILE", help="only write the example")
    parser.add_argument("--toolkit", type=Path, metavar="DIR")
    options = parser.parse_args()
    if options.write:
        write_launches(example(options.rows), options.write)
        return 0
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "run.jtl"
        # Written by a process of its own: the kernel counts a parent's memory to its children.
        subprocess.run([sys.executable, __file__, "--rows", str(options.rows), "--write", str(file)], check=True)
        print(f"{options.rows:,} rows, {file.stat().st_size / 1e6:.0f} MB of CSV")
        base = [sys.executable, "-m", "locust_realism.cli"]
        met = True
        for name, extra in (("analyze, tables", []), ("analyze, JSON with all curves", ["--format", "json"])):
            wall, cpu, memory = measured([*base, "analyze", str(file), *extra])
            print(f"{name:44}{wall:8.1f} s wall{cpu:8.1f} s CPU{memory:8.0f} MB", flush=True)
            met &= cpu <= AIM_S and memory <= AIM_MB
        if options.toolkit:
            csv = file.with_suffix(".csv")
            csv.write_text("".join(line for line in file.open() if line[:1].isdigit()))
            toolkit(options.toolkit, csv)
    print(f"aims (under {AIM_S:.0f} s of CPU and {AIM_MB} MB): " + ("met" if met else "MISSED"))
    return int(not met)


if __name__ == "__main__":
    sys.exit(main())
