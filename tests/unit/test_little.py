"""Little's law at short levels of pools of known law, with the old estimate of the think time as the control."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from locust_realism.analysis.capacity import little
from locust_realism.analysis.capacity.capacity import capacity
from locust_realism.analysis.capacity.levels import split_levels
from locust_realism.analysis.capacity.little import ENOUGH_PAUSES, PauseLaw, Pauses, level_times
from locust_realism.recording.launches import MISSING, LaunchLog
from locust_realism.workload.distributions import Distribution, constant, exponential, lognormal, uniform

Z, R = 12.0, 0.05
LEVELS = [40, 80, 120]


def staircase(
    law: Distribution, level_s: float, seed: int, *, levels: list[int] = LEVELS, stuck: float = 0.0
) -> LaunchLog:
    """Return levels of users that pause by a law, R seconds a request, in their steady state: no queue, no ramp.

    ``stuck`` of the users never launch.
    """
    rng = np.random.default_rng(seed)
    end = level_s * len(levels)
    joined = np.repeat(np.arange(len(levels)) * level_s, np.diff(levels, prepend=0))
    think = law.sample(rng, len(joined) * (most := 20 + int(4 * end / law.mean))).reshape(len(joined), most)
    first = joined + law.sample_residual(rng, len(joined))
    start = first[:, None] + np.cumsum(think + R, axis=1) - think[:, :1] - R
    start[rng.random(len(joined)) < stuck] = end
    user, step = np.nonzero(start < end)
    order = np.argsort(start[user, step], kind="stable")
    at = start[user, step][order]
    users = np.array(levels)[(at // level_s).astype(int)]
    return LaunchLog.build(np.rint(at * 1e6).astype(int), round(R * 1e6), slot=user[order], users=users)


def finished_pauses(log: LaunchLog) -> list[float]:
    """Return Z of each level from the pauses that begin and end in it, as it was estimated before."""
    order = np.argsort(log.slot, kind="stable")
    same = (np.diff(log.slot[order]) == 0) & (np.diff(log.users[order]) == 0)
    pause = np.diff(log.launch_us[order]) / 1e6 - R
    return [float(pause[same & (log.users[order][:-1] == users)].mean()) for users in np.unique(log.users)]


@pytest.mark.parametrize("level_s", [30.0, 60.0, 120.0])
def test_littles_law_holds_at_short_levels(level_s: float) -> None:
    """Mean of 20 staircases: its standard error is under .9 %; finished pauses alone lose 10 to 40 %."""
    ratios, old, warnings = [], [], 0
    for seed in range(20):
        log = staircase(exponential(Z), level_s, seed)
        found = capacity(log)
        ratios.append([row["little_ratio"] for row in found["levels"]])
        pauses = zip(found["levels"], finished_pauses(log), strict=True)
        old.append([row["rate"] * (R + z) / row["users"] for row, z in pauses])
        warnings += any("Little" in warning for warning in found["warnings"])
    known = np.array(ratios, dtype=float)
    np.testing.assert_allclose(np.nanmean(known), 1, atol=0.02)
    assert np.isnan(known).mean() <= (0.2 if level_s < 3 * Z else 0), "the last level is 2.5 mean pauses long"
    assert warnings == 0
    assert np.mean(old) < 0.92, "the negative control"


@pytest.mark.parametrize(("law", "off"), [(constant(Z), 0.02), (uniform(0, 2 * Z), 0.02), (lognormal(Z, cov=2), 0.08)])
def test_littles_law_holds_for_other_pauses(law: Distribution, off: float) -> None:
    """The longest of heavy-tailed pauses are longer than the log, so that their mean is some per cent low."""
    found = [capacity(staircase(law, 60.0, seed)) for seed in range(15)]
    ratios = np.array([[row["little_ratio"] for row in each["levels"]] for each in found], dtype=float)
    assert np.nanmean(ratios) == pytest.approx(1, abs=off)
    assert sum(any("Little" in warning for warning in each["warnings"]) for each in found) <= (off > 0.02)


def test_users_who_are_stuck_break_littles_law() -> None:
    """20 % of the users never launch; with all of them there, no run warns."""
    found = [capacity(staircase(exponential(5.0), 60.0, seed, stuck=0.2)) for seed in range(10)]
    assert sum(any("Little's law does not hold" in text for text in each["warnings"]) for each in found) >= 7
    assert not any(capacity(staircase(exponential(5.0), 60.0, seed))["warnings"][1:] for seed in range(10))


def test_a_user_that_stops_in_a_pause_does_not_lengthen_the_think_time() -> None:
    """Half of the users stop after a third of the log: they do not think for minutes."""
    log = staircase(exponential(1.0), 60.0, 1, levels=[40])
    log = log.take((log.slot >= 20) | (log.launch_us < 20_000_000))
    (row,) = capacity(log)["levels"]
    assert row["think_ms"] == pytest.approx(1000, rel=0.06)
    assert row["little_ratio"] == pytest.approx(2 / 3, abs=0.05)


def test_a_level_that_is_too_short_has_no_think_time_but_a_sentence() -> None:
    log = staircase(exponential(Z), 20.0, 1, levels=[100])
    found = capacity(log)
    assert found["levels"][0]["think_ms"] is None
    assert found["levels"][0]["little_ratio"] is found["levels"][0]["feedback"] is None
    (missing,) = level_times(log, split_levels(log)).missing_s
    assert 20 < missing < ENOUGH_PAUSES * Z
    assert f"Hold 100 users for {missing:.3g} s more." in found["warnings"][0]
    assert capacity(staircase(exponential(Z), 20 + missing, 1, levels=[100]))["levels"][0]["think_ms"] is not None


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        (staircase(exponential(Z), 10.0, 1, levels=[20, 40, 60, 80]), "3 of 3 levels: too few pauses end in time"),
        (LaunchLog.build(np.arange(400) * 100_000, 50_000, users=10, slot=np.arange(400)), "1 of 1 levels: no pause"),
        (LaunchLog.build(np.arange(400) * 100_000, 50_000, users=10), "1 of 1 levels: the users of the requests were"),
        (LaunchLog.build(np.arange(400) * 100_000, MISSING, users=10, slot=0), "1 of 1 levels: no response time"),
    ],
)
def test_each_unknown_think_time_has_a_reason(log: LaunchLog, reason: str) -> None:
    found = capacity(log)
    assert [row["think_ms"] for row in found["levels"]] == [None] * len(found["levels"])
    assert any(f"The think time is unknown at {reason}" in text for text in found["warnings"]), found["warnings"]


def test_levels_that_were_visited_twice_have_a_reason() -> None:
    """Up and down in steps of 10 s with pauses of 12 s; the sentence was about the highest level alone."""
    up = staircase(exponential(Z), 10.0, 1, levels=[20, 40, 60])
    down = LaunchLog.build(30_000_000 + np.arange(40) * 250_000, 50_000, slot=np.arange(40), users=40)
    assert any(
        "before users leave. One visit of" in text for text in capacity(LaunchLog.concat([up, down]))["warnings"]
    )


def test_users_who_come_and_go_have_no_think_time() -> None:
    """An open population: the time between two users of a slot is no think time, so Little's law is not judged."""
    rng = np.random.default_rng(11)
    launch = np.sort(rng.integers(0, 200_000_000, 8000))
    users = 20 + np.cumsum(rng.integers(0, 2, 8000) * 2 - 1) % 7
    found = capacity(LaunchLog.build(launch, 50_000, slot=rng.integers(0, 20, 8000), users=users))
    assert all(row["think_ms"] is None and row["little_ratio"] is None for row in found["levels"])
    assert not any("Little" in warning or "Hold" in warning for warning in found["warnings"])
    assert any("before users leave" in warning for warning in found["warnings"])


def test_pauses_after_the_number_of_users_falls_are_cut_short_there() -> None:
    """40 users for 60 s, then 20: the 20 that leave do not pause to the end of the log."""
    up = staircase(exponential(2.0), 60.0, 3, levels=[40])
    down = staircase(exponential(2.0), 60.0, 4, levels=[20])
    moved = replace(down, launch_us=down.launch_us + 60_000_000)
    few, many = level_times(log := LaunchLog.concat([up, moved]), split_levels(log)).think_s
    assert (few, many) == (pytest.approx(2, rel=0.1), pytest.approx(2, rel=0.1))


def test_parallel_requests_of_a_task_are_one_wait() -> None:
    """Two requests at once, .2 and .3 s, each second: R is .3 s, and two requests are one task. X R alone is .5."""
    log = LaunchLog.build(
        np.repeat(np.arange(100) * 1_000_000, 2),
        np.tile([200_000, 300_000], 100),
        slot=0, users=1, task=np.repeat(np.arange(100), 2), think_us=700_000,
    )  # fmt: skip
    (row,) = capacity(log)["levels"]
    assert row["think_ms"] == pytest.approx(700)
    assert row["feedback"] == pytest.approx(0.3)
    assert row["little_ratio"] == pytest.approx(1, abs=0.02)
    assert row["rate"] == pytest.approx(2, rel=0.02)


def test_first_tasks_of_users_are_the_spawners_and_not_in_the_rate() -> None:
    """100 users that all launch at once and then pause: with their first tasks X is 5 / 30 of N / Z too high."""
    rng = np.random.default_rng(2)
    gaps = rng.exponential(5.0, (100, 40))
    start = np.cumsum(np.concatenate((np.zeros((100, 1)), gaps), axis=1), axis=1)
    user, step = np.nonzero(start < 30)
    order = np.argsort(start[user, step], kind="stable")
    think = np.where(step == 0, MISSING, np.rint(gaps[user, step - 1] * 1e6).astype(int))[order]
    log = LaunchLog.build(
        np.rint(start[user, step][order] * 1e6).astype(int), 0,
        slot=user[order], users=100, task=np.arange(len(order)), think_us=think,
    )  # fmt: skip
    (row,) = capacity(log)["levels"]
    assert row["little_ratio"] == pytest.approx(1, abs=0.07)
    (plain,) = capacity(replace(log, task=np.full_like(log.task, MISSING)))["levels"]
    assert plain["little_ratio"] == pytest.approx(row["little_ratio"] + 5 / 30, abs=0.02), "the negative control"


def test_the_pause_after_an_unknown_response_time_does_not_count() -> None:
    """One user: launches 1 s apart, responses after 0.4 s, a twentieth of them unknown."""
    response = np.where(np.arange(400) % 20 == 7, MISSING, 400_000)
    log = LaunchLog.build(np.arange(400) * 1_000_000, response, users=1, slot=0, worker=0)
    assert level_times(log, split_levels(log)).think_s == pytest.approx([0.6])


def test_the_mean_of_a_sample_of_users_is_that_of_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    log = staircase(exponential(0.5), 20.0, 5, levels=[200, 400])
    whole = level_times(log, split_levels(log))
    monkeypatch.setattr(little, "MOST_ROWS", len(log) / 4)
    times = level_times(log, split_levels(log))
    assert times.think_s != pytest.approx(whole.think_s, rel=1e-9)
    assert times.think_s == pytest.approx(whole.think_s, rel=0.05)
    assert times.rate == pytest.approx(whole.rate, rel=1e-3)


def test_the_product_limit_of_pauses_that_are_cut_short() -> None:
    """30 pauses each of 1, 2+, 3 and 4 s: S is 1, .75, .75, .375 and 0, the mean 1 + .75 + .75 + .375."""
    seconds = np.repeat([1.0, 2, 3, 4], 30)
    pauses = Pauses(seconds, seconds != 2)
    law = PauseLaw.of(pauses)
    assert law.mean(law) == (pytest.approx(2.875), 0.0)
    cut = PauseLaw.of(Pauses(np.minimum(seconds, 2.5), seconds < 2))
    beyond = PauseLaw.of(Pauses(seconds, np.ones(120, dtype=bool)))
    mean, unseen = cut.mean(beyond)
    assert mean == pytest.approx(1 + 0.75 * (1.5 + (0.5 * 1.5 + 0.5 * 0.5)), rel=0.03), "S(2.5) is .75, the rest of all"
    assert unseen == 0
    none = PauseLaw.of(Pauses(np.ones(5), np.zeros(5, dtype=bool)))
    assert math.isnan(none.mean(none)[0])
