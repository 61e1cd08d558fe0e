"""Requests that were launched and never reported: those that the end of a test kills in flight.

Locust fires its request event when a request has ended. One that is killed before (the test stops without
``--stop-timeout``), on its way, while its body is read or inside its ``with`` block, fires none and is in nobody's
statistics; nor is one whose ``with`` block an exception leaves. Counters around Locust's two HTTP clients know them;
what other clients launch is not known.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import wraps
from typing import Any

from locust.clients import HttpSession
from locust.clients import ResponseContextManager as HttpBlock
from locust.contrib.fasthttp import FastHttpSession
from locust.contrib.fasthttp import ResponseContextManager as FastBlock


@dataclass(frozen=True)
class InFlight:
    """Requests of Locust's HTTP clients in this process: ``sent`` = ``reported`` + ``cut`` + ``waiting``.

    - ``sent`` launched, ``reported`` as an event, ``cut`` launched and never to be reported
    - ``waiting`` for an answer, or for the end of the ``with`` block
    """

    sent: int = 0
    reported: int = 0
    cut: int = 0
    waiting: int = 0


class _Counters:
    """What the hooks count; a request passes them in microseconds, so each is one addition."""

    __slots__ = ("blocks", "cut", "event", "reported_blocks", "returned", "sent")

    def __init__(self) -> None:
        self.event: Any = None  # clients that report elsewhere, to prepare something unmeasured, do not count
        self.sent = self.returned = self.cut = 0
        self.blocks = self.reported_blocks = 0


_now = _Counters()


def hook_clients(event: Any) -> bool:
    """Count the requests that HttpSession and FastHttpSession report to ``event`` from now on.

    False where this Locust has other clients. Calling it again changes the event only.
    """
    _now.event = event
    clients: list[Any] = [HttpSession, FastHttpSession]
    blocks: list[Any] = [HttpBlock, FastBlock]
    if not all(hasattr(client, "request") for client in clients):
        return False
    if not all(hasattr(block, "_report_request") for block in blocks):
        return False
    for client in clients:
        if not hasattr(client.request, "_realism_hook"):
            client.request = _hooked(client.request, _counting)
    for block in blocks:
        if not hasattr(block._report_request, "_realism_hook"):
            block._report_request = _hooked(block._report_request, _reporting)
    return True


def _hooked(method: Any, hook: Any) -> Any:
    hooked: Any = wraps(method)(hook(method))
    hooked._realism_hook = True
    return hooked


def _counting(request: Any) -> Any:
    now, blocks = _now, (HttpBlock, FastBlock)

    def counted_request(self: Any, *arguments: Any, **named: Any) -> Any:
        if self.request_event is not now.event:
            return request(self, *arguments, **named)
        now.sent += 1
        try:
            response = request(self, *arguments, **named)
        except BaseException:
            # GreenletExit when the user is killed; whatever else leaves the client is not reported by Locust either
            now.cut += 1
            raise
        now.returned += 1
        if type(response) in blocks:
            # reported when its with block ends; HttpUser's are blocks without catch_response, too, and have ended
            now.blocks += 1
        return response

    return counted_request


def _reporting(report: Any) -> Any:
    now = _now

    def counted_report(self: Any, *arguments: Any, **named: Any) -> Any:
        now.reported_blocks += self._request_event is now.event
        return report(self, *arguments, **named)

    return counted_report


def in_flight(*, has_users: bool) -> InFlight:
    """The counters of this process as they stand; without users nobody waits in a ``with`` block any more."""
    within = _now.sent - _now.returned - _now.cut
    open_blocks = max(_now.blocks - _now.reported_blocks, 0)
    reported = _now.returned - open_blocks
    if has_users:
        return InFlight(_now.sent, reported, _now.cut, within + open_blocks)
    return InFlight(_now.sent, reported, _now.cut + open_blocks, within)


def forget() -> None:
    """A new run starts; what is still waited for stays so."""
    _now.sent -= _now.returned + _now.cut
    _now.returned = _now.cut = _now.blocks = _now.reported_blocks = 0
