"""Checks 6 to 12: scales, groups and single users, dependence, the population, steadiness, clocks."""

from __future__ import annotations

import math
from typing import Any

from locust_realism.analysis.checks import (
    AMBER,
    GREEN,
    NO_DATA,
    RED,
    SEVERITY,
    THINK,
    Finding,
    grade,
    reference_cov,
    seconds,
    too_few,
)
from locust_realism.analysis.evidence import Evidence
from locust_realism.analysis.judged_times import CYCLES
from locust_realism.analysis.settings import VerdictBounds

OFF_TARGET = "Users do not think as long as planned"
MIN_INDEPENDENT = 15
"""Fewest independent windows on which a scale is judged."""


def scales(e: Evidence, b: VerdictBounds) -> Finding:
    """Check 6: index of dispersion at every scale up to ten round trips, against the configured model's curve."""
    cycle = e.users.round_trip
    longest = CYCLES * cycle if math.isfinite(cycle) and e.closed else math.inf
    rows = [row for row in e.dispersion if row["window_s"] <= longest and math.isfinite(row["idc"])]
    rows = [row for row in rows if row["independent_windows"] >= MIN_INDEPENDENT]
    if e.gaps.n < b.min_gaps:
        # the chance limits are those of many launches: of six, two that meet are a variance / mean of 1.4
        return too_few(e.gaps.n, b.min_gaps, "gaps between launches")
    if not rows:
        return Finding(NO_DATA, None, None, "The run is too short: no scale from 10 ms on has 20 independent windows.")
    graded = [(_dispersion_status(row, b), row) for row in rows]
    status, worst = max(graded, key=lambda pair: (SEVERITY[pair[0]], abs(math.log(_ratio(pair[1])))))
    modelled = any(row["model"] != 1 for row in rows)
    below = worst["idc"] < worst["model"]
    if status == RED and below and not modelled and e.closed:
        # A fixed pool of users is more even than Poisson at long scales by its nature.
        status = AMBER
    reference = f"{worst['model']:.2f} as configured" if modelled else "1 for independent users"
    seen = f"Counts in windows of {seconds(worst['window_s'])} have variance / mean {worst['idc']:.2f} ({reference})."
    if below:
        meaning = f"At this scale the load is too even: a fixed pool of users, or think times too regular ({THINK})."
        advice = "Let users come and go (a population with Poisson arrivals), or let think times vary more."
    else:
        meaning = "At this scale the load comes in waves: users that start or move together."
        advice = "Start users one by one at random times, and let think times vary"
        # A fixed pool that was started at once forgets it after some think times: what came later may be sound.
        fixed_pool = e.closed and not e.facts.model.poisson_arrivals
        advice += ", or leave out the start with --realism-warmup." if fixed_pool else "."
    bound = [1 - b.dispersion_amber, 1 + b.dispersion_amber]
    return Finding(status, _ratio(worst), bound, seen, meaning, advice)


def _ratio(row: dict[str, Any]) -> float:
    return max(float(row["idc"]), 1e-9) / max(float(row["model"]), 1e-9)


def _dispersion_status(row: dict[str, Any], b: VerdictBounds) -> str:
    ratio, k = _ratio(row), float(row["independent_windows"])
    # Chance limits by Wilson and Hilferty's cube root, since the variance of few counts is skewed; half an error more,
    # since the worst of about ten scales is looked at.
    part, errors = 2 / (9 * (k - 1)), b.standard_errors + 0.5
    low, high = ((1 - part + sign * errors * math.sqrt(part)) ** 3 for sign in (-1, 1))
    if low <= ratio <= high or abs(ratio - 1) <= b.dispersion_amber:
        return GREEN
    return RED if abs(ratio - 1) > b.dispersion_red else AMBER


def group_size(e: Evidence, b: VerdictBounds) -> Finding:
    """Check 7: number of users from which the CoV of their launches together stays near 1."""
    rows = [row for row in e.groups if row["n"] >= 2 and math.isfinite(row["cov"])]
    if not e.users.users or len(rows) < 2 or rows[-1]["n"] < b.min_gaps:
        return Finding(NO_DATA, None, None, "The log does not say which user launched which request.")
    users = int(rows[-1]["users"])
    size = None
    high = reference_cov(e)[1]  # of all users of a population whose number varies
    for row in reversed(rows):
        if _off(row["cov"], high) > max(b.group_cov, b.standard_errors * high / math.sqrt(row["n"])):
            break
        size = int(row["users"])
    meaning = f"Too few users, or think times too regular: the launches of few of them are not independent ({THINK})."
    advice = "Use more users with longer think times, or think times that vary more, such as the exponential."
    if size is None:
        seen = f"The CoV of the launches of all {users} users is {rows[-1]['cov']:.2f}: no group of them is near 1."
        status = RED if _off(rows[-1]["cov"], high) > b.cov_red else AMBER
        return Finding(status, None, b.group_share_amber * users, seen, meaning, advice)
    seen = f"Groups of {size} users and more have a CoV within 1 +- {b.group_cov}; there are {users} users."
    bound = max(1.0, b.group_share_amber * users)
    status = GREEN if size <= bound else AMBER
    return Finding(status, float(size), bound, seen, meaning, advice)


def _off(cov: float, high: float) -> float:
    return max(1 - cov, cov - high, 0.0)


def think_time(e: Evidence, b: VerdictBounds) -> Finding:
    """Check 8: think time against its target, and the CoV of one user's round trips."""
    u, target = e.users, e.facts.model.think_time_s
    if not e.closed or not math.isfinite(u.think_mean):
        return Finding(NO_DATA, None, None, "Think times are known of a fixed pool of users only.")
    seen, value, bound, off = f"The mean think time is {seconds(u.think_mean)}", u.user_cov, b.user_cov_amber, NO_DATA
    if target:
        miss = u.think_mean / target - 1
        off = grade(abs(miss), b.think_mean_amber, b.think_mean_red, b.standard_errors * u.think_se / target)
        seen += f", {miss:+.1%} from its target of {seconds(target)}"
        value, bound = abs(miss), b.think_mean_amber
    meaning = f"{OFF_TARGET} ({THINK})."
    advice = "Look at the generator's lateness and at what the tasks do between their requests."
    status = off if target or not math.isfinite(u.user_cov) else GREEN
    if math.isfinite(u.user_cov):
        seen += f"; the times between one user's tasks have a CoV of {u.user_cov:.2f}"
        if u.user_cov < b.user_cov_amber and off not in (AMBER, RED):
            status, value, bound = AMBER, u.user_cov, b.user_cov_amber
            meaning = f"Each user thinks nearly as regularly as a clock, so that users can move in step ({THINK})."
            advice = "Draw think times from a distribution that varies more, such as the exponential."
    return Finding(status, value, bound, seen + ".", meaning, advice)


def dependence(e: Evidence, b: VerdictBounds) -> Finding:
    """Check 9: correlation of neighbouring gaps, distance from the exponential, and the clock's resolution."""
    g = e.gaps
    if g.n < b.min_gaps or not g.correlations:
        return too_few(g.n, b.min_gaps, "gaps between launches")
    lag1, chance = g.correlations[0], 1 / math.sqrt(g.n)
    ticks = g.rate * e.tick_us / 1e6 if e.tick_us > 1 else 0.0
    by_lag = grade(abs(lag1), b.correlation_amber, b.correlation_red, b.standard_errors * chance)
    # With an estimated mean, 1.3 / sqrt(n) is exceeded once in about 200 samples of exponential gaps.
    by_distance = grade(g.distance, b.distance_amber, b.distance_red, 1.3 * chance)
    by_clock = AMBER if ticks > b.clock_tick_amber else GREEN
    status = max((by_lag, by_distance, by_clock), key=SEVERITY.__getitem__)
    seen = (
        f"Neighbouring gaps have a correlation of {lag1:+.3f}; the distribution of the gaps is at a distance of "
        f"{g.distance:.3f} from the exponential."
    )
    meaning, advice = "Launches depend on each other.", "See the other checks for the reason."
    if by_clock == AMBER and by_clock == status:
        seen += f" The clock has ticks of {seconds(e.tick_us / 1e6)}, {ticks:.2f} of the mean gap."
        meaning = "The clock is too coarse: gaps within a tick are not known, and the raw CoV is too high."
        advice = "Record launches in microseconds; the checks use times spread evenly over the ticks."
        return Finding(status, ticks, b.clock_tick_amber, seen, meaning, advice)
    if SEVERITY[by_distance] > SEVERITY[by_lag]:
        return Finding(status, g.distance, b.distance_amber, seen, meaning, advice)
    return Finding(status, lag1, b.correlation_amber, seen, meaning, advice)


def population(e: Evidence, b: VerdictBounds) -> Finding:
    """Check 10: CoV of the times between starts of users."""
    if e.starts < b.starts_min or not e.facts.model.poisson_arrivals:
        text = "No arrivals of users were planned." if not e.facts.model.poisson_arrivals else ""
        return Finding(NO_DATA, None, None, text or f"Only {e.starts:,} users started; it takes {b.starts_min:,}.")
    error = b.standard_errors / math.sqrt(e.starts)
    status = grade(abs(e.starts_cov - 1), b.cov_amber, b.cov_red, error)
    if status == NO_DATA:
        # The bound is that of check 1, and 400 starts are agreed to do: what chance explains is not held against them.
        status = GREEN
    seen = f"The CoV of the times between {e.starts:,} starts of users is {e.starts_cov:.2f}; independent ones have 1."
    meaning = "The population does not arrive as planned: users start together, or too evenly."
    advice = "Look at the generator's lateness, and at workers that joined or left."
    return Finding(status, e.starts_cov, [1 - b.cov_amber, 1 + b.cov_amber], seen, meaning, advice)


def steadiness(e: Evidence, b: VerdictBounds) -> Finding:
    """Check 11: halves of the run against each other, and the warm-up that MSER-5 finds."""
    if not e.steady.get("enough"):
        return Finding(NO_DATA, None, None, "Too few requests to compare the two halves of the run.")
    words = {"p50": "median response time", "p95": "p95 of the response times", "rate": "launch rate"}
    graded = []
    for key in words:
        found = e.steady["changes"][key]
        change, dof = found["change"], 2 * found["segments"] - 2
        # Student's t for the standard error from few segments, by the first term of its expansion.
        k = b.standard_errors + (b.standard_errors**3 + b.standard_errors) / (4 * dof)
        graded.append((grade(abs(change), b.half_amber, b.half_red, k * found["standard_error"]), abs(change), key))
    known = [found for found in graded if math.isfinite(found[1])]
    if not known:
        return Finding(NO_DATA, None, None, "Too few requests to compare the two halves of the run.")
    status, value, key = max(known, key=lambda found: (SEVERITY[found[0]], found[1]))
    share = float(e.steady["mser5_share"])
    mean = e.steady["changes"]["mean"]
    drifts = abs(mean["change"]) > max(b.half_amber, b.standard_errors * mean["standard_error"])
    if status == GREEN and share > b.mser_share_amber and drifts:
        status = AMBER
    change = e.steady["changes"][key]["change"]
    seen = f"The {words[key]} of the second half differs by {change:+.1%} from that of the first"
    seen += f"; by MSER-5 the first {share:.0%} are warm-up." if share > b.mser_share_amber else "."
    meaning = "The run is not steady: its figures mix different states, and a rate that drifts raises the CoV."
    advice = "Leave out a longer warm-up, run longer, or give the planned rate so that it can be taken out."
    return Finding(status, value, b.half_amber, seen, meaning, advice)


def clocks(e: Evidence, b: VerdictBounds) -> Finding:
    """Check 12: whether the workers' clocks agree well enough for gaps between launches of different workers."""
    if len(e.workers) < 2:
        return Finding(GREEN, 0.0, b.offset_amber, "All launches were timed by one clock.")
    sd = e.facts.clock_offset_sd_us
    if sd is None:
        return Finding(
            NO_DATA, None, None, f"The offsets between the clocks of {len(e.workers)} workers are not known."
        )
    mean_us = 1e6 / e.gaps.rate if e.gaps.rate > 0 else math.nan
    bunches = [row["bunch_ms"] * 1e3 for row in e.workers if row["bunch_ms"]]
    shortest = min([mean_us, *bunches])
    if not math.isfinite(shortest) or shortest <= 0:
        return too_few(e.gaps.n, b.min_gaps, "gaps between launches")
    share = sd / shortest
    alone = [abs(row["cov"] - 1) for row in e.workers if row["cov"] is not None and row["n"] >= b.min_gaps]
    status = AMBER if share > b.offset_amber else GREEN
    if share > b.offset_red and alone and max(alone) > b.cov_red:
        # Streams of independent launches do not care about offsets; bunches are hidden by them.
        status = RED
    seen = f"Clock offsets are known to {seconds(sd / 1e6)}; launches have structure from {seconds(shortest / 1e6)} on."
    meaning = (
        "Intervals between launches of different workers are not certified: offsets hide bunches that workers share."
    )
    advice = "Trust the per-worker figures; synchronise the clocks better, or use workers on one machine."
    return Finding(status, share, b.offset_amber, seen, meaning, advice)
