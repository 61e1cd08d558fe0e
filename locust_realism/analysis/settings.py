"""Settings of an analysis, bounds of the verdict and of the generator's health; each is checked when it is built."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from locust_realism.analysis.document import AMBER, GREEN, NO_DATA, RED, GeneratorBounds, GeneratorFigure, Status
from locust_realism.analysis.percentiles import RULES
from locust_realism.common.validation import integer, not_negative, one_of, positive, refusal, share

RATE_CONVENTIONS = ("gaps", "toolkit")
KINDS = ("closed", "open", "unknown")


@dataclass(frozen=True)
class VerdictBounds:
    """Bounds of the checks: green ends at ``_amber``, red begins at ``_red``; docs/verdict.md lists them.

    An effect counts only beyond its bound and more than ``standard_errors`` standard errors from the reference. From
    ``_cause`` on a figure of the generator's health may be the cause of a disturbed pattern.
    Simulation set the bounds of checks 2, 3, 4, 9 and 11 (benchmarks/calibrate_verdict.py).
    """

    cov_amber: float = 0.05
    cov_red: float = 0.10
    pause_amber: float = 0.05
    pause_red: float = 0.10
    bunch_low: float = 0.9
    bunch_amber: float = 1.2
    bunch_red: float = 1.5
    lateness_amber_s: float = 0.02
    lateness_red_s: float = 0.1
    loop_lag_amber_s: float = 0.05
    loop_lag_red_s: float = 0.1
    cpu_amber: float = 0.8
    cpu_red: float = 0.95
    machine_cause: float = 0.9
    machine_amber: float = 0.95
    run_wait_cause: float = 0.1
    run_wait_amber: float = 0.3
    steal_cause: float = 0.05
    steal_amber: float = 0.2
    throttled_cause: float = 0.05
    throttled_amber: float = 0.2
    stopped_cause: float = 0.02
    stopped_amber: float = 0.1
    blocked_cause: float = 0.1
    blocked_amber: float = 0.2
    feedback_amber: float = 0.03
    feedback_red: float = 0.08
    retry_amber: float = 0.03
    retry_red: float = 0.1
    stall_amber: float = 0.05
    dispersion_amber: float = 0.25
    dispersion_red: float = 0.5
    group_cov: float = 0.05
    group_share_amber: float = 0.25
    think_mean_amber: float = 0.02
    think_mean_red: float = 0.05
    user_cov_amber: float = 0.3
    correlation_amber: float = 0.05
    correlation_red: float = 0.1
    distance_amber: float = 0.02
    distance_red: float = 0.05
    clock_tick_amber: float = 0.1
    starts_min: int = 400
    half_amber: float = 0.05
    half_red: float = 0.10
    min_difference_ms: float = 1.0
    mser_share_amber: float = 0.5
    offset_amber: float = 0.1
    offset_red: float = 1.0
    standard_errors: float = 3.0
    min_gaps: int = 100
    min_gaps_shape: int = 2000

    def __post_init__(self) -> None:
        for item in fields(self):
            value = positive(item.name, getattr(self, item.name))
            amber = item.name.replace("_red", "_amber")
            if value < getattr(self, amber):
                raise refusal(item.name, f">= {getattr(self, amber)}, the bound {amber}", value)


DEFAULT_BOUNDS = VerdictBounds()


def grade(effect: float, amber: float, red: float, error: float = 0.0) -> Status:
    """Return the status of an effect, a distance from the reference that is known to within ``error``.

    ``error`` is the standard error times the number of standard errors that count as chance.

    >>> grade(0.2, 0.05, 0.1), grade(0.07, 0.05, 0.1, 0.03), grade(0.07, 0.05, 0.1, 0.08), grade(0.01, 0.05, 0.1, 0.5)
    ('red', 'amber', 'green', 'not enough data')
    """
    if not math.isfinite(effect) or not math.isfinite(error):
        return NO_DATA
    if effect > amber and effect > error:
        return RED if effect > red else AMBER
    return GREEN if error <= red else NO_DATA


def generator_bounds(bounds: VerdictBounds = DEFAULT_BOUNDS) -> GeneratorBounds:
    """Return the bounds [amber, red] of the generator's figures; check 4 has all but the last three.

    One Python process has one core at most. None stands for a colour that a figure never has.

    >>> generator_bounds()["lag_p99_ms"]
    [50.0, 100.0]
    """
    return {
        "cpu": [bounds.cpu_amber, bounds.cpu_red],
        "lag_p99_ms": [1e3 * bounds.loop_lag_amber_s, 1e3 * bounds.loop_lag_red_s],
        "lateness_p99_ms": [1e3 * bounds.lateness_amber_s, 1e3 * bounds.lateness_red_s],
        "machine_cpu": [bounds.machine_amber, None],
        "run_wait": [bounds.run_wait_amber, None],
        "steal": [bounds.steal_amber, None],
        "throttled": [bounds.throttled_amber, None],
        "stopped": [bounds.stopped_amber, None],
        "blocked": [bounds.blocked_amber, None],
        "lost": [0.0, 0.0],
        "clock_uncertainty_ms": [5.0, None],
        "disk_busy": [0.8, None],
    }


def grade_generator(figure: GeneratorFigure, value: float | None, bounds: GeneratorBounds) -> Status:
    """Return the status of one figure of the generator's health; every view uses this function.

    >>> [grade_generator("cpu", cores, generator_bounds()) for cores in (0.78, 0.9, 0.97, None)]
    ['green', 'amber', 'red', 'not enough data']
    """
    amber, red = (math.inf if bound is None else bound for bound in bounds[figure])
    return grade(math.nan if value is None else value, amber, red)


def parse_bounds(text: str) -> VerdictBounds:
    """Return bounds of the verdict from ``name=value`` pairs, separated by commas; the others keep their defaults.

    >>> parse_bounds("cov_red=0.2, feedback_amber=0.05").cov_red
    0.2
    >>> parse_bounds("cov=0.2")
    Traceback (most recent call last):
        ...
    ValueError: 'cov' is not a bound of the verdict, expected one of cov_amber, cov_red, pause_amber, pause_red, ...
    """
    known = asdict(DEFAULT_BOUNDS)
    given = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, _, value = (piece.strip() for piece in part.partition("="))
        if name not in known:
            raise ValueError(f"{name!r} is not a bound of the verdict, expected one of {', '.join([*known][:4])}, ...")
        try:
            given[name] = type(known[name])(value)
        except ValueError:
            raise ValueError(f"{name}={value!r} is not a number") from None
    return VerdictBounds(**given)


@dataclass(frozen=True)
class WorkloadModel:
    """Intended workload of a test, as far as it is known.

    - ``kind`` ``closed`` (a fixed pool of users, each waits for its answer), ``open`` (arrivals independent of answers)
    - ``users`` size of the pool, None where unknown
    - ``think_time_s`` target mean of the think time in seconds and ``think_time_cov`` its coefficient of variation
    - ``requests_per_task`` requests that follow each other without a think time, None to estimate it
    - ``poisson_arrivals`` true if the arrivals of the population are planned as a Poisson process
    - ``session_s`` mean session duration of a user of the population, in seconds
    - ``session_quantiles_s`` its quantiles at ``verdict.dispersion.STAY_SHARES``, None for an exponential law
    """

    kind: str = "unknown"
    users: int | None = None
    think_time_s: float | None = None
    think_time_cov: float | None = None
    requests_per_task: float | None = None
    poisson_arrivals: bool = False
    session_s: float | None = None
    session_quantiles_s: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        one_of("kind", self.kind, KINDS)
        if self.users is not None:
            integer("users", self.users, least=1)
        for name in ("think_time_s", "think_time_cov", "session_s"):
            if (value := getattr(self, name)) is not None:
                not_negative(name, value)
        if self.session_quantiles_s is not None:
            given = tuple(not_negative("session_quantiles_s", value) for value in self.session_quantiles_s)
            if list(given) != sorted(given):
                raise refusal("session_quantiles_s", "ascending", given)
            object.__setattr__(self, "session_quantiles_s", given)
        if self.requests_per_task is not None and not self.requests_per_task >= 1:
            raise refusal("requests_per_task", ">= 1", self.requests_per_task)


@dataclass(frozen=True)
class AnalysisSettings:
    """Settings of the analysis of a log.

    - ``percentile_rule`` one of :data:`locust_realism.analysis.percentiles.RULES`
    - ``rate_convention`` ``gaps``: 1 / mean interval; ``toolkit``: n / (t_last + R_last - t_first), as published
    - ``skip_s`` seconds left out at the start, ``duration_s`` seconds analysed (both ends included), ``cooldown_s``
      seconds left out at the end
    - ``skip_requests`` requests left out at the start, ``sample_requests`` requests analysed after them
    - ``mser5`` leaves out the warm-up that the MSER-5 rule finds
    - ``group_sizes`` numbers of users for the CoV by group size, None for a ladder from 1 to all
    - ``max_names`` names with rows of their own, the most requested ones
    - ``max_user_rows`` most rows behind the statistics of single users, which bounds their cost on long runs
    - ``grain_s`` resolution of the launch times in the verdict: gevent's timers wake all users that are due within a
      millisecond together
    - ``charts`` computes the curves of the charts

    >>> AnalysisSettings.toolkit(skip_s=120, duration_s=1200).percentile_rule
    'jmeter'
    >>> AnalysisSettings(skip_s=-1)
    Traceback (most recent call last):
        ...
    ValueError: skip_s must be >= 0, not -1.0
    """

    percentile_rule: str = "nearest_rank"
    rate_convention: str = "gaps"
    skip_s: float = 0.0
    duration_s: float | None = None
    cooldown_s: float = 0.0
    skip_requests: int = 0
    sample_requests: int | None = None
    mser5: bool = False
    group_sizes: tuple[int, ...] | None = None
    confidence: float = 0.95
    max_names: int = 1000
    max_user_rows: int = 1_000_000
    grain_s: float = 0.001
    charts: bool = True
    bounds: VerdictBounds = field(default_factory=VerdictBounds)

    def __post_init__(self) -> None:
        one_of("percentile_rule", self.percentile_rule, RULES)
        one_of("rate_convention", self.rate_convention, RATE_CONVENTIONS)
        for name in ("skip_s", "cooldown_s", "grain_s"):
            not_negative(name, getattr(self, name))
        if self.duration_s is not None:
            positive("duration_s", self.duration_s)
        integer("skip_requests", self.skip_requests)
        for name in ("sample_requests", "max_names", "max_user_rows"):
            if (value := getattr(self, name)) is not None:
                integer(name, value, least=1)
        share("confidence", self.confidence)
        for size in self.group_sizes or ():
            integer("group_sizes", size, least=1)

    @classmethod
    def toolkit(cls, **changes: Any) -> AnalysisSettings:
        """Return the conventions of the web-generator-toolkit (Brady and Gunther), which give its published tables."""
        return cls(**{"percentile_rule": "jmeter", "rate_convention": "toolkit", **changes})
