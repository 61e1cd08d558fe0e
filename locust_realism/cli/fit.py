"""``locust-realism fit``: arrivals, sessions, think times and requests as a server's log has them."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from locust_realism.analysis.log_reading import FitSettings
from locust_realism.cli.base import Command, CommandError, Progress, output, span, terminal_width
from locust_realism.recording.formats.access_logs import VISITORS
from locust_realism.report.fit_table import call_of
from locust_realism.report.text import clean, wants_color, wants_unicode
from locust_realism.web.exports import csv_text
from locust_realism.workload.observed_rates import BINS_S

EPILOG = """\
ACCESS_LOG is a log of Apache or nginx in the common or combined format, gzip or not; several files (rotated ones, or
those of several servers) are read as one log, in order of time. A JMeter JTL or a recording of this extension works
too; each user slot is then a visitor.

  locust-realism fit access.log* --no-static --no-bots --profile-csv day.csv --html fit.html --locustfile fitted.py

makes a profile for rate_from_csv("day.csv", interpolation="step", repeat=True) and a locustfile that runs as it is.
See docs/fit.md for what the figures mean and what the JSON holds.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Options of ``fit``."""
    parser.add_argument("files", nargs="+", type=Path, metavar="ACCESS_LOG")
    sessions = parser.add_argument_group("sessions")
    sessions.add_argument("--gap", type=span, default=1800.0, metavar="TIME", help="a pause that ends a session (30m)")
    sessions.add_argument(
        "--visitor", choices=VISITORS, default=VISITORS[0], help=f"what tells visitors apart ({VISITORS[0]})"
    )
    requests = parser.add_argument_group("requests")
    requests.add_argument("--no-static", action="store_true", help="leave out images, styles, scripts, fonts, media")
    requests.add_argument("--no-bots", action="store_true", help="leave out agents that say that they are robots")
    requests.add_argument(
        "--exclude",
        action="append",
        default=[],
        metavar="REGEX",
        help="leave out paths in which this is found; may be given several times",
    )
    requests.add_argument("--keep-ids", action="store_true", help="do not put {id} for numbers and the like in paths")
    times = parser.add_argument_group("times")
    times.add_argument("--timezone", metavar="NAME", help="of the time of day, such as Europe/Berlin (as in the log)")
    times.add_argument(
        "--bin", type=span, metavar="TIME", help="width of the bins of a day: 1m, 5m, 10m, 15m, 30m or 1h (by the data)"
    )
    times.add_argument("--confidence", type=float, default=0.95, metavar="SHARE", help="of the intervals (0.95)")
    out = parser.add_argument_group("output")
    out.add_argument("--format", choices=("table", "json", "csv"), default="table", help="(table)")
    out.add_argument("--table", choices=list(TABLES), default="requests", help="the table of --format csv (requests)")
    out.add_argument("-o", "--output", type=Path, metavar="FILE", help="write there and not to standard output")
    out.add_argument("--names", type=int, default=20, metavar="N", help="requests in the table (20)")
    out.add_argument("--profile-csv", type=Path, metavar="FILE", help="also write the rates for rate_from_csv")
    out.add_argument("--profile", choices=("day", "week"), default="day", help="what --profile-csv holds (day)")
    out.add_argument(
        "--rate", choices=("sessions", "requests"), default="sessions", help="whose rate it holds (sessions)"
    )
    out.add_argument("--html", type=Path, metavar="FILE", help="also write the plots, one page that opens offline")
    out.add_argument("--locustfile", type=Path, metavar="FILE", help="also write a locustfile that runs as it is")


def run(options: argparse.Namespace) -> int:
    """Read, fit, print and write what was asked for."""
    from locust_realism.analysis.log_fit import fit_log

    settings = settings_of(options)
    progress = Progress()
    try:
        what = f"reading {options.files[0].name}" + (f" and {n} more" if (n := len(options.files) - 1) else "")
        with progress.step(what):
            document = fit_log(options.files, settings, progress.advance)
    except OSError as error:
        raise CommandError(f"cannot read {error.filename}: {clean(error.strerror or error)}") from None
    except ValueError as error:
        raise CommandError(clean(error)) from None
    if options.profile_csv:
        _write_profile(document, options)
    if options.html:
        from locust_realism.report.fit_page import render_fit_page

        page = render_fit_page(document)
        with output(options.html) as stream:
            stream.write(page)
    if options.locustfile:
        _write_locustfile(document, options.locustfile)
    with output(options.output) as stream:
        if options.format == "json":
            json.dump(document, stream, indent=2, ensure_ascii=True, allow_nan=False)
            stream.write("\n")
        elif options.format == "csv":
            stream.write(csv_text(*table_of(document, options.table)))
        else:
            _print(document, options, stream)
    return 0


TABLES = ("requests", "families", "arrivals")
"""What ``--format csv`` can hold: the names, the distributions of the think times, the rate by time of day."""


def table_of(document: Mapping[str, Any], table: str) -> tuple[list[str], list[dict[str, Any]]]:
    """Columns and rows of one of :data:`TABLES`; an interval is two columns, its ends, as ``_low`` and ``_high``."""
    if table == "families":
        families = document["think_times"]["families"]
        rows = [_flat({**each, "distribution": call_of(each["distribution"])}) for each in families]
    elif table == "arrivals":
        rows = [_flat(row) for row in document["arrivals"]["by_time_of_day"]]
    else:
        rows = [_flat({**row, "examples": None}) for row in document["requests"]]
    return list(dict.fromkeys(key for row in rows for key in row)), rows


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in row.items():
        if key.endswith("interval"):
            low, high = value or (None, None)
            found |= {key.replace("interval", "low"): low, key.replace("interval", "high"): high}
        elif key == "parameters":
            for name, each in value.items():
                found |= _flat({f"{name}": each["value"], f"{name}_interval": each["interval"]})
        elif value is not None:
            found[key] = value
    return found


def settings_of(options: argparse.Namespace) -> FitSettings:
    """FitSettings of the options; CommandError where they are out of bounds."""
    width = options.bin
    if width is not None and width not in BINS_S:
        raise CommandError(f"--bin must be 1m, 5m, 10m, 15m, 30m or 1h, not {width:g} s")
    try:
        return FitSettings(
            gap_s=options.gap,
            visitor=options.visitor,
            no_static=options.no_static,
            no_bots=options.no_bots,
            exclude=tuple(options.exclude),
            keep_ids=options.keep_ids,
            timezone=options.timezone,
            bin_s=None if width is None else int(width),
            confidence=options.confidence,
        )
    except ValueError as error:
        raise CommandError(clean(error)) from None


def _print(document: Mapping[str, Any], options: argparse.Namespace, stream: Any) -> None:
    from locust_realism.report.fit_table import render_fit

    color, width = wants_color(stream), terminal_width(stream)
    names = max(options.names, 0)
    print(render_fit(document, color=color, width=width, names=names, unicode=wants_unicode(stream)), file=stream)


def _write_profile(document: Mapping[str, Any], options: argparse.Namespace) -> None:
    from locust_realism.report.fit_profile import profile_lines

    try:
        lines = profile_lines(document, week=options.profile == "week", requests=options.rate == "requests")
    except ValueError as error:
        raise CommandError(str(error)) from None
    with output(options.profile_csv) as stream:
        stream.write("\n".join(lines) + "\n")


def _write_locustfile(document: Mapping[str, Any], path: Path) -> None:
    from locust_realism.report.fit_locustfile import NothingToAsk, render_locustfile

    try:
        text = render_locustfile(document, file=path.name)
    except NothingToAsk as error:
        raise CommandError(f"a locustfile cannot be written: {error}") from None
    with output(path) as stream:
        stream.write(text)


COMMAND = Command(configure, run, EPILOG)
