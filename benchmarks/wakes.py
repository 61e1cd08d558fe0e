"""Waits that end on time: their cost, their lateness and the short gaps between launches, beside those of gevent.

    python benchmarks/wakes.py [--seconds 15] [--pairs 2]

Each figure is taken in pairs within one process, gevent's sleep and ours in turn. The cost is CPU time of this process
for each wait, the least of five measurements. Short gaps are those under a tenth of the mean gap, over the share
1 - exp(-0.1) that independent users have. Their users are 100 FastHttpUsers of a server in a process of its own. The
exit status is 1 where an aim is missed.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import gevent
from gevent.event import Event
from locust import FastHttpUser, task
from locust.env import Environment
from recorder import server

from locust_realism import ConstantRate, exponential, paced
from locust_realism.runtime.coordination.plan import ensure_plan
from locust_realism.runtime.coordination.randomness import connect
from locust_realism.runtime.users import alarm
from locust_realism.runtime.users.session import hook_user_start

OURS: dict[str, Any] = {name: getattr(alarm, name) for name in ("sleep", "wait")}
SKIPPED_S = 3.0
"""Start of each run, in which the first launches of users come in lumps."""
AIM_COST_US, AIM_LATENESS, AIM_SHORT_GAPS = 6.0, 0.7, 1.25

COSTS: tuple[tuple[Any, ...], ...] = (
    ("1,000 due at once", True, 1000, lambda rng: 0.05, 20_000),
    ("a busy loop", True, 200, lambda rng: rng.expovariate(100), 10_000, 1e-4),
    ("one by one, 1,000/s", False, 50, lambda rng: rng.expovariate(20), 2000),
)
"""Name, whether it has an aim, and the arguments of :func:`cost`. One by one, gevent saves turns of the loop."""


def wait_by_gevent(event: Event, until: float = math.inf) -> bool:
    """Wait as ``alarm.wait`` does, by gevent's timers."""
    return event.wait(None if until == math.inf else max(0.0, until - time.perf_counter()))


WAYS: dict[str, dict[str, Any]] = {"gevent": {"sleep": gevent.sleep, "wait": wait_by_gevent}, "ours": OURS}


@contextmanager
def waiting(way: str) -> Iterator[Callable[[float], None]]:
    """Wake users by gevent's timers or by ours."""
    vars(alarm).update(WAYS[way])
    try:
        yield alarm.sleep
    finally:
        vars(alarm).update(OURS)


def cost(way: str, greenlets: int, wait: Callable[[random.Random], float], waits: int, burnt: float = 0.0) -> float:
    """Return the microseconds of CPU time of a wait, without the seconds that the greenlet burns after each."""

    def work(rng: random.Random) -> None:
        for _ in range(waits // greenlets):
            sleep(wait(rng))
            until = time.process_time() + burnt
            while burnt and time.process_time() < until:
                pass

    with waiting(way) as sleep:
        began = time.process_time()
        gevent.joinall([gevent.spawn(work, random.Random(k)) for k in range(greenlets)], raise_error=True)
        return ((time.process_time() - began) / waits - burnt) * 1e6


def lateness(way: str, per_second: int, seconds: float) -> list[float]:
    """Return the sorted lateness in microseconds of the waits of 100 greenlets, so many a second in total."""
    late, until = [], time.perf_counter() + seconds

    def work(rng: random.Random) -> None:
        while (now := time.perf_counter()) < until:
            wait = rng.expovariate(per_second / 100)
            sleep(wait)
            late.append((time.perf_counter() - now - wait) * 1e6)

    with waiting(way) as sleep:
        gevent.joinall([gevent.spawn(work, random.Random(k)) for k in range(100)], raise_error=True)
    return sorted(late)


def visitor(address: str, wait: Any) -> type[FastHttpUser]:
    """Return a user class that stores the times of its tasks."""

    class Visitor(FastHttpUser):
        host = address
        wait_time = wait
        launches: list[float] = []  # noqa: RUF012

        @task
        def ask(self) -> None:
            self.launches.append(time.perf_counter())
            self.client.get("/")

    return Visitor


def launches_of(way: str, address: str, wait: Any, seconds: float) -> tuple[list[float], list[float]]:
    """Return when 100 users began their tasks and when these sent their requests, in seconds, without the start."""
    user = visitor(address, wait)
    environment = Environment(user_classes=[user])
    runner = environment.create_local_runner()
    ensure_plan(environment)
    sent: list[float] = []
    environment.events.request.add_listener(lambda start_time, **_: sent.append(start_time))
    with waiting(way):
        runner.start(100, 100)
        gevent.sleep(seconds + SKIPPED_S)
        runner.quit()
    sent.sort()
    skipped = sum(at < user.launches[0] + SKIPPED_S for at in user.launches)
    return user.launches[skipped:], sent[skipped:]


def short_gaps(times: list[float]) -> float:
    """Return the share of gaps under a tenth of the mean gap, over that of independent users."""
    gaps = [b - a for a, b in pairwise(times)]
    limit = statistics.mean(gaps) / 10
    return sum(gap < limit for gap in gaps) / len(gaps) / -math.expm1(-0.1)


def main() -> int:
    """Print the table; the exit status is 1 where an aim is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=15.0, help="length of each measurement (default 15)")
    parser.add_argument("--pairs", type=int, default=2, help="pairs of measurements (default 2)")
    options = parser.parse_args()
    hook_user_start()
    connect()
    paced_100, paced_400 = paced(ConstantRate(100)), paced(ConstantRate(400))
    print(f"{'':44}{'gevent':>9}{'ours':>9}")
    met = []

    def show(what: str, by_gevent: float, ours: float, aim: bool | None = None) -> None:
        print(f"{what:44}{by_gevent:9.2f}{ours:9.2f}  {'' if aim is None else 'met' if aim else 'MISSED'}", flush=True)
        met.append(aim is not False)

    for what, aim, *work in COSTS:
        least = {way: min(cost(way, *work) for _ in range(5)) for way in WAYS}
        added = least["ours"] - least["gevent"]
        show(f"CPU of a wait, us: {what}", least["gevent"], least["ours"], added <= AIM_COST_US if aim else None)
    for per_second in (100, 400):
        found = {way: lateness(way, per_second, options.seconds) for way in WAYS}
        for percent in (50, 90):
            by_gevent, ours = (late[percent * len(late) // 100] for late in (found["gevent"], found["ours"]))
            show(f"lateness p{percent}, us: {per_second} waits/s", by_gevent, ours, ours <= AIM_LATENESS * by_gevent)
    with server() as port:
        for what, wait in (
            ("exponential(1), 100/s", exponential(1)),
            ("exponential(.25), 400/s", exponential(0.25)),
            ("paced(100/s)", paced_100),
            ("paced(400/s)", paced_400),
        ):
            runs: dict[str, list[tuple[float, float]]] = {way: [] for way in WAYS}
            for _ in range(options.pairs):
                for way in WAYS:
                    awake, sent = launches_of(way, f"http://127.0.0.1:{port}", wait, options.seconds)
                    runs[way].append((short_gaps(awake), short_gaps(sent)))
            for k, where in enumerate(("awake", "sent")):
                by_gevent, ours = (statistics.mean(run[k] for run in runs[way]) for way in WAYS)
                show(f"short gaps {where}: {what}", by_gevent, ours, ours <= AIM_SHORT_GAPS if k else None)
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
