"""Runs a command and ends it when the process that started it is gone, also after ``kill -9``.

``python guard.py SECONDS COMMAND...``. Standard input is a pipe from the parent that is never written to: its end means
that the parent is gone or wants the command to end. The command gets SIGTERM, so that its users can say goodbye, and
after SECONDS it is killed with everything that it started in its process group. The exit status is the command's.

This file is run by its path and imports nothing but the standard library, so that it starts in milliseconds.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading


def main(arguments: list[str]) -> int:
    """Run the command to its end or the parent's, whichever comes first."""
    patience, command = float(arguments[0]), arguments[1:]
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the parent's to answer, which then closes the pipe
    child = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, start_new_session=True, restore_signals=True, preexec_fn=_defaults
    )
    threading.Thread(target=_watch, args=(child.pid, patience), daemon=True).start()
    status = child.wait()
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)  # workers that outlived their master
    return status if status >= 0 else 128 - status


def _defaults() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def _watch(group: int, patience: float) -> None:
    while os.read(0, 4096):
        pass
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, number)
        threading.Event().wait(patience)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
