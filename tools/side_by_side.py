"""Run commands at the same time and print the output of one after the other.

    python tools/side_by_side.py COMMAND... --- COMMAND... [--- COMMAND...]

The exit status is that of the first command that failed, 0 if none did. Tests that compute and tests that wait share
two cores this way. (pytest-xdist cannot run them: gevent's monkey patching stops its workers.)
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from itertools import groupby
from tempfile import TemporaryFile


def main(words: list[str]) -> int:
    """Run every command to its end."""
    commands = [list(part) for is_cut, part in groupby(words, lambda word: word == "---") if not is_cut]
    with ExitStack() as stack:
        outputs = [stack.enter_context(TemporaryFile("w+")) for _ in commands]
        running = [
            subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
            for command, output in zip(commands, outputs, strict=True)
        ]
        statuses = [process.wait() for process in running]
        for output in outputs:
            output.seek(0)
            sys.stdout.write(output.read())
    return next((status for status in statuses if status), 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
