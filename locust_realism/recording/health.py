"""The log of the load generator's own health: one row a second and process."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from locust_realism.recording.arrow import numbers, to_numpy

if TYPE_CHECKING:
    import pyarrow as pa

HEALTH_DTYPES: dict[str, Any] = {
    "time_us": np.int64,
    "worker": np.int32,
    "users": np.int32,
    "memory_bytes": np.int64,
    "lag_max_us": np.int64,
    "lag_p99_us": np.int64,
    "cpu": np.float64,
    "machine_cpu": np.float64,
}
MASTER = -1
"""The master's index in the ``worker`` column."""


@dataclass(frozen=True, eq=False)
class HealthLog:
    """Health of the processes of a test, one row a second and process; columns of equal length.

    - ``time_us`` end of the second on the axis of the launches; ``worker`` index of the worker, or MASTER
    - ``users`` users running in the process; ``memory_bytes`` its resident memory
    - ``lag_max_us``, ``lag_p99_us`` how late the event loop woke a greenlet that slept 10 ms, within that second
    - ``cpu`` share of one core that the process used; ``machine_cpu`` share of all cores in use

    >>> log = HealthLog.of([(5, 0, 3, 1 << 20, 900, 800, 0.25, 0.5)])
    >>> log.cpu.tolist(), len(HealthLog.concat([log, log]))
    ([0.25], 2)
    """

    time_us: NDArray[np.int64]
    worker: NDArray[np.int32]
    users: NDArray[np.int32]
    memory_bytes: NDArray[np.int64]
    lag_max_us: NDArray[np.int64]
    lag_p99_us: NDArray[np.int64]
    cpu: NDArray[np.float64]
    machine_cpu: NDArray[np.float64]

    def __post_init__(self) -> None:
        for name in HEALTH_DTYPES:
            if len(getattr(self, name)) != len(self.time_us):
                raise ValueError(f"{name} has {len(getattr(self, name))} rows, expected {len(self.time_us)}")

    def __len__(self) -> int:
        return len(self.time_us)

    @classmethod
    def of(cls, rows: Sequence[Sequence[float]]) -> HealthLog:
        """A log of rows with the columns in the order above."""
        columns = list(zip(*rows, strict=True)) or [()] * len(HEALTH_DTYPES)
        return cls(*(np.array(c, dtype=d) for c, d in zip(columns, HEALTH_DTYPES.values(), strict=True)))

    @classmethod
    def concat(cls, logs: Iterable[HealthLog]) -> HealthLog:
        """All rows of several logs."""
        parts = [log for log in logs if len(log)]
        if not parts:
            return cls.of([])
        return cls(*(np.concatenate([getattr(log, name) for log in parts]) for name in HEALTH_DTYPES))

    def take(self, selection: NDArray[Any] | slice) -> HealthLog:
        """The rows that a mask, an index array or a slice selects."""
        return HealthLog(*(getattr(self, name)[selection] for name in HEALTH_DTYPES))

    def to_table(self) -> pa.Table:
        """The rows as an Arrow table."""
        import pyarrow as pa

        return pa.Table.from_arrays([numbers(getattr(self, name)) for name in HEALTH_DTYPES], list(HEALTH_DTYPES))

    @classmethod
    def from_table(cls, table: pa.Table) -> HealthLog:
        """The rows of a table made by :meth:`to_table`."""
        return cls(*(to_numpy(table.column(name)).astype(d, copy=False) for name, d in HEALTH_DTYPES.items()))

    def between(self, first_us: int | None, last_us: int | None) -> HealthLog:
        """The rows of a time, both ends included; None for an end that is open."""
        first = self.time_us >= (first_us if first_us is not None else np.iinfo(np.int64).min)
        last = self.time_us <= (last_us if last_us is not None else np.iinfo(np.int64).max)
        return self.take(first & last)

    def worst(self) -> dict[str, float]:
        """The worst worker's figures as the verdict takes them; empty where nothing was recorded.

        ``cpu_max`` is the 95th percentile of a worker's seconds (a single busy second delays nobody for long),
        ``loop_lag_p99_ms`` the 95th percentile of the seconds' p99.
        """
        found: dict[str, float] = {}
        for worker in np.unique(self.worker).tolist():
            if worker == MASTER:
                continue
            mine = self.worker == worker
            figures = {
                "cpu_max": float(np.quantile(self.cpu[mine], 0.95)),
                "loop_lag_p99_ms": float(np.quantile(self.lag_p99_us[mine], 0.95)) / 1000,
            }
            found = {name: max(value, found.get(name, 0.0)) for name, value in figures.items()}
        return found
