"""Live figures: one computation at a time, off the loop, with their age; a failure never spreads."""

from __future__ import annotations

import time
from typing import Any

import gevent
from gevent.monkey import get_original

from locust_realism.runtime.figures.live import Answer, LiveFigures

NativeEvent = get_original("threading", "Event")
"""The figures are computed in native threads, where gevent's own primitives must not be waited on."""


def document(answer: Answer[dict[str, Any]] | None) -> dict[str, Any]:
    """Return the document of an answer that must be there."""
    assert answer is not None
    return answer.document


def test_a_slow_computation_does_not_stop_the_loop() -> None:
    """While the figures are computed in a native thread, other greenlets run."""
    release = NativeEvent()

    def compute(key: str) -> dict[str, Any]:
        release.wait(5)
        return {"key": key}

    figures = LiveFigures(compute)
    ticks = 0

    def tick() -> None:
        nonlocal ticks
        for _ in range(5):
            gevent.sleep(0.001)
            ticks += 1
        release.set()

    gevent.spawn(tick)
    assert document(figures.get("a"))["key"] == "a"
    assert ticks == 5


def test_frequent_requests_compute_once_per_interval_and_have_the_age() -> None:
    calls: list[str] = []
    figures = LiveFigures(lambda key: {"call": len(calls.append(key) or calls)}, refresh_s=60)
    assert [document(figures.get(""))["call"] for _ in range(5)] == [1] * 5
    gevent.sleep(0.02)
    answer = figures.get("")
    assert answer is not None
    assert answer.age_s >= 0.02
    assert document(figures.fresh(""))["call"] == 2


def test_an_expensive_answer_is_refreshed_more_rarely() -> None:
    """At most a quarter of a core goes into figures, however long they take."""
    calls = 0

    def compute(key: str) -> dict[str, Any]:
        nonlocal calls
        calls += 1
        time.sleep(0.05)
        return {}

    figures = LiveFigures(compute, refresh_s=0.0)
    figures.get("")
    deadline = time.monotonic() + 0.15
    while time.monotonic() < deadline:
        figures.get("")
        gevent.sleep(0.005)
    assert calls == 1


def test_a_failing_computation_is_counted_and_the_last_answer_stays() -> None:
    answers = iter([{"value": 1}])

    def compute(key: str) -> dict[str, Any]:
        try:
            return next(answers)
        except StopIteration:
            raise RuntimeError("no more") from None

    figures = LiveFigures(compute, refresh_s=0.0, share=1e9)
    assert document(figures.get(""))["value"] == 1
    gevent.sleep(0.001)
    assert document(figures.fresh(""))["value"] == 1
    assert figures.errors == 1


def test_clear_drops_also_what_is_being_computed() -> None:
    """An answer for the old record that arrives after a reset is dropped."""
    release = NativeEvent()

    def compute(key: str) -> dict[str, Any]:
        release.wait(5)
        return {"value": 1}

    figures = LiveFigures(compute)
    waiting = gevent.spawn(figures.get, "")
    gevent.sleep(0.01)
    figures.clear()
    release.set()
    waiting.join()
    assert waiting.value is None


def test_the_number_of_kept_answers_is_bounded() -> None:
    figures = LiveFigures(lambda key: {"key": key}, keep=3)
    for number in range(10):
        figures.get(str(number))
    assert list(figures._answers) == ["7", "8", "9"]
