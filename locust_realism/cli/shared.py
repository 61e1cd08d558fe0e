"""Shared parts of the subcommands: errors without tracebacks, options, files in and out, progress."""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, TypeVar

from locust_realism.analysis.thresholds import Threshold, ThresholdError, parse_threshold, parse_thresholds
from locust_realism.recording.launches import LaunchLog
from locust_realism.report.terminal import clean, shorten

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")


class CommandError(Exception):
    """Error that the user can correct: one message on standard error, exit status 2."""


def from_options(kind: type[T], options: argparse.Namespace, **others: object) -> T:
    """Return a dataclass with the values of the options that have its fields' names, and with ``others``."""
    names = {item.name for item in fields(kind)}
    given = {name: value for name, value in vars(options).items() if name in names and value is not None}
    return kind(**{**given, **others})


def integers(text: str) -> tuple[int, ...]:
    """Return whole numbers from 1 on, separated by commas; ``10-50:5`` is a range with a step.

    >>> integers("1,2,10-20:5")
    (1, 2, 10, 15, 20)
    """
    found: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d+)(?:-(\d+)(?::(\d+))?)?\s*", part)
        first, last, step = (int(group) if group else None for group in match.groups()) if match else (None,) * 3
        if first is None or first < 1 or step == 0 or (last is not None and last < first):
            raise argparse.ArgumentTypeError(f"{part.strip()!r} must be a number from 1 on, or a range such as 10-50:5")
        found += range(first, (last or first) + 1, step or 1)
    return tuple(found)


def threshold(text: str) -> Threshold:
    """Return a threshold, or raise argparse's error with the place of the typo."""
    try:
        return parse_threshold(text)
    except ThresholdError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def add_threshold_options(parser: argparse.ArgumentParser) -> None:
    """Add --fail-if and --thresholds, which :func:`given_thresholds` reads."""
    group = parser.add_argument_group("thresholds", "exit with status 1 if one of them is true of the run")
    group.add_argument(
        "--fail-if", action="append", default=[], type=threshold, metavar="CONDITION",
        help='such as "p95 > 400ms", "p99[GET file] > 1s", "cov outside 0.9..1.1", "failures > 1%%", "verdict is red"; '
        "may be given several times",
    )  # fmt: skip
    group.add_argument("--thresholds", type=Path, metavar="FILE", help="a file with one condition a line, # comments")


def given_thresholds(options: argparse.Namespace) -> list[Threshold]:
    """Return the thresholds of --fail-if and of the file of --thresholds."""
    listed: list[Threshold] = list(options.fail_if)
    if options.thresholds is not None:
        with command_errors(f"cannot read {options.thresholds}"):
            lines = options.thresholds.read_text(encoding="utf-8").splitlines()
        try:
            listed += parse_thresholds(lines)
        except ThresholdError as error:
            raise CommandError(f"{options.thresholds}: {error}") from None
    return listed


def add_output_options(parser: argparse.ArgumentParser, *, tables: Sequence[str] = ()) -> None:
    """Add --format, --output and --html; ``tables`` are those of --format csv, the first is the default."""
    group = parser.add_argument_group("output")
    group.add_argument("--format", choices=("table", "json", "csv"), default="table", help="(table)")
    if tables:
        text = f"the table of --format csv ({tables[0]})"
        group.add_argument("--table", choices=tables, default=tables[0], help=text)
    group.add_argument("-o", "--output", type=Path, metavar="FILE", help="write to FILE, not to standard output")
    group.add_argument("--html", type=Path, metavar="FILE", help="also write a page that opens offline")


@contextlib.contextmanager
def command_errors(failed: str = "", flags: Mapping[str, str] | None = None) -> Iterator[None]:
    """Turn OSError and ValueError of the block into a CommandError, ``failed`` in front of its reason.

    ``flags`` are options by the names of their values: a reason that begins with a value's name begins with its option.

    >>> with command_errors(flags={"skip_s": "--skip"}):
    ...     raise ValueError("skip_s must be >= 0, not -1.0")
    Traceback (most recent call last):
    locust_realism.cli.shared.CommandError: --skip must be >= 0, not -1.0
    """
    try:
        yield
    except (OSError, ValueError) as error:
        name, space, rest = reason(error).partition(" ")
        text = (flags or {}).get(name, name) + space + rest
        raise CommandError(f"{failed}: {text}" if failed else text) from None


def reason(error: Exception) -> str:
    """Return the reason of a failure in words: the system's own without its number."""
    return clean((isinstance(error, OSError) and error.strerror) or str(error) or type(error).__name__)


def load(paths: Sequence[Path]) -> LaunchLog:
    """Return the launches of one or several files as one log; several files are parts of one run.

    Unreadable rows are reported on standard error; an unreadable file raises CommandError.
    """
    from locust_realism.recording.formats import open_launches
    from locust_realism.recording.merge import merge_recordings

    files = []
    if len(paths) > 1 and all(path.is_dir() for path in paths):
        with command_errors("cannot merge these recordings"), progress("reading recordings"):
            files.append((", ".join(path.name for path in paths), merge_recordings(paths)))
    else:
        for path in paths:
            with command_errors(f"cannot read {path}"), progress(f"reading {path.name}"):
                files.append((path.name, open_launches(path)))
    for name, file in files:
        if complaint := file.complaint(name):
            print(f"locust-realism: {clean(complaint)}", file=sys.stderr)
    log = files[0][1].log if len(files) == 1 else LaunchLog.concat([file.log for _, file in files])
    if not len(log):
        raise CommandError(f"no request in {', '.join(map(str, paths))}")
    return log


@contextlib.contextmanager
def output(path: Path | None) -> Iterator[TextIO]:
    """Open the file to write to, or standard output; a file appears only when it is complete."""
    if path is None:
        yield sys.stdout
        return
    partial = path.with_name(path.name + ".partial")
    try:
        with partial.open("w", encoding="utf-8", newline="") as stream:
            yield stream
        partial.replace(path)
    except OSError as error:
        raise CommandError(f"cannot write {path}: {reason(error)}") from None
    finally:
        partial.unlink(missing_ok=True)


def write_text(text: str, path: Path) -> None:
    """Write a text file; it appears only when it is complete."""
    with output(path) as stream:
        stream.write(text)


def write_json(document: object, stream: TextIO, *, ensure_ascii: bool = False) -> None:
    """Write a JSON-safe document, two columns of indent."""
    json.dump(document, stream, indent=2, ensure_ascii=ensure_ascii, allow_nan=False)
    stream.write("\n")


@contextlib.contextmanager
def progress(step: str) -> Iterator[Callable[[float], None]]:
    """Show a step on standard error while the block runs; nothing where that is no terminal.

    Yields a function that takes the share done, in [0, 1]; its first call adds a bar.
    """
    from tqdm import tqdm

    tqdm.monitor_interval = 0  # its thread would hold a lock while Locust's import patches threads
    shown = shorten(clean(step), 60)
    with tqdm(total=1.0, desc=shown, bar_format="{desc} ...", leave=False, disable=None, dynamic_ncols=True) as bar:

        def advance(share: float) -> None:
            bar.bar_format = "{desc} |{bar:20}| {percentage:3.0f} % {elapsed}"
            bar.update(share - bar.n)

        yield advance
