"""How a sweep goes, on standard error: a bar with the remaining time on a terminal, a line a run elsewhere."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from typing import TextIO

from locust_realism.experiments.plan import Cell
from locust_realism.report.text import clean, fit

OVERHEAD_S = 4.0
"""What a run takes beyond its planned time, until one has been measured."""
WIDTH = 30


def clock(seconds: float) -> str:
    """A time to go in words.

    >>> clock(8), clock(100), clock(4000), clock(200_000)
    ('8 s', '1 min 40 s', '1 h 6 min', '2 d 7 h')
    """
    whole = int(seconds + 0.999)
    for size, unit, part, part_unit in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // part} {part_unit}"
    return f"{whole} s"


class SweepProgress:
    """A :class:`locust_realism.experiments.runner.Watcher` that writes to a stream."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = sys.stderr if stream is None else stream
        self.live = self.stream.isatty()
        self.total = self.done = self.measured = 0
        self.overhead_s = OVERHEAD_S
        self.ahead: list[float] = []

    def waiting(self) -> None:
        """Another sweep uses the directory."""
        self._line("waiting for another sweep in this directory, or for what is left of one, to end")

    def begin(self, seconds: Sequence[float], done: int) -> None:
        """The sweep starts."""
        self.ahead, self.done, self.total = list(seconds), done, done + len(seconds)
        if done:
            self._line(f"{done} of {self.total} runs are done already")

    @contextlib.contextmanager
    def run(self, cell: Cell, seconds: float) -> Iterator[None]:
        """Show the run while it goes on."""
        began, ended = time.monotonic(), threading.Event()
        ticker = threading.Thread(target=self._tick, args=(cell, seconds, began, ended), daemon=True)
        if self.live:
            ticker.start()
        else:
            self._line(f"[{self.done + 1}/{self.total}] {cell.words} (about {clock(self.left(seconds, 0))} to go)")
        try:
            yield
        finally:
            ended.set()
            if self.live:
                ticker.join()
                self._clear()
        took = time.monotonic() - began - seconds
        self.measured += 1
        self.overhead_s += (max(took, 0.0) - self.overhead_s) / self.measured
        self.ahead, self.done = self.ahead[1:], self.done + 1

    def failed(self, cell: Cell, reason: str) -> None:
        """Tell of a run without figures."""
        self._line(f"no figures of {cell.words}: {reason}")

    def left(self, seconds: float, passed: float) -> float:
        """Seconds to go, of which the run that goes on has been at it for ``passed``."""
        rest = sum(self.ahead[1:]) + self.overhead_s * len(self.ahead[1:])
        return max(seconds + self.overhead_s - passed, 1.0) + rest

    def bar(self, cell: Cell, seconds: float, passed: float) -> str:
        """The line of the terminal while a run goes on."""
        share = min(passed / max(seconds + self.overhead_s, 1.0), 0.99)
        part = (self.done + share) / max(self.total, 1)
        left = clock(self.left(seconds, passed))
        head = f"[{'#' * int(WIDTH * part):{WIDTH}}] {self.done + 1}/{self.total}, {left} to go"
        return fit(clean(f"{head}: {cell.words}"), 110)

    def _tick(self, cell: Cell, seconds: float, began: float, ended: threading.Event) -> None:
        while True:
            self.stream.write("\r\x1b[2K" + self.bar(cell, seconds, time.monotonic() - began))
            self.stream.flush()
            if ended.wait(0.5):
                return

    def _clear(self) -> None:
        self.stream.write("\r\x1b[2K")
        self.stream.flush()

    def _line(self, text: str) -> None:
        if self.live:
            self._clear()
        print(clean(text) if "\n" not in text else text, file=self.stream, flush=True)
