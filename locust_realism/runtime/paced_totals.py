"""Launches, late and missed ones of paced waits over all processes: workers add theirs to their reports."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from locust.runners import MasterRunner, WorkerRunner

from locust_realism.runtime.pacers import paced_counts
from locust_realism.runtime.plan import on_init
from locust_realism.workload.launching import LaunchCounts

_REPORT_KEY = "realism_paced"
_REPORTED_KEY = "_realism_paced_reports"


def paced_totals(environment: Any) -> dict[str, LaunchCounts]:
    """Counts of the run so far by the name of the paced wait; on a master those of all workers, up to 3 s old."""
    totals: dict[str, LaunchCounts] = {}
    reports = environment.__dict__.get(_REPORTED_KEY, {})
    own = {name: asdict(counts) for name, counts in paced_counts(environment).items()}
    for report in [own, *reports.values()]:
        for name, counts in report.items():
            total = totals.setdefault(name, LaunchCounts())
            for key, value in counts.items():
                setattr(total, key, getattr(total, key) + value)
    return totals


def collect() -> None:
    """Have the master of every Environment to come know the counts of its workers; once is enough."""
    on_init(_attach)


def _attach(environment: Any, **_: Any) -> None:
    if _REPORTED_KEY in environment.__dict__:
        return
    reports: dict[str, Any] = environment.__dict__.setdefault(_REPORTED_KEY, {})
    if isinstance(environment.runner, WorkerRunner):

        def add_counts(data: dict[str, Any], **_: Any) -> None:
            counts = paced_counts(environment)
            if counts:
                data[_REPORT_KEY] = {name: asdict(count) for name, count in counts.items()}

        environment.events.report_to_master.add_listener(add_counts)
    elif isinstance(environment.runner, MasterRunner):

        def keep(client_id: str, data: dict[str, Any], **_: Any) -> None:
            if _REPORT_KEY in data:
                reports[client_id] = data[_REPORT_KEY]

        environment.events.worker_report.add_listener(keep)
        environment.events.test_start.add_listener(lambda **_: reports.clear())
