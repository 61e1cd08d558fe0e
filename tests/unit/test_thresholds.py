"""Thresholds: accepted texts, the position of a typo, and results from a summary."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from locust_realism.analysis.thresholds import ThresholdError, evaluate_thresholds, parse_threshold, parse_thresholds


def response(label: str, method: str = "", **figures: float | None) -> dict[str, object]:
    return {"label": label, "method": method, "n": 1000, "failures": 20, "rate": 50.0, "p95_ms": 400.0, **figures}


SUMMARY = {
    "response_times": [
        response("file", "GET", p99_ms=900.0),
        response("file", "PUT", p99_ms=1200.0),
        response("a]b", "GET", p99_ms=5.0),
        response("Aggregated", p50_ms=120.0, p99_ms=1000.0, p999_ms=None),
    ],
    "launches": [
        {"label": "Aggregated", "method": "", "cov": 1.12, "p50_ms": 20.0, "p99_ms": 90.0},
    ],
    "verdict": {"overall": "amber", "checks": [{"id": 5, "name": "R/(R+Z)", "status": "red"}]},
}


@pytest.mark.parametrize(
    ("text", "failed"),
    [
        ("p95 > 400ms", False),
        ("p95 >= 400ms", True),
        ("p95 >= 0.4s", True),
        ("p95 > 399999us", True),
        ("p95 < 1min", True),
        ("P95>399ms", True),
        ("median < 100 ms", False),
        ("p50 < 130ms", True),
        ("p99[GET file] > 1s", False),
        ("p99[PUT file] > 1s", True),
        ('p99["a]b"] < 6ms', True),
        ('p99["GET a]b"] < 5ms', False),
        ("failures > 1%", True),
        ("failures > 2%", False),
        ("failures > 19", True),
        ("failures >= 21", False),
        ("rate < 50/s", False),
        ("rate <= 3000/min", True),
        ("rate < 180001/h", True),
        ("requests < 1000", False),
        ("cov outside 0.9..1.1", True),
        ("cov outside .9..1.2", False),
        ("cov within 1..1.2", True),
        ("cov outside 0.9 .. 1.12", False),
        ("p95 outside 300..500ms", False),
        ("p95 within 300ms..0.5s", True),
        ("failures outside 3%..4%", True),
        ("launch.p99 > 80ms", True),
        ("launch.median > 20ms", False),
        ("verdict is red", False),
        ("verdict is amber", True),
        ("verdict is not green", True),
        ("verdict is not amber", False),
        ("verdict is not enough data", False),
        ("verdict is not not enough data", True),
        ("verdict[5] is red", True),
        ("verdict[R/(R+Z)] is red", True),
    ],
)
def test_a_threshold_fails_exactly_where_its_condition_holds(text: str, failed: bool) -> None:
    (result,) = evaluate_thresholds([parse_threshold(text)], SUMMARY)
    assert result.failed is failed
    assert result.line.startswith("FAILED  " if failed else "ok      ")
    assert text in result.line


@pytest.mark.parametrize(
    ("text", "position", "part"),
    [
        ("", 0, "expected a figure"),
        ("p59 > 1s", 0, "perhaps 'p99'"),
        ("  verdit is red", 2, "perhaps 'verdict'"),
        ("p95 => 1s", 4, "expected one of"),
        ("p95 is 1s", 4, "expected one of"),
        ("p95", 3, "got nothing"),
        ("p95 > ", 6, "expected a number"),
        ("p95 > 400xs", 9, "unknown unit 'xs'"),
        ("p95 > 400", 9, "a unit is missing"),
        ("p95 > 40%", 8, "unknown unit '%'"),
        ("rate < 5", 8, "a unit is missing"),
        ("cov > 1ms", 7, "this figure has none"),
        ("p95 > 400ms!", 11, "expected the end"),
        ("p95 > 400ms or p50 > 2ms", 12, "expected the end"),
        ("p95[GET file > 1s", 3, "not closed"),
        ("p95[] > 1s", 3, "empty"),
        ("cov outside 0.9", 15, "expected a range"),
        ("cov outside 1.1..0.9", 17, "the range must grow"),
        ("failures outside 1%..5", 21, "the range must grow"),
        ("verdict red", 8, "expected 'is'"),
        ("verdict is rde", 11, "perhaps 'red'"),
        ("verdict is", 10, "unknown status"),
        ("launch.p99.9 > 1s", 0, "unknown figure"),
    ],
)
def test_a_typo_is_an_error_that_shows_its_place(text: str, position: int, part: str) -> None:
    with pytest.raises(ThresholdError) as caught:
        parse_threshold(text)
    assert caught.value.position == position
    assert part in caught.value.reason
    assert str(caught.value).splitlines()[-1] == "  " + " " * position + "^"


def test_a_name_without_its_method_judges_every_method_and_names_it() -> None:
    results = evaluate_thresholds(parse_thresholds(["p99[file] > 1s", "p99[*] > 1s"]), SUMMARY)
    assert [r.failed for r in results] == [False, True, False, True, False]
    assert "PUT file: 1,200 ms" in results[1].line


@pytest.mark.parametrize(
    "text", ["p99[POST file] > 1s", "p99.9 > 1s", "cov[GET file] > 2", "verdict[99] is red", "launch.sdev > 1ms"]
)
def test_a_missing_figure_counts_as_failed(text: str) -> None:
    (result,) = evaluate_thresholds([parse_threshold(text)], SUMMARY)
    assert result.failed
    assert result.value is None
    assert "counts as failed" in result.line


@pytest.mark.parametrize("text", ["p95 > 1s", "verdict is red"])
def test_an_empty_summary_fails_every_threshold(text: str) -> None:
    assert [r.failed for r in evaluate_thresholds([parse_threshold(text)], {})] == [True]


@given(st.text(max_size=30))
def test_every_text_is_read_or_refused_at_a_position_inside_it(text: str) -> None:
    with contextlib.suppress(ThresholdError):
        assert parse_threshold(text).text == text
        return
    with pytest.raises(ThresholdError) as caught:
        parse_threshold(text)
    assert 0 <= caught.value.position <= len(text)
