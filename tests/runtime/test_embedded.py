"""Embedded targets: start, announcement, end, and refusals of workers on other machines."""

from __future__ import annotations

import json
import logging
import os
import socket
import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import psutil
import pytest
from locust.env import Environment

from locust_realism.common.supervisor import READY
from locust_realism.kit import embedded
from locust_realism.kit.embedded import OPTION, TargetError, TargetProcess
from support import eventually, free_port

SERVER = """
import signal, sys, threading
from locust_realism.targets import announce
over = threading.Event()
print("something else comes first")
signal.signal(signal.SIGTERM, lambda *_: over.set())
announce("http://127.0.0.1:1", colour=sys.argv[1])
print("x" * 200_000, flush=True)
over.wait()
assert "locust" not in sys.modules and "gevent" not in sys.modules
open(sys.argv[2], "w").write("ended")
"""


def script(folder: Path, text: str) -> Path:
    path = folder / "target.py"
    path.write_text(text)
    return path


def test_a_target_announces_itself_and_ends_with_its_own_clean_up(tmp_path: Path) -> None:
    """The target has a session of its own and ends by SIGTERM, so that it can clean up."""
    target = TargetProcess(script(tmp_path, SERVER), ["blue", str(tmp_path / "end")])
    assert target.url == "http://127.0.0.1:1"
    assert target.details["colour"] == "blue"
    process = psutil.Process(target.pid)
    assert os.getsid(process.pid) != os.getsid(0), "a Ctrl-C in the terminal would end it before the users"
    target.stop()
    assert not process.is_running()
    assert (tmp_path / "end").read_text() == "ended", "no time to clean up"


def test_a_target_ends_with_a_killed_parent(tmp_path: Path) -> None:
    """The supervisor ends the target after kill -9 of the process that started it."""
    server = script(tmp_path, SERVER)
    code = (
        "import subprocess, sys, time\nfrom locust_realism.common import supervisor\n"
        f"process = supervisor.start([sys.executable, {str(server)!r}, 'blue', {str(tmp_path / 'end')!r}], 5,"
        " stdout=subprocess.PIPE)\nprocess.stdout.readline()\nprint(process.stdout.readline().decode(), flush=True)\n"
        "time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = json.loads(parent.stdout.readline().removeprefix(READY))["pid"]
        parent.kill()
    eventually(lambda: not psutil.pid_exists(pid), within=10)
    assert (tmp_path / "end").read_text() == "ended"


def test_a_failed_start_is_reported_with_its_status(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match=r"target\.py ended with status 3"):
        TargetProcess(script(tmp_path, "raise SystemExit(3)"))


def test_a_silent_target_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "GRACE_S", 0.5)
    pid = tmp_path / "pid"
    silent = script(tmp_path, f"import os, time; open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep(60)")
    with pytest.raises(TargetError, match=r"announced no address within 1\.5 s"):
        TargetProcess(silent, start_s=1.5)
    eventually(lambda: not psutil.pid_exists(int(pid.read_text())), within=10)


def test_a_target_that_ignores_the_signal_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "GRACE_S", 0.5)
    stubborn = SERVER.replace("over.wait()", "import time; time.sleep(60)")
    target = TargetProcess(script(tmp_path, stubborn), ["blue", str(tmp_path / "end")])
    target.stop()
    assert not psutil.pid_exists(target.pid)
    assert not (tmp_path / "end").exists()


def worker(port: int, monkeypatch: pytest.MonkeyPatch) -> tuple[Environment, list[str]]:
    """Return a worker with the master's embedded target at this port, and the messages of its refusals."""
    url = f"http://127.0.0.1:{port}"
    environment = Environment(host=url, parsed_options=Namespace(**{OPTION: url}))
    refused: list[str] = []
    monkeypatch.setattr(embedded, "refuse", lambda _environment, message: refused.append(message))
    return environment, refused


def test_a_worker_that_cannot_reach_the_embedded_target_refuses_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    environment, refused = worker(free_port(), monkeypatch)
    embedded._check_reach(environment)
    assert len(refused) == 1
    assert "runs on the machine of the master" in refused[0]
    environment.host = "http://elsewhere.example"
    embedded._check_reach(environment)
    assert len(refused) == 1, "the master has another host in the meantime"


def test_a_worker_that_reaches_it_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        environment, refused = worker(listening.getsockname()[1], monkeypatch)
        embedded._check_reach(environment)
    assert refused == []


@pytest.mark.parametrize(("machine", "logged"), [("elsewhere", True), (socket.gethostname(), False)])
def test_the_master_logs_a_worker_on_another_machine(machine: str, logged: bool, caplog: Any) -> None:
    with caplog.at_level(logging.ERROR):
        embedded._warn_of_remote_worker(client_id=f"{machine}_0123456789abcdef")
    assert ("runs on another machine, elsewhere" in caplog.text) == logged
