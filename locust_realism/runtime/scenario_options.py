"""The options that a locustfile brings along."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import locust

from .options import Option, add_options, bounded

events: Any = locust.events

POSITIVE = bounded(float, above=0)
"""Reads a number > 0."""


def scenario_options(title: str, options: Sequence[Option]) -> None:
    """Give Locust's command line a group of options; call it once in a locustfile.

    Values are attributes of ``environment.parsed_options`` (``--shop-load`` is ``shop_load``). Each is an environment
    variable too, and where ``in_ui`` is set a field of the start form.
    """

    def add(parser: argparse.ArgumentParser, **_: Any) -> None:
        add_options(parser, title, options)

    events.init_command_line_parser.add_listener(add)
