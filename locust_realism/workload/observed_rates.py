"""Arrival rates as they were observed: by time of day and by day of the week, each with its uncertainty.

The rate of a bin is the number of arrivals over the time that the bin was observed. Its interval is that of a Poisson
mean (Garwood 1936, by quantiles of the gamma distribution), which says how well the average of the observed days is
known; how much the days differ beyond chance is the dispersion.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .piecewise import StepRate
from .solve import Floats

DAY_S = 86_400
MINUTES = 1440
BINS_S = (60, 300, 600, 900, 1800, 3600)
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

_Number = TypeVar("_Number", np.int64, np.float64)

_ENOUGH = 400
_MOST_SHIFTS = 200
_LEAST_COVER = 0.5


def poisson_interval(counts: ArrayLike, confidence: float = 0.95) -> tuple[Floats, Floats]:
    """Interval of the mean of a Poisson variable from one count, any shape; its coverage is at least ``confidence``.

    Source: F. Garwood, Fiducial limits for the Poisson distribution, Biometrika 28, 1936.

    >>> low, high = poisson_interval([0, 10])
    >>> low.round(2).tolist(), high.round(2).tolist()
    ([0.0, 4.8], [3.69, 18.39])
    """
    from scipy.special import gammaincinv

    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be in (0, 1), not {confidence!r}")
    n = np.asarray(counts, dtype=np.float64)
    tail = (1 - confidence) / 2
    low = np.where(n > 0, gammaincinv(np.maximum(n, 1.0), tail), 0.0)
    return low, gammaincinv(n + 1, 1 - tail)


def weekday(day: ArrayLike) -> NDArray[np.int64]:
    """Day of the week (0 Monday to 6 Sunday) of days counted from 1970-01-01."""
    return np.asarray((np.asarray(day, dtype=np.int64) + 3) % 7)


class ArrivalCounter:
    """Counts arrivals by local day and minute as they come; of a year it holds 4 MB.

    ``add`` takes times in seconds on the log's own clock, which may jump when summer time begins or ends; ``shift``
    tells of that, so that the length of each minute's observation comes out right.
    """

    def __init__(self) -> None:
        self.days: dict[int, NDArray[np.int64]] = {}
        self._shifts: list[tuple[int, int]] = []

    def add(self, local_s: NDArray[np.int64]) -> None:
        """Count arrivals at these local times (seconds since 1970-01-01 00:00 on the log's clock)."""
        if not len(local_s):
            return
        minutes, counts = np.unique(local_s // 60, return_counts=True)
        day = minutes // MINUTES
        for one in np.unique(day).tolist():
            rows = day == one
            table = self.days.setdefault(one, np.zeros(MINUTES, dtype=np.int64))
            table[minutes[rows] % MINUTES] += counts[rows]

    def shift(self, before: int, after: int) -> None:
        """The clock went from local time ``before`` to ``after``, both in seconds."""
        if len(self._shifts) < _MOST_SHIFTS:
            self._shifts.append((before, after))

    def observed(self, start_s: float, end_s: float, days: Sequence[int]) -> Floats:
        """Seconds that each minute of the given days was observed, between two local times, shape (days, 1440)."""
        edges = np.array(days, dtype=np.float64)[:, None] * DAY_S + 60.0 * np.arange(MINUTES)

        def overlap(low: float, high: float) -> Floats:
            seconds: Floats = np.clip(np.minimum(edges + 60, high) - np.maximum(edges, low), 0.0, None)
            return seconds

        seconds = overlap(start_s, end_s)
        for before, after in self._shifts:
            # Forward: the hour was not there. Back: it was there twice.
            seconds += overlap(after, before) - overlap(before, after)
        return np.maximum(seconds, 0.0)

    def table(self, days: Sequence[int]) -> NDArray[np.int64]:
        """Arrivals by day and minute, shape (days, 1440)."""
        empty = np.zeros(MINUTES, dtype=np.int64)
        return np.array([self.days.get(day, empty) for day in days], dtype=np.int64).reshape(len(days), MINUTES)


@dataclass(frozen=True)
class RateBins:
    """Rates in bins of a day or a week: arrays of shape (bins,), rates per second, NaN where nothing was observed.

    ``start`` is the start of each bin in seconds from midnight (or from midnight before Monday), ``width`` its length.
    """

    start: Floats
    width: float
    counts: NDArray[np.int64]
    observed: Floats
    rate: Floats
    low: Floats
    high: Floats

    @property
    def whole(self) -> bool:
        """Whether every bin was observed."""
        return bool((self.observed > 0).all())

    def profile(self) -> StepRate:
        """The rates as a profile; a bin that was not observed keeps the rate of the one before it.

        It repeats where every bin was observed, and ends with the last observed bin where not. Raises ValueError where
        nothing was observed.
        """
        known = np.flatnonzero(self.observed > 0)
        if not len(known):
            raise ValueError("rates must be observed in at least one bin, not in 0")
        steps = tuple(zip(self.start[known].tolist(), self.rate[known].tolist(), strict=True))
        return StepRate(steps, end=float(self.start[known[-1]] + self.width), repeat=self.whole)


def rates(counts: NDArray[np.int64], observed: Floats, width: float, confidence: float = 0.95) -> RateBins:
    """Rates with their intervals, from the arrivals in each bin and the seconds it was observed, shape (bins,)."""
    low, high = poisson_interval(counts, confidence)
    start = np.arange(len(counts), dtype=np.float64) * width
    known = observed > 0
    rate, lowest, highest = (
        np.divide(values, observed, out=np.full(len(counts), np.nan), where=known)
        for values in (counts.astype(np.float64), low, high)
    )
    return RateBins(start, width, counts, observed, rate, lowest, highest)


def folded(minutes: NDArray[_Number], days: Sequence[int], width_s: int, *, week: bool) -> NDArray[_Number]:
    """Sums over all days of a table (days, 1440) in bins of a day, or with ``week`` of a week from Monday on."""
    per_bin = width_s // 60
    by_bin = minutes.reshape(len(days), MINUTES // per_bin, per_bin).sum(axis=2)
    if not week:
        return np.asarray(by_bin.sum(axis=0))
    sums = np.zeros((7, by_bin.shape[1]), dtype=minutes.dtype)
    np.add.at(sums, weekday(days), by_bin)
    return sums.reshape(-1)


def chosen_width(counts: NDArray[np.int64], observed: Floats) -> int:
    """Seconds of the finest bins of BINS_S in which, at the average rate, a bin has 400 arrivals; an hour at most.

    So that the rate of a bin is known to about 10 %. ``counts`` and ``observed`` have shape (days, 1440).
    """
    minutes_seen = int((observed.sum(axis=0) > 0).sum())
    per_minute = counts.sum() / max(minutes_seen, 1)
    return next((width for width in BINS_S if per_minute * width / 60 >= _ENOUGH), BINS_S[-1])


def days_dispersion(counts: NDArray[np.int64], observed: Floats, width_s: int) -> tuple[float, int]:
    """How much days differ from their average in the same bin: chi-squared over its degrees of freedom, and those.

    1 for Poisson arrivals with the same rate every day, sd sqrt(2 / degrees); bins observed for less than half of
    their length do not count. NaN where there are no two days to compare.
    """
    days = len(counts)
    per_bin = width_s // 60
    n = counts.reshape(days, MINUTES // per_bin, per_bin).sum(axis=2).astype(np.float64)
    seen = observed.reshape(days, MINUTES // per_bin, per_bin).sum(axis=2)
    full = seen >= _LEAST_COVER * width_s
    n, seen = np.where(full, n, 0.0), np.where(full, seen, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = n.sum(axis=0) / seen.sum(axis=0) * seen
        terms = np.where(expected > 0, (n - expected) ** 2 / expected, 0.0)
    degrees = int(np.maximum(((expected > 0) & full).sum(axis=0) - 1, 0).sum())
    return (float(terms.sum()) / degrees if degrees else float("nan")), degrees
