"""Draw the pictures of docs/waits.md into docs/waits/. Run: python docs/make_waits_figures.py"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from locust_realism.workload.distributions import (
    Distribution,
    constant,
    empirical,
    exponential,
    gamma,
    lognormal,
    pareto,
    truncated_exponential,
    uniform,
    weibull,
)
from locust_realism.workload.rates.csv_file import rate_from_csv
from locust_realism.workload.rates.shapes import ConstantRate, PiecewiseLinearRate, RateProfile, SineRate, StepRate
from locust_realism.workload.users.arrivals import arrival_times

TARGET = Path(__file__).with_name("waits")
BLUE, ORANGE, GREY = "#2a6fbb", "#d9822b", "#8a8f98"
HOUR = 3600.0


def style() -> None:
    """Set fonts and lines of all pictures."""
    plt.rcParams.update(
        {
            "font.size": 8,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.titlesize": 8,
            "axes.edgecolor": GREY,
            "figure.dpi": 110,
            "savefig.bbox": "tight",
        }
    )


def save(figure: Figure, name: str) -> None:
    """Write a picture into docs/waits/."""
    TARGET.mkdir(exist_ok=True)
    # No date and no version of the library: the file is the same each time.
    figure.savefig(TARGET / name, metadata={"Software": None}, pil_kwargs={"optimize": True})
    plt.close(figure)


def draw_distribution(axes: Axes, distribution: Distribution, title: str) -> None:
    """Draw a histogram of 50,000 draws with the density, by differences of the distribution function."""
    draws = distribution.sample(np.random.default_rng(1), 50_000)
    edges = np.linspace(0, 40, 81)
    heights = np.histogram(draws, edges)[0] / len(draws) / np.diff(edges)
    axes.stairs(heights, edges, fill=True, color=BLUE, alpha=0.35)
    if distribution.kind not in ("constant", "empirical"):
        fine = np.linspace(0, 40, 801)
        axes.plot(fine[1:] - 0.025, np.diff(distribution.cdf(fine)) / np.diff(fine), color=BLUE, lw=1)
    axes.axvline(distribution.mean, color=ORANGE, lw=1)
    axes.set_ylim(0, min(0.3, 1.15 * heights.max()))
    cov = f"{distribution.cov:.2f}"
    longest = f"{draws.max():.0f}"
    axes.set_title(f"{title}\nmean {distribution.mean:.4g} s, CoV {cov}, longest of 50,000: {longest} s", loc="left")


def distributions() -> None:
    """Draw ten distributions with a mean of 10 seconds."""
    rng = np.random.default_rng(5)
    measured = np.concatenate([rng.normal(4, 1, 300).clip(1), rng.normal(18, 4, 200).clip(5)])
    shown: list[tuple[Distribution, str]] = [
        (exponential(10), "exponential(10)"),
        (truncated_exponential(10, maximum=30), "truncated_exponential(10, maximum=30)"),
        (lognormal(10, cov=1.2), "lognormal(10, cov=1.2)"),
        (gamma(10, cov=0.5), "gamma(10, cov=0.5)"),
        (weibull(10, cov=1.5), "weibull(10, cov=1.5)"),
        (weibull(10, shape=3), "weibull(10, shape=3)"),
        (pareto(10, shape=1.5, maximum=600), "pareto(10, shape=1.5, maximum=600)"),
        (empirical(measured, mean=10), "empirical(measured, mean=10)"),
        (uniform(5, 15), "uniform(5, 15)"),
        (constant(10), "constant(10)"),
    ]
    figure, grid = plt.subplots(5, 2, figsize=(8.6, 8.6), sharex=True, layout="constrained")
    for axes, (distribution, title) in zip(grid.flat, shown, strict=True):
        draw_distribution(axes, distribution, title)
    for axes in grid[-1]:
        axes.set_xlabel("seconds")
    save(figure, "distributions.png")


def draw_profile(axes: Axes, profile: RateProfile, title: str, seed: int) -> None:
    """Draw the rate over a day, and random arrivals counted by the quarter of an hour."""
    t = np.linspace(0, 24 * HOUR, 1441)
    times = arrival_times(profile, 24 * HOUR, np.random.default_rng(seed))
    edges = np.linspace(0, 24, 97)
    counts = np.histogram(times / HOUR, edges)[0] / 900
    axes.stairs(counts, edges, fill=True, color=BLUE, alpha=0.35)
    axes.plot(t / HOUR, profile.rate(t), color=BLUE, lw=1.2)
    expected = float(profile.cumulative(24 * HOUR))
    axes.set_title(f"{title}\nexpected {expected:,.0f} a day, drawn here {len(times):,}", loc="left")
    axes.set_xlim(0, 24)
    axes.set_xticks(range(0, 25, 6))
    axes.set_ylim(0, None)


def profiles() -> None:
    """Draw eight profiles over a day."""
    day = [(0, 0.2), (6, 0.3), (9, 1.6), (12, 1.3), (14, 1.7), (18, 0.9), (24, 0.2)]
    table = TARGET / "monday.csv"
    table.write_text("time,rate\n" + "".join(f"{hour:02d}:00,{rate}\n" for hour, rate in day))
    sine = SineRate(min_rate=0.2, max_rate=1.8, period=24 * HOUR, peak_at=14 * HOUR)
    peak = StepRate(((0, 0.0), (19 * HOUR, 1.0), (20 * HOUR, 0.0)))
    shown: list[tuple[RateProfile, str]] = [
        (ConstantRate(1), "ConstantRate(1)"),
        (sine, "SineRate(0.2, 1.8, period=86400, peak_at=14 * 3600)"),
        (
            PiecewiseLinearRate(((0, 0.2), (8 * HOUR, 1.8), (24 * HOUR, 0.2))),
            "PiecewiseLinearRate([(0, .2), (8h, 1.8), ...])",
        ),
        (StepRate(((0, 0.3), (8 * HOUR, 1.5), (18 * HOUR, 0.6))), "StepRate([(0, .3), (8h, 1.5), (18h, .6)])"),
        (rate_from_csv(table), 'rate_from_csv("monday.csv")'),
        (sine + peak, "sine + StepRate(one hour of 1/s more)"),
        (0.5 * sine, "0.5 * sine: the share of one of two workers"),
        (sine.compressed(4), "sine.compressed(4): four days in one"),
    ]
    figure, grid = plt.subplots(4, 2, figsize=(8.6, 7.2), layout="constrained")
    for seed, (axes, (profile, title)) in enumerate(zip(grid.flat, shown, strict=True)):
        draw_profile(axes, profile, title, seed)
    for axes in grid[-1]:
        axes.set_xlabel("hour")
    for axes in grid[:, 0]:
        axes.set_ylabel("per second")
    save(figure, "profiles.png")


def closed_loop(profile: RateProfile, users: int, duration: float, exact: bool) -> np.ndarray:
    """Return launches of users who wait by the hazard of their share of the profile, or Exp(1/rate now): biased."""
    rng = np.random.default_rng(3)
    launches = []
    for _ in range(users):
        t = 0.0
        while t < duration:
            draw = rng.standard_exponential() * users
            t = float(profile.inverse(profile.cumulative(t) + draw)) if exact else t + draw / float(profile.rate(t))
            launches.append(t)
    return np.array(launches)


def pacing() -> None:
    """Draw the effect of the shortcut on a sine: relative amplitude 0.9, a mean wait of a third of the period."""
    profile = SineRate(min_rate=0.5, max_rate=9.5, period=100)
    duration, users = 1000.0, 167
    figure, grid = plt.subplots(1, 2, figsize=(8.6, 2.6), sharey=True, layout="constrained")
    titles = ("paced(profile): time rescaling", "the shortcut: wait Exp(1 / rate now)")
    for axes, exact, title in zip(grid, (True, False), titles, strict=True):
        times = closed_loop(profile, users, duration, exact)
        times = times[times < duration]
        edges = np.linspace(0, 100, 41)
        counts = np.histogram(np.mod(times, 100), edges)[0] / np.diff(edges) / (duration / 100)
        axes.stairs(counts, edges, fill=True, color=BLUE if exact else ORANGE, alpha=0.35)
        t = np.linspace(0, 100, 401)
        axes.plot(t, profile.rate(t), color=BLUE, lw=1.2)
        share = len(times) / float(profile.cumulative(duration))
        axes.set_title(f"{title}\n{share:.0%} of the planned launches", loc="left")
        axes.set_xlabel("seconds of the period")
    grid[0].set_ylabel("launches a second")
    save(figure, "pacing.png")


def main() -> None:
    """Draw all pictures of the page."""
    style()
    distributions()
    profiles()
    pacing()


if __name__ == "__main__":
    main()
