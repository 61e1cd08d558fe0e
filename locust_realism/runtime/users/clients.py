"""HTTP clients of users who have left: their connections are closed, and their cookies move with a person.

The sockets of short-lived users would stay open until Python's cyclic collector finds user and client, thousands of
users later; here they are closed when the user's greenlet ends. A person of a finite population keeps the cookies until
the next session, on this worker or another.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from http.cookiejar import Cookie, CookieJar
from typing import Any

import gevent
from locust import User

logger = logging.getLogger(__name__)


def close_client(user: User) -> None:
    """Close the connections of a user that has left, unless it shares them with others; does not block."""
    client = getattr(user, "client", None)
    shared = any(getattr(user, pool, None) is not None for pool in ("pool_manager", "client_pool"))
    if client is not None and not shared:
        # in a greenlet of its own: this runs in the hub at the end of the user's greenlet, and must not block
        gevent.spawn(_close, client)


def _close(client: object) -> None:
    try:
        for adapter in set(getattr(client, "adapters", {}).values()):
            # close() of requests' adapter drops its pools, open, for the collector to find
            pools: Any = getattr(getattr(adapter, "poolmanager", None), "pools", {})
            for key in list(pools.keys()):
                if (pool := pools.get(key)) is not None:
                    pool.close()
        close = getattr(client, "close", None) or getattr(getattr(client, "client", None), "close", None)
        if callable(close):
            close()
    except Exception:
        logger.debug("The client of a user that has left could not be closed", exc_info=True)


def cookie_jar(user: User) -> CookieJar | None:
    """Return the cookies of HttpUser's client (requests) or FastHttpUser's; None for other users."""
    client = getattr(user, "client", None)
    jars: list[CookieJar | None] = [getattr(client, name, None) for name in ("cookiejar", "cookies")]
    return next((jar for jar in jars if hasattr(jar, "set_cookie")), None)


_FIELDS = (
    "version", "name", "value", "port", "port_specified", "domain", "domain_specified", "domain_initial_dot", "path",
    "path_specified", "secure", "expires", "discard", "comment", "comment_url",
)  # fmt: skip


def pack(cookies: Iterable[Cookie]) -> list[list[object]]:
    """Return cookies as plain data for a message to another worker.

    >>> shop = [0, "cart", "7", None, False, "shop.test", False, False, "/", True, False, None, True, None, None, {}]
    >>> [cookie.name for cookie in unpack([shop])], pack(unpack([shop])) == [shop]
    (['cart'], True)
    """
    return [[getattr(cookie, name) for name in _FIELDS] + [dict(vars(cookie)["_rest"])] for cookie in cookies]


def unpack(packed: Iterable[list[Any]]) -> list[Cookie]:
    """Return the inverse of :func:`pack`."""
    return [Cookie(**dict(zip(_FIELDS, fields, strict=False)), rest=fields[-1]) for fields in packed]
