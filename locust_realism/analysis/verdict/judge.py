"""Verdict: root causes of amber and red checks, and one sentence; the verdict on the launches of each name.

Two tables decide: :data:`~locust_realism.analysis.verdict.checks.CHECKS` lists the checks, :data:`CAUSES` the causes in
order of precedence and the checks that follow from each. J. F. Brady names three distortions (CMG 2019): heavy
workload, think time method used, closed loop feedback. docs/verdict.md has both tables in words and the calibration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from locust_realism.analysis.document import AMBER, GREEN, NO_DATA, RED, SEVERITY, Check, NameVerdict, Status, Verdict
from locust_realism.analysis.document import Cause as CauseRow
from locust_realism.analysis.percentiles import order_by_group
from locust_realism.analysis.settings import AnalysisSettings, VerdictBounds
from locust_realism.analysis.stats.intervals import busiest_labels, coefficient_of_variation, user_ranks
from locust_realism.analysis.verdict.checks import CHECKS, Finding, grade_cov
from locust_realism.analysis.verdict.detrend import flat_times, gaps_per_window, grain_us
from locust_realism.analysis.verdict.dispersion import local_gaps
from locust_realism.analysis.verdict.evidence import Evidence
from locust_realism.analysis.verdict.readings import COARSE_CLOCK, FEEDBACK, HEAVY, NO_READING, OFF_TARGET, THINK
from locust_realism.analysis.verdict.users import task_starts
from locust_realism.recording.launches import Int64, LaunchLog

Findings = Mapping[int, Finding]

FEEDBACK_CHECK = 5


@dataclass(frozen=True)
class Cause:
    """Root cause: its distortion, the check that shows it, the checks that follow from it, and a further condition."""

    name: str
    distortion: str | None
    check: int
    explains: tuple[int, ...] = ()
    applies: Callable[[Evidence, Findings], bool] = lambda e, f: True


def _bunched(e: Evidence, f: Findings) -> bool:
    return f[3].status == RED and e.gaps.short_share > 1


def _single_pause(e: Evidence, f: Findings) -> bool:
    # Without its longest thousandth an exponential sample has a CoV of 0.965, one with bunches far more.
    return e.gaps.cov_without_longest < 1.1 and not _bunched(e, f)


def _late(e: Evidence, f: Findings) -> bool:
    return f[4].status == RED or f[1].bad or f[3].bad


def _in_step(e: Evidence, f: Findings) -> bool:
    bunches = (f[1].bad and e.gaps.cov > 1) or (f[3].bad and e.gaps.short_share > 1)
    waves = f[6].bad and (f[6].value or 0.0) > 1
    return e.users.user_cov < 0.3 and (bunches or waves)


def _saturated(e: Evidence, f: Findings) -> bool:
    # A saturated server changes response times between the halves, but not the launch rate.
    return f[5].status == RED and not abs(e.change("rate")[0]) > 0.1


def _too_even(e: Evidence, f: Findings) -> bool:
    return f[1].bad and e.gaps.cov < 1


CAUSES: tuple[Cause, ...] = (
    Cause("clock offsets between workers", None, 12, (1, 3, 6, 7, 9)),
    Cause("a coarse clock", None, 9, (1, 3), lambda e, f: f[9].reading is COARSE_CLOCK),
    Cause("a single pause", None, 2, (1, 3, 6, 7, 9, 11), _single_pause),
    Cause("a generator that cannot keep up", HEAVY, 4, (1, 2, 3, 6, 7, 8, 9, 10, 11), _late),
    Cause("users that move in step", THINK, 8, (1, 2, 3, 6, 7, 9), _in_step),
    Cause("a server that paces its users", FEEDBACK, 5, (1, 2, 3, 6, 7, 8, 9, 11), _saturated),
    Cause("launches in batches", HEAVY, 3, (1, 2, 6, 7, 9), _bunched),
    Cause("too few users or too regular ones", THINK, 7, (1, 3, 6, 9), _too_even),
    Cause("launches that are too even", THINK, 1, (3, 6, 7, 9), _too_even),
    Cause("a rate or a system that is not steady", None, 11, (1, 2, 6, 7, 9)),
    Cause("a server that paces its users", FEEDBACK, 5, (1, 2, 3, 6, 7, 8, 9)),
    Cause("too few users or too regular ones", THINK, 7, (6, 9), lambda e, f: not f[1].bad),
    Cause("arrivals of users that are not independent", None, 10, (1, 6, 7, 9)),
    Cause("think times off their target", THINK, 8, (1, 7, 9), lambda e, f: f[8].reading is OFF_TARGET),
    Cause("think times that hardly vary", THINK, 8, (6, 7, 9)),
    Cause("bunches of launches", None, 1, (2, 3, 6, 7, 9)),
    Cause("single pauses", None, 2),
    Cause("a load that is too even at a long scale", THINK, 6, (), lambda e, f: (f[6].value or 0.0) < 1),
    Cause("a load that comes in waves", None, 6),
    Cause("an uncommon number of short gaps", None, 3),
    Cause("too few users or too regular ones", THINK, 7),
    Cause("gaps that depend on each other", None, 9),
    Cause("a generator that is nearly too slow", HEAVY, 4),
)
"""Causes in order of precedence; the first one that applies to an amber or red check is its cause."""

_LIKE_USERS: dict[Status, str] = {
    GREEN: "The launches came like those of independent users.",
    AMBER: "The launches came nearly like those of independent users",
    RED: "The launches did not come like those of independent users",
    NO_DATA: "There is not enough data to tell whether the launches came like those of independent users.",
}


def judge(evidence: Evidence, bounds: VerdictBounds) -> Verdict:
    """Return the ``verdict`` of the summary: overall, sentence, causes and the checks, root causes first.

    ``overall`` is the worst status of the checks that have enough data, "not enough data" if check 1 has not;
    ``generator`` leaves out check 5, which is about the server, and ``feedback`` is check 5 alone.
    """
    findings = {number: check(evidence, bounds) for number, _, check in CHECKS}
    causes = root_causes(evidence, findings)
    known = findings[1].status != NO_DATA
    overall = _worst(findings.values()) if known else NO_DATA
    rest = [finding for number, finding in findings.items() if number != FEEDBACK_CHECK]
    return {
        "overall": overall,
        "sentence": _headline(overall, findings, causes),
        "generator": _worst(rest) if known else NO_DATA,
        "feedback": findings[FEEDBACK_CHECK].status,
        "causes": causes,
        "checks": _check_rows(findings, causes),
    }


def root_causes(evidence: Evidence, findings: Findings) -> list[CauseRow]:
    """Return the causes in order of precedence; every amber or red check belongs to exactly one."""
    open_checks = {number for number, finding in findings.items() if finding.bad}
    rows: list[CauseRow] = []
    for cause in CAUSES:
        if cause.check not in open_checks or not cause.applies(evidence, findings):
            continue
        follows = [number for number in cause.explains if number in open_checks]
        open_checks -= {cause.check, *follows}
        found = findings[cause.check]
        rows.append(
            {
                "name": cause.name, "distortion": cause.distortion, "check": cause.check, "status": found.status,
                "explanation": found.explanation, "consequences": follows,
            }
        )  # fmt: skip
    return rows


def _worst(findings: Iterable[Finding]) -> Status:
    known = [finding.status for finding in findings if finding.status != NO_DATA]
    return max(known, key=SEVERITY.__getitem__, default=NO_DATA)


def _headline(overall: Status, findings: Findings, causes: list[CauseRow]) -> str:
    sentence = _LIKE_USERS[overall]
    if overall == NO_DATA:
        return f"{sentence} {findings[1].seen}"
    if overall == GREEN or not causes:
        return sentence
    if overall == RED and not any(findings[n].status == RED for n in (1, 3, 6)):
        # The pattern itself is not red; the test that made or measured it is.
        sentence = _LIKE_USERS[AMBER if findings[1].bad else GREEN].rstrip(".") + ", but the test has a red finding"
    first = causes[0]
    reason = first["name"] + (f" ({first['distortion']})" if first["distortion"] else "")
    return f"{sentence}: {reason}."


def _check_rows(findings: Findings, causes: list[CauseRow]) -> list[Check]:
    names = {number: name for number, name, _ in CHECKS}
    cause_of = {number: row["check"] for row in causes for number in row["consequences"]}
    order = [number for row in causes for number in (row["check"], *row["consequences"])]
    rows: list[Check] = []
    for number in dict.fromkeys([*order, *findings]):
        found = findings[number]
        meaning, advice = found.reading if found.bad else NO_READING
        rows.append(
            {
                "id": number, "name": names[number], "status": found.status, "value": found.value, "bound": found.bound,
                "explanation": found.explanation, "follows_from": cause_of.get(number), "seen": found.seen,
                "meaning": meaning, "advice": advice,
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
    once = judged if evidence.users.requests_per_task == 1 else judged.take(_first_of_task(judged))
    first = int(judged.launch_us[0])
    grouped = order_by_group(once.launch_us - first, once.label, len(once.labels))
    rows: list[NameVerdict] = []
    for code in busiest_labels(judged, settings.max_names):
        launches = grouped.group(code).astype(np.int64) + first
        n, cov, label = len(launches) - 1, _judged_cov(launches, evidence, settings), judged.labels[code]
        status = grade_cov(cov, n, evidence, settings.bounds)
        rows.append({"label": label.name, "method": label.method, "n": n, "cov": cov, "status": status})
    return rows


def _judged_cov(launches: Int64, evidence: Evidence, settings: AnalysisSettings) -> float:
    grain = grain_us(evidence.tick_us, settings)
    times = flat_times(launches, evidence.profile, evidence.facts.run_start_us or 0, grain)
    if evidence.profile is not None:
        return coefficient_of_variation(np.diff(times))
    return local_gaps(np.diff(times), gaps_per_window(times, evidence.users.round_trip))[1]


def _first_of_task(log: LaunchLog) -> Int64:
    """Return the rows, of a log in launch order, that are the first of their name in their user's task."""
    order = np.argsort(user_ranks(log)[0], kind="stable")
    task = np.cumsum(task_starts(log)[order])  # each launch of an unknown user is a task
    _, first = np.unique(task * np.int64(len(log.labels)) + log.label[order], return_index=True)
    return np.sort(order[first])
