"""The listener of Locust's ``request`` event: one row a request, appended to plain columns.

What happens on the event loop is a handful of lookups and one append to an array of doubles: no row keeps a Python
object alive, least of all a response. Turning the numbers into a block of the launch log is done by whoever seals, off
the loop.
"""

from __future__ import annotations

import logging
from array import array
from collections.abc import Callable
from struct import Struct
from time import perf_counter
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from locust_realism.recording.launches import MISSING, Label, LaunchLog, Outcome
from locust_realism.runtime.clock import Clock

logger = logging.getLogger(__name__)

MAX_OUTCOMES = 4096
"""Distinct outcomes kept apart; failure messages beyond (with an id in each, say) become OTHER_MESSAGE."""

MAX_LABELS = 65_536
"""Distinct labels kept apart; names beyond (a new URL in each request, say) become OTHER_NAME."""

MAX_MESSAGE = 500
OTHER_MESSAGE = "(another message: more than 4096 different ones)"
OTHER_NAME = "(another name: more than 65536 different ones)"

NAN = float("nan")

COLUMNS = 9
"""Doubles a row: start (wall, s), reported (monotonic, s), response (ms), bytes, label, outcome, slot, planned
(monotonic, s), first byte (ms); NaN where unknown. A double holds integers and the epoch in microseconds exactly."""

_ROW = Struct(f"{COLUMNS}d")


class UserSession(Protocol):
    """What the recorder needs of the session of the user whose code runs (see ``runtime/sessions.py``).

    ``slot`` is its concurrency slot; ``planned`` when its next request was meant to be launched
    (``time.perf_counter()`` seconds), or None. The first request after the plan takes it.
    """

    slot: int
    planned: float | None


class Recorder:
    """Collects the request events of one process.

    - ``listener`` is what is added to ``environment.events.request``
    - ``take()`` hands out the rows since the last call as a :class:`Batch` (cheap; on the loop)
    - ``errors`` counts requests that could not be recorded, and ``last_error`` says why
    - ``session_of`` gives the session of the user whose code runs, or None
    """

    def __init__(
        self, clock: Clock, *, session_of: Callable[[], UserSession | None] | None = None, worker: int = 0
    ) -> None:
        self.clock = clock
        self.worker = worker
        self.errors = 0
        self.last_error = ""
        self.bad_start_times = 0
        self._taken = 0
        self._rows = array("d")
        self._labels: dict[tuple[str, str], int] = {}
        self._succeeded: dict[Any, int] = {}
        self._outcomes: dict[Outcome, int] = {}
        self._session_of = session_of or (lambda: None)
        self.listener = self._make_listener()

    def __len__(self) -> int:
        return len(self._rows) // COLUMNS

    @property
    def recorded(self) -> int:
        """Rows since the start of the run, those that were taken, too."""
        return self._taken + len(self)

    def take(self) -> Batch:
        """The rows recorded since the last call, and forget them here."""
        rows = self._rows[:]
        del self._rows[:]
        self._taken += len(rows) // COLUMNS
        return Batch(rows, tuple(self._labels), tuple(self._outcomes), self.clock, self)

    def forget(self) -> None:
        """A new run starts: forget rows and errors."""
        del self._rows[:]
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
            exception: Any = None,
            start_time: float | None = None,
            url: Any = None,
            context: Any = None,
            **_: Any,
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
                if session is not None:
                    slot = session.slot
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
                    )
                )
            except Exception as error:  # noqa: BLE001 - a recorder must never stop the load
                failed(error)

        return on_request

    def _dropped(self, error: Exception) -> None:
        self.errors += 1
        self.last_error = f"{type(error).__name__}: {error}"
        if self.errors == 1:
            logger.warning("a request could not be recorded (%s); the load goes on, more are only counted", error)

    def _label(self, request_type: Any, name: Any) -> int:
        label = Label(str(request_type), str(name))
        if len(self._labels) >= MAX_LABELS:
            label = Label(label.method, OTHER_NAME)
        return self._labels.setdefault(label, len(self._labels))

    def _success(self, status: Any) -> int:
        code = self._outcome(Outcome(False, _status(status), ""))
        if len(self._succeeded) < MAX_OUTCOMES:
            self._succeeded[status] = code
        return code

    def _failure(self, status: Any, exception: Any) -> int:
        message = str(exception) or repr(exception)
        return self._outcome(Outcome(True, _status(status), message[:MAX_MESSAGE]))

    def _outcome(self, outcome: Outcome) -> int:
        if outcome not in self._outcomes and len(self._outcomes) >= MAX_OUTCOMES:
            outcome = Outcome(outcome.failed, outcome.status, OTHER_MESSAGE if outcome.failed else "")
        return self._outcomes.setdefault(outcome, len(self._outcomes))


class Batch:
    """Rows as they were recorded; ``build()`` makes the block of the launch log, in any thread."""

    def __init__(
        self,
        rows: array[float],
        labels: tuple[tuple[str, str], ...],
        outcomes: tuple[Outcome, ...],
        clock: Clock,
        recorder: Recorder,
    ) -> None:
        self._rows, self._labels, self._outcomes = rows, labels, outcomes
        self._clock, self._recorder = clock, recorder
        self._built = False

    def __len__(self) -> int:
        return len(self._rows) // COLUMNS

    def build(self) -> LaunchLog:
        """The rows with launch times on the process's axis, in integer microseconds."""
        if not len(self):
            return LaunchLog.empty()
        columns = np.frombuffer(self._rows, dtype=np.float64).reshape(-1, COLUMNS)
        start, reported, response, size, label, outcome, slot, planned, first_byte = columns.T
        launch, bad = self._clock.launches(start, reported, response * 1e-3)
        if not self._built:
            self._recorder.bad_start_times += int(np.count_nonzero(bad))
            self._built = True
        n = len(launch)
        return LaunchLog(
            launch_us=np.rint(launch * 1e6).astype(np.int64),
            planned_us=_whole(planned + self._clock.anchor, 1e6),
            response_us=_whole(response, 1e3),
            first_byte_us=_whole(first_byte, 1e3),
            size_bytes=_whole(size, 1.0),
            label=label.astype(np.int32),
            outcome=outcome.astype(np.int32),
            slot=slot.astype(np.int32),
            worker=np.full(n, self._recorder.worker, dtype=np.int32),
            users=np.full(n, MISSING, dtype=np.int32),
            labels=tuple(Label(method, name) for method, name in self._labels),
            outcomes=self._outcomes,
        )


def _whole(values: NDArray[np.float64], scale: float) -> NDArray[np.int64]:
    known = np.isfinite(values)
    return np.where(known, np.rint(np.where(known, values, 0.0) * scale), MISSING).astype(np.int64)


def _status(status: Any) -> int:
    """A status code as an integer; MISSING where the client has none (Locust's clients say 0)."""
    return int(status) if isinstance(status, int) and status > 0 else MISSING


_measures_first_byte: dict[type, bool] = {}


def measures_first_byte(kind: type) -> bool:
    """Whether responses of a class tell the time to the first byte: those of ``requests`` do."""
    return _measures_first_byte.setdefault(kind, any(base.__module__ == "requests.models" for base in kind.__mro__))


def first_byte_ms(response: Any) -> float:
    """Time to the first byte of a ``requests.Response`` in milliseconds, NaN where unknown.

    It is measured as ``elapsed`` (send to headers read); after a redirect that is the last answer's alone, and then it
    is not given.
    """
    if response.history:
        return NAN
    seconds: float = response.elapsed.total_seconds()
    return seconds * 1e3 if seconds > 0 else NAN
