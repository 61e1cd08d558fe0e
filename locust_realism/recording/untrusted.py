"""Checks of a Parquet block that another process sent, made before Arrow sees it.

A block of some kilobytes may unfold to gigabytes: by compression, by run lengths, or by a dictionary of long texts. The
footer states sizes too, but Arrow allocates by the page headers, and ends the process on some damaged footers.

Source: Apache Parquet format, parquet.thrift and Encodings.md; Apache Thrift, thrift-compact-protocol.md.
"""

from __future__ import annotations

from typing import TypeVar

MOST_FOOTER_BYTES = 1 << 16
_LEAST_PAGE_BYTES = 1024  # a page counts as so many bytes at least: that limits their number
_DEEPEST = 8  # structures and lists within each other

# Field numbers of parquet.thrift
_SCHEMA, _ROWS, _GROUPS = 2, 3, 4
_TYPE, _REPETITION, _NAME, _CHILDREN, _CONVERTED = 1, 3, 4, 5, 6
_COLUMNS, _GROUP_ROWS = 1, 3
_COLUMN_META, _VALUES, _COMPRESSED, _DATA_OFFSET, _INDEX_OFFSET, _DICTIONARY_OFFSET = 3, 5, 7, 9, 10, 11
_PAGE_KIND, _PAGE_BYTES, _PAGE_COMPRESSED = 1, 2, 3

_SCALARS = {0, 1, 2, 4, 5}  # BOOLEAN, INT32, INT64, FLOAT, DOUBLE
_BYTE_ARRAY, _UTF8 = 6, 0
_REPEATED = 2
_PAGE_FIELDS = {0: (5, 2), 2: (7, 2), 3: (8, 4)}
"""Kind of a page (data, dictionary, data of version 2) to the field of its header, and in it that of the encoding."""
_ENCODINGS = {0, 2, 3, 5, 8, 9}
"""PLAIN, PLAIN_DICTIONARY, RLE, DELTA_BINARY_PACKED, RLE_DICTIONARY, BYTE_STREAM_SPLIT; none of shared prefixes."""

_Value = int | bytes | list["_Value"] | dict[int, "_Value"]
_Fields = dict[int, _Value]
_T = TypeVar("_T", int, bytes, list[_Value], _Fields)


def check_block(block: bytes, max_bytes: int) -> list[str]:
    """Return the names of a block's text columns; ValueError if it is damaged or takes more than ``max_bytes``.

    Counted are the decompressed pages and 8 bytes for each value of a row.
    """
    footer = _footer(block)
    schema = [_as(element, dict) for element in _get(footer, _SCHEMA, list)]
    rows, columns = _get(footer, _ROWS, int), schema[1:]
    texts = _text_columns(schema)
    size = rows * len(columns) * 8
    if rows < 0 or size > max_bytes:
        raise ValueError(f"the block's {rows} rows unfold to more than {max_bytes} bytes")
    left = rows
    for group in (_as(group, dict) for group in _get(footer, _GROUPS, list)):
        group_rows, chunks = _get(group, _GROUP_ROWS, int), _get(group, _COLUMNS, list)
        left -= group_rows
        if group_rows < 0 or left < 0 or len(chunks) != len(columns):
            raise ValueError(f"a row group has {group_rows} of {rows} rows and {len(chunks)} columns")
        for chunk in chunks:
            size += _pages_bytes(block, _get(_as(chunk, dict), _COLUMN_META, dict), group_rows, max_bytes - size)
            if size > max_bytes:
                raise ValueError(f"the block unfolds to more than {max_bytes} bytes")
    return texts


def _footer(block: bytes) -> _Fields:
    if len(block) < 12 or block[:4] != b"PAR1" or block[-4:] != b"PAR1":
        raise ValueError("not a readable Parquet block: no PAR1 at its ends")
    length, end = int.from_bytes(block[-8:-4], "little"), len(block) - 8
    if not 0 < length <= min(end - 4, MOST_FOOTER_BYTES):
        raise ValueError(f"not a readable Parquet block: a footer of {length} bytes")
    return _Compact(block, end - length, end).struct()


def _text_columns(schema: list[_Fields]) -> list[str]:
    """Return the names of the text columns; ValueError for a column that is neither a number nor a text."""
    texts = []
    if not schema or schema[0].get(_CHILDREN) != len(schema) - 1:
        raise ValueError("the columns of a block of rows have no parts")
    for element in schema[1:]:
        name = _get(element, _NAME, bytes).decode("utf-8")
        kind = _get(element, _TYPE, int)
        is_text = kind == _BYTE_ARRAY and element.get(_CONVERTED) == _UTF8
        is_flat = not element.get(_CHILDREN) and element.get(_REPETITION) != _REPEATED
        if not is_flat or not (is_text or kind in _SCALARS):
            raise ValueError(f"column {name[:80]!r} is neither a number nor a text")
        if is_text:
            texts.append(name)
    return texts


def _pages_bytes(block: bytes, column: _Fields, rows: int, room: int) -> int:
    """Return the decompressed size of a column's pages; the walk ends where they exceed ``room``."""
    start = _get(column, _DATA_OFFSET, int)
    for offset in (column.get(_DICTIONARY_OFFSET), column.get(_INDEX_OFFSET)):
        if isinstance(offset, int) and 0 < offset < start:
            start = offset
    end = start + _get(column, _COMPRESSED, int)
    if _get(column, _VALUES, int) > rows or not 0 < start <= end <= len(block):
        if rows:
            raise ValueError("a column has more values than rows, or lies outside the block")
        return 0  # without rows there are no pages to read
    size = 0
    while start < end and size <= room:
        header = _Compact(block, start, end)
        size += max(_page_bytes(header, rows), _LEAST_PAGE_BYTES)
        start = header.at
    return size


def _page_bytes(reader: _Compact, rows: int) -> int:
    """Return a page's decompressed size and move the reader behind it; ValueError for what no block of rows has."""
    header = reader.struct()
    kind, size = _get(header, _PAGE_KIND, int), _get(header, _PAGE_BYTES, int)
    if kind not in _PAGE_FIELDS:
        raise ValueError(f"a page is of kind {kind}")
    inner, encoding = _PAGE_FIELDS[kind]
    fields = _get(header, inner, dict)
    if _get(fields, encoding, int) not in _ENCODINGS:
        raise ValueError(f"a page has encoding {fields[encoding]!r}")
    if not 0 <= _get(fields, 1, int) <= max(rows, 1):
        raise ValueError(f"a page holds {fields[1]!r} values for {rows} rows")
    compressed = _get(header, _PAGE_COMPRESSED, int)
    if size < 0 or compressed < 0:
        raise ValueError("a page has a negative size")
    reader.skip(compressed)
    return size


def _get(fields: _Fields, number: int, kind: type[_T]) -> _T:
    return _as(fields.get(number), kind)


def _as(value: _Value | None, kind: type[_T]) -> _T:
    if not isinstance(value, kind):
        raise ValueError("not a readable Parquet block: its headers are damaged")
    return value


class _Compact:
    """Reader of Thrift's compact protocol between two positions of a block; ValueError where it is damaged."""

    def __init__(self, block: bytes, at: int, end: int) -> None:
        self._block, self.at, self._end = block, at, end

    def skip(self, size: int) -> None:
        self.at += size
        if self.at > self._end:
            raise ValueError("not a readable Parquet block: a header or a page is cut off")

    def struct(self, depth: int = _DEEPEST) -> _Fields:
        """Return the fields of a structure by their numbers."""
        fields: _Fields = {}
        number = 0
        while byte := self._byte():
            number = number + (byte >> 4) if byte >> 4 else self._zigzag()
            kind = byte & 0xF
            fields[number] = 2 - kind if kind in (1, 2) else self._value(kind, depth)  # a field's type is its truth
        return fields

    def _byte(self) -> int:
        self.skip(1)
        return self._block[self.at - 1]

    def _varint(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise ValueError("not a readable Parquet block: a number is too long")

    def _zigzag(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)

    def _value(self, kind: int, depth: int) -> _Value:
        match kind:
            case 1 | 2 | 3:
                return self._byte()
            case 4 | 5 | 6:  # integers of 16, 32 and 64 bits
                return self._zigzag()
            case 8:
                length = self._varint()
                self.skip(length)
                return self._block[self.at - length : self.at]
            case 9 if depth > 0:
                return self._list(depth - 1)
            case 12 if depth > 0:
                return self.struct(depth - 1)
        raise ValueError(f"not a readable Parquet block: a value of type {kind}")

    def _list(self, depth: int) -> list[_Value]:
        byte = self._byte()
        length = byte >> 4 if byte >> 4 < 15 else self._varint()
        return [self._value(byte & 0xF, depth) for _ in range(length)]
