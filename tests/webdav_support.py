"""The WebDAV server of the scenario as tests use it: started with its misbehaviour, and looked into from outside."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

from support import SCENARIOS, environment

SERVER = SCENARIOS / "targets" / "webdav_server.py"
FILES = "/remote.php/dav/files"
PDF = "ownCloud%20Manual.pdf"
ADMIN, PASSWORD = "admin", "the-admins-own"


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
        **given: Any,
    ) -> requests.Response:
        """Ask the provisioning interface; the header that it wants is sent unless ``headers`` are given."""
        url = f"{self.url}/ocs/v{version}.php/cloud/users{path}"
        sent = {"OCS-APIRequest": "true"} if headers is None else headers
        params = {"format": "json", **given.pop("params", {})}
        return requests.request(method, url, auth=auth, headers=sent, params=params, timeout=10, **given)

    def code(self, method: str, path: str = "", **given: Any) -> tuple[int, int]:
        """Status and code of an answer."""
        response = self.ocs(method, path, **given)
        return response.status_code, response.json()["ocs"]["meta"]["statuscode"]

    def create(self, user: str, password: str, **given: Any) -> tuple[int, int]:
        """Make a user; status and code."""
        return self.code("POST", data={"userid": user, "password": password}, **given)

    def users(self, search: str = "") -> list[str]:
        """The users there are, without the administrator."""
        found = self.ocs("GET", params={"search": search}).json()["ocs"]["data"]
        return [user for user in (found["users"] if found else []) if user != ADMIN]

    def dav(self, method: str, path: str, auth: tuple[str, str], **given: Any) -> requests.Response:
        """A request for a user's file."""
        return requests.request(method, f"{self.url}{FILES}/{path}", auth=auth, timeout=10, **given)


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
