"""Statements about capacity: Little's law, rates of levels, the knee, the scalability law, users that meet a target."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from locust_realism.analysis.capacity.capacity import capacity
from locust_realism.analysis.capacity.knee import find_knee
from locust_realism.analysis.capacity.levels import rate_errors, split_levels
from locust_realism.analysis.capacity.slo import judge_target, parse_target
from locust_realism.analysis.capacity.usl import fit_usl, usl_rate
from locust_realism.analysis.document import KneeRow
from locust_realism.analysis.stats.intervals import user_ranks
from locust_realism.analysis.verdict.users import user_tasks, user_times
from locust_realism.recording.launches import MISSING, LaunchLog
from locust_realism.sweep.results import share_of_waiting
from locust_realism.workload.distributions import Distribution, constant, exponential, gamma, lognormal, uniform
from rows.processes import Floats, iid, mm1, truth
from rows.row import Outcome, Row

WAIT = 0.05
POOL = (40, 80, 120)
HOLDS = "holds >= .93"
PARTS = np.array([0.1, 0.25, 0.4, 0.6, 0.8, 1, 1.2, 1.5, 2, 2.5])
"""Levels of concurrency, as parts of the knee."""


def staircase(
    rng: np.random.Generator,
    law: Distribution,
    level_s: float,
    levels: tuple[int, ...] = POOL,
    *,
    stuck: float = 0.0,
    late: bool = False,
    spawned: bool = False,
    wait_s: float = WAIT,
) -> LaunchLog:
    """Simulate levels of users that pause by a law, ``wait_s`` a request; a share ``stuck`` of them never launches,
    or all begin ``late``, at any time of their level.

    The users of each level are in their steady state at once, or ``spawned``: all launch first, and tasks are marked.
    """
    end = level_s * len(levels)
    joined = np.repeat(np.arange(len(levels)) * level_s, np.diff(levels, prepend=0))
    most = 20 + int(4 * end / law.mean)
    think = law.sample(rng, len(joined) * most).reshape(len(joined), most)
    first = joined if spawned else joined + law.sample_residual(rng, len(joined))
    start = first[:, None] + np.cumsum(think + wait_s, axis=1) - think[:, :1] - wait_s
    start += late * level_s * rng.random((len(joined), 1))
    start[rng.random(len(joined)) < stuck] = end
    user, step = np.nonzero(start < end)
    order = np.argsort(start[user, step], kind="stable")
    user, step = user[order], step[order]
    at = start[user, step]
    paused = np.where(step > 0, np.rint(1e6 * think[user, step]), MISSING)
    return LaunchLog.build(
        np.rint(1e6 * at), round(1e6 * wait_s), slot=user, users=np.array(levels)[(at // level_s).astype(int)],
        task=np.arange(len(at)) if spawned else MISSING, think_us=paused if spawned else MISSING,
    )  # fmt: skip


def little(make: Callable[[np.random.Generator], LaunchLog], rng: np.random.Generator) -> Outcome:
    """Take X (R + Z) / N, mean over the levels that have it, and its warning."""
    found = capacity(make(rng))
    ratios = [row["little_ratio"] for row in found["levels"] if row["little_ratio"] is not None]
    warned = any("Little's law" in warning for warning in found["warnings"])
    return Outcome(float(np.mean(ratios)) - 1 if ratios else None, found=warned)


def warning(rng: np.random.Generator, **users: float) -> Outcome:
    """Take the warning only: the figure is meant to be off."""
    log = staircase(rng, exponential(5.0), 60.0, stuck=users.get("stuck", 0.0), late=bool(users.get("late")))
    return little(lambda _: log, rng)._replace(error=None)


def rate_of_level(users: int, level_s: float, rng: np.random.Generator) -> Outcome:
    """Take X with 1.96 standard errors at the second of three levels."""
    levels = split_levels(staircase(rng, exponential(5.0), level_s, (users // 2, users, users * 3 // 2)))
    rate, half, true = levels[1].rate, 1.96 * float(rate_errors(levels)[1]), users / (5.0 + WAIT)
    return Outcome(rate / true - 1, abs(rate - true) <= half)


def share_of_run(parallel: int, rng: np.random.Generator) -> Outcome:
    """Take R / (R + Z) of a run as `sweep` does, of 50 users for 60 s with ``parallel`` exponential requests a task."""
    law, users, window = exponential(1.0), 50, 60.0
    think, times = law.sample(rng, users * 120).reshape(users, 120), rng.exponential(0.1, (users, 120, parallel))
    span = times.max(axis=2)
    start = np.cumsum(think + np.concatenate((np.zeros((users, 1)), span[:, :-1]), axis=1), axis=1) - 10
    user, step = np.nonzero((start >= 0) & (start < window))
    at = np.repeat(start[user, step], parallel)
    order = np.argsort(at, kind="stable")
    log = LaunchLog.build(
        np.rint(1e6 * at[order]), np.rint(1e6 * times[user, step].ravel()[order]), users=users,
        slot=np.repeat(user, parallel)[order], task=np.repeat(np.arange(len(user)), parallel)[order],
    )  # fmt: skip
    wait = 0.1 * sum(1 / number for number in range(1, parallel + 1))
    true = wait / (1 + wait)
    found = share_of_waiting(user_times(log).response_share, user_tasks(log, user_ranks(log)[0]))
    return Outcome(found.value / true - 1, found.low <= true <= found.high)


def throughput(n: Floats, ratios: Floats, servers: int, think: float) -> Floats:
    """Return X at n users, exact by convolution; ``ratios`` are demands, that of a station with several servers S."""
    k = np.arange(int(n.max()) + 1)
    factorial = np.concatenate(([0.0], np.cumsum(np.log(k[1:]))))
    g = np.exp(k * math.log(think) - factorial)
    for number, ratio in enumerate(ratios.tolist()):
        many = servers if number == 0 else 1
        busy = np.minimum(k, many)
        g = np.convolve(g, np.exp(k * math.log(ratio) - factorial[busy] - (k - busy) * math.log(many)))[: len(k)]
    whole = n.astype(int)
    return g[whole - 1] / g[whole]


def equal(rng: np.random.Generator) -> tuple[Floats, int]:
    return np.ones(rng.integers(1, 6)), 1


def unequal(rng: np.random.Generator) -> tuple[Floats, int]:
    return np.append(1.0, rng.uniform(0.5, 0.95, rng.integers(1, 5))), 1


def alike(ratio: float, rng: np.random.Generator) -> tuple[Floats, int]:
    return np.append(1.0, np.full(rng.integers(1, 5), ratio)), 1


def servers(rng: np.random.Generator) -> tuple[Floats, int]:
    many = int(rng.choice([2, 4, 8, 16]))
    return np.array([float(many)]), many


def knee_outcome(found: KneeRow | None, known: float) -> Outcome:
    if found is None or found["users"] is None:
        return Outcome()
    low, high = found["low"], found["high"]
    return Outcome(found["users"] / known - 1, None if low is None or high is None else low <= known <= high)


def knee(draw: Callable[[np.random.Generator], tuple[Floats, int]], noise: float, rng: np.random.Generator) -> Outcome:
    """Fit exact rates with noise at ten levels on both sides of the knee."""
    ratios, many = draw(rng)
    least = float(ratios.sum())
    known = rng.uniform(max(8.0, least + 2), max(40.0, 2 * least))
    n = np.unique(np.maximum(1, np.round(known * PARTS)))
    rate = throughput(n, ratios, many, known - least)
    return knee_outcome(find_knee(n, rate * (1 + noise * rng.standard_normal(len(n))), noise * rate), known)


def knee_of_queue(rng: np.random.Generator) -> Outcome:
    """Fit the log of a simulated queue: one server of .1 s, think time 1 s, 1,200 requests at each of ten levels."""
    known, parts, begin = 11.0, [], 0.0
    for users in np.unique(np.maximum(1, np.round(known * PARTS))).astype(int).tolist():
        warm_up = 4 * users + 100
        pauses, work = rng.exponential(1.0, 1200 + warm_up).tolist(), rng.exponential(0.1, 1200 + warm_up).tolist()
        events = [(at, user) for user, at in enumerate(rng.exponential(1.0, users).tolist())]
        heapq.heapify(events)
        free, rows = 0.0, []
        for pause, service in zip(pauses, work, strict=True):
            launch, user = events[0]
            free = max(launch, free) + service
            rows.append((launch, free - launch, user))
            heapq.heapreplace(events, (free + pause, user))
        launch, response, slot = np.array(rows[warm_up:]).T
        launch += begin - launch[0]
        begin = float(launch[-1]) + 1
        parts.append(
            LaunchLog.build(np.rint(1e6 * launch), np.rint(1e6 * response), slot=slot.astype(int), users=users)
        )
    return knee_outcome(capacity(LaunchLog.concat(parts))["knee"], known)


def scalability(noise: float, figure: str, rng: np.random.Generator) -> Outcome:
    """Fit the scalability law: its peak, or its band at 16 users."""
    n, law = np.array([1.0, 2, 4, 8, 16, 32, 48]), (0.03, 0.0012, 20.0)
    rate = usl_rate(n, *law)
    found = fit_usl(n, rate * (1 + noise * rng.standard_normal(len(n))), noise * rate, rng=rng)
    if figure == "peak":
        peak = found["peak_users"]
        return Outcome(peak / math.sqrt((1 - law[0]) / law[1]) - 1 if peak else None)
    curve, true = found["curve"], float(usl_rate(16.0, *law))
    low, middle, high = (float(np.interp(16.0, curve["users"], curve[side])) for side in ("low", "rate", "high"))
    return Outcome(middle / true - 1, low <= true <= high)


def target(process: str, n: int, rng: np.random.Generator) -> Outcome:
    """Take the number of users at which p95 reaches that of a level between two measured ones."""
    if process == "iid":  # p95 grows with the users
        levels, known = [5, 10, 15, 18, 22, 30], 20.0
        parts = [iid(rng, n, mean_s=0.01 * users) for users in levels]
        bound = truth(iid, "p95", mean_s=0.2)
    else:  # utilisation in per cent
        levels, known = ([30, 50, 60, 65, 70, 80], 65.0) if process == "mm1" else ([50, 70, 80, 90, 95], 90.0)
        parts = [mm1(rng, n, users / 100) for users in levels]
        bound = truth(mm1, "p95", rho=known / 100)
    logs, begin = [], 0.0
    for users, (launch, response) in zip(levels, parts, strict=True):
        logs.append(LaunchLog.build(np.rint(1e6 * (launch + begin)), np.rint(1e6 * response), users=users))
        begin += float(launch[-1]) + 1
    log = LaunchLog.concat(logs)
    found = judge_target(log, split_levels(log), parse_target(f"p95 < {1e3 * bound}ms"), rng, "nearest_rank")
    if found["users"] is None:
        return Outcome()
    low, high = found["low"], found["high"]
    return Outcome(found["users"] / known - 1, None if low is None or high is None else low <= known <= high)


LAW = "Little's law, X (R + Z) / N"


def rows() -> Iterator[Row]:
    sound = "bias within 2 %, found <= 1 %"
    for think_s in (5.0, 12.0):
        for level_s in (30.0, 60.0, 120.0):
            data = f"40, 80, 120 users, exponential pauses of {think_s:g} s, levels of {level_s:g} s"
            make = partial(staircase, law=exponential(think_s), level_s=level_s)
            yield Row(LAW, data, partial(little, make), 400, sound)
    for name, law in (
        ("constant", constant(12.0)),
        ("uniform", uniform(0, 24.0)),
        ("gamma, CoV .5", gamma(12.0, cov=0.5)),
    ):
        make = partial(staircase, law=law, level_s=60.0)
        yield Row(LAW, f"40, 80, 120 users, pauses of 12 s, {name}, levels of 60 s", partial(little, make), 200, sound)
    for think_s in (5.0, 12.0):
        make = partial(staircase, law=lognormal(think_s, cov=2), level_s=60.0)
        data = f"40, 80, 120 users, log-normal pauses of {think_s:g} s, CoV 2, levels of 60 s"
        yield Row(LAW, data, partial(little, make), 400, "bias within 10 %")
    make = partial(staircase, law=exponential(12.0), level_s=60.0, spawned=True)
    yield Row(
        LAW,
        "the same with exponential pauses, users spawned at each level, recording",
        partial(little, make),
        400,
        sound,
    )
    make = partial(staircase, law=exponential(5.0), level_s=60.0, levels=(100,))
    yield Row(LAW, "100 users, exponential pauses of 5 s, one level of 60 s", partial(little, make), 400, sound)
    for share in (0.05, 0.1, 0.2, 0.5):
        data = f"{share:.0%} of the users without a launch, pauses of 5 s, levels of 60 s"
        goal = "found >= 80 %" if share >= 0.2 else ""
        yield Row("Little's law, warning", data, partial(warning, stuck=share), 200, goal)
    data = "users who begin at any time of their level, pauses of 5 s, levels of 60 s"
    yield Row("Little's law, warning", data, partial(warning, late=True), 200, "found >= 80 %")
    for users in (20, 100):
        for level_s in (30.0, 60.0, 120.0):
            data = f"{users} users, exponential pauses of 5 s, {level_s:g} s"
            yield Row("Throughput of a level", data, partial(rate_of_level, users, level_s), 400, HOLDS)
    for parallel in (1, 2):
        data = f"50 users, 60 s, {parallel} request(s) at a time, R / (R + Z) of {'.09' if parallel == 1 else '.13'}"
        yield Row("R / (R + Z) of a run, sweep", data, partial(share_of_run, parallel), 400, HOLDS)
    shapes: tuple[tuple[str, Callable[[np.random.Generator], tuple[Floats, int]]], ...] = (
        ("1 to 5 equal stations", equal), ("2 to 5 stations, demands .5 to .95 of the largest", unequal),
        ("2 to 5 stations, .8 of the largest", partial(alike, 0.8)),
        ("2 to 5 stations, .95 of the largest", partial(alike, 0.95)), ("one station of 2 to 16 servers", servers),
    )  # fmt: skip
    for noise in (0.01, 0.02, 0.05):
        for name, draw in shapes:
            yield Row("Knee", f"{name}, rates known to {noise:.0%}", partial(knee, draw, noise), 400, HOLDS)
    yield Row("Knee", "simulated queue, one server, 1,200 requests a level", knee_of_queue, 200, HOLDS)
    for noise in (0.02, 0.05):
        data = f"7 levels to 1.7 times the peak, rates known to {noise:.0%}"
        yield Row("Scalability law, band at 16 users", data, partial(scalability, noise, "band"), 400, HOLDS)
        yield Row("Scalability law, peak", data, partial(scalability, noise, "peak"), 400, "bias within 5 %")
    targets = (
        ("iid", "iid", 1500), ("M/M/1 at .3 to .8", "mm1", 5000), ("M/M/1 at .3 to .8", "mm1", 20_000),
        ("M/M/1 at .5 to .95", "busy", 20_000),
    )  # fmt: skip
    for name, process, n in targets:
        data = f"{name}, {n:,} requests a level"
        yield Row(
            "Users that meet a target on p95",
            data,
            partial(target, process, n),
            400,
            HOLDS if (process, n) in (("iid", 1500), ("mm1", 20_000)) else "",
        )


ROWS: tuple[Row, ...] = tuple(rows())
