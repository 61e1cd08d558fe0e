"""HTTP side of a target: gevent's WSGI server in a process of its own, with options that change its service.

gevent is already there with Locust. With TCP_NODELAY it had the least overhead and CPU of gevent, aiohttp, uvicorn and
waitress (50 connections, 350 requests per second of 20 ms each); without it, one answer in twenty is 40 ms late.

Locust passes the same options in one: ``--target-options "--servers 4 --stall 1.5/5"``.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import socket
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gevent
import gevent.event
from gevent.pywsgi import WSGIServer

from locust_realism.common.supervisor import announce
from locust_realism.targets.arrival_log import ArrivalLog, LoggingHandler, stamp_arrivals
from locust_realism.targets.queues import DISCIPLINES, Stalls
from locust_realism.targets.running import Full, RunningService
from locust_realism.targets.service import Cache, Collector, Service
from locust_realism.workload.distributions.text import distribution_from_text

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the options that every target has."""
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=0, help="port to listen on (default: a free one)")
    parser.add_argument(
        "--log", type=Path, metavar="FILE", help="write the arrival of each request there, in us, and its path"
    )
    parser.add_argument("--service", metavar="JSON", help="the whole service, as Service.to_dict gives it, or a file")
    add = partial(parser.add_argument, action="append", default=[])
    named = "; with STATION= in front, of one station only"
    add("--servers", metavar="[STATION=]N", help="servers (cores, threads) of every station" + named)
    add("--discipline", metavar="[STATION=]NAME", help=f"{' or '.join(DISCIPLINES)}" + named)
    add("--room", metavar="[STATION=]N", help="waiting places beyond the servers, or none (unbounded)" + named)
    add("--time", metavar="WORK=TIME", help="service time of a piece of work: 0.05, exponential(0.05), lognormal(1, 2)")
    parser.add_argument("--speed", type=float, metavar="X", help="divide all service times by this")
    for flag, (_, form, _, text) in _SLOW.items():
        parser.add_argument(f"--{flag}", metavar=form, help=text)
    parser.add_argument("--seed", type=int, metavar="N", help="the same service times in every run")


_STATION: dict[str, Callable[[str], object]] = {
    "servers": int,
    "discipline": str,
    "room": lambda text: None if text == "none" else int(text),
}
"""Options that change a station, each with the reader of its value."""

_SLOW: dict[str, tuple[str, str, Callable[..., object], str]] = {
    "stall": (
        "stalls",
        "LENGTH/EVERY",
        lambda length, every: Stalls(every, length),
        "stand still for LENGTH seconds in every EVERY",
    ),
    "cache": (
        "cache",
        "COLD/RATE/MEMORY",
        Cache,
        "work takes COLD times as long after a silence, and less up to several times RATE requests a second, over the "
        "last MEMORY seconds",
    ),
    "collector": (
        "collector",
        "EVERY/EACH/MEMORY",
        lambda every, each, memory: Collector(int(every), each, memory),
        "after EVERY requests all stand still, EACH seconds for each request of the last MEMORY seconds",
    ),
}
"""Options that slow the whole service: field, format, maker and help."""


def with_flags(service: Service | None, options: argparse.Namespace) -> Service:
    """Return the service with the changes of the options; ValueError names an option and its value."""
    if (text := options.service) is not None:
        with _naming("service", text):
            service = Service.from_dict(json.loads(text if text.lstrip().startswith("{") else Path(text).read_text()))
    if service is None:
        raise ValueError("service must be given by --service")
    for flag, reader in _STATION.items():
        for text in getattr(options, flag):
            with _naming(flag, text):
                name, equals, value = text.rpartition("=")
                service = service.with_stations(name if equals else None, **{flag: reader(value)})
    for text in options.time:
        with _naming("time", text):
            name, _, time = text.partition("=")  # the time may hold an equals sign too
            service = service.with_time(name, distribution_from_text(time))
    changes: dict[str, Any] = {}
    for flag, (name, form, make, _) in _SLOW.items():
        text = getattr(options, flag)
        if text is not None:
            with _naming(flag, text):
                numbers = [] if text == "none" else [float(part) for part in text.split("/")]
                if numbers and len(numbers) != len(form.split("/")):
                    raise ValueError(f"must be {form}")
                changes[name] = make(*numbers) if numbers else None
    changes |= {flag: getattr(options, flag) for flag in ("speed", "seed") if getattr(options, flag) is not None}
    return replace(service, **changes)


@contextlib.contextmanager
def _naming(flag: str, text: str) -> Iterator[None]:
    try:
        yield
    except (ValueError, OSError) as error:
        raise ValueError(f"--{flag} {text}: {error}") from None


STATE_PATH = "/.target/state"
"""Path at which every target answers its counts (:meth:`~.running.RunningService.state`) as JSON."""


@dataclass(frozen=True)
class Answer:
    """Answer of an application: status, body, content type, more headers."""

    status: int
    body: bytes = b""
    kind: str = "text/plain; charset=utf-8"
    headers: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, document: object, status: int = 200, headers: tuple[tuple[str, str], ...] = ()) -> Answer:
        """Return an answer with a JSON document."""
        return cls(status, json.dumps(document).encode(), "application/json", headers)


Application = Callable[["WSGIEnvironment"], Answer]
"""Takes the WSGI environment of a request. It may raise Full, which the server answers with 503."""


def _pages(running: RunningService, _: argparse.Namespace) -> Application:
    """Return the application of a target without one of its own: the pages of its service."""
    pages = {(page.method, page.path): (page, filler(page.size)) for page in running.service.pages}

    def answer(environ: WSGIEnvironment) -> Answer:
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        found = pages.get((method, path)) or pages.get((method, "/*"))
        if found is None:
            others = ", ".join(name for name, there in pages if there == path)
            if others:
                return Answer(405, b"Not with this method", headers=(("Allow", others),))
            return Answer(404, b"There is no such page")
        page, body = found
        spent = running.do(*page.work)
        return Answer(200, body, page.kind, (("Server-Timing", spent.header),))

    return answer


def filler(size: int) -> bytes:
    """Return ``size`` meaningless bytes.

    >>> filler(20)
    b'0123456789abcdef0123'
    """
    return (b"0123456789abcdef" * (size // 16 + 1))[:size]


class TargetServer(WSGIServer):
    """gevent's server without a log of requests, and without Nagle's delay."""

    def __init__(
        self, address: tuple[str, int], application: Application, running: RunningService, arrivals: ArrivalLog | None
    ) -> None:
        handler = None if arrivals is None else partial(LoggingHandler, log=arrivals)
        super().__init__(address, self._wsgi, log=None, backlog=2048, handler_class=handler)  # type: ignore[arg-type]
        self._answer, self._running = application, running

    def handle(self, client_socket: socket.socket, address: str) -> None:
        """Serve a new connection."""
        client_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        super().handle(client_socket, address)

    def _wsgi(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
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
    make_application: Callable[[RunningService, argparse.Namespace], Application] = _pages,
    *,
    description: str | None = None,
    add_more_flags: Callable[[argparse.ArgumentParser], None] = lambda _: None,
    arguments: Sequence[str] | None = None,
) -> None:
    """Run a target: read the command line, change ``service`` by it, announce the address, serve until a signal.

    ``make_application`` takes the service at work and the options, to which ``add_more_flags`` may add some. The
    process ends at SIGINT or SIGTERM. A wrong option ends it with a message and status 2.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_flags(parser)
    add_more_flags(parser)
    options = parser.parse_args(arguments)
    try:
        running = RunningService(with_flags(service, options))
        application = make_application(running, options)
        arrivals = options.log and ArrivalLog(options.log)
    except (ValueError, OSError) as error:
        parser.error(str(error))
    server = TargetServer((options.host, options.port), application, running, arrivals)
    server.start()
    if arrivals:
        stamp_arrivals(server.socket)
    url = f"http://{options.host}:{server.server_port}"
    stopped = gevent.event.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        gevent.signal_handler(number, stopped.set)
    if sys.stdout.isatty():
        print(f"A target for trying, at {url} (counts at {url}{STATE_PATH})", file=sys.stderr, flush=True)
    announce(url)
    stopped.wait()
    server.stop(timeout=0.2)
    running.stop()
    if arrivals:
        arrivals.close()
