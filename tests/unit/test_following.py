"""Launches that follow a population's plan: the expected course, and the verdict on a planned day."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from locust_realism.analysis.summary import summarize
from locust_realism.analysis.verdict.detrend import following_launches
from locust_realism.analysis.verdict.dispersion import STAY_SHARES, Stay
from locust_realism.recording.launches import LaunchLog
from locust_realism.workload.distributions import Distribution, constant, exponential, lognormal, uniform
from locust_realism.workload.rates.profile import RateProfile
from locust_realism.workload.rates.shapes import ConstantRate, PiecewiseLinearRate, SineRate, StepRate
from locust_realism.workload.users.concurrency import expected_users
from support import BENCHMARKS, loaded

DAY = SineRate(min_rate=1, max_rate=9, period=1000, peak_at=600)
RUSH = PiecewiseLinearRate([(0, 1), (300, 1), (400, 12), (900, 2)])


def stay_of(stays: Distribution) -> Stay:
    """Return the law of stays as the plan of a run has it."""
    return Stay.of(stays.mean, tuple(np.asarray(stays.ppf(STAY_SHARES)).tolist()))


def course(profile: RateProfile, stays: Distribution, end_s: float = 1000.0) -> np.ndarray:
    """Return the expected users in each of 200 pieces of the run, over their mean."""
    found = following_launches(profile, stay_of(stays), end_s)
    assert found is not None
    edges = np.linspace(0, end_s, 201)
    users = np.diff(found.cumulative(edges))
    return np.asarray(users / users.mean())


STAYS = [exponential(3), exponential(60), constant(20), lognormal(20, cov=1.5), uniform(0, 80)]


@pytest.mark.parametrize("profile", [DAY, RUSH, StepRate([(0, 2), (500, 6)])], ids=lambda profile: profile.kind)
@pytest.mark.parametrize("stays", STAYS, ids=lambda stays: f"{stays.kind}-{stays.mean:g}")
def test_users_come_and_go_as_theory_expects(profile: RateProfile, stays: Distribution) -> None:
    """Compare with E[Lambda(t) - Lambda(t - S)] over 4,096 quantiles of S, an independent computation."""
    theory = np.asarray(expected_users(profile, stays, np.arange(0.5, 1000))).reshape(200, 5).mean(axis=1)
    assert course(profile, stays) == pytest.approx(theory / theory.mean(), rel=0.01, abs=0.01)


def test_a_law_of_stays_matters() -> None:
    """Negative control: exponential stays of the same mean are a hundredth of the mean off and more."""
    theory = np.asarray(expected_users(RUSH, constant(60), np.arange(0.5, 1000))).reshape(200, 5).mean(axis=1)
    assert np.abs(course(RUSH, exponential(60)) - theory / theory.mean()).max() > 0.1


@pytest.mark.parametrize("profile", [ConstantRate(3), ConstantRate(0), StepRate([(0, 5.0), (100, 5.02)])])
def test_nearly_constant_arrivals_have_no_course(profile: RateProfile) -> None:
    assert following_launches(profile, Stay.of(30), 600) is None
    assert following_launches(DAY, Stay.of(0), 600) is None


@pytest.fixture(scope="module")
def day() -> tuple[LaunchLog, Any, int]:
    module = loaded(BENCHMARKS / "calibrate_verdict.py")
    log, facts = module.population_day(np.random.default_rng(3), 10_000)
    return log, facts, module.EPOCH_US


def statuses(log: LaunchLog, facts: Any, start_us: int) -> dict[int, str]:
    document = summarize(log, facts=facts, run_start_us=start_us)
    return {0: document["verdict"]["overall"]} | {c["id"]: c["status"] for c in document["verdict"]["checks"]}


def test_a_population_that_follows_its_day_is_green_and_without_the_plan_it_is_not(day: Any) -> None:
    log, facts, start = day
    assert statuses(log, facts, start)[0] == "green"
    without = statuses(log, replace(facts, arrival_profile=None), start)
    assert without[0] == without[6] == "red"
    names = summarize(log, facts=facts, run_start_us=start)["names"]
    assert [row["status"] for row in names] == ["green"]


def test_another_day_than_the_planned_one_is_still_red(day: Any) -> None:
    """Negative controls: the plan's peak at the run's trough, and launches in fives that follow the plan."""
    log, facts, start = day
    opposite = SineRate(4, 36, period=25, peak_at=18.75)
    assert statuses(log, replace(facts, arrival_profile=opposite), start)[6] == "red"
    fives = log.take(np.repeat(np.arange(0, len(log), 5), 5))
    shifted = replace(fives, launch_us=fives.launch_us + np.tile(np.arange(5) * 300, len(fives) // 5))
    found = statuses(shifted, facts, start)
    assert found[1] == found[3] == "red"
