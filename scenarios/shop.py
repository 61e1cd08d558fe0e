"""Customers of a shop, through a day.

    locust -f scenarios/shop.py -u 50 -r 10                          # a shop starts with Locust
    locust -f scenarios/shop.py -u 100 -r 100 --shop-load sine --shop-compression 720    # a day in two minutes
    locust -f scenarios/shop.py --shop-load population --shop-compression 24     # in an hour; customers come and go

After two posts on stress tests. "Tomcat vs JBoss Web" (2007): users who keep their cookies request ten pages of a small
application, compressed, with an upload. "Modulating the throughput in JMeter for better longevity stress tests" (2010):
the load follows a day, because caches and the collector adapt to a constant one. The next page depends on the last one
(a Markov chain).
"""

from __future__ import annotations

import os
import random
from pathlib import Path

from locust import HttpUser, MarkovTaskSet, events, transitions
from locust.env import Environment

from locust_realism import Population, SineRate, diurnal_sine, install, lognormal
from locust_realism.kit import (
    NOT_NEGATIVE,
    POSITIVE,
    Option,
    connecting,
    embedded_target,
    preflight,
    reachable,
    scenario_options,
    think_time_options,
)

DAY_S = 86400.0
PICTURE = os.urandom(60_000)


class Visit(MarkovTaskSet):
    """Markov chain of pages; ``arrive`` is another customer in place of one who left."""

    @transitions({"catalogue": 5, "search": 4, "account": 1, "arrive": 2})
    def arrive(self) -> None:
        self.client.cookies.clear()
        self.client.get("/", name="home")

    @transitions({"catalogue": 6, "search": 4})
    def home(self) -> None:
        self.client.get("/", name="home")

    @transitions({"product": 7, "search": 2, "arrive": 1})
    def catalogue(self) -> None:
        self.client.get("/catalogue", name="catalogue")

    @transitions({"product": 6, "search": 2, "arrive": 2})
    def search(self) -> None:
        self.client.get(f"/search?q={random.randint(1, 20)}", name="search")

    @transitions({"add": 6, "product": 6, "catalogue": 6, "upload": 1, "home": 2, "arrive": 4})
    def product(self) -> None:
        self.client.get(f"/product/{random.randint(0, 199)}", name="product")

    @transitions({"basket": 5, "catalogue": 3, "home": 1})
    def add(self) -> None:
        self.client.post("/basket/add", {"number": random.randint(0, 199)}, name="add to basket")

    @transitions({"checkout": 4, "catalogue": 3, "help": 1, "arrive": 2})
    def basket(self) -> None:
        self.client.get("/basket", name="basket")

    @transitions({"upload": 1, "account": 2, "arrive": 7})
    def checkout(self) -> None:
        self.client.post("/checkout", name="checkout")

    @transitions({"catalogue": 3, "help": 1, "arrive": 1})
    def account(self) -> None:
        self.client.get("/account", name="account")

    @transitions({"home": 1, "arrive": 4})
    def upload(self) -> None:
        self.client.post("/upload", files={"picture": ("thing.jpg", PICTURE, "image/jpeg")}, name="upload")

    @transitions({"home": 3, "arrive": 1})
    def help(self) -> None:
        self.client.get("/help", name="help")


class Customer(HttpUser):
    """Customer of the shop."""

    population: Population
    tasks = [Visit]  # noqa: RUF012


# fmt: off
OPTIONS = (
    Option("--shop-load", "pool", "pool: a number of users who think (--think-time); sine: pages at a rate that "
           "follows the day, launched by enough users (-u); population: customers arrive at such a rate, think, and "
           "leave.", choices=("pool", "sine", "population"), in_ui=False),
    Option("--shop-min-rate", 2.0, "Least rate of the day: pages per second (sine), or customers (population).",
           type=NOT_NEGATIVE, in_ui=False),
    Option("--shop-max-rate", 20.0, "Highest rate of the day.", type=POSITIVE, in_ui=False),
    Option("--shop-peak", None, "Time of day of the highest rate, as '14:00 Europe/Berlin' (sine only). Without it the "
           "run starts at the middle rate, rising.", in_ui=False),
    Option("--shop-compression", 1.0, "Speed of the day, at the same rates: 720 makes it two minutes.", type=POSITIVE,
           in_ui=False),
    Option("--shop-session", 60.0, "Mean stay in seconds of a customer of the population.", type=POSITIVE,
           in_ui=False),
)
# fmt: on


@events.init.add_listener
def choose_load(environment: Environment, **_: object) -> None:
    """Set the population or the wait of the chosen load."""
    options = environment.parsed_options
    assert options is not None
    low, high, fast = options.shop_min_rate, options.shop_max_rate, options.shop_compression
    with connecting(environment):
        if options.shop_load == "population":
            arrivals = SineRate(low, high, DAY_S).compressed(fast)
            Customer.population = Population(arrivals, session_duration=lognormal(options.shop_session, cov=1.2))
        elif options.shop_load == "sine":
            swinging = diurnal_sine(low, high, DAY_S, peak_at=options.shop_peak, compression=fast)
            events.test_start.add_listener(lambda **_: setattr(Customer, "wait_time", swinging))


install()
scenario_options("Shop scenario", OPTIONS)
think_time_options(Customer, mean=5)
preflight(reachable)
embedded_target(Path(__file__).with_name("targets") / "shop_server.py")
