"""Faults of real WebDAV products, as switches of the trial server.

A switch is ``name`` or ``name=value``; the value of a "one in N" switch is a whole number, and 1 means each time.
"""

from __future__ import annotations

import threading
from collections import Counter

SWITCHES = {
    "create-locked": (1, "one in N creations creates the user and answers 500 'database is locked'"),
    "create-lies": (1, "one in N creations creates the user and answers 400, code 101"),
    "create-fails": (1, "one in N creations creates nothing and answers 500"),
    "delete-locked": (1, "the first N deletions of each user answer 500 'database is locked' and delete nothing"),
    "status-200": (1, "answers about users have status 200 on failure too, as in version 1: only the body shows it"),
    "file-locked": (1, "one in N uploads answers 423"),
    "first-put-503": (1, "an upload before any other request of the same user answers 503"),
    "busy": (1, "one in N requests for files answers 503"),
    "limited": (1, "one in N requests for files answers 429"),
    "html": (1, "one in N downloads is an HTML page with status 200"),
    "cut": (1, "one in N downloads is another PDF than the stored one"),
    "quota": (2_000_000, "a home may hold N bytes; more answers 507"),
    "slow": (0.2, "every answer takes N seconds longer"),
    "slow-login": (0.3, "a request without the session's cookie takes N seconds longer (the password is hashed)"),
    "slow-delete": (1.0, "deleting a user takes N seconds longer"),
    "throttle": (10, "after N bad logins from an address every answer to it is 429"),
    "untrusted-host": (1, "every answer is 400: this host name is not a trusted domain"),
    "maintenance": (1, "every answer is 503"),
    "no-pdf": (1, "new homes are empty"),
    "no-provisioning": (1, "no OCS: a plain WebDAV server"),
    "graph": (1, "no OCS, but LibreGraph, as OpenCloud"),
}
"""Switches, each with its default value and its effect."""


class Misbehaviour:
    """Switches that are on, with the cases counted so far."""

    def __init__(self, settings: list[str]) -> None:
        self.values: dict[str, float] = {}
        self._cases: Counter[str] = Counter()
        self._lock = threading.Lock()
        for setting in settings:
            name, given, text = setting.partition("=")
            if name not in SWITCHES:
                raise ValueError(f"misbehave={setting!r}: not one of {', '.join(SWITCHES)}")
            usual = SWITCHES[name][0]
            try:
                value = type(usual)(text) if given else usual
            except ValueError:
                value = -1
            if value <= 0:
                raise ValueError(f"misbehave={setting!r}: the value must be a {type(usual).__name__} > 0")
            self.values[name] = value

    def on(self, name: str) -> bool:
        """Return True if the switch is on."""
        return name in self.values

    def value(self, name: str, otherwise: float = 0) -> float:
        """Return the value of the switch, ``otherwise`` if it is off."""
        return self.values.get(name, otherwise)

    def strikes(self, name: str) -> bool:
        """Count a case and return True if it goes wrong, as every N-th does."""
        if name not in self.values:
            return False
        with self._lock:
            self._cases[name] += 1
            return self._cases[name] % int(self.values[name]) == 0

    def still(self, name: str, about: str) -> bool:
        """Count a case of one thing and return True if it is among its first N."""
        if name not in self.values:
            return False
        with self._lock:
            self._cases[f"{name} {about}"] += 1
            return self._cases[f"{name} {about}"] <= self.values[name]
