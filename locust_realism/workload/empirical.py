"""Times as they were measured: drawn again from a list or a file."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np

from .checks import not_negative, positive
from .distribution import Distribution, checked_seed
from .solve import Floats

_SHOWN = 3


@dataclass(frozen=True, repr=False)
class Empirical(Distribution):
    """Measured times, each equally likely; see ``empirical``."""

    values: tuple[float, ...] = field(repr=False)
    seed: int | None = field(default=None, kw_only=True)
    kind: ClassVar[str] = "empirical"

    def __post_init__(self) -> None:
        checked_seed(self.seed)
        if not self.values:
            raise ValueError("values must have at least 1 time, not 0")
        times = np.array([not_negative(f"values[{i}]", value) for i, value in enumerate(self.values)])
        positive("the mean of values", times.mean())
        object.__setattr__(self, "values", tuple(np.sort(times).tolist()))

    def __hash__(self) -> int:
        # Of a million values, a few will do to tell one list from another.
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
        sums: Floats = np.cumsum(self._times)
        shares: Floats = sums / sums[-1]
        return shares

    def sample(self, rng: np.random.Generator, size: int) -> Floats:
        drawn: Floats = self._times[rng.integers(len(self.values), size=size)]
        return drawn

    def _cdf(self, x: Floats) -> Floats:
        return np.searchsorted(self._times, x, side="right") / len(self.values)

    def _ppf(self, q: Floats) -> Floats:
        # Nearest rank: the smallest observed time of which at least a share q is no longer.
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
    """Measured times in seconds, each drawn again with equal probability.

    ``values`` is a sequence of numbers >= 0, or the path of a text or CSV file: one time a line, in the first column or
    in the one that the heading calls ``column``; lines that are empty or begin with # are skipped. With ``mean`` every
    value is multiplied so that they have that mean, for the load of another distribution with this one's shape.

    Raises ValueError, for a file with the number of bad rows and the first of them.

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
    position: int | None = 0 if column is None else None
    first = True
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.reader(file)
        for cells in reader:
            if not any(cells) or cells[0].lstrip().startswith("#"):
                continue
            heading, first = first, False
            if position is None:
                names = [cell.strip() for cell in cells]
                if column not in names:
                    raise ValueError(f"{path}: column must be one of {names}, not {column!r}")
                position = names.index(column)
                continue
            text = cells[position] if position < len(cells) else ""
            try:
                times.append(not_negative("time", float(text)))
            except ValueError:
                if not heading:
                    bad.append(f"line {reader.line_num}: {text!r}")
    if bad:
        shown = ", ".join(bad[:_SHOWN]) + (", ..." if len(bad) > _SHOWN else "")
        raise ValueError(
            f"{path}: {len(bad)} bad of {len(bad) + len(times)} rows, a time must be a number >= 0: {shown}"
        )
    if not times:
        raise ValueError(f"{path}: no times")
    return times
