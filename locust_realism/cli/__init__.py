"""The command ``locust-realism``: figures, comparisons and conversions of recorded runs, without a running Locust.

Each subcommand is a :class:`Command` in a module of this package; COMMANDS is the table of them. A module is imported
only when its command is asked for, so that ``locust-realism --help`` is immediate.

Exit status: 0 done, 1 a threshold or comparison failed, 2 wrong usage or a file that cannot be read.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

from locust_realism.cli.base import Command, CommandError

COMMANDS: dict[str, str] = {
    "analyze": "launch pattern, exact percentiles, verdict and capacity of a recorded run",
    "compare": "whether one run is faster than another, beyond what chance explains",
    "fit": "arrivals, sessions, think times and requests as a server's access log has them",
    "export": "convert a recording to another format",
    "merge": "put the recordings of several workers or parts into one",
    "sweep": "run a scenario over a grid of users, think times, seeds and servers",
}
"""Name of each subcommand and its line in the help; ``COMMAND`` of module ``locust_realism.cli.<name>`` is the rest."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
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
        # The reader, such as head, has closed the pipe: nothing is wrong, and Python must not complain at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130


def build_parser(wanted: str | None = None) -> argparse.ArgumentParser:
    """The parser with all subcommands; only the options of ``wanted`` are filled in."""
    parser = argparse.ArgumentParser(
        prog="locust-realism", description="Show with exact figures whether a load test behaved like real users."
    )
    parser.add_argument("--version", action="version", version=f"locust-realism {_version()}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, line in COMMANDS.items():
        sub = commands.add_parser(name, help=line, description=line[0].upper() + line[1:] + ".")
        if name == wanted:
            command: Command = import_module(f"locust_realism.cli.{name}").COMMAND
            command.configure(sub)
            sub.formatter_class = argparse.RawDescriptionHelpFormatter
            sub.epilog = command.epilog
            sub.set_defaults(run=command.run)
    return parser


def _version() -> str:
    try:
        return version("locust_realism")
    except PackageNotFoundError:
        return "unknown"
