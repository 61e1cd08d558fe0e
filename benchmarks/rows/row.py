"""A line of the table of coverage: a statement about the system under test, and data on which it must hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


class Outcome(NamedTuple):
    """Result of one simulated run."""

    error: float | None = None
    """(Estimate - truth) / truth; None where the run gives no value."""
    held: bool | None = None
    """True if the interval contains the truth; None where the run gives no interval, or the row has none."""
    found: bool | None = None
    """True if a test or a comparison found something; None without a test."""


@dataclass(frozen=True)
class Row:
    """Statement on simulated data; ``run`` draws one run from a generator of its own."""

    statement: str
    data: str
    run: Callable[[np.random.Generator], Outcome]
    runs: int = 400
    goal: str = ""
    """What must hold: "bias within 2 %", "holds >= .93", "given >= .9", "found <= 5 %"; several with commas between."""
