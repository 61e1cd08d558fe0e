"""Durations and checks of settings: the formats that are read, and one form of error message."""

from __future__ import annotations

import argparse
import math

import numpy as np
import pytest

from locust_realism.common.durations import DurationError, read_duration, write_duration, write_time_left
from locust_realism.common.validation import integer, not_negative, number, one_of, positive, share


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90.0), (".5", 0.5), ("5.", 5.0), ("5ms", 0.005), ("90s", 90.0), ("2m", 120.0), ("2min", 120.0),
        ("1.5m", 90.0), ("1h30m", 5400.0), ("1h 5s", 3605.0), ("1h1m1s", 3661.0), ("2m30", 150.0), ("1d", 86400.0),
        (" 90 s ", 90.0), ("1s500ms", 1.5), ("0", 0.0),
    ],
)  # fmt: skip
def test_a_duration_is_a_number_or_numbers_with_units(text: str, seconds: float) -> None:
    assert read_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text", ["", " ", "s", "5 apples", "5s5", "--5s", "-5", "1e3s", "1m1h", "1m1m", "nan", "inf", "2mins", "٣s"]
)
def test_other_text_is_refused_with_parameter_value_and_format(text: str) -> None:
    with pytest.raises(DurationError) as refused:
        read_duration(text, "--gap")
    assert str(refused.value) == f"--gap must be a time span such as 500ms, 90, 90s, 2m or 1h30m, not {text!r}"


def test_argparse_prints_the_format_beside_its_own_name_of_the_option(capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--gap", type=read_duration)
    with pytest.raises(SystemExit):
        parser.parse_args(["--gap", "soon"])
    assert "argument --gap: 'soon' must be a time span such as 500ms, 90, 90s, 2m or 1h30m" in capsys.readouterr().err


def test_written_durations_are_read_again() -> None:
    for seconds in (0.0005, 0.05, 0.999, 1.0, 12.3, 999.0):
        assert read_duration(write_duration(seconds)) == pytest.approx(seconds)
    for seconds in (8, 100, 3660, 93600):
        assert read_duration(write_time_left(seconds)) == seconds


@pytest.mark.parametrize("value", [True, "3", b"3", None, math.nan, math.inf, [1], 1 + 2j, np.str_("3")])
def test_a_number_is_finite_and_no_text(value: object) -> None:
    with pytest.raises(ValueError, match="^rate must be a finite number, not "):
        number("rate", value)


def test_numbers_of_numpy_become_floats() -> None:
    assert [type(number("rate", value)) for value in (np.float32(2), np.int64(2), 2)] == [float] * 3


@pytest.mark.parametrize(
    ("check", "good", "bad", "bound"),
    [
        (positive, 0.1, 0, "> 0"),
        (not_negative, 0, -0.1, ">= 0"),
        (share, 0.5, 1, r"in \(0, 1\)"),
        (integer, 0, 1.0, "an integer >= 0"),
        (integer, 0, -1, "an integer >= 0"),
        (integer, 1, True, "an integer >= 0"),
    ],
)
def test_each_check_returns_good_values_and_names_the_bound_of_bad_ones(
    check: object, good: float, bad: float, bound: str
) -> None:
    assert callable(check)
    assert check("x", good) == good
    with pytest.raises(ValueError, match=rf"^x must be {bound}, not "):
        check("x", bad)


def test_one_of_lists_the_allowed_values() -> None:
    assert one_of("kind", "a", ("a", "b")) == "a"
    with pytest.raises(ValueError, match="^kind must be one of a, b, not 'c'$"):
        one_of("kind", "c", ("a", "b"))
