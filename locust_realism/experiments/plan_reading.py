"""Reads a plan from YAML, from options of the command line, or from both; the keys are in docs/experiments.md.

A plan is checked as a whole before anything runs, and an error names file, line, key, value and bound.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from locust_realism.analysis.targets import parse_target
from locust_realism.analysis.thresholds import ThresholdError
from locust_realism.experiments.located import Located, PlanError, of_options, read_yaml
from locust_realism.experiments.plan import COOL_DOWN_S, Plan, Report, Server, Variant

GRID = ("users", "think_time", "seeds", "repetitions")
TIMES = ("warm_up", "steady", "cool_down")
RUN = ("scenario", "host", "options", "spawn_rate", "processes", "think_option", "order_seed", "variants")
WORDS = ("name", "title", "article", "claim", "caution")
KEYS = (*WORDS, *RUN, *GRID, *TIMES, "report", "full")
VARIANT_KEYS = (
    "scenario",
    "host",
    "options",
    "server",
    "users",
    "think_time",
    "spawn_rate",
    "processes",
    "steady",
    "note",
)
REPORT_KEYS = (
    "figures_of", "targets", "density_users", "groups", "compare", "capacity", "rate", "windows", "feedback", "x",
)  # fmt: skip


def read_plan(path: Path, *, full: bool = False, changes: Mapping[str, Any] | None = None) -> Plan:
    """The plan of a YAML file; ``full`` takes the values under its key ``full``, ``changes`` win over all it says.

    They win over what a variant says of itself, too; ``options`` win name by name. PlanError where the plan cannot be
    run, OSError where it cannot be read.
    """
    document = read_yaml(path.read_text(encoding="utf-8"), str(path)).mapping(KEYS)
    if full:
        if "full" not in document:
            raise PlanError(f"{path}: full is missing, expected the article's own length under this key")
        document |= document["full"].mapping([key for key in KEYS if key != "full"])
    return _plan(document, _options(changes or {}), path.parent, default_name=path.stem, place=str(path), full=full)


def plan_of_options(values: Mapping[str, Any]) -> Plan:
    """The plan of keys given as options alone; paths are relative to the working directory.

    >>> plan_of_options({"scenario": __file__, "users": [5, 10], "think_time": ["500ms"]}).cells()[0].think_time_s
    0.5
    """
    return _plan({}, _options(values), Path(), default_name="sweep", place="the options", full=False)


def _options(values: Mapping[str, Any]) -> dict[str, Located]:
    return of_options(values, {key: f"option --{key.replace('_', '-')}" for key in values})


def _plan(
    written: dict[str, Located],
    given: dict[str, Located],
    directory: Path,
    *,
    default_name: str,
    place: str,
    full: bool,
) -> Plan:
    """The plan of what is written in a file and of what is given on the command line, which wins."""
    document = {**written, **{key: value for key, value in given.items() if key != "options"}}
    for key, value in {**document, **given}.items():
        if key not in KEYS:
            raise PlanError(f"{value.place}: {key} is no key of a plan, expected one of {', '.join(KEYS)}")
    found = _Reader(document, given, directory, place)
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
    """Reads the keys of one plan, with errors that say where; what is ``given`` wins over what a variant says, too."""

    def __init__(self, document: dict[str, Located], given: dict[str, Located], directory: Path, place: str) -> None:
        self.document, self.given, self.directory, self.place = document, given, directory, place

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
        options = {**self.options(self.document), **self.options(own), **self.options(self.given)}
        own = {key: value for key, value in own.items() if key not in self.given}
        both = {**self.document, **own}
        for key in ("scenario", "users"):
            if key not in both:
                of = f" of variant {name!r}" if name else ""
                raise PlanError(f"{self.place}: {key}{of} is missing, expected {_EXPECTED[key]}")
        host = self.one("host", lambda item: item.text(), None, both)
        server = self.one("server", _server, None, own)
        if server is not None and (named := own.get("host") or self.given.get("host")) is not None:
            raise named.fail("no host beside a server: its address is that of the server")
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
            steady_s=self.one("steady", lambda item: item.seconds(above=0), None, own),
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
    command = of["command"]
    words = (
        [str(word.value) for word in command.value] if isinstance(command.value, list) else shlex.split(command.text())
    )
    if not any("{port}" in word for word in words):
        raise command.fail("{port} in it, where the server is to listen")
    return Server(tuple(words), of["path"].text() if "path" in of else "/")
