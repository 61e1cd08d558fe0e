"""Requests that were launched and never reported: those that the end of a test kills in flight.

Locust fires its request event when a request has ended. One that is killed before (the test stops without
``--stop-timeout``) fires none and is in nobody's statistics. A counter around the send of Locust's two HTTP clients
knows them; what other clients launch is not known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from locust.clients import HttpSession
from locust.contrib.fasthttp import FastHttpSession


@dataclass
class InFlight:
    """Requests of Locust's HTTP clients in this process: launched, still waited for, cut before they ended."""

    sent: int = 0
    waiting: int = 0
    cut: int = 0


_now = InFlight()
_SEND = "_send_request_safe_mode"


def hook_clients() -> bool:
    """Count the sends of HttpSession and FastHttpSession from now on; False where this Locust has no such method.

    Calling it again changes nothing.
    """
    classes: list[Any] = [HttpSession, FastHttpSession]
    if not all(hasattr(client, _SEND) for client in classes):
        return False
    for client in classes:
        send = getattr(client, _SEND)
        if not hasattr(send, "_realism_hook"):
            setattr(client, _SEND, _counted(send))
    return True


def _counted(send: Any) -> Any:
    def counted_send(self: Any, *arguments: Any, **named: Any) -> Any:
        _now.sent += 1
        _now.waiting += 1
        try:
            return send(self, *arguments, **named)
        except BaseException:
            # GreenletExit when the user is killed; whatever else leaves the send is not reported by Locust either
            _now.cut += 1
            raise
        finally:
            _now.waiting -= 1

    counted_send._realism_hook = True  # type: ignore[attr-defined]
    return counted_send


def in_flight() -> InFlight:
    """The counters of this process as they stand."""
    return InFlight(_now.sent, _now.waiting, _now.cut)


def forget() -> None:
    """A new run starts; what is still waited for stays so."""
    _now.sent, _now.cut = _now.waiting, 0
