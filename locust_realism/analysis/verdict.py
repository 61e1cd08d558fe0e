"""The verdict: twelve checks, the root causes behind them, and one sentence whether the launches were like real users'.

Two tables decide everything: :data:`CHECKS` says what is looked at, :data:`CAUSES` in which order causes are named and
which other checks follow from each. J. F. Brady names three distortions (CMG 2019): heavy workload, think time method
used, closed loop feedback. docs/verdict.md has both tables in words and the calibration.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from locust_realism.analysis import checks as one
from locust_realism.analysis import checks_scale as two
from locust_realism.analysis.checks import AMBER, FEEDBACK, GREEN, HEAVY, NO_DATA, RED, SEVERITY, THINK, Check, Finding
from locust_realism.analysis.checks_scale import OFF_TARGET
from locust_realism.analysis.evidence import Evidence
from locust_realism.analysis.settings import VerdictBounds

Findings = Mapping[int, Finding]
Row = dict[str, Any]

CHECKS: tuple[tuple[int, str, Check], ...] = (
    (1, "CoV of launches", one.launch_cov),
    (2, "Single pauses", one.pause),
    (3, "Short gaps", one.short_gaps),
    (4, "Generator on time", one.generator),
    (5, "Feedback R/(R+Z)", one.feedback),
    (6, "Index of dispersion", two.scales),
    (7, "CoV by group size", two.group_size),
    (8, "Think time", two.think_time),
    (9, "Independence of gaps", two.dependence),
    (10, "Arrivals of users", two.population),
    (11, "Steady state", two.steadiness),
    (12, "Clocks of the workers", two.clocks),
)
"""Number, name and function of each check."""

FEEDBACK_CHECK = 5


@dataclass(frozen=True)
class Cause:
    """A root cause: its distortion, the check that shows it, when it applies and what else follows from it."""

    name: str
    distortion: str | None
    check: int
    applies: Callable[[Evidence, Findings], bool]
    explains: tuple[int, ...]


def _bad(findings: Findings, *numbers: int) -> bool:
    return any(findings[number].bad for number in numbers)


def _single_pause(e: Evidence, f: Findings) -> bool:
    # Without its longest thousandth an exponential sample has a CoV of 0.965; bunches leave it far above.
    return f[2].bad and e.gaps.cov_without_longest < 1.1 and not _bunched(e, f)


def _bunched(e: Evidence, f: Findings) -> bool:
    return f[3].status == RED and e.gaps.short_share > 1


def _late(e: Evidence, f: Findings) -> bool:
    return f[4].status == RED or (f[4].bad and _bad(f, 1, 3))


def _in_step(e: Evidence, f: Findings) -> bool:
    bunches = (f[1].bad and e.gaps.cov > 1) or (f[3].bad and e.gaps.short_share > 1)
    waves = f[6].bad and (f[6].value or 0.0) > 1
    return f[8].bad and e.users.user_cov < 0.3 and (bunches or waves)


def _saturated(e: Evidence, f: Findings) -> bool:
    # Response times that differ between the halves follow from a full server; launches that differ do not.
    change = e.steady.get("changes", {}).get("rate", {}).get("change", 0.0)
    return f[5].status == RED and abs(change) <= 0.1


def _too_few(e: Evidence, f: Findings) -> bool:
    return f[7].bad and _too_even(e, f)


def _too_even(e: Evidence, f: Findings) -> bool:
    return f[1].bad and e.gaps.cov < 1


CAUSES: tuple[Cause, ...] = (
    Cause("clock offsets between workers", None, 12, lambda e, f: f[12].bad, (1, 3, 6, 7, 9)),
    Cause("a coarse clock", None, 9, lambda e, f: f[9].bad and "clock" in f[9].meaning, (1, 3)),
    Cause("a single pause", None, 2, _single_pause, (1, 3, 6, 7, 9, 11)),
    Cause("a generator that cannot keep up", HEAVY, 4, _late, (1, 2, 3, 6, 7, 8, 9, 10, 11)),
    Cause("users that move in step", THINK, 8, _in_step, (1, 2, 3, 6, 7, 9)),
    Cause("a server that paces its users", FEEDBACK, 5, _saturated, (1, 2, 3, 6, 7, 8, 9, 11)),
    Cause("launches in batches", HEAVY, 3, _bunched, (1, 2, 6, 7, 9)),
    Cause("too few users or too regular ones", THINK, 7, _too_few, (1, 3, 6, 9)),
    Cause("launches that are too even", THINK, 1, _too_even, (3, 6, 7, 9)),
    Cause("a rate or a system that is not steady", None, 11, lambda e, f: f[11].bad, (1, 2, 6, 7, 9)),
    Cause("a server that paces its users", FEEDBACK, 5, lambda e, f: f[5].bad, (1, 2, 3, 6, 7, 8, 9)),
    Cause("too few users or too regular ones", THINK, 7, lambda e, f: f[7].bad and not f[1].bad, (6, 9)),
    Cause("arrivals of users that are not independent", None, 10, lambda e, f: f[10].bad, (1, 6, 7, 9)),
    Cause("think times off their target", THINK, 8, lambda e, f: f[8].bad and OFF_TARGET in f[8].meaning, (1, 7, 9)),
    Cause("think times that hardly vary", THINK, 8, lambda e, f: f[8].bad, (6, 7, 9)),
    Cause("bunches of launches", None, 1, lambda e, f: f[1].bad, (2, 3, 6, 7, 9)),
    Cause("single pauses", None, 2, lambda e, f: f[2].bad, ()),
    Cause("a load that is too even at a long scale", THINK, 6, lambda e, f: f[6].bad and (f[6].value or 0) < 1, ()),
    Cause("a load that comes in waves", None, 6, lambda e, f: f[6].bad, ()),
    Cause("an uncommon number of short gaps", None, 3, lambda e, f: f[3].bad, ()),
    Cause("too few users or too regular ones", THINK, 7, lambda e, f: f[7].bad, ()),
    Cause("gaps that depend on each other", None, 9, lambda e, f: f[9].bad, ()),
    Cause("a generator that is nearly too slow", HEAVY, 4, lambda e, f: f[4].bad, ()),
)
"""In order of precedence; the first that applies to a check is its cause."""

_LIKE_USERS = {
    GREEN: "The launches came like those of independent users.",
    AMBER: "The launches came nearly like those of independent users",
    RED: "The launches did not come like those of independent users",
    NO_DATA: "There is not enough data to tell whether the launches came like those of independent users.",
}


def judge(evidence: Evidence, bounds: VerdictBounds) -> Row:
    """The ``verdict`` key of the summary: overall, sentence, causes and the checks, root causes first.

    ``overall`` is the worst status of the checks that have enough data, and "not enough data" where check 1 has not;
    ``generator`` leaves out check 5, which is about the server, and ``feedback`` is that one alone.
    """
    findings = {number: check(evidence, bounds) for number, _, check in CHECKS}
    causes = root_causes(evidence, findings)
    overall = _worst(list(findings.values())) if findings[1].status != NO_DATA else NO_DATA
    rest = [finding for number, finding in findings.items() if number != FEEDBACK_CHECK]
    return {
        "overall": overall,
        "sentence": _headline(overall, findings, causes),
        "generator": _worst(rest) if findings[1].status != NO_DATA else NO_DATA,
        "feedback": findings[FEEDBACK_CHECK].status,
        "causes": causes,
        "checks": _check_rows(findings, causes),
    }


def root_causes(evidence: Evidence, findings: Findings) -> list[Row]:
    """Causes in order of precedence: name, distortion, check, status, explanation and the checks that follow from it.

    Every amber or red check belongs to exactly one cause.
    """
    open_checks = {number for number, finding in findings.items() if finding.bad}
    rows: list[Row] = []
    for cause in CAUSES:
        if cause.check not in open_checks or not cause.applies(evidence, findings):
            continue
        follows = [number for number in cause.explains if number in open_checks]
        open_checks -= {cause.check, *follows}
        found = findings[cause.check]
        row: Row = {"name": cause.name, "distortion": cause.distortion, "check": cause.check, "status": found.status}
        rows.append(row | {"explanation": found.explanation, "consequences": follows})
    return rows


def _worst(findings: list[Finding]) -> str:
    known = [finding.status for finding in findings if finding.status != NO_DATA]
    return max(known, key=SEVERITY.__getitem__, default=NO_DATA)


def _headline(overall: str, findings: Findings, causes: list[Row]) -> str:
    sentence = _LIKE_USERS[overall]
    if overall == NO_DATA:
        return f"{sentence} {findings[1].seen}"
    if overall == GREEN or not causes:
        return sentence
    shape = findings[1]
    if overall == RED and not any(findings[n].status == RED for n in (1, 3, 6)):
        # The pattern itself is not the worst: what is red is what made or measured it.
        sentence = _LIKE_USERS[GREEN if not shape.bad else AMBER].rstrip(".") + ", but the test has a red finding"
    first = causes[0]
    reason = first["name"] + (f" ({first['distortion']})" if first["distortion"] else "")
    return f"{sentence}: {reason}."


def _check_rows(findings: Findings, causes: list[Row]) -> list[Row]:
    names = {number: name for number, name, _ in CHECKS}
    cause_of = {number: row["check"] for row in causes for number in row["consequences"]}
    order = [number for row in causes for number in (row["check"], *row["consequences"])]
    order += [number for number in findings if number not in order]
    return [
        {
            "id": number,
            "name": names[number],
            "status": findings[number].status,
            "value": findings[number].value,
            "bound": findings[number].bound,
            "explanation": findings[number].explanation,
            "follows_from": cause_of.get(number),
            "seen": findings[number].seen,
            "meaning": findings[number].meaning if findings[number].bad else "",
            "advice": findings[number].advice if findings[number].bad else "",
        }
        for number in order
    ]
