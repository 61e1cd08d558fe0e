"""Think time as two options of a scenario, and the check of the host, in a real Environment."""

from __future__ import annotations

import socket
from typing import Any

import locust
import pytest
from locust import User
from locust.argument_parser import get_empty_argument_parser
from locust.env import Environment

from locust_realism.kit.command_line import KINDS, think_time, think_time_options
from locust_realism.kit.start_checks import reachable
from locust_realism.runtime.options import KNOWN, read_fields
from locust_realism.workload.distributions import constant, exponential, uniform


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> Any:
    """New events of Locust, for the listeners that a locustfile adds."""
    fresh = locust.event.Events()
    for module in ("locust_realism.kit.command_line", "locust_realism.kit.start_checks"):
        monkeypatch.setattr(f"{module}.events", fresh)
    return fresh


@pytest.mark.parametrize("kind", KINDS)
def test_every_distribution_has_the_requested_mean(kind: str) -> None:
    assert think_time(3.25, kind).mean == 3.25
    assert think_time(0, kind) == constant(0)


@pytest.mark.parametrize(
    ("mean", "kind", "message"),
    [
        (-1, "uniform", "mean must be >= 0, not -1.0"),
        (1, "poisson", "kind must be one of exponential, uniform, constant"),
    ],
)
def test_impossible_think_times_are_refused(mean: float, kind: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        think_time(mean, kind)


def test_options_set_the_think_time_when_a_test_starts(events: Any) -> None:
    class Visitor(User):
        pass

    class Other(User):
        wait_time = constant(9)

    think_time_options(Visitor, mean=12.5, kind="uniform")
    assert Visitor.wait_time == uniform(0, 25)
    parser = get_empty_argument_parser()
    events.init_command_line_parser.fire(parser=parser)
    usual, given = (
        parser.parse_args([]),
        parser.parse_args(["--think-time", "2", "--think-distribution", "exponential"]),
    )
    assert (usual.think_time, usual.think_distribution) == (12.5, "uniform")
    environment = Environment(user_classes=[Visitor, Other], events=events, host="http://localhost")
    environment.parsed_options = given
    events.test_start.fire(environment=environment)
    assert Visitor.wait_time == exponential(2)
    assert Other.wait_time == constant(9)
    with pytest.raises(SystemExit):
        parser.parse_args(["--think-time", "-1"])


def test_the_start_form_reads_a_think_time_as_the_command_line_does(events: Any) -> None:
    class Visitor(User):
        pass

    think_time_options(Visitor, mean=1)
    events.init_command_line_parser.fire(parser=get_empty_argument_parser())
    assert read_fields({"think_time": "2.5"}, KNOWN.values())["think_time"] == 2.5
    assert read_fields({"think_time": "500ms"}, KNOWN.values())["think_time"] == 0.5
    for text in ("-2", "soon"):
        with pytest.raises(ValueError, match=f"--think-time: {text!r} must be a time span such as 500ms, 90"):
            read_fields({"think_time": text}, KNOWN.values())


@pytest.mark.parametrize("host", ["", "gov.example", "ftp://gov.example", "http://", "http://127.0.0.1:99999"])
def test_a_host_that_is_no_url_is_not_reachable(host: str) -> None:
    message = reachable(None, host, {})  # type: ignore[arg-type]
    assert message is not None
    assert "must be a URL" in message
    assert repr(host) in message


def test_a_host_is_reachable_while_a_server_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        host = f"http://127.0.0.1:{server.getsockname()[1]}"
        assert reachable(None, host, {}) is None  # type: ignore[arg-type]
    message = reachable(None, host, {})  # type: ignore[arg-type]
    assert message is not None
    assert f"{host} cannot be reached" in message
