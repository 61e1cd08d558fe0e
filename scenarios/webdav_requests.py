"""Requests of ``webdav.py``, and the names of their failures: equal failures count as one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.cookiejar import DefaultCookiePolicy
from typing import Any
from xml.etree import ElementTree

from locust.clients import HttpSession, ResponseContextManager

TIMEOUT_S = 30.0


def without_cookies(client: HttpSession) -> None:
    """Make a client drop all cookies, so that each request logs in anew."""
    client.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))


def reason(response: ResponseContextManager) -> str:
    """Return the kind of a failure, without a URL or a name, so that equal failures count as one."""
    error = getattr(response, "error", None)
    if error is None:
        try:
            return f"{response.status_code} {HTTPStatus(response.status_code).phrase}"
        except ValueError:
            return f"status {response.status_code}"
    while error.__cause__ or error.__context__:
        error = error.__cause__ or error.__context__
    return f"{type(error).__name__}: {error.strerror}" if getattr(error, "strerror", None) else type(error).__name__


def every_request(client: HttpSession) -> dict[str, Any]:
    """Return the arguments of every request.

    A redirect is a failure: it means a wrong address. ``verify`` stands in each request, because a bundle of
    certificates in the environment overrides that of the client.
    """
    return {"catch_response": True, "allow_redirects": False, "verify": client.verify}


@contextmanager
def sending(
    client: HttpSession, method: str, url: str, name: str, ok: tuple[int, ...], **given: Any
) -> Iterator[ResponseContextManager]:
    """Send a request that fails, by kind, unless its status is in ``ok``; the block may read the answer and fail it."""
    given = {**every_request(client), **given}
    with client.request(method, url, name=name, **given) as response:
        if response.status_code in ok:
            response.success()
        else:
            response.failure(reason(response))
        yield response


def hrefs(document: bytes) -> list[str]:
    """Return the addresses in a PROPFIND's answer; ValueError for any other document."""
    try:
        root = ElementTree.fromstring(document)
    except ElementTree.ParseError as error:
        raise ValueError(f"not a list of files: {error}") from None
    return [node.text or "" for node in root.iter("{DAV:}href")]
