"""Log of a target's arrivals: the kernel's times, in a process of its own."""

from __future__ import annotations

import socket
import sys
import time
from http.client import HTTPConnection
from pathlib import Path

import numpy as np
import pytest
from target_support import refused, target

from locust_realism.targets.arrival_log import read_arrivals


def test_each_request_is_logged_once_with_its_query_and_the_time_at_which_it_was_sent(tmp_path: Path) -> None:
    log = tmp_path / "arrivals.log"
    sent, received = [], []
    with target("--log", log, "--time", "answer=0.02", "--servers", 9) as server:
        connection = HTTPConnection(*server.url.removeprefix("http://").split(":"))
        for number in range(20):
            sent.append(time.time_ns() // 1000)
            connection.request("POST" if number % 2 else "GET", f"/page?t={number}", body=b"x" * 200_000)
            assert connection.getresponse().read()
            received.append(time.time_ns() // 1000)
        server.state()
    times, targets = read_arrivals(log)
    assert targets == [f"/page?t={number}" for number in range(20)] + ["/.target/state"]
    assert np.all(times[:20] >= sent)
    assert np.all(times[:20] <= np.array(received) - 20_000), "an arrival is before the work on the request"


def test_requests_in_one_packet_are_logged_each(tmp_path: Path) -> None:
    log = tmp_path / "arrivals.log"
    with target("--log", log, "--time", "answer=0.001") as server:
        host, port = server.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as connection:
            request = "GET /{} HTTP/1.1\r\nHost: here\r\nConnection: {}\r\n\r\n"
            connection.sendall((request.format(1, "keep-alive") + request.format(2, "close")).encode())
            while connection.recv(65536):
                pass
    times, targets = read_arrivals(log)
    assert targets == ["/1", "/2"]
    assert times[0] <= times[1]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux stamps packets")
def test_a_busy_server_does_not_make_the_arrivals_late(tmp_path: Path) -> None:
    """The kernel stamps requests while the server's only thread blocks; its own clock would be late."""
    log = tmp_path / "arrivals.log"
    script = tmp_path / "blocking.py"
    script.write_text(
        "import time\nfrom locust_realism.targets import Answer, Service, Station, serve\n"
        "def make(running, options):\n    def answer(environ):\n        time.sleep(0.3)\n        return Answer(200)\n"
        "    return answer\nserve(Service({'web': Station()}, {}), make)\n"
    )
    with target("--log", log, script=script) as server:
        first, second = (HTTPConnection(*server.url.removeprefix("http://").split(":")) for _ in range(2))
        for connection in (first, second):
            connection.request("GET", "/")
            connection.getresponse().read()
        sent = []
        for connection in (first, second):
            sent.append(time.time_ns() // 1000)
            connection.request("GET", "/timed")
            time.sleep(0.05)
        for connection in (first, second):
            connection.getresponse().read()
    times, targets = read_arrivals(log)
    assert targets[2:] == ["/timed", "/timed"]
    assert times[3] - sent[1] < 100_000, "the second request waited 0.25 s for the server's thread"
    assert times[2] - sent[0] < 100_000


def test_a_log_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    assert "No such file or directory" in refused("--log", tmp_path / "none" / "arrivals.log")
