"""Sums in pieces equal numpy's for any length, also of integers that would wrap or lose their digits."""

from __future__ import annotations

import math

import numpy as np
import pytest

from locust_realism.analysis.stats.intervals import (
    PIECE,
    coefficient_of_variation,
    inner_product,
    lagged_products,
)

LENGTHS = (0, 1, 2, 19, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE + 7)


@pytest.mark.parametrize("n", LENGTHS)
def test_sums_equal_those_of_the_whole(n: int) -> None:
    rng = np.random.default_rng(n)
    a, b = rng.normal(3, 1, n), rng.normal(-1, 2, n)
    assert inner_product(a, b) == pytest.approx(float((a * b).sum()), rel=1e-12)
    if n > 1:
        assert coefficient_of_variation(a) == pytest.approx(float(a.std(ddof=1) / a.mean()), rel=1e-12)


@pytest.mark.parametrize("n", LENGTHS)
def test_each_product_of_a_lag_counts_once_across_pieces(n: int) -> None:
    values = np.random.default_rng(n).normal(0, 1, n)
    expected = [float((values[: max(n - lag, 0)] * values[lag:]).sum()) for lag in range(21)]
    assert lagged_products(values, 20) == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_unsigned_integers_do_not_wrap() -> None:
    """2 - 5 as uint32 is 4,294,967,293."""
    assert coefficient_of_variation(np.array([2, 8], dtype=np.uint32)) == pytest.approx(math.sqrt(18) / 5)


def test_microseconds_since_1970_keep_their_digits() -> None:
    """The squares of such numbers have 31 digits, of which a float holds 16: the plain formula is useless."""
    values = 1_700_000_000_000_000 + np.random.default_rng(1).integers(0, 1000, 3 * PIECE)
    exact = float(values.std(ddof=1) / values.mean())
    assert coefficient_of_variation(values) == pytest.approx(exact, rel=1e-9)
    floats = values.astype(np.float64)
    plain = (floats @ floats - floats.sum() ** 2 / len(floats)) / (len(floats) - 1)
    assert abs(plain / values.var(ddof=1) - 1) > 0.01
