"""Plans read from YAML, from options of the command line, or from both; docs/experiments.md lists the keys.

A plan is checked as a whole before a run starts. An error names file, line, key, value and bound.
"""

from __future__ import annotations

import difflib
import re
import shlex
import sys
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.events import CollectionEndEvent, CollectionStartEvent
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from locust_realism.analysis.capacity.slo import parse_target
from locust_realism.common.durations import EXPECTED, DurationError, read_duration
from locust_realism.sweep.design import OptionValue, Plan, Report, Server, Variant

MOST_VALUES = 10_000
"""Most values of a plan, aliases unfolded."""
DEEPEST = 20
"""Most levels of lists and mappings in a plan."""


class PlanError(ValueError):
    """Refusal of a plan; the message names file, line, key, value and bound."""


@dataclass(frozen=True)
class Located:
    """Value of a document (str, int, float, bool, None, list or dict of Located) with its place.

    ``key`` is the path of the value, such as ``variants.plain.users[2]``; ``place`` is the file with the 1-based line,
    or the option.
    """

    value: object
    key: str
    place: str

    def fail(self, bound: str) -> PlanError:
        """Return the error of this value, for the caller to raise."""
        text = repr(self.plain())
        text = text if len(text) <= 60 else text[:57] + "..."
        return PlanError(f"{self.place}: {self.key or 'the plan'} is {text}, expected {bound}")

    def plain(self) -> object:
        """Return the value without places."""
        if isinstance(self.value, dict):
            return {name: item.plain() for name, item in self.value.items()}
        return [item.plain() for item in self.value] if isinstance(self.value, list) else self.value

    def mapping(self, known: Collection[str] = ()) -> dict[str, Located]:
        """Return the items of a mapping; PlanError for any other value, or a key that is none of the ``known``."""
        if not isinstance(self.value, dict):
            raise self.fail("keys with values")
        for name, item in self.value.items():
            if known and name not in known:
                near = difflib.get_close_matches(name, known, 1)
                hint = f"{near[0]!r}" if near else f"one of {', '.join(known)}"
                raise PlanError(f"{item.place}: {item.key} is no key of a plan, expected {hint}")
        return self.value


def read_yaml(text: str, path: str) -> Located:
    """Return the document of a YAML text; PlanError with the line for any other text, dates, tags and repeated keys."""
    depth, yaml = 0, YAML(typ="safe", pure=True)
    yaml.version = (1, 1)  # yes and no are true and false
    try:
        for event in yaml.parse(text):  # composing recurses
            depth += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)
            if depth > DEEPEST:
                raise PlanError(f"{path}:{event.start_mark.line + 1}: this is nested deeper than {DEEPEST} levels")
        node = yaml.compose(text)
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        line = mark.line if mark else text.count("\n", 0, getattr(error, "position", 0))
        problem = str(getattr(error, "problem", error)).partition("\n")[0]
        raise PlanError(f"{path}:{line + 1}: this is no YAML: {problem}") from None
    if node is None:
        raise PlanError(f"{path}: the plan is empty, expected at least a scenario and users")
    return _NodeReader(path, yaml.constructor.construct_object).read(node, "")


class _NodeReader:
    """Reader of the nodes of one file, with a limit on the values that aliases unfold to."""

    def __init__(self, path: str, scalar: Callable[[Node], object]) -> None:
        self.path, self.scalar, self.values = path, scalar, count(1)

    def read(self, node: Node, key: str, depth: int = 1, line: int | None = None) -> Located:
        place = f"{self.path}:{(node.start_mark.line if line is None else line) + 1}"
        if depth > DEEPEST or next(self.values) > MOST_VALUES:
            limits = f"{MOST_VALUES:,} values or {DEEPEST} levels"
            raise PlanError(f"{place}: the plan has more than {limits}, aliases unfolded")
        value: object
        if isinstance(node, MappingNode):
            value = self._mapping(node, key, depth)
        elif isinstance(node, SequenceNode):
            value = [self.read(item, f"{key}[{index}]", depth + 1) for index, item in enumerate(node.value)]
        else:
            value = self._scalar(node, key, place)
        return Located(value, key, place)

    def _scalar(self, node: Node, key: str, place: str) -> object:
        kind = str(node.tag).removeprefix("tag:yaml.org,2002:")
        with suppress(ValueError):  # such as "!!int many"
            if kind in ("null", "bool", "int", "float", "str"):
                return self.scalar(node)
        expected = "expected a text (in quotes), a number, true or false"
        raise PlanError(f"{place}: {key} is {node.value!r} of type {kind}, {expected}")

    def _mapping(self, node: MappingNode, key: str, depth: int) -> dict[str, Located]:
        found: dict[str, Located] = {}
        for name_node, value in node.value:
            line, name = name_node.start_mark.line, name_node.value
            if not isinstance(name_node, ScalarNode):
                raise PlanError(f"{self.path}:{line + 1}: a key of {key or 'the plan'} is no text")
            if name in found:
                raise PlanError(f"{self.path}:{line + 1}: {name} is given twice")
            found[name] = self.read(value, f"{key}.{name}" if key else name, depth + 1, line)
        return found


def _given(value: object, key: str, place: str) -> Located:
    """Return a value of the command line with its option as the place."""
    if isinstance(value, Mapping):
        return Located({name: _given(item, f"{key}.{name}", place) for name, item in value.items()}, key, place)
    if isinstance(value, list):
        return Located([_given(item, f"{key}[{i}]", place) for i, item in enumerate(value)], key, place)
    return Located(value, key, place)


Items = Mapping[str, Located]
Read = Callable[[Located], Any]
"""Reader of a checked value; it raises PlanError with the bound."""


def _text(item: Located, pattern: str = "(?s).+", expected: str = "a text") -> str:
    if not isinstance(item.value, str) or not re.fullmatch(pattern, item.value):
        raise item.fail(expected)
    return item.value.strip()


def _flag(item: Located) -> bool:
    if not isinstance(item.value, bool):
        raise item.fail("true or false")
    return item.value


def _number(noun: str, least: float, *, above: bool = False, kind: type[int | float] = float) -> Read:
    """Return the reader of a finite number from ``least`` on, or ``above`` it; "a time" may be text such as 1h30m."""
    bound = f"{noun} greater than {least:g}" if above else f"{noun} from {least:g} on"

    def read(item: Located) -> float:
        value = item.value
        if isinstance(value, str) and noun == "a time":
            try:
                value = read_duration(value)
            except DurationError:
                raise item.fail(EXPECTED) from None
        if isinstance(value, bool) or not isinstance(value, (int, kind)) or not least <= value <= sys.float_info.max:
            raise item.fail(bound)
        if above and value == least:
            raise item.fail(bound)
        return kind(value)

    return read


_whole = partial(_number, "a whole number", kind=int)
_time = partial(_number, "a time")


def _several(read: Read) -> Read:
    """Return the reader of a list of different values; a single value is a list of one."""

    def read_all(item: Located) -> tuple[object, ...]:
        items = item.value if isinstance(item.value, list) else [item]
        if not items:
            raise item.fail("at least one value")
        values: list[object] = []
        for each in items:
            values.append(read(each))
            if values[-1] in values[:-1]:
                raise each.fail("a value that is not there already")
        return tuple(values)

    return read_all


def _option_name(item: Located) -> str:
    return "--" + _text(item, r"-*\w[\w-]*", "the name of an option such as --think-time").lstrip("-")


def _options(of: Items) -> dict[str, OptionValue]:
    """Return the options of the scenario by their flags."""
    found: dict[str, OptionValue] = {}
    for name, item in (of["options"].mapping() if "options" in of else {}).items():
        if not isinstance(item.value, str | int | float):
            raise item.fail("a number, a text, true or false")
        found[_option_name(replace(item, value=name))] = item.value
    return found


def _target(item: Located) -> str:
    text = _text(item)
    try:
        parse_target(text)
    except ValueError as error:
        raise item.fail(f"a condition such as 'p90 < 31ms' ({error})") from None
    return text


def _server(item: Located) -> Server:
    of = item.mapping(("command", "path"))
    if "command" not in of:
        raise item.fail("a key command")
    command = of["command"]
    given = [str(word.value) for word in command.value] if isinstance(command.value, list) else _text(command)
    try:
        words = given if isinstance(given, list) else shlex.split(given)
    except ValueError as error:  # such as a quotation mark without its end
        raise command.fail(f"the words of a command ({error})") from None
    if not any("{port}" in word for word in words):
        raise command.fail("{port} in it, where the server is to listen")
    return Server(tuple(words), _text(of["path"]) if "path" in of else "/")


def _scenario(directory: Path, item: Located) -> Path:
    path = directory / _text(item)
    if not path.is_file():
        raise item.fail(f"a locustfile, and there is none at {path}")
    return path.resolve()


_REPORT: dict[str, Read] = {
    **dict.fromkeys(("groups", "compare", "capacity", "rate", "feedback"), _flag),
    "figures_of": _text,
    "targets": _several(_target),
    "density_users": _several(_whole(1)),
    "windows": _several(_whole(10)),
    "x": partial(_text, pattern="users|think_time", expected="one of users, think_time"),
}
_VARIANT: dict[str, Read] = {
    "host": _text,
    "server": _server,
    "users": _several(_whole(1)),
    "think_time": _several(_time(0)),
    "spawn_rate": _number("a number", 0, above=True),
    "processes": _whole(1),
    "steady": _time(0, above=True),
    "note": _text,
}
_PLAN: dict[str, Read] = {
    "name": partial(_text, pattern=r"\s*[\w.-]+\s*", expected="letters, digits, '.', '_' and '-'"),
    **dict.fromkeys(("title", "article", "claim", "caution"), _text),
    "think_option": _option_name,
    "order_seed": _whole(0),
    "seeds": _several(_whole(0)),
    "repetitions": _whole(1),
    "warm_up": _time(0),
    "cool_down": _time(0),
    "report": lambda item: Report(**_values(item.mapping(_REPORT), _REPORT)),
}
_FIELDS = {"think_time": "think_times", "warm_up": "warm_up_s", "steady": "steady_s", "cool_down": "cool_down_s"}
"""Fields of a plan or variant whose names differ from their keys."""
VARIANT_KEYS = ("scenario", "options", *_VARIANT)
FULL_KEYS = (*_PLAN, "variants", *(key for key in VARIANT_KEYS if key not in ("server", "note")))
KEYS = (*FULL_KEYS, "full")


def _values(of: Items, readers: Mapping[str, Read]) -> dict[str, Any]:
    """Return the fields of the keys that are there."""
    return {_FIELDS.get(key, key): read(of[key]) for key, read in readers.items() if key in of}


def read_plan(path: Path, *, full: bool = False, changes: Mapping[str, object] | None = None) -> Plan:
    """Return the plan of a YAML file; ``full`` takes the values under its key ``full``.

    ``changes`` override the file and its variants; ``options`` among them override by name. Raises PlanError for a plan
    that cannot run, OSError for a file that cannot be read.
    """
    document = read_yaml(path.read_text(encoding="utf-8"), str(path)).mapping(KEYS)
    if full:
        if "full" not in document:
            raise PlanError(f"{path}: full is missing, expected the article's own length under this key")
        document |= document["full"].mapping(FULL_KEYS)
    return _plan(document, changes or {}, path, str(path), full=full)


def plan_of_options(values: Mapping[str, object]) -> Plan:
    """Return the plan of options alone; paths are relative to the working directory.

    >>> plan_of_options({"scenario": __file__, "users": [5, 10], "think_time": ["500ms"]}).cells()[0].think_time_s
    0.5
    """
    return _plan({}, values, Path("sweep"), "the options", full=False)


def _plan(written: dict[str, Located], changes: Mapping[str, object], path: Path, place: str, *, full: bool) -> Plan:
    """Return the plan of the written values, overridden by the changes."""
    options = {key: _given(value, key, f"option --{key.replace('_', '-')}") for key, value in changes.items()}
    given = Located(options, "", place).mapping(KEYS)
    document = written | {key: value for key, value in given.items() if key != "options"}
    named = document["variants"].mapping() if "variants" in document else {"": Located(None, "", place)}
    if not named:
        raise document["variants"].fail("at least one variant")
    return Plan(
        **{"name": path.stem, **_values(document, _PLAN)},
        variants=tuple(_variant(name, item, document, given, path.parent) for name, item in named.items()),
        full=full,
        has_full="full" in document,
        directory=path.parent,
    )


def _variant(name: str, item: Located, document: Items, given: Items, directory: Path) -> Variant:
    """Return a variant from its own keys and those of the plan; ``given`` values override both."""
    own = {} if item.value is None else item.mapping(VARIANT_KEYS)
    options = {**_options(document), **_options(own), **_options(given)}
    own = {key: value for key, value in own.items() if key not in given}
    both = {**document, **own}
    for key, expected in (("scenario", "the path of a locustfile"), ("users", "one or several numbers of users")):
        if key not in both:
            of = f" of variant {name!r}" if name else ""
            raise PlanError(f"{item.place}: {key}{of} is missing, expected {expected}")
    if "server" in own:
        if (host := own.get("host") or given.get("host")) is not None:
            raise host.fail("no host beside a server: its address is that of the server")
        both.pop("host", None)
    readers: dict[str, Read] = {"scenario": partial(_scenario, directory), **_VARIANT}
    return Variant(name=name, options=tuple(options.items()), **_values(both, readers))
