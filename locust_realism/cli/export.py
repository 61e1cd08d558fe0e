"""``locust-realism export``: a recording, or a part of it, in another format."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from locust_realism.cli.base import Command, CommandError, Progress, load, span
from locust_realism.recording.launches import LaunchLog

EPILOG = """\
The format follows the name of OUTPUT: .parquet (all columns, about 6 bytes a request), .jtl (JMeter's CSV, for its
dashboard), .csv (one line a request).
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Options of ``export``."""
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="OUTPUT")
    parser.add_argument("--skip", type=span, default=0.0, metavar="TIME", help="leave out the start (90, 90s, 2m)")
    parser.add_argument("--duration", type=span, metavar="TIME", help="write this long after it")
    parser.add_argument("--force", action="store_true", help="replace OUTPUT where it exists")


def run(options: argparse.Namespace) -> int:
    """Read, cut, write."""
    from locust_realism.analysis.intervals import in_launch_order
    from locust_realism.analysis.settings import AnalysisSettings
    from locust_realism.analysis.window import steady_rows

    progress = Progress()
    log = in_launch_order(load(options.files, progress))
    try:
        settings = AnalysisSettings(skip_s=options.skip, duration_s=options.duration)
    except ValueError as error:
        raise CommandError(str(error)) from None
    part = log.take(steady_rows(log, settings))
    if not len(part):
        raise CommandError("no request lies in the window of --skip and --duration")
    return write(part, options.output, force=options.force, progress=progress)


def write(log: LaunchLog, path: Path, *, force: bool, progress: Progress) -> int:
    """Write a log in the format of the file's name; an existing file only with ``force``."""
    from locust_realism.recording.formats import write_launches

    if path.exists() and not force:
        raise CommandError(f"{path} exists already; --force replaces it")
    with progress.step(f"writing {path.name}"):
        try:
            write_launches(log, path)
        except (OSError, ValueError) as error:
            raise CommandError(f"cannot write {path}: {error}") from None
    print(f"{len(log):,} requests written to {path}", file=sys.stderr)
    return 0


COMMAND = Command(configure, run, EPILOG)
