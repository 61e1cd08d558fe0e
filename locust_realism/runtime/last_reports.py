"""The master waits for the last report of every worker, however the test ends.

Locust's master tells its workers to quit, waits half a second and stops listening: what arrives later is lost, from its
own statistics too. The socket is still open then, so the rest can be received here.
"""

from __future__ import annotations

import logging
from time import monotonic
from typing import Any

import gevent
from locust.exception import RPCError
from locust.runners import STATE_MISSING, MasterRunner

logger = logging.getLogger(__name__)

SILENT_S = 5.0
"""Seconds without any message after which a worker's last report is no longer waited for."""


def await_last_reports(runner: MasterRunner, silent_s: float = SILENT_S) -> list[str]:
    """Receive until every live worker has said that it quits; its last report precedes that on the same line.

    To be called when ``runner.quit()`` has sent its messages and nobody listens any more. Returns the workers that fell
    silent for ``silent_s`` seconds without quitting; they have been named in a warning.
    """
    server: Any = runner.server
    silent: list[str] = []
    heard = {client.id: monotonic() for client in runner.clients.all}
    while True:
        waiting = [c.id for c in runner.clients.all if c.state != STATE_MISSING and c.id not in silent]
        if not waiting:
            return silent
        left = min(heard.setdefault(client_id, monotonic()) for client_id in waiting) + silent_s - monotonic()
        if left > 0:
            message = _receive(server, left)
            if message is not None:
                heard[message[0]] = monotonic()
                runner.handle_message(*message)
            continue
        silent += [client_id for client_id in waiting if heard[client_id] + silent_s <= monotonic()]
        logger.warning(
            "no last report from worker(s) %s within %g s: their last rows are missing", ", ".join(silent), silent_s
        )


def _receive(server: Any, seconds: float) -> Any:
    """The next message and who sent it, or None after so many seconds."""
    try:
        with gevent.Timeout.start_new(seconds, exception=_Silence):
            return server.recv_from_client()
    except _Silence:
        return None
    except RPCError:
        gevent.sleep(0.01)  # not a message of a worker (a port scanner), or a broken line
        return None


class _Silence(Exception):
    """No message came in time."""
