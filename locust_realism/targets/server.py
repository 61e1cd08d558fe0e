"""The HTTP side of a target: gevent's WSGI server in a process of its own.

gevent is what Locust stands on, so nothing more is to be installed. It was measured against aiohttp, uvicorn and
waitress with 50 connections and 350 requests a second of 20 ms each: with TCP_NODELAY it has the least overhead on an
answer and the least CPU; without it, one answer in twenty waits 40 ms for an acknowledgement.
"""

from __future__ import annotations

import argparse
import json
import signal
import socket
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import gevent
import gevent.event
from gevent.pywsgi import WSGIServer

from . import process
from .flags import add_flags, with_flags
from .running import Full, RunningService
from .service import Service

STATE_PATH = "/.target/state"
"""Where every target answers its counts (:meth:`~.running.RunningService.state`) as JSON."""

_BACKLOG = 2048
_FILLER = b"0123456789abcdef" * 4096


@dataclass(frozen=True)
class Answer:
    """What an application answers: status, body, content type, more headers."""

    status: int
    body: bytes = b""
    kind: str = "text/plain; charset=utf-8"
    headers: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, document: Any, status: int = 200, headers: tuple[tuple[str, str], ...] = ()) -> Answer:
        """A JSON document."""
        return cls(status, json.dumps(document).encode(), "application/json", headers)


Application = Callable[[dict[str, Any]], Answer]
"""Takes the WSGI environment of a request. It may raise Full, which is answered with 503."""


@dataclass(frozen=True)
class Pages:
    """The application of a target without one of its own: the pages of its service."""

    running: RunningService
    _by_request: dict[tuple[str, str], Any] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        for page in self.running.service.pages:
            self._by_request[page.method, page.path] = (page, filler(page.size))

    def __call__(self, environ: dict[str, Any]) -> Answer:
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        found = self._by_request.get((method, path)) or self._by_request.get((method, "/*"))
        if found is None:
            others = [name for name, there in self._by_request if there == path]
            if others:
                return Answer(405, b"Not with this method", headers=(("Allow", ", ".join(others)),))
            return Answer(404, b"There is no such page")
        page, body = found
        spent = self.running.do(*page.work)
        return Answer(200, body, page.kind, (("Server-Timing", spent.header),))


def filler(size: int) -> bytes:
    """``size`` bytes of nothing in particular.

    >>> filler(20)
    b'0123456789abcdef0123'
    """
    return (_FILLER * (size // len(_FILLER) + 1))[:size]


class TargetServer(WSGIServer):
    """gevent's server without a log of requests, and without Nagle's delay."""

    def __init__(self, address: tuple[str, int], application: Application, running: RunningService) -> None:
        super().__init__(address, self._wsgi, log=None, backlog=_BACKLOG)
        self._answer, self._running = application, running

    def handle(self, client_socket: Any, address: Any) -> Any:
        """A new connection."""
        client_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return super().handle(client_socket, address)

    def _wsgi(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if environ["PATH_INFO"] == STATE_PATH:
            answer = Answer.of(self._running.state())
        else:
            try:
                answer = self._answer(environ)
            except Full as full:
                answer = Answer(503, f"No room at {full}".encode(), headers=(("Retry-After", "1"),))
        phrase = HTTPStatus(answer.status).phrase
        body = b"" if environ["REQUEST_METHOD"] == "HEAD" else answer.body
        length = ("Content-Length", str(len(answer.body)))
        start_response(f"{answer.status} {phrase}", [("Content-Type", answer.kind), length, *answer.headers])
        return [body]


def serve(
    service: Service | None,
    make_application: Callable[[RunningService, argparse.Namespace], Application] = lambda running, _: Pages(running),
    *,
    description: str | None = None,
    add_more_flags: Callable[[argparse.ArgumentParser], None] = lambda _: None,
    arguments: Sequence[str] | None = None,
) -> None:
    """Be a target: read the command line, change ``service`` as it says, say where it listens, serve until stopped.

    ``make_application`` gets the service at work and the options, to which ``add_more_flags`` may add some. The process
    ends with its parent when Locust has started it, else at SIGINT or SIGTERM. A wrong option ends it with a message
    and status 2.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_flags(parser)
    add_more_flags(parser)
    options = parser.parse_args(arguments)
    try:
        running = RunningService(with_flags(service, options))
        application = make_application(running, options)
    except ValueError as error:
        parser.error(str(error))
    server = TargetServer((options.host, options.port), application, running)
    server.start()
    url = f"http://{options.host}:{server.server_port}"
    stopped = gevent.event.Event()
    from_outside = gevent.get_hub().loop.async_()  # what another thread may call
    from_outside.start(stopped.set)
    gevent.signal_handler(signal.SIGTERM, stopped.set)
    if options.end_with_parent:
        process.end_with_parent(from_outside.send)
    else:
        gevent.signal_handler(signal.SIGINT, stopped.set)
        print(f"A target for trying, at {url} (counts at {url}{STATE_PATH})", file=sys.stderr, flush=True)
    process.announce(url)
    stopped.wait()
    server.stop(timeout=0.2)
    running.stop()
