"""Scales, dependence, rescaled time and single users, compared with closed forms and independent implementations."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2, kstest

from locust_realism.analysis.stats.intervals import coefficient_of_variation
from locust_realism.analysis.verdict import dispersion
from locust_realism.analysis.verdict.checks import DISTANCE_ERRORS
from locust_realism.analysis.verdict.dispersion import (
    STAY_SHARES,
    Stay,
    autocorrelation,
    clock_tick_us,
    dispersion_table,
    dither,
    exponential_distance,
    index_of_dispersion,
    local_gaps,
    poisson_band,
    population_dispersion,
    renewal_dispersion,
    repeated_stalls,
    rescale_by_profile,
    seen_in,
    window_counts,
    window_ladder,
)
from locust_realism.analysis.verdict.evidence import _beyond_short
from locust_realism.analysis.verdict.users import task_starts, user_times
from locust_realism.recording.launches import LaunchLog
from locust_realism.workload.distributions import exponential, lognormal
from locust_realism.workload.rates.shapes import ConstantRate, SineRate


@given(st.lists(st.integers(0, 10**8), min_size=2, max_size=200))
@settings(deadline=None)
def test_windows_count_every_launch_in_a_whole_window_once(times):
    times = np.sort(np.array(times))
    windows = window_ladder(float(times[-1] - times[0]) / 1e6)
    for window, counts in zip(windows, window_counts(times, windows), strict=True):
        edges = times[0] + np.arange(len(counts) + 1) * round(window * 1e6)
        expected = np.searchsorted(times, edges[1:]) - np.searchsorted(times, edges[:-1])
        np.testing.assert_array_equal(counts, expected)


def test_the_ladder_has_twenty_windows_at_least():
    assert window_ladder(0.19) == []
    assert window_ladder(1200.0)[-1] == 50


def test_windows_of_too_many_bins_are_left_out():
    times = np.linspace(0, 1e11, 100_000)
    counts = window_counts(times, [0.01, 0.02, 0.1, 10.0])
    assert [len(c) for c in counts] == [0, 0, 1_000_000, 10_000]


def test_the_poisson_band_is_that_of_chi_square():
    for k in (20, 57, 1000):
        expected = chi2.ppf([0.025, 0.975], k - 1) / (k - 1)
        assert poisson_band(k) == pytest.approx(expected, rel=2e-3)
    with pytest.raises(ValueError, match="windows must be > 1, not 1"):
        poisson_band(1)


def test_the_poisson_band_holds_95_percent_of_poisson_launches():
    """400 runs at one scale: 95 % in the band, 4 standard errors of tolerance."""
    rng, inside = np.random.default_rng(1), 0
    for _ in range(400):
        row = dispersion_table(np.cumsum(rng.exponential(1e4, 3000)), [0.1])[0]
        inside += row["poisson_low"] <= row["idc"] <= row["poisson_high"]
    assert abs(inside / 400 - 0.95) < 4 * math.sqrt(0.95 * 0.05 / 400)


def test_a_fixed_pool_shows_the_dispersion_of_one_user():
    rng = np.random.default_rng(2)
    trips = rng.uniform(0, 2, (200, 600))
    times = np.sort((rng.uniform(-2, 0, (200, 1)) + np.cumsum(trips, axis=1)).ravel())
    times = times[(times > 5) & (times < 500)] * 1e6
    windows = [0.01, 0.1, 0.5, 1.0, 5.0, 10.0]
    model = renewal_dispersion(windows, trips.ravel())
    assert model[-1] == pytest.approx(1 / 3, rel=0.1), "the squared CoV of a uniform round trip"
    for row, expected in zip(dispersion_table(times, windows, model), model, strict=True):
        error = math.sqrt(2 / (row["windows"] - 1))
        assert abs(row["idc"] / expected - 1) < 4 * error + 0.04, row


def test_a_varying_population_shows_its_dispersion():
    """Users come as a Poisson process, stay exp(5 s) and launch twice a second while there."""
    rng, span, stay, rate = np.random.default_rng(3), 20_000.0, 5.0, 2.0
    starts = np.sort(rng.uniform(-50, span, rng.poisson(10 * (span + 50))))
    stays = rng.exponential(stay, len(starts))
    many = rng.poisson(rate * stays)
    times = np.repeat(starts, many) + rng.uniform(0, 1, many.sum()) * np.repeat(stays, many)
    times = np.sort(times[(times > 0) & (times < span)])
    windows = [0.1, 1.0, 10.0]
    rows = dispersion_table(times * 1e6, windows, population_dispersion(windows, rate, Stay.of(stay)), memory_s=stay)
    for row in rows:
        assert row["model_low"] * 0.95 < row["idc"] < row["model_high"] * 1.05, row
    assert rows[-1]["idc"] > 5, "far from Poisson"
    assert population_dispersion([1.0], 2.0, Stay.of(0.0)) == [1.0]


def test_rescaling_takes_the_planned_variation_out():
    profile = SineRate(10.0, 190.0, period=50)
    rng = np.random.default_rng(4)
    launches = np.rint(np.asarray(profile.inverse(np.cumsum(rng.exponential(1.0, 20_000)))) * 1e6).astype(np.int64)
    raw = coefficient_of_variation(np.diff(launches))
    flat = coefficient_of_variation(np.diff(rescale_by_profile(launches, profile, 0)))
    a = 0.9
    assert raw == pytest.approx(math.sqrt(2 / math.sqrt(1 - a * a) - 1), rel=0.1), "the closed form of a sine"
    assert abs(flat - 1) < 4 / math.sqrt(20_000)


def test_a_constant_plan_changes_nothing_and_a_falling_one_is_an_error():
    launches = np.array([0, 5, 20, 21]) * 1_000_000
    np.testing.assert_allclose(rescale_by_profile(launches, ConstantRate(3.0), 0), launches)

    class Broken:
        def cumulative(self, t):
            return -np.asarray(t)

    with pytest.raises(ValueError, match="planned_profile has a cumulative rate that is not finite and ascending"):
        rescale_by_profile(launches, Broken(), 0)


def test_local_gaps_are_blind_to_a_drift_but_not_to_bunches():
    rng = np.random.default_rng(5)
    drift = rng.exponential(np.linspace(1, 6, 40_000))
    assert coefficient_of_variation(drift) > 1.1
    assert abs(local_gaps(drift, 200)[1] - 1) < 4 / math.sqrt(40_000)
    bunches = np.where(np.arange(40_000) % 10 == 0, 10.0, 0.01)
    assert local_gaps(bunches, 200)[1] > 2


def dropped_rest(gaps, per_window):
    """Return the relative gaps as they were found before: whole windows only, the rest left out."""
    pieces = gaps[: len(gaps) // per_window * per_window].reshape(-1, per_window)
    return (pieces / pieces.mean(axis=1, keepdims=True)).ravel()


def test_windows_cover_every_gap_and_keep_the_error_of_chance():
    """Of 2,000 Poisson runs of 399 gaps 1 % exceed the distance 1.3 / sqrt(n); with the rest left out 14 %."""
    rng, n, beyond, before = np.random.default_rng(15), 399, 0, 0
    for _ in range(2000):
        gaps = rng.exponential(1.0, n)
        limit = 1.3 / math.sqrt(n)
        relative = local_gaps(gaps, 200)[0]
        assert len(relative) == n
        beyond += exponential_distance(np.sort(relative)) > limit
        before += exponential_distance(np.sort(dropped_rest(gaps, 200))) > limit
    assert beyond / 2000 < 0.01 + 4 * math.sqrt(0.01 * 0.99 / 2000)
    assert before / 2000 > 0.05, "the negative control"


def test_a_bunched_end_counts():
    """The last 47 % of 379 gaps come in bunches of ten."""
    rng = np.random.default_rng(16)
    bunched = np.where(np.arange(179) % 10 == 0, 10.0, 0.01) * rng.exponential(1.0, 179)
    gaps = np.concatenate((rng.exponential(1.0, 200), bunched))
    assert local_gaps(gaps, 200)[1] > 1.5
    assert abs(coefficient_of_variation(dropped_rest(gaps, 200)) - 1) < 0.15, "the negative control"


@pytest.mark.parametrize("n", [2, 3, 199, 201, 399, 401, 1999])
def test_windows_of_gaps_have_nearly_equal_sizes(n):
    """Ascending gaps fall at the start of each window only, since each is divided by its window's mean."""
    relative, _ = local_gaps(np.arange(1.0, n + 1), 200)
    edges = [0, *(np.flatnonzero(np.diff(relative) < 0) + 1).tolist(), n]
    assert len(edges) - 1 == max(n // 200, 1)
    assert np.ptp(np.diff(edges)) <= 1
    assert [relative[a:b].mean() for a, b in pairwise(edges)] == pytest.approx([1.0] * (len(edges) - 1))


def population_times(rng, law, arrivals, rate, span):
    """Return the launches of users with Poisson arrivals and stays of this law who launch at ``rate`` each."""
    before = 60 * law.mean
    starts = rng.uniform(-before, span, rng.poisson(arrivals * (span + before)))
    stays = law.sample(rng, len(starts))
    many = rng.poisson(rate * stays)
    times = np.repeat(starts, many) + rng.uniform(0, 1, many.sum()) * np.repeat(stays, many)
    return np.sort(times[(times > 0) & (times < span)])


def test_stays_of_any_law_have_their_dispersion():
    """Lognormal stays of CoV 2: the formula of exponential stays is 2.3 times too low at long windows."""
    law, rate, span = lognormal(5.0, cov=2), 2.0, 20_000.0
    windows = [0.1, 1.0, 10.0, 100.0]
    stay = Stay.of(law.mean, law.ppf(STAY_SHARES))
    curve = population_dispersion(windows, rate, stay)
    found = np.zeros(4)
    for seed in range(5):
        times = population_times(np.random.default_rng([17, seed]), law, 10.0, rate, span)
        found += [row["idc"] / 5 for row in dispersion_table(times * 1e6, windows)]
    # 1,000 windows of 100 s in five runs, which share 40 s of memory: an error of 6 %.
    assert np.abs(found / curve - 1).max() < 0.2
    assert population_dispersion([1e7], rate, stay)[0] == pytest.approx(1 + rate * 5.0 * (1 + 2**2), rel=0.01)
    assert found[3] / population_dispersion([100.0], rate, Stay.of(5.0))[0] > 1.5, "the negative control"


def test_the_memory_of_a_population_is_that_of_its_stays():
    assert Stay.of(30.0).memory_s == pytest.approx(30.0, rel=0.01)
    constant = Stay.of(30.0, [30.0] * len(STAY_SHARES))
    assert constant.memory_s == pytest.approx(2 * 30.0 / 3, rel=0.1), "the correlation falls on a line"
    assert Stay.of(0.0).memory_s == 0


def test_slow_variation_is_no_variation_within_a_short_run():
    """200 runs of 60 s of a population with stays of 30 s: the mean index is that of the corrected curve."""
    rate, span, window = 2.0, 60.0, 3.0
    stay, found = Stay.of(30.0), []
    for seed in range(200):
        times = population_times(np.random.default_rng([18, seed]), exponential(30.0), 1.0, rate, span)
        found.append(index_of_dispersion(window_counts(np.insert(times, 0, 0.0) * 1e6, [window])[0]))
    raw, at_span = population_dispersion([window, span], rate, stay)
    (seen,) = seen_in(span, [window], [raw], at_span)
    error = 4 * np.std(found) / math.sqrt(200)
    assert abs(np.mean(found) - seen) < error
    assert raw - np.mean(found) > error, "the negative control"


def stalled(stalls, length_s, seed=19, n=10_000):
    """Return relative gaps and launch times of a Poisson process of 100/s with evenly placed stalls."""
    gaps = np.random.default_rng(seed).exponential(1e4, n)
    if stalls:
        gaps[n // stalls // 2 :: n // stalls] += length_s * 1e6
    return gaps / gaps.mean(), np.cumsum(np.insert(gaps, 0, 0.0)).astype(np.int64)


@pytest.mark.parametrize(("stalls", "length_s"), [(20, 0.1), (10, 0.3), (5, 1.0)])
def test_repeated_stalls_are_counted(stalls, length_s):
    for seed in range(20):
        found = repeated_stalls(*stalled(stalls, length_s, seed))
        assert abs(found.number - stalls) <= 0.25 * stalls
        assert found.mean_s == pytest.approx(length_s, rel=0.15)
        assert found.period_s == pytest.approx((100 + stalls * length_s) / stalls, rel=0.25)


def test_one_pause_and_usual_gaps_are_no_repeated_stalls():
    assert [repeated_stalls(*stalled(1, 5.0, seed)) for seed in range(300)] == [None] * 300
    assert repeated_stalls(*stalled(2, 2.0)) is None
    assert [repeated_stalls(*stalled(0, 0.0, seed)) for seed in range(300)] == [None] * 300
    bunches = np.where(np.arange(10_000) % 10 == 0, 10.0, 0.01)
    assert repeated_stalls(bunches / bunches.mean(), np.cumsum(np.insert(bunches, 0, 0) * 1e4).astype(int)) is None


def test_two_far_longer_pauses_and_a_long_gap_are_no_repeated_stalls():
    """The third of three is a long gap beside two stalls; the negative control has a third stall."""
    for third, number in ((14.0, None), (100.0, 3)):
        gaps = np.random.default_rng(3).exponential(1.0, 10_000).clip(max=9.0)
        gaps[[2000, 5000, 8000]] = 100.0, third, 100.0
        found = repeated_stalls(gaps, np.cumsum(np.insert(gaps, 0, 0.0) * 1e4).astype(np.int64))
        assert (found and found.number) == number


def test_three_in_a_thousand_sound_runs_exceed_the_distance_of_chance():
    """As many as exceed three standard errors: 0.27 % of 10,000, within 4 standard errors; 1.3 would be 1 %."""
    rng = np.random.default_rng(29)
    scaled = []
    for _ in range(10_000):
        found = _beyond_short(rng.exponential(1.0, 1000), 0.1)
        scaled.append(found["distance"] * math.sqrt(found["tail_n"]))
    share = float(np.mean(np.array(scaled) > DISTANCE_ERRORS))
    assert share == pytest.approx(0.0027, abs=4 * math.sqrt(0.0027 / 10_000))
    assert np.mean(np.array(scaled) > 1.3) > 0.007, "the negative control"


def test_troughs_of_a_rate_are_no_stalls(monkeypatch):
    """Of 100 sines of 100/s with a swing of 97 % at most one in ten has stalls; without the look nine have."""
    t = np.linspace(0, 20, 20_001)
    due = t - 0.97 * 4 / (2 * np.pi) * np.sin(2 * np.pi * t / 4)
    for slow, low, high in ((dispersion.SLOW, 0, 10), (math.inf, 90, 100)):
        monkeypatch.setattr(dispersion, "SLOW", slow)
        found = 0
        for seed in range(100):
            times = np.interp(np.sort(np.random.default_rng(seed).uniform(due[0], due[-1], 2000)), due, t)
            relative, _ = local_gaps(np.diff(times), 200)
            found += repeated_stalls(relative, (times * 1e6).astype(np.int64)) is not None
        assert low <= found <= high


def test_the_local_cov_has_no_bias():
    """Mean over 300 samples of 2,000 exponential gaps in windows of 50: 4 standard errors of tolerance."""
    rng = np.random.default_rng(6)
    covs = [local_gaps(rng.exponential(1.0, 2000), 50)[1] for _ in range(300)]
    assert abs(np.mean(covs) - 1) < 4 / math.sqrt(2000 * 300) + 0.001


def test_the_clocks_tick_is_found_and_dithering_restores_the_gaps():
    rng = np.random.default_rng(7)
    true = np.cumsum(rng.exponential(1000, 50_000)).astype(np.int64)
    coarse = true // 1000 * 1000
    assert (clock_tick_us(true), clock_tick_us(coarse)) == (1, 1000)
    # A clock of resolution q shows sqrt(m coth(m / 2) - 1) of Poisson launches, m = rate q; here m = 1.
    assert coefficient_of_variation(np.diff(coarse)) == pytest.approx(math.sqrt(1 / math.tanh(0.5) - 1), abs=0.02)
    restored = np.diff(dither(coarse, 1000))
    assert abs(coefficient_of_variation(restored) - 1) < 4 / math.sqrt(50_000)
    assert exponential_distance(np.sort(np.diff(coarse) / np.diff(coarse).mean())) > 0.1, "the negative control"
    assert clock_tick_us(np.concatenate((coarse, [int(coarse[-1]) + 1]))) == 1, "one odd time late in the log"
    assert clock_tick_us(np.array([5])) == 1


def test_distance_and_correlation_agree_with_scipy_and_numpy():
    gaps = np.random.default_rng(8).gamma(2.0, 0.5, 5000)
    assert exponential_distance(np.sort(gaps)) == pytest.approx(kstest(gaps, "expon").statistic, abs=1e-4)
    values = np.convolve(np.random.default_rng(9).normal(size=3000), [1, 0.6], mode="valid")
    found = autocorrelation(values, lags=3)
    assert found[0] == pytest.approx(np.corrcoef(values[:-1], values[1:])[0, 1], abs=2e-3)
    assert found[0] == pytest.approx(0.6 / 1.36, abs=0.06)
    assert autocorrelation(values[:10]) == []


def test_an_empty_count_has_no_dispersion():
    assert math.isnan(index_of_dispersion([0, 0, 0]))
    assert math.isnan(index_of_dispersion([3]))


def test_think_time_and_response_time_of_users():
    rng = np.random.default_rng(10)
    think, response = rng.exponential(2.0, (50, 400)), rng.exponential(0.5, (50, 400))
    launches = np.cumsum(think + response, axis=1) - (think + response)
    log = LaunchLog.build(
        np.rint(launches.ravel() * 1e6).astype(int),
        np.rint(response.ravel() * 1e6).astype(int),
        slot=np.repeat(np.arange(50), 400),
    )
    log = log.take(np.argsort(log.launch_us, kind="stable"))
    found = user_times(log)
    assert found.users == 50
    assert abs(found.think_mean - 2.0) < 4 * 2.0 / math.sqrt(20_000)
    assert found.response_share == pytest.approx(0.2, abs=0.01)
    trip_cov = math.sqrt(2.0**2 + 0.5**2) / 2.5
    assert found.user_cov == pytest.approx(trip_cov, abs=0.03)
    assert found.requests_per_task == 1
    some = user_times(log, max_rows=2000)
    assert some.users == 50
    assert len(some.trips) < 3000
    assert abs(some.think_mean - 2.0) < 4 * 2.0 / math.sqrt(len(some.trips))


def in_a_window(think: np.ndarray, wait: float, window: float) -> tuple[LaunchLog, float]:
    """Return the launches of users from 40 s on for ``window`` s, and the plain mean of the think times in it."""
    launches = np.cumsum(think + wait, axis=1)
    assert launches[:, -1].min() > 40 + window
    user, step = np.nonzero((launches > 40) & (launches < 40 + window))
    plain = think[user, step][user == np.roll(user, 1)].mean()
    order = np.argsort(launches[user, step])
    times = np.rint(launches[user, step][order] * 1e6).astype(int)
    return LaunchLog.build(times, round(wait * 1e6), slot=user[order]), float(plain)


@pytest.mark.parametrize("law", ["uniform", "exponential"])
def test_a_short_window_does_not_shorten_think_times(law: str) -> None:
    """Long think times seldom lie wholly within 16 s: their plain mean is 6 % off or more, a red finding."""
    rng = np.random.default_rng(12)
    z = 2.5
    think = rng.uniform(0, 2 * z, (2000, 60)) if law == "uniform" else rng.exponential(z, (2000, 60))
    log, plain = in_a_window(think, 0.05, 16.0)
    found = user_times(log)
    assert plain < 0.95 * z
    assert abs(found.think_mean - z) < 4 * found.think_se < 0.1 * z
    assert found.response_share == pytest.approx(0.05 / (z + 0.05), rel=0.04)


def test_short_think_times_are_found_in_a_short_window() -> None:
    """Negative control: 8 % less than planned is found, and the interval has its nominal width."""
    z, misses = 2.5, []
    for seed in range(40):
        think = np.random.default_rng(seed).uniform(0, 2 * 0.92 * z, (600, 60))
        found = user_times(in_a_window(think, 0.05, 16.0)[0])
        assert (z - found.think_mean) / found.think_se > 3
        misses.append((found.think_mean - 0.92 * z) / found.think_se)
    # the mean of 40 standardised misses lies within 4 / sqrt(40), their spread within 4 / sqrt(80) of 1
    assert abs(np.mean(misses)) < 0.64
    assert np.std(misses, ddof=1) < 1.45


def test_a_missing_response_time_is_no_immediate_answer():
    """A third of the response times is unknown: shares and think times come from the others, round trips from all."""
    rng = np.random.default_rng(13)
    think, response = rng.exponential(2.0, (50, 300)), rng.exponential(0.5, (50, 300))
    launches = np.cumsum(think + response, axis=1) - (think + response)
    lost = rng.random((50, 300)) < 1 / 3
    given = np.where(lost, -1, np.rint(response * 1e6)).astype(int)
    log = LaunchLog.build(
        np.rint(launches.ravel() * 1e6).astype(int), given.ravel(), slot=np.repeat(np.arange(50), 300)
    )
    found = user_times(log.take(np.argsort(log.launch_us, kind="stable")))
    assert abs(found.think_mean - 2.0) < 4 * found.think_se < 0.1
    assert abs(found.response_share - 0.2) < 0.01, "0.14 where none counts as no wait"
    assert abs(found.round_trip - 2.5) < 4 * math.hypot(2.0, 0.5) / math.sqrt(15_000)
    nothing = user_times(LaunchLog.build(np.arange(100) * 1000, -1, slot=0))
    assert math.isnan(nothing.response_share)
    assert math.isnan(nothing.think_mean)
    assert nothing.round_trip == pytest.approx(0.001)


def test_requests_without_a_think_time_belong_to_one_task():
    launches, response = [], []
    for user in range(10):
        for page in range(50):
            start = user * 137_000 + page * 5_000_000 + (page % 7) * 300_000
            launches += [start, start + 20_100, start + 50_200]
            response += [20_000, 30_000, 10_000]
    log = LaunchLog.build(launches, response, slot=np.repeat(np.arange(10), 150))
    log = log.take(np.argsort(log.launch_us, kind="stable"))
    found = user_times(log)
    assert found.requests_per_task == pytest.approx(3, abs=0.05)
    assert int(task_starts(log).sum()) == 500
    assert found.round_trip == pytest.approx(5.0, abs=0.1)


def test_a_log_without_users_has_no_user_times():
    log = LaunchLog.build(range(10), 1)
    assert user_times(log).users == 0
    assert math.isnan(user_times(log).response_share)
    assert task_starts(log).all()
