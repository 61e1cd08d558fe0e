"""What a run left as one row, the rows of a sweep as one Parquet file, and the runs of a cell as one cell.

A row is written as a part of its own: complete or not there at all, whatever ends the process. The Parquet file of a
sweep is the parts joined; any tool reads it. ``summary`` in it is the run's whole document (docs/json.md) as JSON.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from locust_realism.analysis.intervals import AGGREGATED
from locust_realism.analysis.jsonable import to_json_safe
from locust_realism.analysis.responses import response_table
from locust_realism.analysis.settings import AnalysisSettings
from locust_realism.experiments.plan import Cell, Plan
from locust_realism.experiments.process import Outcome
from locust_realism.experiments.windows import window_rows
from locust_realism.recording.launches import LaunchLog

Row = dict[str, Any]

FORMAT_VERSION = 1
BINS_PER_DECADE = 40
FIRST_DECADE, LAST_DECADE = -3, 6
"""Bins of the response times run from a microsecond to a thousand seconds, in milliseconds."""

RESPONSE_KEYS = ("mean_ms", "sdev_ms", "cov", "p50_ms", "p90_ms", "p95_ms", "p99_ms", "p999_ms", "max_ms")
INTERVALS = ("p50_ms", "p90_ms", "p95_ms", "p99_ms", "p999_ms")
FIGURES = (
    "rate", "mean_ms", "sdev_ms", "cov", "p50_ms", "p90_ms", "p95_ms", "p99_ms", "p999_ms", "max_ms",
    "launch_cov", "response_share", "think_mean_s", "generator_cpu", "server_cpu", "machine_cpu", "failed_share",
)  # fmt: skip
"""Columns that a cell has with an error."""
STATUS_ORDER = ("red", "amber", "not enough data", "green")


def bin_edges() -> NDArray[np.float64]:
    """Edges of the bins of ``response_bins`` in milliseconds, 40 equal steps a factor of ten; shape (361,)."""
    steps = (LAST_DECADE - FIRST_DECADE) * BINS_PER_DECADE
    edges: NDArray[np.float64] = 10.0 ** (FIRST_DECADE + np.arange(steps + 1) / BINS_PER_DECADE)
    return edges


def row_of(plan: Plan, cell: Cell, outcome: Outcome, order: int) -> Row:
    """The row of a run; ``order`` is its place in the sweep, from 0."""
    summary, log = outcome.summary, outcome.log
    chosen = _chosen(log, plan.report.figures_of)
    response = response_table(chosen, AnalysisSettings(max_names=1))[-1]
    pattern, verdict = summary["pattern"], summary["verdict"]
    launches = summary["launches"][-1]
    if plan.report.windows:
        summary = {**summary, "windows": window_rows(chosen, plan.report.windows)}
    counts, _ = np.histogram(np.clip(chosen.response_us / 1e3, 1e-3, 9.99e5), bin_edges())
    return {
        "format_version": FORMAT_VERSION, "plan": plan.name, "full": plan.full, "key": cell.key, "order": order,
        "variant": cell.variant.name, "users": cell.users, "think_time_s": cell.think_time_s,
        "seed": cell.seed, "repetition": cell.repetition, "run_seed": cell.run_seed,
        "scenario": cell.variant.scenario.name, "processes": cell.variant.processes,
        "warm_up_s": plan.warm_up_s, "steady_s": plan.steady_s, "started": outcome.started,
        "figures_of": plan.report.figures_of or AGGREGATED,
        "n": response["n"], "failures": response["failures"],
        "failed_share": response["failures"] / response["n"] if response["n"] else math.nan,
        "rate": launches["rate"],
        **{key: response[key] for key in RESPONSE_KEYS},
        **{f"{key}_low": _limit(response, key, 0) for key in INTERVALS},
        **{f"{key}_high": _limit(response, key, 1) for key in INTERVALS},
        "launch_cov": pattern["cov"], "launch_cov_raw": pattern["raw_cov"],
        "response_share": pattern["response_share"], "think_mean_s": pattern["think_mean_s"],
        "round_trip_s": pattern["round_trip_s"], "lateness_p99_ms": pattern["lateness_p99_ms"],
        **{f"{side}_cpu": share for side, share in outcome.cpu.items()},
        "verdict": verdict["overall"], "verdict_sentence": verdict["sentence"],
        "verdict_generator": verdict["generator"], "verdict_feedback": verdict["feedback"],
        "groups": [{key: row[key] for key in ("users", "n", "cov")} for row in summary["groups"]],
        "response_bins": counts.tolist(),
        "summary": json.dumps(to_json_safe(summary), allow_nan=False, separators=(",", ":")),
    }  # fmt: skip


def _chosen(log: LaunchLog, name: str) -> LaunchLog:
    """The launches of one name (``GET file`` or ``file``), all where none is asked for."""
    if not name:
        return log
    codes = [i for i, label in enumerate(log.labels) if name in (label.name, f"{label.method} {label.name}")]
    rows = np.isin(log.label, codes)
    if not rows.any():
        names = ", ".join(sorted({f"{label.method} {label.name}".strip() for label in log.labels}))
        raise ValueError(f"figures_of is {name!r}, expected one of {names}")
    return log.take(rows)


def _limit(row: Row, key: str, index: int) -> float | None:
    interval = row.get(key.replace("_ms", "_interval_ms"))
    return None if interval is None else float(interval[index])


def _schema() -> Any:
    import pyarrow as pa

    text, whole, real = pa.string(), pa.int64(), pa.float64()
    kinds: dict[str, Any] = {
        **dict.fromkeys(("plan", "key", "variant", "scenario", "figures_of", "verdict", "verdict_generator",
                         "verdict_feedback", "verdict_sentence", "summary"), text),
        **dict.fromkeys(("format_version", "order", "users", "seed", "repetition", "run_seed", "processes", "n",
                         "failures"), whole),
        "full": pa.bool_(),
        "groups": pa.list_(pa.struct([("users", whole), ("n", whole), ("cov", real)])),
        "response_bins": pa.list_(whole),
    }  # fmt: skip
    names = [
        "format_version", "plan", "full", "key", "order", "variant", "users", "think_time_s", "seed", "repetition",
        "run_seed", "scenario", "processes", "warm_up_s", "steady_s", "started", "figures_of", "n", "failures",
        "failed_share", "rate", *RESPONSE_KEYS, *(f"{key}_{side}" for key in INTERVALS for side in ("low", "high")),
        "launch_cov", "launch_cov_raw", "response_share", "think_mean_s", "round_trip_s", "lateness_p99_ms",
        "generator_cpu", "server_cpu", "machine_cpu", "verdict", "verdict_generator", "verdict_feedback",
        "verdict_sentence", "groups", "response_bins", "summary",
    ]  # fmt: skip
    return pa.schema([(name, kinds.get(name, real)) for name in names])


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
        rows: list[Row] = pq.read_table(path).to_pylist()
    except pa.ArrowInvalid as error:
        raise ValueError(f"{path} is no file of a sweep: {error}") from None
    if rows and rows[0].get("format_version", FORMAT_VERSION + 1) > FORMAT_VERSION:
        raise ValueError(f"{path} is of a newer version of locust_realism")
    return rows


def t_half_width(values: Sequence[float], confidence: float = 0.95) -> float | None:
    """Half the width of the confidence interval of a mean of independent runs, t(n-1) s / sqrt(n); None below two.

    >>> t_half_width([1.0, 2.0, 3.0]), t_half_width([1.0])
    (2.48..., None)
    """
    n = len(values)
    if n < 2:
        return None
    from scipy.stats import t

    return float(t.ppf((1 + confidence) / 2, n - 1)) * float(np.std(values, ddof=1)) / math.sqrt(n)


def cells_of(rows: Iterable[Row]) -> list[Row]:
    """The runs of each place in the grid as one: means over the runs with a 95 % interval between runs.

    Every figure ``x`` has ``x_error``, half the width of the interval from independent runs; with a single run it is
    None, and percentiles have ``x_low`` and ``x_high`` from the order statistics within the run instead, which are too
    narrow where response times depend on each other. ``verdict`` is the worst of the runs', ``verdicts`` counts them.
    """
    places: dict[tuple[str, int, float | None], list[Row]] = {}
    for row in rows:
        places.setdefault((row["variant"], row["users"], row["think_time_s"]), []).append(row)
    return [_cell(runs) for runs in places.values()]


def _cell(runs: list[Row]) -> Row:
    first = runs[0]
    cell: Row = {key: first[key] for key in ("variant", "users", "think_time_s", "figures_of")}
    cell |= {"runs": len(runs), "n": sum(run["n"] for run in runs), "failures": sum(run["failures"] for run in runs)}
    for key in FIGURES:
        values = [run[key] for run in runs if run[key] is not None and math.isfinite(run[key])]
        cell[key] = float(np.mean(values)) if values else None
        cell[f"{key}_error"] = t_half_width(values)
        if len(runs) == 1 and key in INTERVALS:
            cell[f"{key}_low"], cell[f"{key}_high"] = first[f"{key}_low"], first[f"{key}_high"]
    worst = min(runs, key=lambda run: STATUS_ORDER.index(run["verdict"]))
    found = [run["verdict"] for run in runs]
    cell |= {"verdict": worst["verdict"], "verdict_sentence": worst["verdict_sentence"]}
    cell["verdicts"] = {status: found.count(status) for status in STATUS_ORDER if status in found}
    cell["response_bins"] = np.sum([run["response_bins"] for run in runs], axis=0).tolist()
    cell["groups"] = _groups(runs)
    return cell


def _groups(runs: list[Row]) -> list[Row]:
    sizes = sorted(set.intersection(*({group["users"] for group in run["groups"]} for run in runs)))
    found = []
    for size in sizes:
        values = [group["cov"] for run in runs for group in run["groups"] if group["users"] == size and group["cov"]]
        found.append(
            {"users": size, "cov": float(np.mean(values)) if values else None, "cov_error": t_half_width(values)}
        )
    return found


def summary_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """The document of a run's row."""
    document: dict[str, Any] = json.loads(row["summary"])
    return document
