"""Start form: our options are read as on the command line, and a refused value starts no test."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import Any

import gevent
import pytest
from locust import User, task
from locust.argument_parser import get_parser, ui_extra_args_dict
from locust.env import Environment
from locust.event import Events

from locust_realism import install
from locust_realism.runtime.options import OPTIONS, add_options, watch_start_form
from locust_realism.runtime.population import model as population
from locust_realism.workload.rates.shapes import ConstantRate


class Nobody(User):
    @task
    def nothing(self) -> None:
        """Never run: no user is started here."""


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Web UI with our options and a runner that only counts its starts; post() sends the form."""
    monkeypatch.setattr(sys, "argv", ["locust"])  # which Locust reads again for the form
    parser = get_parser(default_config_files=[])
    add_options(parser, "locust_realism", OPTIONS)
    options: Namespace = parser.parse_args([])
    environment = Environment(user_classes=[Nobody], parsed_options=options)
    runner = environment.create_local_runner()
    starts: list[float] = []
    monkeypatch.setattr(runner, "start", lambda *_: starts.append(options.realism_warmup))
    web_ui = environment.create_web_ui("127.0.0.1", 0, delayed_start=True)
    watch_start_form(environment, web_ui)
    client = web_ui.app.test_client()

    def post(**fields: str) -> Any:
        answer = client.post("/swarm", data={"user_count": "1", "spawn_rate": "1", **fields})
        gevent.sleep(0.01)
        return answer.get_json()

    yield Namespace(post=post, options=options, starts=starts)
    runner.quit()


def test_a_time_span_is_read_as_on_the_command_line_again_and_again(started: Any) -> None:
    """Locust converts a text to the type of the present value, which fails for a time span."""
    for text, seconds in (("2m", 120.0), ("1h", 3600.0), ("", 0.0)):
        assert started.post(realism_warmup=text)["success"]
        assert started.options.realism_warmup == seconds
    assert started.starts == [120.0, 3600.0, 0.0], "the value is there before the users start"


def test_a_value_out_of_bounds_is_refused_and_no_test_starts(started: Any) -> None:
    answer = started.post(realism_warmup="soon", realism_seed="1")
    assert answer["success"] is False
    assert answer["message"] == "--realism-warmup: 'soon' must be a time span such as 500ms, 90, 90s, 2m or 1h30m"
    answer = started.post(realism_seed="-1")
    assert answer["message"] == "--realism-seed: '-1' must be an integer >= 0"
    assert started.starts == []
    assert started.options.realism_seed is None


def test_an_empty_seed_is_no_seed(started: Any) -> None:
    started.post(realism_seed="7")
    assert started.options.realism_seed == 7
    started.post(realism_seed="")
    assert started.options.realism_seed is None


def test_the_fields_of_populations_are_on_the_form_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["locust"])
    monkeypatch.setattr(population, "_built", [])
    events = Events()
    install(events)
    monkeypatch.setattr("locust.events", events)

    def fields() -> set[str]:
        return {name for name in ui_extra_args_dict() if name.startswith(("population_", "realism_seed"))}

    assert fields() == {"realism_seed"}
    parsed = get_parser(default_config_files=[]).parse_args(["--population-scale", "3"])
    assert parsed.population_scale == 3, "the flags are there nevertheless"
    population.open_arrivals(ConstantRate(1))
    assert fields() == {option.dest for option in OPTIONS if option.dest.startswith("population_")} | {"realism_seed"}
