"""Expected and sampled N(t) against theory that is derived apart from the code, and against simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest

from locust_realism.workload.arrivals import arrival_times
from locust_realism.workload.distributions import constant, exponential, lognormal, uniform
from locust_realism.workload.populations import (
    Stretch,
    expected_users,
    expected_users_of,
    natural_span,
    poisson_band,
    poisson_quantile,
    sample_initial,
    sample_users,
    time_average_sd,
)
from locust_realism.workload.rates import ConstantRate, PiecewiseLinearRate, SineRate, StepRate


@pytest.mark.parametrize("duration", [exponential(30), constant(30), lognormal(30, cov=1.2), uniform(0, 60)])
def test_a_constant_rate_has_littles_law_whatever_the_distribution(duration: object) -> None:
    mean = expected_users(ConstantRate(2), duration, [0, 17, 1000])
    assert mean == pytest.approx([60, 60, 60], rel=1e-9)


def test_from_empty_the_exponential_curve_is_the_textbooks() -> None:
    t = np.array([0, 10, 30, 100, 300.0])
    curve = expected_users(ConstantRate(2), exponential(30), t, start="empty")
    assert curve == pytest.approx(60 * (1 - np.exp(-t / 30)), rel=2e-4, abs=1e-9)


def test_a_sine_is_followed_with_the_lag_and_damping_of_eick_massey_and_whitt() -> None:
    # For exponential S and lambda(t) = m + a sin(wt): m(t) = S (m + a (sin wt - w S cos wt) / (1 + (w S)^2)).
    period, stay = 100.0, 20.0
    w = 2 * math.pi / period
    t = np.linspace(0, 250, 26)
    curve = expected_users(SineRate(1, 5, period), exponential(stay), t)
    theory = stay * (3 + 2 * (np.sin(w * t) - w * stay * np.cos(w * t)) / (1 + (w * stay) ** 2))
    assert curve == pytest.approx(theory, rel=2e-4)
    peak = t[np.argmax(curve[:11])]
    assert peak > period / 4, "the peak of N comes after the peak of the rate"


def test_an_edit_leaves_those_who_are_in_to_stay_as_they_meant_to() -> None:
    t = np.array([0, 50, 60, 80, 400.0])
    edited = [Stretch(-np.inf, ConstantRate(2), exponential(30)), Stretch(50, ConstantRate(4), exponential(10))]
    old, new = 60 * np.exp(-np.maximum(t - 50, 0) / 30), 40 * (1 - np.exp(-np.maximum(t - 50, 0) / 10))
    assert expected_users_of(edited, t) == pytest.approx(old + new, rel=1e-3)


def test_during_the_warm_up_the_users_enter_in_a_straight_line() -> None:
    curve = expected_users(ConstantRate(2), exponential(30), [0, 5, 10, 20], warm_up=10)
    assert curve == pytest.approx([0, 30, 60, 60])


def test_simulated_populations_agree_with_the_expected_curve_and_are_poisson() -> None:
    rng = np.random.default_rng(11)
    profile, duration = SineRate(2, 10, 40), lognormal(8, cov=1.2)
    t = np.array([0.0, 10, 25, 60])
    runs = np.array([sample_users(profile, duration, t, rng) for _ in range(400)])
    mean = expected_users(profile, duration, t)
    error = (runs.mean(axis=0) - mean) / np.sqrt(mean / 400)
    assert np.abs(error).max() < 3.5
    ratio = runs.var(axis=0, ddof=1) / mean
    assert np.abs(ratio - 1).max() < 4 * math.sqrt(2 / 399)
    empty = np.array([sample_users(profile, duration, t, rng, start="empty")[0] for _ in range(20)])
    assert (empty == 0).all()
    wrong = (runs.mean(axis=0) - profile.rate(t) * duration.mean) / np.sqrt(mean / 400)
    assert np.abs(wrong).max() > 10, "negative control: without the lag the curve is not met"


def test_residual_sessions_of_the_start_have_the_equilibrium_distribution() -> None:
    rng = np.random.default_rng(5)
    duration = lognormal(10, cov=1.0)
    left = np.concatenate([sample_initial(ConstantRate(100), duration, 0.0, rng) for _ in range(30)])
    expected = 10 * (1 + 1.0**2) / 2
    # The third moment gives the variance of the residual: E[S^3] / (3 E[S]) - expected^2, E[S^3] = m^3 (1 + c^2)^3.
    sd = math.sqrt(10**3 * 8 / 30 - expected**2)
    assert abs(left.mean() - expected) < 4 * sd / math.sqrt(len(left))
    assert abs(left.mean() - duration.mean / 2) > 10 * sd / math.sqrt(len(left)), "not just half a session"
    quarter = [len(sample_initial(ConstantRate(100), duration, 0.0, rng, share=0.25)) for _ in range(40)]
    assert abs(np.mean(quarter) - 250) < 4 * math.sqrt(250 / 40)
    assert len(sample_initial(ConstantRate(0), duration, 0.0, rng)) == 0


def test_sessions_that_began_when_the_rate_was_high_are_more_among_those_under_way() -> None:
    rng = np.random.default_rng(6)
    burst = StepRate([(0, 100), (5, 1)])
    left = sample_initial(burst, constant(20), 15.0, rng)  # 1000 of 1010 began before 5 s: at most 10 s are left
    assert np.mean(left < 10.001) > 0.95
    steady = sample_initial(ConstantRate(50), constant(20), 15.0, rng)
    assert 0.4 < np.mean(steady < 10.001) < 0.6


def test_poisson_quantiles_are_the_smallest_integers() -> None:
    from scipy import stats

    means = np.array([0.001, 0.4, 3, 59.3, 240, 410, 9999.5])
    for q in (0.0005, 0.5, 0.999, 0.9995):
        assert poisson_quantile(q, means).tolist() == stats.poisson.ppf(q, means).astype(int).tolist()
    low, high = poisson_band(100.0)
    assert stats.poisson.cdf(high, 100) - stats.poisson.cdf(low - 1, 100) >= 0.999
    assert stats.poisson.cdf(high - 1, 100) - stats.poisson.cdf(low, 100) < 0.999


def test_the_time_average_scatters_as_the_formula_says() -> None:
    rng = np.random.default_rng(3)
    profile, duration, window = ConstantRate(5), exponential(2), 400.0
    averages = []
    for _ in range(200):
        begins = np.concatenate((np.zeros(0), arrival_times(profile, window, rng)))
        stays = duration.sample(rng, len(begins))
        old = sample_initial(profile, duration, 0.0, rng)
        inside = np.minimum(begins + stays, window) - begins
        averages.append((inside.sum() + np.minimum(old, window).sum()) / window)
    ratio = np.std(averages, ddof=1) / time_average_sd(5, duration, window)
    assert abs(ratio - 1) < 4 / math.sqrt(2 * 199)
    assert abs(np.mean(averages) - 10) < 4 * time_average_sd(5, duration, window) / math.sqrt(200)


def test_the_span_of_a_profile_is_its_period_or_its_last_point() -> None:
    assert natural_span(ConstantRate(1), 60) == 60
    assert natural_span(SineRate(0, 1, 3600), 60) == 3600
    assert natural_span(SineRate(0, 1, 3600).compressed(24), 60) == 150
    assert natural_span(PiecewiseLinearRate([(0, 0), (500, 5)]), 60) == 500
    assert natural_span(StepRate([(0, 1), (10, 2)], end=90) + ConstantRate(1), 60) == 90


def test_bad_settings_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="start must be one of"):
        expected_users(ConstantRate(1), exponential(1), 0, start="full")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="warm_up"):
        expected_users(ConstantRate(1), exponential(1), 0, warm_up=-1)
