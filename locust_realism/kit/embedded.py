"""Embedded targets: servers that start with Locust, in processes of their own, where no ``--host`` is given.

The process that is not a worker starts the target once, on a free port of the loopback address. All processes and
workers of the machine load the same server. It ends with Locust, also after ``kill -9``
(:mod:`locust_realism.common.supervisor`).
"""

from __future__ import annotations

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
from locust import events
from locust.env import Environment
from locust.runners import MasterRunner, WorkerRunner

from locust_realism.common import supervisor
from locust_realism.kit.command_line import Option, scenario_options
from locust_realism.kit.start_checks import refuse
from locust_realism.targets.service import Service

logger = logging.getLogger(__name__)

OPTION = "embedded_target"
"""Attribute of ``parsed_options`` that holds the URL of the embedded target, on the master and on its workers."""
START_S = 20.0
"""Longest time from the start of a target to its announcement."""
GRACE_S = 5.0
"""Seconds that a target has to end by itself before it is killed."""

_HELP = (
    'Options of the embedded target, in quotes: --target-options="--servers 4 --stall 1.5/5". '
    "--target-options=--help lists them."
)


class TargetError(RuntimeError):
    """Failed start of an embedded target."""


class TargetProcess:
    """A running target: its ``url``, its ``pid`` and the ``details`` that it announced."""

    def __init__(self, script: Path | str, arguments: Sequence[str] = (), *, start_s: float = START_S) -> None:
        """Start ``script``, a file or the name of a module, and wait up to ``start_s`` seconds for its announcement.

        Raises TargetError if the script ends or stays silent before that; its own message is on stderr.
        """
        self.name = script.name if isinstance(script, Path) else script
        words = [str(script)] if isinstance(script, Path) else ["-m", script]
        self.supervisor = supervisor.start([sys.executable, *words, *arguments], GRACE_S, stdout=subprocess.PIPE)
        try:
            announced = self._announcement(start_s)
        except BaseException:
            self.stop()
            raise
        self.url, self.pid = str(announced.pop("url")), int(announced.pop("pid"))
        self.details: Mapping[str, Any] = announced

    def _announcement(self, start_s: float) -> dict[str, Any]:
        assert self.supervisor.stdout is not None
        with gevent.Timeout(start_s, TargetError(f"{self.name} announced no address within {start_s:g} s")):
            for line in self.supervisor.stdout:
                text = line.decode(errors="replace")
                if text.startswith(supervisor.READY):
                    announced: dict[str, Any] = json.loads(text.removeprefix(supervisor.READY))
                    return announced
                print(text, end="")  # such as the answer to --help
        raise TargetError(f"{self.name} ended with status {self.supervisor.wait()} before it was ready")

    def stop(self) -> None:
        """End the process and wait for its end; a process that ignores SIGTERM is killed after :data:`GRACE_S`."""
        supervisor.end(self.supervisor, GRACE_S)
        assert self.supervisor.stdout is not None
        self.supervisor.stdout.close()


def embedded_service(service: Service | None = None) -> None:
    """Start a :class:`~locust_realism.targets.service.Service` where Locust has no host; call it once in a locustfile.

    Without a service, one server answers every path, first come first served, in exponential times of 50 ms on average.
    """
    given = [] if service is None else ["--service", json.dumps(service.to_dict())]
    embedded_target("locust_realism.targets", given)


def embedded_target(
    script: Path | str,
    arguments: Sequence[str] = (),
    *,
    on_ready: Callable[[Environment, Mapping[str, Any]], None] | None = None,
) -> None:
    """Start the target in ``script`` where Locust has no host; call it once in a locustfile.

    ``script`` is a file or the name of a module; it must call :func:`locust_realism.targets.announce` once it listens.
    The words of ``--target-options`` follow the ``arguments``. ``on_ready`` takes the environment and the announced
    details before the test starts, for instance to store the administrator's password. The web UI shows the address.
    """

    def start(environment: Environment, **_: object) -> None:
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
                environment.runner.quit()  # its workers would wait for it
            raise SystemExit(1) from None
        events.quit.add_listener(lambda **_: target.stop())
        environment.host = target.url
        setattr(environment.parsed_options, OPTION, target.url)
        logger.info(
            "No --host was given: started the embedded target %s at %s (process %d). It is for trying, not for "
            "measuring a server: it shares this machine with Locust, and it ends with Locust.",
            target.name,
            target.url,
            target.pid,
        )
        if on_ready is not None:
            on_ready(environment, target.details)
        if isinstance(environment.runner, MasterRunner):
            events.worker_connect.add_listener(_warn_of_remote_worker)

    option = Option("--target-options", None, _HELP, in_ui=False, metavar="<options>")
    description = "The server that starts with Locust where no --host is given."
    scenario_options("Embedded target", [option], description)
    events.init.add_listener(start)


def embedded_host(environment: Environment) -> str | None:
    """Return the URL of the run's embedded target, None with ``--host``; workers have it from test_start on."""
    return getattr(environment.parsed_options, OPTION, None)


def _warn_of_remote_worker(client_id: str, **_: object) -> None:
    """Log an error on the master about a worker for which the loopback address is another machine."""
    machine = client_id.rpartition("_")[0]
    if machine and machine != socket.gethostname():
        logger.error(
            "The worker %s runs on another machine, %s: it cannot reach the embedded target, which listens on this "
            "machine only. Give --host with a server that all workers can reach.",
            client_id,
            machine,
        )


def _check_reach(environment: Environment, **_: object) -> None:
    """Refuse the test on a worker whose target is embedded in the master of another machine."""
    url = embedded_host(environment)
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
