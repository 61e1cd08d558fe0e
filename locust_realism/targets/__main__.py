"""``python -m locust_realism.targets``: one server (M/M/1, 50 ms) that answers every path, or any ``--service``."""

from __future__ import annotations

from ..workload.distributions import exponential
from .server import serve
from .service import Page, Service, Station, Work

ANYTHING = Service(
    {"server": Station()},
    {"answer": Work("server", exponential(0.05))},
    pages=tuple(Page("/*", ("answer",), method=method) for method in ("GET", "HEAD", "POST", "PUT", "DELETE")),
)
"""One server, first come first served, exponential service of 50 ms on average."""

if __name__ == "__main__":
    serve(ANYTHING, description=__doc__)
