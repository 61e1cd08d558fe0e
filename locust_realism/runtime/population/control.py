"""Control of the populations of an Environment.

At the start of a test and at each edit, the master (or a LocalRunner) puts the settings of every class with a
population into the plan. Each worker (or the LocalRunner) runs a greenlet for each such class. :func:`attach` makes
the control.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from functools import partial

import gevent
from locust import User
from locust.env import Environment
from locust.runners import STATE_INIT, MasterRunner, Runner, WorkerRunner

from locust_realism.runtime.coordination.plan import Plan, ensure_plan
from locust_realism.runtime.locust_compat import PerEnvironment, wrap_dispatcher
from locust_realism.runtime.memory import freeze_loaded_objects
from locust_realism.runtime.population.generation import (
    ArrivalGeneration,
    Luggage,
    PeopleGeneration,
    PlanItem,
    build_generation,
)
from locust_realism.runtime.population.model import AnyPopulation, Population, population_of
from locust_realism.runtime.population.stats import Tally
from locust_realism.runtime.users.dispatcher import PopulationDispatcher
from locust_realism.runtime.users.session import hook_user_start
from locust_realism.runtime.wire import PEOPLE, POPULATION, PeopleData, PopulationData, wire_of
from locust_realism.workload.distributions.streams import spawn
from locust_realism.workload.users.concurrency import Stretch, owners, poisson_quantile
from locust_realism.workload.users.people import Move

logger = logging.getLogger(__name__)

ITEM = "population"
"""Name of the item in the plan."""

_SPARE_FILES = 100


def warnings_of(name: str, population: AnyPopulation, workers: int, run_time: float | None = None) -> Iterator[str]:
    """Yield warnings of a population that would exceed a limit, of its settings or of the machine."""
    most = population.peak_users(run_time)
    if most is None:
        return
    limit = population.max_users
    if limit is not None and most > limit:
        yield (
            f"{name}: {most} users are expected at times, but max_users is {limit}: arrivals beyond it are turned away "
            "and counted"
        )
        most = limit
    files, each = open_file_limit(), most / max(1, workers)
    if files is not None and each > files - _SPARE_FILES:
        yield (
            f"{name}: about {each:.0f} users a process are expected at times, but a process may open {files} files on "
            "this machine: raise the limit (ulimit -n), set max_users, or add workers"
        )


def open_file_limit() -> int | None:
    """Return the number of files that a process may open, None without a limit or where it is not known."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


class PopulationControl:
    """Control of one Environment, made by :func:`attach`.

    - ``populations`` with their options, ``stretches`` of their settings and ``tallies`` of their counts, by class
    - ``initial_s`` seconds of the run in which the initial users enter, by class
    - ``generations`` of this process; ``edited`` is True after a change of the settings in a running test
    """

    def __init__(self, environment: Environment) -> None:
        self.planner = ensure_plan(environment)
        assert environment.runner is not None  # ensure_plan has refused it
        self.environment = environment
        self.runner: Runner = environment.runner
        self.leading = not isinstance(self.runner, WorkerRunner)
        self.has_users = not isinstance(self.runner, MasterRunner)
        self.wire = wire_of(environment)
        self._history: list[Plan] = []
        self._early_moves: dict[str, list[tuple[list[Move], Luggage]]] = {}
        self._greenlets: list[gevent.Greenlet[..., object]] = []
        self._running = False
        self._own_target: int | None = None
        self._reset_stats = environment.reset_stats
        self._reset()
        hook_user_start()
        wrap_dispatcher(environment, lambda base: partial(PopulationDispatcher, base=base, control=self))
        self._listen()
        self._import_early()
        if isinstance(self.runner, WorkerRunner) and self.runner.worker_state != STATE_INIT:
            self._on_test_start()  # the spawn message arrived before the locustfile's init event

    def _reset(self) -> None:
        self.populations: dict[str, AnyPopulation] = {}
        self.stretches: dict[str, list[Stretch]] = {}
        self.tallies: dict[str, Tally] = {}
        self.generations: dict[str, ArrivalGeneration | PeopleGeneration] = {}
        self.initial_s: dict[str, float] = {}
        self.edited = False

    def _import_early(self) -> None:
        """Import scipy before a test, not in its first instants: use each function and distribution once."""
        if self.leading:
            poisson_quantile(0.5, 1.0)
        populations = filter(None, map(population_of, self.environment.user_classes if self.has_users else ()))
        for population in populations:
            for name in ("session_duration", "session_length", "away"):
                if (times := population.times(name)) is not None:
                    times.sample_residual(rng := spawn(0), 1)
                    times.sample(rng, 1)

    def _listen(self) -> None:
        events = self.environment.events
        events.test_start.add_listener(self._on_test_start)
        events.test_stopping.add_listener(self._on_test_stopping)
        events.test_stop.add_listener(self._on_test_stop)
        events.spawning_complete.add_listener(self._on_spawning_complete)
        if isinstance(self.runner, MasterRunner):
            self.wire.on_part(POPULATION, self._on_report)
        elif isinstance(self.runner, WorkerRunner):
            self.wire.add_part(POPULATION, self._report)
        self.wire.on_message(PEOPLE, self._on_people)
        self.planner.subscribe(self._on_plan)

    # Calls of the dispatcher

    def is_managed(self, user_class: type[User]) -> bool:
        """Return True if the class has a population."""
        return population_of(user_class) is not None

    def warm_up_left(self) -> float:
        """Return the seconds until the warm-up of the slowest population ends, at most 0 after it."""
        if not self._running:
            return 0.0
        return max((p.warm_up for p in self.populations.values()), default=0.0) - self.planner.elapsed()

    def on_dispatch(self, target_user_count: int) -> None:
        """Apply settings that were edited in the start form."""
        self._own_target = target_user_count
        if self._running:
            self._publish(starting=False)

    def on_dispatched(self) -> None:
        """Set Locust's target to the users there are: it would wait a second for others, deaf to the workers."""
        if isinstance(self.runner, MasterRunner) and self._running:
            self.runner.target_user_count = self.runner.user_count

    # Events of Locust

    def _on_test_start(self, **_: object) -> None:
        self._reset()
        self._running = True
        self.environment.reset_stats = self._reset_stats
        if self.leading:
            self._publish(starting=True)
        if self.has_users:
            self._greenlets = [self.runner.greenlet.spawn(self._generate)]

    def _on_test_stopping(self, **_: object) -> None:
        self._running = False
        for generation in self.generations.values():
            generation.running = False
        for greenlet in self._greenlets:
            greenlet.kill(block=False)
        self._greenlets = []

    def _on_test_stop(self, **_: object) -> None:
        self.environment.reset_stats = self._reset_stats

    def _on_spawning_complete(self, **_: object) -> None:
        if not self._running:
            return
        # Locust fires this event again for every worker that joins, and would reset the statistics each time.
        self.environment.reset_stats = False
        if isinstance(self.runner, MasterRunner) and self._own_target is not None:
            self.runner.target_user_count = self._own_target

    # Reports and messages

    def _report(self) -> PopulationData | None:
        if self.planner.plan is None or not self.generations:
            return None
        classes = {name: generation.census.report() for name, generation in self.generations.items()}
        return {"run": self.planner.plan.run, "classes": classes}

    def _on_report(self, client_id: str, data: PopulationData) -> None:
        if self.planner.plan is None or data["run"] != self.planner.plan.run:
            return
        for name in self.populations.keys() & data["classes"].keys():
            self.tally(name).add(client_id, data["classes"][name])

    def tally(self, name: str) -> Tally:
        """Return the counts of a class over all workers."""
        return self.tallies.setdefault(name, Tally())

    def collect(self) -> None:
        """Add the counts of this process; a LocalRunner sends no reports."""
        for name, generation in self.generations.items():
            self.tally(name).add("local", generation.census.report())

    def _send_people(self, name: str, moves: list[Move], luggage: Luggage) -> None:
        if self.planner.plan is not None:
            data: PeopleData = {"class": name, "run": self.planner.plan.run, "people": moves, "luggage": luggage}
            self.wire.send(PEOPLE, data)

    def _on_people(self, sender: str, data: PeopleData) -> None:
        """Handle people who move: the master forwards each to its worker, a worker adds them."""
        plan = self.planner.plan
        if plan is None or not plan.running or data["run"] != plan.run:
            return
        if isinstance(self.runner, MasterRunner):
            self._forward(data, plan, {index: client_id for client_id, index in self.runner.worker_indexes.items()})
            return
        moves = [(int(person), float(due)) for person, due in data["people"]]
        generation = self.generations.get(data["class"])
        if isinstance(generation, PeopleGeneration):
            generation.receive(moves, data["luggage"])
        else:  # people may arrive at a joining worker before its test starts
            self._early_moves.setdefault(data["class"], []).append((moves, data["luggage"]))

    def _forward(self, data: PeopleData, plan: Plan, ids: dict[int, str]) -> None:
        people = data["people"]
        members = owners([person for person, _ in people], plan.members)
        for member in set(members.tolist()):
            part = [move for move, owner in zip(people, members, strict=True) if owner == member]
            moving = {person for person, _ in part}
            luggage = [cookies for cookies in data["luggage"] if cookies[0] in moving]
            forwarded: PeopleData = {**data, "people": part, "luggage": luggage}
            self.wire.send(PEOPLE, forwarded, ids[member])

    # Master or LocalRunner

    def _publish(self, starting: bool) -> None:
        """Put the settings of the locustfile and the options into the plan."""
        environment = self.environment
        try:
            populations = {
                user_class.__name__: population.with_options(environment.parsed_options)
                for user_class in environment.user_classes
                if (population := population_of(user_class)) is not None and user_class.tasks  # --tags may leave none
            }
        except ValueError as error:
            if starting:
                self.planner.abort(f"{error}. The run is ended.")
            else:
                logger.error("%s. The population keeps its settings.", error)
            return
        plan = self.planner.plan
        if plan is None or populations == self.populations:
            return
        run_time = getattr(environment.parsed_options, "run_time", None) or None
        for name, population in populations.items():
            if isinstance(population, Population):
                begin = self.planner.elapsed()
                if starting:
                    begin = 0.0 if population.start == "empty" else float("-inf")
                if (stretch := population.stretch(begin)) is not None:
                    self.stretches.setdefault(name, []).append(stretch)
            logger.info("%s: %s", name, population.describe(run_time))
            for warning in warnings_of(name, population, len(plan.members), run_time):
                logger.warning(warning)
        self.populations = populations
        self.edited |= not starting
        if starting:
            self.initial_s = {name: population.initial_s for name, population in populations.items()}
        original = plan.members if starting else plan.items[ITEM]["original"]
        classes = {name: population.to_dict() for name, population in populations.items()}
        item: PlanItem = {"original": list(original), "classes": classes}
        self.planner.put(ITEM, item)

    # Processes with users

    def _generate(self) -> None:
        """Start the greenlets of this test; the plan normally arrives before the test starts."""
        try:
            item: PlanItem = self.planner.await_item(ITEM)
        except TimeoutError:
            return  # await_item has logged the reason and ends the run
        for name in item["classes"]:
            user_class = self.environment.user_classes_by_name.get(name)
            if user_class is None or population_of(user_class) is None:
                self.planner.abort(f"The master has a population of {name!r}, this worker's locustfile has none.")
                return
            if self.environment.host:
                user_class.host = self.environment.host
            send = partial(self._send_people, name)
            generation = build_generation(self.environment, user_class, item, self._history, send)
            self.generations[name] = generation
            if isinstance(generation, PeopleGeneration):
                for moves, luggage in self._early_moves.pop(name, []):
                    generation.receive(moves, luggage)
        if self.planner.elapsed() > max((settings["warm_up"] for settings in item["classes"].values()), default=0.0):
            self.environment.reset_stats = False  # a late worker
        self._greenlets += [self.runner.greenlet.spawn(g.run) for g in self.generations.values()]
        self._greenlets.append(self.runner.greenlet.spawn(self._tick))

    def _tick(self) -> None:
        """Count the users in session at every whole second of the run."""
        while True:
            second = int(self.planner.elapsed()) + 1
            gevent.sleep(max(0.0, self.planner.time_of(second) - time.perf_counter()))
            for generation in self.generations.values():
                generation.census.tick(second)

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
                if (settings := plan.items[ITEM]["classes"].get(name)) is not None:
                    generation.update(settings, plan)


_CONTROL = PerEnvironment("population", PopulationControl)


def attach(environment: Environment) -> PopulationControl | None:
    """Return the control of an Environment with a runner, made at the first call; None if no class has a population."""
    classes = [*environment.user_classes, *(environment.available_user_classes or {}).values()]
    known = _CONTROL.get(environment) is not None or any(population_of(each) is not None for each in classes)
    return _CONTROL.of(environment) if known else None


def attach_at_init(environment: Environment, **_: object) -> None:
    """Make the control (listener of Locust's init event)."""
    if environment.runner is not None and attach(environment) is not None:
        freeze_loaded_objects()
