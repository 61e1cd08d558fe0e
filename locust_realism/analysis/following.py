"""The launches that a planned population is expected to make: they follow the number of users who are there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from locust_realism.analysis.dispersion import Profile

Floats = NDArray[np.float64]

CELLS = 20_000
MEMORY = 12.0
"""Mean stays before the start from which on arrivals are looked at: of earlier ones 6 in a million are still there."""
VARIES = 0.01
"""A number of users that varies by less than this share of its mean counts as constant."""


@dataclass(frozen=True)
class FollowingLaunches:
    """Launches in proportion to an expected number of users: knots ``t`` in seconds, and user-seconds until then."""

    t: Floats
    total: Floats

    def cumulative(self, t: Any) -> Any:
        """Expected user-seconds from 0 to t, which launches are proportional to."""
        return np.interp(t, self.t, self.total)


def following_launches(arrivals: Profile, session_s: float, end_s: float) -> FollowingLaunches | None:
    """The course of the launches of users who arrive by a plan and stay ``session_s`` seconds on average.

    With arrivals lambda(t) and exponential stays of mean S the expected number of users is the solution of
    dN/dt = lambda(t) - N / S, of a system that has followed its plan for long. For other stays of that mean it is
    right as far as lambda changes little within one. None where N varies by less than ``VARIES``.
    Source: S. G. Eick, W. A. Massey, W. Whitt, The physics of the Mt/G/infinity queue, Operations Research 41, 1993.

    >>> from locust_realism.workload.rates import ConstantRate, SineRate
    >>> following_launches(ConstantRate(2), 30, 600) is None
    True
    >>> course = following_launches(SineRate(min_rate=1, max_rate=9, period=100), 0.1, 100)
    >>> [round(float(course.cumulative(t)) / 0.1 / 500, 2) for t in (50, 100)]
    [0.75, 1.0]
    """
    if session_s <= 0 or end_s <= 0:
        return None
    before = MEMORY * session_s
    t = np.linspace(-before, end_s, CELLS + 1)
    step = float(t[1] - t[0])
    rate = np.diff(np.asarray(arrivals.cumulative(t), dtype=np.float64)) / step
    users = _users(rate, step, session_s)
    total = np.concatenate(([0.0], np.cumsum((users[1:] + users[:-1]) * step / 2)))
    present = users[t >= 0]
    if not np.isfinite(total).all() or np.ptp(present) <= VARIES * float(present.mean()):
        return None
    return FollowingLaunches(t, total - float(np.interp(0.0, t, total)))


def _users(rate: Floats, step: float, session_s: float) -> Floats:
    """N at the edges of cells of constant rate, from rest: N(t + h) = N(t) e^(-h/S) + lambda S (1 - e^(-h/S))."""
    from scipy.signal import lfilter

    kept = float(np.exp(-step / session_s))
    start = float(rate[0]) * session_s
    # the rate before all that is looked at is taken to have been that of the first cell
    grown, _ = lfilter([(1 - kept) * session_s], [1.0, -kept], rate, zi=[kept * start])
    return np.concatenate(([start], grown))
