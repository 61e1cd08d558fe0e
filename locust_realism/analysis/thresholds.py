"""Thresholds: conditions that fail a run, read with the position of every typo and judged by a summary.

A threshold has a figure of the summary, optionally of one request name, and the condition that fails the run:

    p95 > 400ms                   any of mean, sdev, min, max, p50 (median), p90, p95, p99, p99.9 of the response times
    p99[GET file] > 1s            of one name; the method may be left out; p99["a]b"] quotes; [*] is every name
    failures > 1%                 a share of the requests, or without % their number
    rate < 50/s, requests < 1000  requests per second (or /min, /h) and their number
    cov outside 0.9..1.1          CoV of the times between launches; also within; launch.p99 > 2s and so on
    verdict is red                or is not green; verdict[5] is amber takes one check by its number

A typo is an error with its position, raised before a run starts. A missing figure (no requests of a name, too few for a
percentile) counts as failed: a gate must not open because the run measured nothing.
"""

from __future__ import annotations

import difflib
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from locust_realism.analysis.document import AMBER, GREEN, NO_DATA, RED, LaunchRow, ResponseRow, Summary

Unit = Literal["time", "share", "rate", "plain"]

UNITS: dict[Unit, dict[str, float]] = {
    "time": {"us": 1e-3, "ms": 1.0, "s": 1e3, "min": 6e4},
    "share": {"%": 0.01},
    "rate": {"/s": 1.0, "/min": 1 / 60, "/h": 1 / 3600},
    "plain": {},
}
"""Units of each kind of figure, in the unit of the summary."""
COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt,
}  # fmt: skip
RANGES = ("outside", "within")
STATUSES = (RED, AMBER, GREEN, NO_DATA)
Table = Literal["response_times", "launches"]
Outcome = tuple[bool, float | str | None, str]
"""Failed, value and text of a judged threshold."""


@dataclass(frozen=True)
class Metric:
    """Table, key and unit of a figure of the summary."""

    table: Table
    key: str
    unit: Unit


_TABLES: dict[str, Table] = {"launch.": "launches", "response.": "response_times", "": "response_times"}
_KEYS = {name: f"{name}_ms" for name in ("mean", "sdev", "min", "max", "p50", "p90", "p95", "p99", "p999")}
_KEYS |= {"median": "p50_ms", "p99.9": "p999_ms", "cov": "cov"}
METRICS: dict[str, Metric] = {
    **{
        prefix + name: Metric(table, key, "plain" if key == "cov" else "time")
        for prefix, table in _TABLES.items()
        for name, key in _KEYS.items()
        if (table, key) != ("launches", "p999_ms")  # that table ends at p99
    },
    "cov": Metric("launches", "cov", "plain"),
    "failures": Metric("response_times", "failures", "share"),
    "requests": Metric("response_times", "n", "plain"),
    "rate": Metric("response_times", "rate", "rate"),
}

_NUMBER = r"\d+(?:\.(?!\.)\d*)?(?:[eE][-+]?\d+)?|\.\d+|"
_UNIT = r"[A-Za-z%/µ][A-Za-z/µ]*|"
# Each part may match empty, and then starts at the place of the fault.
_FIGURE = re.compile(
    r"\s*(?P<metric>[A-Za-z][A-Za-z_.0-9]*|)"
    r'(?:\s*(?P<bracket>\[)\s*(?:"(?P<quoted>(?:[^"\\]|\\.)*)"\s*\]|(?P<plain>[^\]]+)\]|))?\s*'
)
_STATUS = re.compile(r"\s*(?P<verb>is\b|)\s*(?P<negation>not\b(?!\s+enough)|)\s*(?P<status>[A-Za-z][A-Za-z ]*|)\s*")
_CONDITION = re.compile(
    rf"\s*(?P<sign>>=|<=|>|<|[A-Za-z]+|\S+|)\s*(?P<low>{_NUMBER})\s*(?P<low_unit>{_UNIT})"
    rf"\s*(?P<dots>\.\.|)\s*(?P<high>{_NUMBER})\s*(?P<high_unit>{_UNIT})\s*"
)


class ThresholdError(ValueError):
    """Unreadable threshold: ``text``, ``position`` (0-based) of the fault and ``reason``."""

    def __init__(self, text: str, position: int, reason: str) -> None:
        self.text, self.position, self.reason = text, position, reason
        super().__init__(f"threshold cannot be read: {reason}\n  {text}\n  {' ' * position}^")


@dataclass(frozen=True)
class Threshold:
    """Parsed threshold, as :func:`parse_threshold` returns it.

    ``bounds`` have the unit of the summary: milliseconds, requests per second, a share in [0, 1] if ``relative``, or
    the plain number. A threshold on the verdict has a ``status`` instead.
    """

    text: str
    metric: str
    name: str | None = None
    operator: str = ">"
    bounds: tuple[float, ...] = ()
    relative: bool = False
    status: str = ""


def parse_threshold(text: str) -> Threshold:
    """Return one threshold; ThresholdError (a ValueError) shows the place of a fault and what was expected there.

    >>> parse_threshold("p99[GET file] > 1s").bounds
    (1000.0,)
    >>> print(parse_threshold("p59 > 1s"))
    Traceback (most recent call last):
        ...
    locust_realism.analysis.thresholds.ThresholdError: threshold cannot be read: unknown figure 'p59', perhaps 'p99'
      p59 > 1s
      ^
    """
    found = _parts(_FIGURE, text)
    word, metric, name = found["metric"], found["metric"].lower(), found["plain"] and found["plain"].strip()
    if not word:
        reason = "expected a figure such as p95, failures, rate, cov or verdict"
        raise _fault(found, "metric", f"{reason}, got {_got(text[found.start('metric') :])}")
    if metric != "verdict" and metric not in METRICS:
        raise _fault(found, "metric", f"unknown figure {word!r}{_suggest(metric, [*METRICS, 'verdict'])}")
    if found["quoted"] is not None:
        name = re.sub(r"\\(.)", r"\1", found["quoted"])
    elif found["bracket"] and name is None:
        raise _fault(found, "bracket", "a name in brackets that is empty or not closed by ]")
    parsed, end = (_status if metric == "verdict" else _bounds)(text, found.end(), metric, name)
    if text[end:]:
        raise ThresholdError(text, end, f"expected the end, got {text[end:]!r}")
    return parsed


def parse_thresholds(lines: Iterable[str]) -> list[Threshold]:
    """Return the thresholds of several texts or of the lines of a file, without empty lines and ``#`` comments.

    >>> [t.metric for t in parse_thresholds(["# gate of the nightly run", "p95 > 400ms", "", "verdict is red"])]
    ['p95', 'verdict']
    """
    stripped = (line.strip() for line in lines)
    return [parse_threshold(line) for line in stripped if line and not line.startswith("#")]


def _suggest(word: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(word, known, 1, 0.5)
    return f", perhaps {near[0]!r}" if near else f", expected one of {', '.join(known)}"


def _got(text: str) -> str:
    return repr(text) if text else "nothing"


def _parts(pattern: re.Pattern[str], text: str, start: int = 0) -> re.Match[str]:
    found = pattern.match(text, start)
    assert found  # as every part may match empty
    return found


def _fault(found: re.Match[str], part: str, reason: str) -> ThresholdError:
    return ThresholdError(found.string, found.start(part), reason)


def _status(text: str, start: int, metric: str, name: str | None) -> tuple[Threshold, int]:
    """Return the threshold on the verdict and the end of its text."""
    found = _parts(_STATUS, text, start)
    if not found["verb"]:
        raise _fault(found, "verb", "expected 'is' or 'is not' after verdict")
    status = " ".join(found["status"].lower().split())
    if status not in STATUSES:
        raise _fault(found, "status", f"unknown status {status!r}{_suggest(status, STATUSES)}")
    return Threshold(text, metric, name, "is not" if found["negation"] else "is", status=status), found.end()


def _bounds(text: str, start: int, metric: str, name: str | None) -> tuple[Threshold, int]:
    """Return the threshold on a figure and the end of its text."""
    found, kind = _parts(_CONDITION, text, start), METRICS[metric].unit
    sign, ends = found["sign"], ("low", "high") if found["sign"] in RANGES else ("low",)
    if sign not in (*COMPARISONS, *RANGES):
        raise _fault(found, "sign", f"expected one of {', '.join((*COMPARISONS, *RANGES))}, got {_got(sign)}")
    allowed = " or ".join(UNITS[kind])
    for end in ends:
        if end == "high" and not found["dots"]:
            raise _fault(found, "dots", f"expected a range such as 0.9..1.1 after {sign}")
        if not found[end]:
            raise _fault(found, end, f"expected a number, got {_got(text[found.start(end) :])}")
        unit = found[f"{end}_unit"].replace("µ", "u")
        if unit and unit not in UNITS[kind]:
            expected = f"expected {allowed}" if allowed else "this figure has none"
            raise _fault(found, f"{end}_unit", f"unknown unit {unit!r}, {expected}")
    if not unit and kind in ("time", "rate"):
        raise _fault(found, f"{end}_unit", f"a unit is missing, expected {allowed}")
    # The first number of a range may leave its unit to the second.
    units = [found[f"{each}_unit"].replace("µ", "u") or unit for each in ends]
    bounds = tuple(float(found[each]) * UNITS[kind].get(of, 1.0) for each, of in zip(ends, units, strict=True))
    if len(bounds) == 2 and (bounds[0] >= bounds[1] or units.count("%") == 1):
        got = text[found.start("low") : found.end()].strip()
        raise _fault(found, "high", f"the range must grow, got {got}")
    stop = found.end() if len(ends) == 2 else found.start("dots")
    return Threshold(text, metric, name, sign, bounds, unit == "%"), stop


@dataclass(frozen=True)
class ThresholdResult:
    """Result of a threshold: ``failed``, the ``value`` judged (None: no figure) and the ``line`` to print."""

    threshold: Threshold
    failed: bool
    value: float | str | None
    line: str


def evaluate_thresholds(thresholds: Iterable[Threshold], summary: Summary) -> list[ThresholdResult]:
    """Judge thresholds by a summary; return one result a threshold and matching name, in the given order.

    >>> row = {"label": "Aggregated", "method": "", "n": 200, "failures": 3, "p95_ms": 412.5}
    >>> gate = parse_thresholds(["p95 > 400ms", "failures > 2%"])
    >>> for result in evaluate_thresholds(gate, {"response_times": [row]}):
    ...     print(result.line)
    FAILED  p95 > 400ms: 412.5 ms
    ok      failures > 2%: 1.5 %
    """
    return [
        ThresholdResult(threshold, failed, value, f"{'FAILED' if failed else 'ok':6}  {threshold.text.strip()}: {text}")
        for threshold in thresholds
        for failed, value, text in (_verdict if threshold.metric == "verdict" else _figures)(threshold, summary)
    ]


def _missing(what: str) -> Outcome:
    return True, None, f"{what}, which counts as failed"


def _verdict(threshold: Threshold, summary: Summary) -> list[Outcome]:
    verdict, name = summary.get("verdict"), threshold.name
    if not verdict:
        return [_missing("no verdict")]
    named = [check["status"] for check in verdict["checks"] if name in (str(check["id"]), check["name"])]
    status = verdict["overall"] if name is None else next(iter(named), None)
    if status is None:
        return [_missing(f"no check {name!r}")]
    return [((status == threshold.status) == (threshold.operator == "is"), status, status)]


def _figures(threshold: Threshold, summary: Summary) -> list[Outcome]:
    metric, name = METRICS[threshold.metric], threshold.name
    rows: Sequence[ResponseRow | LaunchRow] = summary.get(metric.table) or ()
    chosen = [row for row in rows if _matches(row, name)]
    missing = _missing("no requests" if name is None else f"no requests named {name!r}")
    return [_figure(threshold, metric, row, named=len(chosen) > 1) for row in chosen] or [missing]


def _matches(row: ResponseRow | LaunchRow, name: str | None) -> bool:
    label, method = row["label"], row["method"]
    aggregated = label == "Aggregated" and not method
    if name is None or name == "Aggregated":
        return aggregated
    return not aggregated and (name == "*" or name in (label, f"{method} {label}"))


def _figure(threshold: Threshold, metric: Metric, row: ResponseRow | LaunchRow, *, named: bool) -> Outcome:
    figures: Mapping[str, object] = row
    label = f"{row['method']} {row['label']}".strip() + ": " if named else ""
    value = figures.get(metric.key)
    if not isinstance(value, int | float) or (threshold.relative and not row["n"]):
        return _missing(f"{label}no figure (too few requests)")
    if threshold.relative:
        value /= row["n"]
    if threshold.operator in COMPARISONS:
        failed = COMPARISONS[threshold.operator](value, threshold.bounds[0])
    else:
        low, high = threshold.bounds
        failed = (low <= value <= high) == (threshold.operator == "within")
    return failed, float(value), label + _shown(value, metric.unit, threshold.relative)


def _shown(value: float, unit: Unit, relative: bool) -> str:
    if relative:
        return f"{100 * value:.4g} %"
    number = f"{value:,.0f}" if float(value).is_integer() else f"{value:,.3f}".rstrip("0").rstrip(".")
    return number + {"time": " ms", "rate": "/s"}.get(unit, "")
