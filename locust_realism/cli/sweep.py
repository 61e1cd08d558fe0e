"""``locust-realism sweep``: a scenario over a grid of users, think times, seeds and servers."""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TextIO

from tqdm import tqdm

from locust_realism.cli.shared import CommandError, integers, reason, write_json
from locust_realism.common.durations import write_time_left
from locust_realism.report.csv_tables import csv_text
from locust_realism.report.terminal import Screen, clean, shorten
from locust_realism.sweep.design import Cell, Plan, Row
from locust_realism.sweep.plan_file import PlanError, plan_of_options, read_plan
from locust_realism.sweep.runner import BusyError, rows_in_order, sweep

OVERHEAD_S = 4.0
"""Seconds of a run beyond its planned time, until one has been measured."""


class SweepProgress:
    """Watcher of a sweep on standard error: a bar on a terminal, a line for each run elsewhere."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = sys.stderr if stream is None else stream
        self.total = self.done = self.measured = 0
        self.overhead_s = OVERHEAD_S
        self.ahead: list[float] = []

    def waiting(self) -> None:
        """Report that another sweep uses the directory."""
        self._line("waiting for another sweep in this directory, or for the rest of one, to end")

    def begin(self, seconds: Sequence[float], done: int) -> None:
        """Report the start: planned seconds of the runs ahead, and the number of runs done before."""
        self.ahead, self.done, self.total = list(seconds), done, done + len(seconds)
        if done:
            self._line(f"{done} of {self.total} runs are done already")

    @contextlib.contextmanager
    def run(self, cell: Cell, seconds: float) -> Iterator[None]:
        """Show a run while the block runs it."""
        text = f"{cell.words} (about {write_time_left(self.left())} to go)"
        if not self.stream.isatty():
            self._line(f"[{self.done + 1}/{self.total}] {text}")
        began, bar_format = time.monotonic(), "[{bar:30}] {n_fmt}/{total_fmt} done: {desc}"
        tqdm.monitor_interval = 0  # its thread would hold a lock while Locust's import patches threads
        with tqdm(
            desc=shorten(clean(text), 75), initial=self.done, total=self.total, bar_format=bar_format,
            file=self.stream, leave=False, disable=None,
        ):  # fmt: skip
            yield
        overhead = max(time.monotonic() - began - seconds, 0.0)
        self.measured += 1
        self.overhead_s += (overhead - self.overhead_s) / self.measured
        self.ahead, self.done = self.ahead[1:], self.done + 1

    def failed(self, cell: Cell, reason: str) -> None:
        """Report a run without figures."""
        self._line(f"no figures of {cell.words}: {reason}")

    def left(self) -> float:
        """Return the seconds of the runs ahead, overheads included."""
        return sum(self.ahead) + self.overhead_s * len(self.ahead)

    def _line(self, text: str) -> None:
        tqdm.write(clean(text) if "\n" not in text else text, file=self.stream)
        self.stream.flush()


EPILOG = """\
PLAN is a YAML file (docs/experiments.md; ready ones in scenarios/plans); options override its keys. Without one:
  locust-realism sweep -f scenarios/webdav.py --users 5,10,20 --think-time 500ms,1s --repetitions 3 --steady 30s

Finished runs stay: after Ctrl-C, a crash or kill -9 the same command continues with the missing ones. Each run is a
Locust of its own. Results are results.parquet, a row a run, and index.html, a page that opens offline.
"""


PLAIN = (
    "host", "think_option", "repetitions", "warm_up", "steady", "cool_down", "processes", "spawn_rate", "order_seed",
)  # fmt: skip
"""Keys of a plan that are options as they are."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``sweep``."""
    add = parser.add_argument
    add("plan", nargs="?", type=Path, metavar="PLAN")
    add("--full", action="store_true", help="the article's own length: the plan's key full")
    add("-o", "--output", type=Path, metavar="DIR", help="directory of the results (sweeps/NAME)")
    add("--list", action="store_true", help="print the runs in their order and their total time")
    add("--page", action="store_true", help="write the page of the finished runs and run nothing")
    add("--format", choices=("table", "json", "csv"), default="table", help="of the printed cells (table)")
    add = parser.add_argument_group("plan", "its keys as options; lists are separated by commas").add_argument
    add("-f", "--scenario", metavar="FILE", help="the locustfile")
    add("--host", metavar="URL", help="the server (the scenario's embedded target)")
    add("--users", type=integers, metavar="LIST", help="numbers of users, such as 1-10,15-50:5")
    add("--think-time", metavar="LIST", help="mean think times, such as 5ms,25ms,1s")
    add("--think-option", metavar="OPTION", help="the scenario's option for it (--think-time)")
    add("--seeds", metavar="LIST", help="seeds, such as 1,2,3: each is a column of the grid (1)")
    add("--repetitions", type=int, metavar="N", help="runs of each cell, each with other waits (1)")
    add("--warm-up", metavar="TIME", help="left out at the start of each run (5s)")
    add("--steady", metavar="TIME", help="length of the part of each run that is analysed (30s)")
    add("--cool-down", metavar="TIME", help="left out at the end of each run (1s)")
    add("--processes", type=int, metavar="N", help="processes of each Locust (1)")
    add("--spawn-rate", type=float, metavar="RATE", help="users a second (all within half of the warm-up)")
    add("--order-seed", type=int, metavar="N", help="seed of the random order of the runs (1)")
    option = "an option of the scenario; several times"
    add("--option", action="append", default=[], metavar="NAME=VALUE", help=option)


def changes_of(options: argparse.Namespace) -> dict[str, object]:
    """Return the keys of a plan that the options set."""
    found = {key: getattr(options, key) for key in PLAIN if getattr(options, key) is not None}
    if options.scenario is not None:
        found["scenario"] = str(Path(options.scenario).resolve())
    if options.users is not None:
        found["users"] = list(options.users)
    if options.think_time is not None:
        found["think_time"] = options.think_time.split(",")
    if options.seeds is not None:
        found["seeds"] = [int(word) if word.strip().isdecimal() else word for word in options.seeds.split(",")]
    if options.option:
        pairs = [text.partition("=") for text in options.option]
        if any(not separator for _, separator, _ in pairs):
            raise CommandError(f"--option {options.option!r} must be NAME=VALUE")
        found["options"] = {name: value for name, _, value in pairs}
    return found


def plan_of(options: argparse.Namespace) -> Plan:
    """Return the plan of a command line."""
    try:
        if options.plan is None:
            if options.full:
                raise CommandError("--full takes the article's own length from a PLAN; there is no PLAN")
            return plan_of_options(changes_of(options))
        return read_plan(options.plan, full=options.full, changes=changes_of(options))
    except PlanError as error:
        raise CommandError(str(error)) from None
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"cannot read {options.plan}: {reason(error)}") from None


def run(options: argparse.Namespace) -> int:
    """Run the missing runs of the plan and write the page."""
    plan = plan_of(options)
    directory = options.output or Path("sweeps") / (plan.name + ("-full" if plan.full else ""))
    if options.list:
        cells = plan.cells()
        seconds = sum(plan.run_time_s(cell) + OVERHEAD_S for cell in cells)
        lines = [f"{number:4}  {cell.words}" for number, cell in enumerate(cells, 1)]
        print(*lines, f"{len(cells)} runs, about {write_time_left(seconds)}", sep="\n")
        return 0
    failures: dict[str, str] = {}
    stopped = False
    if not options.page:
        # A SIGTERM must end the running Locust too, and leave the finished runs.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            failures = sweep(plan, directory, SweepProgress()).failures
        except KeyboardInterrupt:
            stopped = True
        except BusyError as error:
            raise CommandError(f"{error}; give another one with --output") from None
        except OSError as error:
            raise CommandError(f"cannot write to {directory}: {reason(error)}") from None
    rows = rows_in_order(plan, directory)
    if not rows:
        raise CommandError("no run has given figures")
    from locust_realism.sweep.page import document_of, write_document

    document = document_of(plan, rows, failures=list(failures.values()))
    write_document(document, directory / "index.html")
    _print(document, options.format)
    left, files = len(plan.cells()) - len(rows), f"{directory / 'results.parquet'}, {directory / 'index.html'}"
    # Machine formats must stay parseable.
    stream = sys.stdout if options.format == "table" else sys.stderr
    print(f"{len(rows)} of {len(rows) + left} runs done: {files}", file=stream)
    if left:
        print(f"{left} to go: the same command goes on with them", file=sys.stderr)
    return 130 if stopped else int(bool(failures))


def _print(document: Row, form: str) -> None:
    """Print the cells of the page: a table, the page's whole document as JSON, or every figure as CSV."""
    from locust_realism.sweep.page import cell_columns, cell_lines

    if form == "json":
        write_json(document, sys.stdout)
    elif form == "csv":
        sys.stdout.write(csv_text(cell_columns(document), document["cells"]))
    else:
        print("\n".join(cell_lines(document, Screen.of(sys.stdout))))
