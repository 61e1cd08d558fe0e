"""Run each model of docs/population.md for 100 seconds and draw the users in session beside those expected.

All four run at once in one Locust process, with requests that only sleep. Run: python docs/make_population_figures.py
"""

from __future__ import annotations

import random
import time
from pathlib import Path

import gevent
import numpy as np
from locust import User, task
from locust.env import Environment
from numpy.typing import NDArray

from locust_realism.common.numerics import Floats
from locust_realism.runtime.population.control import attach
from locust_realism.runtime.population.model import FinitePopulation, Population, open_arrivals
from locust_realism.runtime.users.session import SessionRecord, user_sessions
from locust_realism.workload.distributions import exponential, lognormal
from locust_realism.workload.rates.shapes import ConstantRate, SineRate
from locust_realism.workload.users.concurrency import expected_users, poisson_band

TARGET = Path(__file__).with_name("population")
BLUE, ORANGE, GREY, BAND = "#2a6fbb", "#d9822b", "#8a8f98", "#dbe3ec"
SECONDS, WARM_UP = 100.0, 5.0
CLOSED, SERVICE = 100, 1.5
DAY = SineRate(min_rate=4, max_rate=36, period=50, peak_at=25)
STAY = lognormal(5, cov=1.2)
SOURCE = FinitePopulation(400, away=exponential(15), session_duration=exponential(5), warm_up=WARM_UP)


class Closed(User):
    """Closed pool of -u and -r."""

    wait_time = exponential(2)

    @task
    def look(self) -> None:
        gevent.sleep(0.05)


class Visitor(Closed):
    """Open population with a sine of arrivals."""

    population = Population(arrivals=DAY, session_duration=STAY, warm_up=WARM_UP)


class Person(Closed):
    """One of 400 people who return."""

    population = SOURCE


class Request(User):
    """User of one task, launched by the arrival process."""

    population = open_arrivals(ConstantRate(60))

    @task
    def look(self) -> None:
        gevent.sleep(random.expovariate(1 / SERVICE))


def run() -> dict[str, list[tuple[float, float]]]:
    """Return start and end of every session by class, in seconds of the run."""
    environment = Environment(user_classes=[Closed, Visitor, Person, Request])
    runner = environment.create_local_runner()
    control = attach(environment)
    assert control is not None
    rows: list[SessionRecord] = []
    user_sessions(environment).listeners.append(rows.append)
    runner.start(CLOSED, 20)
    gevent.sleep(SECONDS)
    runner.quit()
    gevent.sleep(0.1)
    origin = control.planner.time_of(0.0)
    sessions: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        sessions.setdefault(row.user_class, []).append((row.started - origin, row.ended - origin))
    return sessions


def users_at(times: Floats, sessions: list[tuple[float, float]]) -> NDArray[np.intp]:
    """Return the number in session at each time."""
    began, ended = np.sort(np.array(sessions), axis=0).T
    return np.searchsorted(began, times, side="right") - np.searchsorted(ended, times, side="right")


def draw(sessions: dict[str, list[tuple[float, float]]]) -> None:
    """Draw the four models with the expected curve and its band."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    plt.rcParams.update(
        {"font.size": 8, "axes.spines.top": False, "axes.spines.right": False, "axes.titlesize": 8, "figure.dpi": 110}
    )
    t = np.arange(0.0, SECONDS, 0.25)
    visitors = expected_users(DAY, STAY, t, warm_up=WARM_UP)
    source = SOURCE.source()
    assert source is not None
    rising = np.clip(t / WARM_UP, 0, 1)
    people, spread = rising * source.mean, 1.96 * np.sqrt(rising * source.variance)
    requests = 60 * SERVICE * (1 - np.exp(-t / SERVICE))
    pictures = (
        ("Closed", "Closed pool: -u 100 -r 20", np.minimum(CLOSED, 20 * (1 + np.floor(t))), None),
        ("Visitor", "Population: 4 to 36 arrivals/s, 5 s sessions", visitors, poisson_band(visitors, 0.95)),
        ("Person", "Finite population: 400 people", people, (people - spread, people + spread)),
        ("Request", "Open arrivals: 60 tasks/s of 1.5 s", requests, poisson_band(requests, 0.95)),
    )  # fmt: skip
    figure, grid = plt.subplots(2, 2, figsize=(9, 5.2), layout="constrained")
    for axes, (name, title, expected, band) in zip(grid.ravel(), pictures, strict=True):
        if band is not None:
            axes.fill_between(t, *band, color=BAND, label="95 % of the time", linewidth=0)
        axes.plot(t, expected, color=GREY, linestyle="--", linewidth=1.2, label="expected")
        axes.plot(t, users_at(t, sessions[name]), color=BLUE, linewidth=0.9, label="users in the run")
        if name == "Visitor":
            axes.plot(
                t, DAY.rate(t) * STAY.mean, color=ORANGE, linewidth=0.8, linestyle=":", label="rate × mean session"
            )
        axes.set(title=title, xlabel="seconds", ylabel="users", xlim=(0, SECONDS), ylim=(0, None))
        if name == "Visitor":
            axes.set_ylim(0, 260)
        axes.legend(frameon=False, loc="upper right" if name == "Visitor" else "lower right", ncols=2)
    TARGET.mkdir(exist_ok=True)
    figure.savefig(TARGET / "models.png", metadata={"Software": None}, pil_kwargs={"optimize": True})
    plt.close(figure)


if __name__ == "__main__":
    began = time.perf_counter()
    draw(run())
    print(f"{TARGET / 'models.png'} drawn in {time.perf_counter() - began:.0f} s")
