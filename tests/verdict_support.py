"""Evidence of a sound run for tests of the verdict, and changes of it."""

from dataclasses import replace

from locust_realism.analysis.settings import VerdictBounds, WorkloadModel
from locust_realism.analysis.verdict.evidence import Evidence, Facts, Gaps
from locust_realism.analysis.verdict.users import UserTimes

BOUNDS = VerdictBounds()
SOUND_GAPS = Gaps(
    n=100_000,
    rate=100.0,
    raw_cov=1.0,
    cov=1.0,
    short_share=1.0,
    longest_share=0.032,
    longest_s=0.12,
    longest_at_s=40.0,
    cov_without_longest=0.965,
    correlations=(0.001, 0.002),
    distance=0.003,
)
SOUND_USERS = UserTimes(users=100, response_share=0.01, think_mean=1.0, think_se=0.003, round_trip=1.01, user_cov=0.98)
CHANGES = {key: {"change": 0.001, "standard_error": 0.004, "segments": 10} for key in ("p50", "p95", "mean", "rate")}
SCALE = {"window_s": 1.0, "windows": 1000, "independent_windows": 1000.0, "idc": 1.0, "model": 1.0}
SOUND = Evidence(
    gaps=SOUND_GAPS,
    users=SOUND_USERS,
    facts=Facts(
        model=WorkloadModel(kind="closed", users=100, think_time_s=1.0, think_time_cov=1.0, poisson_arrivals=True),
        health={"loop_lag_p99_ms": 2.0, "cpu_max": 0.4},
        clock_offset_sd_us=20.0,
    ),
    population=1e9,
    groups=[{"users": k, "n": 1000 * k, "cov": 1.0} for k in (1, 10, 100)],
    dispersion=[SCALE],
    steady={"enough": True, "changes": CHANGES, "mser5_share": 0.01},
    lateness_p99_s=0.002,
    starts=1000,
    starts_cov=1.0,
    workers=[{"worker": k, "n": 50_000, "rate": 50.0, "cov": 1.0, "bunch_ms": None} for k in (0, 1)],
)


def gaps(**changes):
    """Return sound evidence with other figures of the gaps."""
    return replace(SOUND, gaps=replace(SOUND_GAPS, **changes))
