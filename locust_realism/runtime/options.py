"""Command-line options of the extension, as one table.

Each row is a flag in a group of its own in ``locust --help``, an environment variable (``--realism-seed`` is
LOCUST_REALISM_SEED), a key of Locust's config files and, where it makes sense for a run to come, a field of the start
form in the web UI.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any


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


OPTIONS: tuple[Option, ...] = (
    Option(
        "--realism-seed",
        None,
        "Seed of every think time, pace and arrival: the same seed repeats the same waits for the same user slot on "
        "the same worker. Without one a seed is drawn and printed.",
        type=bounded(int, least=0),
        metavar="<int>",
    ),
)
"""The options of the extension itself; a scenario adds its own with :func:`add_options`."""


def add_options(parser: argparse.ArgumentParser, title: str, options: Iterable[Option], description: str = "") -> None:
    """Add options to Locust's parser in a group of their own.

    Locust's own ``add_argument`` cannot be used on a group, because a group does not know its UI keywords: the
    attributes that Locust looks for are set on the action instead.
    """
    group = parser.add_argument_group(title, description or None)
    for option in options:
        keywords: dict[str, Any] = {"default": option.default, "help": option.help, "env_var": option.env_var}
        for name in ("type", "choices", "metavar", "action"):
            if getattr(option, name) is not None:
                keywords[name] = getattr(option, name)
        action: Any = group.add_argument(option.flag, **keywords)
        action.include_in_web_ui = option.in_ui
        action.is_secret = option.is_secret
        action.is_required = False
        action.is_multiple = False
