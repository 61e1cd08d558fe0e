"""The launch log: one row a request, held in columns.

Every analysis takes this type, whether the rows come from a running test, a merged distributed run or a file.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    import pandas as pd

MISSING = -1
"""Value of an integer column where it is unknown (no planned launch, no time to first byte, no user)."""

Int64 = NDArray[np.int64]
Int32 = NDArray[np.int32]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
_DTYPES: dict[str, type[np.generic]] = {"Int64": np.int64, "Int32": np.int32, "Floats": np.float64, "Bools": np.bool_}
Selection = Bools | NDArray[np.integer] | slice
"""Rows of a log: a boolean mask, an index array or a slice."""

_T = TypeVar("_T")


class Columns:
    """Base of frozen dataclasses that hold rows as columns of equal length.

    ``DTYPES`` are the types of the columns, in order: the fields annotated as Int64, Int32, Floats or Bools.
    """

    DTYPES: ClassVar[dict[str, type[np.generic]]]
    ABSENT: ClassVar[Mapping[str, int]] = {}  # value of a column that is left out; the others are MISSING

    def __init_subclass__(cls) -> None:
        annotations = inspect.get_annotations(cls)
        cls.DTYPES = {name: _DTYPES[kind] for name, kind in annotations.items() if kind in _DTYPES}

    def __post_init__(self) -> None:
        first = next(iter(self.DTYPES))
        for name in self.DTYPES:
            if len(getattr(self, name)) != len(self):
                raise ValueError(f"{name} has {len(getattr(self, name))} rows, expected {len(self)} as in {first}")

    def __len__(self) -> int:
        return len(getattr(self, next(iter(self.DTYPES))))

    @classmethod
    def empty(cls) -> Self:
        """Return a log without rows."""
        return cls(**{name: np.zeros(0, dtype=dtype) for name, dtype in cls.DTYPES.items()})

    def take(self, selection: Selection) -> Self:
        """Return the rows of a selection; tables of texts stay as they are."""
        return replace(self, **{name: getattr(self, name)[selection] for name in self.DTYPES})  # type: ignore[type-var]

    @classmethod
    def concat(cls, logs: Iterable[Self]) -> Self:
        """Return all rows of several logs, in their order."""
        parts = [log for log in logs if len(log)]
        if len(parts) < 2:
            return parts[0] if parts else cls.empty()
        columns = {name: np.concatenate([getattr(log, name) for log in parts]) for name in cls.DTYPES}
        return cls(**{**columns, **cls._merged(parts)})

    @classmethod
    def _merged(cls, parts: Sequence[Self]) -> Mapping[str, object]:
        """Return the fields that do not concatenate: tables, and the codes into them."""
        return {}

    @classmethod
    def _filled(cls, n: int, given: Mapping[str, ArrayLike]) -> dict[str, Any]:
        """Return all columns with ``n`` rows; a scalar stands for every row."""
        unknown = set(given) - set(cls.DTYPES)
        if unknown:
            raise ValueError(f"unknown column(s) {sorted(unknown)}, expected some of {sorted(cls.DTYPES)}")
        filled = {}
        for name, dtype in cls.DTYPES.items():
            column = np.asarray(given.get(name, cls.ABSENT.get(name, MISSING)), dtype=dtype)
            filled[name] = column if column.shape == (n,) else np.array(np.broadcast_to(column, n))
        return filled


class Label(NamedTuple):
    """A request's method (Locust's request_type) and its name."""

    method: str
    name: str


class Outcome(NamedTuple):
    """A request's end: failed or not, its status code (MISSING where none) and the failure's message."""

    failed: bool
    status: int
    message: str


SUCCESS = Outcome(False, MISSING, "")


@dataclass(frozen=True, eq=False)
class LaunchLog(Columns):
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
    - ``task`` number of the user's task, shared by all requests of the task and by no other task of the worker, or
      MISSING (outside of tasks, and in files without it)
    - ``think_us`` pause from the end of the user's previous task to the start of this one, or MISSING

    >>> log = LaunchLog.build(launch_us=[0, 1500], response_us=[700, 900], names=["home", "buy"], failed=[False, True])
    >>> len(log), log.labels, log.failed.tolist()
    (2, (Label(method='', name='home'), Label(method='', name='buy')), [False, True])
    """

    ABSENT = {"worker": 0, "size_bytes": 0}  # noqa: RUF012

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
    task: Int64
    think_us: Int64
    labels: tuple[Label, ...] = ()
    outcomes: tuple[Outcome, ...] = ()

    @property
    def failed(self) -> Bools:
        """Mask of the failed requests, shape (n,)."""
        return np.array([outcome.failed for outcome in self.outcomes] or [False], dtype=np.bool_)[self.outcome]

    @property
    def status(self) -> Int32:
        """Status code of each request, MISSING where none, shape (n,)."""
        return np.array([outcome.status for outcome in self.outcomes] or [MISSING], dtype=np.int32)[self.outcome]

    @classmethod
    def of(
        cls, launch_us: Int64, labels: Sequence[Label], outcomes: Sequence[Outcome], **columns: ArrayLike
    ) -> LaunchLog:
        """Return a log of columns and tables as they are, without a copy where the type fits."""
        rows = cls._filled(len(launch_us), {"launch_us": launch_us, **columns})
        return cls(**rows, labels=tuple(labels), outcomes=tuple(outcomes))

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
        """Return a log of copied columns; a scalar stands for every row, a column left out is MISSING.

        ``worker`` and ``size_bytes`` are 0 where left out.
        """
        launches = np.array(launch_us, dtype=np.int64)
        n = len(launches)
        each_name = [names] * n if isinstance(names, str) else list(names)
        each_method = [methods] * n if isinstance(methods, str) else list(methods)
        label, labels = encode(Label(m, name) for m, name in zip(each_method, each_name, strict=True))
        outcome = np.broadcast_to(np.asarray(failed, dtype=np.bool_), n).astype(np.int32)
        copies = {name: np.array(values) for name, values in {"response_us": response_us, **columns}.items()}
        outcomes = (SUCCESS, Outcome(True, MISSING, ""))
        return cls.of(launches, labels, outcomes, **{"label": label, "outcome": outcome, **copies})

    def sorted_by_launch(self) -> LaunchLog:
        """Return the rows by launch time, equal ones by worker and slot, however the workers' rows interleave."""
        return self.take(np.lexsort((self.slot, self.worker, self.launch_us)))

    @classmethod
    def _merged(cls, parts: Sequence[LaunchLog]) -> Mapping[str, object]:
        labels, label = merge_codes([(log.labels, log.label) for log in parts])
        outcomes, outcome = merge_codes([(log.outcomes, log.outcome) for log in parts])
        return {"labels": labels, "label": label, "outcomes": outcomes, "outcome": outcome}

    def to_pandas(self) -> pd.DataFrame:
        """Return one row a launch, for notebooks: the columns above with label and outcome written out.

        ``method``, ``name`` and ``message`` are categories; ``failed`` is bool; ``status`` int32; times stay integer
        microseconds; unknown values are -1.
        """
        import pandas as pd

        def categories(codes: Int32, values: Sequence[str]) -> object:
            position, distinct = encode(values)
            return pd.Categorical.from_codes(position[codes], dtype=pd.CategoricalDtype(list(distinct)))

        columns: dict[str, object] = {k: getattr(self, k) for k in self.DTYPES if k not in ("label", "outcome")}
        columns["method"] = categories(self.label, [label.method for label in self.labels])
        columns["name"] = categories(self.label, [label.name for label in self.labels])
        columns["failed"] = self.failed
        columns["status"] = self.status
        columns["message"] = categories(self.outcome, [outcome.message for outcome in self.outcomes])
        return pd.DataFrame(columns)


def encode(values: Iterable[_T]) -> tuple[Int32, tuple[_T, ...]]:
    """Return codes of shape (n,) and the table of distinct values, in order of appearance."""
    table: dict[_T, int] = {}
    codes = np.fromiter((table.setdefault(value, len(table)) for value in values), dtype=np.int32)
    return codes, tuple(table)


def merge_codes(parts: Sequence[tuple[tuple[_T, ...], Int32]]) -> tuple[tuple[_T, ...], Int32]:
    """Return one table and the concatenated codes of several dictionary-encoded columns."""
    recode, table = encode(value for values, _ in parts for value in values)
    starts = np.cumsum([0, *(len(values) for values, _ in parts)])
    return table, np.concatenate([recode[start:][codes] for start, (_, codes) in zip(starts, parts, strict=False)])


ROW_DTYPES = LaunchLog.DTYPES
"""Column name to type, in the order of the file format."""
