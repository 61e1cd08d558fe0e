"""Command-line options of ``webdav.py``."""

from __future__ import annotations

import argparse
from typing import Any

from webdav_accounts import OCS_HOME

from locust_realism.kit import POSITIVE, Option

OPERATIONS = ("get", "put", "list", "mkcol", "move", "delete", "put-large")
"""Operations of a user, by their names in ``--dav-weights``."""


def read_weights(text: str) -> list[str]:
    """Return the operations of ``get=3,put=1``, each as often as its weight."""
    chosen: list[str] = []
    for part in text.split(","):
        name, _, number = part.strip().partition("=")
        if name not in OPERATIONS or not number.isdecimal():
            raise argparse.ArgumentTypeError(f"{part!r} must be one of {', '.join(OPERATIONS)}, '=' and a whole number")
        chosen += [name] * int(number)
    if not chosen:
        raise argparse.ArgumentTypeError(f"{text!r} must hold at least one weight > 0")
    return chosen


def checked_weights(text: str) -> str:
    return text if read_weights(text) else ""


class ValueOrDead(argparse.Action):
    """Option with an optional value, ``dead`` by default."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given, nargs="?", const="dead")

    def __call__(
        self, parser: object, namespace: argparse.Namespace, values: object, option: str | None = None
    ) -> None:
        setattr(namespace, self.dest, values)


# fmt: off
OPTIONS = (
    Option("--dav-weights", "get=3,put=1", f"Weights of the operations {', '.join(OPERATIONS)}.", type=checked_weights),
    Option("--dav-arrivals", None, "Arrivals per second of users who leave after a session, in place of a number of "
           "users who stay.", type=POSITIVE, in_ui=False),
    Option("--dav-session", 60.0, "Mean session in seconds of such users.", type=POSITIVE, in_ui=False),
    Option("--dav-large-mb", 10.0, "Size of the large upload, in millions of bytes.", type=POSITIVE, in_ui=False),
    Option("--dav-provisioning", "auto", "Create an account for each user (ocs: ownCloud, Nextcloud; graph: "
           "OpenCloud), use given accounts (none), or detect it on the server (auto).",
           choices=("auto", "ocs", "graph", "none"), in_ui=False),
    Option("--dav-admin-user", None, "Administrator who creates and deletes the users.", in_ui=False),
    Option("--dav-admin-password", None, "Password of the administrator; better as LOCUST_DAV_ADMIN_PASSWORD, because "
           "other users of this machine can read a command line.", in_ui=False, is_secret=True),
    Option("--dav-user", None, "A given account; each user works in a folder of its own there.", in_ui=False),
    Option("--dav-password", None, "Password of the given account.", in_ui=False, is_secret=True),
    Option("--dav-accounts", None, "A file of given accounts, user:password in each line.", in_ui=False),
    Option("--dav-path", OCS_HOME, "Path of a user's files on the server; {user} is the name.", in_ui=False),
    Option("--dav-keep-cookies", True, "Keep the session's cookie, as browsers and sync clients do: the server then "
           "checks a password once and not at each request, which takes most servers longer than the file does.",
           action=argparse.BooleanOptionalAction, in_ui=False),
    Option("--dav-insecure", False, "Accept any TLS certificate.", action="store_true", in_ui=False),
    Option("--dav-cleanup", None, "Remove the leftovers of killed runs of this machine from the server, and end. With "
           "a run's id (see the log): those of that run. With 'all': those of all runs, running ones included.",
           action=ValueOrDead, in_ui=False),
)
# fmt: on
