"""The launch log: one row a request, held in columns.

Every analysis takes this type, whether the rows come from a running test, from a merged distributed run or from a
file, so that the same figures come out of all three.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    import pandas as pd

MISSING = -1
"""Stands in an integer column where the value is not known (no planned launch, no time to first byte, no user)."""

Int64 = NDArray[np.int64]
Int32 = NDArray[np.int32]
_T = TypeVar("_T")


class Label(NamedTuple):
    """What was asked for: the request's method (Locust's request_type) and its name."""

    method: str
    name: str


class Outcome(NamedTuple):
    """How a request ended: whether it failed, its status code (MISSING where none) and the failure's message."""

    failed: bool
    status: int
    message: str


SUCCESS = Outcome(False, MISSING, "")

ROW_DTYPES: dict[str, type[np.int64] | type[np.int32]] = {
    "launch_us": np.int64,
    "planned_us": np.int64,
    "response_us": np.int64,
    "first_byte_us": np.int64,
    "size_bytes": np.int64,
    "label": np.int32,
    "outcome": np.int32,
    "slot": np.int32,
    "worker": np.int32,
    "users": np.int32,
}
"""Column name to integer type, in the order of the file format."""


@dataclass(frozen=True, eq=False)
class LaunchLog:
    """Launches of a run as columns of equal length; rows may be in any order.

    - ``launch_us`` microseconds since the epoch at which the request was launched, on one axis for all workers
    - ``planned_us`` the planned launch on the same axis, or MISSING
    - ``response_us`` response time in microseconds
    - ``first_byte_us`` time to the first byte in microseconds, or MISSING
    - ``size_bytes`` length of the response body
    - ``label`` index into ``labels`` (method and name)
    - ``outcome`` index into ``outcomes`` (failed, status, message)
    - ``slot`` concurrency slot of the user within its worker, reused by the next user, or MISSING
    - ``worker`` index of the worker
    - ``users`` users running in the whole test at the launch, or MISSING

    >>> log = LaunchLog.build(launch_us=[0, 1500], response_us=[700, 900], names=["home", "buy"], failed=[False, True])
    >>> len(log), log.labels, log.failed.tolist()
    (2, (Label(method='', name='home'), Label(method='', name='buy')), [False, True])
    """

    launch_us: Int64
    planned_us: Int64
    response_us: Int64
    first_byte_us: Int64
    size_bytes: Int64
    label: Int32
    outcome: Int32
    slot: Int32
    worker: Int32
    users: Int32
    labels: tuple[Label, ...] = ()
    outcomes: tuple[Outcome, ...] = ()

    def __post_init__(self) -> None:
        n = len(self.launch_us)
        for name in ROW_DTYPES:
            if len(getattr(self, name)) != n:
                raise ValueError(f"{name} has {len(getattr(self, name))} rows, expected {n} as in launch_us")

    def __len__(self) -> int:
        return len(self.launch_us)

    @property
    def failed(self) -> NDArray[np.bool_]:
        """Whether each request failed, shape (n,)."""
        table = np.array([outcome.failed for outcome in self.outcomes] or [False], dtype=np.bool_)
        return table[self.outcome] if len(self) else np.zeros(0, dtype=np.bool_)

    @classmethod
    def empty(cls) -> LaunchLog:
        """A log without rows."""
        rows: dict[str, Any] = {name: np.zeros(0, dtype=dtype) for name, dtype in ROW_DTYPES.items()}
        return cls(**rows)

    @classmethod
    def build(
        cls,
        launch_us: ArrayLike,
        response_us: ArrayLike,
        *,
        names: Sequence[str] | str = "",
        methods: Sequence[str] | str = "",
        failed: ArrayLike = False,
        **columns: ArrayLike,
    ) -> LaunchLog:
        """A log from plain columns; a scalar stands for every row, what is left out is MISSING (worker, bytes: 0)."""
        launches = np.asarray(launch_us, dtype=np.int64)
        n = len(launches)
        unknown = set(columns) - set(ROW_DTYPES)
        if unknown:
            raise ValueError(f"unknown column(s) {sorted(unknown)}, expected some of {sorted(ROW_DTYPES)}")
        each_name = [names] * n if isinstance(names, str) else list(names)
        each_method = [methods] * n if isinstance(methods, str) else list(methods)
        label, labels = encode(Label(m, name) for m, name in zip(each_method, each_name, strict=True))
        each_failed = np.broadcast_to(np.asarray(failed, dtype=np.bool_), n)
        given: dict[str, Any] = {
            **dict.fromkeys(ROW_DTYPES, MISSING),
            "worker": 0,
            "size_bytes": 0,
            "outcome": each_failed.astype(np.int32),
            "label": label,
            "response_us": response_us,
            **columns,
        }
        given["launch_us"] = launches
        rows: dict[str, Any] = {
            k: np.array(np.broadcast_to(np.asarray(given[k]), n), dtype=dtype) for k, dtype in ROW_DTYPES.items()
        }
        return cls(**rows, labels=labels, outcomes=(SUCCESS, Outcome(True, MISSING, "")))

    def take(self, selection: NDArray[Any] | slice) -> LaunchLog:
        """The rows that a boolean mask, an index array or a slice selects; the tables stay as they are."""
        return replace(self, **{name: getattr(self, name)[selection] for name in ROW_DTYPES})

    def sorted_by_launch(self) -> LaunchLog:
        """Rows by launch time, equal ones by worker and slot: the order never depends on how workers interleave."""
        return self.take(np.lexsort((self.slot, self.worker, self.launch_us)))

    @classmethod
    def concat(cls, logs: Iterable[LaunchLog]) -> LaunchLog:
        """All rows of several logs, their label and outcome tables merged."""
        parts = [log for log in logs if len(log)]
        if not parts:
            return cls.empty()
        if len(parts) == 1:
            return parts[0]
        labels, label = merge_codes([(log.labels, log.label) for log in parts])
        outcomes, outcome = merge_codes([(log.outcomes, log.outcome) for log in parts])
        rows: dict[str, Any] = {name: np.concatenate([getattr(log, name) for log in parts]) for name in ROW_DTYPES}
        rows |= {"label": label, "outcome": outcome}
        return cls(**rows, labels=labels, outcomes=outcomes)

    def to_pandas(self) -> pd.DataFrame:
        """One row a launch, for notebooks: the columns above with label and outcome spelled out.

        ``method``, ``name`` and ``message`` are categories; ``failed`` is bool; ``status`` int32; times stay integer
        microseconds; unknown values are -1.
        """
        import pandas as pd

        def spelled(codes: Int32, values: list[str]) -> Any:
            categories = list(dict.fromkeys(values))
            position = np.array([categories.index(value) for value in values] or [0], dtype=np.int32)
            codes = position[codes] if len(codes) else codes
            return pd.Categorical.from_codes(codes, dtype=pd.CategoricalDtype(categories))

        columns: dict[str, Any] = {k: getattr(self, k) for k in ROW_DTYPES if k not in ("label", "outcome")}
        columns["method"] = spelled(self.label, [label.method for label in self.labels])
        columns["name"] = spelled(self.label, [label.name for label in self.labels])
        columns["failed"] = self.failed
        status = np.array([outcome.status for outcome in self.outcomes] or [MISSING], dtype=np.int32)
        columns["status"] = status[self.outcome] if len(self) else self.outcome
        columns["message"] = spelled(self.outcome, [outcome.message for outcome in self.outcomes])
        return pd.DataFrame(columns)


def encode(values: Iterable[_T]) -> tuple[Int32, tuple[_T, ...]]:
    """Dictionary-encode values: codes of shape (n,) and the table of distinct values in order of appearance."""
    table: dict[_T, int] = {}
    codes = np.fromiter((table.setdefault(value, len(table)) for value in values), dtype=np.int32)
    return codes, tuple(table)


def merge_codes(parts: Sequence[tuple[tuple[_T, ...], Int32]]) -> tuple[tuple[_T, ...], Int32]:
    """One table and the concatenated codes of several dictionary-encoded columns."""
    table: dict[_T, int] = {}
    merged = []
    for values, codes in parts:
        recode = np.fromiter((table.setdefault(value, len(table)) for value in values), dtype=np.int32)
        merged.append(recode[codes])
    return tuple(table), np.concatenate(merged)


assert tuple(f.name for f in fields(LaunchLog))[: len(ROW_DTYPES)] == tuple(ROW_DTYPES)
