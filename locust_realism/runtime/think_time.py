"""The think time of a scenario as two options: its mean and its distribution."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any

import locust
from locust.env import Environment

from ..workload.checks import not_negative
from ..workload.distribution import Distribution
from ..workload.distributions import constant, exponential, uniform
from .options import Option, add_options, bounded
from .preflight import preflight

KINDS: dict[str, Callable[[float], Distribution]] = {
    "exponential": exponential,
    "uniform": lambda mean: uniform(0, 2 * mean),
    "constant": constant,
}
"""Distributions of a think time by name, each made by its mean; uniform is from 0 to twice the mean."""

events: Any = locust.events


def think_time(mean: float, kind: str = "exponential") -> Distribution:
    """A think time of ``mean`` seconds of one of :data:`KINDS`; with a mean of 0 nobody thinks.

    >>> think_time(6.25, "uniform"), think_time(0)
    (uniform(minimum=0.0, maximum=12.5), constant(mean=0.0))
    """
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}, not {kind!r}")
    return KINDS[kind](mean) if not_negative("mean", mean) > 0 else constant(0)


def think_time_options(*user_classes: Any, mean: float, kind: str = "exponential") -> None:
    """Let ``--think-time`` and ``--think-distribution`` set the think time of user classes; ``mean`` is the default.

    Call it once in a locustfile, after the classes. Both are on the start form too.
    """
    options = (
        Option("--think-time", mean, "Mean think time in seconds.", type=bounded(float, least=0), metavar="<seconds>"),
        Option(
            "--think-distribution",
            kind,
            "How think times are distributed; uniform is from 0 to twice the mean.",
            choices=tuple(KINDS),
        ),
    )
    for user_class in user_classes:
        user_class.wait_time = think_time(mean, kind)

    def add(parser: argparse.ArgumentParser, **_: Any) -> None:
        add_options(parser, "Think time", options)

    def check(environment: Environment, host: str, form: Mapping[str, str]) -> str | None:
        try:
            options[0].type(form.get("think_time", "0"))  # type: ignore[misc]
        except argparse.ArgumentTypeError as error:
            return f"think time: {error}"
        return None

    def start(environment: Environment, **_: Any) -> None:
        chosen: Any = environment.parsed_options
        for user_class in user_classes:
            user_class.wait_time = think_time(chosen.think_time, chosen.think_distribution)

    events.init_command_line_parser.add_listener(add)
    events.test_start.add_listener(start)
    preflight(check)
