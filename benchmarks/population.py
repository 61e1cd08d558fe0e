"""Sessions per second of a population, their lateness, and the cost of an arrival against Locust's spawn_users.

Each user is a FastHttpUser that makes one request to a server in a process of its own and leaves: a connection each.
A bare ``gevent.sleep`` of the same processes shows the limit of the machine, their CPU time the distance from it.
Aims (quiet machine, two cores): 1,000 sessions/s in one process with a lateness p99 below 20 ms, 500/s over two workers
with a p99 below 5 ms. The exit code is 1 if an aim is missed. Run: python benchmarks/population.py
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

SECONDS = 12
AIMS = ((1000, 1, 20.0), (500, 2, 5.0))
USERS = 2000

LOCUSTFILE = """
import json, os, time
from pathlib import Path
import gevent
from locust import FastHttpUser, constant, events, task
from locust_realism.runtime.population.control import attach
from locust_realism.runtime.population.model import open_arrivals
from locust_realism.runtime.users.session import user_sessions
from locust_realism.workload.rates.shapes import ConstantRate

lags, late, cpu = [], [], [0.0]

class Visitor(FastHttpUser):
    host = os.environ["BENCH_HOST"]
    population = open_arrivals(ConstantRate(float(os.environ["BENCH_RATE"])))

    @task
    def look(self):
        self.client.get("/")

def sleep_and_see():
    while True:
        began = time.perf_counter()
        gevent.sleep(0.01)
        lags.append(time.perf_counter() - began - 0.01)

@events.init.add_listener
def listen(environment, **_):
    user_sessions(environment).listeners.append(lambda record: late.append(record.started - record.planned_start))

@events.test_start.add_listener
def start(environment, **_):
    cpu[0] = time.process_time()
    gevent.spawn(sleep_and_see)

@events.test_stopping.add_listener
def stop(environment, **_):
    control = attach(environment)
    if control.generations:
        used, (generation,) = time.process_time() - cpu[0], control.generations.values()
        Path(os.environ["BENCH_OUT"], f"{os.getpid()}.json").write_text(json.dumps({
            "late": late, "lags": lags, "cpu": used, "elapsed": control.planner.elapsed(),
            "arrivals": generation.census.arrivals, "missed": generation.census.missed,
            "failures": environment.stats.total.num_failures, "requests": environment.stats.total.num_requests,
        }))
"""

SERVER = """
import gevent
from gevent.server import StreamServer
ANSWER = b"HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\nConnection: close\\r\\n\\r\\nok"
def handle(socket, address):
    socket.recv(4096)
    socket.sendall(ANSWER)
    socket.close()
server = StreamServer(("127.0.0.1", 0), handle, backlog=4096)
server.start()
print(server.server_port, flush=True)
server.serve_forever()
"""


def measure(rate: float, workers: int, port: int) -> dict[str, Any]:
    """Run Locust with this many arrivals a second; workers 1 is a LocalRunner."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "locustfile.py")
        path.write_text(LOCUSTFILE)
        settings = {"BENCH_HOST": f"http://127.0.0.1:{port}", "BENCH_RATE": str(rate), "BENCH_OUT": folder}
        command = [sys.executable, "-m", "locust", "-f", str(path), "--headless", "-t", f"{SECONDS}s", "--only-summary"]
        command += ["--processes", str(workers)] if workers > 1 else []
        done = subprocess.run(
            command, env={**os.environ, **settings}, capture_output=True, text=True, timeout=SECONDS + 60, check=False
        )
        parts = [json.loads(result.read_text()) for result in Path(folder).glob("*.json")]
    if len(parts) != workers:
        raise SystemExit(f"Locust did not run:\n{done.stdout}{done.stderr}")
    late, lags = (sorted(value for part in parts for value in part[key]) for key in ("late", "lags"))
    return {
        "rate": sum(part["arrivals"] / part["elapsed"] for part in parts),
        "missed": sum(part["missed"] for part in parts),
        "p50": 1000 * late[len(late) // 2],
        "p99": 1000 * late[int(0.99 * len(late))],
        "bare_p99": 1000 * lags[int(0.99 * len(lags))],
        "cpu": [part["cpu"] / part["elapsed"] for part in parts],
        "failures": sum(part["failures"] for part in parts),
    }


def cost_of_an_arrival() -> tuple[float, float]:
    """Return the microseconds to start one user beside 2,000 in session: by the population, and by spawn_users."""
    import gevent
    from locust import User, constant, task
    from locust.env import Environment

    from locust_realism.runtime.population.control import attach
    from locust_realism.runtime.population.model import Population
    from locust_realism.workload.rates.shapes import ConstantRate
    from locust_realism.workload.users.arrivals import Entry

    class Visitor(User):
        wait_time = constant(1000)
        population = Population(arrivals=ConstantRate(1e-6), session_duration=1e6, start="empty")

        @task
        def look(self) -> None:
            pass

    environment = Environment(user_classes=[Visitor])
    runner = environment.create_local_runner()
    control = attach(environment)
    assert control is not None
    runner.start(1, 1)
    gevent.sleep(0.2)
    generation = control.generations["Visitor"]
    costs: list[list[float]] = [[], []]
    for _ in range(USERS):
        generation._arrive(Entry(0.0), 0.0)
    gevent.sleep(0.5)
    for _ in range(7):
        for times, start in zip(
            costs,
            (lambda: generation._arrive(Entry(0.0), 0.0), lambda: runner.spawn_users({"Visitor": 1})),
            strict=True,
        ):
            began = time.process_time()
            for _ in range(20):
                start()
            times.append((time.process_time() - began) / 20 * 1e6)
            gevent.sleep(0)
    runner.quit()
    return min(costs[0]), min(costs[1])


def main() -> int:
    print(f"Locust {version('locust')}, gevent {version('gevent')}, Python {sys.version.split()[0]}, "
          f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f}")  # fmt: skip
    ours, theirs = cost_of_an_arrival()
    print(f"cost of an arrival at {USERS:,} users: {ours:.0f} microseconds; runner.spawn_users: {theirs:.0f} "
          f"({theirs / ours:.0f} times)")  # fmt: skip
    server = subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True)
    missed_aim = ours >= theirs
    try:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        print("sessions/s  workers  reached  missed  lateness p50    p99    aim  bare gevent.sleep p99  CPU of a core")
        for rate, workers, aim in AIMS:
            run = measure(rate, workers, port)
            cpu = " ".join(f"{share:.0%}" for share in run["cpu"])
            print(f"{rate:10,}  {workers:7}  {run['rate']:7.1f}  {run['missed']:6}  {run['p50']:9.2f} ms  "
                  f"{run['p99']:5.1f}  {aim:5.1f}  {run['bare_p99']:18.1f} ms  {cpu}")  # fmt: skip
            missed_aim |= run["p99"] > aim or run["missed"] > 0
            if run["failures"]:
                print(f"            {run['failures']} requests failed")
    finally:
        server.kill()
        server.wait()
    return int(missed_aim)


if __name__ == "__main__":
    raise SystemExit(main())
