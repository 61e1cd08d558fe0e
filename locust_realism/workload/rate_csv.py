"""Arrival-rate profiles from a CSV file of times and rates."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from .rates import PiecewiseLinearRate, RateProfile, StepRate

_SHOWN = 3


class _Row(NamedTuple):
    line: int
    cells: list[str]


def rate_from_csv(
    path: str | Path,
    *,
    interpolation: Literal["linear", "step"] = "linear",
    repeat: bool = False,
    origin: float = 0.0,
    max_bad_rows: int = 0,
) -> RateProfile:
    """A profile from a file of two columns, time and rate per second, in order of time.

    - A first line that holds no number is taken as a heading; columns named ``time`` and ``rate`` are then found by
      name, else the first two count. The separator is a comma, semicolon or tab; empty lines and lines that begin
      with # are skipped.
    - A time is a number of seconds or a time of day, HH:MM or HH:MM:SS (24:00 is the end of the day); ``origin``, in
      seconds, is the file's time at which the run starts.
    - ``interpolation``: "linear" draws straight lines between the rows, "step" keeps a row's rate until the next row.
    - ``repeat`` starts again at the time of the last row (whose own rate counts for nothing with "step").

    A row is bad where a value is not a finite number, a rate is negative or a time does not come after the one before.
    More than ``max_bad_rows`` of them is an error, which counts them and shows the first; as many as that are left out.

    Raises ValueError with the file and line, and OSError where the file cannot be read.
    """
    if interpolation not in ("linear", "step"):
        raise ValueError(f"interpolation must be 'linear' or 'step', not {interpolation!r}")
    points: list[tuple[float, float]] = []
    bad: list[str] = []
    total = 0
    for row, columns in _rows(Path(path)):
        total += 1
        try:
            points.append(_point(row.cells, columns, points))
        except ValueError as error:
            bad.append(f"line {row.line}: {error}")
    if len(bad) > max_bad_rows:
        shown = "; ".join(bad[:_SHOWN]) + ("; ..." if len(bad) > _SHOWN else "")
        raise ValueError(f"{path}: {len(bad)} bad of {total} rows, max_bad_rows is {max_bad_rows}: {shown}")
    if len(points) < 2:
        raise ValueError(f"{path}: a profile needs at least 2 good rows of time and rate, not {len(points)}")
    points = [(time - origin, rate) for time, rate in points]
    if interpolation == "linear":
        return PiecewiseLinearRate(tuple(points), repeat=repeat)
    if repeat:
        return StepRate(tuple(points[:-1]), end=points[-1][0], repeat=True)
    return StepRate(tuple(points))


def _rows(path: Path) -> Iterator[tuple[_Row, tuple[int, int]]]:
    """The rows that hold data, each with the positions of its time and its rate."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        start = file.read(4096)
        separator = max(",;\t", key=start.count)
        file.seek(0)
        columns: tuple[int, int] | None = None
        reader = csv.reader(file, delimiter=separator)
        for raw in reader:
            cells = [cell.strip() for cell in raw]
            if not any(cells) or cells[0].startswith("#"):
                continue
            if columns is None:
                columns = _columns(path, cells)
                if not any(map(_is_number, cells)):
                    continue
            yield _Row(reader.line_num, cells), columns


def _columns(path: Path, heading: list[str]) -> tuple[int, int]:
    names = [cell.lower() for cell in heading]
    if "time" in names and "rate" in names:
        return names.index("time"), names.index("rate")
    if len(heading) < 2:
        raise ValueError(f"{path}: a profile has 2 columns, time and rate, not {len(heading)}")
    return 0, 1


def _is_number(text: str) -> bool:
    try:
        _seconds(text)
    except ValueError:
        return False
    return True


def _seconds(text: str) -> float:
    """Seconds, from a number of seconds or a time of day."""
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


def _point(cells: list[str], columns: tuple[int, int], before: list[tuple[float, float]]) -> tuple[float, float]:
    if len(cells) <= max(columns):
        raise ValueError(f"{len(cells)} column(s), expected at least {max(columns) + 1}")
    time, rate = _seconds(cells[columns[0]]), float(cells[columns[1]])
    if not (math.isfinite(rate) and rate >= 0):
        raise ValueError(f"rate must be >= 0, not {cells[columns[1]]}")
    if before and time <= before[-1][0]:
        raise ValueError(f"time must be > {before[-1][0]:g}, the time before it, not {cells[columns[0]]}")
    return time, rate
