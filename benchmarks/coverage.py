"""Coverage of every estimate, interval and test: what holds of its words on data whose truth is known.

    python benchmarks/coverage.py [--rows TEXT] [--runs N] [--out cells.jsonl] [--docs]

Prints the table of docs/statistics.md in Markdown, from the rows of benchmarks/rows; returns 1 if a goal is missed.
With --out a run that was stopped goes on with the rows that are left; delete the file after a change of the code.
"""

from __future__ import annotations

import argparse
import math
import os
import pkgutil
import re
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import numpy as np

sys.path.append(str(Path(__file__).resolve().parent))  # for tests, which load this file by its path

import rows
from rows.row import Outcome, Row
from rows.runner import Z95, Share, simulate

PAGE = Path(__file__).resolve().parents[1] / "docs" / "statistics.md"
BEGIN, END = "<!-- coverage: begin -->", "<!-- coverage: end -->"
GOAL = re.compile(r"(bias|holds|given|found) (within|>=|<=) ([\d.]+)( %)?")
HEAD = (
    "| statement | data | runs | bias, % | holds, % | given, % | found, % | goal | met |\n"
    "|---|---|---|---|---|---|---|---|---|"
)


class Bias(NamedTuple):
    """Mean relative error and its 95 % interval, from its standard error."""

    value: float
    error: float

    @classmethod
    def of(cls, errors: Sequence[float]) -> Bias:
        known = np.asarray(errors)
        return cls(
            float(known.mean()), float(known.std(ddof=1)) / math.sqrt(len(known)) if len(known) > 1 else math.inf
        )

    def __str__(self) -> str:
        return f"{100 * self.value:+.1f} ± {100 * self.error:.1f}"


class Result(NamedTuple):
    """Figures of a row; None for those that no run gives."""

    runs: int
    bias: Bias | None
    holds: Share | None
    given: Share
    found: Share | None


def result_of(outcomes: Sequence[Outcome], interval: bool = False) -> Result:
    """Return the figures of the runs of a row.

    ``given`` is the share of runs with an interval where one was given or is expected (``interval``), else with a test,
    else with a value.
    """
    errors, held, found = ([value for value in column if value is not None] for column in zip(*outcomes, strict=True))
    statement = held if held or interval else found or errors
    return Result(
        len(outcomes),
        Bias.of(errors) if errors else None,
        Share.of(held) if held else None,
        Share.of([True] * len(statement) + [False] * (len(outcomes) - len(statement))),
        Share.of(found) if found else None,
    )


def met(result: Result, goal: str) -> bool | None:
    """Return False if the 95 % interval of a figure excludes its goal; None without a goal or without a figure.

    >>> met(result_of([Outcome(held=run < 92) for run in range(100)]), "holds >= .95")
    True
    >>> met(result_of([Outcome(held=run < 80) for run in range(100)]), "holds >= .95")
    False
    """
    judged = []
    for clause in filter(None, goal.split(", ")):
        parts = GOAL.match(clause)
        if parts is None:
            raise ValueError(f"goal {clause!r} is not like 'holds >= .93', 'found <= 5 %' or 'bias within 2 %'")
        bound = float(parts[3]) / (100 if parts[4] else 1)
        figure = getattr(result, parts[1])
        if figure is None:
            continue
        if parts[2] == "within":
            judged.append(abs(figure.value) - Z95 * figure.error <= bound)
        else:
            judged.append(figure.high >= bound if parts[2] == ">=" else figure.low <= bound)
    return all(judged) if judged else None


@cache
def all_rows() -> dict[str, tuple[str, Row]]:
    """Return the module and the row of every name "statement | data", in the order of the table."""
    found: dict[str, tuple[str, Row]] = {}
    for module in pkgutil.iter_modules(rows.__path__):
        for row in getattr(import_module(f"rows.{module.name}"), "ROWS", ()):
            name = f"{row.statement} | {row.data}"
            if name in found:
                raise ValueError(f"two rows are called {name!r}")
            met(result_of([Outcome()]), row.goal)  # refuses a goal that cannot be read
            found[name] = module.name, row
    return found


def once(name: str, rng: np.random.Generator) -> Outcome:
    """Return the outcome of one run of a row as Python's own numbers; an error that is no number is no value."""
    error, held, found = all_rows()[name][1].run(rng)
    known = error is not None and math.isfinite(error)
    return Outcome(float(error) if known else None, *(None if flag is None else bool(flag) for flag in (held, found)))


def table(names: Sequence[str], found: Iterator[list[Outcome]]) -> Iterator[tuple[str, bool | None]]:
    """Yield a line of the table for each row, and True if its goals are met."""
    with_interval = {row.statement for _, row in all_rows().values() if "holds" in row.goal}
    for name, outcomes in zip(names, found, strict=True):
        row = all_rows()[name][1]
        result = result_of(outcomes, row.statement in with_interval)
        right = met(result, row.goal)
        words = {True: "yes", False: "no", None: "-"}[right]
        given = f"{100 * result.given.value:.0f}"
        cells = [row.statement, row.data, result.runs, result.bias, result.holds, given, result.found, row.goal, words]
        yield "| " + " | ".join("-" if cell in (None, "") else str(cell) for cell in cells) + " |", right


def main() -> int:
    """Print the table; return 1 if a goal is missed, else 0."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", default="", help="only rows of this module, or with this text in statement or data")
    parser.add_argument("--runs", type=int, help="simulated runs of each row, in place of its own number")
    parser.add_argument("--out", type=Path, help="file of JSON lines that keeps the finished rows")
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)), help="processes (one a core)")
    parser.add_argument("--docs", action="store_true", help="put the table into docs/statistics.md, too")
    options = parser.parse_args()
    names = [name for name, (module, _) in all_rows().items() if options.rows == module or options.rows in name]
    cells = [(name, options.runs or all_rows()[name][1].runs) for name in names]
    print(HEAD, flush=True)
    lines, missed = [HEAD], 0
    for line, right in table(names, simulate(once, cells, processes=options.processes, kept=options.out)):
        print(line, flush=True)
        lines.append(line)
        missed += right is False
    if options.docs:
        text = PAGE.read_text(encoding="utf-8")
        before, after = text.split(BEGIN)[0], text.split(END)[1]
        PAGE.write_text("\n".join([before + BEGIN, *lines, END + after]), encoding="utf-8")
    print(f"{len(names) - missed} of {len(names)} rows meet their goals", file=sys.stderr)
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
