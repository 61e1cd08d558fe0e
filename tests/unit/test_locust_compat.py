"""The seam to Locust: private names and patches stand in one module, and their absence costs a warning only."""

from __future__ import annotations

import ast
import logging
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace as changed
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from locust.event import EventHook

import locust_realism
from locust_realism.runtime import locust_compat
from locust_realism.runtime.locust_compat import METHODS, NAMES

PACKAGE = Path(locust_realism.__file__).parent
SEAM = "runtime/locust_compat.py"
HOST = ("locust", "gevent", "argparse", "configargparse", "flask")


# One module has them all ----------------------------------------------------------------------------------------------


def private_name(name: str) -> bool:
    """Return True for a private attribute; dunder names and those of named tuples are Python's own."""
    return name.startswith("_") and not name.endswith("__") and name not in ("_replace", "_asdict", "_fields")


def defined_names(tree: ast.AST) -> set[str]:
    """Return the private names that a module defines: functions, attributes of self, class bodies, __slots__."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and is_own(node.value):
            found.add(node.attr)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return found


def is_own(node: ast.expr) -> bool:
    """Return True for ``self``, ``cls`` and ``super()``."""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id == "super"
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def host_names(tree: ast.AST) -> set[str]:
    """Return the names that a module binds by imports of Locust, gevent, argparse or Flask."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {(alias.asname or alias.name).split(".")[0] for alias in node.names if is_host(alias.name)}
        elif isinstance(node, ast.ImportFrom) and is_host(node.module or ""):
            found |= {alias.asname or alias.name for alias in node.names}
    return found


def is_host(module: str) -> bool:
    return module.split(".")[0] in HOST


def root(node: ast.expr) -> str:
    """Return the first name of a dotted expression: ``locust`` of ``locust.runners.Runner``."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def offences(source: str, elsewhere: set[str]) -> Iterator[str]:
    """Yield the line and the name of each use of Locust's private names, and of each patch, in a module's source.

    ``elsewhere`` are the private names that other modules of the package define: subclasses of theirs use them.
    """
    tree = ast.parse(source)
    own, host = defined_names(tree), host_names(tree)
    listed = {seam.attribute for seam in [*METHODS.values(), *NAMES.values()] if private_name(seam.attribute)}
    texts = listed | {NAMES["WebUI view locust.swarm"].attribute, "last_received_spawn_timestamp"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and private_name(node.attr) and node.attr not in own:
            ours = node.attr in elsewhere and (is_own(node.value) or not host)
            if not ours or node.attr in listed:
                yield f"{node.lineno}: {node.attr}"
        if isinstance(node, ast.Attribute) and node.attr in ("last_received_spawn_timestamp", "dispatcher_class"):
            yield f"{node.lineno}: {node.attr}"
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in texts:
            yield f"{node.lineno}: {node.value!r}"
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and root(node.value) in host:
            yield f"{node.lineno}: {ast.unparse(node)} = ..."
        if isinstance(node, ast.Call) and root(node.func) == "setattr" and root(node.args[0]) in host:
            yield f"{node.lineno}: {ast.unparse(node)}"
        if isinstance(node, ast.ImportFrom) and is_host(node.module or ""):
            for alias in node.names:
                if private_name(alias.name) or alias.name == "get_original":
                    yield f"{node.lineno}: import {alias.name}"


def test_no_other_module_has_a_private_name_or_a_patch() -> None:
    folders = (PACKAGE, Path(__file__).parents[2] / "scenarios")
    paths = {path: path.read_text() for folder in folders for path in sorted(folder.rglob("*.py"))}
    defined = set().union(*(defined_names(ast.parse(source)) for source in paths.values()))
    others = {path: source for path, source in paths.items() if path != PACKAGE / SEAM}
    found = [f"{path}:{each}" for path, source in others.items() for each in offences(source, defined)]
    assert found == [], "\n".join(found)


def test_the_search_finds_each_kind_of_use() -> None:
    """Negative control: one line of each kind."""
    source = textwrap.dedent("""
        import argparse
        from gevent.monkey import get_original
        from locust import User, runners
        from locust.user.task import _private

        class Mine:
            _state = 1

        def use(user, runner, parser, environment, hook, Local):
            user._greenlet
            getattr(user, "_task_queue")
            runner._send_stats()
            runner.last_received_spawn_timestamp = 0
            parser._get_formatter()
            environment.dispatcher_class = None
            User.start = None
            runners.WORKER_REPORT_INTERVAL = 1
            setattr(User, "stop", None)
            web.app.view_functions["locust.swarm"]
            self._inherited, self._handlers
            Mine()._state, Local.value, user.environment, user.__dict__
    """)
    found = {text.partition(": ")[2] for text in offences(source, {"_inherited"})}
    assert found == {
        "import get_original", "import _private", "_greenlet", "'_task_queue'", "_send_stats",
        "last_received_spawn_timestamp", "_get_formatter", "dispatcher_class", "User.start = ...",
        "runners.WORKER_REPORT_INTERVAL = ...", "setattr(User, 'stop', None)", "'locust.swarm'", "_handlers",
    }  # fmt: skip


def test_the_seam_imports_nothing_else_of_the_package() -> None:
    tree = ast.parse((PACKAGE / SEAM).read_text())
    imported = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not [module for module in imported if module.startswith("locust_realism")]


@pytest.mark.parametrize("name", [*METHODS, *NAMES])
def test_each_name_has_its_reason_its_version_and_the_loss(name: str) -> None:
    seam = METHODS.get(name) or NAMES[name]
    assert seam.why.endswith(".")
    assert seam.since.startswith("2.")
    assert seam.loss
    if name in METHODS:
        assert hasattr(seam.resolve(), seam.attribute), f"this Locust has no {name}"


# Absent names ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def warned(caplog: pytest.LogCaptureFixture) -> Any:
    """Return a function that asserts one warning with the loss of a name."""
    locust_compat.warn_absent.cache_clear()

    def check(name: str) -> None:
        texts = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
        seam = METHODS.get(name) or NAMES[name]
        assert len([text for text in texts if name in text and seam.loss in text]) == 1, texts

    return check


@contextmanager
def renamed(monkeypatch: pytest.MonkeyPatch, name: str) -> Iterator[None]:
    """Have the seam find no attribute for a name, as in a Locust that calls it otherwise."""
    table = METHODS if name in METHODS else NAMES
    with monkeypatch.context() as patch:
        patch.setitem(table, name, changed(table[name], attribute="_gone_from_this_locust"))
        yield


@pytest.mark.parametrize("name", METHODS)
def test_an_absent_method_is_a_warning(name: str, monkeypatch: pytest.MonkeyPatch, warned: Any) -> None:
    with renamed(monkeypatch, name):
        assert not locust_compat.replace(name, lambda original: original)
        assert not locust_compat.replace(name, lambda original: original)
    warned(name)


def test_an_absent_class_or_module_is_a_warning(monkeypatch: pytest.MonkeyPatch, warned: Any) -> None:
    for owner in ("locust:Gone", "locust.gone:User"):
        monkeypatch.setitem(METHODS, "User.start", changed(METHODS["User.start"], owner=owner))
        assert not locust_compat.replace("User.start", lambda original: original)
    warned("User.start")


def test_without_a_hook_of_its_clients_requests_are_not_counted(monkeypatch: pytest.MonkeyPatch, warned: Any) -> None:
    name = "fasthttp.ResponseContextManager._report_request"
    with renamed(monkeypatch, name):
        assert not locust_compat.count_requests(SimpleNamespace())
    warned(name)


def test_a_second_replacement_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    class Owner:
        def method(self) -> int:
            """Return one."""
            return 1

    monkeypatch.setitem(METHODS, "Owner.method", changed(METHODS["User.start"], attribute="method"))
    monkeypatch.setattr(locust_compat.Seam, "resolve", lambda seam: Owner)
    for _ in range(2):
        assert locust_compat.replace("Owner.method", lambda method: lambda self: method(self) + 1)
    assert Owner().method() == 2
    assert Owner.method.__doc__ == "Return one."


def test_without_the_state_of_a_user_it_counts_as_running(warned: Any) -> None:
    user: Any = SimpleNamespace()
    assert locust_compat.user_state(user) == "running"
    assert not locust_compat.is_stopping(user)
    locust_compat.protect_on_stop(user)
    warned("User._state")


def test_a_delayed_start_waits_and_goes_on_without_the_time_of_pacing(warned: Any) -> None:
    user: Any = SimpleNamespace(_cp_last_run=0.0)
    with locust_compat.delaying_start(user):
        assert locust_compat.user_state(user) == "waiting"
        assert user._cp_last_run == 0.0
    assert user._cp_last_run > 0.0
    with locust_compat.delaying_start(SimpleNamespace()):  # type: ignore[arg-type]
        pass
    warned("User._cp_last_run")


def test_without_a_task_queue_each_task_counts(warned: Any) -> None:
    task_set: Any = SimpleNamespace()
    assert locust_compat.next_task(task_set) is None
    warned("TaskSet._task_queue")
    task_set._task_queue = ["first", "second"]
    assert locust_compat.next_task(task_set) == "first"


def test_a_listener_that_cannot_be_first_is_last(monkeypatch: pytest.MonkeyPatch, warned: Any) -> None:
    calls: list[str] = []
    hook = EventHook()
    hook.add_listener(lambda: calls.append("second"))
    locust_compat.add_first(hook, lambda: calls.append("first"))
    with renamed(monkeypatch, "EventHook._handlers"):
        locust_compat.add_first(hook, lambda: calls.append("last"))
    hook.fire()
    assert calls == ["first", "second", "last"]
    warned("EventHook._handlers")


def test_without_the_event_of_a_block_its_request_is_reported_all_the_same(warned: Any) -> None:
    counters: Any = SimpleNamespace(event="event", reported_blocks=0)
    report = locust_compat._reporting(counters, lambda block: "reported")
    assert report(SimpleNamespace(_request_event="event")) == "reported"
    assert report(SimpleNamespace()) == "reported"
    assert counters.reported_blocks == 1
    warned("ResponseContextManager._request_event")


def test_without_the_time_of_spawn_messages_a_worker_goes_on(warned: Any) -> None:
    worker: Any = SimpleNamespace(last_received_spawn_timestamp=5)
    locust_compat.accept_users(worker, False)
    assert worker.last_received_spawn_timestamp == float("inf")
    locust_compat.accept_users(worker, True)
    assert worker.last_received_spawn_timestamp == 0
    locust_compat.accept_users(SimpleNamespace(), True)  # type: ignore[arg-type]
    warned("WorkerRunner.last_received_spawn_timestamp")


def test_without_a_view_of_the_start_form_nothing_is_checked(warned: Any) -> None:
    web_ui: Any = SimpleNamespace(app=SimpleNamespace(extensions={}, view_functions={}))
    locust_compat.check_start(web_ui, lambda fields: None)
    assert web_ui.app.view_functions == {}
    warned("WebUI view locust.swarm")


def test_a_listener_is_added_once() -> None:
    hook, calls = EventHook(), []

    def listener() -> None:
        calls.append(1)

    assert locust_compat.add_once(hook, listener)
    assert not locust_compat.add_once(hook, listener)
    hook.fire()
    assert calls == [1]


# Start checks ---------------------------------------------------------------------------------------------------------


def test_the_start_form_is_wrapped_once_and_all_checks_run_before_any_context(monkeypatch: pytest.MonkeyPatch) -> None:
    from flask import Flask

    app, calls, wrapped = Flask("test"), [], []
    app.add_url_rule("/swarm", "locust.swarm", lambda: calls.append("swarm") or "started", methods=["POST"])
    web_ui: Any = SimpleNamespace(
        app=app,
        environment=SimpleNamespace(host="http://host"),
        auth_required_if_enabled=lambda view: wrapped.append(view) or view,
    )

    @contextmanager
    def around(name: str) -> Iterator[None]:
        calls.append(f"{name} begins")
        yield
        calls.append(f"{name} ends")

    def refuse_zero(fields: Any) -> None:
        calls.append("check")
        if fields["users"] == "0":
            raise ValueError("users must be > 0")

    locust_compat.check_start(web_ui, lambda fields: around("context"))
    locust_compat.check_start(web_ui, refuse_zero)
    assert len(wrapped) == 1
    client = app.test_client()
    answer = client.post("/swarm", data={"users": "0"}).get_json()
    assert answer == {"success": False, "message": "users must be > 0", "host": "http://host"}
    assert calls == ["check"]
    calls.clear()
    assert client.post("/swarm", data={"users": "1"}).text == "started"
    assert calls == ["check", "context begins", "swarm", "context ends"]


# A run without any of them --------------------------------------------------------------------------------------------

RUN = """
from dataclasses import replace
from locust_realism.runtime import locust_compat
for table in (locust_compat.METHODS, locust_compat.NAMES):
    for name in table:
        table[name] = replace(table[name], attribute="_gone_from_this_locust")

import gevent
from locust import User, constant, events, task
from locust.env import Environment
from locust_realism import install

install()

class Visitor(User):
    wait_time = constant(0.05)

    @task
    def look(self):
        self.environment.events.request.fire(
            request_type="GET", name="look", response_time=1.0, response_length=1, context={}, exception=None
        )

environment = Environment(user_classes=[Visitor], events=events)
environment.create_local_runner()
web_ui = environment.create_web_ui("127.0.0.1", 0, delayed_start=True)
events.init.fire(environment=environment, runner=environment.runner, web_ui=web_ui)
environment.runner.start(2, 100)
gevent.sleep(3)  # rows are collected once a second; without _handlers the report may precede the last ones
environment.runner.quit()
events.quitting.fire(environment=environment, reverse=True)
events.quit.fire(exit_code=0)
logging.shutdown()
os._exit(0)  # gevent 25.9, which Locust 2.43 installs, prints a traceback of its own when the interpreter ends
"""


def test_a_run_goes_on_where_locust_has_none_of_the_names(tmp_path: Path) -> None:
    """Two users of a Locust that renamed everything: their requests are in the figures, each loss has one warning."""
    done = subprocess.run(
        [sys.executable, "-c", "import logging, os; logging.basicConfig(level=logging.INFO)\n" + RUN],
        capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert "Traceback" not in done.stderr, done.stderr[-3000:]
    lost = [line for line in done.stderr.splitlines() if " has no " in line and "locust_realism: Locust" in line]
    assert len(lost) == len(set(lost))
    for name in ("User.start", "TaskSet.wait", "HttpSession.request", "EventHook._handlers", "WebUI view locust.swarm"):
        assert any(name in line for line in lost), name
    assert "Response times (ms)" in done.stderr
