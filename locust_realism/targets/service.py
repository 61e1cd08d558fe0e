"""Model of a target: stations, the work done there, and costs that depend on recent load.

A :class:`Service` is plain data: it goes to the target's process as JSON, and options change it on the way. A cache is
cold after little load and a collector pauses long after much, which a test under constant load does not show.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from locust_realism.common.validation import integer, one_of, refusal
from locust_realism.targets.queues import DISCIPLINES, Stalls, make_positive
from locust_realism.workload.distributions import distribution_from_dict
from locust_realism.workload.distributions.base import Distribution


@dataclass(frozen=True)
class Cache:
    """A cache: work takes up to ``cold`` times as long after little load.

    The factor is 1 + (cold - 1) exp(-r / warm_rate), with r the :class:`RecentRate` per second over ``memory`` seconds:
    ``cold`` after a long silence, near 1 at several times ``warm_rate``. Raises ValueError unless cold >= 1 and the
    others are > 0.

    >>> cache = Cache(cold=3, warm_rate=10, memory=30)
    >>> cache.factor(0.0), round(cache.factor(10.0), 3), round(cache.factor(50.0), 3)
    (3.0, 1.736, 1.013)
    """

    cold: float
    warm_rate: float
    memory: float

    def __post_init__(self) -> None:
        make_positive(self, "cold", "warm_rate", "memory")
        if self.cold < 1:
            raise refusal("cold", ">= 1", self.cold)

    def factor(self, rate: float) -> float:
        """Return the factor of the service times at a recent ``rate`` per second."""
        return 1 + (self.cold - 1) * math.exp(-rate / self.warm_rate)


@dataclass(frozen=True)
class Collector:
    """A copying garbage collector: every ``every`` requests all servers pause in proportion to the recent load.

    A pause lasts ``seconds_each`` for each request of the last ``memory`` seconds: r memory seconds_each at r requests
    per second, r / every times per second. Raises ValueError for impossible settings.

    >>> Collector(every=500, seconds_each=0.0005, memory=20).pause(rate=50.0)
    0.5
    """

    every: int
    seconds_each: float
    memory: float

    def __post_init__(self) -> None:
        integer("every", self.every, 1)
        make_positive(self, "seconds_each", "memory")

    def pause(self, rate: float) -> float:
        """Return the length of a pause in seconds at a recent ``rate`` per second."""
        return self.seconds_each * self.memory * rate


class RecentRate:
    """Recent requests per second: each adds 1/memory at its arrival and fades by exp(-age/memory).

    >>> rate = RecentRate(memory=10)
    >>> for second in range(100):
    ...     rate.count(float(second))
    >>> round(rate.at(99.0), 2), round(rate.at(199.0), 5)
    (1.05, 5e-05)
    """

    def __init__(self, memory: float) -> None:
        self.memory = memory
        self._rate = self._since = 0.0

    def count(self, now: float) -> None:
        """Count a request."""
        self._rate = self.at(now) + 1 / self.memory
        self._since = now

    def at(self, now: float) -> float:
        """Return the recent rate per second; ``now`` must not decrease between calls."""
        return self._rate * math.exp(-(now - self._since) / self.memory)


@dataclass(frozen=True)
class Station:
    """A station: ``servers`` (cores, threads, connections), a discipline, and room to wait.

    ``discipline``: "fcfs", first come first served, or "ps", processor sharing. ``room`` is the number of waiting
    places, None for any number; a job without a place is refused (status 503). In Kendall's notation with exponential
    work: M/M/servers, and M/M/servers/servers+room. Raises ValueError for impossible settings.
    """

    servers: int = 1
    discipline: str = "fcfs"
    room: int | None = None

    def __post_init__(self) -> None:
        integer("servers", self.servers, 1)
        one_of("discipline", self.discipline, DISCIPLINES)
        if self.room is not None:
            integer("room", self.room)


@dataclass(frozen=True)
class Work:
    """A piece of work: its station, and the time that it takes one server (a distribution, in seconds)."""

    station: str
    time: Distribution

    def __post_init__(self) -> None:
        if not isinstance(self.time, Distribution):
            raise refusal("time", "a distribution such as exponential(0.05)", self.time)


@dataclass(frozen=True)
class Page:
    """Answer to ``method`` ``path``: ``size`` bytes, after the pieces of ``work`` one by one."""

    path: str
    work: tuple[str, ...]
    size: int = 1000
    method: str = "GET"
    kind: str = "text/html; charset=utf-8"

    def __post_init__(self) -> None:
        if not self.path.startswith("/"):
            raise ValueError(f"path must begin with '/', not {self.path!r}")
        object.__setattr__(self, "work", tuple(self.work))
        integer("size", self.size)


@dataclass(frozen=True)
class Service:
    """Service of a target: named stations, named pieces of work, pages, and stalls, cache and collector.

    ``speed`` divides all service times (2 is a machine twice as fast); ``stalls`` and ``collector`` stop all stations,
    ``cache`` makes all work longer while it is cold. ``seed`` fixes the service times: the n-th piece of work of a name
    takes the same in every run. A target without an application of its own answers the ``pages``.
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
        for name, kind in (("stations", dict), ("work", dict), ("pages", tuple)):
            object.__setattr__(self, name, kind(getattr(self, name)))
        make_positive(self, "speed")
        if self.seed is not None:
            integer("seed", self.seed)
        for name, work in self.work.items():
            one_of(f"the station of work {name!r}", work.station, self.stations)
        for page in self.pages:
            for name in page.work:
                one_of(f"the work of page {page.path!r}", name, self.work)

    def with_stations(self, name: str | None, **changes: Any) -> Service:
        """Return the service with one station changed, or all if ``name`` is None."""
        names = self.stations if name is None else (one_of("the station", name, self.stations),)
        return replace(
            self, stations={**self.stations, **{key: replace(self.stations[key], **changes) for key in names}}
        )

    def with_time(self, name: str, time: Distribution) -> Service:
        """Return the service with another service time for one piece of work."""
        one_of("the work", name, self.work)
        return replace(self, work={**self.work, name: replace(self.work[name], time=time)})

    def to_dict(self) -> dict[str, object]:
        """Return plain data for JSON."""
        work = {name: {"station": work.station, "time": work.time.to_dict()} for name, work in self.work.items()}
        return {**asdict(self), "work": work}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Service:
        """Return the service of a :meth:`to_dict` document; ValueError for any other document."""
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
