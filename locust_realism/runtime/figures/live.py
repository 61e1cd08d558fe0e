"""Figures of the running test, computed off the event loop.

Sorting millions of rows takes longer than a request may be delayed. It therefore runs in gevent's native thread pool
(numpy releases the GIL while it sorts), one at a time; callers in the meantime get the last answer with its age.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import gevent
from gevent.lock import BoundedSemaphore

logger = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True)
class Answer(Generic[T]):
    """Figures with the time at which they were finished (``time.monotonic()``) and the seconds that they took."""

    document: T
    finished: float
    cost: float

    @property
    def age_s(self) -> float:
        """Seconds since the figures were finished, to the millisecond."""
        return round(time.monotonic() - self.finished, 3)


class LiveFigures(Generic[T]):
    """Cache of figures by key, each computed at most every ``refresh_s`` seconds without blocking the loop.

    ``compute(key)`` is called in a native thread. An answer that took long is refreshed more rarely, so that figures
    take at most ``share`` of a core. The ``keep`` newest answers are kept.
    """

    def __init__(
        self, compute: Callable[[str], T], *, refresh_s: float = 2.0, share: float = 0.25, keep: int = 16
    ) -> None:
        self._compute = compute
        self._refresh_s, self._share, self._keep = refresh_s, share, keep
        self._answers: dict[str, Answer[T]] = {}
        self._running: dict[str, gevent.Greenlet[[str], None]] = {}
        self._one_at_a_time = BoundedSemaphore(1)
        self._generation = 0
        self.errors = 0

    def clear(self) -> None:
        """Drop every answer, those that are being computed too: the record has been cleared."""
        self._generation += 1
        self._answers.clear()

    def get(self, key: str, *, wait_s: float = 10.0) -> Answer[T] | None:
        """Return the newest answer and refresh it in the background; wait ``wait_s`` at most for the very first one."""
        answer = self._answers.get(key)
        if answer is None:
            self._start(key).join(timeout=wait_s)
        elif time.monotonic() - answer.finished >= max(self._refresh_s, answer.cost / self._share):
            self._start(key)
        return answer or self._answers.get(key)

    def fresh(self, key: str) -> Answer[T] | None:
        """Wait for the answer of the record as it is now; None, or an older one, where that fails."""
        while (running := self._running.get(key)) is not None:
            running.join()
        self._start(key).join()
        return self._answers.get(key)

    def _start(self, key: str) -> gevent.Greenlet[[str], None]:
        if key not in self._running:
            self._running[key] = gevent.spawn(self._run, key)
        return self._running[key]

    def _run(self, key: str) -> None:
        generation = self._generation
        try:
            with self._one_at_a_time:
                started = time.monotonic()
                document = gevent.get_hub().threadpool.apply(self._compute, (key,))
                finished = time.monotonic()
            if generation == self._generation:
                self._answers.pop(key, None)
                self._answers[key] = Answer(document, finished, finished - started)
                while len(self._answers) > self._keep:
                    del self._answers[next(iter(self._answers))]
        except Exception:
            self.errors += 1
            logger.exception("The figures of %r could not be computed; the load goes on", key or "the whole run")
        finally:
            self._running.pop(key, None)
