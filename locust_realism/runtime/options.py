"""Options of the extension as one table, for the command line and for the start form of the web UI.

Each row is a flag in a group of ``locust --realism-help``, an environment variable (``--realism-seed`` is
LOCUST_REALISM_SEED), a key of Locust's config files and, with ``in_ui``, a field of the start form.

Locust converts the text of a form field to the type of the present value. Here the option's own reader converts it, so
that units, bounds and messages are those of the command line; the form shows a refusal, and no test starts.
"""

from __future__ import annotations

from argparse import SUPPRESS, Action, ArgumentParser, ArgumentTypeError
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from locust.env import Environment
from locust.web import WebUI

from locust_realism.analysis.percentiles import RULES
from locust_realism.analysis.settings import parse_bounds
from locust_realism.analysis.thresholds import parse_threshold
from locust_realism.common.durations import read_duration
from locust_realism.runtime.locust_compat import check_start, describe_field


@dataclass(frozen=True)
class Option:
    """Option of the command line: flag, default, help text and reader of its value.

    - ``type`` reads the text of the value; its ValueError or ArgumentTypeError names the bound
    - ``action`` argparse's action, ``in_ui`` puts the option on the start form, ``is_secret`` masks it there
    """

    flag: str
    default: object
    help: str
    type: Callable[[str], object] | None = None
    in_ui: bool = True
    choices: Sequence[object] | None = None
    metavar: str | None = None
    is_secret: bool = False
    action: str | Callable[..., Action] | None = None

    @property
    def dest(self) -> str:
        """Attribute of ``environment.parsed_options`` that holds the value."""
        return self.flag.lstrip("-").replace("-", "_")


def bounded(
    kind: Callable[[str], float], *, least: float | None = None, above: float | None = None
) -> Callable[[str], float]:
    """Return a reader of numbers of at least ``least``, or greater than ``above``.

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
            raise ArgumentTypeError(f"{text!r} must be {noun} {bound}".rstrip())
        return value

    read.__name__ = getattr(kind, "__name__", "number")
    return read


def text_that(parse: Callable[[str], object]) -> Callable[[str], str]:
    """Return a reader that keeps the text, which goes to the workers, and refuses one that ``parse`` refuses.

    >>> text_that(parse_bounds)("cov_red=0.2")
    'cov_red=0.2'
    """

    def read(text: str) -> str:
        try:
            parse(text)
        except ValueError as error:
            raise ArgumentTypeError(str(error)) from None
        return text

    return read


_off_form = partial(Option, in_ui=False)

# fmt: off
OPTIONS: tuple[Option, ...] = (
    Option("--realism-seed", None, type=bounded(int, least=0), metavar="<int>", help=
        "Seed of every think time, pace and arrival: the same seed repeats the same waits for the same user slot of "
        "the same worker. Without it a random seed is drawn and logged."),
    _off_form("--realism-no-spread", False, action="store_true", help=
        "Let the users of a spawn step begin at one instant, as Locust starts them. By default each begins at a random "
        "instant within the second after it; the number of users is the same."),
    Option("--realism-warmup", 0.0, type=read_duration, metavar="<time>", help=
        "Leave out the first part of the run (a time span: 90s, 2m) from the figures of this extension, which show "
        "its length."),
    _off_form("--realism-cooldown", 0.0, type=read_duration, metavar="<time>", help=
        "Leave out the last part of the run from the final figures of a headless run, of the report and of the exit "
        "code."),
    _off_form("--realism-warmup-requests", 0, type=bounded(int, least=0), metavar="<int>", help=
        "Leave out this number of requests, after --realism-warmup, from the figures of this extension."),
    _off_form("--realism-sample-requests", None, type=bounded(int, least=1), metavar="<int>", help=
        "Base the figures on this number of requests after the warm-up only."),
    _off_form("--realism-mser5", False, action="store_true", help=
        "Leave out also the warm-up that the MSER-5 rule finds in the response times."),
    _off_form("--realism-bounds", None, type=text_that(parse_bounds), metavar="<name=value,...>", help=
        "Bounds of the verdict's checks in place of the default ones, such as cov_amber=0.1,cov_red=0.2 (names in "
        "docs/verdict.md)."),
    _off_form("--realism-percentile-rule", "nearest_rank", choices=tuple(RULES), help=
        "Order statistic of a percentile. nearest_rank: at least that share of the requests took no longer; linear: "
        "between two ranks, as numpy; jmeter and locust: as these tools do."),
    _off_form("--realism-fail-if", None, type=text_that(parse_threshold), action="append", metavar="<condition>", help=
        'End with exit status 1 if this is true of the run: "p95 > 400ms", "p99[GET file] > 1s", '
        '"cov outside 0.9..1.1", "failures > 1%%", "verdict is red". May be given several times.'),
    _off_form("--realism-json", None, metavar="<file>", help=
        "Write the figures of the whole run to this file as JSON (schema in docs/json.md)."),
    _off_form("--realism-report", None, metavar="<file>", help=
        "Write the report of the whole run to this file: one HTML page that opens offline."),
    _off_form("--realism-record", "realism-recordings", metavar="<directory>", help=
        "Directory in which each run, and each worker of it, records every launch in a directory of its own, readable "
        "after a crash too. Open its launches.parquet with any tool, or the directory with locust-realism analyze."),
    _off_form("--realism-no-record", False, action="store_true", help=
        "Record nothing on disk: launches stay in memory only, and the oldest are dropped when memory is full."),
    _off_form("--realism-record-fsync", False, action="store_true", help=
        "Force each part of the recording to the disk itself, every few seconds: a power cut too costs only seconds."),
    Option("--population-scale", None, type=bounded(float, least=0), metavar="<factor>", help=
        "Multiply the arrival rate of every open population by this factor. An edit while a test runs takes effect at "
        "once and keeps the present users."),
    Option("--population-period", None, type=read_duration, metavar="<time>", help=
        "Compress the arrival-rate profiles to this period (or length, without a period): 1h plays a day in an hour "
        "at the same rates."),
    Option("--population-session-duration", None, type=read_duration, metavar="<time>", help=
        "Mean session duration of every population that has one; the shape of the distribution stays."),
    Option("--population-people", None, type=bounded(int, least=1), metavar="<int>", help=
        "Number of people of every finite population."),
    Option("--population-max-users", None, type=bounded(int, least=1), metavar="<int>", help=
        "Largest number of users of a population in session at once, over all workers; arrivals beyond it are turned "
        "away and counted."),
    Option("--population-start", "", choices=("", "equilibrium", "empty"), help=
        "Start of an open population: in equilibrium, as a system that has been in use for long, or empty. Without it "
        "the locustfile decides."),
)
# fmt: on
"""Options of the extension itself; a scenario adds its own with :func:`add_options`."""


KNOWN: dict[str, Option] = {}
"""Every option that has been added to a parser, by its ``dest``: ours and those of the locustfiles."""
_groups: WeakKeyDictionary[ArgumentParser, list[tuple[str, str, list[Action]]]] = WeakKeyDictionary()
"""Title, description and options of each group that is added to a parser."""


def add_options(
    parser: ArgumentParser, title: str, options: Iterable[Option], description: str = "", off_form: Collection[str] = ()
) -> None:
    """Add options to Locust's parser in a group of their own; those named in ``off_form`` get no field in the form."""
    group = parser.add_argument_group(title, description or None)
    actions: list[Action] = []
    if parser not in _groups:
        # `locust --help` exits before it loads the locustfile (locustio/locust#2917), so it cannot list these options
        text = "Show the options that the locustfile and its extensions add, and exit. (locust --help ends before it "
        text += "reads the locustfile and cannot show them.)"
        actions.append(group.add_argument("--realism-help", action=_ShowGroups, nargs=0, default=SUPPRESS, help=text))
        describe_field(actions[0], on_form=False)
    _groups.setdefault(parser, []).append((title, description, actions))
    for option in options:
        KNOWN[option.dest] = option
        keywords: dict[str, Any] = {"default": option.default, "help": option.help}
        given = {name: getattr(option, name) for name in ("type", "choices", "metavar", "action")}
        keywords |= {name: value for name, value in given.items() if value is not None}
        action = group.add_argument(option.flag, env_var=f"LOCUST_{option.dest.upper()}", **keywords)
        on_form = option.in_ui and option.dest not in off_form
        describe_field(action, on_form=on_form, is_secret=option.is_secret)
        actions.append(action)


class _ShowGroups(Action):
    """Print the options that the locustfile adds, and exit."""

    def __call__(self, parser: ArgumentParser, *_: object) -> None:
        formatter = parser.formatter_class(prog=parser.prog)
        for title, description, actions in _groups[parser]:
            formatter.start_section(title)
            formatter.add_text(description)
            formatter.add_arguments(actions)
            formatter.end_section()
        parser.exit(message=formatter.format_help())


def read_fields(form: Mapping[str, str], options: Iterable[Option]) -> dict[str, object]:
    """Return the values of the options that a form has fields for; an empty field is the option's default.

    Raises ValueError with the flag, the text and the bound.

    >>> option = Option("--think-time", 1.0, "Mean think time.", type=bounded(float, above=0))
    >>> read_fields({"think_time": "2.5", "user_count": "7"}, [option])
    {'think_time': 2.5}
    >>> read_fields({"think_time": "-1"}, [option])
    Traceback (most recent call last):
    ValueError: --think-time: '-1' must be a number > 0
    """
    values: dict[str, object] = {}
    for option in options:
        text = form.get(option.dest)
        if text is None or option.type is None or not option.in_ui:
            continue
        if not text.strip():
            values[option.dest] = option.default
            continue
        try:
            value = values[option.dest] = option.type(text.strip())
        except (ArgumentTypeError, ValueError) as error:
            raise ValueError(f"{option.flag}: {error}") from None
        if option.choices is not None and value not in option.choices:
            raise ValueError(f"{option.flag}: {text!r} must be one of {', '.join(map(str, option.choices))}")
    return values


def watch_start_form(environment: Environment, web_ui: WebUI) -> None:
    """Read the fields of a web UI's start and edit forms by the options' own readers from now on."""

    @contextmanager
    def stored(values: dict[str, object]) -> Iterator[None]:
        options = vars(environment.parsed_options) if environment.parsed_options else {}
        options.update(dict.fromkeys(values))  # of no type, so that Locust takes the text as it is
        yield
        options.update(values)  # before the users start: that is a greenlet of its own

    check_start(web_ui, lambda fields: stored(read_fields(fields, KNOWN.values())))
