"""Sessions found in a stream equal those of a plain loop over the same requests."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from locust_realism.analysis.stats.survival import Survival
from locust_realism.fit.visits import SessionFinder
from locust_realism.recording.launches import Int64

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
    assert np.repeat(found.lengths.values, found.lengths.whole).tolist() == lengths
    assert finder.think_times.n == len(pauses)
    assert finder.think_times.total == sum(pauses)
    window = finder.sessions()
    assert window_by_hand(times, visitors) == tuple(
        list(zip(part.values[n > 0].tolist(), n[n > 0].tolist(), strict=True))
        for part in (window.lengths, window.durations)
        for n in (part.whole, part.cut)
    )


def window_by_hand(times: list[int], visitors: list[int]) -> tuple[list[tuple[float, int]], ...]:
    """Return requests and durations, of sessions whole and cut, that began between the first and the last gap."""
    start, end = times[0] + GAP, times[-1] - GAP
    found: list[Counter[float]] = [Counter() for _ in range(4)]
    for visitor in set(visitors):
        own = [time for time, who in zip(times, visitors, strict=True) if who == visitor]
        cuts = [0, *(i for i in range(1, len(own)) if own[i] - own[i - 1] > GAP), len(own)]
        for first, last in pairwise(cuts):
            known = [time for time in own[first:last] if time < end]
            if own[first] >= start and known:
                cut = len(known) < last - first
                found[cut][len(known)] += 1
                found[2 + cut][(end if cut else known[-1]) - known[0]] += 1
    return tuple(sorted(each.items()) for each in found)


def test_sessions_at_the_ends_of_the_log_count_apart() -> None:
    finder = SessionFinder(gap=GAP, resolution=1.0)
    # under way at the start, whole, cut with two of its requests before the last gap, begun in the last gap
    rows = sorted([(10, 1), (50, 1), (500, 2), (540, 2), (800, 3), (880, 3), (960, 3), (990, 4), (1000, 5)])
    t, v = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
    finder.feed(t * 1_000_000, t * 1_000_000, v)
    finder.finish()
    window = finder.sessions()
    assert (window.n, window.unfinished) == (2, 1)
    assert np.flatnonzero(window.lengths.whole).tolist() == [1]
    assert np.flatnonzero(window.lengths.cut).tolist() == [1]
    assert window.lengths.unseen == 0.5
    assert window.durations.last == 900 - 800
    assert finder.sessions(early=True).n == 5


def found_in(seed: int, hours: float, draw: Callable[[np.random.Generator, int], Int64]) -> SessionFinder:
    """Return the sessions of a log of steady arrivals, 60 s between requests on average."""
    rng = np.random.default_rng(seed)
    warm_up, length = 12 * 3600.0, hours * 3600.0
    start = np.sort(rng.uniform(-warm_up, length, rng.poisson(0.05 * (warm_up + length))))
    count = draw(rng, len(start))
    visitor = np.repeat(np.arange(len(start)), count)
    pauses = np.cumsum(rng.exponential(60.0, len(visitor)))
    time = start[visitor] + pauses - pauses[(np.cumsum(count) - count)[visitor]]
    kept = (time >= 0) & (time < length)
    order = np.argsort(time[kept])
    finder = SessionFinder(gap=1800.0, resolution=1.0)
    t = np.floor(time[kept][order]).astype(np.int64) * 1_000_000
    finder.feed(t, t, visitor[kept][order])
    finder.finish()
    return finder


@pytest.mark.parametrize(
    ("hours", "draw"),
    [
        (2.5, lambda rng, n: rng.geometric(1 / 50, n)),
        (2.5, lambda rng, n: np.full(n, 50)),
        (4.0, lambda rng, n: 1 + rng.poisson(rng.gamma(1.0, 49.0, n))),
    ],
    ids=["geometric", "constant", "mixed"],
)
def test_mean_length_is_that_of_sessions_longer_than_the_log_shows(
    hours: float, draw: Callable[[np.random.Generator, int], Int64]
) -> None:
    runs = [found_in(seed, hours, draw) for seed in range(8)]
    for true, estimates in (
        (50.0, [run.sessions().mean_length.estimate() for run in runs]),
        (49 * 60.0, [run.sessions().mean_duration.estimate() for run in runs]),
    ):
        means, errors = np.array(estimates).T
        error = float(np.sqrt((errors**2).sum())) / len(runs)
        assert error < 0.05 * true
        assert abs(means.mean() - true) < 3 * error
        assert np.all(np.abs(means - true) < 4 * errors)
    # negative control: sessions cut by the ends of the log count as whole, as they did
    naive = np.mean([run.sessions(early=True).lengths.mean for run in runs])
    assert naive < 0.87 * 50


def test_share_of_longer_sessions_is_that_of_the_law() -> None:
    """Requests of the last gap would be seen of sessions only that go on."""
    runs = [found_in(seed, 4.0, lambda rng, n: rng.geometric(1 / 50, n)) for seed in range(8)]
    law = (1 - 1 / 50) ** np.arange(1, 101)
    curve = np.mean([run.sessions().lengths.longer[:100] for run in runs], axis=0)
    np.testing.assert_allclose(curve, law, atol=0.03)
    by_time = np.mean([run.sessions().durations.quantile(0.5) for run in runs])
    assert by_time == pytest.approx(60 * 49 * np.log(2), rel=0.08)
    whole = np.mean([run.sessions(early=True).lengths.longer[:100] for run in runs], axis=0)
    assert np.max(law - whole) > 0.05


def test_curve_without_cut_sizes_is_the_sample() -> None:
    sizes = np.random.default_rng(3).geometric(0.2, 500)
    counts = np.bincount(sizes)[1:]
    curve = Survival(np.arange(1.0, len(counts) + 1), counts, np.zeros_like(counts))
    assert curve.mean == pytest.approx(sizes.mean())
    assert [curve.quantile(q) for q in (0.5, 0.99)] == np.quantile(sizes, [0.5, 0.99], method="inverted_cdf").tolist()
    assert curve.unseen == 0
    cut = Survival(curve.values, counts, counts[::-1])
    assert np.isnan(cut.quantile(1 - cut.unseen / 2))


def test_think_times_run_from_the_answer_to_the_next_request() -> None:
    finder = SessionFinder(gap=GAP, resolution=1e-3)
    start = np.array([0.0, 1.0, 5.0, 200.0])
    # the first answer comes after the second; the third takes so long that the pause after it is short
    end = np.array([3.0, 1.5, 150.0, 201.0])
    finder.feed((start * 1e6).astype(np.int64), (end * 1e6).astype(np.int64), np.zeros(4, dtype=np.int64))
    finder.finish()
    sessions = finder.sessions(early=True)
    assert (sessions.n, sessions.lengths.last) == (1, 4)
    assert finder.think_times.total == pytest.approx(0 + 2 + 50)


def test_memory_does_not_grow_with_the_stream() -> None:
    finder = SessionFinder(gap=GAP, resolution=1.0)
    for hour in range(50):
        t = np.sort(np.random.default_rng(hour).integers(0, 3600, 2000)) + 3600 * hour
        finder.feed(t * 1_000_000, t * 1_000_000, np.arange(2000) + 2000 * hour)
        assert len(finder._open.visitor) < 200
