"""People with files on ownCloud, Nextcloud or another WebDAV server.

    locust -f scenarios/webdav.py                                         # on a server that starts with Locust
    locust -f scenarios/webdav.py --host http://owncloud.example:8080     # with LOCUST_DAV_ADMIN_USER and …_PASSWORD

An administrator creates each user. The user downloads a PDF (weight 3) and uploads a text file (weight 1), with
exponential think times between, and its account is deleted when it stops. After the fourth article on Locust by A.
Neumann (JankariTech, 2020: https://dev.to/jankaritech), whose two tasks are the default; ``--dav-weights`` adds others.
"""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gevent
from locust import HttpUser, TaskSet, events
from locust.clients import ResponseContextManager
from locust.env import Environment
from locust.exception import StopUser
from locust.runners import WorkerRunner

from locust_realism import ConstantRate, Population, install, lognormal
from locust_realism.kit import (
    RunId,
    connecting,
    embedded_target,
    is_stopping,
    preflight,
    sample_pdf,
    scenario_options,
    think_time_options,
)

try:
    from webdav_accounts import Account, Accounts
    from webdav_leftovers import Ledger, clean_up
    from webdav_options import OPTIONS, checked_weights, read_weights
    from webdav_preflight import check, settings_of
    from webdav_requests import hrefs, sending, without_cookies
except ImportError as missing:
    raise ImportError(
        f"{missing}: webdav.py needs the files webdav_*.py beside it, which a master does not send. Copy the folder "
        "scenarios to each worker's machine and start the worker with -f scenarios/webdav.py, not with -f -"
    ) from missing

logger = logging.getLogger(__name__)

PDF = "ownCloud Manual.pdf"
STORED = (200, 201, 204)


class WebdavUser(HttpUser):
    """User with an account and files."""

    population: Population
    account: Account
    has_account = False
    text_file: str | None = None
    manual: bytes | None = None
    manual_size: int | None = None

    def on_start(self) -> None:
        self.get_account()
        if not self.environment.parsed_options.dav_keep_cookies:
            without_cookies(self.client)
        self.client.verify = not self.environment.parsed_options.dav_insecure
        self.client.auth = (self.account.user, self.account.password)
        self.client.headers["Accept-Encoding"] = "identity"  # lengths are those of the files
        self.have_manual()

    def on_stop(self) -> None:
        if self.has_account:
            state.accounts.give_back(self.account)

    def get_account(self) -> None:
        """Request an account until there is one, with growing pauses; each refusal is a failure and is logged."""
        pause = 2.0
        while True:
            self.account, self.has_account = state.accounts.reserve(), True
            problem = state.accounts.make(self.account)
            if not problem:
                return
            state.accounts.give_back(self.account)
            logger.warning("No account for a user: %s. Next attempt in %g s.", problem, pause)
            for _ in range(int(pause * 4)):
                if is_stopping(self):
                    raise StopUser
                gevent.sleep(0.25)
            pause = min(2 * pause, 60.0)

    def have_manual(self) -> None:
        """Log in for the first time, which takes longer than later requests, and upload the PDF if it is missing."""
        with sending(self.client, "HEAD", self.url(PDF), "file (first login)", (200, 404)) as response:
            status, length = response.status_code, response.headers.get("Content-Length", "")
        if status == 200 and length.isdigit():
            self.manual_size = int(length)
        elif status == 404:
            manual = state.manual()
            with sending(self.client, "PUT", self.url(PDF), "file (first)", STORED, data=manual) as response:
                if response.status_code in STORED:
                    self.manual = manual

    def url(self, file: str) -> str:
        return f"{self.account.home}/{file.replace(' ', '%20')}"

    def get_file(self) -> None:
        with sending(self.client, "GET", self.url(PDF), "file", (200,)) as response:
            if response.status_code == 200:
                self.check_manual(response)

    def check_manual(self, response: ResponseContextManager) -> None:
        """Fail an answer 200 with another body than the PDF, such as a login page."""
        content = response.content
        if not content.startswith(b"%PDF"):
            response.failure(f"200, but no PDF: {response.headers.get('Content-Type', 'of no type')}")
        elif self.manual is None and self.manual_size in (None, len(content)):
            self.manual = state.known.setdefault(hash(content), content)
        elif content != self.manual:
            response.failure("200, but another PDF than the one that is there")

    def put_file(self) -> None:
        name = self.text_file or f"locust-performance-test-file-{uuid.uuid4()}.txt"
        with sending(self.client, "PUT", self.url(name), "file", STORED, data=b"my data") as response:
            if response.status_code in STORED:
                self.text_file = name

    def put_large_file(self) -> None:
        data = state.large(self.environment.parsed_options.dav_large_mb)
        with sending(self.client, "PUT", self.url("large.bin"), "large file", STORED, data=data):
            pass

    def list_folder(self) -> None:
        headers = {"Depth": "1"}
        with sending(self.client, "PROPFIND", self.url(""), "folder", (207,), headers=headers) as response:
            if response.status_code == 207:
                try:
                    hrefs(response.content)
                except ValueError as error:
                    response.failure(f"207, but {error}")

    def make_folder(self) -> None:
        with sending(self.client, "MKCOL", self.url(f"folder-{uuid.uuid4()}"), "folder", (201,)):
            pass

    def move_file(self) -> None:
        old, new = self.some_file(), f"moved-{uuid.uuid4()}.txt"
        if old is None:
            return
        headers = {"Destination": self.client.base_url + self.url(new), "Overwrite": "F"}
        with sending(self.client, "MOVE", self.url(old), "file", (201, 204), headers=headers) as response:
            if response.status_code in (201, 204):
                self.text_file = new

    def delete_file(self) -> None:
        old = self.some_file()
        if old is None:
            return
        with sending(self.client, "DELETE", self.url(old), "file", (200, 204)) as response:
            if response.status_code in (200, 204):
                self.text_file = None

    def some_file(self) -> str | None:
        """Return the name of the user's text file, uploaded first if there is none."""
        if self.text_file is None:
            self.put_file()
        return self.text_file


OPERATIONS: dict[str, Callable[..., Any]] = {
    "get": WebdavUser.get_file,
    "put": WebdavUser.put_file,
    "list": WebdavUser.list_folder,
    "mkcol": WebdavUser.make_folder,
    "move": WebdavUser.move_file,
    "delete": WebdavUser.delete_file,
    "put-large": WebdavUser.put_large_file,
}


def tasks(weights: str) -> list[TaskSet | Callable[..., Any]]:
    """Return the tasks of ``get=3,put=1``, each as often as its weight."""
    return [OPERATIONS[name] for name in read_weights(weights)]


WebdavUser.tasks = tasks("get=3,put=1")


class Shared:
    """State that the users of this process share."""

    accounts: Accounts
    known: dict[int, bytes]
    _manual = _large = b""

    def manual(self) -> bytes:
        """Return the PDF for servers that put none into a new home."""
        self._manual = self._manual or sample_pdf(1_000_000)
        return self._manual

    def large(self, millions: float) -> bytes:
        """Return the content of the large file, ``millions`` of bytes."""
        self._large = self._large or os.urandom(int(millions * 1_000_000))
        return self._large


state = Shared()


@events.init.add_listener
def only_clean_up(environment: Environment, **_: object) -> None:
    """Remove leftovers instead of running a test (``--dav-cleanup``)."""
    assert environment.parsed_options is not None
    which = environment.parsed_options.dav_cleanup
    if which is None:
        return
    if isinstance(environment.runner, WorkerRunner):
        raise SystemExit(0)
    problem = ready(environment, environment.host or "", {})
    if problem:
        logger.error(problem)
    raise SystemExit(1 if problem else clean_up(settings_of(environment), which))


def log_in_as_embedded_admin(environment: Environment, details: Mapping[str, Any]) -> None:
    assert environment.parsed_options is not None
    environment.parsed_options.dav_embedded_admin = (details["admin_user"], details["admin_password"])


def ready(environment: Environment, host: str, form: Mapping[str, str]) -> str:
    return check(environment, host, form, {"dav_weights": checked_weights})


@events.init.add_listener
def people_who_come_and_go(environment: Environment, **_: object) -> None:
    """Set a population instead of a number of users (``--dav-arrivals``)."""
    options = environment.parsed_options
    assert options is not None
    if options.dav_arrivals is not None:
        stay = lognormal(options.dav_session, cov=1.2)
        with connecting(environment):
            WebdavUser.population = Population(ConstantRate(options.dav_arrivals), session_duration=stay)


install()
scenario_options("WebDAV scenario", OPTIONS)
think_time_options(WebdavUser, mean=1)
embedded_target(
    Path(__file__).with_name("targets") / "webdav_server.py", ["--admin", "admin"], on_ready=log_in_as_embedded_admin
)
preflight(ready)
ledger = Ledger()
events.init.add_listener(ledger.connect)
events.test_stop.add_listener(ledger.close)


@events.test_start.add_listener
def set_up(environment: Environment, **_: object) -> None:
    options, runner = environment.parsed_options, environment.runner
    assert options is not None
    environment.host = (environment.host or "").rstrip("/")
    if not isinstance(runner, WorkerRunner):
        options.dav_run = str(RunId.new(os.getpid()))
        logger.info("Users of this run are named %s-…", options.dav_run)
    state.accounts = Accounts(settings_of(environment), getattr(runner, "worker_index", 0), environment.events.request)
    state.known, state._large = {}, b""
    ledger.open(state.accounts)
    WebdavUser.tasks = tasks(options.dav_weights)
