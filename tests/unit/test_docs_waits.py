"""docs/waits.md: its examples give what it says they do, and its pictures and names exist."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

import locust_realism

PAGE = Path(__file__).parents[2] / "docs" / "waits.md"


def test_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(PAGE.parent)
    result = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")
    assert result.attempted >= 10
    assert result.failed == 0


def test_pictures_and_links_exist() -> None:
    text = PAGE.read_text(encoding="utf-8")
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", text)
    assert len(pictures) == 3
    for picture in pictures:
        assert (PAGE.parent / picture).stat().st_size < 300_000


def test_imported_names_are_public() -> None:
    names = re.findall(r"from locust_realism import (.+)", PAGE.read_text(encoding="utf-8"))
    assert names
    for name in {name.strip() for line in names for name in line.split(",")}:
        assert hasattr(locust_realism, name)
