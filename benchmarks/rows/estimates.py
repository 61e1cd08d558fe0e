"""Statements about response times, failures and rates of one run: percentiles of the summary, means, shares, rates.

An interval counts as given if both of its limits are. Where less than half of the runs have one, those that do overrate
their independent values, and the share that holds is no goal. There a run has "found" something if it gives an interval
without the truth; at most 5 % of all runs may.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from locust_realism.analysis.percentiles import Int64
from locust_realism.analysis.stats.estimates import Estimate, mean_estimate, rate_estimate, share_estimate
from locust_realism.analysis.stats.responses import response_table
from locust_realism.recording.launches import LaunchLog
from rows.processes import Requests, ar1, iid, mg1, mm1, sine, truth
from rows.row import Outcome, Row

Process = Callable[..., Requests]
HOLDS = "holds >= .93"
SELDOM_WRONG = "found <= 5 %"
PERCENTILES = ("p50", "p95", "p99")
DATA: tuple[tuple[str, Process, dict[str, float]], ...] = (
    ("iid", iid, {}),
    ("AR(1) of .9", ar1, {}),
    ("M/M/1 at .5", mm1, {"rho": 0.5}),
    ("M/M/1 at .8", mm1, {"rho": 0.8}),
    ("M/M/1 at .9", mm1, {"rho": 0.9}),
    ("M/G/1 of CoV 3 at .5", mg1, {"rho": 0.5}),
    ("M/G/1 of CoV 3 at .8", mg1, {"rho": 0.8}),
)
RARE = {
    10_000: {
        "M/M/1 at .8": ("p99",), "M/M/1 at .9": ("p95", "p99"),
        "M/G/1 of CoV 3 at .5": ("p99",), "M/G/1 of CoV 3 at .8": ("p95", "p99"),
    },
    100_000: {"M/M/1 at .9": ("p99",), "M/G/1 of CoV 3 at .8": ("p99",)},
}  # fmt: skip
"""Percentiles that less than half of the runs of this length have an interval of."""


def microseconds(seconds: np.ndarray[Any, np.dtype[np.float64]]) -> Int64:
    """Return times in whole microseconds."""
    return np.rint(seconds * 1e6).astype(np.int64)


def outcome(value: float, low: float | None, high: float | None, true: float) -> Outcome:
    """Return the error of a figure, and if the true one is between its limits; limits that are not finite are none."""
    if low is None or high is None or not math.isfinite(low) or not math.isfinite(high):
        return Outcome(value / true - 1)
    return Outcome(value / true - 1, low <= true <= high)


def seldom(run: Callable[[np.random.Generator], Outcome], rng: np.random.Generator) -> Outcome:
    """Return if an interval holds, and if one is given that does not, without the error of the figure."""
    held = run(rng).held
    return Outcome(held=held, found=held is False)


def row(statement: str, data: str, run: Callable[[np.random.Generator], Outcome], runs: int, is_rare: bool) -> Row:
    """Return a row, of an interval that is rarely given or of one that must hold."""
    if is_rare:
        return Row(statement, data, partial(seldom, run), runs, SELDOM_WRONG)
    return Row(statement, data, run, runs, HOLDS)


def of_summary(
    figure: str, process: Process, parameters: dict[str, float], n: int, rng: np.random.Generator
) -> Outcome:
    """Take a percentile from the summary's table of response times."""
    launch, response = process(rng, n, **parameters)
    total: Any = response_table(LaunchLog.build(microseconds(launch), microseconds(response)))[-1]
    known = {**parameters, "n": n} if process is sine else parameters
    key = figure.replace(".", "")
    low, high = total[f"{key}_interval_ms"] or (None, None)
    return outcome(total[f"{key}_ms"], low, high, 1e3 * truth(process, figure, **known))


def of_advice(figure: str, process: Process, parameters: dict[str, float], n: int, rng: np.random.Generator) -> Outcome:
    """Return if a run as long as the note advises has the interval; nothing if the first run has it."""

    def advised(n: int) -> int | None:
        launch, response = process(rng, n, **parameters)
        total: Any = response_table(LaunchLog.build(microseconds(launch), microseconds(response)))[-1]
        times = re.search(rf"([\d,]+)[a-z ]* \({figure}\)", total["interval_note"] or "")
        return int(times[1].replace(",", "")) if times else None

    times = advised(n)
    return Outcome(found=advised(times * n) is None) if times else Outcome()


def of_mean(process: Process, parameters: dict[str, float], n: int, rng: np.random.Generator) -> Outcome:
    """Estimate the mean, as compare, sweep and capacity do."""
    found = mean_estimate(process(rng, n, **parameters)[1])
    known = {**parameters, "n": n} if process is sine else parameters
    return outcome(found.value, found.low, found.high, truth(process, "mean", **known))


def of_name(name: str, rng: np.random.Generator) -> Outcome:
    """Take p50 of a name: the first 2,000 requests, or half of those in the second half of the run."""
    launch, response = mm1(rng, 20_000, 0.8)
    place = np.arange(20_000)
    is_named = place < 2000 if name == "login" else (place > 10_000) & (rng.random(20_000) < 0.5)
    names = np.where(is_named, name, "home").tolist()
    table = response_table(LaunchLog.build(microseconds(launch), microseconds(response), names=names))
    row: Any = next(each for each in table if each["label"] == name)
    low, high = row["p50_interval_ms"] or (None, None)
    return outcome(row["p50_ms"], low, high, 1e3 * truth(mm1, "p50", rho=0.8))


def failed(rng: np.random.Generator, n: int, share: float, length: float) -> Estimate:
    """Estimate a share of failures that come in bursts of this mean length, 1 for failures that come alone."""
    if length == 1:
        return share_estimate(rng.random(n) < share)
    bursts = int(2 * n * share / length) + 50
    gaps, lengths = rng.geometric(share / length / (1 - share), bursts), rng.geometric(1 / length, bursts)
    flags = np.repeat(np.tile([False, True], bursts), np.stack((gaps, lengths), axis=1).ravel())[:n]
    return share_estimate(flags)


def of_share(n: int, share: float, length: float, rng: np.random.Generator) -> Outcome:
    """Estimate a share of failures."""
    found = failed(rng, n, share, length)
    is_known = (found.low, found.high) != (0.0, 1.0)
    return outcome(found.value, found.low if is_known else None, found.high, share)


def of_rate(process: Process, parameters: dict[str, float], n: int, rate: float, rng: np.random.Generator) -> Outcome:
    """Estimate the launches per second."""
    found = rate_estimate(microseconds(process(rng, n, **parameters)[0]))
    return outcome(found.value, found.low, found.high, rate)


def bunched(rng: np.random.Generator, n: int) -> Requests:
    """Draw launches whose gaps depend on their neighbours, 100 a second, with equal response times."""
    _, gaps = ar1(rng, n, 0.8, 0.01)
    return np.cumsum(gaps), np.full(n, 0.1)


def long_rows() -> Iterator[Row]:
    """Yield the rows of runs of 10,000 and 100,000 requests."""
    for n, runs in ((10_000, 400), (100_000, 200)):
        for data, process, parameters in DATA:
            text, rare = f"{data}, {n:,} requests", RARE[n].get(data, ())
            for figure in PERCENTILES:
                run = partial(of_summary, figure, process, parameters, n)
                yield row(f"{figure} of the summary", text, run, runs, figure in rare)
            yield row("Mean", text, partial(of_mean, process, parameters, n), runs, False)
    for data, process, parameters in (DATA[0], DATA[2]):
        for figure in ("p90", "p99.9"):
            run = partial(of_summary, figure, process, parameters, 100_000)
            yield row(f"{figure} of the summary", f"{data}, 100,000 requests", run, 200, False)
    for figure, data, process, parameters in (("p95", *DATA[4]), ("p99", *DATA[3])):
        run = partial(of_advice, figure, process, parameters, 5000)
        yield Row(f"{figure} has an interval after the advised time", f"{data}, first 5,000 requests", run, 200,
                  "found >= .6")  # fmt: skip
    for figure in PERCENTILES[:2]:
        run = partial(of_summary, figure, sine, {}, 100_000)
        yield row(f"{figure} of the summary", "a day's sine, 100,000 requests", run, 200, False)
    yield row("Mean", "a day's sine, 100,000 requests", partial(of_mean, sine, {}, 100_000), 200, False)
    yield row("p50 of a name of the summary", "M/M/1 at .8, 5,000 of 20,000 requests, in the second half only",
              partial(of_name, "late"), 400, False)  # fmt: skip
    yield row("p50 of a name of the summary", "M/M/1 at .8, the first 2,000 of 20,000 requests",
              partial(of_name, "login"), 400, False)  # fmt: skip


def short_rows() -> Iterator[Row]:
    """Yield the rows of windows of 20 s to 10 min."""
    for rate in (10, 100):
        for seconds in (20, 60, 600):
            n = rate * seconds
            queue: dict[str, float] = {"rho": 0.5, "service_s": 0.5 / rate}
            plain: dict[str, float] = {"rate": rate}
            for data, process, parameters in (("iid", iid, plain), ("M/M/1 at .5", mm1, queue)):
                text, few = f"{data}, {seconds} s at {rate}/s", process is mm1 and n < 1000
                run = partial(of_summary, "p50", process, parameters, n)
                yield row("p50 of the summary", text, run, 400, False)
                run = partial(of_summary, "p95", process, parameters, n)
                yield row("p95 of the summary", text, run, 400, few)
                yield row("Mean", text, partial(of_mean, process, parameters, n), 400, False)


def count_rows() -> Iterator[Row]:
    """Yield the rows of shares and rates."""
    for n, share, length, goal in (
        (10_000, 0.01, 1, HOLDS), (10_000, 0.0005, 1, HOLDS), (100_000, 0.01, 50, HOLDS), (10_000, 0.01, 50, ""),
    ):  # fmt: skip
        how = "alone" if length == 1 else f"in bursts of {length}"
        text = f"{share:.2%} of {n:,} requests fail, {how}"
        yield Row("Share of failures", text, partial(of_share, n, share, length), 400, goal)
    for n in (200, 10_000):
        yield Row("Launches per second", f"Poisson, {n:,} launches", partial(of_rate, iid, {}, n, 100.0), 400, HOLDS)
    yield Row("Launches per second", "gaps of AR(1) of .8, 10,000 launches",
              partial(of_rate, bunched, {}, 10_000, 100.0), 400, HOLDS)  # fmt: skip


ROWS = (*long_rows(), *short_rows(), *count_rows())
