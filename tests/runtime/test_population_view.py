"""Figures of the Population tab: sums over workers and classes, exact sessions, the expected curve, plain JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from document_support import faults
from locust import User, constant, task
from locust.env import Environment

from locust_realism.analysis.document import PopulationDocument
from locust_realism.recording.sessions import SessionLog
from locust_realism.runtime.population.control import PopulationControl, attach, warnings_of
from locust_realism.runtime.population.model import FinitePopulation, Population, open_arrivals
from locust_realism.runtime.population.stats import Census, Series, Tally, session_figures
from locust_realism.runtime.population.view import population_document
from locust_realism.runtime.users import session as sessions
from locust_realism.runtime.users.session import SessionRecord
from locust_realism.workload.distributions import exponential, lognormal
from locust_realism.workload.rates.shapes import ConstantRate, SineRate
from locust_realism.workload.users.concurrency import expected_users

RUN_US = 1_000_000_000_000_000


def rows(
    durations: Sequence[float],
    user_class: str = "Visitor",
    *,
    planned_s: float = 50.0,
    late_s: float = 0.0,
    tasks: int = 3,
    ending: str = sessions.RAN_OUT,
) -> SessionLog:
    """Return recorded sessions of these lengths, planned at a second of the run."""
    planned = RUN_US + round(planned_s * 1e6)
    starts = np.full(len(durations), planned + round(late_s * 1e6))
    ends = starts + np.rint(np.asarray(durations) * 1e6).astype(np.int64)
    return SessionLog.build(starts, ends, planned_us=planned, tasks=tasks, user_class=user_class, ending=ending)


def recorded(control: PopulationControl, *logs: SessionLog) -> Any:
    """Return a recording with these sessions, whose axis has RUN_US at second 0 of the run."""
    origin = control.planner.time_of(0.0)
    clock = SimpleNamespace(axis_us=lambda mono: RUN_US + round((mono - origin) * 1e6))
    return SimpleNamespace(clock=clock, side=SimpleNamespace(sessions=lambda: SessionLog.concat(logs)))


def record(duration: float, ending: str = sessions.RAN_OUT, tasks: int = 3) -> SessionRecord:
    return SessionRecord("Visitor", 0, 100.0, 100.0 + duration, ending, tasks, 100.0)


def test_session_figures_are_those_of_the_exact_lengths() -> None:
    times = lognormal(5, cov=1.5).sample(np.random.default_rng(1), 20_000)
    figures = session_figures(times)
    ordered = np.sort(times)
    assert figures["n"] == 20_000
    assert figures["mean_s"] == pytest.approx(times.mean(), rel=1e-12)
    assert figures["sdev_s"] == pytest.approx(times.std(ddof=1), rel=1e-12)
    assert figures["cov"] == pytest.approx(times.std(ddof=1) / times.mean(), rel=1e-12)
    for q in (50, 90, 95, 99):
        assert figures[f"p{q}_s"] == ordered[math.ceil(q * 200) - 1], "nearest rank, no bucket"  # type: ignore[literal-required]
    assert (figures["min_s"], figures["max_s"]) == (ordered[0], ordered[-1])
    assert figures["edges_s"][-1] == pytest.approx(figures["p99_s"])
    assert sum(figures["counts"]) == (times <= figures["edges_s"][-1]).sum()
    json.dumps(figures, allow_nan=False)


@pytest.mark.parametrize("times", [[], [3.0], [0.0, 0.0]])
def test_few_sessions_have_plain_figures(times: list[float]) -> None:
    figures = session_figures(np.array(times))
    json.dumps(figures, allow_nan=False)
    assert figures["n"] == len(times)
    assert figures["edges_s"] == figures["counts"] == []
    assert figures.get("cov") is None


def test_a_session_that_locust_stops_in_a_running_test_is_cut_short() -> None:
    census = Census()
    for _ in range(4):
        census.started(0.001, initial=False)
    census.ended(record(2.0), running=True)
    census.ended(record(2.0, sessions.STOPPED), running=True)
    census.ended(record(2.0, sessions.KILLED), running=False)
    assert (census.cut_short, census.active, census.highest, census.late_starts) == (1, 1, 4, 0)


def test_lengths_are_of_complete_sessions_and_lateness_is_of_all_planned_ones() -> None:
    population = Population(arrivals=ConstantRate(4), session_duration=exponential(5), warm_up=20.0)
    environment, control, _ = led(Visitor=population)
    feed(control, "Visitor", 30, 19)
    document = population_document(
        environment,
        None,
        recorded(
            control,
            rows([2.0, 4.0, 9.0], planned_s=20.0, late_s=0.003, tasks=4),
            rows([50.0, 60.0], planned_s=19.9, late_s=0.001, tasks=9),
            rows([70.0], ending=sessions.STOPPED),
            rows([80.0], user_class="Closed"),
            SessionLog.build([RUN_US], [RUN_US + 9], user_class="Visitor", ending=sessions.RAN_OUT),
        ),
    )
    assert (document["sessions"]["n"], document["sessions"]["mean_s"]) == (3, 5.0), "neither initial nor stopped users"
    assert document["tasks_per_session"] == 4
    assert document["lateness"] == {"n": 6, "p50_ms": 1.0, "p95_ms": 3.0, "p99_ms": 3.0, "max_ms": 3.0}
    json.dumps(document, allow_nan=False)
    assert faults(document, PopulationDocument) == []


def test_the_master_adds_up_the_reports_and_counts_lost_users() -> None:
    tally = Tally()
    for worker in ("a", "b"):
        census = Census()
        for second in (1, 2, 3):
            for _ in range(10):
                census.started(0.2, initial=False)
            census.ended(record(1.0), running=True)
            census.tick(second)
            tally.add(worker, json.loads(json.dumps(census.report())))
    columns = tally.series.columns()
    assert columns["t_s"] == [1, 2, 3]
    assert columns["users"] == [18, 36, 54]
    assert columns["arrivals"] == [20, 20, 20]
    assert columns["departures"] == [2, 2, 2]
    assert tally.total("arrivals") == 60
    assert tally.total("late_starts") == 60
    tally.lose("b")
    tally.lose("unknown")
    assert (tally.total("lost"), tally.total("active")) == (27, 27)
    tally.add("b", census.report())
    assert (tally.total("lost"), tally.total("active")) == (0, 54), "a worker that reports again is not lost"


def test_a_long_run_is_kept_in_bounded_memory() -> None:
    series = Series()
    for second in range(20_000):
        for _worker in range(2):
            series.add(second, 5, 3, 2)
    columns = series.columns()
    assert series.step == 8
    assert len(series._sums) <= 3600
    assert len(columns["t_s"]) <= 600
    assert set(columns["users"]) == {10.0}
    assert set(columns["arrivals"]) == {6.0}
    assert set(columns["departures"]) == {4.0}


class Visitor(User):
    wait_time = constant(1)

    @task
    def look(self) -> None:
        pass


def led(**populations: Any) -> tuple[Environment, PopulationControl, list[float]]:
    """Return an Environment, its control in the state of a running test, and its clock: the last number of the list."""
    classes = [type(name, (Visitor,), {"population": population}) for name, population in populations.items()]
    environment = Environment(user_classes=classes)
    environment.create_local_runner()
    control = attach(environment)
    assert control is not None
    clock = [0.0]
    control.planner.elapsed = lambda: clock[-1]  # type: ignore[method-assign]
    control.planner._on_test_start()  # type: ignore[attr-defined]
    control._running = True
    control._publish(starting=True)
    return environment, control, clock


def feed(control: PopulationControl, name: str, seconds: int, users: int) -> None:
    census = Census()
    for _ in range(users):
        census.started(0.0005, initial=False)
    for second in range(1, seconds + 1):
        census.tick(second)
    control.tallies.setdefault(name, Tally()).add("local", census.report())


def test_the_document_without_a_population_has_no_model() -> None:
    environment = Environment(user_classes=[Visitor])
    environment.create_local_runner()
    assert population_document(environment) == {"model": None}


def test_the_expected_curve_is_that_of_the_theory_inside_its_band() -> None:
    population = Population(arrivals=SineRate(1, 9, 120), session_duration=exponential(10), warm_up=20)
    environment, control, clock = led(Visitor=population)
    assert population_document(environment)["series"]["t_s"] == []
    feed(control, "Visitor", 300, 40)
    clock.append(300.0)
    document = population_document(environment)
    json.dumps(document, allow_nan=False)
    series = document["series"]
    t = np.array(series["t_s"])
    theory = expected_users(population.arrivals, exponential(10), t, warm_up=20)
    assert np.array(series["expected"]) == pytest.approx(theory, rel=0.02, abs=0.5)
    late = t > 20
    assert np.array(series["planned_arrivals"])[late] == pytest.approx(population.arrivals.rate(t[late]))
    assert set(np.array(series["planned_arrivals"])[~late]) == {0.0}
    assert all(
        low < mean < high
        for low, mean, high in list(zip(series["low"], series["expected"], series["high"], strict=True))[25:]
    )
    assert document["model"]["name"] == "Open population"
    assert document["profile"]["now_s"] == 300
    assert document["profile"]["t_s"][-1] == 900
    assert document["sessions"]["n"] == 0


def test_an_edit_changes_the_curve_from_then_on_only() -> None:
    population = Population(arrivals=ConstantRate(4), session_duration=exponential(5), warm_up=0.0)
    environment, control, clock = led(Visitor=population)
    clock.append(50.0)
    environment.parsed_options = SimpleNamespace(population_scale=3.0)
    control._publish(starting=False)
    feed(control, "Visitor", 100, 20)
    expected = np.array(population_document(environment)["series"]["expected"])
    assert expected[:49] == pytest.approx(20, rel=0.01)
    assert expected[-1] == pytest.approx(60, rel=0.01)
    assert 20 < expected[52] < 45


def test_the_expected_curve_of_sessions_of_tasks_uses_their_measured_mean() -> None:
    environment, control, _ = led(Visitor=open_arrivals(ConstantRate(10)))
    feed(control, "Visitor", 30, 0)
    assert "expected" not in population_document(environment)["series"]
    recording = recorded(control, rows([1.0, 3.0] * 25, tasks=1))
    document = population_document(environment, None, recording)
    assert faults(document, PopulationDocument) == []
    assert document["series"]["expected"][-1] == pytest.approx(20, rel=0.01)
    assert document["tasks_per_session"] == 1
    assert document["sessions"]["mean_s"] == pytest.approx(2.0)


def test_a_population_with_both_limits_has_a_bound() -> None:
    both = Population(arrivals=ConstantRate(2), session_duration=120, session_length=3)
    assert both.describe() == (
        "240 users on average at most, 99.9 % of the time at most 289; 2 arrivals/s, sessions of 120 s or 3 tasks"
    )
    assert both.peak_users() == 289
    environment, control, _ = led(Visitor=both)
    feed(control, "Visitor", 30, 0)
    assert "expected" not in population_document(environment)["series"], "the mean session is not measured yet"


def test_several_classes_are_added_up_and_a_finite_one_is_binomial() -> None:
    environment, control, clock = led(
        Visitor=Population(arrivals=ConstantRate(4), session_duration=exponential(5), warm_up=0.0),
        People=FinitePopulation(400, away=exponential(30), session_duration=exponential(10), warm_up=0.0),
    )
    clock.append(20.0)
    feed(control, "Visitor", 20, 19)
    feed(control, "People", 20, 99)
    document = population_document(environment)
    series = document["series"]
    assert series["users"][-1] == 118
    assert series["expected"][-1] == pytest.approx(120, rel=0.01)
    half = 1.96 * math.sqrt(20 + 75)
    assert (series["low"][-1], series["high"][-1]) == (math.floor(120 - half), math.ceil(120 + half))
    assert document["model"]["name"] == "Open and finite populations"
    assert set(document["classes"]) == {"Visitor", "People"}
    assert document["classes"]["People"]["active"] == 99
    assert document["arrivals"] == 118


def test_limits_that_a_population_would_exceed_are_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    population = Population(arrivals=ConstantRate(2), session_duration=exponential(120), max_users=250)
    assert population.peak_users() == 289
    (warning,) = warnings_of("Visitor", population, workers=1)
    assert "289" in warning
    assert "250" in warning
    monkeypatch.setattr("locust_realism.runtime.population.control.open_file_limit", lambda: 200)
    texts = list(warnings_of("Visitor", population, workers=1))
    assert len(texts) == 2
    assert "ulimit" in texts[1]
    assert not any("ulimit" in text for text in warnings_of("Visitor", population, workers=3))
    assert list(warnings_of("Visitor", open_arrivals(ConstantRate(9)), 1)) == []


def test_bad_settings_are_refused_when_the_locustfile_loads() -> None:
    rate, stay = ConstantRate(1), exponential(1)
    for settings, message in (
        ({"arrivals": 3, "session_duration": stay}, "arrivals must be a rate profile"),
        ({"arrivals": rate}, "session_duration or session_length must be given"),
        ({"arrivals": rate, "session_duration": -1}, "session_duration must be > 0"),
        ({"arrivals": rate, "session_duration": "long"}, "session_duration must be a distribution"),
        ({"arrivals": rate, "session_duration": stay, "max_users": 0}, "max_users must be an integer >= 1"),
        ({"arrivals": rate, "session_duration": stay, "start": "full"}, "start must be one of"),
        ({"arrivals": rate, "session_duration": stay, "warm_up": -1}, "warm_up must be >= 0"),
    ):
        with pytest.raises(ValueError, match=message):
            Population(**settings)
    for settings, message in (
        ({"people": 0, "away": stay, "session_duration": stay}, "people must be an integer >= 1"),
        ({"people": 9, "away": None, "session_duration": stay}, "away must be a distribution"),
    ):
        with pytest.raises(ValueError, match=message):
            FinitePopulation(**settings)


def test_options_override_the_locustfile() -> None:
    population = Population(arrivals=SineRate(1, 3, 3600), session_duration=lognormal(300, cov=1.2))
    options = SimpleNamespace(
        population_scale="2",
        population_period="1m",
        population_session_duration="30s",
        population_max_users="77",
        population_start="empty",
        realism_warmup=5.0,
    )
    changed = population.with_options(options)
    assert changed.arrivals.rate(15) == pytest.approx(6)
    assert changed.arrivals.rate(45) == pytest.approx(2)
    assert (changed.session_duration.mean, changed.session_duration.cov) == pytest.approx((30, 1.2))
    assert (changed.max_users, changed.start, changed.warm_up) == (77, "empty", 5.0)
    assert population.with_options(SimpleNamespace(population_scale="", population_people=None)) == population
    people = FinitePopulation(10, away=exponential(1), session_duration=exponential(1))
    assert people.with_options(SimpleNamespace(population_people="25")).people == 25
    for name, value, message in (
        ("population_scale", "-1", "--population-scale must be >= 0, not -1.0"),
        ("population_scale", "many", "--population-scale must be a finite number, not 'many'"),
        ("population_period", "-1", "--population-period must be a time span .*, not '-1'"),
        ("population_session_duration", 0, "--population-session-duration must be > 0, not 0.0"),
    ):
        with pytest.raises(ValueError, match=message):
            population.with_options(SimpleNamespace(**{name: value}))


def test_the_forecast_of_a_sine_has_its_mean_and_its_damped_peak() -> None:
    population = Population(
        arrivals=SineRate(min_rate=0.2, max_rate=1.4, period=3600), session_duration=exponential(300)
    )
    mean, peak, most = population.forecast()  # type: ignore[misc]
    assert mean == pytest.approx(240, rel=0.01)
    w = 2 * math.pi / 3600
    assert peak == pytest.approx(300 * (0.8 + 0.6 / math.sqrt(1 + (300 * w) ** 2)), rel=0.01)
    assert most > peak + 3 * math.sqrt(peak)
    assert "240 users on average" in population.describe().replace("239.9", "240")
