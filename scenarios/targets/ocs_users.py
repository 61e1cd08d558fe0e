"""User provisioning of ownCloud and Nextcloud ("OCS"), with the rules of the stricter of the two.

As observed on real servers, Nextcloud refuses a request without the header ``OCS-APIRequest``
(412), a password of fewer than ten characters or the user's own name (400, code 107) and a name that is taken (400,
code 102); a missing user is 404, code 998. Version 1 of the interface answers 200 on failure too; only the body shows
the failure.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Iterator
from http import HTTPStatus
from itertools import islice
from urllib.parse import parse_qs, unquote
from xml.sax.saxutils import escape

MIN_PASSWORD = 10
OK, INVALID, EXISTS, WEAK_PASSWORD = 100, 101, 102, 107
UNAUTHORISED, NOT_FOUND, FORBIDDEN, NO_HEADER, SERVER_ERROR = 997, 998, 403, 412, 996
HTTP_OF_CODE = {
    OK: 200,
    INVALID: 400,
    EXISTS: 400,
    WEAK_PASSWORD: 400,
    UNAUTHORISED: 401,
    NOT_FOUND: 404,
    FORBIDDEN: 403,
    NO_HEADER: 412,
    SERVER_ERROR: 500,
}
PATH = re.compile(r"/ocs/v(?P<version>[12])\.php/cloud/users(?:/(?P<user>[^/]+))?/?")
USER_NAME = re.compile(r"[a-zA-Z0-9_.@'-]{1,64}")


class Users:
    """Accounts, passwords and sessions; each new name calls ``made``, each deleted one ``gone``."""

    def __init__(self, made: Callable[[str], None], gone: Callable[[str], None]) -> None:
        self.passwords: dict[str, str] = {}
        self.sessions: dict[str, str] = {}
        self.admins: set[str] = set()
        self._made, self._gone = made, gone

    def add(self, name: str, password: str, *, admin: bool = False) -> None:
        """Create the account without checking the rules."""
        self.passwords[name] = password
        if admin:
            self.admins.add(name)
        self._made(name)

    def create(self, name: str, password: str) -> tuple[int, str]:
        """Create the account if the rules allow it; return the code and the message of the answer."""
        if not USER_NAME.fullmatch(name):
            return INVALID, "Only these characters are allowed in a user name: a-z A-Z 0-9 _ . @ - '"
        if name in self.passwords:
            return EXISTS, "User already exists"
        if len(password) < MIN_PASSWORD or password == name:
            return WEAK_PASSWORD, f"Password needs at least {MIN_PASSWORD} characters and must not be the user name"
        self.add(name, password)
        return OK, "OK"

    def delete(self, name: str) -> tuple[int, str]:
        """Remove the account and its files; return the code and the message of the answer."""
        if name not in self.passwords:
            return NOT_FOUND, "User does not exist"
        if name in self.admins:
            return INVALID, "The administrator cannot be removed"
        del self.passwords[name]
        self.sessions = {token: user for token, user in self.sessions.items() if user != name}
        self._gone(name)
        return OK, "OK"

    def search(self, text: str) -> Iterator[str]:
        """Yield the names that contain ``text``, in order."""
        return (name for name in sorted(self.passwords) if text.lower() in name.lower())

    def login(self, name: str, password: str) -> bool:
        """Return True if the password is the user's."""
        known = self.passwords.get(name)
        return known is not None and secrets.compare_digest(known.encode(), password.encode())

    def open_session(self, name: str) -> str:
        """Open a session and return the value of its cookie."""
        token = secrets.token_urlsafe(16)
        self.sessions[token] = name
        return token


def answer(path: str, query: str, code: int, message: str, data: object = None) -> tuple[str, str, bytes]:
    """Return status line, content type and body of an answer, by the interface's version and ``format``."""
    match = PATH.match(path)
    first_version = match is not None and match["version"] == "1"
    status = HTTPStatus(200 if first_version and code != UNAUTHORISED else HTTP_OF_CODE[code])
    shown = 200 if code == OK and not first_version else code
    meta = {"status": "ok" if code == OK else "failure", "statuscode": shown, "message": message}
    if parse_qs(query).get("format") == ["json"]:
        kind, text = "application/json; charset=utf-8", json.dumps({"ocs": {"meta": meta, "data": data or []}})
    else:
        body = "".join(f"<{key}>{escape(str(value))}</{key}>" for key, value in meta.items())
        names = data["users"] if isinstance(data, dict) and "users" in data else []
        inner = "<users>" + "".join(f"<element>{escape(name)}</element>" for name in names) + "</users>"
        kind = "text/xml; charset=utf-8"
        text = f'<?xml version="1.0"?><ocs><meta>{body}</meta><data>{inner if names else ""}</data></ocs>'
    return f"{status.value} {status.phrase}", kind, text.encode()


def serve(users: Users, method: str, path: str, query: str, form: bytes) -> tuple[int, str, object]:
    """Carry out a request of an administrator; return code, message and data of the answer."""
    match = PATH.fullmatch(path)
    assert match is not None, path
    name = unquote(match["user"]) if match["user"] else None
    fields = {key: values[0] for key, values in parse_qs(form.decode("utf-8", "replace")).items()}
    if method == "POST" and name is None:
        userid = fields.get("userid", "")
        code, message = users.create(userid, fields.get("password", ""))
        return code, message, {"id": userid} if code == OK else None
    if method == "DELETE" and name is not None:
        return *users.delete(name), None
    if method == "GET" and name is not None:
        known = name in users.passwords
        return (OK, "OK", {"id": name, "enabled": True}) if known else (NOT_FOUND, "User does not exist", None)
    if method == "GET":
        asked = {key: values[0] for key, values in parse_qs(query).items()}
        first = int(asked.get("offset") or 0)
        last = first + int(asked["limit"]) if asked.get("limit") else None
        return OK, "OK", {"users": list(islice(users.search(asked.get("search", "")), first, last))}
    return NOT_FOUND, "Invalid query", None
