"""The cookies of a user's client: what a person keeps until the next session, here or at another worker."""

from __future__ import annotations

from collections.abc import Iterable
from http.cookiejar import Cookie
from typing import Any

_FIELDS = (
    "version", "name", "value", "port", "port_specified", "domain", "domain_specified", "domain_initial_dot", "path",
    "path_specified", "secure", "expires", "discard", "comment", "comment_url",
)  # fmt: skip


def cookie_jar(user: Any) -> Any:
    """The cookies of HttpUser's client (requests) or FastHttpUser's; None for other users."""
    client = getattr(user, "client", None)
    for name in ("cookiejar", "cookies"):
        jar = getattr(client, name, None)
        if hasattr(jar, "set_cookie"):
            return jar
    return None


def pack(cookies: Iterable[Cookie]) -> list[list[Any]]:
    """Cookies as plain data for a message to another worker.

    >>> shop = [0, "cart", "7", None, False, "shop.test", False, False, "/", True, False, None, True, None, None, {}]
    >>> [cookie.name for cookie in unpack([shop])], pack(unpack([shop])) == [shop]
    (['cart'], True)
    """
    return [[getattr(cookie, name) for name in _FIELDS] + [dict(vars(cookie)["_rest"])] for cookie in cookies]


def unpack(packed: Iterable[list[Any]]) -> list[Cookie]:
    """The inverse of :func:`pack`."""
    return [Cookie(**dict(zip(_FIELDS, fields, strict=False)), rest=fields[-1]) for fields in packed]
