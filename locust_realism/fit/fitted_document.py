"""Keys of the fitted document, which table, page, locustfile and JSON read; ``docs/fit.md`` describes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NotRequired, TypedDict

Range = list[float]
"""Ends of an interval: [low, high]."""


class BadLineRow(TypedDict):
    file: str
    line: int | None
    reason: str


class Source(TypedDict):
    files: list[str]
    format: str
    requests: int
    left_out: dict[str, int]
    static_files: int
    robots: int
    bad_rows: int
    bad_lines: list[BadLineRow]
    damage: list[str]
    late_rows: int
    rows_without_visitor: int
    start: str
    end: str
    duration_s: float
    zone: str
    resolution_s: float


class Sessions(TypedDict):
    n: int
    unfinished: int
    unseen_share: float | None
    single_share: float | None
    mean_length: float | None
    mean_length_interval: Range | None
    length_cov: float | None
    p50_length: int | None
    p90_length: int | None
    p95_length: int | None
    p99_length: int | None
    length_permille: list[list[int]]
    mean_duration_s: float | None
    mean_duration_interval_s: Range | None
    p50_duration_s: float | None
    p90_duration_s: float | None
    p95_duration_s: float | None
    p99_duration_s: float | None
    concurrent: float | None


class RateRow(TypedDict):
    time: str
    start_s: float
    sessions: int
    observed_s: float
    rate: float
    rate_interval: list[float | None]
    request_rate: float


class DayRow(TypedDict):
    day: str
    days: int
    sessions: int
    observed_s: float
    rate: float
    rate_interval: list[float | None]


class Arrivals(TypedDict):
    sessions: int
    observed_s: float
    mean_rate: float | None
    mean_rate_interval: list[float | None]
    mean_request_rate: float | None
    days: int
    not_recorded_s: int
    bin_s: int
    by_time_of_day: list[RateRow]
    by_weekday: list[DayRow]
    by_time_of_week: list[RateRow]
    dispersion_between_days: float
    dispersion_degrees: int


class Estimate(TypedDict):
    value: float
    interval: Range | None


class Family(TypedDict):
    family: str
    distribution: dict[str, object]
    parameters: dict[str, Estimate]
    log_likelihood: float
    bic: float
    bic_behind: float
    ks: float
    ad: float
    beyond_gap: float


class Curves(TypedDict):
    t_s: list[float]
    observed: list[float]
    families: dict[str, list[float]]


class ThinkTimes(TypedDict):
    n: int
    includes_response_times: bool
    mean_s: float
    mean_interval_s: Range | None
    cov: float | None
    p50_s: float | None
    p90_s: float | None
    p95_s: float | None
    p99_s: float | None
    longest_s: float
    quantiles: list[list[float]]
    best: Family | None
    families: list[Family]
    curves: Curves | None
    reason: str
    ks_by_chance: NotRequired[float]


class RequestRow(TypedDict):
    method: str
    name: str
    n: int
    share: float
    share_interval: Range
    failures: int
    examples: list[str]


class Settings(TypedDict):
    gap_s: float
    visitor: str
    no_static: bool
    no_bots: bool
    exclude: list[str]
    keep_ids: bool
    timezone: str | None
    bin_s: int | None
    confidence: float


class FitDocument(TypedDict):
    schema_version: int
    source: Source
    sessions: Sessions
    arrivals: Arrivals
    think_times: ThinkTimes
    requests: list[RequestRow]
    settings: Settings
    warnings: list[str]


def call_of(distribution: Mapping[str, object], digits: int = 4) -> str:
    """Return a distribution's settings as the call of a locustfile, with parameters rounded to ``digits``.

    >>> call_of({"kind": "lognormal", "mean": 12.34567, "cov": 1.5, "seed": None})
    'lognormal(mean=12.35, cov=1.5)'
    """
    shown = [f"{k}={v:.{digits}g}" for k, v in distribution.items() if k not in ("kind", "seed") and v is not None]
    return f"{distribution['kind']}({', '.join(shown)})"
