"""docs/waits.md and docs/population.md: every example runs, and the tables have the figures and names of the code."""

from __future__ import annotations

import doctest
import inspect
import math
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import locust_realism
from locust_realism.runtime.options import OPTIONS
from locust_realism.workload import distributions
from locust_realism.workload.distributions import (
    Distribution,
    constant,
    exponential,
    gamma,
    hyperexponential,
    lognormal,
    truncated_exponential,
    uniform,
    weibull,
)

DOCS = Path(__file__).parents[2] / "docs"
WAITS, POPULATION = DOCS / "waits.md", DOCS / "population.md"
PAGES = pytest.mark.parametrize("page", [WAITS, POPULATION], ids=lambda page: page.stem)
GIVEN: tuple[Callable[..., Distribution], ...] = (lognormal, gamma, hyperexponential, weibull)
COVS = {
    "1": lambda: exponential(3).cov == 1,
    "below 1": lambda: truncated_exponential(3, maximum=30).cov < 1,
    "as given": lambda: all(
        f(3, cov=1.7).cov == pytest.approx(1.7) for f in (lognormal, gamma, hyperexponential, weibull)
    ),
    "at most 0.58": lambda: uniform(1, 9).cov < uniform(0, 9).cov <= 0.58,
    "0": lambda: constant(3).cov == 0,
}
"""Claims of the CoV column that a formula can check."""


def table(page: Path, heading: str) -> list[list[str]]:
    """Return the rows of the table whose first heading starts with this text."""
    lines = page.read_text(encoding="utf-8").splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("| " + heading))
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split(" | ")])
    return rows


def calls(text: str) -> list[tuple[str, list[str]]]:
    """Return name and keyword arguments of each call in backticks."""
    found = re.findall(r"`(\w+)\(([^`]*)\)`", text)
    return [(name, re.findall(r"(\w+)=", arguments)) for name, arguments in found]


def parameters(name: str) -> set[str]:
    return set(inspect.signature(getattr(locust_realism, name)).parameters)


def test_every_prompt_of_the_page_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(DOCS)
    result = doctest.testfile(str(WAITS), module_relative=False, encoding="utf-8")
    assert result.attempted == len(re.findall(r"(?m)^    >>> ", WAITS.read_text(encoding="utf-8")))
    assert result.failed == 0


@PAGES
def test_every_locustfile_loads(page: Path) -> None:
    """A process of its own runs the code blocks, as Locust patches the standard library."""
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    shown = "print(Visitor.wait_time); print(Visitor.population.describe() if hasattr(Visitor, 'population') else '')\n"
    done = subprocess.run(
        [sys.executable, "-c", "".join(block + "\n" + shown for block in blocks)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 2 * len(blocks)
    if page == POPULATION:
        assert f"    Visitor: {done.stdout.splitlines()[1]}\n" in page.read_text(encoding="utf-8")


@PAGES
def test_pictures_and_links_exist(page: Path) -> None:
    links = re.findall(r"(!?)\[[^\]]*\]\(([^)#]+)\)", page.read_text(encoding="utf-8"))
    assert links
    for picture, target in links:
        assert (DOCS / target).is_file(), target
        assert not picture or (DOCS / target).stat().st_size < 300_000


@PAGES
def test_imported_names_are_public(page: Path) -> None:
    names = re.findall(r"from locust_realism import (.+)", page.read_text(encoding="utf-8"))
    assert names
    for name in {name.strip() for line in names for name in line.split(",")}:
        assert hasattr(locust_realism, name)


def test_the_table_of_distributions_is_that_of_the_code() -> None:
    rows = table(WAITS, "function")
    listed = {name for row in rows for name, _ in calls(row[0])}
    assert listed == set(distributions.__all__) - {"Distribution", "distribution_from_dict"}
    for row in rows:
        for name, arguments in re.findall(r"`(\w+)\(([^`]*)\)`", row[0]):
            assert set(re.findall(r"\w+", arguments)) <= parameters(name), row[0]
        assert row[2] not in COVS or COVS[row[2]](), row
    assert {row[2] for row in rows} - set(COVS) == {"from the shape", "of the values"}


def test_the_table_of_truncation_has_the_figures_of_the_formulas() -> None:
    rows = table(WAITS, "maximum, in means")
    assert len(rows) == 3
    for maximum, share, clipped, truncated in rows:
        k = float(maximum)
        tail = math.exp(-k)
        mean = 1 - tail
        cov = math.sqrt(2 * (1 - tail * (1 + k)) / mean**2 - 1)  # of min(X, k), X exponential with mean 1
        assert float(share.rstrip(" %")) == pytest.approx(100 * tail, rel=0.01)
        assert [float(cell) for cell in clipped.split(",")] == pytest.approx([mean, cov], abs=6e-4)
        wait = truncated_exponential(1, maximum=k)
        assert [float(cell) for cell in truncated.split(",")] == pytest.approx([wait.mean, wait.cov], abs=5e-4)


def test_the_settings_of_paced_waits_exist() -> None:
    known = parameters("paced") | parameters("diurnal_sine")
    for row in table(WAITS, "setting"):
        (setting,) = re.findall(r"`(\w+)=", row[0])
        assert setting in known
    recipe = table(WAITS, "JMeter variable")
    assert [name for row in recipe for name, _ in calls(row[1])] == ["diurnal_sine"] * 3
    for row in recipe:
        assert set(re.findall(r"(\w+)=", re.sub(r"exponential\(\d\)", "", row[1]))) <= known, row


def test_the_names_beside_other_tools_are_public() -> None:
    cells = [row[-1] for row in table(WAITS, "| Locust")]
    names = {name for cell in cells for name in re.findall(r"`(\w+)", cell)}
    assert len(names) >= 9
    for name in names:
        assert hasattr(locust_realism, name), name


def test_the_flags_of_populations_exist_and_take_the_shown_values() -> None:
    options: dict[str, Any] = {option.flag: option for option in OPTIONS}
    shown = re.findall(r"`(--[a-z-]+) ([^`]+)`", POPULATION.read_text(encoding="utf-8"))
    assert {flag for flag in options if flag.startswith("--population")} <= {flag for flag, _ in shown}
    for flag, value in shown:
        if flag in options:
            option = options[flag]
            assert option.type is None or option.type(value) is not None
            assert option.choices is None or value in option.choices


@PAGES
def test_no_sentence_is_longer_than_thirty_words(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    prose = "\n".join(line for line in text.splitlines() if not line.startswith(("|", "    ", "#", "!")))
    for paragraph in re.split(r"\n\s*\n|\n- ", prose):
        for sentence in re.split(r"[.:;?!](?:\s|$|\*)", paragraph):
            assert len(sentence.split()) <= 30, sentence
