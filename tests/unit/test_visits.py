"""Sessions found in a stream equal those of a plain loop over the same requests."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from locust_realism.fit.visits import SessionFinder

GAP = 100.0


def by_hand(times: list[int], visitors: list[int]) -> tuple[list[bool], list[int], list[int]]:
    """Return the requests that begin a session, the requests of each session, and the pauses within, in seconds."""
    last: dict[int, int] = {}
    begins, pauses = [], []
    counts: dict[tuple[int, int], int] = defaultdict(int)
    number: dict[int, int] = defaultdict(int)
    for time, visitor in zip(times, visitors, strict=True):
        new = visitor not in last or time - last[visitor] > GAP
        begins.append(new)
        number[visitor] += new
        counts[visitor, number[visitor]] += 1
        if not new:
            pauses.append(time - last[visitor])
        last[visitor] = time
    return begins, sorted(counts.values()), pauses


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3000), st.integers(-5, 5)), min_size=1, max_size=80),
    st.lists(st.integers(1, 20), min_size=1, max_size=10),
)
def test_sessions_equal_those_of_a_loop_for_any_blocks(rows: list[tuple[int, int]], cuts: list[int]) -> None:
    rows.sort()
    times, visitors = [time for time, _ in rows], [visitor for _, visitor in rows]
    finder = SessionFinder(gap=GAP, resolution=1.0)
    t, v = np.array(times, dtype=np.int64) * 1_000_000, np.array(visitors, dtype=np.int64)
    begins: list[bool] = []
    at = 0
    while at < len(t):
        size = cuts[len(begins) % len(cuts)]
        begins += finder.feed(t[at : at + size], t[at : at + size], v[at : at + size]).tolist()
        at += size
    finder.finish()
    expected, lengths, pauses = by_hand(times, visitors)
    assert begins == expected
    found = finder.sessions(early=True)
    assert np.repeat(np.arange(len(found.lengths)), found.lengths).tolist() == lengths
    assert found.requests == len(rows)
    assert found.think_times.n == len(pauses)
    assert found.think_times.total == sum(pauses)


def test_sessions_at_the_ends_of_the_log_count_apart() -> None:
    finder = SessionFinder(gap=GAP, resolution=1.0)
    # under way at the start, whole, begun a gap before the end and still under way, begun just before the end
    rows = sorted([(10, 1), (50, 1), (500, 2), (540, 2), (800, 3), (880, 3), (960, 3), (990, 4), (1000, 5)])
    t, v = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
    finder.feed(t * 1_000_000, t * 1_000_000, v)
    finder.finish()
    assert finder.unfinished == 2
    whole = finder.sessions()
    assert whole.lengths[:4].tolist() == [0, 0, 1, 1]
    assert whole.durations.total == 40 + 160
    assert finder.sessions(early=True).n == 5


def test_think_times_run_from_the_answer_to_the_next_request() -> None:
    finder = SessionFinder(gap=GAP, resolution=1e-3)
    start = np.array([0.0, 1.0, 5.0, 200.0])
    # the first answer comes after the second; the third takes so long that the pause after it is short
    end = np.array([3.0, 1.5, 150.0, 201.0])
    finder.feed((start * 1e6).astype(np.int64), (end * 1e6).astype(np.int64), np.zeros(4, dtype=np.int64))
    finder.finish()
    sessions = finder.sessions(early=True)
    assert (sessions.n, sessions.requests) == (1, 4)
    assert sessions.think_times.total == pytest.approx(0 + 2 + 50)


def test_memory_does_not_grow_with_the_stream() -> None:
    finder = SessionFinder(gap=GAP, resolution=1.0)
    for hour in range(50):
        t = np.sort(np.random.default_rng(hour).integers(0, 3600, 2000)) + 3600 * hour
        finder.feed(t * 1_000_000, t * 1_000_000, np.arange(2000) + 2000 * hour)
        assert len(finder._open.visitor) < 200
