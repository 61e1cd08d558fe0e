"""Log of a target's requests: when each reached this machine, by the kernel's clock.

A line a request, ``ARRIVAL_US TARGET``: microseconds since the epoch, and the path with its query. On Linux the kernel
stamps the packet (SO_TIMESTAMPNS), so that neither the server's waking nor its work is in the figure; elsewhere it is
the time after the read. A file is written once a second, off the request path.
"""

from __future__ import annotations

import io
import socket
import struct
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import gevent
import numpy as np
from gevent.pywsgi import WSGIHandler

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer
    from gevent.pywsgi import WSGIServer

    from locust_realism.recording.launches import Int64

SO_TIMESTAMPNS = 35 if sys.platform == "linux" else None
"""Socket option; Python has no name for it."""
_TIMESPEC = struct.Struct("@ll")
_WRITE_EVERY_S = 1.0


class ArrivalLog:
    """Open log; lines wait in memory until the next write or :meth:`close`."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w")
        self._lines: list[str] = []
        self._writer = gevent.spawn(self._write_often)

    def add(self, arrival_us: int, target: str) -> None:
        """Log a request."""
        self._lines.append(f"{arrival_us} {target}\n")

    def close(self) -> None:
        """Write the rest and close the file."""
        self._writer.kill()
        self._write()
        self._file.close()

    def _write(self) -> None:
        lines, self._lines = self._lines, []
        self._file.writelines(lines)
        self._file.flush()

    def _write_often(self) -> None:
        while True:
            gevent.sleep(_WRITE_EVERY_S)
            self._write()


def read_arrivals(path: Path) -> tuple[Int64, list[str]]:
    """Return the arrivals of a log in ascending microseconds since the epoch, and the target of each."""
    rows = sorted((int(us), target) for us, _, target in (row.partition(" ") for row in path.read_text().splitlines()))
    return np.array([us for us, _ in rows], dtype=np.int64), [target for _, target in rows]


def stamp_arrivals(listener: socket.socket) -> None:
    """Let the kernel stamp what reaches the connections of a listening socket."""
    if SO_TIMESTAMPNS is not None:
        listener.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)


class StampedReader(io.RawIOBase):
    """Bytes of a connection; ``arrival_us`` is the arrival of the first of them since it was last set to None."""

    def __init__(self, connection: socket.socket) -> None:
        super().__init__()
        self._connection = connection
        self.arrival_us: int | None = None

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Read what is there, blocking the greenlet until something is."""
        read, ancillary, *_ = self._connection.recvmsg_into([buffer], socket.CMSG_SPACE(_TIMESPEC.size))
        if self.arrival_us is None:
            self.arrival_us = time.time_ns() // 1000
            for level, kind, data in ancillary:
                if (level, kind) == (socket.SOL_SOCKET, SO_TIMESTAMPNS):
                    seconds, ns = _TIMESPEC.unpack(data)
                    self.arrival_us = seconds * 1_000_000 + ns // 1000
        return read


class LoggingHandler(WSGIHandler):
    """Connection of a server that logs its requests."""

    def __init__(self, connection: socket.socket, address: str, server: WSGIServer, *, log: ArrivalLog) -> None:
        super().__init__(connection, address, server)
        self._reader, self._log = StampedReader(connection), log
        self.rfile = io.BufferedReader(self._reader)

    def read_requestline(self) -> str:
        """Read the first line of the next request."""
        self._reader.arrival_us = None
        return super().read_requestline()

    def handle_one_response(self) -> None:
        """Log the request and answer it."""
        # A pipelined request came with the read of the one before.
        self._log.add(self._reader.arrival_us or time.time_ns() // 1000, self.path or "")
        super().handle_one_response()
