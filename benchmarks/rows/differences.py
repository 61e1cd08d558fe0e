"""Rows of repeated runs: false alarms and power of comparisons by number of runs, agreement, cells of a sweep."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from locust_realism.analysis.compare.comparison import compare
from locust_realism.analysis.compare.difference import FASTER, MORE, SLOWER, compared
from locust_realism.analysis.compare.groups import Side, agreement, run_estimates
from locust_realism.analysis.stats.intervals import TOTAL
from locust_realism.recording.launches import LaunchLog
from locust_realism.sweep.cells import over_runs
from locust_realism.sweep.results import estimate_of, response_figures
from rows.estimates import failed, outcome
from rows.processes import Requests, ar1, iid, mm1, truth
from rows.row import Outcome, Row

Process = Callable[[np.random.Generator, int], Requests]
REQUESTS = 5_000
PROCESSES: dict[str, Process] = {
    "iid": iid,
    "M/M/1 at .5": partial(mm1, rho=0.5),
    "M/M/1 at .8": partial(mm1, rho=0.8),
    "M/M/1 at .9": partial(mm1, rho=0.9),
    "AR(1), .9": ar1,
}
CHANGED = {FASTER, SLOWER, MORE, "less"}


def _log(
    rng: np.random.Generator, process: Process, slower: float = 0.0, between: float = 0.0, n: int = REQUESTS
) -> LaunchLog:
    """Draw a run; ``between`` is the standard deviation of the logarithm of its own factor."""
    launch, response = process(rng, n)
    factor = (1 + slower) * math.exp(between * rng.standard_normal())
    micros = (np.rint(1e6 * each).astype(np.int64) for each in (launch, response * factor))
    return LaunchLog.build(*micros, names="home")


def _compared(process: Process, runs: int, slower: float, between: float, rng: np.random.Generator) -> Outcome:
    """Compare two sides; without a change any statement is a false alarm, with one "slower" finds it."""
    sides = [
        Side(name, tuple(_log(rng, process, change, between) for _ in range(runs)))
        for name, change in (("a", 0.0), ("b", slower))
    ]
    (found,) = compare(sides)["candidates"]
    verdicts = {row["verdict"] for row in (*found["rows"], found["throughput"], found["failures"])}
    return Outcome(found=SLOWER in verdicts if slower else bool(verdicts & CHANGED))


def _agree(process: Process, runs: int, between: float, rng: np.random.Generator) -> Outcome:
    side = Side("a", tuple(_log(rng, process, between=between) for _ in range(runs)))
    return Outcome(found=agreement(side, run_estimates(side, TOTAL))["agrees"] is False)


def _failures(length: float, runs: int, rng: np.random.Generator) -> Outcome:
    """Compare two sides with the same share of failures, as one of the seven statements on one name."""
    a, b = ([failed(rng, REQUESTS, 0.01, length) for _ in range(runs)] for _ in range(2))
    return Outcome(found=compared(a, b, 1 - 0.05 / 7)["verdict"] in CHANGED)


def _cell(
    figure: str, process: Process, true: float, n: int, runs: int, between: float, rng: np.random.Generator
) -> Outcome:
    """Take a figure of a cell from the rows of its runs."""
    rows = [response_figures(_log(rng, process, between=between, n=n)) for _ in range(runs)]
    found = over_runs([each for row in rows if (each := estimate_of(row, figure)) is not None])
    return outcome(found.value, found.low, found.high, 1e3 * true)


CELLS: tuple[tuple[str, Callable[..., Requests], dict[str, float], int], ...] = (
    ("iid", iid, {}, 3_000),
    ("AR(1), .9", ar1, {}, 3_000),
    ("M/M/1 at .8", mm1, {"rho": 0.8}, 3_000),
    ("M/M/1 at .9", mm1, {"rho": 0.9}, 3_000),
    ("M/M/1 at .9", mm1, {"rho": 0.9}, 10_000),
)
RARE_CELLS = {
    ("M/M/1 at .8", 3_000, "p99", 2), ("M/M/1 at .9", 3_000, "p95", 2), ("M/M/1 at .9", 3_000, "p99", 2),
    ("M/M/1 at .9", 3_000, "p99", 5), ("M/M/1 at .9", 10_000, "p99", 2), ("M/M/1 at .9", 10_000, "p99", 5),
}  # fmt: skip
"""Figures of so many runs that less than half of the cells have an interval of."""


def closed(rng: np.random.Generator, steps: list[int], seconds: float, service_s: float = 0.02) -> LaunchLog:
    """Draw users with exponential think times (mean 1 s) at one server, first come first served.

    ``steps`` are the numbers of users of consecutive pieces of ``seconds``.
    """
    due: list[float] = []
    rows: list[tuple[float, float, int]] = []
    draws = _exponentials(rng)
    free, users = 0.0, 0
    for index, step in enumerate(steps):
        for _ in range(step - users):
            heapq.heappush(due, index * seconds + next(draws))
        leaving, users = max(users - step, 0), step
        while due[0] < (index + 1) * seconds:
            launch = heapq.heappop(due)
            if leaving:
                leaving -= 1
                continue
            free = max(free, launch) + service_s * next(draws)
            rows.append((launch, free - launch, users))
            heapq.heappush(due, free + next(draws))
    launch_s, response_s, at = np.array(rows).T
    micros = (np.rint(1e6 * each).astype(np.int64) for each in (launch_s, response_s))
    return LaunchLog.build(*micros, users=at.astype(np.int64), names="home")


def _exponentials(rng: np.random.Generator) -> Iterator[float]:
    while True:
        yield from rng.exponential(1.0, 4096).tolist()


STAIRS = [10, 20, 30, 40, 50]
SHAPES = {"up": STAIRS, "up and down": [*STAIRS, *STAIRS[-2::-1]]}


def _levels(
    steps: list[int], seconds: float, runs: int, slower: float, rng: np.random.Generator, whole: bool = False
) -> Outcome:
    """Compare by level; ``whole`` counts the table by name, throughput and failures too."""
    sides = [
        Side(name, tuple(closed(rng, steps, seconds, 0.02 * (1 + change)) for _ in range(runs)))
        for name, change in (("a", 0.0), ("b", slower))
    ]
    found = compare(sides)
    verdicts = {row["sides"][1]["verdict"] for row in found["levels"] if row["sides"][1]}
    if whole:
        (one,) = found["candidates"]
        verdicts |= {row["verdict"] for row in (*one["rows"], one["throughput"], one["failures"])}
    return Outcome(found=bool(verdicts & CHANGED))


def _sides(runs: int) -> str:
    return f"{runs} run{'s' if runs > 1 else ''} a side"


ROWS: tuple[Row, ...] = (
    *(
        Row(f"Compare, no change, {_sides(runs)}", f"{name}, {REQUESTS:,} requests a run",
            partial(_compared, process, runs, 0.0, 0.0), 300, "found <= 5 %")
        for name, process in PROCESSES.items()
        for runs in (1, 2, 3, 5)
    ),
    *(
        Row(f"Compare, {100 * slower:.0f} % slower, {_sides(runs)}", f"{name}, {REQUESTS:,} requests a run",
            partial(_compared, process, runs, slower, 0.0), 100)
        for name, process in PROCESSES.items()
        for slower in (0.05, 0.1, 0.2, 0.5)
        for runs in (1, 2, 3, 5)
    ),
    *(
        Row(f"Compare, no change, {_sides(runs)}, runs differ by {times:g} standard errors",
            f"iid, {REQUESTS:,} requests a run", partial(_compared, iid, runs, 0.0, times * 0.014), 200,
            "found <= 5 %" if runs >= 5 else "")
        for times in (0.5, 1, 2, 4)
        for runs in (1, 2, 3, 5)
    ),
    *(
        Row(f"Compare by level, no change, {_sides(runs)}", f"five levels {shape}, {seconds} s each",
            partial(_levels, steps, seconds, runs, 0.0, whole=True), 200, "found <= 5 %")
        for shape, steps in SHAPES.items()
        for seconds, runs in ((30, 1), (60, 1), (60, 3), (150, 1))
    ),
    *(
        Row(f"Compare by level, {100 * slower:.0f} % slower, {_sides(runs)}", "five levels up, 60 s each",
            partial(_levels, STAIRS, 60.0, runs, slower), 100)
        for slower in (0.2, 0.5)
        for runs in (1, 2, 3)
    ),
    *(
        Row(f"Agreement of {runs} runs, no difference", f"{name}, {REQUESTS:,} requests a run",
            partial(_agree, process, runs, 0.0), 300, "found <= 5 %")
        for name, process in PROCESSES.items()
        for runs in (3, 5)
    ),
    *(
        Row(f"Agreement of {runs} runs that differ by {100 * between:.0f} %", f"iid, {REQUESTS:,} requests a run",
            partial(_agree, iid, runs, between), 100)
        for between in (0.05, 0.2)
        for runs in (3, 5)
    ),
    *(
        Row(f"Compare failures, no change, {_sides(runs)}", f"1 % in bursts of {length}, {REQUESTS:,} requests a run",
            partial(_failures, length, runs), 300, "found <= 5 %")
        for length in (1, 50)
        for runs in (1, 3, 5)
    ),
    *(
        Row(f"{figure} of a sweep's cell, {runs} runs", f"{name}, {n:,} requests a run",
            partial(_cell, f"{figure}_ms", partial(process, **given), truth(process, figure, **given), n, runs, 0.0),
            200, "" if (name, n, figure, runs) in RARE_CELLS else "holds >= .93")
        for name, process, given, n in CELLS
        for figure in ("mean", "p95", "p99")
        for runs in (2, 5)
    ),
    *(
        Row(f"Mean of a sweep's cell, {runs} runs that differ by {times:g} standard errors",
            f"iid, {REQUESTS:,} requests a run",
            partial(_cell, "mean_ms", iid, truth(iid, "mean"), REQUESTS, runs, times * 0.014), 200, "holds >= .93")
        for times in (1, 4)
        for runs in (2, 3, 5)
    ),
)  # fmt: skip
"""The mean of 5,000 independent response times of CoV 1 has a standard error of .014 of it."""
