"""Accounts of the users of ``webdav.py``, created before a user's first request and deleted after its last.

There are two kinds. With a product's interface (``webdav_provisioning``) each user of the test has an account of its
own. With given accounts (any WebDAV server) each has a folder of its own in one of them. Every name begins with the id
of the run, so that the leftovers of a killed run can be found.
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
from webdav_requests import TIMEOUT_S, reason, sending, without_cookies

logger = logging.getLogger(__name__)
# one client creates many users at once and keeps ten of the connections; urllib3 would warn of each of the others
logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)

OCS_HOME = "/remote.php/dav/files/{user}"
DELETES_AT_ONCE = 10
LOST_AFTER = 20
"""Deletions without an answer after which the others wait for the end of the run."""


@dataclass(frozen=True)
class Account:
    """Identity of a user of the test: name in the run, login, and home folder as a URL path."""

    name: str
    user: str
    password: str
    home: str


@dataclass(frozen=True)
class Settings:
    """Settings of the accounts, the same on the master and on all workers."""

    host: str
    kind: str
    run: str
    admin: tuple[str, str]
    accounts: tuple[tuple[str, str], ...]
    path: str
    verify: bool

    @property
    def provisioning(self) -> Provisioning | None:
        """Interface that creates users, None with given accounts."""
        return PROVISIONING.get(self.kind)

    def session(self, auth: tuple[str, str], reported: EventHook | None = None) -> HttpSession:
        """Return a new client without cookies; its requests are in no figures unless ``reported`` is given."""
        client = HttpSession(base_url=self.host, request_event=reported or EventHook(), user=None)
        client.auth, client.verify = auth, self.verify
        without_cookies(client)
        if not self.verify:
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        return client

    def home(self, user: str) -> str:
        """Return the URL path of a user's files, without a final slash."""
        return quote(self.path.replace("{user}", user).rstrip("/"), safe="/%")


class Accounts:
    """Creation and deletion of the accounts of this process, with counts of both."""

    def __init__(self, settings: Settings, worker: int, request_event: EventHook) -> None:
        self.settings = settings
        self.created = self.deleted = 0
        self._admin = settings.session(settings.admin, request_event)
        self._events = request_event
        self._numbers = itertools.count()
        self._worker = worker
        self._making: dict[str, tuple[gevent.Greenlet[..., str], Account]] = {}
        self._deleting = BoundedSemaphore(DELETES_AT_ONCE)
        self._unanswered = 0

    def reserve(self) -> Account:
        """Return the next account of this process, which is not on the server yet."""
        number = next(self._numbers)
        name = f"{self.settings.run}-{self._worker}-{number}"
        if self.settings.provisioning:
            # long, with all kinds of characters: passes the strictest password policy
            return Account(name, name, secrets.token_urlsafe(15) + "aA1.", self.settings.home(name))
        given = self.settings.accounts
        user, password = given[(self._worker + number) % len(given)]
        return Account(name, user, password, f"{self.settings.home(user)}/{name}")

    def make(self, account: Account) -> str:
        """Create the account and return the reason of a failure, empty on success; give it back in both cases."""
        # in a greenlet of its own: a user who is stopped now must not leave an unfinished account behind
        making = gevent.spawn(self._make, account)
        self._making[account.name] = (making, account)
        return making.get()

    def _make(self, account: Account) -> str:
        if self.settings.provisioning:
            reply = self.settings.provisioning.create(self._admin, account.user, account.password)
            made, problem = reply.code in DONE, reply.message
        else:
            client = self.settings.session((account.user, account.password), self._events)
            with sending(client, "MKCOL", account.home, "folder (create)", (200, 201)) as response:
                made, problem = response.status_code in (200, 201), reason(response)
            client.close()
        self.created += made
        return "" if made else problem or "no reason given"

    def give_back(self, account: Account) -> None:
        """Delete the account, even if the calling user is killed meanwhile.

        This follows a failed creation too: servers were seen to answer an error and create the user.
        """
        if account.name in self._making:
            gevent.spawn(self._give_back, *self._making.pop(account.name)).join()

    def give_back_all(self) -> None:
        """Delete the accounts of users who ended without being stopped."""
        gevent.joinall([gevent.spawn(self.give_back, account) for _, account in list(self._making.values())])

    def _give_back(self, making: gevent.Greenlet[..., str], account: Account) -> None:
        unsure = bool(making.get())
        for pause in (0.0, 0.5, 2.0):
            gevent.sleep(pause)
            with self._deleting:
                if self._unanswered >= LOST_AFTER:
                    break
                there, gone = self._delete(account, unsure)
            if gone:
                self.created += there and unsure  # the server had created it in spite of its error
                self.deleted += there
                return
        logger.warning("%s is still on the server; the end of the run deletes it", account.name)

    def _delete(self, account: Account, unsure: bool) -> tuple[bool, bool]:
        """Delete the account; return True if it existed, and True if it is gone now."""
        if self.settings.provisioning:
            reply = self.settings.provisioning.delete(self._admin, account.name, gone=unsure)
            self._unanswered = 0 if reply.code else self._unanswered + 1
            missing = (*NOT_THERE, 101) if unsure else NOT_THERE  # ownCloud's 101 is Nextcloud's 998
            return reply.code in DONE, reply.code in DONE or reply.code in missing
        client = self.settings.session((account.user, account.password), self._events)
        ok = (200, 204, 404) if unsure else (200, 204)
        with sending(client, "DELETE", account.home, "folder", ok, timeout=TIMEOUT_S) as response:
            status = response.status_code
        self._unanswered = 0 if status else self._unanswered + 1
        client.close()
        return status in (200, 204), status in (200, 204, 404)
