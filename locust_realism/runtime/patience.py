"""Ctrl-C: the first one ends the run and cuts nothing in two, the next ones give up what is waited for.

Python raises KeyboardInterrupt in whatever greenlet runs at the moment, so that a Ctrl-C may end a worker's report half
sent, with a traceback: :func:`spare_greenlets` lets it end the main greenlet only, which waits for it. Locust ends with
a traceback, too, when somebody presses Ctrl-C a second time. From :func:`answer_ctrl_c` on this does not happen: what
may take long is a :func:`patient` block, and what is not is over in a moment.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gevent

logger = logging.getLogger(__name__)

ENDING = "Locust is ending."
_MOST_ANSWERS = 3
"""As often as this nobody presses for fun: something hangs that is not ours."""


class _GivenUp(BaseException):
    """Thrown into the block; not an Exception, which Locust's events would swallow."""


class _Wait:
    def __init__(self, message: str) -> None:
        self.message = message
        self.greenlet: Any = gevent.getcurrent()
        self.answered = self.over = False

    def give_up(self) -> None:
        if not self.over:
            self.greenlet.throw(_GivenUp)


_waits: list[_Wait] = []
_answered: list[str] = []


def spare_greenlets() -> None:
    """Raise the KeyboardInterrupt of the next Ctrl-C in the main greenlet and in no other one; answer those after it.

    For the main thread, and where nobody else answers Ctrl-C; elsewhere it does nothing.
    """
    in_main_thread = threading.current_thread() is threading.main_thread()
    if in_main_thread and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)


def _interrupt(number: int, frame: Any) -> None:
    _listen()
    hub = gevent.get_hub()
    main: Any = hub.parent
    if gevent.getcurrent() is main:
        raise KeyboardInterrupt
    hub.loop.run_callback(main.throw, KeyboardInterrupt)


def answer_ctrl_c() -> None:
    """Answer every Ctrl-C from now on, until this process has ended. For the main thread; elsewhere it does nothing."""
    _listen()


@contextmanager
def patient(message: str, given_up: str) -> Iterator[None]:
    """Log ``message`` at the first Ctrl-C in the block; at the second leave the block, log ``given_up`` and go on.

    Nothing is raised out of the block.
    """
    before, wait = _listen(), _Wait(message)
    _waits.append(wait)
    try:
        yield
    except _GivenUp:
        logger.warning(given_up)
    finally:
        wait.over = True
        _waits.remove(wait)
        if before is not None:
            signal.signal(signal.SIGINT, before)


def _listen() -> Any:
    """The handler of before; None in another than the main thread, which alone hears of signals."""
    try:
        return signal.signal(signal.SIGINT, _answer)
    except ValueError:
        return None


def _answer(number: int, frame: Any) -> None:
    if not _waits:
        _answered.append(ENDING)
        if len(_answered) >= _MOST_ANSWERS:
            raise KeyboardInterrupt
        logger.warning(ENDING)
    elif not _waits[-1].answered:
        _waits[-1].answered = True
        logger.warning(_waits[-1].message)
    else:
        # in the hub: what is raised here would hit whatever greenlet runs, and be printed
        gevent.get_hub().loop.run_callback(_waits[-1].give_up)
