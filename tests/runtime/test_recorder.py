"""The request listener: a row for each event, and no event can stop the load."""

from __future__ import annotations

import gc
import math
import time
import weakref
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from locust.env import Environment

from locust_realism.recording.columns import pack, unpack
from locust_realism.recording.launches import MISSING, Label, Outcome
from locust_realism.runtime.capture import recorder as recorder_module
from locust_realism.runtime.capture.recorder import Recorder
from locust_realism.runtime.coordination.clock import Clock
from locust_realism.runtime.users.session import NO_TASK


@pytest.fixture
def environment() -> Environment:
    return Environment()


@pytest.fixture
def recorder(environment: Environment) -> Recorder:
    recorder = Recorder(Clock())
    environment.events.request.add_listener(recorder.listener)
    return recorder


def fire(environment: Environment, **given: Any) -> None:
    usual: dict[str, Any] = {
        "request_type": "GET",
        "name": "/",
        "response_time": 1.5,
        "response_length": 10,
        "response": None,
        "exception": None,
        "context": {},
    }
    environment.events.request.fire(**{**usual, **given})


def test_a_row_holds_the_fields_of_its_event(environment: Environment, recorder: Recorder) -> None:
    start = time.time()
    fire(environment, start_time=start, name="buy", response_time=0.559, response=SimpleNamespace(status_code=201))
    fire(environment, start_time=start, response_time=12.0, exception=ValueError("no"), response_length=None)
    log = recorder.take().build()
    assert log.launch_us.tolist() == pytest.approx([start * 1e6] * 2, abs=5)
    assert log.response_us.tolist() == [559, 12_000], "a sub-millisecond response time must not be rounded away"
    assert log.size_bytes.tolist() == [10, 0]
    assert [log.labels[k] for k in log.label] == [Label("GET", "buy"), Label("GET", "/")]
    assert [log.outcomes[k] for k in log.outcome] == [Outcome(False, 201, ""), Outcome(True, MISSING, "no")]
    assert log.planned_us.tolist() == log.first_byte_us.tolist() == log.slot.tolist() == [MISSING, MISSING]
    assert len(recorder) == recorder.errors == 0


def test_without_start_time_the_launch_is_the_end_less_the_response_time(
    environment: Environment, recorder: Recorder
) -> None:
    fire(environment, response_time=250.0)
    launch = recorder.take().build().launch_us[0]
    assert launch == pytest.approx((time.time() - 0.25) * 1e6, abs=50_000)


def test_a_request_without_response_time_is_a_row(environment: Environment, recorder: Recorder) -> None:
    """Locust counts it, so the record has it too."""
    fire(environment, response_time=None)
    assert recorder.take().build().response_us.tolist() == [MISSING]


def test_a_row_has_the_users_slot_and_the_first_one_the_planned_launch(environment: Environment) -> None:
    session = SimpleNamespace(slot=7, planned=time.perf_counter(), task=NO_TASK)
    recorder = Recorder(Clock(), session_of=lambda: session)
    environment.events.request.add_listener(recorder.listener)
    planned_us = recorder.clock.axis_us(session.planned)
    fire(environment)
    fire(environment)
    log = recorder.take().build()
    assert log.slot.tolist() == [7, 7]
    assert log.planned_us.tolist() == [planned_us, MISSING]
    assert session.planned is None
    assert log.task.tolist() == log.think_us.tolist() == [MISSING, MISSING]


@pytest.mark.parametrize(
    "nonsense",
    [
        {"response_time": "slow"},
        {"start_time": object()},
        {"name": ["unhashable"]},
        {"response_length": "many"},
        {"exception": type("Broken", (Exception,), {"__str__": lambda self: 1 / 0})()},
    ],
)
def test_an_event_that_cannot_be_recorded_is_counted_and_harms_no_other(
    environment: Environment, recorder: Recorder, nonsense: dict[str, Any]
) -> None:
    fire(environment, name="before")
    fire(environment, **nonsense)
    fire(environment, name="after")
    log = recorder.take().build()
    names = [log.labels[k].name for k in log.label]
    assert recorder.errors == 1
    assert names == ["before", "after"]
    assert log.response_us.tolist() == [1500, 1500]
    assert recorder.last_error


@pytest.mark.parametrize("response_time", [-5.0, -1e300, 1e300, math.inf, math.nan])
def test_impossible_figures_of_a_client_are_missing_and_the_master_takes_the_row(
    environment: Environment, recorder: Recorder, response_time: float
) -> None:
    """A block with a value that no recorder writes would be refused whole."""
    huge = SimpleNamespace(status_code=10**12)
    fire(environment, response_time=response_time, response_length=-7, response=huge, start_time=1e300)
    fire(environment, response_time=2.0, start_time=time.time())
    log = unpack(pack(recorder.take().build()), max_bytes=1 << 20)
    assert log.response_us.tolist() == [MISSING, 2000]
    assert log.size_bytes.tolist() == [MISSING, 10]
    assert log.outcomes[log.outcome[0]].status == MISSING
    assert log.launch_us.tolist() == pytest.approx([time.time() * 1e6] * 2, abs=1e6)


def test_no_response_is_kept_alive(environment: Environment, recorder: Recorder) -> None:
    class Response:
        status_code = 200

    response = Response()
    seen = weakref.ref(response)
    fire(environment, response=response, exception=ValueError("x"))
    del response
    gc.collect()
    assert seen() is None
    assert len(recorder) == 1


def test_endless_names_and_messages_take_bounded_memory(
    environment: Environment, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder_module, "MAX_LABELS", 50)
    monkeypatch.setattr(recorder_module, "MAX_OUTCOMES", 40)
    for k in range(200):
        fire(environment, name=f"/item/{k}", exception=ValueError(f"id {k} " + "x" * 10_000))
    log = recorder.take().build()
    assert len(log) == 200
    assert len(log.labels) <= 51
    assert len(log.outcomes) <= 41
    assert log.labels[log.label[-1]].name == recorder_module.OTHER_NAME
    assert log.outcomes[log.outcome[-1]] == Outcome(True, MISSING, recorder_module.OTHER_MESSAGE)
    assert max(len(outcome.message) for outcome in log.outcomes) <= recorder_module.MAX_MESSAGE


def test_time_to_first_byte_comes_from_requests(environment: Environment, recorder: Recorder) -> None:
    import datetime

    import requests

    response = requests.Response()
    response.elapsed = datetime.timedelta(milliseconds=3.25)
    redirected = requests.Response()
    redirected.elapsed = datetime.timedelta(milliseconds=1)
    redirected.history = [requests.Response()]
    fire(environment, response=response)
    fire(environment, response=redirected)
    fire(environment, response=SimpleNamespace(status_code=200, elapsed="soon"))
    assert recorder.take().build().first_byte_us.tolist() == [3250, MISSING, MISSING]


def test_rows_are_by_launch_time_each_with_its_own_columns(environment: Environment, recorder: Recorder) -> None:
    rng = np.random.default_rng(3)
    launches = time.time() + rng.permutation(5000) * 1e-3
    times = rng.exponential(100, 5000).round(3)
    for k, (launch, response_time) in enumerate(zip(launches.tolist(), times.tolist(), strict=True)):
        fire(environment, start_time=launch, name=f"n{k % 7}", response_time=response_time, response_length=k)
    log, order = recorder.take().build(), np.argsort(launches)
    assert np.diff(log.launch_us).tolist() == pytest.approx([1000] * 4999, abs=2)
    assert log.size_bytes.tolist() == order.tolist()
    assert log.response_us.tolist() == np.rint(times[order] * 1000).astype(int).tolist()
    assert [log.labels[k].name for k in log.label] == [f"n{k % 7}" for k in order]
