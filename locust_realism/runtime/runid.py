"""Names for what a run makes on a server, so that what is left behind is known for what it is.

A run's id holds when it began, on which machine and in which process: whoever finds ``lr-…`` on a server later can tell
whether the run that made it still lives, with no register of runs to keep.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import socket
import time
import uuid
from dataclasses import dataclass

import psutil

PREFIX = "lr"
"""What every name begins with."""

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_FORM = re.compile(rf"{PREFIX}-(?P<began>[0-9a-z]{{6,8}})-(?P<machine>[0-9a-f]{{6}})-(?P<pid>[0-9a-z]+)-(?P<salt>\d\d)")


def _base36(number: int) -> str:
    text = ""
    while number:
        number, digit = divmod(number, 36)
        text = _DIGITS[digit] + text
    return text or "0"


def machine_id() -> str:
    """Six hexadecimal digits of this machine (or container): a digest of its host name and network address."""
    return hashlib.sha256(f"{socket.gethostname()} {uuid.getnode()}".encode()).hexdigest()[:6]


@dataclass(frozen=True)
class RunId:
    """Which run: ``began`` in whole seconds of the epoch, the machine's digest, the process, and two digits of chance.

    >>> run = RunId(began=1577836800, machine="0a1b2c", pid=4321, salt=7)
    >>> str(run)
    'lr-q3eio0-0a1b2c-3c1-07'
    >>> RunId.of("lr-q3eio0-0a1b2c-3c1-07-0-12") == run
    True
    >>> RunId.of("alice") is None
    True
    """

    began: int
    machine: str
    pid: int
    salt: int

    def __str__(self) -> str:
        return f"{PREFIX}-{_base36(self.began)}-{self.machine}-{_base36(self.pid)}-{self.salt:02d}"

    @classmethod
    def new(cls, pid: int) -> RunId:
        """The id of a run that begins now in process ``pid`` of this machine."""
        return cls(int(time.time()), machine_id(), pid, secrets.randbelow(100))

    @classmethod
    def of(cls, name: str) -> RunId | None:
        """The run that made ``name``, or None if no run did."""
        match = _FORM.match(name)
        if match is None:
            return None
        return cls(int(match["began"], 36), match["machine"], int(match["pid"], 36), int(match["salt"]))

    @property
    def is_here(self) -> bool:
        """Whether the run began on this machine."""
        return self.machine == machine_id()

    def is_alive(self) -> bool:
        """Whether its process still runs; only this machine's runs can be asked.

        A process that began after the run is another one that was given the same number.
        """
        if not self.is_here:
            raise ValueError(f"run={self}: it began on another machine, where it cannot be asked from here")
        try:
            return psutil.Process(self.pid).create_time() <= self.began + 1
        except psutil.AccessDenied:
            return True
        except psutil.NoSuchProcess:
            return False
