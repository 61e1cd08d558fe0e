"""Spawn messages that do not stall a worker.

For each message that tells a worker how many users to have, Locust 2.47 builds its command-line parser once for every
option that it has, to know which of them are Locust's own: 0.2 to 0.4 s in which nothing else of the worker runs.
During a ramp there is one such message a second, and each is a pause and then a bunch of launches. The options of
Locust do not change while it runs, so the answer is kept.
"""

from __future__ import annotations

import functools
from typing import Any

from locust import argument_parser


def quicken_spawn_messages() -> None:
    """Have a worker look up Locust's own options once; calling it again changes nothing."""
    module: Any = argument_parser
    look_up = getattr(module, "default_args_dict", None)
    if look_up is not None and not hasattr(look_up, "cache_info"):
        module.default_args_dict = functools.cache(look_up)
        module.default_args_dict()
