"""Comparison of runs as text and as one HTML page that opens offline: conclusions first, then the differences."""

from __future__ import annotations

from dataclasses import replace

from locust_realism.analysis.compare.difference import SAME, UNSHOWN
from locust_realism.analysis.document import Candidate, Comparison
from locust_realism.report.assets import report_script
from locust_realism.report.html import PLAIN, offline_page
from locust_realism.report.terminal import Column, Screen, clean, number, pad

COMPARISON_CSV = (
    "candidate", "method", "label", "figure", "a", "b", "difference", "low", "high", "ratio", "n_a", "n_b", "verdict",
)  # fmt: skip
STYLES = {"slower": "red", "faster": "green", "mixed": "amber"}
SHORT = {UNSHOWN: "not shown", SAME: "same"}

RUN_COLUMNS = (
    Column("name", "Run", text=True),
    Column("runs", "runs", 0, drop=2),
    Column("n", "requests", 0),
    Column("rate", "req/s", 2),
    Column("failed", "failed %", 3),
    Column("cov", "CoV", 2),
    Column("pattern", "launch pattern", text=True, drop=1),
)
DIFFERENCE_COLUMNS = (
    Column("who", "Name", text=True),
    Column("what", "figure", text=True),
    Column("a", "baseline"),
    Column("b", "this"),
    Column("difference", "difference"),
    Column("low", "from", drop=1),
    Column("high", "to", drop=1),
    Column("change", "%", 1, drop=2),
    Column("shown", "", text=True),
)


def render_comparison(found: Comparison, screen: Screen, *, force: bool = False) -> str:
    """Return the document of a comparison as text.

    ``force`` shows the differences of loads that are not comparable, too.
    """
    screen = replace(screen, width=max(60, screen.width))
    lines: list[str] = []
    shown = [each for each in found["candidates"] if force or each["alike"]["status"] != "refused"]
    for each in found["candidates"]:
        lines += screen.wrap(each["sentence"], STYLES.get(each["conclusion"], "bold") if each in shown else "amber")
        for reason in each["alike"]["reasons"]:
            lines += screen.wrap(reason, "amber", indent="  ")
    for warning in found.get("warnings", []):
        lines += screen.wrap(warning, "dim", indent="  ")
    for side in found["agreement"]:
        lines += screen.wrap(side["sentence"])
    runs = [
        {**run, "failed": 100 * run["failures"], "pattern": ", ".join(sorted(set(run["verdict"])))}
        for run in found["runs"]
    ]
    lines += ["", *screen.heading("Runs"), *screen.table(RUN_COLUMNS, runs)]
    for each in shown:
        lines += _differences(found, each, screen)
    return "\n".join([*lines, *_levels(found, screen)])


def _differences(found: Comparison, each: Candidate, screen: Screen) -> list[str]:
    """Return the table of one candidate's differences, then its throughput and failures."""
    title = f"{clean(each['name'])} against {clean(found['baseline'])}: response times (ms)"
    confidence = 100 * float(f"{found['confidence']:.4g}")
    note = f"intervals hold together at {confidence:.4g} %, autocorrelation taken into account"
    rows = [
        {
            **row,
            "who": f"{row['method']} {row['label']}".strip(),
            "what": row["figure"].removesuffix("_ms"),
            "change": 100 * (row["ratio"] - 1) if row["ratio"] is not None else None,
            "shown": SHORT.get(row["verdict"], row["verdict"]),
        }
        for row in each["rows"]
    ]
    first, *lines = screen.table(DIFFERENCE_COLUMNS, rows)
    styles = [STYLES.get(row["verdict"]) for row in each["rows"]]
    styled = [screen.paint(line, style) for line, style in zip(lines, styles, strict=False)]
    pairs, rates = [], ((each["throughput"], "Throughput", 1.0, "/s"), (each["failures"], "Failures", 100.0, " %"))
    for row, what, scale, unit in rates:
        a, b = (number(None if value is None else scale * value, 2) for value in (row["a"], row["b"]))
        pairs.append(f"  {what}: {a} to {b}{unit} ({SHORT.get(row['verdict'], row['verdict'])})")
    heading = [screen.paint(title, "bold"), *screen.wrap(note, "dim", indent="  ")]
    return ["", *heading, first, *styled, *lines[len(rows) :], *pairs]


def _levels(found: Comparison, screen: Screen) -> list[str]:
    """Return the table by number of users, a group of columns for each side."""
    levels = found["levels"]
    if not levels:
        return []
    columns = [Column("users", "users", text=True)]
    for index, run in enumerate(found["runs"]):
        columns += [Column(f"rate{index}", f"{clean(run['name'])} req/s", 1), Column(f"p95{index}", "p95")]
        columns += [Column(f"verdict{index}", "", text=True, drop=1)] if index else []
    shown = []
    for row in levels:
        span = f"{row['fewest']}" if row["fewest"] == row["most"] else f"{row['fewest']} to {row['most']}"
        cells: dict[str, object] = {"users": pad(span, 4, right=True)}
        for index, side in enumerate(row["sides"]):
            if side is not None:
                cells |= {f"rate{index}": side["rate"], f"p95{index}": side["p95_ms"]}
                verdict = side.get("verdict", "")
                cells[f"verdict{index}"] = SHORT.get(verdict, verdict)
        shown.append(cells)
    return ["", *screen.heading("By number of concurrent users (p95 in ms)"), *screen.table(columns, shown)]


def render_compare_page(found: Comparison, *, force: bool = False) -> str:
    """Return the page of a document of ``locust-realism compare``; names in it are data, never markup."""
    title = "Comparison of " + ", ".join(run["name"] for run in found["runs"])
    text = render_comparison(found, PLAIN, force=force)
    return offline_page(title, {**found, "title": title, "force": force}, text, report_script("compare.js"))
