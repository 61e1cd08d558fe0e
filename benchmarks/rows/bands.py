"""Bands of the charts: share of sound runs whose figure lies inside, at one instant, one lag or one step of time."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from locust_realism.analysis.charts import cov_over_time
from locust_realism.analysis.settings import AnalysisSettings
from locust_realism.analysis.summary import summarize
from locust_realism.recording.launches import LaunchLog
from locust_realism.workload.distributions import Distribution, exponential, lognormal
from locust_realism.workload.rates.shapes import ConstantRate
from locust_realism.workload.users.concurrency import expected_users, poisson_band
from rows.row import Outcome, Row

RATE = 5.0
SETTINGS = AnalysisSettings(charts=False)


def poisson(rng: np.random.Generator, n: int, rate: float) -> LaunchLog:
    """Draw Poisson launches."""
    return LaunchLog.build(np.cumsum(rng.exponential(1e6 / rate, n)).astype(np.int64), 1000)


def step(rate: float, rng: np.random.Generator) -> Outcome:
    """Compare the CoV of the second step of a run with 1 +- 2 / sqrt(n), as the tab Launches draws it."""
    found = cov_over_time(poisson(rng, 2000, rate), origin_us=0)
    cov = found["cov"][1]
    return Outcome() if cov is None else Outcome(cov - 1, abs(cov - 1) <= 2 / math.sqrt(found["n"][1]))


def lag(place: int, n: int, rng: np.random.Generator) -> Outcome:
    """Compare a correlation of gaps with 1.96 / sqrt(n), as the tab Launches draws it."""
    values = summarize(poisson(rng, n + 1, 100.0), settings=SETTINGS)["pattern"]["autocorrelation"]
    value = values[place - 1]
    return Outcome() if value is None else Outcome(held=abs(value) <= 1.96 / math.sqrt(n))


def present(stay: Distribution, after_s: float, rng: np.random.Generator) -> Outcome:
    """Compare the users of a population that began without users with the band of the tab Population."""
    arrivals = after_s * rng.random(rng.poisson(RATE * after_s))
    users = int((arrivals + stay.sample(rng, len(arrivals)) > after_s).sum())
    mean = float(expected_users(ConstantRate(RATE), stay, after_s, start="empty"))
    low, high = poisson_band(mean, 0.95)
    return Outcome(users / mean - 1, bool(low <= users <= high))


ROWS = (
    *(Row("Band of the CoV in a step of time", f"Poisson, {rate:g}/s", partial(step, rate), 1000, "holds >= .93")
      for rate in (10, 100, 1000)),
    *(Row(f"Band of the correlation of gaps at lag {place}", f"Poisson, {n:,} gaps", partial(lag, place, n), 1000,
          "holds >= .93") for place in (1, 10) for n in (1000, 10_000)),
    *(Row("Band of the expected users", f"5 arrivals/s, {law} stays of 20 s, {after:g} s after an empty start",
          partial(present, stay, after), 1000, "bias within 2 %, holds >= .93")
      for law, stay in (("exponential", exponential(20)), ("log-normal (CoV 2)", lognormal(20, cov=2)))
      for after in (10.0, 100.0)),
)  # fmt: skip
