"""Difference of one figure between two sides of runs: its limits and its verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence

from locust_realism.analysis.document import DifferenceRow
from locust_realism.analysis.stats.estimates import Estimate
from locust_realism.analysis.stats.repeated import pooled_sides
from locust_realism.common.json import to_json_safe

FASTER, SLOWER, SAME, UNSHOWN, TOO_SHORT = (
    "faster", "slower", "the same within the tolerance", "no difference that this data can show", "too short a run",
)  # fmt: skip
MORE, LESS = "more", "less"


def compared(
    base: Sequence[Estimate], other: Sequence[Estimate], confidence: float = 0.95, tolerance: float = 0.0
) -> DifferenceRow:
    """Return the difference of a figure between the repeated runs of two sides."""
    a, b = pooled_sides((base, other), confidence)
    return difference_row(a, b, tolerance)


def difference_row(a: Estimate, b: Estimate, tolerance: float = 0.0) -> DifferenceRow:
    """Return the difference b - a with its limits and its verdict: a larger time is slower.

    A difference that neither shows nor has both limits is that of runs that are too short.

    >>> difference_row(Estimate(100, 98, 102, 500), Estimate(120, 117, 123, 500))["verdict"]
    'slower'
    """
    change = b - a
    bound = tolerance * abs(a.value)
    if change.low > bound:
        verdict = SLOWER
    elif change.high < -bound:
        verdict = FASTER
    elif tolerance > 0 and -bound <= change.low and change.high <= bound:
        verdict = SAME
    else:
        verdict = UNSHOWN if math.isfinite(change.low) and math.isfinite(change.high) else TOO_SHORT
    row: DifferenceRow = to_json_safe({
        "a": a.value, "b": b.value, "difference": change.value, "low": change.low, "high": change.high,
        "ratio": b.value / a.value if a.value else None,
        "n_a": a.n, "n_b": b.n, "verdict": verdict,
    })  # fmt: skip
    return row


def counted(row: DifferenceRow) -> DifferenceRow:
    """Return the row of a count or a share: more instead of slower, less instead of faster."""
    return {**row, "verdict": {FASTER: LESS, SLOWER: MORE}.get(row["verdict"], row["verdict"])}


def smallest_shown(row: DifferenceRow) -> float | None:
    """Return the smallest difference that would show, as a share of the baseline; None without limits.

    >>> smallest_shown(difference_row(Estimate(100, 97, 103, 500), Estimate(101, 97, 105, 500)))
    0.05
    """
    if row["low"] is None or row["high"] is None or row["difference"] is None or not row["a"]:
        return None
    return max(row["high"] - row["difference"], row["difference"] - row["low"]) / abs(row["a"])
