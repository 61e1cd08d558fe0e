"""The child's side of an embedded target: say where it listens, and end when the parent ends.

A target is a server of its own in a process of its own (in Locust's process it would share the interpreter with the
users and slow them down). This module is imported by that process, so it imports neither Locust nor gevent, which
would replace the sockets of the server that is being tried.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

END_WITH_PARENT = "--end-with-parent"
"""The flag with which :mod:`locust_realism.runtime.embedded` starts a target."""

READY = "embedded-target-ready "
"""What the line of the handshake begins with; a JSON object follows."""


def announce(url: str, **details: Any) -> None:
    """Tell the parent on standard output that requests are answered at ``url``, then give up standard output.

    ``details`` are passed on as they are (they must be JSON-able), for instance the password of an administrator, which
    this way is seen by the parent alone. Whatever the server prints later goes nowhere: nobody reads the pipe any more,
    and a full pipe would stop the server.
    """
    print(READY + json.dumps({"url": url, "pid": os.getpid(), **details}), flush=True)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


def end_with_parent(stop: Callable[[], None], *, patience: float = 3.0) -> None:
    """Call ``stop`` once standard input ends, which it does when the parent is gone, also after ``kill -9``.

    The parent keeps the other end of the pipe open and never writes. ``stop`` runs in a thread of its own; a process
    that is still there ``patience`` seconds later ends the hard way. SIGINT is ignored, because a Ctrl-C in the
    terminal is the parent's to answer: the users that it deletes at its end still need the server.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while sys.stdin.buffer.read(4096):
            pass
        last_resort = threading.Timer(patience, os._exit, args=(1,))
        last_resort.daemon = True
        last_resort.start()
        stop()

    threading.Thread(target=watch, name="end-with-parent", daemon=True).start()
