"""Where the users of ``webdav.py`` come from, and that none is left behind: the part of the scenario that is not load.

Two kinds of provisioning: by an interface of the product (``webdav_provisioning``), where each user of the test is an
account of its own that is made and deleted; and by given accounts (any WebDAV server), where each is a folder of its
own in one of the accounts. Every name begins with the id of the run, so that what a killed run left is found again.
"""

from __future__ import annotations

import itertools
import logging
import secrets
from dataclasses import dataclass
from urllib.parse import quote

import gevent
import urllib3
from gevent.lock import BoundedSemaphore
from locust.clients import HttpSession
from locust.event import EventHook
from webdav_provisioning import DONE, NOT_THERE, PROVISIONING, Provisioning
from webdav_requests import PATIENCE_S, asking, reason, without_cookies

logger = logging.getLogger(__name__)
# one client makes many users at once, and keeps ten of the connections, which is right and no reason for a warning each
logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)

OCS_HOME = "/remote.php/dav/files/{user}"
DELETES_AT_ONCE = 10
LOST_AFTER = 20
"""Deletions without any answer after which the rest is left to the end of the run."""


@dataclass(frozen=True)
class Account:
    """Who a user of the test is: the name that the run gave, the login, and the folder to work in, as a URL path."""

    name: str
    user: str
    password: str
    home: str


@dataclass(frozen=True)
class Settings:
    """What the accounts need to know of the command line, the same on the master and on all workers."""

    host: str
    kind: str
    run: str
    admin: tuple[str, str]
    accounts: tuple[tuple[str, str], ...]
    path: str
    verify: bool

    @property
    def provisioning(self) -> Provisioning | None:
        """The interface by which users are made, or None where accounts are given."""
        return PROVISIONING.get(self.kind)

    def session(self, auth: tuple[str, str], reported: EventHook | None = None) -> HttpSession:
        """A client of its own that keeps no cookies; its requests are in no figures unless ``reported`` is given."""
        client = HttpSession(base_url=self.host, request_event=reported or EventHook(), user=None)
        client.auth, client.verify = auth, self.verify
        without_cookies(client)
        if not self.verify:
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        return client

    def home(self, user: str) -> str:
        """The URL path of a user's files, without a slash at its end."""
        return quote(self.path.replace("{user}", user).rstrip("/"), safe="/%")


class Accounts:
    """Makes the accounts of the users of this process, gives them back, and counts both."""

    def __init__(self, settings: Settings, worker: int, request_event: EventHook) -> None:
        self.settings = settings
        self.created = self.deleted = 0
        self._admin = settings.session(settings.admin, request_event)
        self._events = request_event
        self._numbers = itertools.count()
        self._worker = worker
        self._making: dict[str, tuple[gevent.Greenlet, Account]] = {}
        self._deleting = BoundedSemaphore(DELETES_AT_ONCE)
        self._unanswered = 0

    def reserve(self) -> Account:
        """The next account of this process; it is not on the server yet."""
        number = next(self._numbers)
        name = f"{self.settings.run}-{self._worker}-{number}"
        if self.settings.provisioning:
            # long, and of all kinds of characters: for the strictest password policy
            return Account(name, name, secrets.token_urlsafe(15) + "aA1.", self.settings.home(name))
        given = self.settings.accounts
        user, password = given[(self._worker + number) % len(given)]
        return Account(name, user, password, f"{self.settings.home(user)}/{name}")

    def make(self, account: Account) -> str:
        """Make the account; why that failed, or nothing. Give it back in any case."""
        # in a greenlet of its own: a user who is stopped now must not leave an account that is being made
        making = gevent.spawn(self._make, account)
        self._making[account.name] = (making, account)
        problem: str = making.get()
        return problem

    def _make(self, account: Account) -> str:
        if self.settings.provisioning:
            told = self.settings.provisioning.create(self._admin, account.user, account.password)
            made, problem = told.code in DONE, told.message
        else:
            client = self.settings.session((account.user, account.password), self._events)
            with asking(client, "MKCOL", account.home, "folder (create)", (200, 201)) as response:
                made, problem = response.status_code in (200, 201), reason(response)
            client.close()
        self.created += made
        return "" if made else problem or "no reason given"

    def give_back(self, account: Account) -> None:
        """Delete the account, to the end even if the user who asks is killed meanwhile.

        Also after a failed creation, because servers were seen to answer an error and make the user.
        """
        if account.name in self._making:
            gevent.spawn(self._give_back, *self._making.pop(account.name)).join()

    def give_back_all(self) -> None:
        """Delete what is left of users who ended in another way than by being stopped."""
        gevent.joinall([gevent.spawn(self.give_back, account) for _, account in list(self._making.values())])

    def _give_back(self, making: gevent.Greenlet, account: Account) -> None:
        unsure = bool(making.get())
        for pause in (0.0, 0.5, 2.0):
            gevent.sleep(pause)
            with self._deleting:
                if self._unanswered >= LOST_AFTER:
                    break
                there, gone = self._delete(account, unsure)
            if gone:
                self.created += there and unsure  # it had been made, whatever the server said
                self.deleted += there
                return
        logger.warning("%s is still on the server; it is looked for again when the run ends", account.name)

    def _delete(self, account: Account, unsure: bool) -> tuple[bool, bool]:
        """Whether there was something to delete, and whether it is gone now."""
        if self.settings.provisioning:
            told = self.settings.provisioning.delete(self._admin, account.name, gone=unsure)
            self._unanswered = 0 if told.code else self._unanswered + 1
            missing = (*NOT_THERE, 101) if unsure else NOT_THERE  # ownCloud says 101 where Nextcloud says 998
            return told.code in DONE, told.code in DONE or told.code in missing
        client = self.settings.session((account.user, account.password), self._events)
        ok = (200, 204, 404) if unsure else (200, 204)
        with asking(client, "DELETE", account.home, "folder", ok, timeout=PATIENCE_S) as response:
            status = response.status_code
        self._unanswered = 0 if status else self._unanswered + 1
        client.close()
        return status in (200, 204), status in (200, 204, 404)
