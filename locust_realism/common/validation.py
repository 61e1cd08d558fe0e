"""Checks of settings at construction; each raises ValueError ``NAME must be BOUND, not VALUE``."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import SupportsFloat, TypeVar

T = TypeVar("T")
Check = Callable[[str, object], object]
"""Check of a setting by its name and value; returns what is stored."""


def refusal(name: str, bound: str, value: object) -> ValueError:
    """Return the error of a bad setting, for the caller to raise.

    >>> refusal("end", "> 5.0, the time of the last step", 3)
    ValueError('end must be > 5.0, the time of the last step, not 3')
    """
    return ValueError(f"{name} must be {bound}, not {value!r}")


def number(name: str, value: object) -> float:
    """Return ``value`` as a finite float; text and bool are refused.

    >>> number("mean", True)
    Traceback (most recent call last):
    ValueError: mean must be a finite number, not True
    """
    try:
        converted = float(value) if isinstance(value, SupportsFloat) and not isinstance(value, bool | str) else math.nan
    except (TypeError, ValueError):
        converted = math.nan
    if not math.isfinite(converted):
        raise refusal(name, "a finite number", value)
    return converted


def positive(name: str, value: object) -> float:
    """Return ``value`` as a float above 0.

    >>> positive("mean", -3)
    Traceback (most recent call last):
    ValueError: mean must be > 0, not -3.0
    """
    converted = number(name, value)
    if converted <= 0:
        raise refusal(name, "> 0", converted)
    return converted


def not_negative(name: str, value: object) -> float:
    """Return ``value`` as a float of at least 0.

    >>> not_negative("rate", -1)
    Traceback (most recent call last):
    ValueError: rate must be >= 0, not -1.0
    """
    converted = number(name, value)
    if converted < 0:
        raise refusal(name, ">= 0", converted)
    return converted


def integer(name: str, value: object, least: int = 0) -> int:
    """Return ``value``, an int of at least ``least``; bool is refused.

    >>> integer("people", 0, least=1)
    Traceback (most recent call last):
    ValueError: people must be an integer >= 1, not 0
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise refusal(name, f"an integer >= {least}", value)
    return value


def share(name: str, value: object) -> float:
    """Return ``value`` as a float strictly between 0 and 1.

    >>> share("confidence", 1)
    Traceback (most recent call last):
    ValueError: confidence must be in (0, 1), not 1
    """
    with suppress(ValueError):
        if 0 < (converted := number(name, value)) < 1:
            return converted
    raise refusal(name, "in (0, 1)", value)


def one_of(name: str, value: T, allowed: Collection[T]) -> T:
    """Return ``value``, one of ``allowed``.

    >>> one_of("start", "full", ("equilibrium", "empty"))
    Traceback (most recent call last):
    ValueError: start must be one of equilibrium, empty, not 'full'
    """
    if value not in allowed:
        raise refusal(name, f"one of {', '.join(map(str, allowed)) or 'none'}", value)
    return value


def make_of_kind(kinds: Mapping[str, Callable[..., T]], data: Mapping[str, object]) -> T:
    """Return the object that plain data describes: its ``kind`` selects the class, the other keys are settings.

    Raises ValueError for an unknown kind and for settings that the class does not have.
    """
    kind = str(one_of("kind", data.get("kind"), sorted(kinds)))
    try:
        return kinds[kind](**{name: value for name, value in data.items() if name != "kind"})
    except TypeError as error:
        raise ValueError(f"kind {kind!r} does not take these settings: {error}") from None
