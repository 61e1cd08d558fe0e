"""Users whom Locust starts together begin at random instants within the second after, or end before they have begun."""

from __future__ import annotations

import logging
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from typing import Any

import gevent
import numpy as np
import pytest
from locust import User, constant, constant_pacing, task
from locust.env import Environment

from locust_realism import ConstantRate, paced
from locust_realism.runtime.pacing.spread import STEP_S, spread_starts
from locust_realism.runtime.users import session as sessions
from locust_realism.runtime.users.session import SessionRecord, hook_user_start, session_of, user_sessions
from tests.runtime.cluster import eventually

hook_user_start()

ON_TIME_S = 0.05
"""Lateness of a start on a busy machine."""

Start = Callable[..., Any]


class Visitor(User):
    """User that notes when it begins, works and stops."""

    wait_time = constant(60)
    notes: list[tuple[str, float]]

    def note(self, what: str) -> None:
        self.notes.append((what, time.perf_counter()))

    def on_start(self) -> None:
        self.note("begins")

    def on_stop(self) -> None:
        self.note("stops")

    @task
    def work(self) -> None:
        self.note("works")


class Trial:
    """Local runner with one class of users, and what they noted."""

    def __init__(self, base: type[User] = Visitor, *, spread: bool = True, **settings: Any) -> None:
        self.notes: list[tuple[str, float]] = []
        self.ended: list[SessionRecord] = []
        self.environment = Environment(user_classes=[type("Subject", (base,), {"notes": self.notes})], **settings)
        self.environment.parsed_options = Namespace(realism_seed=5, realism_no_spread=not spread)
        self.environment.create_local_runner()
        spread_starts(self.environment)
        user_sessions(self.environment).listeners.append(self.ended.append)
        self.runner: Any = self.environment.runner

    def times(self, what: str) -> np.ndarray[Any, np.dtype[np.float64]]:
        return np.array([at for name, at in self.notes if name == what])


@pytest.fixture
def start() -> Iterator[Start]:
    """Return a function that makes a Trial, which ends with the test."""
    logging.getLogger("locust").setLevel(logging.CRITICAL)
    made: list[Trial] = []

    def make(*arguments: Any, **named: Any) -> Trial:
        made.append(Trial(*arguments, **named))
        return made[-1]

    yield make
    for test in made:
        test.runner.quit()
    logging.getLogger("locust").setLevel(logging.NOTSET)


def kolmogorov(values: np.ndarray[Any, np.dtype[np.float64]]) -> float:
    """Return the largest distance of the empirical distribution from the uniform one from 0 to 1."""
    ordered, n = np.sort(values), len(values)
    return float(max((np.arange(1, n + 1) / n - ordered).max(), (ordered - np.arange(n) / n).max()))


def delays_of(test: Trial, users: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Start users in one step and return the seconds until each has begun."""
    before = time.perf_counter()
    test.runner.start(users, spawn_rate=users)
    eventually(lambda: test.runner.user_count == users)
    assert time.perf_counter() - before < STEP_S / 4, "the greenlets exist at once, as Locust counts them"
    eventually(lambda: len(test.times("begins")) == users)
    return test.times("begins") - before


def test_users_of_a_step_begin_at_uniform_instants_of_the_second_and_work_at_once(start: Start) -> None:
    test = start()
    delays = delays_of(test, users=200)
    # bound of the 1 % level for 200 uniform values, 1.63 / sqrt(n), and what a start may be late
    assert kolmogorov(delays) < 1.63 / np.sqrt(200) + ON_TIME_S
    assert delays.max() < STEP_S + 5 * ON_TIME_S, "the latest of 200"
    gaps = np.diff(np.sort(delays))
    assert gaps.std(ddof=1) / gaps.mean() == pytest.approx(1, abs=0.35), "like independent arrivals, not even"
    eventually(lambda: len(test.times("works")) == 200)
    assert np.abs(np.sort(test.times("works")) - np.sort(test.times("begins"))).max() < ON_TIME_S
    test.runner.stop()
    started = np.sort([row.started for row in test.ended])
    assert np.abs(started - np.sort(test.times("begins"))).max() < ON_TIME_S, "the record counts who has begun"


def test_without_spread_the_users_of_a_step_begin_in_one_lump(start: Start) -> None:
    delays = delays_of(start(spread=False), users=200)
    assert delays.max() < 0.3
    assert kolmogorov(delays) > 0.6


def test_the_same_seed_gives_the_same_delays_and_another_run_others(start: Start) -> None:
    first, second = start(), start()
    delays = np.sort(delays_of(first, users=50))
    assert np.sort(delays_of(second, users=50)) == pytest.approx(delays, abs=ON_TIME_S)
    first.runner.stop()
    first.notes.clear()
    first.environment.parsed_options.realism_seed = 6
    assert np.abs(np.sort(delays_of(first, users=50)) - delays).max() > ON_TIME_S


def test_the_numbers_of_users_at_the_end_of_each_second_are_locusts(start: Start) -> None:
    counts = []
    for spread in (True, False):
        test, complete = start(spread=spread), []
        test.environment.events.spawning_complete.add_listener(
            lambda user_count, found=complete: found.append(user_count)
        )
        test.runner.start(30, spawn_rate=10)
        seen = []
        for second in range(4):
            gevent.sleep(0.5)
            seen.append(test.runner.user_count)
            assert complete == ([] if second < 2 else [30])
            gevent.sleep(0.5)
        counts.append(seen)
        test.runner.stop()
        assert test.runner.user_count == 0
    assert counts[0] == counts[1] == [10, 20, 30, 30]


@pytest.mark.parametrize("stop_timeout", [0, 5])
@pytest.mark.parametrize("seconds", [0.0, 0.3])
def test_users_that_are_stopped_before_they_begin_end_at_once(
    start: Start, stop_timeout: float, seconds: float
) -> None:
    test = start(stop_timeout=stop_timeout)
    errors: list[object] = []
    test.environment.events.user_error.add_listener(lambda exception, **_: errors.append(exception))
    test.runner.start(40, spawn_rate=40)
    gevent.sleep(seconds)
    before = time.perf_counter()
    test.runner.stop()
    assert time.perf_counter() - before < STEP_S / 4
    assert (test.runner.user_count, errors) == (0, [])
    begun = len(test.times("begins"))
    assert len(test.times("works")) == len(test.times("stops")) == begun, "who has begun stops as ever"
    assert 0 <= begun < 40
    assert {row.ending for row in test.ended} == {sessions.STOPPED}
    assert sorted(row.tasks for row in test.ended) == [0] * (40 - begun) + [1] * begun
    gevent.sleep(STEP_S)
    assert len(test.times("begins")) == begun, "and nobody begins later"


def test_a_user_that_is_killed_before_it_begins_leaves_no_trace(start: Start) -> None:
    test = start()
    (user,) = test.runner.spawn_users({"Subject": 1})
    gevent.sleep(0.01)
    assert user.stop(force=False) is True, "a waiting user may be killed at once"
    assert user.greenlet.dead
    assert user.greenlet.exception is None
    gevent.sleep(0)
    assert (test.notes, [row.ending for row in test.ended]) == ([], [sessions.STOPPED])


def test_users_with_a_planned_start_are_not_delayed(start: Start) -> None:
    test = start()
    for user in test.runner.spawn_users({"Subject": 20}):
        session_of(user).planned_start = time.perf_counter()  # as a population does
    gevent.sleep(ON_TIME_S)
    assert len(test.times("begins")) == 20


def test_users_of_a_paced_wait_are_ready_for_its_first_launch(start: Start) -> None:
    class Paced(Visitor):
        abstract = True
        wait_time = paced(ConstantRate(10))

    test = start(Paced)
    test.runner.start(20, spawn_rate=20)
    gevent.sleep(2 * ON_TIME_S)
    assert len(test.times("begins")) == 20


def test_pacing_keeps_the_spread(start: Start) -> None:
    """Locust's constant_pacing would count from the creation of the user, and bring all second tasks together."""

    class Regular(Visitor):
        abstract = True
        wait_time = constant_pacing(1.5)

    test = start(Regular)
    test.runner.start(50, spawn_rate=50)
    eventually(lambda: len(test.times("works")) == 100)
    first, second = np.split(np.sort(test.times("works")), 2)
    assert second - first == pytest.approx(np.full(50, 1.5), abs=ON_TIME_S)
    assert first.max() - first.min() > 0.5
