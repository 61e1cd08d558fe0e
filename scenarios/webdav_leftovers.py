"""That ``webdav.py`` leaves nothing behind: the count at the end of a run, and ``--dav-cleanup`` after a killed one."""

from __future__ import annotations

import logging
import time
from typing import Any
from urllib.parse import unquote, urlsplit

import gevent
from locust.env import Environment
from locust.runners import WorkerRunner
from webdav_accounts import Account, Accounts, Settings
from webdav_provisioning import DONE, NOT_THERE
from webdav_requests import PATIENCE_S, asking, hrefs, reason

from locust_realism.runtime.runid import PREFIX, RunId

logger = logging.getLogger(__name__)


class Ledger:
    """What was made and what was deleted in a run, over all processes."""

    def __init__(self) -> None:
        self.accounts: Accounts | None = None
        self.reports: dict[str, tuple[int, int]] = {}
        self.closing: gevent.Greenlet | None = None

    def open(self, accounts: Accounts) -> None:
        """A run begins."""
        self.accounts, self.reports, self.closing = accounts, {}, None

    def tell_master(self, data: dict[str, Any], **_: Any) -> None:
        """On a worker: what it has made and deleted so far goes with each of its reports."""
        if self.accounts is not None:
            data["dav_accounts"] = [self.accounts.settings.run, self.accounts.created, self.accounts.deleted]

    def hear_worker(self, client_id: str, data: dict[str, Any], **_: Any) -> None:
        """On the master: a report of a worker."""
        run, created, deleted = data.get("dav_accounts", (None, 0, 0))
        if self.accounts is not None and run == self.accounts.settings.run:
            self.reports[client_id] = (created, deleted)

    def close(self, environment: Environment, **_: Any) -> None:
        """After the last user: delete what is left, and compare what was made with what was deleted.

        Once in a run and to its end, although a master that is told to stop while its last worker quits stops twice,
        and kills the first to do so.
        """
        if self.accounts is not None:
            if self.closing is None:  # a greenlet that has ended is false, so no `or` here
                self.closing = gevent.spawn(self._close, self.accounts, environment)
            self.closing.join()

    def _close(self, accounts: Accounts, environment: Environment) -> None:
        accounts.give_back_all()
        if isinstance(environment.runner, WorkerRunner):
            return
        settings = accounts.settings
        self.reports["here"] = (accounts.created, accounts.deleted)
        created, deleted = (sum(column) for column in zip(*self.reports.values(), strict=True))
        try:
            swept, left = sweep(settings, settings.run)
        except (OSError, ValueError) as error:
            swept, left = 0, [f"unknown, because the server could not be asked ({error})"] if created > deleted else []
        tell = logger.error if left or created > deleted + swept else logger.info
        what = "Users" if settings.provisioning else "Folders of users"
        tell("%s: %d made, %d deleted by themselves, %d found and deleted at the end", what, created, deleted, swept)
        if left:
            logger.error("Left on %s: %s. Later: --dav-cleanup=%s", settings.host, ", ".join(left[:5]), settings.run)
            environment.process_exit_code = 1


def left_behind(settings: Settings, beginning: str) -> list[Account]:
    """What is on the server under a name that begins so; OSError where it cannot be asked."""
    if settings.provisioning:
        told = settings.provisioning.search(settings.session(settings.admin), beginning)
        if told.code not in DONE:
            raise OSError(told.message)
        return [Account(user, user, "", "") for user in told.users if user.startswith(beginning)]
    found = []
    for user, password in dict.fromkeys(settings.accounts):
        home = settings.home(user)
        with asking(
            settings.session((user, password)),
            "PROPFIND",
            f"{home}/",
            "list",
            (207,),
            headers={"Depth": "1"},
            timeout=PATIENCE_S,
        ) as response:
            if response.status_code != 207:
                raise OSError(f"{home}/: {reason(response)}")
            names = [unquote(urlsplit(path).path).rstrip("/").rpartition("/")[2] for path in hrefs(response.content)]
        found += [Account(name, user, password, f"{home}/{name}") for name in names if name.startswith(beginning)]
    return found


def remove(settings: Settings, account: Account) -> bool:
    """Delete one leftover; whether it is gone."""
    if settings.provisioning:
        told = settings.provisioning.delete(settings.session(settings.admin), account.name, name="sweep", gone=True)
        return told.code in (*DONE, *NOT_THERE)
    client = settings.session((account.user, account.password))
    with asking(client, "DELETE", account.home, "sweep", (200, 204, 404), timeout=PATIENCE_S) as response:
        return response.status_code in (200, 204, 404)


def sweep(settings: Settings, beginning: str, patience: float = 20.0) -> tuple[int, list[str]]:
    """Delete all that begins so, trying again for ``patience`` seconds: how many, and what is still there."""
    swept: set[str] = set()
    deadline = time.monotonic() + patience
    while True:
        left = left_behind(settings, beginning)
        if not left or time.monotonic() > deadline:
            return len(swept - {account.name for account in left}), [account.name for account in left]
        for account in left:
            swept.add(account.name)
            remove(settings, account)
        gevent.sleep(0.2)


def dead_runs(settings: Settings, which: str) -> dict[RunId, list[Account]]:
    """The leftovers that ``--dav-cleanup`` may remove, by run, and a word in the log on those that it may not.

    ``dead``: of runs that began on this machine and whose process is gone. A run's own id: of that run. ``all``: of all
    runs, also of one that loads the server at this moment.
    """
    chosen: dict[RunId, list[Account]] = {}
    for account in left_behind(settings, f"{PREFIX}-"):
        run = RunId.of(account.name)
        if run is not None:
            chosen.setdefault(run, []).append(account)
    for run, accounts in list(chosen.items()):
        if which in ("all", str(run)) or (which == "dead" and run.is_here and not run.is_alive()):
            continue
        where = "on this machine, and is still running" if run.is_here and run.is_alive() else "elsewhere"
        began = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(run.began))
        logger.warning(
            "Not removed: %d of run %s, which began %s %s. If it has ended: --dav-cleanup=%s",
            len(accounts), run, began, where, run,
        )  # fmt: skip
        del chosen[run]
    return chosen


def clean_up(settings: Settings, which: str) -> int:
    """Remove leftovers instead of running a test; the exit code."""
    failed = 0
    try:
        found = dead_runs(settings, which)
    except (OSError, ValueError) as error:
        logger.error("%s could not be asked for leftovers: %s", settings.host, error)
        return 1
    for run, leftovers in found.items():
        gone = sum(remove(settings, account) for account in leftovers)
        logger.info("Removed %d of the %d that run %s left on %s", gone, len(leftovers), run, settings.host)
        failed += len(leftovers) - gone
    if not found:
        logger.info("Nothing to remove on %s", settings.host)
    return 1 if failed else 0
