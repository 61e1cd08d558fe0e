"""Targets in tests: started with options, with requests and their counts."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from http_support import Answer, ask

from locust_realism.common import supervisor
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
        """Return its counts."""
        return self.get("/.target/state").document


def spent(answer: Answer) -> dict[str, float]:
    """Return the Server-Timing header as milliseconds by name."""
    parts = (part.partition(";dur=") for part in answer.headers["Server-Timing"].split(", "))
    return {name: float(value) for name, _, value in parts}


@contextmanager
def target(*arguments: object, script: Path | None = None) -> Iterator[Target]:
    """Run the package's target, or that of a script, in a process of its own until the end of the block."""
    words = [str(script)] if script else ["-m", "locust_realism.targets"]
    with announced(*words, *map(str, arguments)) as details:
        yield Target(details["url"])


@contextmanager
def announced(*words: str) -> Iterator[dict[str, Any]]:
    """Run a Python script or module under supervision until the end of the block; the value is its announcement."""
    process = supervisor.start([sys.executable, *words], 5.0, stdout=subprocess.PIPE, env=environment())
    with process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline().removeprefix(supervisor.READY.encode()))
        finally:
            supervisor.end(process, 5.0)


def refused(*arguments: object, script: Path | None = None) -> str:
    """Return the message on stderr of a target that refuses its options."""
    words = [str(script)] if script else ["-m", "locust_realism.targets"]
    command = [sys.executable, *words, *map(str, arguments)]
    result = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=30)
    assert result.returncode == 2, result
    return result.stderr
