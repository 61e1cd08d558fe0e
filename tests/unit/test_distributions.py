"""Distributions: draws follow the settings, and every user draws from a stream of its own."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from locust_realism.workload.distributions import (
    Distribution,
    constant,
    distribution_from_dict,
    empirical,
    exponential,
    gamma,
    hyperexponential,
    lognormal,
    pareto,
    streams,
    truncated_exponential,
    uniform,
    weibull,
)

N = 200_000
MEASURED = [0.5, 1, 1, 2, 3.5, 8, 21]

CONTINUOUS: list[Distribution] = [
    uniform(2, 9),
    exponential(12),
    truncated_exponential(7, maximum=70),
    truncated_exponential(7, maximum=21),
    truncated_exponential(7, maximum=14.1),
    lognormal(300, cov=1.2),
    lognormal(0.02, cov=0.1),
    gamma(8, cov=0.5),
    gamma(8, cov=2),
    hyperexponential(10, cov=1),
    hyperexponential(10, cov=2),
    hyperexponential(0.3, cov=6),
    weibull(10, cov=1.7),
    weibull(10, shape=3),
    pareto(10, shape=2.5),
    pareto(10, shape=4.5),
    pareto(10, shape=1.2, maximum=600),
    pareto(10, shape=1, maximum=600),
    pareto(10, shape=2, maximum=600),
    pareto(10, shape=0.3, maximum=30),
]
ALL = [constant(3), empirical(MEASURED), empirical(MEASURED, mean=12), *CONTINUOUS]


def mean_error(distribution: Distribution) -> float:
    """Standard error of the mean of N draws."""
    return distribution.mean * distribution.cov / math.sqrt(N)


@pytest.mark.parametrize("distribution", CONTINUOUS, ids=repr)
def test_sample_follows_the_distribution_function(distribution: Distribution) -> None:
    draws = distribution.sample(np.random.default_rng(1), N)
    assert draws.min() >= 0
    assert stats.kstest(draws, distribution.cdf).pvalue > 1e-4
    # The negative control: the same draws against a distribution whose mean is 5 % off.
    if distribution.cov < 3:
        assert stats.kstest(draws * 1.05, distribution.cdf).pvalue < 1e-4


@pytest.mark.filterwarnings("ignore::scipy.integrate.IntegrationWarning")  # rounding of q in the heaviest tails
@pytest.mark.parametrize("distribution", [d for d in ALL if math.isfinite(d.cov)], ids=repr)
def test_mean_and_cov_are_those_of_the_distribution_function(distribution: Distribution) -> None:
    """Integrals over the quantiles, E[X] and E[X^2], are independent of the closed forms."""
    if distribution.kind in ("constant", "empirical"):
        q = (np.arange(7_000) + 0.5) / 7_000
        first, second = distribution.ppf(q).mean(), (distribution.ppf(q) ** 2).mean()
    else:
        # q = 1 - e^-y stretches the tail, so that heavy ones converge too.
        def moment(power: int) -> float:
            def integrand(y: float) -> float:
                return float(distribution.ppf(-math.expm1(-y))) ** power * math.exp(-y)

            pieces = [0, 1e-3, 0.1, 1, 3, 6, 12, 20, 26]
            return float(sum(integrate.quad(integrand, a, b)[0] for a, b in pairwise(pieces)))

        first, second = moment(1), moment(2)
    heavy = distribution.kind == "pareto" and getattr(distribution, "maximum", None) is None
    assert first == pytest.approx(distribution.mean, rel=1e-3 if heavy else 1e-6)
    assert second / first**2 - 1 == pytest.approx(distribution.cov**2, rel=0.15 if heavy else 1e-4, abs=1e-9)


@pytest.mark.parametrize("distribution", [d for d in ALL if d.cov < 3], ids=repr)
def test_sample_has_the_mean_and_the_cov(distribution: Distribution) -> None:
    draws = distribution.sample(np.random.default_rng(2), N)
    assert abs(draws.mean() - distribution.mean) <= 4 * mean_error(distribution) + 1e-12
    if distribution.kind != "pareto" and distribution.cov > 0:
        kurtosis = float(np.mean((draws - draws.mean()) ** 4) / draws.var() ** 2)
        error = distribution.cov * math.sqrt((kurtosis - 1) / 4 + distribution.cov**2) / math.sqrt(N)
        assert abs(draws.std() / draws.mean() - distribution.cov) <= 5 * error


def mean_by_survival(distribution: Distribution, maximum: float) -> float:
    """Return E[X] as the integral of 1 - F, on a grid that is fine near 0 and near the maximum."""
    half = np.concatenate(([0.0], np.geomspace(1e-7, 0.5, 20_000))) * maximum
    x = np.concatenate((half, (maximum - half[::-1])[1:]))
    return float(integrate.trapezoid(1 - distribution.cdf(x), x))


@settings(max_examples=60, deadline=None)
@given(st.floats(0.001, 0.4999), st.floats(1e-3, 1e5))
def test_truncated_exponential_has_the_requested_mean_for_any_settings(share: float, maximum: float) -> None:
    wait = truncated_exponential(share * maximum, maximum)
    assert mean_by_survival(wait, maximum) == pytest.approx(wait.mean, rel=1e-4)
    assert 0 < wait.cov <= 1 + 1e-12
    assert 0 <= wait.ppf(0.0) <= wait.ppf(1.0) <= maximum


@settings(max_examples=60, deadline=None)
@given(st.floats(0.01, 0.99), st.floats(0.05, 30), st.floats(1e-3, 1e5))
def test_bounded_pareto_has_the_requested_mean_for_any_settings(share: float, shape: float, maximum: float) -> None:
    wait = pareto(share * maximum, shape, maximum=maximum)
    assert mean_by_survival(wait, maximum) == pytest.approx(wait.mean, rel=1e-3)
    assert 0 < wait.minimum < wait.mean < maximum
    assert wait.ppf(1.0) == pytest.approx(maximum)


@settings(max_examples=60, deadline=None)
@given(st.floats(0.02, 50))
def test_weibull_has_the_requested_cov(cov: float) -> None:
    assert weibull(3, cov=cov).cov == pytest.approx(cov, rel=1e-9)


@pytest.mark.parametrize("distribution", CONTINUOUS, ids=repr)
def test_quantile_undoes_distribution_function(distribution: Distribution) -> None:
    q = np.linspace(0, 0.999, 500)
    assert distribution.cdf(distribution.ppf(q)) == pytest.approx(q, abs=1e-9)
    assert np.all(np.diff(distribution.ppf(q)) > 0)
    assert distribution.cdf(-1) == 0
    assert distribution.cdf(math.inf) == pytest.approx(1)


@pytest.mark.parametrize("distribution", [d for d in CONTINUOUS if d.cov < 3], ids=repr)
def test_residual_follows_the_stationary_excess(distribution: Distribution) -> None:
    """Residual draws follow F_e(x) = (1/mean) integral of 1 - F from 0 to x, integrated numerically."""
    draws = distribution.sample_residual(np.random.default_rng(3), 50_000)
    x = np.concatenate(([0.0], np.geomspace(distribution.mean * 1e-6, float(draws.max()) * 1.0001, 20_000)))
    excess = np.concatenate(([0.0], integrate.cumulative_trapezoid(1 - distribution.cdf(x), x))) / distribution.mean
    assert stats.kstest(draws, lambda v: np.interp(v, x, excess)).pvalue > 1e-4


def test_residual_of_measured_times() -> None:
    draws = empirical(MEASURED).sample_length_biased(np.random.default_rng(4), N)
    for value in set(MEASURED):
        share = value * MEASURED.count(value) / sum(MEASURED)
        assert np.mean(draws == value) == pytest.approx(share, abs=4 * math.sqrt(share * (1 - share) / N))
    assert constant(3).sample_residual(np.random.default_rng(5), 9).max() < 3


def test_truncated_draws_stay_below_the_maximum() -> None:
    wait = truncated_exponential(7, maximum=21)
    draws = wait.sample(np.random.default_rng(6), N)
    assert draws.max() <= 21
    # The control: cutting off an exponential of that mean loses 15 % of it.
    plain = exponential(7).sample(np.random.default_rng(6), N)
    assert abs(plain[plain <= 21].mean() - 7) > 50 * mean_error(wait)
    assert pareto(10, shape=1.2, maximum=600).sample(np.random.default_rng(7), N).max() <= 600


@pytest.mark.parametrize("distribution", ALL, ids=repr)
def test_a_distribution_survives_json(distribution: Distribution) -> None:
    again = distribution_from_dict(json.loads(json.dumps(distribution.to_dict())))
    assert again == distribution
    assert hash(again) == hash(distribution)
    assert repr(again) == repr(distribution)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: exponential(0), "mean must be > 0, not 0.0"),
        (lambda: exponential(math.inf), "mean must be a finite number, not inf"),
        (lambda: exponential("12"), "mean must be a finite number, not '12'"),
        (lambda: exponential(12, seed=-1), "seed must be an integer >= 0, not -1"),
        (lambda: exponential(12, seed=1.5), "seed must be an integer >= 0, not 1.5"),
        (lambda: constant(-1), "mean must be >= 0, not -1.0"),
        (lambda: uniform(3, 2), "maximum must be >= minimum = 3.0, not 2.0"),
        (lambda: truncated_exponential(7, 14), "mean must be < maximum / 2 = 7.0"),
        (lambda: lognormal(1, 0), "cov must be > 0, not 0.0"),
        (lambda: gamma(1, -1), "cov must be > 0, not -1.0"),
        (lambda: hyperexponential(1, cov=0.9), r"cov must be in \[1.0, 1000000.0\], not 0.9"),
        (lambda: hyperexponential(1, cov=1e7), r"cov must be in \[1.0, 1000000.0\], not 10000000.0"),
        (lambda: weibull(1), "exactly one of cov and shape"),
        (lambda: weibull(1, 1, shape=1), "exactly one of cov and shape"),
        (lambda: weibull(1, shape=0.01), r"shape must be in \[0.1, 100.0\], not 0.01"),
        (lambda: weibull(1, cov=0.001), r"cov must be in \[0.01\d*, 429\d*(\.\d+)?\], not 0.001"),
        (lambda: pareto(1, 1), "shape must be > 1 without a maximum"),
        (lambda: pareto(1, 0.5, maximum=1), "mean must be < maximum = 1.0, not 1.0"),
        (lambda: empirical([]), "values must have at least 1 time, not 0"),
        (lambda: empirical([1, -2]), r"values\[1\] must be >= 0, not -2"),
        (lambda: empirical([0, 0]), "the mean of values must be > 0"),
        (lambda: exponential(1).ppf(1.5), r"q must be in \[0, 1\], not "),
        (lambda: distribution_from_dict({"kind": "normal"}), "kind must be one of"),
        (lambda: distribution_from_dict({"kind": "gamma", "mean": 1}), "does not take these settings"),
    ],
)
def test_impossible_settings_are_refused(build: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()


def test_measured_times_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "think.csv"
    path.write_text("# from the log\npage,seconds\n/a,1.5\n/b,2\n\n/c,0.25\n")
    assert empirical(path, column="seconds").values == (0.25, 1.5, 2.0)
    with pytest.raises(ValueError, match="column must be one of"):
        empirical(path, column="think")
    with pytest.raises(ValueError, match=r"3 bad of 3 rows, a time must be a number >= 0: line 3: '/a'; line 4"):
        empirical(path)
    plain = tmp_path / "plain.txt"
    plain.write_text("think time\n3\n1\n")
    assert empirical(str(plain)).values == (1.0, 3.0)
    plain.write_text("1\nx\n-3\n")
    with pytest.raises(ValueError, match=r"2 bad of 3 rows.*line 2: 'x'; line 3: '-3'"):
        empirical(plain)


def user_class(wait: Distribution) -> type:
    return type("Visitor", (), {"wait_time": wait, "environment": None})


def test_each_user_of_a_class_draws_from_its_own_stream() -> None:
    wait = exponential(2)
    visitor = user_class(wait)
    assert visitor.wait_time is wait  # type: ignore[attr-defined]
    first, second = visitor(), visitor()
    a = np.array([first.wait_time() for _ in range(2000)])
    b = np.array([second.wait_time() for _ in range(2000)])
    assert type(first.wait_time()) is float
    assert len(set(a) & set(b)) == 0
    for draws in (a, b):
        assert stats.kstest(draws, wait.cdf).pvalue > 1e-6
    assert abs(np.corrcoef(a, b)[0, 1]) < 5 / math.sqrt(2000)
    assert wait(first) > 0
    assert wait() > 0


def test_a_subclass_and_a_second_attribute_have_their_own_wait() -> None:
    shared = constant(1)
    parent = type("Parent", (), {"wait_time": shared, "think": shared})
    child = type("Child", (parent,), {"wait_time": constant(2)})
    for _ in range(3):
        assert child().wait_time() == 2
    user = child()
    assert user.think() == 1
    assert user.wait_time() == 2


def test_an_attribute_user_that_is_a_login_is_ignored() -> None:
    visitor = user_class(exponential(2))()
    visitor.user = "alice"
    assert visitor.wait_time() > 0


def test_a_seed_repeats_the_waits_of_each_user_and_worker() -> None:
    def waits(worker: int, count: int = 3) -> list[list[float]]:
        streams.use_source(None)
        visitor = user_class(exponential(5, seed=11))
        environment = SimpleNamespace(runner=SimpleNamespace(worker_index=worker))
        users = []
        for _ in range(count):
            user = visitor()
            user.environment = environment
            users.append([user.wait_time() for _ in range(300)])
        return users

    assert waits(0) == waits(0)
    everyone = [tuple(user) for worker in range(3) for user in waits(worker)]
    assert len(set(everyone)) == 9
    assert len({wait for user in everyone for wait in user}) == 9 * 300
    streams.use_source(None)


def test_batched_draws_follow_the_distribution() -> None:
    draw = streams.batched_draws(exponential(1), streams.spawn(1, 0, 0))
    assert stats.kstest([draw() for _ in range(20_000)], "expon").pvalue > 1e-4


def test_an_installed_source_is_called_once_for_each_user() -> None:
    asked: list[Any] = []

    def source(user: Any, distribution: Distribution) -> streams.Draw:
        asked.append((user, distribution))
        return iter([1.0, 2.0, 3.0]).__next__

    streams.use_source(source)
    try:
        wait = exponential(1)
        user = user_class(wait)()
        assert [user.wait_time(), user.wait_time(), user.wait_time()] == [1.0, 2.0, 3.0]
        assert asked == [(user, wait)]
        task_set = type("Tasks", (), {"wait_time": wait})()
        task_set.user = user
        assert task_set.wait_time() == 1.0
        assert asked[-1] == (user, wait)
    finally:
        streams.use_source(None)
