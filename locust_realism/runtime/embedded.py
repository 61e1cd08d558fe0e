"""An embedded target: a server that starts with Locust, in a process of its own, when no ``--host`` was given.

It is started once, by the process that is not a worker, so that all processes and workers of the machine load the same
server, and it ends with that process, also after ``kill -9`` (see :mod:`locust_realism.targets.process`, which
the server's script uses). It listens on a free port of the loopback address.
"""

from __future__ import annotations

import argparse
import json
import logging
import shlex
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import gevent
import locust
from locust.env import Environment
from locust.runners import MasterRunner, WorkerRunner

from ..targets import process as target_process
from ..targets.service import Service
from .options import Option, add_options
from .preflight import refuse

logger = logging.getLogger(__name__)
events: Any = locust.events

OPTION = "embedded_target"
"""The attribute of ``parsed_options`` by which a master tells its workers that the host is its embedded target."""


OPTIONS = (
    Option(
        "--target-options",
        None,
        'Options of the embedded target, in quotes: --target-options="--servers 4 --stall 1.5/5". Which there are: '
        "--target-options=--help.",
        in_ui=False,
        metavar="<options>",
    ),
)


class TargetError(RuntimeError):
    """The embedded target could not be started."""


class TargetProcess:
    """A running target: its ``url`` and the ``details`` that it announced."""

    def __init__(self, script: Path | str, arguments: Sequence[str] = (), *, patience: float = 20.0) -> None:
        """Start ``script``, a file or the name of a module, and wait up to ``patience`` seconds for its announcement.

        Raises TargetError where it ends, or stays silent, before it has announced itself; it told why on stderr.
        """
        self.name = script.name if isinstance(script, Path) else script
        what = [str(script)] if isinstance(script, Path) else ["-m", script]
        command = [sys.executable, *what, target_process.END_WITH_PARENT, *arguments]
        # a session of its own: a Ctrl-C in the terminal must not end it before the users have said goodbye
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        try:
            announced = self._announcement(patience)
        except BaseException:
            self.stop(patience=1.0)
            raise
        self.url: str = announced.pop("url")
        self.details: dict[str, Any] = announced

    def _announcement(self, patience: float) -> dict[str, Any]:
        assert self.process.stdout is not None
        with gevent.Timeout(patience, TargetError(f"{self.name} said nothing for {patience:g} s")):
            for line in self.process.stdout:
                if line.startswith(target_process.READY):
                    announced: dict[str, Any] = json.loads(line.removeprefix(target_process.READY))
                    return announced
                print(line, end="")  # such as the answer to --help
        raise TargetError(f"{self.name} ended with status {self.process.wait()} before it was ready")

    def stop(self, patience: float = 5.0) -> None:
        """End the process and wait until it has gone; one that does not go within ``patience`` seconds is killed."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()  # what it would see if this process died
        try:
            self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


def embedded_service(service: Service | None = None) -> None:
    """Have a :class:`~locust_realism.targets.service.Service` answer where Locust was given no host.

    Call it once in a locustfile. Without a service, every path is answered by one server, first come first served, in
    an exponential time of 50 ms on average.
    """
    given = [] if service is None else ["--service", json.dumps(service.to_dict())]
    embedded_target("locust_realism.targets", given)


def embedded_target(
    script: Path | str,
    arguments: Sequence[str] = (),
    *,
    on_ready: Callable[[Environment, Mapping[str, Any]], None] | None = None,
) -> None:
    """Have the target in ``script`` started where Locust was given no host; call it once in a locustfile.

    ``script`` is a file, or the name of a module. What ``--target-options`` holds comes after the ``arguments``.
    ``on_ready`` is called with the environment and the details that the target announced, before the test starts, for
    instance to fill in the administrator's password. The environment's host is set, so the web UI shows it.
    """

    def start(environment: Environment, **_: Any) -> None:
        if isinstance(environment.runner, WorkerRunner):
            events.test_start.add_listener(_check_reach)
            return
        if environment.host or not environment.parsed_options:
            return
        try:
            target = TargetProcess(script, [*arguments, *shlex.split(environment.parsed_options.target_options or "")])
        except (TargetError, OSError, ValueError) as error:
            logger.error("No --host was given, and the embedded target did not start: %s", error)
            if isinstance(environment.runner, MasterRunner):
                environment.runner.quit()  # or its workers would wait for it
            raise SystemExit(1) from None
        events.quit.add_listener(lambda **_: target.stop())
        environment.host = target.url
        setattr(environment.parsed_options, OPTION, target.url)
        logger.info(
            "No --host was given: started the embedded target %s at %s (process %d). It is for trying, not for "
            "measuring a server: it shares this machine with Locust, and it ends with Locust.",
            target.name,
            target.url,
            target.process.pid,
        )
        if on_ready is not None:
            on_ready(environment, target.details)
        if isinstance(environment.runner, MasterRunner):
            events.worker_connect.add_listener(_warn_of_remote_worker)

    events.init_command_line_parser.add_listener(_add_options)
    events.init.add_listener(start)


def _add_options(parser: argparse.ArgumentParser, **_: Any) -> None:
    add_options(parser, "Embedded target", OPTIONS, "The server that starts with Locust where no --host is given.")


def _warn_of_remote_worker(client_id: str, **_: Any) -> None:
    """Tell, on the master, of a worker that cannot reach a loopback address of this machine."""
    machine = client_id.rpartition("_")[0]
    if machine and machine != socket.gethostname():
        logger.error(
            "The worker %s runs on another machine, %s: it cannot reach the embedded target, which listens on this "
            "machine only. Give --host with a server that all workers can reach.",
            client_id,
            machine,
        )


def _check_reach(environment: Environment, **_: Any) -> None:
    """On a worker, at the start of a test: leave it if its target is embedded in another machine's master."""
    url = getattr(environment.parsed_options, OPTION, None)
    if url is None or environment.host != url:
        return
    where = urlsplit(url)
    try:
        socket.create_connection((where.hostname or "", where.port or 80), timeout=5).close()
    except OSError as error:
        refuse(
            environment,
            f"This worker cannot reach the embedded target at {url} ({error}): it runs on the machine of the master, "
            "and listens there only. Start the worker on that machine, or give the master --host.",
        )
