"""Queues of a target: departures as in queueing theory, in a plain simulation, and in cases done by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from locust_realism.targets import theory
from locust_realism.targets.queues import DISCIPLINES, FcfsQueue, Job, Queue, SharedQueue, Stalls, WorkClock

ARRIVALS = st.lists(st.tuples(st.floats(0, 3), st.floats(0.01, 3)), min_size=1, max_size=30)


def play(queue: Queue, arrivals: list[tuple[float, float]]) -> list[Job]:
    """Return the jobs (gap, work) of a queue that advances at arrivals only, and at the end."""
    now, jobs = 0.0, []
    for gap, work in arrivals:
        now += gap
        queue.advance(now)
        job = queue.arrive(now, work)
        assert job is not None
        jobs.append(job)
    while (due := queue.due()) < math.inf:
        assert queue.advance(due), "no departure at the due time"
    return jobs


def responses(queue: Queue, rate: float, service: float, n: int, seed: int) -> np.ndarray:
    """Return the response times of n Poisson arrivals with exponential work, without the first tenth."""
    rng = np.random.default_rng(seed)
    jobs = play(queue, list(zip(rng.exponential(1 / rate, n), rng.exponential(service, n), strict=True)))
    return np.array([job.departed - job.arrived for job in jobs])[n // 10 :]


def batch_interval(values: np.ndarray, batches: int = 30) -> tuple[float, float]:
    """Return mean and half width of a 99.9 % interval from batch means (t with 29 degrees of freedom: 3.66)."""
    means = values[: len(values) // batches * batches].reshape(batches, -1).mean(axis=1)
    return float(means.mean()), 3.66 * float(means.std(ddof=1)) / math.sqrt(batches)


@pytest.mark.parametrize("discipline", ["fcfs", "ps"])
@pytest.mark.parametrize(("servers", "load"), [(1, 0.5), (1, 0.8), (4, 0.75)])
def test_mean_response_time_is_that_of_theory(discipline: str, servers: int, load: float) -> None:
    rate, service = 20.0, 0.05 * servers * load
    queue = DISCIPLINES[discipline](servers, None, WorkClock())
    mean, half = batch_interval(responses(queue, rate, service, 40_000, seed=1))
    assert abs(mean - theory.mmc_response(rate, service, servers)) < half
    wrong = theory.mmc_response(rate, 0.8 * service, servers)
    assert abs(mean - wrong) > half, "the interval is so wide that a load lower by a fifth would pass"


@pytest.mark.parametrize("servers", [1, 3])
def test_quantiles_are_those_of_theory(servers: int) -> None:
    rate, service = 20.0, 0.03 * servers
    values = responses(FcfsQueue(servers, None, WorkClock()), rate, service, 40_000, seed=2)
    beyond = values > theory.mmc_quantile(0.95, rate, service, servers)
    share, half = batch_interval(beyond.astype(float))
    assert abs(share - 0.05) < half < 0.02


def test_the_distribution_matters_first_come_first_served_and_not_shared() -> None:
    rng = np.random.default_rng(3)
    n, rate, service = 40_000, 20.0, 0.03
    arrivals = list(zip(rng.exponential(1 / rate, n), rng.gamma(0.25, 4 * service, n), strict=True))  # CoV 2
    shared = [job.departed - job.arrived for job in play(SharedQueue(1, None, WorkClock()), arrivals)]
    lined = [job.departed - job.arrived for job in play(FcfsQueue(1, None, WorkClock()), arrivals)]
    mean, half = batch_interval(np.array(shared))
    assert abs(mean - theory.mmc_response(rate, service)) < half
    mean, half = batch_interval(np.array(lined))
    assert abs(mean - theory.mg1_response(rate, service, cov=2)) < half
    assert mean - half > theory.mmc_response(rate, service)


@given(arrivals=ARRIVALS, servers=st.integers(1, 4))
def test_first_come_first_served_follows_kiefer_and_wolfowitz(
    arrivals: list[tuple[float, float]], servers: int
) -> None:
    free, now, expected = [0.0] * servers, 0.0, []
    for gap, work in arrivals:
        now += gap
        first = min(range(servers), key=lambda i: free[i])
        free[first] = max(now, free[first]) + work
        expected.append(free[first])
    assert [job.departed for job in play(FcfsQueue(servers, None, WorkClock()), arrivals)] == pytest.approx(expected)


@given(arrivals=ARRIVALS, servers=st.integers(1, 4))
def test_sharing_gives_each_job_the_same_share(arrivals: list[tuple[float, float]], servers: int) -> None:
    """By the definition, event by event: the work left of each job shrinks by the same share."""
    comes = np.cumsum([gap for gap, _ in arrivals]).tolist()
    left = dict(enumerate(work for _, work in arrivals))
    now, present, expected = 0.0, set[int](), {}
    waiting = list(range(len(comes)))
    while present or waiting:
        share = min(1.0, servers / len(present)) if present else 1.0
        ends = now + min(left[i] for i in present) / share if present else math.inf
        nxt = min(ends, comes[waiting[0]] if waiting else math.inf)
        for i in present:
            left[i] -= (nxt - now) * share
        now = nxt
        if nxt == ends:
            for i in [i for i in present if left[i] <= 1e-12]:
                present.remove(i)
                expected[i] = now
        else:
            present.add(waiting.pop(0))
    jobs = play(SharedQueue(servers, None, WorkClock()), arrivals)
    assert [job.departed for job in jobs] == pytest.approx([expected[i] for i in range(len(jobs))], abs=1e-6)


@pytest.mark.parametrize("discipline", DISCIPLINES)
def test_a_full_station_refuses_as_in_theory(discipline: str) -> None:
    rng, queue, now = np.random.default_rng(4), DISCIPLINES[discipline](2, 1, WorkClock()), 0.0
    n, rate, service = 40_000, 20.0, 0.1
    refused = []
    for gap, work in zip(rng.exponential(1 / rate, n), rng.exponential(service, n), strict=True):
        now += gap
        queue.advance(now)
        refused.append(queue.arrive(now, work) is None)
    assert queue.refused == sum(refused)
    share, half = batch_interval(np.array(refused, dtype=float))
    assert abs(share - theory.mmck_refused(rate, service, 2, 1)) < half
    assert abs(share - theory.mmck_refused(rate, service, 2, 2)) > half


@pytest.mark.parametrize("discipline", DISCIPLINES)
def test_a_stall_delays_all_jobs_and_loses_none(discipline: str) -> None:
    queue = DISCIPLINES[discipline](1, None, WorkClock(Stalls(every=5, length=1.5)))
    assert [job.departed for job in play(queue, [(3.0, 1.0), (4.0, 0.5)])] == pytest.approx([5.5, 7.5])


@pytest.mark.parametrize("discipline", DISCIPLINES)
def test_a_pause_within_a_service_delays_it(discipline: str) -> None:
    clock = WorkClock()
    queue = DISCIPLINES[discipline](1, None, clock)
    job = queue.arrive(0.0, 1.0)
    clock.pause(0.4, 2.0)
    clock.pause(1.0, 0.5)  # within the first pause: appended to it
    assert queue.due() == pytest.approx(3.5)
    assert queue.advance(3.4) == []
    assert queue.advance(3.5) == [job]
    clock.pause(10.0, 1.0)
    assert clock.work(10.5) == pytest.approx(7.5)
    assert clock.wall(7.6) == pytest.approx(11.1)


@given(
    t=st.floats(0, 1000),
    every=st.floats(0.5, 60),
    share=st.floats(0.01, 0.9),
    pause=st.floats(0, 5),
    at=st.floats(0, 999),
)
def test_work_time_and_wall_time_are_inverse(t: float, every: float, share: float, pause: float, at: float) -> None:
    clock = WorkClock(Stalls(every, every * share))
    clock.pause(at, pause)
    now = max(t, at)
    assert clock.wall(clock.work(now)) <= now + 1e-6
    assert clock.work(clock.wall(clock.work(now))) == pytest.approx(clock.work(now), abs=1e-6)


def test_closed_systems_follow_the_operational_laws() -> None:
    """Asymptotes of the operational laws: X <= min(N/(Z+S), c/S), and no waits with enough servers."""
    assert theory.closed(200, 12.5, 0.0523, servers=200).response == pytest.approx(0.0523)
    heavy = theory.closed(200, 1.0, 0.0523, servers=8)
    assert heavy.throughput == pytest.approx(8 / 0.0523, rel=1e-3)
    assert heavy.response == pytest.approx(200 / heavy.throughput - 1.0)
    light = theory.closed(1000, 100.0, 0.05, servers=1)  # many users with rare requests: M/M/1
    assert light.response == pytest.approx(theory.mmc_response(light.throughput, 0.05), rel=0.01)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: theory.mmc_response(20, 0.05),
            r"load must be < servers = 1 \(the queue would grow without end\), not 1.0",
        ),
        (lambda: theory.mmc_quantile(1.0, 1, 0.05), r"q must be in \[0, 1\), not 1.0"),
        (lambda: theory.mg1_response(10, 0.05, cov=-1), "cov must be >= 0, not -1.0"),
        (lambda: Stalls(every=5, length=5), "length must be < every = 5.0, not 5.0"),
    ],
)
def test_impossible_settings_are_refused(call: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()  # type: ignore[operator]
