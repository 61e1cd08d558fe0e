"""A target as tests use it: started with its options, asked over HTTP, and looked into."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from webdav_support import Answer, ask

from support import environment


@dataclass(frozen=True)
class Target:
    """A running target."""

    url: str

    def get(self, path: str, **given: Any) -> Answer:
        return ask("GET", self.url + path, **given)

    def post(self, path: str, **given: Any) -> Answer:
        return ask("POST", self.url + path, **given)

    def state(self) -> Any:
        """Its counts."""
        return self.get("/.target/state").document


def spent(answer: Answer) -> dict[str, float]:
    """The Server-Timing header: milliseconds by name."""
    parts = (part.partition(";dur=") for part in answer.headers["Server-Timing"].split(", "))
    return {name: float(value) for name, _, value in parts}


@contextmanager
def target(*arguments: object, script: Path | None = None) -> Iterator[Target]:
    """The target in a process of its own, which ends with the block; that of the package unless a script is given."""
    what = [str(script)] if script else ["-m", "locust_realism.targets"]
    command = [sys.executable, *what, "--end-with-parent", *map(str, arguments)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment()
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield Target(json.loads(process.stdout.readline().partition(" ")[2])["url"])
        finally:
            process.stdin.close()
            process.wait(10)


def refused(*arguments: object, script: Path | None = None) -> str:
    """What a target says on stderr when it does not take its options."""
    what = [str(script)] if script else ["-m", "locust_realism.targets"]
    command = [sys.executable, *what, *map(str, arguments)]
    result = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=30)
    assert result.returncode == 2, result
    return result.stderr
