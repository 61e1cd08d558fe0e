"""Creation and deletion of users: "OCS" of ownCloud and Nextcloud, LibreGraph of OpenCloud and oCIS.

Both return a :class:`Reply` with one set of codes.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from locust.clients import HttpSession, ResponseContextManager
from webdav_requests import TIMEOUT_S, every_request, reason

DONE, NOT_THERE = (100, 200), (404, 998)


@dataclass(frozen=True)
class Reply:
    """Reply of the interface: OCS's code (the body's: the status may be 200 on failure), or minus an HTTP status.

    0 is no reply at all. ``users`` are the names that a search found.
    """

    code: int
    message: str
    users: tuple[str, ...] = ()


class Provisioning(ABC):
    """User provisioning of a product; each method is one request of the administrator's client."""

    @abstractmethod
    def create(self, client: HttpSession, user: str, password: str) -> Reply: ...

    @abstractmethod
    def delete(self, client: HttpSession, user: str, *, name: str = "user", gone: bool = False) -> Reply:
        """Delete a user; with ``gone`` a missing user is no failure."""

    @abstractmethod
    def search(self, client: HttpSession, text: str, *, name: str = "search") -> Reply: ...


class Ocs(Provisioning):
    """OCS at /ocs/v2.php/cloud/users, with the header that Nextcloud requires."""

    users = "/ocs/v2.php/cloud/users"

    def create(self, client: HttpSession, user: str, password: str) -> Reply:
        return self._send(client, "POST", "user (create)", data={"userid": user, "password": password})

    def delete(self, client: HttpSession, user: str, *, name: str = "user", gone: bool = False) -> Reply:
        return self._send(client, "DELETE", name, f"/{quote(user)}", gone)

    def search(self, client: HttpSession, text: str, *, name: str = "search") -> Reply:
        return self._send(client, "GET", name, params={"search": text})

    def _send(
        self, client: HttpSession, method: str, name: str, path: str = "", gone: bool = False, **more: Any
    ) -> Reply:
        headers = {"OCS-APIRequest": "true"}
        given = {**every_request(client), "timeout": TIMEOUT_S, "headers": headers, **more}
        with client.request(method, f"{self.users}{path}?format=json", name=name, **given) as response:
            reply = self._read(response)
            if reply.code in DONE or (gone and reply.code in NOT_THERE):
                response.success()
            elif reply.code > 0 and response.status_code < 500:
                response.failure(f"{response.status_code}, code {reply.code}: {reply.message}")
            else:
                response.failure(f"{reason(response)}: {reply.message}" if reply.code > 0 else reason(response))
        return reply

    def _read(self, response: ResponseContextManager) -> Reply:
        try:
            document = json.loads(response.content)["ocs"]
            data = document["data"]
            users = tuple(data["users"]) if isinstance(data, dict) and "users" in data else ()
            return Reply(int(document["meta"]["statuscode"]), str(document["meta"].get("message") or ""), users)
        except (ValueError, KeyError, TypeError):
            return Reply(-response.status_code, reason(response))


class Graph(Provisioning):
    """LibreGraph at /graph/v1.0/users, with the statuses of HTTP: 201, 204, 404, 409."""

    users = "/graph/v1.0/users"

    def create(self, client: HttpSession, user: str, password: str) -> Reply:
        person = {
            "onPremisesSamAccountName": user,
            "displayName": user,
            "mail": f"{user}@example.org",
            "passwordProfile": {"password": password},
        }
        return self._send(client, "POST", "user (create)", json=person)

    def delete(self, client: HttpSession, user: str, *, name: str = "user", gone: bool = False) -> Reply:
        return self._send(client, "DELETE", name, f"/{quote(user)}", gone)  # the interface takes the name for the id

    def search(self, client: HttpSession, text: str, *, name: str = "search") -> Reply:
        return self._send(client, "GET", name, params={"$search": f'"{text}"'})

    def _send(
        self, client: HttpSession, method: str, name: str, path: str = "", gone: bool = False, **more: Any
    ) -> Reply:
        given = {**every_request(client), "timeout": TIMEOUT_S, **more}
        with client.request(method, self.users + path, name=name, **given) as response:
            reply = self._read(response, method)
            if reply.code in DONE or (gone and reply.code in NOT_THERE):
                response.success()
            else:
                response.failure(f"{reason(response)}: {reply.message}".removesuffix(": "))
        return reply

    def _read(self, response: ResponseContextManager, method: str) -> Reply:
        status = response.status_code
        try:
            document = json.loads(response.content) if response.content else {}
            if status in (200, 201, 204) and (method != "GET" or "value" in document):
                users = tuple(str(user["onPremisesSamAccountName"]) for user in document.get("value") or ())
                return Reply(200, "", users)
            message = str(document.get("error", {}).get("message") or "")
        except (ValueError, KeyError, TypeError, AttributeError):
            return Reply(-status, reason(response))  # another server's page
        return Reply(404 if status == 404 and "error" in document else -status, message)


PROVISIONING: dict[str, Provisioning] = {"ocs": Ocs(), "graph": Graph()}
"""Interfaces by their names in ``--dav-provisioning``."""
