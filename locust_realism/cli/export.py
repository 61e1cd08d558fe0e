"""``locust-realism export``: a recording, or a part of it, in another format."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from locust_realism.cli.shared import CommandError, command_errors, from_options, load, progress
from locust_realism.common.durations import read_duration
from locust_realism.recording.launches import LaunchLog

EPILOG = """\
The format follows the name of OUTPUT: .parquet (all columns, about 9 bytes a request), .jtl (JMeter's CSV, for its
dashboard), .csv (one line a request).
"""


def add_file_options(parser: argparse.ArgumentParser) -> None:
    """Add the files in and out, which :func:`write` takes."""
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="OUTPUT")
    parser.add_argument("--force", action="store_true", help="replace an existing OUTPUT")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``export``."""
    add_file_options(parser)
    add = parser.add_argument
    add("--skip", dest="skip_s", type=read_duration, metavar="TIME", help="leave out the start (90s, 2m)")
    add("--duration", dest="duration_s", type=read_duration, metavar="TIME", help="length of the written part")


def run(options: argparse.Namespace) -> int:
    """Read the files, cut the window, write the part."""
    from locust_realism.analysis.settings import AnalysisSettings
    from locust_realism.analysis.stats.intervals import in_launch_order
    from locust_realism.analysis.window import steady_rows

    log = in_launch_order(load(options.files))
    with command_errors():
        part = log.take(steady_rows(log, from_options(AnalysisSettings, options)))
    if not len(part):
        raise CommandError("no request lies in the window of --skip and --duration")
    return write(part, options)


def write(log: LaunchLog, options: argparse.Namespace) -> int:
    """Write a log in the format of the name of --output; replace an existing file only with --force."""
    from locust_realism.recording.formats import write_launches

    path: Path = options.output
    if path.exists() and not options.force:
        raise CommandError(f"{path} exists already; --force replaces it")
    with command_errors(f"cannot write {path}"), progress(f"writing {path.name}"):
        write_launches(log, path)
    print(f"{len(log):,} requests written to {path}", file=sys.stderr)
    return 0
