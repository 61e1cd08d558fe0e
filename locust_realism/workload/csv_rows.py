"""Rows of CSV files of times or rates."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

_SHOWN = 3


def data_rows(path: Path, separators: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number and the stripped cells of each row; the most frequent of ``separators`` splits the cells.

    Empty rows and rows that begin with # are skipped.
    """
    with path.open(newline="", encoding="utf-8-sig") as file:
        separator = max(separators, key=file.read(4096).count)
        file.seek(0)
        reader = csv.reader(file, delimiter=separator)
        for raw in reader:
            cells = [cell.strip() for cell in raw]
            if any(cells) and not cells[0].startswith("#"):
                yield reader.line_num, cells


def bad_rows(path: str | Path, bad: Sequence[str], total: int, rule: str) -> ValueError:
    """Return the error of a file with ``bad`` rows among ``total``, which names the first of them."""
    shown = "; ".join(bad[:_SHOWN]) + ("; ..." if len(bad) > _SHOWN else "")
    return ValueError(f"{path}: {len(bad)} bad of {total} rows, {rule}: {shown}")
