"""Figures of the running test, computed off the event loop.

Sorting millions of rows takes longer than a request may be delayed. The computation therefore runs in gevent's native
thread pool (numpy releases the GIL while it sorts), one at a time for each question, and whoever asks in the meantime
gets the last answer together with its age.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gevent
from gevent.lock import BoundedSemaphore

logger = logging.getLogger(__name__)

Document = dict[str, Any]


@dataclass
class _Answer:
    document: Document
    finished: float
    cost: float


class LiveFigures:
    """Answers questions about the record, each at most every ``refresh_s`` seconds, without stalling the loop.

    ``compute(key)`` is called in a native thread with whatever identifies the question (the window), and returns a
    JSON document. An answer that took long is refreshed more rarely, so that figures never take more than a quarter of
    a core: exactness has no price on the load.
    """

    def __init__(
        self, compute: Callable[[str], Document], *, refresh_s: float = 2.0, share: float = 0.25, keep: int = 16
    ) -> None:
        self._compute = compute
        self._refresh_s = refresh_s
        self._share = share
        self._keep = keep
        self._answers: OrderedDict[str, _Answer] = OrderedDict()
        self._running: dict[str, gevent.Greenlet[..., Any]] = {}
        self._one_at_a_time = BoundedSemaphore(1)
        self._generation = 0
        self.errors = 0

    def clear(self) -> None:
        """Forget every answer: the record has been cleared."""
        self._generation += 1
        self._answers.clear()

    def get(self, key: str, *, patience_s: float = 10.0) -> Document:
        """The newest answer with its age as ``age_s``; only the very first one is waited for, ``patience_s`` at most.

        Returns an empty document where there is no answer yet.
        """
        answer = self._answers.get(key)
        if answer is None or self._is_stale(answer):
            running = self._start(key)
            if answer is None:
                running.join(timeout=patience_s)
                answer = self._answers.get(key)
        if answer is None:
            return {}
        return {**answer.document, "age_s": round(time.monotonic() - answer.finished, 3)}

    def fresh(self, key: str) -> Document:
        """The answer for the record as it stands now; waits for it."""
        while True:
            running = self._running.get(key)
            if running is None:
                break
            running.join()
        self._start(key).join()
        answer = self._answers.get(key)
        return dict(answer.document) if answer else {}

    def _is_stale(self, answer: _Answer) -> bool:
        interval = max(self._refresh_s, answer.cost / self._share)
        return time.monotonic() - answer.finished >= interval

    def _start(self, key: str) -> gevent.Greenlet[..., Any]:
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
                self._answers[key] = _Answer(document, finished, finished - started)
                self._answers.move_to_end(key)
                while len(self._answers) > self._keep:
                    self._answers.popitem(last=False)
        except Exception:
            self.errors += 1
            logger.exception("the figures of %r could not be computed; the load goes on", key or "the whole run")
        finally:
            self._running.pop(key, None)
