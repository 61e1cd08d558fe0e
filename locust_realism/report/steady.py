"""Whether the run was steady, as text: its halves, what a window of the last samples would have said, its stages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from locust_realism.report.text import Column, clean, number, paint, table, wrap

_FIGURES = (
    Column("rate", "req/s", 2),
    Column("mean_ms", "mean", drop=2),
    Column("p50_ms", "p50"),
    Column("p90_ms", "p90", drop=1),
    Column("p95_ms", "p95"),
    Column("p99_ms", "p99"),
)
PART_COLUMNS = (Column("part", "Part", text=True), Column("n", "requests", 0), *_FIGURES)
STAGE_COLUMNS = (
    Column("start_s", "from s", 0),
    Column("end_s", "to s", 0),
    Column("users", "users", 0),
    Column("planned_rate", "planned/s", 2),
    Column("arrival_rate", "arrivals/s", 2),
    Column("think_time_s", "Z s", 2),
    Column("n", "requests", 0, drop=4),
    Column("failures", "failed", 0, drop=5),
    *_FIGURES,
    Column("cov", "CoV", 2, drop=3),
)


def steady_lines(summary: Mapping[str, Any], *, color: bool, width: int, unicode: bool = True) -> list[str]:
    """The two halves of the run beside JMeter's window of samples, and what MSER-5 and equal pieces say.

    Empty where the run has too few requests to be divided.
    """
    found = summary.get("steady_state") or {}
    rows = [
        {"part": name, **half}
        for name, half in zip(("first half", "second half"), found.get("halves") or [], strict=False)
    ]
    window = found.get("jmeter_window")
    if window:
        rows.append({**window, "part": f"JMeter's last {number(window['samples'], 0)}", "n": window["samples"]})
    if not rows:
        return []
    lines = ["", paint("Steady state: response times (ms)", "bold", color=color)]
    lines += table(PART_COLUMNS, rows, width=width, color=color, unicode=unicode)
    for sentence in steady_sentences(found):
        lines += [paint(line, "dim", color=color) for line in wrap(clean(sentence), width, indent="  ")]
    return lines


def steady_sentences(found: Mapping[str, Any]) -> list[str]:
    """What MSER-5 would leave out, and between what the p95 of equal pieces lies.

    >>> steady_sentences({"mser5_rows": 500, "mser5_s": 5.04, "pieces": [{"p95_ms": 70.0}, {"p95_ms": 170.0}]})
    ['By MSER-5 the first 500 requests (5.0 s) are warm-up.', 'The p95 of 2 pieces of 20,000 requests is 70 to 170 ms.']
    """
    said = []
    if found.get("mser5_rows"):
        text = f"the first {number(found['mser5_rows'], 0)} requests ({number(found.get('mser5_s'), 1)} s) are warm-up"
        said.append(f"By MSER-5 {text}.")
    elif found.get("mser5_rows") == 0:
        said.append("By MSER-5 nothing is warm-up.")
    p95 = [piece["p95_ms"] for piece in found.get("pieces") or [] if piece.get("p95_ms") is not None]
    if len(p95) > 1:
        text = f"{number(min(p95), 0)} to {number(max(p95), 0)} ms"
        said.append(f"The p95 of {len(p95)} pieces of 20,000 requests is {text}.")
    return said


def stage_lines(summary: Mapping[str, Any], *, color: bool, width: int, unicode: bool = True) -> list[str]:
    """A row for each stage of the plan; empty where the run had one only."""
    rows = [row for row in summary.get("stages") or [] if row.get("kind") == "stage"]
    if len(rows) < 2:
        return []
    shown = [column for column in STAGE_COLUMNS if any(row.get(column.key) is not None for row in rows)]
    title = paint("Stages: response times (ms)", "bold", color=color)
    note = "while the number of users, the planned rate or the think time held"
    heading = [title + paint("  " + note, "dim", color=color)] if len(note) + 30 <= width else [title]
    return ["", *heading, *table(shown, rows, width=width, color=color, unicode=unicode)]
