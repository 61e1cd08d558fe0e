"""Plans of sweeps: scenario, grid, times, repetitions, order of the runs, and contents of the page."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np


def users_in_words(number: int) -> str:
    """Return a number of users in words.

    >>> users_in_words(1), users_in_words(2000)
    ('1 user', '2,000 users')
    """
    return f"{number:,} user" + ("" if number == 1 else "s")


OptionValue = str | int | float | bool
"""Value of an option of a scenario."""
Row = dict[str, Any]
"""Row of a run, a cell or a table of the page, by column."""


@dataclass(frozen=True)
class Server:
    """Server of a variant, started before each of its runs and ended after it.

    In the words of ``command``, ``{port}`` is a free port and ``{python}`` the interpreter. It runs in the plan's
    directory and is ready when it answers ``path``.
    """

    command: tuple[str, ...]
    path: str = "/"


@dataclass(frozen=True)
class Variant:
    """Variant of the scenario: options, server, part of the grid, length."""

    name: str
    scenario: Path
    options: tuple[tuple[str, OptionValue], ...]
    users: tuple[int, ...]
    think_times: tuple[float | None, ...] = (None,)
    host: str | None = None
    server: Server | None = None
    spawn_rate: float | None = None
    processes: int = 1
    steady_s: float = 30.0
    note: str = ""


@dataclass(frozen=True)
class Cell:
    """One run of a plan: place in the grid, number of the repetition, and seed."""

    variant: Variant
    users: int
    think_time_s: float | None
    seed: int
    repetition: int
    key: str

    @property
    def run_seed(self) -> int:
        """Seed of this run: that of the plan in the first repetition, a new one in each further repetition."""
        return self.seed if not self.repetition else self.seed + 1_000_003 * self.repetition

    @property
    def words(self) -> str:
        """Description of the cell in the progress line.

        >>> Cell(Variant("stalls", Path(), (), (5,), (0.5,)), 5, 0.5, 1, 1, "").words
        'stalls, 5 users, think time 0.5 s, seed 1, repetition 2'
        """
        think = "" if self.think_time_s is None else f"think time {self.think_time_s:g} s"
        again = f"repetition {self.repetition + 1}" if self.repetition else ""
        parts = (self.variant.name, users_in_words(self.users), think, f"seed {self.seed}", again)
        return ", ".join(filter(None, parts))


@dataclass(frozen=True)
class Report:
    """Contents of the page beside the table of cells.

    - ``figures_of``: request of the response times (``GET file``), "" for all together
    - ``targets``: conditions, each with the number of users up to which it holds
    - ``density_users``: numbers of users with a chart of densities, () for the two largest
    - ``groups``, ``compare``, ``capacity``, ``rate``, ``feedback``: parts on the CoV by number of users, on differences
      between the first variant and the others, on the knee within a run, on the rate and the response times over time,
      on R / (R + Z) against CoV
    - ``windows``: sizes of the windows of samples that are compared with all of them
    - ``x``: abscissa of the charts, ``users`` or ``think_time``
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
    """Checked plan; times are seconds."""

    name: str
    variants: tuple[Variant, ...]
    seeds: tuple[int, ...] = (1,)
    repetitions: int = 1
    warm_up_s: float = 5.0
    cool_down_s: float = 1.0  # users who stop send their last requests there
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

    def run_time_s(self, cell: Cell) -> float:
        """Return the seconds from the start of a run's test to its end."""
        return self.warm_up_s + cell.variant.steady_s + self.cool_down_s

    def cells(self) -> list[Cell]:
        """Return all runs in their order: every cell once in a random order, then each again in another.

        Each repetition is a block with an order of its own. A slow change of the machine thus affects all cells alike,
        and a sweep that was stopped has its first repetitions complete (Law, Simulation Modeling and Analysis, 2015,
        chapter 12).
        """
        grid = [(of, place) for of in self.variants for place in product(of.users, of.think_times, self.seeds)]
        found = []
        for repetition in range(self.repetitions):
            order = np.random.default_rng([self.order_seed, repetition]).permutation(len(grid))
            found += [self._cell(*grid[int(index)], repetition) for index in order]
        return found

    def _cell(self, variant: Variant, place: tuple[int, float | None, int], repetition: int) -> Cell:
        cell = Cell(variant, *place, repetition, "")
        digest = hashlib.sha256(json.dumps(self._settings(cell), sort_keys=True, default=str).encode()).hexdigest()
        name = re.sub(r"[^\w.]+", "-", f"{variant.name or 'run'}-{cell.users}u-{cell.think_time_s}s").strip("-")
        return replace(cell, key=f"{name[:60]}-{cell.seed}-{repetition}-{digest[:12]}")

    def _settings(self, cell: Cell) -> list[object]:
        """Return all settings that affect the figures of a run; a part on disk counts while they are unchanged."""
        variant = cell.variant
        source = hashlib.sha256(variant.scenario.read_bytes()).hexdigest()
        own = (variant.name, source, variant.options, variant.host, variant.processes, self.spawn_rate(cell))
        server = None if variant.server is None else [variant.server.command, variant.server.path]
        times = (self.warm_up_s, variant.steady_s, self.cool_down_s)
        place = (cell.users, cell.think_time_s, cell.run_seed, cell.repetition, self.think_option)
        shown = (self.report.figures_of, self.report.windows, self.report.rate)
        return [own, server, times, place, *shown]

    def spawn_rate(self, cell: Cell) -> float:
        """Return the users started per second; by default the last one starts after half of the warm-up."""
        if cell.variant.spawn_rate is not None:
            return cell.variant.spawn_rate
        return max(1.0, cell.users / max(0.5 * self.warm_up_s, 1.0))


def plan_facts(plan: Plan, rows: Sequence[Row]) -> list[tuple[str, str]]:
    """Return facts on the origin of the figures, as pairs of words for the head of the page."""
    lengths = sorted(variant.steady_s for variant in plan.variants)
    steady = " to ".join(f"{length:g}" for length in dict.fromkeys((lengths[0], lengths[-1])))
    length = "" if not plan.has_full else " (the article's own)" if plan.full else " (short)"
    found = [
        ("Plan", plan.name + length),
        ("Scenario", ", ".join(dict.fromkeys(variant.scenario.name for variant in plan.variants))),
        ("Each run", f"{plan.warm_up_s:g} s warm-up, {steady} s analysed"),
        ("Runs", f"{len(rows):,} in random order, {len(plan.seeds) * plan.repetitions} for each cell"),
        ("Requests", f"{sum(row['n'] for row in rows):,}"),
    ]
    if named := sorted({row["figures_of"] for row in rows} - {"Aggregated"}):
        found.append(("Response times of", ", ".join(named)))
    if rows:
        begun = min(row["started"] for row in rows)
        found.append(("First run", time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(begun))))
    return found


def interval_note(plan: Plan) -> str:
    """Return the meaning of the page's error bars and its limits."""
    runs = len(plan.seeds) * plan.repetitions
    source = (
        "batches within the one run of each cell: they show chance within this run, not the spread of further runs"
        if runs == 1
        else f"the {runs} runs of each cell: from the spread between the runs (Student's t), or from batches within "
        "them where those are wider"
    )
    return f"Error bars are 95 % intervals from {source}. A figure without one is that of too short a run."
