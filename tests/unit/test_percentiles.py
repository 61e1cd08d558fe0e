"""Exact percentiles against a plain sort, numpy and scipy, and the coverage of their confidence intervals."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from locust_realism.analysis.percentiles import (
    QUANTILES,
    RULES,
    order_by_group,
    percentile_rank,
    percentiles,
    sorted_percentiles,
)

SAMPLES = st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=300)


def plain(values, quantile, rule):
    """Return the definition, computed on a Python list with fractions."""
    ordered, n, p = sorted(values), len(values), Fraction(str(quantile))
    if rule == "linear":
        low, part = divmod((n - 1) * p, 1)
        low = int(low)
        return float(ordered[low] + part * (ordered[min(low + 1, n - 1)] - ordered[low]))
    rank = {
        "nearest_rank": -((-n * p) // 1),
        "jmeter": (n * p + Fraction(1, 2)) // 1,
        "locust": (n * p) // 1 + 1,
    }[rule]
    return float(ordered[min(max(int(rank), 1), n) - 1])


@given(
    SAMPLES, st.sampled_from([0, "0.001", 0.1, 0.5, 0.55, 0.9, 0.95, "0.99", 0.999, 1]), st.sampled_from(list(RULES))
)
@settings(deadline=None)
def test_every_rule_equals_a_plain_sort_with_exact_arithmetic(values, quantile, rule):
    assert percentiles(values, [quantile], rule)[0] == plain(values, quantile, rule)


@given(SAMPLES, st.lists(st.integers(0, 3), min_size=300, max_size=300))
@settings(deadline=None)
def test_each_group_equals_the_group_alone(values, codes):
    values, codes = np.array(values), np.array(codes[: len(values)])
    grouped = order_by_group(values, codes, 5)
    for group in range(5):
        np.testing.assert_array_equal(sorted_percentiles(grouped.group(group)), percentiles(values[codes == group]))


@pytest.mark.parametrize("dtype", [np.uint32, np.int64, np.float64])
def test_large_samples_of_every_type_equal_the_sorted_one_bit_for_bit(dtype):
    values = np.random.default_rng(1).lognormal(10, 2, 200_003).astype(dtype)
    ordered = np.sort(values)
    expected = [float(ordered[math.ceil(len(values) * Fraction(str(q))) - 1]) for q in QUANTILES]
    assert percentiles(values).tolist() == expected
    assert percentiles(values, np.linspace(0, 1, 41).round(3).tolist())[20] == expected[0], "and by sorting"


def test_the_linear_rule_is_numpys():
    values = np.random.default_rng(2).exponential(1000, 12_345)
    assert percentiles(values, QUANTILES, "linear") == pytest.approx(np.quantile(values, QUANTILES), rel=1e-14)


def test_values_beyond_32_bits_and_below_zero_are_in_order():
    values = np.array([2**33, -5, 2**34, 7])
    assert percentiles(values, [0.25, 0.5, 1]).tolist() == [-5, 7, 2**34]
    grouped = order_by_group(values, np.array([0, 1, 1, 0]), 2)
    assert grouped.group(0).tolist() == [7, 2**33]
    assert grouped.group(1).tolist() == [-5, 2**34]


def test_keys_that_do_not_fit_into_64_bits_fall_back_to_two_keys():
    values = np.array([2**61, -(2**61), 3, 4])
    grouped = order_by_group(values, np.array([7, 7, 0, 7]), 8)
    assert grouped.group(7).tolist() == [-(2**61), 4, 2**61]


def test_ranks_are_exact_where_floating_point_is_not():
    assert math.ceil(100 * 0.55) == 56, "the trap"
    assert percentile_rank(100, 0.55) == 55
    off = sum(
        math.ceil(n * (p / 100)) != percentile_rank(n, f"{p / 100}")
        for n in range(100, 1001, 100)
        for p in range(1, 100)
    )
    assert off > 5, "floating point is wrong often enough to matter"


def test_the_input_stays_as_it_is():
    values = np.array([5, 1, 4], dtype=np.uint32)
    percentiles(values)
    assert values.tolist() == [5, 1, 4]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: percentiles([1, 2], [1.5]), "quantile is 1.5, expected a number in"),
        (lambda: percentiles([1, 2], ["p95"]), "quantile is 'p95', expected a number in"),
        (lambda: percentiles([1, 2], [float("nan")]), "quantile is nan"),
        (lambda: percentiles([1, 2], [0.5], "median"), "rule is 'median', expected one of nearest_rank"),
        (lambda: percentiles([1.0, math.nan], [0.5]), "values contains NaN"),
        (lambda: percentiles([[1, 2]], [0.5]), r"values has shape \(1, 2\)"),
        (lambda: percentile_rank(0, 0.5), "n is 0, expected at least 1"),
        (lambda: order_by_group(np.arange(2), np.array([0, 3]), 2), r"codes are in \[0, 3\], expected \[0, 1\]"),
        (lambda: order_by_group(np.arange(3), np.array([0, 1]), 2), "codes has 2 rows, expected 3"),
    ],
)
def test_bad_input_is_named_with_its_bound(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_no_value_has_no_percentile():
    assert np.isnan(percentiles([], [0.5])).all()
