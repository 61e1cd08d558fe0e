"""Locust's ``run_single_user``, a debugger's entry: a locustfile with install() runs, without a recording."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

LOCUSTFILE = """
from locust import User, run_single_user, task
from locust.exception import StopUser
from locust_realism import exponential, install

install()

class Visitor(User):
    wait_time = exponential(0.01)
    visits = 0

    @task
    def look(self):
        self.visits += 1
        print("visit", self.visits, flush=True)
        if self.visits == 3:
            raise StopUser

run_single_user(Visitor)
print("over")
"""


def test_a_single_user_runs_without_a_runner(tmp_path: Path) -> None:
    path = tmp_path / "locustfile.py"
    path.write_text(LOCUSTFILE)
    done = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path
    )
    assert done.stdout.splitlines()[-4:] == ["visit 1", "visit 2", "visit 3", "over"], done.stderr[-2000:]
