"""Alarm of arrivals: never early, once, at the time of the last setting, without rounding and without open files."""

from __future__ import annotations

import ctypes
import gc
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gevent
import pytest
from gevent.event import Event

from locust_realism.runtime.users import alarm
from locust_realism.runtime.users.alarm import Alarm

FILES = Path("/proc/self/fd")
LONG_S = 10.0
"""Bound of every wait: the tests assert orders and earliest times, which a busy machine does not change."""
CLOCK_S = 2e-3
"""Error of the loop's own clock, by which a timer of gevent may be early."""


@pytest.fixture(params=["timer file", "timer of gevent"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "timer of gevent":
        monkeypatch.setattr(alarm, "_libc", None)
    elif alarm._libc is None:
        pytest.skip("no timer file descriptors here")
    return str(request.param)


class Ringing:
    """An alarm with the times at which it rang."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.rang = Event()
        self.alarm = Alarm(self._ring)

    def _ring(self) -> None:
        self.times.append(time.perf_counter())
        self.rang.set()

    def wait(self) -> float:
        """Return the time of the next ring."""
        assert self.rang.wait(LONG_S)
        self.rang.clear()
        return self.times[-1]


def pass_time(when: float) -> None:
    """Wait for an alarm that is set after all others: those before it have had their turn."""
    fence = Ringing()
    fence.alarm.set(when)
    fence.wait()
    fence.alarm.close()
    gevent.sleep(0)


def test_it_rings_once_at_the_time_of_the_last_setting(kind: str) -> None:
    ringing, began = Ringing(), time.perf_counter()
    ringing.alarm.set(began + 0.01)
    ringing.alarm.set(began + 0.03)
    assert ringing.wait() >= began + 0.03 - CLOCK_S
    pass_time(time.perf_counter() + 0.01)
    assert len(ringing.times) == 1
    ringing.alarm.close()


def test_a_time_that_is_past_rings_at_once(kind: str) -> None:
    ringing = Ringing()
    ringing.alarm.set(time.perf_counter() - 1)
    ringing.wait()
    ringing.alarm.close()


def test_none_cancels_it_and_so_does_closing(kind: str) -> None:
    for cancel in (lambda one: one.set(None), lambda one: one.close()):
        ringing, when = Ringing(), time.perf_counter() + 0.01
        ringing.alarm.set(when)
        cancel(ringing.alarm)
        pass_time(when + 0.01)
        assert ringing.times == []
        ringing.alarm.close()
        ringing.alarm.close()


def test_a_timer_file_has_the_time_to_the_nanosecond(monkeypatch: pytest.MonkeyPatch) -> None:
    if alarm._libc is None:
        pytest.skip("no timer file descriptors here")
    settings: list[tuple[int, int]] = []

    def settime(file: int, flags: int, setting: Any, old: None) -> int:
        value = setting._obj
        settings.append((flags, value.value_s * 10**9 + value.value_ns))
        return 0

    libc = SimpleNamespace(timerfd_create=alarm._libc.timerfd_create, timerfd_settime=settime)
    monkeypatch.setattr(alarm, "_libc", libc)
    one = Alarm(print)
    for when in (1234.000_000_5, 1234.000_3, None, -1.0):
        one.set(when)
    one.close()
    assert settings == [(1, 1234_000_000_500), (1, 1234_000_300_000), (1, 0), (1, 1)]
    assert ctypes.sizeof(alarm._Setting) == 32, "struct itimerspec"


def test_the_kernel_is_not_early(monkeypatch: pytest.MonkeyPatch) -> None:
    if alarm._libc is None:
        pytest.skip("no timer file descriptors here")
    ringing = Ringing()
    for k in range(50):
        when = time.perf_counter() + 0.001 + 1e-5 * k
        ringing.alarm.set(when)
        assert ringing.wait() >= when - 1e-6
    ringing.alarm.close()
    assert len(ringing.times) == 50


@pytest.mark.skipif(not FILES.is_dir(), reason="no list of open files")
def test_it_leaves_no_file_open(kind: str) -> None:
    gc.collect()
    gevent.sleep(0.02)  # files of earlier tests are closed now
    before = len(list(FILES.iterdir()))
    for _ in range(20):
        Alarm(print).close()
    deadline = time.monotonic() + LONG_S
    while len(list(FILES.iterdir())) > before and time.monotonic() < deadline:
        gevent.sleep(0.01)  # patched by gevent, os.close() closes in a later turn of the loop
    assert len(list(FILES.iterdir())) <= before
