"""Dispatcher on worker nodes alone: its messages, its end, and a fault of Locust's own."""

from __future__ import annotations

from typing import Any

import gevent
from locust import User, constant
from locust.dispatch import UsersDispatcher
from locust.runners import WorkerNode

from locust_realism.runtime.users.dispatcher import PopulationDispatcher


class Managed(User):
    abstract = False


class Closed(User):
    wait_time = constant(1)


class Fixed(User):
    fixed_count = 2


class Control:
    """Control with a warm-up of ``left`` seconds."""

    def __init__(self) -> None:
        self.left = 0.0
        self.calls: list[Any] = []

    def is_managed(self, user_class: Any) -> bool:
        return user_class is Managed

    def warm_up_left(self) -> float:
        return self.left

    def on_dispatch(self, target_user_count: int) -> None:
        self.calls.append(target_user_count)

    def on_dispatched(self) -> None:
        self.calls.append("dispatched")


def make(control: Control, classes: list[type[User]], nodes: int = 2) -> tuple[PopulationDispatcher, list[WorkerNode]]:
    workers = [WorkerNode(f"host_{i}") for i in range(nodes)]
    return PopulationDispatcher(list(workers), classes, base=UsersDispatcher, control=control), workers


def test_a_class_with_a_population_is_never_mentioned() -> None:
    dispatcher, _ = make(Control(), [Managed, Closed, Fixed])
    dispatcher.new_dispatch(10, 100)
    steps = list(dispatcher)
    assert all("Managed" not in counts for step in steps for counts in step.values())
    last = steps[-1]
    assert sum(counts["Fixed"] for counts in last.values()) == 2
    assert sum(counts["Closed"] for counts in last.values()) == 8


def test_with_populations_only_every_worker_gets_one_message_without_users() -> None:
    control = Control()
    dispatcher, workers = make(control, [Managed])
    dispatcher.new_dispatch(7, 1)
    assert dispatcher.dispatch_in_progress
    assert list(dispatcher) == [{worker.id: {} for worker in workers}]
    assert not dispatcher.dispatch_in_progress
    assert control.calls == [7, "dispatched"]


def test_the_dispatch_lasts_until_the_end_of_the_warm_up_and_includes_joiners() -> None:
    control = Control()
    control.left = 10.0
    dispatcher, _ = make(control, [Managed])
    dispatcher.new_dispatch(1, 1)
    steps: list[Any] = []
    loop = gevent.spawn(lambda: steps.extend(dispatcher))
    dispatcher._owner = loop
    gevent.sleep(0.15)
    assert not loop.ready()
    dispatcher.add_worker(WorkerNode("host_9"))
    gevent.sleep(0.15)
    control.left = 0.0
    loop.join(timeout=2)
    assert [set(step) for step in steps] == [{"host_0", "host_1"}, {"host_0", "host_1", "host_9"}]


def test_two_joins_in_a_row_are_both_included_and_leave_no_dispatch_in_progress() -> None:
    for classes in ([Managed], [Managed, Closed]):
        dispatcher, _ = make(Control(), classes)
        dispatcher.new_dispatch(6, 100)
        list(dispatcher)
        for name in ("host_8", "host_9"):
            dispatcher.add_worker(WorkerNode(name))
            assert not dispatcher.dispatch_in_progress, "else the master never starts the joiner"
            dispatcher.new_dispatch(6, 100)
            last = list(dispatcher)[-1]
            assert name in last
        if Closed in classes:
            assert sum(counts["Closed"] for counts in last.values()) == 6


def test_locusts_own_dispatcher_stays_in_progress_after_a_rebalance() -> None:
    # The reason for the dispatcher's own flag; this fails when Locust mends it.
    workers = [WorkerNode("host_0")]
    plain = UsersDispatcher(workers, [Closed])
    plain.new_dispatch(6, 100)
    list(plain)
    plain.add_worker(WorkerNode("host_1"))
    plain.new_dispatch(6, 100)
    list(plain)
    assert plain.dispatch_in_progress


def test_a_worker_that_leaves_gets_no_message_and_may_come_back() -> None:
    dispatcher, workers = make(Control(), [Managed, Closed])
    dispatcher.new_dispatch(4, 100)
    list(dispatcher)
    dispatcher.remove_worker(workers[0])
    dispatcher.new_dispatch(4, 100)
    assert list(dispatcher)[-1] == {workers[1].id: {"Closed": 4}}
    dispatcher.add_worker(workers[0])
    dispatcher.add_worker(workers[0])
    dispatcher.new_dispatch(4, 100)
    last = list(dispatcher)[-1]
    assert {worker: counts["Closed"] for worker, counts in last.items()} == {workers[0].id: 2, workers[1].id: 2}


def test_an_edit_while_the_first_loop_sleeps_ends_both_loops_together() -> None:
    control = Control()
    control.left = 10.0
    dispatcher, _ = make(control, [Managed])

    def loop() -> list[Any]:
        dispatcher.new_dispatch(1, 1)
        return list(dispatcher)

    first = gevent.spawn(loop)
    gevent.sleep(0.05)
    second = gevent.spawn(loop)
    gevent.sleep(0.15)
    assert not first.ready()
    assert not second.ready()
    control.left = 0.0
    gevent.joinall([first, second], timeout=2)
    assert len(first.value) == len(second.value) == 1
