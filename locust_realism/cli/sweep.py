"""``locust-realism sweep``: a scenario over a grid of users, think times, seeds and servers."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from locust_realism.cli.base import Command, CommandError, integers, reason, terminal_width
from locust_realism.cli.sweep_progress import OVERHEAD_S, SweepProgress, clock
from locust_realism.experiments.located import PlanError
from locust_realism.experiments.plan import Plan
from locust_realism.experiments.plan_reading import plan_of_options, read_plan
from locust_realism.experiments.runner import BusyError, missing, rows_in_order, sweep
from locust_realism.report.text import wants_color, wants_unicode
from locust_realism.web.exports import csv_text

EPILOG = """\
PLAN is a YAML file (docs/experiments.md; ready ones in scenarios/plans); options win over what it says. Without one:
  locust-realism sweep -f scenarios/webdav.py --users 5,10,20 --think-time 500ms,1s --repetitions 3 --steady 30s

What is done stays done: after Ctrl-C, a crash or kill -9 the same command goes on where it was. Each run is a Locust of
its own. Results are results.parquet, a row a run, and index.html, a page that opens offline.
"""


PLAIN = (
    "host", "think_option", "repetitions", "warm_up", "steady", "cool_down", "processes", "spawn_rate", "order_seed",
)  # fmt: skip
"""Keys of a plan that are options as they are."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Options of ``sweep``."""
    parser.add_argument("plan", nargs="?", type=Path, metavar="PLAN")
    parser.add_argument("--full", action="store_true", help="the article's own length, as the plan's key full has it")
    parser.add_argument("-o", "--output", type=Path, metavar="DIR", help="directory of the results (sweeps/NAME)")
    parser.add_argument("--list", action="store_true", help="print the runs in their order and how long they take")
    parser.add_argument("--page", action="store_true", help="run nothing: write the page of what is done")
    parser.add_argument(
        "--format", choices=("table", "json", "csv"), default="table", help="of the cells that are printed (table)"
    )
    grid = parser.add_argument_group("plan", "its keys as options; lists are separated by commas")
    grid.add_argument("-f", "--scenario", metavar="FILE", help="the locustfile")
    grid.add_argument("--host", metavar="URL", help="the server; without one the scenario's embedded target")
    grid.add_argument("--users", type=integers, metavar="LIST", help="numbers of users, such as 1-10,15-50:5")
    grid.add_argument("--think-time", metavar="LIST", help="mean think times, such as 5ms,25ms,1s")
    grid.add_argument("--think-option", metavar="OPTION", help="the scenario's option for it (--think-time)")
    grid.add_argument("--seeds", metavar="LIST", help="seeds, such as 1,2,3: each is a column of the grid (1)")
    grid.add_argument(
        "--repetitions", type=int, metavar="N", help="how often everything is run, each with other waits (1)"
    )
    grid.add_argument("--warm-up", metavar="TIME", help="left out at the start of each run (5s)")
    grid.add_argument("--steady", metavar="TIME", help="length of the part of each run that is analysed (30s)")
    grid.add_argument("--cool-down", metavar="TIME", help="left out at the end of each run (1s)")
    grid.add_argument("--processes", type=int, metavar="N", help="processes of each Locust (1)")
    grid.add_argument(
        "--spawn-rate", type=float, metavar="RATE", help="users a second (all within half of the warm-up)"
    )
    grid.add_argument("--order-seed", type=int, metavar="N", help="seed of the random order of the runs (1)")
    grid.add_argument(
        "--option", action="append", default=[], metavar="NAME=VALUE", help="an option of the scenario; several times"
    )


def changes_of(options: argparse.Namespace) -> dict[str, Any]:
    """The keys of a plan that were given as options."""
    found: dict[str, Any] = {}
    for key in PLAIN:
        if getattr(options, key) is not None:
            found[key] = getattr(options, key)
    if options.scenario is not None:
        found["scenario"] = str(Path(options.scenario).resolve())
    if options.users is not None:
        found["users"] = list(options.users)
    if options.think_time is not None:
        found["think_time"] = options.think_time.split(",")
    if options.seeds is not None:
        words = options.seeds.split(",")
        found["seeds"] = [int(word) if word.strip().isdecimal() else word for word in words]
    if options.option:
        pairs = [text.partition("=") for text in options.option]
        if any(not separator for _, separator, _ in pairs):
            raise CommandError(f"--option {options.option!r} must be NAME=VALUE")
        found["options"] = {name: value for name, _, value in pairs}
    return found


def plan_of(options: argparse.Namespace) -> Plan:
    """The plan of a command line; CommandError where there is something wrong with it."""
    try:
        if options.plan is None:
            if options.full:
                raise CommandError("--full takes the article's own length from a PLAN, and there is none")
            return plan_of_options(changes_of(options))
        return read_plan(options.plan, full=options.full, changes=changes_of(options))
    except PlanError as error:
        raise CommandError(str(error)) from None
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"cannot read {options.plan}: {reason(error)}") from None


def run(options: argparse.Namespace) -> int:
    """Run the plan, or go on with it, and write the page."""
    plan = plan_of(options)
    directory = options.output or Path("sweeps") / (plan.name + ("-full" if plan.full else ""))
    if options.list:
        return _list(plan)
    failures: dict[str, str] = {}
    stopped = False
    if options.page:
        rows = rows_in_order(plan, directory)
        left = missing(plan, rows)
    else:
        # a SIGTERM must end the Locust that is running, too, and leave what is done
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            found = sweep(plan, directory, SweepProgress())
            rows, failures, left = found.rows, found.failures, found.total - len(found.rows)
        except KeyboardInterrupt:
            rows, stopped = rows_in_order(plan, directory), True
            left = missing(plan, rows)
        except BusyError as error:
            raise CommandError(f"{error}; give another one with --output") from None
        except OSError as error:
            raise CommandError(f"cannot write to {directory}: {reason(error)}") from None
    if not rows:
        raise CommandError("no run has given figures")
    from locust_realism.experiments.page import document_of, write_document

    document = document_of(plan, rows, failures=list(failures.values()))
    write_document(document, directory / "index.html")
    _print(document, options.format)
    told = f"{len(rows)} of {len(rows) + left} runs done: {directory / 'results.parquet'}, {directory / 'index.html'}"
    # Machine formats must stay parseable.
    print(told, file=sys.stdout if options.format == "table" else sys.stderr)
    if left:
        print(f"{left} to go: the same command goes on with them", file=sys.stderr)
    return 130 if stopped else int(bool(failures))


def _print(document: Mapping[str, Any], form: str) -> None:
    """The cells of the page: a table for people, the whole document of the page as JSON, or a CSV of all figures."""
    from locust_realism.experiments.text import cell_columns, cell_lines

    if form == "json":
        json.dump(document, sys.stdout, indent=2, ensure_ascii=False, allow_nan=False)
        print()
    elif form == "csv":
        sys.stdout.write(csv_text(cell_columns(document), document["cells"]))
    else:
        color, width, unicode = wants_color(sys.stdout), terminal_width(sys.stdout), wants_unicode(sys.stdout)
        print("\n".join(cell_lines(document, color=color, width=width, unicode=unicode)))


def _list(plan: Plan) -> int:
    cells = plan.cells()
    for number, cell in enumerate(cells, 1):
        print(f"{number:4}  {cell.words}")
    print(f"{len(cells)} runs, about {clock(sum(plan.run_time_s(cell) + OVERHEAD_S for cell in cells))}")
    return 0


COMMAND = Command(configure, run, EPILOG)
