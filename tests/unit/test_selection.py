"""Order statistics of pieces equal those of one sort, bit for bit."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from locust_realism.recording import selection
from locust_realism.recording.selection import LOWEST, Selection, cell_bounds, cells_of

# ties, borders of cells, and values whose cells are so wide that they are narrowed twice
VALUES = st.integers(LOWEST, 300) | st.integers(0, 2**45) | st.sampled_from([2**7, 2**16, 2**24 - 1, 2**24, 2**45 + 1])
PIECES = st.lists(st.lists(st.tuples(st.integers(0, 2), VALUES), max_size=30), min_size=1, max_size=4)


@settings(max_examples=150, deadline=None)
@given(PIECES, st.data())
def test_every_rank_of_every_group_and_of_all(pieces: list[list[tuple[int, int]]], data: st.DataObject) -> None:
    parts = [(np.array([c for c, _ in p], dtype=np.int64), np.array([v for _, v in p], dtype=np.int64)) for p in pieces]
    found = Selection(4, total=True)
    for codes, values in parts:
        found.count(codes, values)
    code, value = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    expected = {group: np.sort(value[code == group]) for group in range(3)} | {3: np.sort(value)}
    ranks = {}
    for group, ordered in expected.items():
        assert found.n(group) == len(ordered)
        if len(ordered):
            assert found.sum(group) == int(ordered.sum())
            ranks[group] = data.draw(st.sets(st.integers(1, len(ordered)), min_size=1, max_size=6))
            found.want(group, *ranks[group])
    runs = 0
    while found.begin():
        runs += 1
        for codes, values in parts:
            found.refine(codes, values)
        found.finish()
    assert runs <= 4
    for group, wanted in ranks.items():
        assert [found.value(group, rank) for rank in wanted] == [expected[group][rank - 1] for rank in wanted]


@given(st.integers(LOWEST, 2**50))
def test_value_lies_in_its_cell(value: int) -> None:
    cell = int(cells_of(np.array([value]))[0])
    low, high = cell_bounds(cell)
    assert low <= value < high
    assert high - low <= max(1, (value + 2) >> selection.MANTISSA_BITS)


def test_mean_and_deviation_keep_their_digits() -> None:
    """Compare values a million deviations away from zero, in pieces, with two passes over all of them."""
    rng = np.random.default_rng(4)
    values = (10**12 + rng.normal(0, 10**6, 50_000)).astype(np.int64)
    found = Selection(3, total=True)
    for part in np.array_split(values, 7):
        found.count(rng.integers(0, 2, len(part)), part)
    assert found.mean(2) == pytest.approx(float(values.mean()), rel=1e-15)
    assert found.stddev(2) == pytest.approx(float(values.std(ddof=1)), rel=1e-10)


def test_a_single_value_has_no_deviation() -> None:
    found = Selection(1)
    found.count(0, np.array([5]))
    assert found.mean(0) == 5
    assert math.isnan(found.stddev(0))


def test_impossible_value_or_rank_is_refused() -> None:
    found = Selection(1)
    with pytest.raises(ValueError, match=r"values are in \[-2, 3\], expected \[-1, "):
        found.count(0, np.array([-2, 3]))
    found.count(0, np.array([1, 2]))
    with pytest.raises(ValueError, match="rank of group 0 must be from 1 to 2, not 3"):
        found.want(0, 3)
    with pytest.raises(ValueError, match="groups must be >= 2, not 1"):
        Selection(1, total=True)
