"""``python -m locust_realism.targets``: a server (M/M/1, 50 ms) that answers every path, or any ``--service``."""

from __future__ import annotations

from locust_realism.targets.server import serve
from locust_realism.targets.service import Page, Service, Station, Work
from locust_realism.workload.distributions import exponential

ANYTHING = Service(
    {"server": Station()},
    {"answer": Work("server", exponential(0.05))},
    pages=tuple(Page("/*", ("answer",), method=method) for method in ("GET", "HEAD", "POST", "PUT", "DELETE")),
)
"""One server, first come first served, exponential service of 50 ms on average."""

if __name__ == "__main__":
    serve(ANYTHING, description=__doc__)
