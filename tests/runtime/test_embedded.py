"""A server that starts with Locust: it is waited for, it says why it cannot, and workers elsewhere are told."""

from __future__ import annotations

import logging
import os
import socket
from argparse import Namespace
from pathlib import Path
from typing import Any

import psutil
import pytest
from locust.env import Environment

from locust_realism.runtime import embedded
from locust_realism.runtime.embedded import OPTION, TargetError, TargetProcess
from support import eventually, free_port

SERVER = """
import sys, threading
from locust_realism.targets.process import announce, end_with_parent
over = threading.Event()
print("something else comes first")
end_with_parent(over.set)
announce("http://127.0.0.1:1", colour=sys.argv[2])
print("x" * 200_000, flush=True)
over.wait()
assert "locust" not in sys.modules and "gevent" not in sys.modules
open(sys.argv[3], "w").write("ended")
"""


def script(folder: Path, text: str) -> Path:
    path = folder / "target.py"
    path.write_text(text)
    return path


def test_a_target_announces_itself_and_ends_when_told(tmp_path: Path) -> None:
    target = TargetProcess(script(tmp_path, SERVER), ["blue", str(tmp_path / "end")])
    assert target.url == "http://127.0.0.1:1"
    assert target.details["colour"] == "blue"
    process = psutil.Process(target.process.pid)
    assert os.getsid(process.pid) == process.pid, "a Ctrl-C in the terminal would end it before the users"
    target.stop()
    assert not process.is_running()
    assert (tmp_path / "end").read_text() == "ended", "it was not left the time to clean up"


def test_a_target_that_cannot_start_is_told_with_its_status(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match=r"target\.py ended with status 3"):
        TargetProcess(script(tmp_path, "raise SystemExit(3)"))


def test_a_target_that_says_nothing_is_ended(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    silent = script(tmp_path, f"import os, time; open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep(60)")
    with pytest.raises(TargetError, match="said nothing"):
        TargetProcess(silent, patience=1.5)
    eventually(lambda: not psutil.pid_exists(int(pid.read_text())), within=10)


def test_a_target_that_does_not_end_is_killed(tmp_path: Path) -> None:
    stubborn = SERVER.replace("over.wait()", "import time; time.sleep(60)")
    target = TargetProcess(script(tmp_path, stubborn), ["blue", str(tmp_path / "end")])
    target.stop(patience=0.5)
    assert not psutil.pid_exists(target.process.pid)


def worker(port: int, monkeypatch: pytest.MonkeyPatch) -> tuple[Environment, list[str]]:
    """A worker whose master told it of an embedded target at this port, and what it refuses."""
    url = f"http://127.0.0.1:{port}"
    environment = Environment(host=url, parsed_options=Namespace(**{OPTION: url}))
    refused: list[str] = []
    monkeypatch.setattr(embedded, "refuse", lambda _environment, message: refused.append(message))
    return environment, refused


def test_a_worker_that_cannot_reach_the_embedded_target_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    environment, refused = worker(free_port(), monkeypatch)
    embedded._check_reach(environment)
    assert len(refused) == 1
    assert "runs on the machine of the master" in refused[0]
    environment.host = "http://elsewhere.example"
    embedded._check_reach(environment)
    assert len(refused) == 1, "the master was given another host in the meantime"


def test_a_worker_that_reaches_it_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        environment, refused = worker(listening.getsockname()[1], monkeypatch)
        embedded._check_reach(environment)
    assert refused == []


@pytest.mark.parametrize(("machine", "told"), [("elsewhere", True), (socket.gethostname(), False)])
def test_the_master_is_told_of_a_worker_on_another_machine(machine: str, told: bool, caplog: Any) -> None:
    with caplog.at_level(logging.ERROR):
        embedded._warn_of_remote_worker(client_id=f"{machine}_0123456789abcdef")
    assert ("runs on another machine, elsewhere" in caplog.text) == told
