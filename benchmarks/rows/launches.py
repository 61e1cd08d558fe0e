"""Statements about launches and users: think times, checks of the verdict, stalls, warm-up and halves.

A check finds something where it is amber or red; too few data count as nothing found.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial

import calibrate_verdict as calibration
import numpy as np

from locust_realism.analysis.document import AMBER, RED
from locust_realism.analysis.settings import AnalysisSettings, WorkloadModel
from locust_realism.analysis.stats.steady_state import mser5
from locust_realism.analysis.verdict.checks import CHECKS
from locust_realism.analysis.verdict.dispersion import index_of_dispersion, local_gaps, poisson_band, window_counts
from locust_realism.analysis.verdict.evidence import Facts, collect
from locust_realism.analysis.verdict.users import user_times
from locust_realism.workload.distributions import Distribution, exponential, hyperexponential, lognormal
from locust_realism.workload.rates.shapes import SineRate
from rows.processes import Floats, Requests, ar1, iid, mg1, mm1, truth
from rows.row import Outcome, Row

Simulate = Callable[[np.random.Generator], calibration.Run]
SETTINGS = AnalysisSettings(charts=False)
Z95 = 1.96
CHECK = {number: check for number, _, check in CHECKS}
NAME = {number: name for number, name, _ in CHECKS}
THINK, WAIT = 12.0, 0.5
USERS = 100
CHANGES = (0.05, 0.1, 0.2, 0.5)
RATE = 100.0


def bad(number: int, run: calibration.Run) -> bool:
    """Return True if a check of the verdict is amber or red."""
    log, facts = run
    return CHECK[number](collect(log, SETTINGS, facts), SETTINGS.bounds).status in (AMBER, RED)


def checked(number: int, simulate: Simulate, rng: np.random.Generator) -> Outcome:
    """Judge one check."""
    return Outcome(found=bad(number, simulate(rng)))


def check(number: int, data: str, simulate: Simulate, goal: str = "found <= 1 %", runs: int = 400) -> Row:
    """Return the row of a check."""
    return Row(f"Check {number}, {NAME[number]}", data, partial(checked, number, simulate), runs, goal)


def pool(
    rng: np.random.Generator, law: Distribution, window: float, users: int = USERS, target: float = THINK
) -> calibration.Run:
    """Simulate ``window`` seconds of a fixed pool in its steady state: think times of this law, WAIT seconds a task."""
    each = 40 + int(6 * window / law.mean)
    think = law.sample(rng, users * each).reshape(users, each)
    # At a random instant a user is in a task for a share R / (R + Z), and in a residual pause otherwise.
    residual = law.sample_residual(rng, users)
    inside = rng.random(users) < WAIT / (WAIT + law.mean)
    first = np.where(inside, -WAIT * rng.random(users), residual)
    start = first[:, None] + np.concatenate((np.zeros((users, 1)), np.cumsum(think[:, 1:] + WAIT, axis=1)), axis=1)
    user, step = np.nonzero((start >= 0) & (start < window))
    order = np.argsort(start[user, step], kind="stable")
    user, step = user[order], step[order]
    pauses = np.rint(think[user, step] * 1e6).astype(np.int64)
    columns = {"slot": user, "users": users, "task": np.arange(len(user)), "think_us": pauses}
    log = calibration.log_of(start[user, step], np.full(len(user), WAIT), **columns)
    return log, Facts(model=calibration.closed(target, None, users), health=calibration.FINE)


def think_time(law: Distribution, window: float, rng: np.random.Generator) -> Outcome:
    """Estimate the think time of a window."""
    found = user_times(pool(rng, law, window)[0])
    error = found.think_mean - law.mean
    return Outcome(error / law.mean, abs(error) < Z95 * found.think_se)


def wait_share(law: Distribution, window: float, rng: np.random.Generator) -> Outcome:
    """Estimate R / (R + Z) of a window."""
    return Outcome(user_times(pool(rng, law, window)[0]).response_share / (WAIT / (WAIT + law.mean)) - 1)


def think_rows() -> Iterator[Row]:
    """Yield the rows of the users' times in short windows."""
    for law, window in [(exponential(THINK), 20), (exponential(THINK), 30), (exponential(THINK), 60),
                        (exponential(THINK), 600), (lognormal(THINK, cov=2), 60), (lognormal(THINK, cov=2), 600),
                        (hyperexponential(THINK, cov=3), 60)]:  # fmt: skip
        cov = f" and CoV {law.cov:g}" if law.kind != "exponential" else ""
        data = f"{USERS} users, {law.kind} think times of {THINK:g} s{cov}, window of {window} s"
        goal = "bias within 2 %, holds >= .93"
        yield Row("Think time", data, partial(think_time, law, window), 400, goal)
        yield Row("R/(R+Z)", data, partial(wait_share, law, window), 400, "bias within 2 %")
        if window <= 60:
            yield check(8, data, partial(pool, law=law, window=window), runs=200)
    for change in CHANGES:
        law = exponential(THINK * (1 + change))
        yield check(8, f"{USERS} users, think times {percent(change)} over their target, window of 600 s",
                    partial(pool, law=law, window=600.0), "found >= 90 %" if change >= 0.2 else "", 200)  # fmt: skip


def percent(change: float) -> str:
    """Return a change in words."""
    return f"{100 * change:g} %"


def poisson(rng: np.random.Generator, n: int) -> calibration.Run:
    """Poisson launches without a plan, n + 1 of them, with independent response times."""
    return calibration.log_of(*iid(rng, n + 1)), Facts(model=WorkloadModel(kind="open"), health=calibration.FINE)


def bunched_end(rng: np.random.Generator) -> calibration.Run:
    """Poisson launches, 379 gaps, the last 47 % of them in bunches of ten."""
    bunched = np.where(np.arange(179) % 10 == 0, 10.0, 0.01) * rng.exponential(1.0, 179)
    gaps = np.concatenate((rng.exponential(1.0, 200), bunched)) / RATE
    return launched(gaps, rng)


def launched(gaps_s: Floats, rng: np.random.Generator) -> calibration.Run:
    """Return the run of launches at these distances, with independent response times."""
    times = np.concatenate(([0.0], np.cumsum(gaps_s)))
    log = calibration.log_of(times, calibration.response(rng, len(times)))
    return log, Facts(model=WorkloadModel(kind="open"), health=calibration.FINE)


def gap_cov(n: int, rng: np.random.Generator) -> Outcome:
    """Estimate the CoV of Poisson launches within windows, with the interval of check 1."""
    cov = local_gaps(rng.exponential(1.0, n), 200)[1]
    return Outcome(cov - 1, abs(cov - 1) < Z95 / math.sqrt(n))


def dispersed(window_s: float, seconds: int, rng: np.random.Generator) -> Outcome:
    """Estimate the index of dispersion of Poisson launches, with the band of the table."""
    times = np.sort(rng.uniform(0, seconds * 1e6, rng.poisson(RATE * seconds)))
    counts = window_counts(times, [window_s])[0]
    low, high = poisson_band(len(counts))
    idc = index_of_dispersion(counts)
    return Outcome(idc - 1, low <= idc <= high)


def launch_rows() -> Iterator[Row]:
    """Yield the rows of the checks of gaps and counts."""
    for n in (400, 1000, 10_000):
        yield Row("CoV of inter-launch times", f"Poisson, {n:,} gaps", partial(gap_cov, n), 1000,
                  "bias within 1 %, holds >= .93")  # fmt: skip
    for window_s, seconds in ((0.1, 60), (1.0, 60), (1.0, 600), (10.0, 600)):
        yield Row("Index of dispersion, Poisson band", f"Poisson, 100/s, windows of {window_s:g} s, {seconds} s",
                  partial(dispersed, window_s, seconds), 1000, "bias within 1 %, holds >= .93")  # fmt: skip
    for n in (399, 400, 1000):
        yield check(9, f"Poisson, {n:,} gaps", partial(poisson, n=n), runs=1000)
    for number in (1, 9):
        yield check(number, "379 gaps, the last 47 % in bunches of ten", bunched_end, "found >= 95 %", 200)
    for number in (1, 2, 3, 6, 9, 11):
        yield check(number, "Poisson, 10,000 launches", partial(calibration.poisson, n=10_000))
    for number in (5, 6, 7, 8, 9):
        yield check(number, "100 users, exponential think times, 10,000 launches",
                    partial(calibration.exponential_pool, n=10_000), runs=200)  # fmt: skip
    for simulate, stays in ((calibration.population, "exponential stays"),
                            (calibration.lognormal_stays, "log-normal stays of CoV 2")):  # fmt: skip
        yield check(6, f"population of 100, {stays}, 10,000 launches", partial(simulate, n=10_000), runs=200)
    yield check(10, "population of 100, 10 s each, exponential stays, 10,000 launches",
                partial(calibration.population, n=10_000, session_s=10.0), runs=200)  # fmt: skip
    for change in CHANGES:
        yield check(1, f"gaps of CoV {1 + change:g}, 10,000 launches", partial(bunched, change),
                    "found >= 95 %" if change >= 0.2 else "", 200)  # fmt: skip


def bunched(change: float, rng: np.random.Generator) -> calibration.Run:
    """Launches whose gaps have a CoV that is larger than that of Poisson's by ``change``."""
    return launched(hyperexponential(1 / RATE, 1 + change).sample(rng, 10_000), rng)


def named(simulate: Simulate, cause: str, rng: np.random.Generator) -> Outcome:
    """Test if the verdict names this cause first."""
    causes = calibration.judge(simulate(rng))["causes"]
    return Outcome(found=bool(causes) and causes[0]["name"] == cause)


def coloured(simulate: Simulate, colours: tuple[str, ...], rng: np.random.Generator) -> Outcome:
    """Test if the verdict as a whole has one of these colours."""
    return Outcome(found=calibration.judge(simulate(rng))["overall"] in colours)


def stalls(number: int, length_s: float, figure: str, rng: np.random.Generator) -> Outcome:
    """Estimate a figure of repeated stalls."""
    log, facts = calibration.repeated_stalls(rng, 10_000, number, length_s)
    found = collect(log, SETTINGS, facts).stalls
    if found is None:
        return Outcome()
    true = {"number": number, "mean_s": length_s, "period_s": 10_000 / RATE / (number + 1) + length_s}[figure]
    return Outcome(getattr(found, figure) / true - 1)


def stall_rows() -> Iterator[Row]:
    """Yield the rows of pauses; up to a tenth of the short ones may be long gaps (``CHANCE_STALLS``)."""
    for number, length_s in ((20, 0.1), (10, 0.3)):
        data = f"Poisson, 10,000 launches, {number} pauses of {length_s:g} s"
        simulate = partial(calibration.repeated_stalls, n=10_000, stalls=number, length_s=length_s)
        yield Row("Cause: repeated pauses of the test", data, partial(named, simulate, "repeated pauses of the test"),
                  400, "found >= 99 %")  # fmt: skip
        for figure, words in (("number", "number"), ("mean_s", "length"), ("period_s", "period")):
            yield Row(
                f"Repeated pauses, their {words}",
                data,
                partial(stalls, number, length_s, figure),
                400,
                "bias within 10 %",
            )
    yield Row("Cause: a single pause", "Poisson, 10,000 launches, one pause of 5 s",
              partial(named, partial(calibration.one_pause, n=10_000), "a single pause"),
              400, "found >= 99 %")  # fmt: skip


def day(rng: np.random.Generator, n: int = 10_000) -> calibration.Run:
    """Poisson launches through one planned day of relative amplitude 0.8, with independent response times."""
    profile = SineRate(20.0, 180.0, period=n / RATE)
    times = np.asarray(profile.inverse(np.cumsum(rng.exponential(1.0, n))))
    facts = Facts(model=WorkloadModel(kind="open"), planned_profile=profile, run_start_us=calibration.EPOCH_US)
    return calibration.log_of(times, calibration.response(rng, n)), facts


def answered(process: Callable[..., Requests], n: int, change: float = 0.0, **parameters: float) -> Simulate:
    """Return runs of open arrivals at this process; the second half takes longer by ``change``."""

    def simulate(rng: np.random.Generator) -> calibration.Run:
        launches, responses = process(rng, n, **parameters)
        responses[n // 2 :] *= 1 + change
        return calibration.log_of(launches, responses), Facts(model=WorkloadModel(kind="open"), health=calibration.FINE)

    return simulate


QUEUES = {f"M/M/1 at {rho}": partial(answered, mm1, rho=rho) for rho in (0.5, 0.8, 0.9)}
STEADY = {
    "iid": partial(answered, iid), **QUEUES,
    "M/G/1 of CoV 3 at 0.8": partial(answered, mg1, rho=0.8), "AR(1) of 0.9": partial(answered, ar1, phi=0.9),
}  # fmt: skip


def verdict_rows() -> Iterator[Row]:
    """Yield the rows of the verdict as a whole."""
    sound = {"Poisson, planned": partial(calibration.poisson, n=10_000), "one planned day of Poisson launches": day}
    for data, simulate in [*sound.items(), *((data, process(10_000)) for data, process in STEADY.items())]:
        yield Row("Verdict red", f"{data}, 10,000 requests", partial(coloured, simulate, (RED,)), 1000, "found <= 1 %")
        if data in sound:
            yield Row("Verdict amber or red", f"{data}, 10,000 requests", partial(coloured, simulate, (AMBER, RED)),
                      1000, "found <= 5 %")  # fmt: skip


def half_rows() -> Iterator[Row]:
    """Yield the rows of the halves of a run."""
    for data, process in STEADY.items():
        for n in (2000, 10_000, 50_000) if data in QUEUES else (2000, 10_000):
            yield check(11, f"{data}, {n:,} requests", process(n), "found <= 5 %" if n < 10_000 else "found <= 1 %")
        if data in ("iid", "M/M/1 at 0.5", "M/M/1 at 0.8"):
            for change in CHANGES:
                goal = "found >= 95 %" if data == "iid" and change >= 0.2 else ""
                changed = f"{data}, 10,000 requests, the second half {percent(change)} slower"
                yield check(11, changed, process(10_000, change), goal, 200)


def warm_up(process: Callable[..., Requests], cold: float, parameters: dict[str, float],
            rng: np.random.Generator) -> Outcome:  # fmt: skip
    """Cut 10,000 requests by MSER-5, of which the first tenth takes ``cold`` times as long.

    The error is that of the mean after the cut, less that of the steady mean of all, whose expectation is 0.
    """
    responses = process(rng, 10_000, **parameters)[1]
    steady = float(responses.mean())
    responses[:1000] *= cold
    cut = mser5(np.rint(responses * 1e6).astype(np.int64))
    error = (float(responses[cut:].mean()) - steady) / truth(process, "mean", **parameters)
    return Outcome(error, found=cut > 0 if cold == 1 else 500 <= cut <= 2000)


def warm_up_rows() -> Iterator[Row]:
    """Yield the rows of MSER-5; a warm-up of 1,000 requests is found by a cut of 500 to 2,000."""
    for words, process, parameters in (("iid", iid, {}), ("M/M/1 at 0.5", mm1, {"rho": 0.5}),
                                       ("M/M/1 at 0.8", mm1, {"rho": 0.8}), ("M/M/1 at 0.9", mm1, {"rho": 0.9}),
                                       ("AR(1) of 0.9", ar1, {"phi": 0.9})):  # fmt: skip
        data = f"{words}, 10,000 requests"
        yield Row("Mean after the cut of MSER-5, no warm-up", data, partial(warm_up, process, 1.0, parameters), 1000,
                  "bias within 3 %, found <= 5 %")  # fmt: skip
        for cold in (2.0, 5.0):
            yield Row("Mean after the cut of MSER-5, warm-up", f"{data}, the first tenth {cold:g} times as slow",
                      partial(warm_up, process, cold, parameters), 400,
                      "bias within 5 %, found >= 90 %" if process is iid else "")  # fmt: skip


ROWS = (*think_rows(), *launch_rows(), *stall_rows(), *verdict_rows(), *half_rows(), *warm_up_rows())
