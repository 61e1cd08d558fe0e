"""Observed rates: coverage of intervals, weekdays, clock jumps, bins."""

from __future__ import annotations

from datetime import date

import numpy as np
import pytest
from scipy import stats

from locust_realism.fit.rates import (
    MINUTES,
    WEEKDAYS,
    ArrivalCounter,
    chosen_width,
    days_dispersion,
    folded,
    poisson_interval,
    weekday,
)

DAY = 86_400
MONDAY = (date(2026, 3, 2) - date(1970, 1, 1)).days


@pytest.mark.parametrize("confidence", [0.9, 0.99])
def test_poisson_intervals_equal_those_of_scipy(confidence: float) -> None:
    counts = np.array([0, 1, 2, 10, 1000])
    low, high = poisson_interval(counts, confidence)
    tail = (1 - confidence) / 2
    np.testing.assert_allclose(low[1:], stats.chi2.ppf(tail, 2 * counts[1:]) / 2)
    np.testing.assert_allclose(high, stats.chi2.ppf(1 - tail, 2 * counts + 2) / 2)
    assert low[0] == 0


@pytest.mark.parametrize("mean", [0.5, 4.0, 60.0])
def test_poisson_intervals_have_their_coverage(mean: float) -> None:
    n = 20_000
    low, high = poisson_interval(np.random.default_rng(1).poisson(mean, n))
    covered = np.mean((low <= mean) & (mean <= high))
    assert covered >= 0.95 - 4 * np.sqrt(0.05 * 0.95 / n)
    assert np.mean((low <= 9 * mean) & (9 * mean <= high)) < covered - 0.1  # another mean is covered less often


@pytest.mark.parametrize("confidence", [0, 1, -0.5, float("nan")])
def test_impossible_confidence_is_refused(confidence: float) -> None:
    with pytest.raises(ValueError, match="confidence must be in"):
        poisson_interval(3, confidence)


def test_weekdays_equal_the_calendar() -> None:
    days = np.arange(MONDAY - 400, MONDAY + 400)
    expected = [date.fromordinal(date(1970, 1, 1).toordinal() + day).strftime("%A") for day in days.tolist()]
    assert [WEEKDAYS[i] for i in weekday(days).tolist()] == expected


def test_minutes_are_observed_between_the_ends() -> None:
    counter = ArrivalCounter()
    start, end = MONDAY * DAY + 90.0, (MONDAY + 1) * DAY + 30.0
    seen = counter.observed(start, end, [MONDAY, MONDAY + 1])
    assert seen.sum() == pytest.approx(end - start)
    assert seen[0, :3].tolist() == [0, 30, 60]
    assert seen[1, :2].tolist() == [30, 0]


@pytest.mark.parametrize(("before", "after", "minute", "seconds"), [(2, 3, 150, 0), (3, 2, 150, 120)])
def test_hour_of_a_clock_change_is_missing_or_double(before: int, after: int, minute: int, seconds: int) -> None:
    counter = ArrivalCounter()
    counter.shift(MONDAY * DAY + before * 3600, MONDAY * DAY + after * 3600)
    seen = counter.observed(MONDAY * DAY, (MONDAY + 1) * DAY, [MONDAY])
    assert seen[0, minute] == seconds
    assert seen.sum() == DAY + (before - after) * 3600


def test_arrivals_are_counted_by_day_and_minute_and_folded() -> None:
    rng = np.random.default_rng(3)
    local = MONDAY * DAY + rng.integers(0, 15 * DAY, 50_000)
    counter = ArrivalCounter()
    for part in np.array_split(local, 7):
        counter.add(part)
    days = sorted(counter.days)
    table = counter.table(days)
    assert table.sum() == len(local)
    by_day = folded(table, days, 3600, week=False)
    np.testing.assert_array_equal(by_day, np.bincount(local % DAY // 3600, minlength=24))
    by_week = folded(table, days, 1800, week=True)
    np.testing.assert_array_equal(by_week, np.bincount((local - MONDAY * DAY) % (7 * DAY) // 1800, minlength=336))


def test_equal_days_have_dispersion_one_and_others_more() -> None:
    rng = np.random.default_rng(4)
    seen = np.full((20, MINUTES), 60.0)
    alike = rng.poisson(0.5, (20, MINUTES))
    value, degrees = days_dispersion(alike, seen, 3600)
    assert degrees == 19 * 24
    assert abs(value - 1) < 4 * np.sqrt(2 / degrees)
    busy = rng.poisson(0.5 * rng.gamma(4, 1 / 4, (20, 1)), (20, MINUTES))
    assert days_dispersion(busy, seen, 3600)[0] > 1 + 10 * np.sqrt(2 / degrees)
    assert np.isnan(days_dispersion(alike[:1], seen[:1], 3600)[0])


@pytest.mark.parametrize(("per_day", "width"), [(600_000, 60), (50_000, 900), (100, 3600)])
def test_bins_are_as_fine_as_the_data_allow(per_day: int, width: int) -> None:
    counts = np.random.default_rng(5).poisson(per_day / MINUTES, (1, MINUTES))
    assert chosen_width(counts, np.full((1, MINUTES), 60.0)) == width
