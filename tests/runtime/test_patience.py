"""Where a Ctrl-C strikes: in processes of their own, whose greenlets press it themselves."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import os, signal, sys
import gevent
from locust_realism.runtime.patience import spare_greenlets

def press():
    os.kill(os.getpid(), signal.SIGINT)

def report():
    for _ in range(times):
        press()
    print("half", flush=True)
    gevent.sleep(0)
    print("whole", flush=True)

spared, times = sys.argv[1] == "spared", int(sys.argv[2])
if spared:
    spare_greenlets()
reporting = gevent.spawn(report)
try:
    if sys.argv[3] == "waits":
        gevent.sleep(10)
    else:
        press()
        sum(range(1000))
    print("never", flush=True)
except KeyboardInterrupt:
    print("ends", flush=True)
reporting.join()
"""


def outcome(*arguments: object) -> tuple[list[str], str]:
    command = [sys.executable, "-c", SCRIPT, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout.split(), done.stderr


def test_ctrl_c_ends_the_main_greenlet_and_lets_others_finish() -> None:
    said, errors = outcome("spared", 1, "waits")
    assert sorted(said) == ["ends", "half", "whole"]
    assert "Traceback" not in errors
    said, errors = outcome("as python does it", 1, "waits")
    assert said == ["ends"], "negative control: the report is cut"
    assert "Traceback" in errors


def test_ctrl_c_strikes_at_once_where_the_main_greenlet_runs() -> None:
    assert outcome("spared", 0, "works")[0] == ["ends", "half", "whole"]


@pytest.mark.parametrize(("times", "whole"), [(3, True), (4, False)])
def test_what_never_gives_way_is_ended_by_the_fourth_ctrl_c(times: int, whole: bool) -> None:
    said, errors = outcome("spared", times, "waits")
    assert ("whole" in said) is whole
    assert "ends" in said
    assert errors.count("Locust is ending") == 2
