"""The control of the populations of an Environment: who leads says what holds, who has users starts them.

The master (or a LocalRunner) puts the settings of every class with a population into the plan when a test starts and
when they are edited; each worker (or the LocalRunner) keeps a greenlet for each such class. :func:`attach` puts this in
place.
"""

from __future__ import annotations

import logging
import time
from functools import partial
from typing import Any

import gevent
from locust.runners import STATE_INIT, MasterRunner, WorkerRunner

from ..workload.finite_source import owners
from ..workload.people import Move
from ..workload.populations import Stretch, poisson_quantile
from .builders import build_generation, warm_imports
from .census import Tally
from .dispatcher import PopulationDispatcher
from .finite import Luggage, PeopleGeneration
from .generation import Generation
from .limits import warnings_of
from .memory import spare_what_is_loaded
from .plan import Plan, ensure_plan
from .population import AnyPopulation, Population, population_of
from .sessions import hook_user_start

logger = logging.getLogger(__name__)

ITEM = "population"
REPORT_KEY = "realism_population"
MOVE_MESSAGE = "realism_people"
_CONTROL_KEY = "_realism_population"


class PopulationControl:
    """What :func:`attach` makes; one for an Environment."""

    def __init__(self, environment: Any) -> None:
        self.environment = environment
        self.runner = environment.runner
        self.leading = not isinstance(self.runner, WorkerRunner)
        self.planner = ensure_plan(environment)
        self.populations: dict[str, AnyPopulation] = {}
        self.stretches: dict[str, list[Stretch]] = {}
        self.tallies: dict[str, Tally] = {}
        self.generations: dict[str, Generation] = {}
        self._greenlets: list[Any] = []
        self._history: list[Plan] = []
        self._early_moves: dict[str, list[tuple[list[Move], Luggage]]] = {}
        self.edited = False
        self._running = False
        self._own_target: int | None = None
        self._reset_stats = environment.reset_stats
        hook_user_start()
        environment.dispatcher_class = partial(PopulationDispatcher, base=environment.dispatcher_class, control=self)
        events = environment.events
        events.test_start.add_listener(self._on_test_start)
        events.test_stopping.add_listener(self._on_test_stopping)
        events.test_stop.add_listener(self._on_test_stop)
        events.spawning_complete.add_listener(self._on_spawning_complete)
        if isinstance(self.runner, MasterRunner):
            events.worker_report.add_listener(self._on_worker_report)
        if isinstance(self.runner, WorkerRunner):
            events.report_to_master.add_listener(self._on_report_to_master)
        self.runner.register_message(MOVE_MESSAGE, self._on_move)
        self.planner.subscribe(self._on_plan)
        if self.leading:
            poisson_quantile(0.5, 1.0)  # imports scipy now, not in the first moment of a test
        if not isinstance(self.runner, MasterRunner):
            for user_class in environment.user_classes:
                if (population := population_of(user_class)) is not None:
                    warm_imports(population)
        if isinstance(self.runner, WorkerRunner) and self.runner.worker_state != STATE_INIT:
            self._on_test_start()  # the spawn message was here before the locustfile's init

    # What the dispatcher asks

    def is_managed(self, user_class: Any) -> bool:
        """Whether the class has a population."""
        return population_of(user_class) is not None

    def warm_up_left(self) -> float:
        """Seconds until the warm-up of the slowest population ends."""
        if not self._running:
            return 0.0
        return max((p.warm_up for p in self.populations.values()), default=0.0) - self.planner.elapsed()

    def on_dispatch(self, target_user_count: int) -> None:
        """Settings may have been edited in the start form."""
        self._own_target = target_user_count
        if self._running:
            self._publish(starting=False)

    def on_dispatched(self) -> None:
        """Locust waits up to a second for as many users as it was told, in the greenlet that hears the workers."""
        if isinstance(self.runner, MasterRunner) and self._running:
            self.runner.target_user_count = self.runner.user_count

    # Events of Locust

    def _on_test_start(self, **_: Any) -> None:
        self.populations, self.stretches, self.tallies, self.generations = {}, {}, {}, {}
        self.edited = False
        self._running = True
        self.environment.reset_stats = self._reset_stats
        if self.leading:
            self._publish(starting=True)
        if not isinstance(self.runner, MasterRunner):
            self._greenlets = [self.runner.greenlet.spawn(self._generate)]

    def _on_test_stopping(self, **_: Any) -> None:
        self._running = False
        for generation in self.generations.values():
            generation.running = False
        for greenlet in self._greenlets:
            greenlet.kill(block=False)
        self._greenlets = []

    def _on_test_stop(self, **_: Any) -> None:
        self.environment.reset_stats = self._reset_stats

    def _on_spawning_complete(self, **_: Any) -> None:
        if not self._running:
            return
        # Every worker that joins makes Locust say so again, and each time the statistics would be reset.
        self.environment.reset_stats = False
        if isinstance(self.runner, MasterRunner) and self._own_target is not None:
            self.runner.target_user_count = self._own_target

    def _on_report_to_master(self, data: dict[str, Any], **_: Any) -> None:
        if self.planner.plan is not None and self.generations:
            classes = {name: generation.census.report() for name, generation in self.generations.items()}
            data[REPORT_KEY] = {"run": self.planner.plan.run, "classes": classes}

    def _on_worker_report(self, client_id: str, data: dict[str, Any], **_: Any) -> None:
        report = data.get(REPORT_KEY)
        if report is None or self.planner.plan is None or report["run"] != self.planner.plan.run:
            return
        for name, counts in report["classes"].items():
            self.tallies.setdefault(name, Tally()).add(client_id, counts)

    def _on_move(self, msg: Any, **_: Any) -> None:
        """People on their way: the master sends each on to its worker, a worker takes them in."""
        data, plan = msg.data, self.planner.plan
        if plan is None or not plan.running or data["run"] != plan.run:
            return
        if not isinstance(self.runner, MasterRunner):
            moves = [(int(person), float(due)) for person, due in data["people"]]
            generation = self.generations.get(data["class"])
            if isinstance(generation, PeopleGeneration):
                generation.receive(moves, data["luggage"])
            else:  # a worker that joins may hear of its people before its test starts
                self._early_moves.setdefault(data["class"], []).append((moves, data["luggage"]))
            return
        ids = {index: client_id for client_id, index in self.runner.worker_indexes.items()}
        people = data["people"]
        belongs = owners([person for person, _ in people], plan.members)
        for member in set(belongs.tolist()):
            part = [move for move, owner in zip(people, belongs, strict=True) if owner == member]
            who = {person for person, _ in part}
            luggage = [cookies for cookies in data["luggage"] if cookies[0] in who]
            self.runner.send_message(MOVE_MESSAGE, {**data, "people": part, "luggage": luggage}, ids[member])

    # Who leads

    def _publish(self, starting: bool) -> None:
        """Put the settings into the plan: the locustfile's, with what the options say."""
        try:
            populations = {
                user_class.__name__: population.with_options(self.environment.parsed_options)
                for user_class in self.environment.user_classes
                if (population := population_of(user_class)) is not None and _has_tasks(user_class)
            }
        except ValueError as error:
            if starting:
                self.planner.abort(f"{error}. The run is ended.")
            else:
                logger.error("%s. The population stays as it was.", error)
            return
        plan = self.planner.plan
        if plan is None or populations == self.populations:
            return
        self.edited |= not starting
        for name, population in populations.items():
            self._note_stretch(name, population, starting)
            logger.info("%s: %s", name, population.describe(_run_time(self.environment)))
            for warning in warnings_of(name, population, plan.workers, _run_time(self.environment)):
                logger.warning(warning)
        self.populations = populations
        original = plan.members if starting else plan.items[ITEM]["original"]
        classes = {name: population.to_dict() for name, population in populations.items()}
        self.planner.put(ITEM, {"original": list(original), "classes": classes})

    def _note_stretch(self, name: str, population: AnyPopulation, starting: bool) -> None:
        if not isinstance(population, Population):
            return
        empty = population.start == "empty"
        begin = (0.0 if empty else float("-inf")) if starting else self.planner.elapsed()
        if (stretch := population.stretch(begin)) is not None:
            self.stretches.setdefault(name, []).append(stretch)

    # Who has users

    def _generate(self) -> None:
        """Start the greenlets of this test; the plan is normally here before the test starts."""
        try:
            payload = self.planner.await_item(ITEM)
        except TimeoutError:
            return  # await_item has said why, and ends the run
        for name in payload["classes"]:
            user_class = self.environment.user_classes_by_name.get(name)
            if user_class is None or population_of(user_class) is None:
                self.planner.abort(f"The master has a population of {name!r}, this worker's locustfile has none.")
                return
            if self.environment.host:
                user_class.host = self.environment.host
            hand_over = partial(self._hand_over, name)
            generation = build_generation(self.environment, user_class, payload, self._history, hand_over)
            self.generations[name] = generation
            if isinstance(generation, PeopleGeneration):
                for moves, luggage in self._early_moves.pop(name, []):
                    generation.receive(moves, luggage)
        if self.planner.elapsed() > max((spec["warm_up"] for spec in payload["classes"].values()), default=0.0):
            self.environment.reset_stats = False  # a worker that comes late
        self._greenlets += [self.runner.greenlet.spawn(g.run) for g in self.generations.values()]
        self._greenlets.append(self.runner.greenlet.spawn(self._tick))

    def _tick(self) -> None:
        """Count who is in session at every whole second of the run."""
        while True:
            second = int(self.planner.elapsed()) + 1
            gevent.sleep(max(0.0, self.planner.time_of(second) - time.perf_counter()))
            for generation in self.generations.values():
                generation.census.tick(second)

    def _hand_over(self, name: str, moves: list[Move], luggage: Luggage) -> None:
        if self.planner.plan is not None:
            data = {"class": name, "run": self.planner.plan.run, "people": moves, "luggage": luggage}
            self.runner.send_message(MOVE_MESSAGE, data)

    def _on_plan(self, plan: Plan) -> None:
        if isinstance(self.runner, MasterRunner):
            ids = {index: client_id for client_id, index in self.runner.worker_indexes.items()}
            for index in set(plan.previous) - set(plan.members):
                for tally in self.tallies.values():
                    tally.lose(ids[index])
        if self._history and self._history[-1].run != plan.run:
            self._history, self._early_moves = [], {}
        if plan.running and (not self._history or self._history[-1].members != plan.members):
            self._history.append(plan)
        if self._running and plan.running and ITEM in plan.items:
            for name, generation in self.generations.items():
                if (spec := plan.items[ITEM]["classes"].get(name)) is not None:
                    generation.update(spec, plan)


def _has_tasks(user_class: Any) -> bool:
    """False for a class that --tags has left without tasks: its users could not be run."""
    return bool(user_class.tasks) or not hasattr(user_class, "tasks")


def _run_time(environment: Any) -> float | None:
    return getattr(environment.parsed_options, "run_time", None) or None


def attach(environment: Any, options: Any = None) -> PopulationControl | None:
    """Put the populations of the Environment's user classes in place, once; None if no class has one.

    ``options`` replaces ``environment.parsed_options`` if given. The Environment must have a runner.
    """
    if options is not None:
        environment.parsed_options = options
    control: PopulationControl | None = environment.__dict__.get(_CONTROL_KEY)
    if control is None:
        available = list((environment.available_user_classes or {}).values())
        if any(population_of(user_class) is not None for user_class in [*environment.user_classes, *available]):
            control = environment.__dict__[_CONTROL_KEY] = PopulationControl(environment)
    return control


def attach_at_init(environment: Any, **_: Any) -> None:
    """Listener of Locust's init event."""
    if environment.runner is not None and attach(environment) is not None:
        spare_what_is_loaded()
