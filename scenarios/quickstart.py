"""The smallest scenario: copy it, put your own pages in, and give your site by --host."""

from locust import HttpUser, task

from locust_realism import exponential, install
from locust_realism.runtime.embedded import embedded_service
from locust_realism.runtime.preflight import preflight, reachable


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
embedded_service()  # without --host, a server that starts with Locust answers
