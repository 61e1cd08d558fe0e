"""Preflight check of ``webdav.py``: host, credentials, provisioning, files.

It sends one request of each kind: after a few bad logins a server may lock out an address, the clean-up with it.
"""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from locust.env import Environment
from webdav_accounts import Settings
from webdav_provisioning import DONE, PROVISIONING
from webdav_requests import TIMEOUT_S, hrefs, reason, sending

from locust_realism.kit import embedded_host


class Refused(Exception):
    """Refusal of a test; the message is a sentence for the person at the keyboard."""


def settings_of(environment: Environment, host: str | None = None) -> Settings:
    """Return the settings, found by the master and sent to the workers, on any process of the run."""
    options: Any = environment.parsed_options
    host = (environment.host if host is None else host) or ""
    admin = (options.dav_admin_user or "", options.dav_admin_password or "")
    if host == embedded_host(environment):
        admin = tuple(options.dav_embedded_admin)
    return Settings(
        host=host.rstrip("/"),
        kind=options.dav_kind,
        run=getattr(options, "dav_run", ""),
        admin=admin,
        accounts=tuple((user, password) for user, password in options.dav_account_list),
        path=options.dav_path,
        verify=not options.dav_insecure,
    )


def check(
    environment: Environment, host: str, form: Mapping[str, str], read: Mapping[str, Callable[[str], Any]]
) -> str:
    """Return the reason to refuse a test, empty if there is none; ``read`` holds readers of the start form's fields."""
    options: Any = environment.parsed_options
    try:
        for field, reader in read.items():
            if field in form:
                _read(field, form[field], reader)
        _check_host(host)
        options.dav_account_list = given_accounts(options.dav_accounts, options.dav_user, options.dav_password)
        options.dav_kind = _kind(environment, host)
        if options.dav_kind == "none":
            _check_accounts(settings_of(environment, host), options.dav_provisioning)
    except Refused as refusal:
        return str(refusal)
    return ""


def _kind(environment: Environment, host: str) -> str:
    """Return the kind of provisioning: that of the options, else the first interface that answers."""
    options: Any = environment.parsed_options
    chosen = options.dav_provisioning
    options.dav_kind = "none"
    settings = settings_of(environment, host)
    if chosen == "none" or not settings.admin[0]:
        if chosen in PROVISIONING:
            raise Refused(f"--dav-provisioning {chosen} needs --dav-admin-user and --dav-admin-password.")
        return "none"
    for kind in PROVISIONING if chosen == "auto" else (chosen,):
        try:
            _check_provisioning(replace(settings, kind=kind))
        except NoProvisioning as refusal:
            why = refusal
        else:
            return kind
    if chosen != "auto" or not settings.accounts:
        raise why
    return "none"


def _read(field: str, text: str, reader: Callable[[str], Any]) -> None:
    try:
        reader(text)
    except (ValueError, ArgumentTypeError) as error:
        raise Refused(f"{field.replace('_', ' ')}: {error}") from None


def _check_host(host: str) -> None:
    if not host:
        raise Refused("There is no host to test: give --host.")
    where = urlsplit(host)
    if where.scheme not in ("http", "https") or not where.hostname:
        raise Refused(f"The host must be a URL like http://owncloud.example:8080, not {host!r}.")
    if where.username or where.password:
        raise Refused("The host must not hold credentials, which would be shown: use --dav-user or --dav-admin-user.")


def given_accounts(file: str | None, user: str | None, password: str | None) -> list[tuple[str, str]]:
    """Return the accounts of ``--dav-user`` and ``--dav-accounts`` (``user:password`` a line; ``#`` is a comment)."""
    accounts = [(user, password or "")] if user else []
    if file:
        try:
            lines = Path(file).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise Refused(f"The accounts in {file} cannot be read: {error}") from None
        for number, line in enumerate(lines, start=1):
            name, colon, word = line.strip().partition(":")
            if name and not name.startswith("#"):
                if not colon:
                    raise Refused(f"{file}, line {number}: each line must be user:password.")
                accounts.append((name, word))
    return accounts


class NoProvisioning(Refused):
    """Refusal of a server without an interface to create users."""


def _check_provisioning(settings: Settings) -> None:
    """Send one request to the provisioning interface as the administrator."""
    admin, host = settings.admin[0], settings.host
    assert settings.provisioning is not None
    reply = settings.provisioning.search(settings.session(settings.admin), "lr-", name="preflight")
    if reply.code in DONE:
        return
    if reply.code == 0:
        raise Refused(_unreachable(host, reply.message))
    if reply.code in (997, 401, -401):
        raise Refused(
            f"{host} refuses the administrator {admin!r}: check --dav-admin-user and --dav-admin-password. "
            "(One attempt only: after some bad logins servers lock out an address.)"
        )
    if reply.code in (403, -403):
        raise Refused(f"{host}: {admin!r} may not make users: give an administrator by --dav-admin-user.")
    if reply.code == -429:
        raise Refused(f"{host} answers 429: it has locked out this address for a while, as after bad logins. Wait.")
    if reply.code == -503:
        raise Refused(f"{host} answers 503: it is in maintenance mode, or overloaded.")
    if -400 < reply.code <= -300:
        raise Refused(f"{host} sends its visitors elsewhere ({reply.message}): give that address by --host.")
    if reply.code == -400:
        raise Refused(f"{host} answers 400: this host name may be missing in its list of trusted domains.")
    raise NoProvisioning(
        f"{host} has no user provisioning that this scenario supports ({reply.message}): give accounts by --dav-user "
        "or --dav-accounts, and --dav-provisioning none."
    )


def _check_accounts(settings: Settings, provisioning: str) -> None:
    """List the folder of the first given account."""
    if not settings.accounts:
        raise Refused(
            "Users come from an administrator (--dav-admin-user, --dav-admin-password) or are given (--dav-user, "
            f"--dav-password, or --dav-accounts): there is neither, and --dav-provisioning is {provisioning}."
        )
    user = settings.accounts[0][0]
    url = settings.home(user) + "/"
    client = settings.session(settings.accounts[0])
    with sending(client, "PROPFIND", url, "preflight", (207,), headers={"Depth": "0"}, timeout=TIMEOUT_S) as response:
        status, why, document = response.status_code, reason(response), response.content
    where = settings.host + url
    if status == 0:
        raise Refused(_unreachable(settings.host, why))
    if 300 <= status < 400:
        raise Refused(f"{where} sends its visitors elsewhere ({why}): give that address by --host.")
    if status in (401, 403):
        raise Refused(f"{where} refuses {user!r} ({why}): check the given accounts.")
    if status != 207:
        raise Refused(f"{where} is no WebDAV folder ({why}): check --host and --dav-path (now {settings.path}).")
    try:
        hrefs(document)
    except ValueError as error:
        raise Refused(f"{where} does not answer like WebDAV: {error}") from None


def _unreachable(host: str, why: str) -> str:
    hint = " (a certificate that nobody signed: --dav-insecure)" if "SSL" in why or "CERT" in why.upper() else ""
    return f"{host} cannot be reached: {why}{hint}."
