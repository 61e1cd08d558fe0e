"""Generation of a finite population: people come back, and move between workers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..workload.people import Move, PeopleSchedule
from ..workload.schedules import Entry
from .cookies import cookie_jar, pack, unpack
from .generation import Generation
from .plan import Plan

Luggage = list[tuple[int, list[list[Any]]]]
"""People who move and the cookies that they take along."""


class PeopleGeneration(Generation):
    """Starts the people of a finite population.

    ``hand_over(moves, luggage)`` sends those who belong to another worker on their way.
    """

    schedule: PeopleSchedule

    def __init__(
        self, *args: Any, hand_over: Callable[[list[Move], Luggage], None], keep_cookies: bool, **kw: Any
    ) -> None:
        super().__init__(*args, **kw)
        self._send = hand_over
        self._members = self.planner.plan.members if self.planner.plan is not None else ()
        self._cookies: dict[int, Any] | None = {} if keep_cookies else None

    def update(self, spec: dict[str, Any], plan: Plan) -> None:
        now = self.planner.elapsed()
        self.set_limits(spec, plan)
        if spec["people"] != self.schedule.people:
            self.schedule.resize(spec["people"], now)
        if plan.members != self._members:
            self._members = plan.members
            if moves := self.schedule.change(plan.members, now):
                self._hand_over(moves)
        self.census.moved_anew = self.schedule.moved_anew
        self.wake()

    def receive(self, moves: list[Move], luggage: Luggage) -> None:
        """People come from another worker."""
        if self._cookies is not None:
            self._cookies |= {person: unpack(cookies) for person, cookies in luggage}
        if elsewhere := self.schedule.receive(moves):
            self._hand_over(elsewhere)
        self.wake()

    def turned_away(self, entry: Entry) -> None:
        self._away_again(entry)

    def left(self, user: Any, entry: Entry) -> None:
        if self._cookies is not None and entry.person is not None and (jar := cookie_jar(user)) is not None:
            self._cookies[entry.person] = jar
        self._away_again(entry)

    def prepare(self, user: Any, entry: Entry) -> None:
        kept = self._cookies.get(entry.person) if self._cookies is not None and entry.person is not None else None
        if kept is not None and (jar := cookie_jar(user)) is not None:
            for cookie in kept:
                jar.set_cookie(cookie)

    def _away_again(self, entry: Entry) -> None:
        if entry.person is None or not self.running:
            return
        move = self.schedule.finished(entry.person, self.planner.elapsed())
        if move is not None:
            self._hand_over([move])
        self.wake()

    def _hand_over(self, moves: list[Move]) -> None:
        luggage: Luggage = []
        if self._cookies is not None:
            luggage = [(person, pack(self._cookies.pop(person))) for person, _ in moves if person in self._cookies]
        self._send(moves, luggage)
