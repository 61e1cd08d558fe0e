"""The figures of the Population tab: sums over workers and classes, the expected curve, plain JSON."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from locust import User, constant, task
from locust.env import Environment

from locust_realism.runtime import sessions
from locust_realism.runtime.census import Census, Series, Tally
from locust_realism.runtime.control import PopulationControl, attach
from locust_realism.runtime.histogram import Histogram
from locust_realism.runtime.limits import most_users, warnings_of
from locust_realism.runtime.population import FinitePopulation, Population, open_arrivals
from locust_realism.runtime.population_view import population_document
from locust_realism.runtime.sessions import SessionRecord
from locust_realism.workload.distributions import exponential, lognormal
from locust_realism.workload.populations import expected_users
from locust_realism.workload.rates import ConstantRate, SineRate


def record(duration: float, ending: str = sessions.RAN_OUT, tasks: int = 3) -> SessionRecord:
    return SessionRecord("Visitor", 0, 100.0, 100.0 + duration, ending, tasks, 100.0)


def test_a_histogram_knows_moments_exactly_and_quantiles_to_two_percent() -> None:
    times = lognormal(5, cov=1.5).sample(np.random.default_rng(1), 20_000)
    parts = [Histogram(), Histogram()]
    for i, time in enumerate(times.tolist()):
        parts[i % 2].add(time)
    whole = Histogram()
    for part in parts:
        whole.merge(json.loads(json.dumps(part.report())))
    assert whole.n == 20_000
    assert whole.mean == pytest.approx(times.mean())
    assert whole.sdev == pytest.approx(times.std(ddof=1))
    assert (whole.least, whole.most) == (times.min(), times.max())
    for q in (0.01, 0.5, 0.9, 0.99, 0.999):
        exact = np.sort(times)[math.ceil(q * 20_000) - 1]
        assert exact <= whole.quantile(q) * (1 + 1e-9)
        assert whole.quantile(q) <= exact * 1.0201
    edges, counts = whole.bars()
    below = int((times <= edges[-1]).sum())
    assert abs(sum(counts) - below) < 0.01 * below
    exact_bars = np.histogram(times, edges)[0]
    assert np.abs(np.array(counts) - exact_bars).max() < 5 * math.sqrt(exact_bars.max())
    assert abs(whole.above(5.0) - (times >= 5.0).sum()) < 0.02 * 20_000


def test_an_empty_histogram_has_no_figures() -> None:
    empty = Histogram()
    assert math.isnan(empty.mean)
    assert math.isnan(empty.sdev)
    assert math.isnan(empty.cov)
    assert math.isnan(empty.quantile(0.5))
    assert empty.bars() == ([], [])


def test_a_session_that_locust_stops_while_the_test_runs_was_cut_short() -> None:
    census = Census()
    for _ in range(4):
        census.started(0.001, initial=False)
    census.ended(record(2.0), running=True, initial=False)
    census.ended(record(2.0, sessions.STOPPED), running=True, initial=False)
    census.ended(record(2.0, sessions.KILLED), running=False, initial=False)
    assert (census.cut_short, census.active, census.highest, census.durations.n) == (1, 1, 4, 1)


def test_sessions_of_the_start_do_not_count_for_the_mean_duration() -> None:
    census = Census()
    census.started(0.0, initial=True)
    census.ended(record(50.0), running=True, initial=True)
    assert (census.entered, census.arrivals, census.durations.n) == (1, 0, 0)
    assert census.departures["ran out"] == 1


def test_the_master_adds_up_what_workers_report_and_knows_what_was_lost() -> None:
    tally = Tally()
    for worker in ("a", "b"):
        census = Census()
        for second in (1, 2, 3):
            for _ in range(10):
                census.started(0.2, initial=False)
            census.ended(record(1.0), running=True, initial=False)
            census.tick(second)
            tally.add(worker, json.loads(json.dumps(census.report())))
    columns = tally.series.columns()
    assert columns["t_s"] == [1, 2, 3]
    assert columns["users"] == [18, 36, 54]
    assert columns["arrivals"] == [20, 20, 20]
    assert columns["departures"] == [2, 2, 2]
    assert tally.total("arrivals") == 60
    assert tally.histogram("durations").n == 6
    tally.lose("b")
    tally.lose("unknown")
    assert (tally.lost, tally.total("active")) == (27, 27)
    tally.add("b", census.report())
    assert (tally.lost, tally.total("active")) == (0, 54), "it was not lost after all"


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
    """An Environment whose control believes in a running test; the clock is the list's last number."""
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


def test_without_a_population_the_document_says_so() -> None:
    environment = Environment(user_classes=[Visitor])
    environment.create_local_runner()
    assert population_document(environment) == {"model": None}


def test_the_expected_curve_is_the_theorys_and_the_band_holds_95_percent() -> None:
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


def test_sessions_of_tasks_are_expected_from_what_was_measured() -> None:
    environment, control, _ = led(Visitor=open_arrivals(ConstantRate(10)))
    feed(control, "Visitor", 30, 0)
    assert "expected" not in population_document(environment)["series"]
    census = Census()
    for _ in range(50):
        census.started(0.0, initial=False)
        census.ended(record(2.0, tasks=1), running=True, initial=False)
    census.tick(31)
    control.tallies["Visitor"].add("local", census.report())
    document = population_document(environment)
    assert document["series"]["expected"][-1] == pytest.approx(20, rel=0.01)
    assert document["tasks_per_session"] == 1
    assert document["sessions"]["mean_s"] == pytest.approx(2.0)


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


def test_limits_are_warned_of_before_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    population = Population(arrivals=ConstantRate(2), session_duration=exponential(120), max_users=250)
    assert most_users(population) == 289
    (warning,) = warnings_of("Visitor", population, workers=1)
    assert "289" in warning
    assert "250" in warning
    monkeypatch.setattr("locust_realism.runtime.limits.open_file_limit", lambda: 200)
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
    for name in ("population_scale", "population_period", "population_session_duration"):
        with pytest.raises(ValueError, match=f"--{name.replace('_', '-')} must be"):
            population.with_options(SimpleNamespace(**{name: "-1"}))


def test_the_forecast_says_what_the_issue_promises() -> None:
    population = Population(
        arrivals=SineRate(min_rate=0.2, max_rate=1.4, period=3600), session_duration=exponential(300)
    )
    mean, peak, most = population.forecast()  # type: ignore[misc]
    assert mean == pytest.approx(240, rel=0.01)
    w = 2 * math.pi / 3600
    assert peak == pytest.approx(300 * (0.8 + 0.6 / math.sqrt(1 + (300 * w) ** 2)), rel=0.01)
    assert most > peak + 3 * math.sqrt(peak)
    assert "240 users on average" in population.describe().replace("239.9", "240")
