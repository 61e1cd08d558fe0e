"""Whether two runs had loads alike enough for their response times to be compared."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from locust_realism.analysis.levels import shown
from locust_realism.recording.launches import Label, LaunchLog

MIX_WARN, MIX_REFUSE = 0.05, 0.25
"""Total variation distance of the shares of the names: the share of requests that would have to be others."""
RATE_WARN, RATE_REFUSE = 0.10, 0.50
USERS_WARN, USERS_REFUSE = 0.05, 0.25


@dataclass(frozen=True)
class Alikeness:
    """``status`` is alike, warning or refused; ``reasons`` say in a sentence each what differs."""

    status: str
    reasons: tuple[str, ...]


def loads_alike(
    a: Sequence[LaunchLog],
    b: Sequence[LaunchLog],
    summaries_a: Sequence[Mapping[str, Any]] = (),
    summaries_b: Sequence[Mapping[str, Any]] = (),
) -> Alikeness:
    """Compare users, request rate, mix of names and launch pattern of two sides.

    A slower server lowers the rate of a fixed pool of users by itself: where the users are alike a different rate is
    only a warning.

    >>> log = LaunchLog.build(range(0, 10_000_000, 1000), 1, names="home", users=5)
    >>> other = LaunchLog.build(range(0, 10_000_000, 1000), 1, names="home", users=10)
    >>> loads_alike([log], [log]).status, loads_alike([log], [other]).reasons
    ('alike', ('The users differ: 5 against 10 on average.',))
    """
    found: list[tuple[str, str]] = []
    users_a, users_b = _users(a), _users(b)
    same_users = False
    if users_a and users_b:
        apart = _apart(users_a, users_b)
        same_users = apart <= USERS_WARN
        _judge(
            found,
            apart,
            USERS_WARN,
            USERS_REFUSE,
            f"The users differ: {shown(users_a)} against {shown(users_b)} on average.",
        )
    rate_a, rate_b = _rate(a), _rate(b)
    if rate_a and rate_b:
        text = f"The request rates differ: {shown(rate_a)}/s against {shown(rate_b)}/s"
        text += ", with the same users: the slower side slows its own load." if same_users else "."
        _judge(found, _apart(rate_a, rate_b), RATE_WARN, math.inf if same_users else RATE_REFUSE, text)
    mix_a, mix_b = _mix(a), _mix(b)
    distance = sum(abs(mix_a[name] - mix_b[name]) for name in {*mix_a, *mix_b}) / 2
    _judge(
        found, distance, MIX_WARN, MIX_REFUSE, f"The mix differs: {distance:.0%} of the requests are of other names."
    )
    found += _patterns(summaries_a, summaries_b)
    status = "refused" if any(s == "refused" for s, _ in found) else "warning" if found else "alike"
    return Alikeness(status, tuple(text for _, text in found))


def _judge(found: list[tuple[str, str]], value: float, warn: float, refuse: float, text: str) -> None:
    if value > warn:
        found.append(("refused" if value > refuse else "warning", text.replace("% of", " % of")))


def _apart(x: float, y: float) -> float:
    return abs(x - y) / max(x, y)


def _users(logs: Sequence[LaunchLog]) -> float | None:
    known = [log.users[log.users > 0] for log in logs]
    return float(np.mean([each.mean() for each in known])) if all(len(each) for each in known) else None


def _rate(logs: Sequence[LaunchLog]) -> float | None:
    spans = [int(np.ptp(log.launch_us)) / 1e6 for log in logs]
    return float(np.mean([(len(log) - 1) / s for log, s in zip(logs, spans, strict=True)])) if all(spans) else None


def _mix(logs: Sequence[LaunchLog]) -> defaultdict[Label, float]:
    shares: defaultdict[Label, float] = defaultdict(float)
    for log in logs:
        for code, n in enumerate(np.bincount(log.label, minlength=len(log.labels)).tolist()):
            if n:
                shares[log.labels[code]] += n / len(log) / len(logs)
    return shares


def _patterns(a: Sequence[Mapping[str, Any]], b: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Warnings for runs whose launches were not like those of independent users, on one side only."""
    worst = []
    for side in (a, b):
        statuses = [str((summary.get("verdict") or {}).get("overall")) for summary in side]
        worst.append("red" if "red" in statuses else "not red")
    if worst[0] != worst[1]:
        which = "first" if worst[0] == "red" else "second"
        return [("warning", f"The launch pattern of the {which} side is red, that of the other is not.")]
    if worst[0] == "red":
        return [("warning", "The launch patterns of both sides are red: neither shows how real users would fare.")]
    return []
