"""``locust-realism merge``: the recordings of several workers, or of parts of a run, as one file in launch order."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from locust_realism.cli.base import Command, CommandError, Progress, load
from locust_realism.cli.export import write
from locust_realism.recording.launches import LaunchLog

EPILOG = """\
Directories that a run's master and workers have written are put together as they belong, each launch once.
With --workers each FILE is what one worker (or one JMeter engine) recorded: its launches get the file's position as
their worker, so that user slots of different files are different users. The clocks of their machines must agree:
offsets larger than a tenth of the mean time between launches hide bunches that the workers share.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Options of ``merge``."""
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="OUTPUT")
    parser.add_argument("--workers", action="store_true", help="each FILE is one worker")
    parser.add_argument("--force", action="store_true", help="replace OUTPUT where it exists")


def run(options: argparse.Namespace) -> int:
    """Read all, put them in one order, write."""
    from dataclasses import replace

    import numpy as np

    if len({path.resolve() for path in options.files}) < len(options.files):
        raise CommandError("the same FILE is given twice: its requests would count twice")
    progress = Progress()
    if all(path.is_dir() for path in options.files):
        # Recordings know which worker wrote them, and the master's holds what the workers' hold too.
        merged = load(options.files, progress).sorted_by_launch()
        return write(merged, options.output, force=options.force, progress=progress)
    logs = [load([path], progress) for path in options.files]
    if options.workers:
        logs = [replace(log, worker=np.full(len(log), index, dtype=np.int32)) for index, log in enumerate(logs)]
    spans = [(int(log.launch_us.min()), int(log.launch_us.max())) for log in logs]
    if options.workers and max(start for start, _ in spans) > min(end for _, end in spans):
        print("locust-realism: warning: the files do not overlap in time, so they are not of one run", file=sys.stderr)
    return write(LaunchLog.concat(logs).sorted_by_launch(), options.output, force=options.force, progress=progress)


COMMAND = Command(configure, run, EPILOG)
