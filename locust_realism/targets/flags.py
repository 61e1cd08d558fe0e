"""The options of a target's command line, which change a :class:`~.service.Service`.

The same options go through Locust in one: ``--target-options "--servers 4 --stall 1.5/5"``.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from ..workload.distribution_text import distribution_from_text
from . import process
from .interruptions import Stalls
from .queues import DISCIPLINES
from .recent_load import Cache, Collector
from .service import Service

_T = TypeVar("_T")


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the options that every target has."""
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=0, help="port to listen on (default: a free one)")
    parser.add_argument("--service", metavar="JSON", help="the whole service, as Service.to_dict gives it, or a file")
    add = partial(parser.add_argument, action="append", default=[])
    named = "; with STATION= in front, of one station only"
    add("--servers", metavar="[STATION=]N", help="servers (cores, threads) of every station" + named)
    add("--discipline", metavar="[STATION=]NAME", help=f"{' or '.join(DISCIPLINES)}" + named)
    add("--room", metavar="[STATION=]N", help="how many may be there beyond the servers, or none (no bound)" + named)
    add("--time", metavar="WORK=TIME", help="how long a piece of work takes: 0.05, exponential(0.05), lognormal(1, 2)")
    parser.add_argument("--speed", type=float, metavar="X", help="divide all service times by this")
    parser.add_argument("--stall", metavar="LENGTH/EVERY", help="stand still for LENGTH seconds in every EVERY")
    parser.add_argument(
        "--cache", metavar="COLD/RATE/MEMORY",
        help="work takes COLD times as long after a silence, ever less up to several times RATE requests a second, "
        "over the last MEMORY seconds",
    )  # fmt: skip
    parser.add_argument(
        "--collector", metavar="EVERY/EACH/MEMORY",
        help="after EVERY requests all stand still, EACH seconds for each request of the last MEMORY seconds",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, metavar="N", help="the same service times in every run")
    parser.add_argument(process.END_WITH_PARENT, action="store_true", help=argparse.SUPPRESS)


def _room(text: str) -> int | None:
    return None if text == "none" else int(text)


_READERS: dict[str, Callable[[str], Any]] = {"servers": int, "discipline": str, "room": _room}


def with_flags(service: Service | None, options: argparse.Namespace) -> Service:
    """The service with what the options change; ValueError with the option and its value."""
    if options.service is not None:
        service = _read("service", options.service, _service_of)
    if service is None:
        raise ValueError("service must be given by --service")
    for flag, reader in _READERS.items():
        for text in getattr(options, flag):
            service = _read(flag, text, partial(_change_station, service, flag, reader))
    for text in options.time:
        service = _read("time", text, partial(_change_time, service))
    changes: dict[str, Any] = {}
    makers: tuple[tuple[str, Callable[[str], Any]], ...] = (
        ("stall", _stalls),
        ("cache", _cache),
        ("collector", _collector),
    )
    for flag, maker in makers:
        text = getattr(options, flag)
        if text is not None:
            name = "stalls" if flag == "stall" else flag
            changes[name] = None if text == "none" else _read(flag, text, maker)
    changes |= {flag: getattr(options, flag) for flag in ("speed", "seed") if getattr(options, flag) is not None}
    return replace(service, **changes)


def _read(flag: str, text: str, reader: Callable[[str], _T]) -> _T:
    try:
        return reader(text)
    except (ValueError, OSError) as error:
        raise ValueError(f"--{flag} {text}: {error}") from None


def _service_of(text: str) -> Service:
    return Service.from_dict(json.loads(text if text.lstrip().startswith("{") else Path(text).read_text()))


def _change_station(service: Service, what: str, reader: Callable[[str], Any], text: str) -> Service:
    name, equals, value = text.rpartition("=")
    return service.with_stations(name if equals else None, **{what: reader(value)})


def _change_time(service: Service, text: str) -> Service:
    name, _, time = text.partition("=")  # the time may hold an equals sign too
    return service.with_time(name, distribution_from_text(time))


def _parts(text: str, names: str) -> list[float]:
    numbers = [float(part) for part in text.split("/")]
    if len(numbers) != len(names.split("/")):
        raise ValueError(f"must be {names}")
    return numbers


def _stalls(text: str) -> Stalls:
    length, every = _parts(text, "LENGTH/EVERY")
    return Stalls(every=every, length=length)


def _cache(text: str) -> Cache:
    return Cache(*_parts(text, "COLD/RATE/MEMORY"))


def _collector(text: str) -> Collector:
    every, each, memory = _parts(text, "EVERY/EACH/MEMORY")
    return Collector(int(every), each, memory)
