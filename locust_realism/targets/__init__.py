"""Servers with known service times, to try a load test on and to check it against queueing theory.

Each runs in a process of its own; see docs/scenarios.md. A name is imported at its first use: a server that only calls
:func:`announce` stays without gevent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from locust_realism.common.lazy import lazy_names
from locust_realism.common.supervisor import announce

if TYPE_CHECKING:
    from locust_realism.targets.queues import Stalls
    from locust_realism.targets.running import RunningService
    from locust_realism.targets.server import Answer, filler, serve
    from locust_realism.targets.service import Cache, Collector, Page, Service, Station, Work

__all__ = [
    "Answer", "Cache", "Collector", "Page", "RunningService", "Service", "Stalls", "Station", "Work", "announce",
    "filler", "serve",
]  # fmt: skip
_HOMES = {
    **dict.fromkeys(("Cache", "Collector", "Page", "Service", "Station", "Work"), "service"),
    **dict.fromkeys(("Answer", "filler", "serve"), "server"),
    "RunningService": "running",
    "Stalls": "queues",
}
"""Public name to the module that defines it."""
__getattr__ = lazy_names(__name__, _HOMES)
