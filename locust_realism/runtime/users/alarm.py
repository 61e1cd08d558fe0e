"""Waits that end on time: to some 0.1 ms on Linux, where gevent's timers round up to the next millisecond.

gevent's loop waits in whole milliseconds. A user woken by its timers is up to 1 ms late, and two users of one
millisecond start a lump: at 400 launches/s gaps under a tenth of the mean gap were 1.6 times as frequent as those of
independent users. A timer file descriptor of the kernel wakes the loop like an arriving message, without rounding.

:func:`sleep`, :func:`sleep_until` and :func:`wait` serve all waits of an event loop by one :class:`Alarm`: a heap holds
the due times, and the alarm is set to the earliest. All times are ``time.perf_counter()`` seconds of this process.
"""

from __future__ import annotations

import ctypes
import heapq
import math
import os
import sys
import time
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Any
from weakref import WeakSet

import gevent
from gevent.event import Event
from gevent.hub import Waiter

_CLOCK_MONOTONIC = 1  # that of perf_counter, see _find_libc
_ABSOLUTE = _READ = 1
_NEVER_S = 1e9
"""Due times from here on, 31 years of the clock, are beyond what the alarm is set to."""
_LATENESSES = 512
"""Wakes since the last :func:`take_lateness` that are kept, the latest ones."""
_GRAIN_OF_GEVENT_S = 1e-3
_GUARD_S = 0.25
"""Seconds between two looks of a gevent timer for waits that the alarm has missed; none may last without end."""


class _Setting(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_long) for name in ("interval_s", "interval_ns", "value_s", "value_ns"))


class Alarm:
    """One-shot timer that calls ``ring()`` in the loop at the time of the last :meth:`set`; to be closed.

    To set it costs about 2 microseconds. Without timer file descriptors (not Linux) it is a timer of gevent. The loop
    has something to wait for only while it is set.

    >>> alarm = Alarm(lambda: print("now"))
    >>> alarm.set(time.perf_counter() + 0.01)
    >>> gevent.sleep(0.02)
    now
    >>> alarm.close()
    """

    def __init__(self, ring: Callable[[], object]) -> None:
        self._ring = ring
        self._loop: Any = gevent.get_hub().loop
        self._setting = _Setting()
        self._timer: Any = None
        self._watcher: Any = None
        self._file: int | None = None
        self._open()

    def _open(self) -> None:
        _open_alarms.add(self)
        if _libc is None:
            return
        file = _libc.timerfd_create(_CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        if file >= 0:
            self._file = file
            self._watcher = self._loop.io(self._file, _READ, ref=False)
            self._watcher.start(self._fire)

    @property
    def grain(self) -> float:
        """Seconds to which it rounds: 0 with a timer file descriptor."""
        return _GRAIN_OF_GEVENT_S if self._file is None else 0.0

    def set(self, when: float | None) -> None:
        """Fire at this ``time.perf_counter()`` time, in the loop's next turn if it is past, never for None."""
        if self._timer is not None:
            self._timer.stop()
            self._timer.close()
            self._timer = None
        # the kernel's timer takes 20 microseconds for a time that is past, gevent's one
        past = when is not None and when <= time.perf_counter()
        if self._file is not None:
            self._set_file(None if past else when)
        if when is not None and (past or self._file is None):
            self._timer = self._loop.timer(max(0.0, when - time.perf_counter()))
            self._timer.start(self._ring, update=True)  # else it counts from the loop's last turn

    def _set_file(self, when: float | None) -> None:
        if when is None and not self._watcher.ref:
            return
        self._watcher.ref = when is not None
        nanoseconds = 0 if when is None else int(when * 1e9)
        self._setting.value_s, self._setting.value_ns = divmod(nanoseconds, 1_000_000_000)
        if _libc.timerfd_settime(self._file, _ABSOLUTE, ctypes.byref(self._setting), None):
            raise OSError(ctypes.get_errno(), "timerfd_settime failed")

    def close(self) -> None:
        """Cancel the alarm and close its descriptor."""
        _open_alarms.discard(self)
        for watcher in (self._watcher, self._timer):
            if watcher is not None:
                watcher.stop()
                watcher.close()
        if self._file is not None:
            os.close(self._file)
        self._watcher = self._timer = self._file = None

    def reopen(self) -> None:
        """Cancel the alarm of a forked child, whose descriptor is its parent's, and take one of its own."""
        self.close()
        self._open()

    def _fire(self) -> None:
        if self._file is None:
            return  # closed since
        try:
            os.read(self._file, 8)
        except BlockingIOError:
            return  # set to another time since
        self._watcher.ref = False
        self._ring()


_open_alarms: WeakSet[Alarm] = WeakSet()


def _find_libc() -> ctypes.CDLL | None:
    if sys.platform != "linux" or ctypes.sizeof(ctypes.c_long) != 8:
        return None
    if time.get_clock_info("perf_counter").implementation != "clock_gettime(CLOCK_MONOTONIC)":
        return None
    libc = ctypes.CDLL(None, use_errno=True)
    return libc if hasattr(libc, "timerfd_create") and hasattr(libc, "timerfd_settime") else None


_libc: Any = _find_libc()


class Timers:
    """Heap of the due times of one event loop, on one alarm."""

    def __init__(self) -> None:
        self.alarm = Alarm(self._ring)
        self.lateness: deque[float] = deque(maxlen=_LATENESSES)
        self._heap: list[list[Any]] = []  # [due, number, Waiter or None where the wait has ended before]
        self._numbers = count()
        self._ended_before = 0
        self._next = math.inf  # time to which the alarm is set; -inf while it rings
        self._guard = gevent.get_hub().loop.timer(_GUARD_S, _GUARD_S, ref=False)
        self._guard.start(self._wake_missed)

    def __len__(self) -> int:
        """Return the size of the heap."""
        return len(self._heap)

    def wait(self, due: float, waiter: Waiter[Any]) -> None:
        """Block the calling greenlet until ``due``, or until something else switches to the waiter."""
        entry = [due, next(self._numbers), waiter]
        heapq.heappush(self._heap, entry)
        if due < self._next:
            self._set_alarm()
        try:
            waiter.get()
        finally:
            if entry[2] is not None:
                entry[2] = None
                self._ended_before += 1
                if 2 * self._ended_before > len(self._heap) and self._next > -math.inf:
                    self._set_alarm()

    def _ring(self) -> None:
        """Wake all that are due now; sockets have their turn before those that become due meanwhile."""
        now = time.perf_counter()
        self._next = -math.inf
        heap, lateness = self._heap, self.lateness
        try:
            while heap and heap[0][0] <= now:
                entry = heapq.heappop(heap)
                due, _, waiter = entry
                if waiter is None:
                    self._ended_before -= 1
                    continue
                entry[2] = None
                lateness.append(now - due)
                waiter.switch(None)
        finally:
            self._set_alarm()

    def _wake_missed(self) -> None:
        if self._next > -math.inf and self._heap and self._heap[0][0] < time.perf_counter() - _GUARD_S:
            self._ring()

    def _set_alarm(self) -> None:
        if 2 * self._ended_before > len(self._heap):
            self._compact()
        self._next = self._heap[0][0] if self._heap else math.inf
        self.alarm.set(self._next if self._next < _NEVER_S else None)

    def _compact(self) -> None:
        self._heap[:] = [entry for entry in self._heap if entry[2] is not None]
        heapq.heapify(self._heap)
        self._ended_before = 0

    def after_fork(self) -> None:
        """Set the child's own alarm; the waits go on as those of gevent do."""
        self.lateness.clear()
        self._set_alarm()


_made: list[Timers] = []
_KEY = "_realism_timers"


def timers() -> Timers:
    """Return the timers of this thread's event loop, made at the first call."""
    hub = gevent.get_hub()
    try:
        found: Timers = hub.__dict__[_KEY]
    except KeyError:
        found = hub.__dict__[_KEY] = Timers()
        _made.append(found)
    return found


def sleep(seconds: float) -> None:
    """Block the calling greenlet, as ``gevent.sleep`` does, to the precision of the alarm; 2 microseconds dearer."""
    if seconds > 0:
        timers().wait(time.perf_counter() + float(seconds), Waiter())
    else:
        gevent.sleep(seconds)


def sleep_until(due: float) -> None:
    """Block the calling greenlet until a ``perf_counter`` time; let others run first if it is past.

    >>> due = time.perf_counter() + 0.01
    >>> sleep_until(due)
    >>> time.perf_counter() >= due
    True
    """
    if due > time.perf_counter():
        timers().wait(due, Waiter())
    else:
        gevent.sleep(0)


def wait(event: Event, until: float = math.inf) -> bool:
    """Block the calling greenlet until an event is set, at most until a ``perf_counter`` time; return True if it is.

    A time that is past lets others run once.
    """
    if until == math.inf:
        return event.wait()
    if event.is_set():
        return True
    if not until > time.perf_counter():  # NaN too: it would hide the due times below it in the heap
        gevent.sleep(0)
        return event.is_set()
    waiter: Waiter[Any] = Waiter()
    switch = waiter.switch
    event.rawlink(switch)
    try:
        timers().wait(until, waiter)
    finally:
        event.unlink(switch)
    return event.is_set()


def take_lateness() -> tuple[float, float]:
    """Return the median and the 90th percentile of the lateness of wakes since the last call, in microseconds.

    Lateness is the time from when a wait is due to when the loop begins to wake what is due. NaN, NaN without a wake.
    """
    late = sorted(seconds for each in _made for seconds in each.lateness)
    for each in _made:
        each.lateness.clear()
    if not late:
        return math.nan, math.nan
    return 1e6 * late[(len(late) - 1) // 2], 1e6 * late[9 * (len(late) - 1) // 10]


def grain() -> float:
    """Return the seconds to which waits of this process were rounded: 0 with a kernel timer, 0.001 by gevent's."""
    return max((each.alarm.grain for each in _made), default=0.0)


def _after_fork() -> None:
    for alarm in list(_open_alarms):
        alarm.reopen()
    for each in _made:
        each.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
