"""Observed arrival rates by time of day and by day of the week, each with its uncertainty.

The rate of a bin is the number of arrivals over the observed time. Its interval is that of a Poisson mean (Garwood
1936, by quantiles of the gamma distribution): the uncertainty of the average of the observed days. The dispersion
compares the differences between days with chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from locust_realism.common.numerics import Floats
from locust_realism.common.validation import share

DAY_S = 86_400
MINUTES = 1440
BINS_S = (60, 300, 600, 900, 1800, 3600)
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

_Number = TypeVar("_Number", np.int64, np.float64)

_ENOUGH = 400
_MOST_SHIFTS = 200
_LEAST_COVER = 0.5


def poisson_interval(counts: ArrayLike, confidence: float = 0.95) -> tuple[Floats, Floats]:
    """Return the interval of a Poisson mean from one count, any shape; its coverage is at least ``confidence``.

    Source: F. Garwood, Fiducial limits for the Poisson distribution, Biometrika 28, 1936.

    >>> low, high = poisson_interval([0, 10])
    >>> low.round(2).tolist(), high.round(2).tolist()
    ([0.0, 4.8], [3.69, 18.39])
    """
    from scipy.special import gammaincinv

    share("confidence", confidence)
    n = np.asarray(counts, dtype=np.float64)
    tail = (1 - confidence) / 2
    low = np.where(n > 0, gammaincinv(np.maximum(n, 1.0), tail), 0.0)
    return low, gammaincinv(n + 1, 1 - tail)


def weekday(day: ArrayLike) -> NDArray[np.int64]:
    """Return the day of the week (0 Monday to 6 Sunday) of days counted from 1970-01-01."""
    return np.asarray((np.asarray(day, dtype=np.int64) + 3) % 7)


class ArrivalCounter:
    """Counter of arrivals by local day and minute; a year takes 4 MB.

    ``add`` takes times in seconds on the log's own clock, which jumps when summer time begins or ends; ``shift`` notes
    the jump, for the observed length of each minute.
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
        """Note a jump of the clock from local time ``before`` to ``after``, both in seconds."""
        if len(self._shifts) < _MOST_SHIFTS:
            self._shifts.append((before, after))

    def observed(self, start_s: float, end_s: float, days: Sequence[int]) -> Floats:
        """Return the observed seconds of each minute of the days, between two local times, shape (days, 1440)."""
        edges = np.array(days, dtype=np.float64)[:, None] * DAY_S + 60.0 * np.arange(MINUTES)
        seconds = np.zeros(edges.shape)
        # A jump forward: the hour is missing. Back: it occurs twice.
        jumps = [(1, after, before) if after < before else (-1, before, after) for before, after in self._shifts]
        for sign, low, high in [(1, start_s, end_s), *jumps]:
            seconds += sign * np.maximum(np.minimum(edges + 60, high) - np.maximum(edges, low), 0.0)
        return np.maximum(seconds, 0.0)

    def table(self, days: Sequence[int]) -> NDArray[np.int64]:
        """Return the arrivals by day and minute, shape (days, 1440)."""
        empty = np.zeros(MINUTES, dtype=np.int64)
        return np.array([self.days.get(day, empty) for day in days], dtype=np.int64).reshape(len(days), MINUTES)


@dataclass(frozen=True)
class RateBins:
    """Rates in bins of a day or a week: arrays of shape (bins,), rates per second, NaN where nothing was observed.

    ``start`` is the start of each bin in seconds from midnight (or from midnight before Monday).
    """

    start: Floats
    counts: NDArray[np.int64]
    observed: Floats
    rate: Floats
    low: Floats
    high: Floats


def rates(counts: NDArray[np.int64], observed: Floats, width: float, confidence: float = 0.95) -> RateBins:
    """Return rates with their intervals, from each bin's arrivals and observed seconds, shape (bins,)."""
    low, high = poisson_interval(counts, confidence)
    seconds = np.where(observed > 0, observed, np.nan)
    start = np.arange(len(counts), dtype=np.float64) * width
    return RateBins(start, counts, observed, counts / seconds, low / seconds, high / seconds)


def folded(minutes: NDArray[_Number], days: Sequence[int], width_s: int, *, week: bool) -> NDArray[_Number]:
    """Return sums over all days of a table (days, 1440) in bins of a day, or with ``week`` of a week from Monday."""
    by_bin = minutes.reshape(len(days), -1, width_s // 60).sum(axis=2)
    if not week:
        return np.asarray(by_bin.sum(axis=0))
    sums = np.zeros((7, by_bin.shape[1]), dtype=minutes.dtype)
    np.add.at(sums, weekday(days), by_bin)
    return sums.reshape(-1)


def chosen_width(counts: NDArray[np.int64], observed: Floats) -> int:
    """Return the finest width of BINS_S with 400 arrivals a bin at the average rate, in seconds; an hour at most.

    The rate of a bin then has an error of about 10 %. ``counts`` and ``observed`` have shape (days, 1440).
    """
    per_minute = counts.sum() / max(np.count_nonzero(observed.sum(axis=0)), 1)
    return next((width for width in BINS_S if per_minute * width / 60 >= _ENOUGH), BINS_S[-1])


def days_dispersion(counts: NDArray[np.int64], observed: Floats, width_s: int) -> tuple[float, int]:
    """Return chi-squared of the days about their average over its degrees of freedom, and those degrees.

    It is 1 for Poisson arrivals with the same rate every day, sd sqrt(2 / degrees). Bins observed for less than half of
    their length do not count. NaN if there are no two days to compare.
    """
    n, seen = (table.reshape(len(counts), -1, width_s // 60).sum(axis=2) for table in (counts, observed))
    full = seen >= _LEAST_COVER * width_s
    n, seen = np.where(full, n, 0.0), np.where(full, seen, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = n.sum(axis=0) / seen.sum(axis=0) * seen
        terms = np.where(expected > 0, (n - expected) ** 2 / expected, 0.0)
    degrees = int(np.maximum(((expected > 0) & full).sum(axis=0) - 1, 0).sum())
    return (float(terms.sum()) / degrees if degrees else float("nan")), degrees


def days_differ(dispersion: float, degrees: int) -> bool:
    """Return True if the dispersion between days is above 1.2 and beyond three standard deviations of chance."""
    return degrees > 0 and dispersion > max(1.2, 1 + 3 * (2 / degrees) ** 0.5)
