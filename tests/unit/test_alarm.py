"""Alarm and waits: never early, in the order of the due times, without rounding, and nothing left by a killed wait."""

from __future__ import annotations

import ctypes
import gc
import math
import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gevent
import pytest
from gevent.event import Event
from gevent.socket import wait_read

from locust_realism.runtime.locust_compat import native_sleep
from locust_realism.runtime.users import alarm, deadline
from locust_realism.runtime.users.alarm import Alarm, Timers

FILES = Path("/proc/self/fd")
LONG_S = 10.0
"""Bound of every wait: the tests assert orders and earliest times, which a busy machine does not change."""
START_S = 0.4
"""Time in which hundreds of greenlets have begun to wait, on a busy machine too."""
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
    monkeypatch.setattr(alarm, "time", SimpleNamespace(perf_counter=lambda: 1234.0))
    one = Alarm(print)
    for when in (1234.000_000_5, 1234.000_3, None, None, 1235.0, 1233.0):
        one.set(when)
    one.close()
    assert settings == [(1, 1234_000_000_500), (1, 1234_000_300_000), (1, 0), (1, 1235_000_000_000), (1, 0)]
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
    until = time.monotonic() + LONG_S
    while len(list(FILES.iterdir())) > before and time.monotonic() < until:
        gevent.sleep(0.01)  # patched by gevent, os.close() closes in a later turn of the loop
    assert len(list(FILES.iterdir())) <= before


# Waits of many greenlets on one alarm ---------------------------------------------------------------------------------


@pytest.fixture
def timers(kind: str) -> Iterator[Timers]:
    """The event loop's timers, without those of other tests."""
    hub = vars(gevent.get_hub())
    others, made = hub.pop(alarm._KEY, None), list(alarm._made)
    alarm._made.clear()
    fresh = alarm.timers()
    yield fresh
    assert len(fresh) == 0, "a wait is left"
    fresh.alarm.close()
    del hub[alarm._KEY]
    alarm._made[:] = made
    if others is not None:
        hub[alarm._KEY] = others


def start(work: Callable[..., object], *arguments: Any) -> Any:
    """Start a greenlet and let it run until it waits."""
    greenlet = gevent.spawn(work, *arguments)
    gevent.sleep(0)
    return greenlet


def test_waits_end_in_the_order_of_their_due_times_and_never_early(timers: Timers) -> None:
    begin, woken = time.perf_counter() + START_S, []
    dues = [begin + 1e-4 * k for k in range(200)]

    def until(due: float) -> None:
        alarm.sleep_until(due)
        woken.append((due, time.perf_counter()))

    gevent.joinall([start(until, due) for due in random.Random(1).sample(dues, len(dues))], raise_error=True)
    assert [due for due, _ in woken] == dues
    assert min(at - due for due, at in woken) >= 0


def test_waits_of_one_time_end_together_in_the_order_of_their_begin(timers: Timers) -> None:
    due, woken, turns = time.perf_counter() + START_S, [], LoopTurns()

    def until(number: int) -> None:
        alarm.sleep_until(due)
        woken.append((number, turns.count))

    gevent.joinall([start(until, number) for number in range(300)], raise_error=True)
    turns.close()
    assert [number for number, _ in woken] == list(range(300))
    assert len({turn for _, turn in woken}) == 1


def test_a_sleep_lasts_as_long_as_that_of_gevent(timers: Timers) -> None:
    for seconds in (0.02, 1e-5):
        began = time.perf_counter()
        alarm.sleep(seconds)
        assert time.perf_counter() - began >= seconds
    others = start(alarm.sleep, 0)
    alarm.sleep(0)  # lets the others run
    assert others.dead
    alarm.sleep_until(-1.0)
    alarm.sleep(-1.0)
    with pytest.raises(TypeError):
        alarm.sleep("1")  # type: ignore[arg-type]


@pytest.mark.parametrize("forever", [math.inf, 1e300, 1e9])
def test_a_wait_without_end_does_not_keep_others_from_ending(timers: Timers, forever: float) -> None:
    endless = start(alarm.sleep, forever)
    alarm.sleep(0.01)
    assert not endless.dead
    endless.kill()


def test_killed_and_timed_out_waits_leave_the_heap(timers: Timers) -> None:
    woken, first, last = start(alarm.sleep, 0.01), start(alarm.sleep, START_S), start(alarm.sleep, START_S)
    with pytest.raises(gevent.Timeout), gevent.Timeout(0.001):
        alarm.sleep(3600)
    first.kill()
    assert len(timers) <= 4, "two that wait, and at most as many that have ended"
    gevent.joinall([woken, last], LONG_S, raise_error=True)
    assert len(timers.lateness) == 2, "the killed ones were not woken"


def ended_before(timers: Timers, ended: int) -> int:
    """Return the largest heap while ten greenlets wait and so many others are killed."""
    staying, largest = [start(alarm.sleep, 3600 + k) for k in range(10)], 0
    for k in range(ended):
        start(alarm.sleep, 1800 + k % 7).kill()
        largest = max(largest, len(timers))
    gevent.killall(staying)
    return largest


def test_the_heap_stays_small_however_many_waits_are_killed(timers: Timers, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ended_before(timers, 2000) <= 2 * 11
    assert timers.alarm._watcher is None or not timers.alarm._watcher.ref, "nothing to wait for"
    monkeypatch.setattr(timers, "_compact", lambda: None)  # negative control
    assert ended_before(timers, 2000) > 2000
    monkeypatch.undo()
    alarm.sleep(1e-3)


def test_an_event_ends_a_wait_before_its_time(timers: Timers) -> None:
    event, answers = Event(), []
    waits = [start(lambda until: answers.append(alarm.wait(event, until)), until) for until in (1e8, math.inf)]
    assert len(timers) == 1
    event.set()
    gevent.joinall(waits, LONG_S, raise_error=True)
    assert answers == [True, True]
    assert alarm.wait(event, -math.inf), "it is set"


def test_a_wait_for_an_event_ends_at_its_time(timers: Timers) -> None:
    event, until = Event(), time.perf_counter() + 0.02
    assert not alarm.wait(event, until)
    assert time.perf_counter() >= until
    assert not alarm.wait(event, until), "past"
    assert event.linkcount() == 0


def test_sockets_have_their_turn_while_waits_are_always_due(timers: Timers) -> None:
    here, there = socket.socketpair()
    reader, rounds = start(wait_read, here.fileno()), 0
    there.send(b"x")
    while not reader.dead and rounds < 50_000:
        alarm.sleep(1e-9)
        rounds += 1
    here.close()
    there.close()
    assert reader.successful()


class LoopTurns:
    """Number of turns of the event loop."""

    def __init__(self) -> None:
        self.count = 0
        self._watcher = gevent.get_hub().loop.prepare()
        self._watcher.start(self._add)

    def _add(self) -> None:
        self.count += 1

    def close(self) -> None:
        self._watcher.stop()
        self._watcher.close()


TURNS = """
import gevent, time
from locust_realism.runtime.users import alarm

turn = 0
def add():
    global turn
    turn += 1
gevent.get_hub().loop.prepare().start(add)

def turns_of_a_millisecond(sleep):
    woken, begin = set(), time.perf_counter() + 0.005
    def until(due):
        sleep(due - time.perf_counter())
        woken.add(turn)
    gevent.joinall([gevent.spawn(until, begin + 5e-5 * k) for k in range(20)], raise_error=True)
    return len(woken)

for sleep in alarm.sleep, gevent.sleep:
    print(*sorted(turns_of_a_millisecond(sleep) for _ in range(40)))
"""


def test_waits_within_a_millisecond_end_one_by_one_which_those_of_gevent_do_not() -> None:
    """20 greenlets are due at steps of 50 us: in how many turns of an otherwise idle loop are they woken?"""
    if alarm._libc is None:
        pytest.skip("no timer file descriptors here")
    done = subprocess.run([sys.executable, "-c", TURNS], capture_output=True, text=True, timeout=60, check=True)
    ours, by_gevent = (list(map(int, line.split())) for line in done.stdout.splitlines())
    # A busy machine makes lumps of both. gevent's loop waits for whole milliseconds: two to four turns.
    assert ours[-1] >= 9
    assert by_gevent[20] <= 5


def test_lateness_is_that_of_the_wakes_since_the_last_call(timers: Timers) -> None:
    assert all(map(math.isnan, alarm.take_lateness()))
    timers.lateness.extend(k * 1e-6 for k in (9, 1, 10, 2, 8, 3, 7, 4, 6, 5))
    assert alarm.take_lateness() == pytest.approx((5, 9))
    assert all(map(math.isnan, alarm.take_lateness()))
    due = time.perf_counter() + START_S
    waits = [start(alarm.sleep_until, due) for _ in range(600)]
    native_sleep(due + 0.05 - time.perf_counter())  # code that blocks the loop
    gevent.joinall(waits)
    assert len(timers.lateness) == 512
    median, high = alarm.take_lateness()
    assert 0.05e6 <= median <= high


def test_the_grain_is_that_of_the_timer(timers: Timers, kind: str) -> None:
    assert alarm.grain() == (0.001 if kind == "timer of gevent" else 0.0)


def test_a_process_that_never_waited_rounds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alarm, "_made", [])
    assert alarm.grain() == 0.0
    assert alarm._made == [], "to ask makes no timers"


def test_it_needs_no_flags_of_unix_without_timer_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows has neither flag."""
    for module in (alarm, deadline):
        monkeypatch.setattr(module, "_libc", None)
    with monkeypatch.context() as patch:
        for flag in ("O_CLOEXEC", "O_NONBLOCK"):
            patch.delattr(os, flag)
        ringing = Ringing()
        end = deadline.Deadline()
    ringing.alarm.set(time.perf_counter())
    ringing.wait()
    ringing.alarm.close()
    end.close()


FORK = """
import gevent, os, sys, time
from locust_realism.runtime.users import alarm
if sys.argv[1] == "timer of gevent":
    alarm._libc = None
began = time.perf_counter()
sleeper = gevent.spawn(alarm.sleep, 0.3)
gevent.sleep(0.01)
child = gevent.fork()
for k in range(20):
    alarm.sleep_until(began + 0.05 + 0.02 * k)
sleeper.join(5)
assert sleeper.successful() and time.perf_counter() - began >= 0.3
gevent.wait()  # returns, as nothing is left to wait for
if child:
    assert os.waitpid(child, 0)[1] == 0, "the child"
print("done", len(alarm.timers()))
"""


def test_a_forked_child_has_an_alarm_of_its_own(kind: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORK, kind], capture_output=True, text=True, timeout=60, check=False
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["done", "0"] * 2, done.stderr


FORKED_HEARTBEAT = """
import gevent, os, sys
from locust_realism.runtime.users import alarm
if sys.argv[1] == "timer of gevent":
    alarm._libc = None
from locust_realism.runtime.capture.watchdog import Heartbeat
closed = alarm.Alarm(print)
closed.close()
heartbeat = Heartbeat()
gevent.sleep(0.1)
child = gevent.fork()
heartbeat.take()
gevent.sleep(1)
beats = len(heartbeat.take().lags)
if not child:
    print(beats, closed._file, flush=True)
    os._exit(0)
os.waitpid(child, 0)
print(beats)
"""


def test_a_forked_child_takes_no_beats_of_its_parent(kind: str) -> None:
    """A heartbeat goes on in the parent, 20 beats a second, and ends in the child; a closed alarm stays closed."""
    done = subprocess.run(
        [sys.executable, "-c", FORKED_HEARTBEAT, kind], capture_output=True, text=True, timeout=60, check=False
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    in_child, in_parent = done.stdout.splitlines()
    assert in_child == "0 None"
    assert int(in_parent) >= 17


def test_a_wait_that_the_alarm_has_missed_ends_all_the_same() -> None:
    """An alarm that is lost delays a user by two looks of the guard at most; negative control: without the guard."""
    found = alarm.timers()
    for guarded in (True, False):
        waiting = gevent.spawn(alarm.sleep, 0.05)
        gevent.sleep(0.01)
        found.alarm.set(None)
        if not guarded:
            found._guard.stop()
        waiting.join(timeout=1.0)
        assert waiting.dead == guarded
    found._guard.start(found._wake_missed)
    waiting.join(timeout=1.0)
    assert waiting.dead


def test_a_time_that_is_no_number_is_past() -> None:
    """In the heap it would stand before every due time, and no wait would end."""
    before = len(alarm.timers())
    assert not alarm.wait(Event(), math.nan)
    assert len(alarm.timers()) == before
