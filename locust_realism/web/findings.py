"""Plain words on whether the load generator, not the system under test, was the bottleneck."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

CPU_RED, CPU_AMBER = 0.9, 0.75
"""Share of one core that a worker uses: one Python process has no more than one core, and needs some room."""
MACHINE_RED = 0.95
LAG_RED_MS, LAG_AMBER_MS = 100.0, 20.0
"""p99 of the delay with which the event loop wakes a user."""
LATENESS_RED_MS = 100.0
DISK_AMBER = 0.8
"""Share of the time in which a disk is busy."""
OFFSET_AMBER_MS = 5.0

MEASURED = ("cpu", "machine_cpu", "lag_p99_ms", "lateness_p99_ms")

Finding = dict[str, str]


def generator_findings(document: Mapping[str, Any]) -> list[Finding]:
    """What a reader must know about the generator, worst first: dicts ``status`` (red, amber, green) and ``text``.

    Takes the provider's ``generator()`` document. A value that is not there is not judged; without any worker the
    list is empty, and before its first measurement nothing is said to be well.

    >>> generator_findings({"workers": [{"id": "w1", "cpu": 0.97}]})[0]["status"]
    'red'
    >>> generator_findings({"workers": [{"id": "w1", "cpu": 0.2, "lag_p99_ms": 3.0}]})[0]["status"]
    'green'
    """
    workers = [worker for worker in document.get("workers") or [] if worker]
    if not workers:
        return []
    found = [
        *_beyond(workers, "cpu", CPU_RED, "red", _cpu_text),
        *_beyond(workers, "cpu", CPU_AMBER, "amber", _cpu_text, below=CPU_RED),
        *_beyond(workers, "machine_cpu", MACHINE_RED, "red", _machine_text),
        *_beyond(workers, "lag_p99_ms", LAG_RED_MS, "red", _lag_text),
        *_beyond(workers, "lag_p99_ms", LAG_AMBER_MS, "amber", _lag_text, below=LAG_RED_MS),
        *_beyond(workers, "lateness_p99_ms", LATENESS_RED_MS, "red", _lateness_text),
        *_beyond(workers, "lost", 0, "red", _lost_text),
        *_beyond(workers, "clock_uncertainty_ms", OFFSET_AMBER_MS, "amber", _clock_text),
        *_target(document, workers),
    ]
    if not found and not any(_is_known(worker.get(key)) for worker in workers for key in MEASURED):
        text = "The load generator has not been measured yet: what is known of it appears seconds after the start."
        return [{"status": "not enough data", "text": text}]
    if not found:
        text = "The generator had room to spare: what the tables show is the system under test, not Locust."
        return [{"status": "green", "text": text}]
    return sorted(found, key=lambda finding: finding["status"] != "red")


def _beyond(
    workers: list[Any],
    key: str,
    bound: float,
    status: str,
    words: Callable[[str, float], str],
    below: float | None = None,
) -> list[Finding]:
    """One finding for all workers whose value is over the bound, with the worst value in its text."""
    over = [w for w in workers if isinstance(w.get(key), int | float) and w[key] > bound]
    if below is not None:
        over = [w for w in over if w[key] <= below]
    if not over:
        return []
    worst = max(over, key=lambda worker: worker[key])
    name = worst.get("id", "?")
    who = {"master": "The master", "local": "Locust"}.get(name, f"Worker {name}")
    who += f" and {len(over) - 1} more" if len(over) > 1 else ""
    return [{"status": status, "text": words(who, worst[key])}]


def _is_known(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _inside(who: str) -> str:
    """The words inside a sentence: only Locust keeps its capital."""
    return who if who.startswith("Locust") else who[0].lower() + who[1:]


def _cpu_text(who: str, value: float) -> str:
    return (
        f"{who} used {value:.0%} of its core. A generator short of CPU sends requests late and measures its own "
        "delay as response time: add workers or lower the load."
    )


def _machine_text(who: str, value: float) -> str:
    machine = "The machine" if who == "Locust" else f"The machine of {_inside(who)}"
    return f"{machine} was {value:.0%} busy: move the generator or the system under test elsewhere."


def _lag_text(who: str, value: float) -> str:
    return (
        f"{who} woke its users up to {value:,.0f} ms late (99th percentile): launches come in bunches and response "
        "times are too long by as much. Add workers."
    )


def _lateness_text(who: str, value: float) -> str:
    return f"{who} launched requests {value:,.0f} ms after their planned time (99th percentile): add workers."


def _lost_text(who: str, value: float) -> str:
    return f"{who} lost {value:,.0f} recorded requests: the figures are not of the whole run."


def _clock_text(who: str, value: float) -> str:
    return (
        f"The clock of {_inside(who)} is known to {value:,.1f} ms only: intervals between launches of two workers "
        "are not certain, those of each worker are."
    )


def _target(document: Mapping[str, Any], workers: list[Any]) -> list[Finding]:
    """The system under test on the generator's machine: they take CPU from each other, and its disk can be seen."""
    target = document.get("target") or {}
    cpu = target.get("cpu")
    if not isinstance(cpu, int | float):
        return []
    return _shared_cpu(cpu, workers) + _busy_disk(target)


def _busy_disk(target: Mapping[str, Any]) -> list[Finding]:
    busy = target.get("disk_busy")
    if not isinstance(busy, int | float) or busy <= DISK_AMBER:
        return []
    moved = sum(target.get(key) or 0.0 for key in ("read_bytes_s", "write_bytes_s"))
    text = (
        f"A disk of this machine, where the system under test runs, is busy {busy:.0%} of the time (the system moves "
        f"{moved / 1e6:,.1f} MB/s): with that load a faster disk would help, not only a faster processor."
    )
    return [{"status": "amber", "text": text}]


def _shared_cpu(cpu: float, workers: list[Any]) -> list[Finding]:
    ours = sum(w["cpu"] for w in workers if isinstance(w.get("cpu"), int | float))
    share = ours / (ours + cpu) if ours + cpu > 0 else 0.0
    if ours + cpu < CPU_AMBER or share < 0.4:
        return []
    text = (
        f"Generator and system under test share this machine, and {share:.0%} of the CPU that they use is Locust's "
        "own: the system would answer faster if the generator ran elsewhere."
    )
    return [{"status": "amber", "text": text}]
