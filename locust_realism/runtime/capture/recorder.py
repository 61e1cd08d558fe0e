"""Listener of Locust's ``request`` event: one row for each request, appended to plain columns.

The event loop does a handful of lookups and one append to an array of doubles: no row keeps a Python object alive,
least of all a response. The block of the launch log is built off the loop.
"""

from __future__ import annotations

import logging
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from locust_realism.recording.columns import pack
from locust_realism.recording.launches import MISSING, Label, LaunchLog, Outcome
from locust_realism.runtime.coordination.clock import IMPLAUSIBLE_S, STEP_S, Clock
from locust_realism.runtime.users.session import NO_TASK, Session

logger = logging.getLogger(__name__)

MAX_OUTCOMES = 4096
"""Distinct outcomes; failure messages beyond (with an id in each, say) become OTHER_MESSAGE."""

MAX_LABELS = 65_536
"""Distinct labels; names beyond (a new URL in each request, say) become OTHER_NAME."""

MAX_MESSAGE = 500
OTHER_MESSAGE = "(another message: more than 4096 different ones)"
OTHER_NAME = "(another name: more than 65536 different ones)"

NAN = float("nan")

MAX_RESPONSE_MS = 1e12
"""Response times beyond, negative ones, and those a day longer than the run count as unknown: a client's error."""

MAX_WHOLE = 2.0**52

COLUMNS = 12
"""Doubles a row: start (wall, s), reported (monotonic, s), response (ms), bytes, label, outcome, slot, planned
(monotonic, s), first byte (ms), the three figures of the task (NO_TASK); NaN where unknown. A double holds integers
and the epoch in microseconds exactly."""

_ROW = Struct(f"{COLUMNS}d")


class Recorder:
    """Collector of the request events of one process.

    - ``listener`` the listener of ``environment.events.request``
    - ``errors`` requests that could not be recorded, ``last_error`` the reason of the last
    - ``session_of()`` returns the session of the running user, or None; its ``planned`` launch is taken once
    """

    def __init__(self, clock: Clock, *, session_of: Callable[[], Session | None] = lambda: None) -> None:
        self.clock = clock
        self._rows = array("d")
        self._labels: dict[tuple[str, str], int] = {}
        self._succeeded: dict[object, int] = {}
        self._outcomes: dict[Outcome, int] = {}
        self._session_of = session_of
        self.listener = self._make_listener()
        self.start_run()

    def __len__(self) -> int:
        return len(self._rows) // COLUMNS

    @property
    def recorded(self) -> int:
        """Rows since the start of the run, taken ones included."""
        return self._taken + len(self)

    def take(self) -> Batch:
        """Return the rows since the last call and drop them here; cheap, on the loop."""
        rows = self._rows[:]
        del self._rows[:]
        self._taken += len(rows) // COLUMNS
        return Batch(rows, tuple(self._labels), tuple(self._outcomes), self)

    def start_run(self) -> None:
        """Reset rows and errors for a new run."""
        del self._rows[:]
        self.began = perf_counter()
        self.errors = self.bad_start_times = self._taken = 0
        self.last_error = ""

    def _make_listener(self) -> Callable[..., None]:
        # everything that the hot path needs is a local of this closure: each attribute lookup saved is 20 ns
        rows, labels, succeeded = self._rows, self._labels, self._succeeded
        # packed first: array.extend would take three times as long, and stop in the middle of a row that it cannot take
        add, packed, session_of, now = rows.frombytes, _ROW.pack, self._session_of, perf_counter
        add_label, add_success, add_failure, failed = self._label, self._success, self._failure, self._dropped
        measures = _measures_first_byte

        def on_request(
            request_type: str = "",
            name: str = "",
            response_time: float | None = None,
            response_length: int | None = 0,
            response: Any = None,
            exception: object = None,
            start_time: float | None = None,
            url: object = None,
            context: object = None,
            **_: object,
        ) -> None:
            try:
                reported = now()
                label = labels.get((request_type, name))
                if label is None:
                    label = add_label(request_type, name)
                if response is None:
                    status, first_byte = None, NAN
                else:
                    status = getattr(response, "status_code", None)
                    measured = measures.get(type(response))
                    if measured is None:
                        measured = measures_first_byte(type(response))
                    first_byte = first_byte_ms(response) if measured else NAN
                if exception is None:
                    outcome = succeeded.get(status)
                    if outcome is None:
                        outcome = add_success(status)
                else:
                    outcome = add_failure(status, exception)
                session = session_of()
                slot: float = MISSING
                planned = NAN
                if session is None:
                    task, began, think = NO_TASK
                else:
                    slot = session.slot
                    task, began, think = session.task
                    if session.planned is not None:
                        planned, session.planned = session.planned, None
                add(
                    packed(
                        NAN if start_time is None else start_time,
                        reported,
                        NAN if response_time is None else response_time,
                        response_length or 0,
                        label,
                        outcome,
                        slot,
                        planned,
                        first_byte,
                        task,
                        began,
                        think,
                    )
                )
            except Exception as error:  # noqa: BLE001 - a recorder must never stop the load
                failed(error)

        return on_request

    def _dropped(self, error: Exception) -> None:
        self.errors += 1
        self.last_error = f"{type(error).__name__}: {error}"
        if self.errors == 1:
            logger.warning("A request could not be recorded (%s); the load goes on, further ones are counted.", error)

    def _label(self, request_type: object, name: object) -> int:
        label = Label(str(request_type), str(name))
        if len(self._labels) >= MAX_LABELS:
            label = Label(label.method, OTHER_NAME)
        return self._labels.setdefault(label, len(self._labels))

    def _success(self, status: object) -> int:
        code = self._outcome(Outcome(False, _status(status), ""))
        if len(self._succeeded) < MAX_OUTCOMES:
            self._succeeded[status] = code
        return code

    def _failure(self, status: object, exception: object) -> int:
        message = str(exception) or repr(exception)
        return self._outcome(Outcome(True, _status(status), message[:MAX_MESSAGE]))

    def _outcome(self, outcome: Outcome) -> int:
        if outcome not in self._outcomes and len(self._outcomes) >= MAX_OUTCOMES:
            outcome = Outcome(outcome.failed, outcome.status, OTHER_MESSAGE if outcome.failed else "")
        return self._outcomes.setdefault(outcome, len(self._outcomes))


@dataclass
class Batch:
    """Rows as they were recorded; any thread may build the block of the launch log.

    ``before_reset``: the rows were recorded before the last Reset of Locust's statistics.
    """

    rows: array[float]
    labels: tuple[tuple[str, str], ...]
    outcomes: tuple[Outcome, ...]
    recorder: Recorder
    before_reset: bool = False
    _is_built: bool = False
    _packed: bytes | None = None

    def __len__(self) -> int:
        return len(self.rows) // COLUMNS

    def packed(self) -> bytes:
        """Return the block as it travels and is written, packed at the first call."""
        if self._packed is None:
            self._packed = pack(self.build())
        return self._packed

    def build(self) -> LaunchLog:
        """Return the rows by launch time, which is on the process's axis, in integer microseconds.

        A request launched before its user's present task began has no task: its greenlet outlived its own.
        """
        if not len(self):
            return LaunchLog.empty()
        columns, clock = np.frombuffer(self.rows, dtype=np.float64).reshape(-1, COLUMNS), self.recorder.clock
        start, reported, response, size, label, outcome, slot, planned, first_byte, task, began, think = columns.T
        longest = np.minimum((reported - self.recorder.began + IMPLAUSIBLE_S) * 1e3, MAX_RESPONSE_MS)
        response = np.where((response >= 0) & (response < longest), response, NAN)
        launch, bad = clock.launches(start, reported, response * 1e-3)
        if not self._is_built:
            self.recorder.bad_start_times += int(np.count_nonzero(bad))
            self._is_built = True
        of_task = launch >= began + clock.anchor - STEP_S  # by STEP_S wall time may differ from the axis
        log = LaunchLog.of(
            np.rint(launch * 1e6).astype(np.int64),
            [Label(method, name) for method, name in self.labels],
            self.outcomes,
            planned_us=_whole(planned + clock.anchor, 1e6),
            response_us=_whole(response, 1e3),
            first_byte_us=_whole(first_byte, 1e3),
            size_bytes=_whole(size, 1.0),
            label=label,
            outcome=outcome,
            slot=slot,
            task=_whole(np.where(of_task, task, NAN), 1.0),
            think_us=_whole(np.where(of_task, think, NAN), 1e6),
        )
        # as they were launched: a block's times and tasks then grow, and take half the bytes
        return log.take(np.argsort(log.launch_us, kind="stable"))


def _whole(values: NDArray[np.float64], scale: float) -> NDArray[np.int64]:
    """Return scaled values as integers; MISSING for NaN, negative values and those beyond the file format."""
    known = (values >= 0) & (values * scale < MAX_WHOLE)
    return np.where(known, np.rint(np.where(known, values, 0.0) * scale), MISSING).astype(np.int64)


def _status(status: object) -> int:
    """Return a status code as an integer; MISSING where the client has none (Locust's clients have 0)."""
    return int(status) if isinstance(status, int) and 0 < status < 1 << 31 else MISSING


_measures_first_byte: dict[type, bool] = {}


def measures_first_byte(kind: type) -> bool:
    """Return True for a class of responses with the time to the first byte: those of ``requests``."""
    return _measures_first_byte.setdefault(kind, any(base.__module__ == "requests.models" for base in kind.__mro__))


def first_byte_ms(response: Any) -> float:
    """Return the time to the first byte of a ``requests.Response`` in milliseconds, NaN where unknown.

    ``elapsed`` measures it, from sending to the end of the headers; after a redirect that is the last answer's alone,
    and the result is NaN.
    """
    if response.history:
        return NAN
    seconds: float = response.elapsed.total_seconds()
    return seconds * 1e3 if seconds > 0 else NAN
