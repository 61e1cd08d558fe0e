"""Verdict: the status of the checks, their root causes and one sentence; the verdict on the launches of each name.

Two tables decide: :data:`~locust_realism.analysis.verdict.checks.CHECKS` lists the checks,
:data:`~locust_realism.analysis.verdict.causes.CAUSES` the causes in order of precedence and the checks that follow
from each. J. F. Brady names three distortions (CMG 2019): heavy workload, think time method used, closed loop feedback.
docs/verdict.md has both tables in words and the calibration.
"""

from __future__ import annotations

import numpy as np

from locust_realism.analysis.document import AMBER, GREEN, NO_DATA, RED, Cause, Check, NameVerdict, Status, Verdict
from locust_realism.analysis.percentiles import order_by_group
from locust_realism.analysis.settings import AnalysisSettings, VerdictBounds
from locust_realism.analysis.stats.intervals import busiest_labels, coefficient_of_variation
from locust_realism.analysis.verdict.causes import Findings, missing_figures, root_causes, worst_status
from locust_realism.analysis.verdict.checks import CHECKS, grade_cov
from locust_realism.analysis.verdict.detrend import flat_times, gaps_per_window
from locust_realism.analysis.verdict.dispersion import local_gaps
from locust_realism.analysis.verdict.evidence import Evidence
from locust_realism.analysis.verdict.users import first_rows, marks_tasks, task_numbers
from locust_realism.recording.launches import Int64, LaunchLog

FEEDBACK_CHECK = 5
PATTERN_CHECKS = (1, 2, 3, 6, 7, 9, 10)
"""Checks of the times of the launches; the others are about the test that made them."""

_LAUNCHES_CAME: dict[Status, str] = {
    GREEN: "came like those of independent users",
    AMBER: "came nearly like those of independent users",
    RED: "did not come like those of independent users",
}
_TEST_IS: dict[Status, str] = {AMBER: "The test has a flaw", RED: "The test is not sound"}


def judge(evidence: Evidence, bounds: VerdictBounds) -> Verdict:
    """Return the ``verdict`` of the summary: overall, sentence, causes and the checks, root causes first.

    ``overall`` is the worst status of the checks that have enough data, "not enough data" if check 1 has not;
    ``generator`` leaves out check 5, which is about the server, and ``feedback`` is check 5 alone.
    """
    findings = {number: check(evidence, bounds) for number, _, check in CHECKS}
    causes = root_causes(evidence, findings, bounds)
    known = findings[1].status != NO_DATA
    overall = worst_status(findings.values()) if known else NO_DATA
    rest = [finding for number, finding in findings.items() if number != FEEDBACK_CHECK]
    return {
        "overall": overall,
        "sentence": headline(overall, findings, causes),
        "missing": missing_figures(evidence.facts.health),
        "generator": worst_status(rest) if known else NO_DATA,
        "feedback": findings[FEEDBACK_CHECK].status,
        "causes": causes,
        "checks": _check_rows(findings, causes),
    }


def headline(overall: Status, findings: Findings, causes: list[Cause]) -> str:
    """Return the verdict in words, which agree with ``overall``, the pattern's own status and the first cause."""
    if overall == NO_DATA:
        text = "There is not enough data for a verdict on the launches."
        return f"{text} {findings[1].seen}"
    pattern = worst_status(findings[number] for number in PATTERN_CHECKS)
    came = _LAUNCHES_CAME.get(pattern, "")
    if overall == GREEN or not causes:
        return f"The launches {came}."
    first = causes[0]
    reason = first["name"] + (f" ({first['distortion']})" if first["distortion"] else "")
    shown_by = {first["check"], *first["consequences"]}
    if pattern == overall and any(findings[number].status == overall for number in shown_by & {*PATTERN_CHECKS}):
        return f"The launches {came}: {reason}."
    return f"{_TEST_IS[overall]}: {reason}. Its launches {came}."


def _check_rows(findings: Findings, causes: list[Cause]) -> list[Check]:
    names = {number: name for number, name, _ in CHECKS}
    cause_of = {number: row["check"] for row in causes for number in row["consequences"]}
    advice_of = {row["check"]: row["remedy"] for row in causes}
    order = [number for row in causes for number in (row["check"], *row["consequences"])]
    rows: list[Check] = []
    for number in dict.fromkeys([*order, *findings]):
        found = findings[number]
        meaning, advice = found.meaning if found.bad else "", advice_of.get(number, "")
        rows.append(
            {
                "id": number, "name": names[number], "status": found.status,
                "value": found.value, "bound": found.bound,
                "explanation": " ".join(filter(None, (found.seen, meaning, advice))),
                "follows_from": cause_of.get(number), "seen": found.seen, "meaning": meaning, "advice": advice,
            }
        )  # fmt: skip
    return rows


def name_verdicts(judged: LaunchLog, evidence: Evidence, settings: AnalysisSettings) -> list[NameVerdict]:
    """Return check 1 of the launches of each name, in the order of the launch table.

    ``judged`` are the launches of the verdict, in launch order, and ``evidence`` is theirs. A name is measured as check
    1 measures all launches: rescaled by the plan or within windows of nearly constant rate, without the grain of clock
    and timers, and once a task if users launch it several times in a row.
    """
    if not len(judged):
        return []
    several = marks_tasks(judged) or evidence.users.requests_per_task > 1
    once = judged.take(_first_of_task(judged, evidence)) if several else judged
    first = int(judged.launch_us[0])
    grouped = order_by_group(once.launch_us - first, once.label, len(once.labels))
    rows: list[NameVerdict] = []
    for code in busiest_labels(judged, settings.max_names):
        launches = grouped.group(code).astype(np.int64) + first
        n, cov, label = len(launches) - 1, _judged_cov(launches, evidence), judged.labels[code]
        status = grade_cov(cov, n, evidence, settings.bounds)
        rows.append({"label": label.name, "method": label.method, "n": n, "cov": cov, "status": status})
    return rows


def _judged_cov(launches: Int64, evidence: Evidence) -> float:
    times = flat_times(launches, evidence.profile, evidence.facts.run_start_us or 0, evidence.grain_us)
    if evidence.profile is not None:
        return coefficient_of_variation(np.diff(times))
    return local_gaps(np.diff(times), gaps_per_window(times, evidence.users.round_trip))[1]


def _first_of_task(log: LaunchLog, evidence: Evidence) -> Int64:
    """Return the rows, of a log in launch order, that are the first of their name in their user's task."""
    task = task_numbers(log, spawned=evidence.facts.model.kind == "closed")
    return first_rows(np.where(task >= 0, task * len(log.labels) + log.label, np.int64(-1)))
