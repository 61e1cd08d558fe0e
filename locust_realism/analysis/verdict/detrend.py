"""Detrended launch times: without the grain of clock and timers, and without the planned variation of the rate.

The plan is a rate of launches, or arrivals of a population: its launches follow the expected number of users.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from locust_realism.analysis.percentiles import Floats, Int64
from locust_realism.analysis.settings import AnalysisSettings
from locust_realism.analysis.verdict.dispersion import Profile, Stay, dither, rescale_by_profile

LOCAL_GAPS = 200
"""Gaps in a window in which the rate counts as constant without a plan."""
MAX_LOCAL_WINDOWS = 500
CYCLES = 10
"""Round trips of a user: the longest scale, and the shortest window of the local CoV."""
DITHER_FROM = 0.001
"""Share of the mean gap below which a grain of time changes no figure of the verdict."""
CELLS = 20_000
MEMORY = 12.0
"""Mean stays before the start from which arrivals count: of earlier ones 6 in a million are still present."""
VARIES = 0.01
"""Share of its mean by which a number of users must vary to have a course."""


def grain_us(tick_us: int, settings: AnalysisSettings, timer_us: float = math.nan) -> int:
    """Return the resolution of the verdict's launch times in microseconds: the coarser of clock and timers.

    ``timer_us`` is that of the recorded timer, 0 for a precise one. Where it is unknown, that of the settings serves.

    >>> [grain_us(1, AnalysisSettings(), timer_us) for timer_us in (math.nan, 0.0, 1000.0)]
    [1000, 1, 1000]
    """
    return max(tick_us, round(1e6 * settings.grain_s if math.isnan(timer_us) else timer_us))


def per_grain(launches: Int64, grain: int) -> float:
    """Return the mean number of launches in a grain of time."""
    span = float(launches[-1] - launches[0]) if len(launches) > 1 else 0.0
    return grain * (len(launches) - 1) / span if span > 0 else 0.0


def flat_times(launches: Int64, profile: Profile | None, start_us: int, grain: int) -> Floats:
    """Return ascending launch times (us) without the grain of clock and timers and without the plan's variation."""
    times = dither(launches, grain if per_grain(launches, grain) > DITHER_FROM else 1)
    if profile is None or len(launches) < 2 or launches[0] == launches[-1]:
        return times
    return rescale_by_profile(times, profile, start_us)


def gaps_per_window(times: Floats, cycle_s: float) -> int:
    """Return the gaps in a window of nearly constant rate: ten round trips ``cycle_s`` of a user at least; NaN is 0."""
    n = len(times) - 1
    if n < 1 or times[-1] <= times[0]:
        return LOCAL_GAPS
    cycles = 0.0 if math.isnan(cycle_s) else CYCLES * cycle_s * n / (float(times[-1] - times[0]) / 1e6)
    return max(LOCAL_GAPS, math.ceil(n / MAX_LOCAL_WINDOWS), min(n, math.ceil(cycles)))


@dataclass(frozen=True)
class FollowingLaunches:
    """Launches in proportion to an expected number of users: knots ``t`` in seconds, and user-seconds until then."""

    t: Floats
    total: Floats

    def cumulative(self, t: ArrayLike, /) -> Floats:
        """Return the expected user-seconds from 0 to t, to which the launches are proportional."""
        return np.asarray(np.interp(np.asarray(t, dtype=np.float64), self.t, self.total))


def following_launches(arrivals: Profile, stay: Stay, end_s: float) -> FollowingLaunches | None:
    """Return the expected launches over time of users with planned arrivals who stay as the law ``stay`` has it.

    The expected number of users is N(t) = integral over u of lambda(t - u) (1 - F(u)). Before the run's start the rate
    was that of the plan, as far as ``MEMORY`` mean stays back, and constant before. None if N varies by less than
    ``VARIES`` of its mean. Source: S. G. Eick, W. A. Massey, W. Whitt, The physics of the Mt/G/infinity queue,
    Operations Research 41, 1993, theorem 1.

    >>> from locust_realism.workload.rates.shapes import ConstantRate, SineRate
    >>> following_launches(ConstantRate(2), Stay.of(30), 600) is None
    True
    >>> course = following_launches(SineRate(min_rate=1, max_rate=9, period=100), Stay.of(0.1), 100)
    >>> [round(float(course.cumulative(t)) / 0.1 / 500, 2) for t in (50, 100)]
    [0.75, 1.0]
    """
    if stay.mean <= 0 or end_s <= 0:
        return None
    before = MEMORY * stay.mean
    t = np.linspace(-before, end_s, CELLS + 1)
    step = float(t[1] - t[0])
    rate = np.diff(np.asarray(arrivals.cumulative(t), dtype=np.float64)) / step
    # A cell of constant rate adds its rate times the integral of 1 - F over the ages of its users.
    left = np.interp(t + before, stay.t, stay.residual, right=0.0)
    transform = np.fft.rfft(rate, 2 * CELLS) * np.fft.rfft(-np.diff(left), 2 * CELLS)
    arrived = np.fft.irfft(transform, 2 * CELLS)[:CELLS]
    users = np.concatenate(([0.0], arrived)) + float(rate[0]) * left
    total = np.concatenate(([0.0], np.cumsum((users[1:] + users[:-1]) * step / 2)))
    present = users[t >= 0]
    if not np.isfinite(total).all() or np.ptp(present) <= VARIES * float(present.mean()):
        return None
    return FollowingLaunches(t, total - float(np.interp(0.0, t, total)))
