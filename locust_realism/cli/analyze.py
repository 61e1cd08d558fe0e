"""``locust-realism analyze``: the figures and the verdict of a recorded run."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

from locust_realism.analysis.capacity import MIN_LEVEL_S, capacity
from locust_realism.analysis.evidence import Facts
from locust_realism.analysis.intervals import in_launch_order
from locust_realism.analysis.jsonable import to_json_safe
from locust_realism.analysis.percentiles import RULES
from locust_realism.analysis.recorded_facts import recorded_facts
from locust_realism.analysis.settings import KINDS, RATE_CONVENTIONS, AnalysisSettings, WorkloadModel, parse_bounds
from locust_realism.analysis.summary import summarize
from locust_realism.analysis.thresholds import ThresholdResult, evaluate_thresholds
from locust_realism.cli.base import (
    Command,
    CommandError,
    Progress,
    add_threshold_options,
    given_thresholds,
    integers,
    load,
    output,
    span,
    terminal_width,
)
from locust_realism.recording.launches import LaunchLog
from locust_realism.report.console import capacity_lines, group_lines, render_summary
from locust_realism.report.steady import stage_lines, steady_lines
from locust_realism.report.text import paint, wants_color, wants_unicode
from locust_realism.web.exports import summary_csv

TABLES = ("launches", "percentiles", "groups")

FLAGS = {
    "skip_s": "--skip",
    "duration_s": "--duration",
    "cooldown_s": "--cooldown",
    "skip_requests": "--skip-requests",
    "sample_requests": "--sample",
    "think_time_s": "--think-time",
    "think_time_cov": "--think-cov",
}
"""Options by the names that their values have inside."""

EPILOG = """\
FILE is a recording of this extension (a directory that a run has written, Parquet or CSV), a JMeter JTL or aggregate
report (CSV), or a CSV of Locust's requests. Several files are parts of one run.

The tables of Brady's talk come out of the files of the web-generator-toolkit with
  locust-realism analyze 1800_AggRpt.csv --skip 120 --duration 1200 --percentile-rule jmeter \\
      --groups 1-10,15-50:5,75-200:25
"""


def add_window_options(parser: argparse.ArgumentParser) -> None:
    """What part of the run is analysed, and by which rule: read by :func:`settings_of`."""
    window = parser.add_argument_group("window")
    window.add_argument("--skip", type=span, default=0.0, metavar="TIME", help="leave out the start (90, 90s, 2m)")
    window.add_argument("--duration", type=span, metavar="TIME", help="analyse this long after it")
    window.add_argument("--cooldown", type=span, default=0.0, metavar="TIME", help="leave out the end")
    window.add_argument("--skip-requests", type=int, default=0, metavar="N", help="leave out the first N requests")
    window.add_argument("--sample", type=int, metavar="N", help="analyse N requests after them")
    window.add_argument("--mser5", action="store_true", help="leave out the warm-up that the MSER-5 rule finds")
    figures = parser.add_argument_group("figures")
    figures.add_argument(
        "--percentile-rule",
        choices=list(RULES),
        default="nearest_rank",
        metavar="RULE",
        help=f"one of {', '.join(RULES)} (nearest_rank)",
    )
    figures.add_argument(
        "--rate-convention",
        choices=RATE_CONVENTIONS,
        metavar="RULE",
        help="gaps: 1 / mean interval; toolkit: n / (end of the last request - first launch), the default with "
        "--percentile-rule jmeter",
    )
    figures.add_argument(
        "--bounds",
        default="",
        metavar="NAME=VALUE,...",
        help="bounds of the verdict other than the default ones, such as cov_red=0.2 (names in docs/verdict.md)",
    )


def add_workload_options(parser: argparse.ArgumentParser) -> None:
    """What the test was meant to do, which few files know: read by :func:`facts_of`."""
    group = parser.add_argument_group(
        "workload", "what was planned, where the file does not say so; sharpens the verdict"
    )
    group.add_argument(
        "--workload",
        choices=KINDS[:2],
        help="closed: a fixed pool of users, each waits for its answer; open: arrivals whatever the answers",
    )
    group.add_argument("--think-time", type=span, metavar="TIME", help="planned mean think time (1, 0.5s, 2m)")
    group.add_argument(
        "--think-cov", type=float, metavar="X", help="its CoV: 0 constant, .58 uniform from 0, 1 exponential"
    )


def facts_of(options: argparse.Namespace) -> Facts:
    """The facts of the workload options; CommandError where they are out of bounds."""
    try:
        return Facts(
            model=WorkloadModel(
                kind=options.workload or "unknown",
                think_time_s=options.think_time,
                think_time_cov=options.think_cov,
            )
        )
    except ValueError as error:
        raise CommandError(by_flag(error)) from None


def settings_of(options: argparse.Namespace, **changes: Any) -> AnalysisSettings:
    """AnalysisSettings of the window options; CommandError where they are out of bounds."""
    rule = options.percentile_rule
    try:
        return AnalysisSettings(
            percentile_rule=rule,
            rate_convention=options.rate_convention or ("toolkit" if rule == "jmeter" else "gaps"),
            skip_s=options.skip,
            duration_s=options.duration,
            cooldown_s=options.cooldown,
            skip_requests=options.skip_requests,
            sample_requests=options.sample,
            mser5=options.mser5,
            bounds=parse_bounds(options.bounds),
            **changes,
        )
    except ValueError as error:
        raise CommandError(by_flag(error)) from None


def by_flag(error: ValueError) -> str:
    """What is wrong with an option, which is called as it was given on the command line.

    >>> by_flag(ValueError("sample_requests is 0, expected more than 0"))
    '--sample is 0, expected more than 0'
    """
    name, space, rest = str(error).partition(" ")
    return FLAGS.get(name, name) + space + rest


def configure(parser: argparse.ArgumentParser) -> None:
    """Options of ``analyze``."""
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    add_window_options(parser)
    add_workload_options(parser)
    parser.add_argument(
        "--groups",
        type=integers,
        metavar="LIST",
        help="sizes of user groups for the CoV by group size, such as 1-10,15-50:5 (a ladder)",
    )
    parser.add_argument(
        "--target",
        action="append",
        default=[],
        metavar="CONDITION",
        help='up to how many users this holds, such as "p95 < 400ms"; may be given several times',
    )
    out = parser.add_argument_group("output")
    out.add_argument("--format", choices=("table", "json", "csv"), default="table", help="(table)")
    out.add_argument("--table", choices=list(TABLES), default="launches", help="the table of --format csv (launches)")
    out.add_argument("-o", "--output", type=Path, metavar="FILE", help="write there and not to standard output")
    out.add_argument("--html", type=Path, metavar="FILE", help="also write the report, one page that opens offline")
    add_threshold_options(parser)


def run(options: argparse.Namespace) -> int:
    """Analyse, print, and judge the thresholds."""
    settings = settings_of(options, group_sizes=options.groups, charts=bool(options.html or options.format == "json"))
    gate, asked = given_thresholds(options), facts_of(options)
    progress = Progress()
    log = in_launch_order(load(options.files, progress), in_place=True)
    facts = recorded_facts(options.files)
    if asked != Facts():
        facts = replace(facts, model=asked.model)
    source = {"files": [str(path) for path in options.files]}
    with progress.step("analysing"):
        try:
            summary = summarize(log, settings=settings, facts=facts, source=source, run_start_us=facts.run_start_us)
        except ValueError as error:
            raise CommandError(str(error)) from None
    if not summary["window"].get("n"):
        raise CommandError(summary["window"].get("sentence") or "no request lies in the window")
    if options.target:
        add_targets(summary, log, options, progress)
    if options.html:
        write_html(summary, options.html)
    results = evaluate_thresholds(gate, summary)
    with output(options.output) as stream:
        _print(summary, results, options, stream)
    # Machine formats must stay parseable, so what became of the thresholds goes to standard error there.
    if results and (options.format != "table" or options.output):
        print_results(results, sys.stderr)
    return int(any(result.failed for result in results))


def add_targets(summary: dict[str, Any], log: LaunchLog, options: argparse.Namespace, progress: Progress) -> None:
    """Put the targets that were asked for into the summary's capacity."""
    window = summary["window"]
    part = log.take((log.launch_us >= window["start_us"]) & (log.launch_us <= window["end_us"]))
    try:
        with progress.step("capacity"):
            found = capacity(
                part,
                targets=options.target,
                rule=options.percentile_rule,
                think_s=options.think_time,
                min_level_s=MIN_LEVEL_S,
            )
    except ValueError as error:
        raise CommandError(str(error)) from None
    if not found["levels"]:
        raise CommandError("--target needs levels of concurrency, but these files have no numbers of users")
    summary["capacity"] = to_json_safe(found)


def write_html(summary: Mapping[str, Any], path: Path) -> None:
    """The report as one file."""
    from locust_realism.report.html import render_report

    page = render_report(summary)
    with output(path) as stream:
        stream.write(page)


def _print(
    summary: Mapping[str, Any], results: Sequence[ThresholdResult], options: argparse.Namespace, stream: TextIO
) -> None:
    if options.format == "json":
        document = {**summary, "thresholds": [vars_of(result) for result in results]} if results else summary
        json.dump(document, stream, indent=2, ensure_ascii=False, allow_nan=False)
        stream.write("\n")
        return
    if options.format == "csv":
        stream.write(summary_csv(options.table, summary))
        return
    color, width, unicode = wants_color(stream), terminal_width(stream), wants_unicode(stream)
    # A file is read at leisure: no limit to a screen, every name.
    print(render_summary(summary, color=color, width=width, height=1_000_000, unicode=unicode), file=stream)
    for line in group_lines(summary, color=color, width=width):
        print(line, file=stream)
    for section in (stage_lines, steady_lines, capacity_lines):
        for line in section(summary, color=color, width=width):
            print(line, file=stream)
    if results:
        print(file=stream)
        print_results(results, stream)


def vars_of(result: ThresholdResult) -> dict[str, Any]:
    """A threshold's result for JSON."""
    return {"threshold": result.threshold.text, "failed": result.failed, "value": result.value, "line": result.line}


def print_results(results: Sequence[ThresholdResult], stream: TextIO) -> None:
    """A line for each threshold, red where it failed."""
    color = wants_color(stream)
    for result in results:
        print(paint(result.line, "red" if result.failed else "green", color=color), file=stream)


COMMAND = Command(configure, run, EPILOG)
