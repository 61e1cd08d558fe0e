"""The end of a run: the master waits until every worker's users have stopped and their last rows have arrived.

Locust's master tells its workers to quit, waits half a second and closes the connection, and on a Ctrl-C or SIGTERM
some listeners of the end run while users are still at work. What users do in ``on_stop`` (log out, delete what they
made) is then missing from the figures, and cut short if it takes longer. With this module ``test_stop`` on a master or
in a local run means: all users of all workers have stopped, and their rows are here.

1. At ``test_stopping`` the master asks its workers to stop their users; each answers when they have stopped, after a
   last report of its figures. Workers that went missing are not waited for; patience ends a minute after
   ``--stop-timeout``.
2. At ``quitting`` each process stops its own users first, before anything else is told that Locust quits.
3. From then on a worker takes no more users, although the master's ramp may still be sending some.
4. ``--run-time`` counts from the start of the run.
5. A Ctrl-C while users are being stopped is answered with a message, the next one is obeyed (`runtime.patience`).
"""

from __future__ import annotations

import logging
import time
from typing import Any
from weakref import WeakSet

import gevent
import locust
from locust.env import Environment
from locust.runners import STATE_CLEANUP, STATE_INIT, STATE_MISSING, MasterRunner, WorkerRunner

from locust_realism.runtime.patience import answer_ctrl_c, patient

logger = logging.getLogger(__name__)

BEGIN, END, ENDED = "realism_begin", "realism_end", "realism_ended"
PATIENCE = 60.0
"""Seconds that the master waits for its workers beyond --stop-timeout, as Locust's own Stop does."""

STILL_STOPPING = "Still stopping users, who remove what they made. Ctrl-C again leaves it on the server."
LEFT = "The users were not waited for: what they made may be left on the server, and their last requests are missing."

_registered: WeakSet[Any] = WeakSet()


def end_gently(events: Any = None) -> None:
    """Have runs end so from now on; may be called more than once. ``events`` are Locust's own unless others are given.

    Call it after what adds listeners to ``quitting`` at ``init``: they fire in reverse, and users stop first.
    """
    events = locust.events if events is None else events
    if events not in _registered:
        _registered.add(events)
        events.init.add_listener(_attach)


def _attach(environment: Environment, **_: Any) -> None:
    # timers count from when the loop last looked at the clock, which was before the imports: without this, --run-time
    # (whose timer starts next) is short by the seconds that they took
    gevent.get_hub().loop.update_now()
    # listeners that are added here run after those of the locustfile at test_stop, and before Locust's own at quitting,
    # which fires in reverse
    ending = _Ending(environment)
    hooks: Any = environment.events
    hooks.test_stopping.add_listener(ending.test_stopping)
    hooks.test_stop.add_listener(ending.test_stop)
    hooks.quitting.add_listener(ending.quitting)
    runner = environment.runner
    if isinstance(runner, MasterRunner):
        hooks.test_start.add_listener(ending.begin)
        runner.register_message(ENDED, ending.worker_ended)
    elif isinstance(runner, WorkerRunner):
        runner.register_message(BEGIN, ending.take_users)
        runner.register_message(END, ending.end_users)


class _Ending:
    """What one process knows about the end of its run."""

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self.stopping = False
        self.ended: set[str] = set()
        self.quitter: Any = None

    @property
    def runner(self) -> Any:
        return self.environment.runner

    def begin(self, **_: Any) -> None:
        """On the master: a test starts."""
        self.ended.clear()
        self.runner.send_message(BEGIN)

    def test_stopping(self, **_: Any) -> None:
        self.stopping = True
        if isinstance(self.runner, MasterRunner):
            self._wait_for_workers()

    def test_stop(self, **_: Any) -> None:
        self.stopping = False

    def quitting(self, **_: Any) -> None:
        """Stop the users of this process, or of all workers, before Locust quits."""
        if not self._is_first_to_quit():
            return
        answer_ctrl_c()
        stopped = False
        with patient(STILL_STOPPING, LEFT):
            if self.stopping or self.runner.state == STATE_CLEANUP:
                self._wait_for_stop()  # someone has begun: stopping twice would cut on_stop short
            elif isinstance(self.runner, MasterRunner):
                self.runner.stop(send_stop_to_client=False)
            elif self.runner.state != STATE_INIT:
                self.runner.stop()
            stopped = True
        if not stopped:
            self.runner.user_greenlets.kill(block=False)  # else Locust waits for them when it quits
        if isinstance(self.runner, WorkerRunner):
            self._report()

    def _is_first_to_quit(self) -> bool:
        """Whether nobody else is about to end this process; waits for whom is.

        After a SIGTERM Locust shuts down in the handler's greenlet and, when the runner has quit, in the main one, too:
        the later one would print and write everything a second time.
        """
        me, other = gevent.getcurrent(), self.quitter
        if other is None or other is me or getattr(other, "dead", True):
            self.quitter = me
            return True
        deadline = time.monotonic() + self.environment.stop_timeout + PATIENCE
        while not other.dead and time.monotonic() < deadline:
            gevent.sleep(0.05)  # it ends the process
        return False

    def _wait_for_stop(self) -> None:
        deadline = time.monotonic() + self.environment.stop_timeout + PATIENCE
        while (self.stopping or self.runner.state == STATE_CLEANUP) and time.monotonic() < deadline:
            gevent.sleep(0.05)

    def _wait_for_workers(self) -> None:
        runner, began = self.runner, time.monotonic()
        runner.send_message(END)
        told = False
        while True:
            busy = [
                worker.id
                for worker in runner.clients.all
                if worker.state != STATE_MISSING and worker.id not in self.ended
            ]
            waited = time.monotonic() - began
            if not busy or waited > self.environment.stop_timeout + PATIENCE:
                break
            if waited > 3 and not told:
                logger.info("Waiting for the users of %d workers to end", len(busy))
                told = True
            gevent.sleep(0.05)
        if busy:
            logger.error("No word from %d workers that their users have ended: %s", len(busy), ", ".join(busy))

    def worker_ended(self, msg: Any, **_: Any) -> None:
        """On the master: a worker says that its users have stopped; its last figures came before."""
        self.ended.add(msg.node_id)

    def take_users(self, **_: Any) -> None:
        """On a worker: a test starts."""
        self.runner.last_received_spawn_timestamp = 0

    def end_users(self, **_: Any) -> None:
        """On a worker: stop the users, say so, and take no more until the next test."""
        # Locust discards messages to spawn users that are older than the last one
        self.runner.last_received_spawn_timestamp = float("inf")
        if self.stopping or self.runner.state == STATE_CLEANUP:
            self._wait_for_stop()
        elif self.runner.state != STATE_INIT:
            self.runner.stop()
        self._report()

    def _report(self) -> None:
        self.runner._send_stats()  # as Locust does when a worker is told to quit
        self.runner.send_message(ENDED)
