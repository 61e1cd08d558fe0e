"""Command-line options of a locustfile, among them the think time of its users."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable, Sequence

from locust import User, events
from locust.env import Environment

from locust_realism.common.durations import read_duration
from locust_realism.common.validation import not_negative, one_of
from locust_realism.runtime.coordination.plan import connecting as connecting
from locust_realism.runtime.locust_compat import is_stopping as is_stopping
from locust_realism.runtime.options import Option as Option
from locust_realism.runtime.options import add_options
from locust_realism.runtime.options import bounded as bounded
from locust_realism.workload.distributions import constant, exponential, uniform
from locust_realism.workload.distributions.base import Distribution

POSITIVE = bounded(float, above=0)
"""Reader of a number > 0, for the ``type`` of an option."""
NOT_NEGATIVE = bounded(float, least=0)
"""Reader of a number >= 0, for the ``type`` of an option."""


def scenario_options(title: str, options: Sequence[Option], description: str = "") -> None:
    """Add a group of options to Locust's command line; call it once in a locustfile.

    ``environment.parsed_options`` holds the values (``--shop-load`` as ``shop_load``). Each option is an environment
    variable too, and with ``in_ui`` a field of the start form.
    """

    def add(parser: ArgumentParser, **_: object) -> None:
        add_options(parser, title, options, description)

    events.init_command_line_parser.add_listener(add)


KINDS: dict[str, Callable[[float], Distribution]] = {
    "exponential": exponential,
    "uniform": lambda mean: uniform(0, 2 * mean),
    "constant": constant,
}
"""Distributions of a think time by name, each made from its mean; uniform is from 0 to twice the mean."""


def think_time(mean: float, kind: str = "exponential") -> Distribution:
    """Return a think time of ``mean`` seconds of one of :data:`KINDS`; a mean of 0 is no wait at all.

    >>> think_time(6.25, "uniform"), think_time(0)
    (uniform(minimum=0.0, maximum=12.5), constant(mean=0.0))
    """
    make = KINDS[one_of("kind", kind, KINDS)]
    return make(mean) if not_negative("mean", mean) > 0 else constant(0)


def think_time_options(*user_classes: type[User], mean: float, kind: str = "exponential") -> None:
    """Add ``--think-time`` and ``--think-distribution``, with these defaults, for user classes.

    Call it once in a locustfile, after the classes. Both options are on the start form.
    """
    form = "Distribution of think times; uniform is from 0 to twice the mean."
    options = (
        Option("--think-time", mean, "Mean think time, such as 2, 500ms or 1m.", type=read_duration, metavar="<time>"),
        Option("--think-distribution", kind, form, choices=tuple(KINDS)),
    )
    scenario_options("Think time", options)

    def set_wait(environment: Environment | None = None, **_: object) -> None:
        chosen = environment.parsed_options if environment else None
        wait = think_time(chosen.think_time, chosen.think_distribution) if chosen else think_time(mean, kind)
        for user_class in user_classes:
            user_class.wait_time = wait

    set_wait()
    events.test_start.add_listener(set_wait)
