"""``locust-realism compare``: whether one run is faster than another, beyond what chance explains."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from locust_realism.analysis.comparison import SLOWER, compare
from locust_realism.analysis.comparison_levels import compare_levels
from locust_realism.analysis.intervals import in_launch_order
from locust_realism.analysis.jsonable import to_json_safe
from locust_realism.analysis.recorded_facts import recorded_facts
from locust_realism.analysis.sides import Side
from locust_realism.analysis.summary import summarize
from locust_realism.analysis.thresholds import evaluate_thresholds
from locust_realism.analysis.window import steady_rows
from locust_realism.cli.analyze import add_window_options, print_results, settings_of, vars_of
from locust_realism.cli.base import (
    Command,
    CommandError,
    Progress,
    add_threshold_options,
    given_thresholds,
    load,
    output,
    terminal_width,
)
from locust_realism.report.compare_page import render_compare_page
from locust_realism.report.comparison import COMPARISON_CSV, render_comparison
from locust_realism.report.text import wants_color, wants_unicode
from locust_realism.web.exports import csv_text

EPILOG = """\
A SIDE is one recording, or several repeated runs of the same plan separated by commas; NAME=FILES names it:
  locust-realism compare tomcat=t1.parquet,t2.parquet jboss=j1.parquet,j2.parquet
The first side is the baseline. With one run a side the intervals hold the chance within a run only: another run of the
same plan may differ by more. Repeat the runs where it matters.

Exit status: 0 no side slower or failing more often, 1 one is (or a threshold is true), 3 the loads were not alike.
"""
SINGLE_RUN = "A side with one run: how far runs of the same plan differ is not known, and is not in its intervals."


def share(text: str) -> float:
    """A share such as 5% or 0.05, in [0, 1).

    >>> share("5%"), share("0.1")
    (0.05, 0.1)
    """
    try:
        value = float(text.rstrip("% ")) / (100 if text.rstrip().endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} must be a share such as 5% or 0.05, less than 100%")
    return value


def configure(parser: argparse.ArgumentParser) -> None:
    """Options of ``compare``."""
    parser.add_argument("sides", nargs="+", metavar="SIDE")
    add_window_options(parser)
    judged = parser.add_argument_group("comparison")
    judged.add_argument("--tolerance", type=share, default=0.0, metavar="SHARE",
                        help="a difference counts only beyond this share of the baseline (0)")  # fmt: skip
    judged.add_argument("--confidence", type=share, default=0.95, metavar="SHARE",
                        help="of all intervals together (95%%)")  # fmt: skip
    judged.add_argument("--force", action="store_true", help="conclude even where the loads were not alike")
    out = parser.add_argument_group("output")
    out.add_argument("--format", choices=("table", "json", "csv"), default="table", help="(table)")
    out.add_argument("-o", "--output", type=Path, metavar="FILE", help="write there and not to standard output")
    out.add_argument("--html", type=Path, metavar="FILE", help="also write one page that opens offline")
    add_threshold_options(parser)


def run(options: argparse.Namespace) -> int:
    """Read all sides, compare, print."""
    if len(options.sides) < 2:
        raise CommandError("one SIDE is given, expected a baseline and at least one other")
    gate = given_thresholds(options)
    progress = Progress()
    sides = [_side(text, options, progress) for text in options.sides]
    _distinct([side.name for side in sides])
    try:
        with progress.step("comparing"):
            found = compare(
                sides,
                confidence=options.confidence,
                tolerance=options.tolerance,
                rule=options.percentile_rule,
                progress=progress.advance,
            )
            found["levels"] = compare_levels(sides, confidence=options.confidence, rule=options.percentile_rule)
    except ValueError as error:
        raise CommandError(str(error)) from None
    found["warnings"] = [SINGLE_RUN] if any(len(side.logs) == 1 for side in sides) else []
    results = [
        (side.name, result)
        for side in sides[1:]
        for summary in side.summaries
        for result in evaluate_thresholds(gate, summary)
    ]
    found["thresholds"] = [{"name": name, **vars_of(result)} for name, result in results]
    found = to_json_safe(found)
    if options.html:
        page = render_compare_page(found, force=options.force)
        with output(options.html) as stream:
            stream.write(page)
    with output(options.output) as stream:
        _print(found, options, stream)
    if results:
        print_results([result for _, result in results], sys.stderr if options.format != "table" else sys.stdout)
    return exit_status(found, force=options.force)


def _side(text: str, options: argparse.Namespace, progress: Progress) -> Side:
    """One side: its files, each cut to its window and summarised."""
    name, _, files = text.rpartition("=") if not Path(text).exists() else ("", "", text)
    paths = [Path(text)] if Path(text).exists() else [Path(part) for part in files.split(",") if part]
    if not paths:
        raise CommandError(f"SIDE {text!r} names no file, expected FILE[,FILE...] or NAME=FILE[,FILE...]")
    settings = settings_of(options, charts=False)
    logs, summaries = [], []
    for path in paths:
        log = in_launch_order(load([path], progress))
        facts = recorded_facts([path])  # what was planned, and when all users were running: as analyze judges it
        source = {"files": [str(path)]}
        with progress.step(f"analysing {path.name}"):
            summary = summarize(log, settings=settings, facts=facts, source=source, run_start_us=facts.run_start_us)
        window = summary["window"]
        if not window.get("n"):
            raise CommandError(f"{path}: {window.get('sentence') or 'no request lies in the window'}")
        logs.append(_part(log, window, settings))
        summaries.append(summary)
    return Side(name or ", ".join(path.stem for path in paths), tuple(logs), tuple(summaries))


def _part(log: Any, window: Mapping[str, Any], settings: Any) -> Any:
    # The summary knows what MSER-5 has cut; equal launch times at an end are why rows, not times, decide.
    if "cut_start" in window:
        return log.take(slice(window["cut_start"], len(log) - window["cut_end"]))
    return log.take(steady_rows(log, settings))


def _distinct(names: Sequence[str]) -> None:
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise CommandError(f"two sides are called {twice!r}; name them as NAME=FILE")


def exit_status(found: Mapping[str, Any], *, force: bool) -> int:
    """1 where a threshold is true or a side is slower or fails more often, 3 where loads were not alike, else 0."""
    if any(result["failed"] for result in found["thresholds"]):
        return 1
    candidates = found["candidates"]
    if not force and any(each["alike"]["status"] == "refused" for each in candidates):
        return 3
    worse = any(
        each["failures"]["verdict"] == "more"
        or any(row["verdict"] == SLOWER for row in each["rows"] if row["label"] == "Aggregated")
        for each in candidates
    )
    return int(worse)


def _print(found: Mapping[str, Any], options: argparse.Namespace, stream: TextIO) -> None:
    if options.format == "json":
        json.dump(found, stream, indent=2, ensure_ascii=False, allow_nan=False)
        stream.write("\n")
    elif options.format == "csv":
        rows = [{"candidate": each["name"], **row} for each in found["candidates"] for row in each["rows"]]
        stream.write(csv_text(COMPARISON_CSV, rows))
    else:
        color, width, unicode = wants_color(stream), terminal_width(stream), wants_unicode(stream)
        text = render_comparison(found, color=color, width=width, unicode=unicode, force=options.force)
        print(text, file=stream)


COMMAND = Command(configure, run, EPILOG)
