"""The log of user sessions in columns, and the number of users running at any instant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from locust_realism.recording.columns import column_values, dictionary_encode, numbers, text_codes
from locust_realism.recording.launches import MISSING, Columns, Int32, Int64, LaunchLog, encode, merge_codes

if TYPE_CHECKING:
    import pyarrow as pa

_TEXT = ("user_class", "ending")


@dataclass(frozen=True, eq=False)
class SessionLog(Columns):
    """Sessions that have ended, one row each, in any order; columns of equal length.

    - ``start_us``, ``end_us`` microseconds since the epoch, on the axis of the launches
    - ``planned_us`` start planned by the population model, or MISSING
    - ``tasks`` tasks done; ``slot`` the concurrency slot within its worker; ``worker`` the worker's index
    - ``user_class``, ``ending`` indices into ``user_classes`` and ``endings``

    >>> log = SessionLog.build(start_us=[0, 10], end_us=[30, 20], user_class=["Buyer", "Buyer"], ending="ran out")
    >>> log.running_at([0, 15, 20, 30]).tolist()
    [1, 2, 1, 0]
    """

    ABSENT = {"worker": 0, "tasks": 0}  # noqa: RUF012

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
        """Return a log of copied columns; a scalar stands for every row, a column left out is MISSING.

        ``worker`` and ``tasks`` are 0 where left out.
        """
        starts = np.array(start_us, dtype=np.int64)
        n = len(starts)
        classes, user_classes = encode([user_class] * n if isinstance(user_class, str) else user_class)
        ends, endings = encode([ending] * n if isinstance(ending, str) else ending)
        copies = {name: np.array(values) for name, values in {"end_us": end_us, **columns}.items()}
        rows = cls._filled(n, {"start_us": starts, "user_class": classes, "ending": ends, **copies})
        return cls(**rows, user_classes=user_classes, endings=endings)

    @classmethod
    def _merged(cls, parts: Sequence[SessionLog]) -> Mapping[str, object]:
        user_classes, user_class = merge_codes([(log.user_classes, log.user_class) for log in parts])
        endings, ending = merge_codes([(log.endings, log.ending) for log in parts])
        return {"user_classes": user_classes, "user_class": user_class, "endings": endings, "ending": ending}

    def running_at(self, times_us: ArrayLike, open_since_us: ArrayLike = ()) -> Int32:
        """Return the users running at each instant, shape as ``times_us``: N(t) = starts up to t less ends up to t.

        ``open_since_us`` are the starts of sessions that have not ended yet.
        """
        starts = np.sort(np.concatenate([self.start_us, np.asarray(open_since_us, dtype=np.int64)]))
        times = np.asarray(times_us, dtype=np.int64)
        begun = np.searchsorted(starts, times, side="right")
        ended = np.searchsorted(np.sort(self.end_us), times, side="right")
        return (begun - ended).astype(np.int32)

    def rows(self) -> list[dict[str, object]]:
        """Return one mapping a session, for an export; times in seconds since the epoch, unknown ones None."""

        def seconds(us: int) -> float | None:
            return None if us == MISSING else us / 1e6

        columns = (getattr(self, name).tolist() for name in self.DTYPES)
        return [
            {
                "user_class": self.user_classes[user_class],
                "worker": worker,
                "slot": slot,
                "start": seconds(start),
                "end": seconds(end),
                "duration_s": (end - start) / 1e6,
                "planned_start": seconds(planned),
                "tasks": tasks,
                "ending": self.endings[ending],
            }
            for start, end, planned, tasks, slot, worker, user_class, ending in zip(*columns, strict=True)
        ]

    def to_table(self) -> pa.Table:
        """Return the rows as an Arrow table with the columns above; class and ending are texts."""
        import pyarrow as pa

        tables = {"user_class": self.user_classes, "ending": self.endings}
        columns = [(getattr(self, name), tables.get(name)) for name in self.DTYPES]
        arrays = [numbers(values) if table is None else dictionary_encode(values, table) for values, table in columns]
        return pa.Table.from_arrays(arrays, names=list(self.DTYPES))

    @classmethod
    def from_table(cls, table: pa.Table) -> SessionLog:
        """Return the rows of a table made by :meth:`to_table`; ValueError if a column is missing or of another type."""
        columns = {name: column_values(table, name, d) for name, d in cls.DTYPES.items() if name not in _TEXT}
        texts = {}
        for name in _TEXT:
            values, codes = text_codes(table, name)
            texts[name] = [values[code] for code in codes.tolist()]
        return cls.build(**columns, **texts)


def with_users(launches: LaunchLog, sessions: SessionLog, open_since_us: ArrayLike = ()) -> LaunchLog:
    """Return the launches with ``users`` from the session log: users of the whole test at each launch."""
    if not len(sessions) and not np.size(np.asarray(open_since_us)):
        return launches
    return replace(launches, users=sessions.running_at(launches.launch_us, open_since_us))
