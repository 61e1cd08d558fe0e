"""The runs of each place in the grid as one cell, and what the cells say together: targets and differences."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from locust_realism.analysis.comparison import difference_row
from locust_realism.analysis.differences import Estimate, pooled
from locust_realism.analysis.targets import crossing, parse_target
from locust_realism.analysis.thresholds import METRICS
from locust_realism.experiments.figures import ESTIMATED, estimate_of, limits
from locust_realism.experiments.plan import users_in_words

Row = dict[str, Any]
Place = tuple[str, int, float | None]

MEANS = ("sdev_ms", "cov", "max_ms", "think_mean_s", "generator_cpu", "server_cpu", "machine_cpu", "lateness_p99_ms")
STATUS_ORDER = ("red", "amber", "not enough data", "green")
INDEPENDENT_RUNS = 3
COMPARED = ("rate", "mean_ms", "p50_ms", "p95_ms")


def place_of(row: Row) -> Place:
    """Where in the grid a run lies, its seed and repetition apart."""
    return row["variant"], row["users"], row["think_time_s"]


def cells_of(rows: Iterable[Row]) -> list[Row]:
    """The runs of each place in the grid as one row, in the order of the places' first run.

    A figure is the mean of the runs'; its 95 % limits come from the spread between the runs, or from batches within
    them where that is wider or there is one run only, which cannot tell how runs differ. ``verdict`` is the worst of
    the runs', ``verdicts`` counts them; ``response_bins`` are those of all requests together.
    """
    places: dict[Place, list[Row]] = {}
    for row in rows:
        places.setdefault(place_of(row), []).append(row)
    return [_cell(runs) for runs in places.values()]


def _cell(runs: list[Row]) -> Row:
    first = runs[0]
    cell: Row = {key: first[key] for key in ("variant", "users", "think_time_s", "figures_of")}
    cell |= {"runs": len(runs), "n": sum(run["n"] for run in runs), "failures": sum(run["failures"] for run in runs)}
    for key in ESTIMATED:
        estimates = [estimate for run in runs if (estimate := estimate_of(run, key)) is not None]
        cell |= limits(key, over_runs(estimates) if estimates else Estimate(math.nan, -math.inf, math.inf, 0))
    for key in MEANS:
        values = [run[key] for run in runs if run[key] is not None]
        cell[key] = float(np.mean(values)) if values else None
    worst = min(runs, key=lambda run: STATUS_ORDER.index(run["verdict"]))
    found = [run["verdict"] for run in runs]
    cell |= {"verdict": worst["verdict"], "verdict_sentence": worst["verdict_sentence"]}
    cell["verdicts"] = {status: found.count(status) for status in STATUS_ORDER if status in found}
    cell["response_bins"] = np.sum([run["response_bins"] for run in runs], axis=0).tolist()
    cell["groups"] = _groups(runs)
    return cell


def over_runs(runs: list[Estimate]) -> Estimate:
    """The figure of several runs: their mean, with limits from the spread between them or, if wider, from within.

    A run that is too short for limits of its own (they are infinite) still counts as one of independent runs: from
    three runs on their spread alone is an interval (Law, Simulation Modeling and Analysis, 2015, section 9.4). No
    limit is below 0, where no time, rate or share can be.

    >>> round(over_runs([Estimate(x, -math.inf, math.inf, 9) for x in (10.0, 11.0, 12.0)]).high, 2)
    13.48
    """
    if len(runs) < INDEPENDENT_RUNS:
        return pooled(runs)
    below = [replace(run, low=run.value) if math.isinf(run.low) else run for run in runs]
    found = pooled([replace(run, high=run.value) if math.isinf(run.high) else run for run in below])
    return replace(found, low=max(found.low, min(0.0, found.value)))


def _groups(runs: list[Row]) -> list[Row]:
    """CoV of the first 1, 2, 3 ... users' launches, sizes that every run has; limits as those of the cell's CoV."""
    found = []
    for size in sorted(set.intersection(*({group["users"] for group in run["groups"]} for run in runs))):
        groups = [group for run in runs for group in run["groups"] if group["users"] == size]
        known = [group for group in groups if group["cov"] is not None]
        if known:
            half = [1.96 / math.sqrt(max(group["n"], 1)) for group in known]
            estimates = [
                Estimate(group["cov"], group["cov"] - error, group["cov"] + error, group["n"])
                for group, error in zip(known, half, strict=True)
            ]
            found.append(
                {"users": size, "n": sum(group["n"] for group in known), **limits("cov", over_runs(estimates))}
            )
    return found


def series_of(cells: Sequence[Row], x: str = "users") -> list[tuple[str, list[Row]]]:
    """The cells as lines of a chart: over ``x`` (``users`` or ``think_time``), one line for all else that differs."""
    axis = "users" if x == "users" else "think_time_s"
    other = "think_time_s" if x == "users" else "users"
    several = len({cell[other] for cell in cells}) > 1
    lines: dict[str, list[Row]] = {}
    for cell in sorted(cells, key=lambda cell: (cell[other] or 0, cell[axis] or 0)):
        words = [cell["variant"]] if cell["variant"] else []
        if several or not words:
            words.append(_in_words(other, cell[other]))
        lines.setdefault(", ".join(word for word in words if word) or "all", []).append(cell)
    return list(lines.items())


def _in_words(key: str, value: float | None) -> str:
    if value is None:
        return ""
    return users_in_words(int(value)) if key == "users" else f"Z {value:g} s" if value >= 1 else f"Z {1e3 * value:g} ms"


def target_rows(cells: Sequence[Row], targets: Sequence[str]) -> list[Row]:
    """For each target and each line over users: the largest number of users at which it holds, with its interval.

    Linear between the measured numbers of users; the interval is where the limits of the figure cross the bound.
    ``status`` is ``measured``, ``met by all`` or ``met by none`` of the numbers of users.
    """
    found = []
    for text in targets:
        target = parse_target(text)
        key = METRICS[target.metric].key.replace("failures", "failed_share")
        for name, line in series_of(cells):
            known = [cell for cell in line if cell[key] is not None]
            if known:
                found.append({"target": text, "line": name, **_largest(known, key, target.bounds[0])})
    return found


def _largest(line: Sequence[Row], key: str, bound: float) -> Row:
    users = np.array([float(cell["users"]) for cell in line])
    best, low, high = (
        crossing(users, np.array([cell[name] if cell[name] is not None else other for cell in line]), bound)
        for name, other in ((key, math.nan), (f"{key}_high", math.inf), (f"{key}_low", -math.inf))
    )
    first = float(users[0])
    status = "met by none" if best < first else "met by all" if math.isinf(best) else "measured"
    held = [cell["users"] for cell in line if cell[key] <= bound]
    return {
        "status": status,
        "users": best if status == "measured" else None,
        "low": low if math.isfinite(low) and low >= first else None,
        "high": high if math.isfinite(high) and high >= first else None,
        "largest_measured": max(held, default=None),
    }


def difference_rows(cells: Sequence[Row]) -> list[Row]:
    """Each variant against the first one at every place that both have, with limits of the differences.

    All intervals of one row hold at 95 % each; ``verdict`` is said of response times (less is faster) and, for
    throughput, ``more``, ``less`` or what this data cannot show.
    """
    variants = list(dict.fromkeys(cell["variant"] for cell in cells))
    at = {place_of(cell): cell for cell in cells}
    found = []
    for name in variants[1:]:
        for (variant, users, think), cell in at.items():
            base = at.get((variants[0], users, think))
            if variant != name or base is None:
                continue
            for key in COMPARED:
                a, b = estimate_of(base, key), estimate_of(cell, key)
                if a is not None and b is not None:
                    row = difference_row(a, b)
                    if key == "rate":
                        row["verdict"] = {"slower": "more", "faster": "less"}.get(row["verdict"], row["verdict"])
                    found.append({"users": users, "think_time_s": think, "variant": name, "figure": key, **row})
    return found
