"""Targets: settings, options, and the HTTP server in a process of its own."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from target_support import Target, refused, spent, target

from locust_realism.targets.queues import Stalls
from locust_realism.targets.server import add_flags, with_flags
from locust_realism.targets.service import Cache, Collector, Page, RecentRate, Service, Station, Work
from locust_realism.workload.distributions import constant, exponential, lognormal
from locust_realism.workload.distributions.text import distribution_from_text

SHOP = Service(
    stations={"web": Station(servers=2), "db": Station(discipline="ps", room=5)},
    work={"page": Work("web", exponential(0.05)), "read": Work("db", lognormal(0.1, cov=2))},
    pages=(Page("/", ("page",)), Page("/buy", ("page", "read"), method="POST", size=10)),
)


def changed(service: Service | None, *arguments: str) -> Service:
    import argparse

    parser = argparse.ArgumentParser()
    add_flags(parser)
    return with_flags(service, parser.parse_args(arguments))


def test_a_service_survives_json_unchanged() -> None:
    full = changed(SHOP, "--stall", "1.5/5", "--cache", "3/10/30", "--collector", "500/0.001/20", "--seed", "7")
    assert Service.from_dict(json.loads(json.dumps(full.to_dict()))) == full
    assert full.stalls == Stalls(every=5, length=1.5)
    assert full.cache == Cache(3, 10, 30)
    assert full.collector == Collector(500, 0.001, 20)


def test_options_change_one_station_or_all() -> None:
    service = changed(
        SHOP, "--servers", "8", "--servers", "db=3", "--discipline", "web=ps", "--room", "none", "--speed", "2",
        "--time", "read=lognormal(0.2, cov=1)",
    )  # fmt: skip
    assert service.stations == {"web": Station(8, "ps"), "db": Station(3, "ps")}
    assert service.work["read"].time == lognormal(0.2, cov=1)
    assert service.work["page"] == SHOP.work["page"]
    assert service.speed == 2
    assert changed(service, "--stall", "1/5", "--stall", "none").stalls is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--servers", "0"), "--servers 0: servers must be an integer >= 1, not 0"),
        (("--servers", "cache=2"), "--servers cache=2: the station must be one of web, db, not 'cache'"),
        (("--discipline", "lifo"), "--discipline lifo: discipline must be one of fcfs, ps, not 'lifo'"),
        (("--room", "-1"), "--room -1: room must be an integer >= 0, not -1"),
        (("--time", "page=exponential(-1)"), "mean must be > 0, not -1.0"),
        (("--time", "page=2; import os"), "must be a number of seconds or a distribution"),
        (("--time", "nothing=1"), "the work must be one of page, read, not 'nothing'"),
        (("--stall", "5/5"), "--stall 5/5: length must be < every = 5.0, not 5.0"),
        (("--stall", "5"), "--stall 5: must be LENGTH/EVERY"),
        (("--cache", "0.5/1/1"), "cold must be >= 1, not 0.5"),
        (("--speed", "0"), "speed must be > 0, not 0.0"),
        (("--service", "{}"), "--service {}: this is no service: KeyError"),
    ],
)
def test_wrong_options_are_refused_with_their_bound(arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(ValueError) as refusal:
        changed(SHOP, *arguments)
    assert message in str(refusal.value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Service({}, {"a": Work("x", constant(1))}), "the station of work 'a' must be one of none, not 'x'"),
        (lambda: Service({}, {}, pages=(Page("/", ("a",)),)), "the work of page '/' must be one of none, not 'a'"),
        (lambda: Work("x", 0.05), "time must be a distribution such as exponential"),
        (lambda: Page("x", ()), "path must begin with '/', not 'x'"),
        (lambda: Collector(0, 1, 1), "every must be an integer >= 1, not 0"),
    ],
)
def test_impossible_services_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    "text", ["open('x')", "exponential(mean=__import__('os'))", "", "exponential", "exponential(1", "[1]"]
)
def test_text_that_is_no_distribution_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        distribution_from_text(text)


def test_the_recent_rate_is_that_of_the_arrivals() -> None:
    rate = RecentRate(memory=5)
    for n in range(1000):
        rate.count(n / 20)
    assert rate.at(50.0) == pytest.approx(20, rel=0.01)
    assert rate.at(65.0) == pytest.approx(20 * 0.0498, rel=0.01)  # three memories later: e^-3


def side_by_side(server: Target, n: int) -> list[Any]:
    with ThreadPoolExecutor(n) as pool:
        return list(pool.map(server.get, ["/"] * n))


def test_one_server_serves_one_after_the_other_and_reports_the_waits() -> None:
    with target("--time", "answer=0.1") as server:
        answers = sorted(side_by_side(server, 4), key=lambda answer: answer.seconds)
        state = server.state()
    for position, answer in enumerate(answers):
        assert answer.status == 200
        assert spent(answer)["service"] == pytest.approx(100)
        # they arrive within some milliseconds, and each waits for those before it
        assert spent(answer)["queue"] == pytest.approx(100 * position, abs=60)
        assert answer.seconds >= (spent(answer)["queue"] + 100) / 1e3
    assert state["requests"] == 4
    assert state["stations"]["server"] == {
        "servers": 1, "present": 0, "served": 4, "refused": 0, "work_s": pytest.approx(0.4)
    }  # fmt: skip


def test_more_servers_serve_more_at_once_and_refuse_without_room() -> None:
    with target("--time", "answer=0.3", "--servers", 2, "--room", 1) as server:
        answers = side_by_side(server, 6)
        state = server.state()
    assert sorted(answer.status for answer in answers) == [200] * 3 + [503] * 3
    assert all(answer.headers["Retry-After"] == "1" for answer in answers if answer.status == 503)
    assert state["stations"]["server"]["refused"] == 3


def test_the_same_seed_gives_the_same_service_times() -> None:
    def times(seed: int) -> list[float]:
        with target("--seed", seed, "--time", "answer=exponential(0.005)") as server:
            return [spent(server.get("/"))["service"] for _ in range(5)]

    assert times(1) == times(1) != times(2)


def test_a_stall_stops_all_servers() -> None:
    with target("--servers", 50, "--time", "answer=0.01", "--stall", "1/1.5") as server:
        waits = []
        began = time.monotonic()
        while time.monotonic() - began < 3.5:
            waits.append(spent(server.get("/"))["queue"])
    long = [wait for wait in waits if wait > 500]
    assert 2 <= len(long) <= 3, waits
    assert max(long) < 1100


def test_a_cold_cache_slows_work_and_the_collector_pauses_it() -> None:
    with target("--time", "answer=0.01", "--cache", "4/5/1", "--servers", 9) as server:
        first = spent(server.get("/"))["service"]
        for _ in range(60):
            last = spent(server.get("/"))["service"]
    assert first == pytest.approx(10 * (1 + 3 * 0.8187), rel=0.01)  # one request in the last second: e^(-1/5)
    assert last < 15
    with target("--time", "answer=0.001", "--collector", "10/0.01/2", "--servers", 9) as server:
        waits = [spent(server.get("/"))["queue"] for _ in range(30)]
    # the third pause follows 30 requests within the memory of two seconds
    assert [n for n, wait in enumerate(waits, start=1) if wait > 30] == [10, 20, 30]
    assert waits[29] > waits[9]


def test_pages_have_their_method_and_size() -> None:
    service = Service(
        {"web": Station()}, {"page": Work("web", constant(0))},
        pages=(Page("/picture", ("page",), size=300_000, kind="image/jpeg"), Page("/send", (), method="POST", size=0)),
    )  # fmt: skip
    with target("--service", json.dumps(service.to_dict())) as server:
        picture = server.get("/picture?size=large")
        assert (picture.status, len(picture.body), picture.headers["Content-Type"]) == (200, 300_000, "image/jpeg")
        assert server.get("/send").status == 405
        assert server.post("/send", data=b"x" * 100_000).status == 200
        assert server.get("/elsewhere").status == 404
        assert server.get("/picture").status == 200


def test_a_target_with_a_wrong_option_names_it() -> None:
    assert "--servers 0: servers must be an integer >= 1" in refused("--servers", 0)
