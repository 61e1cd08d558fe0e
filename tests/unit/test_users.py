"""Tasks of users and their think times in short windows, on simulated pools of known law, with the old formulas."""

import math
from dataclasses import replace

import numpy as np
import pytest

from locust_realism.analysis.settings import AnalysisSettings, WorkloadModel
from locust_realism.analysis.verdict.evidence import Facts, collect
from locust_realism.analysis.verdict.users import begun_within, first_rows, task_numbers, task_starts, user_times
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
