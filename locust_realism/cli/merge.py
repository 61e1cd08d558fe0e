"""``locust-realism merge``: recordings of several workers, or parts of a run, as one file in launch order."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace

import numpy as np

from locust_realism.cli.export import add_file_options, write
from locust_realism.cli.shared import CommandError, load
from locust_realism.recording.launches import LaunchLog

EPILOG = """\
Directories of one run, the master's and its workers', are merged with each launch once.
With --workers each FILE is the recording of one worker (or one JMeter engine). Its launches get the file's position as
their worker, so that user slots of different files are different users. The clocks of their machines must agree:
offsets larger than a tenth of the mean time between launches hide bunches that the workers share.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``merge``."""
    add_file_options(parser)
    parser.add_argument("--workers", action="store_true", help="each FILE is one worker")


def run(options: argparse.Namespace) -> int:
    """Read all files, sort their launches, write one file."""
    if len({path.resolve() for path in options.files}) < len(options.files):
        raise CommandError("the same FILE is given twice: its requests would count twice")
    if all(path.is_dir() for path in options.files):
        # A directory names the worker that wrote it; the master's holds the rows of the workers, too.
        return write(load(options.files).sorted_by_launch(), options)
    logs = [load([path]) for path in options.files]
    if options.workers:
        logs = [replace(log, worker=np.full(len(log), index, dtype=np.int32)) for index, log in enumerate(logs)]
        if max(int(log.launch_us.min()) for log in logs) > min(int(log.launch_us.max()) for log in logs):
            text = "the files do not overlap in time, so they are not of one run"
            print(f"locust-realism: warning: {text}", file=sys.stderr)
    return write(LaunchLog.concat(logs).sorted_by_launch(), options)
