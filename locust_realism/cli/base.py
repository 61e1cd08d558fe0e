"""What the subcommands share: errors without tracebacks, readers of option values, files, output, progress."""

from __future__ import annotations

import argparse
import contextlib
import re
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from locust_realism.analysis.threshold_text import Threshold, ThresholdError, parse_threshold, parse_thresholds
from locust_realism.recording.launches import LaunchLog
from locust_realism.report.text import clean, fit

Configure = Callable[[argparse.ArgumentParser], None]
Run = Callable[[argparse.Namespace], int]


class CommandError(Exception):
    """Something the user can put right: printed as one message, exit status 2."""


@dataclass(frozen=True)
class Command:
    """One subcommand: ``configure`` adds its options, ``run`` does it and returns the exit status."""

    configure: Configure
    run: Run
    epilog: str = ""


_SPAN = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m(?:in)?)?(?:(\d+(?:\.\d+)?)s?)?")


def span(text: str) -> float:
    """Seconds of a time span such as 90, 90s, 2m or 1h30m.

    >>> span("90"), span("1.5m"), span("1h30m"), span("2min")
    (90.0, 90.0, 5400.0, 120.0)
    """
    match = _SPAN.fullmatch(text.strip())
    if not text.strip() or match is None:
        raise argparse.ArgumentTypeError(f"{text!r} must be a time span such as 90, 90s, 2m or 1h30m")
    hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return 3600 * hours + 60 * minutes + seconds


def integers(text: str) -> tuple[int, ...]:
    """Whole numbers from 1 on, separated by commas; ``10-50:5`` is a range with a step.

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
    """A threshold, or argparse's error with the place of the typo."""
    try:
        return parse_threshold(text)
    except ThresholdError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def add_threshold_options(parser: argparse.ArgumentParser) -> None:
    """--fail-if and --thresholds, which :func:`given_thresholds` reads."""
    group = parser.add_argument_group("thresholds", "exit with status 1 if one of them is true of the run")
    group.add_argument(
        "--fail-if",
        action="append",
        default=[],
        type=threshold,
        metavar="CONDITION",
        help='such as "p95 > 400ms", "p99[GET file] > 1s", "cov outside 0.9..1.1", "failures > 1%%", "verdict is red"; '
        "may be given several times",
    )
    group.add_argument("--thresholds", type=Path, metavar="FILE", help="a file with one condition a line, # comments")


def given_thresholds(options: argparse.Namespace) -> list[Threshold]:
    """Thresholds of --fail-if and of the file of --thresholds."""
    listed: list[Threshold] = list(options.fail_if)
    if options.thresholds is not None:
        try:
            listed += parse_thresholds(read_text(options.thresholds).splitlines())
        except ThresholdError as error:
            raise CommandError(f"{options.thresholds}: {error}") from None
    return listed


def read_text(path: Path) -> str:
    """The text of a file, or a CommandError that says why not."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"cannot read {path}: {reason(error)}") from None


def load(paths: Sequence[Path], progress: Progress) -> LaunchLog:
    """The launches of one or several files as one log; several files are parts of one run.

    What could not be used is told on standard error; a file that cannot be used at all is a CommandError.
    """
    from locust_realism.recording.formats import open_launches
    from locust_realism.recording.merge import merge_recordings

    if len(paths) > 1 and all(path.is_dir() for path in paths):
        try:
            with progress.step("reading recordings"):
                files = [(", ".join(path.name for path in paths), merge_recordings(paths))]
        except (OSError, ValueError) as error:
            raise CommandError(f"cannot merge these recordings: {reason(error)}") from None
    else:
        files = []
        for path in paths:
            try:
                with progress.step(f"reading {path.name}"):
                    files.append((path.name, open_launches(path)))
            except (OSError, ValueError) as error:
                raise CommandError(f"cannot read {path}: {reason(error)}") from None
    for name, file in files:
        complaint = file.complaint(name)
        if complaint:
            print(f"locust-realism: {clean(complaint)}", file=sys.stderr)
    log = files[0][1].log if len(files) == 1 else LaunchLog.concat([file.log for _, file in files])
    if not len(log):
        raise CommandError(f"no request in {', '.join(map(str, paths))}")
    return log


def reason(error: Exception) -> str:
    """Why something failed, in words: of an error of the system without its number."""
    return clean((isinstance(error, OSError) and error.strerror) or str(error) or type(error).__name__)


@contextlib.contextmanager
def output(path: Path | None) -> Iterator[TextIO]:
    """The file to write to, or standard output; a file appears only when it has been written completely."""
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


def terminal_width(stream: TextIO) -> int:
    """Columns of the terminal that the stream writes to, 120 where it is a file or a pipe."""
    return shutil.get_terminal_size((120, 40)).columns if stream.isatty() else 120


class Progress:
    """A line on standard error that shows what is being done and for how long; nothing where that is no terminal.

    A step longer than half a second is shown with a bar if the work calls ``advance``, else with its seconds.
    """

    def __init__(self, stream: TextIO | None = None, *, delay_s: float = 0.5) -> None:
        self.stream = sys.stderr if stream is None else stream
        self.shown = self.stream.isatty()
        self.delay_s = delay_s
        self.share: float | None = None

    def advance(self, share: float) -> None:
        """Tell how much of the current step is done, in [0, 1]."""
        self.share = share

    @contextlib.contextmanager
    def step(self, what: str) -> Iterator[None]:
        """Show ``what`` while the block runs."""
        if not self.shown:
            yield
            return
        self.share, done, began = None, threading.Event(), time.monotonic()
        ticker = threading.Thread(target=self._tick, args=(what, began, done), daemon=True)
        ticker.start()
        try:
            yield
        finally:
            done.set()
            ticker.join()
            self.stream.write("\r\x1b[2K")
            self.stream.flush()

    def _tick(self, what: str, began: float, done: threading.Event) -> None:
        pause = self.delay_s
        while not done.wait(pause):
            pause = 0.1
            self.stream.write("\r\x1b[2K" + progress_line(what, time.monotonic() - began, self.share))
            self.stream.flush()


def progress_line(what: str, seconds: float, share: float | None, *, width: int = 79) -> str:
    """One line of progress, with a bar where the share done is known.

    >>> progress_line("reading run.csv", 3.2, None)
    'reading run.csv  3 s'
    >>> progress_line("resampling", 2.0, 0.25)
    'resampling  [#####               ]  25 %  2 s'
    """
    bar = "" if share is None else f"  [{'#' * int(20 * share):20}] {share:4.0%}".replace("%", " %")
    return fit(clean(what), width - len(bar) - 10) + bar + f"  {seconds:.0f} s"
