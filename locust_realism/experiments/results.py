"""What a run left as one row, and the rows of a sweep as one Parquet file.

A row is written as a part of its own: complete or not there at all, whatever ends the process. The Parquet file of a
sweep is the parts joined; any tool reads it. ``summary`` in it is the run's whole document (docs/json.md) as JSON.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from locust_realism.analysis.intervals import AGGREGATED, in_launch_order
from locust_realism.analysis.jsonable import to_json_safe
from locust_realism.experiments.figures import ESTIMATED, chosen_launches, load_figures, response_figures
from locust_realism.experiments.parts import part_rows
from locust_realism.experiments.plan import Cell, Plan
from locust_realism.experiments.process import Outcome
from locust_realism.experiments.windows import window_rows

Row = dict[str, Any]

FORMAT_VERSION = 1

_TEXTS = (
    "plan", "key", "variant", "scenario", "figures_of", "verdict", "verdict_sentence", "verdict_generator",
    "verdict_feedback", "summary",
)  # fmt: skip
_WHOLES = ("format_version", "order", "users", "seed", "repetition", "run_seed", "processes", "n", "failures")


def row_of(plan: Plan, cell: Cell, outcome: Outcome, order: int) -> Row:
    """The row of a run; ``order`` is its place in the sweep, from 0."""
    summary, log = outcome.summary, in_launch_order(outcome.log)
    chosen = chosen_launches(log, plan.report.figures_of)
    pattern, verdict = summary["pattern"], summary["verdict"]
    if plan.report.windows:
        summary = {**summary, "windows": window_rows(chosen, plan.report.windows)}
    if plan.report.rate:
        summary = {**summary, "parts": part_rows(chosen)}
    return {
        "format_version": FORMAT_VERSION, "plan": plan.name, "full": plan.full, "key": cell.key, "order": order,
        "variant": cell.variant.name, "users": cell.users, "think_time_s": cell.think_time_s,
        "seed": cell.seed, "repetition": cell.repetition, "run_seed": cell.run_seed,
        "scenario": cell.variant.scenario.name, "processes": cell.variant.processes,
        "warm_up_s": plan.warm_up_s, "steady_s": plan.steady_of(cell.variant), "started": outcome.started,
        "figures_of": plan.report.figures_of or AGGREGATED,
        **response_figures(chosen), **load_figures(log, summary),
        "launch_cov_raw": pattern["raw_cov"], "think_mean_s": pattern["think_mean_s"],
        "round_trip_s": pattern["round_trip_s"], "lateness_p99_ms": pattern["lateness_p99_ms"],
        **{f"{side}_cpu": share for side, share in outcome.cpu.items()},
        "verdict": verdict["overall"], "verdict_sentence": verdict["sentence"],
        "verdict_generator": verdict["generator"], "verdict_feedback": verdict["feedback"],
        "groups": [{key: row[key] for key in ("users", "n", "cov")} for row in summary["groups"]],
        "summary": json.dumps(to_json_safe(summary), allow_nan=False, separators=(",", ":")),
    }  # fmt: skip


def columns() -> list[str]:
    """The columns of the file, in order."""
    figures = [name for key in ESTIMATED for name in (key, f"{key}_low", f"{key}_high")]
    return [
        "format_version", "plan", "full", "key", "order", "variant", "users", "think_time_s", "seed", "repetition",
        "run_seed", "scenario", "processes", "warm_up_s", "steady_s", "started", "figures_of", "n", "failures",
        *figures, "sdev_ms", "cov", "max_ms", "launch_cov_raw", "think_mean_s", "round_trip_s", "lateness_p99_ms",
        "generator_cpu", "server_cpu", "machine_cpu", "verdict", "verdict_generator", "verdict_feedback",
        "verdict_sentence", "groups", "response_bins", "summary",
    ]  # fmt: skip


def _schema() -> Any:
    import pyarrow as pa

    kinds: dict[str, Any] = {
        **dict.fromkeys(_TEXTS, pa.string()),
        **dict.fromkeys(_WHOLES, pa.int64()),
        "full": pa.bool_(),
        "groups": pa.list_(pa.struct([("users", pa.int64()), ("n", pa.int64()), ("cov", pa.float64())])),
        "response_bins": pa.list_(pa.int64()),
    }
    return pa.schema([(name, kinds.get(name, pa.float64())) for name in columns()])


def write_rows(rows: Sequence[Row], path: Path) -> None:
    """Write rows as one Parquet file that is there completely or not at all, also after a power cut."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    pq.write_table(pa.Table.from_pylist(list(rows), _schema()), partial, compression="zstd")
    replace_durably(partial, path)


def replace_durably(partial: Path, path: Path) -> None:
    """Give a complete file its name, its content being on the disk before the name is."""
    with partial.open("rb") as stream:
        os.fsync(stream.fileno())
    partial.replace(path)
    if os.name == "posix":
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def read_rows(path: Path) -> list[Row]:
    """The rows of a file of :func:`write_rows`; ValueError where it is none."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        rows: list[Row] = pq.read_table(path, partitioning=None).to_pylist()
    except pa.ArrowInvalid as error:
        raise ValueError(f"{path} is no file of a sweep: {error}") from None
    if rows and rows[0].get("format_version", FORMAT_VERSION + 1) > FORMAT_VERSION:
        raise ValueError(f"{path} is of a newer version of locust_realism")
    return rows


def summary_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """The document of a run's row."""
    document: dict[str, Any] = json.loads(row["summary"])
    return document
