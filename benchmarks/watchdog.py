"""Cost of the health watch, and the shares that its watchdog finds: a loop on time, a saturated one, blocked ones.

    python benchmarks/watchdog.py [--seconds 5] [--pairs 5]

Costs are taken in pairs within one process, without and with the watch in turn, in CPU time of the whole process. A
greenlet that sleeps 10 ms again and again is the reference, because a wake costs several times more on a busy virtual
machine than on an idle one. Throughputs are those of single seconds, ten pairs of them for each pair of the costs,
since the speed of a virtual machine drifts. Aims: the watchdog costs at most 0.5 % of a core, beside a loop on time and
beside saturated FastHttpUsers; their throughput for each second of CPU is at least 0.98 of that without, within two
standard errors; a function that blocks 5 of every 10 ms, or 80 of 400 ms, is named with a share within a third of its
CPU time. The exit status is 1 where an aim is missed.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import gevent
from locust import User
from locust.env import Environment
from recorder import cpu_throughput, environment_of, saturated_users

from locust_realism.recording.diagnosis import Tally
from locust_realism.runtime.capture.health_watch import HealthWatch
from locust_realism.runtime.capture.watchdog import Heartbeat
from locust_realism.runtime.coordination.clock import Clock

AIM_SHARE, AIM_THROUGHPUT, AIM_BLOCKED = 0.005, 0.98, 1 / 3
SECONDS_A_PAIR = 10
PYTHONS_OWN_S = sys.getswitchinterval()


@contextmanager
def watched(environment: Environment) -> Iterator[HealthWatch]:
    """Watch the process, with the shorter switch interval that this brings."""
    assert environment.runner is not None
    watch = HealthWatch(environment.runner, Clock())
    try:
        yield watch
    finally:
        watch.close()
        sys.setswitchinterval(PYTHONS_OWN_S)


@contextmanager
def beating() -> Iterator[Heartbeat]:
    """Run the heartbeat and the watchdog only."""
    heartbeat = Heartbeat()
    try:
        yield heartbeat
    finally:
        heartbeat.close()
        sys.setswitchinterval(PYTHONS_OWN_S)


Watch = Callable[[], AbstractContextManager[Any]]


def in_pairs(watch: Watch, measure: Callable[[], float], pairs: int) -> tuple[list[float], list[float]]:
    """Return the measurements without and with the watch; the order alternates."""
    found: tuple[list[float], list[float]] = [], []
    for pair in range(pairs):
        for with_us in (True, False) if pair % 2 else (False, True):
            with watch() if with_us else nullcontext():
                gevent.sleep(0.2)
                found[with_us].append(measure())
    return found


def added(watch: Watch, seconds: float, pairs: int) -> float:
    """Return the share of a core that a watch adds to a loop on time, the median of pairs."""
    without, ours = in_pairs(watch, lambda: share_of_core(seconds), pairs)
    return statistics.median(b - a for a, b in zip(without, ours, strict=True))


def share_of_core(seconds: float) -> float:
    """Return the share of a core that this process uses."""
    cpu, wall = time.process_time(), time.perf_counter()
    gevent.sleep(seconds)
    return (time.process_time() - cpu) / (time.perf_counter() - wall)


def sleeping(seconds: float) -> float:
    """Return the share of a core that a greenlet uses which sleeps 10 ms again and again."""

    def sleep() -> None:
        while True:
            gevent.sleep(0.01)

    greenlet = gevent.spawn(sleep)
    share = share_of_core(seconds)
    greenlet.kill()
    return share


def thread_share(seconds: float) -> float:
    """Return the share of a core that the watchdog's thread uses, by ``schedstat``."""
    threads = set(Path("/proc/self/task").iterdir())
    heartbeat = Heartbeat()
    gevent.sleep(0.2)
    (thread,) = set(Path("/proc/self/task").iterdir()) - threads

    def used_s() -> float:
        return int((thread / "schedstat").read_text().split()[0]) / 1e9

    before, began = used_s(), time.perf_counter()
    gevent.sleep(seconds)
    share = (used_s() - before) / (time.perf_counter() - began)
    heartbeat.close()
    sys.setswitchinterval(PYTHONS_OWN_S)
    return share


def saturated(pairs: int, seconds: float) -> tuple[list[float], float]:
    """Return the throughput with the watch over that without, for each second of CPU, a value a pair.

    The second value is the share of a core that the watchdog's thread takes.
    """
    with saturated_users() as environment:
        without, ours = in_pairs(
            lambda: watched(environment), lambda: cpu_throughput(environment, 1.0), SECONDS_A_PAIR * pairs
        )
        thread = thread_share(seconds)
    return [a / b for a, b in zip(ours, without, strict=True)], thread


def hash_password(seconds: float) -> None:
    """Keep the event loop busy."""
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


def shares(environment: Environment, busy_s: float, period_s: float, seconds: float) -> tuple[float, float]:
    """Return the share of the time that the watch finds for a function that blocks, and its share of CPU time."""

    def block() -> None:
        while True:
            hash_password(busy_s)
            gevent.sleep(period_s - busy_s)

    with watched(environment) as watch:
        greenlet = gevent.spawn(block)
        began, cpu = time.perf_counter(), time.thread_time()
        gevent.sleep(seconds + 1.2)
        true = (time.thread_time() - cpu) / (time.perf_counter() - began)
        greenlet.kill()
        tally = Tally()
        tally.add(watch.take_causes())
    return sum(share for name, share in tally.diagnosis().blockers if "hash_password" in name), true


def main() -> int:
    """Print the figures with their aims; the exit status is 1 when an aim is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=5.0, help="length of each measurement (default 5)")
    parser.add_argument("--pairs", type=int, default=5, help="pairs of measurements (default 5)")
    options = parser.parse_args()
    environment = environment_of(User)
    beats = added(beating, options.seconds, options.pairs)
    whole = added(lambda: watched(environment), options.seconds, options.pairs)
    reference = statistics.median(sleeping(options.seconds) for _ in range(options.pairs))
    ratios, thread = saturated(options.pairs, options.seconds)
    ratio, error = statistics.mean(ratios), statistics.stdev(ratios) / math.sqrt(len(ratios))
    rows = [
        ("loop on time, watchdog", f"{beats:.2%}", f"at most {AIM_SHARE:.1%}", beats <= AIM_SHARE),
        ("saturated, watchdog's thread", f"{thread:.2%}", f"at most {AIM_SHARE:.1%}", thread <= AIM_SHARE),
        (
            "saturated, per CPU second", f"x{ratio:.3f}", f"at least {AIM_THROUGHPUT}, within {2 * error:.3f}",
            ratio + 2 * error >= AIM_THROUGHPUT,
        ),
    ]  # fmt: skip
    for busy_s, period_s in ((0.005, 0.01), (0.08, 0.4)):
        found, true = shares(environment, busy_s, period_s, options.seconds)
        aim = abs(found / true - 1) <= AIM_BLOCKED
        rows.append((f"blocked {1e3 * busy_s:g} of {1e3 * period_s:g} ms", f"{found:.3f}", f"{true:.3f}", aim))
    for what, figure, aim, met in rows:
        print(f"{what:32}{figure:>10}  {aim}: {'met' if met else 'MISSED'}")
    print(f"whole watch {whole:.2%} of a core, the reference {reference:.2%}")
    return 0 if all(met for *_, met in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
