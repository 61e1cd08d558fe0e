"""People of a finite population in one process: their absences, sessions and moves between workers.

One worker owns each person (``concurrency.owners``). When workers join or leave, people who are away move with the
time of their return; people in session move at the end of the session; those of a lost worker draw a new absence at
their new owner. Times are seconds since the start of the run, the same on all workers.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from locust_realism.workload.distributions.base import Distribution
from locust_realism.workload.distributions.streams import batched_draws
from locust_realism.workload.users.arrivals import Entry, spread
from locust_realism.workload.users.concurrency import owners

Move = tuple[int, float]
"""A person on the way to its new worker, and the time of its return."""


class PeopleSchedule:
    """People of worker ``index``; each is in session for a share ``presence`` of the time.

    ``moved_anew`` counts people who drew a new absence, as their worker was lost.
    """

    def __init__(
        self,
        people: int,
        away: Distribution,
        session: Distribution | None,
        presence: float,
        rng: np.random.Generator,
        index: int,
    ) -> None:
        self.people = people
        self.index = index
        self.moved_anew = 0
        self._away_times, self._session_times = away, session
        self._presence = presence
        self._rng = rng
        self._draw_away = batched_draws(away, rng)
        self._members: tuple[int, ...] = ()
        self._initial: list[Entry] = []
        self._heap: list[tuple[float, int]] = []
        self._away: set[int] = set()
        self._in_session: set[int] = set()
        self._expected: dict[int, int] = {}
        self._orphans: set[int] = set()

    def begin(self, members: Iterable[int], warm_up: float) -> None:
        """Start in equilibrium at the end of the warm-up, with the people of this worker."""
        self._members = tuple(members)
        mine = self._mine()
        present = self._rng.random(len(mine)) < (0.0 if self._session_times is None else self._presence)
        if present.any() and self._session_times is not None:
            entries = spread(self._session_times.sample_residual(self._rng, int(present.sum())), warm_up, self._rng)
            pairs = zip(entries, mine[present].tolist(), strict=True)
            self._initial = [entry._replace(person=person) for entry, person in pairs][::-1]
        self._put_away(mine[~present], warm_up)

    def join(self, members: Iterable[int], previous: Iterable[int], now: float) -> None:
        """Start at a worker that joins a running test: its people arrive one by one from the others."""
        self._members = tuple(members)
        before = self._owners([member for member in previous if member != self.index] or [self.index])
        self._gain(self._mine(), before, now)

    def change(self, members: Iterable[int], now: float) -> list[Move]:
        """Follow a change of the workers; return the people who are away and move."""
        previous, self._members = self._members, tuple(members)
        if self.index not in self._members:
            # The others consider this worker lost and draw anew for all its people.
            self._orphans |= self._in_session | {entry.person for entry in self._initial if entry.person is not None}
            for people in (self._away, self._heap, self._expected, self._initial):
                people.clear()
            return []
        if self.index not in previous:
            self.join(self._members, previous, now)
            return []
        after, before = self._owners(self._members), self._owners(previous)
        for person, member in list(self._expected.items()):
            if after[person] != self.index:
                del self._expected[person]
            elif member not in self._members:
                self._put_anew([person], now)
        self._gain(np.flatnonzero((after == self.index) & (before != self.index)), before, now)
        leaving = {person for person in self._away if person < self.people and after[person] != self.index}
        moves = [(person, due) for due, person in self._heap if person in leaving]
        self._away -= leaving
        self._heap = [(due, person) for due, person in self._heap if person in self._away]
        heapq.heapify(self._heap)
        return moves

    def receive(self, moves: Iterable[Move]) -> list[Move]:
        """Add people from other workers; return those with another owner by now."""
        elsewhere: list[Move] = []
        arrived = [(person, due) for person, due in moves if person < self.people]
        if not arrived or not self._members:
            return arrived
        belongs = owners([person for person, _ in arrived], self._members)
        for (person, due), member in zip(arrived, belongs, strict=True):
            self._expected.pop(person, None)
            if member != self.index:
                elsewhere.append((person, due))
            elif person not in self._away and person not in self._in_session:
                self._return_at(person, due)
        return elsewhere

    def resize(self, people: int, now: float) -> None:
        """Change the number of people: those above it are dropped when away, new ones begin with an absence."""
        before, self.people = self.people, people
        if people > before and self.index in self._members:
            fresh = np.arange(before, people)
            self._put_away(fresh[owners(fresh, self._members) == self.index], now)

    def due(self) -> float:
        """Return the time of the next arrival in seconds, inf if nobody is left."""
        while self._heap and (self._heap[0][1] >= self.people or self._heap[0][1] not in self._away):
            self._away.discard(heapq.heappop(self._heap)[1])
        back = self._heap[0][0] if self._heap else math.inf
        return min(back, self._initial[-1].due) if self._initial else back

    def take(self) -> Entry:
        """Move the next person into session; IndexError if nobody is left."""
        self.due()
        if self._initial and (not self._heap or self._initial[-1].due <= self._heap[0][0]):
            entry = self._initial.pop()
        else:
            due, person = heapq.heappop(self._heap)
            self._away.discard(person)
            entry = Entry(due, person=person)
        if entry.person is not None:
            self._in_session.add(entry.person)
        return entry

    def finished(self, person: int, now: float) -> Move | None:
        """End a person's session, or its refused start: begin an absence, and return the person if it must move."""
        self._in_session.discard(person)
        if person in self._orphans or person >= self.people or self.index not in self._members:
            self._orphans.discard(person)
            return None
        due = now + self._draw_away()
        if int(owners([person], self._members)[0]) != self.index:
            return person, due
        self._return_at(person, due)
        return None

    def _owners(self, members: Iterable[int]) -> NDArray[np.int64]:
        return owners(np.arange(self.people), tuple(members))

    def _mine(self) -> NDArray[np.intp]:
        return np.flatnonzero(self._owners(self._members) == self.index)

    def _gain(self, people: NDArray[np.intp], before: NDArray[np.int64], now: float) -> None:
        """Take over people: expect those of workers that are left, draw anew for the others."""
        anew = []
        for person in people.tolist():
            if person in self._in_session or person in self._away:
                continue
            if before[person] in self._members and before[person] != self.index:
                self._expected[person] = int(before[person])
            else:
                anew.append(person)
        self._put_anew(anew, now)

    def _put_anew(self, people: list[int], now: float) -> None:
        self.moved_anew += len(people)
        for person in people:
            self._expected.pop(person, None)
        self._put_away(np.array(people, dtype=np.int64), now)

    def _put_away(self, people: NDArray[np.int64], now: float) -> None:
        residual = self._away_times.sample_residual(self._rng, len(people))
        for person, left in zip(people.tolist(), residual.tolist(), strict=True):
            self._return_at(person, now + left)

    def _return_at(self, person: int, due: float) -> None:
        self._away.add(person)
        heapq.heappush(self._heap, (due, person))
