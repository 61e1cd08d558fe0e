"""Formulas of queueing theory for a station, to check a measurement against.

Rates are per second, times in seconds. With processor sharing the means of :func:`mmc_response` and :func:`closed` hold
for any service time distribution of that mean, with first come first served for the exponential one.
Source: L. Kleinrock, Queueing Systems, volume 1, 1975; for sharing, F. P. Kelly, Reversibility and Stochastic Networks,
1979, chapter 3.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from locust_realism.common.numerics import invert_scalar
from locust_realism.common.validation import not_negative, positive, refusal


def erlang_b(servers: int, load: float) -> float:
    """Return the share of arrivals lost by ``servers`` without a queue; ``load`` is rate times service time.

    >>> round(erlang_b(2, 1.0), 4)
    0.2
    """
    blocked = 1.0
    for number in range(1, servers + 1):
        blocked = load * blocked / (number + load * blocked)
    return blocked


def erlang_c(servers: int, load: float) -> float:
    """Return the share of arrivals that wait in M/M/c; ``load``, rate times service time, must be below ``servers``.

    >>> erlang_c(1, 0.5), round(erlang_c(2, 1.0), 4)
    (0.5, 0.3333)
    """
    if not load < servers:
        raise refusal("load", f"< servers = {servers} (the queue would grow without end)", load)
    blocked = erlang_b(servers, load)
    return servers * blocked / (servers - load * (1 - blocked))


def mmc_response(rate: float, service: float, servers: int = 1) -> float:
    """Return the mean response time of M/M/c: S + C S / (c - a), a the load, C Erlang's share of waiting arrivals.

    >>> round(mmc_response(rate=10, service=0.05), 6)  # M/M/1: S / (1 - rho)
    0.1
    """
    load = positive("rate", rate) * positive("service", service)
    return service + erlang_c(servers, load) * service / (servers - load)


def mmc_quantile(q: float, rate: float, service: float, servers: int = 1) -> float:
    """Return the ``q`` quantile, q in [0, 1), of the response time of M/M/c, first come first served.

    Solves P(T > t) = e^(-t/S) (1 + C (1 - e^(-(c-1-a) t/S)) / (c-1-a)) = 1 - q.

    >>> round(mmc_quantile(0.95, rate=10, service=0.05) / mmc_response(10, 0.05), 4)  # M/M/1: exponential, -ln(0.05)
    2.9957
    """
    if not 0 <= q < 1:
        raise refusal("q", "in [0, 1)", q)
    load = positive("rate", rate) * positive("service", service)
    waits, spare = erlang_c(servers, load), servers - 1 - load

    def longer(units: float) -> float:
        lag = units if abs(spare) < 1e-9 else -math.expm1(-spare * units) / spare
        return math.exp(-units) * (1 + waits * lag)

    high = 1.0
    while longer(high) > 1 - q:
        high *= 2
    return invert_scalar(lambda units: -longer(units), q - 1, 0.0, high) * service


def mg1_response(rate: float, service: float, cov: float) -> float:
    """Return the mean response time of M/G/1, first come first served: S + rho S (1 + CoV^2) / 2 / (1 - rho).

    The formula of Pollaczek and Khinchine.

    >>> round(mg1_response(rate=10, service=0.05, cov=0), 6)
    0.075
    """
    load = positive("rate", rate) * positive("service", service)
    erlang_c(1, load)  # refuses a load of 1 or more
    return service + load * service * (1 + not_negative("cov", cov) ** 2) / 2 / (1 - load)


def mmck_refused(rate: float, service: float, servers: int, room: int) -> float:
    """Return the share of arrivals refused by M/M/c/K with K = servers + room.

    >>> round(mmck_refused(rate=20, service=0.05, servers=1, room=1), 6)  # states 0, 1, 2 alike
    0.333333
    """
    load = positive("rate", rate) * positive("service", service)
    refused = erlang_b(servers, load)
    for _ in range(room):
        refused = load / servers * refused / (1 + load / servers * refused)
    return refused


class Closed(NamedTuple):
    """Throughput per second and mean response time of a closed system."""

    throughput: float
    response: float


def closed(users: int, think: float, service: float, servers: int = 1) -> Closed:
    """Return the steady state of ``users`` who think ``think`` seconds on average and call a station (machine repair).

    The number at the station is a birth-death process, up at (N - n)/Z, down at min(n, c)/S; R = N/X - Z.

    >>> one = closed(users=1, think=1.0, service=0.25)
    >>> round(one.throughput, 6), round(one.response, 6)
    (0.8, 0.25)
    """
    positive("think", think), positive("service", service)
    logs = [0.0]  # of the probabilities, up to a factor: their sizes differ by more than a float can hold
    for n in range(1, users + 1):
        logs.append(logs[-1] + math.log((users - n + 1) / think) - math.log(min(n, servers) / service))
    weights = [math.exp(value - max(logs)) for value in logs]
    busy = sum(min(n, servers) * weight for n, weight in enumerate(weights)) / sum(weights)
    throughput = busy / service
    return Closed(throughput, users / throughput - think)
