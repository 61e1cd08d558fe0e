"""Arrival schedules of an open population; the test sets the time, nothing sleeps."""

from __future__ import annotations

import math

import numpy as np
from scipy import stats

from locust_realism.workload.distributions import constant, exponential
from locust_realism.workload.distributions.streams import spawn
from locust_realism.workload.rates.shapes import ConstantRate, SineRate
from locust_realism.workload.users.arrivals import Entry, OpenSchedule, spread
from locust_realism.workload.users.concurrency import expected_users, sample_initial


def entries(schedule: OpenSchedule, until: float) -> list[Entry]:
    taken = []
    while schedule.due() < until:
        taken.append(schedule.take())
    return taken


def test_shares_of_the_rate_superpose_to_the_whole_poisson_process() -> None:
    profile = SineRate(20, 180, 30)
    parts = [OpenSchedule(profile, 1 / 3, spawn(5, worker)) for worker in range(3)]
    times = np.sort([entry.due for part in parts for entry in entries(part, 120)])
    total = float(profile.cumulative(120))
    assert abs(len(times) - total) < 4 * math.sqrt(total)
    gaps = np.diff(profile.cumulative(times))
    assert stats.kstest(gaps, "expon").pvalue > 1e-3
    assert abs(np.std(gaps) / np.mean(gaps) - 1) < 3 / math.sqrt(len(gaps))
    assert stats.kstest(np.diff(times) / np.mean(np.diff(times)), "expon").pvalue < 1e-3, "without rescaling it is not"


def test_a_change_of_the_number_of_workers_keeps_the_total_exact() -> None:
    rng = [spawn(9, worker) for worker in range(3)]
    profile = ConstantRate(100)
    two = [OpenSchedule(profile, 1 / 2, rng[i]) for i in range(2)]
    times = [e.due for s in two for e in entries(s, 40)]
    for schedule in two:
        schedule.change(profile, 1 / 3, 40)
    three = [*two, OpenSchedule(profile, 1 / 3, rng[2], begin=40)]
    times += [e.due for s in three for e in entries(s, 100)]
    counts = np.histogram(times, bins=100, range=(0, 100))[0]
    assert abs(counts.mean() - 100) < 4 * math.sqrt(100 / 100)
    dispersion = counts.var(ddof=1) / counts.mean()
    assert abs(dispersion - 1) < 4 * math.sqrt(2 / 99)


def test_a_schedule_without_a_share_has_no_arrivals() -> None:
    schedule = OpenSchedule(ConstantRate(10), 0.0, spawn(1, 0))
    assert schedule.due() == math.inf
    assert schedule.take().due == math.inf
    schedule.change(ConstantRate(10), 1.0, 5.0)
    assert 5.0 <= schedule.due() < 8.0


def test_initial_users_enter_during_the_warm_up_and_leave_after_it() -> None:
    rng = spawn(3, 0)
    profile, duration = ConstantRate(40), exponential(5)
    initial = spread(sample_initial(profile, duration, 10.0, rng), 10.0, rng)
    schedule = OpenSchedule(profile, 1.0, rng, begin=10.0, initial=initial)
    first = entries(schedule, 10.0)
    assert all(entry.leaves_at > 10.0 for entry in first)
    assert [entry.due for entry in first] == sorted(entry.due for entry in first)
    expected = float(expected_users(profile, duration, 10.0))
    assert abs(len(first) - expected) < 4 * math.sqrt(expected)
    residual = np.array([entry.leaves_at - 10.0 for entry in first])
    assert abs(residual.mean() - 5) < 4 * 5 / math.sqrt(len(residual))
    later = entries(schedule, 30.0)
    assert later
    assert not any(entry.leaves_at for entry in later)


def test_the_same_seed_repeats_the_schedule_and_another_worker_has_another() -> None:
    def dues(seed: int, worker: int) -> list[float]:
        return [e.due for e in entries(OpenSchedule(ConstantRate(5), 1.0, spawn(seed, worker)), 10)]

    assert dues(1, 0) == dues(1, 0)
    assert dues(1, 0) != dues(1, 1)
    assert dues(1, 0) != dues(2, 0)


def test_many_changes_of_the_rate_neither_lose_nor_add_arrivals() -> None:
    schedule, counts = OpenSchedule(ConstantRate(50), 1.0, spawn(12, 0)), []
    for step in range(200):
        schedule.change(ConstantRate(50 if step % 2 else 150), 1.0, step / 10)
        counts.append(len(entries(schedule, (step + 1) / 10)))
    assert abs(sum(counts) - 2000) < 4 * math.sqrt(2000)
    high, low = sum(counts[0::2]), sum(counts[1::2])
    assert abs(high - 1500) < 4 * math.sqrt(1500)
    assert abs(low - 500) < 4 * math.sqrt(500)


def test_a_start_without_a_rate_is_empty() -> None:
    assert len(sample_initial(ConstantRate(0), constant(3), 5.0, spawn(1, 0))) == 0
