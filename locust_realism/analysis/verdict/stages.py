"""Stages of a run: spans in which the number of users, the planned rate of launches or that of arrivals held."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import numpy as np

from locust_realism.analysis.document import Span, StageRow
from locust_realism.analysis.settings import AnalysisSettings
from locust_realism.analysis.stats.responses import part_figures
from locust_realism.analysis.verdict.dispersion import Profile
from locust_realism.analysis.verdict.evidence import Facts
from locust_realism.recording.launches import LaunchLog

MAX_STAGES = 60
"""Most stages of one kind; a run with more of them has none."""
MIN_HELD_S = 10.0
"""Shortest span of a constant number of users, or of a constant rate, that is a stage."""
CELL_S = 0.5
"""Width of the cells in which a planned rate is compared; its changes within a cell are then located exactly."""
MAX_CELLS = 20_000
LEAST_SHARE = 0.01
"""Smallest share of the run for a stage of constant rate: at its peak the rate of a day hardly changes for 10 s."""
SAME = 0.95
"""Least share of the time of two spans, shared by both, at which they are one stage."""


def stage_table(log: LaunchLog, settings: AnalysisSettings, planned: Sequence[Span], origin_us: int) -> list[StageRow]:
    """Return the figures of each stage of a log in launch order, in order of time.

    ``planned`` are spans since ``origin_us`` with the held values (users, rate, arrival_rate, think_time_s), which the
    row repeats, the rate as ``planned_rate``.
    """
    rows: list[StageRow] = []
    for stage in planned:
        edges = [origin_us + round(stage["start_s"] * 1e6), origin_us + round(stage["end_s"] * 1e6)]
        part = log.take(slice(*np.searchsorted(log.launch_us, edges).tolist()))
        seconds = stage["end_s"] - stage["start_s"]
        failures, gaps, rate = int(part.failed.sum()), np.diff(part.launch_us), len(part) / seconds
        figures = part_figures(part.response_us, failures, gaps, rate, seconds, settings.percentile_rule)
        rows.append({**stage, "kind": "stage", "planned_rate": stage.get("rate"), **figures})
    return rows


def held_users(log: LaunchLog, origin_us: int) -> list[Span]:
    """Return the spans since ``origin_us`` in which the number of users at the launches was constant."""
    starts = np.concatenate(([0], np.flatnonzero(np.diff(log.users)) + 1))
    times = pairwise([*log.launch_us[starts].tolist(), int(log.launch_us[-1]) + 1])
    spans: list[Span] = [
        {"users": users, "start_s": (first - origin_us) / 1e6, "end_s": (last - origin_us) / 1e6}
        for users, (first, last) in zip(log.users[starts].tolist(), times, strict=True)
        if users >= 0 and last - first >= MIN_HELD_S * 1e6
    ]
    return spans if len(spans) <= MAX_STAGES else []


def planned_stages(log: LaunchLog, facts: Facts, origin_us: int) -> list[Span]:
    """Return the stages of a log in launch order, in order of time since ``origin_us``, with the held values.

    ``users`` is the number at the launches, ``rate`` the planned launches per second, ``arrival_rate`` the planned
    arrivals of users per second; values that hold over the same time make one stage. ``think_time_s`` is the planned
    mean, which holds throughout. A planned stage ends with the log at the latest.
    """
    if not len(log):
        return []
    first, last = ((int(log.launch_us[at]) - origin_us) / 1e6 for at in (0, -1))
    spans = held_users(log, origin_us)
    plans: tuple[tuple[Profile | None, Literal["rate", "arrival_rate"]], ...] = (
        (facts.planned_profile, "rate"), (facts.arrival_profile, "arrival_rate"),
    )  # fmt: skip
    for profile, key in plans:
        for start, end, rate in held_rates(profile, last) if profile is not None else []:
            start, end = max(start, first), min(end, last)
            if end - start >= MIN_HELD_S:
                _same_span(spans, start, end).setdefault(key, rate)
    if facts.model.think_time_s is not None:
        for span in spans:
            span["think_time_s"] = facts.model.think_time_s
    return sorted(spans, key=lambda span: span["start_s"])


def _same_span(spans: list[Span], start_s: float, end_s: float) -> Span:
    """Return the span that covers nearly the same time, or a new one, appended to ``spans``."""
    for span in spans:
        shared = min(span["end_s"], end_s) - max(span["start_s"], start_s)
        longest = max(span["end_s"], end_s) - min(span["start_s"], start_s)
        if shared >= SAME * longest:
            return span
    spans.append({"start_s": start_s, "end_s": end_s})
    return spans[-1]


def held_rates(profile: Profile, end_s: float) -> list[tuple[float, float, float]]:
    """Return (start, end, rate) of the spans from 0 to ``end_s`` in which a planned rate above 0 is constant.

    A span lasts at least ``MIN_HELD_S`` and ``LEAST_SHARE`` of the whole; empty with more than ``MAX_STAGES`` spans.

    >>> from locust_realism.workload.rates.shapes import StepRate
    >>> held_rates(StepRate([(0, 5), (30, 9)]), 60)
    [(0.0, 30.0, 5.0), (30.0, 60.0, 9.0)]
    """
    cells = int(min(MAX_CELLS, end_s // CELL_S))
    if cells < 2:
        return []
    edges = np.linspace(0, end_s, cells + 1)
    total = np.asarray(profile.cumulative(edges), dtype=np.float64)
    rates = np.diff(total) / np.diff(edges)
    # Equal rates differ by the rounding of the sums.
    rounding = 1e-9 * float(rates.max(initial=0)) + 8 * np.finfo(np.float64).eps * float(total[-1]) / (end_s / cells)
    cuts = [0, *(np.flatnonzero(np.abs(np.diff(rates)) > rounding) + 1).tolist(), cells]
    found = []
    for low, high in pairwise(cuts):
        rate = float(total[high] - total[low]) / float(edges[high] - edges[low])
        if high - low < 2 or rate <= rounding:
            continue
        start = _locate_change(profile, float(edges[low]), float(edges[max(low - 1, 0)]), rate, rounding)
        end = _locate_change(profile, float(edges[high]), float(edges[min(high + 1, cells)]), rate, rounding)
        if end - start >= max(MIN_HELD_S, LEAST_SHARE * end_s):
            found.append((round(start, 3), round(end, 3), float(f"{rate:.9g}")))
    return found if len(found) <= MAX_STAGES else []


def _locate_change(profile: Profile, inside: float, outside: float, rate: float, rounding: float) -> float:
    """Return the time of the change of rate between ``inside`` and ``outside``, to 0.1 ms, by bisection."""
    base, known = float(profile.cumulative(inside)), inside
    while abs(outside - known) > 1e-4:
        middle = (known + outside) / 2
        if abs(float(profile.cumulative(middle)) - base - rate * (middle - inside)) <= rounding:
            known = middle
        else:
            outside = middle
    return known
