"""A dispatcher of users that leaves to the population what is the population's.

Locust's dispatcher tells each worker how many users of each class it should have, and a worker spawns and stops users
of the classes that it was told of, and of no others. This one wraps whichever dispatcher the Environment has, gives it
the classes without a population, and never mentions the others. It also keeps Locust in the state "spawning" until the
warm-up of the population is over, so that ``--reset-stats`` and "all users spawned" come at its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import gevent
from gevent.event import Event

_LOOK_S = 0.1
Dispatched = dict[str, dict[str, int]]


class DispatchControl(Protocol):
    """What the dispatcher asks of the control of the population."""

    def is_managed(self, user_class: Any) -> bool:
        """Whether the class has a population."""

    def warm_up_left(self) -> float:
        """Seconds until the population has built up, at most 0 if it has."""

    def on_dispatch(self, target_user_count: int) -> None:
        """A test starts or its settings were edited."""

    def on_dispatched(self) -> None:
        """The dispatch is about to end; Locust looks at the number of users next."""


class PopulationDispatcher(Iterator[Dispatched]):
    """In place of ``UsersDispatcher``; ``base`` makes the dispatcher of the classes without a population."""

    def __init__(
        self, worker_nodes: list[Any], user_classes: list[Any], *, base: Callable[..., Any], control: DispatchControl
    ) -> None:
        self._control = control
        self._nodes = {node.id: node for node in worker_nodes}
        unmanaged = [user_class for user_class in user_classes if not control.is_managed(user_class)]
        self._inner = base(worker_nodes=list(worker_nodes), user_classes=unmanaged) if unmanaged else None
        self._target: tuple[int, float, list[Any] | None] = (0, 1.0, None)
        self._owner: Any = None
        self._told = self._inner_ended = False
        self._members_changed = False
        self._in_progress = False
        self._ended = Event()

    @property
    def dispatch_in_progress(self) -> bool:
        """True from the first step to the end. Locust's own stays True after a rebalance; joiners would not start."""
        return self._in_progress

    def __getattr__(self, name: str) -> Any:
        """What else Locust or a plugin asks a dispatcher for is answered by the one inside."""
        if name.startswith("__") or self.__dict__.get("_inner") is None:
            raise AttributeError(name)
        return getattr(self._inner, name)

    def new_dispatch(self, target_user_count: int, spawn_rate: float, user_classes: list[Any] | None = None) -> None:
        """Begin to go to ``target_user_count`` users of the classes without a population."""
        self._control.on_dispatch(target_user_count)
        if user_classes is not None:
            user_classes = [user_class for user_class in user_classes if not self._control.is_managed(user_class)]
        self._target = (target_user_count, spawn_rate, user_classes)
        if self._inner is not None:
            self._inner.new_dispatch(*self._target)
        self._owner = gevent.getcurrent()
        self._told = self._inner_ended = False
        self._in_progress = True
        self._ended.clear()

    def add_worker(self, worker_node: Any) -> None:
        """A worker came: the next step tells it to start."""
        self._nodes[worker_node.id] = worker_node
        self._members_changed = True
        if self._inner is not None:
            self._inner.remove_worker(worker_node)  # it may be known from before it was missing
            self._inner.add_worker(worker_node)

    def remove_worker(self, worker_node: Any) -> None:
        """A worker left; its population is not moved, the others take its share of the arrivals."""
        self._nodes.pop(worker_node.id, None)
        self._members_changed = True
        if self._inner is not None:
            self._inner.remove_worker(worker_node)

    def __next__(self) -> Dispatched:
        if gevent.getcurrent() is not self._owner:
            # An edit began a new dispatch while this loop slept: it ends together with that one.
            self._ended.wait()
            raise StopIteration
        while True:
            if (counts := self._step()) is not None:
                return counts
            left = self._control.warm_up_left()
            if left <= 0:
                break
            gevent.sleep(min(left, _LOOK_S))
            if gevent.getcurrent() is not self._owner:
                self._ended.wait()
                raise StopIteration
        self._in_progress = False
        self._control.on_dispatched()
        self._ended.set()
        raise StopIteration

    def _step(self) -> Dispatched | None:
        """What is to be told to the workers now, or None if they know everything."""
        if self._inner is None:
            if (self._told and not self._members_changed) or not self._nodes:
                return None
            self._told, self._members_changed = True, False
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
                # whatever is told after a worker came names it too
                self._members_changed &= not self._nodes.keys() <= counts.keys()
                return counts
        return None
