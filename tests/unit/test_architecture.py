"""The house stands as docs/architecture.md draws it: imports run down the wings and rooms, and no circle exists."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "locust_realism"
NAME = PACKAGE.name

WINGS: tuple[frozenset[str], ...] = (
    frozenset({"common"}),
    frozenset({"workload", "recording"}),
    frozenset({"analysis", "targets"}),
    frozenset({"report"}),
    frozenset({"fit", "sweep", "web"}),
    frozenset({"runtime", "kit"}),
    frozenset({"cli"}),
)
"""Wings from the bottom up. A wing imports wings below it; kit may import runtime, its neighbour."""

NEIGHBOURS = {("kit", "runtime")}
"""Imports within a storey that are allowed."""

ROOMS: tuple[frozenset[str], ...] = (
    frozenset({"locust_compat", "wire", "memory"}),
    frozenset({"users", "options", "coordination"}),
    frozenset({"capture", "pacing", "population"}),
    frozenset({"figures"}),
    frozenset({"lifecycle"}),
    frozenset({"plugin"}),
)
"""Rooms of runtime/ from the ground up. A room imports rooms of its own storey and below, without a circle."""

HOST = {"locust": {"runtime", "kit"}, "gevent": {"runtime", "kit", "targets"}}
"""Wings that may import what replaces the event loop; targets/ runs in processes of its own."""


def imported_names(tree: ast.Module, module: str, *, is_package: bool) -> Iterator[str]:
    """Yield the absolute dotted name of every import of a module, inside functions and TYPE_CHECKING too."""
    package = module.split(".") if is_package else module.split(".")[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join([*base, *([node.module] if node.module else [])])
            yield from (f"{source}.{alias.name}" for alias in node.names)


def modules_below(package: Path) -> dict[str, Path]:
    """Return the dotted name and path of every module of a package."""
    found = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def import_graph(package: Path) -> dict[str, set[str]]:
    """Return, for each module, the names it imports: modules of the package by module, others by top-level name."""
    modules = modules_below(package)
    graph: dict[str, set[str]] = {}
    for module, path in modules.items():
        targets = set()
        for name in imported_names(ast.parse(path.read_text()), module, is_package=path.name == "__init__.py"):
            if name.split(".")[0] != package.name:
                targets.add(name.split(".")[0])
                continue
            while name not in modules:
                name = name.rpartition(".")[0]
            targets.add(name)
        graph[module] = targets - {module}
    return graph


def storey(storeys: Sequence[frozenset[str]], name: str) -> int:
    """Return the index of the storey that holds a name; KeyError for a name that has no place in the plan."""
    for index, names in enumerate(storeys):
        if name in names:
            return index
    raise KeyError(f"{name} has no place in the plan of the house")


def rising_imports(graph: Mapping[str, set[str]]) -> list[str]:
    """Return every import that runs up the house, or from a wing that must not import Locust or gevent."""
    bad = []
    for module, targets in graph.items():
        _, *home = module.split(".")
        if not home or home == ["runtime", "plugin"]:
            continue  # the public names, and the one module that composes
        for target in sorted(targets):
            top, *place = target.split(".")
            if top in HOST and home[0] not in HOST[top]:
                bad.append(f"{module} -> {target}")
            if top != NAME or not place:
                continue
            if place[0] != home[0]:
                allowed = storey(WINGS, place[0]) < storey(WINGS, home[0]) or (home[0], place[0]) in NEIGHBOURS
            elif home[0] == "runtime" and len(home) > 1 and len(place) > 1:
                allowed = storey(ROOMS, place[1]) <= storey(ROOMS, home[1])
            else:
                allowed = True
            if not allowed:
                bad.append(f"{module} -> {target}")
    return bad


def circle(graph: Mapping[str, set[str]]) -> list[str]:
    """Return one circle of imports as a path, empty where there is none."""
    done: set[str] = set()

    def visit(node: str, path: list[str]) -> list[str]:
        if node in path:
            return [*path[path.index(node) :], node]
        if node in done or node not in graph:
            return []
        for target in sorted(graph[node]):
            if found := visit(target, [*path, node]):
                return found
        done.add(node)
        return []

    return next((found for node in sorted(graph) if (found := visit(node, []))), [])


def room_of(module: str) -> str:
    """Return the room of a module: its folder, a file straight in ``runtime/`` being a room of its own."""
    parts = module.split(".")
    if parts[1:2] == ["runtime"]:
        return ".".join(parts[:3])
    return ".".join(parts[:2])


def rooms(graph: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Return the graph of wings and of the rooms of runtime."""
    merged: dict[str, set[str]] = {}
    for module, targets in graph.items():
        home = room_of(module)
        merged.setdefault(home, set()).update(room_of(t) for t in targets if t.startswith(f"{NAME}."))
    return {home: targets - {home} for home, targets in merged.items() if home != NAME}


@pytest.fixture(scope="module")
def graph() -> dict[str, set[str]]:
    """Imports of the package."""
    return import_graph(PACKAGE)


def test_imports_run_down_the_house(graph: dict[str, set[str]]) -> None:
    """No wing imports one above it, no room of runtime one above it, and only the edge imports Locust."""
    assert rising_imports(graph) == []


def test_no_circle_of_modules(graph: dict[str, set[str]]) -> None:
    """No module imports itself by way of others; packages that re-export are apart from their modules."""
    assert circle({module: targets for module, targets in graph.items() if module != NAME}) == []


def test_no_circle_of_rooms(graph: dict[str, set[str]]) -> None:
    """No wing and no room of runtime imports itself by way of others."""
    assert circle(rooms(graph)) == []


def test_a_wrong_arrow_and_a_circle_are_found(tmp_path: Path) -> None:
    """The walk finds imports against the plan, relative ones and ones inside functions too, and circles."""
    package = tmp_path / NAME
    for name, text in {
        "workload/bad.py": "from ..analysis import summary\ndef f():\n    import gevent\n",
        "analysis/summary.py": "from locust_realism.workload import bad\n",
        "runtime/wire.py": "from .users import session\n",
        "runtime/users/session.py": "",
    }.items():
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        (path.parent / "__init__.py").touch()
    (package / "__init__.py").touch()
    found = import_graph(package)
    assert set(rising_imports(found)) == {
        f"{NAME}.runtime.wire -> {NAME}.runtime.users.session",
        f"{NAME}.workload.bad -> gevent",
        f"{NAME}.workload.bad -> {NAME}.analysis.summary",
    }
    assert circle(found)
    assert circle(rooms(found))


def test_no_two_files_share_a_name() -> None:
    """A file name means one thing; subcommands share theirs with the wing they open."""
    seen: dict[str, list[str]] = {}
    for module, path in modules_below(PACKAGE).items():
        if path.stem not in ("__init__", "__main__") and ".cli." not in module:
            seen.setdefault(path.stem, []).append(module)
    assert {name: homes for name, homes in seen.items() if len(homes) > 1} == {}


def test_the_plan_names_every_module() -> None:
    """docs/architecture.md draws the tree as it is."""
    page = (PACKAGE.parent / "docs" / "architecture.md").read_text()
    plan = set(re.findall(r"\w+", page[page.index("    locust_realism/") : page.index("## Imports run down")]))
    modules = {path.stem for path in modules_below(PACKAGE).values()} - {"__init__", "__main__"}
    assert modules - plan == set()
    listed = {name for line in re.findall(r"/ {2,}(\w+(?:  \w+)+)$", page, re.M) for name in line.split()}
    assert len(listed) > 50
    assert listed - modules == set()
