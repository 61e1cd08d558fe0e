"""Launches and response times of known laws, steady from the first request, and their true figures.

Each process draws ``n`` requests and returns the times of their launches and their response times, both of shape (n,)
in seconds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from locust_realism.common.numerics import invert_scalar
from locust_realism.workload.distributions import hyperexponential
from locust_realism.workload.rates.shapes import SineRate

Floats = NDArray[np.float64]
Requests = tuple[Floats, Floats]
COV_1 = math.sqrt(math.log(2))
"""Sigma of a log-normal law with a CoV of 1."""
SIMULATED = 4_000_000
"""Requests behind a truth without a closed form."""


def lindley(arrivals: Floats, services: Floats, first_wait: float = 0.0) -> Floats:
    """Return the response times at one server, first come first served; ``first_wait`` is the wait of the first.

    W[i+1] = max(0, W[i] + S[i] - gap[i]): the distance of a random walk to its least value. Source: D. V. Lindley,
    The theory of queues with a single server, 1952.
    """
    walk = np.concatenate(([first_wait], first_wait + np.cumsum(services[:-1] - np.diff(arrivals))))
    return walk - np.minimum(np.minimum.accumulate(walk), 0.0) + services


def iid(rng: np.random.Generator, n: int, rate: float = 100.0, mean_s: float = 0.1) -> Requests:
    """Draw Poisson launches and independent lognormal response times with a CoV of 1."""
    return ar1(rng, n, 0.0, mean_s, rate)


def ar1(rng: np.random.Generator, n: int, phi: float = 0.9, mean_s: float = 0.1, rate: float = 100.0) -> Requests:
    """Draw Poisson launches; the logarithms of the response times (CoV 1) are a Gaussian AR(1) process."""
    shocks = rng.standard_normal(n) * math.sqrt(1 - phi * phi)
    shocks[0] /= math.sqrt(1 - phi * phi)
    logs = lfilter([1.0], [1.0, -phi], shocks)
    return np.cumsum(rng.exponential(1 / rate, n)), mean_s * np.exp(COV_1 * logs - COV_1**2 / 2)


def mm1(rng: np.random.Generator, n: int, rho: float, service_s: float = 0.01) -> Requests:
    """Draw M/M/1, first come first served."""
    return mg1(rng, n, rho, 1.0, service_s)


def mg1(rng: np.random.Generator, n: int, rho: float, cov: float = 3.0, service_s: float = 0.01) -> Requests:
    """Draw M/G/1, first come first served, with hyperexponential services of that CoV.

    The first request finds a wait of the stationary law: a geometric number of residual services (Pollaczek and
    Khinchine).
    """
    law = hyperexponential(service_s, cov)
    arrivals = np.cumsum(rng.exponential(service_s / rho, n))
    first_wait = float(law.sample_residual(rng, int(rng.geometric(1 - rho)) - 1).sum())
    return arrivals, lindley(arrivals, law.sample(rng, n), first_wait)


def sine(
    rng: np.random.Generator, n: int, rho: float = 0.6, amplitude: float = 0.5, service_s: float = 0.01
) -> Requests:
    """Draw an M/M/1 queue whose rate follows a sine, one period over the run; the first finds the law of ``rho``."""
    rate = rho / service_s
    profile = SineRate(rate * (1 - amplitude), rate * (1 + amplitude), period=n / rate)
    arrivals = np.asarray(profile.inverse(np.cumsum(rng.exponential(1.0, n))))
    first_wait = rng.exponential(service_s / (1 - rho)) if rng.random() < rho else 0.0
    return arrivals, lindley(arrivals, rng.exponential(service_s, n), first_wait)


class Mixture(NamedTuple):
    """Law of response times: P(R > t) = sum of shares * exp(-rates * t)."""

    shares: Floats
    rates: Floats

    def moment(self, k: int) -> float:
        return math.factorial(k) * float(np.sum(self.shares / self.rates**k))

    def quantile(self, q: float) -> float:
        def reached(t: float) -> float:
            return 1 - float(np.sum(self.shares * np.exp(-self.rates * t)))

        return invert_scalar(reached, q, 0.0, -2 * math.log(1 - q) / float(self.rates.min()))


def mg1_law(rho: float, cov: float = 3.0, service_s: float = 0.01) -> Mixture:
    """Return the law of the response times of :func:`mg1`: two exponentials, by inversion of its transform.

    R*(s) = (1 - rho) s S*(s) / (s - a + a S*(s)) with a = rho / S (L. Kleinrock, Queueing Systems, volume 1, 1975,
    section 5.7). With S*(s) of two exponentials, numerator and denominator are a line over a parabola.
    """
    if cov == 1:
        return Mixture(np.ones(1), np.array([(1 - rho) / service_s]))
    p = hyperexponential(service_s, cov).short_share
    shares = np.array([p, 1 - p])
    one, two = 2 * shares / service_s  # rates of the two kinds
    arrival_rate = rho / service_s
    above = np.poly1d([p * one + (1 - p) * two, one * two])  # S*(s) (s + one)(s + two)
    below = np.poly1d([1.0, one + two - arrival_rate, one * two - arrival_rate * (one + two - above[1])])
    rates = -below.roots
    return Mixture((1 - rho) * above(-rates) / below.deriv()(-rates) / rates, rates)


@lru_cache(maxsize=32)
def _simulated(process: Callable[..., Requests], parameters: tuple[tuple[str, float], ...]) -> Floats:
    """Return the sorted response times of runs of a fixed seed."""
    given = dict(parameters)
    n = int(given.pop("n", 1_000_000))
    rng = np.random.default_rng(20_261_122)
    return np.sort(np.concatenate([process(rng, n, **given)[1] for _ in range(max(1, SIMULATED // n))]))


def truth(process: Callable[..., Requests], figure: str, **parameters: float) -> float:
    """Return the true "mean", "cov" or percentile ("p95", "p99.9") of the response times of a process.

    ``parameters`` are those of the process, with n for :func:`sine`. Closed forms, and a long simulation without one.

    >>> round(truth(mm1, "mean", rho=0.9), 12)
    0.1
    """
    if figure not in ("mean", "cov") and not figure.startswith("p"):
        raise ValueError(f"figure must be mean, cov or a percentile, not {figure!r}")
    if process in (iid, ar1):
        mean = parameters.get("mean_s", 0.1)
        if figure in ("mean", "cov"):
            return mean if figure == "mean" else 1.0
        return mean * math.exp(COV_1 * NormalDist().inv_cdf(float(figure[1:]) / 100) - COV_1**2 / 2)
    if process in (mm1, mg1):
        law = mg1_law(**({"cov": 1.0} if process is mm1 else {}), **parameters)
        if figure in ("mean", "cov"):
            mean = law.moment(1)
            return mean if figure == "mean" else math.sqrt(law.moment(2) - mean**2) / mean
        return law.quantile(float(figure[1:]) / 100)
    times = _simulated(process, tuple(sorted(parameters.items())))
    if figure in ("mean", "cov"):
        return float(times.mean()) if figure == "mean" else float(times.std() / times.mean())
    return float(np.quantile(times, float(figure[1:]) / 100, method="inverted_cdf"))
