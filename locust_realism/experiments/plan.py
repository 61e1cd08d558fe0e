"""A plan: which scenario runs over which grid, for how long, how often and in which order; and what its page shows.

A plan is a YAML file, or options of the command line, or both; the keys are in docs/experiments.md. It is checked as a
whole before anything runs, and an error names file, line, key, value and bound.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from locust_realism.analysis.targets import parse_target
from locust_realism.analysis.thresholds import ThresholdError
from locust_realism.experiments.located import Located, PlanError, of_options, read_yaml

GRID = ("users", "think_time", "seeds", "repetitions")
TIMES = ("warm_up", "steady", "cool_down")
RUN = ("scenario", "host", "options", "spawn_rate", "processes", "think_option", "order_seed", "variants")
WORDS = ("name", "title", "article", "claim", "caution")
KEYS = (*WORDS, *RUN, *GRID, *TIMES, "report", "full")
VARIANT_KEYS = ("scenario", "host", "options", "server", "users", "think_time", "spawn_rate", "processes", "note")
REPORT_KEYS = (
    "figures_of", "targets", "density_users", "groups", "compare", "capacity", "rate", "windows", "feedback", "x",
)  # fmt: skip
COOL_DOWN_S = 1.0
"""What is left out at the end of a run unless the plan says otherwise: users who stop say goodbye there."""


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
    """One way of running the scenario: its options, its server, and its own part of the grid."""

    name: str
    scenario: Path
    options: tuple[tuple[str, Any], ...]
    users: tuple[int, ...]
    think_times: tuple[float | None, ...]
    host: str | None = None
    server: Server | None = None
    spawn_rate: float | None = None
    processes: int = 1
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

        >>> Plan.of_options({"scenario": __file__, "users": [5], "think_time": [0.5]}).cells()[0].words
        '5 users, think time 0.5 s, seed 1'
        """
        parts = [self.variant.name] if self.variant.name else []
        parts.append(f"{self.users:,} users")
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

    @classmethod
    def of_file(cls, path: Path, *, full: bool = False, changes: Mapping[str, Any] | None = None) -> Plan:
        """The plan of a YAML file; ``full`` takes the values under its key ``full``, ``changes`` win over both.

        PlanError where it cannot be run, OSError where it cannot be read.
        """
        document = read_yaml(path.read_text(encoding="utf-8"), str(path)).mapping(KEYS)
        if full:
            if "full" not in document:
                raise PlanError(f"{path}: full is missing, expected the article's own length under this key")
            document |= document["full"].mapping([key for key in KEYS if key != "full"])
        given = dict(changes or {})
        document |= of_options(given, {key: f"option --{key.replace('_', '-')}" for key in given})
        return _plan(document, path.parent, default_name=path.stem, place=str(path), full=full)

    @classmethod
    def of_options(cls, values: Mapping[str, Any]) -> Plan:
        """The plan of keys given as options alone; paths are relative to the working directory."""
        document = of_options(values, {key: f"option --{key.replace('_', '-')}" for key in values})
        return _plan(document, Path(), default_name="sweep", place="the options", full=False)

    def run_time_s(self) -> float:
        """Seconds that a run lasts from the start of the test to its end."""
        return self.warm_up_s + self.steady_s + self.cool_down_s

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
        times = (self.warm_up_s, self.steady_s, self.cool_down_s)
        place = (cell.users, cell.think_time_s, cell.run_seed, cell.repetition, self.think_option)
        return [own, server, times, place, self.report.figures_of, self.report.windows]

    def spawn_rate(self, cell: Cell) -> float:
        """Users started a second: by default all are there after half of the warm-up."""
        if cell.variant.spawn_rate is not None:
            return cell.variant.spawn_rate
        return max(1.0, cell.users / max(0.5 * self.warm_up_s, 1.0))


def _plan(document: dict[str, Located], directory: Path, *, default_name: str, place: str, full: bool) -> Plan:
    for key, value in document.items():
        if key not in KEYS:
            raise PlanError(f"{value.place}: {key} is no key of a plan, expected one of {', '.join(KEYS)}")
    found = _Reader(document, directory, place)
    words: dict[str, Any] = {key: document[key].text().strip() for key in WORDS if key in document}
    name = words.pop("name", default_name)
    if not re.fullmatch(r"[\w.-]+", name):
        raise document["name"].fail("letters, digits, '.', '_' and '-'")
    cells = {
        "seeds": found.each("seeds", lambda item: item.whole(), (1,)),
        "repetitions": found.one("repetitions", lambda item: item.whole(least=1), 1),
        "warm_up_s": found.one("warm_up", lambda item: item.seconds(least=0), 5.0),
        "steady_s": found.one("steady", lambda item: item.seconds(above=0), 30.0),
        "cool_down_s": found.one("cool_down", lambda item: item.seconds(least=0), COOL_DOWN_S),
        "order_seed": found.one("order_seed", lambda item: item.whole(), 1),
        "think_option": found.one("think_option", _option_name, "--think-time"),
    }
    return Plan(
        name=name, variants=found.variants(), report=found.report(), directory=directory, full=full,
        has_full="full" in document, **cells, **words,
    )  # fmt: skip


class _Reader:
    """Reads the keys of one plan, with errors that say where."""

    def __init__(self, document: dict[str, Located], directory: Path, place: str) -> None:
        self.document, self.directory, self.place = document, directory, place

    def one(self, key: str, read: Any, default: Any, of: Mapping[str, Located] | None = None) -> Any:
        item = (self.document if of is None else of).get(key)
        return default if item is None else read(item)

    def each(self, key: str, read: Any, default: Any, of: Mapping[str, Located] | None = None) -> Any:
        item = (self.document if of is None else of).get(key)
        if item is None:
            return default
        values = tuple(read(each) for each in item.items())
        for index, value in enumerate(values):
            if value in values[:index]:
                raise item.items()[index].fail("a value that is not there already")
        return values

    def variants(self) -> tuple[Variant, ...]:
        given = self.document.get("variants")
        if given is None:
            return (self.variant("", {}),)
        named = given.mapping()
        if not named:
            raise given.fail("at least one variant")
        empty = Located({}, "", self.place)
        return tuple(
            self.variant(name, (empty if item.value is None else item).mapping(VARIANT_KEYS))
            for name, item in named.items()
        )

    def variant(self, name: str, own: dict[str, Located]) -> Variant:
        both = {**self.document, **{key: own[key] for key in VARIANT_KEYS if key in own}}
        for key in ("scenario", "users"):
            if key not in both:
                of = f" of variant {name!r}" if name else ""
                raise PlanError(f"{self.place}: {key}{of} is missing, expected {_EXPECTED[key]}")
        options = {**self.options(self.document), **self.options(own)}
        host = self.one("host", lambda item: item.text(), None, both)
        server = self.one("server", _server, None, own)
        if server is not None and "host" in own:
            raise own["host"].fail("no host beside a server: its address is that of the server")
        return Variant(
            name=name,
            scenario=self.scenario(both["scenario"]),
            options=tuple(options.items()),
            users=self.each("users", lambda item: item.whole(least=1), None, both),
            think_times=self.each("think_time", lambda item: item.seconds(least=0), (None,), both),
            host=None if server else host,
            server=server,
            spawn_rate=self.one("spawn_rate", lambda item: item.number(above=0), None, both),
            processes=self.one("processes", lambda item: item.whole(least=1), 1, both),
            note=self.one("note", lambda item: item.text(), "", own),
        )

    def scenario(self, item: Located) -> Path:
        path = self.directory / item.text()
        if not path.is_file():
            raise item.fail(f"a locustfile, and there is none at {path}")
        return path.resolve()

    def options(self, of: Mapping[str, Located]) -> dict[str, Any]:
        given = of.get("options")
        if given is None:
            return {}
        return {_option_name(item, name): _option_value(item) for name, item in given.mapping().items()}

    def report(self) -> Report:
        given = self.document.get("report")
        if given is None:
            return Report()
        of = given.mapping(REPORT_KEYS)
        flags = {key: self.one(key, lambda item: item.flag(), False, of)
                 for key in ("groups", "compare", "capacity", "rate", "feedback")}  # fmt: skip
        return Report(
            figures_of=self.one("figures_of", lambda item: item.text(), "", of),
            targets=self.each("targets", _target, (), of),
            density_users=self.each("density_users", lambda item: item.whole(least=1), (), of),
            windows=self.each("windows", lambda item: item.whole(least=10), (), of),
            x=self.one("x", lambda item: item.text(("users", "think_time")), "users", of),
            **flags,
        )


_EXPECTED = {"scenario": "the path of a locustfile", "users": "one or several numbers of users"}


def _option_name(item: Located, name: str = "") -> str:
    text = "--" + (name or item.text()).lstrip("-")
    if not re.fullmatch(r"--[\w-]+", text):
        raise item.fail("the name of an option such as --think-time", shown=name or item.value)
    return text


def _option_value(item: Located) -> Any:
    value = item.plain()
    if value is None or isinstance(value, dict | list):
        raise item.fail("a number, a text, true or false")
    return value


def _target(item: Located) -> str:
    text = item.text()
    try:
        parse_target(text)
    except (ThresholdError, ValueError) as error:
        raise item.fail(f"a condition such as 'p90 < 31ms' ({error})") from None
    return text


def _server(item: Located) -> Server:
    of = item.mapping(("command", "path"))
    if "command" not in of:
        raise item.fail("a key command")
    import shlex

    command = of["command"]
    words = (
        [str(word.value) for word in command.value] if isinstance(command.value, list) else shlex.split(command.text())
    )
    if not any("{port}" in word for word in words):
        raise command.fail("{port} in it, where the server is to listen")
    return Server(tuple(words), of["path"].text() if "path" in of else "/")
