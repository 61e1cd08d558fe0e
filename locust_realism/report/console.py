"""What is printed at the end of a headless run and by ``locust-realism analyze``: one screen of text.

First whether the launches were like those of independent users and what to change if not, then the exact
percentiles, then the times between launches. Only the summary document of :mod:`locust_realism.analysis.summary` is
read, so that the terminal, the report and the tabs cannot disagree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from locust_realism.analysis.percentiles import RULES
from locust_realism.report.text import Column, clean, number, paint, table, wrap

SENTENCES = {
    "green": "The launches came like those of independent users.",
    "amber": "The launches came nearly like those of independent users; see the amber checks.",
    "red": "The launches did not come like those of independent users.",
    "not enough data": "Not enough launches to tell whether they came like those of independent users.",
}
STYLES = {"green": "green", "amber": "amber", "red": "red"}
SEVERITY = {"red": 0, "amber": 1, "not enough data": 2, "green": 3}

PERCENTILE_COLUMNS = (
    Column("who", "Name", text=True),
    Column("n", "requests", 0),
    Column("failures", "failed", 0),
    Column("rate", "req/s", 2, drop=3),
    Column("p50_ms", "p50"),
    Column("p90_ms", "p90", drop=2),
    Column("p95_ms", "p95"),
    Column("p99_ms", "p99"),
    Column("p999_ms", "p99.9", drop=1),
    Column("max_ms", "max", drop=4),
)
LAUNCH_COLUMNS = (
    Column("who", "Name", text=True),
    Column("n", "n", 0),
    Column("rate", "per s", 2, drop=3),
    Column("mean_ms", "mean"),
    Column("sdev_ms", "sdev", drop=1),
    Column("cov", "CoV", 2),
    Column("p50_ms", "p50", drop=2),
    Column("p90_ms", "p90", drop=4),
    Column("p95_ms", "p95", drop=5),
    Column("p99_ms", "p99", drop=3),
    Column("min_ms", "min", drop=7),
    Column("max_ms", "max", drop=6),
)

GROUP_COLUMNS = (
    Column("users", "users", 0),
    Column("n", "n", 0),
    Column("rate", "per s", 2),
    Column("mean_ms", "mean", 2),
    Column("sdev_ms", "sdev", 2),
    Column("cov", "CoV", 2),
)
LEVEL_COLUMNS = (
    Column("users", "users", 1),
    Column("n", "requests", 0),
    Column("failures", "failed", 0, drop=5),
    Column("rate", "req/s", 2),
    Column("mean_ms", "R mean", drop=2),
    Column("p50_ms", "p50"),
    Column("p90_ms", "p90", drop=3),
    Column("p95_ms", "p95"),
    Column("p99_ms", "p99", drop=1),
    Column("think_ms", "Z", drop=4),
    Column("feedback", "R/(R+Z)", 3),
    Column("little_users", "X (R+Z)", 1),
)


def render_summary(
    summary: Mapping[str, Any], *, color: bool, width: int, height: int = 40, unicode: bool = True
) -> str:
    """The summary document as text of at most about ``height`` lines of ``width`` columns.

    When there are more names than fit, those with the most requests are shown and the others are counted in a line.

    >>> row = dict(label="Aggregated", method="", n=3, failures=0, rate=1.5, p50_ms=10.0, p90_ms=12.0, p95_ms=12.0)
    >>> print(render_summary({"verdict": {"overall": "not enough data", "checks": []},
    ...                       "response_times": [row], "launches": []}, color=False, width=90))
    Launch pattern: NOT ENOUGH DATA
      Not enough launches to tell whether they came like those of independent users.
    <BLANKLINE>
    Response times (ms)
      Name        requests  failed  req/s  p50  p90  p95  p99  p99.9  max
      Aggregated         3       0   1.50   10   12   12    -      -    -
    """
    width = max(40, width)
    lines = verdict_lines(summary, color=color, width=width, height=height, unicode=unicode)
    lines += window_lines(summary, color=color, width=width)
    names = max(3, (height - len(lines) - 10) // 2)
    rule = rule_text(summary)
    sections = (
        ("Response times (ms)", rule, "response_times", PERCENTILE_COLUMNS),
        ("Time between launches (ms)", "failures are launches too; n counts the intervals", "launches", LAUNCH_COLUMNS),
    )
    for title, note, key, columns in sections:
        rows = table_rows(summary, key)
        if rows:
            lines += ["", *_title(title, note, color, width)]
            lines += _section(rows, columns, names, width=width, color=color, unicode=unicode)
    return "\n".join(lines)


def table_rows(summary: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    """The rows of one table of the summary, the aggregated one last; ``who`` is method and name in one."""
    section = summary.get(key) or []
    rows = section.get("rows", []) if isinstance(section, Mapping) else section
    return [
        {
            **row,
            "p50_ms": row.get("p50_ms", row.get("median_ms")),
            "who": _who(row.get("method") or "", row.get("label", "")),
        }
        for row in rows
    ]


def _who(method: str, label: str) -> str:
    """Method and name in one; a name that begins with its method says it once.

    >>> _who("GET", "home"), _who("GET", "GET file"), _who("", "Aggregated")
    ('GET home', 'GET file', 'Aggregated')
    """
    return label if label.startswith(f"{method} ") else f"{method} {label}".strip()


def rule_text(summary: Mapping[str, Any]) -> str:
    """The percentile rule of the summary in words, empty when it names none."""
    section = summary.get("response_times")
    rule = section.get("rule") if isinstance(section, Mapping) else None
    rule = rule or summary.get("rule") or ""
    return clean(RULES.get(str(rule), rule))


def verdict_lines(
    summary: Mapping[str, Any], *, color: bool, width: int, height: int = 40, unicode: bool = True
) -> list[str]:
    """The overall verdict as a sentence, then what was seen and what to do for each cause and what follows from it."""
    verdict = summary.get("verdict") or {}
    overall = str(verdict.get("overall", "not enough data"))
    style = STYLES.get(overall, "bold")
    lines = [paint(f"Launch pattern: {clean(overall).upper()}", style, color=color)]
    lines += wrap(clean(verdict.get("sentence") or SENTENCES.get(overall, "")), width, indent="  ")
    checks = list(verdict.get("checks") or [])
    bad = [check for check in checks if check.get("status") in ("red", "amber")]
    known = {check.get("id") for check in bad}
    roots = [check for check in bad if check.get("follows_from") not in known]
    if roots and overall not in STYLES:
        # a red check under "not enough data" would look like a contradiction
        lines += wrap("There is no verdict yet; what is already visible:", width, indent="  ")
    room = max(6, height // 2 - len(lines) - 2)
    for position, check in enumerate(roots):
        block = check_lines(check, color=color, width=width, unicode=unicode)
        block += consequence_lines([c for c in bad if c.get("follows_from") == check.get("id")], width=width)
        if len(block) > room:
            lines.append(f"  and {len(roots) - position} more amber or red check(s)")
            break
        room -= len(block)
        lines += block
    lines += wrap(_count(checks), width, indent="  ")
    return lines


def consequence_lines(checks: Sequence[Mapping[str, Any]], *, width: int) -> list[str]:
    """The checks that another explains, in one paragraph: they need no advice of their own."""
    said = [
        f"{clean(check.get('id', ''))} {clean(check.get('name', ''))} ({clean(check.get('status', ''))}, "
        f"{figure_text(check['value']) if check.get('value') is not None else 'no figure'})"
        for check in checks
    ]
    return wrap("From this follows: " + ", ".join(said) + ".", width, indent="    ") if said else []


def check_lines(check: Mapping[str, Any], *, color: bool, width: int, unicode: bool = True) -> list[str]:
    """One check: its status, name and value against the bound, then its explanation, wrapped under a hanging indent."""
    status = str(check.get("status", ""))
    mark = "●" if unicode else "*"
    value = check.get("value")
    figure = f": {figure_text(value)}" if value is not None else ""
    bound = f" (bound {clean(figure_text(check['bound']))})" if check.get("bound") is not None else ""
    head = f"{clean(check.get('id', ''))} {clean(check.get('name', ''))}{figure}{bound}"
    first, *rest = wrap(f"{status.upper()}  {head}", width - 4) or [""]
    marked = paint(mark + " " + first[: len(status)], STYLES.get(status, "bold"), color=color) + first[len(status) :]
    explanation = wrap(clean(check.get("explanation") or ""), width, indent="    ")
    return ["  " + marked, *("    " + line for line in rest), *explanation]


def figure_text(value: Any) -> str:
    """A value or bound of a check in four significant figures; text, and pairs of numbers, as they are.

    >>> figure_text(1.08234), figure_text([0.95, 1.05]), figure_text(15200.0), figure_text("N/4")
    ('1.082', '0.95 to 1.05', '15,200', 'N/4')
    """
    if isinstance(value, (list, tuple)):
        return " to ".join(figure_text(part) for part in value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        # Four figures of what is zero but for rounding, such as 1.3e-09, would be noise.
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}" if abs(value) >= 5e-5 else "0"
    return clean(value)


def window_lines(summary: Mapping[str, Any], *, color: bool, width: int) -> list[str]:
    """What part of the run the figures are of: requests used, duration, and what was cut at the start and the end."""
    window = summary.get("window") or {}
    if window.get("sentence"):
        return [paint(line, "dim", color=color) for line in wrap(clean(window["sentence"]), width, indent="  ")]
    parts = []
    if window.get("n") is not None:
        parts.append(f"{number(window['n'], 0)} requests")
    if window.get("duration_s") is not None:
        parts.append(f"{number(window['duration_s'], 1)} s")
    if window.get("skip_s"):
        parts.append(f"the first {number(window['skip_s'], 1)} s left out as warm-up")
    return [paint("  Window: " + ", ".join(parts), "dim", color=color)] if parts else []


def _count(checks: Sequence[Mapping[str, Any]]) -> str:
    counts = {status: sum(check.get("status") == status for check in checks) for status in SEVERITY}
    said = {"red": "red", "amber": "amber", "green": "green", "not enough data": "without enough data"}
    return "Checks: " + ", ".join(f"{counts[s]} {said[s]}" for s in SEVERITY if counts[s]) + "." if checks else ""


def _title(title: str, note: str, color: bool, width: int) -> list[str]:
    heading = paint(title, "bold", color=color)
    if not note:
        return [heading]
    if len(title) + 2 + len(note) <= width:
        return [heading + paint("  " + note, "dim", color=color)]
    return [heading, *(paint(line, "dim", color=color) for line in wrap(note, width, indent="  "))]


def _section(
    rows: Sequence[Mapping[str, Any]], columns: Sequence[Column], names: int, *, width: int, color: bool, unicode: bool
) -> list[str]:
    *each, total = rows
    shown = each
    if len(each) > names:
        largest = sorted(range(len(each)), key=lambda i: -(each[i].get("n") or 0))[: names - 1]
        shown = [each[i] for i in sorted(largest)]
    lines = table(columns, [*shown, total], width=width, color=color, unicode=unicode, total_last=True)
    hidden = len(each) - len(shown)
    if hidden:
        lines.append(paint(f"  and {hidden} more names with fewer requests", "dim", color=color))
    return lines


def group_lines(summary: Mapping[str, Any], *, color: bool, width: int) -> list[str]:
    """The CoV of the times between launches by size of the group of users; empty where no users were recorded."""
    rows = summary.get("groups") or []
    if not rows:
        return []
    note = "the launches of the first 1, 2, 3 ... users together"
    heading = _title("Time between launches by group size (ms)", note, color, width)
    return ["", *heading, *table(GROUP_COLUMNS, rows, width=width, color=color)]


def capacity_lines(summary: Mapping[str, Any], *, color: bool, width: int) -> list[str]:
    """What was measured at each level of concurrency, warnings first; empty where the summary has no capacity."""
    found = summary.get("capacity") or {}
    rows = found.get("levels") or []
    if not rows:
        return []
    lines = [
        "",
        *_title("Capacity by concurrent users (ms)", "X (R+Z) should be the users: Little's law", color, width),
    ]
    for warning in found.get("warnings") or []:
        lines += [paint(line, "amber", color=color) for line in wrap(clean(warning), width, indent="  ")]
    lines += wrap(clean(found.get("explanation") or ""), width, indent="  ")
    if usl := found.get("usl"):
        peak = usl.get("peak_users")
        text = (
            f"Universal scalability law: contention alpha {usl['alpha']:.3g}, coherency beta {usl['beta']:.3g}, "
            f"one user {usl['gamma']:.3g}/s; "
            + (f"its peak is at {peak:,.0f} users." if peak is not None else "no peak within what was measured.")
        )
        lines += [paint(line, "dim", color=color) for line in wrap(text, width, indent="  ")]
    return [*lines, *table(LEVEL_COLUMNS, rows, width=width, color=color)]
