"""Visitors of a government's web site.

    locust -f scenarios/gov_site.py -u 200 -r 20                          # on a server that starts with Locust
    locust -f scenarios/gov_site.py -u 200 -r 20 --host https://gov.example

After J. F. Brady, "Is Your Load Generator Launching Web Requests in Bunches?" (CMG IMPACT 2019): 200 users request six
objects in random order, home and its image four times as often as the statistics, with a think time between. The talk
has seven runs with uniform think times of 12.5, 6.25, 4.2, 3.25, 2.5, 1.563 and 1 s on average (``--think-time``); its
authors recommend ``--think-distribution exponential`` elsewhere.
"""

import random

from locust import FastHttpUser, task

from locust_realism import install, lognormal
from locust_realism.kit import embedded_service, preflight, reachable, think_time_options
from locust_realism.targets import Page, Service, Station, Work

COUNTIES = 17


class Visitor(FastHttpUser):
    """Visitor in search of information."""

    @task(4)
    def home(self) -> None:
        self.client.get("/", name="010_Home")

    @task(4)
    def home_image(self) -> None:
        self.client.get("/home.jpg", name="012_Home_jpg")

    @task(2)
    def department(self) -> None:
        self.client.get(f"/department?county={any_county()}", name="020_Dept")

    @task(2)
    def department_image(self) -> None:
        self.client.get("/department.jpg", name="022_Dept_jpg")

    @task(2)
    def demographics(self) -> None:
        self.client.get(f"/demographics?county={any_county()}", name="030_Demographics")

    @task(1)
    def statistics(self) -> None:
        self.client.get(f"/statistics?county={any_county()}", name="040_Statistics")


def any_county() -> int:
    return random.randint(1, COUNTIES)


# Means, CoV and sizes are those of the talk's first run (1800, 12.5 s of think time; its 20 steady minutes), from the
# demonstration file of its authors' web-generator-toolkit. All requests of that run have a mean of 53 ms and a CoV of
# 2.9, as in the talk's table: one in fifteen is slow (statistics, 616 ms, nearly constant), the others are fast with a
# long tail. Eight servers saturate at 154 requests per second; the talk had 159 with 1 s of think time.
# A service time with a heavy tail of its own: --target-options="--time statistics=lognormal(0.616,cov=2.9)".
JPEG = "image/jpeg"
SITE = Service(
    stations={"web": Station(servers=8, discipline="ps")},
    work={
        "home": Work("web", lognormal(0.0114, cov=1.81)),
        "home_image": Work("web", lognormal(0.0167, cov=0.38)),
        "department": Work("web", lognormal(0.0102, cov=2.86)),
        "department_image": Work("web", lognormal(0.0063, cov=4.55)),
        "demographics": Work("web", lognormal(0.0092, cov=0.65)),
        "statistics": Work("web", lognormal(0.616, cov=0.045)),
    },
    pages=(
        Page("/", ("home",), size=17991),
        Page("/home.jpg", ("home_image",), size=141907, kind=JPEG),
        Page("/department", ("department",), size=26632),
        Page("/department.jpg", ("department_image",), size=31541, kind=JPEG),
        Page("/demographics", ("demographics",), size=16735),
        Page("/statistics", ("statistics",), size=110193),
    ),
)

install()
think_time_options(Visitor, mean=12.5, kind="uniform")
preflight(reachable)
embedded_service(SITE)
