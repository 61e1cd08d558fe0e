"""Rows of what ``locust-realism fit`` estimates from a server's log, from requests and times in memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from locust_realism.analysis.stats.batches import student
from locust_realism.analysis.stats.estimates import wilson_limits
from locust_realism.fit.family_fits import fit_families
from locust_realism.fit.fitting import mean_interval, sessions_of
from locust_realism.fit.rates import MINUTES, days_differ, days_dispersion, rates
from locust_realism.fit.visits import GroupedTimes, SessionFinder
from locust_realism.workload.distributions import (
    exponential,
    gamma,
    lognormal,
    pareto,
    truncated_exponential,
    uniform,
    weibull,
)
from locust_realism.workload.distributions.base import Distribution
from rows.row import Outcome, Row

GAP_S = 1800.0
THINK_S = 60.0
CONFIDENCE = 0.95
Lengths = Callable[[np.random.Generator, int], NDArray[np.int64]]
Rate = Callable[[NDArray[np.float64], float], NDArray[np.float64]]


def geometric(mean: float) -> Lengths:
    """Return sessions of geometric length."""
    return lambda rng, n: rng.geometric(1 / mean, n)


def mixed(mean: float, cov: float) -> Lengths:
    """Return sessions of log-normal length, by a Poisson number of requests after the first."""
    law = lognormal(mean - 1, cov=cov)
    return lambda rng, n: 1 + rng.poisson(law.sample(rng, n))


def steady(times: NDArray[np.float64], length: float) -> NDArray[np.float64]:
    """Return a constant rate."""
    return np.ones_like(times)


def daily(times: NDArray[np.float64], length: float) -> NDArray[np.float64]:
    """Return the rate of a day with a peak four times as high as its valley, at most 1."""
    return (1 - 0.6 * np.cos(2 * np.pi * times / 86_400)) / 1.6


def rising(times: NDArray[np.float64], length: float) -> NDArray[np.float64]:
    """Return a rate that doubles over the log."""
    return np.clip(0.5 + 0.5 * times / length, 0.5, 1.0)


def requests(
    rng: np.random.Generator, hours: float, lengths: Lengths, rate: float, profile: Rate
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return times (whole seconds, in microseconds) and visitors of a log that begins and ends amid its traffic."""
    length = 3600 * hours
    warm_up = 40 * 3600.0
    start = rng.uniform(-warm_up, length, rng.poisson(rate * (warm_up + length)))
    start = np.sort(start[rng.random(len(start)) < profile(start, length)])
    count = lengths(rng, len(start))
    # Sessions that are over long before the log need no requests.
    kept = start + THINK_S * (count + 12 * np.sqrt(count)) > 0
    start, count = start[kept], count[kept]
    visitor = np.repeat(np.arange(len(start)), count)
    walked = np.cumsum(rng.exponential(THINK_S, len(visitor)))
    time = start[visitor] + walked - walked[np.cumsum(count) - count][visitor]
    kept = (time >= 0) & (time < length)
    order = np.argsort(time[kept])
    return np.floor(time[kept][order]).astype(np.int64) * 1_000_000, visitor[kept][order]


def sessions(rng: np.random.Generator, hours: float, lengths: Lengths, rate: float, profile: Rate) -> dict[str, Any]:
    """Return the fitted sessions of a log."""
    seen, visitor = requests(rng, hours, lengths, rate, profile)
    finder = SessionFinder(gap=GAP_S, resolution=1.0)
    finder.feed(seen, seen, visitor)
    finder.finish()
    return sessions_of(finder.sessions(), CONFIDENCE)


def arrival_rate(hours: float, rng: np.random.Generator) -> Outcome:
    """Take the rate of sessions after the first gap of a log of long sessions."""
    rate = 0.05
    seen, visitor = requests(rng, hours, LONG, rate, steady)
    finder = SessionFinder(gap=GAP_S, resolution=1.0)
    begins = finder.feed(seen, seen, visitor) & (seen >= finder.early_until_us)
    bins = rates(np.array([begins.sum()]), np.array([3600 * hours - GAP_S]), 1.0, CONFIDENCE)
    return estimated(float(bins.rate[0]), [float(bins.low[0]), float(bins.high[0])], rate)


def estimated(value: float | None, interval: list[float] | None, true: float) -> Outcome:
    """Return the outcome of an estimate and its interval."""
    error = None if value is None or not math.isfinite(value) else value / true - 1
    return Outcome(error, None if interval is None else interval[0] <= true <= interval[1])


def session_figure(
    key: str, true: float, hours: float, lengths: Lengths, rate: float, profile: Rate, rng: np.random.Generator
) -> Outcome:
    """Fit a log of sessions."""
    found = sessions(rng, hours, lengths, rate, profile)
    return estimated(found[key], found.get(f"{key.removesuffix('_s')}_interval{'_s' * key.endswith('_s')}"), true)


def session_row(
    key: str, true: float, hours: float, lengths: Lengths, data: str, *, rate: float = 0.05, profile: Rate = steady
) -> Row:
    """Return the row of a figure of the sessions."""
    goal = "bias within 2 %" + ", holds >= .93" * key.startswith("mean")
    if profile is rising:
        goal = "bias within 5 %"
    run = partial(session_figure, key, true, hours, lengths, rate, profile)
    return Row(f"`sessions.{key}`, fit", f"{data}, {hours:g} h of log", run, 300, goal)


def seen(law: Distribution, n: int, resolution: float, rng: np.random.Generator) -> GroupedTimes:
    """Return times between two readings of a clock."""
    start = rng.uniform(0, 1e5, n)
    units = np.floor((start + law.sample(rng, n)) / resolution) - np.floor(start / resolution)
    times = GroupedTimes(resolution, GAP_S)
    times.add(np.rint(units[units * resolution <= GAP_S] * resolution * 1e6).astype(np.int64))
    return times


def family_distance(law: Distribution, family: str, n: int, resolution: float, rng: np.random.Generator) -> Outcome:
    """Compare the KS distance of a fitted family with its limit."""
    times = seen(law, n, resolution, rng)
    (fit,) = fit_families(times, only=[family])
    return Outcome(found=fit.ks > fit.ks_by_chance(times.n))


def parameter(name: str, law: Distribution, n: int, rng: np.random.Generator) -> Outcome:
    """Fit the right family to whole seconds."""
    (fit,) = fit_families(seen(law, n, 1.0, rng), only=[law.kind])
    found = fit.parameters[name]
    return estimated(found.value, [found.low, found.high], float(getattr(law, name)))


def mean_time(law: Distribution, n: int, rng: np.random.Generator) -> Outcome:
    """Take the mean of times in whole seconds."""
    times = seen(law, n, 1.0, rng)
    return estimated(times.mean, mean_interval(times, CONFIDENCE), law.mean)


def bin_rate(expected: float, rng: np.random.Generator) -> Outcome:
    """Take the rate of one bin of the day."""
    bins = rates(rng.poisson(expected, 1), np.array([3600.0]), 3600.0, CONFIDENCE)
    return estimated(float(bins.rate[0]), [float(bins.low[0]), float(bins.high[0])], expected / 3600)


def days(spread: float, rng: np.random.Generator) -> Outcome:
    """Compare seven days of 960 sessions; ``spread`` is the CoV of a day's rate."""
    factor = rng.gamma(1 / spread**2, spread**2, 7) if spread else np.ones(7)
    counts = rng.poisson(factor[:, None] * np.full((7, MINUTES), 40 / 60))
    return Outcome(found=days_differ(*days_dispersion(counts, np.full((7, MINUTES), 60.0), 3600)))


def share_of(share: float, n: int, rng: np.random.Generator) -> Outcome:
    """Take the share of a name."""
    count = int(rng.binomial(n, share))
    return estimated(count / n, [*wilson_limits(count / n, n, student(CONFIDENCE, math.inf))], share)


LONG = geometric(50)
FIFTY = "50 requests (geometric), 60 s apart"
LAWS = (
    exponential(12),
    lognormal(20, cov=1.5),
    gamma(12, cov=0.8),
    weibull(20, shape=0.7),
    pareto(10, shape=1.5, maximum=GAP_S),
    truncated_exponential(7, maximum=20),
    uniform(5, 25),
)

ROWS: tuple[Row, ...] = (
    *(session_row("mean_length", 50, hours, LONG, FIFTY) for hours in (2.5, 4, 8)),
    *(session_row("mean_duration_s", 2940, hours, LONG, FIFTY) for hours in (2.5, 4, 8)),
    session_row("mean_length", 50, 24, LONG, f"{FIFTY}, a day's sine", rate=0.02, profile=daily),
    session_row("mean_length", 50, 4, LONG, f"{FIFTY}, a rate that doubles", profile=rising),
    session_row("mean_length", 50, 4, mixed(50, 2), "log-normal, CoV 2; a rate that doubles", profile=rising),
    session_row("mean_length", 50, 2.5, lambda rng, n: np.full(n, 50), "50 requests each, 60 s apart"),
    session_row("mean_length", 50, 4, mixed(50, 1), "50 requests (log-normal, CoV 1), 60 s apart"),
    session_row("mean_length", 50, 8, mixed(50, 2), "50 requests (log-normal, CoV 2), 60 s apart"),
    session_row("mean_duration_s", 2940, 8, mixed(50, 2), "50 requests (log-normal, CoV 2), 60 s apart"),
    session_row("mean_length", 3, 2.5, geometric(3), "3 requests, 60 s apart"),
    session_row("mean_duration_s", 120, 2.5, geometric(3), "3 requests, 60 s apart"),
    session_row("single_share", 0.2, 4, geometric(5), "5 requests (geometric), 60 s apart"),
    session_row("p50_length", 35, 4, LONG, FIFTY),
    session_row("p90_length", 114, 8, LONG, FIFTY),
    session_row("p50_duration_s", 3000 * math.log(1.96), 4, LONG, FIFTY),
    session_row("length_cov", math.sqrt(0.98), 8, LONG, FIFTY),
    *(
        Row(
            "`think_times.ks` beyond `ks_by_chance`, fit",
            f"{law.kind}, the right family, 1,000 times",
            partial(family_distance, law, law.kind, 1000, 0.001),
            200 if law.kind == "pareto" else 400,
            "found <= 5 %",
        )
        for law in LAWS
    ),
    Row(
        "`think_times.ks` beyond `ks_by_chance`, fit",
        "log-normal in whole seconds, the right family",
        partial(family_distance, LAWS[1], "lognormal", 1000, 1.0),
        400,
        "found <= 5 %",
    ),
    Row(
        "`think_times.ks` beyond `ks_by_chance`, fit",
        "log-normal with CoV 1.5, a gamma family, 1,000 times",
        partial(family_distance, LAWS[1], "gamma", 1000, 0.001),
        200,
        "found >= 95 %",
    ),
    *(
        Row(
            f"`parameters.{name}` of the think times, fit",
            f"{law.kind}, 400 times in whole seconds",
            partial(parameter, name, law, 400),
            300,
            "holds >= .93",
        )
        for law, name in ((LAWS[0], "mean"), (LAWS[1], "mean"), (LAWS[1], "cov"), (LAWS[3], "mean"), (LAWS[3], "shape"))
    ),
    *(
        Row(
            "`think_times.mean_s`, fit",
            f"{law.kind}, CoV {law.cov:.2g}, {n:,} times in whole seconds",
            partial(mean_time, law, n),
            1000,
            "bias within 2 %, holds >= .93",
        )
        for law, n in ((LAWS[0], 400), (LAWS[1], 400), (LAWS[1], 4000))
    ),
    *(
        Row(
            "`arrivals.mean_rate`, fit",
            f"{FIFTY}, {hours:g} h of log",
            partial(arrival_rate, hours),
            300,
            "bias within 2 %, holds >= .93",
        )
        for hours in (1.0, 1.9, 4.0)
    ),
    *(
        Row("`rate` by time of day, fit", f"{n:g} sessions expected", partial(bin_rate, n), 1000, "holds >= .95")
        for n in (1.0, 10.0, 400.0)
    ),
    Row("Days differ (warning), fit", "7 equal days of 960 sessions", partial(days, 0.0), 1000, "found <= 1 %"),
    Row("Days differ (warning), fit", "days with a CoV of .2", partial(days, 0.2), 400, "found >= 95 %"),
    *(
        Row(
            "`share` of a name, fit",
            f"{share:.1%} of {n:,} requests",
            partial(share_of, share, n),
            1000,
            "holds >= .93",
        )
        for share, n in ((0.3, 100), (0.01, 1000), (0.001, 10_000))
    ),
)
"""Statements of ``fit`` on logs with known parameters."""
