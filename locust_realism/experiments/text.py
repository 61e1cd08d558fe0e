"""The table of cells as plain text: on the console, and on the page where scripts do not run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_COLUMNS = (
    ("variant", 14, ""), ("users", 6, ""), ("think_time_s", 8, ""), ("runs", 5, ""), ("n", 9, ""), ("rate", 9, "%.2f"),
    ("mean_ms", 9, "%.1f"), ("cov", 6, "%.2f"), ("p50_ms", 9, "%.1f"), ("p90_ms", 9, "%.1f"), ("p95_ms", 9, "%.1f"),
    ("p99_ms", 9, "%.1f"), ("launch_cov", 7, "%.2f"), ("response_share", 7, "%.3f"), ("generator_cpu", 7, "%.2f"),
    ("server_cpu", 7, "%.2f"),
)  # fmt: skip
_TITLES = {
    "think_time_s": "Z s", "rate": "req/s", "mean_ms": "R ms", "cov": "CoV R", "p50_ms": "p50", "p90_ms": "p90",
    "p95_ms": "p95", "p99_ms": "p99", "launch_cov": "CoV", "response_share": "R/(R+Z)", "generator_cpu": "CPU g",
    "server_cpu": "CPU s",
}  # fmt: skip


def cell_lines(document: Mapping[str, Any]) -> list[str]:
    """A line for each cell under a heading; columns that no cell has are left out."""
    cells = document["cells"]
    shown = [column for column in _COLUMNS if any(cell.get(column[0]) not in (None, "") for cell in cells)]
    lines = ["".join(_TITLES.get(key, key).rjust(width + 1) for key, width, _ in shown) + "  verdict"]
    for cell in cells:
        figures = "".join(_text(cell.get(key), form).rjust(width + 1) for key, width, form in shown)
        lines.append(f"{figures}  {cell['verdict']}")
    return lines


def _text(value: Any, form: str) -> str:
    if value is None:
        return "-"
    return form % value if form else f"{value:g}" if isinstance(value, float) else str(value)
