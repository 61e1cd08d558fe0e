"""Users that fire request events under hostile names: no network, so that the page is all there is to test."""

import random

import gevent
from locust import User, task

from locust_realism import exponential, install

install()

NAMES = ["home", "<script>window.hacked = 1</script>,\"'", "=cmd()|'/c calc'!A1"]


class Visitor(User):
    """Asks for one of the names after an exponential think time."""

    wait_time = exponential(0.1)

    @task
    def ask(self) -> None:
        """One request event."""
        seconds = random.expovariate(1 / 0.02)
        gevent.sleep(seconds)
        self.environment.events.request.fire(
            request_type="GET",
            name=random.choice(NAMES),
            response_time=seconds * 1000,
            response_length=10,
            exception=None,
            context={},
        )
