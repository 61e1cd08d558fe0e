"""``locust-realism compare``: differences between runs with confidence intervals."""

from __future__ import annotations

import argparse
import contextlib
import sys
from pathlib import Path
from typing import TextIO

from locust_realism.analysis.compare.comparison import compare
from locust_realism.analysis.compare.difference import MORE, SLOWER
from locust_realism.analysis.compare.groups import Side
from locust_realism.analysis.document import Comparison
from locust_realism.analysis.thresholds import evaluate_thresholds
from locust_realism.analysis.window import steady_rows
from locust_realism.cli import shared
from locust_realism.cli.analyze import add_window_options, analyze, print_results, settings_of, threshold_row
from locust_realism.common.json import to_json_safe
from locust_realism.report.compare_page import COMPARISON_CSV, render_compare_page, render_comparison
from locust_realism.report.csv_tables import csv_text
from locust_realism.report.terminal import Screen

EPILOG = """\
A SIDE is one recording, or several repeated runs of the same plan separated by commas; NAME=FILES names it:
  locust-realism compare tomcat=t1.parquet,t2.parquet jboss=j1.parquet,j2.parquet
The first side is the baseline. With one run a side the intervals cover the chance within a run only: another run of
the same plan may differ by more. Repeat the runs if it matters: two runs a side show more than one, and from five
on the intervals cover the differences between runs.

Exit status: 0 no side slower or failing more often, 1 one is (or a threshold is true), 3 the loads were not comparable.
"""
SINGLE_RUN = "A side with one run: its intervals do not cover the differences between runs of the same plan."


def share(text: str) -> float:
    """Return a share such as 5% or 0.05, in [0, 1).

    >>> share("5%"), share("0.1")
    (0.05, 0.1)
    """
    with contextlib.suppress(ValueError):
        value = float(text.rstrip("% ")) / (100 if text.rstrip().endswith("%") else 1)
        if 0 <= value < 1:
            return value
    raise argparse.ArgumentTypeError(f"{text!r} must be a share such as 5% or 0.05, less than 100%")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``compare``."""
    parser.add_argument("sides", nargs="+", metavar="SIDE")
    add_window_options(parser)
    add = parser.add_argument_group("comparison").add_argument
    tolerance = "a difference counts only beyond this share of the baseline (0)"
    add("--tolerance", type=share, default=0.0, metavar="SHARE", help=tolerance)
    # The intervals within each run keep their own confidence.
    text = "of all intervals together (95%%)"
    add("--confidence", dest="together", type=share, default=0.95, metavar="SHARE", help=text)
    add("--force", action="store_true", help="conclude even if the loads were not comparable")
    shared.add_output_options(parser)
    shared.add_threshold_options(parser)


def run(options: argparse.Namespace) -> int:
    """Read all sides, compare them and print the differences."""
    if len(options.sides) < 2:
        raise shared.CommandError("one SIDE is given, expected a baseline and at least one other")
    gate = shared.given_thresholds(options)
    sides = [_side(text, options) for text in options.sides]
    names = [side.name for side in sides]
    if twice := [name for name in names if names.count(name) > 1]:
        raise shared.CommandError(f"two sides are called {twice[0]!r}; name them as NAME=FILE")
    confidence, rule = options.together, options.percentile_rule
    with shared.command_errors(), shared.progress("comparing") as advance:
        document = compare(sides, confidence=confidence, tolerance=options.tolerance, rule=rule, progress=advance)
    document["warnings"] = [SINGLE_RUN] if any(len(side.logs) == 1 for side in sides) else []
    results = [
        (side.name, result)
        for side in sides[1:]
        for summary in side.summaries
        for result in evaluate_thresholds(gate, summary)
    ]
    document["thresholds"] = [{"name": name, **threshold_row(result)} for name, result in results]
    found: Comparison = to_json_safe(document)
    if options.html:
        shared.write_text(render_compare_page(found, force=options.force), options.html)
    with shared.output(options.output) as stream:
        _print(found, options, stream)
    print_results([result for _, result in results], sys.stderr if options.format != "table" else sys.stdout)
    return exit_status(found, force=options.force)


def _side(text: str, options: argparse.Namespace) -> Side:
    """Return one side: the logs of its files, each cut to its window, and their summaries."""
    name, _, files = text.rpartition("=")
    paths = [Path(part) for part in files.split(",") if part]
    if Path(text).exists():
        name, paths = "", [Path(text)]
    if not paths:
        raise shared.CommandError(f"SIDE {text!r} names no file, expected FILE[,FILE...] or NAME=FILE[,FILE...]")
    settings = settings_of(options, charts=False)
    logs, summaries = [], []
    for path in paths:
        log, summary = analyze([path], settings)
        window = summary["window"]
        # The summary contains the cut of MSER-5; launch times can be equal at a cut, therefore rows decide.
        exact = slice(window["cut_start"], len(log) - window["cut_end"]) if "cut_start" in window else None
        logs.append(log.take(exact or steady_rows(log, settings)))
        summaries.append(summary)
    return Side(name or ", ".join(path.stem for path in paths), tuple(logs), tuple(summaries))


def exit_status(found: Comparison, *, force: bool) -> int:
    """Return 1 if a threshold is true or a side slower or failing more often, 3 if loads differed, else 0."""
    if any(result["failed"] for result in found.get("thresholds", [])):
        return 1
    candidates = found["candidates"]
    if not force and any(each["alike"]["status"] == "refused" for each in candidates):
        return 3
    slower = [row["verdict"] == SLOWER for each in candidates for row in each["rows"] if row["label"] == "Aggregated"]
    return int(any(slower) or any(each["failures"]["verdict"] == MORE for each in candidates))


def _print(found: Comparison, options: argparse.Namespace, stream: TextIO) -> None:
    if options.format == "json":
        shared.write_json(found, stream)
    elif options.format == "csv":
        rows = [{"candidate": each["name"], **row} for each in found["candidates"] for row in each["rows"]]
        stream.write(csv_text(COMPARISON_CSV, rows))
    else:
        print(render_comparison(found, Screen.of(stream), force=options.force), file=stream)
