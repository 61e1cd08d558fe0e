"""Deadline of a native thread, which other threads may move without waking it."""

from __future__ import annotations

import ctypes
import os
import time

from locust_realism.runtime.locust_compat import native_sleep
from locust_realism.runtime.users.alarm import _libc, _Setting

_CLOCK_MONOTONIC = _ABSOLUTE = 1
_AT_ONCE_NS = 1


class Deadline:
    """Time until which a native thread waits, and which other threads may move meanwhile; to be closed by the waiter.

    To move it costs about 2 microseconds and does not wake the waiter. Without timer file descriptors (not Linux) the
    waiter wakes at each time that was set.

    >>> deadline, due = Deadline(), time.perf_counter() + 0.01
    >>> deadline.set(due)
    >>> deadline.wait()
    >>> time.perf_counter() >= due
    True
    >>> deadline.close()
    """

    def __init__(self) -> None:
        self._when = 0.0
        self._setting = _Setting()
        self._file = -1 if _libc is None else _libc.timerfd_create(_CLOCK_MONOTONIC, os.O_CLOEXEC)

    def set(self, when: float) -> None:
        """Let the waiter wake at this ``time.perf_counter()`` time, at once if it is past."""
        self._when = when
        if self._file >= 0:
            nanoseconds = max(_AT_ONCE_NS, int(when * 1e9))
            self._setting.value_s, self._setting.value_ns = divmod(nanoseconds, 1_000_000_000)
            _libc.timerfd_settime(self._file, _ABSOLUTE, ctypes.byref(self._setting), None)

    def wait(self) -> None:
        """Block the calling thread until the time that was set last."""
        if self._file >= 0:
            os.read(self._file, 8)
            return
        while (left := self._when - time.perf_counter()) > 0:
            native_sleep(left)

    def close(self) -> None:
        """Close the descriptor."""
        if self._file >= 0:
            os.close(self._file)
        self._file = -1
