"""Cost of a wait: one draw against random.expovariate, and a million arrival times against a plain thinning loop.

Both sides are measured in the same run, alternating, in CPU time of this process (all of it is single-threaded, so on
an idle machine that is the time on the clock), and the least of several repetitions counts: what other processes take
from the machine only ever adds. The exit code is 1 where an aim is missed. Run: python benchmarks/waits.py
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from itertools import islice

import numpy as np

from locust_realism.workload.distributions import Distribution, exponential, gamma, lognormal, truncated_exponential
from locust_realism.workload.rates.shapes import SineRate
from locust_realism.workload.users.arrivals import ArrivalStream, arrival_times

DRAWS = 200_000
REPETITIONS = 7
ARRIVALS = 1_000_000
AIM_EXPONENTIAL, AIM_PACED, AIM_ARRIVALS_S = 2.0, 5.0, 0.5


def seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def waits_of(distribution: Distribution) -> Callable[[], object]:
    """Call ``user.wait_time()`` as Locust does for each wait."""
    user = type("Visitor", (), {"wait_time": distribution})()

    def work() -> None:
        for _ in range(DRAWS):
            user.wait_time()

    return work


def expovariate() -> None:
    draw = random.expovariate
    for _ in range(DRAWS):
        draw(0.5)


def locust_style() -> Callable[[], object]:
    """A wait as Locust builds its own: a function in the class body that calls random.expovariate."""
    return waits_of(lambda user: random.expovariate(0.5))  # type: ignore[arg-type]


def numpy_scalar() -> None:
    rng = np.random.default_rng(1)
    for _ in range(DRAWS // 10):
        rng.exponential(2.0)


def paced_sine() -> Callable[[], object]:
    def work() -> None:
        take = ArrivalStream(SineRate(10, 190, 60), np.random.default_rng(1)).take
        for _ in range(DRAWS):
            take()

    return work


def thinning(profile: SineRate, count: int) -> list[float]:
    """Arrivals by thinning a process with the highest rate, one candidate at a time: the plain loop."""
    highest, arrivals, t = profile.max_rate, [], 0.0
    middle, amplitude, turn = profile.middle, profile.amplitude, 2 * np.pi / profile.period
    from math import cos

    peak, draw, expo = float(profile.peak_at or 0), random.random, random.expovariate
    while len(arrivals) < count:
        t += expo(highest)
        if draw() * highest < middle + amplitude * cos(turn * (t - peak)):
            arrivals.append(t)
    return arrivals


def best(works: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Least time of each, measured in turn."""
    times: dict[str, float] = dict.fromkeys(works, float("inf"))
    for _ in range(REPETITIONS):
        for name, work in works.items():
            times[name] = min(times[name], seconds(work))
    return times


def main() -> int:
    """Print the table; the exit code is 1 where an aim is missed."""
    print(
        f"Python {sys.version.split()[0]}, numpy {version('numpy')}; least of {REPETITIONS} runs of {DRAWS:,} draws\n"
    )
    times = best(
        {
            "random.expovariate(0.5)": expovariate,
            "user.wait_time(), lambda with random.expovariate": locust_style(),
            "numpy Generator, one at a time (x10)": numpy_scalar,
            "user.wait_time(), exponential(2)": waits_of(exponential(2)),
            "user.wait_time(), truncated_exponential(2, 20)": waits_of(truncated_exponential(2, 20)),
            "user.wait_time(), lognormal(2, cov=1.2)": waits_of(lognormal(2, cov=1.2)),
            "user.wait_time(), gamma(2, cov=0.5)": waits_of(gamma(2, cov=0.5)),
            "next launch of a paced sine": paced_sine(),
        }
    )
    times["numpy Generator, one at a time (x10)"] *= 10
    base = times["random.expovariate(0.5)"]
    for name, spent in times.items():
        print(f"{name:<52} {spent / DRAWS * 1e9:7.0f} ns   {spent / base:5.2f} x random.expovariate")
    profile = SineRate(min_rate=100, max_rate=1900, period=200)
    duration = ARRIVALS / profile.middle  # five periods
    rng = np.random.default_rng(1)
    ours = min(seconds(lambda: arrival_times(profile, duration, rng)) for _ in range(5))
    loop = seconds(lambda: thinning(profile, ARRIVALS))
    plain = seconds(lambda: list(islice((random.expovariate(1000) for _ in range(ARRIVALS)), ARRIVALS)))
    print(f"\n{ARRIVALS:,} arrival times of a sine, amplitude 0.9:")
    print(f"  time rescaling, vectorised   {ours:6.3f} s   ({loop / ours:.0f} times as fast as the loop)")
    print(f"  thinning, a plain loop       {loop:6.3f} s")
    print(f"  a million random.expovariate {plain:6.3f} s   (constant rate, for scale)")
    exponential_ratio = times["user.wait_time(), exponential(2)"] / base
    paced_ratio = times["next launch of a paced sine"] / base
    met = exponential_ratio <= AIM_EXPONENTIAL and paced_ratio <= AIM_PACED and ours <= AIM_ARRIVALS_S
    print(
        f"\nAims: exponential {exponential_ratio:.2f} <= {AIM_EXPONENTIAL}, paced sine {paced_ratio:.2f} <= {AIM_PACED}"
        f", arrivals {ours:.3f} <= {AIM_ARRIVALS_S} s: {'met' if met else 'NOT met'}"
    )
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
