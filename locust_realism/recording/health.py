"""The log of the load generator's own health: one row a second and process."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from locust_realism.recording.columns import column_values, numbers
from locust_realism.recording.launches import Columns, Floats, Int32, Int64

if TYPE_CHECKING:
    import pyarrow as pa

MASTER = -1
"""The master's index in the ``worker`` column."""


@dataclass(frozen=True, eq=False)
class HealthLog(Columns):
    """Health of the processes of a test, one row a second and process; columns of equal length.

    - ``time_us`` end of the second on the axis of the launches; ``worker`` index of the worker, or MASTER
    - ``users`` users running in the process; ``memory_bytes`` its resident memory
    - ``lag_max_us``, ``lag_p99_us`` delay of the event loop in waking a greenlet that slept 10 ms, within that second
    - ``cpu`` share of one core that the process used; ``machine_cpu`` share of all cores in use

    >>> log = HealthLog.of([(5, 0, 3, 1 << 20, 900, 800, 0.25, 0.5)])
    >>> log.cpu.tolist(), len(HealthLog.concat([log, log]))
    ([0.25], 2)
    """

    time_us: Int64
    worker: Int32
    users: Int32
    memory_bytes: Int64
    lag_max_us: Int64
    lag_p99_us: Int64
    cpu: Floats
    machine_cpu: Floats

    @classmethod
    def of(cls, rows: Sequence[Sequence[float]]) -> HealthLog:
        """Return a log of rows with the columns in the order above."""
        columns = list(zip(*rows, strict=True))
        return cls(**cls._filled(len(rows), dict(zip(cls.DTYPES, columns, strict=True)))) if rows else cls.empty()

    def to_table(self) -> pa.Table:
        """Return the rows as an Arrow table."""
        import pyarrow as pa

        return pa.Table.from_arrays([numbers(getattr(self, name)) for name in self.DTYPES], list(self.DTYPES))

    @classmethod
    def from_table(cls, table: pa.Table) -> HealthLog:
        """Return the rows of a table made by :meth:`to_table`; ValueError if a column is missing or of another type."""
        return cls(*(column_values(table, name, dtype) for name, dtype in cls.DTYPES.items()))

    def between(self, first_us: int | None, last_us: int | None) -> HealthLog:
        """Return the rows of a period, both ends included; None for an open end."""
        low, high = (-math.inf if first_us is None else first_us), (math.inf if last_us is None else last_us)
        return self.take((self.time_us >= low) & (self.time_us <= high))

    def worst(self) -> dict[str, float]:
        """Return the worst worker's figures for the verdict; empty if nothing was recorded.

        ``cpu_max`` is the 95th percentile of a worker's seconds (a single busy second delays nobody for long),
        ``loop_lag_p99_ms`` the 95th percentile of the seconds' p99.
        """
        workers = [self.worker == worker for worker in np.unique(self.worker[self.worker != MASTER])]
        if not workers:
            return {}
        cpu, lag_us = (
            max(float(np.quantile(column[mine], 0.95)) for mine in workers) for column in (self.cpu, self.lag_p99_us)
        )
        return {"cpu_max": cpu, "loop_lag_p99_ms": lag_us / 1000}
