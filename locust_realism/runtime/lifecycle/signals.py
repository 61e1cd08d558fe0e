"""Ctrl-C: the first one ends the run without aborting a report, later ones skip a long wait.

Python raises KeyboardInterrupt in whichever greenlet runs, so that a Ctrl-C may end a worker's report half sent, with a
traceback. :func:`interrupt_main_only` has it end the main greenlet only, which waits for the others. A second Ctrl-C
ends Locust with a traceback too. From :func:`answer_interrupts` on, each Ctrl-C is answered by a message; a block that
may take long is :func:`interruptible`, and the rest of the shutdown is short.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from types import FrameType

import gevent

logger = logging.getLogger(__name__)

ENDING = "Locust is ending."
_MOST_ANSWERS = 3
"""Interrupts outside of any block after which the process ends at once: something hangs that is not ours."""


class _Skipped(BaseException):
    """Thrown into the block; not an Exception, which Locust's events would swallow."""


class _Wait:
    """One interruptible block under way; ``skipped`` if a second Ctrl-C has ended it."""

    def __init__(self, message: str) -> None:
        self.message = message
        self.greenlet = gevent.getcurrent()
        self.answered = self.skipped = self.over = False

    def skip(self) -> None:
        if not self.over:
            self.greenlet.throw(_Skipped)


_waits: list[_Wait] = []
_answers = count(1)


def interrupt_main_only() -> None:
    """Raise the KeyboardInterrupt of the next Ctrl-C in the main greenlet only, and answer later ones.

    Has no effect outside the main thread, or where another handler of Ctrl-C is installed.
    """
    in_main_thread = threading.current_thread() is threading.main_thread()
    if in_main_thread and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:
    answer_interrupts()
    hub = gevent.get_hub()
    if gevent.getcurrent() is hub.parent:
        raise KeyboardInterrupt
    assert hub.parent is not None
    hub.loop.run_callback(hub.parent.throw, KeyboardInterrupt)


def answer_interrupts() -> Callable[[int, FrameType | None], object] | int | None:
    """Answer every Ctrl-C until the process ends; return the former handler, None outside the main thread."""
    try:
        return signal.signal(signal.SIGINT, _answer)
    except ValueError:  # Python handles signals in the main thread only
        return None


@contextmanager
def interruptible(message: str, skipped: str) -> Iterator[_Wait]:
    """Log ``message`` at the first Ctrl-C in the block; at the second leave the block, log ``skipped`` and go on.

    Nothing is raised out of the block.
    """
    before, wait = answer_interrupts(), _Wait(message)
    _waits.append(wait)
    try:
        yield wait
    except _Skipped:
        wait.skipped = True
        logger.warning(skipped)
    finally:
        wait.over = True
        _waits.remove(wait)
        if before is not None:
            signal.signal(signal.SIGINT, before)


def _answer(number: int, frame: FrameType | None) -> None:
    if not _waits:
        if next(_answers) >= _MOST_ANSWERS:
            raise KeyboardInterrupt
        logger.warning(ENDING)
    elif not _waits[-1].answered:
        _waits[-1].answered = True
        logger.warning(_waits[-1].message)
    else:
        # raised here, it would end whichever greenlet runs, with a traceback
        gevent.get_hub().loop.run_callback(_waits[-1].skip)
