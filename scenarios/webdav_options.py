"""The options of ``webdav.py``."""

from __future__ import annotations

import argparse
from typing import Any

from webdav_accounts import OCS_HOME

from locust_realism.runtime.options import Option
from locust_realism.runtime.scenario_options import POSITIVE

OPERATIONS = ("get", "put", "list", "mkcol", "move", "delete", "put-large")
"""What users can do, as ``--dav-weights`` calls it."""


def read_weights(text: str) -> list[str]:
    """The operations of ``get=3,put=1``, each as often as its weight."""
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


class ValueOrDead(argparse._StoreAction):
    """An option whose value may be left out."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given, nargs="?", const="dead")


# fmt: off
OPTIONS = (
    Option("--dav-weights", "get=3,put=1", f"How often users do what: {', '.join(OPERATIONS)}.", type=checked_weights),
    Option("--dav-arrivals", None, "Have people come by themselves, so many a second, and leave after a session, not "
           "a number of users who stay.", type=POSITIVE, in_ui=False),
    Option("--dav-session", 60.0, "Mean time in seconds that they stay.", type=POSITIVE, in_ui=False),
    Option("--dav-large-mb", 10.0, "Size of the large upload, in millions of bytes.", type=POSITIVE, in_ui=False),
    Option("--dav-provisioning", "auto", "Make a user account for each user (ocs: ownCloud, Nextcloud; graph: "
           "OpenCloud), use given accounts (none), or ask the server which it is (auto).",
           choices=("auto", "ocs", "graph", "none"), in_ui=False),
    Option("--dav-admin-user", None, "Who makes and deletes the users.", in_ui=False),
    Option("--dav-admin-password", None, "The administrator's password; better as LOCUST_DAV_ADMIN_PASSWORD, because "
           "others on this machine see a command line.", in_ui=False, is_secret=True),
    Option("--dav-user", None, "A given account; each user works in a folder of its own there.", in_ui=False),
    Option("--dav-password", None, "Its password.", in_ui=False, is_secret=True),
    Option("--dav-accounts", None, "A file of given accounts, user:password in each line.", in_ui=False),
    Option("--dav-path", OCS_HOME, "Path of a user's files on the server; {user} is the name.", in_ui=False),
    Option("--dav-keep-cookies", True, "Keep the session's cookie, as browsers and sync clients do: the server then "
           "checks a password once and not at each request, which costs most servers more than the file does.",
           action=argparse.BooleanOptionalAction, in_ui=False),
    Option("--dav-insecure", False, "Accept any TLS certificate.", action="store_true", in_ui=False),
    Option("--dav-cleanup", None, "Remove what killed runs of this machine left on the server, and end. With a run's "
           "id (see the log): what that run left. With 'all': what any run left, or is using.",
           action=ValueOrDead, in_ui=False),
)
# fmt: on
