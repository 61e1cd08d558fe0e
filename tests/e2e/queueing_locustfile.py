"""Independent replications of M/M/1 in one run: users who come as a Poisson process to stations of their own.

QUEUEING_PLAN is JSON: a list of [name, how many replications, arrivals a second, mean service in seconds]. At stations
named "alone" nobody waits and every service is the same: what is measured beyond it is the client's and the machine's.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable

from locust import FastHttpUser, task

from locust_realism import ConstantRate, constant, exponential, install, open_arrivals
from locust_realism.kit import embedded_service
from locust_realism.targets import Page, Service, Station, Work
from locust_realism.workload.distributions import Distribution

PLAN = [
    (f"{name}-{number:02d}", rate, service)
    for name, replications, rate, service in json.loads(os.environ["QUEUEING_PLAN"])
    for number in range(replications)
]


class Visitor(FastHttpUser):
    """One request a user."""

    abstract = True
    place: str

    @task
    def ask(self) -> None:
        self.client.get(f"/{self.place}", name=self.place)


def times(place: str) -> Callable[[float], Distribution]:
    return constant if place.startswith("alone") else exponential


for place, rate, _ in PLAN:
    name = "Visitor" + place.replace("-", "")
    globals()[name] = type(name, (Visitor,), {"place": place, "population": open_arrivals(ConstantRate(rate))})

install()
embedded_service(
    Service(
        stations={place: Station(servers=1000 if place.startswith("alone") else 1) for place, _, _ in PLAN},
        work={place: Work(place, times(place)(service)) for place, _, service in PLAN},
        pages=tuple(Page(f"/{place}", (place,)) for place, _, _ in PLAN),
        seed=11,
    )
)
