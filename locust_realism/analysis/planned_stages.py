"""The stages of a run: when the number of users, the planned rate of launches or that of arrivals held for a while."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from locust_realism.analysis.dispersion import Profile
from locust_realism.analysis.evidence import Facts
from locust_realism.analysis.stages import MAX_LEVELS, MIN_HELD_S, held_users
from locust_realism.recording.launches import LaunchLog

Row = dict[str, Any]
Floats = NDArray[np.float64]

CELL_S = 0.5
"""Width of the pieces in which a rate is looked at; where it changes within one is then found exactly."""
MAX_CELLS = 20_000
LEAST_SHARE = 0.01
"""A rate has to hold for this share of the run, too: at its peak the rate of a day hardly moves for ten seconds."""
SAME = 0.95
"""Two spans are the same stage where they share this much of the time that either lasts."""


def planned_stages(log: LaunchLog, facts: Facts, origin_us: int) -> list[Row]:
    """Stages ``start_s``, ``end_s`` since ``origin_us`` and what held, in order of time, for ``stages.stage_table``.

    ``users`` is the number that ran at the launches, ``rate`` the planned launches a second, ``arrival_rate`` the
    planned arrivals of users a second; where several hold over the same time that is one stage. ``think_time_s`` is
    the planned mean, which holds throughout. ``log`` is in launch order; a plan's stages reach no further than it does.
    """
    if not len(log):
        return []
    first, last = ((int(log.launch_us[at]) - origin_us) / 1e6 for at in (0, -1))
    spans = held_users(log, origin_us)
    for key, profile in (("rate", facts.planned_profile), ("arrival_rate", facts.arrival_profile)):
        for start, end, rate in held_rates(profile, last) if profile is not None else []:
            start, end = max(start, first), min(end, last)
            if end - start >= MIN_HELD_S:
                _add(spans, {"start_s": start, "end_s": end, key: rate})
    known = {} if facts.model.think_time_s is None else {"think_time_s": facts.model.think_time_s}
    return [span | known for span in sorted(spans, key=lambda span: float(span["start_s"]))]


def _add(spans: list[Row], new: Row) -> None:
    """A stage of its own, or what held besides in one that is there already."""
    for span in spans:
        shared = min(span["end_s"], new["end_s"]) - max(span["start_s"], new["start_s"])
        longest = max(span["end_s"], new["end_s"]) - min(span["start_s"], new["start_s"])
        if shared >= SAME * longest:
            span |= {key: value for key, value in new.items() if key not in span}
            return
    spans.append(new)


def held_rates(profile: Profile, end_s: float) -> list[tuple[float, float, float]]:
    """(start, end, rate) of the times from 0 to ``end_s`` in which a planned rate above 0 does not change.

    Only those of ``MIN_HELD_S`` and of ``LEAST_SHARE`` of the whole; none where there would be more than
    ``MAX_LEVELS``.

    >>> from locust_realism.workload.rates import StepRate
    >>> held_rates(StepRate([(0, 5), (30, 9)]), 60)
    [(0.0, 30.0, 5.0), (30.0, 60.0, 9.0)]
    """
    cells = int(min(MAX_CELLS, end_s // CELL_S))
    if cells < 2:
        return []
    edges = np.linspace(0, end_s, cells + 1)
    total = np.asarray(profile.cumulative(edges), dtype=np.float64)
    rates = np.diff(total) / np.diff(edges)
    # what the sums' rounding makes of equal rates
    rounding = 1e-9 * float(rates.max(initial=0)) + 8 * np.finfo(np.float64).eps * float(total[-1]) / (end_s / cells)
    cuts = np.concatenate(([0], np.flatnonzero(np.abs(np.diff(rates)) > rounding) + 1, [cells]))
    found = []
    for low, high in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
        rate = float(total[high] - total[low]) / float(edges[high] - edges[low])
        if high - low < 2 or rate <= rounding:
            continue
        start = _limit(profile, float(edges[low]), float(edges[max(low - 1, 0)]), rate, rounding)
        end = _limit(profile, float(edges[high]), float(edges[min(high + 1, cells)]), rate, rounding)
        if end - start >= max(MIN_HELD_S, LEAST_SHARE * end_s):
            found.append((round(start, 3), round(end, 3), float(f"{rate:.9g}")))
    return found if len(found) <= MAX_LEVELS else []


def _limit(profile: Profile, inside: float, outside: float, rate: float, rounding: float) -> float:
    """How far towards ``outside`` the cumulative rate goes on from ``inside`` as it did, to 0.1 ms."""
    base = float(profile.cumulative(inside))
    known, beyond = inside, outside
    while abs(beyond - known) > 1e-4:
        middle = (known + beyond) / 2
        if abs(float(profile.cumulative(middle)) - base - rate * (middle - inside)) <= rounding:
            known = middle
        else:
            beyond = middle
    return known
