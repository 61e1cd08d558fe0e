"""The wire between master and workers: every message name and report key, a schema each, checked on arrival.

A worker adds *parts* to Locust's reports, every 3 s; *messages* travel at any time, both ways. Each has a name with
:data:`PREFIX` and a :class:`Field` that describes its data: types, ranges of numbers, lengths. :class:`Wire` is one
process's end: it checks what arrives before any handler gets it. A sender whose data does not fit is logged once a run
and its data is dropped; the run goes on.

Workers of release 0.1.0 use wire 1, with four other names (:data:`OLDER_NAMES`) and a hello without data. Their reports
are read.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from reprlib import Repr
from typing import Any, Generic, TypedDict, TypeVar, cast

from locust.env import Environment
from locust.runners import MasterRunner, Runner, WorkerRunner

from locust_realism.recording.diagnosis import MAX_ENTRIES, MAX_PAUSE_S, MAX_PAUSES, Causes
from locust_realism.recording.diagnosis import MAX_NAME as MAX_NAMED
from locust_realism.runtime.locust_compat import PerEnvironment

logger = logging.getLogger(__name__)

VERSION = 3
"""Version of the wire; one more for each change of a name, a schema or the columns of a block."""

PREFIX = "realism_"

T = TypeVar("T")

MAX_COUNT = 1 << 53
"""Largest count; a double holds it exactly."""
MAX_TIME_US = 1 << 52
"""Microseconds since the epoch: the year 2112."""
MAX_BLOCKS = 4096
"""Blocks in a report, new ones and requested ones."""
MAX_BLOCK_ROWS = 2_000_000
MAX_BLOCK_BYTES = 64 << 20
"""Bytes of a packed block."""
MAX_UNPACKED_BYTES = 320 << 20
"""Bytes that the rows of a block may take in memory: those of MAX_BLOCK_ROWS."""
MAX_SIDE_BYTES = 64 << 20
"""Bytes that the sessions or the health of a report may take, packed or unpacked."""
MAX_GAP = 10_000
"""Blocks that may be missing in a row: reports of eight hours. A wider gap of the numbering is refused."""
MAX_NESTING = 16
MAX_VALUES = 1_000_000
"""Values in a part of free structure: a plan's items, cookies."""


class WireError(ValueError):
    """Data from another process does not fit its schema: ``NAME is VALUE, expected BOUND``."""

    def __init__(self, path: str, value: object, expected: str) -> None:
        super().__init__(f"{path} is {_short.repr(value)}, expected {expected}")


_short = Repr()
_short.maxstring = _short.maxother = _short.maxlong = 60
_short.maxdict = _short.maxlist = _short.maxtuple = 3


@dataclass(frozen=True)
class Field:
    """Schema of one value.

    - ``kind`` its type: bool, int, float (an int passes), str, bytes, list, dict; NoneType for no data, object for
      nested plain data of at most MAX_NESTING levels and MAX_VALUES values
    - ``low``, ``high`` range of a number (NaN is outside of any), or of the length of anything else
    - ``item`` schema of a list's items and of a mapping's values; a mapping's keys are short texts
    - ``row`` schemas of the items of a list of fixed length; ``keys`` those of a mapping of fixed keys
    - ``nullable`` if None passes too; such a key may be missing
    - ``logged`` for a text that is printed or logged: control characters are escaped, so that it forges no line
    """

    kind: type
    low: float = 0
    high: float = MAX_COUNT
    item: Field | None = None
    row: tuple[Field, ...] = ()
    keys: Mapping[str, Field] | None = None
    nullable: bool = False
    logged: bool = False

    @property
    def expected(self) -> str:
        """The bound as text for an error."""
        if self.kind in (int, float):
            return f"{'a whole number' if self.kind is int else 'a number'} from {self.low:,} to {self.high:,}"
        text = {str: "a text", bytes: "bytes", list: "a list", dict: "a mapping", bool: "true or false"}
        if self.kind not in text:
            return "no data" if self.kind is type(None) else "plain data"
        return text[self.kind] if self.kind is bool else f"{text[self.kind]} of length {self.low} to {self.high:,}"


MAX_NAME = 1024
"""Characters of a key or of a class's name."""


def check(value: object, schema: Field, path: str) -> Any:
    """Return the value as its schema has it; WireError for the first value that does not fit.

    Keys that the schema does not have are left out.

    >>> check([1, 2.5], Field(list, 0, 2, item=Field(float, 0, 3)), "times")
    [1, 2.5]
    >>> check({"rows": "many"}, Field(dict, keys={"rows": Field(int)}), "part")
    Traceback (most recent call last):
    locust_realism.runtime.wire.WireError: part.rows is 'many', expected a whole number from 0 to 9,007,199,254,740,992
    """
    if value is None and schema.nullable:
        return None
    if schema.kind is object:
        _check_plain(value, path)
        return value
    allowed: Any = {float: (int, float), list: (list, tuple)}.get(schema.kind, schema.kind)
    if not isinstance(value, allowed) or (isinstance(value, bool) and schema.kind is not bool):
        raise WireError(path, value, schema.expected)
    measure: Any = value if isinstance(value, int | float) else len(cast("Sequence[object]", value or ()))
    if not schema.low <= measure <= schema.high:
        raise WireError(path, value, schema.expected)
    if isinstance(value, list | tuple):
        items = schema.row or (schema.item or PLAIN,) * len(value)
        return [check(one, item, f"{path}[{k}]") for k, (one, item) in enumerate(zip(value, items, strict=True))]
    if isinstance(value, dict):
        return _check_mapping(value, schema, path)
    if schema.logged and isinstance(value, str) and not value.isprintable():
        return repr(value)[1:-1]
    return value


def _check_mapping(value: dict[object, object], schema: Field, path: str) -> dict[str, Any]:
    if schema.keys is not None:
        return {name: check(value.get(name), item, f"{path}.{name}") for name, item in schema.keys.items()}
    checked = {}
    for name, one in value.items():
        if not isinstance(name, str) or len(name) > MAX_NAME:
            raise WireError(path, name, f"keys that are texts of length 0 to {MAX_NAME}")
        checked[name] = check(one, schema.item or PLAIN, f"{path}.{_short.repr(name)}")
    return checked


def _check_plain(value: object, path: str) -> None:
    """Raise WireError for data that is nested too deep or has too many values; a level at a time, no recursion."""
    level, values = [value], 1
    for _ in range(MAX_NESTING):
        level = [
            one
            for outer in level
            if isinstance(outer, list | tuple | dict)
            for one in (outer.values() if isinstance(outer, dict) else outer)
        ]
        values += len(level)
        if values > MAX_VALUES:
            raise WireError(path, value, f"at most {MAX_VALUES:,} values")
        if not level:
            return
    raise WireError(path, value, f"at most {MAX_NESTING} levels")


NOTHING = Field(type(None), nullable=True)
PLAIN = Field(object)
FLAG = Field(bool)
COUNT = Field(int)
TIME_US = Field(int, -MAX_TIME_US, MAX_TIME_US)
SECONDS = Field(float, -1e12, 1e12)
NAME = Field(str, 0, MAX_NAME)


def record(**keys: Field) -> Field:
    """Return the schema of a mapping with these keys."""
    return Field(dict, keys=keys)


def row(*items: Field) -> Field:
    """Return the schema of a list with one item for each of these schemas."""
    return Field(list, len(items), len(items), row=items)


# Names and schemas ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Message(Generic[T]):
    """Name and schema of a message; T is the type of its data."""

    name: str
    schema: Field


@dataclass(frozen=True)
class Part(Generic[T]):
    """Name and schema of a part of the reports; ``refused`` states the consequence for a log line."""

    name: str
    schema: Field
    refused: str


class HelloData(TypedDict):
    """Versions of a worker: of the wire and of the library, and the hash of its locustfiles (empty if unknown)."""

    wire: int
    library: str
    locustfile: str


HELLO: Message[HelloData | None] = Message(
    PREFIX + "hello",
    Field(
        dict,
        keys={
            "wire": Field(int, 0, 1 << 16),
            "library": Field(str, 0, 100, logged=True),
            "locustfile": Field(str, 0, 64),
        },
        nullable=True,
    ),
)
"""Worker to master on connecting, and when a planner needs the plan; without data from the master: a request for it."""


class PlanData(TypedDict):
    """A plan, the seconds since the start of the run and the index of the worker that receives it."""

    run: int
    version: int
    running: bool
    members: list[int]
    previous: list[int]
    seed: int
    items: dict[str, Any]
    elapsed: float
    index: int


MEMBERS = Field(list, 0, 100_000, item=COUNT)
PLAN: Message[PlanData] = Message(
    PREFIX + "plan",
    record(
        run=COUNT,
        version=COUNT,
        running=FLAG,
        members=MEMBERS,
        previous=MEMBERS,
        seed=Field(int, -(1 << 63), 1 << 64),
        items=Field(dict, 0, 10_000, item=PLAIN),
        elapsed=SECONDS,
        index=Field(int, -1, MAX_COUNT),
    ),
)
"""Master to worker: at the start of a test, on each change, once a second, and in answer to a hello."""


class AbortData(TypedDict):
    """The reason for the end of the run."""

    why: str


ABORT: Message[AbortData] = Message(PREFIX + "abort", record(why=Field(str, 0, 10_000, logged=True)))
"""Worker to master: the run cannot be as planned and must end."""


class ResendData(TypedDict):
    """Numbers of blocks that never arrived."""

    numbers: list[int]


RESEND: Message[ResendData] = Message(
    PREFIX + "resend", record(numbers=Field(list, 0, MAX_BLOCKS + 2 * MAX_GAP, item=COUNT))
)
"""Master to worker: put these blocks into the next report."""


class ProbeData(TypedDict):
    """Time of sending by the worker's clock, microseconds."""

    t0: int


class ProbeAnswer(ProbeData):
    """Times of arrival and departure by the master's clock, and that clock's identity (empty if unknown)."""

    t1: int
    t2: int
    clock: str


PROBE: Message[ProbeData] = Message(PREFIX + "probe", record(t0=TIME_US))
"""Worker to master: a probe of the master's clock."""

PROBED: Message[ProbeAnswer] = Message(
    PREFIX + "probed", record(t0=TIME_US, t1=TIME_US, t2=TIME_US, clock=Field(str, 0, 200))
)
"""Master to worker: the answer to a probe."""

PeopleData = TypedDict(
    "PeopleData",
    {"class": str, "run": int, "people": list[tuple[int, float]], "luggage": list[tuple[int, list[list[Any]]]]},
)
"""People of a finite population who move to another worker: each with the time of its return, and their cookies."""

_TEXT = Field(str, 0, 1 << 16, nullable=True)
_COOKIE = row(
    *(PLAIN, _TEXT, _TEXT, _TEXT, PLAIN, _TEXT, PLAIN, PLAIN),
    *(_TEXT, PLAIN, PLAIN, PLAIN, PLAIN, _TEXT, _TEXT, Field(dict, 0, 100, item=PLAIN)),
)
"""A cookie's fields in the order of ``runtime.users.clients``."""

PEOPLE: Message[PeopleData] = Message(
    PREFIX + "people",
    Field(
        dict,
        keys={
            "class": NAME,
            "run": COUNT,
            "people": Field(list, 0, 1_000_000, item=row(COUNT, Field(float, -1e12, float("inf")))),
            "luggage": Field(list, 0, 1_000_000, item=row(COUNT, Field(list, 0, 1000, item=_COOKIE))),
        },
    ),
)
"""Worker to master, and from the master to the worker that these people belong to."""

BEGIN: Message[None] = Message(PREFIX + "begin", NOTHING)
"""Master to worker: a test begins; users are taken again."""

END: Message[None] = Message(PREFIX + "end", NOTHING)
"""Master to worker: stop the users, and take none until the next test."""

ENDED: Message[None] = Message(PREFIX + "ended", NOTHING)
"""Worker to master: the users have stopped, and their last rows were reported."""

MESSAGES: tuple[Message[Any], ...] = (HELLO, PLAN, ABORT, RESEND, PROBE, PROBED, PEOPLE, BEGIN, END, ENDED)


class BlockData(TypedDict):
    """A packed block of rows: its number, the rows of the run before it, its own, and the bytes."""

    number: int
    first: int
    rows: int
    before_reset: bool
    data: bytes


class RowsData(TypedDict):
    """Launches of one report.

    ``next`` and ``rows`` are the number of the next block and the rows in all blocks so far; ``recorded`` and
    ``dropped`` launches that the recorder took or failed to take; ``clock_steps`` pairs of microseconds and seconds.
    """

    run: int
    blocks: list[BlockData]
    next: int
    rows: int
    errors: int
    recorded: int
    dropped: int
    last_error: str
    bad_start_times: int
    clock_steps: list[tuple[int, float]]


ROWS: Part[RowsData] = Part(
    PREFIX + "rows",
    record(
        run=COUNT,
        blocks=Field(
            list,
            0,
            MAX_BLOCKS,
            item=record(
                number=COUNT,
                first=COUNT,
                rows=Field(int, 0, MAX_BLOCK_ROWS),
                before_reset=FLAG,
                data=Field(bytes, 0, MAX_BLOCK_BYTES),
            ),
        ),
        next=COUNT,
        rows=COUNT,
        errors=COUNT,
        recorded=COUNT,
        dropped=COUNT,
        last_error=Field(str, 0, 100_000, logged=True),
        bad_start_times=COUNT,
        clock_steps=Field(list, 0, 100, item=row(TIME_US, SECONDS)),
    ),
    "its rows are counted as lost",
)


class InFlightCounts(TypedDict):
    """Requests of Locust's HTTP clients in one process: ``sent`` = ``reported`` + ``cut`` + ``waiting``.

    - ``sent`` launched, ``reported`` as an event, ``cut`` aborted: launched and never to be reported
    - ``waiting`` for an answer, or for the end of the ``with`` block
    """

    sent: int
    reported: int
    cut: int
    waiting: int


class SideData(TypedDict):
    """Sessions and health since the last report (Parquet, or empty), and the state of the worker.

    ``open`` are the starts of open sessions as int64 microseconds; ``now`` the worker's clock, and ``clock`` its line
    against the master's (``recording.offsets.ClockLine``). Older workers do not send ``causes``.
    """

    sessions: bytes
    health: bytes
    open: bytes
    now: int
    in_flight: InFlightCounts
    clock: dict[str, Any]
    causes: Causes | None


_NAMED = Field(list, 0, MAX_ENTRIES, item=row(Field(str, 0, MAX_NAMED, logged=True), Field(float, 0, 1e9)))
_PAUSES = Field(list, 0, MAX_PAUSES, item=row(Field(int, 0, MAX_TIME_US), Field(float, 0, MAX_PAUSE_S)))

SIDE: Part[SideData] = Part(
    PREFIX + "side",
    record(
        sessions=Field(bytes, 0, MAX_SIDE_BYTES),
        health=Field(bytes, 0, MAX_SIDE_BYTES),
        open=Field(bytes, 0, MAX_SIDE_BYTES),
        now=TIME_US,
        in_flight=record(sent=COUNT, reported=COUNT, cut=COUNT, waiting=COUNT),
        clock=record(
            at_us=TIME_US,
            offset_us=Field(float, -MAX_TIME_US, MAX_TIME_US),
            drift=Field(float, -1, 1),
            sd_us=Field(float, 0, float("inf")),
            probes=COUNT,
            shared=FLAG,
        ),
        causes=Field(
            dict,
            0,
            100,
            keys={
                "beats": COUNT,
                "blocked": Field(float),
                "sampled": Field(float),
                "places": _NAMED,
                "looks": COUNT,
                "own": Field(float),
                "others": _NAMED,
                "pauses": _PAUSES,
            },
            nullable=True,
        ),
    ),
    "its sessions, health and clock are left out",
)


PACED: Part[dict[str, dict[str, int]]] = Part(
    PREFIX + "paced",
    Field(dict, 0, 1000, item=record(launched=COUNT, late=COUNT, missed=COUNT, too_early=COUNT)),
    "its late and missed launches are left out",
)
"""Counts of each paced wait since the start of the run, by the wait's name: missed launches have no rows."""


class PopulationCounts(TypedDict):
    """Counts of one user class since the test started; see ``runtime.population.stats.Census``.

    ``rows`` are seconds of the run with the number in session, of arrivals and of departures. Older workers do not send
    ``late_starts``.
    """

    active: int
    entered: int
    arrivals: int
    balked: int
    missed: int
    failed: int
    cut_short: int
    moved_anew: int
    late_starts: int | None
    departures: dict[str, int]
    rows: list[tuple[int, int, int, int]]


class PopulationData(TypedDict):
    """Counts of each user class with a population, by the class's name."""

    run: int
    classes: dict[str, PopulationCounts]


POPULATION: Part[PopulationData] = Part(
    PREFIX + "population",
    record(
        run=COUNT,
        classes=Field(
            dict,
            0,
            1000,
            item=record(
                entered=COUNT,
                arrivals=COUNT,
                balked=COUNT,
                missed=COUNT,
                failed=COUNT,
                cut_short=COUNT,
                moved_anew=COUNT,
                active=COUNT,
                late_starts=Field(int, nullable=True),
                departures=Field(dict, 0, 100, item=COUNT),
                rows=Field(list, 0, 100_000, item=row(Field(int, 0, 10**9), COUNT, COUNT, COUNT)),
            ),
        ),
    ),
    "its users are left out of the population's counts",
)

PARTS: tuple[Part[Any], ...] = (ROWS, SIDE, PACED, POPULATION)

OLDER_NAMES = {
    ROWS.name: "locust_realism",
    SIDE.name: "locust_realism_side",
    RESEND.name: "locust_realism_resend",
    PROBE.name: "locust_realism_clock",
    PROBED.name: "locust_realism_clock",
}
"""Names of wire 1, release 0.1.0, where they differ; its data has the same schemas."""


# Ends of the wire -----------------------------------------------------------------------------------------------------


@dataclass
class _Taker:
    part: Part[Any]
    take: Callable[[str, Any], None]
    refused: Callable[[str, Mapping[str, object]], None]


def _ignore(client_id: str, data: Mapping[str, object]) -> None:
    """Leave a refused part out, with no other consequence."""


@dataclass
class Wire:
    """One process's end of the wire; :func:`wire_of` makes it.

    - ``refused`` parts and messages that did not fit, by the id of their sender, since the start of the run
    - ``errors`` parts that one of our handlers failed to make or to take
    - ``older`` ids of workers that use the names of wire 1
    """

    environment: Environment
    refused: dict[str, int] = field(default_factory=dict)
    errors: int = 0
    older: set[str] = field(default_factory=set)
    _makers: dict[str, Callable[[], object]] = field(default_factory=dict)
    _takers: dict[str, _Taker] = field(default_factory=dict)

    @property
    def runner(self) -> Runner:
        """The Environment's runner."""
        assert self.environment.runner is not None
        return self.environment.runner

    def add_part(self, part: Part[T], make: Callable[[], T | None]) -> None:
        """Put ``make()`` into each report of this worker; None leaves it out. It must not yield."""
        self._makers[part.name] = make

    def on_part(
        self,
        part: Part[T],
        take: Callable[[str, T], None],
        refused: Callable[[str, Mapping[str, object]], None] = _ignore,
    ) -> None:
        """Call ``take(client_id, data)`` for the part of each worker's report, checked; a WireError of it refuses too.

        ``refused(client_id, report)`` is called with the whole report of a worker whose part does not fit.
        """
        self._takers[part.name] = _Taker(part, take, refused)

    def remove(self, part: Part[Any]) -> None:
        """Stop making or taking a part."""
        self._makers.pop(part.name, None)
        self._takers.pop(part.name, None)

    def on_message(self, message: Message[T], handle: Callable[[str, T], None]) -> None:
        """Call ``handle(sender, data)`` for each message of a kind, checked; register each kind once."""

        def checked(msg: Any, **_: object) -> None:
            try:
                data = check(msg.data, message.schema, message.name)
                if msg.type != message.name:
                    self.older.add(msg.node_id)
                handle(msg.node_id, data)
            except WireError as error:
                self.refuse(msg.node_id, error, "the message is dropped")

        self.runner.register_message(message.name, checked)
        if isinstance(self.runner, MasterRunner) and message.name == PROBE.name:
            self.runner.register_message(OLDER_NAMES[message.name], checked)

    def send(self, message: Message[T], data: T, client_id: str | None = None) -> None:
        """Send a message: to one worker, to all workers, or on a worker to the master."""
        name = OLDER_NAMES.get(message.name, message.name) if client_id in self.older else message.name
        # Locust's annotation allows mappings and None only; LocalRunner's allows anything
        self.runner.send_message(name, cast("Any", data), client_id)

    def refuse(self, sender: str, error: Exception, consequence: str) -> None:
        """Count data that does not fit, and log the first of each sender."""
        self.refused[sender] = self.refused.get(sender, 0) + 1
        if self.refused[sender] == 1:
            who = f"worker {sender}" if isinstance(self.runner, MasterRunner) else "the master"
            logger.warning(
                "Data of %s does not fit: %s; %s, the run goes on. Further ones are only counted.",
                who,
                error,
                consequence,
            )

    def make_parts(self, data: dict[str, Any], **_: object) -> None:
        """Add this worker's parts to a report (listener of ``report_to_master``)."""
        for name, make in self._makers.items():
            try:
                made = make()
            except Exception:  # noqa: BLE001 - reports and figures of Locust must not suffer
                self._failed("the part %s of a report could not be made; the load goes on", name)
            else:
                if made is not None:
                    data[name] = made

    def take_parts(self, client_id: str, data: dict[str, Any], **_: object) -> None:
        """Take our parts out of a worker's report (listener of ``worker_report``)."""
        others = [taker.part for taker in self._takers.values() if taker.part not in PARTS]
        for part in (*PARTS, *others):
            old = OLDER_NAMES.get(part.name)
            if old in data:
                self.older.add(client_id)
                data[part.name] = data.pop(old)
            taker = self._takers.get(part.name)
            if part.name not in data or taker is None:
                continue
            try:
                taker.take(client_id, check(data.pop(part.name), part.schema, part.name))
            except WireError as error:
                self.refuse(client_id, error, part.refused)
                taker.refused(client_id, data)
            except Exception:  # noqa: BLE001
                self._failed("the part %s of a worker's report could not be read; the run goes on", part.name)

    def _failed(self, text: str, name: str) -> None:
        self.errors += 1
        logger.exception(text, name)

    def start_run(self, **_: object) -> None:
        """Reset the counts for a new run (listener of ``test_start``)."""
        self.refused.clear()
        self.errors = 0


def _make_wire(environment: Environment) -> Wire:
    wire = Wire(environment)
    events: Any = environment.events
    events.test_start.add_listener(wire.start_run)
    if isinstance(environment.runner, WorkerRunner):
        events.report_to_master.add_listener(wire.make_parts)
    elif isinstance(environment.runner, MasterRunner):
        events.worker_report.add_listener(wire.take_parts)
    return wire


_wires = PerEnvironment("wire", _make_wire)


def wire_of(environment: Environment) -> Wire:
    """Return the end of the wire of an Environment that has a runner; made at the first call."""
    return _wires.of(environment)
