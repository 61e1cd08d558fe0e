"""Parts of a scenario in the reports of its workers to the master, checked on arrival."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from locust.env import Environment

from locust_realism.runtime.wire import COUNT, FLAG, NAME, PREFIX, SECONDS, Field, Part, record, wire_of

_T = TypeVar("_T")

_FIELDS: Mapping[type, Field] = {bool: FLAG, int: COUNT, float: SECONDS, str: Field(str, 0, NAME.high, logged=True)}


def report_part(
    environment: Environment,
    name: str,
    keys: Mapping[str, type],
    make: Callable[[], _T | None],
    take: Callable[[str, _T], None],
) -> None:
    """Add a part to each worker's report, every 3 s; call it once per name, in an init listener.

    ``make()`` returns a worker's part as a dictionary, or None for none; it must not yield. The master calls
    ``take(client_id, part)`` with the checked part; other processes take none.

    ``keys`` are the part's keys, each with a type: bool, int (at least 0), float (finite) or str (at most 1024
    characters, control characters arrive escaped); ValueError for another type. A part that does not fit is dropped,
    and its worker is logged once a run.
    """
    for key, kind in keys.items():
        if kind not in _FIELDS:
            raise ValueError(f"report_part {name!r}: key {key!r} has type {kind!r}, expected bool, int, float or str")
    schema = record(**{key: _FIELDS[kind] for key, kind in keys.items()})
    part: Part[_T] = Part(f"{PREFIX}kit_{name}", schema, f"its part {name!r} of the report is left out")
    end = wire_of(environment)
    end.add_part(part, make)
    end.on_part(part, take)
