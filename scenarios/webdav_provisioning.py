"""How users are made and deleted on a product: "OCS" of ownCloud and Nextcloud, LibreGraph of OpenCloud and oCIS.

Both answer a :class:`Told` with one set of codes, whatever the product says.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from locust.clients import HttpSession
from webdav_requests import PATIENCE_S, every_request, reason

DONE, NOT_THERE = (100, 200), (404, 998)


@dataclass(frozen=True)
class Told:
    """What the interface answered: a code of OCS (the body's, as the status may be 200 on failure), or minus a status.

    0 is no answer at all. ``users`` are the names that a search has found.
    """

    code: int
    message: str
    users: tuple[str, ...] = ()


class Provisioning(ABC):
    """What the scenario asks of a product; each is one request of the administrator's client."""

    @abstractmethod
    def create(self, client: HttpSession, user: str, password: str) -> Told: ...

    @abstractmethod
    def delete(self, client: HttpSession, user: str, *, name: str = "user", gone: bool = False) -> Told:
        """Delete a user; with ``gone`` one who is not there is no failure."""

    @abstractmethod
    def search(self, client: HttpSession, text: str, *, name: str = "search") -> Told: ...


class Ocs(Provisioning):
    """/ocs/v2.php/cloud/users, with the header that Nextcloud asks for."""

    users = "/ocs/v2.php/cloud/users"

    def create(self, client: HttpSession, user: str, password: str) -> Told:
        return self._ask(client, "POST", "user (create)", data={"userid": user, "password": password})

    def delete(self, client: HttpSession, user: str, *, name: str = "user", gone: bool = False) -> Told:
        return self._ask(client, "DELETE", name, f"/{quote(user)}", gone)

    def search(self, client: HttpSession, text: str, *, name: str = "search") -> Told:
        return self._ask(client, "GET", name, params={"search": text})

    def _ask(
        self, client: HttpSession, method: str, name: str, path: str = "", gone: bool = False, **more: Any
    ) -> Told:
        headers = {"OCS-APIRequest": "true"}
        given = {**every_request(client), "timeout": PATIENCE_S, "headers": headers, **more}
        with client.request(method, f"{self.users}{path}?format=json", name=name, **given) as response:
            told = self._told(response)
            if told.code in DONE or (gone and told.code in NOT_THERE):
                response.success()
            elif told.code > 0 and response.status_code < 500:
                response.failure(f"{response.status_code}, code {told.code}: {told.message}")
            else:
                response.failure(f"{reason(response)}: {told.message}" if told.code > 0 else reason(response))
        return told

    def _told(self, response: Any) -> Told:
        try:
            document = json.loads(response.content)["ocs"]
            data = document["data"]
            users = tuple(data["users"]) if isinstance(data, dict) and "users" in data else ()
            return Told(int(document["meta"]["statuscode"]), str(document["meta"].get("message") or ""), users)
        except (ValueError, KeyError, TypeError):
            return Told(-response.status_code, reason(response))


class Graph(Provisioning):
    """/graph/v1.0/users, by HTTP's own statuses: 201, 204, 404, 409."""

    users = "/graph/v1.0/users"

    def create(self, client: HttpSession, user: str, password: str) -> Told:
        person = {
            "onPremisesSamAccountName": user,
            "displayName": user,
            "mail": f"{user}@example.org",
            "passwordProfile": {"password": password},
        }
        return self._ask(client, "POST", "user (create)", json=person)

    def delete(self, client: HttpSession, user: str, *, name: str = "user", gone: bool = False) -> Told:
        return self._ask(client, "DELETE", name, f"/{quote(user)}", gone)  # the name is as good as the id

    def search(self, client: HttpSession, text: str, *, name: str = "search") -> Told:
        return self._ask(client, "GET", name, params={"$search": f'"{text}"'})

    def _ask(
        self, client: HttpSession, method: str, name: str, path: str = "", gone: bool = False, **more: Any
    ) -> Told:
        given = {**every_request(client), "timeout": PATIENCE_S, **more}
        with client.request(method, self.users + path, name=name, **given) as response:
            told = self._told(response, method)
            if told.code in DONE or (gone and told.code in NOT_THERE):
                response.success()
            else:
                response.failure(f"{reason(response)}: {told.message}".removesuffix(": "))
        return told

    def _told(self, response: Any, method: str) -> Told:
        status = response.status_code
        try:
            document = json.loads(response.content) if response.content else {}
            if status in (200, 201, 204) and (method != "GET" or "value" in document):
                users = tuple(str(user["onPremisesSamAccountName"]) for user in document.get("value") or ())
                return Told(200, "", users)
            message = str(document.get("error", {}).get("message") or "")
        except (ValueError, KeyError, TypeError, AttributeError):
            return Told(-status, reason(response))  # another server's page
        return Told(404 if status == 404 and "error" in document else -status, message)


PROVISIONING: dict[str, Provisioning] = {"ocs": Ocs(), "graph": Graph()}
"""The interfaces by what ``--dav-provisioning`` calls them."""
