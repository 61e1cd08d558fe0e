"""Measured times, drawn again from a list or a file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np

from locust_realism.common.numerics import Floats
from locust_realism.common.validation import integer, not_negative, one_of, positive
from locust_realism.workload.csv_rows import bad_rows, data_rows
from locust_realism.workload.distributions.base import Distribution


@dataclass(frozen=True, repr=False)
class Empirical(Distribution):
    """Measured times, each equally likely; see ``empirical``."""

    values: tuple[float, ...] = field(repr=False)
    kind: ClassVar[str] = "empirical"

    def __post_init__(self) -> None:
        if self.seed is not None:
            integer("seed", self.seed)
        if not self.values:
            raise ValueError("values must have at least 1 time, not 0")
        times = np.array([not_negative(f"values[{i}]", value) for i, value in enumerate(self.values)])
        positive("the mean of values", times.mean())
        self._store("values", tuple(np.sort(times).tolist()))

    def __hash__(self) -> int:
        # A few of a million values are enough to separate two lists.
        return hash((len(self.values), self.values[0], self.values[-1], self.mean, self.seed))

    def __repr__(self) -> str:
        seed = "" if self.seed is None else f", seed={self.seed}"
        return f"empirical({len(self.values)} values, mean={self.mean:.6g}, cov={self.cov:.4g}{seed})"

    @cached_property
    def _times(self) -> Floats:
        return np.array(self.values)

    @cached_property
    def mean(self) -> float:
        return float(self._times.mean())

    @cached_property
    def cov(self) -> float:
        return float(self._times.std()) / self.mean

    @cached_property
    def _length_shares(self) -> Floats:
        sums = np.cumsum(self._times)
        return np.asarray(sums / sums[-1])

    def sample(self, rng: np.random.Generator, size: int) -> Floats:
        return np.asarray(self._times[rng.integers(len(self.values), size=size)])

    def _cdf(self, x: Floats) -> Floats:
        return np.searchsorted(self._times, x, side="right") / len(self.values)

    def _ppf(self, q: Floats) -> Floats:
        # Nearest rank: the smallest observed time that at least a share q of the times does not exceed.
        ranks = np.ceil(np.nextafter(q * len(self.values), -np.inf)).astype(np.intp)
        return self._times[np.clip(ranks, 1, len(self.values)) - 1]

    def sample_length_biased(self, rng: np.random.Generator, size: int) -> Floats:
        position = np.searchsorted(self._length_shares, rng.random(size), side="right")
        return self._times[np.minimum(position, len(self.values) - 1)]


def empirical(
    values: Iterable[float] | str | Path,
    *,
    mean: float | None = None,
    column: str | None = None,
    seed: int | None = None,
) -> Empirical:
    """Return the distribution of measured times in seconds, each drawn again with equal probability.

    ``values`` is a sequence of numbers >= 0, or the path of a text or CSV file: one time a line, in the first column or
    in the column with the heading ``column``; empty lines and lines that begin with # are skipped. ``mean`` scales all
    values to another mean: the shape of these times with the load of another distribution.

    Raises ValueError; for a file it has the number of bad rows and the first of them.

    >>> empirical([1, 2, 2, 15])
    empirical(4 values, mean=5, cov=1.158)
    >>> empirical([1, 2, 2, 15], mean=10).ppf([0.5, 1]).tolist()
    [4.0, 30.0]
    """
    times = _read(Path(values), column) if isinstance(values, str | Path) else list(values)
    observed = Empirical(tuple(times), seed=seed)
    if mean is None:
        return observed
    factor = positive("mean", mean) / observed.mean
    return Empirical(tuple(time * factor for time in observed.values), seed=seed)


def _read(path: Path, column: str | None) -> list[float]:
    times: list[float] = []
    bad: list[str] = []
    position = 0
    for row, (line, cells) in enumerate(data_rows(path, ",")):
        if row == 0 and column is not None:
            position = cells.index(one_of(f"{path}: column", column, cells))
            continue
        text = cells[position] if position < len(cells) else ""
        try:
            times.append(not_negative("time", float(text)))
        except ValueError:
            if row > 0:  # the first may be a heading
                bad.append(f"line {line}: {text!r}")
    if bad:
        raise bad_rows(path, bad, len(bad) + len(times), "a time must be a number >= 0")
    if not times:
        raise ValueError(f"{path}: no times")
    return times
