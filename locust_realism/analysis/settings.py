"""What an analysis assumes and where the verdict draws its lines, checked when built."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from locust_realism.analysis.percentiles import RULES

RATE_CONVENTIONS = ("gaps", "toolkit")
KINDS = ("closed", "open", "unknown")


def _require(condition: bool, name: str, value: Any, bound: str) -> None:
    if not condition:
        raise ValueError(f"{name} is {value!r}, expected {bound}")


@dataclass(frozen=True)
class VerdictBounds:
    """Where green ends (``_amber``) and where red begins (``_red``) for each check; see docs/verdict.md.

    An effect counts only when it lies beyond its bound and more than ``standard_errors`` standard errors from the
    reference. Those of checks 2, 3, 4, 9 and 11 were set by simulation (benchmarks/calibrate_verdict.py).
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
    feedback_amber: float = 0.03
    feedback_red: float = 0.08
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
    mser_share_amber: float = 0.5
    offset_amber: float = 0.1
    offset_red: float = 1.0
    standard_errors: float = 3.0
    min_gaps: int = 100
    min_gaps_shape: int = 2000

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            _require(value > 0, item.name, value, "more than 0")
            if item.name.replace("_red", "_amber") != item.name:
                amber = getattr(self, item.name.replace("_red", "_amber"))
                _require(value >= amber, item.name, value, f"at least {amber}, where amber begins")


def parse_bounds(text: str) -> VerdictBounds:
    """Bounds of the verdict from ``name=value`` pairs, separated by commas; what is not named keeps its default.

    >>> parse_bounds("cov_red=0.2, feedback_amber=0.05").cov_red
    0.2
    >>> parse_bounds("cov=0.2")
    Traceback (most recent call last):
        ...
    ValueError: 'cov' is not a bound of the verdict, expected one of cov_amber, cov_red, pause_amber, pause_red, ...
    """
    known = {item.name: item for item in fields(VerdictBounds)}
    given: dict[str, Any] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, _, value = (piece.strip() for piece in part.partition("="))
        if name not in known:
            first = ", ".join(list(known)[:4])
            raise ValueError(f"{name!r} is not a bound of the verdict, expected one of {first}, ...")
        try:
            given[name] = int(value) if isinstance(known[name].default, int) else float(value)
        except ValueError:
            raise ValueError(f"{name}={value!r} is not a number") from None
    return VerdictBounds(**given)


@dataclass(frozen=True)
class WorkloadModel:
    """What the test was meant to do, as far as it is known.

    - ``kind`` ``closed`` (a fixed pool of users, each waits for its answer), ``open`` (arrivals whatever the answers)
    - ``users`` size of the pool, None where unknown
    - ``think_time_s`` target mean of the think time in seconds and ``think_time_cov`` its coefficient of variation
    - ``requests_per_task`` requests that follow each other without a think time, None to estimate it
    - ``poisson_arrivals`` whether the population's arrivals are planned as a Poisson process
    - ``session_s`` mean time that a user of the population stays, in seconds
    """

    kind: str = "unknown"
    users: int | None = None
    think_time_s: float | None = None
    think_time_cov: float | None = None
    requests_per_task: float | None = None
    poisson_arrivals: bool = False
    session_s: float | None = None

    def __post_init__(self) -> None:
        _require(self.kind in KINDS, "kind", self.kind, f"one of {', '.join(KINDS)}")
        _require(self.users is None or self.users >= 1, "users", self.users, "at least 1")
        for name in ("think_time_s", "think_time_cov", "session_s"):
            value = getattr(self, name)
            _require(value is None or value >= 0, name, value, "at least 0")
        value = self.requests_per_task
        _require(value is None or value >= 1, "requests_per_task", value, "at least 1")


@dataclass(frozen=True)
class AnalysisSettings:
    """How a log is analysed.

    - ``percentile_rule`` one of :data:`locust_realism.analysis.percentiles.RULES`
    - ``rate_convention`` ``gaps``: 1 / mean interval; ``toolkit``: n / (t_last + R_last - t_first), as published
    - ``skip_s`` seconds left out at the start, ``duration_s`` seconds analysed (both ends included), ``cooldown_s``
      seconds left out at the end
    - ``skip_requests`` requests left out at the start, ``sample_requests`` requests analysed after them
    - ``mser5`` leave out the warm-up that the MSER-5 rule finds
    - ``group_sizes`` numbers of users for the CoV by group size, None for a ladder from 1 to all
    - ``max_names`` names with rows of their own, the most requested ones
    - ``max_user_rows`` rows of whole users on which per-user statistics rest, so that they stay cheap on long runs
    - ``grain_s`` resolution at which the verdict looks at launch times: gevent's timers wake all users that are due
      within a millisecond together, which is the timer's doing and not the users'
    - ``charts`` whether the curves of the charts are computed

    >>> AnalysisSettings.toolkit(skip_s=120, duration_s=1200).percentile_rule
    'jmeter'
    >>> AnalysisSettings(skip_s=-1)
    Traceback (most recent call last):
        ...
    ValueError: skip_s is -1, expected at least 0
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
        _require(self.percentile_rule in RULES, "percentile_rule", self.percentile_rule, f"one of {', '.join(RULES)}")
        _require(
            self.rate_convention in RATE_CONVENTIONS,
            "rate_convention",
            self.rate_convention,
            f"one of {', '.join(RATE_CONVENTIONS)}",
        )
        for name in ("skip_s", "cooldown_s", "skip_requests", "grain_s"):
            _require(getattr(self, name) >= 0, name, getattr(self, name), "at least 0")
        for name in ("duration_s", "sample_requests"):
            value = getattr(self, name)
            _require(value is None or value > 0, name, value, "more than 0")
        for name in ("max_names", "max_user_rows"):
            _require(getattr(self, name) >= 1, name, getattr(self, name), "at least 1")
        _require(0 < self.confidence < 1, "confidence", self.confidence, "a number between 0 and 1, both excluded")
        sizes = self.group_sizes
        _require(sizes is None or all(size >= 1 for size in sizes), "group_sizes", sizes, "numbers of users from 1 on")

    @classmethod
    def toolkit(cls, **changes: Any) -> AnalysisSettings:
        """The conventions of the web-generator-toolkit (Brady and Gunther), with which published tables come out."""
        return cls(**{"percentile_rule": "jmeter", "rate_convention": "toolkit", **changes})
