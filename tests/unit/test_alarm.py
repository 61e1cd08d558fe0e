"""The alarm of arrivals: when it goes off, how often, and what it leaves open."""

from __future__ import annotations

import gc
import time
from pathlib import Path

import gevent
import pytest

from locust_realism.runtime import alarm
from locust_realism.runtime.alarm import Alarm

FILES = Path("/proc/self/fd")


@pytest.fixture(params=["timer file", "timer of gevent"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "timer of gevent":
        monkeypatch.setattr(alarm, "_libc", None)
    elif alarm._libc is None:
        pytest.skip("no timer file descriptors here")
    return str(request.param)


def test_it_goes_off_once_at_the_time_that_was_set_last(kind: str) -> None:
    rang: list[float] = []
    clock = Alarm(lambda: rang.append(time.perf_counter()))
    began = time.perf_counter()
    clock.set(began + 0.01)
    clock.set(began + 0.03)
    gevent.sleep(0.02)
    assert rang == []
    gevent.sleep(0.05)
    (at,) = rang
    assert began + 0.0295 <= at < began + 0.06
    clock.set(began)
    gevent.sleep(0.005)
    assert len(rang) == 2, "at once if the time is past"
    clock.set(time.perf_counter() + 0.01)
    clock.set(None)
    gevent.sleep(0.02)
    assert len(rang) == 2
    clock.set(time.perf_counter() + 0.01)
    clock.close()
    gevent.sleep(0.02)
    assert len(rang) == 2
    clock.close()


def test_a_timer_file_does_not_round_to_milliseconds() -> None:
    if alarm._libc is None:
        pytest.skip("no timer file descriptors here")
    rang: list[float] = []
    clock = Alarm(lambda: rang.append(time.perf_counter()))
    late = []
    for k in range(100):
        when = time.perf_counter() + 0.001 + 1e-5 * k
        clock.set(when)
        while len(rang) <= k:
            gevent.sleep(0.0005)
        late.append(rang[-1] - when)
    clock.close()
    assert min(late) >= -1e-6
    assert sorted(late)[20] < 0.0005, "even where others take turns, one of five is not held up"


@pytest.mark.skipif(not FILES.is_dir(), reason="no list of open files")
def test_it_leaves_no_file_open(kind: str) -> None:
    gc.collect()
    gevent.sleep(0.02)  # what earlier tests have left is closed now
    before = len(list(FILES.iterdir()))
    for _ in range(20):
        Alarm(print).close()
    deadline = time.monotonic() + 5
    while len(list(FILES.iterdir())) > before and time.monotonic() < deadline:
        gevent.sleep(0.01)  # patched by gevent, os.close() closes in a later turn of the loop
    assert len(list(FILES.iterdir())) <= before
