"""Calibration of the verdict: its errors on simulated runs, and the cause that it names first for each distortion.

    python benchmarks/calibrate_verdict.py [--runs 1000] [--only TEXT] [--out cells.jsonl]

Prints the table of docs/verdict.md in Markdown; the docstrings of the simulated runs are its first column. Every run of
every kind has a seed of its own, so that the table is the same each time, and its rows are independent. With --out a
run that was stopped goes on with the kinds that are left; delete the file after a change of the code.
"""

from __future__ import annotations

import argparse
import heapq
import os
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from locust_realism.analysis.document import Verdict
from locust_realism.analysis.settings import AnalysisSettings, WorkloadModel
from locust_realism.analysis.summary import summarize
from locust_realism.analysis.verdict.evidence import Facts
from locust_realism.recording.launches import LaunchLog

sys.path.append(str(Path(__file__).resolve().parent))  # for tests, which load this file by its path

from rows.runner import Share, simulate

EPOCH_US = 1_700_000_000_000_000
FINE = {"wake_p90_ms": 0.35, "loop_lag_p99_ms": 2.0, "cpu_max": 0.1}
"""Health of a generator with a precise timer."""
MOST_WRONG = 0.01
"""Largest share of sound runs that are red, or of distorted ones whose first cause is another."""
LAUNCHES = 10_000
"""Launches of each run."""
Draw = Callable[[np.random.Generator, int], np.ndarray]
Run = tuple[LaunchLog, Facts]


def response(rng: np.random.Generator, n: int, mean_s: float = 0.01) -> np.ndarray:
    """Draw lognormal response times with a CoV of 1, in seconds."""
    sigma2 = np.log(2)
    return rng.lognormal(np.log(mean_s) - sigma2 / 2, np.sqrt(sigma2), n)


def log_of(launch_s: np.ndarray, response_s: np.ndarray, **columns: object) -> LaunchLog:
    """Return the log of launches in seconds since the start."""
    launches = EPOCH_US + np.rint(launch_s * 1e6).astype(np.int64)
    return LaunchLog.build(launches, np.rint(response_s * 1e6).astype(np.int64), names="page", **columns)


def poisson(rng: np.random.Generator, n: int, rate: float = 100.0) -> Run:
    """Open Poisson launches, each a little after its plan."""
    planned = np.cumsum(rng.exponential(1 / rate, n))
    launches = planned + rng.exponential(0.0005, n)
    plan_us = EPOCH_US + np.rint(planned * 1e6).astype(np.int64)
    log = log_of(launches, response(rng, n), planned_us=plan_us)
    return log, Facts(model=WorkloadModel(kind="open"), health={"loop_lag_p99_ms": 2.0, "cpu_max": 0.3})


def pool(rng: np.random.Generator, n: int, users: int, think: Draw, together: bool = False) -> LaunchLog:
    """Simulate a fixed pool of users and a server without queues, after the warm-up unless all users start together."""
    # Enough tasks for each user that none runs out before the last of the n launches.
    each = n // users + 20 + 8 * round(np.sqrt(n / users))
    gaps = think(rng, users * each).reshape(users, each) + response(rng, users * each).reshape(users, each)
    start = np.zeros((users, 1)) if together else gaps.mean() * rng.uniform(0, 1, (users, 1))
    launches = (start + np.cumsum(gaps, axis=1)).ravel()
    slot = np.repeat(np.arange(users), each)
    if not together:
        keep = launches > 10 * gaps.mean()
        launches, slot = launches[keep], slot[keep]
    order = np.argsort(launches)[:n]
    # The response times above lie between the launches; the log has a fresh draw of the same law.
    return log_of(launches[order], response(rng, len(order)), slot=slot[order], users=users)


def closed(think_s: float, cov: float | None, users: int) -> WorkloadModel:
    """Return the model of a fixed pool."""
    return WorkloadModel(kind="closed", users=users, think_time_s=think_s, think_time_cov=cov)


def exponential_pool(rng: np.random.Generator, n: int) -> Run:
    """100 users with exponential think times."""
    log = pool(rng, n, 100, lambda r, k: r.exponential(1.0, k))
    return log, Facts(model=closed(1.0, 1.0, 100))


def uniform_pool(rng: np.random.Generator, n: int) -> Run:
    """100 users with uniform think times, as in the talk, and configured so."""
    log = pool(rng, n, 100, lambda r, k: r.uniform(0, 2, k))
    return log, Facts(model=closed(1.0, 1 / np.sqrt(3), 100))


def planned_sine(rng: np.random.Generator, n: int) -> Run:
    """Poisson launches whose rate follows a planned sine of relative amplitude 0.8."""
    from locust_realism.workload.rates.shapes import SineRate

    profile = SineRate(20.0, 180.0, period=n / 400)
    u = np.cumsum(rng.exponential(1.0, n))
    launches = np.asarray(profile.inverse(u))
    facts = Facts(model=WorkloadModel(kind="open"), planned_profile=profile, run_start_us=EPOCH_US)
    return log_of(launches, response(rng, n)), facts


def pages(rng: np.random.Generator, n: int) -> Run:
    """100 users with exponential think times whose tasks are four requests in a row."""
    tasks = pool(rng, n // 4, 100, lambda r, k: r.exponential(4.0, k))
    first = (tasks.launch_us - EPOCH_US) / 1e6
    took = response(rng, 4 * len(first)).reshape(-1, 4)
    launches = first[:, None] + np.concatenate((np.zeros((len(first), 1)), np.cumsum(took[:, :3], axis=1)), axis=1)
    log = log_of(launches.ravel(), took.ravel(), slot=np.repeat(tasks.slot, 4), users=100)
    return log, Facts(model=WorkloadModel(kind="closed", users=100))


def parallel_requests(rng: np.random.Generator, n: int) -> Run:
    """100 users with exponential think times whose tasks are ten parallel requests, as a browser loads a page."""
    tasks = pool(rng, n // 2, 100, lambda r, k: r.exponential(10.0, k))
    pause = think_us(tasks)
    pause[pause < 0] = 10_000_000  # in the midst of a run each task has one
    launches = np.repeat(tasks.launch_us, 10) + np.tile(np.arange(10) * 150, len(tasks))
    number = np.repeat(np.arange(len(tasks)), 10)
    columns = {"slot": np.repeat(tasks.slot, 10), "users": 100, "task": number, "think_us": pause[number]}
    log = log_of((launches - EPOCH_US) / 1e6, response(rng, len(launches)), **columns)
    return log.take(np.argsort(log.launch_us, kind="stable")), Facts(model=closed(10.0, 1.0, 100), health=FINE)


def think_us(tasks: LaunchLog) -> np.ndarray:
    """Return the pause before each launch of a pool in microseconds, MISSING for the first of each user."""
    order = np.argsort(tasks.slot, kind="stable")
    gap = np.diff(tasks.launch_us[order]) - tasks.response_us[order][:-1]
    pause = np.full(len(tasks), -1, dtype=np.int64)
    pause[order[1:]] = np.where(np.diff(tasks.slot[order]) == 0, np.maximum(gap, 0), -1)
    return pause


def lumped_start(rng: np.random.Generator, n: int) -> Run:
    """100 users with exponential think times, all started at once (-r 100), judged from full spawn on."""
    log = pool(rng, n, 100, lambda r, k: r.exponential(1.0, k), together=True)
    # The first tasks leave in the spawner's instant; the pauses begin with them.
    first = log.take(np.unique(log.slot, return_index=True)[1])
    log = LaunchLog.concat([replace(first, launch_us=EPOCH_US + np.arange(len(first)) * 100), log])
    log = replace(log, task=np.arange(len(log)), think_us=think_us(log))
    return log, Facts(model=closed(1.0, 1.0, 100), health=FINE, held_us=(EPOCH_US, int(log.launch_us[-1])))


def paced(rng: np.random.Generator, n: int, rate: float = 400.0) -> Run:
    """Poisson launches of 400/s from one process: a timer wakes 0.3 ms late, each launch takes 0.15 ms."""
    planned = np.cumsum(rng.exponential(1 / rate, n))
    launches, free = np.empty(n), 0.0
    for at, (due, late) in enumerate(zip(planned, rng.uniform(0.1e-3, 0.35e-3, n), strict=True)):
        # The greenlet that is awake sends what is due meanwhile, too.
        launches[at] = free if due < free else due + late
        free = launches[at] + 0.15e-3
    plan_us = EPOCH_US + np.rint(planned * 1e6).astype(np.int64)
    log = log_of(launches, response(rng, n), planned_us=plan_us, slot=np.arange(n) % 50, task=np.arange(n), users=50)
    return log, Facts(model=WorkloadModel(kind="open"), health={**FINE, "cpu_max": 0.2})


def paced_slowly(rng: np.random.Generator, n: int) -> Run:
    """The same process with Poisson launches of 100/s."""
    return paced(rng, n, 100.0)


def population(rng: np.random.Generator, n: int, session_s: float = 30.0) -> Run:
    """A population of about 100: Poisson arrivals, exponential stays, exponential think times."""
    span = n / 100.0
    arrivals = np.sort(rng.uniform(-10 * session_s, span, rng.poisson((span + 10 * session_s) * 100 / session_s)))
    return visits(rng, arrivals, span, session_s)


def lognormal_stays(rng: np.random.Generator, n: int, session_s: float = 10.0) -> Run:
    """A population of about 100 whose stays are lognormal with a CoV of 2."""
    from locust_realism.analysis.verdict.dispersion import STAY_SHARES
    from locust_realism.workload.distributions import lognormal

    law, span, before = lognormal(session_s, cov=2), n / 100.0, 100 * session_s
    arrivals = np.sort(rng.uniform(-before, span, rng.poisson((span + before) * 100 / session_s)))
    log, facts = visits(rng, arrivals, span, session_s, law.sample(rng, len(arrivals)))
    quantiles = tuple(law.ppf(STAY_SHARES).tolist())
    return log, replace(facts, model=replace(facts.model, session_quantiles_s=quantiles))


def population_day(rng: np.random.Generator, n: int, session_s: float = 5.0) -> Run:
    """A population with short stays through four days: arrivals follow a planned sine of relative amplitude 0.8."""
    from locust_realism.workload.rates.shapes import SineRate

    span, before = n / 100.0, 10 * session_s
    profile = SineRate(20.0 / session_s, 180.0 / session_s, period=span / 4)
    first, last = (float(profile.cumulative(t)) for t in (-before, span))
    u = np.sort(rng.uniform(0.0, last - first, rng.poisson(last - first)))
    grid = np.linspace(-before, span, 100_000)
    arrivals = np.interp(u, np.asarray(profile.cumulative(grid)) - first, grid)
    log, facts = visits(rng, arrivals, span, session_s)
    return log, replace(facts, arrival_profile=profile, run_start_us=EPOCH_US)


def visits(
    rng: np.random.Generator, arrivals: np.ndarray, span: float, session_s: float, stays: np.ndarray | None = None
) -> Run:
    """Simulate users who arrive at these times, with exponential think times, from 0 to ``span`` s.

    The ``stays`` are exponential unless given.
    """
    ends = arrivals + (rng.exponential(session_s, len(arrivals)) if stays is None else stays)
    arrivals, ends = arrivals[ends > 0], ends[ends > 0]
    free: list[int] = []
    busy: list[tuple[float, int]] = []
    rows = []
    for start, end in zip(arrivals.tolist(), ends.tolist(), strict=True):
        while busy and busy[0][0] <= start:
            heapq.heappush(free, heapq.heappop(busy)[1])
        slot = heapq.heappop(free) if free else len(busy)
        heapq.heappush(busy, (end, slot))
        times = start + np.cumsum(rng.exponential(1.0, int(8 * (end - start)) + 20))
        rows += [(t, slot) for t in times[(times < end) & (times > 0) & (times < span)].tolist()]
    launches, slots = (np.array(column) for column in zip(*rows, strict=True))
    order = np.argsort(launches)
    model = WorkloadModel(kind="open", poisson_arrivals=True, session_s=session_s)
    starts = EPOCH_US + np.rint(arrivals[arrivals > 0] * 1e6).astype(np.int64)
    running = np.searchsorted(arrivals, launches[order]) - np.searchsorted(np.sort(ends), launches[order])
    log = log_of(launches[order], response(rng, len(order)), slot=slots[order], users=running)
    return log, Facts(model=model, user_starts_us=starts)


def constant_think(rng: np.random.Generator, n: int) -> Run:
    """100 users with a constant think time, started together."""
    log = pool(rng, n, 100, lambda r, k: np.ones(k), together=True)
    return log, Facts(model=closed(1.0, 0.0, 100))


def few_users(rng: np.random.Generator, n: int) -> Run:
    """Three users with uniform think times."""
    log = pool(rng, n, 3, lambda r, k: r.uniform(0.5, 1.5, k))
    return log, Facts(model=closed(1.0, 1 / np.sqrt(12), 3))


def blocked_generator(rng: np.random.Generator, n: int) -> Run:
    """An event loop that is blocked for 80 ms of every 400 ms; launches due meanwhile leave together."""
    log = pool(rng, n, 100, lambda r, k: r.exponential(1.0, k))
    planned = (log.launch_us - EPOCH_US) / 1e6
    phase = planned % 0.4
    actual = np.where(phase < 0.08, planned - phase + 0.08 + rng.uniform(0, 0.0005, n), planned)
    launches = EPOCH_US + np.rint(actual * 1e6).astype(np.int64)
    return replace(log, planned_us=log.launch_us, launch_us=launches), Facts(model=closed(1.0, 1.0, 100))


def blocked_unplanned(rng: np.random.Generator, n: int) -> Run:
    """The same blocked event loop in a log that does not know the planned launches."""
    log, facts = blocked_generator(rng, n)
    return replace(log, planned_us=np.full(n, -1)), facts


def saturated_server(rng: np.random.Generator, n: int, users: int = 100, service_s: float = 0.012) -> Run:
    """A closed pool with exponential think times on one first-come first-served server that is full."""
    ready = [(float(t), u) for u, t in enumerate(rng.exponential(1.0, users))]
    heapq.heapify(ready)
    total = n + 20 * users
    service, thinks = rng.exponential(service_s, total), rng.exponential(1.0, total)
    free, rows = 0.0, np.empty((total, 3))
    for i in range(total):
        now, user = heapq.heappop(ready)
        free = max(free, now) + service[i]
        rows[i] = now, free - now, user
        heapq.heappush(ready, (free + thinks[i], user))
    rows = rows[-n:]
    log = log_of(rows[:, 0], rows[:, 1], slot=rows[:, 2].astype(int), users=users)
    return log, Facts(model=closed(1.0, 1.0, users))


def one_pause(rng: np.random.Generator, n: int) -> Run:
    """Poisson launches with one pause of 5 s."""
    log, facts = poisson(rng, n)
    late = np.where(np.arange(n) >= n // 2, 5_000_000, 0)
    return replace(log, launch_us=log.launch_us + late, planned_us=log.planned_us + late), facts


def repeated_stalls(rng: np.random.Generator, n: int, stalls: int = 20, length_s: float = 0.1) -> Run:
    """Poisson launches with twenty pauses of 0.1 s."""
    log, facts = poisson(rng, n)
    late = np.arange(n) * (stalls + 1) // n * round(length_s * 1e6)
    return replace(log, launch_us=log.launch_us + late, planned_us=log.planned_us + late), facts


def ten_stalls(rng: np.random.Generator, n: int) -> Run:
    """Poisson launches with ten pauses of 0.3 s."""
    return repeated_stalls(rng, n, 10, 0.3)


def drifting_rate(rng: np.random.Generator, n: int) -> Run:
    """Poisson launches whose rate grows from 60/s to 140/s with no plan that says so."""
    u = np.cumsum(rng.exponential(1.0, n))
    a, b, span = 60.0, 140.0, n / 100.0
    slope = (b - a) / span
    launches = (np.sqrt(a * a + 2 * slope * u) - a) / slope
    return log_of(launches, response(rng, n)), Facts(model=WorkloadModel(kind="open"))


def millisecond_clock(rng: np.random.Generator, n: int) -> Run:
    """Poisson launches of 1,000/s on a clock of whole milliseconds."""
    log, _ = poisson(rng, n, 1000.0)
    launches = log.launch_us // 1000 * 1000
    return replace(log, launch_us=launches, planned_us=np.full(n, -1)), Facts(model=WorkloadModel(kind="open"))


def shifted_workers(rng: np.random.Generator, n: int) -> Run:
    """Bunches of ten requests in 1 ms, shared by four workers whose clocks are off by 10 ms."""
    bunch = np.repeat(np.cumsum(rng.exponential(0.01, n // 10)), 10)
    true = bunch + rng.uniform(0, 0.001, len(bunch))
    worker = rng.integers(0, 4, len(true))
    seen = true + rng.normal(0, 0.01, 4)[worker] + 0.1
    facts = Facts(model=WorkloadModel(kind="open"), clock_offset_sd_us=10_000.0)
    return log_of(seen, response(rng, len(true)), worker=worker), facts


def even_launches(rng: np.random.Generator, n: int) -> Run:
    """Launches at a constant distance, as open tools without a random plan make them."""
    launches = np.arange(n) / 100 + rng.exponential(0.0005, n)
    return log_of(launches, response(rng, n)), Facts(model=WorkloadModel(kind="open"))


@dataclass(frozen=True)
class Case:
    """Kind of run, and the cause that the verdict must name first; None for a sound run."""

    simulate: Callable[[np.random.Generator, int], Run]
    cause: str | None


CASES = (
    Case(poisson, None),
    Case(exponential_pool, None),
    Case(uniform_pool, None),
    Case(planned_sine, None),
    Case(pages, None),
    Case(parallel_requests, None),
    Case(lumped_start, None),
    Case(paced, None),
    Case(paced_slowly, None),
    Case(population, None),
    Case(lognormal_stays, None),
    Case(constant_think, "users that move in step"),
    Case(few_users, "too few users or too regular ones"),
    Case(blocked_generator, "a generator that cannot keep up"),
    Case(blocked_unplanned, "launches in batches"),
    Case(saturated_server, "a server that paces its users"),
    Case(one_pause, "a single pause"),
    Case(repeated_stalls, "repeated pauses of the test"),
    Case(ten_stalls, "repeated pauses of the test"),
    Case(drifting_rate, "a rate or a system that is not steady"),
    Case(millisecond_clock, "a coarse clock"),
    Case(shifted_workers, "clock offsets between workers"),
    Case(even_launches, "launches that are too even"),
)


class Outcome(NamedTuple):
    """Verdict on one run: its colour, the cause that it names first or None, and the checks that are red."""

    overall: str
    first: str | None
    red: list[int]


def judge(run: Run) -> Verdict:
    """Return the verdict on a simulated run."""
    log, facts = run
    return summarize(log, settings=AnalysisSettings(charts=False), run_start_us=EPOCH_US, facts=facts)["verdict"]


def once(name: str, rng: np.random.Generator) -> Outcome:
    """Return the outcome of one run of the kind whose function has this name."""
    kind = next(case.simulate for case in CASES if case.simulate.__name__ == name)
    verdict = judge(kind(rng, LAUNCHES))
    causes, checks = verdict["causes"], verdict["checks"]
    red = [check["id"] for check in checks if check["status"] == "red"]
    return Outcome(verdict["overall"], causes[0]["name"] if causes else None, red)


def shares(case: Case, found: list[Outcome]) -> tuple[Share, Share]:
    """Return the share of red runs and that of runs whose first cause is the case's."""
    return Share.of([run.overall == "red" for run in found]), Share.of([run.first == case.cause for run in found])


def table_row(name: str, case: Case, found: list[Outcome]) -> str:
    """Return a line of the table in Markdown."""
    overall = Counter(run.overall for run in found)
    first = Counter(run.first or "none" for run in found)
    bad = Counter(number for run in found for number in run.red)
    red, right = shares(case, found)
    colours = " / ".join(str(overall[status]) for status in ("green", "amber", "red", "not enough data"))
    reds = ", ".join(f"{number}: {count}" for number, count in sorted(bad.items())) or "none"
    causes = "; ".join(f"{cause} ({count})" for cause, count in first.most_common(3))
    return f"| {name} | {colours} | {red if case.cause is None else '-'} | {causes} | {right} | {reds} |"


def main() -> int:
    """Print the table; return 1 if the 95 % interval of a share excludes its bound, else 0."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1000, help="simulated runs of each kind (1000)")
    parser.add_argument("--only", default="", help="only the kinds whose function has this in its name")
    parser.add_argument("--out", type=Path, help="file of JSON lines that keeps the finished kinds")
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)), help="processes (one a core)")
    options = parser.parse_args()
    cases = [case for case in CASES if options.only in case.simulate.__name__]
    cells = [(case.simulate.__name__, options.runs) for case in cases]
    print("| simulated run | green / amber / red / no verdict | red, % | named first (runs) | right, % | red checks |")
    print("|---|---|---|---|---|---|", flush=True)
    failed, sound = False, []
    for case, kept in zip(cases, simulate(once, cells, processes=options.processes, kept=options.out), strict=True):
        found = [Outcome(*run) for run in kept]
        print(table_row((case.simulate.__doc__ or "").strip().rstrip("."), case, found), flush=True)
        red, right = shares(case, found)
        failed |= red.low > MOST_WRONG if case.cause is None else right.high < 1 - MOST_WRONG
        sound += found if case.cause is None else []
    if sound:
        print(table_row("all sound runs", Case(poisson, None), sound))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
