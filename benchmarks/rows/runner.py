"""Simulated runs in parallel, each with a seed of its own; a program that was killed goes on with the next cell."""

from __future__ import annotations

import json
import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import pairwise
from math import sqrt
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

CHUNK = 25
"""Runs that one process makes in a piece."""
Z95 = 1.96
Task = tuple[str, int, int]
Simulate = Callable[[str, np.random.Generator], Any]


def seeded(cell: str, run: int) -> np.random.Generator:
    """Return the generator of one run of a cell, independent of those of all other runs and cells."""
    return np.random.default_rng(np.random.SeedSequence(crc32(cell.encode()), spawn_key=(run,)))


def simulate(
    once: Simulate, cells: Sequence[tuple[str, int]], *, processes: int = 1, kept: Path | None = None
) -> Iterator[list[Any]]:
    """Yield the outcomes of the runs of each cell (name, runs), in order.

    ``once`` is a function of a module; it makes one run of a cell and returns what JSON can hold. ``kept`` is a file of
    JSON lines, one a finished cell: those with this name and number of runs are not made again.
    """
    known = {}
    if kept is not None and kept.exists():
        for line in kept.read_text(encoding="utf-8").splitlines():
            cell = json.loads(line)
            known[cell["cell"], cell["runs"]] = cell["outcomes"]
    tasks: list[Task] = [
        (name, first, last)
        for name, runs in cells
        if (name, runs) not in known
        for first, last in pairwise([*range(0, runs, CHUNK), runs])
    ]
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"  # of the processes that start now
    with multiprocessing.get_context("spawn").Pool(processes) if processes > 1 else nullcontext() as pool:
        work = partial(_chunk, once)
        found = map(work, tasks) if pool is None else pool.imap(work, tasks)
        for name, runs in cells:
            outcomes = known.get((name, runs))
            if outcomes is None:
                outcomes = [outcome for _ in range(0, runs, CHUNK) for outcome in next(found)]
                if kept is not None:
                    with kept.open("a", encoding="utf-8") as file:
                        file.write(json.dumps({"cell": name, "runs": runs, "outcomes": outcomes}) + "\n")
            yield outcomes


def _chunk(once: Simulate, task: Task) -> list[Any]:
    name, first, last = task
    return [once(name, seeded(name, run)) for run in range(first, last)]


def wilson(successes: int, n: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a share. Source: E. B. Wilson, Probable inference, 1927.

    >>> [round(bound, 3) for bound in wilson(0, 100)]
    [0.0, 0.037]
    """
    middle = successes + Z95**2 / 2
    half = Z95 * sqrt(successes * (n - successes) / n + Z95**2 / 4)
    return max(middle - half, 0.0) / (n + Z95**2), (middle + half) / (n + Z95**2)


class Share(NamedTuple):
    """Share of runs in which something is true, and its 95 % interval."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, flags: Sequence[bool]) -> Share:
        return cls(sum(flags) / len(flags), *wilson(sum(flags), len(flags)))

    def __str__(self) -> str:
        return f"{100 * self.value:.1f} ({100 * self.low:.1f} to {100 * self.high:.1f})"
