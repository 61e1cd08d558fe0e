"""Rhythm of a run: stalls of the server, repeated requests and periods, each against runs that have none."""

import heapq
import math
from dataclasses import replace

import numpy as np
import pytest

from locust_realism.analysis.settings import AnalysisSettings
from locust_realism.analysis.verdict import rhythm
from locust_realism.analysis.verdict.evidence import Facts, collect
from locust_realism.analysis.verdict.rhythm import answer_stalls, launch_period_s, retry_share
from locust_realism.recording.launches import LaunchLog
from locust_realism.targets.queues import Stalls


def log_of(launch_s, response_s, **columns):
    order = np.argsort(launch_s, kind="stable")
    chosen = {key: np.asarray(value)[order] for key, value in columns.items()}
    launches, responses = (np.rint(np.asarray(each)[order] * 1e6).astype(np.int64) for each in (launch_s, response_s))
    return LaunchLog.build(launches, responses, names="page", **chosen)


def pool(seed, think, answer, shape="one", users=100, spawn_s=1.0, seconds=30.0):
    """Return the log of a closed pool: a task is one request, four in a row or ten in parallel.

    ``think(rng, now)`` is the pause after a task, ``answer(rng, now)`` the end of a request launched ``now``.
    """
    rng = np.random.default_rng(seed)
    ready = [(spawn_s * user / users, user) for user in range(users)]
    rows = []
    while ready[0][0] < seconds:
        now, user = heapq.heappop(ready)
        ends = []
        for number in range({"one": 1, "row": 4, "parallel": 10}[shape]):
            launch = ends[-1] if ends and shape == "row" else now + 0.0003 * number
            ends.append(answer(rng, launch))
            rows.append((launch, ends[-1] - launch, user))
        heapq.heappush(ready, (max(ends) + think(rng, max(ends)), user))
    launch, response, slot = np.array(rows).T
    return log_of(launch, response, slot=slot.astype(int))


def independent(rng, now):
    return rng.exponential(1.0)


def quick(rng, now):
    return now + rng.lognormal(-6.0, 0.5)


def slow(rng, now):
    """Return the end after a steady 300 ms."""
    return now + rng.normal(0.3, 0.003)


def held(stall_s, every_s, after=quick):
    """Return the answers of a server that stands still for the first ``stall_s`` of every ``every_s`` seconds."""
    return lambda rng, now: after(rng, max(now, now - now % every_s + stall_s))


def stalling(seed, stall_s=0.3, every_s=1.5, shape="one"):
    return pool(seed, independent, held(stall_s, every_s), shape)


def queue(seed, n=3000, rate=90.0, service=0.01):
    """Return the log of one first-come first-served server with exponential service times, nearly full."""
    rng = np.random.default_rng(seed)
    arrivals, free, ends = np.cumsum(rng.exponential(1 / rate, n)), 0.0, []
    for at, need in zip(arrivals.tolist(), rng.exponential(service, n).tolist(), strict=True):
        free = max(free, at) + need
        ends.append(free)
    return log_of(arrivals, np.array(ends) - arrivals)


@pytest.mark.parametrize("shape", ["one", "row", "parallel"])
@pytest.mark.parametrize(("stall_s", "every_s"), [(0.3, 1.5), (0.5, 3.0)])
def test_stalls_of_a_server_are_counted_with_their_length_and_period(stall_s, every_s, shape):
    for seed in range(3):
        log = stalling(seed, stall_s, every_s, shape)
        for known in (log, replace(log, slot=np.full(len(log), -1, np.int32))):
            found = answer_stalls(known)
            assert found.number == pytest.approx(30 / every_s, abs=2)
            assert found.mean_s == pytest.approx(stall_s, abs=0.03)
            assert found.period_s == pytest.approx(every_s, rel=0.1)
            assert found.regular


def test_irregular_stalls_and_those_of_a_slow_server_are_found():
    """Ten stalls of 0.3 to 0.9 s at random times; a slow server that stands still for 0.5 s of every 3 s."""
    for seed in range(3):
        begins = np.sort(np.random.default_rng(seed).choice(28, 10, replace=False)) + 1.0
        lengths = np.random.default_rng(seed + 1).uniform(0.3, 0.9, 10)

        def answer(rng, now, begins=begins, lengths=lengths):
            at = np.searchsorted(begins, now) - 1
            return quick(rng, max(now, begins[at] + lengths[at]) if at >= 0 else now)

        found = answer_stalls(pool(seed, independent, answer))
        assert found.number == pytest.approx(10, abs=1)
        assert found.mean_s == pytest.approx(lengths.mean(), abs=0.05)
        assert not found.regular

        stalls = Stalls(every=3.0, length=0.5)

        def late(rng, now, stalls=stalls):
            return stalls.wall(stalls.work(now) + rng.normal(0.3, 0.003))

        found = answer_stalls(pool(seed, independent, late))
        assert found.number == pytest.approx(9, abs=1)
        assert found.mean_s == pytest.approx(0.5, abs=0.05)


def test_a_stall_in_which_all_users_come_to_wait_is_found():
    """The 20 users wait for the last 4 s of each stall of 5 s, and launch nothing."""
    found = answer_stalls(pool(1, lambda rng, now: rng.exponential(0.1), held(5.0, 20.0), users=20, seconds=90.0))
    assert (found.number, round(found.mean_s), round(found.period_s)) == (4, 5, 20)


def answered_late(stopped_log, stop_s=0.3, every_s=3.0):
    """Return the log of a generator that stands still: it launches and sees answers as soon as it goes on."""

    def seen(at_s):
        return np.where(at_s % every_s < stop_s, at_s - at_s % every_s + stop_s, at_s)

    launch, response = stopped_log.launch_us / 1e6, stopped_log.response_us / 1e6
    return log_of(seen(launch), seen(launch + response) - seen(launch) + 1e-4, slot=stopped_log.slot)


def storm(seed, servers=2, room=2, service=0.02, rate=100.0, seconds=30.0):
    """Return the log of users who repeat a failed request after 20 ms; a full server fails them at once."""
    rng = np.random.default_rng(seed)
    ready = [(at, user) for user, at in enumerate(np.cumsum(rng.exponential(1 / rate, int(rate * seconds))).tolist())]
    free, inside, rows = [0.0] * servers, [], []
    heapq.heapify(ready)
    while ready:
        now, user = heapq.heappop(ready)
        inside = [end for end in inside if end > now]
        failed = len(inside) >= servers + room
        if failed:
            heapq.heappush(ready, (now + 0.021, user))
        else:
            inside.append(max(free[0], now) + service)
            heapq.heapreplace(free, inside[-1])
        rows.append((now, 0.001 if failed else inside[-1] - now, user % 100, failed))
    launch, response, slot, failed = np.array(rows).T
    return log_of(launch, response, slot=slot.astype(int), failed=failed.astype(bool))


def one_loop(seed, rate=60.0, seconds=15.0, launch_s=0.0006, answer_s=0.0006):
    """Return the log of one process whose event loop serves ten launches of each task, and answers after 2 ms, in turn.

    Launches of several tasks together keep the answers waiting; 72 % of the loop's time is used.
    """
    rng = np.random.default_rng(seed)
    due = np.sort(rng.uniform(0.0, seconds, rng.poisson(rate * seconds)))
    turns = [(float(at), 0, task, 0.0) for task, at in enumerate(due) for _ in range(10)]
    heapq.heapify(turns)
    now, rows = 0.0, []
    while turns:
        at, is_answer, task, launched = heapq.heappop(turns)
        now = max(now, at)
        if is_answer:
            now += answer_s
            rows.append((launched, now - launched, task % 90))
        else:
            heapq.heappush(turns, (now + 0.002, 1, task, now))
            now += launch_s
    launch, response, slot = np.array(rows).T
    return log_of(launch, response, slot=slot.astype(int))


def to_the_second(rng, now):
    """Return the pause until the next full second and some milliseconds."""
    return 1.0 - now % 1.0 + rng.uniform(0.0, 0.05)


SOUND = {
    "a full server": queue,
    "ten in parallel": lambda seed: pool(seed, independent, quick, "parallel", users=30, seconds=20.0),
    "ten in parallel of few users": lambda seed: pool(seed, independent, quick, "parallel", users=10),
    "ten in parallel of a busy process": one_loop,
    "four in a row": lambda seed: pool(seed, independent, quick, "row"),
    "constant think times and slow answers": lambda seed: pool(seed, lambda rng, now: 1.0, slow),
    "constant think times and parallel slow answers": lambda seed: pool(
        seed, lambda rng, now: 1.0, slow, "parallel", users=50
    ),
    "users who act together": lambda seed: pool(seed, to_the_second, slow),
    "users who act together and quick answers": lambda seed: pool(seed, to_the_second, quick, "parallel", users=50),
    "retries": storm,
    "a stopped generator": lambda seed: answered_late(pool(seed, independent, quick, "parallel", users=50)),
    "a stopped generator and slow answers": lambda seed: answered_late(pool(seed, independent, slow)),
}


@pytest.mark.parametrize("kind", SOUND)
def test_a_server_that_answers_as_usual_has_no_stalls(kind):
    """Negative control: none of five runs of each kind, also where the log does not have the users."""
    for seed in range(5):
        log = SOUND[kind](seed)
        assert answer_stalls(log) is None
        assert answer_stalls(replace(log, slot=np.full(len(log), -1, np.int32))) is None


def test_slow_answers_and_a_stopped_generator_are_no_stalls():
    """Negative control: none of 40 open runs of two kinds has stalls."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        launch = np.cumsum(rng.exponential(0.01, 3000))
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
