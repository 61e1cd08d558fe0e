"""User provisioning of OpenCloud and oCIS (LibreGraph), as far as a load test needs it."""

from __future__ import annotations

import json
import re
import uuid
from http import HTTPStatus
from urllib.parse import parse_qs, unquote

from ocs_users import EXISTS, OK, Users

PATH = re.compile(r"/graph/v1\.0/users(?:/(?P<user>[^/]+))?/?")


def person(name: str) -> dict[str, str]:
    return {"id": str(uuid.uuid5(uuid.NAMESPACE_URL, name)), "onPremisesSamAccountName": name, "displayName": name}


def answer(status: int, document: object = None) -> tuple[str, str, bytes]:
    """Return status line, content type and body."""
    body = b"" if document is None else json.dumps(document).encode()
    return f"{status} {HTTPStatus(status).phrase}", "application/json", body


def refusal(status: int, code: str, message: str) -> tuple[str, str, bytes]:
    return answer(status, {"error": {"code": code, "message": message}})


def serve(users: Users, method: str, path: str, query: str, body: bytes) -> tuple[str, str, bytes]:
    """Carry out a request of an administrator and return the answer."""
    match = PATH.fullmatch(path)
    assert match is not None, path
    wanted = unquote(match["user"]) if match["user"] else None
    name = next((user for user in users.passwords if wanted in (user, person(user)["id"])), None)
    if method == "POST" and wanted is None:
        try:
            given = json.loads(body)
            user, password = given["onPremisesSamAccountName"], given["passwordProfile"]["password"]
            given["displayName"], given["mail"]
        except (ValueError, KeyError, TypeError):
            return refusal(400, "invalidRequest", "missing required Attribute")
        code, message = users.create(user, password)
        if code == OK:
            return answer(201, person(user))
        return refusal(409, "nameAlreadyExists", message) if code == EXISTS else refusal(400, "invalidRequest", message)
    if wanted is not None and name is None:
        return refusal(404, "itemNotFound", "user not found")
    if method == "DELETE" and name is not None:
        code, message = users.delete(name)
        return answer(204) if code == OK else refusal(403, "notAllowed", message)
    if method == "GET" and name is not None:
        return answer(200, person(name))
    if method == "GET":
        text = parse_qs(query).get("$search", [""])[0].strip('"')
        return answer(200, {"value": [person(user) for user in users.search(text)]})
    return refusal(405, "notSupported", "not supported")
