"""Connections of users who have left.

The sockets of short-lived users stay open until Python's cyclic collector finds user and client, which may be thousands
of users later; here they are closed when the user's greenlet has ended.
"""

from __future__ import annotations

import logging
from typing import Any

import gevent

logger = logging.getLogger(__name__)


def close_client(user: Any) -> None:
    """Close the connections of a user that has left, unless it shares them with others; does not block."""
    client = getattr(user, "client", None)
    shared = getattr(user, "pool_manager", None) is not None or getattr(user, "client_pool", None) is not None
    if client is not None and not shared:
        # in a greenlet of its own, because the end of a greenlet is told in the hub, where nothing may block
        gevent.spawn(_close, client)


def _close(client: Any) -> None:
    try:
        for adapter in set(getattr(client, "adapters", {}).values()):
            _close_pools(adapter)
        close = getattr(client, "close", None) or getattr(getattr(client, "client", None), "close", None)
        if callable(close):
            close()
    except Exception:
        logger.debug("The client of a user that has left could not be closed", exc_info=True)


def _close_pools(adapter: Any) -> None:
    """Close what an adapter of requests holds: its own close() only forgets the pools, for the collector to find."""
    pools: Any = getattr(getattr(adapter, "poolmanager", None), "pools", None)
    for key in list(pools.keys()) if pools is not None else []:
        pool = pools.get(key)
        if pool is not None:
            pool.close()
