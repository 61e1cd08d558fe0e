"""The WebDAV server of the scenario as tests use it: started with its misbehaviour, and looked into from outside."""

from __future__ import annotations

import base64
import http.client
import json
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from support import SCENARIOS, environment

SERVER = SCENARIOS / "targets" / "webdav_server.py"
FILES = "/remote.php/dav/files"
PDF = "ownCloud%20Manual.pdf"
ADMIN, PASSWORD = "admin", "the-admins-own"


@dataclass(frozen=True)
class Answer:
    """What a server answered, and after how many seconds."""

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
    """One request by the standard library: ``requests`` must not be imported before Locust, which patches ``ssl``."""
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


@dataclass(frozen=True)
class Server:
    """A running server and its administrator."""

    url: str
    pid: int
    folder: Path

    def ocs(
        self,
        method: str,
        path: str = "",
        *,
        version: int = 2,
        auth: tuple[str, str] = (ADMIN, PASSWORD),
        headers: dict[str, str] | None = None,
        params: Mapping[str, object] | None = None,
        data: Mapping[str, object] | None = None,
    ) -> Answer:
        """Ask the provisioning interface; the header that it wants is sent unless ``headers`` are given."""
        query = urlencode({"format": "json", **(params or {})})
        url = f"{self.url}/ocs/v{version}.php/cloud/users{path}?{query}"
        return ask(
            method, url, auth=auth, headers={"OCS-APIRequest": "true"} if headers is None else headers, data=data
        )

    def code(self, method: str, path: str = "", **given: Any) -> tuple[int, int]:
        """Status and code of an answer."""
        answer = self.ocs(method, path, **given)
        return answer.status, answer.document["ocs"]["meta"]["statuscode"]

    def create(self, user: str, password: str, **given: Any) -> tuple[int, int]:
        """Make a user; status and code."""
        return self.code("POST", data={"userid": user, "password": password}, **given)

    def users(self, search: str = "") -> list[str]:
        """The users there are, without the administrator."""
        found = self.ocs("GET", params={"search": search}).document["ocs"]["data"]
        return [user for user in (found["users"] if found else []) if user != ADMIN]

    def dav(self, method: str, path: str, auth: tuple[str, str], **given: Any) -> Answer:
        """A request for a user's file."""
        return ask(method, f"{self.url}{FILES}/{path}", auth=auth, **given)


@contextmanager
def webdav_server(*misbehave: str, accounts: tuple[str, ...] = (), certificate: Path | None = None) -> Iterator[Server]:
    """The server in a process of its own, which ends with the block."""
    command = [sys.executable, str(SERVER), "--end-with-parent", "--admin-password", PASSWORD, "--pdf-size", "50000"]
    command += [f"--misbehave={switch}" for switch in misbehave] + [f"--account={account}" for account in accounts]
    command += [f"--certificate={certificate}"] if certificate else []
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment()
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            told = json.loads(process.stdout.readline().partition(" ")[2])
            yield Server(told["url"], told["pid"], Path(told["folder"]))
        finally:
            process.stdin.close()
            process.wait(10)
