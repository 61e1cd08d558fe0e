"""Make a Locust load test behave like real users, and see with exact figures whether it did.

In a locustfile::

    from locust import HttpUser, task
    from locust_realism import exponential, install

    install()

    class Visitor(HttpUser):
        wait_time = exponential(12)

        @task
        def home(self):
            self.client.get("/")

Importing registers nothing and imports neither Locust nor gevent: the public names below are looked up when they are
first used, so that a notebook can read the files of a run.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .recording.launches import LaunchLog as LaunchLog
    from .runtime.plugin import install as install

_HOMES: dict[str, str] = {
    "LaunchLog": "recording.launches",
    "exponential": "workload.distributions",
    "install": "runtime.plugin",
}
"""Public name to the module that defines it."""

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
