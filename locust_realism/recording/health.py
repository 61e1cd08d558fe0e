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

SHARES = ("run_wait", "steal", "throttled", "pressure", "blocked", "stopped")
"""Columns of the kernel's and the watchdog's figures, shares of the second from 0 to 1."""

TIMER = ("wake_p50_us", "wake_p90_us", "grain_us")
"""Columns of the timer that wakes users."""

OPTIONAL = (*SHARES, *TIMER)
"""Columns that older files lack."""

MAX_TIMER_US = 1e9
"""Largest time of the timer that counts as measured; a worker's block may hold any floats."""


def mean_known(column: Floats, weights: Floats) -> float:
    """Return the weighted mean of the values that are not NaN; NaN where there is none.

    >>> mean_known(np.array([0.25, np.nan, 0.75]), np.array([3, 9, 1])), mean_known(np.array([np.nan]), np.ones(1))
    (0.375, nan)
    """
    known = ~np.isnan(column)
    return float(np.average(column[known], weights=weights[known])) if known.any() else math.nan


def median_known(column: Floats, weights: Floats) -> float:
    """Return the weighted median of the values that are not NaN, the lower one of two; NaN where there is none.

    >>> median_known(np.array([4.0, np.nan, 900.0, 2.0]), np.array([1, 9, 2, 1])), median_known(np.ones(0), np.ones(0))
    (4.0, nan)
    """
    known = np.flatnonzero(~np.isnan(column))
    if not len(known):
        return math.nan
    order = known[np.argsort(column[known])]
    total = np.cumsum(weights[order])
    return float(column[order[np.searchsorted(total, total[-1] / 2)]])


@dataclass(frozen=True, eq=False)
class HealthLog(Columns):
    """Health of the processes of a test, one row a second and process; columns of equal length.

    - ``time_us`` end of the second on the axis of the launches; ``worker`` index of the worker, or MASTER
    - ``users`` users running in the process; ``memory_bytes`` its resident memory
    - ``lag_max_us``, ``lag_p99_us`` lateness of the event loop at its heartbeats of that second
    - ``cpu`` share of one core that the process used; ``machine_cpu`` share of all cores in use

    The others are NaN where this kernel or system does not measure them, and in older files:

    - ``run_wait`` share of the second in which the main thread was runnable and had no CPU
    - ``steal`` share of the machine's CPU time that the hypervisor gave to others
    - ``throttled`` share of the second in which a limit of the process's cgroup stopped it
    - ``pressure`` share of the second in which some task of the machine waited for a CPU (PSI)
    - ``blocked`` share of the heartbeats that were late because of code that ran on the event loop
    - ``stopped`` share of the second in which the whole process stood still for none of these reasons
    - ``wake_p50_us``, ``wake_p90_us`` lateness of the wakes of the process's timer; ``grain_us`` to which it rounds

    >>> log = HealthLog.of([(5, 0, 3, 1 << 20, 900, 800, 0.25, 0.5)])
    >>> log.cpu.tolist(), log.steal.tolist(), len(HealthLog.concat([log, log]))
    ([0.25], [nan], 2)
    """

    time_us: Int64
    worker: Int32
    users: Int32
    memory_bytes: Int64
    lag_max_us: Int64
    lag_p99_us: Int64
    cpu: Floats
    machine_cpu: Floats
    run_wait: Floats
    steal: Floats
    throttled: Floats
    pressure: Floats
    blocked: Floats
    stopped: Floats
    wake_p50_us: Floats
    wake_p90_us: Floats
    grain_us: Floats

    @classmethod
    def of(cls, rows: Sequence[Sequence[float]]) -> HealthLog:
        """Return a log of rows with the columns in the order above; the last may be left out and are NaN."""
        columns = list(zip(*((*row, *[math.nan] * (len(cls.DTYPES) - len(row))) for row in rows), strict=True))
        return cls(**cls._filled(len(rows), dict(zip(cls.DTYPES, columns, strict=True)))) if rows else cls.empty()

    def to_table(self) -> pa.Table:
        """Return the rows as an Arrow table."""
        import pyarrow as pa

        return pa.Table.from_arrays([numbers(getattr(self, name)) for name in self.DTYPES], list(self.DTYPES))

    @classmethod
    def from_table(cls, table: pa.Table) -> HealthLog:
        """Return the rows of a table made by :meth:`to_table`, of older releases too.

        ValueError if another column is missing or one is of another type; a share outside of 0 to 1 becomes NaN,
        and so does a time of the timer that is none.
        """
        columns = {
            name: np.full(table.num_rows, math.nan)
            if name in OPTIONAL and name not in table.column_names
            else column_values(table, name, dtype)
            for name, dtype in cls.DTYPES.items()
        }
        for name in OPTIONAL:
            fits = (columns[name] >= 0) & (columns[name] <= (1 if name in SHARES else MAX_TIMER_US))
            columns[name] = np.where(fits, columns[name], math.nan)
        return cls(**columns)

    def between(self, first_us: int | None, last_us: int | None) -> HealthLog:
        """Return the rows of a period, both ends included; None for an open end."""
        low, high = (-math.inf if first_us is None else first_us), (math.inf if last_us is None else last_us)
        return self.take((self.time_us >= low) & (self.time_us <= high))

    def lengths_s(self) -> Floats:
        """Return the seconds that each row of one process covers: since the row before, at least the one that is due.

        A process that stands still writes no row meanwhile; the next row covers all of that time.

        >>> HealthLog.of([(at_us, 0, 3, 9, 900, 800, 0.25, 0.5) for at_us in (9, 1_000_009, 7_000_009)]).lengths_s()
        array([1., 1., 6.])
        """
        order = np.argsort(self.time_us, kind="stable")
        lengths = np.ones(len(self))
        lengths[order[1:]] = np.maximum(1.0, np.diff(self.time_us[order]) / 1e6)
        return lengths

    def worst(self) -> dict[str, float]:
        """Return the worst worker's figures for the verdict; empty if nothing was recorded.

        ``cpu_max`` is the 95th percentile of a worker's seconds, ``loop_lag_p99_ms`` the 95th percentile of the
        seconds' p99, both below the highest: a single busy second delays nobody for long. The shares and
        ``machine_cpu`` are means over a worker's time. ``wake_p90_ms`` is the median over its time: a single pause
        would move the mean of all seconds. ``grain_us`` is the timer's. All are the highest of all workers;
        ``generator_cpu`` is the sum of the workers' mean cores. A figure without a measurement is left out.

        >>> HealthLog.of([(1, 0, 3, 9, 900, 800, 0.25, 0.5, 0.1), (2, 0, 3, 9, 900, 800, 0.75, 0.5, 0.3)]).worst()
        {'cpu_max': 0.25, 'loop_lag_p99_ms': 0.8, 'machine_cpu': 0.5, 'run_wait': 0.2, 'generator_cpu': 0.5}
        """
        workers = [self.take(self.worker == worker) for worker in np.unique(self.worker[self.worker != MASTER])]
        if not workers:
            return {}
        found = {
            "cpu_max": max(_nearly_all(mine.cpu) for mine in workers),
            "loop_lag_p99_ms": max(_nearly_all(mine.lag_p99_us) for mine in workers) / 1000,
        }
        lengths = [mine.lengths_s() for mine in workers]
        for name in ("machine_cpu", *SHARES, "wake_p90_us", "grain_us"):
            middle = median_known if name in TIMER else mean_known
            typical = [middle(getattr(mine, name), each) for mine, each in zip(workers, lengths, strict=True)]
            if known := [value for value in typical if not math.isnan(value)]:
                found[name] = max(known)
        if "wake_p90_us" in found:
            found["wake_p90_ms"] = found.pop("wake_p90_us") / 1000
        cores = (np.average(mine.cpu, weights=each) for mine, each in zip(workers, lengths, strict=True))
        return {**found, "generator_cpu": float(sum(cores))}


def _nearly_all(seconds: Floats | Int64) -> float:
    """Return the 95th percentile, rounded down in rank: in a short run the highest value does not count either."""
    return float(np.quantile(seconds, 0.95, method="lower"))
