"""Recording in a whole Environment: runs, Reset, sessions, aborted requests, files."""

from __future__ import annotations

import gc
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gevent
import pytest
from locust import FastHttpUser, HttpUser, User, constant, task
from locust.clients import HttpSession
from locust.env import Environment
from locust.event import EventHook

from locust_realism.recording.formats import read_launches
from locust_realism.recording.reading import held_us, read_health, read_sessions
from locust_realism.runtime.capture.accounting import balance_sentence
from locust_realism.runtime.capture.files import FilePlan, RunFiles
from locust_realism.runtime.capture.run import Recording, attach
from locust_realism.runtime.coordination.clock import Clock
from locust_realism.runtime.plugin import _compose
from locust_realism.runtime.users.session import hook_user_start
from tests.runtime.cluster import cluster, eventually


class Asker(User):
    wait_time = constant(0.01)

    @task
    def ask(self) -> None:
        start, began = time.time(), time.perf_counter()
        gevent.sleep(0.002)
        self.environment.events.request.fire(
            request_type="ASK",
            name="it",
            response_time=(time.perf_counter() - began) * 1000,
            response_length=1,
            exception=None,
            start_time=start,
            context={},
        )


@pytest.fixture
def local() -> Iterator[tuple[Environment, Recording]]:
    hook_user_start()
    environment = Environment(user_classes=[Asker])
    environment.create_local_runner()
    recording = attach(environment)
    yield environment, recording
    recording.detach()
    environment.runner.quit()  # type: ignore[union-attr]


def run(environment: Environment, users: int, seconds: float) -> None:
    runner: Any = environment.runner
    runner.start(users, spawn_rate=users)
    gevent.sleep(seconds)
    runner.stop()


def counts(environment: Environment) -> tuple[int, int]:
    return environment.stats.total.num_requests, environment.stats.total.num_failures


def test_a_second_run_starts_clean(local: tuple[Environment, Recording]) -> None:
    environment, recording = local
    for users in (3, 2):
        run(environment, users, 0.5)
        recording.flush()
        log = recording.launches()
        assert len(log) == counts(environment)[0] > 10
        assert set(log.slot.tolist()) == set(range(users)), "slots are reused from 0 by the users of the next run"
        assert len(recording.side.sessions()) == users


def test_reset_resets_what_locust_resets(local: tuple[Environment, Recording]) -> None:
    environment, recording = local
    runner: Any = environment.runner
    runner.start(3, spawn_rate=3)
    gevent.sleep(0.4)
    environment.events.reset_stats.fire()  # as the page's button does
    runner.stats.reset_all()
    gevent.sleep(0.4)
    runner.stop()
    recording.flush()
    since, whole = recording.launches(since_reset=True), recording.launches()
    assert len(since) == counts(environment)[0]
    assert 10 < len(since) < len(whole)
    assert recording.record is not None
    assert recording.record.counts().rows_since_reset == len(since)


def test_users_at_a_launch_are_those_that_run_then(local: tuple[Environment, Recording]) -> None:
    environment, recording = local
    runner: Any = environment.runner
    runner.start(2, spawn_rate=2)
    gevent.sleep(0.3)
    grown = recording.clock.now_us()
    runner.start(5, spawn_rate=100)
    gevent.sleep(0.3)
    recording.flush()
    log = recording.launches()
    assert set(log.users[log.launch_us < grown].tolist()) <= {1, 2}
    assert log.users[-1] == 5, "sessions that have not ended count, too"
    runner.stop()
    recording.flush()
    assert recording.launches().users.tolist()[: len(log)] == log.users.tolist()


class LogsIn(Asker):
    """Users who launch something when they come and when they leave."""

    def on_start(self) -> None:
        gevent.sleep(0.05)
        self.ask()

    def on_stop(self) -> None:
        self.ask()


def test_the_time_of_the_whole_load_is_in_the_files_too(tmp_path: Path) -> None:
    hook_user_start()
    environment = Environment(user_classes=[LogsIn])
    runner: Any = environment.create_local_runner()
    recording = attach(environment, files=FilePlan(tmp_path))
    try:
        for _ in range(2):  # a second run replaces those of the first
            before = recording.clock.now_us()
            runner.start(3, spawn_rate=2)
            gevent.sleep(0.2)
            assert recording.held_us == (None, None)
            gevent.sleep(1.3)
            runner.stop()
            recording.flush()
            begin, end = recording.held_us
            assert begin is not None
            assert end is not None
            assert before + 900_000 < begin < end < recording.clock.now_us()
            launches = recording.launches().launch_us
            assert (launches < begin).any()
            assert (launches > end).sum() == 3, "requests of on_stop come after the end"
            assert sorted(recording.user_starts_us().tolist())[2] <= begin + 100_000
    finally:
        recording.detach()
        runner.quit()
    newest = max(tmp_path.iterdir(), key=lambda path: path.stat().st_mtime)
    assert held_us(newest) == (begin, end)


def test_an_exception_in_our_code_never_stops_the_load(
    local: tuple[Environment, Recording], monkeypatch: pytest.MonkeyPatch
) -> None:
    environment, recording = local
    monkeypatch.setattr("locust_realism.runtime.capture.run.TICK_S", 0.05)

    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("broken on purpose")

    monkeypatch.setattr(recording.clock, "check", broken)
    gevent.sleep(1.1)  # the tick that began before
    run(environment, 2, 0.5)
    assert counts(environment)[0] > 10
    assert recording.errors > 0
    assert any("could not be recorded" in text for text in recording.warnings())


def test_health_is_taken_once_a_second(local: tuple[Environment, Recording]) -> None:
    environment, recording = local
    run(environment, 2, 2.5)
    recording.flush()
    health = recording.side.health()
    assert 1 <= len(health) <= 3
    assert health.users.max() == 2
    assert health.memory_bytes.min() > 1 << 20
    assert (health.lag_max_us >= health.lag_p99_us).all()


def test_a_stalled_event_loop_shows_as_lag(local: tuple[Environment, Recording]) -> None:
    _, recording = local
    gevent.sleep(0.2)
    until = time.perf_counter() + 0.3
    while time.perf_counter() < until:
        pass
    eventually(lambda: recording.flush() or len(recording.side.health()))
    assert recording.side.health().lag_max_us.max() > 250_000


SERVER = """
import os, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
class Answer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    def do_GET(self):
        os.write(1, f"{time.time()}\\n".encode())  # one write: threads must not mix their lines
        time.sleep(5 if self.path == "/slow" else 0.02)
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        try:
            self.wfile.write(b"ok")
        except OSError:
            pass  # the client was killed
    def log_message(self, *_):
        pass
server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
server.daemon_threads = True
print(server.server_address[1], flush=True)
server.serve_forever()
"""


@pytest.fixture
def server() -> Iterator[tuple[int, list[float]]]:
    """Server in its own process that prints the arrival of each request; /slow takes 5 s, other paths 20 ms."""
    process = subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    arrivals: list[float] = []
    port = int(process.stdout.readline())
    stdout = process.stdout
    reader = gevent.spawn(lambda: arrivals.extend(float(line) for line in stdout))
    yield port, arrivals
    process.kill()
    reader.join(2)
    process.wait()


def ask_plainly(user: Any) -> None:
    """Measure and fire, as a custom client in Locust's manual."""
    import requests

    start, began = time.time(), time.perf_counter()
    response = requests.get(f"{user.host}/page", timeout=10)
    user.environment.events.request.fire(
        request_type="GET",
        name="/page",
        response_time=(time.perf_counter() - began) * 1000,
        response_length=len(response.content),
        response=response,
        exception=None,
        start_time=start,
        context={},
    )


def page_user(port: int, wait_s: float) -> type[User]:
    """Return a class of users who request one page again and again."""

    class Getter(FastHttpUser):
        host = f"http://127.0.0.1:{port}"
        wait_time = constant(wait_s)

        @task
        def get(self) -> None:
            self.client.get("/page")

    return Getter


@pytest.mark.parametrize("base", [FastHttpUser, HttpUser, User])
def test_the_record_of_every_client_matches_the_server(base: type[User], server: tuple[int, list[float]]) -> None:
    port, arrivals = server
    hook_user_start()

    class Getter(base):  # type: ignore[misc, valid-type]
        host = f"http://127.0.0.1:{port}"
        wait_time = constant(0.05)

        @task
        def get(self) -> None:
            ask_plainly(self) if base is User else self.client.get("/page")

    environment = Environment(user_classes=[Getter], stop_timeout=5)
    environment.create_local_runner()
    recording = attach(environment)
    run(environment, 1, 1.5)
    recording.flush()
    log = recording.launches()
    eventually(lambda: len(arrivals) >= len(log))
    balance = recording.balance()
    # Locust may kill a user whose wait has just ended: its last request is aborted, on its way or before it is sent
    missing = len(arrivals) - len(log)
    assert 0 <= missing <= (1 if base is User else balance["cut"]) <= 1
    assert len(log) == counts(environment)[0] >= 5
    assert [log.labels[k] for k in set(log.label.tolist())] == [("GET", "/page")]
    assert {log.outcomes[k] for k in log.outcome} == {(False, 200, "")}
    assert set(log.size_bytes.tolist()) == {2}
    # a launch precedes its arrival by what connecting and sending take, and the end follows it by the 20 ms
    pairs = zip(sorted(arrivals), sorted(log.launch_us.tolist()), strict=False)
    delays = [arrival - launch / 1e6 for arrival, launch in pairs]
    assert min(delays) > -0.002
    assert sorted(delays)[len(delays) // 2] < 0.05
    assert log.response_us.min() >= 20_000
    if base is User:
        assert balance["http_sent"] == 0
    else:
        assert len(log) <= len(arrivals) <= balance["http_sent"] == len(log) + balance["cut"]
    assert balance["launched"] == len(log) + (balance["cut"] or 0)
    recording.detach()
    environment.runner.quit()  # type: ignore[union-attr]


@pytest.mark.parametrize("base", [FastHttpUser, HttpUser])
def test_requests_that_the_stop_aborts_are_counted_and_the_balance_closes(
    base: type[User], server: tuple[int, list[float]]
) -> None:
    port, arrivals = server
    hook_user_start()

    class Getter(base):  # type: ignore[misc, valid-type]
        host = f"http://127.0.0.1:{port}"
        wait_time = constant(0)

        @task
        def get(self) -> None:
            self.client.get("/page")
            self.client.get("/slow")

    environment = Environment(user_classes=[Getter])
    environment.create_local_runner()
    recording = attach(environment)
    run(environment, 4, 1.0)
    recording.flush()
    balance = recording.balance()
    eventually(lambda: len(arrivals) >= 8)
    assert balance == {
        "launched": 8,
        "finished": 4,
        "failed": 0,
        "cut": 4,
        "lost": 0,
        "waiting": 0,
        "http_sent": 8,
        "other": 0,
    }
    assert balance_sentence(balance) == "8 requests launched = 4 finished + 0 failed + 4 aborted + 0 lost."
    assert len(arrivals) == 8
    recording.detach()
    environment.runner.quit()  # type: ignore[union-attr]


def test_rows_on_their_way_to_the_record_do_not_count_as_another_clients(server: tuple[int, list[float]]) -> None:
    """Rows are taken every second or so; the balance may be computed in between."""

    environment = Environment(user_classes=[page_user(server[0], wait_s=0)])
    environment.create_local_runner()
    recording = attach(environment)
    environment.runner.start(2, spawn_rate=2)  # type: ignore[union-attr]
    eventually(lambda: recording.balance()["launched"] > 5)
    balance = recording.balance()
    assert balance["other"] == 0
    assert balance["launched"] + balance["waiting"] == balance["http_sent"]
    environment.runner.quit()  # type: ignore[union-attr]
    recording.detach()


def test_a_client_with_another_event_is_in_no_balance(server: tuple[int, list[float]]) -> None:
    """Clients that make and remove a scenario's accounts report to an event of their own."""
    port, arrivals = server
    hook_user_start()
    environment = Environment(user_classes=[page_user(port, wait_s=60)], stop_timeout=5)
    environment.create_local_runner()
    recording = attach(environment)

    def prepare(**_: Any) -> None:
        with HttpSession(f"http://127.0.0.1:{port}", EventHook(), None) as client:
            client.get("/page")

    environment.events.test_start.add_listener(prepare)
    run(environment, 1, 0.5)
    recording.flush()
    assert len(arrivals) == 2
    text = balance_sentence(recording.balance())
    assert text == "1 requests launched = 1 finished + 0 failed + 0 aborted + 0 lost."
    recording.detach()
    environment.runner.quit()  # type: ignore[union-attr]


@pytest.mark.parametrize("base", [FastHttpUser, HttpUser])
def test_requests_in_with_blocks_are_rows_once_or_aborted(base: type[User], server: tuple[int, list[float]]) -> None:
    """Requests that succeed, fail or are renamed are rows; an exception in the block or the end aborts one."""
    port, arrivals = server
    hook_user_start()

    class Getter(base):  # type: ignore[misc, valid-type]
        host = f"http://127.0.0.1:{port}"
        wait_time = constant(0)

        @task
        def get(self) -> None:
            with self.client.get("/page", catch_response=True) as response:
                response.failure("not what was asked for")
            with self.client.get("/page", catch_response=True, name="renamed"):
                pass
            with pytest.raises(ZeroDivisionError), self.client.get("/page", catch_response=True):
                raise ZeroDivisionError
            with self.client.get("/page", catch_response=True):
                gevent.sleep(60)

    environment = Environment(user_classes=[Getter])
    environment.create_local_runner()
    recording = attach(environment)
    runner: Any = environment.runner
    runner.start(2, spawn_rate=2)
    eventually(lambda: len(arrivals) >= 8)
    gevent.sleep(0.3)
    recording.flush()
    during = recording.balance()
    assert (during["launched"], during["finished"], during["failed"], during["waiting"]) == (4, 2, 2, 4)
    runner.stop()
    recording.flush()
    after = balance_sentence(recording.balance())
    assert after == "8 requests launched = 2 finished + 2 failed + 4 aborted + 0 lost."
    assert {label.name for label in recording.launches().labels} == {"/page", "renamed"}
    recording.detach()
    runner.quit()


def test_a_request_that_the_recorder_misses_leaves_the_balance_open(server: tuple[int, list[float]]) -> None:
    """Launched and recorded requests are counted apart: a missing row shows."""
    port, _ = server
    hook_user_start()

    environment = Environment(user_classes=[page_user(port, wait_s=60)])
    environment.create_local_runner()
    recording = attach(environment)
    assert recording.recorder is not None
    environment.events.request.remove_listener(recording.recorder.listener)
    run(environment, 1, 0.5)
    recording.flush()
    text = balance_sentence(recording.balance())
    assert text == "1 requests launched = 0 finished + 0 failed + 0 aborted + 0 lost + 1 on their way to the record."
    environment.events.request.add_listener(recording.recorder.listener)
    recording.detach()
    environment.runner.quit()  # type: ignore[union-attr]


def test_each_run_has_a_recording_of_its_own(tmp_path: Path) -> None:
    hook_user_start()
    environment = Environment(user_classes=[Asker])
    environment.create_local_runner()
    recording = attach(environment, files=FilePlan(tmp_path))
    rows = []
    for _ in range(2):
        run(environment, 2, 0.4)
        recording.flush()
        rows.append(recording.launches())
    recording.detach()
    environment.runner.quit()  # type: ignore[union-attr]
    directories = sorted(tmp_path.iterdir())
    assert len(directories) == 2
    for directory, log in zip(directories, rows, strict=True):
        found = read_launches(directory)
        assert found.launch_us.tolist() == log.launch_us.tolist()
        assert found.users.tolist() == log.users.tolist()
        assert len(read_sessions(directory)) == 2
        assert isinstance(len(read_health(directory)), int)


def test_runs_that_start_in_the_same_second_have_directories_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two Locusts in one working directory, before either has written a row."""
    monkeypatch.setattr("locust_realism.runtime.capture.files.time.time", lambda: 1_700_000_000.0)
    files = [RunFiles(FilePlan(tmp_path), "local", dict) for _ in range(3)]
    for each in files:
        each.start_run()
    try:
        directories = [each.directory for each in files]
        assert len(set(directories)) == 3
        assert sorted(directories) == sorted(tmp_path.iterdir())
    finally:
        for each in files:
            each.close()


def test_a_failing_disk_is_logged_once_and_the_load_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    place = tmp_path / "file"
    place.write_text("not a directory")
    hook_user_start()
    environment = Environment(user_classes=[Asker])
    environment.create_local_runner()
    recording = attach(environment, files=FilePlan(place))
    run(environment, 2, 4.5)  # two flushes fail
    recording.flush()
    assert len(recording.launches()) == counts(environment)[0] > 50
    assert sum("cannot be written" in record.message for record in caplog.records) == 1, "one clear warning"
    assert any("cannot be written" in text for text in recording.warnings())
    recording.detach()
    environment.runner.quit()  # type: ignore[union-attr]


def test_a_worker_that_dies_leaves_no_users_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """N(t) falls when a worker is lost, although no report has the end of its sessions."""
    recordings: list[Recording] = []
    hook_user_start()
    with cluster(monkeypatch, [Asker], lambda environment: recordings.append(attach(environment))) as made:
        side = recordings[0].side
        made.start(6, spawn_rate=100)
        eventually(lambda: len(side.open_since_us()) == 6)
        made.kill(made.workers[1])
        eventually(lambda: len(side.open_since_us()) == 3)
        ended = side.sessions()
        assert [ended.endings[k] for k in ended.ending] == ["worker gone"] * 3
        for recording in recordings:
            recording.detach()


def test_a_wrong_clock_of_a_worker_is_mapped_to_the_masters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Launches of two workers, one of them an hour behind, fall into the same seconds."""
    recordings: list[Recording] = []
    made_clocks = iter([0.0, 0.0, -3600.0])  # master, first worker, second worker

    def shifted(mono: Any = time.perf_counter) -> Clock:
        behind = next(made_clocks)
        return Clock(lambda: time.time() + behind, mono)

    class Blind(User):
        """User without start times, which would come from the one clock of this machine."""

        wait_time = constant(0.01)

        @task
        def ask(self) -> None:
            self.environment.events.request.fire(
                request_type="ASK", name="it", response_time=1.0, response_length=1, exception=None, context={}
            )

    hook_user_start()
    monkeypatch.setattr("locust_realism.runtime.capture.run.Clock", shifted)
    monkeypatch.setattr(
        "locust_realism.runtime.coordination.clock.machine_clock", lambda: ""
    )  # as if on other machines
    with cluster(monkeypatch, [Blind], lambda environment: recordings.append(attach(environment))) as made:
        master = recordings[0]
        side = master.side
        made.start(4, spawn_rate=100)
        eventually(lambda: [line for line in side.clock_lines().values() if line.probes > 32], within=20)
        eventually(lambda: len(side.clock_lines()) == 2 and len(master.launches()) > 200)
        offsets = sorted(line.offset_us for line in side.clock_lines().values())
        assert abs(offsets[0]) < 50_000
        assert offsets[1] == pytest.approx(3.6e9, abs=50_000)
        assert master.record is not None
        raw, mapped = master.record.snapshot(), master.launches()
        assert raw.launch_us.max() - raw.launch_us.min() > 3.5e9
        assert mapped.launch_us.max() - mapped.launch_us.min() < 60e6
        assert master.clock_offset_sd_us() is not None
        assert set(mapped.users[len(mapped) // 2 :].tolist()) == {4}, "sessions must be mapped with the launches"
        for recording in recordings:
            recording.detach()


def test_a_full_garbage_collection_stops_the_loop_for_a_moment_only() -> None:
    """Objects from before the test are left out of collections, which else take 30 ms and more."""
    _compose(Environment(user_classes=[Asker]).create_local_runner().environment, None)
    began = time.process_time()
    gc.collect()
    assert time.process_time() - began < 0.01
    gc.unfreeze()
    began = time.process_time()
    gc.collect()
    assert time.process_time() - began > 0.01, "the control: there were objects to collect"
