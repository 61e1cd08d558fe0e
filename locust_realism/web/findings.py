"""Sentences on the load generator's health: each figure over its bound. Causes and remedies belong to the verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence

from locust_realism.analysis import document as doc
from locust_realism.analysis.settings import generator_bounds, grade_generator

SENTENCES: dict[doc.GeneratorFigure, str] = {
    "cpu": "{who} used {value:.0%} of its core.",
    "machine_cpu": "{machine} was {value:.0%} busy.",
    "run_wait": "{who} waited for a CPU {value:.0%} of the time.",
    "steal": "The hypervisor took {value:.0%} of the CPU time from {inside}.",
    "throttled": "A CPU limit of the container stopped {inside} {value:.0%} of the time.",
    "stopped": "{who} stood still {value:.0%} of the time.",
    "blocked": "Code on the event loop made {value:.0%} of the wake-ups of {inside} late.",
    "lag_p99_ms": "In 19 of 20 of the last 30 seconds {inside} woke 99 % of its users at most {value:,.0f} ms late.",
    "lateness_p99_ms": "{who} launched requests {value:,.0f} ms after their planned time (99th percentile).",
    "lost": "{who} lost {value:,.0f} recorded requests: the figures do not cover the whole run.",
    "clock_uncertainty_ms": "The clock of {inside} has an uncertainty of {value:,.1f} ms: intervals between launches "
    "of two workers are not certain, those of one worker are.",
}
"""Sentence of each graded figure of a process; a figure over its amber or red bound gives a finding."""

MEASURED: tuple[doc.GeneratorFigure, ...] = (
    "cpu", "machine_cpu", "run_wait", "steal", "throttled", "stopped", "blocked", "lag_p99_ms", "lateness_p99_ms",
)  # fmt: skip
SHARED_CPU, OWN_SHARE = 0.75, 0.4
"""Generator and target share a machine visibly: this many cores together, of it this share the generator's."""


def generator_findings(document: doc.GeneratorDocument) -> list[doc.GeneratorFinding]:
    """Return the findings on the load generator, worst first; ``bounds`` of the document replace the default ones.

    Unknown values are not judged. Without workers the list is empty; before the first measurement its status is
    "not enough data", never green.

    >>> [generator_findings({"workers": [{"id": "w1", **figures}], "target": None})[0]["status"]
    ...  for figures in ({"cpu": 0.97}, {"cpu": 0.2, "lag_p99_ms": 3.0}, {})]
    ['red', 'green', 'not enough data']
    """
    workers = document["workers"]
    if not workers:
        return []
    target, bounds = document.get("target"), document.get("bounds") or generator_bounds()
    found = [finding for figure in SENTENCES for finding in _over(workers, figure, bounds)]
    found += _beside(target, workers, bounds) if target else []
    if found:
        return sorted(found, key=lambda finding: -doc.SEVERITY[finding["status"]])
    if any(_known(row, figure) is not None for row in workers for figure in MEASURED):
        text = "No figure of the generator is over its bound."
        return [{"status": doc.GREEN, "text": text}]
    text = "Generator health: not measured yet; the first figures appear seconds after the start."
    return [{"status": doc.NO_DATA, "text": text}]


def _known(row: doc.GeneratorRow, figure: doc.GeneratorFigure) -> float | None:
    value = row.get(figure)
    return value if isinstance(value, int | float) and math.isfinite(value) else None


def _over(
    workers: Sequence[doc.GeneratorRow], figure: doc.GeneratorFigure, bounds: doc.GeneratorBounds
) -> list[doc.GeneratorFinding]:
    """Return a finding for red and one for amber workers, each with the worst value in its text."""
    found: list[doc.GeneratorFinding] = []
    for status in (doc.RED, doc.AMBER):
        over = [
            (value, row["id"])
            for row in workers
            if (value := _known(row, figure)) is not None and grade_generator(figure, value, bounds) == status
        ]
        if over:
            value, name = max(over)
            who = {"master": "The master", "local": "Locust"}.get(name, f"Worker {name}")
            who += f" and {len(over) - 1} more" if len(over) > 1 else ""
            # Inside a sentence only Locust keeps its capital.
            inside = who if who.startswith("Locust") else who[0].lower() + who[1:]
            machine = "The machine" if who == "Locust" else f"The machine of {inside}"
            text = SENTENCES[figure].format(who=who, inside=inside, machine=machine, value=value)
            found.append({"status": status, "text": text})
    return found


def _beside(
    target: doc.TargetUse, workers: Sequence[doc.GeneratorRow], bounds: doc.GeneratorBounds
) -> list[doc.GeneratorFinding]:
    """Return findings on a target on this machine: CPU that both take from each other, and a busy disk."""
    found: list[doc.GeneratorFinding] = []
    own = sum(_known(row, "cpu") or 0.0 for row in workers)
    together = own + target["cpu"]
    if together >= SHARED_CPU and own >= OWN_SHARE * together:
        text = (
            f"Generator and system under test share this machine, and {own / together:.0%} of the CPU that they use is "
            "Locust's own: the system would answer faster if the generator ran elsewhere."
        )
        found.append({"status": doc.AMBER, "text": text})
    busy = target.get("disk_busy")
    status = grade_generator("disk_busy", busy, bounds)
    if busy is not None and status in (doc.RED, doc.AMBER):
        moved = (target.get("read_bytes_s") or 0.0) + (target.get("write_bytes_s") or 0.0)
        text = (
            f"A disk of this machine, where the system under test runs, is busy {busy:.0%} of the time (the system "
            f"moves {moved / 1e6:,.1f} MB/s): with that load a faster disk would help, not only a faster processor."
        )
        found.append({"status": status, "text": text})
    return found
