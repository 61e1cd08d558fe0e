"""How thresholds are written: conditions under which a run has failed, read with the place of every typo.

A threshold names a figure of the summary, optionally of one request name, and when it fails the run:

    p95 > 400ms                   any of mean, sdev, min, max, p50 (median), p90, p95, p99, p99.9 of the response times
    p99[GET file] > 1s            of one name; the method may be left out; p99["a]b"] quotes; [*] is every name
    failures > 1%                 a share of the requests, or without % their number
    rate < 50/s, requests < 1000  requests per second (or /min, /h) and their number
    cov outside 0.9..1.1          CoV of the times between launches; also within; launch.p99 > 2s and so on
    verdict is red                or is not green; verdict[5] is amber takes one check by its number

What is mistyped is an error with its position, raised before a run starts.
"""

from __future__ import annotations

import difflib
import operator
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

Unit = Literal["time", "share", "rate", "plain"]

TIME_UNITS = {"us": 1e-3, "ms": 1.0, "s": 1e3, "min": 6e4}
RATE_UNITS = {"/s": 1.0, "/min": 1 / 60, "/h": 1 / 3600}
COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
RANGES = ("outside", "within")
STATUSES = ("red", "amber", "green", "not enough data")


@dataclass(frozen=True)
class Metric:
    """Where a figure stands in the summary: table, key and unit."""

    table: Literal["response_times", "launches"]
    key: str
    unit: Unit


def _statistics(prefix: str, table: Literal["response_times", "launches"]) -> dict[str, Metric]:
    times = ("mean", "sdev", "min", "max", "p50", "p90", "p95", "p99", "p999")
    named = {f"{prefix}{name}": Metric(table, f"{name}_ms", "time") for name in times}
    named[f"{prefix}median"] = named[f"{prefix}p50"]
    named[f"{prefix}p99.9"] = named[f"{prefix}p999"]
    named[f"{prefix}cov"] = Metric(table, "cov", "plain")
    return named


METRICS: dict[str, Metric] = {
    **_statistics("launch.", "launches"),
    **_statistics("response.", "response_times"),
    **{k: v for k, v in _statistics("", "response_times").items() if k != "cov"},
    "cov": Metric("launches", "cov", "plain"),
    "failures": Metric("response_times", "failures", "share"),
    "requests": Metric("response_times", "n", "plain"),
    "rate": Metric("response_times", "rate", "rate"),
}
del METRICS["launch.p999"], METRICS["launch.p99.9"]  # the table of launches ends at p99


class ThresholdError(ValueError):
    """A threshold that cannot be read: ``text``, ``position`` (0-based) of the fault and ``reason``."""

    def __init__(self, text: str, position: int, reason: str) -> None:
        self.text, self.position, self.reason = text, position, reason
        super().__init__(f"threshold cannot be read: {reason}\n  {text}\n  {' ' * position}^")


@dataclass(frozen=True)
class Threshold:
    """One parsed threshold; built by :func:`parse_threshold`.

    ``bounds`` are in the unit of the summary: milliseconds, requests per second, a share in [0, 1] where
    ``relative``, or the plain number; for the verdict ``status`` is compared instead.
    """

    text: str
    metric: str
    name: str | None = None
    operator: str = ">"
    bounds: tuple[float, ...] = ()
    relative: bool = False
    status: str = ""


class _Scanner:
    """Reads a threshold from left to right and knows where it stands, for the error's caret."""

    def __init__(self, text: str) -> None:
        self.text, self.position = text, 0

    def space(self) -> None:
        while self.position < len(self.text) and self.text[self.position].isspace():
            self.position += 1

    def take(self, pattern: str) -> re.Match[str] | None:
        self.space()
        match = re.compile(pattern).match(self.text, self.position)
        if match:
            self.position = match.end()
        return match

    def error(self, reason: str, position: int | None = None) -> ThresholdError:
        return ThresholdError(self.text, self.position if position is None else position, reason)


def parse_threshold(text: str) -> Threshold:
    """Read one threshold; ThresholdError (a ValueError) shows where it cannot be read and what was expected.

    >>> parse_threshold("p99[GET file] > 1s").bounds
    (1000.0,)
    >>> print(parse_threshold("p59 > 1s"))
    Traceback (most recent call last):
        ...
    locust_realism.analysis.threshold_text.ThresholdError: threshold cannot be read: unknown figure 'p59', perhaps 'p99'
      p59 > 1s
      ^
    """
    scan = _Scanner(text)
    scan.space()
    start = scan.position
    word = scan.take(r"[A-Za-z][A-Za-z_.0-9]*")
    if word is None:
        raise scan.error(
            f"expected a figure such as p95, failures, rate, cov or verdict, got {text[start:] or 'nothing'!r}"
        )
    metric = word.group().lower()
    if metric != "verdict" and metric not in METRICS:
        raise scan.error(f"unknown figure {word.group()!r}{_suggest(metric, [*METRICS, 'verdict'])}", start)
    name = _name(scan)
    parsed = _status(scan, text, name) if metric == "verdict" else _bounds(scan, text, metric, name)
    scan.space()
    if scan.position < len(text):
        raise scan.error(f"expected the end, got {text[scan.position :]!r}")
    return parsed


def parse_thresholds(lines: Iterable[str]) -> list[Threshold]:
    """Thresholds of several texts or of the lines of a file; empty lines and those that start with ``#`` are skipped.

    >>> [t.metric for t in parse_thresholds(["# gate of the nightly run", "p95 > 400ms", "", "verdict is red"])]
    ['p95', 'verdict']
    """
    stripped = (line.strip() for line in lines)
    return [parse_threshold(line) for line in stripped if line and not line.startswith("#")]


def _suggest(word: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(word, known, 1, 0.5)
    return f", perhaps {near[0]!r}" if near else f", expected one of {', '.join(known)}"


def _got(said: str) -> str:
    return repr(said) if said else "nothing"


def _name(scan: _Scanner) -> str | None:
    start = scan.position
    if not scan.take(r"\["):
        return None
    quoted = scan.take(r'"((?:[^"\\]|\\.)*)"\s*\]')
    if quoted:
        return re.sub(r"\\(.)", r"\1", quoted.group(1))
    plain = scan.take(r"([^\]]+)\]")
    if plain is None:
        raise scan.error("a name in brackets that is empty or not closed by ]", start)
    return plain.group(1).strip()


def _status(scan: _Scanner, text: str, name: str | None) -> Threshold:
    position = scan.position
    scan.space()
    if not scan.take(r"is\b"):
        raise scan.error("expected 'is' or 'is not' after verdict", max(position, scan.position))
    sense = "is not" if scan.take(r"not\b(?!\s+enough)") else "is"
    scan.space()
    position = scan.position
    status = scan.take(r"[A-Za-z][A-Za-z ]*")
    said = " ".join(status.group().lower().split()) if status else ""
    if said not in STATUSES:
        raise scan.error(f"unknown status {said!r}{_suggest(said, STATUSES)}", position)
    return Threshold(text, "verdict", name, sense, status=said)


def _bounds(scan: _Scanner, text: str, metric: str, name: str | None) -> Threshold:
    scan.space()
    position = scan.position
    sign = scan.take(r">=|<=|>|<|[A-Za-z]+|\S+")
    said = sign.group() if sign else ""
    if said not in (*COMPARISONS, *RANGES):
        expected = ", ".join((*COMPARISONS, *RANGES))
        raise scan.error(f"expected one of {expected}, got {_got(said)}", position)
    first = _bound(scan, METRICS[metric].unit, last=said not in RANGES)
    if said not in RANGES:
        return Threshold(text, metric, name, said, (first.value,), first.relative)
    if not scan.take(r"\.\."):
        raise scan.error(f"expected a range such as 0.9..1.1 after {said}")
    scan.space()
    position = scan.position
    second = _bound(scan, METRICS[metric].unit, last=True)
    if first.unit == "":
        first = _scaled(first.figure, second.unit, METRICS[metric].unit)
    if not first.value < second.value or first.relative != second.relative:
        raise scan.error(
            f"the range must grow, got {first.figure:g}{first.unit}..{second.figure:g}{second.unit}", position
        )
    return Threshold(text, metric, name, said, (first.value, second.value), first.relative)


@dataclass(frozen=True)
class _Bound:
    figure: float
    unit: str
    value: float
    relative: bool


def _scaled(figure: float, unit: str, kind: Unit) -> _Bound:
    scale = {"time": TIME_UNITS, "rate": RATE_UNITS, "share": {"%": 0.01}, "plain": {}}[kind].get(unit, 1.0)
    return _Bound(figure, unit, figure * scale, unit == "%")


def _bound(scan: _Scanner, kind: Unit, *, last: bool) -> _Bound:
    scan.space()
    position = scan.position
    digits = scan.take(r"\d+(?:\.(?!\.)\d*)?(?:[eE][-+]?\d+)?|\.\d+")
    if digits is None:
        raise scan.error(f"expected a number, got {_got(scan.text[position:])}", position)
    scan.space()
    position = scan.position
    mark = scan.take(r"[A-Za-z%/µ][A-Za-z/µ]*")
    unit = mark.group().replace("µ", "u") if mark else ""
    allowed = {"time": list(TIME_UNITS), "rate": list(RATE_UNITS), "share": ["%"], "plain": []}[kind]
    if unit and unit not in allowed:
        expected = f"expected {' or '.join(allowed)}" if allowed else "this figure has none"
        raise scan.error(f"unknown unit {unit!r}, {expected}", position)
    if last and not unit and kind in ("time", "rate"):
        raise scan.error(f"a unit is missing, expected {' or '.join(allowed)}", position)
    return _scaled(float(digits.group()), unit, kind)
