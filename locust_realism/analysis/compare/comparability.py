"""Comparability of two runs: response times compare only under similar loads."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from locust_realism.analysis.capacity.levels import shown
from locust_realism.analysis.compare.groups import counts_by_name
from locust_realism.analysis.document import LoadMatch, Summary
from locust_realism.analysis.stats.responses import span_s
from locust_realism.recording.launches import Label, LaunchLog

MIX_WARN, MIX_REFUSE = 0.05, 0.25
"""Total variation distance of the shares of the names: the share of requests with another name."""
RATE_WARN, RATE_REFUSE = 0.10, 0.50
USERS_WARN, USERS_REFUSE = 0.05, 0.25


def match_loads(
    a: Sequence[LaunchLog],
    b: Sequence[LaunchLog],
    summaries_a: Sequence[Summary] = (),
    summaries_b: Sequence[Summary] = (),
) -> LoadMatch:
    """Compare users, request rate, mix of names and launch pattern of two sides.

    A slower server lowers the rate of a fixed pool of users: with the same users another rate is only a warning.

    >>> log = LaunchLog.build(range(0, 10_000_000, 1000), 1, names="home", users=5)
    >>> other = LaunchLog.build(range(0, 10_000_000, 1000), 1, names="home", users=10)
    >>> match_loads([log], [log])["status"], match_loads([log], [other])["reasons"]
    ('alike', ['The users differ: 5 against 10 on average.'])
    """
    (users_a, users_b), (rate_a, rate_b) = ([mean(side) for side in (a, b)] for mean in (_users, _rate))
    users, rate = abs(users_a - users_b) / max(users_a, users_b), abs(rate_a - rate_b) / max(rate_a, rate_b)
    mix_a, mix_b = _mix(a), _mix(b)
    mix = sum(abs(mix_a[name] - mix_b[name]) for name in {*mix_a, *mix_b}) / 2
    same_users = users <= USERS_WARN
    slower = ", with the same users: the slower side slows its own load." if same_users else "."
    # difference (NaN where unknown), bounds of a warning and of a refusal, reason
    found = (
        (users, USERS_WARN, USERS_REFUSE, f"The users differ: {shown(users_a)} against {shown(users_b)} on average."),
        (rate, RATE_WARN, math.inf if same_users else RATE_REFUSE,
         f"The request rates differ: {shown(rate_a)}/s against {shown(rate_b)}/s{slower}"),
        (mix, MIX_WARN, MIX_REFUSE, f"The mix differs: {100 * mix:.0f} % of the requests are of other names."),
    )  # fmt: skip
    reasons = [text for value, warn, _, text in found if value > warn] + _patterns(summaries_a, summaries_b)
    refused = any(value > refuse for value, _, refuse, _ in found)
    return {"status": "refused" if refused else "warning" if reasons else "alike", "reasons": reasons}


def _users(logs: Sequence[LaunchLog]) -> float:
    known = [log.users[log.users > 0] for log in logs]
    return float(np.mean([each.mean() for each in known])) if all(map(len, known)) else math.nan


def _rate(logs: Sequence[LaunchLog]) -> float:
    spans = [span_s(log) for log in logs]
    return float(np.mean([(len(log) - 1) / s for log, s in zip(logs, spans, strict=True)])) if all(spans) else math.nan


def _mix(logs: Sequence[LaunchLog]) -> defaultdict[Label, float]:
    shares: defaultdict[Label, float] = defaultdict(float)
    for log in logs:
        for label, n in counts_by_name(log).items():
            shares[label] += n / len(log) / len(logs)
    return shares


def _patterns(a: Sequence[Summary], b: Sequence[Summary]) -> list[str]:
    """Return the warning for a red launch pattern of one side or of both."""
    red = [any(summary["verdict"]["overall"] == "red" for summary in side) for side in (a, b)]
    if all(red):
        return ["The launch patterns of both sides are red: neither shows the response times of independent users."]
    if any(red):
        return [f"The launch pattern of the {'first' if red[0] else 'second'} side is red, that of the other is not."]
    return []
