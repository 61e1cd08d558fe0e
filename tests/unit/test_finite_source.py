"""A finite number of people: binomial, and spread over workers by rendezvous hashing."""

from __future__ import annotations

import math

import numpy as np
import pytest

from locust_realism.workload.finite_source import FiniteSource, owners


def test_a_finite_source_is_binomial() -> None:
    source = FiniteSource(400, away=900, session=300)
    rng = np.random.default_rng(8)
    drawn = rng.binomial(400, source.presence, 4000)
    assert abs(drawn.mean() - source.mean) < 4 * math.sqrt(source.variance / 4000)
    assert abs(np.mean(drawn <= source.quantile(0.99)) - 0.99) < 0.01
    for bad in (0, -1, 2.5, True):
        with pytest.raises(ValueError, match="people"):
            FiniteSource(bad, 1, 1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="away"):
        FiniteSource(1, 0, 1)


def test_rendezvous_hashing_is_even_and_moves_only_who_must() -> None:
    people = np.arange(20_000)
    four = owners(people, [0, 3, 7, 9])
    counts = np.bincount(four)[[0, 3, 7, 9]]
    assert np.abs(counts - 5000).max() < 4 * math.sqrt(20_000 * 0.25 * 0.75)
    five = owners(people, [0, 3, 5, 7, 9])
    moved = four != five
    assert set(five[moved]) == {5}
    assert abs(moved.mean() - 0.2) < 0.02
    with pytest.raises(ValueError, match="members"):
        owners([1], [])
