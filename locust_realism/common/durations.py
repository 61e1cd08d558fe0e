"""Reader and writers of durations: ``90``, ``500ms``, ``2m``, ``1h30m`` in; ``50 ms``, ``1 min 40 s`` out."""

from __future__ import annotations

import argparse
import math
import re

EXPECTED = "a time span such as 500ms, 90, 90s, 2m or 1h30m"

_UNITS_S = {"ms": 1e-3, "s": 1.0, "": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"\s*(\d+\.?\d*|\.\d+)\s*(ms|min|s|m|h|d|$)", re.ASCII)


class DurationError(ValueError, argparse.ArgumentTypeError):
    """Text that is no duration; argparse prints its message as it stands."""


def read_duration(text: str, name: str = "") -> float:
    """Return the seconds of a duration: a number of seconds, or numbers with units, the largest unit first.

    Units are d, h, m or min, s and ms; a last number without one is in seconds. Raises DurationError, a ValueError,
    with the parameter's ``name`` (argparse adds its own), the text and the format.

    >>> [read_duration(text) for text in ("90", "1.5m", "1h30m", "2min", "5ms")]
    [90.0, 90.0, 5400.0, 120.0, 0.005]
    """
    rest, total, smallest = text.rstrip(), 0.0, math.inf
    while (match := _PART.match(rest)) and (unit := _UNITS_S[match[2]]) < smallest:
        rest, total, smallest = rest[match.end() :], total + float(match[1]) * unit, unit
    if rest or smallest == math.inf:
        raise DurationError(f"{name} must be {EXPECTED}, not {text!r}" if name else f"{text!r} must be {EXPECTED}")
    return total


def write_duration(seconds: float) -> str:
    """Return a measured duration with 3 significant digits, in milliseconds below 1 s, else in seconds.

    >>> write_duration(0.05), write_duration(12.3456), write_duration(1800)
    ('50 ms', '12.3 s', '1,800 s')
    """
    value, unit = (1e3 * seconds, "ms") if seconds < 1 else (seconds, "s")
    return f"{value:,.0f} {unit}" if value >= 1000 else f"{value:.3g} {unit}"


def write_time_left(seconds: float) -> str:
    """Return a remaining time in its two largest units, rounded up to whole seconds.

    >>> write_time_left(8), write_time_left(100), write_time_left(4000), write_time_left(200_000)
    ('8 s', '1 min 40 s', '1 h 6 min', '2 d 7 h')
    """
    whole = math.ceil(seconds - 1e-3)
    for size, unit, part, part_unit in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // part} {part_unit}"
    return f"{whole} s"
