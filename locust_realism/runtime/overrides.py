"""What the command line and the start form put in place of a population's settings."""

from __future__ import annotations

import argparse
from typing import Any

from ..workload.checks import number, positive
from ..workload.scaled import scaled
from .options import seconds


def given(options: Any, name: str) -> float | None:
    """The value of an option as a number (a time span in seconds); None if left empty. The start form sends text."""
    value = getattr(options, name, None)
    if value is None or value == "":
        return None
    try:
        return number(name, seconds(value) if isinstance(value, str) else value)
    except (argparse.ArgumentTypeError, ValueError):
        raise ValueError(f"--{name.replace('_', '-')} must be a number or a time span, not {value!r}") from None


def common_changes(population: Any, options: Any) -> dict[str, Any]:
    """The settings of a population that the options replace, whatever its model."""
    changes: dict[str, Any] = {}
    if (mean := given(options, "population_session_duration")) is not None and population.session_duration is not None:
        factor = positive("--population-session-duration", mean) / population.session_duration.mean
        changes["session_duration"] = scaled(population.session_duration, factor)
    if (limit := given(options, "population_max_users")) is not None:
        changes["max_users"] = int(limit)
    if warm_up := given(options, "realism_warmup"):
        changes["warm_up"] = warm_up
    return changes
