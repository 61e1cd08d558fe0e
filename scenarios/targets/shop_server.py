"""Shop of ``shop_app.py`` with service times, to try ``shop.py`` without a shop.

    python scenarios/targets/shop_server.py --port 8080 --collector 500/0.0005/20 --cache 3/10/30

A request waits for one of four servers; a page with data also waits for a database connection.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from shop_app import answer, match
from werkzeug.exceptions import HTTPException
from werkzeug.wrappers import Request

from locust_realism import lognormal
from locust_realism.targets import Answer, RunningService, Service, Station, Work, serve

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

SHOP = Service(
    stations={"web": Station(servers=4, discipline="ps"), "database": Station(servers=10)},
    work={
        "page": Work("web", lognormal(0.015, cov=0.8)),
        "upload": Work("web", lognormal(0.04, cov=0.5)),
        "read": Work("database", lognormal(0.02, cov=1.5)),
        "write": Work("database", lognormal(0.05, cov=1)),
    },
)

STEPS = {
    "home": ("page",),
    "help": ("page",),
    "catalogue": ("page", "read"),
    "product": ("page", "read"),
    "search": ("page", "read", "read"),
    "basket": ("page", "read"),
    "account": ("page", "read"),
    "add": ("page", "write"),
    "checkout": ("page", "read", "write"),
    "upload": ("upload", "write"),
}
"""Pieces of work of each page, in order."""


class Shop:
    """Application: does the work of a page, then answers it."""

    def __init__(self, running: RunningService, _: argparse.Namespace) -> None:
        self.running = running

    def __call__(self, environ: WSGIEnvironment) -> Answer:
        request = Request(environ)
        try:
            endpoint, arguments = match(environ)
            spent = self.running.do(*STEPS[endpoint])
            response = answer(request, endpoint, arguments)
        except HTTPException as refusal:
            return Answer(refusal.code or 500, (refusal.description or "").encode())
        headers = [(name, value) for name, value in response.headers if name not in ("Content-Type", "Content-Length")]
        return Answer(
            response.status_code,
            response.data,
            response.content_type or "",
            (*headers, ("Server-Timing", spent.header)),
        )


if __name__ == "__main__":
    serve(SHOP, Shop, description=__doc__)
