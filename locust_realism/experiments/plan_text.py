"""A plan and its runs in words."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from locust_realism.experiments.plan import Plan


def plan_facts(plan: Plan, rows: Sequence[dict[str, Any]]) -> list[tuple[str, str]]:
    """Pairs of words on how the figures came about, for the head of the page."""
    scenarios = list(dict.fromkeys(variant.scenario.name for variant in plan.variants))
    length = "the article's own" if plan.full else "short"
    lengths = sorted({plan.steady_of(variant) for variant in plan.variants})
    steady = f"{lengths[0]:g}" if len(lengths) == 1 else f"{lengths[0]:g} to {lengths[-1]:g}"
    found = [
        ("Plan", f"{plan.name} ({length})" if plan.has_full or plan.full else plan.name),
        ("Scenario", ", ".join(scenarios)),
        ("Each run", f"{plan.warm_up_s:g} s warm-up, {steady} s analysed"),
        ("Runs", f"{len(rows):,} in random order, {len(plan.seeds) * plan.repetitions} for each cell"),
        ("Requests", f"{sum(row['n'] for row in rows):,}"),
    ]
    named = sorted({row["figures_of"] for row in rows} - {"Aggregated"})
    if named:
        found.append(("Response times of", ", ".join(named)))
    if rows:
        begun = min(row["started"] for row in rows)
        found.append(("First run", time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(begun))))
    return found


def how_sure(plan: Plan) -> str:
    """What the error bars are, and what they are not."""
    runs = len(plan.seeds) * plan.repetitions
    if runs == 1:
        return (
            "Error bars are 95 % intervals from batches within the one run of each cell: they say what chance did to "
            "this run, not how another run would differ. Nothing is claimed beyond them."
        )
    return (
        f"Error bars are 95 % intervals from the {runs} runs of each cell: from the spread between the runs (Student's "
        "t), or from batches within them where that is wider. Nothing is claimed beyond them."
    )
