"""Comparison of JSON documents with their declared types, and of docs/json.md with both."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, NotRequired, Required, Union, get_args, get_origin, get_type_hints, is_typeddict

PAGE = Path(__file__).parents[1] / "docs" / "json.md"


def keys_of(kind: type) -> dict[str, Any]:
    """Return the declared keys of a TypedDict with their types."""
    return {key: _bare(hint) for key, hint in get_type_hints(kind).items()}


def _bare(hint: Any) -> Any:
    return _bare(get_args(hint)[0]) if get_origin(hint) in (NotRequired, Required) else hint


def faults(value: object, hint: Any, path: str = "document") -> list[str]:
    """Return a line for each place where a value is not of the declared type; empty where it is."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        found = [faults(value, each, path) for each in arguments]
        return min(found, key=len)
    if is_typeddict(hint):
        return list(_faults_of_keys(value, hint, path))
    if origin is list:
        if not isinstance(value, list):
            return [f"{path} is {value!r:.60}, expected a list"]
        return [fault for part in value for fault in faults(part, arguments[0], path + "[]")]
    if origin is dict:
        if not isinstance(value, dict):
            return [f"{path} is {value!r:.60}, expected an object"]
        return [fault for key, part in value.items() for fault in faults(part, arguments[1], f"{path}.{key}")]
    if origin is Literal:
        return [] if value in arguments else [f"{path} is {value!r:.60}, expected one of {arguments}"]
    allowed = {float: (int, float), None: (NoneType,)}.get(hint, (hint,))
    fits = isinstance(value, allowed) and (hint is bool or not isinstance(value, bool))
    fits &= not isinstance(value, float) or math.isfinite(value)
    return [] if fits else [f"{path} is {value!r:.60}, expected {hint}"]


def _faults_of_keys(value: object, kind: Any, path: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{path} is {value!r:.60}, expected an object"
        return
    declared = keys_of(kind)
    yield from (f"{path}.{key} is not declared in {kind.__name__}" for key in value.keys() - declared.keys())
    yield from (f"{path}.{key} is missing" for key in kind.__required_keys__ - value.keys())
    for key in value.keys() & declared.keys():
        yield from faults(value[key], declared[key], f"{path}.{key}")


def declared_paths(kind: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield (path, key) for every key of a type; a list adds ``[]`` to the path, a mapping ``.*``."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        for each in arguments:
            yield from declared_paths(each, path)
    elif is_typeddict(kind):
        for key, hint in keys_of(kind).items():
            yield path, key
            yield from declared_paths(hint, f"{path}.{key}" if path else key)
    elif origin is list:
        yield from declared_paths(arguments[0], path + "[]")
    elif origin is dict:
        yield from declared_paths(arguments[1], path + ".*")


def documented_tables() -> dict[tuple[str, ...], set[str]]:
    """Return the keys in each table of docs/json.md whose heading names paths, by these paths."""
    found: dict[tuple[str, ...], set[str]] = {}
    paths: tuple[str, ...] = ()
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            paths = tuple(re.findall(r"`([^`]+)`", line))
        elif paths and line.startswith("| `"):
            cell = line.split("|")[1]
            found.setdefault(paths, set()).update(re.findall(r"`([^`]+)`", cell))
    return found
