"""Summary as text: verdict, exact percentiles and times between launches on one screen, further tables below.

Printed at the end of a headless run and by ``locust-realism analyze``. Input is only the summary document of
:mod:`locust_realism.analysis.summary`, so that terminal, report and tabs show the same figures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from locust_realism.analysis.document import Cause, Check, LaunchRow, ResponseRow, Summary
from locust_realism.analysis.percentiles import RULES
from locust_realism.report.terminal import Column, Screen, clean, number, wrap

STYLES = ("green", "amber", "red")
COUNTED = {"red": "red", "amber": "amber", "not enough data": "without enough data", "green": "green"}

_COLUMNS = {
    each.key: each
    for each in (
        Column("who", "Name", text=True), Column("part", "Part", text=True),
        Column("n", "requests", 0), Column("failures", "failed", 0), Column("users", "users", 0),
        Column("start_s", "from s", 0), Column("end_s", "to s", 0), Column("think_time_s", "Z s", 2),
        Column("planned_rate", "planned/s", 2), Column("arrival_rate", "arrivals/s", 2),
        Column("rate", "req/s", 2), Column("cov", "CoV", 2), Column("response_cov", "CoV R", 2),
        Column("mean_ms", "mean"), Column("sdev_ms", "sdev"),
        Column("p50_ms", "p50"), Column("p90_ms", "p90"), Column("p95_ms", "p95"), Column("p99_ms", "p99"),
        Column("p999_ms", "p99.9"), Column("min_ms", "min"), Column("max_ms", "max"),
        Column("think_ms", "Z"), Column("feedback", "R/(R+Z)", 3), Column("little_users", "X (R+Z)", 1),
    )
}  # fmt: skip


def _columns(keys: str, drop: str = "", **titles: str) -> tuple[Column, ...]:
    """Return columns by their keys; a table that is too wide omits those of ``drop`` from the last to the first."""
    order = {key: position for position, key in enumerate(drop.split(), 1)}
    return tuple(
        replace(_COLUMNS[key], title=titles.get(key, _COLUMNS[key].title), drop=order.get(key, 0))
        for key in keys.split()
    )


_FIGURES = "rate mean_ms p50_ms p90_ms p95_ms p99_ms"
PERCENTILE_COLUMNS = _columns(
    "who n failures rate p50_ms p90_ms p95_ms p99_ms p999_ms max_ms cov", "cov p999_ms p90_ms rate max_ms"
)
LAUNCH_COLUMNS = _columns(
    "who n rate mean_ms sdev_ms cov p50_ms p90_ms p95_ms p99_ms min_ms max_ms",
    "sdev_ms p50_ms p99_ms rate p90_ms p95_ms max_ms min_ms",
    n="n",
    rate="per s",
)
GROUP_COLUMNS = (
    *_columns("users n rate", n="n", rate="per s"),
    *(replace(each, decimals=2) for each in _columns("mean_ms sdev_ms cov")),
)
LEVEL_COLUMNS = (
    Column("users", "users", 1),
    *_columns(
        f"n failures {_FIGURES} response_cov think_ms feedback little_users",
        "response_cov p99_ms mean_ms p90_ms think_ms failures",
        mean_ms="R mean",
    ),
)
PART_COLUMNS = _columns(f"part n {_FIGURES} response_cov", "response_cov p90_ms mean_ms")
STAGE_COLUMNS = _columns(
    f"start_s end_s users planned_rate arrival_rate think_time_s n failures {_FIGURES} response_cov cov",
    "p90_ms mean_ms response_cov cov n failures",
)


def render_summary(summary: Summary, screen: Screen, *, height: int = 40) -> str:
    """Return the summary document as text of about ``height`` lines at most.

    A table with more names than fit shows those with the most requests and counts the others in a line.

    >>> from locust_realism import LaunchLog, summarize
    >>> summary = summarize(LaunchLog.build([0, 1_000_000, 3_000_000], [9000, 10_000, 12_000]))
    >>> print(render_summary(summary, Screen(90))[:24])
    Verdict: NOT ENOUGH DATA
    """
    lines = verdict_lines(summary, screen, height=height)
    lines += screen.wrap(summary["window"]["sentence"], "dim", indent="  ")
    names = max(3, (height - len(lines) - 10) // 2)
    rule = RULES.get(summary["rule"], summary["rule"])
    intervals = "failures are launches too; n counts the intervals"
    sections: tuple[tuple[str, str, Sequence[ResponseRow | LaunchRow], Sequence[Column]], ...] = (
        ("Response times (ms)", rule, summary["response_times"], PERCENTILE_COLUMNS),
        ("Time between launches (ms)", intervals, summary["launches"], LAUNCH_COLUMNS),
    )
    for title, note, rows, columns in sections:
        if rows:
            lines += ["", *screen.heading(title, note), *_largest(rows, columns, names, screen)]
            lines += screen.wrap(str(rows[-1].get("interval_note") or ""), "dim", indent="  ")
    return "\n".join(lines)


def _largest(
    rows: Sequence[ResponseRow | LaunchRow], columns: Sequence[Column], names: int, screen: Screen
) -> list[str]:
    """Return the table of the ``names`` largest rows in their order, then the total."""
    *each, total = rows
    kept = set(range(len(each)))
    if len(each) > names:
        kept = set(sorted(kept, key=lambda i: -each[i]["n"])[: names - 1])
    shown = [*(row for i, row in enumerate(each) if i in kept), total]
    # A name that begins with its method stays as it is.
    bare = [row["label"].removeprefix(f"{row['method']} ") for row in shown]
    named = [{**row, "who": f"{row['method']} {name}".strip()} for row, name in zip(shown, bare, strict=True)]
    lines = screen.table(columns, named, total_last=True)
    if hidden := len(each) - len(kept):
        lines.append(screen.paint(f"  and {hidden} more names with fewer requests", "dim"))
    return lines


def verdict_lines(summary: Summary, screen: Screen, *, height: int = 40) -> list[str]:
    """Return the verdict's sentence, then each cause with its evidence, its remedy and the checks that show it."""
    verdict = summary["verdict"]
    overall, checks, causes = verdict["overall"], verdict["checks"], verdict["causes"]
    lines = [screen.paint(f"Verdict: {clean(overall).upper()}", overall if overall in STYLES else "bold")]
    lines += screen.wrap(verdict["sentence"], indent="  ")
    if causes and overall not in STYLES:
        # A red cause under "not enough data" would otherwise contradict the verdict.
        lines += screen.wrap("There is no verdict yet; what is already visible:", indent="  ")
    room = max(6, height // 2 - len(lines) - 2)
    by_number = {check["id"]: check for check in checks}
    for position, cause in enumerate(causes):
        block = cause_lines(cause, [by_number[n] for n in (cause["check"], *cause["consequences"])], screen)
        if len(block) > room and position:
            lines.append(f"  and {len(causes) - position} more cause(s)")
            break
        room -= len(block)
        lines += block
    if causes and verdict["missing"]:
        lines += screen.wrap(f"Not measured: {', '.join(verdict['missing'])}.", "dim", indent="  ")
    counts = {words: sum(check["status"] == status for check in checks) for status, words in COUNTED.items()}
    counted = ", ".join(f"{count} {words}" for words, count in counts.items() if count)
    return lines + (screen.wrap(f"Checks: {counted}.", indent="  ") if counted else [])


def cause_lines(cause: Cause, checks: Sequence[Check], screen: Screen) -> list[str]:
    """Return a cause's status and name, then its evidence, its remedy and its checks under a hanging indent."""
    status, mark = cause["status"], "●" if screen.unicode else "*"
    name = cause["name"] + (f" ({cause['distortion']})" if cause["distortion"] else "")
    first, *rest = wrap(clean(f"{status.upper()}  {name[:1].upper()}{name[1:]}"), screen.width - 4)
    lines = ["  " + screen.paint(mark + " " + first[: len(status)], status) + first[len(status) :]]
    lines += ["    " + line for line in rest]
    lines += screen.wrap(cause["evidence"], indent="    ") + screen.wrap(cause["remedy"], indent="    ")
    return lines + screen.wrap(f"Seen in {'; '.join(map(check_text, checks))}.", "dim", indent="    ")


def check_text(check: Check) -> str:
    """Return number, name, status, value and bound of a check in one line.

    >>> check_text({"id": 1, "name": "CoV", "status": "red", "value": 9.61, "bound": [0.9, 1.1]})
    '1 CoV (red, 9.61, bound 0.9 to 1.1)'
    """
    figures: list[str] = [check["status"]]
    figures += [figure_text(check["value"])] if check["value"] is not None else []
    figures += [f"bound {figure_text(check['bound'])}"] if check["bound"] is not None else []
    return f"{check['id']} {check['name']} ({', '.join(figures)})"


def figure_text(value: object) -> str:
    """Return a value or bound of a check in four significant figures; text stays, pairs become a range.

    >>> figure_text(1.08234), figure_text([0.95, 1.05]), figure_text(15200.0), figure_text("N/4")
    ('1.082', '0.95 to 1.05', '15,200', 'N/4')
    """
    if isinstance(value, (list, tuple)):
        return " to ".join(figure_text(part) for part in value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        # Four figures of a value that is zero but for rounding, such as 1.3e-09, would be noise.
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}" if abs(value) >= 5e-5 else "0"
    return "no figure" if value is None else clean(value)


def group_lines(summary: Summary, screen: Screen) -> list[str]:
    """Return the CoV of the times between launches by number of users; empty without recorded users."""
    if not summary["groups"]:
        return []
    note = "the launches of the first 1, 2, 3 ... users together"
    heading = screen.heading("Time between launches by group size (ms)", note)
    return ["", *heading, *screen.table(GROUP_COLUMNS, summary["groups"])]


def capacity_lines(summary: Summary, screen: Screen) -> list[str]:
    """Return warnings, the conclusion and a row for each level of concurrency; empty without levels."""
    found = summary["capacity"]
    if not found or not found["levels"]:
        return []
    lines = ["", *screen.heading("Capacity by concurrent users (ms)", "X (R+Z) should be the users: Little's law")]
    lines += [part for warning in found["warnings"] for part in screen.wrap(warning, "amber", indent="  ")]
    lines += screen.wrap(found["explanation"], indent="  ")
    if usl := found["usl"]:
        peak = usl["peak_users"]
        law = f"contention alpha {usl['alpha']:.3g}, coherency beta {usl['beta']:.3g}, one user {usl['gamma']:.3g}/s"
        top = "no peak within what was measured" if peak is None else f"its peak is at {peak:,.0f} users"
        lines += screen.wrap(f"Universal scalability law: {law}; {top}.", "dim", indent="  ")
    return [*lines, *screen.table(LEVEL_COLUMNS, found["levels"])]


def steady_lines(summary: Summary, screen: Screen) -> list[str]:
    """Return the run's halves beside JMeter's window of samples, then MSER-5 and the spread of equal pieces.

    Empty for a run with too few requests to divide.
    """
    found = summary["steady_state"]
    rows: list[Mapping[str, object]] = [
        {"part": name, **half} for name, half in zip(("first half", "second half"), found["halves"], strict=False)
    ]
    if window := found["jmeter_window"]:
        rows.append({**window, "part": f"JMeter's last {number(window['samples'], 0)}", "n": window["samples"]})
    if not rows:
        return []
    lines = ["", *screen.heading("Steady state: response times (ms)"), *screen.table(PART_COLUMNS, rows)]
    early = "nothing is"
    if found["mser5_rows"]:
        early = f"the first {number(found['mser5_rows'], 0)} requests ({number(found['mser5_s'], 1)} s) are"
    lines += screen.wrap(f"By MSER-5 {early} warm-up.", "dim", indent="  ")
    p95 = [piece["p95_ms"] for piece in found["pieces"] if piece["p95_ms"] is not None]
    if len(p95) > 1:
        span = f"{number(min(p95), 0)} to {number(max(p95), 0)} ms"
        text = f"The p95 of {len(p95)} pieces of 20,000 requests is {span}."
        lines += screen.wrap(text, "dim", indent="  ")
    return lines


def stage_lines(summary: Summary, screen: Screen) -> list[str]:
    """Return a row for each stage of the plan; empty for a run of one stage."""
    rows = [row for row in summary["stages"] if row["kind"] == "stage"]
    if len(rows) < 2:
        return []
    shown = [column for column in STAGE_COLUMNS if any(row.get(column.key) is not None for row in rows)]
    note = "while the number of users, the planned rate or the think time held"
    return ["", *screen.heading("Stages: response times (ms)", note), *screen.table(shown, rows)]
