"""A comparison of runs as text: the conclusion as a sentence, then the differences with their intervals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from locust_realism.report.text import Column, clean, number, pad, paint, table, wrap

COMPARISON_CSV = (
    "candidate", "method", "label", "figure", "a", "b", "difference", "low", "high", "ratio", "n_a", "n_b", "verdict",
)  # fmt: skip
STYLES = {"slower": "red", "faster": "green", "mixed": "amber"}
SHORT = {"no difference that this data can show": "not shown", "the same within the tolerance": "same"}

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
FIGURE_TITLES = {"p50_ms": "p50", "p90_ms": "p90", "p95_ms": "p95", "p99_ms": "p99", "mean_ms": "mean"}


def render_comparison(
    found: Mapping[str, Any], *, color: bool, width: int, unicode: bool = True, force: bool = False
) -> str:
    """The document of ``analysis.comparison.compare`` (with ``levels`` and ``warnings``) as lines of ``width``."""
    width = max(60, width)
    lines: list[str] = []
    for each in found["candidates"]:
        style = STYLES.get(each["conclusion"], "bold") if each["alike"]["status"] != "refused" or force else "amber"
        lines += [paint(line, style, color=color) for line in wrap(clean(each["sentence"]), width)]
        for reason in each["alike"]["reasons"]:
            lines += [paint(line, "amber", color=color) for line in wrap(clean(reason), width, indent="  ")]
    for warning in found.get("warnings") or []:
        lines += [paint(line, "dim", color=color) for line in wrap(clean(warning), width, indent="  ")]
    for each in found.get("agreement") or []:
        lines += wrap(clean(each["sentence"]), width)
    lines += ["", paint("Runs", "bold", color=color)]
    lines += table(RUN_COLUMNS, [_run(run) for run in found["runs"]], width=width, color=color, unicode=unicode)
    for each in found["candidates"]:
        if each["alike"]["status"] != "refused" or force:
            lines += _differences(found, each, width=width, color=color, unicode=unicode)
    lines += _levels(found, width=width, color=color, unicode=unicode)
    return "\n".join(lines)


def _run(run: Mapping[str, Any]) -> dict[str, Any]:
    pattern = ", ".join(sorted({str(word) for word in run["verdict"] if word}))
    return {**run, "failed": 100 * run["failures"], "pattern": pattern}


def _differences(
    found: Mapping[str, Any], each: Mapping[str, Any], *, width: int, color: bool, unicode: bool
) -> list[str]:
    together = f"{found['confidence']:.4g}".rstrip("0")
    title = f"{clean(each['name'])} against {clean(found['baseline'])}: response times (ms)"
    note = f"intervals hold together at {100 * float(together):.4g} %, autocorrelation taken into account"
    rows = [
        {
            **row,
            "who": f"{row['method']} {row['label']}".strip(),
            "what": FIGURE_TITLES.get(row["figure"], row["figure"]),
            "change": 100 * (row["ratio"] - 1) if row["ratio"] is not None else None,
            "shown": SHORT.get(row["verdict"], row["verdict"]),
        }
        for row in each["rows"]
    ]
    lines = table(DIFFERENCE_COLUMNS, rows, width=width, color=color, unicode=unicode)
    styled = [
        paint(line, STYLES[row["verdict"]], color=color) if row["verdict"] in STYLES else line
        for line, row in zip(lines[1:], rows, strict=False)
    ]
    rest = lines[1 + len(rows) :]
    pairs = []
    for key, what, scale, unit in (("throughput", "Throughput", 1.0, "/s"), ("failures", "Failures", 100.0, " %")):
        row = each[key]
        a, b = (number(None if row[k] is None else scale * row[k], 2) for k in ("a", "b"))
        pairs.append(f"  {what}: {a} to {b}{unit} ({SHORT.get(row['verdict'], row['verdict'])})")
    heading = [
        paint(title, "bold", color=color),
        *(paint(x, "dim", color=color) for x in wrap(note, width, indent="  ")),
    ]
    return ["", *heading, lines[0], *styled, *rest, *pairs]


def _levels(found: Mapping[str, Any], *, width: int, color: bool, unicode: bool) -> list[str]:
    """The table by number of users, a group of columns a side."""
    rows = found.get("levels") or []
    if not rows:
        return []
    names = [clean(run["name"]) for run in found["runs"]]
    columns = [Column("users", "users", text=True)]
    for index, name in enumerate(names):
        columns += [Column(f"rate{index}", f"{name} req/s", 1), Column(f"p95{index}", "p95", drop=0)]
        columns += [Column(f"verdict{index}", "", text=True, drop=1)] if index else []
    shown = []
    for row in rows:
        span = f"{row['fewest']}" if row["fewest"] == row["most"] else f"{row['fewest']} to {row['most']}"
        cells: dict[str, Any] = {"users": pad(span, 4, right=True)}
        for index, side in enumerate(row["sides"]):
            side = side or {}
            cells |= {f"rate{index}": side.get("rate"), f"p95{index}": side.get("p95_ms")}
            cells[f"verdict{index}"] = SHORT.get(side.get("verdict", ""), side.get("verdict", ""))
        shown.append(cells)
    title = paint("By number of concurrent users (p95 in ms)", "bold", color=color)
    return ["", title, *table(columns, shown, width=width, color=color, unicode=unicode)]
