"""Tables and text for a terminal: display width, hostile names, aligned numbers, colours only where they are wanted.

Everything that reaches a terminal passes :func:`clean` first: a request name comes from the tested system or from a
URL, and an escape sequence in it must not be able to move the cursor, change colours or reverse the reading order.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

COLORS = {"green": "32", "amber": "33", "red": "31", "bold": "1", "dim": "2"}
MISSING_TEXT = "-"


def clean(text: object) -> str:
    """Text that is safe to print: control, format and unassigned characters become visible escapes.

    Escaped are the Unicode categories C* (controls, bidirectional overrides, surrogates, private use) and the line
    and paragraph separators.

    >>> clean("a\\x1b[31mb")
    'a\\\\x1b[31mb'
    >>> clean("caf\\u00e9 \\u202etxt")
    'café \\\\u202etxt'
    """
    return "".join(
        char if char == " " or unicodedata.category(char) not in _UNSAFE else _escape(char) for char in str(text)
    )


_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def _escape(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def display_width(text: str) -> int:
    """Columns that the text takes on a terminal: 2 for East Asian wide characters, 0 for combining marks.

    >>> display_width("abc"), display_width("日本"), display_width("e\\u0301")
    (3, 4, 1)
    """
    return sum(_char_width(char) for char in text)


def _char_width(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1


def fit(text: str, width: int, *, unicode: bool = True) -> str:
    """The text cut to ``width`` columns in its middle, so that the telling end of a long path stays readable.

    >>> fit("/remote.php/dav/files/u/manual.pdf", 20)
    '/remote.ph…anual.pdf'
    """
    if display_width(text) <= width:
        return text
    mark = "…" if unicode else "..."
    room = width - len(mark)
    if room <= 0:
        return mark[:width]
    head, tail = _head(text, (room + 1) // 2), _head(text[::-1], room // 2)[::-1]
    return head + mark + tail


def _head(text: str, width: int) -> str:
    used = 0
    for position, char in enumerate(text):
        used += _char_width(char)
        if used > width:
            return text[:position]
    return text


def pad(text: str, width: int, *, right: bool = False) -> str:
    """The text filled with spaces to ``width`` columns, on its left when ``right`` is true."""
    fill = " " * max(0, width - display_width(text))
    return fill + text if right else text + fill


def paint(text: str, style: str, *, color: bool) -> str:
    """The text in a colour or weight of COLORS when ``color`` is true, else unchanged."""
    return f"\x1b[{COLORS[style]}m{text}\x1b[0m" if color and style in COLORS else text


def wants_color(stream: TextIO, environ: Mapping[str, str] | None = None) -> bool:
    """Whether to colour what is written to the stream: a terminal, and neither NO_COLOR nor TERM=dumb is set.

    See https://no-color.org.
    """
    environ = os.environ if environ is None else environ
    return not environ.get("NO_COLOR") and environ.get("TERM") != "dumb" and stream.isatty()


def wants_unicode(stream: TextIO) -> bool:
    """Whether the stream's encoding can carry the few marks that are used beyond ASCII."""
    try:
        "●…±≥".encode(getattr(stream, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


@dataclass(frozen=True)
class Column:
    """One column of a table.

    - ``key`` of the row's value, ``title`` above it
    - ``decimals`` None: as many as the column's smallest value needs (:func:`decimals_for`); 0 for counts
    - ``text`` left-aligned text instead of a number, cut to the room that is left
    - ``drop`` the column is left out first when the table is too wide: highest first, 0 never
    """

    key: str
    title: str
    decimals: int | None = None
    text: bool = False
    drop: int = 0


def decimals_for(values: Sequence[float | None]) -> int:
    """Decimals for a column in which 3 figures of the smallest value but zero are seen, at most 3 (microseconds).

    None for whole numbers: a file in whole milliseconds knows no more.

    >>> decimals_for([0.559, 1200.0]), decimals_for([12.5, None]), decimals_for([555.5, 0]), decimals_for([5.0, 16.0])
    (3, 1, 0, 0)
    """
    sizes = [abs(value) for value in values if value is not None and value]
    if all(float(size).is_integer() for size in sizes):
        return 0
    smallest = min(sizes, default=100.0)
    return 3 if smallest < 1 else 2 if smallest < 10 else 1 if smallest < 100 else 0


def number(value: Any, decimals: int) -> str:
    """A number with thousands separators, or a dash where there is none.

    >>> number(1234567.891, 1), number(None, 1)
    ('1,234,567.9', '-')
    """
    if value is None or isinstance(value, bool) or value != value:
        return MISSING_TEXT
    return f"{value:,.{decimals}f}"


def table(
    columns: Sequence[Column],
    rows: Sequence[Mapping[str, Any]],
    *,
    width: int,
    color: bool = False,
    unicode: bool = True,
    indent: int = 2,
    total_last: bool = False,
) -> list[str]:
    """Lines of an aligned table no wider than ``width``.

    When it does not fit, the gaps shrink to one space, then columns are left out in the order of their ``drop`` and
    named in a last line, then the widest text column gives way. ``total_last`` sets the last row off with bold type.
    """
    kept, cells = list(columns), _cells(columns, rows)
    dropped: list[str] = []
    gap = 2 if _natural(kept, cells, room=20, gap=2) + indent <= width else 1
    while _natural(kept, cells, room=12, gap=gap) + indent > width and any(column.drop for column in kept):
        worst = max(kept, key=lambda column: column.drop)
        kept.remove(worst)
        dropped.append(worst.title)
    widths = {column.key: _column_width(column, cells) for column in kept}
    spare = width - indent - gap * (len(kept) - 1) - sum(widths.values())
    elastic = max((column for column in kept if column.text), key=lambda column: widths[column.key], default=None)
    if spare < 0 and elastic is not None:
        widths[elastic.key] = max(8, widths[elastic.key] + spare)

    def laid_out(row: Sequence[str]) -> str:
        parts = [
            pad(fit(cell, widths[column.key], unicode=unicode), widths[column.key], right=not column.text)
            for cell, column in zip(row, kept, strict=True)
        ]
        return (" " * indent + (" " * gap).join(parts)).rstrip()

    lines = [paint(laid_out([column.title for column in kept]), "dim", color=color)]
    for index in range(len(rows)):
        last = total_last and index == len(rows) - 1
        lines.append(paint(laid_out([cells[column.key][index] for column in kept]), "bold", color=color and last))
    if dropped:
        left_out = wrap("not shown at this width: " + ", ".join(reversed(dropped)), width, indent=" " * indent)
        lines += [paint(line, "dim", color=color) for line in left_out]
    return lines


def _cells(columns: Sequence[Column], rows: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    cells = {}
    for column in columns:
        values = [row.get(column.key) for row in rows]
        if column.text:
            cells[column.key] = ["" if value is None else clean(value) for value in values]
        else:
            decimals = decimals_for(values) if column.decimals is None else column.decimals
            cells[column.key] = [number(value, decimals) for value in values]
    return cells


def _column_width(column: Column, cells: Mapping[str, Sequence[str]]) -> int:
    return max([display_width(column.title), *(display_width(cell) for cell in cells[column.key])])


def _natural(columns: Sequence[Column], cells: Mapping[str, Sequence[str]], *, room: int, gap: int) -> int:
    widths = [_column_width(column, cells) for column in columns]
    taken = [min(w, room) if column.text else w for column, w in zip(columns, widths, strict=True)]
    return sum(taken) + gap * (len(columns) - 1)


def wrap(text: str, width: int, *, indent: str = "") -> list[str]:
    """The text in lines of at most ``width`` columns, broken at spaces, each after ``indent``."""
    lines, line = [], ""
    for word in text.split():
        if line and display_width(indent + line + " " + word) > width:
            lines.append(indent + line)
            line = word
        else:
            line = f"{line} {word}" if line else word
    return [*lines, indent + line] if line else lines
