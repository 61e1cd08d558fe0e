"""The cells of a sweep as text and as CSV: on the console, and on the page where scripts do not run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from locust_realism.report.text import Column, table

_COLUMNS = (
    Column("variant", "variant", text=True),
    Column("users", "users", 0),
    Column("think_time_s", "Z s", drop=6),
    Column("runs", "runs", 0, drop=5),
    Column("n", "n", 0, drop=9),
    Column("rate", "req/s", 2),
    Column("mean_ms", "R ms", 1),
    Column("cov", "CoV R", 2, drop=4),
    Column("p50_ms", "p50", 1),
    Column("p90_ms", "p90", 1, drop=3),
    Column("p95_ms", "p95", 1),
    Column("p99_ms", "p99", 1, drop=2),
    Column("launch_cov", "CoV", 2),
    Column("response_share", "R/(R+Z)", 3, drop=7),
    Column("generator_cpu", "CPU g", 2, drop=8),
    Column("server_cpu", "CPU s", 2, drop=10),
    Column("verdict", "verdict", text=True),
)


def cell_lines(
    document: Mapping[str, Any], *, color: bool = False, width: int = 200, unicode: bool = True
) -> list[str]:
    """A line for each cell under a heading; columns that no cell has are left out."""
    cells = document["cells"]
    shown = [column for column in _COLUMNS if any(cell.get(column.key) not in (None, "") for cell in cells)]
    return table(shown, cells, color=color, width=width, unicode=unicode)


def cell_columns(document: Mapping[str, Any]) -> list[str]:
    """Every figure that some cell has, for CSV: those of the table first, then the others, such as the intervals."""
    found = dict.fromkeys(key for cell in document["cells"] for key, value in cell.items() if not _is_nested(value))
    first = [column.key for column in _COLUMNS if column.key in found]
    return [*first, *(key for key in found if key not in first)]


def _is_nested(value: Any) -> bool:
    return isinstance(value, list | dict)
