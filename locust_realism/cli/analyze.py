"""``locust-realism analyze``: the figures and the verdict of a recorded run."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from locust_realism.analysis.capacity.capacity import MIN_LEVEL_S, capacity
from locust_realism.analysis.document import SourceDetails, Summary, ThresholdRow
from locust_realism.analysis.percentiles import RULES
from locust_realism.analysis.settings import KINDS, RATE_CONVENTIONS, AnalysisSettings, WorkloadModel, parse_bounds
from locust_realism.analysis.stats.intervals import in_launch_order
from locust_realism.analysis.summary import recorded_facts, summarize
from locust_realism.analysis.thresholds import ThresholdResult, evaluate_thresholds
from locust_realism.cli import shared
from locust_realism.common.durations import read_duration
from locust_realism.recording.launches import LaunchLog
from locust_realism.report.console import capacity_lines, group_lines, render_summary, stage_lines, steady_lines
from locust_realism.report.csv_tables import summary_csv
from locust_realism.report.terminal import Screen

FLAGS = {
    "skip_s": "--skip", "duration_s": "--duration", "cooldown_s": "--cooldown", "skip_requests": "--skip-requests",
    "sample_requests": "--sample", "think_time_s": "--think-time", "think_time_cov": "--think-cov",
}  # fmt: skip
"""Options by the names of their values in AnalysisSettings and WorkloadModel."""

EPILOG = """\
FILE is a recording of this extension (a directory that a run has written, Parquet or CSV), a JMeter JTL or aggregate
report (CSV), or a CSV of Locust's requests. Several files are parts of one run.

The tables of Brady's talk come out of the files of the web-generator-toolkit with
  locust-realism analyze 1800_AggRpt.csv --skip 120 --duration 1200 --percentile-rule jmeter \\
      --groups 1-10,15-50:5,75-200:25
"""


def add_window_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the analysed part of the run and of its rules, which :func:`settings_of` reads."""
    add = parser.add_argument_group("window").add_argument
    add("--skip", dest="skip_s", type=read_duration, metavar="TIME", help="leave out the start (90, 90s, 2m)")
    add("--duration", dest="duration_s", type=read_duration, metavar="TIME", help="length of the analysed part")
    add("--cooldown", dest="cooldown_s", type=read_duration, metavar="TIME", help="leave out the end")
    add("--skip-requests", type=int, metavar="N", help="leave out the first N requests")
    add("--sample", dest="sample_requests", type=int, metavar="N", help="analyse the next N requests")
    add("--mser5", action="store_true", help="leave out the warm-up that the MSER-5 rule finds")
    add = parser.add_argument_group("figures").add_argument
    rules = f"one of {', '.join(RULES)} (nearest_rank)"
    add("--percentile-rule", choices=list(RULES), default="nearest_rank", metavar="RULE", help=rules)
    convention = "gaps: 1 / mean interval; toolkit: n / (end of the last request - first launch), the default with"
    add("--rate-convention", choices=RATE_CONVENTIONS, metavar="RULE", help=f"{convention} --percentile-rule jmeter")
    bounds = "bounds of the verdict other than the default ones, such as cov_red=0.2 (names in docs/verdict.md)"
    add("--bounds", default="", metavar="NAME=VALUE,...", help=bounds)


def settings_of(options: argparse.Namespace, *, charts: bool) -> AnalysisSettings:
    """Return the AnalysisSettings of the window options."""
    convention = options.rate_convention or ("toolkit" if options.percentile_rule == "jmeter" else "gaps")
    with shared.command_errors(flags=FLAGS):
        bounds = parse_bounds(options.bounds)
        return shared.from_options(AnalysisSettings, options, rate_convention=convention, bounds=bounds, charts=charts)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``analyze``."""
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    add_window_options(parser)
    text = "the plan, if the file does not contain it; sharpens the verdict"
    add = parser.add_argument_group("workload", text).add_argument
    kinds = "closed: a fixed pool of users, each waits for its response; open: arrivals independent of the responses"
    add("--workload", choices=KINDS[:2], default="unknown", help=kinds)
    add("--think-time", type=read_duration, metavar="TIME", help="planned mean think time (1, 0.5s, 2m)")
    add("--think-cov", type=float, metavar="X", help="its CoV: 0 constant, .58 uniform from 0, 1 exponential")
    add = parser.add_argument
    groups = "sizes of user groups for the CoV by group size, such as 1-10,15-50:5 (a ladder)"
    add("--groups", dest="group_sizes", type=shared.integers, metavar="LIST", help=groups)
    target = 'largest number of users at which this holds, such as "p95 < 400ms"; may be given several times'
    add("--target", action="append", default=[], metavar="CONDITION", help=target)
    shared.add_output_options(parser, tables=("launches", "percentiles", "groups"))
    shared.add_threshold_options(parser)


def run(options: argparse.Namespace) -> int:
    """Analyse the files, print the figures, and evaluate the thresholds."""
    settings = settings_of(options, charts=bool(options.html or options.format == "json"))
    gate = shared.given_thresholds(options)
    with shared.command_errors(flags=FLAGS):
        model = WorkloadModel(options.workload, think_time_s=options.think_time, think_time_cov=options.think_cov)
    log, summary = analyze(options.files, settings, model)
    if options.target:
        add_targets(summary, log, options)
    if options.html:
        from locust_realism.report.html import render_report

        shared.write_text(render_report({"summary": summary}), options.html)
    results = evaluate_thresholds(gate, summary)
    with shared.output(options.output) as stream:
        _print(summary, results, options, stream)
    # Machine formats must stay parseable: the results of the thresholds go to standard error there.
    if results and (options.format != "table" or options.output):
        print_results(results, sys.stderr)
    return int(any(result.failed for result in results))


def analyze(
    paths: Sequence[Path], settings: AnalysisSettings, model: WorkloadModel | None = None
) -> tuple[LaunchLog, Summary]:
    """Return the launches of the files of one run, in order, and their summary; ``model`` replaces a recorded one."""
    log = in_launch_order(shared.load(paths), in_place=True)
    facts = recorded_facts(paths)
    if model not in (None, WorkloadModel()):
        facts = replace(facts, model=model)
    source: SourceDetails = {"files": [str(path) for path in paths]}
    with shared.command_errors(), shared.progress(f"analysing {', '.join(path.name for path in paths)}"):
        summary = summarize(log, settings=settings, facts=facts, source=source, run_start_us=facts.run_start_us)
    if not summary["window"]["n"]:
        raise shared.CommandError(f"{', '.join(map(str, paths))}: {summary['window']['sentence']}")
    return log, summary


def add_targets(summary: Summary, log: LaunchLog, options: argparse.Namespace) -> None:
    """Judge --target and put the result into the summary's capacity."""
    window = summary["window"]
    part = log.take((log.launch_us >= window["start_us"]) & (log.launch_us <= window["end_us"]))
    rule, think_s = options.percentile_rule, options.think_time
    with shared.command_errors(), shared.progress("capacity"):
        found = capacity(part, targets=options.target, rule=rule, think_s=think_s, min_level_s=MIN_LEVEL_S)
    if not found["levels"]:
        raise shared.CommandError("--target needs levels of concurrency, but these files have no numbers of users")
    summary["capacity"] = found


def _print(summary: Summary, results: Sequence[ThresholdResult], options: argparse.Namespace, stream: TextIO) -> None:
    if options.format == "json":
        if results:
            summary["thresholds"] = [threshold_row(result) for result in results]
        shared.write_json(summary, stream)
    elif options.format == "csv":
        stream.write(summary_csv(options.table, summary))
    else:
        screen = Screen.of(stream)
        # A file has no limit of one screen: it lists every name.
        lines = [render_summary(summary, screen, height=1_000_000)]
        for section in (group_lines, stage_lines, steady_lines, capacity_lines):
            lines += section(summary, screen)
        print("\n".join(lines), file=stream)
        if results:
            print(file=stream)
            print_results(results, stream)


def threshold_row(result: ThresholdResult) -> ThresholdRow:
    """Return a threshold's result for JSON."""
    return {"threshold": result.threshold.text, "failed": result.failed, "value": result.value, "line": result.line}


def print_results(results: Sequence[ThresholdResult], stream: TextIO) -> None:
    """Print a line for each threshold, red if it failed."""
    screen = Screen.of(stream)
    for result in results:
        print(screen.paint(result.line, "red" if result.failed else "green"), file=stream)
