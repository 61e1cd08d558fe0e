"""Users that fire request events by themselves: no network, so that what is measured is the extension alone."""

import os
import random
import time

import gevent
from locust import User, constant, task

from locust_realism import exponential, install

install()
install()  # a second call must change nothing

CONSTANT = os.environ.get("SPINE_WAIT") == "constant"


class Visitor(User):
    wait_time = constant(0.5) if CONSTANT else exponential(0.5)

    @task(3)
    def home(self):
        self.request("home", 0.02)

    @task(1)
    def buy(self):
        self.request("buy", 0.05)

    def request(self, name, mean):
        began, clock = time.time(), time.perf_counter()
        gevent.sleep(0.001 if CONSTANT else random.expovariate(1 / mean))
        failed = name == "buy" and random.random() < float(os.environ.get("SPINE_FAILURES", 0))
        self.environment.events.request.fire(
            request_type="GET",
            name=name,
            response_time=(time.perf_counter() - clock) * 1000,
            response_length=7,
            exception=ValueError("no") if failed else None,
            context={},
            start_time=began,
        )
