"""Causes of lateness beside the health columns: code that blocked the loop, other busy processes, single pauses."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, TypedDict, TypeGuard, TypeVar

MAX_ENTRIES = 20
"""Places and names that are kept, the largest ones."""
MAX_NAME = 200
"""Characters of a place or a name."""
MAX_KEPT = 3 * MAX_ENTRIES
"""Places and names of a process that are counted; the smallest beyond are dropped."""
MAX_PAUSES = 10
PAUSE_S = 0.25
"""Shortest stall of the event loop, in seconds, that is listed by itself."""
MAX_PAUSE_S = 1e7
MAX_CORES = 1e5

Time = TypeVar("Time", int, float)
Named = tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Diagnosis:
    """Places in code, processes and pauses, largest first; pauses in their order.

    - ``blockers`` places such as ``locustfile.py:12 in hash_password``, with the share of the time that they blocked
    - ``others`` processes that do not belong to this Locust, with the cores that they used while the machine was busy,
      and ``own_cores`` those of this Locust's processes there; None where nobody looked
    - ``pauses`` stalls of an event loop over PAUSE_S: start in epoch microseconds, length in seconds
    """

    blockers: Named = ()
    others: Named = ()
    pauses: tuple[tuple[int, float], ...] = ()
    own_cores: float | None = None

    def since(self, run_start_us: int) -> tuple[tuple[float, float], ...]:
        """Return the pauses with their start in seconds of the run.

        >>> Diagnosis(pauses=((12_500_000, 0.3),)).since(10_000_000)
        ((2.5, 0.3),)
        """
        return tuple(((at_us - run_start_us) / 1e6, length) for at_us, length in self.pauses)

    def within(self, first_us: int, last_us: int) -> Diagnosis:
        """Return what is known of a period, both ends included: its pauses; the shares are of the whole time.

        >>> Diagnosis((("f", 0.1),), (), ((1_000_000, 0.3), (5_000_000, 0.5))).within(1_200_000, 4_000_000)
        Diagnosis(blockers=(), others=(), pauses=((1000000, 0.3),), own_cores=None)
        """
        return Diagnosis(pauses=tuple((at, s) for at, s in self.pauses if at <= last_us and at + s * 1e6 >= first_us))

    def document(self) -> dict[str, object]:
        """Return the entry ``diagnosis`` of ``run.json``; :func:`read_diagnosis` reads it."""
        return asdict(self)


def read_diagnosis(entry: object) -> Diagnosis:
    """Return the diagnosis of a file's entry; whatever does not fit is left out.

    >>> read_diagnosis({"blockers": [["a.py:3 in f", 0.4], ["b", 7], [1, 2]], "pauses": "none"})
    Diagnosis(blockers=(('a.py:3 in f', 0.4),), others=(), pauses=(), own_cores=None)
    """
    if not isinstance(entry, dict):
        return Diagnosis()
    pauses = tuple(
        (at, float(length))
        for at, length in _pairs(entry.get("pauses"), MAX_PAUSES)
        if type(at) is int and 0 <= at < 1 << 52 and _number(length, MAX_PAUSE_S)
    )
    own = entry.get("own_cores")
    cores = float(own) if _number(own, MAX_CORES) else None
    return Diagnosis(_named(entry.get("blockers"), 1.0), _named(entry.get("others"), MAX_CORES), pauses, cores)


def _named(value: object, high: float) -> Named:
    return tuple(
        (printable(name), float(number))
        for name, number in _pairs(value, MAX_ENTRIES)
        if isinstance(name, str) and _number(number, high)
    )


def _pairs(value: object, most: int) -> list[tuple[Any, Any]]:
    """Return the first entries of a list that are pairs."""
    listed = value[:most] if isinstance(value, list) else []
    return [(pair[0], pair[1]) for pair in listed if isinstance(pair, list) and len(pair) == 2]


def _number(value: object, high: float) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= high


def printable(text: str) -> str:
    """Return a name as one line of at most MAX_NAME printable characters.

    >>> printable("a\\nb")
    'a?b'
    """
    return "".join(each if each.isprintable() else "?" for each in text[:MAX_NAME])


# While the test runs --------------------------------------------------------------------------------------------------


class Causes(TypedDict):
    """Counts of one process for a time: at most MAX_ENTRIES places and names, MAX_PAUSES pauses.

    - ``beats`` heartbeats, of them ``blocked`` by code on the loop, of these ``sampled`` by place in ``places``
    - ``looks`` at the processes of the busy machine; sums over the looks of the ``own`` cores and those of ``others``
    - ``pauses`` start on the process's axis in microseconds, length in seconds
    """

    beats: int
    blocked: float
    sampled: float
    places: list[tuple[str, float]]
    looks: int
    own: float
    others: list[tuple[str, float]]
    pauses: list[tuple[int, float]]


@dataclass
class Tally:
    """Sum of the counts of one process since the start of the judged time."""

    beats: int = 0
    blocked: float = 0.0
    sampled: float = 0.0
    looks: int = 0
    own: float = 0.0
    places: dict[str, float] = field(default_factory=dict)
    others: dict[str, float] = field(default_factory=dict)
    pauses: list[tuple[int, float]] = field(default_factory=list)

    def add(self, causes: Causes, shift_us: float = 0.0) -> None:
        """Add counts whose axis is ``shift_us`` behind the master's."""
        self.beats += causes["beats"]
        self.blocked += causes["blocked"]
        self.sampled += causes["sampled"]
        self.looks += causes["looks"]
        self.own += causes["own"]
        for counts, found in ((self.places, causes["places"]), (self.others, causes["others"])):
            for name, value in found:
                counts[printable(name)] = counts.get(printable(name), 0.0) + value
            for name in sorted(counts, key=lambda name: -counts[name])[MAX_KEPT:]:
                del counts[name]
        self.pauses = longest([*self.pauses, *((round(at + shift_us), length) for at, length in causes["pauses"])])

    def diagnosis(self) -> Diagnosis:
        """Return the diagnosis of this process; blocked heartbeats without a sample are shared out as the others."""
        beats = self.beats * self.sampled / self.blocked if self.blocked else 0.0
        own = self.own / self.looks if self.looks else None
        return Diagnosis(_ranked(self.places, beats), _ranked(self.others, self.looks), tuple(sorted(self.pauses)), own)


def longest(pauses: Iterable[tuple[Time, float]]) -> list[tuple[Time, float]]:
    """Return the MAX_PAUSES longest pauses, each its start and its length."""
    return sorted(pauses, key=lambda pause: -pause[1])[:MAX_PAUSES]


def summed(tables: Iterable[Named]) -> list[tuple[str, float]]:
    """Return the MAX_ENTRIES names with the largest sums.

    >>> summed([(("a", 1.0), ("b", 3.0)), (("a", 1.5),)])
    [('b', 3.0), ('a', 2.5)]
    """
    found: dict[str, float] = {}
    for name, value in (row for table in tables for row in table):
        found[name] = found.get(name, 0.0) + value
    return list(_ranked(found, 1.0))


def _ranked(counts: Mapping[str, float], total: float) -> Named:
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:MAX_ENTRIES]
    return tuple((name, value / total) for name, value in ranked if value > 0 and total > 0)


def worst_of(diagnoses: Iterable[Diagnosis]) -> Diagnosis:
    """Return the union of several processes' diagnoses: the largest share of each place; pauses that overlap are one.

    The cores are those of one machine, on which other processes use the most.

    >>> worst_of([Diagnosis((("f", 0.1),), (), ((5, 0.5),)), Diagnosis((("f", 0.3),), (), ((9, 0.5),))])
    Diagnosis(blockers=(('f', 0.3),), others=(), pauses=((5, 0.500004),), own_cores=None)
    """
    every = list(diagnoses)
    merged: list[tuple[int, float]] = []
    for at, length in sorted(pause for each in every for pause in each.pauses):
        if merged and at <= merged[-1][0] + merged[-1][1] * 1e6:
            first, before = merged[-1]
            merged[-1] = (first, max(before, length + (at - first) / 1e6))
        else:
            merged.append((at, length))
    looked = [each for each in every if each.own_cores is not None]
    machine = max(looked, key=lambda each: sum(cores for _, cores in each.others), default=Diagnosis())
    places = _largest(each.blockers for each in every)
    return Diagnosis(places, machine.others, tuple(sorted(longest(merged))), machine.own_cores)


def _largest(tables: Iterable[Named]) -> Named:
    found: dict[str, float] = {}
    for name, value in (row for table in tables for row in table):
        found[name] = max(value, found.get(name, -math.inf))
    return _ranked(found, 1.0)
