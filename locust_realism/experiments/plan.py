"""A plan: which scenario runs over which grid, for how long, how often and in which order; and what its page shows."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

COOL_DOWN_S = 1.0
"""What is left out at the end of a run unless the plan says otherwise: users who stop say goodbye there."""


def users_in_words(number: int) -> str:
    """How many users.

    >>> users_in_words(1), users_in_words(2000)
    ('1 user', '2,000 users')
    """
    return f"{number:,} user" + ("" if number == 1 else "s")


@dataclass(frozen=True)
class Server:
    """A server that a variant brings: started before its runs and ended after them.

    ``command`` is a list of words; ``{port}`` in it is a free port and ``{python}`` the interpreter. It runs in the
    plan's directory, and is ready when ``path`` is answered.
    """

    command: tuple[str, ...]
    path: str = "/"


@dataclass(frozen=True)
class Variant:
    """One way of running the scenario: its options, its server, its own part of the grid, its own length."""

    name: str
    scenario: Path
    options: tuple[tuple[str, Any], ...]
    users: tuple[int, ...]
    think_times: tuple[float | None, ...]
    host: str | None = None
    server: Server | None = None
    spawn_rate: float | None = None
    processes: int = 1
    steady_s: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Cell:
    """One run of a plan: a place in the grid, the number of its repetition, and the seed that this run gets."""

    variant: Variant
    users: int
    think_time_s: float | None
    seed: int
    repetition: int
    key: str

    @property
    def run_seed(self) -> int:
        """The seed of this run: that of the plan in the first repetition, another one in each further."""
        return self.seed if not self.repetition else self.seed + 1_000_003 * self.repetition

    @property
    def words(self) -> str:
        """The cell in words, for the progress line.

        >>> Cell(Variant("stalls", Path(), (), (5,), (0.5,)), 5, 0.5, 1, 1, "").words
        'stalls, 5 users, think time 0.5 s, seed 1, repetition 2'
        """
        parts = [self.variant.name] if self.variant.name else []
        parts.append(users_in_words(self.users))
        if self.think_time_s is not None:
            parts.append(f"think time {self.think_time_s:g} s")
        parts.append(f"seed {self.seed}" + (f", repetition {self.repetition + 1}" if self.repetition else ""))
        return ", ".join(parts)


@dataclass(frozen=True)
class Report:
    """What the page shows beside the table of cells.

    - ``figures_of`` the request whose response times are shown (``GET file``), "" for all together
    - ``targets`` conditions of which the page says up to how many users they hold
    - ``density_users`` numbers of users of which the densities are drawn, () for the two largest
    - ``groups``, ``compare``, ``capacity``, ``rate``, ``feedback``: whether there is a part on the CoV by number of
      users, on differences between the first variant and the others, on the knee within a run, on the rate and the
      response times over time, on R / (R + Z) against CoV
    - ``windows`` sizes of the windows of samples that are compared with all of them
    - ``x`` what the charts run over: ``users`` or ``think_time``
    """

    figures_of: str = ""
    targets: tuple[str, ...] = ()
    density_users: tuple[int, ...] = ()
    groups: bool = False
    compare: bool = False
    capacity: bool = False
    rate: bool = False
    feedback: bool = False
    windows: tuple[int, ...] = ()
    x: str = "users"


@dataclass(frozen=True)
class Plan:
    """A checked plan. Times are seconds; ``cells()`` are its runs in the order in which they run."""

    name: str
    variants: tuple[Variant, ...]
    seeds: tuple[int, ...] = (1,)
    repetitions: int = 1
    warm_up_s: float = 5.0
    steady_s: float = 30.0
    cool_down_s: float = COOL_DOWN_S
    think_option: str = "--think-time"
    order_seed: int = 1
    full: bool = False
    has_full: bool = False
    title: str = ""
    article: str = ""
    claim: str = ""
    caution: str = ""
    report: Report = Report()
    directory: Path = Path()

    def steady_of(self, variant: Variant) -> float:
        """Seconds of the part of a run that is analysed."""
        return self.steady_s if variant.steady_s is None else variant.steady_s

    def run_time_s(self, cell: Cell) -> float:
        """Seconds that a run lasts from the start of the test to its end."""
        return self.warm_up_s + self.steady_of(cell.variant) + self.cool_down_s

    def cells(self) -> list[Cell]:
        """All runs in the order in which they run: every cell once in a random order, then each again in another.

        Each repetition is a block with an order of its own, so that a slow change of the machine falls on all cells
        alike, and a sweep that was stopped has its first repetitions complete (Law, Simulation Modeling and Analysis,
        2015, chapter 12).
        """
        found = []
        for repetition in range(self.repetitions):
            block = [self._cell(*place, repetition) for place in self._grid()]
            order = np.random.default_rng([self.order_seed, repetition]).permutation(len(block))
            found += [block[index] for index in order.tolist()]
        return found

    def _grid(self) -> Iterator[tuple[Variant, int, float | None, int]]:
        for variant in self.variants:
            for users in variant.users:
                for think in variant.think_times:
                    for seed in self.seeds:
                        yield variant, users, think, seed

    def _cell(self, variant: Variant, users: int, think: float | None, seed: int, repetition: int) -> Cell:
        cell = Cell(variant, users, think, seed, repetition, "")
        digest = hashlib.sha256(json.dumps(self._settings(cell), sort_keys=True, default=str).encode()).hexdigest()
        name = re.sub(r"[^\w.]+", "-", f"{variant.name or 'run'}-{users}u-{think}s").strip("-")
        return replace(cell, key=f"{name[:60]}-{seed}-{repetition}-{digest[:12]}")

    def _settings(self, cell: Cell) -> list[Any]:
        """All that decides what a run measures: a part on disk is of this run only where nothing of it has changed."""
        variant = cell.variant
        source = hashlib.sha256(variant.scenario.read_bytes()).hexdigest()
        own = (variant.name, source, variant.options, variant.host, variant.processes, self.spawn_rate(cell))
        server = None if variant.server is None else [variant.server.command, variant.server.path]
        times = (self.warm_up_s, self.steady_of(variant), self.cool_down_s)
        place = (cell.users, cell.think_time_s, cell.run_seed, cell.repetition, self.think_option)
        shown = (self.report.figures_of, self.report.windows, self.report.rate)
        return [own, server, times, place, *shown]

    def spawn_rate(self, cell: Cell) -> float:
        """Users started a second: by default all are there after half of the warm-up."""
        if cell.variant.spawn_rate is not None:
            return cell.variant.spawn_rate
        return max(1.0, cell.users / max(0.5 * self.warm_up_s, 1.0))
