"""Preflight checks: one request to the target before users start, to refuse a test that cannot work.

A check takes the environment, the host and the start form. It returns None, or a sentence that names the fault. A
headless run then ends with exit code 1; in the web UI the start form shows the sentence and no user starts.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import gevent
from locust import events
from locust.env import Environment
from locust.runners import STATE_INIT, STATE_STOPPED, WorkerRunner

from locust_realism.runtime.locust_compat import check_start

if TYPE_CHECKING:
    from locust.web import WebUI

logger = logging.getLogger(__name__)

_CONNECT_S = 10.0

Check = Callable[[Environment, str, Mapping[str, str]], str | None]
"""Takes the environment, the host and the fields of the start form (none in a headless run)."""


def preflight(check: Check) -> None:
    """Run ``check`` before each test, in the process that starts it; call it once in a locustfile.

    Workers run no checks. The check may take its time, and may store findings in ``environment.parsed_options``, which
    Locust sends to the workers.
    """
    gate = _Gate(check)
    events.test_start.add_listener(gate.test_start)
    events.init.add_listener(gate.watch_start_form)


def refuse(environment: Environment, message: str) -> None:
    """Log ``message`` and end the test: a headless Locust and a worker quit with exit code 1.

    A web UI shows the message in its Exceptions tab and stays, ready for another start.
    """
    logger.error(message)
    runner, options = environment.runner, environment.parsed_options
    if runner is None:
        return
    if isinstance(runner, WorkerRunner) or (options is not None and options.headless):
        environment.process_exit_code = 1
        gevent.spawn(runner.quit)  # not here: quitting may kill this greenlet, and waits for it
    else:
        runner.log_exception("local", message, message)


def reachable(environment: Environment, host: str, form: Mapping[str, str]) -> str | None:
    """Check that the host is a URL and accepts connections; for any web site: ``preflight(reachable)``."""
    where = urlsplit(host)
    try:
        port = where.port or (443 if where.scheme == "https" else 80)
    except ValueError:
        port = 0
    if where.scheme not in ("http", "https") or not where.hostname or not port:
        return f"The host must be a URL like https://shop.example, not {host!r}: give it by --host."
    try:
        socket.create_connection((where.hostname, port), timeout=_CONNECT_S).close()
    except OSError as error:
        return f"{host} cannot be reached: {error}."
    return None


class _Gate:
    """Listener that runs one check before each test, once for a start from the form."""

    def __init__(self, check: Check) -> None:
        self.check = check
        self.passed = False

    def test_start(self, environment: Environment, **_: object) -> None:
        passed, self.passed = self.passed, False
        if passed or isinstance(environment.runner, WorkerRunner):
            return
        message = self.check(environment, environment.host or "", {})
        if message:
            refuse(environment, message)
            # ends the greenlet that starts the users without a traceback; the event would swallow another exception
            raise gevent.GreenletExit

    def watch_start_form(self, environment: Environment, web_ui: WebUI | None, **_: object) -> None:
        """Check each start from the form, which shows the message of a failed check."""
        if web_ui is None:
            return

        def check_form(form: Mapping[str, str]) -> None:
            runner = environment.runner
            if runner is not None and runner.state in (STATE_INIT, STATE_STOPPED):
                message = self.check(environment, form.get("host", environment.host or ""), form)
                if message:
                    logger.error(message)
                    raise ValueError(message)
                self.passed = True

        check_start(web_ui, check_form)
