"""Names of the things that a run creates on a server, so that leftovers of killed runs can be found and removed.

A run's id holds its start, its machine and its process. A name ``lr-…`` on a server thus identifies the run, and shows
on the run's machine whether its process is alive, without a register of runs.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import socket
import time
import uuid
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import psutil

PREFIX = "lr"
"""Prefix of every name."""

_FORM = re.compile(rf"{PREFIX}-(?P<began>[0-9a-z]{{6,8}})-(?P<machine>[0-9a-f]{{6}})-(?P<pid>[0-9a-z]+)-(?P<salt>\d\d)")


def machine_id() -> str:
    """Return six hexadecimal digits of this machine (or container): a digest of its host name and network address."""
    return hashlib.sha256(f"{socket.gethostname()} {uuid.getnode()}".encode()).hexdigest()[:6]


@dataclass(frozen=True)
class RunId:
    """Id of a run: ``began`` in whole seconds of the epoch, the machine's digest, the process, and two random digits.

    >>> run = RunId(began=1577836800, machine="0a1b2c", pid=4321, salt=7)
    >>> str(run)
    'lr-q3eio0-0a1b2c-3c1-07'
    >>> RunId.of("lr-q3eio0-0a1b2c-3c1-07-0-12") == run
    True
    >>> RunId.of("alice") is None
    True
    """

    BEGINNING: ClassVar[str] = f"{PREFIX}-"
    """Beginning of every name of every run."""

    began: int
    machine: str
    pid: int
    salt: int

    def __str__(self) -> str:
        began, pid = np.base_repr(self.began, 36), np.base_repr(self.pid, 36)
        return f"{PREFIX}-{began}-{self.machine}-{pid}-{self.salt:02d}".lower()

    @classmethod
    def new(cls, pid: int) -> RunId:
        """Return the id of a run that begins now in process ``pid`` of this machine."""
        return cls(int(time.time()), machine_id(), pid, secrets.randbelow(100))

    @classmethod
    def of(cls, name: str) -> RunId | None:
        """Return the run that made ``name``, None if no run did."""
        if (match := _FORM.match(name)) is None:
            return None
        return cls(int(match["began"], 36), match["machine"], int(match["pid"], 36), int(match["salt"]))

    @property
    def is_here(self) -> bool:
        """Origin of the run on this machine."""
        return self.machine == machine_id()

    def is_alive(self) -> bool:
        """Return True while the run's process exists; ValueError for a run of another machine.

        A process that began after the run is another one with the same number.
        """
        if not self.is_here:
            raise ValueError(f"run={self}: it began on another machine, and only that one can see its process")
        try:
            return psutil.Process(self.pid).create_time() <= self.began + 1
        except psutil.AccessDenied:
            return True
        except psutil.NoSuchProcess:
            return False
