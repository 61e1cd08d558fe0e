"""Heartbeat of the event loop, and a native thread that looks where the loop stands while a heartbeat is late.

A heartbeat is due at one instant of each 50 ms, by a kernel timer. Its lateness is the delay that a user has in waking.
Each beat moves the watchdog's deadline, so that the thread sleeps as long as the loop is on time and costs nothing. A
late loop does not move it: the thread wakes and samples the stack of the main thread.

A late beat has one of these causes, in this order:

1. The main thread waited for a CPU (``schedstat``): other processes, or a limit.
2. Code ran on the loop: the main thread used CPU time, or the watchdog found it in a call that blocks.
3. Another thread of the process held the interpreter's lock: the process used CPU time.
4. The process stood still: stopped by a signal, frozen, or throttled. A suspended machine's clock stands still too, so
   that no beat is late. Where the kernel does not count the wait, a full machine looks the same: no stop is known.

Python hands its lock over only every ``sys.getswitchinterval()``, 5 ms by default. A block of 5 ms would end before the
watchdog had looked, so the interval becomes 1 ms; code that keeps the lock longer is found at its line when it returns.
"""

from __future__ import annotations

import collections
import gc
import logging
import math
import os
import sys
import sysconfig
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType

import gevent
import locust

import locust_realism
from locust_realism.recording.diagnosis import MAX_ENTRIES, MAX_KEPT, PAUSE_S, Named, longest, printable
from locust_realism.runtime.capture.kernel_figures import Counter, run_wait_counter
from locust_realism.runtime.locust_compat import native_ident, native_thread_id, start_native_thread, thread_stack
from locust_realism.runtime.users.alarm import Alarm
from locust_realism.runtime.users.deadline import Deadline

logger = logging.getLogger(__name__)

BEAT_S = 0.05
"""Mean time between two heartbeats: each wakes an idle machine, for 0.2 ms of CPU time."""
LOOK_S = 0.025
"""Time between two looks at a loop that stays late."""
LATE_S = 0.001
"""Lateness, beyond the timer's own, from which a heartbeat counts as late and the watchdog looks."""
STILL_S = 0.02
"""Shortest time without any progress for which a process counts as stopped."""
SWITCH_S = 0.001
"""Longest time for which a thread keeps the interpreter's lock while another waits for it."""
_GOLDEN = (5**0.5 - 1) / 2
"""Shift from beat to beat within its time: whatever has a period meets the beats at all its phases."""
_MAX_BEATS = 1000
"""Beats that one lateness counts as, 50 s."""

Sample = tuple[CodeType, int, FrameType | None]
"""A place in a user's code: function, line, and the frame of the library's function that it calls."""


# Places in code -------------------------------------------------------------------------------------------------------


def _folder(path: str | None) -> str:
    return str(Path(path or "").parent) + os.sep


_HARNESS = (_folder(locust.__file__), _folder(locust_realism.__file__) + "runtime" + os.sep)
"""Locust and this package at work: a user's code that waits in one of their calls does not block."""
_LIBRARIES = (
    *(sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")),
    *(_folder(module.__file__) for module in (gevent, locust_realism)),
    "<",  # code without a file
)
_PACKAGES = ("site-packages", "dist-packages")
_HUB = _folder(gevent.__file__) + "hub.py"

_kinds: dict[str, str] = {}


def kind_of(path: str) -> str:
    """Return ``user``, ``library`` or ``harness`` for the file of a frame.

    >>> import json
    >>> kind_of(json.__file__), kind_of(locust.__file__), kind_of("/home/me/locustfile.py")
    ('library', 'harness', 'user')
    """
    found = _kinds.get(path)
    if found is None:
        library = path.startswith(_LIBRARIES) or any(folder in path for folder in _PACKAGES)
        found = "harness" if path.startswith(_HARNESS) else "library" if library else "user"
        _kinds[path] = found
    return found


def user_place(frame: FrameType | None) -> Sample | None:
    """Return the innermost place of a user's code in a stack; None if there is none, or if Locust works for it."""
    called = None
    while frame is not None:
        kind = kind_of(frame.f_code.co_filename)
        if kind == "user":
            return frame.f_code, frame.f_lineno, called
        if kind == "harness":
            return None
        called, frame = frame, frame.f_back
    return None


def place_name(code: CodeType, line: int, called: str) -> str:
    """Return a place as text.

    >>> place_name(kind_of.__code__, 12, "json.loads")
    'watchdog.py:12 in kind_of calling json.loads'
    """
    name = f"{Path(code.co_filename).name}:{line} in {code.co_name}"
    return printable(f"{name} calling {called}" if called else name)


# The heartbeat --------------------------------------------------------------------------------------------------------


@dataclass
class Beats:
    """Heartbeats since the last :meth:`Heartbeat.take`.

    - ``lags`` lateness of each in seconds; ``blocked`` number of those that were late by code on the loop
    - ``sampled`` number of the blocked ones at which the watchdog looked, and their number by place in ``places``
    - ``still_s`` seconds in which the process stood still, NaN where the wait for a CPU is unknown
    - ``pauses`` perf_counter time and length of single stalls, the longest
    """

    lags: list[float] = field(default_factory=list)
    blocked: float = 0.0
    sampled: float = 0.0
    still_s: float = 0.0
    places: Named = ()
    pauses: list[tuple[float, float]] = field(default_factory=list)


class Heartbeat:
    """Heartbeat of the calling thread's event loop and its watchdog; to be closed.

    A forked child has no watchdog: its copy beats no more.

    >>> heartbeat = Heartbeat()
    >>> gevent.sleep(0.3)
    >>> len(heartbeat.take().lags) > 2  # about six, one in 50 ms
    True
    >>> heartbeat.close()
    """

    def __init__(self) -> None:
        sys.setswitchinterval(min(SWITCH_S, sys.getswitchinterval()))
        self._run_wait = run_wait_counter()
        self._watch_id = 0
        self._watch_wait: Counter | None = None
        self._watch_s = math.nan
        self._thread = native_ident()
        self._beats = self._new_beats()
        self._places: dict[CodeType, collections.Counter[tuple[int, str]]] = {}
        self._samples: list[Sample | None] = []
        self._overslept_s = 0.0  # lateness of the watchdog itself in its first look at a late beat
        self._closed = False
        self._alarm = Alarm(self._beat)
        self._late_s = LATE_S + self._alarm.grain
        self._deadline = Deadline()
        self._first, self._number = time.perf_counter(), 0
        self._next()
        self._seconds = 0.0, 0.0, 0.0
        self._read()
        self._alarm.set(self._due)
        self._deadline.set(self._due + self._late_s)
        start_native_thread(self._watch, ())

    def take(self) -> Beats:
        """Return the beats since the last call."""
        found, self._beats = self._beats, self._new_beats()
        places, self._places = self._places, {}
        named = []
        for code, lines in places.items():
            (line, called), _ = lines.most_common(1)[0]
            named.append((place_name(code, line, called), lines.total()))
        found.places = tuple(sorted(named, key=lambda item: -item[1])[:MAX_ENTRIES])
        return found

    def close(self) -> None:
        """Stop the heartbeat and its thread."""
        self._closed = True
        self._alarm.close()
        self._run_wait.close()
        if self._watch_wait is not None:
            self._watch_wait.close()
        self._deadline.set(0.0)

    def _new_beats(self) -> Beats:
        return Beats(still_s=0.0 if self._run_wait.exists else math.nan)

    # In the event loop ------------------------------------------------------------------------------------------

    def _next(self) -> None:
        self._number += 1
        self._due = self._first + BEAT_S * (self._number + self._number * _GOLDEN % 1)

    def _read(self) -> tuple[float, ...]:
        """Return the CPU time of thread and process, and the wait for a CPU, since the last call; 0 if unknown."""
        now = time.thread_time(), time.process_time(), self._run_wait.seconds()
        before, self._seconds = self._seconds, now
        return tuple(b - a if b >= a else 0.0 for a, b in zip(before, now, strict=True))

    def _beat(self) -> None:
        """Take a beat and all that were due before it ended; runs in the hub."""
        now, due, beats = time.perf_counter(), self._due, self._beats
        missed = len(beats.lags)
        while self._due <= now and len(beats.lags) < missed + _MAX_BEATS:
            beats.lags.append(now - self._due)
            self._next()
        if self._due <= now:  # late by more than _MAX_BEATS
            self._first, self._number = now, 0
            self._next()
        change = self._read()
        if now - due > self._late_s:
            self._explain(now, due, sum(lag > self._late_s for lag in beats.lags[missed:]), *change)
            self._samples = []
        self._alarm.set(self._due)
        self._deadline.set(self._due + self._late_s)

    def _explain(self, now: float, due: float, late: float, thread_s: float, process_s: float, waited_s: float) -> None:
        """Count ``late`` heartbeats by their cause; the other figures are the clocks' changes since the last beat."""
        beats = self._beats
        late_s = now - due
        if late_s > PAUSE_S:
            beats.pauses = longest([*beats.pauses, (due, late_s)])
        # part of the wait was before the beat was due; since then the thread either waited or ran
        rest = late_s - min(waited_s, late_s * waited_s / max(waited_s + thread_s, 1e-9))
        if rest <= self._late_s:
            return
        late *= rest / late_s
        samples = self._samples
        # The watchdog, too, may wait for a CPU while it holds the interpreter's lock.
        idle = rest - self._watch_waited()
        in_call = bool(samples) and self._overslept_s < max(3 * SWITCH_S, idle / 4)
        if thread_s >= rest / 2 or in_call:
            beats.blocked += late
            beats.sampled += late if samples else 0
            for sample in samples:
                if sample is not None:
                    self._count(*sample, late / len(samples))
        elif idle > STILL_S and process_s < idle / 2:
            beats.still_s += idle

    def _watch_waited(self) -> float:
        """Return the seconds that the watchdog has waited for a CPU since the last late beat, 0 if unknown."""
        if self._watch_wait is None and self._watch_id:
            self._watch_wait = run_wait_counter(thread=self._watch_id)
        before, self._watch_s = self._watch_s, math.nan if self._watch_wait is None else self._watch_wait.seconds()
        return self._watch_s - before if self._watch_s >= before else 0.0

    def _count(self, code: CodeType, line: int, called: FrameType | None, beats: float) -> None:
        if code in self._places or len(self._places) < MAX_KEPT:
            name = "" if called is None else f"{called.f_globals.get('__name__', '?')}.{called.f_code.co_qualname}"
            self._places.setdefault(code, collections.Counter())[line, name] += beats  # type: ignore[assignment]

    # In the watchdog's thread -----------------------------------------------------------------------------------

    def _watch(self) -> None:
        self._watch_id = native_thread_id()
        try:
            while not self._closed:
                self._deadline.wait()
                self._look()
        except Exception:
            logger.exception("locust_realism: the watchdog has stopped: blocking code is no longer named")
        finally:
            self._deadline.close()

    def _look(self) -> None:
        """Sample the main thread if it is late, without a garbage collection in this thread.

        That would finalise sockets and greenlets of the event loop: one waited in ZeroMQ for ever, with the lock held.
        """
        collects = gc.isenabled()
        gc.disable()
        try:
            now = time.perf_counter()
            if now - self._due >= self._late_s and not self._closed:
                self._sample(now)
                self._deadline.set(now + LOOK_S)  # unless the loop beats before
        finally:
            if collects:
                gc.enable()

    def _sample(self, now: float) -> None:
        """Keep the place of the main thread, unless it waits for events."""
        frame = thread_stack(self._thread)
        if frame is None or frame.f_code.co_filename == _HUB:
            return
        if not self._samples:
            self._overslept_s = now - self._due - self._late_s
        if len(self._samples) < _MAX_BEATS:
            self._samples.append(user_place(frame))
