"""YAML in which every value knows its line, so that an error can say where it is."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml


class PlanError(ValueError):
    """A plan that cannot be run; the message names file, line, key, value and bound."""


@dataclass(frozen=True)
class Located:
    """A value of a document: ``value`` (str, int, float, bool, None, a list or a dict of Located), where it is.

    ``place`` is the file or option that it came from, ``line`` is 1-based (0 where there are no lines), ``key`` the
    path to it such as ``variants.plain.users[2]``.
    """

    value: Any
    key: str
    place: str
    line: int = 0

    def fail(self, bound: str, shown: object = ...) -> PlanError:
        """The error of this value, to be raised: what it is and what was expected."""
        value = self.plain() if shown is ... else shown
        where = f"{self.place}:{self.line}" if self.line else self.place
        return PlanError(f"{where}: {self.key or 'the plan'} is {_brief(value)}, expected {bound}")

    def plain(self) -> Any:
        """The value without places."""
        if isinstance(self.value, dict):
            return {name: item.plain() for name, item in self.value.items()}
        return [item.plain() for item in self.value] if isinstance(self.value, list) else self.value

    def mapping(self, known: Iterable[str] | None = None) -> dict[str, Located]:
        """The items of a mapping; PlanError where it is none, or has a key that is not ``known``."""
        if not isinstance(self.value, dict):
            raise self.fail("keys with values")
        names = None if known is None else list(known)
        for name, item in self.value.items():
            if names is not None and name not in names:
                near = difflib.get_close_matches(name, names, 1)
                hint = f"{near[0]!r}" if near else f"one of {', '.join(names)}"
                raise PlanError(f"{item.place}:{item.line}: {item.key} is no key of a plan, expected {hint}")
        found: dict[str, Located] = self.value
        return found

    def items(self) -> list[Located]:
        """The items of a list that is not empty; a single value is a list of one."""
        values: list[Located] = self.value if isinstance(self.value, list) else [self]
        if not values:
            raise self.fail("at least one value")
        return values

    def text(self, among: Sequence[str] | None = None) -> str:
        """A text, one of ``among`` where that is given."""
        if not isinstance(self.value, str) or not self.value:
            raise self.fail("a text")
        if among is not None and self.value not in among:
            raise self.fail(f"one of {', '.join(among)}")
        return self.value

    def flag(self) -> bool:
        """true or false."""
        if not isinstance(self.value, bool):
            raise self.fail("true or false")
        return self.value

    def number(self, *, least: float | None = None, above: float | None = None) -> float:
        """A finite number with a lower bound that counts (``least``) or does not (``above``)."""
        value, bound = self.value, "a number" + _bound(least, above)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise self.fail(bound)
        if (least is not None and value < least) or (above is not None and value <= above):
            raise self.fail(bound)
        return float(value)

    def whole(self, *, least: int = 0) -> int:
        """A whole number from ``least`` on."""
        if isinstance(self.value, bool) or not isinstance(self.value, int) or self.value < least:
            raise self.fail(f"a whole number from {least} on")
        return self.value

    def seconds(self, *, least: float | None = None, above: float | None = None) -> float:
        """A time as a number of seconds or a text such as 500ms, 90s, 2m, 1h30m."""
        number = read_seconds(self.value) if isinstance(self.value, str) else self.value
        if number is None:
            raise self.fail("a time such as 500ms, 90s, 2m or 1h30m")
        try:
            return Located(number, self.key, self.place, self.line).number(least=least, above=above)
        except PlanError:
            raise self.fail("a time" + _bound(least, above)) from None


_UNITS = {"ms": 1e-3, "s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def read_seconds(text: str) -> float | None:
    """Seconds of a time such as 5ms, 90, 90s, 2m, 1h30m; None where it is none.

    >>> read_seconds("5ms"), read_seconds("1h30m"), read_seconds("soon")
    (0.005, 5400.0, None)
    """
    if re.fullmatch(r"\d+(\.\d+)?", text.strip()):
        return float(text)
    parts = re.findall(r"(\d+(?:\.\d+)?)(ms|min|s|m|h|d)", text)
    if not parts or "".join(number + unit for number, unit in parts) != text.replace(" ", ""):
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def _bound(least: float | None, above: float | None) -> str:
    return f" from {least:g} on" if least is not None else f" greater than {above:g}" if above is not None else ""


def _brief(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def read_yaml(text: str, place: str) -> Located:
    """The document of a YAML text; PlanError with the line where it is no YAML, or has a key twice."""
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        raise PlanError(f"{place}:{line}: this is no YAML: {error.problem}") from None
    except yaml.YAMLError as error:
        raise PlanError(f"{place}: this is no YAML: {error}") from None
    if node is None:
        raise PlanError(f"{place}: the plan is empty, expected at least a scenario and users")
    loader = yaml.SafeLoader("")
    return _located(node, "", place, lambda scalar: loader.construct_object(scalar))


def _located(node: yaml.Node, key: str, place: str, scalar: Callable[[yaml.Node], Any]) -> Located:
    line = node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        found: dict[str, Located] = {}
        for name_node, value in node.value:
            name = str(name_node.value)
            if name in found:
                raise PlanError(f"{place}:{name_node.start_mark.line + 1}: {name} is given twice")
            item = _located(value, f"{key}.{name}" if key else name, place, scalar)
            found[name] = Located(item.value, item.key, place, name_node.start_mark.line + 1)
        return Located(found, key, place, line)
    if isinstance(node, yaml.SequenceNode):
        items = [_located(item, f"{key}[{index}]", place, scalar) for index, item in enumerate(node.value)]
        return Located(items, key, place, line)
    return Located(scalar(node), key, place, line)


def of_options(values: Mapping[str, Any], places: Mapping[str, str]) -> dict[str, Located]:
    """Values that came from the command line; ``places`` is the option that each came from."""

    def wrap(value: Any, key: str, place: str) -> Located:
        if isinstance(value, dict):
            return Located({name: wrap(item, f"{key}.{name}", place) for name, item in value.items()}, key, place)
        if isinstance(value, list):
            return Located([wrap(item, f"{key}[{i}]", place) for i, item in enumerate(value)], key, place)
        return Located(value, key, place)

    return {name: wrap(value, name, places[name]) for name, value in values.items()}
