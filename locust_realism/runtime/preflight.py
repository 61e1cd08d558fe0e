"""Ask the target once, before a test starts, whether a test makes sense, instead of failing thousands of times.

A check is a function of the environment and the host that returns None, or one plain sentence that says what is wrong.
A headless run then ends with exit code 1; in the web UI the start form shows the sentence and no user starts.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import gevent
import locust
from locust.env import Environment
from locust.runners import STATE_INIT, STATE_STOPPED, WorkerRunner

logger = logging.getLogger(__name__)
events: Any = locust.events

_PATIENCE_S = 10.0

Check = Callable[[Environment, str, Mapping[str, str]], str | None]
"""Takes the environment, the host and the fields of the start form (none in a headless run)."""


def preflight(check: Check) -> None:
    """Have ``check`` asked at each start of a test, where the test is started from; call it once in a locustfile.

    Workers do not ask. The check may take as long as it needs; it may also set what it found out on
    ``environment.parsed_options``, which goes to the workers.
    """
    guard = _Guard(check)
    events.test_start.add_listener(guard.test_start)
    events.init.add_listener(guard.watch_start_form)


def refuse(environment: Environment, message: str) -> None:
    """Say that the test cannot be, and end what runs: a headless Locust and a worker quit with exit code 1.

    With a web UI the message goes to its Exceptions tab, and the UI stays, ready for another start.
    """
    logger.error(message)
    runner, options = environment.runner, environment.parsed_options
    if runner is None:
        return
    if isinstance(runner, WorkerRunner) or (options is not None and options.headless):
        environment.process_exit_code = 1
        gevent.spawn(runner.quit)  # not here: this may be the greenlet that quitting kills, and waits for
    else:
        runner.log_exception("local", message, message)


def reachable(environment: Environment, host: str, form: Mapping[str, str]) -> str | None:
    """A check for any web site: is the host a URL, and does somebody listen there?

    preflight(reachable)
    """
    where = urlsplit(host)
    try:
        port = where.port or (443 if where.scheme == "https" else 80)
    except ValueError:
        port = 0
    if where.scheme not in ("http", "https") or not where.hostname or not port:
        return f"The host must be a URL like https://shop.example, not {host!r}: give it by --host."
    try:
        socket.create_connection((where.hostname, port), timeout=_PATIENCE_S).close()
    except OSError as error:
        return f"{host} cannot be reached: {error}."
    return None


class _Guard:
    """Asks the check before a test starts."""

    def __init__(self, check: Check) -> None:
        self.check = check
        self.asked = False

    def test_start(self, environment: Environment, **_: Any) -> None:
        asked, self.asked = self.asked, False
        if asked or isinstance(environment.runner, WorkerRunner):
            return
        message = self.check(environment, environment.host or "", {})
        if message:
            refuse(environment, message)
            # ends the greenlet that starts the users, and nobody logs it; the event would swallow another exception
            raise gevent.GreenletExit

    def watch_start_form(self, environment: Environment, web_ui: Any, **_: Any) -> None:
        """Answer the start form where the check fails, so that the form shows the message."""
        if web_ui is None:
            return
        from flask import jsonify, request

        swarm = web_ui.app.view_functions["locust.swarm"]

        def checked_swarm() -> Any:
            runner = environment.runner
            if runner is not None and runner.state in (STATE_INIT, STATE_STOPPED):
                message = self.check(environment, request.form.get("host", environment.host or ""), request.form)
                if message:
                    logger.error(message)
                    return jsonify({"success": False, "message": message, "host": environment.host})
                self.asked = True
            return swarm()

        web_ui.app.view_functions["locust.swarm"] = web_ui.auth_required_if_enabled(checked_swarm)
