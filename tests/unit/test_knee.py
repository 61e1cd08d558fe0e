"""Knee of closed networks of known throughput and noise, also without the fast stations of the family."""

from __future__ import annotations

import math

import numpy as np
import pytest

from locust_realism.analysis.capacity import knee
from locust_realism.analysis.capacity.knee import _Family, _servers, _stations, _with_bottleneck, find_knee
from locust_realism.analysis.percentiles import Floats


def exact_rates(levels: Floats, demands: list[float], think: float) -> Floats:
    """Return the throughput of stations with one server by mean value analysis (Reiser and Lavenberg, 1980)."""
    queue, rates = np.zeros(len(demands)), []
    for users in range(1, int(levels.max()) + 1):
        response = np.array(demands) * (1 + queue)
        rates.append(users / (think + response.sum()))
        queue = rates[-1] * response
    return np.array(rates)[levels.astype(int) - 1]


def rate_of(shape: tuple[float, Floats], levels: Floats, cycle: float, at: float) -> Floats:
    """Return the throughput of one member of the family."""
    rate, _ = _Family(levels, [shape]).rates(np.log([at]), np.array([0]))
    return rate[0] / cycle


LEVELS = np.array([1.0, 2, 7, 30])
USERS = np.arange(31)


@pytest.mark.parametrize(
    ("shape", "ratios"),
    [
        ((1, _stations(USERS, 1)), [1]),
        ((3, _stations(USERS, 3)), [1, 1, 1]),
        ((2.5, _with_bottleneck(_stations(USERS, 2, 0.75))), [1, 0.75, 0.75]),
    ],
)
def test_the_product_form_equals_mean_value_analysis(shape: tuple[float, Floats], ratios: list[float]) -> None:
    cycle, at = 1.3, 13.0
    demands = [cycle / at * ratio for ratio in ratios]
    expected = exact_rates(LEVELS, demands, cycle - sum(demands))
    np.testing.assert_allclose(rate_of(shape, LEVELS, cycle, at), expected, rtol=1e-9)


def test_several_servers_equal_the_birth_and_death_equations() -> None:
    """M/M/c//N: p_k+1 / p_k = (N - k) S / (Z min(k + 1, c)), X = (N - mean busy) / Z."""
    c, cycle, at, n = 4, 1.3, 13.0, 20
    service, think = c * cycle / at, cycle - c * cycle / at
    p = [1.0]
    for k in range(n):
        p.append(p[-1] * (n - k) * service / (think * min(k + 1, c)))
    at_station = sum(k * weight for k, weight in enumerate(p)) / sum(p)
    rate = rate_of((c, _servers(np.arange(n + 1), c)), np.array([float(n)]), cycle, at)
    np.testing.assert_allclose(rate, (n - at_station) / think, rtol=1e-9)


def test_the_slope_is_the_derivative_of_the_rate_between_whole_levels_too() -> None:
    """Central differences; at .4 users, a bundle, the rate is .4 of that of one."""
    levels = np.array([0.4, 1, 6.5, 30])
    family = _Family(levels)
    every = np.arange(len(family.least))
    log_knee = np.log(family.least + 9)
    rate, slope = family.rates(log_knee, every)
    above, below = (family.rates(log_knee + side * 1e-5, every)[0] for side in (1, -1))
    np.testing.assert_allclose(slope, (above - below) / 2e-5, atol=1e-5)
    np.testing.assert_allclose(rate[:, 0], 0.4 * rate[:, 1])


def coverage(shapes: list[list[float]], noise: float, runs: int) -> tuple[float, float]:
    """Return the share of intervals that hold N*, and their median width over N*; the rates have this error."""
    rng = np.random.default_rng(7)
    held, width = 0, []
    for run in range(runs):
        ratios = shapes[run % len(shapes)]
        at = sum(ratios) * rng.uniform(1.5, 3) + 5
        levels = np.unique(np.round(at * np.array([0.1, 0.25, 0.4, 0.6, 0.8, 1, 1.2, 1.5, 2, 2.5])))
        rate = exact_rates(levels, ratios, at - sum(ratios))
        found = find_knee(levels, rate * (1 + noise * rng.standard_normal(len(levels))), noise * rate)
        low, high = (found[side] or math.nan for side in ("low", "high"))
        held += low <= at <= high
        width.append((high - low) / at)
    return held / runs, float(np.median(width))


UNEQUAL = [[1, 0.8], [1, 0.9, 0.7], [1, 0.8, 0.8, 0.8], [1, 0.7, 0.7, 0.6, 0.5]]


def test_the_interval_holds_the_knee_of_unequal_stations(monkeypatch: pytest.MonkeyPatch) -> None:
    """At 95 % fewer than 52 of 60 hold it once in 500. Without the faster stations under half do."""
    share, width = coverage(UNEQUAL, 0.01, 60)
    assert share >= 52 / 60
    assert width < 0.12, "an interval that holds the knee because it is wide has no use"
    monkeypatch.setattr(knee, "FASTER", ())
    assert coverage(UNEQUAL, 0.01, 60)[0] < 0.5, "the negative control"


@pytest.mark.parametrize("noise", [0.01, 0.05])
def test_the_interval_holds_the_knee_of_equal_stations(noise: float) -> None:
    share, width = coverage([[1], [1, 1, 1], [1, 1]], noise, 60)
    assert share >= 52 / 60
    assert width < 9 * noise


def test_throughput_that_falls_after_its_peak_does_not_hide_the_knee() -> None:
    n = np.array([2.0, 4, 6, 8, 10, 12, 15, 20, 30, 40])
    x = np.minimum(n, 10.0)
    x[n > 20] = [6.0, 4.0]
    found = find_knee(n, x, 0.02 * x)
    assert found["where"] == "measured"
    assert 9 < found["users"] < 11


def test_thousands_of_users_are_fitted_in_bundles() -> None:
    n = np.array([1.0, 100, 200, 500, 1000, 2000])
    x = np.minimum(n / 1.2, 400.0)
    assert find_knee(n, x, 0.02 * x)["users"] == pytest.approx(480, rel=0.1)


@pytest.mark.parametrize(
    ("users", "rate", "error", "message"),
    [
        ([1, 2, 3], [1, 2, 3], [1, 1, 1], "3 different levels"),
        ([1, 2, 3, 4], [1, 2, 3, 0], [1, 1, 1, 1], "rate is 0"),
        ([0, 2, 3, 4], [1, 2, 3, 4], [1, 1, 1, 1], "users is 0"),
        ([1, 2, 3, 4], [1, 2, 3, 4], [1, 1, 1, float("nan")], "error is nan"),
        ([1, 2, 3, 4], [1, 2, 3], [1, 1, 1], "expected one length"),
    ],
)
def test_bad_levels_are_refused(users: list[float], rate: list[float], error: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        find_knee(users, rate, error)
