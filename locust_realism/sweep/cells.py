"""Cells: the runs of each place in the grid together, with targets and differences over the cells."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any

import numpy as np

from locust_realism.analysis.capacity.slo import crossing, parse_target
from locust_realism.analysis.compare.difference import compared, counted
from locust_realism.analysis.stats.estimates import Estimate
from locust_realism.analysis.stats.repeated import pooled
from locust_realism.analysis.thresholds import METRICS
from locust_realism.common.durations import write_duration
from locust_realism.sweep.design import Row, users_in_words
from locust_realism.sweep.results import ESTIMATED, UNKNOWN, estimate_of, limits

MEANS = ("sdev_ms", "cov", "max_ms", "think_mean_s", "generator_cpu", "server_cpu", "machine_cpu", "lateness_p99_ms")
STATUS_ORDER = ("red", "amber", "not enough data", "green")
COMPARED = ("rate", "mean_ms", "p50_ms", "p95_ms")


place_of = itemgetter("variant", "users", "think_time_s")
"""Place of a run in the grid, without seed and repetition."""


def cells_of(rows: Iterable[Row]) -> list[Row]:
    """Return the runs of each place in the grid as one row, in the order of the places' first runs.

    A figure is the mean over the runs. Its 95 % limits come from the spread between the runs, or from batches within
    them if those are wider or there is one run only; runs that are too short carry none together. ``verdict`` is the
    worst verdict of the runs, ``verdicts`` counts them; ``response_bins`` are those of all requests together.
    """
    return [_cell(runs) for runs in _places(rows).values()]


def _places(rows: Iterable[Row]) -> dict[tuple[Any, ...], list[Row]]:
    places: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        places.setdefault(place_of(row), []).append(row)
    return places


def _estimates(runs: Iterable[Row], key: str) -> list[Estimate]:
    return [estimate for run in runs if (estimate := estimate_of(run, key)) is not None]


def _cell(runs: list[Row]) -> Row:
    first = runs[0]
    cell: Row = {key: first[key] for key in ("variant", "users", "think_time_s", "figures_of")}
    cell |= {"runs": len(runs), "n": sum(run["n"] for run in runs), "failures": sum(run["failures"] for run in runs)}
    for key in ESTIMATED:
        estimates = _estimates(runs, key)
        cell |= limits(key, over_runs(estimates) if estimates else UNKNOWN)
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
    """Return the mean of several runs, with limits from the spread between them or, if wider, from within.

    No limit is below 0, as no time, rate or share is.

    >>> round(over_runs([Estimate(x, -math.inf, math.inf, 9) for x in (10.0, 11.0, 12.0)]).high, 2)
    13.48
    """
    found = pooled(runs)
    return found if math.isinf(found.low) else replace(found, low=max(found.low, min(0.0, found.value)))


def _groups(runs: list[Row]) -> list[Row]:
    """Return the CoV of the first 1, 2, 3 ... users' launches, with limits, for the sizes that every run has."""
    found = []
    for size in sorted(set.intersection(*({group["users"] for group in run["groups"]} for run in runs))):
        estimates = []
        for group in (group for run in runs for group in run["groups"]):
            if group["users"] == size and (cov := group["cov"]) is not None:
                half = 1.96 / math.sqrt(max(group["n"], 1))
                estimates.append(Estimate(cov, cov - half, cov + half, group["n"]))
        if estimates:
            n = sum(estimate.n for estimate in estimates)
            found.append({"users": size, "n": n, **limits("cov", over_runs(estimates))})
    return found


def series_of(cells: Sequence[Row], x: str = "users") -> list[tuple[str, list[Row]]]:
    """Return the cells as lines of a chart over ``x`` (``users`` or ``think_time``), one for each other difference."""
    axis, other = ("users", "think_time_s") if x == "users" else ("think_time_s", "users")
    several = len({cell[other] for cell in cells}) > 1
    lines: dict[str, list[Row]] = {}
    for cell in sorted(cells, key=lambda cell: (cell[other] or 0, cell[axis] or 0)):
        think = "" if cell["think_time_s"] is None else f"Z {write_duration(cell['think_time_s'])}"
        place = users_in_words(cell["users"]) if other == "users" else think
        words = (cell["variant"], place if several or not cell["variant"] else "")
        lines.setdefault(", ".join(filter(None, words)) or "all", []).append(cell)
    return list(lines.items())


def target_rows(cells: Sequence[Row], targets: Sequence[str]) -> list[Row]:
    """Return, for each target and each line over users, the largest number of users at which it holds.

    The figure is linear between the measured numbers of users, and the interval ends where its limits cross the bound.
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


def difference_rows(rows: Iterable[Row]) -> list[Row]:
    """Return the differences of each variant from the first at every place that both ran, with 95 % limits each.

    ``rows`` are runs, those of the first variant first; repeated ones of a place share the spread between them.
    ``verdict`` is ``faster`` or ``slower`` for response times, ``more`` or ``less`` for throughput, that the data shows
    no difference, or ``too short a run``.
    """
    places = _places(rows)
    first, *_ = next(iter(places), ("",))
    found = []
    for variant, users, think in places:
        before = places.get((first, users, think), []) if variant != first else []
        for key in COMPARED:
            a, b = (_estimates(runs, key) for runs in (before, places[variant, users, think]))
            if a and b:
                row = compared(a, b)
                names = {"users": users, "think_time_s": think, "variant": variant}
                found.append({**names, "figure": key, **(counted(row) if key == "rate" else row)})
    return found
