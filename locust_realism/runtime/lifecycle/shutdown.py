"""Graceful shutdown: the master waits until every worker's users have stopped and their last rows have arrived.

Locust's master sends quit to its workers, waits half a second and closes the connection; on a Ctrl-C or SIGTERM some
listeners of the end run while users still work. Requests in ``on_stop`` (log out, delete test data) are then missing in
the figures, and aborted if they take longer. With this module ``test_stop`` on a master or in a local run means: all
users of all workers have stopped, and their rows have arrived.

1. At ``test_stopping`` the master sends its workers a request to stop their users; each answers after a last report.
   The master does not wait for missing workers, nor longer than a minute beyond ``--stop-timeout``.
2. At ``quitting`` each process stops its own users first, before any other listener runs.
3. From then on a worker takes no more users, although the master's ramp may still send some.
4. ``--run-time`` counts from the start of the run.
5. A Ctrl-C while users are being stopped is answered by a message, and the next one skips the wait (``signals``).
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable

import gevent
import greenlet
from locust.env import Environment
from locust.event import Events
from locust.runners import STATE_CLEANUP, STATE_INIT, STATE_MISSING, MasterRunner, Runner, WorkerRunner

from locust_realism.runtime.coordination.handshake import handshake
from locust_realism.runtime.lifecycle.signals import answer_interrupts, interruptible
from locust_realism.runtime.locust_compat import accept_users, add_once, send_report
from locust_realism.runtime.wire import BEGIN, END, ENDED, wire_of

logger = logging.getLogger(__name__)

GRACE_S = 60.0
"""Seconds that the master waits for its workers beyond --stop-timeout, as Locust's own Stop does."""
_POLL_S = 0.05
_LONG_WAIT_S = 3.0

STILL_STOPPING = "Still stopping users, whose on_stop may remove test data. Ctrl-C again leaves the data on the server."
SKIPPED = "The users were not waited for: test data may be left on the server, and their last requests are missing."


def shut_down_gracefully(events: Events) -> None:
    """Shut runs of these events down so from now on; may be called more than once.

    Call it after the last listener of ``quitting`` is added at ``init``: they fire in reverse, and users stop first.
    """
    add_once(events.init, _attach)


def _attach(environment: Environment, **_: object) -> None:
    runner, events = environment.runner, environment.events
    if runner is None:  # run_single_user
        return
    # --run-time's timer starts next and counts from the loop's last turn: short by the seconds of the imports
    gevent.get_hub().loop.update_now()
    # Listeners that are added here run after those of the locustfile at test_stop, and before Locust's own at quitting,
    # which fires in reverse.
    shutdown = _Shutdown(environment, runner)
    events.test_stopping.add_listener(shutdown.test_stopping)
    events.test_stop.add_listener(shutdown.test_stop)
    events.quitting.add_listener(shutdown.quitting)
    if isinstance(runner, MasterRunner):
        events.test_start.add_listener(shutdown.test_start)
        handshake(environment)
        shutdown.wire.on_message(ENDED, lambda sender, data: shutdown.ended.add(sender))
    elif isinstance(runner, WorkerRunner):
        handshake(environment)
        shutdown.wire.on_message(BEGIN, lambda sender, data: accept_users(runner, True))
        shutdown.wire.on_message(END, lambda sender, data: shutdown.end_users(runner))


class _Shutdown:
    """State of one process's shutdown."""

    def __init__(self, environment: Environment, runner: Runner) -> None:
        self.environment = environment
        self.runner = runner
        self.wire = wire_of(environment)
        self.stopping = False
        self.ended: set[str] = set()
        """Workers whose users have stopped; their last figures came before."""
        self.quitter: greenlet.greenlet | None = None

    def test_start(self, **_: object) -> None:
        """Open the workers for the users of a new test (on the master)."""
        self.ended.clear()
        self.wire.send(BEGIN, None)

    def test_stopping(self, **_: object) -> None:
        self.stopping = True
        if isinstance(self.runner, MasterRunner):
            self._wait_for_workers(self.runner)

    def test_stop(self, **_: object) -> None:
        self.stopping = False

    def quitting(self, **_: object) -> None:
        """Stop the users of this process, or of all workers, before Locust quits."""
        if not self._is_first_to_quit():
            return
        answer_interrupts()
        runner = self.runner
        with interruptible(STILL_STOPPING, SKIPPED) as wait:
            if isinstance(runner, MasterRunner) and not self._is_stopping():
                runner.stop(send_stop_to_client=False)
            else:
                self._stop_users()
        if wait.skipped:
            runner.user_greenlets.kill(block=False)  # else Locust waits for them when it quits
        if isinstance(runner, WorkerRunner):
            self._report(runner)

    def end_users(self, runner: WorkerRunner) -> None:
        """Stop the users, report, and take no more until the next test (on a worker)."""
        accept_users(runner, False)
        self._stop_users()
        self._report(runner)

    def _stop_users(self) -> None:
        if self._is_stopping():  # stopping twice would abort on_stop
            self._wait(lambda: not self._is_stopping())
        elif self.runner.state != STATE_INIT:
            self.runner.stop()

    def _is_stopping(self) -> bool:
        return self.stopping or self.runner.state == STATE_CLEANUP

    def _report(self, runner: WorkerRunner) -> None:
        send_report(runner)
        self.wire.send(ENDED, None)

    def _is_first_to_quit(self) -> bool:
        """Return True unless another greenlet is ending this process; wait for that one first.

        After a SIGTERM Locust shuts down in the handler's greenlet and, when the runner has quit, in the main one too:
        the later one would print and write everything a second time.
        """
        me, other = gevent.getcurrent(), self.quitter
        if other is None or other is me or other.dead:
            self.quitter = me
            return True
        self._wait(lambda: other.dead)  # it ends the process
        return False

    def _wait(self, over: Callable[[], bool], most_s: float = math.inf) -> bool:
        """Wait until a condition is true, ``most_s`` or GRACE_S beyond --stop-timeout at most; return it."""
        end = time.monotonic() + min(most_s, self.environment.stop_timeout + GRACE_S)
        while not over():
            if time.monotonic() > end:
                return False
            gevent.sleep(_POLL_S)
        return True

    def _wait_for_workers(self, runner: MasterRunner) -> None:
        self.wire.send(END, None)
        hellos = handshake(self.environment)

        def busy() -> list[str]:
            there = [worker.id for worker in runner.clients.all if worker.state != STATE_MISSING]
            return [name for name in there if name not in self.ended and hellos.reports(name)]

        if self._wait(lambda: not busy(), _LONG_WAIT_S):
            return
        logger.info("Waiting for the users of %d workers to stop", len(busy()))
        if not self._wait(lambda: not busy(), self.environment.stop_timeout + GRACE_S - _LONG_WAIT_S):
            logger.error("%d workers did not report that their users have stopped: %s", len(busy()), ", ".join(busy()))
