"""WebDAV server that behaves like ownCloud and Nextcloud, to try the scenario ``webdav.py`` without either.

    python scenarios/targets/webdav_server.py --port 8080

It is for trying, not for measuring a server: its figures do not apply to ownCloud, Nextcloud or your server. It is
WsgiDAV on cheroot behind user provisioning (``/ocs/v1.php`` and ``/ocs/v2.php``), with a PDF in each new home, a
session cookie for each user, and homes that only their owner can open. All files are in a temporary folder, which the
server deletes at its end. ``--misbehave`` adds faults of real servers.
"""

from __future__ import annotations

import argparse
import base64
import binascii
import os
import secrets
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote, urlsplit

import graph_users
import ocs_users
from misbehaviour import SWITCHES, Misbehaviour

try:
    from cheroot import wsgi
    from cheroot.ssl.builtin import BuiltinSSLAdapter
    from wsgidav.wsgidav_app import WsgiDAVApp
except ImportError as missing:
    sys.exit(f"{missing}. The server needs WsgiDAV and cheroot: pip install '.[webdav]'")

from locust_realism.kit import sample_pdf
from locust_realism.targets import announce

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

FILES = "/remote.php/dav/files"
PDF_NAME = "ownCloud Manual.pdf"
COOKIE = "oc_session"
HTML = b"<!DOCTYPE html><html><head><title>Log in</title></head><body>Please log in.</body></html>"


class Cloud:
    """WSGI application: logs users in, provisions them, and passes requests for their files to WsgiDAV."""

    def __init__(self, root: Path, wrong: Misbehaviour, admin: tuple[str, str], accounts: list[str], pdf_size: int):
        self.wrong = wrong
        self.homes = root / "files"
        self.homes.mkdir()
        self.manual = root / "manual.pdf"
        self.manual.write_bytes(sample_pdf(pdf_size))
        self.users = ocs_users.Users(self._make_home, self._remove_home)
        self.users.add(*admin, admin=True)
        for account in accounts:
            self.users.add(*account.split(":", 1))
        self.bad_logins: Counter[str] = Counter()
        self.seen: set[str] = set()
        self.being_written: set[str] = set()
        self.lock = threading.Lock()
        anonymous = {"user_mapping": {"*": True}}  # this class decides who may do what
        share = {"provider_mapping": {FILES: str(self.homes)}, "simple_dc": anonymous, "verbose": 1}
        self.dav = WsgiDAVApp({**share, "logging": {"enable": False}, "dir_browser": {"enable": False}})

    def _make_home(self, name: str) -> None:
        home = self.homes / name
        home.mkdir(exist_ok=True)
        if not self.wrong.on("no-pdf"):
            # one file for all homes: creating a user writes no data, whatever the size; see _unshare
            os.link(self.manual, home / PDF_NAME)

    def _remove_home(self, name: str) -> None:
        shutil.rmtree(self.homes / name, ignore_errors=True)

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        def reply(status: str, kind: str, body: bytes, *headers: tuple[str, str]) -> Iterable[bytes]:
            start_response(status, [("Content-Type", kind), ("Content-Length", str(len(body))), *headers])
            return [body]

        path, address = environ["PATH_INFO"], environ.get("REMOTE_ADDR", "")
        time.sleep(self.wrong.value("slow"))
        if self.wrong.on("maintenance"):
            return reply("503 Service Unavailable", "text/plain", b"Maintenance mode")
        if self.wrong.on("untrusted-host"):
            return reply("400 Bad Request", "text/html", b"<p>Access through untrusted domain</p>")
        if self.bad_logins[address] > self.wrong.value("throttle", float("inf")):
            return reply("429 Too Many Requests", "text/plain", b"Too many failed logins")
        if path.rstrip("/") == "/status.php":
            return reply("200 OK", "application/json", b'{"installed":true,"productname":"a server for trying"}')
        provisioning = self._is_provisioning(path)
        if not provisioning and not (path + "/").startswith(FILES + "/"):
            return reply("404 Not Found", "text/plain", b"Not found")
        user, cookie = self._who(environ)
        if user is None:
            if environ.get("HTTP_AUTHORIZATION"):
                self.bad_logins[address] += 1
            if provisioning and not self.wrong.on("graph"):
                return reply(*ocs_users.answer(path, environ["QUERY_STRING"], ocs_users.UNAUTHORISED, "Unauthorised"))
            challenge = ("WWW-Authenticate", 'Basic realm="files"')
            return reply("401 Unauthorized", "text/plain", b"Log in first", challenge)
        if provisioning:
            status, kind, body = self._provision(environ, path, user)
            return reply("200 OK" if self.wrong.on("status-200") else status, kind, body)
        refusal = self._refusal(environ, path, user)
        if refusal is not None:
            return reply(refusal[0], "text/plain", refusal[1])
        if environ["REQUEST_METHOD"] == "GET" and self.wrong.strikes("html"):
            return reply("200 OK", "text/html", HTML)
        if environ["REQUEST_METHOD"] == "GET" and self.wrong.strikes("cut"):
            return reply("200 OK", "application/pdf", sample_pdf(900))
        return self._files(environ, start_response, path, user, cookie)

    def _who(self, environ: WSGIEnvironment) -> tuple[str | None, str | None]:
        """Return the user of a request, and the cookie to set if there is no session yet.

        A session's cookie precedes the password, as on the real servers: an administrator with a user's cookie is that
        user, and is refused.
        """
        try:
            morsel = SimpleCookie(environ.get("HTTP_COOKIE", "")).get(COOKIE)
        except CookieError:
            morsel = None
        if morsel is not None and morsel.value in self.users.sessions:
            return self.users.sessions[morsel.value], None
        scheme, _, word = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
        try:
            name, _, password = base64.b64decode(word, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return None, None
        if scheme.lower() != "basic" or not self.users.login(name, password):
            return None, None
        time.sleep(self.wrong.value("slow-login"))
        return name, self.users.open_session(name)

    def _is_provisioning(self, path: str) -> bool:
        """Return True for a path of this server's provisioning interface."""
        if self.wrong.on("no-provisioning"):
            return False
        return (graph_users if self.wrong.on("graph") else ocs_users).PATH.fullmatch(path) is not None

    def _provision(self, environ: WSGIEnvironment, path: str, user: str) -> tuple[str, str, bytes]:
        """Answer a request to the provisioning interface."""
        query, method = environ["QUERY_STRING"], environ["REQUEST_METHOD"]
        form = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        if self.wrong.on("graph"):
            if user not in self.users.admins:
                return graph_users.refusal(403, "accessDenied", "Only an administrator may do this")
            with self.lock:
                return graph_users.serve(self.users, method, path, query, form)
        if environ.get("HTTP_OCS_APIREQUEST", "").lower() != "true":
            return ocs_users.answer(path, query, ocs_users.NO_HEADER, "CSRF check failed")
        if user not in self.users.admins:
            return ocs_users.answer(path, query, ocs_users.FORBIDDEN, "Only an administrator may do this")
        if method == "POST" and self.wrong.strikes("create-fails"):
            return ocs_users.answer(path, query, ocs_users.SERVER_ERROR, "Internal server error")
        if method == "DELETE":
            time.sleep(self.wrong.value("slow-delete"))
            if self.wrong.still("delete-locked", path.rpartition("/")[2]):
                return ocs_users.answer(path, query, ocs_users.SERVER_ERROR, "database is locked")
        with self.lock:
            code, message, data = ocs_users.serve(self.users, method, path, query, form)
        if method == "POST" and code == ocs_users.OK:
            locked, lies = self.wrong.strikes("create-locked"), self.wrong.strikes("create-lies")
            if locked:
                code, message, data = ocs_users.SERVER_ERROR, "database is locked", None
            elif lies:
                code, message, data = ocs_users.INVALID, "Bad request", None
        return ocs_users.answer(path, query, code, message, data)

    def _refusal(self, environ: WSGIEnvironment, path: str, user: str) -> tuple[str, bytes] | None:
        """Return the answer that refuses this user's request for a path, None if it is allowed."""
        method = environ["REQUEST_METHOD"]
        if self.wrong.strikes("busy"):
            return "503 Service Unavailable", b"Busy"
        if self.wrong.strikes("limited"):
            return "429 Too Many Requests", b"Slow down"
        target = unquote(urlsplit(environ.get("HTTP_DESTINATION", "")).path)
        for place in filter(None, (path, target)):
            parts = place.removeprefix(FILES).strip("/").split("/")
            if not place.startswith(FILES) or parts[0] != user or ".." in parts:
                return "403 Forbidden", b"This is somebody else's"
        first = user not in self.seen
        self.seen.add(user)
        if method != "PUT":
            return None
        if first and self.wrong.on("first-put-503"):
            return "503 Service Unavailable", b"The home is not ready"
        if self.wrong.strikes("file-locked"):
            return "423 Locked", b"The file is locked"
        if self.wrong.on("quota"):
            used = sum(file.stat().st_size for file in (self.homes / user).rglob("*") if file.is_file())
            if used + int(environ.get("CONTENT_LENGTH") or 0) > self.wrong.value("quota"):
                return "507 Insufficient Storage", b"Over quota"
        return None

    def _files(
        self, environ: WSGIEnvironment, start_response: StartResponse, path: str, user: str, cookie: str | None
    ) -> Iterable[bytes]:
        """Pass the request to WsgiDAV, one writer at a time to a file, and set the session's cookie."""

        def start(status: str, headers: list[tuple[str, str]], *more: Any) -> Any:
            given = [("Set-Cookie", f"{COOKIE}={cookie}; Path=/; HttpOnly")] if cookie else []
            return start_response(status, [*headers, *given], *more)

        if environ["REQUEST_METHOD"] != "PUT":
            answered: Iterable[bytes] = self.dav(environ, start)
            return answered
        with self.lock:
            taken = path in self.being_written
            self.being_written.add(path)
        if taken:
            start("423 Locked", [("Content-Type", "text/plain"), ("Content-Length", "0")])
            return []
        try:
            self._unshare(self.homes / path.removeprefix(FILES).strip("/"))
            return list(self.dav(environ, start))  # read to the end: WsgiDAV writes during the iteration
        finally:
            self.being_written.discard(path)

    def _unshare(self, file: Path) -> None:
        """Separate a home's PDF from those of the other homes before it is overwritten."""
        if file.is_file() and file.stat().st_nlink > 1:
            file.unlink()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=0, help="port to listen on (default: a free one)")
    parser.add_argument("--admin", default="admin", help="name of the administrator (default: %(default)s)")
    parser.add_argument(
        "--admin-password",
        default=os.environ.get("WEBDAV_ADMIN_PASSWORD"),
        help="password of the administrator (also by WEBDAV_ADMIN_PASSWORD; default: drawn, and printed)",
    )
    parser.add_argument("--account", action="append", default=[], metavar="USER:PASSWORD", help="a user from the start")
    parser.add_argument("--certificate", help="serve TLS with the certificate and the key in this file")
    parser.add_argument("--pdf-size", type=int, default=1_000_000, help="bytes of the PDF (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=30, help="requests served at once (default: %(default)s)")
    kinds = "; ".join(f"{name} ({usual}): {what}" for name, (usual, what) in SWITCHES.items())
    parser.add_argument("--misbehave", action="append", default=[], metavar="NAME[=N]", help=kinds.replace("%", "%%"))
    return parser.parse_args()


def main() -> None:
    options = arguments()
    try:
        wrong = Misbehaviour(options.misbehave)
    except ValueError as error:
        sys.exit(str(error))
    password = options.admin_password or secrets.token_urlsafe(12)
    with tempfile.TemporaryDirectory(prefix="webdav-server-") as folder:
        cloud = Cloud(Path(folder), wrong, (options.admin, password), options.account, options.pdf_size)
        # a keep-alive longer than think times: a server that closes idle connections fails a request now and then
        server = wsgi.Server(
            (options.host, options.port),
            cloud,
            numthreads=options.threads,
            request_queue_size=512,
            # the accepting thread negotiates TLS: a client that ends in the middle would block all others
            timeout=10 if options.certificate else 120,
            shutdown_timeout=cast("Any", 0.2),  # annotated as int
        )
        if options.certificate:
            server.ssl_adapter = BuiltinSSLAdapter(options.certificate, options.certificate)
        server.prepare()
        signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.stop).start())
        url = f"http{'s' if options.certificate else ''}://{options.host}:{server.bind_addr[1]}"
        if sys.stdout.isatty():
            print(f"A WebDAV server for trying, not for measuring a server, at {url}", file=sys.stderr, flush=True)
        announce(url, admin_user=options.admin, admin_password=password, folder=folder)
        try:
            server.serve()
        except KeyboardInterrupt:
            server.stop()


if __name__ == "__main__":
    main()
