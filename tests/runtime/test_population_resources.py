"""Users who left hold neither file descriptors nor memory."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from typing import Any

import gevent
import psutil
import pytest
from gevent.server import StreamServer
from locust import FastHttpUser, HttpUser, task
from locust.env import Environment

from locust_realism.runtime.population import generation
from locust_realism.runtime.population.control import attach
from locust_realism.runtime.population.model import FinitePopulation, Population, open_arrivals
from locust_realism.workload.distributions import exponential
from locust_realism.workload.rates.shapes import ConstantRate

from .cluster import cluster, eventually
from .population_support import people_held

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nSet-Cookie: person=%d; Path=/\r\n\r\nok"


class Site:
    """Server that keeps connections open, sends each a cookie of its own, and stores the returned cookies."""

    def __init__(self) -> None:
        self.given = self.newcomers = 0
        self.returned: list[bytes] = []
        self.server = StreamServer(("127.0.0.1", 0), self.handle, backlog=4096)
        self.server.start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def handle(self, socket: Any, _address: Any) -> None:
        with socket:
            while request := socket.recv(4096):
                cookies = [line for line in request.split(b"\r\n") if line.lower().startswith(b"cookie:")]
                self.returned += [line[7:].strip() for line in cookies]
                self.newcomers += not cookies
                self.given += 1
                socket.sendall(ANSWER % self.given)


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site()
    yield made
    made.server.stop()


def run(user_class: type, rate: float, sessions: int, *, at: int = 0) -> tuple[int, int]:
    """Run until this many have left; return file descriptors and resident memory at the counts ``at``."""
    environment = Environment(user_classes=[user_class])
    runner = environment.create_local_runner()
    control = attach(environment)
    assert control is not None
    runner.start(1, 1)
    eventually(lambda: bool(control.generations), within=5)
    census = control.generations["Visitor"].census
    process = psutil.Process()
    before = (0, 0)
    try:
        for target in (at, sessions):
            eventually(lambda n=target: sum(census.departures.values()) >= n, within=30 + 3 * sessions / rate)
            if target == at:
                before = process.num_fds(), process.memory_info().rss
    finally:
        runner.quit()
    assert environment.stats.total.num_failures == 0
    return before


def visitor(base: type, url: str, population: Any) -> type:
    class Visitor(base):  # type: ignore[misc]
        host = url

        @task
        def look(self) -> None:
            self.client.get("/")

    Visitor.population = population  # type: ignore[attr-defined]
    return Visitor


def open_files_after(user_class: type, sessions: int) -> int:
    """Return the growth of open file descriptors in a run, with the cyclic collector off."""
    process = psutil.Process()
    gc.collect()
    gc.disable()
    try:
        before = process.num_fds()
        run(user_class, 200, sessions)
        gevent.sleep(0.2)
        return process.num_fds() - before
    finally:
        gc.enable()


@pytest.mark.parametrize("base", [HttpUser, FastHttpUser])
def test_connections_are_closed_without_the_cyclic_collector(
    base: type, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    user_class = visitor(base, site.url, open_arrivals(ConstantRate(200)))
    assert open_files_after(user_class, 200) < 15
    monkeypatch.setattr(generation, "close_client", lambda user: None)
    assert open_files_after(user_class, 200) > 150, "negative control: each user and its server side keep a socket"


def test_a_shared_pool_of_connections_is_left_open(site: Site) -> None:
    from urllib3 import PoolManager

    user_class = visitor(HttpUser, site.url, open_arrivals(ConstantRate(100)))
    pool = PoolManager(maxsize=100)
    user_class.pool_manager = pool  # type: ignore[attr-defined]
    run(user_class, 100, 50)
    assert len(pool.pools) == 1
    pool.clear()


@pytest.mark.parametrize("base", [HttpUser, FastHttpUser])
def test_people_return_with_their_cookies_if_set(base: type, site: Site) -> None:
    def people(keep: bool) -> Any:
        return FinitePopulation(10, away=exponential(0.1), session_length=1, keep_cookies=keep, warm_up=0.0)

    run(visitor(base, site.url, people(keep=True)), 100, 100)
    assert len(site.returned) >= 80
    assert len(set(site.returned)) >= 80, "each time the cookie of the last session"
    site.returned.clear()
    run(visitor(base, site.url, people(keep=False)), 100, 30)
    assert site.returned == []


def test_people_keep_their_cookies_at_another_worker(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    people = FinitePopulation(60, away=exponential(0.3), session_length=1, keep_cookies=True, warm_up=0.0)
    with cluster(monkeypatch, [visitor(FastHttpUser, site.url, people)], attach) as net:
        net.start()
        eventually(lambda: site.newcomers == 60, because="everybody comes once without a cookie")
        late = net.join()
        control: Any = attach(late)
        eventually(lambda: "Visitor" in control.generations)
        there = control.generations["Visitor"]
        eventually(
            lambda: people_held(there.schedule) > 5 and not there.schedule._expected, because="its people have moved"
        )
        before, returned = there.census.arrivals, len(site.returned)
        eventually(lambda: there.census.arrivals > before + 40 and len(site.returned) > returned + 40)
        net.stop()
    assert site.newcomers == 60, "who moved comes back with the cookie of the last session"


@pytest.mark.nightly
@pytest.mark.parametrize("base", [HttpUser, FastHttpUser])
def test_twenty_thousand_sessions_leave_no_memory(base: type, site: Site) -> None:
    population = Population(arrivals=ConstantRate(400), session_duration=exponential(0.05), start="empty", warm_up=0.0)
    process = psutil.Process()
    files, memory = run(visitor(base, site.url, population), 400, 20_000, at=8_000)
    gevent.sleep(1)
    gc.collect()
    assert process.num_fds() <= files + 5
    grown = process.memory_info().rss - memory
    assert grown < 8_000_000, f"{grown / 12_000:.0f} bytes a session"
    assert os.getpid() == process.pid
