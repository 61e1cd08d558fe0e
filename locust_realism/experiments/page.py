"""The page of a sweep: one HTML file that opens offline, drawn by web/static/sweep.js from one JSON document.

The document holds what the Parquet file says and nothing else, so that a page can be made again from the file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from locust_realism.analysis.jsonable import to_json_safe
from locust_realism.experiments.cells import cells_of, difference_rows, series_of, target_rows
from locust_realism.experiments.figures import bin_edges
from locust_realism.experiments.plan import Plan, users_in_words
from locust_realism.experiments.plan_text import how_sure, plan_facts
from locust_realism.experiments.results import summary_of
from locust_realism.experiments.text import cell_lines
from locust_realism.report.assets import report_script
from locust_realism.report.html import offline_page

Row = dict[str, Any]

ENTRY = "sweep.js"
MOST_RUNS_SHOWN = 6
"""Runs that have charts of their own (rate over time, knee); a page of hundreds would not open."""


def document_of(plan: Plan, rows: Sequence[Row], *, failures: Sequence[str] = ()) -> dict[str, Any]:
    """What the page shows of the rows of a plan that are there; JSON-able, without NaN."""
    report, cells = plan.report, sorted(cells_of(rows), key=_order(plan))
    lines = series_of(cells, report.x)
    document = {
        "title": plan.title or plan.name,
        "article": plan.article,
        "claim": plan.claim,
        "caution": plan.caution,
        "full": plan.full,
        "runs_done": len(rows),
        "runs_planned": len(plan.cells()),
        "facts": plan_facts(plan, rows),
        "how_sure": how_sure(plan),
        "x": report.x,
        "logarithmic": _is_wide([_x_of(cell, report.x) for cell in cells]),
        "cells": [_shown(cell) for cell in cells],
        "lines": [{"name": name, "cells": [_shown(cell) for cell in line]} for name, line in lines],
        "densities": _densities(cells, report.density_users),
        "targets": target_rows(cells, report.targets),
        "differences": difference_rows(cells) if report.compare else [],
        "groups": _groups(cells) if report.groups else None,
        "feedback": report.feedback,
        "windows": _of_runs(rows, "windows") if report.windows else [],
        "over_time": _of_runs(rows, "charts", "over_time") if report.rate else [],
        "parts": _of_runs(rows, "parts") if report.rate else [],
        "capacity": _of_runs(rows, "capacity") if report.capacity else [],
        "names": _of_runs(rows, "response_times") if report.capacity else [],
        "failures": list(failures),
    }
    safe: dict[str, Any] = to_json_safe(document)
    return safe


def render_page(document: Mapping[str, Any]) -> str:
    """The page of a document of :func:`document_of`, about 1 MB."""
    return offline_page(str(document["title"]), document, "\n".join(cell_lines(document)), report_script(ENTRY))


def write_page(plan: Plan, rows: Sequence[Row], path: Path, *, failures: Sequence[str] = ()) -> None:
    """Write the page; it is there completely or not at all."""
    write_document(document_of(plan, rows, failures=failures), path)


def write_document(document: Mapping[str, Any], path: Path) -> None:
    """Write the page of a document of :func:`document_of`."""
    partial = path.with_name(path.name + ".partial")
    partial.write_text(render_page(document), encoding="utf-8")
    partial.replace(path)


def _order(plan: Plan) -> Any:
    names = [variant.name for variant in plan.variants]
    return lambda cell: (names.index(cell["variant"]), cell["think_time_s"] or 0, cell["users"])


def _x_of(cell: Row, x: str) -> float:
    return float(cell["users"] if x == "users" else cell["think_time_s"] or 0)


def _is_wide(values: Sequence[float]) -> bool:
    """Whether an axis of these values is better logarithmic."""
    return min(values) > 0 and max(values) / min(values) >= 10


def _shown(cell: Row) -> Row:
    return {key: value for key, value in cell.items() if key not in ("response_bins", "groups")}


def _densities(cells: Sequence[Row], users: Sequence[int]) -> list[Row]:
    """Per number of users a curve for each cell: share of the requests per millisecond, in bins of equal ratio."""
    chosen = users or sorted({cell["users"] for cell in cells})[-2:]
    edges = bin_edges()
    found = []
    for number in chosen:
        curves = [
            {"name": name, **_density(line[0], edges)}
            for name, line in series_of([cell for cell in cells if cell["users"] == number])
        ]
        if curves:
            found.append({"users": number, "curves": curves})
    return found


def _density(cell: Row, edges: np.ndarray[Any, np.dtype[np.float64]]) -> Row:
    counts = np.array(cell["response_bins"], dtype=np.float64)
    total = counts.sum()
    present = np.flatnonzero(counts)
    part = slice(max(int(present[0]) - 1, 0), int(present[-1]) + 2)
    middle = np.sqrt(edges[:-1] * edges[1:])
    # A moving mean over five bins: where requests are few, chance would be all one sees.
    smooth = np.convolve(counts, np.ones(5) / 5, mode="same")
    return {
        "n": int(total),
        "ms": middle[part].tolist(),
        "density": (smooth[part] / total / np.diff(edges)[part]).tolist(),
    }


def _groups(cells: Sequence[Row]) -> Row:
    """CoV by number of users whose launches are taken together: a column for each cell, a row for each number."""
    several = len({cell["users"] for cell in cells}) > 1
    columns = [
        {"name": ", ".join(_words(cell, several)), "cov": {str(group["users"]): group for group in cell["groups"]}}
        for cell in sorted(cells, key=lambda cell: (cell["variant"], -(cell["think_time_s"] or 0), cell["users"]))
    ]
    sizes = sorted({int(size) for column in columns for size in column["cov"]})
    return {"sizes": sizes, "columns": columns}


def _words(cell: Row, users: bool = True) -> list[str]:
    words = [cell["variant"]] if cell["variant"] else []
    if users or not words:
        words.append(users_in_words(cell["users"]))
    return words if cell["think_time_s"] is None else [*words, f"Z {cell['think_time_s']:g} s"]


def _of_runs(rows: Sequence[Row], *keys: str) -> list[Row]:
    """A part of the summaries of the first runs, with the words of the run."""
    found = []
    for row in sorted(rows, key=lambda row: (row["repetition"], row["order"]))[:MOST_RUNS_SHOWN]:
        value: Any = summary_of(row)
        for key in keys:
            value = value.get(key) if value is not None else None
        if value:
            again = [f"repetition {row['repetition'] + 1}"] if row["repetition"] else []
            found.append({"name": ", ".join([*_words(row), *again]), "value": value})
    return found
