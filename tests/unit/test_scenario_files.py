"""Scenarios as files: imports of public packages only, service times of the articles, rows in the README."""

from __future__ import annotations

import ast
import json
import math
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import locust_realism
from locust_realism.targets.service import Service
from support import ROOT, SCENARIOS, environment, run_locust

FILES = sorted(path for path in SCENARIOS.rglob("*.py"))
PUBLIC = ("locust_realism", "locust_realism.kit", "locust_realism.targets")
"""Packages of ours that a scenario may import, kit and targets with their modules."""


def private_imports(source: str) -> list[str]:
    """Return the modules of the library that a source imports past its public doors."""
    modules = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            # a name of the package itself may be a module: "from locust_realism import runtime"
            deep = node.module == "locust_realism"
            modules += [f"{node.module}.{alias.name}" if deep else str(node.module) for alias in node.names]
    ours = [name for name in modules if name.split(".")[0] == "locust_realism"]
    public = {f"locust_realism.{name}" for name in locust_realism.__all__} | set(PUBLIC)
    return [name for name in ours if name not in public and not name.startswith(tuple(f"{p}." for p in PUBLIC[1:]))]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SCENARIOS)))
def test_scenarios_import_the_public_packages_only(path: Path) -> None:
    """A scenario that users copy works with public names alone."""
    assert private_imports(path.read_text()) == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SCENARIOS)))
def test_scenarios_use_public_names_of_the_kit_and_its_checked_reports(path: Path) -> None:
    source = path.read_text()
    names = [
        alias.name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("locust_realism.kit")
        for alias in node.names
    ]
    assert set(names) <= set(import_module("locust_realism.kit").__all__)
    assert "report_to_master" not in source, "report_part() checks what arrives"
    assert "worker_report" not in source


def test_a_private_import_is_found_inside_a_function_too() -> None:
    source = "from locust_realism import install, runtime\n\n\ndef f():\n    import locust_realism.common.supervisor\n"
    source += "    from locust_realism.runtime.options import Option\n    from locust_realism.kit.run_id import RunId\n"
    assert sorted(private_imports(source)) == [
        "locust_realism.common.supervisor",
        "locust_realism.runtime",
        "locust_realism.runtime.options",
    ]


@pytest.mark.parametrize("package", PUBLIC)
def test_every_public_name_exists(package: str) -> None:
    """The names of the kit and of the targets are imported at first use; a wrong module would show only then.

    In a process of its own: the kit imports Locust, whose monkey patching would stop threads of other tests.
    """
    code = f"import {package} as door\nassert all(getattr(door, name) is not None for name in door.__all__)\n"
    code += "try:\n    door.attack\nexcept AttributeError as error:\n    print(error)\n"
    result = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True)
    assert result.stdout == f"module '{package}' has no attribute 'attack'\n"


def test_the_documents_name_every_name_of_the_kit() -> None:
    text = (ROOT / "docs" / "scenarios.md").read_text()
    names = [*import_module("locust_realism.kit").__all__, *import_module("locust_realism.targets").__all__]
    assert [name for name in names if f"`{name}" not in text] == []


def test_the_example_of_the_documents_is_a_locustfile(tmp_path: Path) -> None:
    """The example in docs/scenarios.md runs as it stands, on the server that starts with it."""
    text = (ROOT / "docs" / "scenarios.md").read_text()
    (tmp_path / "example.py").write_text(text.partition("```python\n")[2].partition("```")[0])
    result = run_locust("-f", "example.py", "--headless", "-u", 2, "-t", "2s", "--only-summary", cwd=tmp_path)
    assert result.returncode == 0, result.stdout
    assert "GET /orders" in " ".join(result.stdout.split())


def test_the_mix_of_the_government_site_has_the_mean_and_the_cov_of_the_talk() -> None:
    """All six objects have 53 ms and 2.89, in a run with 6.9 % slow requests where the mix has 6.7."""
    code = "import json, gov_site; print(json.dumps(gov_site.SITE.to_dict()))"
    command = [sys.executable, "-c", code]
    output = subprocess.run(command, cwd=SCENARIOS, env=environment(), capture_output=True, text=True, check=True)
    service = Service.from_dict(json.loads(output.stdout))
    times = {name: work.time for name, work in service.work.items()}
    usual = {"home": 4, "home_image": 4, "department": 2, "department_image": 2, "demographics": 2}

    def mean_and_cov(statistics: float) -> tuple[float, float]:
        shares = {name: (1 - statistics) * weight / 14 for name, weight in usual.items()} | {"statistics": statistics}
        mean = sum(share * times[name].mean for name, share in shares.items())
        square = sum(share * times[name].mean ** 2 * (1 + times[name].cov ** 2) for name, share in shares.items())
        return 1e3 * mean, math.sqrt(square / mean**2 - 1)

    mean, cov = mean_and_cov(1310 / 19104)
    assert abs(mean - 53) < 0.5
    assert abs(cov - 2.89) < 0.02
    mean, cov = mean_and_cov(1 / 15)
    assert abs(mean - 52) < 0.5
    assert abs(cov - 2.93) < 0.02


def test_the_docs_have_a_row_for_each_scenario_with_server_command_and_article() -> None:
    text = (ROOT / "docs" / "scenarios.md").read_text()
    table = text.partition("| scenario | what | server that starts with it | command | after |")[2]
    rows = {row.split("](")[0].strip("| ["): row for row in table.split("\n\n")[0].splitlines()[2:]}
    assert set(rows) == {"webdav.py", "gov_site.py", "api_gateway.py", "shop.py", "quickstart.py"}
    articles = (ROOT / "docs" / "articles.md").read_text()
    anchors = {
        re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in re.findall(r"^## (.*)$", articles, re.M)
    }
    for name, row in rows.items():
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        assert all(cells[:4])
        assert f"locust -f scenarios/{name}" in cells[3]
        linked = re.findall(r"articles\.md#([\w-]+)", cells[4])
        assert set(linked) <= anchors
        assert linked or name == "quickstart.py"
        assert Path(SCENARIOS / name).exists()
