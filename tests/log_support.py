"""Access logs made from known parameters, which a fit must recover."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from locust_realism.workload.distributions.base import Distribution
from locust_realism.workload.rates.profile import RateProfile
from locust_realism.workload.users.arrivals import arrival_times

MONDAY = int(datetime(2026, 3, 2, tzinfo=timezone(timedelta(hours=1))).timestamp())
"""Midnight of a Monday at +01:00, before summer time begins."""


@dataclass(frozen=True)
class Traffic:
    """Requests in order of time: seconds from the start, visitors and indices of names; sessions as they were made."""

    time: NDArray[np.float64]
    visitor: NDArray[np.int64]
    name: NDArray[np.int64]
    starts: NDArray[np.float64]
    lengths: NDArray[np.int64]
    pauses: NDArray[np.float64]


def traffic(
    arrivals: RateProfile,
    think: Distribution,
    mean_length: float,
    shares: Sequence[float],
    duration: float,
    seed: int,
    *,
    returning: float = 0.0,
) -> Traffic:
    """Return sessions of a geometric number of requests; a share ``returning`` is by visitors of hours before."""
    rng = np.random.default_rng(seed)
    starts = arrival_times(arrivals, duration, rng)
    lengths = rng.geometric(1 / mean_length, len(starts))
    session = np.repeat(np.arange(len(starts)), lengths)
    pauses = think.sample(rng, len(session))
    first = np.cumsum(lengths) - lengths
    pauses[first] = 0.0
    walked = np.cumsum(pauses)
    time = starts[session] + walked - walked[first][session]
    visitor = np.arange(len(starts))
    for back in np.flatnonzero(rng.random(len(starts)) < returning).tolist():
        before = int(np.searchsorted(starts, starts[back] - 6 * 3600))
        free = before and int(rng.integers(before))
        # No visitor returns twice: two sessions at the same time would be one.
        if before and np.sum(visitor == visitor[free]) == 1:
            visitor[back] = visitor[free]
    name = rng.choice(len(shares), len(session), p=shares)
    kept = time < duration
    order = np.argsort(time[kept], kind="stable")
    return Traffic(
        time[kept][order], visitor[session][kept][order], name[kept][order], starts, lengths, np.delete(pauses, first)
    )


def lines(
    made: Traffic, requests: Sequence[str], *, start: float = MONDAY, offset_h: float = 1.0, agents: int = 3
) -> list[str]:
    """Return lines in the combined format; visitors of the same address differ by their agent."""
    zone = timezone(timedelta(hours=offset_h))
    second = np.floor(start + made.time).astype(np.int64)
    stamps = {s: datetime.fromtimestamp(s, zone).strftime("%d/%b/%Y:%H:%M:%S %z") for s in np.unique(second).tolist()}
    return [
        f"10.{v // agents >> 16 & 255}.{v // agents >> 8 & 255}.{v // agents & 255} - - [{stamps[s]}] "
        f'"{requests[n]}" 200 512 "-" "Mozilla/5.0 (agent {v % agents})"'
        for s, v, n in zip(second.tolist(), made.visitor.tolist(), made.name.tolist(), strict=True)
    ]


def write_log(path: Path, rows: Sequence[str]) -> Path:
    """Write lines, compressed if the name ends in .gz."""
    text = "".join(f"{row}\n" for row in rows).encode("utf-8", errors="surrogateescape")
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path
