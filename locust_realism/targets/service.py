"""What a target is like: its stations, the work that is done there, and what slows all of it down.

A :class:`Service` is plain data: it goes to the target's process as JSON, and options change it on the way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from ..workload.checks import positive
from ..workload.distribution import Distribution
from ..workload.distributions import distribution_from_dict
from .interruptions import Stalls
from .queues import DISCIPLINES
from .recent_load import Cache, Collector


@dataclass(frozen=True)
class Station:
    """A place where work is done: ``servers`` (cores, threads, connections), a discipline, and room to wait.

    ``discipline``: "fcfs", first come first served, or "ps", processor sharing. ``room`` is how many may be there
    beyond the ``servers``; the next is refused (status 503). None is without bound. In Kendall's notation with
    exponential work: M/M/servers, and M/M/servers/servers+room. Raises ValueError for impossible settings.
    """

    servers: int = 1
    discipline: str = "fcfs"
    room: int | None = None

    def __post_init__(self) -> None:
        _whole("servers", self.servers, 1)
        if self.discipline not in DISCIPLINES:
            raise ValueError(f"discipline must be one of {', '.join(DISCIPLINES)}, not {self.discipline!r}")
        if self.room is not None:
            _whole("room", self.room, 0)


@dataclass(frozen=True)
class Work:
    """A piece of work: at which station, and how long it takes one server (a distribution, in seconds)."""

    station: str
    time: Any

    def __post_init__(self) -> None:
        if not isinstance(self.time, Distribution):
            raise ValueError(f"time must be a distribution such as exponential(0.05), not {self.time!r}")


@dataclass(frozen=True)
class Page:
    """What is answered to ``method`` ``path``: so many bytes (``size``), after the pieces of ``work`` one by one."""

    path: str
    work: tuple[str, ...]
    size: int = 1000
    method: str = "GET"
    kind: str = "text/html; charset=utf-8"

    def __post_init__(self) -> None:
        if not self.path.startswith("/"):
            raise ValueError(f"path must begin with '/', not {self.path!r}")
        object.__setattr__(self, "work", tuple(self.work))
        _whole("size", self.size, 0)


@dataclass(frozen=True)
class Service:
    """A target: named stations, named pieces of work, pages, and what holds everything up.

    ``speed`` divides all service times (2 is a machine twice as fast); ``stalls`` and ``collector`` stop all stations,
    ``cache`` makes all work longer when it is cold. ``seed`` fixes the service times: the n-th piece of work of a name
    takes the same in every run. ``pages`` are what a target without an application of its own answers.
    Raises ValueError for impossible settings.

    >>> from locust_realism.workload.distributions import exponential
    >>> mm1 = Service({"server": Station()}, {"page": Work("server", exponential(0.05))}, pages=(Page("/", ("page",)),))
    >>> Service.from_dict(mm1.to_dict()) == mm1
    True
    """

    stations: Mapping[str, Station]
    work: Mapping[str, Work]
    pages: tuple[Page, ...] = ()
    stalls: Stalls | None = None
    cache: Cache | None = None
    collector: Collector | None = None
    speed: float = 1.0
    seed: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "stations", dict(self.stations))
        object.__setattr__(self, "work", dict(self.work))
        object.__setattr__(self, "pages", tuple(self.pages))
        object.__setattr__(self, "speed", positive("speed", self.speed))
        if self.seed is not None:
            _whole("seed", self.seed, 0)
        for name, work in self.work.items():
            _known(f"the station of work {name!r}", work.station, self.stations)
        for page in self.pages:
            for name in page.work:
                _known(f"the work of page {page.path!r}", name, self.work)

    def with_stations(self, name: str | None, **changes: Any) -> Service:
        """The same with one station changed, or all if ``name`` is None."""
        if name is not None:
            _known("the station", name, self.stations)
        changed = {
            key: replace(station, **changes) if name in (None, key) else station
            for key, station in self.stations.items()
        }
        return replace(self, stations=changed)

    def with_time(self, name: str, time: Distribution) -> Service:
        """The same with another service time for one piece of work."""
        _known("the work", name, self.work)
        return replace(self, work={**self.work, name: replace(self.work[name], time=time)})

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "stations": {name: asdict(station) for name, station in self.stations.items()},
            "work": {name: {"station": w.station, "time": w.time.to_dict()} for name, w in self.work.items()},
            "pages": [asdict(page) for page in self.pages],
            "stalls": self.stalls and asdict(self.stalls),
            "cache": self.cache and asdict(self.cache),
            "collector": self.collector and asdict(self.collector),
            "speed": self.speed,
            "seed": self.seed,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Service:
        """The inverse of :meth:`to_dict`; ValueError for what it would not have written."""
        try:
            return cls(
                stations={name: Station(**given) for name, given in data["stations"].items()},
                work={name: Work(w["station"], distribution_from_dict(w["time"])) for name, w in data["work"].items()},
                pages=tuple(Page(**page) for page in data["pages"]),
                stalls=data["stalls"] and Stalls(**data["stalls"]),
                cache=data["cache"] and Cache(**data["cache"]),
                collector=data["collector"] and Collector(**data["collector"]),
                speed=data["speed"],
                seed=data["seed"],
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"this is no service: {type(error).__name__}: {error}") from None


def _whole(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name} must be an integer >= {least}, not {value!r}")


def _known(what: str, name: str, names: Mapping[str, Any]) -> None:
    if name not in names:
        raise ValueError(f"{what} must be one of {', '.join(names) or 'none'}, not {name!r}")
