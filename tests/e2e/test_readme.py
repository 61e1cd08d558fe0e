"""The README's first command, on a fresh clone in a fresh virtual environment, as a newcomer types it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from support import ROOT

pytestmark = pytest.mark.e2e

README = ROOT / "README.md"


def commands(pattern: str) -> list[str]:
    """The indented lines of the README that match, without the remark behind them."""
    lines = re.findall(r"^    (.+)$", README.read_text(), re.MULTILINE)
    return [line.split("  #")[0].strip() for line in lines if re.search(pattern, line)]


def fresh_clone(folder: Path) -> Path:
    """Return a clone of the commits of this tree, without uncommitted changes."""
    if not (ROOT / ".git").exists() or not shutil.which("git"):
        pytest.skip("needs a git checkout")
    clone = folder / "clone"
    subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
    return clone


def test_the_first_command_runs_the_main_job_on_a_fresh_clone(tmp_path: Path) -> None:
    """venv, install, scenario: nothing else is needed, nothing is left in the clone that git would see."""
    (command,) = commands(r"^python3 -m venv .* locust -f scenarios/webdav\.py")
    clone = fresh_clone(tmp_path)
    env = {name: value for name, value in os.environ.items() if not name.startswith(("LOCUST_", "VIRTUAL_ENV", "TOX_"))}
    env["PATH"] = os.pathsep.join(part for part in env["PATH"].split(os.pathsep) if "/.tox/" not in part)
    result = subprocess.run(
        ["bash", "-c", f"{command} --headless -u 5 -r 5 -t 8s"],
        cwd=clone, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, timeout=400,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout[-5000:]
    assert "Response times (ms)" in result.stdout
    assert "GET file" in result.stdout
    assert re.search(r"Users: 5 made, 5 deleted by themselves, 0 found", result.stdout)
    left = subprocess.run(["git", "status", "--porcelain"], cwd=clone, capture_output=True, text=True, check=True)
    assert left.stdout == ""


@pytest.mark.parametrize("page", [README, ROOT / "docs" / "start.md"], ids=lambda page: page.name)
def test_a_first_page_names_files_and_options_that_exist(page: Path) -> None:
    """Every linked page and picture is there, and every --realism flag is an option."""
    from locust_realism.runtime.options import OPTIONS

    text = page.read_text()
    links = re.findall(r"\]\((?!https?:)([^)#]+)", text)
    assert len(links) > 5
    assert [link for link in links if not (page.parent / link).exists()] == []
    flags = {option.flag for option in OPTIONS} | {"--realism-help"}
    assert set(re.findall(r"--realism-[a-z-]+", text)) <= flags
