"""Cost of recording: the listener, the throughput of a saturated run, and the event loop's longest gap.

    python benchmarks/recorder.py [--seconds 3] [--pairs 5]

Each figure is taken in pairs within one process, recording off and on in turn, because two runs on a shared machine
differ by more than the recorder costs. What can be measured in seconds of CPU (those of the native threads included)
is: a saturated process has no more than one core of them. Aims: the listener takes at most half of what Locust's own
request event takes; throughput of saturated FastHttpUsers is at least 0.98 of that without; the longest gap of the
event loop at 5,000 requests/s is at most 8 ms longer than without. In the second one, without is Locust as it is: the
methods that know the sessions of users and the requests in flight are taken out, too, and their own cost is printed.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import gevent
from locust import FastHttpUser, TaskSet, User, constant, events, task
from locust.contrib.fasthttp import FastHttpSession
from locust.env import Environment

from locust_realism.runtime.capture.files import FilePlan
from locust_realism.runtime.capture.run import Recording, attach
from locust_realism.runtime.capture.side_logs import counters
from locust_realism.runtime.locust_compat import count_requests
from locust_realism.runtime.users.session import hook_user_start

HOOKED: list[tuple[Any, str]] = [
    (TaskSet, "execute_next_task"),
    (TaskSet, "wait"),
    (TaskSet, "_sleep"),
    (FastHttpSession, "request"),
]
"""Methods of Locust on the path of a request that are replaced."""
LOCUSTS_OWN = [getattr(*place) for place in HOOKED]

SERVER = """
import asyncio
ANSWER = b"HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\nContent-Type: text/plain\\r\\n\\r\\nok"
class Answer(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport = transport
    def data_received(self, data):
        self.transport.write(ANSWER * data.count(b"\\r\\n\\r\\n"))
async def main():
    server = await asyncio.get_running_loop().create_server(Answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
"""


@contextmanager
def server() -> Iterator[int]:
    """Start a web server in its own process that answers faster than Locust requests."""
    with subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


def environment_of(user: type[User]) -> Environment:
    """Return an Environment with a local runner and one class of users."""
    environment = Environment(user_classes=[user])
    environment.create_local_runner()
    return environment


@contextmanager
def recorded(environment: Environment, directory: Path) -> Iterator[Recording]:
    """Record as in a real run, with files."""
    recording = attach(environment, files=FilePlan(directory))
    environment.events.test_start.fire(environment=environment)
    try:
        yield recording
    finally:
        recording.detach()


def listener_cost(pairs: int, events: int = 50_000) -> tuple[float, float]:
    """Return the microseconds of Locust's own request event and those that ours adds, in the greenlet of a user.

    The least of all measurements: whatever else runs on the machine only makes them longer.
    """

    class Waiting(User):
        @task
        def wait_for_the_end(self) -> None:
            gevent.sleep(3600)

    environment = environment_of(Waiting)
    fire: Any = environment.events.request.fire
    response = SimpleNamespace(status_code=200)

    def one() -> float:
        start = time.process_time()
        for _ in range(events):
            fire(
                request_type="GET",
                name="/path",
                response_time=12.3,
                response_length=200,
                response=response,
                context={},
                exception=None,
                start_time=1.7e9,
                url="http://127.0.0.1/path",
            )
        return (time.process_time() - start) / events * 1e6

    user = Waiting(environment)
    user.start(environment.runner.user_greenlets)  # type: ignore[union-attr]
    own, ours = [], []
    for _ in range(2 * pairs):
        own.append(in_greenlet_of(user, one))
        recording = attach(environment)
        ours.append(in_greenlet_of(user, one))
        recording.detach()
    user.stop(force=True)
    return min(own), min(ours) - min(own)


def in_greenlet_of(user: User, function: Callable[[], float]) -> float:
    """Return the function's value, computed in a user's greenlet."""
    inside: Any = gevent.Greenlet(function)
    inside.spawn_tree_locals = user.greenlet.spawn_tree_locals  # type: ignore[attr-defined]
    inside.start()
    value: float = inside.get()
    return value


def use(methods: list[Any]) -> None:
    """Run Locust with these methods in place of HOOKED."""
    for (owner, name), method in zip(HOOKED, methods, strict=True):
        setattr(owner, name, method)


@contextmanager
def saturated_users() -> Iterator[Environment]:
    """Run 20 FastHttpUsers without think times on a server in a process of its own."""
    with server() as port:

        class Asker(FastHttpUser):
            host = f"http://127.0.0.1:{port}"
            wait_time = constant(0)

            @task
            def ask(self) -> None:
                self.client.get("/")

        environment = environment_of(Asker)
        runner: Any = environment.runner
        runner.start(20, spawn_rate=20)
        gevent.sleep(1.5)
        yield environment
        runner.quit()


def cpu_throughput(environment: Environment, seconds: float) -> float:
    """Return the requests for each second of CPU in the next seconds."""
    before, start = environment.stats.total.num_requests, time.process_time()
    gevent.sleep(seconds)
    return (environment.stats.total.num_requests - before) / (time.process_time() - start)


def throughput(pairs: int, seconds: float, directory: Path) -> tuple[list[float], list[float], float]:
    """Return requests per second of CPU over those of Locust alone: with recording, and with replaced methods only.

    One value a pair each, and the median of Locust alone.
    """
    ours = [getattr(*place) for place in HOOKED]
    with saturated_users() as environment:

        def rate(methods: list[Any]) -> float:
            use(methods)
            gevent.sleep(0.1)
            return cpu_throughput(environment, seconds)

        def rate_with_all() -> float:
            use(ours)
            with recorded(environment, directory):
                return rate(ours)

        ways = {"all": rate_with_all, "methods": lambda: rate(ours), "alone": lambda: rate(LOCUSTS_OWN)}
        found: dict[str, list[float]] = {way: [] for way in ways}
        for pair in range(pairs):
            # the order alternates, so that a drift of the machine favours none
            for way in list(ways) if pair % 2 else list(ways)[::-1]:
                found[way].append(ways[way]())
        use(ours)
    ratios = {way: [a / b for a, b in zip(found[way], found["alone"], strict=True)] for way in ways}
    return ratios["all"], ratios["methods"], statistics.median(found["alone"])


def longest_gaps(pairs: int, seconds: float, directory: Path, per_second: int = 5000) -> tuple[float, float]:
    """Return the medians of the loop's longest gap in ms at so many events a second, without and with recording."""
    environment = environment_of(User)
    fire: Any = environment.events.request.fire

    def load(until: float) -> None:
        done, start = 0, time.perf_counter()
        while (now := time.perf_counter()) < until:
            while done < (now - start) * per_second:
                fire(
                    request_type="GET",
                    name=f"/{done % 20}",
                    response_time=done % 100,
                    response_length=200,
                    response=None,
                    context={},
                    exception=None,
                    start_time=time.time(),
                )
                done += 1
            gevent.sleep(0.001)

    def gap() -> float:
        until = time.perf_counter() + seconds
        busy = gevent.spawn(load, until)
        longest, last = 0.0, time.perf_counter()
        while (now := time.perf_counter()) < until:
            longest, last = max(longest, now - last), now
            gevent.sleep(0.001)
        busy.join()
        return longest * 1000

    without, with_ours = [], []
    for _ in range(pairs):
        without.append(gap())
        with recorded(environment, directory):
            gevent.sleep(0.1)
            with_ours.append(gap())
    return statistics.median(without), statistics.median(with_ours)


def main() -> int:
    """Print the three figures with their references; the exit status is 1 when an aim is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3.0, help="length of each measurement (default 3)")
    parser.add_argument("--pairs", type=int, default=5, help="pairs of measurements (default 5)")
    options = parser.parse_args()
    hook_user_start()
    counters.event = events.request
    count_requests(counters)
    own, added = listener_cost(options.pairs)
    with TemporaryDirectory() as directory:
        ratios, methods, plain = throughput(options.pairs, options.seconds, Path(directory))
        idle, busy = longest_gaps(options.pairs, options.seconds, Path(directory))
    ratio = statistics.median(ratios)
    rows = [
        ("listener, µs a request", f"{own:.2f} Locust's own", f"+{added:.2f}", "at most half", added <= own / 2),
        ("saturated FastHttpUser", f"{plain:.0f} per CPU s", f"x{ratio:.3f}", "at least 0.98", ratio >= 0.98),
        ("longest gap at 5,000/s, ms", f"{idle:.1f} without", f"{busy:.1f}", "at most +8", busy <= idle + 8),
    ]
    print(f"{'':28}{'reference':>22}{'recording':>12}  aim")
    for what, reference, ours, aim, met in rows:
        print(f"{what:28}{reference:>22}{ours:>12}  {aim}: {'met' if met else 'MISSED'}")
    print(f"throughput in each pair: {', '.join(f'{value:.3f}' for value in ratios)}")
    print(f"sessions and requests in flight alone, without recording: x{statistics.median(methods):.3f}")
    return 0 if all(met for *_, met in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
