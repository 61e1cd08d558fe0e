"""Smallest scenario: copy it, insert your own pages, and run it with --host and your site."""

from locust import HttpUser, task

from locust_realism import exponential, install
from locust_realism.kit import embedded_service, preflight, reachable


class Visitor(HttpUser):
    wait_time = exponential(5)  # seconds of think time on average

    @task(3)
    def home(self) -> None:
        self.client.get("/")

    @task
    def about(self) -> None:
        self.client.get("/about")


install()
preflight(reachable)
embedded_service()  # without --host, a server starts with Locust
