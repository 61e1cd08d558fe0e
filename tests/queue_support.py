"""Response times of a queue, and the least coverage that chance explains."""

import math

import numpy as np


def lower_bound(share, runs):
    """Return 4 standard errors below a share, which chance goes under once in 30,000."""
    return share - 4 * math.sqrt(share * (1 - share) / runs)


def queue(rng, n, rho):
    """Return launches and response times of M/M/1 in microseconds: service of 10 ms, steady from the first on."""
    services, gaps = rng.exponential(1e4, n), rng.exponential(1e4 / rho, n)
    first = rng.exponential(1e4 / (1 - rho)) if rng.random() < rho else 0.0
    walk = np.concatenate(([first], first + np.cumsum(services[:-1] - gaps[1:])))
    wait = walk - np.minimum(np.minimum.accumulate(walk), 0.0)
    return np.cumsum(gaps).astype(np.int64), (wait + services).astype(np.int64)
