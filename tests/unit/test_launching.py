"""Assignment of launches to waiting users, with a fake clock, without greenlets."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from locust_realism.workload.rates.shapes import ConstantRate, SineRate, StepRate
from locust_realism.workload.users.arrivals import ArrivalStream
from locust_realism.workload.users.launching import LaunchCounts, LaunchQueue, OwnLaunches


def queue(profile: object, seed: int = 1) -> LaunchQueue[str]:
    rng = np.random.default_rng(seed)
    made: LaunchQueue[str] = LaunchQueue(
        ArrivalStream(profile, rng),  # type: ignore[arg-type]
        np.random.default_rng(99).random,
    )
    made.join("the first", 0.0)
    made.leave("the first")
    return made


def planned_times(profile: object, end: float, seed: int = 1) -> list[float]:
    stream = ArrivalStream(profile, np.random.default_rng(seed))  # type: ignore[arg-type]
    times = []
    while stream.peek() < end:
        times.append(stream.take())
    return times


def test_a_user_is_released_at_each_planned_time_and_not_before() -> None:
    launches, plan = queue(ConstantRate(5)), planned_times(ConstantRate(5), 10)
    for n in range(len(plan)):
        assert launches.join(f"user {n}", 0.0) is None
    for planned in plan:
        assert launches.advance(math.nextafter(planned, 0)) == []
        assert launches.next_time() == planned
        [(_, at)] = launches.advance(planned)
        assert at == planned
    assert len(launches) == 0
    assert launches.counts == LaunchCounts(launched=len(plan))


def test_every_waiting_user_has_the_same_chance() -> None:
    launches = queue(ConstantRate(1000))
    for n in range(20):
        launches.join(f"{n}", 0.0)
    released: list[str] = []
    while len(released) < 20_000:
        now = launches.next_time()
        for who, _ in launches.advance(now):
            released.append(who)
            launches.join(who, now)
    counts = np.unique(released, return_counts=True)[1]
    assert stats.chisquare(counts).pvalue > 1e-4
    # Nor is there an order: the next one is the same again in one of twenty cases.
    same = np.mean(np.array(released[1:]) == np.array(released[:-1]))
    assert same == pytest.approx(0.05, abs=4 * math.sqrt(0.05 * 0.95 / 20_000))


def test_the_next_user_takes_an_owed_launch_at_its_planned_time() -> None:
    launches, plan = queue(ConstantRate(5)), planned_times(ConstantRate(5), 10)
    launches.advance(plan[0])
    assert launches.join("late comer", plan[0] + 0.05) == plan[0]
    assert launches.counts == LaunchCounts(launched=1, late=1)
    assert launches.next_time() == plan[1]  # the ones after it are not put off


def test_a_launch_more_than_a_second_late_is_missed_and_never_made_up() -> None:
    launches, plan = queue(ConstantRate(50)), planned_times(ConstantRate(50), 20)
    now = 10.0
    taken = []
    while (at := launches.join("user", now)) is not None:
        taken.append(at)
    due, recent = [t for t in plan if t <= now], [t for t in plan if now - 1 <= t <= now]
    assert taken == recent
    assert launches.counts == LaunchCounts(launched=len(recent), late=len(recent), missed=len(due) - len(recent))
    assert len(due) > 400


def test_the_first_user_does_not_begin_with_a_burst() -> None:
    plan = planned_times(ConstantRate(50), 20)
    launches: LaunchQueue[str] = LaunchQueue(ArrivalStream(ConstantRate(50), np.random.default_rng(1)), lambda: 0.5)
    assert launches.next_time() == math.inf
    assert launches.join("first", 10.0) is None
    assert launches.counts == LaunchCounts(too_early=len([t for t in plan if t <= 10]))
    assert launches.next_time() == next(t for t in plan if t > 10)


def test_a_stalled_process_launches_no_burst() -> None:
    launches, plan = queue(ConstantRate(50)), planned_times(ConstantRate(50), 20)
    for n in range(900):
        launches.join(f"{n}", 0.0)
    released = launches.advance(15.0)  # a stop of 15 s: 750 launches were due
    assert [at for _, at in released] == [t for t in plan if 14 <= t <= 15]
    assert launches.counts.missed == len([t for t in plan if t < 14])


def test_a_user_who_leaves_is_not_released() -> None:
    launches = queue(ConstantRate(5))
    for who in ("a", "b", "c"):
        launches.join(who, 0.0)
    launches.leave("a")
    launches.leave("a")
    launches.leave("c")
    assert [who for who, _ in launches.advance(launches.next_time())] == ["b"]
    assert len(launches) == 0


def test_a_returned_launch_goes_to_another_user_or_is_owed() -> None:
    launches, plan = queue(ConstantRate(5)), planned_times(ConstantRate(5), 10)
    launches.join("a", 0.0)
    assert launches.advance(plan[0]) == [("a", plan[0])]
    assert launches.give_back(plan[0], plan[0] + 0.01) == []
    assert launches.join("b", plan[0] + 0.02) == plan[0]
    launches.join("c", plan[0] + 0.02)
    [(who, at)] = launches.give_back(plan[0], plan[0] + 0.03)
    assert (who, at) == ("c", plan[0])
    assert launches.counts.launched == 1


def test_owed_launches_are_missed_at_the_end() -> None:
    launches, plan = queue(ConstantRate(5)), planned_times(ConstantRate(5), 3)
    assert launches.finish(3.0).missed == len(plan)


def test_launches_due_before_a_change_of_rate_keep_their_times() -> None:
    launches, plan = queue(ConstantRate(5)), planned_times(ConstantRate(5), 10)
    launches.join("a", 0.0)
    assert launches.change(ConstantRate(1), plan[0] + 0.001) == [("a", plan[0])]
    # Five times the rest of the wait at a fifth of the rate.
    rest = plan[1] - plan[0] - 0.001
    assert launches.next_time() == pytest.approx(plan[0] + 0.001 + 5 * rest)


def simulate(profiles: list[object], users: int, response: float, duration: float) -> tuple[np.ndarray, LaunchCounts]:
    """Simulate the launches of several processes; users are away for an exponential response time after each."""
    rng = np.random.default_rng(5)
    launched: list[float] = []
    counts = LaunchCounts()
    for seed, profile in enumerate(profiles):
        launches = queue(profile, seed)
        back: list[tuple[float, str]] = [(0.0, f"{n}") for n in range(users)]
        while True:
            back.sort(reverse=True)
            now = min(launches.next_time(), back[-1][0] if back else math.inf)
            if now > duration:
                break
            if back and back[-1][0] <= now:
                who = back.pop()[1]
                if launches.join(who, now) is None:
                    continue
                started = [who]
            else:
                started = [who for who, _ in launches.advance(now)]
            for who in started:
                launched.append(now)
                back.append((now + rng.exponential(response), who))
        total = launches.finish(duration)
        counts = LaunchCounts(counts.launched + total.launched, counts.late + total.late, counts.missed + total.missed)
    return np.sort(launched), counts


def test_two_workers_with_enough_users_launch_the_poisson_process_of_the_whole() -> None:
    profile = SineRate(min_rate=1, max_rate=19, period=60)
    times, counts = simulate([profile / 2, profile / 2], users=40, response=0.3, duration=600)
    expected = float(profile.cumulative(600))
    assert counts.missed == counts.late == 0
    assert abs(len(times) - expected) <= 3 * math.sqrt(expected)
    gaps = np.diff(profile.cumulative(times), prepend=0.0)
    assert stats.kstest(gaps, "expon").pvalue > 1e-4
    assert abs(gaps.std() / gaps.mean() - 1) <= 3 / math.sqrt(len(gaps))


def test_too_few_users_are_late_and_then_missed_but_never_early() -> None:
    times, counts = simulate([ConstantRate(10)], users=2, response=0.5, duration=300)
    assert counts.missed > 1000  # two users of 0.5 s do 4 a second, of 10 that were asked for
    assert counts.launched == len(times)
    assert len(times) == pytest.approx(4 * 300, rel=0.15)


def test_one_users_own_launches() -> None:
    profile, counts = StepRate(((0, 0), (5, 2))), LaunchCounts()
    plan = planned_times(profile, 60)
    own = OwnLaunches(ArrivalStream(profile, np.random.default_rng(1)), counts)
    assert own.next_time(0.0) == plan[0]
    assert own.launch(plan[0], waited=True) == plan[0]
    assert own.next_time(plan[1] + 0.9) == plan[1]
    assert own.launch(plan[1] + 0.9, waited=False) == plan[1]
    now = plan[2] + 20
    following = own.next_time(now)
    assert following == next(t for t in plan if t >= now - 1)
    assert counts == LaunchCounts(launched=2, late=1, missed=plan.index(following) - 2)
    own.skip_to(50.0)
    assert own.next_time(50.0) == next(t for t in plan if t > 50)
    assert counts.missed == plan.index(following) - 2
