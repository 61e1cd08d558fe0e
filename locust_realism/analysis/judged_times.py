"""Launch times as the verdict looks at them: without the grain of clock and timers, and without what was planned."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from locust_realism.analysis.dispersion import Profile, dither, rescale_by_profile
from locust_realism.analysis.settings import AnalysisSettings

Floats = NDArray[np.float64]

LOCAL_GAPS = 200
"""Gaps in a window in which the rate counts as constant where no plan says what it was."""
MAX_LOCAL_WINDOWS = 500
CYCLES = 10
"""Round trips of a user up to which the scales reach, and that a window of the local CoV holds at least."""
DITHER_FROM = 0.001
"""A grain of time shorter than this share of the mean gap changes nothing that is measured here."""


def grain_us(tick_us: int, settings: AnalysisSettings) -> int:
    """Resolution at which the verdict looks at launch times: that of the timers, or of the clock where it is worse."""
    return max(tick_us, round(settings.grain_s * 1e6))


def per_grain(launches: NDArray[np.int64], grain: int) -> float:
    """Mean number of launches in a grain of time."""
    span = float(launches[-1] - launches[0]) if len(launches) > 1 else 0.0
    return grain * (len(launches) - 1) / span if span > 0 else 0.0


def flat_times(launches: NDArray[np.int64], profile: Profile | None, start_us: int, grain: int) -> Floats:
    """Launch times without the grain of clock and timers and without what the plan varies, ascending."""
    times = dither(launches, grain if per_grain(launches, grain) > DITHER_FROM else 1)
    if profile is None or len(launches) < 2 or launches[0] == launches[-1]:
        return times
    return rescale_by_profile(times, profile, start_us)


def gaps_per_window(times: Floats, cycle_s: float) -> int:
    """Gaps in a window of nearly constant rate: enough for a mean, and ten of ``cycle_s``, a user's round trip."""
    n = len(times) - 1
    if n < 1 or times[-1] <= times[0]:
        return LOCAL_GAPS
    rate = n / ((times[-1] - times[0]) / 1e6)
    return int(max(LOCAL_GAPS, math.ceil(n / MAX_LOCAL_WINDOWS), min(n, math.ceil(CYCLES * cycle_s * rate))))
