"""Distribution of sizes of which some are cut short: Kaplan and Meier's curve, its mean and its quantiles.

A cut (censored) size is known to be greater than what was seen. Source: E. L. Kaplan, P. Meier, Nonparametric
estimation from incomplete observations, Journal of the American Statistical Association 53, 1958.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from locust_realism.common.numerics import Floats

_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Survival:
    """Counts of sizes by value, in ascending order.

    - ``values`` shape (n,), any unit
    - ``whole`` number of sizes of each value, shape (n,)
    - ``cut`` number of sizes that are greater than each value by an unknown amount, shape (n,)

    >>> lengths = Survival(np.arange(1.0, 4.0), np.array([2, 1, 1]), np.array([0, 1, 0]))
    >>> lengths.longer.round(3).tolist(), round(lengths.mean, 3)
    ([0.6, 0.4, 0.0], 2.0)
    """

    values: Floats
    whole: NDArray[np.int64]
    cut: NDArray[np.int64]

    @cached_property
    def at_risk(self) -> NDArray[np.int64]:
        """Number of sizes not below each value, shape (n,)."""
        return np.asarray(np.cumsum((self.whole + self.cut)[::-1])[::-1])

    @cached_property
    def longer(self) -> Floats:
        """Share of sizes greater than each value, shape (n,); from the last value on it is unknown if not 0."""
        return np.asarray(np.cumprod(1 - self.whole / np.maximum(self.at_risk, 1)), dtype=np.float64)

    @property
    def unseen(self) -> float:
        """Share of sizes greater than the greatest that was seen; 0 if the curve comes down to 0."""
        return float(self.longer[-1]) if self.at_risk[0] else 1.0

    @property
    def last(self) -> float:
        """Greatest value seen, whole or cut; NaN without any."""
        seen = np.flatnonzero(self.whole + self.cut)
        return float(self.values[seen[-1]]) if len(seen) else math.nan

    @cached_property
    def _areas(self) -> Floats:
        """Area below the curve, right of each value up to the last one, shape (n,)."""
        steps = np.diff(self.values, append=self.values[-1]) * self.longer
        steps[self.values >= self.last] = 0.0
        return np.asarray(np.cumsum(steps[::-1])[::-1])

    @property
    def mean(self) -> float:
        """Mean of the sizes, each at most the last value; NaN without any."""
        return float(self.values[0] + self._areas[0]) if self.at_risk[0] else math.nan

    def quantile(self, q: float) -> float:
        """Return the least value not below a share ``q`` of the sizes; NaN where the curve does not come down to it."""
        reached = np.flatnonzero(self.longer <= 1 - q + _ROUNDING)
        return float(self.values[reached[0]]) if self.at_risk[0] and len(reached) else math.nan
