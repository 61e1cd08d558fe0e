"""People of a finite population on workers that join and leave; the test sets the time."""

from __future__ import annotations

import heapq
import math

import numpy as np
import pytest

from locust_realism.workload.distributions import exponential, lognormal
from locust_realism.workload.distributions.streams import spawn
from locust_realism.workload.users.concurrency import FiniteSource
from locust_realism.workload.users.people import Move, PeopleSchedule


def held(schedule: PeopleSchedule) -> int:
    """Return the number of people away or in session at a worker."""
    return len(schedule._away) + len(schedule._in_session) + len(schedule._initial)


AWAY, SESSION = exponential(9), lognormal(3, cov=1.0)


class World:
    """Workers with their people and open sessions; messages between workers arrive at once."""

    def __init__(self, people: int, members: list[int], seed: int = 1) -> None:
        self.people, self.seed, self.now = people, seed, 0.0
        self.rng = spawn(seed, 999)
        self.workers = {index: self.make(index) for index in members}
        self.sessions: list[tuple[float, int, int]] = []
        self.counts: list[int] = []
        self.areas = 0.0
        for schedule in self.workers.values():
            schedule.begin(members, 0.0)

    def make(self, index: int) -> PeopleSchedule:
        presence = SESSION.mean / (AWAY.mean + SESSION.mean)
        return PeopleSchedule(self.people, AWAY, SESSION, presence, spawn(self.seed, index), index)

    def deliver(self, moves: list[Move]) -> None:
        for _ in range(5):
            rest: list[Move] = []
            for move in moves:
                for schedule in self.workers.values():
                    if not schedule.receive([move]):
                        break
                else:
                    rest.append(move)
            moves = rest
        assert not moves

    def change(self, members: list[int]) -> None:
        previous = list(self.workers)
        for index in set(previous) - set(members):
            del self.workers[index]
            self.sessions = [s for s in self.sessions if s[1] != index]
        heapq.heapify(self.sessions)
        joined = sorted(set(members) - set(previous))
        moves: list[Move] = []
        for schedule in self.workers.values():
            moves += schedule.change(members, self.now)
        for index in joined:
            self.workers[index] = self.make(index)
            self.workers[index].join(members, previous, self.now)
        self.deliver(moves)

    def run(self, until: float) -> None:
        while True:
            index = min(self.workers, key=lambda i: self.workers[i].due())
            due = self.workers[index].due()
            end = self.sessions[0][0] if self.sessions else math.inf
            moment = min(due, end, until)
            self.areas += len(self.sessions) * (moment - self.now)
            self.now = moment
            if moment == until:
                return
            if end <= due:
                _, worker, person = heapq.heappop(self.sessions)
                if worker in self.workers and (move := self.workers[worker].finished(person, moment)):
                    self.deliver([move])
            else:
                entry = self.workers[index].take()
                left = (
                    entry.leaves_at if entry.leaves_at is not None else moment + float(SESSION.sample(self.rng, 1)[0])
                )
                heapq.heappush(self.sessions, (left, index, entry.person))
            self.counts.append(len(self.sessions))

    def everyone(self) -> list[int]:
        """Return all people at all workers."""
        return sorted(p for s in self.workers.values() for p in [*s._away, *s._in_session])


def test_the_number_in_session_is_binomial_from_the_start() -> None:
    source = FiniteSource(400, AWAY.mean, SESSION.mean)
    snapshots = []
    for seed in range(150):
        world = World(400, [0, 1], seed)
        world.run(2.0)
        snapshots.append(len(world.sessions))
    assert abs(np.mean(snapshots) - source.mean) < 4 * math.sqrt(source.variance / 150)
    ratio = np.var(snapshots, ddof=1) / source.variance
    assert abs(ratio - 1) < 4 * math.sqrt(2 / 149)


def test_the_time_average_is_littles_law() -> None:
    world = World(200, [0, 1, 2])
    world.run(600.0)
    # The correlation time of N is below that of a session and an absence: about 600 / 9 independent looks.
    assert abs(world.areas / 600 - 50) < 4 * math.sqrt(37.5 / (600 / 9))


def test_a_joining_worker_gets_its_people_without_loss_or_double() -> None:
    world = World(300, [0, 1])
    world.run(20)
    world.change([0, 1, 2])
    world.change([0, 1, 2, 3])
    world.run(120)
    assert world.everyone() == list(range(300))
    sizes = [held(schedule) for schedule in world.workers.values()]
    assert min(sizes) > 40, "all four have about a quarter"
    assert sum(schedule.moved_anew for schedule in world.workers.values()) == 0
    assert sum(len(schedule._expected) for schedule in world.workers.values()) == 0
    assert 45 < world.areas / world.now < 105


def test_people_of_a_lost_worker_draw_anew_and_others_are_undisturbed() -> None:
    world = World(300, [0, 1, 2])
    world.run(20)
    lost = held(world.workers[1])
    before = {index: set(world.workers[index]._in_session) for index in (0, 2)}
    world.change([0, 2])
    for index, sessions in before.items():
        assert sessions <= world.workers[index]._in_session, "people in session never move"
    assert sum(schedule.moved_anew for schedule in world.workers.values()) == lost
    world.run(60)
    assert world.everyone() == list(range(300))


def test_a_person_in_session_moves_when_the_session_is_over() -> None:
    world = World(100, [0])
    world.run(5)
    busy = set(world.workers[0]._in_session)
    world.change([0, 1])
    assert busy == world.workers[0]._in_session
    assert len(world.workers[1]._expected) > 0
    world.run(60)
    assert len(world.workers[1]._expected) == 0
    assert world.everyone() == list(range(100))


def test_people_in_session_at_a_dead_worker_return_later() -> None:
    world = World(200, [0])
    world.run(5)
    world.change([0, 1])
    guests = len(world.workers[1]._expected)
    assert guests > 0
    world.change([1])
    assert len(world.workers[1]._expected) == 0
    assert held(world.workers[1]) == 200
    assert world.workers[1].moved_anew >= guests


def test_a_worker_considered_lost_keeps_its_sessions_and_drops_its_people() -> None:
    schedule = World(100, [0, 1]).workers[0]
    while schedule.due() < 4:
        schedule.take()
    busy = sorted(schedule._in_session)
    assert schedule.change([1], 4.0) == []
    assert schedule.due() == math.inf
    assert schedule.finished(busy[0], 5.0) is None, "another worker has drawn anew for this person"
    schedule.change([0, 1], 6.0)
    assert len(schedule._expected) > 0
    assert schedule.finished(busy[1], 7.0) is None


def test_the_number_of_people_can_be_changed() -> None:
    world = World(100, [0, 1])
    world.run(3)
    for schedule in world.workers.values():
        schedule.resize(150, world.now)
    assert len({p for s in world.workers.values() for p in [*s._away, *s._in_session]}) == 150
    for schedule in world.workers.values():
        schedule.resize(50, world.now)
    world.run(200)
    assert world.everyone() == list(range(50))


def test_people_at_the_wrong_worker_are_forwarded_and_never_doubled() -> None:
    world = World(100, [0, 1])
    moves = [(person, 50.0) for person in range(100)]
    back = world.workers[0].receive(moves)
    theirs = set(world.workers[1]._away) | {e.person for e in world.workers[1]._initial}
    assert {person for person, _ in back} == theirs
    size = held(world.workers[0])
    world.workers[0].receive(moves)
    assert held(world.workers[0]) == size


def test_the_schedule_without_people_is_empty() -> None:
    schedule = World(1, [0, 1]).workers
    empty = [s for s in schedule.values() if held(s) == 0]
    assert len(empty) == 1
    assert empty[0].due() == math.inf
    with pytest.raises(IndexError):
        empty[0].take()
