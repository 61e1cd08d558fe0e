"""Counts of times in bins whose width grows with the time: small, exact to add up, quantiles good to 2 %."""

from __future__ import annotations

import math
from typing import Any

RATIO = 1.02
"""Each bin ends this much above where it begins: a quantile is at most 2 % off."""
LEAST_S = 1e-5
"""All times below this share one bin."""


class Histogram:
    """Times in seconds: how many, sum, sum of squares, least and most exactly, and counts by bin.

    >>> times = Histogram()
    >>> for time in (1.0, 2.0, 3.0, 10.0):
    ...     times.add(time)
    >>> times.n, times.mean, round(times.sdev, 3), round(times.quantile(0.5), 1)
    (4, 4.0, 4.082, 2.0)
    """

    __slots__ = ("counts", "least", "most", "n", "squares", "total")

    def __init__(self) -> None:
        self.n = 0
        self.total = self.squares = 0.0
        self.least, self.most = math.inf, -math.inf
        self.counts: dict[int, int] = {}

    def add(self, time: float) -> None:
        """Count one time."""
        number = 0 if time < LEAST_S else 1 + int(math.log(time / LEAST_S) / math.log(RATIO))
        self.counts[number] = self.counts.get(number, 0) + 1
        self.n += 1
        self.total += time
        self.squares += time * time
        self.least, self.most = min(self.least, time), max(self.most, time)

    def report(self) -> dict[str, Any]:
        """Plain data for :meth:`merge` in another process."""
        return {
            "n": self.n,
            "sums": [self.total, self.squares],
            "range": [self.least, self.most] if self.n else None,
            "counts": list(self.counts.items()),
        }

    def merge(self, report: dict[str, Any]) -> None:
        """Add what another process has counted."""
        self.n += report["n"]
        self.total += report["sums"][0]
        self.squares += report["sums"][1]
        if report["range"] is not None:
            self.least, self.most = min(self.least, report["range"][0]), max(self.most, report["range"][1])
        for number, count in report["counts"]:
            self.counts[number] = self.counts.get(number, 0) + count

    @property
    def mean(self) -> float:
        """Average in seconds, NaN without times."""
        return self.total / self.n if self.n else math.nan

    @property
    def sdev(self) -> float:
        """Standard deviation in seconds (n - 1), NaN below two times."""
        if self.n < 2:
            return math.nan
        return math.sqrt(max(0.0, (self.squares - self.total**2 / self.n) / (self.n - 1)))

    @property
    def cov(self) -> float:
        """Standard deviation over mean, NaN where it is not known."""
        return self.sdev / self.mean if self.n > 1 and self.total > 0 else math.nan

    def quantile(self, q: float) -> float:
        """The time that a share ``q`` does not exceed (nearest rank), at its bin's upper edge; NaN without times."""
        rank, reached = max(1, math.ceil(q * self.n)), 0
        for number in sorted(self.counts):
            reached += self.counts[number]
            if reached >= rank:
                return min(self.most, LEAST_S * RATIO**number)
        return math.nan

    def above(self, time: float) -> int:
        """How many times lie in bins that begin at or above ``time``."""
        return sum(count for number, count in self.counts.items() if LEAST_S * RATIO ** (number - 1) >= time)

    def bars(self, most: int = 40) -> tuple[list[float], list[float]]:
        """Edges and counts of at most ``most`` equal bars up to the 99 % quantile; a bin's times are spread evenly."""
        if self.n < 2 or self.quantile(0.99) <= 0:
            return [], []
        width = self.quantile(0.99) / most
        counts = [0.0] * most
        for number, count in self.counts.items():
            low, high = (0.0 if number == 0 else LEAST_S * RATIO ** (number - 1)), LEAST_S * RATIO**number
            for bar in range(int(low / width), min(most, int(high / width) + 1)):
                inside = min(high, (bar + 1) * width) - max(low, bar * width)
                counts[bar] += count * max(0.0, inside) / (high - low)
        return [width * i for i in range(most + 1)], counts
