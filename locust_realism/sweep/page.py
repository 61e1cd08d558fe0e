"""Page of a sweep: one HTML file that opens offline, drawn by web/static/sweep.js from one JSON document.

The document holds the content of the Parquet file only, so that the file is enough to write the page again. The table
of cells is also text for the console and for browsers without scripts, and CSV.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from locust_realism.common.json import to_json_safe
from locust_realism.report.assets import report_script
from locust_realism.report.html import offline_page
from locust_realism.report.terminal import Column, Screen
from locust_realism.sweep.cells import cells_of, difference_rows, series_of, target_rows
from locust_realism.sweep.design import Plan, Row, interval_note, plan_facts, users_in_words
from locust_realism.sweep.results import BIN_EDGES_MS, summary_of, write_durably

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


def cell_lines(document: Row, screen: Screen) -> list[str]:
    """Return a heading and a line for each cell, without columns that no cell has."""
    cells = document["cells"]
    shown = [column for column in _COLUMNS if any(cell.get(column.key) not in (None, "") for cell in cells)]
    return screen.table(shown, cells)


def cell_columns(document: Row) -> list[str]:
    """Return the figures of the cells for CSV: the columns of the table first, then the others, such as intervals."""
    found = [key for cell in document["cells"] for key, value in cell.items() if not isinstance(value, list | dict)]
    return list(dict.fromkeys([column.key for column in _COLUMNS if column.key in found] + found))


MOST_RUNS_SHOWN = 6
"""Most runs with charts of their own (rate over time, knee); a page of hundreds would not open."""


def document_of(plan: Plan, rows: Sequence[Row], *, failures: Sequence[str] = ()) -> Row:
    """Return the page's document of the runs that are done; JSON-able, without NaN."""
    report, names = plan.report, [variant.name for variant in plan.variants]
    ordered = sorted(rows, key=lambda of: (names.index(of["variant"]), of["think_time_s"] or 0, of["users"]))
    cells = cells_of(ordered)
    shown = [{key: cell[key] for key in cell if key not in ("response_bins", "groups")} for cell in cells]
    at = [cell["users"] if report.x == "users" else cell["think_time_s"] or 0 for cell in cells]
    document = {
        "title": plan.title or plan.name,
        "article": plan.article,
        "claim": plan.claim,
        "caution": plan.caution,
        "full": plan.full,
        "runs_done": len(rows),
        "runs_planned": len(plan.cells()),
        "facts": plan_facts(plan, rows),
        "how_sure": interval_note(plan),
        "x": report.x,
        "logarithmic": 0 < 10 * min(at) <= max(at),
        "cells": shown,
        "lines": [{"name": name, "cells": line} for name, line in series_of(shown, report.x)],
        "densities": _densities(cells, report.density_users),
        "targets": target_rows(cells, report.targets),
        "differences": difference_rows(ordered) if report.compare else [],
        "groups": _groups(cells) if report.groups else None,
        "feedback": report.feedback,
        "windows": _of_runs(rows, "windows") if report.windows else [],
        "over_time": _of_runs(rows, "charts", "over_time") if report.rate else [],
        "parts": _of_runs(rows, "parts") if report.rate else [],
        "capacity": _of_runs(rows, "capacity") if report.capacity else [],
        "names": _of_runs(rows, "response_times") if report.capacity else [],
        "failures": list(failures),
    }
    safe: Row = to_json_safe(document)
    return safe


def render_page(document: Row) -> str:
    """Return the page of a document of :func:`document_of`, about 1 MB."""
    text = "\n".join(cell_lines(document, Screen(200)))
    return offline_page(document["title"], document, text, report_script("sweep.js"))


def write_document(document: Row, path: Path) -> None:
    """Write the page of a document of :func:`document_of`; the file is complete or absent."""
    write_durably(path, lambda partial: partial.write_text(render_page(document), encoding="utf-8"))


def _densities(cells: Sequence[Row], users: Sequence[int]) -> list[Row]:
    """Return for each number of users the densities of its cells: share of the requests per millisecond."""
    found = []
    for number in users or sorted({cell["users"] for cell in cells})[-2:]:
        lines = series_of([cell for cell in cells if cell["users"] == number])
        if lines:
            found.append({"users": number, "curves": [{"name": name, **_density(cell)} for name, (cell, *_) in lines]})
    return found


def _density(cell: Row) -> Row:
    counts = np.array(cell["response_bins"], dtype=np.float64)
    present = np.flatnonzero(counts)
    part = slice(max(int(present[0]) - 1, 0), int(present[-1]) + 2)
    middle = np.sqrt(BIN_EDGES_MS[:-1] * BIN_EDGES_MS[1:])
    # a moving mean over five bins: few requests would show chance only
    density = np.convolve(counts, np.ones(5) / 5, mode="same") / counts.sum() / np.diff(BIN_EDGES_MS)
    return {"n": int(counts.sum()), "ms": middle[part].tolist(), "density": density[part].tolist()}


def _groups(cells: Sequence[Row]) -> Row:
    """Return the CoV by number of users taken together: a column for each cell, a row for each number."""
    several = len({cell["users"] for cell in cells}) > 1
    columns = [
        {"name": _words(cell, several), "cov": {str(group["users"]): group for group in cell["groups"]}}
        for cell in sorted(cells, key=lambda cell: (cell["variant"], -(cell["think_time_s"] or 0), cell["users"]))
    ]
    sizes = sorted({int(size) for column in columns for size in column["cov"]})
    return {"sizes": sizes, "columns": columns}


def _words(cell: Row, users: bool = True, repetition: int = 0) -> str:
    words = [
        cell["variant"],
        users_in_words(cell["users"]) if users or not cell["variant"] else "",
        "" if cell["think_time_s"] is None else f"Z {cell['think_time_s']:g} s",
        f"repetition {repetition + 1}" if repetition else "",
    ]
    return ", ".join(filter(None, words))


def _of_runs(rows: Sequence[Row], *keys: str) -> list[Row]:
    """Return a part of the summaries of the first runs, with the words of each run."""
    found = []
    for row in sorted(rows, key=lambda row: (row["repetition"], row["order"]))[:MOST_RUNS_SHOWN]:
        value: Row | None = summary_of(row)
        for key in keys:
            value = value and value.get(key)
        if value:
            found.append({"name": _words(row, repetition=row["repetition"]), "value": value})
    return found
