"""Dispatcher that leaves users of a population to their population.

Locust's dispatcher sends each worker the number of users of each class; a worker spawns and stops users of the classes
in the message and of no others. This one wraps the Environment's dispatcher, gives it the classes without a population,
and never mentions the others. It keeps Locust in the state "spawning" until the warm-up of the population is over, so
that ``--reset-stats`` and "all users spawned" come at its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

import gevent
import greenlet
from gevent.event import Event
from locust import User
from locust.dispatch import UsersDispatcher
from locust.runners import WorkerNode

_POLL_S = 0.1
Dispatched = dict[str, dict[str, int]]
"""Number of users of each class by worker."""
Classes = list[type[User]]
Nodes = list[WorkerNode]


class DispatchControl(Protocol):
    """Control of the populations, as far as the dispatcher needs it."""

    def is_managed(self, user_class: type[User]) -> bool:
        """Return True if the class has a population."""

    def warm_up_left(self) -> float:
        """Return the seconds of warm-up left, 0 or less when it is over."""

    def on_dispatch(self, target_user_count: int) -> None:
        """Publish the settings: a test starts, or they were edited."""

    def on_dispatched(self) -> None:
        """Prepare for the end of the dispatch: Locust compares the number of users next."""


class PopulationDispatcher(Iterator[Dispatched]):
    """Replacement of ``UsersDispatcher``; ``base`` makes the dispatcher of the classes without a population."""

    def __init__(
        self, worker_nodes: Nodes, user_classes: Classes, base: Callable[..., UsersDispatcher], control: DispatchControl
    ) -> None:
        self._control = control
        self._nodes = {node.id for node in worker_nodes}
        unmanaged = [user_class for user_class in user_classes if not control.is_managed(user_class)]
        self._inner = base(worker_nodes=list(worker_nodes), user_classes=unmanaged) if unmanaged else None
        self._target: tuple[int, float, Classes | None] = (0, 1.0, None)
        self._owner: greenlet.greenlet | None = None
        self._sent = self._inner_ended = self._members_changed = False
        self._ended = Event()
        self.dispatch_in_progress = False
        """True from the first step to the end. Locust's own stays True after a rebalance; joiners would not start."""

    def new_dispatch(self, target_user_count: int, spawn_rate: float, user_classes: Classes | None = None) -> None:
        """Begin a dispatch of ``target_user_count`` users of the classes without a population."""
        self._control.on_dispatch(target_user_count)
        if user_classes is not None:
            user_classes = [user_class for user_class in user_classes if not self._control.is_managed(user_class)]
        self._target = (target_user_count, spawn_rate, user_classes)
        if self._inner is not None:
            self._inner.new_dispatch(*self._target)
        self._owner = gevent.getcurrent()
        self._sent = self._inner_ended = False
        self.dispatch_in_progress = True
        self._ended.clear()

    def add_worker(self, worker_node: WorkerNode) -> None:
        """Add a worker, which the next step includes."""
        self._nodes.add(worker_node.id)
        self._members_changed = True
        if self._inner is not None:
            self._inner.remove_worker(worker_node)  # a worker that was missing for a while is still in it
            self._inner.add_worker(worker_node)

    def remove_worker(self, worker_node: WorkerNode) -> None:
        """Remove a worker; its population does not move, the others take its share of the arrivals."""
        self._nodes.discard(worker_node.id)
        self._members_changed = True
        if self._inner is not None:
            self._inner.remove_worker(worker_node)

    def __next__(self) -> Dispatched:
        self._end_unless_owner()
        while (counts := self._step()) is None:
            left = self._control.warm_up_left()
            if left <= 0:
                self.dispatch_in_progress = False
                self._control.on_dispatched()
                self._ended.set()
                raise StopIteration
            gevent.sleep(min(left, _POLL_S))
            self._end_unless_owner()
        return counts

    def _end_unless_owner(self) -> None:
        """End this loop if an edit began a new dispatch while it slept: together with that one."""
        if gevent.getcurrent() is not self._owner:
            self._ended.wait()
            raise StopIteration

    def _step(self) -> Dispatched | None:
        """Return the next counts for the workers, None if all have been sent."""
        if self._inner is None:
            if (self._sent and not self._members_changed) or not self._nodes:
                return None
            self._sent, self._members_changed = True, False
            return {node_id: {} for node_id in self._nodes}
        while not self._inner_ended or self._members_changed:
            if self._inner_ended:
                self._inner.new_dispatch(*self._target)
                self._inner_ended = self._members_changed = False
            try:
                counts: Dispatched = next(self._inner)
            except StopIteration:
                self._inner_ended = True
            else:
                # messages sent after a worker joins include it
                self._members_changed &= not self._nodes <= counts.keys()
                return counts
        return None
