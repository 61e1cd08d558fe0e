"""Supervision of child processes: a child ends with its parent, also after ``kill -9`` of the parent.

:func:`start` runs a command under a supervisor, which is this file in an interpreter of its own. The parent holds a
pipe to the supervisor open and never writes. At the end of the pipe the supervisor sends SIGTERM to the command's
process group, and SIGKILL some seconds later; its exit status is the command's. :func:`end` closes the pipe and waits.

A server under supervision sends its address to the parent by :func:`announce`.

Only the standard library is imported: the supervisor starts in milliseconds, and a server stays without gevent's
sockets.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

READY = "embedded-target-ready "
"""Prefix of the line that announces a server; a JSON object follows."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def start(
    command: Sequence[str],
    grace_s: float,
    *,
    stdout: IO[bytes] | int | None = None,
    stderr: int | None = None,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    keep_fds: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start a command under a supervisor in a session of its own, so that a Ctrl-C in the terminal reaches neither.

    The command has ``grace_s`` seconds between SIGTERM and SIGKILL. The supervisor keeps ``keep_fds`` open for its
    lifetime.
    """
    # isolated: the folder of this file holds a json.py, which must not hide that of the standard library
    supervised = [sys.executable, "-I", "-S", __file__, f"{grace_s:g}", *command]
    return subprocess.Popen(
        supervised, stdin=subprocess.PIPE, stdout=stdout, stderr=stderr, cwd=cwd, env=env, start_new_session=True,
        pass_fds=tuple(keep_fds),
    )  # fmt: skip


def end(supervisor: subprocess.Popen[bytes], grace_s: float) -> None:
    """End what :func:`start` started, with the same ``grace_s``, and wait; kill a supervisor that hangs."""
    assert supervisor.stdin is not None
    supervisor.stdin.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        supervisor.wait(2 * grace_s + 5)
    supervisor.kill()  # without effect on a supervisor that has ended
    supervisor.wait()


def announce(url: str, **details: object) -> None:
    """Send the server's address and JSON-able ``details`` to the parent on standard output, then give that up.

    Only the parent reads the details, such as an administrator's password. Later output is discarded: nobody reads the
    pipe any more, and a full pipe would block the server.
    """
    print(READY + json.dumps({"url": url, "pid": os.getpid(), **details}), flush=True)
    with Path(os.devnull).open("w") as null:
        os.dup2(null.fileno(), sys.stdout.fileno())


def main(arguments: list[str]) -> int:
    """Run the command to its end or to the parent's, whichever comes first."""
    grace_s, command = float(arguments[0]), arguments[1:]
    _handle_signals(signal.SIG_IGN)  # the parent handles them and closes the pipe
    child = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=lambda: _handle_signals(signal.SIG_DFL)
    )
    threading.Thread(target=_end_with_parent, args=(child.pid, grace_s), daemon=True).start()
    status = child.wait()
    _signal_group(child.pid, signal.SIGKILL)  # workers that outlived their master
    return status if status >= 0 else 128 - status


def _handle_signals(handler: signal.Handlers) -> None:
    for number in _SIGNALS:
        signal.signal(number, handler)


def _end_with_parent(group: int, grace_s: float) -> None:
    while os.read(0, 4096):
        pass
    for number in (signal.SIGTERM, signal.SIGKILL):
        _signal_group(group, number)
        threading.Event().wait(grace_s)


def _signal_group(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
