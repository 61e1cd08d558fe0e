"""The map of the packages holds: imports run one way, and the package can be imported in a notebook."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "locust_realism"

ALLOWED = {
    "workload": set(),
    "recording": set(),
    "analysis": {"workload", "recording"},
    "report": {"analysis", "workload", "recording"},
    "web": {"report", "analysis", "workload", "recording"},
    "targets": {"workload"},
    "runtime": {"workload", "recording", "analysis", "targets"},
    "experiments": {"workload", "recording", "analysis", "report"},
    "cli": {"workload", "recording", "analysis", "report", "web", "experiments"},
}
"""Which package may import which others; only runtime/plugin.py may import everything, to compose it."""

HOST = {"locust": {"runtime"}, "gevent": {"runtime", "targets"}}
"""Who may import what replaces the event loop: runtime/, and targets/, which runs in processes of its own."""


def imported_modules(path: Path) -> set[str]:
    """Absolute names of all modules that a file imports, also inside functions."""
    package = ["locust_realism", *path.relative_to(PACKAGE).with_suffix("").parts][:-1]
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            names |= {module} | {f"{module}.{alias.name}" for alias in node.names}
    return names


def forbidden_imports(path: Path) -> set[str]:
    """The imports of a file that the map does not allow."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    if parts in {("runtime", "plugin"), ("__init__",)}:
        return set()
    home = parts[0]
    bad = set()
    for name in imported_modules(path):
        top, *rest = name.split(".")
        if home not in HOST.get(top, {home}):
            bad.add(name)
        if top == "locust_realism" and rest and rest[0] in ALLOWED and rest[0] not in {home} | ALLOWED[home]:
            bad.add(name)
    return bad


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_follow_the_map(path: Path) -> None:
    """Data flows from workload and recording to analysis to report to web; only runtime knows Locust."""
    assert forbidden_imports(path) == set()


def test_a_wrong_arrow_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The walk sees imports against the map, relative ones and ones inside functions too."""
    monkeypatch.setattr(sys.modules[__name__], "PACKAGE", tmp_path)
    (tmp_path / "workload").mkdir()
    bad = tmp_path / "workload" / "bad.py"
    bad.write_text("from ..analysis import summary\ndef f():\n    import gevent\n")
    assert forbidden_imports(bad) >= {"locust_realism.analysis", "gevent"}


def test_importing_the_package_leaves_locust_and_gevent_alone() -> None:
    """A notebook must be able to import the public names without gevent patching its event loop."""
    code = (
        "import sys, locust_realism as lr\n"
        "[getattr(lr, name) for name in lr.__all__ if not lr._HOMES[name].startswith('runtime')]\n"
        "print(sorted({'locust', 'gevent', 'pandas', 'scipy.stats', 'pyarrow'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_the_public_names_are_the_documented_ones() -> None:
    """Every exported name exists, and nothing else is public."""
    import locust_realism

    assert list(locust_realism.__all__) == sorted(locust_realism.__all__)
    for name in locust_realism.__all__:
        assert getattr(locust_realism, name) is not None
