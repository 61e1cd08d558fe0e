"""Command ``locust-realism``: figures, comparisons and conversions of recorded runs, without a running Locust.

COMMANDS lists the subcommands. The module of its name, with ``configure`` (adds the options), ``run`` (returns the exit
status) and ``EPILOG``, is imported only for its command, so that ``locust-realism --help`` is immediate.

Exit status: 0 done, 1 a threshold or comparison failed, 2 wrong usage or an unreadable file.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

from locust_realism.cli.shared import CommandError

COMMANDS: dict[str, str] = {
    "analyze": "launch pattern, exact percentiles, verdict and capacity of a recorded run",
    "compare": "differences between runs that are larger than chance explains",
    "fit": "arrivals, sessions, think times and requests from a server's access log",
    "export": "convert a recording to another format",
    "merge": "merge the recordings of several workers or parts into one",
    "sweep": "run a scenario over a grid of users, think times, seeds and servers",
}
"""Name of each subcommand, which is its module in this package too, and its line of help."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    parser = build_parser(next((word for word in arguments if word in COMMANDS), None))
    try:
        options = parser.parse_args(arguments)
        status: int = options.run(options)
        sys.stdout.flush()
        return status
    except CommandError as error:
        print(f"locust-realism: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # A reader such as head has closed the pipe: this is no error, and Python must not print one at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130


def build_parser(selected: str | None = None) -> argparse.ArgumentParser:
    """Return the parser of all subcommands, with the options of ``selected`` only."""
    parser = argparse.ArgumentParser(
        prog="locust-realism", description="Show with exact figures whether a load test behaved like real users."
    )
    parser.add_argument("--version", action="version", version=f"locust-realism {_version()}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, line in COMMANDS.items():
        sub = commands.add_parser(name, help=line, description=line[0].upper() + line[1:] + ".")
        if name == selected:
            command = import_module(f"locust_realism.cli.{name}")
            command.configure(sub)
            sub.formatter_class = argparse.RawDescriptionHelpFormatter
            sub.epilog = command.EPILOG
            sub.set_defaults(run=command.run)
    return parser


def _version() -> str:
    try:
        return version("locust_realism")
    except PackageNotFoundError:
        return "unknown"
