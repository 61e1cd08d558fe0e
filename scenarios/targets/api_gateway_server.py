"""API gateway with a key manager and an API behind it, to try ``api_gateway.py`` without one.

    python scenarios/targets/api_gateway_server.py --port 8280

The key manager grants tokens. The gateway has it validate an unknown token, caches the answer, and calls the API. These
are three stations; the gateway has four servers (the article's four cores).
"""

from __future__ import annotations

import argparse
import base64
import binascii
import secrets
import time
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from locust_realism import exponential, lognormal
from locust_realism.targets import Answer, RunningService, Service, Station, Work, filler, serve

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

GATEWAY = Service(
    stations={
        "gateway": Station(servers=4, discipline="ps"),
        "key_manager": Station(servers=2, discipline="ps"),
        "api": Station(servers=16),
    },
    work={
        "grant": Work("key_manager", lognormal(0.02, cov=1)),
        "validate": Work("key_manager", lognormal(0.005, cov=1)),
        "mediate": Work("gateway", lognormal(0.008, cov=1)),
        "answer": Work("api", exponential(0.002)),
    },
)


class Gateway:
    """Application: grants tokens and forwards calls that carry one."""

    def __init__(self, running: RunningService, options: argparse.Namespace, now: Callable[[], float] = time.monotonic):
        self.running, self.now = running, now
        self.client = f"{options.client_id}:{options.client_secret}"
        self.lifetime, self.remembered = options.token_lifetime, options.key_cache
        self.body = filler(options.size)
        self.granted: dict[str, float] = {}
        self.known: dict[str, float] = {}

    def __call__(self, environ: WSGIEnvironment) -> Answer:
        scheme, _, word = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
        if environ["PATH_INFO"] == "/oauth2/token":
            return self.grant(environ, scheme, word)
        return self.call(scheme, word)

    def grant(self, environ: WSGIEnvironment, scheme: str, word: str) -> Answer:
        """Grant a token to the client credentials (RFC 6749, section 4.4)."""
        if environ["REQUEST_METHOD"] != "POST":
            return Answer(405, headers=(("Allow", "POST"),))
        form = parse_qs(environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0)).decode("latin-1"))
        spent = self.running.do("grant")
        if scheme != "Basic" or _decoded(word) != self.client:
            return Answer.of({"error": "invalid_client"}, 401, (("WWW-Authenticate", "Basic"),))
        if form.get("grant_type") != ["client_credentials"]:
            return Answer.of({"error": "unsupported_grant_type"}, 400)
        token, now = secrets.token_urlsafe(24), self.now()
        for ended in [old for old, end in self.granted.items() if end <= now]:
            del self.granted[ended]
            self.known.pop(ended, None)
        self.granted[token] = now + self.lifetime
        document = {"access_token": token, "token_type": "Bearer", "expires_in": self.lifetime}
        return Answer.of(document, headers=(("Cache-Control", "no-store"), ("Server-Timing", spent.header)))

    def call(self, scheme: str, token: str) -> Answer:
        """Forward a call of the API."""
        if scheme != "Bearer":
            return Answer.of({"error": "missing credentials"}, 401, (("WWW-Authenticate", "Bearer"),))
        steps = ["mediate", "answer"]
        if self.known.get(token, 0.0) <= self.now():
            steps.insert(0, "validate")
            self.known[token] = self.now() + self.remembered
        if self.granted.get(token, 0.0) <= self.now():
            self.known.pop(token, None)
            self.running.do("validate")
            return Answer.of({"error": "invalid_token"}, 401, (("WWW-Authenticate", 'Bearer error="invalid_token"'),))
        spent = self.running.do(*steps)
        return Answer(200, self.body, "application/json", (("Server-Timing", spent.header),))


def _decoded(word: str) -> str | None:
    try:
        return base64.b64decode(word, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--client-id", default="trial", help="client id that is granted tokens (default: %(default)s)")
    parser.add_argument("--client-secret", default="trial", help="its secret (default: %(default)s)")
    parser.add_argument("--token-lifetime", type=float, default=60.0, help="in seconds (default: %(default)s)")
    parser.add_argument(
        "--key-cache",
        type=float,
        default=900.0,
        help="seconds for which the gateway caches a valid token (default: %(default)s)",
    )
    parser.add_argument("--size", type=int, default=1024, help="bytes of an API answer (default: %(default)s)")


if __name__ == "__main__":
    serve(GATEWAY, Gateway, description=__doc__, add_more_flags=add_flags)
