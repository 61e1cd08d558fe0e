"""A name on a server identifies its run and shows whether the process exists."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from locust_realism.kit.run_id import RunId


def test_every_name_of_a_run_gives_the_run_back() -> None:
    run = RunId.new(os.getpid())
    assert RunId.of(str(run)) == run
    assert RunId.of(f"{run}-3-217") == run
    assert len(f"{run}-12-123456") <= 64, "longer than user names may be"


@pytest.mark.parametrize(
    "name", ["", "lr-", "lr-alice", "alice", "xlr-q3eio0-0a1b2c-3c1-07", "LR-Q3EIO0-0A1B2C-3C1-07"]
)
def test_other_names_belong_to_no_run(name: str) -> None:
    assert RunId.of(name) is None


def test_a_run_is_alive_as_long_as_its_process() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        run = RunId.new(process.pid)
        assert run.is_here
        assert run.is_alive()
        assert not replace(run, began=run.began - 3600).is_alive(), "a younger process with the same number"
        process.kill()
        process.wait()
        assert not run.is_alive()


def test_the_state_of_another_machines_run_is_unknown() -> None:
    run = replace(RunId.new(os.getpid()), machine="ffffff")
    assert not run.is_here
    with pytest.raises(ValueError, match="another machine"):
        run.is_alive()
