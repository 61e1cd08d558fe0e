"""WebDAV server of the scenario in tests: started with its faults, and inspected from outside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from http_support import Answer, ask
from target_support import announced

from support import SCENARIOS

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
        params: Mapping[str, object] | None = None,
        data: Mapping[str, object] | None = None,
    ) -> Answer:
        """Send a request to the provisioning interface, with its required header unless ``headers`` are given."""
        query = urlencode({"format": "json", **(params or {})})
        url = f"{self.url}/ocs/v{version}.php/cloud/users{path}?{query}"
        return ask(
            method, url, auth=auth, headers={"OCS-APIRequest": "true"} if headers is None else headers, data=data
        )

    def code(self, method: str, path: str = "", **given: Any) -> tuple[int, int]:
        """Return status and code of an answer."""
        answer = self.ocs(method, path, **given)
        return answer.status, answer.document["ocs"]["meta"]["statuscode"]

    def create(self, user: str, password: str, **given: Any) -> tuple[int, int]:
        """Create a user; return status and code."""
        return self.code("POST", data={"userid": user, "password": password}, **given)

    def users(self, search: str = "") -> list[str]:
        """Return the names of the users except the administrator."""
        found = self.ocs("GET", params={"search": search}).document["ocs"]["data"]
        return [user for user in (found["users"] if found else []) if user != ADMIN]

    def dav(self, method: str, path: str, auth: tuple[str, str], **given: Any) -> Answer:
        """Send a request for a user's file."""
        return ask(method, f"{self.url}{FILES}/{path}", auth=auth, **given)


@contextmanager
def webdav_server(*misbehave: str, accounts: tuple[str, ...] = (), certificate: Path | None = None) -> Iterator[Server]:
    """Run the server in a process of its own until the end of the block."""
    words = ["--admin-password", PASSWORD, "--pdf-size", "50000"]
    words += [f"--misbehave={switch}" for switch in misbehave] + [f"--account={account}" for account in accounts]
    words += [f"--certificate={certificate}"] if certificate else []
    with announced(str(SERVER), *words) as details:
        yield Server(details["url"], details["pid"], Path(details["folder"]))
