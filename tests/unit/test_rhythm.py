"""Rhythm of a run: stalls of the server, repeated requests and periods, each against runs that have none."""

import heapq
import math

import numpy as np
import pytest

from locust_realism.analysis.settings import AnalysisSettings
from locust_realism.analysis.verdict import rhythm
from locust_realism.analysis.verdict.evidence import Facts, collect
from locust_realism.analysis.verdict.rhythm import answer_stalls, launch_period_s, retry_share
from locust_realism.recording.launches import LaunchLog


def log_of(launch_s, response_s, **columns):
    order = np.argsort(launch_s, kind="stable")
    chosen = {key: np.asarray(value)[order] for key, value in columns.items()}
    launches, responses = (np.rint(np.asarray(each)[order] * 1e6).astype(np.int64) for each in (launch_s, response_s))
    return LaunchLog.build(launches, responses, names="page", **chosen)


def stalling(seed, stall_s=0.3, every_s=1.5, users=100, think_s=1.0, seconds=30.0):
    """Return the log of a closed pool whose server holds all answers for ``stall_s`` of every ``every_s`` seconds."""
    rng = np.random.default_rng(seed)
    ready = [(float(t), user) for user, t in enumerate(rng.exponential(think_s, users))]
    heapq.heapify(ready)
    rows = []
    while ready[0][0] < seconds:
        now, user = heapq.heappop(ready)
        phase = now % every_s
        end = max(now, now - phase + stall_s) + rng.exponential(0.002)
        rows.append((now, end - now, user))
        heapq.heappush(ready, (end + rng.exponential(think_s), user))
    launch, response, slot = np.array(rows).T
    return log_of(launch, response, slot=slot.astype(int))


def queue(seed, n=3000, rate=90.0, service=0.01):
    """Return the log of one first-come first-served server with exponential service times, nearly full."""
    rng = np.random.default_rng(seed)
    arrivals, free, ends = np.cumsum(rng.exponential(1 / rate, n)), 0.0, []
    for at, need in zip(arrivals.tolist(), rng.exponential(service, n).tolist(), strict=True):
        free = max(free, at) + need
        ends.append(free)
    return log_of(arrivals, np.array(ends) - arrivals)


def test_stalls_of_a_server_are_counted_with_their_length_and_period():
    for seed in range(5):
        found = answer_stalls(stalling(seed))
        assert found.number == pytest.approx(19, abs=2)
        assert found.mean_s == pytest.approx(0.3, abs=0.03)
        assert found.period_s == pytest.approx(1.5, rel=0.1)
        assert found.regular


def test_a_full_server_slow_answers_and_a_stopped_generator_are_no_stalls():
    """Negative control: none of 60 runs of three kinds has stalls."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        launch = np.cumsum(rng.exponential(0.01, 3000))
        assert answer_stalls(queue(seed)) is None
        assert answer_stalls(log_of(launch, rng.lognormal(-1, 1.5, 3000))) is None
        # Nobody launches while the generator stands still, and all answers are seen when it goes on.
        stopped = launch + 0.5 * (launch // 3)
        assert answer_stalls(log_of(stopped, rng.exponential(0.003, 3000))) is None


def retrying(seed, share=0.1, pause_s=0.02, n=4000):
    """Return the log of users who repeat a failed request after ``pause_s``, and think for a second otherwise."""
    rng = np.random.default_rng(seed)
    failed = rng.uniform(size=n) < share
    response = rng.exponential(0.01, n)
    pauses = np.where(failed, pause_s, rng.exponential(1.0, n))
    slot = np.repeat(np.arange(20), n // 20)
    start = np.concatenate([np.cumsum((response + pauses)[slot == user]) for user in range(20)])
    # The pause and the response of a row end before the next row of the same user.
    return log_of(start - response - pauses, response, slot=slot, failed=failed)


def test_repetitions_of_failed_requests_are_counted():
    for seed in range(5):
        for pause_s in (0.005, 0.02, 0.1):
            found = retry_share(retrying(seed, pause_s=pause_s))
            assert found == pytest.approx(0.1, abs=4 * math.sqrt(0.09 / 4000))


def test_some_users_of_a_long_run_have_the_same_share(monkeypatch):
    """A fifth of the users: the error is that of 800 launches."""
    monkeypatch.setattr(rhythm, "MAX_ROWS", 800)
    assert retry_share(retrying(3)) == pytest.approx(0.1, abs=4 * math.sqrt(0.09 / 800))


def test_failures_after_which_users_think_as_usual_are_no_repetitions():
    """Negative control: a second of pause after a failure; users without pauses; no failures at all."""
    for seed in range(10):
        assert retry_share(retrying(seed, pause_s=0.3)) == 0
        rng = np.random.default_rng(seed)
        busy = log_of(
            np.arange(3000) * 0.011, np.full(3000, 0.01), slot=np.zeros(3000, int), failed=rng.uniform(size=3000) < 0.1
        )
        assert retry_share(busy) == 0
    assert retry_share(retrying(1, share=0.0)) == 0
    assert math.isnan(retry_share(LaunchLog.empty()))


def varying(seed, period_s, amplitude, n=4000, rate=100.0):
    """Return Poisson launch times in microseconds whose rate swings by a sine."""
    rng = np.random.default_rng(seed)
    grid = np.linspace(0, 2 * n / rate, 200_001)
    turn = 2 * np.pi / period_s
    mean = rate * (grid + amplitude / turn * (1 - np.cos(turn * grid)))
    return 1e6 * np.interp(np.cumsum(rng.exponential(1.0, n)), mean, grid)


@pytest.mark.parametrize("period_s", [1.0, 4.0, 12.0, 18.0])
def test_the_period_of_a_varying_rate_is_found(period_s):
    for seed in range(5):
        assert launch_period_s(varying(seed, period_s, 0.6)) == pytest.approx(period_s, rel=0.15)


def test_users_in_step_have_the_period_of_their_waits():
    rng = np.random.default_rng(2)
    steps = np.sort((np.arange(60)[:, None] * 1.25 + rng.uniform(0, 0.03, (60, 50))).ravel()) * 1e6
    assert launch_period_s(steps) == pytest.approx(1.25, rel=0.03)


def test_independent_launches_have_no_period():
    """Negative control: at most one of 100 Poisson runs and of 100 pools has a period."""
    found = [launch_period_s(varying(seed, 1.0, 0.0)) for seed in range(100)]
    for seed in range(100):
        rng = np.random.default_rng(seed)
        trips = np.cumsum(rng.uniform(0, 2, (100, 60)), axis=1).ravel()
        found.append(launch_period_s(1e6 * np.sort(trips[(trips > 5) & (trips < 45)])))
    assert sum(not math.isnan(period) for period in found) <= 1
    assert math.isnan(launch_period_s(np.zeros(500)))
    assert math.isnan(launch_period_s(np.zeros(0)))


def test_the_evidence_has_all_three():
    log = stalling(1)
    found = collect(log, AnalysisSettings(), Facts())
    assert found.server_stalls is not None
    assert found.server_stalls == answer_stalls(log)
    assert found.retries == 0
    assert collect(retrying(1), AnalysisSettings(), Facts()).retries > 0.05
