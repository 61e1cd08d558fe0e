"""The log of user sessions in columns, and how many users were running at any instant."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from locust_realism.recording.arrow import numbers, spelled, to_numpy
from locust_realism.recording.launches import MISSING, Int32, Int64, LaunchLog, encode, merge_codes

if TYPE_CHECKING:
    import pyarrow as pa

SESSION_DTYPES: dict[str, type[np.int64] | type[np.int32]] = {
    "start_us": np.int64,
    "end_us": np.int64,
    "planned_us": np.int64,
    "tasks": np.int64,
    "slot": np.int32,
    "worker": np.int32,
    "user_class": np.int32,
    "ending": np.int32,
}
_TEXT = ("user_class", "ending")


@dataclass(frozen=True, eq=False)
class SessionLog:
    """Sessions that have ended, one row each, in any order; columns of equal length.

    - ``start_us``, ``end_us`` microseconds since the epoch, on the axis of the launches
    - ``planned_us`` when the population model meant it to start, or MISSING
    - ``tasks`` tasks done; ``slot`` the concurrency slot within its worker; ``worker`` the worker's index
    - ``user_class``, ``ending`` indices into ``user_classes`` and ``endings``

    >>> log = SessionLog.build(start_us=[0, 10], end_us=[30, 20], user_class=["Buyer", "Buyer"], ending="ran out")
    >>> log.running_at([0, 15, 20, 30]).tolist()
    [1, 2, 1, 0]
    """

    start_us: Int64
    end_us: Int64
    planned_us: Int64
    tasks: Int64
    slot: Int32
    worker: Int32
    user_class: Int32
    ending: Int32
    user_classes: tuple[str, ...] = ()
    endings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        n = len(self.start_us)
        for name in SESSION_DTYPES:
            if len(getattr(self, name)) != n:
                raise ValueError(f"{name} has {len(getattr(self, name))} rows, expected {n} as in start_us")

    def __len__(self) -> int:
        return len(self.start_us)

    @classmethod
    def build(
        cls,
        start_us: ArrayLike,
        end_us: ArrayLike,
        *,
        user_class: Iterable[str] | str = "",
        ending: Iterable[str] | str = "",
        **columns: ArrayLike,
    ) -> SessionLog:
        """A log from plain columns; a scalar stands for every row, what is left out is MISSING (worker, tasks: 0)."""
        starts = np.asarray(start_us, dtype=np.int64)
        n = len(starts)
        given: dict[str, Any] = {"planned_us": MISSING, "tasks": 0, "slot": MISSING, "worker": 0, **columns}
        given |= {"start_us": starts, "end_us": end_us}
        given["user_class"], user_classes = encode([user_class] * n if isinstance(user_class, str) else user_class)
        given["ending"], endings = encode([ending] * n if isinstance(ending, str) else ending)
        unknown = set(given) - set(SESSION_DTYPES)
        if unknown:
            raise ValueError(f"unknown column(s) {sorted(unknown)}, expected some of {sorted(SESSION_DTYPES)}")
        rows: dict[str, Any] = {
            name: np.array(np.broadcast_to(np.asarray(given[name]), n), dtype=dtype)
            for name, dtype in SESSION_DTYPES.items()
        }
        return cls(**rows, user_classes=user_classes, endings=endings)

    @classmethod
    def empty(cls) -> SessionLog:
        """A log without rows."""
        return cls.build([], [])

    @classmethod
    def concat(cls, logs: Iterable[SessionLog]) -> SessionLog:
        """All rows of several logs."""
        parts = [log for log in logs if len(log)]
        if not parts:
            return cls.empty()
        rows: dict[str, Any] = {name: np.concatenate([getattr(log, name) for log in parts]) for name in SESSION_DTYPES}
        user_classes, rows["user_class"] = merge_codes([(log.user_classes, log.user_class) for log in parts])
        endings, rows["ending"] = merge_codes([(log.endings, log.ending) for log in parts])
        return cls(**rows, user_classes=user_classes, endings=endings)

    def take(self, selection: NDArray[Any] | slice) -> SessionLog:
        """The rows that a mask, an index array or a slice selects."""
        return replace(self, **{name: getattr(self, name)[selection] for name in SESSION_DTYPES})

    def running_at(self, times_us: ArrayLike, open_since_us: ArrayLike = ()) -> Int32:
        """Users running at each instant, shape as ``times_us``: N(t) = starts up to t less ends up to t.

        ``open_since_us`` are the starts of sessions that have not ended yet.
        """
        starts = np.sort(np.concatenate([self.start_us, np.asarray(open_since_us, dtype=np.int64)]))
        times = np.asarray(times_us, dtype=np.int64)
        begun = np.searchsorted(starts, times, side="right")
        ended = np.searchsorted(np.sort(self.end_us), times, side="right")
        return (begun - ended).astype(np.int32)

    def rows(self) -> list[dict[str, Any]]:
        """One mapping a session, for an export; times in seconds since the epoch, unknown ones None."""

        def seconds(us: int) -> float | None:
            return None if us == MISSING else us / 1e6

        return [
            {
                "user_class": self.user_classes[int(self.user_class[k])],
                "worker": int(self.worker[k]),
                "slot": int(self.slot[k]),
                "start": seconds(int(self.start_us[k])),
                "end": seconds(int(self.end_us[k])),
                "duration_s": int(self.end_us[k] - self.start_us[k]) / 1e6,
                "planned_start": seconds(int(self.planned_us[k])),
                "tasks": int(self.tasks[k]),
                "ending": self.endings[int(self.ending[k])],
            }
            for k in range(len(self))
        ]

    def to_table(self) -> pa.Table:
        """The rows as an Arrow table with the columns above, class and ending spelled out."""
        import pyarrow as pa

        arrays = [
            spelled(self.user_class, self.user_classes)
            if name == "user_class"
            else spelled(self.ending, self.endings)
            if name == "ending"
            else numbers(getattr(self, name))
            for name in SESSION_DTYPES
        ]
        return pa.Table.from_arrays(arrays, names=list(SESSION_DTYPES))

    @classmethod
    def from_table(cls, table: pa.Table) -> SessionLog:
        """The rows of a table made by :meth:`to_table`."""
        columns: dict[str, Any] = {
            name: to_numpy(table.column(name)) for name in SESSION_DTYPES if name not in _TEXT and name != "start_us"
        }
        texts = {name: [str(value) for value in table.column(name).to_pylist()] for name in _TEXT}
        return cls.build(to_numpy(table.column("start_us")), **columns, **texts)


def with_users(launches: LaunchLog, sessions: SessionLog, open_since_us: ArrayLike = ()) -> LaunchLog:
    """The launches with ``users`` filled in: the whole test's users at each launch, from the session log."""
    if not len(sessions) and not np.size(np.asarray(open_since_us)):
        return launches
    return replace(launches, users=sessions.running_at(launches.launch_us, open_since_us))
