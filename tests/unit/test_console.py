"""The text at the end of a run: aligned, one screen, and safe with every name of a request."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from locust_realism.report.console import capacity_lines, group_lines, render_summary, stage_lines, steady_lines
from locust_realism.report.terminal import (
    Column,
    Screen,
    clean,
    display_width,
    shorten,
    supports_color,
    supports_unicode,
    wrap,
)

HOSTILE = "\x1b[31mred\x1b[0m\r\n\tfile\u202egpj.exe \x9b2J\u2028 日本語 <script>alert(1)</script> =cmd()"
SENTENCE = "The launches did not come like those of independent users."
ANSI = re.compile(r"\x1b\[[0-9;]*m")


def row(label: str, method: str = "GET", **figures: float) -> dict[str, Any]:
    times = {"p50_ms": 12.559, "p90_ms": 80.1, "p95_ms": 143.9, "p99_ms": 559.0, "p999_ms": 1201.0, "max_ms": 60000.123}
    return {"label": label, "method": method, "n": 1234567, "failures": 12, "rate": 823.1, **times, **figures}


def launch(label: str, method: str = "GET", **figures: float) -> dict[str, Any]:
    times = {
        "median_ms": 0.8,
        "p50_ms": 0.8,
        "mean_ms": 1.2,
        "sdev_ms": 1.3,
        "cov": 1.083,
        "p90_ms": 2.0,
        "p95_ms": 3.0,
    }
    extremes = {"p99_ms": 4.4, "min_ms": 0.0, "max_ms": 900.0}
    return {"label": label, "method": method, "n": 1234566, "rate": 823.1, **times, **extremes, **figures}


def check(number: int, name: str, status: str, value: float | None, bound: object) -> dict[str, Any]:
    return {"id": number, "name": name, "status": status, "value": value, "bound": bound}


CHECKS = [
    check(1, "CoV", "red", 9.6123, [0.9, 1.1]),
    check(6, "IDC", "red", 90.0, 1.25),
    check(5, "R/(R+Z)", "amber", 0.05, 0.03),
    check(7, "Group size", "green", 10, 50),
    check(10, "Starts", "not enough data", None, None),
]
CAUSES = [
    {
        "name": "a machine busy with other programs", "distortion": "heavy workload", "check": 1, "status": "red",
        "evidence": "Other programs used 1.9 cores (ffmpeg 1.9).", "remedy": "Move ffmpeg.", "consequences": [6],
    },
    {
        "name": "a server that paces its users", "distortion": None, "check": 5, "status": "amber",
        "evidence": "Users wait.", "remedy": "Use open arrivals.", "consequences": [],
    },
]  # fmt: skip


def summary(names: list[str], overall: str = "red") -> dict[str, Any]:
    return {
        "verdict": {
            "overall": overall,
            "sentence": SENTENCE,
            "checks": CHECKS,
            "causes": CAUSES,
            "missing": ["pressure"],
        },
        "window": {"sentence": "100 requests."},
        "rule": "nearest_rank",
        "response_times": [*map(row, names), row("Aggregated", "")],
        "launches": [*map(launch, names), launch("Aggregated", "")],
    }


def test_a_line_below_the_response_times_states_the_intervals_of_all_requests_that_are_missing() -> None:
    shown = summary(["file"])
    note = "For a confidence interval run about 30 times as long (p99), 300 (p99.9)."
    assert note not in render_summary(shown, Screen(100))
    shown["response_times"][-1]["interval_note"] = note
    lines = render_summary(shown, Screen(100)).splitlines()
    assert lines[lines.index(f"  {note}") - 1].startswith("  Aggregated")


def test_the_verdict_comes_first_then_each_cause_with_its_evidence_its_remedy_and_its_checks() -> None:
    lines = render_summary(summary(["file"]), Screen(100)).splitlines()
    assert lines[:11] == [
        "Verdict: RED",
        f"  {SENTENCE}",
        "  ● RED A machine busy with other programs (heavy workload)",
        "    Other programs used 1.9 cores (ffmpeg 1.9).",
        "    Move ffmpeg.",
        "    Seen in 1 CoV (red, 9.612, bound 0.9 to 1.1); 6 IDC (red, 90, bound 1.25).",
        "  ● AMBER A server that paces its users",
        "    Users wait.",
        "    Use open arrivals.",
        "    Seen in 5 R/(R+Z) (amber, 0.05, bound 0.03).",
        "  Not measured: pressure.",
    ]
    assert lines[11] == "  Checks: 2 red, 1 amber, 1 without enough data, 1 green."


def test_causes_without_a_verdict_are_announced_as_early_signs() -> None:
    lines = render_summary(summary(["file"], overall="not enough data"), Screen(100)).splitlines()
    assert lines[0] == "Verdict: NOT ENOUGH DATA"
    assert lines[2] == "  There is no verdict yet; what is already visible:"
    assert lines[3].startswith("  ● RED A machine busy")
    assert "already visible" not in render_summary(summary(["file"]), Screen(100))
    nothing = summary(["file"], overall="not enough data")
    nothing["verdict"]["causes"] = []
    assert "already visible" not in render_summary(nothing, Screen(100))


def test_the_first_cause_is_shown_on_the_smallest_screen_and_the_others_are_counted() -> None:
    text = render_summary(summary(["file"]), Screen(60), height=16)
    assert "A machine busy with other programs" in text
    assert "and 1 more cause(s)" in text
    assert "paces" not in text


def test_every_figure_of_the_two_tables_is_printed_with_its_thousands_separators() -> None:
    text = render_summary(summary(["file"]), Screen(120))
    for figure in ("1,234,567", "823.10", "12.6", "144", "1,201", "60,000", "1,234,566", "1.08", "4.40"):
        assert figure in text
    assert "nearest rank" in text


def test_numbers_of_a_column_end_below_each_other() -> None:
    lines = render_summary(summary(["a", "bb" * 8]), Screen(110)).splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("Time between"))
    assert len({len(line) for line in lines[start + 1 : start + 5]}) == 1


@pytest.mark.parametrize("width", [40, 60, 80, 100, 132])
@pytest.mark.parametrize("color", [False, True])
def test_no_line_is_wider_than_the_terminal(width: int, color: bool) -> None:
    text = render_summary(summary(["x" * 300, HOSTILE, "日本語" * 30]), Screen(width, color=color))
    assert max(display_width(ANSI.sub("", line)) for line in text.splitlines()) <= width


def test_columns_that_do_not_fit_are_named() -> None:
    text = render_summary(summary(["file"]), Screen(60))
    assert "not shown at this width:" in text


def test_forty_names_still_fit_one_screen_and_the_rest_are_counted() -> None:
    names = [f"name {i}" for i in range(40)]
    data = summary(names)
    for i, each in enumerate(data["response_times"][:-1]):
        each["n"] = 1000 if i == 33 else i
    text = render_summary(data, Screen(120), height=40)
    assert len(text.splitlines()) <= 40
    assert "name 33" in text
    assert re.search(r"and 3\d more names with fewer requests", text)
    assert text.count("Aggregated") == 2


def test_colours_only_when_asked_for() -> None:
    assert "\x1b" not in render_summary(summary(["file"]), Screen(80))
    coloured = render_summary(summary(["file"]), Screen(80, color=True))
    assert coloured.splitlines()[0] == "\x1b[31mVerdict: RED\x1b[0m"
    assert ANSI.sub("", coloured) == render_summary(summary(["file"]), Screen(80))


def test_a_hostile_name_cannot_send_a_control_character_to_the_terminal() -> None:
    text = render_summary(summary([HOSTILE]), Screen(250))
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202e]", text)
    assert "\\x1b[31mred" in text


def test_without_unicode_only_ascii_is_added() -> None:
    text = render_summary(summary(["a" * 200]), Screen(80, unicode=False))
    assert text.isascii()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "environ", "expected"),
    [
        (Terminal(), {}, True),
        (io.StringIO(), {}, False),
        (Terminal(), {"NO_COLOR": "1"}, False),
        (Terminal(), {"NO_COLOR": ""}, True),
        (Terminal(), {"TERM": "dumb"}, False),
    ],
)
def test_colours_are_for_terminals_that_support_them(
    stream: io.StringIO, environ: dict[str, str], expected: bool
) -> None:
    assert supports_color(stream, environ) is expected


def test_marks_beyond_ascii_only_where_the_encoding_has_them() -> None:
    assert supports_unicode(io.TextIOWrapper(io.BytesIO(), encoding="utf-8"))
    assert not supports_unicode(io.TextIOWrapper(io.BytesIO(), encoding="ascii"))


@given(st.text(max_size=60), st.integers(4, 40))
def test_shortened_text_is_never_wider_than_its_room(text: str, width: int) -> None:
    assert display_width(shorten(clean(text), width)) <= width


@given(st.text())
def test_cleaned_text_is_printable(text: str) -> None:
    assert all(char == " " or char.isprintable() or char.isspace() for char in clean(text))
    assert not set(clean(text)) & set("\n\r\t\x1b\x07\x08\u2028\u202e")


def test_a_column_without_figures_shows_dashes() -> None:
    assert Screen(40).table([Column("a", "a"), Column("b", "b")], [{"a": None, "b": 1.5}]) == ["  a     b", "  -  1.50"]


def test_wrapping_keeps_every_word() -> None:
    text = "one two three four five six seven"
    lines = wrap(text, 12, indent="  ")
    assert " ".join(line.strip() for line in lines) == text
    assert max(map(len, lines)) <= 12


def test_warnings_of_the_capacity_stand_before_its_table() -> None:
    level = {
        "users": 20.0,
        "n": 1000,
        "failures": 0,
        "rate": 12.5,
        "mean_ms": 200.0,
        "p95_ms": 400.5,
        "little_users": 19.8,
    }
    found = {
        "levels": [level],
        "warnings": ["The generator was the limit \x1b[2J"],
        "explanation": "Measured at 20 users.",
        "usl": {"alpha": 0.03, "beta": 0.0008, "gamma": 20.0, "peak_users": None},
    }
    lines = capacity_lines({"capacity": found}, Screen(120))
    assert lines[2] == "  The generator was the limit \\x1b[2J"
    assert lines[3] == "  Measured at 20 users."
    assert "alpha 0.03" in lines[4]
    assert "no peak within what was measured" in " ".join(line.strip() for line in lines[4:6])
    assert {"20.0", "12.50", "400", "19.8"} <= set(lines[-1].split())
    assert capacity_lines({"capacity": None}, Screen(100)) == []


def test_halves_of_the_run_stand_beside_what_jmeter_would_have_shown() -> None:
    figures = {"rate": 10.0, "mean_ms": 20.0, "p50_ms": 15.0, "p90_ms": 33.0, "p95_ms": 41.0, "p99_ms": 90.5}
    figures["response_cov"] = 1.04
    found = {
        "halves": [{"n": 20_500, **figures}, {"n": 20_600, **figures, "p95_ms": 55.0}],
        "jmeter_window": {"samples": 20_000, **figures, "p95_ms": 155.0},
        "mser5_rows": 0,
        "pieces": [{"p95_ms": 41.0}, {"p95_ms": 55.0}],
    }
    lines = steady_lines({"steady_state": found}, Screen(120))
    assert [line.split()[-3] for line in lines[3:6]] == ["41", "55", "155"]
    assert lines[5].startswith("  JMeter's last 20,000")
    assert lines[-2:] == [
        "  By MSER-5 nothing is warm-up.",
        "  The p95 of 2 pieces of 20,000 requests is 41 to 55 ms.",
    ]
    assert steady_lines({"steady_state": {"halves": [], "jmeter_window": None, "mser5_rows": 0}}, Screen(120)) == []
    assert max(map(len, steady_lines({"steady_state": found}, Screen(60)))) <= 60


def test_stages_are_a_table() -> None:
    rows = [
        {"kind": "stage", "start_s": 0.0, "end_s": 60.0, "users": users, "n": 600, "rate": 10.0, "p95_ms": 40.0 + users}
        for users in (20, 50, 100)
    ]
    lines = stage_lines({"stages": [*rows, {"kind": "level", "users": 20.0}]}, Screen(120))
    assert lines[2].split() == ["from", "s", "to", "s", "users", "requests", "req/s", "p95"]
    assert [line.split()[2] for line in lines[3:]] == ["20", "50", "100"]
    assert [line.split()[-1] for line in lines[3:]] == ["60", "90", "140"]
    assert stage_lines({"stages": rows[:1]}, Screen(120)) == []


def test_groups_of_users_are_a_table() -> None:
    row = {"users": 200, "n": 38072, "rate": 31.73, "mean_ms": 31.52, "sdev_ms": 31.59, "cov": 1.002}
    lines = group_lines({"groups": [row]}, Screen(100))
    assert lines[-1].split() == ["200", "38,072", "31.73", "31.52", "31.59", "1.00"]
