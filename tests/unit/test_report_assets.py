"""Scripts of the tabs, joined into one offline page."""

from __future__ import annotations

import re
import shutil
import subprocess
from importlib import resources
from pathlib import Path

import pytest

from locust_realism.report.assets import charts_script, module_order, report_script, report_style

STATIC = Path(str(resources.files("locust_realism"))) / "web" / "static"
MODULES = sorted(path.name for path in STATIC.glob("*.js"))


def test_each_module_comes_after_its_imports() -> None:
    order = module_order()
    assert order[-1] == "report.js"
    assert len(order) == len(set(order)) >= 10
    for name in order:
        for wanted in re.findall(r'from "\./([\w.-]+)"', (STATIC / name).read_text()):
            assert order.index(wanted) < order.index(name)


def test_modules_keep_to_the_imports_and_exports_that_can_be_joined() -> None:
    for module in MODULES:
        for line in (STATIC / module).read_text().splitlines():
            if re.match(r"\s*import\b(?!\.)", line):
                assert re.fullmatch(r'import \{[\w, ]+\} from "\./[\w.-]+\.js";', line), (module, line)
                assert " as " not in line
            if re.match(r"\s*export\b", line):
                assert re.match(r"export (async function|function|const|class) \w+", line), (module, line)


def test_nothing_of_a_module_is_left_in_the_joined_script() -> None:
    script = report_script()
    assert not re.search(r"^\s*(import|export)\b", script, re.MULTILINE)
    assert "import.meta" not in script
    assert "fetch(" not in script
    assert 'window.renderReport = modules["report.js"].renderReport;' in script


@pytest.mark.parametrize("text", [report_script(), charts_script()])
def test_no_script_can_end_its_own_tag(text: str) -> None:
    assert "</script" not in text.lower()
    assert "<!--" not in text


def test_no_module_writes_html() -> None:
    for module in MODULES:
        source = (STATIC / module).read_text()
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function", source), (
            module
        )


def test_style_is_confined_to_our_own_elements() -> None:
    style = re.sub(r"/\*.*?\*/", "", report_style(), flags=re.DOTALL)
    selectors = re.findall(r"([^{}]+)\{", re.sub(r"@media[^{]+\{", "", style))
    assert len(selectors) > 50
    for selector in ",".join(selectors).split(","):
        assert selector.strip().startswith((".lr", "[data-lr-", "legend > [data-lr-")), selector


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_the_joined_script_is_javascript(tmp_path: Path) -> None:
    joined = tmp_path / "report.js"
    joined.write_text(report_script())
    done = subprocess.run(["node", "--check", str(joined)], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
