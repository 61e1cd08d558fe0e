"""Arrival-rate profiles from a CSV file of times and rates."""

from __future__ import annotations

import math
from contextlib import suppress
from pathlib import Path
from typing import Literal

from locust_realism.common.validation import not_negative, one_of, refusal
from locust_realism.workload.csv_rows import bad_rows, data_rows
from locust_realism.workload.rates.shapes import PiecewiseLinearRate, RateProfile, StepRate


def rate_from_csv(
    path: str | Path,
    *,
    interpolation: Literal["linear", "step"] = "linear",
    repeat: bool = False,
    origin: float = 0.0,
    max_bad_rows: int = 0,
) -> RateProfile:
    """Return the profile of a file with two columns, time and rate per second, in order of time.

    - A first line without a number is the heading. Columns are found by the names ``time`` and ``rate``, else the first
      two are used. The separator is a comma, semicolon or tab; empty lines and lines that begin with # are skipped.
    - A time is a number of seconds or a time of day, HH:MM or HH:MM:SS (24:00 is the end of the day); ``origin``, in
      seconds, is the file's time at the start of the run.
    - ``interpolation``: "linear" draws straight lines between the rows, "step" holds a row's rate until the next row.
    - ``repeat`` starts again at the time of the last row, whose own rate has no effect with "step".

    A row is bad if a value is not a finite number, a rate is negative or a time is not after the one before. Up to
    ``max_bad_rows`` bad rows are left out; more raise an error with their number and the first of them.

    Raises ValueError with the file and line, and OSError if the file cannot be read.
    """
    one_of("interpolation", interpolation, ("linear", "step"))
    points: list[tuple[float, float]] = []
    bad: list[str] = []
    columns: tuple[int, int] | None = None
    for line, cells in data_rows(Path(path), ",;\t"):
        if columns is None:
            names = [cell.lower() for cell in cells]
            if len(names) < 2:
                raise ValueError(f"{path}: a profile has 2 columns, time and rate, not {len(names)}")
            columns = (names.index("time"), names.index("rate")) if {"time", "rate"} <= {*names} else (0, 1)
            if not any(map(_is_number, cells)):
                continue
        try:
            if len(cells) <= max(columns):
                raise ValueError(f"{len(cells)} column(s), expected at least {max(columns) + 1}")
            time, rate = _seconds(cells[columns[0]]), not_negative("rate", float(cells[columns[1]]))
            if points and time <= points[-1][0]:
                raise refusal("time", f"> {points[-1][0]:g}, the time before it", time)
            points.append((time, rate))
        except ValueError as error:
            bad.append(f"line {line}: {error}")
    if len(bad) > max_bad_rows:
        raise bad_rows(path, bad, len(bad) + len(points), f"max_bad_rows is {max_bad_rows}")
    if len(points) < 2:
        raise ValueError(f"{path}: a profile needs at least 2 good rows of time and rate, not {len(points)}")
    points = [(time - origin, rate) for time, rate in points]
    if interpolation == "linear":
        return PiecewiseLinearRate(tuple(points), repeat=repeat)
    if repeat:
        return StepRate(tuple(points[:-1]), end=points[-1][0], repeat=True)
    return StepRate(tuple(points))


def _is_number(text: str) -> bool:
    with suppress(ValueError):
        return math.isfinite(_seconds(text))
    return False


def _seconds(text: str) -> float:
    """Return seconds from a number of seconds or a time of day."""
    parts = text.split(":")
    if len(parts) == 1:
        value = float(text)
    elif len(parts) <= 3 and all(part.isdigit() for part in parts[:-1]):
        minutes, seconds = [float(part) for part in [*parts[1:], "0"][:2]]
        value = int(parts[0]) * 3600 + minutes * 60 + seconds
        if not (0 <= minutes < 60 and 0 <= seconds < 60):
            raise ValueError(f"{text!r} is not a time of day")
    else:
        raise ValueError(f"{text!r} is not a time")
    if not math.isfinite(value):
        raise ValueError(f"{text!r} is not finite")
    return value
