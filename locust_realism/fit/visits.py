"""Sessions in a stream of requests (one visitor's requests without a pause longer than a gap), and their times.

A stream of any length takes little memory: a session under way is five numbers, ended sessions are counts. Sessions at
the start of the log may have begun before it, so they are counted apart.

Times have the log's resolution: in whole seconds, a think time of 0.7 s is seen as 0 or 1. Let two clock readings be
truncated to multiples of q, independently of the think time X. Their difference D q has

    P(D < d) = P(X + U < d q) = 1/q integral of F(x) dx from (d - 1) q to d q       (U uniform between 0 and q)

so the likelihood of the counts is exact, and a log of any length is a few hundred counts. Source: D. F. Heitjan,
Inference from grouped continuous data, Statistical Science 4, 1989.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from locust_realism.analysis.stats.survival import Survival
from locust_realism.common.numerics import Floats
from locust_realism.common.validation import positive
from locust_realism.recording.launches import Columns, Int64

_EXACT_BINS = 128
_GROWTH = 1.01
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_FAR = 64


@cache
def bin_edges(resolution: float, longest: float) -> Int64:
    """Return edges of bins in units of the resolution: one unit wide up to 128, then 1 % wider each, past ``longest``.

    Wider bins would lose information; finer ones would only take room.

    >>> edges = bin_edges(1.0, 1800.0)
    >>> len(edges), edges[:4].tolist(), int(edges[-1])
    (446, [0, 1, 2, 3], 1801)
    """
    last = round(positive("longest", longest) / positive("resolution", resolution)) + 1
    edges = list(range(min(_EXACT_BINS, last) + 1))
    while edges[-1] < last:
        edges.append(min(max(edges[-1] + 1, int(edges[-1] * _GROWTH)), last))
    return np.array(edges, dtype=np.int64)


class GroupedTimes:
    """Counts of times in the bins of :func:`bin_edges`.

    - ``edges`` of the bins in seconds, multiples of the resolution, shape (n + 1,): bin i holds times seen from
      edges[i] to below edges[i + 1]
    - ``counts`` shape (n,)
    - ``resolution`` in seconds
    - ``total`` and ``squares``: sum of the seen times, and of their squares

    >>> times = GroupedTimes(1.0, 1800.0)
    >>> times.add(np.array([0, 12_000_000, 14_000_000]))
    >>> times.mean
    8.666666666666666
    """

    def __init__(self, resolution: float, longest: float) -> None:
        self.resolution = resolution
        self._unit = max(round(resolution * 1e6), 1)
        self._edges = bin_edges(resolution, longest)
        self.edges = np.asarray(self._edges * resolution, dtype=np.float64)
        self.counts = np.zeros(len(self._edges) - 1, dtype=np.int64)
        self.total = self.squares = 0.0

    def add(self, times_us: Int64) -> None:
        """Count times in microseconds, limited to zero and the longest."""
        units = np.clip((times_us + self._unit // 2) // self._unit, 0, self._edges[-1] - 1)
        bins = np.searchsorted(self._edges, units, side="right") - 1
        self.counts += np.bincount(bins, minlength=len(self.counts))
        seconds = units * self.resolution
        self.total += float(seconds.sum())
        self.squares += float(seconds @ seconds)

    @property
    def n(self) -> int:
        """Number of times."""
        return int(self.counts.sum())

    @property
    def mean(self) -> float:
        """Mean in seconds; truncation of both ends to the resolution does not change it on average."""
        return self.total / self.n if self.n else float("nan")

    @property
    def stddev(self) -> float:
        """Standard deviation in seconds, without the resolution's share (q^2 / 6 of the variance)."""
        if self.n < 2:
            return float("nan")
        variance = (self.squares - self.total**2 / self.n) / (self.n - 1)
        return float(np.sqrt(max(variance - self.resolution**2 / 6, 0.0)))

    def centres(self) -> Floats:
        """Return the time that each bin stands for, in seconds, shape (n,); seen as d units, a time is d on average."""
        return np.asarray((self.edges[:-1] + self.edges[1:] - self.resolution) / 2)

    def shares_below(self) -> Floats:
        """Return the share of the times seen below each edge, shape (n + 1,)."""
        return np.append(0.0, np.cumsum(self.counts)) / max(self.n, 1)

    def quantile(self, q: NDArray[np.float64] | list[float]) -> Floats:
        """Return quantiles in seconds, interpolated within the bins, shape as q; NaN if there are no times."""
        if not self.n:
            return np.full(np.shape(q), np.nan)
        # Half a unit lower: a time seen as d units was between d - 1 and d + 1, d on average.
        points = np.maximum(self.edges - self.resolution / 2, 0.0)
        shares = self.shares_below()
        first = int(np.searchsorted(shares, 0.0, side="right")) - 1
        rising = np.concatenate(([True], np.diff(shares[first:]) > 0))
        return np.interp(q, shares[first:][rising], points[first:][rising])


def seen_below(cdf: Callable[[Floats], Floats], edges: Floats, resolution: float) -> Floats:
    """Return P(D q < edge), the probability that a time with distribution ``cdf`` is seen below each edge.

    This is the average of the cdf over one unit before the edge, by Gauss-Legendre quadrature. Shape as ``edges``.

    >>> from locust_realism.workload.distributions import exponential
    >>> seen_below(exponential(1).cdf, np.array([0.0, 1.0]), 1.0).round(6).tolist()  # 1/e: seen as 0 s
    [0.0, 0.367879]
    """
    half = resolution / 2
    near = edges <= _FAR * resolution
    shares = np.empty(edges.shape)
    points = edges[near, None] - half + half * _NODES
    shares[near] = np.where(points > 0, cdf(np.maximum(points, 0.0)), 0.0) @ (_WEIGHTS / 2)
    # Far from zero the cdf is almost linear within one unit: Simpson's rule.
    far = edges[~near]
    shares[~near] = (cdf(far - resolution) + 4 * cdf(far - half) + cdf(far)) / 6
    return shares


_LONGEST_SESSION_S = 7 * 86_400.0
_MOST_REQUESTS = 10_000


class RenewedMean:
    """Mean size of a session from those that began in a window, even if its end cuts many of them.

    The rest of a session under way at the end of the window, e, is taken from those under way at its start: what they
    still had in the window, over those of them that ended. With x what a session has within the window and s the number
    that began there, the mean is (sum of x of those + e * number of those cut) / s.

    It holds for arrivals at a steady rate and any distribution, and at any rate for sizes without memory. The variance
    is that of independent sessions (delta method).
    """

    def __init__(self) -> None:
        # n, sum of x, sum of x^2 of sessions that began before or within the window, and ended within it or were cut
        self._sums = np.zeros((2, 2, 3))

    def add(self, sizes: Floats, begun: NDArray[np.bool_], *, cut: bool) -> None:
        """Add sessions by what they have in the window, > 0 if they began before it; shape (n,) each."""
        for group in (0, 1):
            x = sizes[begun == group]
            self._sums[group, int(cut)] += (len(x), x.sum(), x @ x)

    def estimate(self) -> tuple[float, float]:
        """Return the mean and its standard error, NaN where the window has too few sessions."""
        n, total, squares = np.moveaxis(self._sums, 2, 0)
        (renewed, _), (ended, cut) = n
        if not ended:
            return math.nan, math.nan
        if renewed:
            weight, rest, divisor = cut / renewed, total[0].sum() / renewed, ended + cut
        else:  # without memory the rest is a whole session's mean
            weight, rest, divisor = 0.0, total[1].sum() / ended, ended
        mean = (total[1].sum() + (divisor - ended) * rest) / divisor
        shift = np.array([[-rest, 0.0], [-mean, rest - mean]])
        terms = (squares + 2 * shift * total + shift**2 * n).sum(axis=1)
        variance = (weight**2 * terms[0] + terms[1]) / divisor**2
        return float(mean), math.sqrt(max(variance, 0.0) * divisor / (divisor - 1)) if divisor > 1 else math.nan


class SessionTimes:
    """Counts of sessions.

    - ``n`` of them, ``unfinished`` the number of those whose end was not seen
    - ``lengths`` and ``durations``: distributions of the requests of a session and of the seconds from its first
      request to its last one
    - ``mean_length`` and ``mean_duration``: means with the help of sessions that began before
    """

    def __init__(self, resolution: float) -> None:
        self._whole, self._cut = (np.zeros(_MOST_REQUESTS + 1, dtype=np.int64) for _ in range(2))
        self._durations, self._ages = (GroupedTimes(resolution, _LONGEST_SESSION_S) for _ in range(2))
        self.mean_length, self.mean_duration = RenewedMean(), RenewedMean()

    def add(self, count: Int64, seconds_us: Int64, *, cut: bool) -> None:
        """Add sessions by requests and microseconds, shape (n,) each; if ``cut`` they have more than these."""
        counts, times = (self._cut, self._ages) if cut else (self._whole, self._durations)
        counts += np.bincount(np.minimum(count, _MOST_REQUESTS), minlength=len(counts))
        times.add(seconds_us)

    @property
    def n(self) -> int:
        """Number of sessions."""
        return int(self._whole.sum()) + self.unfinished

    @property
    def unfinished(self) -> int:
        """Number of sessions whose end was not seen."""
        return int(self._cut.sum())

    @property
    def lengths(self) -> Survival:
        """Distribution of the number of requests, from 1 to 10,000; the last value includes all longer sessions."""
        return Survival(np.arange(1.0, _MOST_REQUESTS + 1), self._whole[1:], self._cut[1:])

    @property
    def durations(self) -> Survival:
        """Distribution of the duration in seconds, 0 for a session of one request."""
        return Survival(self._durations.centres(), self._durations.counts, self._ages.counts)


def running_maximum(values: Int64, groups: Int64) -> Int64:
    """Return the greatest value so far within each run of equal groups, shape (n,).

    >>> running_maximum(np.array([5, 3, 4, 7]), np.array([1, 1, 2, 2])).tolist()
    [5, 5, 4, 7]
    """
    same = groups[1:] == groups[:-1]
    number = np.concatenate(([0], np.cumsum(~same)))
    starts = np.append(np.flatnonzero(np.append(True, ~same)), len(values))
    result = values.copy()
    for k in np.unique(number[1:][same & (np.diff(values) < 0)]).tolist():
        rows = slice(starts[k], starts[k + 1])
        result[rows] = np.maximum.accumulate(values[rows])
    return result


@dataclass(frozen=True)
class _Open(Columns):
    """Sessions under way: columns of equal length; ``before`` counts the requests in the log's first gap."""

    visitor: Int64
    start: Int64
    last: Int64
    end: Int64
    count: Int64
    before: Int64


@dataclass(frozen=True)
class _Recent(Columns):
    """Requests after which a session may go on: visitor and end of its latest answer."""

    visitor: Int64
    end: Int64


class SessionFinder:
    """Finder of the sessions in requests in order of time.

    ``gap`` seconds without a request end a session; ``resolution`` is that of the log's times in seconds.

    A session under way at the start of the log has an unknown age, and in the last gap no end of a session can be seen.
    So sessions are those that began in the window between the first and the last gap, and they are cut at its end: the
    rest of them in the last gap shows only whether they went on. (Requests of the last gap would be seen of the longer
    sessions only.) Requests of the last gap are held for this.

    >>> finder = SessionFinder(gap=1800, resolution=1.0)
    >>> seconds = np.array([0, 10, 40, 4000]) * 1_000_000
    >>> finder.feed(seconds, seconds, np.array([7, 8, 7, 7])).tolist()  # which requests begin a session
    [True, True, False, True]
    >>> finder.finish()
    >>> finder.sessions(early=True).n, finder.think_times.mean
    (3, 40.0)
    """

    def __init__(self, *, gap: float, resolution: float) -> None:
        self._gap = round(gap * 1e6)
        self._first: int | None = None
        self._passed = 0
        self._open, self._recent = _Open.empty(), _Recent.empty()
        self._all, self._window = SessionTimes(resolution), SessionTimes(resolution)
        self.think_times = GroupedTimes(resolution, gap)
        """Times between the requests of a session, from the answer to the next request if answers are known."""

    def feed(self, time_us: Int64, end_us: Int64, visitor: Int64) -> NDArray[np.bool_]:
        """Add requests in ascending order of time, none before those of the last call; shape (n,) each.

        Returns the mask of those that begin a session, shape (n,).
        """
        if not len(time_us):
            return np.zeros(0, dtype=np.bool_)
        if self._first is None:
            self._first = int(time_us[0])
        carried = len(self._open)
        # One row for the last request of each session under way, then the new ones; a stable sort keeps that order.
        early = (time_us < self.early_until_us).astype(np.int64)
        rows = _Open.concat([self._open, _Open(visitor, time_us, time_us, end_us, np.ones_like(time_us), early)])
        order = np.argsort(rows.visitor, kind="stable")
        rows = rows.take(order)
        visitors, times = rows.visitor, rows.last
        # a later request may be answered earlier
        ends = running_maximum(rows.end, visitors)
        same = np.concatenate(([False], visitors[1:] == visitors[:-1]))
        pause = times - np.concatenate(([0], ends[:-1]))
        begins = ~same | (pause > self._gap)
        head = np.flatnonzero(begins)
        self.think_times.add(np.maximum(pause[~begins], 0))
        tail = np.append(head[1:], len(times)) - 1
        counts, before = (np.add.reduceat(column, head) for column in (rows.count, rows.before))
        sessions = _Open(visitors[head], rows.start[head], times[tail], ends[tail], counts, before)
        self._passed = int(time_us[-1])
        ended = np.append(sessions.visitor[1:] == sessions.visitor[:-1], False)
        ended |= sessions.end < self._passed - self._gap
        self._count(sessions.take(ended))
        self._open = sessions.take(~ended)
        added = order >= carried
        recent = _Recent.concat([self._recent, _Recent(visitors[added], ends[added])])
        self._recent = recent.take(recent.end >= self._passed - self._gap)
        new = np.zeros(len(times), dtype=np.bool_)
        new[order] = begins
        return new[carried:]

    def finish(self) -> None:
        """End the log: cut the sessions under way at the start of its last gap."""
        rows, until = self._open, self._passed - self._gap
        self._all.add(rows.count, rows.last - rows.start, cut=False)
        # Both are in order of visitors, and each session under way has a recent request.
        count = rows.count - np.unique(self._recent.visitor, return_counts=True)[1]
        begun, before = count > 0, rows.start < self.early_until_us
        self._window.add(count[begun & ~before], (until - rows.start)[begun & ~before], cut=True)
        self._sum(replace(rows, count=count, last=np.full_like(count, until)).take(begun), cut=True)
        self._open, self._recent = _Open.empty(), _Recent.empty()

    @property
    def early_until_us(self) -> int:
        """End of the log's first gap; sessions of earlier start may have begun before the log."""
        return (self._first or 0) + self._gap

    def sessions(self, *, early: bool = False) -> SessionTimes:
        """Return the sessions that began in the window; with ``early`` all of them, as if none were cut by the log."""
        return self._all if early else self._window

    def _count(self, sessions: _Open) -> None:
        self._all.add(sessions.count, sessions.last - sessions.start, cut=False)
        later = sessions.take(sessions.start >= self.early_until_us)
        self._window.add(later.count, later.last - later.start, cut=False)
        self._sum(sessions, cut=False)

    def _sum(self, sessions: _Open, *, cut: bool) -> None:
        begun = sessions.start >= self.early_until_us
        in_window = begun | (sessions.last >= self.early_until_us)
        rows, begun = sessions.take(in_window), begun[in_window]
        seconds = (rows.last - np.maximum(rows.start, self.early_until_us)) / 1e6
        self._window.mean_length.add((rows.count - rows.before).astype(np.float64), begun, cut=cut)
        self._window.mean_duration.add(seconds, begun, cut=cut)
