"""Command-line options of the extension, as one table.

Each row is a flag in a group of its own in ``locust --help``, an environment variable (``--realism-seed`` is
LOCUST_REALISM_SEED), a key of Locust's config files and, where it makes sense for a run to come, a field of the start
form in the web UI.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from locust.util.timespan import parse_timespan

from locust_realism.analysis.percentiles import RULES
from locust_realism.analysis.settings import parse_bounds
from locust_realism.analysis.threshold_text import ThresholdError, parse_threshold


@dataclass(frozen=True)
class Option:
    """One option: the flag, its default, a help text and how its value is read.

    ``type`` is called with the text of the value and raises ValueError with a message that names the bound.
    ``action`` is argparse's; ``in_ui`` puts the option on the start form; ``is_secret`` masks it there.
    """

    flag: str
    default: Any
    help: str
    type: Callable[[str], Any] | None = None
    in_ui: bool = True
    choices: Sequence[Any] | None = None
    metavar: str | None = None
    is_secret: bool = False
    action: Any = None
    env: str | None = None

    @property
    def dest(self) -> str:
        """The attribute of ``environment.parsed_options`` that holds the value."""
        return self.flag.lstrip("-").replace("-", "_")

    @property
    def env_var(self) -> str:
        """The environment variable that sets the option."""
        return self.env or "LOCUST_" + self.dest.upper()


def bounded(
    kind: Callable[[str], float], *, least: float | None = None, above: float | None = None
) -> Callable[[str], Any]:
    """A reader of numbers that refuses what is below ``least``, or not greater than ``above``.

    >>> bounded(int, least=0)("3")
    3
    >>> bounded(float, above=0)("0")
    Traceback (most recent call last):
    argparse.ArgumentTypeError: '0' must be a number > 0
    """

    bound = f">= {least:g}" if least is not None else f"> {above:g}" if above is not None else ""
    noun = "an integer" if kind is int else "a number"

    def read(text: str) -> float:
        try:
            value = kind(text)
            good = (least is None or value >= least) and (above is None or value > above)
        except (ValueError, OverflowError):
            good = False
        if not good:
            raise argparse.ArgumentTypeError(f"{text!r} must be {noun} {bound}".rstrip())
        return value

    read.__name__ = getattr(kind, "__name__", "number")
    return read


def seconds(text: str) -> float:
    """A time span as Locust writes it: ``90``, ``90s``, ``2m``, ``1h30m``.

    >>> seconds("2m"), seconds("1.5")
    (120.0, 1.5)
    """
    try:
        value = float(text) if text.replace(".", "", 1).isdigit() else float(parse_timespan(text))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} must be a time span such as 90, 90s, 2m or 1h30m") from None
    return value


def bounds(text: str) -> str:
    """The text of the verdict's bounds, refused when one is not known or not a bound.

    >>> bounds("cov_red=0.2")
    'cov_red=0.2'
    """
    try:
        parse_bounds(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def threshold(text: str) -> str:
    """The text of a threshold, refused with the place of the error when it cannot be understood."""
    try:
        parse_threshold(text)
    except ThresholdError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


OPTIONS: tuple[Option, ...] = (
    Option(
        "--realism-seed",
        None,
        "Seed of every think time, pace and arrival: the same seed repeats the same waits for the same user slot on "
        "the same worker. Without one a seed is drawn and printed.",
        type=bounded(int, least=0),
        metavar="<int>",
    ),
    Option(
        "--realism-warmup",
        0.0,
        "Leave out the first part of the run (a time span: 90s, 2m) from the figures of this extension; what was left "
        "out is shown beside them.",
        type=seconds,
        metavar="<time>",
    ),
    Option(
        "--realism-cooldown",
        0.0,
        "Leave out the last part of the run from the figures of the end of a headless run, of the report and of the "
        "exit code.",
        type=seconds,
        in_ui=False,
        metavar="<time>",
    ),
    Option(
        "--realism-warmup-requests",
        0,
        "Leave out this number of requests, after --realism-warmup, from the figures of this extension.",
        type=bounded(int, least=0),
        in_ui=False,
        metavar="<int>",
    ),
    Option(
        "--realism-sample-requests",
        None,
        "Base the figures on this number of requests after the warm-up, and on none after them.",
        type=bounded(int, least=1),
        in_ui=False,
        metavar="<int>",
    ),
    Option(
        "--realism-mser5",
        False,
        "Also leave out the warm-up that the MSER-5 rule finds in the response times.",
        in_ui=False,
        action="store_true",
    ),
    Option(
        "--realism-bounds",
        None,
        "Bounds of the verdict's checks where they are not to be the default ones, such as "
        "cov_amber=0.1,cov_red=0.2 (names in docs/verdict.md).",
        type=bounds,
        in_ui=False,
        metavar="<name=value,...>",
    ),
    Option(
        "--realism-percentile-rule",
        "nearest_rank",
        "Which order statistic a percentile is. nearest_rank: at least that share of the requests took no longer; "
        "linear: between two ranks as numpy; jmeter and locust: as these tools do.",
        choices=tuple(RULES),
        in_ui=False,
    ),
    Option(
        "--realism-fail-if",
        None,
        'End with exit status 1 if this is true of the run: "p95 > 400ms", "p99[GET file] > 1s", '
        '"cov outside 0.9..1.1", "failures > 1%%", "verdict is red". May be given several times.',
        type=threshold,
        action="append",
        in_ui=False,
        metavar="<condition>",
    ),
    Option(
        "--realism-json",
        None,
        "Write the figures of the whole run to this file as JSON (schema in docs/json.md).",
        in_ui=False,
        metavar="<file>",
    ),
    Option(
        "--realism-report",
        None,
        "Write the report of the whole run to this file: one HTML page that opens offline.",
        in_ui=False,
        metavar="<file>",
    ),
    Option(
        "--realism-record",
        "realism-recordings",
        "Directory in which each run, and each worker of it, records every launch, in a directory of its own that is "
        "readable after a crash. Open launches.parquet with any tool, or the directory with locust-realism analyze.",
        in_ui=False,
        metavar="<directory>",
    ),
    Option(
        "--realism-no-record",
        False,
        "Record nothing on disk: launches are kept in memory only, the oldest are dropped when they no longer fit.",
        in_ui=False,
        action="store_true",
    ),
    Option(
        "--realism-record-fsync",
        False,
        "Force each part of the recording to the disk itself, every few seconds: a power cut then costs seconds, too.",
        in_ui=False,
        action="store_true",
    ),
    Option(
        "--population-scale",
        None,
        "Multiply the arrival rate of every open population by this. Editing it while a test runs takes effect at once "
        "and keeps the users who are in.",
        type=bounded(float, least=0),
        metavar="<factor>",
    ),
    Option(
        "--population-period",
        None,
        "Play the arrival-rate profiles so that their period (or their length, without one) takes this time: 1h plays "
        "a day in an hour at the same rates.",
        type=seconds,
        metavar="<time>",
    ),
    Option(
        "--population-session-duration",
        None,
        "Mean duration of the sessions of every population that has one; the shape of the distribution stays.",
        type=seconds,
        metavar="<time>",
    ),
    Option(
        "--population-people",
        None,
        "Number of people of every finite population.",
        type=bounded(int, least=1),
        metavar="<int>",
    ),
    Option(
        "--population-max-users",
        None,
        "Most users of a population in session at once, over all workers; arrivals beyond it are turned away and "
        "counted as balked.",
        type=bounded(int, least=1),
        metavar="<int>",
    ),
    Option(
        "--population-start",
        "",
        "How an open population starts: in equilibrium, as a system that has been in use for long, or empty. Without "
        "one, as the locustfile says.",
        choices=("", "equilibrium", "empty"),
    ),
)
"""The options of the extension itself; a scenario adds its own with :func:`add_options`."""


def add_options(
    parser: argparse.ArgumentParser,
    title: str,
    options: Iterable[Option],
    description: str = "",
    *,
    off_form: Collection[str] = (),
) -> None:
    """Add options to Locust's parser in a group of their own; those named in ``off_form`` get no field in the form.

    Locust's own ``add_argument`` cannot be used on a group, because a group does not know its UI keywords: the
    attributes that Locust looks for are set on the action instead.
    """
    group = parser.add_argument_group(title, description or None)
    _groups.setdefault(parser, []).append(group)
    if "--realism-help" not in parser._option_string_actions:
        _add_help(group)
    for option in options:
        _known[option.dest] = option
        keywords: dict[str, Any] = {"default": option.default, "help": option.help, "env_var": option.env_var}
        for name in ("type", "choices", "metavar", "action"):
            if getattr(option, name) is not None:
                keywords[name] = getattr(option, name)
        action: Any = group.add_argument(option.flag, **keywords)
        action.include_in_web_ui = option.in_ui and option.dest not in off_form
        action.is_secret = option.is_secret
        action.is_required = False
        action.is_multiple = False


def known_options() -> list[Option]:
    """Every option that has been added to a parser: ours and those of the locustfiles."""
    return list(_known.values())


_known: dict[str, Option] = {}
_groups: WeakKeyDictionary[argparse.ArgumentParser, list[argparse._ArgumentGroup]] = WeakKeyDictionary()


class _ShowGroups(argparse.Action):
    """Print the options that the locustfile brought along, and end."""

    def __call__(self, parser: argparse.ArgumentParser, *unused: Any) -> None:
        formatter = parser._get_formatter()
        for group in _groups[parser]:
            formatter.start_section(group.title)
            formatter.add_text(group.description)
            formatter.add_arguments(group._group_actions)
            formatter.end_section()
        parser.exit(message=formatter.format_help())


def _add_help(group: argparse._ArgumentGroup) -> None:
    # `locust --help` prints and exits before it loads the locustfile (locustio/locust#2917), so no locustfile's options
    # can be in it
    action: Any = group.add_argument(
        "--realism-help",
        action=_ShowGroups,
        nargs=0,
        default=argparse.SUPPRESS,
        help="Show the options that the locustfile and its extensions add, and exit. (locust --help ends before it "
        "reads the locustfile and cannot show them.)",
    )
    action.include_in_web_ui = False
