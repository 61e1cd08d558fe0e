"""``locust-realism fit``: arrivals, sessions, think times and requests from a server's access log."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from locust_realism.cli import shared
from locust_realism.common.durations import read_duration
from locust_realism.fit.access_logs import VISITORS
from locust_realism.fit.fitted_document import FitDocument, call_of
from locust_realism.fit.log_reading import FitSettings
from locust_realism.fit.rates import BINS_S
from locust_realism.fit.rendering import profile_lines, render_fit, render_fit_page
from locust_realism.report.csv_tables import csv_text
from locust_realism.report.terminal import Screen

TABLES = ("requests", "families", "arrivals")
"""Tables of --format csv: requests by name, distributions of the think times, rates by time of day."""

EPILOG = """\
ACCESS_LOG is a log of Apache or nginx in the common or combined format, gzip or not; several files (rotated ones, or
those of several servers) are read as one log, in order of time. A JMeter JTL or a recording of this extension works
too; then each user slot is a visitor.

  locust-realism fit access.log* --no-static --no-bots --profile-csv day.csv --html fit.html --locustfile fitted.py

writes a profile for rate_from_csv("day.csv", interpolation="step", repeat=True) and a locustfile that runs as it is.
docs/fit.md explains the figures and the JSON.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``fit``."""
    parser.add_argument("files", nargs="+", type=Path, metavar="ACCESS_LOG")
    add = parser.add_argument_group("sessions").add_argument
    add("--gap", dest="gap_s", type=read_duration, metavar="TIME", help="a pause that ends a session (30m)")
    add("--visitor", choices=VISITORS, default=VISITORS[0], help=f"identity of a visitor ({VISITORS[0]})")
    add = parser.add_argument_group("requests").add_argument
    add("--no-static", action="store_true", help="leave out images, styles, scripts, fonts, media")
    add("--no-bots", action="store_true", help="leave out agents that call themselves robots")
    exclude = "leave out paths that contain a match; may be given several times"
    add("--exclude", action="append", default=[], metavar="REGEX", help=exclude)
    add("--keep-ids", action="store_true", help="keep numbers and the like in paths, instead of {id}")
    add = parser.add_argument_group("times").add_argument
    add("--timezone", metavar="NAME", help="of the time of day, such as Europe/Berlin (as in the log)")
    bins = "width of the bins of a day: 1m, 5m, 10m, 15m, 30m or 1h (by the data)"
    add("--bin", type=read_duration, metavar="TIME", help=bins)
    add("--confidence", type=float, metavar="SHARE", help="of the intervals (0.95)")
    shared.add_output_options(parser, tables=TABLES)
    add = parser.add_argument_group("contents").add_argument
    add("--names", type=int, default=20, metavar="N", help="requests in the table (20)")
    add("--profile-csv", type=Path, metavar="FILE", help="also write the rates for rate_from_csv")
    add("--profile", choices=("day", "week"), default="day", help="length of --profile-csv (day)")
    rates = ("sessions", "requests")
    add("--rate", choices=rates, default="sessions", help="rates in --profile-csv (sessions)")
    add("--locustfile", type=Path, metavar="FILE", help="also write a locustfile that runs as it is")


def run(options: argparse.Namespace) -> int:
    """Read the logs, fit the model, print and write the results."""
    from locust_realism.fit.fitting import fit_log

    settings = settings_of(options)
    step = f"reading {options.files[0].name}" + (f" and {n} more" if (n := len(options.files) - 1) else "")
    with shared.command_errors(), shared.progress(step) as advance:
        try:
            document = fit_log(options.files, settings, advance)
        except OSError as error:
            raise shared.CommandError(f"cannot read {error.filename}: {shared.reason(error)}") from None
    if options.profile_csv:
        with shared.command_errors():
            lines = profile_lines(document, week=options.profile == "week", requests=options.rate == "requests")
        shared.write_text("\n".join(lines) + "\n", options.profile_csv)
    if options.html:
        shared.write_text(render_fit_page(document), options.html)
    if options.locustfile:
        _write_locustfile(document, options.locustfile)
    with shared.output(options.output) as stream:
        if options.format == "json":
            shared.write_json(document, stream, ensure_ascii=True)
        elif options.format == "csv":
            stream.write(csv_text(*table_of(document, options.table)))
        else:
            print(render_fit(document, Screen.of(stream), names=max(options.names, 0)), file=stream)
    return 0


def table_of(document: FitDocument, table: str) -> tuple[list[str], list[dict[str, object]]]:
    """Return columns and rows of one of :data:`TABLES`; an interval is two columns, ``_low`` and ``_high``."""
    if table == "families":
        families = document["think_times"]["families"]
        rows = [_flat({**each, "distribution": call_of(each["distribution"])}) for each in families]
    elif table == "arrivals":
        rows = [_flat(row) for row in document["arrivals"]["by_time_of_day"]]
    else:
        rows = [_flat({**row, "examples": None}) for row in document["requests"]]
    return list(dict.fromkeys(key for row in rows for key in row)), rows


def _flat(row: Mapping[str, Any]) -> dict[str, object]:
    """Return a row without nested values: intervals as two columns, parameters as columns of their own."""
    found: dict[str, object] = {}
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
    """Return the FitSettings of the options."""
    width = options.bin
    if width is not None and width not in BINS_S:
        raise shared.CommandError(f"--bin must be 1m, 5m, 10m, 15m, 30m or 1h, not {width:g} s")
    with shared.command_errors():
        return shared.from_options(FitSettings, options, exclude=tuple(options.exclude), bin_s=width and int(width))


def _write_locustfile(document: FitDocument, path: Path) -> None:
    from locust_realism.fit.locustfile import NothingToSend, render_locustfile

    try:
        text = render_locustfile(document, file=path.name)
    except NothingToSend as error:
        raise shared.CommandError(f"a locustfile cannot be written: {error}") from None
    shared.write_text(text, path)
