"""Tables and text for a terminal: display width, hostile names, aligned numbers, colours of a capable terminal only.

Everything that reaches a terminal passes :func:`clean` first. A request name comes from the tested system or from a
URL; an escape sequence in it must not move the cursor, change colours or reverse the reading order.
"""

from __future__ import annotations

import os
import shutil
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, compress
from typing import TextIO

COLORS = {"green": "32", "amber": "33", "red": "31", "bold": "1", "dim": "2"}
"""ANSI codes of the styles; text of any other style stays plain."""
MISSING_TEXT = "-"
_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def clean(text: object) -> str:
    """Return text that is safe to print: control, format and unassigned characters become visible escapes.

    Escaped are the Unicode categories C* (controls, bidirectional overrides, surrogates, private use) and the line
    and paragraph separators.

    >>> clean("a\\x1b[31mb")
    'a\\\\x1b[31mb'
    >>> clean("caf\\u00e9 \\u202etxt")
    'café \\\\u202etxt'
    """
    return "".join(_escape(ord(char)) if unicodedata.category(char) in _UNSAFE else char for char in str(text))


def _escape(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def display_width(text: str) -> int:
    """Return the columns that text takes on a terminal: 2 for East Asian wide characters, 0 for combining marks.

    >>> display_width("abc"), display_width("日本"), display_width("e\\u0301")
    (3, 4, 1)
    """
    return sum(
        0 if unicodedata.category(char) in ("Mn", "Me") else 1 + (unicodedata.east_asian_width(char) in ("W", "F"))
        for char in text
    )


def shorten(text: str, width: int, *, unicode: bool = True) -> str:
    """Shorten text to ``width`` columns in its middle, so that the end of a long path stays readable.

    >>> shorten("/remote.php/dav/files/u/manual.pdf", 20)
    '/remote.ph…anual.pdf'
    """
    if display_width(text) <= width:
        return text
    mark = "…" if unicode else "..."
    room = width - len(mark)
    if room <= 0:
        return mark[:width]
    return _head(text, (room + 1) // 2) + mark + _head(text[::-1], room // 2)[::-1]


def _head(text: str, width: int) -> str:
    fitting = (used <= width for used in accumulate(map(display_width, text)))
    return "".join(compress(text, fitting))


def pad(text: str, width: int, *, right: bool = False) -> str:
    """Pad text with spaces to ``width`` columns; ``right`` aligns it to the right."""
    fill = " " * max(0, width - display_width(text))
    return fill + text if right else text + fill


def supports_color(stream: TextIO, environ: Mapping[str, str] | None = None) -> bool:
    """Return True for a terminal unless NO_COLOR or TERM=dumb is set; see https://no-color.org."""
    environ = os.environ if environ is None else environ
    return not environ.get("NO_COLOR") and environ.get("TERM") != "dumb" and stream.isatty()


def supports_unicode(stream: TextIO) -> bool:
    """Return True if the stream's encoding holds the few marks beyond ASCII that the tables use."""
    try:
        "●…±≥".encode(getattr(stream, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


@dataclass(frozen=True)
class Column:
    """Column of a table.

    - ``key`` of the row's value, ``title`` above it
    - ``decimals`` None: as many as the column's smallest value needs (:func:`decimals_for`); 0 for counts
    - ``text`` left-aligned text instead of a number, shortened to the room that is left
    - ``drop`` order of omission from a table that is too wide: highest first, 0 never
    """

    key: str
    title: str
    decimals: int | None = None
    text: bool = False
    drop: int = 0


def decimals_for(values: Sequence[float | None]) -> int:
    """Return the decimals that show 3 figures of a column's smallest value except zero, at most 3 (microseconds).

    0 for whole numbers: a file in whole milliseconds has no finer resolution.

    >>> decimals_for([0.559, 1200.0]), decimals_for([12.5, None]), decimals_for([555.5, 0]), decimals_for([5.0, 16.0])
    (3, 1, 0, 0)
    """
    sizes = [abs(value) for value in values if value is not None and value]
    if all(float(size).is_integer() for size in sizes):
        return 0
    smallest = min(sizes, default=100.0)
    return 3 if smallest < 1 else 2 if smallest < 10 else 1 if smallest < 100 else 0


def number(value: object, decimals: int) -> str:
    """Return a number with thousands separators, a dash for everything else.

    >>> number(1234567.891, 1), number(None, 1)
    ('1,234,567.9', '-')
    """
    if not isinstance(value, int | float) or isinstance(value, bool) or value != value:
        return MISSING_TEXT
    return f"{value:,.{decimals}f}"


@dataclass(frozen=True)
class Screen:
    """Width in columns and abilities of the terminal, file or page that text is written to."""

    width: int = 120
    color: bool = False
    unicode: bool = True

    @classmethod
    def of(cls, stream: TextIO) -> Screen:
        """Return the screen of a stream: the terminal's width, 120 columns for a file or a pipe."""
        width = shutil.get_terminal_size((120, 40)).columns if stream.isatty() else 120
        return cls(width, supports_color(stream), supports_unicode(stream))

    def paint(self, text: str, style: str | None) -> str:
        """Return the text in a style of COLORS if the screen has colours, else unchanged."""
        return f"\x1b[{COLORS[style]}m{text}\x1b[0m" if self.color and style in COLORS else text

    def wrap(self, text: str, style: str | None = None, *, indent: str = "") -> list[str]:
        """Return the text, cleaned, as painted lines no wider than the screen, each after ``indent``."""
        return [self.paint(line, style) for line in wrap(clean(text), self.width, indent=indent)]

    def heading(self, title: str, note: str = "") -> list[str]:
        """Return a bold title, with a dim note beside it, or below it where it does not fit."""
        bold = self.paint(title, "bold")
        if note and len(title) + 2 + len(note) <= self.width:
            return [bold + self.paint("  " + note, "dim")]
        return [bold, *self.wrap(note, "dim", indent="  ")]

    def table(
        self, columns: Sequence[Column], rows: Sequence[Mapping[str, object]], *, total_last: bool = False
    ) -> list[str]:
        """Return the lines of an aligned table no wider than the screen, two columns from its left edge.

        A table that is too wide loses its second space between columns, then columns in the order of their ``drop``
        (a last line names them), then room of its widest text column. ``total_last`` sets the last row in bold.
        """
        indent, room = "  ", self.width - 2
        kept, cells = list(columns), _cells(columns, rows)
        full = {each.key: max(map(display_width, (each.title, *cells[each.key]))) for each in columns}

        def taken(longest: int, gap: int) -> int:
            """Return the width of the table without its indent, text columns at most ``longest`` wide."""
            widths = (min(full[each.key], longest) if each.text else full[each.key] for each in kept)
            return sum(widths) + gap * (len(kept) - 1)

        dropped: list[str] = []
        gap = 2 if taken(20, 2) <= room else 1
        while taken(12, gap) > room and any(column.drop for column in kept):
            worst = max(kept, key=lambda column: column.drop)
            kept.remove(worst)
            dropped.append(worst.title)
        widths = {column.key: full[column.key] for column in kept}
        spare = room - gap * (len(kept) - 1) - sum(widths.values())
        elastic = max((column for column in kept if column.text), key=lambda column: widths[column.key], default=None)
        if spare < 0 and elastic is not None:
            widths[elastic.key] = max(8, widths[elastic.key] + spare)

        def line_of(texts: Mapping[str, str], style: str | None) -> str:
            parts = (
                pad(shorten(texts[key], width, unicode=self.unicode), width, right=not column.text)
                for column, (key, width) in zip(kept, widths.items(), strict=True)
            )
            return self.paint((indent + (" " * gap).join(parts)).rstrip(), style)

        lines = [line_of({column.key: column.title for column in kept}, "dim")]
        for index in range(len(rows)):
            last = total_last and index == len(rows) - 1
            lines.append(line_of({key: cells[key][index] for key in widths}, "bold" if last else None))
        if dropped:
            lines += self.wrap("not shown at this width: " + ", ".join(reversed(dropped)), "dim", indent=indent)
        return lines


def _cells(columns: Sequence[Column], rows: Sequence[Mapping[str, object]]) -> dict[str, list[str]]:
    cells = {}
    for column in columns:
        values = [row.get(column.key) for row in rows]
        if column.text:
            cells[column.key] = ["" if value is None else clean(value) for value in values]
        else:
            figures = [value for value in values if isinstance(value, int | float)]
            decimals = decimals_for(figures) if column.decimals is None else column.decimals
            cells[column.key] = [number(value, decimals) for value in values]
    return cells


def wrap(text: str, width: int, *, indent: str = "") -> list[str]:
    """Return the text in lines of at most ``width`` columns, broken at spaces, each after ``indent``."""
    lines, line = [], ""
    for word in text.split():
        if line and display_width(indent + line + " " + word) > width:
            lines.append(indent + line)
            line = word
        else:
            line = f"{line} {word}" if line else word
    return [*lines, indent + line] if line else lines
