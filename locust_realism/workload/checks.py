"""Checks of settings: a bad value is refused when a locustfile loads, with its name, the value and the bound."""

from __future__ import annotations

import math
from typing import Any


def number(name: str, value: Any) -> float:
    """``value`` as a finite float, else ValueError.

    >>> number("mean", True)
    Traceback (most recent call last):
    ValueError: mean must be a finite number, not True
    """
    try:
        converted = float(value) if not isinstance(value, bool | str | bytes) else math.nan
    except (TypeError, ValueError):
        converted = math.nan
    if not math.isfinite(converted):
        raise ValueError(f"{name} must be a finite number, not {value!r}")
    return converted


def positive(name: str, value: Any) -> float:
    """``value`` as a float above 0, else ValueError.

    >>> positive("mean", -3)
    Traceback (most recent call last):
    ValueError: mean must be > 0, not -3.0
    """
    converted = number(name, value)
    if converted <= 0:
        raise ValueError(f"{name} must be > 0, not {converted!r}")
    return converted


def not_negative(name: str, value: Any) -> float:
    """``value`` as a float of at least 0, else ValueError.

    >>> not_negative("rate", -1)
    Traceback (most recent call last):
    ValueError: rate must be >= 0, not -1.0
    """
    converted = number(name, value)
    if converted < 0:
        raise ValueError(f"{name} must be >= 0, not {converted!r}")
    return converted
