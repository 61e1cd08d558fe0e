"""Result of a run as one row, and the rows of a sweep as one Parquet file.

The row of a run is a part file of its own, complete or absent however the process ends. The file of a sweep joins the
parts. Its column ``summary`` is the run's whole document (docs/json.md). Limits honour that response times of
neighbours are alike.

Windows of samples compare with JMeter's dashboard, which takes its percentiles from the last
``jmeter.reportgenerator.statistic_window`` samples (20,000 by default), and with Locust, which rounds response times
before it counts them. After M. Karunaratne and others, How to achieve better accuracy in latency percentiles in JMeter
dashboard, DZone.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from locust_realism.analysis.capacity.slo import QUANTILE_OF
from locust_realism.analysis.charts import as_locust_shows
from locust_realism.analysis.compare.groups import percentile_estimate
from locust_realism.analysis.document import Summary
from locust_realism.analysis.percentiles import QUANTILES, Floats, four_percentiles, percentiles
from locust_realism.analysis.settings import AnalysisSettings, VerdictBounds
from locust_realism.analysis.stats import estimates
from locust_realism.analysis.stats.estimates import Estimate
from locust_realism.analysis.stats.intervals import AGGREGATED, in_launch_order, user_ranks
from locust_realism.analysis.stats.responses import known_responses, response_table
from locust_realism.analysis.stats.steady_state import JMETER_WINDOW, sample_window
from locust_realism.analysis.verdict.users import Tasks, user_tasks
from locust_realism.common.json import to_json_safe
from locust_realism.recording.launches import LaunchLog
from locust_realism.sweep.design import Cell, Plan, Row
from locust_realism.sweep.process import Outcome

UNKNOWN = Estimate(math.nan, -math.inf, math.inf, 0)
"""Estimate of a figure that the data does not hold."""

ESTIMATED = ("rate", "mean_ms", *QUANTILE_OF, "failed_share", "launch_cov", "response_share")
"""Figures of a run, each with the columns of :data:`ENDS`; None where the data sets none."""
ENDS = ("low", "high", "error", "freedom")
"""Ends of the names of the columns of 95 % limits, and of the standard error behind them and its degrees of freedom."""
SHARES = ("failed_share", "response_share")
"""Figures that are at most 1."""

WHOLE = 0.8
"""Least share of a run's launches in the judged part for the judged part to stand for the run."""

BIN_EDGES_MS: Floats = 10.0 ** (np.arange(-120, 241) / 40)
"""Edges of ``response_bins`` in milliseconds: 40 equal steps per decade from a microsecond to a thousand seconds."""


def chosen_launches(log: LaunchLog, name: str) -> LaunchLog:
    """Return the launches of one name (``GET file`` or ``file``), all for ""; ValueError if there are none."""
    if not name:
        return log
    codes = [i for i, label in enumerate(log.labels) if name in (label.name, f"{label.method} {label.name}")]
    rows = np.isin(log.label, codes)
    if not rows.any():
        names = ", ".join(sorted({f"{label.method} {label.name}".strip() for label in log.labels}))
        raise ValueError(f"figures_of is {name!r}, expected one of {names}")
    return log.take(rows)


def response_figures(log: LaunchLog) -> Row:
    """Return the response times in milliseconds of launches in order: moments, exact percentiles, limits, bins.

    The first and the last bin hold the times outside of the bins too.
    """
    table: Mapping[str, object] = response_table(log, AnalysisSettings(max_names=1))[-1]
    times = known_responses(log.response_us) / 1e3
    ordered = np.sort(times)
    found: Row = {key: table[key] for key in ("n", "failures", "mean_ms", "sdev_ms", "cov", *QUANTILE_OF, "max_ms")}
    found |= estimated("mean_ms", estimates.mean_estimate(times))
    found |= estimated("failed_share", estimates.share_estimate(log.failed))
    for key, quantile in QUANTILE_OF.items():
        found |= estimated(key, percentile_estimate(times, quantile, ordered))
    inside = np.clip(times, BIN_EDGES_MS[0], BIN_EDGES_MS[-1] * (1 - 1e-9))
    return found | {"response_bins": np.histogram(inside, BIN_EDGES_MS)[0].tolist()}


def load_figures(log: LaunchLog, summary: Summary) -> Row:
    """Return throughput, CoV of the launches and R / (R + Z) of all launches of a run, in launch order.

    The limits of CoV are those of independent gaps, standard deviation 1 / sqrt(n). Those of R / (R + Z) come from the
    tasks of users, as the verdict takes it. Both hold for the time in which all users run. If that is a
    part of the run (users start slowly), CoV has the limits of that part and the ratio none. With fewer gaps than a
    verdict needs, both are None.
    """
    pattern, judged = summary["pattern"], summary["window"].get("judged", len(log))
    enough = judged > VerdictBounds().min_gaps
    found = estimated("rate", estimates.rate_estimate(log.launch_us))
    cov = pattern["cov"] if enough else None
    half = 1.96 / math.sqrt(max(judged - 1, 1))
    found |= estimated("launch_cov", UNKNOWN if cov is None else Estimate(cov, cov - half, cov + half, judged))
    share = pattern["response_share"] if enough else None
    if not share or judged < WHOLE * len(log):
        return found | estimated("response_share", UNKNOWN) | {"response_share": share}
    return found | estimated("response_share", share_of_waiting(share, user_tasks(log, user_ranks(log)[0])))


def share_of_waiting(share: float, tasks: Tasks) -> Estimate:
    """Return a share of their time that users wait, with the limits of the waits of their tasks per time.

    The share is sum of R / (U T): what varies is a task's R less the mean R of the time until the next task of any
    user (ratio estimator; W. G. Cochran, Sampling Techniques, 1977, chapter 6).
    """
    order = np.argsort(tasks.start, kind="stable")
    wait, gap = tasks.response[order][:-1], np.diff(tasks.start[order])
    wait, gap = wait[np.isfinite(wait)], gap[np.isfinite(wait)]
    if not gap.sum() > 0 or not wait.sum() > 0:
        return Estimate(share, -math.inf, math.inf, len(wait))
    off = estimates.mean_estimate(wait - gap * (wait.sum() / gap.sum()))
    low, high = (share * (1 + limit / float(wait.mean())) for limit in (off.low, off.high))
    if math.isfinite(off.low):
        low, high = max(low, 0.0), min(high, 1.0)
    return Estimate(share, low, high, len(wait), off.error * share / float(wait.mean()), off.freedom, 1.0)


def limits(key: str, estimate: Estimate) -> Row:
    """Return a figure and its limits under their names, None for each that is not finite.

    >>> limits("rate", Estimate(5.0, 4.0, math.inf, 100))
    {'rate': 5.0, 'rate_low': 4.0, 'rate_high': None}
    """
    found = {key: estimate.value, f"{key}_low": estimate.low, f"{key}_high": estimate.high}
    return {name: finite(value) for name, value in found.items()}


def finite(value: float) -> float | None:
    """Return a number that is finite, None for any other."""
    return float(value) if math.isfinite(value) else None


def estimated(key: str, estimate: Estimate) -> Row:
    """Return :func:`limits` with the standard error and its degrees of freedom, from which several runs get limits."""
    return limits(key, estimate) | {f"{key}_error": finite(estimate.error), f"{key}_freedom": finite(estimate.freedom)}


def estimate_of(row: Row, key: str) -> Estimate | None:
    """Return the estimate of a run's row of :func:`estimated`, None if the row lacks the figure.

    >>> estimate_of(estimated("mean_ms", Estimate(5.0, 4.0, math.inf, 0, 0.5, 2.0)), "mean_ms").freedom
    2.0
    """
    value = row.get(key)
    if value is None:
        return None
    unknown = {"low": -math.inf, "high": math.inf, "error": math.nan, "freedom": math.inf}
    found = {name: other if (part := row.get(f"{key}_{name}")) is None else part for name, other in unknown.items()}
    return Estimate(value, n=row.get("n") or 0, most=1.0 if key in SHARES else math.inf, **found)


PARTS = 20
FEWEST = 40
"""Least requests of a part."""


def part_rows(log: LaunchLog) -> list[Row]:
    """Return a row for each of at most 20 consecutive parts of a log in launch order, with equal numbers of requests.

    ``start_s`` is relative to the first launch. Throughput per second and percentiles in milliseconds have 95 % limits
    from batches within the part, None where so few requests set none.

    >>> log = LaunchLog.build(np.arange(1000) * 10_000, [1000] * 500 + [2000] * 500)
    >>> [(row["n"], row["start_s"], row["p50_ms"]) for row in part_rows(log)][::19]
    [(50, 0.0, 1.0), (50, 9.5, 2.0)]
    """
    count = min(PARTS, len(log) // FEWEST)
    if count < 2:
        return []
    edges = np.linspace(0, len(log), count + 1).astype(int).tolist()
    since_s = (log.launch_us - log.launch_us[0]) / 1e6
    found = []
    for start, stop in pairwise(edges):
        part = log.take(slice(start, stop))
        times = known_responses(part.response_us) / 1e3
        begin, end = since_s[[start, min(stop, len(log) - 1)]].tolist()
        row: Row = {"start_s": begin, "duration_s": end - begin, "n": len(part)}
        row |= limits("rate", estimates.rate_estimate(part.launch_us))
        for key in ("p50_ms", "p90_ms", "p95_ms"):
            row |= limits(key, estimates.quantile_estimate(times, QUANTILE_OF[key]))
        found.append(row)
    return found


PIECES = 3


def window_rows(log: LaunchLog, windows: Sequence[int]) -> list[Row]:
    """Return a row for all samples, one as Locust shows them, one for each window of the last samples, and pieces.

    ``kind`` is ``exact``, ``locust``, ``window`` or ``piece``; means and percentiles are in milliseconds. A piece is
    20,000 consecutive samples in order of completion (or the size of the smallest window) from the start, the middle
    and the end: the figures of a run of that length. Samples without a response time count in ``samples`` only.

    >>> log = LaunchLog.build(range(1000), [1000] * 900 + [9000] * 100)
    >>> [(row["kind"], row["samples"], row["p95_ms"]) for row in window_rows(log, [100])]
    [('exact', 1000, 9.0), ('locust', 1000, 9.0), ('window', 100, 9.0), ('piece', 100, 1.0), ('piece', 100, 1.0), \
('piece', 100, 9.0)]
    """
    known = np.sort(known_responses(log.response_us))
    if not len(known):
        return []
    exact: Row = {"kind": "exact", "samples": len(log), "from_row": 0, **_figures(log)}
    found = [exact, exact | {"kind": "locust"} | as_locust_shows(known)]
    for size in sorted(windows):
        if (row := sample_window(log, size)) is not None:
            found.append({"kind": "window", "from_row": len(log) - size, **row})
    size = JMETER_WINDOW if len(log) >= PIECES * JMETER_WINDOW else min(windows)
    pieces = len(log) // size
    if pieces >= 2:
        by_end = log.take(np.argsort(log.launch_us + log.response_us, kind="stable"))
        for start in size * np.unique(np.linspace(0, pieces - 1, PIECES).astype(int)):
            part = by_end.take(slice(start, start + size))
            found.append({"kind": "piece", "samples": size, "from_row": int(start), **_figures(part)})
    return found


def _figures(log: LaunchLog) -> Row:
    known = known_responses(log.response_us)
    mean = float(known.mean()) / 1e3 if len(known) else math.nan
    return {"mean_ms": mean, **four_percentiles(percentiles(known, QUANTILES))}


FORMAT_VERSION = 1

COLUMNS: dict[str, type] = {
    "format_version": int, "plan": str, "full": bool, "key": str, "order": int, "variant": str, "users": int,
    "think_time_s": float, "seed": int, "repetition": int, "run_seed": int, "scenario": str, "processes": int,
    "warm_up_s": float, "steady_s": float, "started": float, "figures_of": str, "n": int, "failures": int,
    **{name: float for key in ESTIMATED for name in (key, *(f"{key}_{part}" for part in ENDS))},
    "sdev_ms": float, "cov": float, "max_ms": float, "launch_cov_raw": float, "think_mean_s": float,
    "round_trip_s": float, "lateness_p99_ms": float, "generator_cpu": float, "server_cpu": float, "machine_cpu": float,
    "verdict": str, "verdict_generator": str, "verdict_feedback": str, "verdict_sentence": str, "groups": list,
    "response_bins": list, "summary": str,
}  # fmt: skip
"""Columns of the file in order."""


def row_of(plan: Plan, cell: Cell, outcome: Outcome, order: int) -> Row:
    """Return the row of a run; ``order`` is its place in the sweep, from 0."""
    summary, log = outcome.summary, in_launch_order(outcome.log)
    chosen = chosen_launches(log, plan.report.figures_of)
    pattern, verdict = summary["pattern"], summary["verdict"]
    document: Row = {**summary}
    if plan.report.windows:
        document["windows"] = window_rows(chosen, plan.report.windows)
    if plan.report.rate:
        document["parts"] = part_rows(chosen)
    return {
        "format_version": FORMAT_VERSION, "plan": plan.name, "full": plan.full, "key": cell.key, "order": order,
        "variant": cell.variant.name, "users": cell.users, "think_time_s": cell.think_time_s,
        "seed": cell.seed, "repetition": cell.repetition, "run_seed": cell.run_seed,
        "scenario": cell.variant.scenario.name, "processes": cell.variant.processes,
        "warm_up_s": plan.warm_up_s, "steady_s": cell.variant.steady_s, "started": outcome.started,
        "figures_of": plan.report.figures_of or AGGREGATED,
        **response_figures(chosen), **load_figures(log, summary),
        "launch_cov_raw": pattern["raw_cov"], "think_mean_s": pattern["think_mean_s"],
        "round_trip_s": pattern["round_trip_s"], "lateness_p99_ms": pattern["lateness_p99_ms"],
        **{f"{side}_cpu": share for side, share in outcome.cpu.items()},
        "verdict": verdict["overall"], "verdict_sentence": verdict["sentence"],
        "verdict_generator": verdict["generator"], "verdict_feedback": verdict["feedback"],
        "groups": [{"users": row["users"], "n": row["n"], "cov": row["cov"]} for row in summary["groups"]],
        "summary": json.dumps(to_json_safe(document), allow_nan=False, separators=(",", ":")),
    }  # fmt: skip


def write_rows(rows: Sequence[Row], path: Path) -> None:
    """Write rows as one Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {int: pa.int64(), str: pa.string(), bool: pa.bool_(), float: pa.float64(), list: pa.list_(pa.int64())}
    groups = pa.list_(pa.struct([("users", pa.int64()), ("n", pa.int64()), ("cov", pa.float64())]))
    schema = pa.schema([(name, groups if name == "groups" else kinds[kind]) for name, kind in COLUMNS.items()])
    table = pa.Table.from_pylist(list(rows), schema)
    write_durably(path, lambda partial: pq.write_table(table, partial, compression="zstd"))


def write_durably(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file that is complete or absent, also after a power cut; ``write`` writes it to another path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    write(partial)
    with partial.open("rb") as stream:
        os.fsync(stream.fileno())
    partial.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def read_rows(path: Path) -> list[Row]:
    """Return the rows of a file of :func:`write_rows`; ValueError for any other file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        rows: list[Row] = pq.read_table(path, partitioning=None).to_pylist()
    except pa.ArrowInvalid as error:
        raise ValueError(f"{path} is no file of a sweep: {error}") from None
    if rows and rows[0].get("format_version", FORMAT_VERSION + 1) > FORMAT_VERSION:
        raise ValueError(f"{path} is of a newer version of locust_realism")
    return rows


def summary_of(row: Row) -> Row:
    """Return the document of a run's row."""
    return dict(json.loads(row["summary"]))
