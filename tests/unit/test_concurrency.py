"""Expected N(t), initial users and finite source, against independent theory and against simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest

from locust_realism.common.numerics import Floats
from locust_realism.workload.distributions import constant, exponential, lognormal, uniform
from locust_realism.workload.distributions.base import Distribution
from locust_realism.workload.rates.profile import RateProfile
from locust_realism.workload.rates.shapes import ConstantRate, PiecewiseLinearRate, SineRate, StepRate
from locust_realism.workload.users.arrivals import arrival_times
from locust_realism.workload.users.concurrency import (
    FiniteSource,
    Stretch,
    expected_users,
    expected_users_of,
    owners,
    poisson_band,
    poisson_quantile,
    sample_initial,
)


def simulated_users(profile: RateProfile, duration: Distribution, t: Floats, rng: np.random.Generator) -> Floats:
    """Return N at the times t >= 0 of one simulated population that starts in equilibrium."""
    begins = arrival_times(profile, float(t.max()) + 1e-9, rng)
    ends = begins + duration.sample(rng, len(begins))
    residual = sample_initial(profile, duration, 0.0, rng)
    left = np.concatenate((residual, ends))
    return len(residual) + np.array([np.sum(begins <= at) - np.sum(left <= at) for at in t])


@pytest.mark.parametrize("duration", [exponential(30), constant(30), lognormal(30, cov=1.2), uniform(0, 60)])
def test_littles_law_holds_for_every_distribution(duration: Distribution) -> None:
    mean = expected_users(ConstantRate(2), duration, [0, 17, 1000])
    assert mean == pytest.approx([60, 60, 60], rel=1e-9)


def test_the_curve_from_empty_is_that_of_the_textbooks() -> None:
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


def test_users_in_session_keep_their_times_when_settings_change() -> None:
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
    runs = np.array([simulated_users(profile, duration, t, rng) for _ in range(400)])
    mean = expected_users(profile, duration, t)
    error = (runs.mean(axis=0) - mean) / np.sqrt(mean / 400)
    assert np.abs(error).max() < 3.5
    ratio = runs.var(axis=0, ddof=1) / mean
    assert np.abs(ratio - 1).max() < 4 * math.sqrt(2 / 399)
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


def test_initial_sessions_began_mostly_at_a_high_rate() -> None:
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
    low, high = poisson_band(100.0, 0.999)
    assert stats.poisson.cdf(high, 100) - stats.poisson.cdf(low - 1, 100) >= 0.999
    assert stats.poisson.cdf(high - 1, 100) - stats.poisson.cdf(low, 100) < 0.999


def test_the_span_of_a_profile_is_its_period_or_its_last_point() -> None:
    assert ConstantRate(1).span == 0
    assert SineRate(0, 1, 3600).span == 3600
    assert (2 * SineRate(0, 1, 3600).compressed(24).shifted(5)).span == 150
    assert PiecewiseLinearRate([(0, 0), (500, 5)]).span == 500
    assert PiecewiseLinearRate([(100, 0), (500, 5)], repeat=True).span == 400
    assert StepRate([(10, 1), (20, 2)], end=90, repeat=True).span == 80
    assert (StepRate([(0, 1), (10, 2)], end=90) + ConstantRate(1)).span == 90


def test_bad_settings_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="start must be one of"):
        expected_users(ConstantRate(1), exponential(1), 0, start="full")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="warm_up"):
        expected_users(ConstantRate(1), exponential(1), 0, warm_up=-1)


def test_a_finite_source_is_binomial() -> None:
    source = FiniteSource(400, away=900, session=300)
    rng = np.random.default_rng(8)
    drawn = rng.binomial(400, source.presence, 4000)
    assert abs(drawn.mean() - source.mean) < 4 * math.sqrt(source.variance / 4000)
    assert abs(np.mean(drawn <= source.quantile(0.99)) - 0.99) < 0.01


def test_rendezvous_hashing_is_even_and_moves_as_few_people_as_possible() -> None:
    people = np.arange(20_000)
    four = owners(people, [0, 3, 7, 9])
    counts = np.bincount(four)[[0, 3, 7, 9]]
    assert np.abs(counts - 5000).max() < 4 * math.sqrt(20_000 * 0.25 * 0.75)
    five = owners(people, [0, 3, 5, 7, 9])
    moved = four != five
    assert set(five[moved]) == {5}
    assert abs(moved.mean() - 0.2) < 0.02
    with pytest.raises(ValueError, match="members"):
        owners([1], [])
