"""Hello of each worker on connecting: versions of wire and library, hash of its locustfiles; mismatches are logged."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import gevent
from locust.env import Environment
from locust.exception import RPCSendError
from locust.runners import STATE_MISSING, MasterRunner, WorkerRunner

from locust_realism.runtime import wire
from locust_realism.runtime.locust_compat import PerEnvironment
from locust_realism.runtime.wire import HELLO, HelloData, wire_of

logger = logging.getLogger(__name__)

GRACE_S = 1.5
"""Seconds after a worker connected until the master requests the missing hello; as many later it logs the lack."""

START_GRACE_S = 0.5
"""Seconds that the start of a test waits for a missing hello; a worker sends it some milliseconds after it is ready."""


def locustfile_hash(environment: Environment) -> str:
    """Return the SHA-256 of the contents of an Environment's locustfiles in order; empty if there are none."""
    paths = environment.parsed_locustfiles or []
    total = hashlib.sha256()
    try:
        for path in paths:
            total.update(hashlib.sha256(Path(path).read_text(encoding="utf-8").encode()).digest())
    except (OSError, ValueError):
        return ""  # a directory, or removed meanwhile
    return total.hexdigest() if paths else ""


def own_hello(environment: Environment) -> HelloData:
    """Return the hello of this process."""
    try:
        library = version("locust_realism")
    except PackageNotFoundError:  # a source tree that is not installed
        library = ""
    return {"wire": wire.VERSION, "library": library, "locustfile": locustfile_hash(environment)}


NO_HELLO = (
    "sent no hello: it runs no locust_realism, or a locustfile without install(); "
    "its launches are missing in the exact figures"
)
OLDER = "runs an older locust_realism (wire 1): its reports are read; install the master's release there"


def mismatches(theirs: HelloData | None, ours: HelloData) -> dict[str, str]:
    """Return the differences of a worker's hello from the master's, a clause by kind; None is a hello of wire 1."""
    if theirs is None:
        return {"older": OLDER}
    found = {}
    if theirs["wire"] != ours["wire"]:
        found["wire"] = (
            f"uses version {theirs['wire']} of the wire, the master {ours['wire']}: rows may be refused and count "
            f"as lost; install locust_realism {ours['library']} there (it has {theirs['library'] or 'no release'})"
        )
    elif theirs["library"] != ours["library"]:
        found["library"] = f"runs locust_realism {theirs['library'] or '?'}, the master {ours['library'] or '?'}"
    if theirs["locustfile"] and ours["locustfile"] and theirs["locustfile"] != ours["locustfile"]:
        found["locustfile"] = "runs another locustfile than the master (their hashes differ): give both the same file"
    return found


class Handshake:
    """Hello of this worker, or hellos of all workers at the master.

    ``hellos`` are by client id, None for wire 1; ``listeners`` are called with the client id of each hello.
    """

    def __init__(self, environment: Environment) -> None:
        self.hellos: dict[str, HelloData | None] = {}
        self.listeners: list[Callable[[str], None]] = []
        self._logged: set[tuple[str, str]] = set()  # client id and kind of clause, since the start of the run
        self._wire = wire_of(environment)
        self._own = own_hello(environment)
        runner = self._wire.runner
        if isinstance(runner, WorkerRunner):
            self._wire.on_message(HELLO, lambda *_: self.send())
            self.send()
        elif isinstance(runner, MasterRunner):
            self._wire.on_message(HELLO, self._received)
            environment.events.worker_connect.add_listener(self._connected)
            environment.events.test_start.add_listener(self._name_silent)
            for client in runner.clients.all:
                self._connected(client.id)

    def send(self) -> None:
        """Send this worker's hello; the master's planner answers it with the plan."""
        self._wire.send(HELLO, self._own)

    def reports(self, client_id: str) -> bool:
        """Return True for a worker that runs this library: it sent a hello, or reports of wire 1."""
        return client_id in self.hellos or client_id in self._wire.older

    def _received(self, sender: str, data: HelloData | None) -> None:
        if data is None:
            self._wire.older.add(sender)
        if sender not in self.hellos or self.hellos[sender] != data:
            for kind, clause in mismatches(data, self._own).items():
                self._log(sender, kind, clause)
        self.hellos[sender] = data
        for listener in self.listeners:
            listener(sender)

    def _connected(self, client_id: str, **_: object) -> None:
        if client_id not in self.hellos:
            self._wire.runner.greenlet.spawn(self._expect, client_id)

    def _expect(self, client_id: str) -> None:
        """Request a hello that is missing, as after a restart of the master, and log that none came."""
        runner = self._wire.runner
        assert isinstance(runner, MasterRunner)
        gevent.sleep(GRACE_S)
        if self.reports(client_id):
            return
        self._wire.send(HELLO, None, client_id)
        gevent.sleep(GRACE_S)
        if client_id in self._silent():
            self._log_silent(client_id)

    def _silent(self) -> list[str]:
        """Return the ids of the connected workers without a hello."""
        runner = self._wire.runner
        assert isinstance(runner, MasterRunner)
        return [c.id for c in runner.clients.all if c.state != STATE_MISSING and c.id not in self.hellos]

    def _name_silent(self, **_: object) -> None:
        """Log every worker without a hello before its users start (listener of ``test_start``).

        A worker that has just become ready gets START_GRACE_S for its hello.
        """
        awaited = {client_id for client_id in self._silent() if (client_id, "silent") not in self._logged}
        self._logged.clear()
        for client_id in awaited:
            with suppress(RPCSendError):  # it has disconnected
                self._wire.send(HELLO, None, client_id)
        deadline = time.monotonic() + START_GRACE_S
        while awaited.intersection(self._silent()) and time.monotonic() < deadline:
            gevent.sleep(0.01)
        for client_id in self._silent():
            self._log_silent(client_id)

    def _log_silent(self, client_id: str) -> None:
        self._log(client_id, "silent", OLDER if client_id in self._wire.older else NO_HELLO)

    def _log(self, client_id: str, kind: str, clause: str) -> None:
        """Log a clause, once per worker, kind and run."""
        if (client_id, kind) not in self._logged:
            self._logged.add((client_id, kind))
            logger.warning("Worker %s %s.", client_id, clause)


_handshakes = PerEnvironment("handshake", Handshake)


def handshake(environment: Environment) -> Handshake:
    """Return the handshake of an Environment that has a runner; made, and sent by a worker, at the first call."""
    return _handshakes.of(environment)
