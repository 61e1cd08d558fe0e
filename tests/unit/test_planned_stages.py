"""Stages of the plan or of constant users: exact limits and held values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from locust_realism.analysis.settings import AnalysisSettings, WorkloadModel
from locust_realism.analysis.summary import summarize
from locust_realism.analysis.verdict.evidence import Facts
from locust_realism.analysis.verdict.stages import held_rates, planned_stages
from locust_realism.recording.launches import LaunchLog
from locust_realism.workload.rates.profile import RateProfile
from locust_realism.workload.rates.shapes import ConstantRate, PiecewiseLinearRate, SineRate, StepRate
from locust_realism.workload.users.arrivals import arrival_times

ORIGIN = 1_700_000_000_000_000


@given(
    st.lists(st.tuples(st.floats(10.5, 400), st.sampled_from([0.0, 0.5, 2.0, 7.25, 90.0])), min_size=1, max_size=8),
    st.floats(12, 100),
)
@settings(deadline=None, max_examples=80)
def test_the_steps_of_a_profile_are_its_stages(lengths: list[tuple[float, float]], rest: float) -> None:
    """Any steps: limits to a millisecond, equal neighbours one stage, no stage without launches."""
    steps, t = [], 0.0
    for length, rate in lengths:
        steps.append((t, rate))
        t += length
    end = steps[-1][0] + rest
    expected: list[list[float]] = []
    for i, (start, rate) in enumerate(steps):
        stop = steps[i + 1][0] if i + 1 < len(steps) else end
        if expected and expected[-1][1] == start and expected[-1][2] == rate:
            expected[-1][1] = stop
        elif rate:
            expected.append([start, stop, rate])
    long_enough = [each for each in expected if each[1] - each[0] >= max(10.0, 0.01 * end)]
    found = held_rates(StepRate(steps), end)
    assert len(found) == len(long_enough)
    for mine, theirs in zip(found, long_enough, strict=True):
        assert mine == pytest.approx(tuple(theirs), abs=2e-3)


def test_only_the_constant_part_of_a_ramp_is_a_stage() -> None:
    ramp = PiecewiseLinearRate([(0, 0), (33.3, 20), (95.7, 20), (120, 0)])
    assert held_rates(ramp, 120) == [(pytest.approx(33.3, abs=0.02), pytest.approx(95.7, abs=0.02), 20.0)]


@pytest.mark.parametrize("period", [60, 3600, 86_400, 604_800])
@pytest.mark.parametrize("duration", [60, 3600, 86_400])
def test_a_rate_that_always_changes_has_no_stage(period: float, duration: float) -> None:
    assert held_rates(SineRate(min_rate=1, max_rate=9, period=period), duration) == []


@pytest.mark.parametrize("duration", [5.0, 0.0, 1.0])
def test_a_run_that_is_too_short_has_no_stage(duration: float) -> None:
    assert held_rates(ConstantRate(3), duration) == []


def test_a_constant_rate_is_one_stage_even_in_a_run_of_weeks() -> None:
    assert held_rates(ConstantRate(1234.5), 3e6) == [(0.0, 3e6, 1234.5)]


def log_of(profile: RateProfile, duration: float, users: np.ndarray | int = -1) -> LaunchLog:
    times = arrival_times(profile, duration, np.random.default_rng(5))
    many = (
        users
        if isinstance(users, int)
        else users[np.minimum((times / duration * len(users)).astype(int), len(users) - 1)]
    )
    return LaunchLog.build(ORIGIN + np.rint(times * 1e6).astype(np.int64), 5000, users=many)


def stages_of(log: LaunchLog, facts: Facts, **changes: object) -> list[dict[str, object]]:
    document = summarize(
        log,
        facts=facts,
        run_start_us=ORIGIN,
        settings=AnalysisSettings(charts=False, **changes),  # type: ignore[arg-type]
    )
    return [row for row in document["stages"] if row["kind"] == "stage"]


STEPS = StepRate([(0, 20), (100, 60), (200, 40)])


def test_each_step_of_a_plan_is_a_row_with_planned_and_measured_rate() -> None:
    model = WorkloadModel(kind="open", think_time_s=2.0)
    rows = stages_of(log_of(STEPS, 300), Facts(model=model, planned_profile=STEPS))
    assert [row["planned_rate"] for row in rows] == [20, 60, 40]
    assert {row["think_time_s"] for row in rows} == {2.0}
    for row, rate in zip(rows, (20, 60, 40), strict=True):
        assert row["duration_s"] == pytest.approx(100, abs=0.5)
        assert row["rate"] == pytest.approx(rate, abs=4 * np.sqrt(rate / 100))
        assert abs(row["cov"] - 1) < 4 / np.sqrt(row["n"])  # type: ignore[operator,call-overload]
    assert sum(int(row["n"]) for row in rows) >= len(log_of(STEPS, 300)) - 2  # type: ignore[call-overload]


def test_users_and_rate_over_the_same_time_are_one_stage() -> None:
    together = stages_of(log_of(STEPS, 300, np.repeat([20, 60, 40], 100)), Facts(planned_profile=STEPS))
    assert [(row["users"], row["planned_rate"]) for row in together] == [(20, 20), (60, 60), (40, 40)]
    apart = stages_of(log_of(STEPS, 300, 7), Facts(planned_profile=STEPS))
    assert [(row.get("users"), row["planned_rate"]) for row in apart] == [(7, None), (None, 20), (None, 60), (None, 40)]


def test_constant_arrivals_of_users_are_stages_too() -> None:
    rows = stages_of(log_of(ConstantRate(30), 300), Facts(arrival_profile=STEPS))
    assert [(row["arrival_rate"], row["planned_rate"]) for row in rows] == [(20, None), (60, None), (40, None)]


def test_a_stage_ends_with_the_window() -> None:
    rows = stages_of(log_of(STEPS, 300), Facts(planned_profile=STEPS), skip_s=50.0, duration_s=150.0)
    assert [row["planned_rate"] for row in rows] == [20, 60]
    assert [row["start_s"] for row in rows] == [pytest.approx(50, abs=0.5), 100.0]
    assert [row["duration_s"] for row in rows] == [pytest.approx(50, abs=0.5), pytest.approx(100, abs=0.5)]
    assert rows[0]["rate"] == pytest.approx(20, abs=4 * np.sqrt(20 / 50))


def test_a_log_without_launches_has_no_stages() -> None:
    assert planned_stages(LaunchLog.empty(), Facts(planned_profile=STEPS), 0) == []
