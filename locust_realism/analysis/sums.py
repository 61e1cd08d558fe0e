"""Sums over long columns, piece by piece: what is added up stays in the cache, and on the thread that asked for it.

numpy hands the inner product of long arrays to several threads of its BLAS library, which then wait for each other in
a busy loop: on two cores that is a third more processor time for no gain, taken from the test that runs beside.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

PIECE = 8192
"""Values in a piece: 64 KB as floats, and short enough that no BLAS library divides the work."""


def inner_product(a: Floats, b: Floats) -> float:
    """The sum of a[i] b[i] over arrays of equal length.

    >>> inner_product(np.arange(20_000.0), np.ones(20_000))
    199990000.0
    """
    return float(sum(float(a[at : at + PIECE] @ b[at : at + PIECE]) for at in range(0, len(a), PIECE)))


def lagged_products(values: Floats, lags: int) -> list[float]:
    """The sum of v[i] v[i + lag] for each lag from 0 to ``lags``, in one run over the values.

    >>> lagged_products(np.array([1.0, 2.0, 3.0]), 2)
    [14.0, 8.0, 3.0]
    """
    sums = [0.0] * (lags + 1)
    for at in range(0, len(values), PIECE):
        piece = values[at : at + PIECE]
        for lag in range(lags + 1):
            later = values[at + lag : at + lag + PIECE]
            sums[lag] += float(piece[: len(later)] @ later)
    return sums


def deviations(values: NDArray[Any], centre: float) -> tuple[float, float]:
    """The sums of (v - centre) and of (v - centre)^2, of integers or floats, without a copy of them all.

    >>> deviations(np.array([1, 2, 6], dtype=np.uint32), 3.0)
    (0.0, 14.0)
    """
    total = squares = 0.0
    for at in range(0, len(values), PIECE):
        # unsigned integers would wrap
        off = values[at : at + PIECE].astype(np.float64)
        off -= centre
        total += float(off.sum())
        squares += float(off @ off)
    return total, squares
