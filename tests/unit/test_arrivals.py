"""Arrival times: a Poisson process with the rate of the profile, unlike the common shortcut."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from locust_realism.workload.rates.shapes import ConstantRate, PiecewiseLinearRate, RateProfile, SineRate, StepRate
from locust_realism.workload.users.arrivals import ArrivalStream, arrival_times

DAY = SineRate(min_rate=0.5, max_rate=9.5, period=100)  # relative amplitude 0.9


def rescaled_gaps(profile: RateProfile, times: np.ndarray) -> np.ndarray:
    return np.diff(profile.cumulative(times), prepend=0.0)


def looks_poisson(profile: RateProfile, times: np.ndarray, duration: float, tenths: int = 10) -> bool:
    """Assert the total to 3 standard errors, every tenth of the period to 4, rescaled gaps with CoV 1 +- 3/sqrt(n)."""
    n, expected = len(times), float(profile.cumulative(duration))
    if n < 2 or abs(n - expected) > 3 * math.sqrt(expected):
        return False
    edges = np.linspace(0, 100, tenths + 1)
    counts, _ = np.histogram(np.mod(times, 100), edges)
    means = np.diff(profile.cumulative(edges)) * duration / 100
    gaps = rescaled_gaps(profile, times)
    steady = abs(gaps.std() / gaps.mean() - 1) <= 3 / math.sqrt(n)
    return bool(np.all(np.abs(counts - means) <= 4 * np.sqrt(means)) and steady)


@pytest.mark.parametrize(
    "profile",
    [
        ConstantRate(5),
        DAY,
        SineRate(0, 10, 100, peak_at=3),
        PiecewiseLinearRate(((0, 2), (30, 9), (100, 2)), repeat=True),
        StepRate(((0, 2), (40, 9)), end=100, repeat=True),
        DAY.scale(0.3) + ConstantRate(2),
    ],
    ids=repr,
)
def test_arrivals_are_poisson_with_the_rate_of_the_profile(profile: RateProfile) -> None:
    times = arrival_times(profile, 4000, np.random.default_rng(8))
    assert looks_poisson(profile, times, 4000)
    assert stats.kstest(rescaled_gaps(profile, times), "expon").pvalue > 1e-4
    # The controls: they are not those of a constant rate with the same mean, and evenly spaced ones are not Poisson.
    if not isinstance(profile, ConstantRate):
        assert not looks_poisson(ConstantRate(profile.mean_rate(4000)), times, 4000)
    even = profile.inverse(np.arange(1, len(times), dtype=float))
    assert not looks_poisson(profile, even, 4000)


def closed_loop(profile: RateProfile, users: int, duration: float, exact: bool, rng: np.random.Generator) -> np.ndarray:
    """Return launches of users with a share of the profile each: by the hazard, or Exp(1/lambda(now))."""
    launches = []
    t = np.zeros(users)
    while len(t):
        draw = rng.standard_exponential(len(t)) * users
        t = profile.inverse(profile.cumulative(t) + draw) if exact else t + draw / profile.rate(t)
        t = t[t < duration]
        launches.append(t)
    return np.sort(np.concatenate(launches))


def test_the_exact_wait_holds_the_rate_and_the_naive_one_does_not() -> None:
    """The naive method fails at a relative amplitude of 0.9 and a mean wait of a third of the period."""
    profile, users, duration = DAY.scale(40), 6667, 1000.0  # 200/s among 6,667 users: 33.3 s each
    exact = closed_loop(profile, users, duration, True, np.random.default_rng(9))
    naive = closed_loop(profile, users, duration, False, np.random.default_rng(9))
    expected = float(profile.cumulative(duration))  # 200,000: one per cent is 4.5 standard errors
    assert abs(len(exact) - expected) <= 0.01 * expected
    assert looks_poisson(profile, exact, duration)
    assert not looks_poisson(profile, naive, duration)
    assert len(naive) < 0.7 * expected


def test_total_within_one_per_cent_of_the_integral() -> None:
    profile = DAY.scale(50)
    times = arrival_times(profile, 1000, np.random.default_rng(10))
    expected = float(profile.cumulative(1000))  # 250,000: one per cent is five standard errors
    assert abs(len(times) - expected) <= 0.01 * expected
    assert looks_poisson(profile, times, 1000)


def test_windows_join() -> None:
    """Counts of [0, 50) and [50, 100) are those of the profile there, and every time lies in its window."""
    rng = np.random.default_rng(11)
    for start in (0.0, 50.0):
        counts = []
        for _ in range(400):
            times = arrival_times(DAY, 50, rng, start=start)
            assert np.all((times >= start) & (times < start + 50))
            counts.append(len(times))
        mean = float(DAY.cumulative(start + 50) - DAY.cumulative(start))
        assert np.mean(counts) == pytest.approx(mean, abs=4 * math.sqrt(mean / 400))
        assert np.var(counts) / mean == pytest.approx(1, abs=4 * math.sqrt(2 / 400))


def test_a_zero_rate_has_no_arrivals() -> None:
    rng = np.random.default_rng(12)
    assert len(arrival_times(ConstantRate(0), 100, rng)) == 0
    assert len(arrival_times(ConstantRate(5), 0, rng)) == 0
    assert ArrivalStream(ConstantRate(0), rng).take() == math.inf
    ending = ArrivalStream(StepRate(((0, 3),), end=2), rng)
    taken = [ending.take() for _ in range(40)]
    assert taken[-1] == math.inf
    assert max(t for t in taken if t < math.inf) < 2
    with pytest.raises(ValueError, match="duration must be >= 0"):
        arrival_times(DAY, -1, rng)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 12), st.integers(0, 2**32))
def test_streams_of_w_workers_superpose_to_the_whole(workers: int, seed: int) -> None:
    parts = [
        arrival_times(DAY / workers, 1000, np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(w,))))
        for w in range(workers)
    ]
    whole = np.sort(np.concatenate(parts))
    # Over many seeds a bound of 4 standard errors would be crossed by chance; this one is not, and a lost or doubled
    # worker is 1/13 or more of 5,000, over 5 standard errors.
    expected = float(DAY.cumulative(1000))
    assert abs(len(whole) - expected) <= 5.3 * math.sqrt(expected)
    assert stats.kstest(rescaled_gaps(DAY, whole), "expon").pvalue > 1e-7


def take_until(stream: ArrivalStream, end: float) -> list[float]:
    times = []
    while stream.peek() < end:
        times.append(stream.take())
    return times


def test_a_stream_and_the_array_are_the_same_schedule() -> None:
    stream = ArrivalStream(DAY, np.random.default_rng(13))
    assert take_until(stream, 300) == pytest.approx(arrival_times(DAY, 300, np.random.default_rng(13)))


def test_changing_to_the_same_rate_changes_nothing() -> None:
    stream = ArrivalStream(DAY, np.random.default_rng(14))
    times = []
    for now in np.arange(0, 300, 0.5):
        times += take_until(stream, now)
        stream.change(DAY, now)
    assert times == pytest.approx(arrival_times(DAY, 299.5, np.random.default_rng(14)))


def test_the_residual_hazard_is_kept_through_many_changes() -> None:
    """W grows by one every 0.2 s, faster than arrivals: a restarted wait or a kept old time would lose launches."""
    rng = np.random.default_rng(15)
    shares = 0.2 * rng.integers(1, 5, size=20_000)
    true = StepRate(tuple((0.2 * i, 2.0 * s) for i, s in enumerate(shares)))
    stream = ArrivalStream(ConstantRate(2.0 * shares[0]), rng)
    times = []
    for i, share in enumerate(shares[1:], start=1):
        times += take_until(stream, 0.2 * i)
        stream.change(ConstantRate(2.0 * share), 0.2 * i)
    gaps = rescaled_gaps(true, np.array(times))
    n = len(gaps)
    assert abs(n - true.cumulative(0.2 * 19_999)) <= 3 * math.sqrt(n)
    assert abs(gaps.std() / gaps.mean() - 1) <= 3 / math.sqrt(n)
    assert stats.kstest(gaps, "expon").pvalue > 1e-4


def test_the_control_that_keeps_the_old_time_is_caught() -> None:
    """A wait drawn at a low rate sleeps through the rise; change() prevents that."""
    rng = np.random.default_rng(16)
    rises = StepRate(((0, 0.01), (10, 5)))
    kept, moved = [], []
    for _ in range(300):
        stream = ArrivalStream(ConstantRate(0.01), rng)
        kept.append(max(stream.peek(), 10.0))
        stream.change(ConstantRate(5), 10.0)
        moved.append(stream.peek())
    assert stats.kstest(rises.cumulative(np.array(moved)), "expon").pvalue > 1e-3
    assert stats.kstest(rises.cumulative(np.array(kept)), "expon").pvalue < 1e-9


def test_an_arrival_that_was_due_keeps_its_planned_time() -> None:
    stream = ArrivalStream(ConstantRate(1), np.random.default_rng(17))
    due = stream.peek()
    stream.change(ConstantRate(100), now=due + 5)
    assert stream.take() == due
    assert stream.peek() > due


def test_a_rate_of_zero_and_back_keeps_the_rest_of_the_wait() -> None:
    stream = ArrivalStream(ConstantRate(1), np.random.default_rng(18))
    planned = stream.peek()
    stream.change(ConstantRate(0), now=planned / 2)
    assert stream.peek() == math.inf
    stream.change(ConstantRate(1), now=100.0)
    assert stream.peek() == pytest.approx(100 + planned / 2)
