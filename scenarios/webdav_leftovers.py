"""Clean-up of ``webdav.py``: the balance at the end of a run, and ``--dav-cleanup`` after a killed one."""

from __future__ import annotations

import logging
import time
from typing import TypedDict
from urllib.parse import unquote, urlsplit

import gevent
from locust.env import Environment
from locust.runners import WorkerRunner
from webdav_accounts import Account, Accounts, Settings
from webdav_provisioning import DONE, NOT_THERE
from webdav_requests import TIMEOUT_S, hrefs, reason, sending

from locust_realism.kit import RunId, report_part

logger = logging.getLogger(__name__)


class Counts(TypedDict):
    """Accounts that a worker has created and deleted so far in a run."""

    run: str
    created: int
    deleted: int


class Ledger:
    """Balance of the accounts created and deleted in a run, over all processes."""

    def __init__(self) -> None:
        self.accounts: Accounts | None = None
        self.reports: dict[str, tuple[int, int]] = {}
        self.closing: gevent.Greenlet[..., None] | None = None

    def open(self, accounts: Accounts) -> None:
        """Reset for a new run."""
        self.accounts, self.reports, self.closing = accounts, {}, None

    def connect(self, environment: Environment, **_: object) -> None:
        """Add each worker's counts to its reports."""
        keys = {"run": str, "created": int, "deleted": int}
        report_part(environment, "dav_accounts", keys, self._counts, self._receive)

    def _counts(self) -> Counts | None:
        if (own := self.accounts) is None:
            return None
        return {"run": own.settings.run, "created": own.created, "deleted": own.deleted}

    def _receive(self, client_id: str, counts: Counts) -> None:
        if self.accounts is not None and counts["run"] == self.accounts.settings.run:
            self.reports[client_id] = (counts["created"], counts["deleted"])

    def close(self, environment: Environment, **_: object) -> None:
        """Delete the remaining accounts after the last user, and log the balance.

        This runs once and to its end: a master that is stopped while its last worker quits stops twice, and kills the
        greenlet of the first stop.
        """
        if self.accounts is not None:
            if self.closing is None:  # not "or": a greenlet that has ended is false
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
            swept, left = 0, [f"unknown, because the server does not answer ({error})"] if created > deleted else []
        log = logger.error if left or created > deleted + swept else logger.info
        what = "Users" if settings.provisioning else "Folders of users"
        log("%s: %d made, %d deleted by themselves, %d found and deleted at the end", what, created, deleted, swept)
        if left:
            logger.error("Left on %s: %s. Later: --dav-cleanup=%s", settings.host, ", ".join(left[:5]), settings.run)
            environment.process_exit_code = 1


def left_behind(settings: Settings, beginning: str) -> list[Account]:
    """Return the accounts on the server whose names begin so; OSError if the server does not list them."""
    if settings.provisioning:
        reply = settings.provisioning.search(settings.session(settings.admin), beginning)
        if reply.code not in DONE:
            raise OSError(reply.message)
        return [Account(user, user, "", "") for user in reply.users if user.startswith(beginning)]
    found = []
    for user, password in dict.fromkeys(settings.accounts):
        home = settings.home(user)
        with sending(
            settings.session((user, password)),
            "PROPFIND",
            f"{home}/",
            "list",
            (207,),
            headers={"Depth": "1"},
            timeout=TIMEOUT_S,
        ) as response:
            if response.status_code != 207:
                raise OSError(f"{home}/: {reason(response)}")
            names = [unquote(urlsplit(path).path).rstrip("/").rpartition("/")[2] for path in hrefs(response.content)]
        found += [Account(name, user, password, f"{home}/{name}") for name in names if name.startswith(beginning)]
    return found


def remove(settings: Settings, account: Account) -> bool:
    """Delete a leftover; return True if it is gone."""
    if settings.provisioning:
        reply = settings.provisioning.delete(settings.session(settings.admin), account.name, name="sweep", gone=True)
        return reply.code in (*DONE, *NOT_THERE)
    client = settings.session((account.user, account.password))
    with sending(client, "DELETE", account.home, "sweep", (200, 204, 404), timeout=TIMEOUT_S) as response:
        return response.status_code in (200, 204, 404)


def sweep(settings: Settings, beginning: str, timeout_s: float = 20.0) -> tuple[int, list[str]]:
    """Delete all names that begin so, with retries for ``timeout_s`` seconds; return the number and the names left."""
    swept: set[str] = set()
    deadline = time.monotonic() + timeout_s
    while True:
        left = left_behind(settings, beginning)
        if not left or time.monotonic() > deadline:
            return len(swept - {account.name for account in left}), [account.name for account in left]
        for account in left:
            swept.add(account.name)
            remove(settings, account)
        gevent.sleep(0.2)


def dead_runs(settings: Settings, which: str) -> dict[RunId, list[Account]]:
    """Return the leftovers that ``--dav-cleanup`` may remove, by run, and log the others.

    ``dead`` chooses runs of this machine whose process is gone, a run's id that run, ``all`` every run, also one that
    is running.
    """
    chosen: dict[RunId, list[Account]] = {}
    for account in left_behind(settings, RunId.BEGINNING):
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
    """Remove leftovers instead of running a test; return the exit code."""
    failed = 0
    try:
        found = dead_runs(settings, which)
    except (OSError, ValueError) as error:
        logger.error("%s does not list leftovers: %s", settings.host, error)
        return 1
    for run, leftovers in found.items():
        gone = sum(remove(settings, account) for account in leftovers)
        logger.info("Removed %d of the %d that run %s left on %s", gone, len(leftovers), run, settings.host)
        failed += len(leftovers) - gone
    if not found:
        logger.info("Nothing to remove on %s", settings.host)
    return 1 if failed else 0
