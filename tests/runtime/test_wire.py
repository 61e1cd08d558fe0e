"""The wire between master and workers: every name round-trips, and data that does not fit costs only itself."""

from __future__ import annotations

import copy
import logging
import math
import resource
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

import gevent
import msgpack
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from locust import User, constant, task
from locust.env import Environment

from locust_realism.kit import report_part
from locust_realism.recording.columns import pack, pack_table
from locust_realism.recording.launches import LaunchLog
from locust_realism.recording.offsets import SHARED
from locust_realism.recording.sessions import SessionLog
from locust_realism.runtime import wire
from locust_realism.runtime.capture.run import Recording, attach
from locust_realism.runtime.coordination import handshake as handshakes
from locust_realism.runtime.coordination.handshake import handshake, mismatches
from locust_realism.runtime.coordination.plan import ensure_plan
from locust_realism.runtime.users.session import hook_user_start
from locust_realism.runtime.wire import MESSAGES, PARTS, PREFIX, Field, HelloData, WireError, check, wire_of
from tests.runtime.cluster import cluster, eventually

ROW = pack(LaunchLog.build(launch_us=[1_764_000_000_000_000], response_us=[1], names="/"))
COOKIE = [0, "cart", "7", None, False, "shop.test", False, False, "/", True, False, None, True, None, None, {}]

SAMPLES: dict[str, Any] = {
    wire.HELLO.name: {"wire": 2, "library": "0.2.0", "locustfile": "f" * 64},
    wire.PLAN.name: {
        "run": 1,
        "version": 3,
        "running": True,
        "members": [0, 1],
        "previous": [0],
        "seed": 1 << 32,
        "items": {"paced": {"kind": "constant", "per_second": 2.5, "steps": [[0.0, 1.0]]}},
        "elapsed": 12.5,
        "index": 1,
    },
    wire.ABORT.name: {"why": "no plan"},
    wire.RESEND.name: {"numbers": [3, 4]},
    wire.PROBE.name: {"t0": 1_764_000_000_000_000},
    wire.PROBED.name: {"t0": 1, "t1": 2, "t2": 3, "clock": "boot"},
    wire.PEOPLE.name: {"class": "Buyer", "run": 1, "people": [[5, 17.5]], "luggage": [[5, [COOKIE]]]},
    wire.BEGIN.name: None,
    wire.END.name: None,
    wire.ENDED.name: None,
    wire.ROWS.name: {
        "run": 1,
        "blocks": [{"number": 0, "first": 0, "rows": 1, "before_reset": False, "data": ROW}],
        "next": 1,
        "rows": 1,
        "errors": 0,
        "recorded": 1,
        "dropped": 0,
        "last_error": "",
        "bad_start_times": 0,
        "clock_steps": [[1_764_000_000_000_000, -0.5]],
    },
    wire.SIDE.name: {
        "sessions": pack_table(SessionLog.build([0], [1], user_class="Buyer", ending="stopped").to_table()),
        "health": b"",
        "open": np.array([1, 2], dtype=np.int64).tobytes(),
        "now": 1_764_000_000_000_000,
        "in_flight": {"sent": 3, "reported": 1, "cut": 1, "waiting": 1},
        "clock": asdict(SHARED),
        "causes": {
            "beats": 300,
            "blocked": 120,
            "sampled": 90,
            "places": [["locustfile.py:12 in hash_password calling bcrypt.hashpw", 88.5]],
            "looks": 2,
            "own": 0.5,
            "others": [["ffmpeg", 2.5]],
            "pauses": [[1_764_000_000_000_000, 0.3]],
        },
    },
    wire.PACED.name: {"checkout": {"launched": 9, "late": 2, "missed": 1, "too_early": 0}},
    wire.POPULATION.name: {
        "run": 1,
        "classes": {
            "Buyer": {
                "active": 2,
                "entered": 1,
                "arrivals": 4,
                "balked": 0,
                "missed": 0,
                "failed": 0,
                "cut_short": 0,
                "moved_anew": 0,
                "late_starts": 1,
                "departures": {"stopped": 3},
                "rows": [[1, 2, 4, 3]],
            }
        },
    },
}
"""Data of each message and part, as a worker or the master sends it."""

SCHEMAS = {kind.name: kind.schema for kind in (*MESSAGES, *PARTS)}
Path = tuple[str | int, ...]


def fields(schema: Field, value: Any, path: Path = ()) -> Iterator[tuple[Path, Field]]:
    """Yield every field of a schema that the sample has, with its path."""
    yield path, schema
    if schema.keys is not None and isinstance(value, dict):
        for name, item in schema.keys.items():
            yield from fields(item, value[name], (*path, name))
    elif isinstance(value, dict) and schema.item is not None:
        for name in value:
            yield from fields(schema.item, value[name], (*path, name))
    elif isinstance(value, list | tuple):
        items = schema.row or (schema.item,) * len(value)
        for k, item in enumerate(items):
            if item is not None:
                yield from fields(item, value[k], (*path, k))


def replaced(sample: Any, path: Path, value: object) -> Any:
    """Return a copy of the sample with another value at a path."""
    if not path:
        return value
    changed = copy.deepcopy(sample)
    inner = changed
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    return changed


def nested(levels: int) -> list[Any]:
    """Return lists within lists."""
    found: list[Any] = []
    for _ in range(levels):
        found = [found]
    return found


class Long(list[None]):
    """List that claims a length of 2**40."""

    def __len__(self) -> int:
        return 1 << 40


def misfits(schema: Field) -> dict[str, object]:
    """Return values that do not fit a field, by what is wrong with them."""
    if schema.kind is object:
        return {"too deep": nested(wire.MAX_NESTING + 1), "too many": [0] * (wire.MAX_VALUES + 1)}
    found: dict[str, object] = {"another type": {"some": "thing"} if schema.kind is not dict else "text"}
    if schema.kind in (int, float):
        found |= {"a text": "many", "a flag": True, "a list": [1], "below": schema.low - 1, "NaN": math.nan}
        if schema.kind is int:
            found["a fraction"] = 0.5
        if schema.high < math.inf:
            found["above"] = schema.high * 2 + 1
    elif schema.kind is bool:
        found |= {"a number": 1, "a text": "yes"}
    elif schema.kind in (str, bytes, list):
        short: Any = {str: "x", bytes: b"x", list: [0]}[schema.kind]
        found["too long"] = short * (int(schema.high) + 1)
        found["bytes or text"] = b"x" if schema.kind is str else "x"
    elif schema.kind is dict and schema.keys is None:
        found |= {"too many": {str(k): 0 for k in range(int(schema.high) + 1)}} if schema.high < 1e6 else {}
        found |= {"a key of another type": {5: 0}, "a long key": {"k" * 2000: 0}}
    if not schema.nullable:
        found["missing"] = None
    return found


def table() -> Iterator[Any]:
    """Yield a name, a path and a value for every field of every message and part, and every way not to fit."""
    for name, schema in SCHEMAS.items():
        for path, inner in fields(schema, SAMPLES[name]):
            for wrong, value in misfits(inner).items():
                yield pytest.param(name, path, value, id=f"{name}-{'.'.join(map(str, path)) or 'all'}-{wrong}")


def test_names_have_one_prefix_and_are_distinct() -> None:
    names = [kind.name for kind in (*MESSAGES, *PARTS)]
    assert len(set(names)) == len(names) == len(SAMPLES)
    assert all(name.startswith(PREFIX) for name in names)


@pytest.mark.parametrize("name", SAMPLES)
def test_data_round_trips_and_keys_of_no_schema_are_left_out(name: str) -> None:
    sample = SAMPLES[name]
    received = msgpack.loads(msgpack.dumps(sample), raw=False, strict_map_key=False)
    assert check(received, SCHEMAS[name], name) == sample
    if isinstance(sample, dict) and SCHEMAS[name].keys is not None:
        assert check({**sample, "of a later release": nested(50)}, SCHEMAS[name], name) == sample


@pytest.mark.parametrize(("name", "path", "value"), list(table()))
def test_data_that_does_not_fit_is_refused(name: str, path: Path, value: object) -> None:
    data = replaced(SAMPLES[name], path, value)
    with pytest.raises(WireError, match="expected") as refused:
        check(data, SCHEMAS[name], name)
    assert len(str(refused.value)) < 1000, "the message is short, however long the value"


# A cluster ------------------------------------------------------------------------------------------------------------


class Asker(User):
    wait_time = constant(0.02)

    @task
    def ask(self) -> None:
        self.environment.events.request.fire(
            request_type="ASK", name="it", response_time=1.0, response_length=1, exception=None, context={}
        )


class Pair:
    """A master and two workers that record; the part of one worker can be changed on its way."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        hook_user_start()
        self.recordings: list[Recording] = []
        self.spoil: Callable[[dict[str, Any]], None] | None = None
        self.context = cluster(monkeypatch, [Asker], self.prepare)

    def prepare(self, environment: Environment) -> None:
        self.recordings.append(attach(environment))
        ensure_plan(environment)
        if len(self.recordings) == 2:
            events: Any = environment.events
            events.report_to_master.add_listener(self._change)

    def _change(self, data: dict[str, Any], **_: object) -> None:
        if self.spoil is not None:
            self.spoil(data)


@pytest.fixture
def pair(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Pair, Any]]:
    pair = Pair(monkeypatch)
    with pair.context as net:
        yield pair, net
        for recording in pair.recordings:
            recording.detach()


def spoiled(part: wire.Part[Any], path: Path, value: object) -> Callable[[dict[str, Any]], None]:
    """Return a change of one value of a part."""

    def spoil(data: dict[str, Any]) -> None:
        data[part.name] = replaced(data[part.name], path, value)

    return spoil


def bomb() -> bytes:
    """Return a block of a megabyte whose rows would take two gigabytes."""
    names = ("launch_us", "planned_us", "response_us", "first_byte_us", "size_bytes")
    rows = {name: pa.array(np.zeros(500_000, dtype=np.int64)) for name in names}
    table = pa.table(rows | {"name": pa.array([""] * 500_000)})
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, table.schema, compression="zstd") as writer:
        for _ in range(100):
            writer.write_table(table)
    block: bytes = sink.getvalue().to_pybytes()
    assert len(block) < 2 << 20
    return block


@pytest.mark.parametrize(
    "spoil",
    [
        spoiled(wire.ROWS, ("recorded",), "many"),
        spoiled(wire.ROWS, ("recorded",), 1 << 52),
        spoiled(wire.ROWS, ("next",), 1 << 40),
        spoiled(wire.ROWS, ("rows",), 1 << 40),
        spoiled(wire.ROWS, ("blocks",), [{**SAMPLES[wire.ROWS.name]["blocks"][0], "number": 1 << 40}]),
        spoiled(wire.ROWS, ("clock_steps",), [[0, math.nan]]),
        spoiled(wire.ROWS, (), "nonsense"),
    ],
    ids=["text", "growth", "gap of blocks", "gap of rows", "number of a block", "NaN", "no mapping"],
)
def test_a_worker_that_sends_nonsense_is_named_once_and_its_rows_are_lost(
    pair: tuple[Pair, Any], caplog: pytest.LogCaptureFixture, spoil: Callable[[dict[str, Any]], None]
) -> None:
    """Its requests of Locust's own count are lost, the other worker's rows are all there, and the balance closes."""
    made, net = pair
    master, spoiling, honest = made.recordings
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    made.spoil = spoil
    net.start(4, 100)
    eventually(lambda: len(master.launches()) > 50 and master.counts().lost > 50)
    net.stop()
    eventually(lambda: master.balance()["launched"] == net.master.stats.total.num_requests)
    master.flush()
    balance = master.balance()
    spoiler = net.workers[0].runner.client_id
    named = [r.getMessage() for r in caplog.records if "does not fit" in r.getMessage()]
    assert len(named) == 1
    assert spoiler in named[0]
    assert "its rows are counted as lost, the run goes on" in named[0]
    assert len(master.launches()) == honest.recorder.recorded
    assert balance["lost"] == spoiling.recorder.recorded
    assert balance["launched"] == balance["finished"] + balance["lost"]
    assert any(f"Worker {spoiler} sent data that does not fit" in text for text in master.warnings())
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak < 100_000, "kB of memory for one number"


def test_rows_of_refused_reports_arrive_when_the_worker_recovers(
    pair: tuple[Pair, Any], caplog: pytest.LogCaptureFixture
) -> None:
    made, net = pair
    master = made.recordings[0]
    made.spoil = spoiled(wire.ROWS, ("errors",), -1)
    net.start(4, 100)
    eventually(lambda: master.counts().lost > 20)
    made.spoil = None
    eventually(lambda: master.counts().lost == 0)
    net.stop()
    eventually(lambda: len(master.launches()) == sum(one.recorder.recorded for one in made.recordings[1:]))
    assert master.counts().lost == 0


@pytest.mark.parametrize("data", [bomb, lambda: b"PAR1 nonsense" * 10_000], ids=["bomb", "no Parquet"])
def test_a_block_that_cannot_be_read_costs_its_rows_and_little_memory(
    pair: tuple[Pair, Any], caplog: pytest.LogCaptureFixture, data: Callable[[], bytes]
) -> None:
    made, net = pair
    master = made.recordings[0]
    block = data()

    def spoil(report: dict[str, Any]) -> None:
        for sent in report[wire.ROWS.name]["blocks"]:
            sent["data"] = block

    made.spoil = spoil
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    net.start(4, 100)
    eventually(lambda: master.counts().lost > 20 and len(master.launches()) > 20)
    net.stop()
    named = [r.getMessage() for r in caplog.records if "does not fit" in r.getMessage()]
    assert len(named) == 1
    assert net.workers[0].runner.client_id in named[0]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak < 100_000


@pytest.mark.parametrize(
    ("part", "path", "value"),
    [
        (wire.SIDE, ("sessions",), b"nonsense"),
        (wire.SIDE, ("open",), b"seven b"),
        (wire.SIDE, ("open",), np.array([1 << 60]).tobytes()),
        (wire.SIDE, ("clock", "drift"), "fast"),
        (wire.SIDE, ("in_flight",), None),
        (wire.SIDE, ("in_flight", "reported"), 10**12),
        (wire.SIDE, ("in_flight",), {"sent": 10**12, "reported": 10**12, "cut": 0, "waiting": 0}),
    ],
)
def test_a_refused_side_part_leaves_the_rows_alone(
    pair: tuple[Pair, Any], caplog: pytest.LogCaptureFixture, part: wire.Part[Any], path: Path, value: object
) -> None:
    made, net = pair
    master = made.recordings[0]
    made.spoil = spoiled(part, path, value)
    net.start(2, 100)
    eventually(lambda: set(master.launches().worker.tolist()) == {0, 1})
    net.stop()
    named = [r.getMessage() for r in caplog.records if "does not fit" in r.getMessage()]
    assert len(named) == 1
    assert part.refused in named[0]
    assert master.counts().lost == 0


def test_messages_that_do_not_fit_are_dropped_on_both_sides(
    pair: tuple[Pair, Any], caplog: pytest.LogCaptureFixture
) -> None:
    _, net = pair
    worker = net.workers[0].runner
    for message in MESSAGES:
        worker.send_message(message.name, {"run": "nonsense", "t0": math.inf})
        net.runner.send_message(message.name, ["nonsense"], worker.client_id)
    eventually(lambda: wire_of(net.master).refused.get(worker.client_id, 0) >= 3)
    eventually(lambda: sum(wire_of(net.workers[0]).refused.values()) >= 3)
    assert not [r for r in caplog.records if r.exc_info or "Uncaught" in r.getMessage()]
    assert len([r for r in caplog.records if "does not fit" in r.getMessage()]) == 2, "one line on each side"
    net.start(2, 100)
    eventually(lambda: net.runner.user_count == 2)


def test_reports_without_our_parts_and_of_wire_1_are_read() -> None:
    """Locust's other listeners need not see our bytes."""
    environment = Environment()
    environment.create_local_runner()
    end = wire_of(environment)
    taken: list[tuple[str, Any]] = []
    end.on_part(wire.ROWS, lambda client_id, data: taken.append((client_id, data)))
    data: dict[str, Any] = {"stats": [1]}
    end.take_parts("plain", data)
    assert (taken, data) == ([], {"stats": [1]})
    data = {"stats": [1], "locust_realism": SAMPLES[wire.ROWS.name]}
    end.take_parts("older", data)
    assert data == {"stats": [1]}
    assert [client_id for client_id, _ in taken] == ["older"]
    assert end.older == {"older"}
    environment.runner.quit()  # type: ignore[union-attr]


# Hello ----------------------------------------------------------------------------------------------------------------

OURS: HelloData = {"wire": wire.VERSION, "library": "0.2.0", "locustfile": "a" * 64}


@pytest.mark.parametrize(
    ("theirs", "words"),
    [
        (OURS, []),
        ({**OURS, "locustfile": ""}, []),
        (None, ["wire 1"]),
        ({**OURS, "wire": 4, "library": "0.3.0"}, ["version 4 of the wire"]),
        ({**OURS, "wire": 2}, ["version 2 of the wire, the master 3"]),
        ({**OURS, "library": "0.2.1"}, ["locust_realism 0.2.1, the master 0.2.0"]),
        ({**OURS, "locustfile": "b" * 64}, ["another locustfile"]),
        ({"wire": 4, "library": "0.3.0", "locustfile": "b" * 64}, ["version 4 of the wire", "another locustfile"]),
    ],
)
def test_differences_of_a_hello_are_named(theirs: HelloData | None, words: list[str]) -> None:
    found = mismatches(theirs, OURS)
    assert len(found) == len(words)
    assert all(word in clause for word, clause in zip(words, found.values(), strict=True))


def warned(caplog: pytest.LogCaptureFixture, client_id: str) -> list[str]:
    """Return the master's warnings about a worker."""
    texts = [r.getMessage() for r in caplog.records if r.name.endswith("handshake") and r.levelno == logging.WARNING]
    return [text for text in texts if client_id in text]


def test_each_worker_with_another_hello_is_named_before_the_start(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Any
) -> None:
    """Also where the test starts as soon as the workers are ready, as in a headless run."""
    ours, other = tmp_path / "ours.py", tmp_path / "other.py"
    ours.write_text("# one\n")
    other.write_text("# two\n")
    made: list[Environment] = []

    def prepare(environment: Environment) -> None:
        made.append(environment)
        environment.parsed_locustfiles = [str(other if len(made) == 3 else ours)]
        if len(made) != 4:  # the master, an equal worker, one with another file, one without a hello
            handshake(environment)

    with cluster(monkeypatch, [Asker], prepare, workers=3) as net:
        equal, different, silent = (worker.runner.client_id for worker in net.workers)
        at_start: list[int] = []
        for worker in net.workers:
            worker.events.test_start.add_listener(lambda **_: at_start.append(len(warned(caplog, silent))))
        net.start(3, 100)
        eventually(lambda: len(at_start) == 3)
        assert at_start == [1, 1, 1]
        assert ["another locustfile" in text for text in warned(caplog, different)] == [True]
        assert ["no hello" in text for text in warned(caplog, silent)] == [True]
        assert warned(caplog, equal) == []
        hellos = handshake(net.master)
        assert [hellos.reports(client_id) for client_id in (equal, different, silent)] == [True, True, False]


def test_a_hello_that_comes_during_the_start_is_awaited(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    made: list[Environment] = []

    def prepare(environment: Environment) -> None:
        made.append(environment)
        if len(made) == 1:
            handshake(environment)

    with cluster(monkeypatch, [Asker], prepare, workers=1) as net:
        net.start(1, 100)
        gevent.sleep(0.05)
        handshake(net.workers[0])
        eventually(lambda: net.runner.user_count == 1)
        assert warned(caplog, net.workers[0].runner.client_id) == []


def test_a_worker_that_repeats_hellos_is_named_once_a_kind_and_forges_no_line(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with cluster(monkeypatch, [Asker], handshake, workers=1) as net:
        worker, hellos = net.workers[0].runner, handshake(net.master)
        for k in range(10):
            worker.send_message(wire.HELLO.name, {**OURS, "library": f"{k}\n\x1b[31mERROR all is lost"})
            worker.send_message(wire.HELLO.name, {**OURS, "wire": 4 + k, "library": f"9.{k}"})
        eventually(lambda: (hellos.hellos.get(worker.client_id) or OURS)["library"] == "9.9")
        texts = warned(caplog, worker.client_id)
        assert len(texts) == 2, "another release, another wire"
        assert all(text.isprintable() for text in texts)
        assert "0\\n\\x1b[31mERROR" in texts[0]


@pytest.mark.parametrize(
    ("kind", "path"), [(wire.HELLO, ("library",)), (wire.ABORT, ("why",)), (wire.ROWS, ("last_error",))]
)
def test_control_characters_of_texts_that_are_logged_arrive_escaped(kind: Any, path: Path) -> None:
    data = replaced(SAMPLES[kind.name], path, "Töpfe\n\x1b[2J\u202e")
    assert check(data, kind.schema, kind.name)[path[0]] == r"Töpfe\n\x1b[2J\u202e"


# Parts of scenarios ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nonsense", [None, ["x"], {"run": "a", "made": -1}], ids=["none", "list", "below"])
def test_a_part_of_a_scenario_is_checked_and_its_misfit_named_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, nonsense: object
) -> None:
    taken: list[tuple[str, dict[str, object]]] = []
    made: list[Environment] = []
    changed: dict[str, object] = {}

    def prepare(environment: Environment) -> None:
        made.append(environment)
        part = {"run": "a", "made": len(made)}
        report_part(environment, "accounts", {"run": str, "made": int}, lambda: part, lambda *got: taken.append(got))
        if len(made) == 2:
            events: Any = environment.events
            events.report_to_master.add_listener(lambda data, **_: data.update(changed))

    with cluster(monkeypatch, [Asker], prepare) as net:
        spoiler, honest = (worker.runner.client_id for worker in net.workers)
        net.start(2, 100)
        eventually(lambda: net.runner.user_count == 2 and {client_id for client_id, _ in taken} == {spoiler, honest})
        changed["realism_kit_accounts"] = nonsense
        eventually(lambda: wire_of(net.master).refused.get(spoiler, 0) >= 3)
        taken.clear()
        eventually(lambda: len(taken) >= 3)
        named = [r.getMessage() for r in caplog.records if "does not fit" in r.getMessage()]
        assert len(named) == 1
        assert f"{spoiler} does not fit: realism_kit_accounts" in named[0]
        assert "part 'accounts' of the report is left out" in named[0]
        assert {client_id for client_id, _ in taken} == {honest}
        assert taken[0][1] == {"run": "a", "made": 3}
        assert not [r for r in caplog.records if r.exc_info and r.name == wire.__name__]


def test_a_part_of_a_scenario_has_plain_values() -> None:
    with pytest.raises(ValueError, match="key 'rows' has type <class 'list'>"):
        report_part(Environment(), "accounts", {"rows": list}, dict, lambda *_: None)


def test_a_master_that_was_restarted_requests_the_hello(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshakes, "GRACE_S", 0.1)
    with cluster(monkeypatch, [Asker], handshake, workers=1) as net:
        hellos, client_id = handshake(net.master), net.workers[0].runner.client_id
        eventually(lambda: hellos.reports(client_id))
        hellos.hellos.clear()
        net.master.events.worker_connect.fire(client_id=client_id)
        eventually(lambda: hellos.reports(client_id))


def test_a_worker_of_wire_1_gets_answers_under_its_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Release 0.1.0 sends a hello without data and probes under another name."""

    def prepare(environment: Environment) -> None:
        if environment.runner.__class__.__name__ == "MasterRunner":
            attach(environment)

    with cluster(monkeypatch, [Asker], prepare, workers=1) as net:
        worker, answers = net.workers[0].runner, []
        worker.register_message("locust_realism_clock", lambda msg, **_: answers.append(msg.data))
        worker.send_message("realism_hello", None)
        worker.send_message("locust_realism_clock", {"t0": 5})
        eventually(lambda: answers)
        assert answers[0]["t0"] == 5
        assert handshake(net.master).reports(worker.client_id)
        gevent.sleep(0)
