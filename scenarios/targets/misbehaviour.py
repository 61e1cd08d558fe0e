"""What real WebDAV products did to a load test, as switches of the server that is here to be tried.

Each switch is given as ``name`` or ``name=value``; the value of a switch that says "one in" is a whole number, and 1
means each time.
"""

from __future__ import annotations

import threading
from collections import Counter

SWITCHES = {
    "create-locked": (1, "one in N creations makes the user and answers 500 'database is locked'"),
    "create-lies": (1, "one in N creations makes the user and answers 400, code 101"),
    "create-fails": (1, "one in N creations makes nothing and answers 500"),
    "delete-locked": (1, "the first N deletions of each user answer 500 'database is locked' and delete nothing"),
    "status-200": (1, "making and deleting users answers status 200 on failure too: only the body tells, as version 1"),
    "file-locked": (1, "one in N uploads answers 423"),
    "first-put-503": (1, "an upload before any other request of the same user answers 503"),
    "busy": (1, "one in N requests for files answers 503"),
    "limited": (1, "one in N requests for files answers 429"),
    "html": (1, "one in N downloads is an HTML page with status 200"),
    "cut": (1, "one in N downloads is another PDF than the one that was put there"),
    "quota": (2_000_000, "a home may hold N bytes; more answers 507"),
    "slow": (0.2, "every answer takes N seconds longer"),
    "slow-login": (0.3, "a request without the session's cookie takes N seconds longer (the password is hashed)"),
    "slow-delete": (1.0, "deleting a user takes N seconds longer"),
    "throttle": (10, "after N bad logins from an address every answer to it is 429"),
    "untrusted-host": (1, "every answer is 400: this host name is not a trusted domain"),
    "maintenance": (1, "every answer is 503"),
    "no-pdf": (1, "new homes are empty"),
    "no-provisioning": (1, "no OCS: a plain WebDAV server"),
    "graph": (1, "no OCS, but LibreGraph: users are made as on OpenCloud"),
}
"""Each switch with its value when none is given, and what it does."""


class Misbehaviour:
    """The switches that are on, and how often each has been asked."""

    def __init__(self, settings: list[str]) -> None:
        self.values: dict[str, float] = {}
        self._asked: Counter[str] = Counter()
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
        """Whether the switch is on."""
        return name in self.values

    def value(self, name: str, otherwise: float = 0) -> float:
        """The value of the switch."""
        return self.values.get(name, otherwise)

    def strikes(self, name: str) -> bool:
        """Count one case; whether it is one of those that go wrong (every N-th does)."""
        if name not in self.values:
            return False
        with self._lock:
            self._asked[name] += 1
            return self._asked[name] % int(self.values[name]) == 0

    def still(self, name: str, about: str) -> bool:
        """Count one case about a thing; whether it is among the first N of that thing."""
        if name not in self.values:
            return False
        with self._lock:
            self._asked[f"{name} {about}"] += 1
            return self._asked[f"{name} {about}"] <= self.values[name]
