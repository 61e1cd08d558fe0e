"""Tasks of users and their think times in short windows, on simulated pools of known law, with the old formulas."""

import math
from dataclasses import replace

import numpy as np
import pytest

from locust_realism.analysis.settings import AnalysisSettings, WorkloadModel
from locust_realism.analysis.stats.intervals import user_ranks
from locust_realism.analysis.verdict.evidence import Facts, collect
from locust_realism.analysis.verdict.users import (
    begun_within,
    first_rows,
    task_numbers,
    task_starts,
    user_tasks,
    user_times,
)
from locust_realism.recording.launches import MISSING, LaunchLog
from locust_realism.workload.distributions import Distribution, exponential, lognormal

Z, R = 12.0, 0.5


def pool(law: Distribution, window: float, users: int, seed: int, *, marked: bool = True) -> LaunchLog:
    """Return ``window`` seconds of a pool in its steady state: pauses of this law, R seconds a task."""
    rng = np.random.default_rng(seed)
    each = 40 + int(6 * window / law.mean)
    think = law.sample(rng, users * each).reshape(users, each)
    # At a random instant a user is in a task for a share R / (R + Z), and in a residual pause otherwise.
    residual = law.sample_residual(rng, users)
    inside = rng.random(users) < R / (R + law.mean)
    first = np.where(inside, -R * rng.random(users), residual)
    start = first[:, None] + np.concatenate((np.zeros((users, 1)), np.cumsum(think[:, 1:] + R, axis=1)), axis=1)
    user, step = np.nonzero((start >= 0) & (start < window))
    order = np.argsort(start[user, step], kind="stable")
    user, step = user[order], step[order]
    task = np.arange(len(user)) if marked else np.full(len(user), MISSING)
    pause = np.rint(think[user, step] * 1e6).astype(int) if marked else np.full(len(user), MISSING)
    launches = np.rint(start[user, step] * 1e6).astype(int)
    return LaunchLog.build(launches, round(R * 1e6), slot=user, users=users, task=task, think_us=pause)


def finished_pauses(log: LaunchLog) -> float:
    """Return the mean pause between two launches of a user within the log, as it was estimated before (weighted)."""
    order = np.argsort(log.slot, kind="stable")
    same = np.diff(log.slot[order]) == 0
    gap = np.diff(log.launch_us[order])[same] / 1e6
    window = float(log.launch_us[-1] - log.launch_us[0]) / 1e6
    weight = window / np.maximum(window - gap, window / 4)
    return float(((gap - R) * weight).sum() / weight.sum())


@pytest.mark.parametrize("marked", [True, False])
@pytest.mark.parametrize(
    ("law", "window", "bound"),
    [
        (exponential(Z), 20.0, 0.02),
        (exponential(Z), 30.0, 0.02),
        (exponential(Z), 60.0, 0.02),
        (lognormal(Z, cov=2), 60.0, 0.03),
    ],
)
def test_think_times_have_no_bias_in_a_short_window(
    law: Distribution, window: float, bound: float, marked: bool
) -> None:
    """Mean of 40 pools of 400 users: the standard error of the mean is under .6 %; the old formula is 5 to 30 % off."""
    logs = [pool(law, window, 400, seed, marked=marked) for seed in range(40)]
    found = [user_times(log) for log in logs]
    assert abs(np.mean([times.think_mean for times in found]) / Z - 1) < bound
    share = R / (R + Z)
    assert abs(np.mean([times.response_share for times in found]) / share - 1) < bound
    assert np.mean([finished_pauses(log) for log in logs]) < (1 - 2 * bound) * Z, "the negative control"


def test_the_standard_error_of_the_think_time_is_that_of_repeated_runs() -> None:
    """z of 200 pools has the spread 1 within 4 / sqrt(400)."""
    for users in (8, 200):
        found = [user_times(pool(exponential(Z), 120.0, users, seed)) for seed in range(200)]
        scores = np.array([(times.think_mean - Z) / times.think_se for times in found])
        assert abs(scores.std() - 1) < 0.2 + 0.15 * (users < 20), users
        assert abs(scores.mean()) < 4 / math.sqrt(200) + 0.1


def test_pauses_that_are_shorter_than_planned_are_found() -> None:
    """Negative control: 15 % less than planned is far beyond the error of 400 users in 60 s."""
    found = user_times(pool(exponential(0.85 * Z), 60.0, 400, 1))
    assert (Z - found.think_mean) / found.think_se > 5


def parallel(requests: int = 10, seed: int = 3) -> LaunchLog:
    """Return 100 users with exponential(10): each task sends its requests in parallel."""
    rng = np.random.default_rng(seed)
    tasks = pool(exponential(10.0), 300.0, 100, seed)
    launches = np.repeat(tasks.launch_us, requests) + np.tile(np.arange(requests) * 150, len(tasks))
    took = rng.integers(100_000, 490_000, len(launches))
    log = LaunchLog.build(
        launches,
        took,
        slot=np.repeat(tasks.slot, requests),
        users=100,
        task=np.repeat(tasks.task, requests),
        think_us=np.repeat(tasks.think_us, requests),
    )
    return log.take(np.argsort(log.launch_us, kind="stable"))


def test_ten_parallel_requests_are_one_task() -> None:
    log = parallel()
    assert task_starts(log).sum() == len(log) / 10
    found = user_times(log)
    assert found.requests_per_task == 10
    assert found.overlap == 0
    model = WorkloadModel(kind="closed", users=100, think_time_s=10.0)
    evidence = collect(log, AnalysisSettings(), Facts(model=model, health={"wake_p90_ms": 0.3}))
    assert abs(evidence.gaps.cov - 1) < 4 / math.sqrt(evidence.gaps.n)
    assert evidence.closed
    unmarked = replace(log, task=np.full(len(log), MISSING), think_us=np.full(len(log), MISSING))
    assert collect(unmarked, AnalysisSettings(), Facts(model=model)).gaps.cov > 2, "the negative control"


def test_requests_outside_of_tasks_do_not_count() -> None:
    log = LaunchLog.build(range(6), 1, slot=[0, 0, 0, 1, -1, -1], task=[-1, 4, 4, 4, -1, -1], worker=[0, 0, 0, 1, 0, 0])
    assert task_starts(log).tolist() == [False, True, False, True, True, True]
    assert (task_numbers(log) >= 0).tolist() == [False, True, True, True, True, True]


def test_first_tasks_of_a_fixed_pool_count_only_where_they_are_planned() -> None:
    log = LaunchLog.build(
        range(6), 1, slot=[0, 0, 1, 1, 0, 1], task=[0, 0, 1, 1, 2, 3], think_us=[-1, -1, -1, -1, 5, 5],
        planned_us=[-1, -1, 2, -1, -1, -1],
    )  # fmt: skip
    assert task_starts(log).tolist() == [True, False, True, False, True, True]
    assert task_starts(log, spawned=True).tolist() == [False, False, True, False, True, True]
    assert first_rows(task_numbers(log, spawned=True)).tolist() == [2, 4, 5]


def test_users_of_a_single_task_each_count() -> None:
    log = LaunchLog.build(range(4), 1, slot=[0, 1, 0, 1], task=range(4), think_us=MISSING)
    assert task_starts(log, spawned=True).all()


def test_a_task_that_began_before_the_window_is_no_task_of_the_window() -> None:
    log = parallel()
    rows = slice(int(np.searchsorted(log.launch_us, log.launch_us[1000] - 600)), len(log))
    part = begun_within(log, rows)
    starts = part.launch_us[task_starts(part)]
    assert set(starts) <= set(log.launch_us[task_starts(log)])
    cut = log.take(slice(1005, None))
    assert not set(cut.launch_us[task_starts(cut)]) <= set(log.launch_us[task_starts(log)]), "the negative control"


def test_work_of_a_task_beside_its_responses_is_no_think_time() -> None:
    """A task computes for 2 s after its response; the recorded pause begins afterwards."""
    log = pool(exponential(Z), 240.0, 200, 5)
    at = log.launch_us.copy()
    order = np.lexsort((at, log.slot))
    number = np.concatenate(([0], np.where(np.diff(log.slot[order]) == 0, 1, 0)))
    steps = np.arange(len(at)) - np.maximum.accumulate(np.where(number == 0, np.arange(len(at)), 0))
    at[order] += steps * 2_000_000
    slow = replace(log, launch_us=at)
    slow = slow.take(np.argsort(at, kind="stable"))
    slow = slow.take(slow.launch_us < 240_000_000)
    found = user_times(slow)
    assert abs(found.think_mean - Z) < 4 * found.think_se
    unknown = user_times(replace(slow, think_us=np.full(len(slow), MISSING)))
    assert unknown.think_mean == pytest.approx(found.think_mean + 2.0, abs=0.05), "the negative control"


def evenly(at_ms: list[int], took_ms: list[int], trip_ms: int, think_ms: int, users: int = 20) -> LaunchLog:
    """Return 40 tasks of each user, evenly spread, with requests at ``at_ms`` in the task."""
    begins = np.arange(40 * users) * (trip_ms * 1000 // users)
    launches = (begins[:, None] + 1000 * np.array(at_ms)).ravel()
    log = LaunchLog.build(
        launches,
        np.tile(1000 * np.array(took_ms), len(begins)),
        slot=np.repeat(np.arange(len(begins)) % users, len(at_ms)),
        users=users,
        task=np.repeat(np.arange(len(begins)), len(at_ms)),
        think_us=think_ms * 1000,
    )
    return log.take(np.argsort(launches, kind="stable"))


def test_a_user_waits_while_a_request_is_under_way() -> None:
    """Locust's quickstart task sends ten requests of 5 ms, sleeps 1 s after each and then waits for 3 s."""
    slept = user_times(evenly([1005 * i for i in range(10)], [5] * 10, 13_050, 3000))
    assert slept.think_mean == pytest.approx(3.0, abs=1e-6)
    assert slept.response_share == pytest.approx(0.05 / 13.05, rel=1e-6)
    assert (slept.round_trip - slept.think_mean) / slept.round_trip > 0.75, "the negative control: the whole task"


@pytest.mark.parametrize(
    ("at_ms", "took_ms", "waited_s"),
    [
        ([0], [160], 0.16),
        ([0, 1, 120], [100, 50, 60], 0.16),
        ([0, 40, 90], [40, 50, 10], 0.1),
        ([0, 0, 0], [30, 70, 50], 0.07),
    ],
)
def test_parallel_requests_are_one_wait(at_ms: list[int], took_ms: list[int], waited_s: float) -> None:
    found = user_times(evenly(at_ms, took_ms, 1000, 700))
    assert found.response_share == pytest.approx(waited_s, rel=1e-6)
    assert found.think_mean == pytest.approx(0.7, abs=1e-6)


def test_the_wait_of_a_task_is_the_union_of_its_responses() -> None:
    """Compare with a count of milliseconds, for tasks of one to six requests at random times."""
    rng = np.random.default_rng(4)
    task = np.repeat(np.arange(200), rng.integers(1, 7, 200))
    at, took = rng.integers(0, 60, len(task)) * 1000, rng.integers(0, 30, len(task)) * 1000
    log = LaunchLog.build(task * 40_000 + at, took, slot=task % 7, task=task).sorted_by_launch()
    busy = np.zeros((200, 200), dtype=bool)
    for number, begin, length in zip(task, at // 1000, took // 1000, strict=True):
        busy[number, begin : begin + length] = True
    found = user_tasks(log, user_ranks(log)[0])
    expected = np.array([busy[user::7].sum() / 1000 for user in range(7)])
    assert np.bincount(found.user, weights=found.response) == pytest.approx(expected)
    assert (found.response <= found.span + 1e-9).all()
    assert found.span.sum() > 1.1 * found.response.sum(), "the negative control: the time from first to last"


def quickstart(seed: int, window_s: float = 60.0, users: int = 100) -> LaunchLog:
    """Return a window of Locust's quickstart: tasks of 9.05 s, a second of sleep, think times of 1 to 5 s."""
    rng = np.random.default_rng(seed)
    many = round(window_s / 13.05) + 10
    think = rng.uniform(1.0, 5.0, (users, many))
    begins = np.cumsum(think + 10.05, axis=1) - 10.05 + rng.uniform(-60.0, -30.0, (users, 1))
    launches = (begins[:, :, None] + 1.005 * np.arange(10)).ravel()
    numbers = np.repeat(np.arange(users * many), 10)
    log = LaunchLog.build(
        np.rint((launches + 100.0) * 1e6).astype(int),
        5000,
        slot=np.repeat(np.arange(users), 10 * many),
        users=users,
        task=numbers,
        think_us=np.repeat(np.rint(think * 1e6).astype(int), 10),
    ).sorted_by_launch()
    first, last = np.searchsorted(log.launch_us, [100_000_000, round(1e6 * (100.0 + window_s))])
    return begun_within(log, slice(int(first), int(last)))


def test_tasks_that_the_end_of_the_window_cuts_do_not_change_the_think_time() -> None:
    """Mean of 40 pools and spread of their errors; the mean of all tasks is too short by half a second."""
    logs = [quickstart(seed) for seed in range(40)]
    found = [user_times(log) for log in logs]
    scores = np.array([(times.think_mean - 3.0) / times.think_se for times in found])
    assert abs(scores.mean()) < 4 / math.sqrt(40)
    assert abs(scores.std() - 1) < 4 / math.sqrt(80)
    assert np.mean([times.response_share for times in found]) == pytest.approx(0.05 / 13.05, rel=0.02)
    cut = np.mean([user_tasks(log, user_ranks(log)[0]).span.mean() for log in logs])
    assert cut < 9.05 - 0.4, "the negative control"
