"""Requests of tests by the standard library."""

from __future__ import annotations

import base64
import http.client
import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode, urlsplit


@dataclass(frozen=True)
class Answer:
    """Answer of a server, and its time in seconds."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    seconds: float

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def document(self) -> Any:
        return json.loads(self.body)


def ask(
    method: str,
    url: str,
    *,
    auth: tuple[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
    data: bytes | Iterable[bytes] | Mapping[str, object] | None = None,
    timeout: float = 30,
) -> Answer:
    """Send a request by the standard library: Locust patches ``ssl``, which ``requests`` must not import before it."""
    where = urlsplit(url)
    sent = dict(headers or {})
    if auth:
        sent["Authorization"] = "Basic " + base64.b64encode(":".join(auth).encode()).decode()
    if isinstance(data, Mapping):
        sent["Content-Type"] = "application/x-www-form-urlencoded"
        data = urlencode(data).encode()
    began = time.perf_counter()
    connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=timeout)
    try:
        connection.request(method, quote(url.partition(where.netloc)[2] or "/", safe="/?&=%"), data, sent)
        response = connection.getresponse()
        body = response.read()
    finally:
        connection.close()
    return Answer(response.status, dict(response.headers.items()), body, time.perf_counter() - began)
