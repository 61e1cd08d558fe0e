"""Ctrl-C: which greenlet it ends, in processes whose greenlets press it themselves."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import os, signal, sys
import gevent
from locust_realism.runtime.lifecycle.signals import interrupt_main_only

def press():
    os.kill(os.getpid(), signal.SIGINT)

def report():
    for _ in range(times):
        press()
    print("half", flush=True)
    gevent.sleep(0)
    print("whole", flush=True)

main_only, times = sys.argv[1] == "main only", int(sys.argv[2])
if main_only:
    interrupt_main_only()
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
sys.stdout.flush()
os._exit(0)  # gevent 25.9, which Locust 2.43 installs, prints a traceback of its own when the interpreter ends
"""


def outcome(*arguments: object) -> tuple[list[str], str]:
    command = [sys.executable, "-c", SCRIPT, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout.split(), done.stderr


def test_ctrl_c_ends_the_main_greenlet_and_lets_others_finish() -> None:
    printed, errors = outcome("main only", 1, "waits")
    assert sorted(printed) == ["ends", "half", "whole"]
    assert "Traceback" not in errors
    printed, errors = outcome("as python does it", 1, "waits")
    assert printed == ["ends"], "negative control: the report is aborted"
    assert "Traceback" in errors


def test_ctrl_c_strikes_at_once_where_the_main_greenlet_runs() -> None:
    assert outcome("main only", 0, "works")[0] == ["ends", "half", "whole"]


@pytest.mark.parametrize(("times", "whole"), [(3, True), (4, False)])
def test_the_fourth_ctrl_c_ends_a_greenlet_that_never_yields(times: int, whole: bool) -> None:
    printed, errors = outcome("main only", times, "waits")
    assert ("whole" in printed) is whole
    assert "ends" in printed
    assert errors.count("Locust is ending") == 2
