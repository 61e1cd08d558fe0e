"""The one seam to Locust and gevent: every method that is replaced and every private name that is read.

:data:`METHODS` and :data:`NAMES` list them, each with its reason, the oldest Locust that has it, and the loss where it
is absent. An absent name costs one warning in the log and that feature; the run goes on. The functions take callables
and return plain values; this module imports nothing else of the package. A test finds each of these names elsewhere.

2.43 is the oldest supported Locust; most names are older. Every entry was checked on 2.43 and on 2.47.
"""

from __future__ import annotations

import functools
import logging
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pkgutil import resolve_name
from types import FrameType
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar
from weakref import WeakKeyDictionary

import locust
from gevent.monkey import get_original
from locust.user.task import LOCUST_STATE_RUNNING, LOCUST_STATE_STOPPING, LOCUST_STATE_WAITING

if TYPE_CHECKING:
    from argparse import Action

    from locust import TaskSet, User
    from locust.env import Environment
    from locust.event import EventHook
    from locust.runners import WorkerRunner
    from locust.web import WebUI

logger = logging.getLogger(__name__)

T = TypeVar("T")
Method = Callable[..., Any]


@dataclass(frozen=True)
class Seam:
    """One name of Locust: its owner, the reason, the loss without it, and the oldest checked version that has it."""

    owner: str
    attribute: str
    why: str
    loss: str
    since: str = "2.43"

    def resolve(self) -> object:
        """Return the owner, None where this Locust has none."""
        try:
            return resolve_name(self.owner)
        except (ImportError, AttributeError):
            return None


# fmt: off
METHODS: dict[str, Seam] = {
    "User.start": Seam("locust:User", "start",
        why="Locust has no event for the start of one user; here its greenlet exists and has not run yet.",
        loss="users have no sessions: populations cannot run, and slots and session figures are missing"),
    "User.run": Seam("locust:User", "run",
        why="Locust starts the users of a second at one instant; a delay before on_start spreads them over the second.",
        loss="users who are started together begin together, in lumps of launches"),
    "TaskSet.execute_next_task": Seam("locust:TaskSet", "execute_next_task",
        why="Locust has no event for the begin and the end of a task.",
        loss="tasks of a session are not counted, and session_length does not end it"),
    "TaskSet.wait": Seam("locust:TaskSet", "wait",
        why="A session that is over must not begin another wait.",
        loss="a session that is over sleeps its last wait"),
    "TaskSet._sleep": Seam("locust:TaskSet", "_sleep",
        why="Locust sleeps in whole milliseconds, and a session may end within a wait, whose length only this gets.",
        loss="think times end late, and a session that ends in a wait lasts until the wait is over"),
    "DefaultTaskSet.on_start": Seam("locust.user.task:DefaultTaskSet", "on_start",
        why="Locust launches a user's first task at once; a paced wait plans that launch too.",
        loss="the first task of each user is launched before its paced wait"),
    "HttpSession.request": Seam("locust.clients:HttpSession", "request",
        why="Locust reports a request when it has ended; one that is aborted in flight is in no statistics.",
        loss="aborted requests of HttpUser are not counted"),
    "FastHttpSession.request": Seam("locust.contrib.fasthttp:FastHttpSession", "request",
        why="As HttpSession.",
        loss="aborted requests of FastHttpUser are not counted"),
    "clients.ResponseContextManager._report_request": Seam("locust.clients:ResponseContextManager", "_report_request",
        why="A request in a with block is reported at the block's end, which only this method marks.",
        loss="aborted requests of HttpUser are not counted"),
    "fasthttp.ResponseContextManager._report_request": Seam(
        "locust.contrib.fasthttp:ResponseContextManager", "_report_request",
        why="As in locust.clients.",
        loss="aborted requests of FastHttpUser are not counted"),
    "argument_parser.default_args_dict": Seam("locust.argument_parser", "default_args_dict",
        why="Up to 2.47 a worker builds Locust's parser once for every option at each spawn message: 0.2 to 0.4 s "
        "without a launch. The options do not change while Locust runs, so the answer is cached.",
        loss="each spawn message stops a worker for a moment"),
}
"""Methods and functions of Locust that :func:`replace` replaces."""

NAMES: dict[str, Seam] = {
    "User._state": Seam("locust:User", "_state",
        why="Locust has no public sign of a user that is to stop, and kills one that it sees waiting, in on_stop too.",
        loss="endings of sessions are reported as StopUser instead of stopped, and a stop may end on_stop early"),
    "User._cp_last_run": Seam("locust:User", "_cp_last_run",
        why="constant_pacing counts from here, the creation of the user, and would take a delayed start for a task.",
        loss="users with constant_pacing whose start was delayed have their second tasks together"),
    "TaskSet._task_queue": Seam("locust:TaskSet", "_task_queue",
        why="The head of the queue is the next task; a nested TaskSet does not count as a task.",
        loss="each nested TaskSet counts as one more task of its session"),
    "EventHook._handlers": Seam("locust.event:EventHook", "_handlers",
        why="Locust fires quitting in reverse, and add_listener() cannot add in front.",
        loss="the final report is computed before the users have stopped: the last rows may be missing in it"),
    "ResponseContextManager._request_event": Seam("locust.clients:ResponseContextManager", "_request_event",
        why="Requests that a client reports to another event (preparations) must not count.",
        loss="requests in a with block count as waiting for its end until the test ends"),
    "WorkerRunner.last_received_spawn_timestamp": Seam("locust.runners:WorkerRunner", "last_received_spawn_timestamp",
        why="Locust drops spawn messages older than this; a worker that is ending uses it to drop those of a ramp.",
        loss="a worker may start users of a ramp that the master is stopping"),
    "WebUI view locust.swarm": Seam("locust.web:WebUI", "locust.swarm",
        why="The start form has no event that may refuse a start with a message.",
        loss="the start form accepts values that the command line refuses, and no check runs before the start"),
}
# fmt: on
"""Private or undocumented names of Locust that are read or set."""

_HOOKED = "_realism_hook"


@functools.cache
def warn_absent(name: str) -> None:
    """Log once that this Locust lacks a name, and the loss."""
    seam = METHODS.get(name) or NAMES[name]
    logger.warning("locust_realism: Locust %s has no %s: %s", locust.__version__, name, seam.loss)


# Methods that are replaced --------------------------------------------------------------------------------------------


def replace(name: str, make: Callable[[Method], Method]) -> bool:
    """Replace one of :data:`METHODS` by ``make(original)``; a second call changes nothing.

    Returns False, with a warning, where this Locust lacks the method.
    """
    seam = METHODS[name]
    owner = seam.resolve()
    original: Method | None = getattr(owner, seam.attribute, None)
    if original is None:
        warn_absent(name)
        return False
    if not hasattr(original, _HOOKED):
        replacement = functools.wraps(original)(make(original))
        setattr(replacement, _HOOKED, True)
        setattr(owner, seam.attribute, replacement)
    return True


def cache_own_options() -> None:
    """Build Locust's own options once instead of at each spawn message of a worker."""
    if replace("argument_parser.default_args_dict", functools.cache):
        locust.argument_parser.default_args_dict()


_BLOCKS = tuple(name for name in METHODS if name.endswith("._report_request"))


class ClientCounters(Protocol):
    """Counts of the requests that Locust's HTTP clients report to ``event``; each is one addition on the hot path."""

    event: object
    sent: int
    returned: int
    aborted: int
    blocks: int
    reported_blocks: int


def count_requests(counters: ClientCounters) -> bool:
    """Count the requests of HttpSession and FastHttpSession from now on; False where one of the hooks is absent.

    ``blocks`` counts the answers that are reported when their with block ends. A second call must pass the same object.
    """
    hooks = dict.fromkeys(("HttpSession.request", "FastHttpSession.request"), _counting)
    hooks |= dict.fromkeys(_BLOCKS, _reporting)
    missing = [name for name in hooks if not hasattr(METHODS[name].resolve(), METHODS[name].attribute)]
    for name in missing:
        warn_absent(name)
    return not missing and all(replace(name, functools.partial(wrap, counters)) for name, wrap in hooks.items())


def _counting(counters: ClientCounters, method: Method) -> Method:
    blocks = tuple(METHODS[name].resolve() for name in _BLOCKS)

    def counted_request(self: Any, *arguments: Any, **named: Any) -> Any:
        if self.request_event is not counters.event:
            return method(self, *arguments, **named)
        counters.sent += 1
        try:
            response = method(self, *arguments, **named)
        except BaseException:
            # GreenletExit when the user is killed; Locust reports no other exception that leaves the client either
            counters.aborted += 1
            raise
        counters.returned += 1
        if type(response) in blocks:
            # HttpUser's answers without catch_response are blocks too, and have ended
            counters.blocks += 1
        return response

    return counted_request


def _reporting(counters: ClientCounters, method: Method) -> Method:
    def counted_report(self: Any, *arguments: Any, **named: Any) -> Any:
        try:
            counters.reported_blocks += self._request_event is counters.event
        except AttributeError:
            warn_absent("ResponseContextManager._request_event")
        return method(self, *arguments, **named)

    return counted_report


def wrap_dispatcher(environment: Environment, wrap: Callable[[Method], Method]) -> None:
    """Replace the dispatcher class of an Environment's runner by ``wrap(present class)``."""
    environment.dispatcher_class = wrap(environment.dispatcher_class)  # type: ignore[assignment]


# Users and task sets --------------------------------------------------------------------------------------------------


def user_state(user: User) -> str | None:
    """Return Locust's state of a user: None before it runs, else running, waiting or stopping."""
    try:
        return user._state
    except AttributeError:
        warn_absent("User._state")
        return LOCUST_STATE_RUNNING


def is_stopping(user: User) -> bool:
    """Return True if Locust stops the user after its present task."""
    return user_state(user) == LOCUST_STATE_STOPPING


def protect_on_stop(user: User) -> None:
    """Let a user that leaves by itself finish its on_stop: Locust kills a waiting user, with --stop-timeout too."""
    if not is_stopping(user):
        user._state = LOCUST_STATE_RUNNING


@contextmanager
def delaying_start(user: User) -> Iterator[None]:
    """Let Locust take a user that has not begun for a waiting one, which it may kill; pacing begins at the end."""
    user._state = LOCUST_STATE_WAITING
    began = time.perf_counter()
    yield
    if hasattr(user, "_cp_last_run"):
        user._cp_last_run += time.perf_counter() - began  # of time.time() in some versions
    else:
        warn_absent("User._cp_last_run")


def next_task(task_set: TaskSet) -> object:
    """Return the task that a TaskSet executes next, None where its queue is empty."""
    try:
        queue = task_set._task_queue
    except AttributeError:
        warn_absent("TaskSet._task_queue")
        return None
    return queue[0] if queue else None


# Events, runners and the web UI ---------------------------------------------------------------------------------------

_added: WeakKeyDictionary[EventHook, set[Callable[..., object]]] = WeakKeyDictionary()


def describe_field(action: Action, *, on_form: bool, is_secret: bool = False) -> None:
    """Set what Locust's ``add_argument`` sets for the start form; that of an argument group refuses the keywords."""
    vars(action).update(include_in_web_ui=on_form, is_secret=is_secret, is_required=False, is_multiple=False)


def add_once(hook: EventHook, listener: Callable[..., object]) -> bool:
    """Add a listener to an event unless this function has added it before; return True if it was added."""
    if listener in (listeners := _added.setdefault(hook, set())):
        return False
    listeners.add(listener)
    hook.add_listener(listener)
    return True


def add_first(hook: EventHook, listener: Callable[..., object]) -> None:
    """Add a listener in front of all others of an event; ``quitting``, which fires in reverse, calls it last."""
    handlers = getattr(hook, NAMES["EventHook._handlers"].attribute, None)
    if isinstance(handlers, list):
        handlers.insert(0, listener)
    else:
        warn_absent("EventHook._handlers")
        hook.add_listener(listener)


def send_report(runner: WorkerRunner) -> None:
    """Send a worker's report to the master now, as Locust does every 3 s and at the end of a worker."""
    data: dict[str, object] = {}
    runner.environment.events.report_to_master.fire(client_id=runner.client_id, data=data)
    runner.send_message("stats", data)


def accept_users(runner: WorkerRunner, accept: bool) -> None:
    """Let a worker obey spawn messages, or drop them until the next call."""
    name = NAMES["WorkerRunner.last_received_spawn_timestamp"].attribute
    if hasattr(runner, name):
        setattr(runner, name, 0 if accept else float("inf"))
    else:
        warn_absent("WorkerRunner.last_received_spawn_timestamp")


StartCheck = Callable[[Mapping[str, str]], "AbstractContextManager[object] | None"]
"""Takes the fields of the start form; raises ValueError to refuse the start, may return a context that surrounds it."""


def check_start(web_ui: WebUI, check: StartCheck) -> None:
    """Run ``check(fields)`` at each start and edit from the web UI; the form shows the message of its ValueError.

    Checks run in the order in which they were added, before the context of any is entered. Locust's handler is wrapped
    once for all of them.
    """
    app = web_ui.app
    if app is None:
        return
    checks: list[StartCheck] = app.extensions.setdefault("locust_realism.start_checks", [])
    checks.append(check)
    if len(checks) > 1:
        return
    view = NAMES["WebUI view locust.swarm"].attribute
    swarm = app.view_functions.get(view)
    if swarm is None:
        warn_absent("WebUI view locust.swarm")
        return

    def checked_swarm() -> Any:
        from flask import jsonify, request

        try:
            contexts = [check(request.form) for check in checks]
        except ValueError as error:
            return jsonify({"success": False, "message": str(error), "host": web_ui.environment.host})
        with ExitStack() as stack:
            for context in contexts:
                if context is not None:
                    stack.enter_context(context)
            return swarm()

    app.view_functions[view] = web_ui.auth_required_if_enabled(checked_swarm)


class PerEnvironment(Generic[T]):
    """Value of each Environment, kept in its ``__dict__`` and made at its first use; a read takes about 0.1 us.

    >>> from types import SimpleNamespace
    >>> counts, environment = PerEnvironment("counts", lambda environment: [0]), SimpleNamespace()
    >>> counts.get(environment) is None, counts.of(environment), counts.get(environment)
    (True, [0], [0])
    """

    def __init__(self, name: str, make: Callable[[Environment], T]) -> None:
        self._key = f"_realism_{name}"
        self._make = make

    def get(self, environment: Environment) -> T | None:
        """Return the value, None where it has not been made."""
        return environment.__dict__.get(self._key)

    def of(self, environment: Environment) -> T:
        """Return the value, made at the first call."""
        try:
            value: T = environment.__dict__[self._key]
        except KeyError:
            value = environment.__dict__[self._key] = self._make(environment)
        return value


# gevent ---------------------------------------------------------------------------------------------------------------


native_lock: Callable[[], AbstractContextManager[bool]] = get_original("threading", "Lock")
"""Makes a lock of the operating system's threads: gevent's own, which Locust patches in, is for greenlets."""
native_sleep: Callable[[float], None] = get_original("time", "sleep")
"""Blocks the calling thread for so many seconds, the event loop too if it runs there."""
native_ident: Callable[[], int] = get_original("threading", "get_ident")
"""Returns the key of the calling thread in ``sys._current_frames()``; gevent's own is that of the greenlet."""
native_thread_id: Callable[[], int] = get_original("threading", "get_native_id")
"""Returns the kernel's id of the calling thread."""
start_native_thread: Callable[[Callable[[], None], tuple[()]], int] = get_original("_thread", "start_new_thread")
"""Runs a function in a thread of the operating system, which ends with the process."""


def thread_stack(ident: int) -> FrameType | None:
    """Return the innermost frame of a native thread by its key; None if it runs no Python code."""
    return sys._current_frames().get(ident)
