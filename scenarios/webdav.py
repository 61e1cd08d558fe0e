"""People with files on ownCloud, Nextcloud or another WebDAV server.

    locust -f scenarios/webdav.py                                         # on a server that starts with Locust
    locust -f scenarios/webdav.py --host http://owncloud.example:8080     # with LOCUST_DAV_ADMIN_USER and …_PASSWORD

Each user is made by an administrator, downloads a PDF (weight 3) and uploads a text file (weight 1), with exponential
think times between, and is deleted when it stops. After the fourth article on Locust by A. Neumann (JankariTech, 2020:
https://dev.to/jankaritech), whose two tasks are the default; ``--dav-weights`` adds what else people do with files.
"""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gevent
from locust import HttpUser, events
from locust.exception import StopUser
from locust.runners import WorkerRunner
from locust.user.task import LOCUST_STATE_STOPPING

from locust_realism import ConstantRate, Population, install, lognormal
from locust_realism.runtime.embedded import embedded_target
from locust_realism.runtime.plan import connecting
from locust_realism.runtime.preflight import preflight
from locust_realism.runtime.runid import RunId
from locust_realism.runtime.sample_pdf import sample_pdf
from locust_realism.runtime.scenario_options import scenario_options
from locust_realism.runtime.think_time import think_time_options

try:
    from webdav_accounts import Account, Accounts
    from webdav_leftovers import Ledger, clean_up
    from webdav_options import OPTIONS, checked_weights, read_weights
    from webdav_preflight import check, settings_of
    from webdav_requests import asking, hrefs, without_cookies
except ImportError as missing:
    raise ImportError(
        f"{missing}: webdav.py needs the files webdav_*.py beside it, which a master does not hand out. On each "
        "worker's machine, have the folder scenarios and start the worker with -f scenarios/webdav.py, not with -f -"
    ) from missing

logger = logging.getLogger(__name__)

PDF = "ownCloud Manual.pdf"
STORED = (200, 201, 204)


class WebdavUser(HttpUser):
    """Somebody with an account and files."""

    account: Account | None = None
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
        if self.account is not None:
            state.accounts.give_back(self.account)

    def get_account(self) -> None:
        """Ask for an account until there is one, ever less often; each refusal is counted as a failure and told."""
        pause = 2.0
        while True:
            self.account = state.accounts.reserve()
            problem = state.accounts.make(self.account)
            if not problem:
                return
            state.accounts.give_back(self.account)
            logger.warning("No account for a user: %s. Asked again in %g s.", problem, pause)
            for _ in range(int(pause * 4)):
                if self._state == LOCUST_STATE_STOPPING:
                    raise StopUser
                gevent.sleep(0.25)
            pause = min(2 * pause, 60.0)

    def have_manual(self) -> None:
        """Log in for the first time, which costs more than later requests, and upload the PDF if it is not there."""
        with asking(self.client, "HEAD", self.url(PDF), "file (first login)", (200, 404)) as response:
            status, length = response.status_code, response.headers.get("Content-Length", "")
        if status == 200 and length.isdigit():
            self.manual_size = int(length)
        elif status == 404:
            manual = state.manual()
            with asking(self.client, "PUT", self.url(PDF), "file (first)", STORED, data=manual) as response:
                if response.status_code in STORED:
                    self.manual = manual

    def url(self, file: str) -> str:
        return f"{self.account.home}/{file.replace(' ', '%20')}"

    def get_file(self) -> None:
        with asking(self.client, "GET", self.url(PDF), "file", (200,)) as response:
            if response.status_code == 200:
                self.check_manual(response)

    def check_manual(self, response: Any) -> None:
        """A server may answer 200 with something else, such as a page to log in."""
        content = response.content
        if not content.startswith(b"%PDF"):
            response.failure(f"200, but no PDF: {response.headers.get('Content-Type', 'of no type')}")
        elif self.manual is None and self.manual_size in (None, len(content)):
            self.manual = state.known.setdefault(hash(content), content)
        elif content != self.manual:
            response.failure("200, but another PDF than the one that is there")

    def put_file(self) -> None:
        name = self.text_file or f"locust-performance-test-file-{uuid.uuid4()}.txt"
        with asking(self.client, "PUT", self.url(name), "file", STORED, data=b"my data") as response:
            if response.status_code in STORED:
                self.text_file = name

    def put_large_file(self) -> None:
        data = state.large(self.environment.parsed_options.dav_large_mb)
        with asking(self.client, "PUT", self.url("large.bin"), "large file", STORED, data=data):
            pass

    def list_folder(self) -> None:
        headers = {"Depth": "1"}
        with asking(self.client, "PROPFIND", self.url(""), "folder", (207,), headers=headers) as response:
            if response.status_code == 207:
                try:
                    hrefs(response.content)
                except ValueError as error:
                    response.failure(f"207, but {error}")

    def make_folder(self) -> None:
        with asking(self.client, "MKCOL", self.url(f"folder-{uuid.uuid4()}"), "folder", (201,)):
            pass

    def move_file(self) -> None:
        old, new = self.some_file(), f"moved-{uuid.uuid4()}.txt"
        if old is None:
            return
        headers = {"Destination": self.client.base_url + self.url(new), "Overwrite": "F"}
        with asking(self.client, "MOVE", self.url(old), "file", (201, 204), headers=headers) as response:
            if response.status_code in (201, 204):
                self.text_file = new

    def delete_file(self) -> None:
        old = self.some_file()
        if old is None:
            return
        with asking(self.client, "DELETE", self.url(old), "file", (200, 204)) as response:
            if response.status_code in (200, 204):
                self.text_file = None

    def some_file(self) -> str | None:
        """The user's text file; one who has none uploads it first."""
        if self.text_file is None:
            self.put_file()
        return self.text_file


DOING = {
    "get": WebdavUser.get_file,
    "put": WebdavUser.put_file,
    "list": WebdavUser.list_folder,
    "mkcol": WebdavUser.make_folder,
    "move": WebdavUser.move_file,
    "delete": WebdavUser.delete_file,
    "put-large": WebdavUser.put_large_file,
}


def tasks(weights: str) -> list[Any]:
    """The tasks of ``get=3,put=1``, each as often as its weight."""
    return [DOING[name] for name in read_weights(weights)]


WebdavUser.tasks = tasks("get=3,put=1")


class Shared:
    """What the users of this process share."""

    accounts: Accounts
    known: dict[int, bytes]
    _manual = _large = b""

    def manual(self) -> bytes:
        """The PDF for servers that put none into a new home."""
        self._manual = self._manual or sample_pdf(1_000_000)
        return self._manual

    def large(self, millions: float) -> bytes:
        """The content of the large file."""
        self._large = self._large or os.urandom(int(millions * 1_000_000))
        return self._large


state = Shared()


@events.init.add_listener
def only_clean_up(environment: Any, **_: Any) -> None:
    """``--dav-cleanup``: remove leftovers instead of running a test."""
    which = environment.parsed_options.dav_cleanup
    if which is None:
        return
    if isinstance(environment.runner, WorkerRunner):
        raise SystemExit(0)
    problem = ready(environment, environment.host or "", {})
    if problem:
        logger.error(problem)
    raise SystemExit(1 if problem else clean_up(settings_of(environment), which))


def log_in_as_embedded_admin(environment: Any, details: Mapping[str, Any]) -> None:
    environment.parsed_options.dav_embedded_admin = (details["admin_user"], details["admin_password"])


def ready(environment: Any, host: str, form: Mapping[str, str]) -> str:
    return check(environment, host, form, {"dav_weights": checked_weights})


@events.init.add_listener
def people_who_come_and_go(environment: Any, **_: Any) -> None:
    """``--dav-arrivals``: a population instead of a number of users."""
    options = environment.parsed_options
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
events.report_to_master.add_listener(ledger.tell_master)
events.worker_report.add_listener(ledger.hear_worker)
events.test_stop.add_listener(ledger.close)


@events.test_start.add_listener
def set_up(environment: Any, **_: Any) -> None:
    options, runner = environment.parsed_options, environment.runner
    environment.host = environment.host.rstrip("/")
    if not isinstance(runner, WorkerRunner):
        options.dav_run = str(RunId.new(os.getpid()))
        logger.info("Users of this run are named %s-…", options.dav_run)
    state.accounts = Accounts(settings_of(environment), getattr(runner, "worker_index", 0), environment.events.request)
    state.known, state._large = {}, b""
    ledger.open(state.accounts)
    WebdavUser.tasks = tasks(options.dav_weights)
